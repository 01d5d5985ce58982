"""Mathematical functions: LLVM intrinsics, OpenCL builtins, conversions of GenISA."""

from __future__ import annotations

import re
from collections.abc import Callable

from triton_xe.intrinsics import Family, find
from triton_xe.intrinsics.definitions import conversions
from triton_xe.intrinsics.mangling import builtin_name
from triton_xe.runtime.simulator.ir import Instruction, Type, integer, like
from triton_xe.runtime.simulator.widen.values import Pieces, Uniform, Value, Wide, wide_type
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}

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
_INTEGER_MINMAX = {"max": "max", "min": "min"}


def math_call(w: Widener, i: Instruction) -> bool:
    """Define the result of a mathematical function; false when it is none."""
    known = find(i.callee)
    if known.family is not Family.MATHS:
        return False
    if known.is_builtin:
        letters = (builtin_name(i.callee) or ("", ""))[1]
        return _opencl(w, i, known.name.removeprefix("half_"), letters)
    name = known.name.removeprefix("llvm.")
    if known.combines:
        _vector_reduce(w, i, known.combines)
    elif name in LIBRARY:
        _library(w, i, name)
    else:
        _native(w, i, name)
    return True


def _native(w: Widener, i: Instruction, name: str) -> None:
    """The same intrinsic, on the host vector; i1 and i32 control operands stay scalar."""
    shape = w.result_shape(i)
    uniform = not shape.wide
    first = i.operands[0].type
    count = first.lanes * (1 if uniform else w.lanes)
    suffix = _SUFFIX.get(first.scalar.name, first.scalar.name)
    vector = f".v{count}{suffix}" if count > 1 else f".{suffix}"
    types, texts = [], []
    for k, operand in enumerate(i.operands):
        control = k > 0 and operand.type.kind == "int" and operand.type.bits in (1, 32) and (
            name in ("ctlz", "cttz", "abs", "is.fpclass")
        )
        if uniform or control:
            types.append(operand.type.text)
            texts.append(f"{operand.type.text} {w.uniform(operand)}")
        else:
            t = wide_type(operand.type, w.lanes)
            types.append(t)
            texts.append(f"{t} {w.wide_of(operand)}")
    result = i.type.text if uniform else wide_type(i.type, w.lanes)
    full = f"llvm.{name}{vector}"
    flags = " ".join(i.flags) + " " if i.flags else ""
    signature = f"{result} @{full}({', '.join(types)})"
    w.context.declarations[signature] = f"declare {signature}"
    text = w.emit(f"call {flags}{result} @{full}({', '.join(texts)})")
    w.define(i, Uniform(text, i.type) if uniform else Wide(text, i.type))


def _library(w: Widener, i: Instruction, name: str) -> None:
    """A library function on one flat vector of S elements at a time."""
    t, s = i.type.scalar, w.lanes
    if t.name == "half":
        _through_float(w, i, name)
        return
    columns = [w.parts(w.value(o)) for o in i.operands]
    results = [
        _library_piece(w, name, [w.wide(c[k]) for c in columns],
                       [o.type.scalar for o in i.operands], t)
        for k in range(i.type.lanes)
    ]
    _finish(w, i, results, s)


def _library_piece(w: Widener, name: str, texts: list[str], types: list[Type], t: Type) -> str:
    s = w.lanes
    arguments = [f"<{s} x {a.text}> {x}" for a, x in zip(types, texts, strict=True)]
    return w.call_helper(f"xe_{name}_{_SUFFIX.get(t.name, t.name)}_{s}", f"<{s} x {t.text}>",
                         arguments)


def _finish(w: Widener, i: Instruction, results: list[str], s: int) -> None:
    t = i.type.scalar
    if not w.result_shape(i).wide:
        scalars = [w.emit(f"extractelement <{s} x {t.text}> {r}, i32 0") for r in results]
        text = scalars[0]
        if i.type.lanes > 1:
            text = "poison"
            for k, r in enumerate(scalars):
                text = w.emit(f"insertelement {i.type.text} {text}, {t.text} {r}, i32 {k}")
        w.define(i, Uniform(text, i.type))
        return
    parts: list[Value] = [Wide(r, t) for r in results]
    w.define(i, parts[0] if i.type.lanes == 1 else Pieces(tuple(parts), i.type))


def _through_float(w: Widener, i: Instruction, name: str) -> None:
    """Half precision: computed in fp32, rounded once."""
    from triton_xe.runtime.simulator.ir import F32

    s = w.lanes
    half, single = f"<{s} x half>", f"<{s} x float>"
    columns = [w.parts(w.value(o)) for o in i.operands]
    results = []
    for k in range(i.type.lanes):
        wide = [w.emit(f"fpext {half} {w.wide(c[k])} to {single}") for c in columns]
        text = _library_piece(w, name, wide, [F32] * len(wide), F32)
        results.append(w.emit(f"fptrunc {single} {text} to {half}"))
    _finish(w, i, results, s)


def _opencl(w: Widener, i: Instruction, name: str, letters: str) -> bool:
    if name in _AS_INTRINSIC:
        _native(w, i, _AS_INTRINSIC[name])
        return True
    plain = name.removeprefix("native_")
    if plain in LIBRARY:
        _library(w, i, plain)
        return True
    if plain in ("rsqrt", "recip", "divide"):
        _reciprocal(w, i, plain)
        return True
    if name == "mul_hi":
        _multiply_high(w, i, signed=_first_letter(letters) in "ilcs")
        return True
    if name == "clz":
        _count_leading_zeros(w, i)
        return True
    if name in _INTEGER_MINMAX and i.type.scalar.kind == "int":
        _native(w, i, ("s" if _first_letter(letters) in "ilcs" else "u") + name)
        return True
    if name == "isnan":
        _is_nan(w, i)
        return True
    return False


def _first_letter(letters: str) -> str:
    """The element type of the first argument, of `jj` as of `Dv8_jS_`."""
    return re.sub(r"^Dv\d+_", "", letters)[0]


def _texts(w: Widener, i: Instruction) -> tuple[list[str], int]:
    """Operands as host vectors or scalars, and the number of copies per element."""
    if w.result_shape(i).wide:
        return [w.wide_of(o) for o in i.operands], w.lanes
    return [w.uniform(o) for o in i.operands], 1


def _define(w: Widener, i: Instruction, text: str, copies: int) -> None:
    w.define(i, Wide(text, i.type) if copies > 1 else Uniform(text, i.type))


def _host(t: Type, copies: int) -> str:
    return wide_type(t, copies) if t.lanes * copies > 1 else t.scalar.text


def _splat(value: str, t: Type, copies: int) -> str:
    return f"splat ({t.scalar.text} {value})" if t.lanes * copies > 1 else value


def _reciprocal(w: Widener, i: Instruction, name: str) -> None:
    texts, copies = _texts(w, i)
    t = _host(i.type, copies)
    one = _splat("1.0" if i.type.scalar.name != "half" else "0xH3C00", i.type, copies)
    if name == "divide":
        _define(w, i, w.emit(f"fdiv {t} {texts[0]}, {texts[1]}"), copies)
        return
    x = texts[0]
    if name == "rsqrt":
        count = i.type.lanes * copies
        suffix = (f"v{count}" if count > 1 else "") + _SUFFIX[i.type.scalar.name]
        x = w.intrinsic(f"{t} @llvm.sqrt.{suffix}({t})", f"{t} @llvm.sqrt.{suffix}({t} {x})")
    _define(w, i, w.emit(f"fdiv {t} {one}, {x}"), copies)


def _multiply_high(w: Widener, i: Instruction, signed: bool) -> None:
    texts, copies = _texts(w, i)
    bits = i.type.scalar.bits
    double = like(i.type.lanes, integer(2 * bits))
    narrow, wide = _host(i.type, copies), _host(double, copies)
    extend = "sext" if signed else "zext"
    a, b = (w.emit(f"{extend} {narrow} {x} to {wide}") for x in texts)
    product = w.emit(f"mul {wide} {a}, {b}")
    high = w.emit(f"lshr {wide} {product}, {_splat(str(bits), double, copies)}")
    _define(w, i, w.emit(f"trunc {wide} {high} to {narrow}"), copies)


def _count_leading_zeros(w: Widener, i: Instruction) -> None:
    texts, copies = _texts(w, i)
    t, count = _host(i.type, copies), i.type.lanes * copies
    name = f"llvm.ctlz.{f'v{count}' if count > 1 else ''}{i.type.scalar.name}"
    _define(w, i, w.intrinsic(f"{t} @{name}({t}, i1)",
                              f"{t} @{name}({t} {texts[0]}, i1 false)"), copies)


def _is_nan(w: Widener, i: Instruction) -> None:
    texts, copies = _texts(w, i)
    source = _host(i.operands[0].type, copies)
    bits = w.emit(f"fcmp uno {source} {texts[0]}, {texts[0]}")
    one = f"<{i.type.lanes * copies} x i1>" if i.type.lanes * copies > 1 else "i1"
    _define(w, i, w.emit(f"zext {one} {bits} to {_host(i.type, copies)}"), copies)


def _vector_reduce(w: Widener, i: Instruction, name: str) -> None:
    """Across the elements of each work-item, in order."""
    from triton_xe.runtime.simulator.widen.subgroup import combine

    operands = list(i.operands)
    parts = w.parts(w.value(operands[-1]))
    flat = f"<{w.lanes} x {i.type.text}>"
    texts = [w.wide(p) for p in parts]
    if len(operands) == 2:
        texts.insert(0, w.wide_of(operands[0]))
    total = texts[0]
    for text in texts[1:]:
        total = combine(w, name, flat, total, text)
    if w.result_shape(i).wide:
        w.define(i, Wide(total, i.type))
    else:
        w.define(i, Uniform(w.emit(f"extractelement {flat} {total}, i32 0"), i.type))


# --- conversions of GenISA --------------------------------------------------------------------


def _rounded(
    w: Widener, i: Instruction, operand: Value, dropped: int, copies: int
) -> tuple[str, str]:
    """(bits of the fp32 rounded to nearest even at bit `dropped`, type); NaN stays NaN."""
    source = operand.type
    words = like(source.lanes, integer(32))
    t, f = _host(words, copies), _host(source, copies)

    def c(value: int) -> str:
        return _splat(str(value), words, copies)

    x = w.wide(operand) if copies > 1 else operand.text if isinstance(operand, Uniform) else ""
    bits = w.emit(f"bitcast {f} {x} to {t}")
    odd = w.emit(f"and {t} {w.emit(f'lshr {t} {bits}, {c(dropped)}')}, {c(1)}")
    bias = w.emit(f"add {t} {odd}, {c((1 << (dropped - 1)) - 1)}")
    rounded = w.emit(f"add {t} {bits}, {bias}")
    quiet = w.emit(f"or {t} {bits}, {c(1 << 22)}")
    is_nan = w.emit(f"fcmp uno {f} {x}, {x}")
    count = source.lanes * copies
    one = f"<{count} x i1>" if count > 1 else "i1"
    chosen = w.emit(f"select {one} {is_nan}, {t} {quiet}, {t} {rounded}")
    return chosen, t


def _float_to_bf16(w: Widener, i: Instruction) -> None:
    copies = w.lanes if w.result_shape(i).wide else 1
    operand = w.value(i.operands[0])
    bits, t = _rounded(w, i, operand, 16, copies)
    words = like(i.operands[0].type.lanes, integer(32))
    high = w.emit(f"lshr {t} {bits}, {_splat('16', words, copies)}")
    target = _host(like(words.lanes, integer(16)), copies)
    text = w.emit(f"trunc {t} {high} to {target}")
    if i.type.scalar.name != "i16":
        text = w.emit(f"bitcast {target} {text} to {_host(i.type, copies)}")
    _define(w, i, text, copies)


def _float_to_tf32(w: Widener, i: Instruction) -> None:
    copies = w.lanes if w.result_shape(i).wide else 1
    bits, t = _rounded(w, i, w.value(i.operands[0]), 13, copies)
    words = like(i.operands[0].type.lanes, integer(32))
    kept = w.emit(f"and {t} {bits}, {_splat(str(-(1 << 13)), words, copies)}")
    target = _host(i.type, copies)
    _define(w, i, kept if target == t else w.emit(f"bitcast {t} {kept} to {target}"), copies)


CONVERSION_RULES: dict[Callable[..., object] | None, Rule] = {
    conversions.float_to_bf16: _float_to_bf16, conversions.float_to_tf32: _float_to_tf32}
