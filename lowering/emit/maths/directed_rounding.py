"""Arithmetic that rounds down (`rd`), up (`ru`) or toward zero (`rz`), for libdevice.

The device rounds to nearest.  Each function here computes that result and the sign of its error,
which fused multiply-adds give exactly.  Then it steps to the neighbour on the requested side.  If
the error could be below the smallest number, operands are scaled by powers of two first.

Source: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., chapters 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import and_

from triton_xe import llvm as ir
from triton_xe.lowering.emit.maths.terms import Term, exact_quotient, exact_root, where
from triton_xe.lowering.emit.types import DOUBLE, FLOAT, I64

MODES = ("rd", "ru", "rz")
SMALL = {32: -60, 64: -500}
"""Exponents below which the last bit of a product may be below the smallest number."""
SCALE = {32: 64, 64: 512}


def _is_below(x: Term, power: int) -> Term:
    """True if |x| < 2^power."""
    return x.size < 2.0**power


def _finite(*values: Term) -> Term:
    return reduce(and_, reversed([x.is_finite() for x in values]))


def _is_zero(x: Term) -> Term:
    return x.equals(0.0)


def _scaled(test: Term, x: Term, power: int) -> Term:
    """x * 2^power where `test` is true, else x."""
    return where(test, x * 2.0**power, x)


def step(mode: str, result: Term, lack: Term) -> Term:
    """`result` or its neighbour, by the sign of `lack`: the exact value minus `result`."""
    if mode == "ru":
        return -step("rd", -result, -lack)
    bits = result.bits
    shrunk = (bits - 1).bitcast(result.kind)
    above, below = result > 0.0, result < 0.0
    too_high = lack < 0.0
    if mode == "rz":
        too_low = lack > 0.0
        return where((too_high & above) | (too_low & below), shrunk, result)
    grown = (bits + 1).bitcast(result.kind)
    smallest = -bits.term(1).bitcast(result.kind)
    return where(too_high, where(above, shrunk, where(below, grown, smallest)), result)


def _overflowed(result: Term, lack: Term, finite: Term) -> Term:
    """The lack; corrected for a result that became infinite although the exact one is finite."""
    return where(result.is_infinite() & finite, -result, lack)


def _by_size(a: Term, b: Term) -> tuple[Term, Term]:
    """The larger and the smaller."""
    swap = a.size < b.size
    return where(swap, b, a), where(swap, a, b)


def add(a: Term, b: Term, mode: str) -> Term:
    total = a + b
    if mode == "rd":
        negative = a.is_negative() | b.is_negative()
        total = where(_is_zero(total) & negative, -0.0, total)
    large, small = _by_size(a, b)
    lack = small - (total - large)
    return step(mode, total, _overflowed(total, lack, _finite(a, b)))


def subtract(a: Term, b: Term, mode: str) -> Term:
    return add(a, -b, mode)


def multiply(a: Term, b: Term, mode: str) -> Term:
    """a * b; the error of the product, which fma computes exactly, decides the step of rounding."""
    power = SCALE[a.width] * 3 // 2
    product = a * b
    large, small = _by_size(a, b)
    tiny = _is_below(product, SMALL[a.width])
    held = _scaled(tiny, product, power)
    lack = _scaled(tiny, small, power).fma(large, -held)
    vanished = _is_zero(product) & ~(_is_zero(a) | _is_zero(b))
    lack = where(vanished, a.term(1.0).intrinsic("copysign", product), lack)
    return step(mode, product, _overflowed(product, lack, _finite(a, b)))


def divide(a: Term, b: Term, mode: str) -> Term:
    quotient = exact_quotient(a, b)
    tiny = _is_below(a, SMALL[a.width]) & _is_below(b, -SMALL[a.width])
    over, under = (_scaled(tiny, x, SCALE[a.width]) for x in (a, b))
    rest = (-quotient).fma(under, over)
    lack = where(b.is_negative(), -rest, rest)
    finite = _finite(a, b) & ~_is_zero(b)
    return step(mode, quotient, _overflowed(quotient, lack, finite))


def reciprocal(x: Term, mode: str) -> Term:
    return divide(x.term(1.0), x, mode)


def square_root(x: Term, mode: str) -> Term:
    root = exact_root(x)
    tiny = _is_below(x, SMALL[x.width])
    held = _scaled(tiny, root, SCALE[x.width] // 2)
    lack = (-held).fma(held, _scaled(tiny, x, SCALE[x.width]))
    return step(mode, root, lack)


def to_float(x: Term, mode: str) -> Term:
    """A double as a float."""
    rounded = x.resized(FLOAT)
    lack = x - rounded.resized(DOUBLE)
    sign = where(lack < 0.0, rounded.term(-1.0), where(lack > 0.0, 1.0, rounded.term(0.0)))
    return step(mode, rounded, sign)


def from_integer(x: Term, mode: str, kind: ir.Type, signed: bool) -> Term:
    """An integer as a float or double; the lack is found in 64-bit integers."""
    rounded = x.to_float(kind, signed=signed)
    highest = rounded >= 2.0 ** (x.width - signed)
    back = where(highest, 0.0, rounded).to_integer(I64, signed=signed)
    lack = (x.resized(I64, signed=signed) - back).to_float(kind)
    return step(mode, rounded, where(highest, -1.0, lack))


OPERATIONS: dict[str, Callable[..., Term]] = {
    "add": add, "sub": subtract, "mul": multiply, "div": divide, "rcp": reciprocal,
    "sqrt": square_root,
}
FUNCTIONS: Mapping[str, Callable[..., Term]] = {
    f"{name}_{mode}": partial(function, mode=mode)
    for name, function in OPERATIONS.items() for mode in MODES
} | {f"double2float_{mode}": partial(to_float, mode=mode) for mode in ("rd", "ru")} | {
    f"{letters}2{name}_{mode}": partial(from_integer, mode=mode, kind=kind, signed=signed)
    for letters, signed, targets in (
        ("int", True, {"float": FLOAT}), ("uint", False, {"float": FLOAT}),
        ("ll", True, {"float": FLOAT, "double": DOUBLE}),
        ("ull", False, {"float": FLOAT, "double": DOUBLE}),
    )
    for name, kind in targets.items() for mode in MODES
}
