"""Lowering of global memory accesses through tensors of pointers: vectors, masks, cache hints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import AddPtrOp, IntToPtrOp, PtrToIntOp
from triton_xe.dialects.tt.types import CachePolicyAttr
from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.helpers import LANE, call_text
from triton_xe.lowering.emit.tensors.lsc import load_with_policy, store_with_policy
from triton_xe.lowering.emit.tensors.registers import Registers, Splat, eager, mapped
from triton_xe.lowering.emit.tensors.view import View
from triton_xe.lowering.emit.types import (
    I1,
    I8,
    I32,
    I64,
    POINTER,
    bits_of,
    scalar_type,
    suffix,
    vector_of,
)
from triton_xe.lowering.surfaces.affine import attribute, constant_of
from triton_xe.lowering.surfaces.axis_info import pointee_bytes
from triton_xe.spirv import UNFILLED_NODE

_LOAD_POLICIES = {"ca": "ca.ca", "cg": "uc.ca", "cs": "st.ca", "cv": "uc.uc"}
_STORE_POLICIES = {"wb": "wb.wb", "cg": "uc.wb", "cs": "st.wb", "wt": "wt.wb"}


def policy_of(op: Operation, *, write: bool) -> str:
    """The cache policy that `cache_modifier` and `eviction_policy` ask for; "default" for none."""
    held = attribute(op, "cachePolicy")
    if not isinstance(held, CachePolicyAttr):
        return "default"
    table = _STORE_POLICIES if write else _LOAD_POLICIES
    once = "st.wb" if write else "st.ca"
    usual = once if held.eviction_policy == "evict_first" else "default"
    return table.get(held.cache_modifier, usual)


def is_volatile(op: Operation) -> bool:
    """Whether every execution of a load must read memory."""
    held = attribute(op, "isVolatile")
    return held is not None and bool(held.value.data)


class VolatileLoad(ir.LoadInstr):
    """A load that compilers leave where it is."""

    def descr(self, buf: list[str]) -> None:
        text: list[str] = []
        super().descr(text)
        buf.append(text[0].replace("load ", "load volatile ", 1))


@dataclass(frozen=True)
class Manner:
    """How memory is read: the cache policy, and whether compilers may move the access."""

    policy: str = "default"
    volatile: bool = False
    marked: bool = False
    """Say in the module that lanes without a load and without another value are undefined."""


@lowers(AddPtrOp)
def lower_addptr(em: Emitter, op: AddPtrOp) -> None:
    (result,) = op.results
    size = pointee_bytes(result)
    if not isinstance(result.type, TensorType):
        offset = em.scalar(op.operands[1])
        offset = em.b.sext(offset, I64) if bits_of(offset.type) < 64 else offset
        scaled = em.b.mul(offset, I64(size)) if size > 1 else offset
        em.bind(result, em.b.gep(em.scalar(op.operands[0]), [scaled], source_etype=I8))
        return

    def write(pointer: ir.Value, offset: ir.Value) -> ir.Value:
        vector = isinstance(offset.type, ir.VectorType)
        kind = offset.type.element if vector else offset.type
        wide = ir.VectorType(I64, offset.type.count) if vector else I64
        offset = em.b.sext(offset, wide) if bits_of(kind) < 64 else offset
        if size > 1:
            by = ir.Constant(wide, [size] * offset.type.count if vector else size)
            offset = em.b.mul(offset, by)
        return em.b.add(pointer, offset)

    operands = [em.registers(v) for v in op.operands]
    em.bind(result, mapped(em, I64, operands, write))


@lowers(PtrToIntOp)
def lower_ptr_to_int(em: Emitter, op: PtrToIntOp) -> None:
    (result,) = op.results
    held = em.get(op.operands[0])
    em.bind(result, held if isinstance(held, Registers) else em.address(held))


@lowers(IntToPtrOp)
def lower_int_to_ptr(em: Emitter, op: IntToPtrOp) -> None:
    (result,) = op.results
    held = em.get(op.operands[0])
    em.bind(result, held if isinstance(held, Registers) else em.b.inttoptr(held, POINTER))


def vector_width(em: Emitter, pointer: SSAValue, mask: SSAValue | None, view: View) -> int:
    """How many registers one access of a lane can cover: contiguous, aligned, equally masked."""
    info = em.axis.info(pointer)
    size = pointee_bytes(pointer)
    best = 1
    for dim in range(len(view.shape)):
        run = 1
        while run * 2 <= len(view.registers) and run * 2 * size <= MAX_LANE_BYTES and run < 8:
            if not _consecutive(view, dim, run * 2):
                break
            run *= 2
        while run > 1 and (info.contiguity[dim] < run or info.divisibility[dim] < run * size):
            run //= 2
        if mask is not None:
            run = min(run, em.axis.info(mask).constancy[dim])
        best = max(best, run)
    return best


def _consecutive(view: View, dim: int, count: int) -> bool:
    first = view.registers[0]
    return all(
        view.registers[i] == (*first[:dim], first[dim] + i, *first[dim + 1:])
        for i in range(count)
    ) and all(c[dim] % count == 0 for group in (view.lanes, view.warps) for c in group)


def _optional(operands: list[SSAValue], index: int) -> SSAValue | None:
    return operands[index] if len(operands) > index else None


@lowers(LoadOp)
def lower_load(em: Emitter, op: LoadOp) -> None:
    operands = list(op.operands)
    mask, other = _optional(operands, 1), _optional(operands, 2)
    if mask is not None and constant_of(mask) in (1, -1):
        mask = None
    (result,) = op.results
    manner = Manner(policy_of(op, write=False), is_volatile(op), other is None)
    if not isinstance(result.type, TensorType):
        em.bind(result, _scalar_load(em, operands[0], mask, other, result.type, manner))
        return
    view = em.view(operands[0])
    width = vector_width(em, operands[0], mask, view)
    pointers = em.registers(operands[0])
    conditions = None if mask is None else em.registers(mask)
    fill = None if other is None else em.registers(other)
    kind = scalar_type(result.type)
    loaded = []
    for start in range(0, len(view.registers), width):
        passthrough = None if fill is None else fill.slice(em, start, width)
        loaded.append(
            load(
                em, pointers.register(em, start), vector_of(kind, width),
                None if conditions is None else conditions.register(em, start), passthrough,
                width * bits_of(kind) // 8 if kind != I1 else 1, manner,
            )
        )
    em.bind(result, _regrouped(em, kind, loaded, width, len(view.registers)))


def _regrouped(
    em: Emitter, kind: ir.Type, parts: list[ir.Value], width: int, count: int
) -> Registers:
    """Registers in chunks of the usual width from pieces of `width`."""
    pieces = eager(kind, parts, width)
    chunk = min(count, 8)
    if width == chunk:
        return pieces

    def make(i: int) -> ir.Value:
        first = i * chunk // width
        mine = parts[first : first + chunk // width]
        while len(mine) > 1 and isinstance(mine[0].type, ir.VectorType):
            length = mine[0].type.count
            mine = [
                em.shuffle(a, b, list(range(2 * length)))
                for a, b in zip(mine[::2], mine[1::2], strict=True)
            ]
        return mine[0] if len(mine) == 1 else em.pack(kind, mine)

    return Registers(count, kind, make)


def load(
    em: Emitter,
    address: ir.Value,
    kind: ir.Type,
    condition: ir.Value | None,
    passthrough: ir.Value | None,
    align: int,
    manner: Manner = Manner(),
) -> ir.Value:
    """One access of every lane; where the condition does not hold, `passthrough` or zero.

    Cache policies are hints that the device reads on accesses without a condition only.
    """
    stored = _memory_type(kind)
    pointer = em.global_pointer(address)
    if condition is None:
        return _from_memory(em, _load_always(em, pointer, stored, max(align, 1), manner), kind)
    fill = ir.Constant(stored, None) if passthrough is None else _to_memory(em, passthrough, stored)
    if manner.volatile:
        text = _VOLATILE.format(kind=stored, align=max(align, 1))
        arguments = [em.address(pointer), fill, condition]
        name = f"{LANE}volatile_load_{suffix(stored)}_{align}"
        value = call_text(em, name, stored, arguments, text)
        return _from_memory(em, _mark(em, value, manner), kind)
    value = em.call(genisa.PREDICATED_LOAD, [pointer, I64(max(align, 1)), condition, fill])
    return _from_memory(em, _mark(em, value, manner), kind)


def _mark(em: Emitter, loaded: ir.Value, manner: Manner) -> ir.Value:
    """Tell the simulator, whose sanitizer follows undefined values; devices see zeros."""
    if manner.marked:
        loaded.set_metadata(UNFILLED_NODE, em.state.llvm.add_metadata([]))
    return loaded


_VOLATILE = """\
entry:
  br i1 %a2, label %read, label %done
read:
  %p = inttoptr i64 %a0 to ptr addrspace(1)
  %v = load volatile {kind}, ptr addrspace(1) %p, align {align}
  br label %done
done:
  %r = phi {kind} [ %a1, %entry ], [ %v, %read ]
  ret {kind} %r
"""


def _load_always(
    em: Emitter, pointer: ir.Value, stored: ir.Type, align: int, manner: Manner
) -> ir.Value:
    if manner.volatile:
        value: ir.LoadInstr = VolatileLoad(em.b.block, pointer, typ=stored)
        em.b._insert(value)
    elif manner.policy != "default":
        return load_with_policy(em, pointer, stored, align, manner.policy)
    else:
        value = em.b.load(pointer, typ=stored)
    value.align = align
    return value


def store(
    em: Emitter, address: ir.Value, value: ir.Value, condition: ir.Value | None, align: int,
    policy: str = "default",
) -> None:
    """One access of every lane for which the condition holds."""
    stored = _memory_type(value.type)
    value = _to_memory(em, value, stored)
    pointer = em.global_pointer(address)
    if condition is None:
        if policy == "default":
            em.b.store(value, pointer).align = max(align, 1)
        else:
            store_with_policy(em, pointer, value, max(align, 1), policy)
        return
    em.call(genisa.PREDICATED_STORE, [pointer, value, I64(max(align, 1)), condition])


def _memory_type(kind: ir.Type) -> ir.Type:
    """i1 is a byte in memory; everything else keeps its type."""
    scalar = kind.element if isinstance(kind, ir.VectorType) else kind
    if scalar != I1:
        return kind
    return ir.VectorType(I8, kind.count) if isinstance(kind, ir.VectorType) else I8


def _from_memory(em: Emitter, value: ir.Value, kind: ir.Type) -> ir.Value:
    if value.type == kind:
        return value
    return em.b.icmp_unsigned("!=", value, ir.Constant(value.type, None))


def _to_memory(em: Emitter, value: ir.Value, stored: ir.Type) -> ir.Value:
    return value if value.type == stored else em.b.zext(value, stored)


def _scalar_load(
    em: Emitter, pointer: SSAValue, mask: SSAValue | None, other: SSAValue | None, kind: Any,
    manner: Manner,
) -> ir.Value:
    from triton_xe.lowering.emit.types import argument_type, is_pointer

    held = scalar_type(kind)
    size = max(bits_of(held) // 8, 1)
    condition = None if mask is None else em.scalar(mask)
    passthrough = None if other is None else em.scalar(other)
    value = load(em, em.scalar(pointer), held, condition, passthrough, size, manner)
    return em.b.inttoptr(value, argument_type(kind)) if is_pointer(kind) else value


@lowers(StoreOp)
def lower_store(em: Emitter, op: StoreOp) -> None:
    operands = list(op.operands)
    mask = _optional(operands, 2)
    if mask is not None and constant_of(mask) in (1, -1):
        mask = None
    if not isinstance(operands[0].type, TensorType):
        _scalar_store(em, operands[0], operands[1], mask)
        return
    view = em.view(operands[0])
    width = vector_width(em, operands[0], mask, view)
    pointers, values = em.registers(operands[0]), em.registers(operands[1])
    conditions = None if mask is None else em.registers(mask)
    once = owns_copy(em, view)
    size, policy = pointee_bytes(operands[0]), policy_of(op, write=True)
    for start in range(0, len(view.registers), width):
        condition = None if conditions is None else conditions.register(em, start)
        if once is not None:
            condition = once if condition is None else em.b.and_(condition, once)
        store(em, pointers.register(em, start), values.slice(em, start, width), condition,
              width * size, policy)


def owns_copy(em: Emitter, view: View) -> ir.Value | None:
    """True in the one lane of those that hold copies of the same element; None without copies."""
    parts = []
    if view.lane_free:
        parts.append(("lane", em.lane_id(), view.lane_free))
    if view.warp_free:
        parts.append(("warp", em.warp_id(), view.warp_free))
    if not parts:
        return None

    def make() -> ir.Value:
        tests = [
            em.b.icmp_unsigned("==", em.b.and_(value, I32(mask)), I32(0))
            for _, value, mask in parts
        ]
        return tests[0] if len(tests) == 1 else em.b.and_(*tests)

    return em.remember(("owns", view.lane_free, view.warp_free), make)


def _scalar_store(em: Emitter, pointer: SSAValue, value: SSAValue, mask: SSAValue | None) -> None:
    """A scalar is stored once per work-group, by lane 0 of warp 0."""
    held = em.scalar(value)
    if isinstance(held.type, ir.PointerType):
        held = em.address(held)
    lane, warp = em.lane_id(), em.warp_id()
    first = em.b.icmp_unsigned("==", em.b.or_(lane, warp), I32(0))
    condition = first if mask is None else em.b.and_(first, em.scalar(mask))
    store(em, em.scalar(pointer), held, condition, max(bits_of(held.type) // 8, 1))


__all__ = ["Splat", "load", "owns_copy", "store", "vector_width"]
