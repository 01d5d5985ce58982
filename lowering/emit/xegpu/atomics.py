"""Atomic operations of single lanes, as helper functions `__xe_lane_atomic_*`.

32- and 64-bit integers, float additions and extrema have instructions; everything else, all of the
16-bit floats included, repeats a compare-and-swap until nothing came between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from xdsl.ir import Attribute

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.types import FLOAT, I1, bits_of, is_bf16, scalar_type
from triton_xe.lowering.emit.xegpu.lanes import lane_helper

NATIVE = {
    "addi": "add", "maxs": "max", "maxu": "umax", "mins": "min", "minu": "umin", "ori": "or",
    "andi": "and", "xori": "xor", "assign": "xchg", "addf": "fadd",
}  # fmt: skip
"""Kind -> LLVM's operation, where the device has it for 32 or 64 bits."""
Combine = Callable[[Any, ir.Value, ir.Value], ir.Value]


def _maximum(em: Any, old: ir.Value, new: ir.Value, sign: str, propagate: bool) -> ir.Value:
    """The larger (or smaller) float; of one NaN and a number, the NaN only if it propagates."""
    taken = em.b.fcmp_ordered(sign, new, old)
    odd = em.b.fcmp_unordered("uno", new, new) if propagate else em.b.fcmp_unordered(
        "uno", old, old)
    return em.b.select(em.b.or_(taken, odd), new, old)


_COMBINE: dict[str, Combine] = {
    "addf": lambda em, a, b: em.b.fadd(a, b),
    "mulf": lambda em, a, b: em.b.fmul(a, b),
    "maximumf": lambda em, a, b: _maximum(em, a, b, ">", True),
    "minimumf": lambda em, a, b: _maximum(em, a, b, "<", True),
    "maxnumf": lambda em, a, b: _maximum(em, a, b, ">", False),
    "minnumf": lambda em, a, b: _maximum(em, a, b, "<", False),
    "addi": lambda em, a, b: em.b.add(a, b),
    "muli": lambda em, a, b: em.b.mul(a, b),
    "ori": lambda em, a, b: em.b.or_(a, b),
    "andi": lambda em, a, b: em.b.and_(a, b),
    "xori": lambda em, a, b: em.b.xor(a, b),
    "maxs": lambda em, a, b: em.b.select(em.b.icmp_signed(">", a, b), a, b),
    "mins": lambda em, a, b: em.b.select(em.b.icmp_signed("<", a, b), a, b),
    "maxu": lambda em, a, b: em.b.select(em.b.icmp_unsigned(">", a, b), a, b),
    "minu": lambda em, a, b: em.b.select(em.b.icmp_unsigned("<", a, b), a, b),
    "assign": lambda em, a, b: b,
}


def atomic(
    em: Emitter, kind: str, element: Attribute, pointer: ir.Value, value: ir.Value,
    condition: ir.Value | None,
) -> ir.Value:
    """Combine `value` with memory where the condition holds; what was there, zero elsewhere."""
    held = scalar_type(element)
    bits = bits_of(held)
    if bits < 16:
        raise UnsupportedError(
            f"xegpu.atomic_rmw on {element}: atomics have 16 to 64 bits; use a larger type"
        )
    if bits == 64 and not isinstance(held, ir.IntType) and not em.target.has_fp64:
        raise UnsupportedError(f"xegpu.atomic_rmw on {element}: {em.target.name} has no f64")
    name = f"__xe_lane_atomic_{kind}_{element}_p{pointer.type.addrspace}"

    def write(helper: Any, function: ir.Function) -> None:
        _write(helper, function, kind, element)

    function = lane_helper(em, name, held, [pointer.type, held, I1], write)
    called = em.b.call(function, [pointer, value, I1(1) if condition is None else condition])
    called.cconv = function.calling_convention
    return called


def _write(em: Any, function: ir.Function, kind: str, element: Attribute) -> None:
    pointer, value, condition = function.args
    entry = em.b.block
    yes, done = (function.append_basic_block(n) for n in ("yes", "done"))
    em.b.cbranch(condition, yes, done)
    em.b.position_at_end(yes)
    old = _native(em, pointer, value, kind) if _is_native(kind, value.type, element) else _swap(
        em, function, kind, element)
    last = em.b.block
    em.b.branch(done)
    em.b.position_at_end(done)
    phi = em.b.phi(value.type)
    phi.add_incoming(ir.Constant(value.type, None), entry)
    phi.add_incoming(old, last)
    em.b.ret(phi)


def _is_native(kind: str, held: ir.Type, element: Attribute) -> bool:
    if kind not in NATIVE or bits_of(held) < 32:
        return False
    if kind == "addf":
        return held == FLOAT
    return True


def _native(em: Any, pointer: ir.Value, value: ir.Value, kind: str) -> ir.Value:
    if kind == "assign" and not isinstance(value.type, ir.IntType):
        raw = em.b.bitcast(value, ir.IntType(bits_of(value.type)))
        return em.b.bitcast(em.b.atomic_rmw("xchg", pointer, raw, "monotonic"), value.type)
    return em.b.atomic_rmw(NATIVE[kind], pointer, value, "monotonic")


def _swap(em: Any, function: ir.Function, kind: str, element: Attribute) -> ir.Value:
    """Read, combine, and swap if memory still holds what was read."""
    pointer, value, _ = function.args
    raw = ir.IntType(bits_of(value.type))
    before = em.b.block
    again, out = (function.append_basic_block(n) for n in ("again", "swapped"))
    first = em.b.load(pointer, typ=raw)
    first.align = raw.width // 8
    em.b.branch(again)
    em.b.position_at_end(again)
    seen = em.b.phi(raw)
    seen.add_incoming(first, before)
    made = _combined(em, kind, element, seen, value)
    answer = em.b.cmpxchg(pointer, seen, made, "monotonic", "monotonic")
    found = em.b.extract_value(answer, 0)
    seen.add_incoming(found, again)
    em.b.cbranch(em.b.extract_value(answer, 1), out, again)
    em.b.position_at_end(out)
    return found if value.type == raw else em.b.bitcast(found, value.type)


def _combined(
    em: Any, kind: str, element: Attribute, seen: ir.Value, value: ir.Value
) -> ir.Value:
    """The new contents as integer; 16-bit floats are combined in float."""
    combine = _COMBINE[kind]
    if is_bf16(element) and kind != "assign":
        wide = [em.b.bitcast(em.b.shl(em.b.zext(v, ir.IntType(32)), ir.Constant(
            ir.IntType(32), 16)), FLOAT) for v in (seen, value)]
        return _rounded(em, combine(em, *wide))
    old = seen if seen.type == value.type else em.b.bitcast(seen, value.type)
    made = combine(em, old, value)
    return made if made.type == seen.type else em.b.bitcast(made, seen.type)


def _rounded(em: Any, value: ir.Value) -> ir.Value:
    """float to bf16, ties to even; helpers have no access to the device's conversion."""
    i32, i16 = ir.IntType(32), ir.IntType(16)
    bits = em.b.bitcast(value, i32)
    top = em.b.lshr(bits, i32(16))
    even = em.b.add(em.b.and_(top, i32(1)), i32(0x7FFF))
    near = em.b.lshr(em.b.add(bits, even), i32(16))
    odd = em.b.fcmp_unordered("uno", value, value)
    return em.b.trunc(em.b.select(odd, em.b.or_(top, i32(0x40)), near), i16)


__all__ = ["atomic"]
