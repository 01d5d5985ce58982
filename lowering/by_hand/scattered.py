"""Lowering of XeGPU's scattered accesses: one address per work-item.

A chunk is one vector access where it has 2, 4 or 8 elements of at most 16 bytes together.  Lanes
that are masked, or have no work-item of their own, do not touch memory and read zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Attribute, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.xegpu.scattered import (
    AtomicRmwOp,
    CreateTdescOp,
    LoadGatherOp,
    PrefetchOp,
    StoreScatterOp,
    UpdateOffsetOp,
)
from triton_xe.dialects.xegpu.types import TensorDescType
from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.lane_access import LaneAccess, Where, load_each, pointer_at, store_each
from triton_xe.lowering.emit.lane_atomics import rmw
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import (
    DOUBLE,
    I1,
    I64,
    POINTER,
    bits_of,
    is_bf16,
    scalar_type,
)
from triton_xe.lowering.emit.xegpu.blocks import (
    check_lanes,
    lane_prefetch,
    prefetch_code,
    scaled,
    slm_base,
)
from triton_xe.lowering.emit.xegpu.spreads import spread_of
from triton_xe.lowering.emit.xegpu.vectors import from_lane, from_list, held_type, packed


@dataclass(frozen=True)
class Scattered:
    """Base address and, per group of lanes, each work-item's offset in elements."""

    base: ir.Operand
    offsets: tuple[ir.Operand, ...]

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        return list(self.offsets), lambda parts: replace(self, offsets=tuple(parts))


def _per_lane(em: Emitter, value: SSAValue) -> list[ir.Operand]:
    """One scalar per group of lanes, of a vector with an entry per work-item."""
    held = em.get(value)
    if not isinstance(held, Registers):
        return [held]
    return [held.register(em, r) for r in range(held.count)]


def _offsets(em: Emitter, value: SSAValue) -> list[ir.Operand]:
    """`_per_lane` of a vector of offsets, as i64."""
    return [v if bits_of(v.type) == 64 else em.b.sext(v, I64) for v in _per_lane(em, value)]


@lowers(CreateTdescOp)
def lower_create_tdesc(em: Emitter, op: CreateTdescOp) -> None:
    check_lanes(em, op.name, op.desc_type)
    shared = op.desc_type.memory_scope == "slm"
    base = slm_base(em, op, op.base) if shared else em.address(em.get(op.base))
    em.bind(op.desc, Scattered(base, tuple(_offsets(em, op.offsets))))


@lowers(UpdateOffsetOp)
def lower_update_offset(em: Emitter, op: UpdateOffsetOp) -> None:
    held = em.get(op.desc)
    moved = [em.b.add(a, b) for a, b in zip(held.offsets, _offsets(em, op.offsets), strict=True)]
    em.bind(op.moved, replace(held, offsets=tuple(moved)))


def _where(em: Emitter, held: Scattered, offset: ir.Operand, bits: int) -> Where:
    """Pointer and byte offset of an element of `bits` at an offset in elements."""
    at = scaled(em, offset, bits)
    if held.base.type.kind == "ptr":
        return held.base, at
    base = em.remember(("pointer", held.base), lambda: em.b.inttoptr(held.base, POINTER))
    return base, at


def _accesses(
    em: Emitter, desc: TensorDescType, held: Scattered, mask: SSAValue, own: bool,
    transposed: bool, single: bool = False,
) -> list[LaneAccess]:
    """The accesses of a descriptor's lanes; with `single`, one element each."""
    work_items, chunk, lanes = desc.get_shape()[0], desc.chunk_size_per_lane, em.state.lanes
    masks = _per_lane(em, mask)
    bits = desc.element_bits
    if transposed and not own and work_items < lanes and chunk > 1:
        return _folded_accesses(em, desc, held, masks[0])
    groups = max(1, work_items // lanes)
    limit = None
    if work_items < lanes:
        limit = em.b.icmp("ult", em.lane_id(), work_items)
    together = 1 if single else _elements_per_access(chunk, bits)
    out = []
    for group in range(groups):
        condition = masks[group] if limit is None else em.b.and_(masks[group], limit)
        for first in range(0, chunk, together):
            offset = held.offsets[group]
            offset = em.b.add(offset, first) if first else offset
            numbers = range(first, first + together)
            registers = tuple(c * groups + group if transposed and not own else group * chunk + c
                              for c in numbers)
            out.append(LaneAccess(_where(em, held, offset, bits), condition, registers))
    return out


def _elements_per_access(chunk: int, bits: int) -> int:
    """Elements of a chunk that one access moves."""
    if chunk not in (2, 4, 8):
        return 1
    return min(chunk, MAX_LANE_BYTES * 8 // bits)


def _folded_accesses(
    em: Emitter, desc: TensorDescType, held: Scattered, mask: ir.Operand
) -> list[LaneAccess]:
    """Chunks of fewer work-items than lanes, transposed.

    Lanes past the last one take the next element of the chunk.  Its offset is known to another
    lane.
    """
    (work_items, chunk), lanes = desc.get_shape(), em.state.lanes
    lane = em.lane_id()
    home = em.b.and_(lane, work_items - 1)
    offset = from_lane(em, held.offsets[0], home)
    allowed = from_lane(em, mask, home)
    inside = em.b.zext(em.b.udiv(lane, work_items), I64)
    out = []
    for register in range(-(-work_items * chunk // lanes)):
        at = em.b.add(offset, em.b.add(inside, register * (lanes // work_items)))
        left = work_items * chunk - register * lanes
        condition = allowed
        if left < lanes:
            condition = em.b.and_(allowed, em.b.icmp("ult", lane, left))
        out.append(LaneAccess(_where(em, held, at, desc.element_bits), condition, (register,)))
    return out


@lowers(LoadGatherOp)
def lower_load_gather(em: Emitter, op: LoadGatherOp) -> None:
    desc, spread = op.desc_type, spread_of(em, op.value)
    typed, _ = held_type(op.value.type, spread)
    accesses = _accesses(em, desc, em.get(op.desc), op.mask, spread.own, op.transpose is not None)
    kind = ir.integer(desc.element_bits)
    em.bind(op.value, from_list(em, typed, load_each(em, accesses, kind, op.cache_policy, typed)))


@lowers(StoreScatterOp)
def lower_store_scatter(em: Emitter, op: StoreScatterOp) -> None:
    desc, held = op.desc_type, em.registers(op.value)
    bits = desc.element_bits
    own = spread_of(em, op.value).own
    values = [packed(em, held, bits, r, 1) for r in range(held.count)]
    accesses = _accesses(em, desc, em.get(op.desc), op.mask, own, op.transpose is not None)
    store_each(em, accesses, lambda registers: em.pack(
        ir.integer(bits), [values[r] for r in registers]), op.cache_policy)


@lowers(PrefetchOp)
def lower_prefetch(em: Emitter, op: PrefetchOp) -> None:
    desc, held = op.desc_type, em.get(op.desc)
    code = prefetch_code(em, op, op.cache_policy)
    if desc.memory_scope == "slm":
        raise LegalityError("xegpu.prefetch: shared local memory is not cached")
    for offset in held.offsets:
        lane_prefetch(em, pointer_at(em, _where(em, held, offset, desc.element_bits)), code)


RMW = {
    "addi": "add", "addf": "fadd", "muli": "mul", "mulf": "fmul", "maxs": "max", "maxu": "umax",
    "mins": "min", "minu": "umin", "ori": "or", "andi": "and", "xori": "xor", "assign": "exch",
}
"""XeGPU's kinds -> names in `lane_atomics`."""


@lowers(AtomicRmwOp)
def lower_atomic_rmw(em: Emitter, op: AtomicRmwOp) -> None:
    desc, element = op.desc_type, op.desc_type.element_type
    _check_atomic(em, element)
    kind, bf16 = RMW.get(op.kind.data, op.kind.data), is_bf16(element)
    spread = spread_of(em, op.value)
    held = em.registers(op.value)
    typed, _ = held_type(op.value.type, spread)
    found: dict[int, ir.Operand] = {}
    for item in _accesses(em, desc, em.get(op.desc), op.mask, spread.own, False, single=True):
        (register,) = item.registers
        value, active = held.register(em, register), item.condition
        found[register] = rmw(em, kind, pointer_at(em, item.where), value,
                              ir.constant(I1, 1) if active is None else active, bf16=bf16)
    em.bind(op.old, from_list(em, typed, [found[r] for r in sorted(found)]))


def _check_atomic(em: Emitter, element: Attribute) -> None:
    held = scalar_type(element)
    if bits_of(held) < 16:
        raise UnsupportedError(
            f"xegpu.atomic_rmw on {element}: atomics have 16 to 64 bits; use a larger type"
        )
    if held == DOUBLE and not em.target.has_fp64:
        raise UnsupportedError(f"xegpu.atomic_rmw on {element}: {em.target.name} has no f64")
