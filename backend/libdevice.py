"""`triton.language.extra.libdevice` for Intel GPUs.

Each function becomes a `tt.extern_elementwise` whose symbol is `__xe_<name>`; the lowering chooses
instructions, builtins or polynomials by symbol and operand type.  Signatures, by name:

| table | operands | result |
|---|---|---|
| `UNARY`, `BINARY`, `TERNARY` | fp32 or fp64, all of one type | the same type |
| `FAST` | fp32 | fp32 |
| `TO_INT` | one fp32 or fp64 | the integer type named |
| `WITH_INT` | fp32 or fp64, then int32 | the float type |
| `INTEGERS` | int32 or int64, all of one type | the operands' type, or the type named |
| `SINGLE` | as named | as named |

Conversions `<type>2<type>_<rounding>` and `<type>_as_<type>` exist as their names say.  The names
in `ABSENT` exist too, because Triton looks up all names that a file imports, but calling them is
refused.

`VENDORS` are the same functions for kernels that name the module of CUDA or HIP instead.  The name
of the vendor is their library, from which the lowering makes a remark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from types import ModuleType
from typing import Any

from triton.language import core

from triton_xe.errors import UnsupportedError

UNARY = (
    "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 "
    "erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 floor j0 j1 lgamma log log10 log1p log2 "
    "logb nearbyint normcdf normcdfinv rcbrt rcp_rn rint round rsqrt rsqrt_rn sin sinh sinpi sqrt "
    "sqrt_rn tan tanh tgamma trunc y0 y1"
).split()
BINARY = (
    "add_rn atan2 copysign div_rn fdim fmod hypot mul_rn nextafter pow remainder rhypot sub_rn"
).split()
DIRECTED = ("rd", "ru", "rz")
UNARY += [f"{name}_{mode}" for name in ("rcp", "sqrt") for mode in DIRECTED]
BINARY += [f"{name}_{mode}" for name in ("add", "sub", "mul", "div") for mode in DIRECTED]
TERNARY = ("fma", "fma_rn", "norm3d", "rnorm3d")
QUATERNARY = ("norm4d", "rnorm4d")
FAST = {
    "fast_cosf": 1, "fast_dividef": 2, "fast_exp10f": 1, "fast_expf": 1, "fast_log10f": 1,
    "fast_log2f": 1, "fast_logf": 1, "fast_powf": 2, "fast_sinf": 1, "fast_tanf": 1,
    "fast_tanhf": 1, "saturatef": 1,
}
TO_INT = {
    "ilogb": "int32", "isinf": "int32", "isinfd": "int32", "isinff": "int32",
    "isnan": "int32", "isfinited": "int32",
    "finitef": "int32", "signbit": "int32", "signbitd": "int32", "signbitf": "int32",
    "llrint": "int64", "llround": "int64",
}
WITH_INT = ("ldexp", "pown", "scalbn")
INTEGERS: dict[str, tuple[int, str | None]] = {
    "brev": (1, None), "clz": (1, "int32"), "ffs": (1, "int32"), "popc": (1, "int32"),
}
SINGLE: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "byte_perm": [(("int32",) * 3, "int32")],
    "double2float_rn": [(("fp64",), "fp32")],
    "double2float_rz": [(("fp64",), "fp32")],
    "double2float_rd": [(("fp64",), "fp32")],
    "double2float_ru": [(("fp64",), "fp32")],
    "double2hiint": [(("fp64",), "int32")],
    "double2loint": [(("fp64",), "int32")],
    "double_as_longlong": [(("fp64",), "int64")],
    "float_as_int": [(("fp32",), "int32")],
    "float_as_uint": [(("fp32",), "uint32")],
    "hiloint2double": [(("int32", "int32"), "fp64")],
    "int_as_float": [(("int32",), "fp32")],
    "longlong_as_double": [(("int64",), "fp64")],
    "uint_as_float": [(("uint32",), "fp32")],
}
ABSENT = {
    "fma_rd": "use fma_rn", "fma_ru": "use fma_rn", "fma_rz": "use fma_rn",
    "jn": "use j0 and j1", "yn": "use y0 and y1", "rcp64h": "use rcp_rn",
}
_INTEGER_NAMES = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
_FLOAT_NAMES = {"float": "fp32", "double": "fp64"}

_FLOATS = ("fp32", "fp64")
_SIGNED, _UNSIGNED = ("int32", "int64"), ("uint32", "uint64")
_Table = dict[tuple[Any, ...], tuple[str, Any]]


_SIGN_MATTERS = frozenset({"hadd", "mul24", "mulhi", "rhadd", "sad"})


def _symbol(name: str, kinds: tuple[str, ...]) -> str:
    """`__xe_<name>`, with a `u` before the name if unsigned integers need another function."""
    if name == "pow" and kinds[1] == "int32":
        return "__xe_pown"
    return f"__xe_{'u' if name in _SIGN_MATTERS and kinds[0][0] == 'u' else ''}{name}"


def _table(name: str, rows: list[tuple[tuple[str, ...], str]]) -> _Table:
    return {
        tuple(map(core.dtype, ins)): (_symbol(name, ins), core.dtype(out)) for ins, out in rows
    }


def _elementwise(arity: int, table: _Table, library: str) -> Callable[..., Any]:
    """The function of the language that calls `table`'s symbol for its operand types."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    operands = [Parameter(f"arg{n}", kind) for n in range(arity)]
    signature = Signature([*operands, Parameter("_semantic", kind, default=None)])

    def function(*args: Any, _semantic: Any = None, **named: Any) -> Any:
        values = list(signature.bind(*args, **named).arguments.values())
        return core.extern_elementwise(
            library, "", values, table, is_pure=True, _semantic=_semantic)

    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


_Rows = dict[str, list[tuple[tuple[str, ...], str]]]


def _rows() -> _Rows:
    """Operand and result types of each function by its name."""
    rows: _Rows = dict(SINGLE)
    for arity, names in ((1, UNARY), (2, BINARY), (3, TERNARY), (4, QUATERNARY)):
        for name in names:
            rows[name] = [((kind,) * arity, kind) for kind in _FLOATS]
    for name, arity in FAST.items():
        rows[name] = [(("fp32",) * arity, "fp32")]
    for name, out in TO_INT.items():
        rows[name] = [((kind,), out) for kind in _FLOATS]
    for name in WITH_INT:
        rows[name] = [((kind, "int32"), kind) for kind in _FLOATS]
    for name, (arity, result) in INTEGERS.items():
        rows[name] = [((kind,) * arity, result or kind) for kind in _SIGNED + _UNSIGNED]
    rows["pow"] += [((kind, "int32"), kind) for kind in _FLOATS]
    rows["abs"] += [((kind,), kind) for kind in _SIGNED]
    for name in ("hadd", "mul24", "rhadd"):
        rows[name] = [((kind,) * 2, kind) for kind in ("int32", "uint32")]
    rows["mulhi"] = [((kind,) * 2, kind) for kind in _SIGNED + _UNSIGNED]
    rows["sad"] = [((kind, kind, "uint32"), kind) for kind in ("int32", "uint32")]
    return rows | _conversions()


def _conversions() -> _Rows:
    """Conversions between integers and floats, such as `int2float_rn` and `double2uint_rz`."""
    rows: _Rows = {}
    for letters, integer in _INTEGER_NAMES.items():
        for name, kind in _FLOAT_NAMES.items():
            exact = name == "double" and integer.endswith("32")
            for rounding in ("rn",) if exact else ("rn", *DIRECTED):
                rows[f"{letters}2{name}_{rounding}"] = [((integer,), kind)]
            for rounding in ("rn", "rz", "rd", "ru"):
                rows[f"{name}2{letters}_{rounding}"] = [((kind,), integer)]
    return rows


def _define(name: str, rows: list[tuple[tuple[str, ...], str]], library: str = "") -> Any:
    function = _elementwise(len(rows[0][0]), _table(name, rows), library)
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return core.extern(function)


def _refuse(name: str, instead: str) -> Any:
    def function(*args: Any, _semantic: Any = None) -> Any:
        raise UnsupportedError(f"libdevice.{name} does not exist on Xe GPUs; {instead}")

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    return core.extern(function)


_ROWS = _rows()
FUNCTIONS: dict[str, Any] = {name: _define(name, rows) for name, rows in _ROWS.items()}
globals().update(FUNCTIONS)
globals().update({name: _refuse(name, instead) for name, instead in ABSENT.items()})


def _of_vendor(vendor: str) -> ModuleType:
    """The functions for kernels that name another vendor's module, defined when looked up."""
    module = ModuleType(f"{__name__}.{vendor}")

    def look_up(name: str) -> Any:
        if name not in _ROWS:
            return getattr(sys.modules[__name__], name)
        made = _define(name, _ROWS[name], vendor)
        setattr(module, name, made)
        return made

    module.__dict__["__getattr__"] = look_up
    return module


VENDORS = {f"triton.language.extra.{vendor}.libdevice": _of_vendor(vendor)
           for vendor in ("cuda", "hip")}
