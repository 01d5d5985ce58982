"""Lowering of buffers in shared local memory (`ttg.local_alloc`, its views and accesses).

A view of a buffer is an address in bytes and the offset of its first element.  The offset is xored
with those of the elements (see `plan.shared_view`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from xdsl.ir import SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import ttg
from triton_xe.errors import UnsupportedError
from triton_xe.layout import f2
from triton_xe.lowering.allocate_buffers import bytes_of, memory_of, offset_of
from triton_xe.lowering.emit import lane_atomics
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.atomics import shared_copies
from triton_xe.lowering.emit.tensors.exchange import (
    element_bytes,
    kept_region,
    read_vector,
    write_vector,
)
from triton_xe.lowering.emit.tensors.memory import owns_copy
from triton_xe.lowering.emit.tensors.registers import from_scalars, join
from triton_xe.lowering.emit.types import I1, I8, I32, is_bf16, number, scalar_type
from triton_xe.lowering.facts.view import Coordinates
from triton_xe.plan.shared_view import SharedView, messages


@dataclass(frozen=True)
class Buffer:
    """A view of shared local memory: its address in bytes, and a number xored to offsets."""

    base: ir.Operand
    origin: ir.Operand

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        return [self.base, self.origin], lambda parts: Buffer(*parts)


def _described(value: SSAValue) -> ttg.MemDescType:
    assert isinstance(value.type, ttg.MemDescType)
    return value.type


class _Access:
    """An access of all elements of a tensor to a view of a buffer.

    Along `axis` the coordinates are not the tensor's own: they are given per register.
    """

    def __init__(
        self, em: Emitter, memory: SSAValue, tensor: SSAValue, axis: int | None = None
    ) -> None:
        self.em, self.axis = em, axis
        kind = _described(memory)
        buffer = em.get(memory)
        assert isinstance(buffer, Buffer)
        self.buffer, self.layout, self.tensor = buffer, memory_of(kind), em.view(tensor)
        front = len(self.layout.columns) - len(kind.get_shape())
        self.columns = self.layout.columns[front:]
        self.kind = scalar_type(kind.element_type)
        self.size = element_bytes(self.kind)
        self.reach = self.layout.reach((*(1,) * front, *kind.get_shape()))

    def _offset(self, coordinates: Coordinates) -> int:
        return self._xor(at if dim != self.axis else 0 for dim, at in enumerate(coordinates))

    def _xor(self, coordinates: Any) -> int:
        total = 0
        for columns, at in zip(self.columns, coordinates, strict=True):
            total ^= f2.apply(columns, at)
        return total

    @cached_property
    def _threads(self) -> tuple[list[int], list[int]]:
        """Offset that each bit of the lane, and of the warp, contributes (by xor)."""
        view = self.tensor
        return [self._offset(c) for c in view.lanes], [self._offset(c) for c in view.warps]

    @cached_property
    def offsets(self) -> list[int]:
        """Offset that each register contributes (by xor)."""
        return [self._offset(c) for c in self.tensor.registers]

    @cached_property
    def _start(self) -> ir.Operand:
        """Offset of the register of this lane that contributes 0."""
        em, total = self.em, self.buffer.origin
        for value, columns, what in zip(
            (em.lane_id(), em.warp_id()), self._threads, ("lane", "warp"), strict=True
        ):
            part = em.bits_to_coordinate(value, columns, what)
            if part is not None:
                total = part if _is_zero(total) else em.b.xor(total, part)
        return total

    @cached_property
    def _used(self) -> int:
        """Mask of the bits that may be set in `_start`."""
        total = self.reach
        for columns in self._threads:
            for column in columns:
                total |= column
        return total

    def groups(self) -> list[tuple[int, ...]]:
        """The registers of each message."""
        moving = (*self._threads[0], *self._threads[1], self.reach)
        return messages(self.offsets, moving, self.layout.unpadded, self.size)

    def pointer(self, offset: int, moved: ir.Operand | None = None) -> ir.Operand:
        """The address of a register's element, `moved` along the axis."""
        em, start, fixed = self.em, self._start, 0
        if moved is not None:
            start = em.b.xor(start, moved) if offset == 0 else em.b.xor(
                em.b.xor(start, offset), moved)
        elif offset & self._used:
            start = em.b.xor(start, offset)
        else:
            fixed = self.layout.padded(offset) * self.size
        place = em.b.add(self.buffer.base, in_bytes(em, self.layout, start, self.size))
        pointer = em.b.gep(I8, kept_region(em), place)
        return em.b.gep(I8, pointer, number(fixed)) if fixed else pointer

    def along_axis(self, value: ir.Operand) -> ir.Operand:
        """Offset that an element's coordinate along the axis contributes (by xor)."""
        assert self.axis is not None
        at = Term(self.em, value).resized(I32).value
        part = self.em.bits_to_coordinate(at, self.columns[self.axis], ("along", at))
        return number(0) if part is None else part


def _is_zero(value: ir.Operand) -> bool:
    return value.is_zero


def in_bytes(em: Emitter, layout: SharedView, offset: ir.Operand, size: int) -> ir.Operand:
    """Convert an offset in elements to bytes, and add the padding before it."""

    def make() -> ir.Operand:
        term = Term(em, offset)
        total = term
        for interval, extra in layout.paddings:
            total = total + ((term >> (interval.bit_length() - 1)) << (extra.bit_length() - 1))
        return (total * size).value if size > 1 else total.value

    return em.remember(("bytes", offset, layout.paddings, size), make)


# -- buffers and views -----------------------------------------------------------------------------


@lowers(ttg.LocalAllocOp)
def lower_alloc(em: Emitter, op: ttg.LocalAllocOp) -> None:
    at = offset_of(op)
    kept_region(em, at + bytes_of(op))
    em.bind(op.result, Buffer(number(at), number(0)))
    if op.src is not None:
        _store(em, op.src, op.result)


@lowers(ttg.LocalDeallocOp)
def lower_dealloc(em: Emitter, op: ttg.LocalDeallocOp) -> None:
    """Emit nothing, because buffers are allocated for the whole kernel."""


@lowers(ttg.MemDescTransOp)
def lower_same_memory(em: Emitter, op: ttg.MemDescTransOp) -> None:
    em.bind(op.result, em.get(op.src))


@lowers(ttg.MemDescReshapeOp)
def lower_reshape(em: Emitter, op: ttg.MemDescReshapeOp) -> None:
    """Reinterpret a buffer in another shape; slices are refused."""
    kind = _described(op.src)
    if kind.get_shape() != tuple(n.data for n in kind.alloc_shape)[-len(kind.get_shape()):]:
        raise UnsupportedError("reshaping a slice of a buffer; slice the reshaped buffer")
    em.bind(op.result, em.get(op.src))


@lowers(ttg.MemDescReinterpretOp)
def lower_reinterpret(em: Emitter, op: ttg.MemDescReinterpretOp) -> None:
    """View a buffer as another type, from its first element on."""
    kind = _described(op.src)
    em.bind(op.result, _moved(em, em.get(op.src), kind, em.get(op.src).origin, number(0)))


def _moved(
    em: Emitter, buffer: Buffer, kind: ttg.MemDescType, by: ir.Operand, origin: ir.Operand
) -> Buffer:
    """The view that begins `by` elements later."""
    if _is_zero(by):
        return Buffer(buffer.base, origin)
    size = element_bytes(scalar_type(kind.element_type))
    return Buffer(em.b.add(buffer.base, in_bytes(em, memory_of(kind), by, size)), origin)


@lowers(ttg.MemDescIndexOp)
def lower_index(em: Emitter, op: ttg.MemDescIndexOp) -> None:
    kind, buffer = _described(op.src), em.get(op.src)
    stride = memory_of(kind).slice_elements
    if not stride:
        raise UnsupportedError(
            f"an index along a dimension that the layout orders: {kind.encoding}; give the buffers "
            "a layout of one dimension less"
        )
    if memory_of(_described(op.result)).columns != memory_of(kind).columns[1:]:
        raise UnsupportedError("an index into a slice of buffers; slice the buffer that is indexed")
    by = em.b.mul(em.scalar(op.index), stride)
    em.bind(op.result, _moved(em, buffer, kind, by, buffer.origin))


@lowers(ttg.MemDescSubsliceOp)
def lower_subslice(em: Emitter, op: ttg.MemDescSubsliceOp) -> None:
    """Take a slice of buffers: an address for whole buffers, an xor for parts of one.

    The xor is exact, because slices begin at multiples of their size.
    """
    kind, buffer = _described(op.src), em.get(op.src)
    layout, offsets = memory_of(kind), list(op.offsets.get_values())
    front = len(layout.columns) - len(offsets)
    first = offsets[0] if not front and layout.slice_elements else 0
    rest = [0] * front + offsets
    rest[0] -= first
    origin, more = buffer.origin, layout.offset(rest)
    if more:
        origin = number(more) if _is_zero(origin) else em.b.xor(origin, more)
    em.bind(op.result, _moved(em, buffer, kind, number(first * layout.slice_elements), origin))


# -- accesses --------------------------------------------------------------------------------------


@lowers(ttg.LocalStoreOp)
def lower_local_store(em: Emitter, op: ttg.LocalStoreOp) -> None:
    _store(em, op.src, op.dst)


def _store(em: Emitter, value: SSAValue, memory: SSAValue) -> None:
    """Store a tensor to shared local memory, by vectors of adjacent elements if possible."""
    access, held = _Access(em, memory, value), em.registers(value)
    for group in access.groups():
        write_vector(em, access.pointer(access.offsets[group[0]]), join(em, held, list(group)),
                     access.size * len(group))


@lowers(ttg.LocalLoadOp)
def lower_local_load(em: Emitter, op: ttg.LocalLoadOp) -> None:
    access = _Access(em, op.src, op.result)
    found: dict[int, ir.Operand] = {}
    for group in access.groups():
        value = read_vector(em, access.pointer(access.offsets[group[0]]), access.kind, len(group),
                            access.size * len(group))
        for i, register in enumerate(group):
            found[register] = value if len(group) == 1 else em.b.extract(value, i)
    em.bind(op.result, from_scalars(em, access.kind, [found[r] for r in sorted(found)]))


def _elements(
    em: Emitter, memory: SSAValue, indices: SSAValue, axis: int
) -> tuple[_Access, list[ir.Operand]]:
    """The access of a gather or scatter, and the address of each register's element."""
    access, held = _Access(em, memory, indices, axis), em.registers(indices)
    return access, [
        access.pointer(offset, access.along_axis(held.register(em, register)))
        for register, offset in enumerate(access.offsets)
    ]


@lowers(ttg.LocalGatherOp)
def lower_local_gather(em: Emitter, op: ttg.LocalGatherOp) -> None:
    access, pointers = _elements(em, op.src, op.indices, int(op.axis.value.data))
    em.bind(op.result, from_scalars(em, access.kind, [
        read_vector(em, pointer, access.kind, 1, access.size) for pointer in pointers]))


@lowers(ttg.LocalScatterOp)
def lower_local_scatter(em: Emitter, op: ttg.LocalScatterOp) -> None:
    access, pointers = _elements(em, op.dst, op.indices, int(op.axis.value.data))
    held = em.registers(op.values)
    for register, pointer in enumerate(pointers):
        write_vector(em, pointer, held.register(em, register), access.size)


@lowers(ttg.LocalAtomicScatterRMWOp)
def lower_local_atomic(em: Emitter, op: ttg.LocalAtomicScatterRMWOp) -> None:
    """Execute once per element; lanes with copies get the first one's result."""
    access, pointers = _elements(em, op.dst, op.indices, int(op.axis.value.data))
    if access.size < 2:
        raise UnsupportedError(
            f"atomic operations on elements of {8 * access.size} bits in shared local memory")
    kind, held = op.kind, em.registers(op.values)
    once = owns_copy(em, access.tensor)
    masks = None if op.mask is None else em.registers(op.mask)
    old = []
    for register, pointer in enumerate(pointers):
        active = ir.constant(I1, 1) if masks is None else masks.register(em, register)
        if once is not None:
            active = em.b.and_(active, once)
        old.append(lane_atomics.rmw(em, kind, pointer, held.register(em, register), active, "cta",
                                    bf16=is_bf16(op.values.type)))
    used = op.result.first_use is not None
    em.bind(op.result, shared_copies(em, access.tensor, old) if used
            else from_scalars(em, access.kind, old))

