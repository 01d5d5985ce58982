"""Widening of the instructions of `definedness`: shadows of DPAS and shared memory, checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from triton_xe import llvm as ir
from triton_xe.intrinsics.genisa import LSC_2D_BLOCK_WRITE, LSC_2D_BLOCK_WRITE_PAYLOAD
from triton_xe.llvm import I64, Instruction, Operand, constant, vector
from triton_xe.llvm.values import Values
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.definedness import BLOCK, DPAS, ORIGIN, SLM, USE
from triton_xe.runtime.simulator.sanitizer.instrument import (
    first_address,
    known_word,
    lane_flags,
    site,
)
from triton_xe.runtime.simulator.sanitizer.state import Word, origin_words, slm_shadow_bytes
from triton_xe.runtime.simulator.widen.host_function import SG
from triton_xe.runtime.simulator.widen.host_function import SLM as SLM_AT
from triton_xe.runtime.simulator.widen.matrix import block_arguments
from triton_xe.runtime.simulator.widen.values import Uniform, Value, Wide
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def slm_shadow(w: Widener, i: Instruction) -> None:
    """Compute the shadow's address of an address in shared memory; ones outside wrap around."""
    pointer, v = w.value(i.operands[0]), Values(w.b)
    alone = isinstance(pointer, Uniform)
    x = v.wrap(pointer.value if isinstance(pointer, Uniform) else w.b.wide(pointer))
    inside = x.integer() - v.wrap(SLM_AT).integer() & slm_shadow_bytes(w.kernel.slm.nbytes) - 1
    start = v.wrap(known_word(w, Word.SLM_SHADOW, I64))
    moved = (inside + start).pointer().operand
    w.define(i, Uniform(moved, i.type) if alone else Wide(moved, i.type))


def _number(i: Instruction) -> int:
    """Number of the load, or the use, that a call is about."""
    return i.operands[0].integer_value() or 0


def _report(
    w: Widener, i: Instruction, bad: Operand, at: Callable[[], Operand | int] = lambda: 0
) -> None:
    """Report undefined bits in lanes `bad`, if any; `at` writes the address that they are for."""
    w.note_location(i)
    with w.b.unless(w.b.icmp("eq", bad, 0)):
        w.b.invoke(checks.UNDEFINED, *site(w, i), bad, _number(i), at())


def use(w: Widener, i: Instruction) -> None:
    """Check that active lanes do not use undefined bits."""
    _, shadow, *rest = i.operands
    active, where = rest[:1], rest[1:]
    odd = w.wide_of(shadow)
    if shadow.type.scalar is not ir.I1:
        odd = w.b.icmp("ne", odd, 0)
    bad = lane_flags(w, odd, shadow.type.lanes)
    for mask in active:
        if mask.integer_value() != 1:
            bad = w.b.and_(bad, lane_flags(w, w.b.mask(w.value(mask)), 1))
    _report(w, i, bad, lambda: (
        first_address(w, bad, w.value(where[0]), odd, shadow.type) if where else 0))


def origin(w: Widener, i: Instruction) -> None:
    """Record the addresses that a masked load would have read, in lanes that it skips."""
    pointer, mask = (w.value(o) for o in i.operands[1:])
    every = mask.value if isinstance(mask, Uniform) else w.b.icmp(
        "eq", w.b.lane_bits(w.b.mask(mask)), -1)
    with w.b.unless(every):
        _record_skipped(w, i, pointer, mask)


def _record_skipped(w: Widener, i: Instruction, pointer: Value, mask: Value) -> None:
    b = w.b
    row = b.add(b.zext(SG, I64), _number(i) * w.kernel.sizes.sub_groups)
    origins = known_word(w, Word.ORIGINS)
    at = b.gep(I64, origins, b.mul(row, origin_words(w.lanes)))
    group = b.add(w.b.context_word(Context.GROUP, I64), 1)
    here = b.icmp("eq", b.load(I64, at), group)
    b.store(group, at)
    lanes, flat = w.b.at(at, 64), vector(w.lanes, I64)
    old = b.select(here, b.load(flat, lanes, align=64), 0)
    address = w.b.wide(pointer)
    if pointer.type.kind == "ptr":
        address = b.ptrtoint(address)
    b.store(b.select(w.b.mask(mask), old, address), lanes, align=64)


def dpas_shadow(w: Widener, i: Instruction) -> None:
    """Compute a DPAS's shadow: element m of lane n depends on row m of A and column n of B."""
    s, rows, b = w.lanes, i.type.lanes, w.b
    accumulator, left, right = i.operands[:3]
    repeat = max(i.operands[6].integer_value() or 1, 1)
    row_bytes = left.type.size * s // repeat
    whole = b.bitcast(w.wide_of(left), vector(repeat, ir.integer(8 * row_bytes)))
    odd_rows = b.icmp("ne", whole, 0)
    total = b.shuffle(odd_rows, None, [m for m in range(rows) for _ in range(s)])
    column = reduce(b.or_, [w.b.wide(p) for p in w.b.parts(w.value(right))])
    total = b.or_(total, w.b.repeat(b.icmp("ne", column, 0), rows))
    total = b.or_(total, b.icmp("ne", w.wide_of(accumulator), 0))
    w.define_wide(i, b.sext(total, w.b.type_of(i.type)))


def block_store(w: Widener, i: Instruction) -> None:
    """Check the part of a 2D block that is inside its surface, because only that is stored."""
    message = LSC_2D_BLOCK_WRITE_PAYLOAD if i.operands[1].type.kind == "ptr" else LSC_2D_BLOCK_WRITE
    a, b = block_arguments(w, replace(i, callee=message.name, operands=i.operands[1:])), w.b
    _, width, height, _, x, y = a.surface
    shadow = i.operands[-1]
    count = a.tile_width * a.tile_height
    image, flat = w.b.type_of(shadow.type), vector(count, ir.integer(a.bits))
    cells = b.bitcast(w.wide_of(shadow), flat)
    inside = constant(vector(count, ir.I1), 1)
    for start, last, unit, steps in (
        (x, width, a.bits // 8, [k % a.tile_width for k in range(count)]),
        (y, height, 1, [k // a.tile_width for k in range(count)]),
    ):
        offset = b.mul(b.add(b.broadcast(start, count), ir.integers(ir.I32, steps)), unit)
        inside = b.and_(inside, b.icmp("ule", offset, b.broadcast(last, count)))
    stored = b.bitcast(b.select(inside, cells, 0), image)
    _report(w, i, lane_flags(w, b.icmp("ne", stored, 0), shadow.type.lanes))


RULES: dict[str, Rule] = {
    SLM: slm_shadow,
    USE: use,
    ORIGIN: origin,
    DPAS: dpas_shadow,
    BLOCK: block_store,
}
