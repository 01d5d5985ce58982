"""Widen calls of mathematical functions (LLVM, OpenCL), and of conversions (OpenCL, GenISA)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from triton_xe.intrinsics import Family, definitions, find
from triton_xe.intrinsics.mangling import is_unsigned
from triton_xe.llvm.records import Instruction, Operand, constant
from triton_xe.llvm.types import F32, I1, I32, integer, with_elements
from triton_xe.llvm.values import Values
from triton_xe.runtime.simulator.library.maths import SHORT, function
from triton_xe.runtime.simulator.library.rounding import bf16_bits, rounded
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.elementwise import cast
from triton_xe.runtime.simulator.widen.subgroup import combine, extreme
from triton_xe.runtime.simulator.widen.values import Wide, slice_mask
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
    """Widen a call of a mathematical function; False for other calls."""
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
    """Emit an LLVM intrinsic on host vectors; arguments that must be constant stay scalar."""
    uniform, group = not w.result_shape(i).wide, w.group(i)
    operands = [
        w.uniform(o) if uniform or p.constant else w.b.ordered(w.value(o), group)
        for o, p in zip(i.operands, find(i.callee).parameters, strict=True)
    ]
    result = with_elements(operands[0].type, i.type.scalar)
    if result.scalar.name == "half" and name in _BY_FP32:
        operands = [w.b.fpext(x, F32) for x in operands]
        w.define_like(i, w.b.fptrunc(_BY_FP32[name](w, name, operands), result.scalar))
        return
    if name in _EXTREMES and not i.flags:
        w.define_like(i, extreme(w, name, *operands))
        return
    w.define_like(i, w.b.intrinsic(name, *operands, result=result, flags=i.flags))


_EXTREMES = ("minnum", "maxnum")


def _call_in_fp32(w: Widener, name: str, operands: list[Operand]) -> Operand:
    """Call intrinsic `name` on fp32."""
    return extreme(w, name, *operands) if name in _EXTREMES else w.b.intrinsic(name, *operands)


def _fma_to_odd(w: Widener, _: str, operands: list[Operand]) -> Operand:
    """a * b + c of fp16 in fp32, rounded to odd, so that rounding it to fp16 is a single rounding.

    The product is exact; an inexact sum has its last bit set.
    """
    v = Values(w.b)
    a, b, c = map(v.wrap, operands)
    product = a * b
    total = product + c
    rest = total - product
    missing = product - (total - rest) + (c - rest)
    bits = total.as_bits(I32)
    grows = (missing * total).compare("ogt", 0.0)
    odd = bits + v.select(grows, v.term(1, bits.type), -1)
    inexact = missing.compare("one", 0.0) & ((bits & 1) == 0)
    return v.select(inexact, odd, bits).as_bits(F32).operand


_BY_FP32: dict[str, Callable[[Widener, str, list[Operand]], Operand]] = {
    **dict.fromkeys(
        "maxnum minnum maximum minimum sqrt floor ceil trunc rint nearbyint round roundeven"
        .split(), _call_in_fp32),
    "fma": _fma_to_odd,
}
"""Functions of fp16 that are computed in fp32, and then rounded once to fp16."""


def _library(w: Widener, i: Instruction, name: str) -> None:
    """Call a library function for each element, with one vector of all lanes.

    fp16 is computed in fp32 and rounded once.
    """
    t, b, group = i.type.scalar, w.b, w.group(i)
    if group > 1:
        _library_in_order(w, i, name, group)
        return
    columns = [w.b.parts(w.value(o)) for o in i.operands]
    results = []
    for k in range(i.type.lanes):
        operands = [w.b.wide(c[k]) for c in columns]
        if t.name == "half":
            operands = [b.fpext(x, F32) for x in operands]
        x = _call_library(w, name, operands)
        results.append(b.fptrunc(x, t) if t.name == "half" else x)
    if w.result_shape(i).wide:
        w.define_parts(i, [Wide(r, t) for r in results])
        return
    w.define_scalars(i, [b.extract(r, 0) for r in results])


def _call_library(w: Widener, name: str, operands: list[Operand]) -> Operand:
    """Call a library function on the vector of all lanes; it is inlined if it is short.

    The `freeze` keeps LLVM from recomputing it after a barrier.
    """
    t = operands[0].type
    called = symbol("math", name, t.scalar.mangled, w.lanes)
    if name not in SHORT or t.scalar is not F32:
        return w.b.call(called, t, operands)
    inner = f"inlined.{called}"
    if inner not in w.kernel.host.definitions:
        (made,) = function(host_cpu(), name, t.scalar.mangled, w.lanes)
        made.name, made.is_internal, made.attributes = inner, True, "nounwind alwaysinline"
        w.kernel.host.definitions[inner] = made
    return w.b.freeze(w.b.call(inner, t, operands))


def _library_in_order(w: Widener, i: Instruction, name: str, group: int) -> None:
    """Call a library function on parts of a vector in memory order, the order of the result."""
    t, b, s = i.type.scalar, w.b, w.lanes
    operands = [w.b.ordered(w.value(o), group) for o in i.operands]
    if t.name == "half":
        operands = [b.fpext(x, F32) for x in operands]
    word = operands[0].type.scalar
    results = [_call_library(w, name, [b.shuffle(x, None, slice_mask(first, s)) for x in operands])
               for first in range(0, i.type.lanes * s, s)]
    x = w.b.joined(results, word)
    w.define(i, Wide(b.fptrunc(x, t) if t.name == "half" else x, i.type, group))


def _reciprocal(w: Widener, i: Instruction, name: str) -> None:
    """Define a quotient, or the reciprocal of a number or of its square root."""
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
    """Reduce the elements of each work-item, in order."""
    *start, last = i.operands
    parts = w.b.parts(w.value(last))
    total, *rest = [*map(w.wide_of, start), *map(w.b.wide, parts)]
    for x in rest:
        total = combine(w, name, total, x)
    if w.result_shape(i).wide:
        w.define_wide(i, total)
    else:
        w.define_uniform(i, w.b.extract(total, 0))


_BUILTINS: dict[str, Rule] = {
    "mul_hi": _multiply_high, "clz": _count_leading_zeros, "isnan": _is_nan}


# --- conversions ---------------------------------------------------------------------------------

# `_Z<n>convert_<type><count>[_sat][_rt?]<argument>`.  The argument ends with its type, as in the
# Itanium C++ ABI: `h t j m` unsigned, `c s i l` signed, `Dh f d` floating.
_NAME = re.compile(r"_Z\d+convert_(u?)(char|short|int|long|half|float|double)\d*(_\w+?)?(?:Dv\d+_)?"
                   r"(?:Dh|[a-z])$")


def conversion(w: Widener, i: Instruction) -> None:
    """Widen OpenCL's `convert_*` without saturation, for rounding modes that LLVM's casts have."""
    found = _NAME.match(i.callee)
    if found is None:
        w.fail(f"unknown function {i.callee}")
    unsigned_result, _, mode = found.groups()
    source, target = i.operands[0].type.scalar, i.type.scalar
    if source.kind == target.kind == "int":
        extend = "zext" if is_unsigned(i.callee) else "sext"
        opcode = "trunc" if target.bits < source.bits else extend
    elif source.kind == "int":
        opcode = "uitofp" if is_unsigned(i.callee) else "sitofp"
    elif target.kind == "int":
        opcode = "fptoui" if unsigned_result else "fptosi"
    else:
        opcode = "fptrunc" if target.bits < source.bits else "fpext"
    toward_zero = opcode in ("fptoui", "fptosi") and mode in (None, "_rtz")
    if mode and not toward_zero and mode != "_rte":
        w.fail(f"a conversion with {mode.lstrip('_')}, {i.callee}")
    if source == target:
        w.define(i, w.value(i.operands[0]))
        return
    cast(w, replace(i, opcode=opcode, flags=(), operands=i.operands[:1]))


def _float_to_bf16(w: Widener, i: Instruction) -> None:
    words = bf16_bits(Values(w.b).wrap(w.host_operands(i)[0]))
    w.define_like(i, words.as_bits(i.type.scalar).operand)


def _float_to_half(w: Widener, i: Instruction) -> None:
    cast(w, replace(i, opcode="fptrunc"))


def _float_to_tf32(w: Widener, i: Instruction) -> None:
    kept = rounded(Values(w.b).wrap(w.host_operands(i)[0]), 13) & -(1 << 13)
    w.define_like(i, kept.as_bits(i.type.scalar).operand)


CONVERSION_RULES: dict[Callable[..., object] | None, Rule] = {
    definitions.maths.convert: conversion,
    definitions.conversions.float_to_bf16: _float_to_bf16,
    definitions.conversions.float_to_tf32: _float_to_tf32,
    definitions.conversions.float_to_half: _float_to_half,
}
