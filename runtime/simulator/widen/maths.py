"""Mathematical functions: LLVM intrinsics, OpenCL builtins."""

from __future__ import annotations

from triton_xe.intrinsics import Family, find
from triton_xe.intrinsics.mangling import is_unsigned
from triton_xe.runtime.simulator.ir.records import Instruction, constant
from triton_xe.runtime.simulator.ir.types import F32, I1, integer, with_elements
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.widen.subgroup import combine
from triton_xe.runtime.simulator.widen.values import Wide
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

# OpenCL builtin -> native intrinsic
_AS_INTRINSIC = {
    "fabs": "fabs", "sqrt": "sqrt", "native_sqrt": "sqrt", "fma": "fma", "mad": "fma",
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "round": "round",
    "fmax": "maxnum", "fmin": "minnum", "copysign": "copysign", "popcount": "ctpop",
}
# OpenCL builtin or LLVM intrinsic -> library function
LIBRARY = frozenset(
    "exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh "
    "acosh atanh erf erfc cbrt pow atan2 fmod hypot tgamma lgamma ldexp".split()
)


def math_call(w: Widener, i: Instruction) -> bool:
    """Define the result of a mathematical function; false when it is none."""
    known = find(i.callee)
    if known.family is not Family.MATHS:
        return False
    name = known.name.removeprefix("llvm.").removeprefix("half_")
    plain = name.removeprefix("native_")
    if known.combines:
        _vector_reduce(w, i, known.combines)
    elif plain in LIBRARY:
        _library(w, i, plain)
    elif not known.is_builtin or name in _AS_INTRINSIC:
        _native(w, i, _AS_INTRINSIC.get(name, name))
    elif plain in ("rsqrt", "recip", "divide"):
        _reciprocal(w, i, plain)
    elif name in ("max", "min"):
        _native(w, i, ("u" if is_unsigned(i.callee) else "s") + name)
    elif name in _BUILTINS:
        _BUILTINS[name](w, i)
    else:
        return False
    return True


def _native(w: Widener, i: Instruction, name: str) -> None:
    """An intrinsic of LLVM, on the host vector; what has to be constant stays scalar."""
    uniform = not w.result_shape(i).wide
    operands = [
        w.uniform(o) if uniform or p.constant else w.wide_of(o)
        for o, p in zip(i.operands, find(i.callee).parameters, strict=True)
    ]
    result = with_elements(operands[0].type, i.type.scalar)
    w.define_like(i, w.b.intrinsic(name, *operands, result=result, flags=i.flags))


def _library(w: Widener, i: Instruction, name: str) -> None:
    """A library function on one flat vector of S elements at a time.

    Half precision is computed in fp32 and rounded once.
    """
    t, b = i.type.scalar, w.b
    columns = [w.parts(w.value(o)) for o in i.operands]
    results = []
    for k in range(i.type.lanes):
        operands = [w.wide(c[k]) for c in columns]
        if t.name == "half":
            operands = [b.fpext(x, F32) for x in operands]
        first = operands[0].type
        x = w.b.call(symbol("math", name, first.scalar.mangled, w.lanes), first, operands)
        results.append(b.fptrunc(x, t) if t.name == "half" else x)
    if w.result_shape(i).wide:
        w.define_parts(i, [Wide(r, t) for r in results])
        return
    w.define_scalars(i, [b.extract(r, 0) for r in results])


def _reciprocal(w: Widener, i: Instruction, name: str) -> None:
    x, *rest = w.host_operands(i)
    if name == "divide":
        w.define_like(i, w.b.fdiv(x, rest[0]))
        return
    if name == "rsqrt":
        x = w.b.intrinsic("sqrt", x)
    w.define_like(i, w.b.fdiv(constant(x.type, 1.0), x))


def _multiply_high(w: Widener, i: Instruction) -> None:
    bits = i.type.scalar.bits
    double = integer(2 * bits)
    extend = "zext" if is_unsigned(i.callee) else "sext"
    a, b = (w.b.cast(extend, x, double) for x in w.host_operands(i))
    w.define_like(i, w.b.trunc(w.b.lshr(w.b.mul(a, b), bits), i.type.scalar))


def _count_leading_zeros(w: Widener, i: Instruction) -> None:
    (x,) = w.host_operands(i)
    w.define_like(i, w.b.intrinsic("ctlz", x, constant(I1, 0)))


def _is_nan(w: Widener, i: Instruction) -> None:
    (x,) = w.host_operands(i)
    w.define_like(i, w.b.zext(w.b.fcmp("uno", x, x), i.type.scalar))


def _vector_reduce(w: Widener, i: Instruction, name: str) -> None:
    """Across the elements of each work-item, in order."""
    *start, last = i.operands
    total, *rest = [*(w.wide_of(o) for o in start), *(w.wide(p) for p in w.parts(w.value(last)))]
    for x in rest:
        total = combine(w, name, total, x)
    if w.result_shape(i).wide:
        w.define_wide(i, total)
    else:
        w.define_uniform(i, w.b.extract(total, 0))


_BUILTINS: dict[str, Rule] = {
    "mul_hi": _multiply_high, "clz": _count_leading_zeros, "isnan": _is_nan}
