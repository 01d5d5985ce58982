"""Blocks of more than two dimensions: a 2D block for each position of the outer ones.

A 2D block whose outer position is outside of the base tensor starts below the tensor's last row.
Therefore loads give zero and stores are dropped, by message or by gathers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.xegpu.nd import CreateNdTdescOp, LoadNdOp, StoreNdOp
from triton_xe.dialects.xegpu.types import TensorDescType, tensor_desc
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import I64
from triton_xe.lowering.emit.xegpu.blocks import (
    Block,
    encoded,
    index_value,
    is_by_lanes,
    load_block,
    moved_base,
    scaled,
    store_block,
)
from triton_xe.lowering.emit.xegpu.spreads import spread_of
from triton_xe.lowering.emit.xegpu.vectors import from_list, pick


@dataclass(frozen=True)
class Stack:
    """The block at outer position 0, and its position in the outer dimensions of its tensor."""

    block: Block
    op: CreateNdTdescOp
    shape: tuple[ir.Operand, ...]
    strides: tuple[ir.Operand, ...]
    offsets: tuple[ir.Operand, ...]

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        """Values that a loop carries, and a function that makes the stack from them."""
        return [*self.offsets, self.block.y, self.block.x], self._with

    def _with(self, offsets: Sequence[ir.Operand]) -> Stack:
        *outer, y, x = offsets
        return replace(self, offsets=tuple(outer), block=replace(self.block, y=y, x=x))

    def moved(self, em: Emitter, by: Sequence[SSAValue | int]) -> Stack:
        """The stack moved by some elements in each dimension."""
        here = [*self.offsets, self.block.y, self.block.x]
        moved = zip(here, by, strict=True)
        return self._with([a if b == 0 else em.b.add(a, index_value(em, b)) for a, b in moved])

    def slices(self, em: Emitter, kind: TensorDescType) -> Iterator[Block]:
        """The 2D blocks, the last outer dimension fastest."""
        for position in product(*map(range, kind.get_shape()[:-2])):
            made = self._slice(em, position, kind)
            yield made if is_by_lanes(self.op) else encoded(em, self.op, made)

    def _slice(self, em: Emitter, position: tuple[int, ...], kind: TensorDescType) -> Block:
        """The 2D block at one position of the outer dimensions; it is empty outside of them."""
        base, y = self.block.base, self.block.y
        outer = zip(self.offsets, position, self.strides, self.shape, strict=True)
        for offset, p, stride, size in outer:
            place = em.b.add(offset, p)
            step = em.b.mul(em.b.sext(place, I64), em.b.sext(stride, I64))
            base = moved_base(em, base, scaled(em, step, kind.element_bits), pointer=False)
            if kind.boundary_check:
                inside = em.b.icmp("ult", place, size)
                assert self.block.height is not None
                y = em.b.select(inside, y, self.block.height)
        return replace(self.block, base=base, y=y)


def create_stack(em: Emitter, op: CreateNdTdescOp, block: Block) -> Stack:
    """The stack of a descriptor with more than two dimensions."""
    outer = [tuple(index_value(em, v) for v in values[:-2])
             for values in (op.shape, op.strides, op.offsets)]
    return Stack(block, op, *outer)


def inner_kind(kind: TensorDescType) -> TensorDescType:
    """The descriptor of one 2D block; one of at most two dimensions itself."""
    return kind if kind.rank <= 2 else tensor_desc(
        kind.get_shape()[-2:], kind.element_type, memory_scope=kind.memory_scope,
        boundary_check=kind.boundary_check)


def load_stack(em: Emitter, op: LoadNdOp, stack: Stack) -> Registers:
    """The registers of all blocks, one after the other."""
    kind, value = op.desc_type, _inner_value(em, op, op.value)
    parts = [load_block(em, op, block, inner_kind(kind), value)
             for block in stack.slices(em, kind)]
    return from_list(em, parts[0].kind, [
        part.register(em, r) for part in parts for r in range(part.count)])


def store_stack(em: Emitter, op: StoreNdOp, stack: Stack) -> None:
    """Write a vector block by block."""
    kind, value = op.desc_type, _inner_value(em, op, op.value)
    held, blocks = em.registers(op.value), prod(kind.get_shape()[:-2])
    each = held.count // blocks
    for order, block in enumerate(stack.slices(em, kind)):
        part = pick(em, held, range(order * each, (order + 1) * each))
        store_block(em, op, block, inner_kind(kind), value, part)


def _inner_value(em: Emitter, op: Operation, value: SSAValue) -> VectorType[Any]:
    """The vector of one 2D block; refused if lanes would have unequal parts of it."""
    kind, spread = value.type, spread_of(em, value)
    assert isinstance(kind, VectorType)
    outer = next(v.type for v in op.operands if isinstance(v.type, TensorDescType)).rank - 2
    shape = kind.get_shape()[outer:]
    if prod(shape) % (spread.lanes * spread.unit):
        raise UnsupportedError(
            f"{op.name}: the {prod(shape)} elements of each 2D block of {kind} do not fill the"
            f" {spread.lanes} lanes evenly; access it as 2D blocks")
    return VectorType(kind.element_type, shape)
