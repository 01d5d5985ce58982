"""Arithmetic that rounds down (`rd`), up (`ru`) or toward zero (`rz`), for libdevice.

The device rounds to nearest.  Each function here computes that result and the sign of what it
lacks, which fused multiply-adds give exactly (Muller et al., Handbook of Floating-Point
Arithmetic, 2nd ed., chapters 4 and 5), then steps to the neighbour on the asked side.  Where the
lack could fall below the smallest number, operands are scaled by powers of two first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from llvmlite import ir

from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths import floats
from triton_xe.lowering.emit.maths.floats import filled, scalar_of, shaped
from triton_xe.lowering.emit.maths.functions import exact_quotient, exact_root, intrinsic
from triton_xe.lowering.emit.types import DOUBLE, FLOAT, I64, bits_of

Function = Callable[..., ir.Value]
MODES = ("rd", "ru", "rz")
SMALL = {32: -60, 64: -500}
"""Below two to this power, a product's last place may be below the smallest number."""
SCALE = {32: 64, 64: 512}


def _below(em: Emitter, x: ir.Value, power: int) -> ir.Value:
    return em.b.fcmp_ordered("<", floats.magnitude(em, x), filled(x.type, 2.0**power))


def _finite(em: Emitter, *values: ir.Value) -> ir.Value:
    found = [em.b.fcmp_ordered("<", floats.magnitude(em, x), filled(x.type, math.inf))
             for x in values]
    while len(found) > 1:
        found.append(em.b.and_(found.pop(), found.pop()))
    return found[0]


def _is_zero(em: Emitter, x: ir.Value) -> ir.Value:
    return em.b.fcmp_ordered("==", x, filled(x.type, 0.0))


def _scaled(em: Emitter, where: ir.Value, x: ir.Value, power: int) -> ir.Value:
    return em.b.select(where, em.b.fmul(x, filled(x.type, 2.0**power)), x)


def step(em: Emitter, mode: str, result: ir.Value, lack: ir.Value) -> ir.Value:
    """`result` or its neighbour, by the sign of `lack`: the exact value minus `result`."""
    if mode == "ru":
        return em.b.fneg(step(em, "rd", em.b.fneg(result), em.b.fneg(lack)))
    zero = filled(result.type, 0.0)
    words = shaped(result.type, ir.IntType(bits_of(scalar_of(result.type))))
    bits, one = em.b.bitcast(result, words), filled(words, 1)
    shrunk = em.b.bitcast(em.b.sub(bits, one), result.type)
    above, below = em.b.fcmp_ordered(">", result, zero), em.b.fcmp_ordered("<", result, zero)
    too_high = em.b.fcmp_ordered("<", lack, zero)
    if mode == "rz":
        too_low = em.b.fcmp_ordered(">", lack, zero)
        shrink = em.b.or_(em.b.and_(too_high, above), em.b.and_(too_low, below))
        return em.b.select(shrink, shrunk, result)
    grown = em.b.bitcast(em.b.add(bits, one), result.type)
    smallest = em.b.fneg(em.b.bitcast(one, result.type))
    down = em.b.select(above, shrunk, em.b.select(below, grown, smallest))
    return em.b.select(too_high, down, result)


def _overflowed(
    em: Emitter, result: ir.Value, lack: ir.Value, finite: ir.Value
) -> ir.Value:
    """The lack, also of a result that became infinite though the exact one is finite."""
    infinite = em.b.fcmp_ordered("==", floats.magnitude(em, result), filled(result.type, math.inf))
    return em.b.select(em.b.and_(infinite, finite), em.b.fneg(result), lack)


def add(em: Emitter, a: ir.Value, b: ir.Value, mode: str) -> ir.Value:
    total = em.b.fadd(a, b)
    if mode == "rd":
        negative = em.b.or_(_is_negative(em, a), _is_negative(em, b))
        both = em.b.and_(_is_zero(em, total), negative)
        total = em.b.select(both, filled(a.type, -0.0), total)
    swap = em.b.fcmp_ordered("<", floats.magnitude(em, a), floats.magnitude(em, b))
    large, small = em.b.select(swap, b, a), em.b.select(swap, a, b)
    lack = em.b.fsub(small, em.b.fsub(total, large))
    return step(em, mode, total, _overflowed(em, total, lack, _finite(em, a, b)))


def subtract(em: Emitter, a: ir.Value, b: ir.Value, mode: str) -> ir.Value:
    return add(em, a, em.b.fneg(b), mode)


def _is_negative(em: Emitter, x: ir.Value) -> ir.Value:
    words = shaped(x.type, ir.IntType(bits_of(scalar_of(x.type))))
    return em.b.icmp_signed("<", em.b.bitcast(x, words), filled(words, 0))


def multiply(em: Emitter, a: ir.Value, b: ir.Value, mode: str) -> ir.Value:
    width = bits_of(scalar_of(a.type))
    power = SCALE[width] * 3 // 2
    product = em.b.fmul(a, b)
    swap = em.b.fcmp_ordered("<", floats.magnitude(em, a), floats.magnitude(em, b))
    large, small = em.b.select(swap, b, a), em.b.select(swap, a, b)
    tiny = _below(em, product, SMALL[width])
    held = _scaled(em, tiny, product, power)
    lack = intrinsic(em, "fma", _scaled(em, tiny, small, power), large, em.b.fneg(held))
    vanished = em.b.and_(_is_zero(em, product), em.b.not_(
        em.b.or_(_is_zero(em, a), _is_zero(em, b))))
    lack = em.b.select(
        vanished, intrinsic(em, "copysign", filled(a.type, 1.0), product), lack)
    return step(em, mode, product, _overflowed(em, product, lack, _finite(em, a, b)))


def divide(em: Emitter, a: ir.Value, b: ir.Value, mode: str) -> ir.Value:
    width = bits_of(scalar_of(a.type))
    quotient = exact_quotient(em, a, b)
    tiny = em.b.and_(_below(em, a, SMALL[width]), _below(em, b, -SMALL[width]))
    over, under = (_scaled(em, tiny, x, SCALE[width]) for x in (a, b))
    rest = intrinsic(em, "fma", em.b.fneg(quotient), under, over)
    lack = em.b.select(_is_negative(em, b), em.b.fneg(rest), rest)
    finite = em.b.and_(_finite(em, a, b), em.b.not_(_is_zero(em, b)))
    return step(em, mode, quotient, _overflowed(em, quotient, lack, finite))


def reciprocal(em: Emitter, x: ir.Value, mode: str) -> ir.Value:
    return divide(em, filled(x.type, 1.0), x, mode)


def square_root(em: Emitter, x: ir.Value, mode: str) -> ir.Value:
    width = bits_of(scalar_of(x.type))
    root = exact_root(em, x)
    tiny = _below(em, x, SMALL[width])
    held = _scaled(em, tiny, root, SCALE[width] // 2)
    lack = intrinsic(em, "fma", em.b.fneg(held), held, _scaled(em, tiny, x, SCALE[width]))
    return step(em, mode, root, lack)


def to_float(em: Emitter, x: ir.Value, mode: str) -> ir.Value:
    """A double as a float."""
    rounded = em.b.fptrunc(x, shaped(x.type, FLOAT))
    lack = em.b.fsub(x, em.b.fpext(rounded, x.type))
    sign = em.b.select(
        em.b.fcmp_ordered("<", lack, filled(x.type, 0.0)), filled(rounded.type, -1.0),
        em.b.select(em.b.fcmp_ordered(">", lack, filled(x.type, 0.0)),
                    filled(rounded.type, 1.0), filled(rounded.type, 0.0)))
    return step(em, mode, rounded, sign)


def from_integer(
    em: Emitter, x: ir.Value, mode: str, kind: ir.Type, signed: bool
) -> ir.Value:
    """An integer as a float or double; the lack is found in 64-bit integers."""
    width = bits_of(scalar_of(x.type))
    into, wide = shaped(x.type, kind), shaped(x.type, I64)
    rounded = em.b.sitofp(x, into) if signed else em.b.uitofp(x, into)
    highest = em.b.fcmp_ordered(">=", rounded, filled(into, 2.0 ** (width - signed)))
    inside = em.b.select(highest, filled(into, 0.0), rounded)
    back = em.b.fptosi(inside, wide) if signed else em.b.fptoui(inside, wide)
    if width < 64:
        x = em.b.sext(x, wide) if signed else em.b.zext(x, wide)
    lack = em.b.sitofp(em.b.sub(x, back), into)
    return step(em, mode, rounded, em.b.select(highest, filled(into, -1.0), lack))


OPERATIONS: dict[str, Function] = {
    "add": add, "sub": subtract, "mul": multiply, "div": divide, "rcp": reciprocal,
    "sqrt": square_root,
}
FUNCTIONS: dict[str, Function] = {
    f"{name}_{mode}": partial(function, mode=mode)
    for name, function in OPERATIONS.items() for mode in MODES
}
for _mode in ("rd", "ru"):
    FUNCTIONS[f"double2float_{_mode}"] = partial(to_float, mode=_mode)
for _letters, _signed, _targets in (
    ("int", True, {"float": FLOAT}), ("uint", False, {"float": FLOAT}),
    ("ll", True, {"float": FLOAT, "double": DOUBLE}),
    ("ull", False, {"float": FLOAT, "double": DOUBLE}),
):
    for _name, _kind in _targets.items():
        for _mode in MODES:
            FUNCTIONS[f"{_letters}2{_name}_{_mode}"] = partial(
                from_integer, mode=_mode, kind=_kind, signed=_signed)
