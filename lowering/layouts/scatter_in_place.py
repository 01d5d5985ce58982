"""Pass scatter-in-place: stores and atomics use the layout of their operands.

    %q = ttg.convert_layout %p          addresses that were computed from loaded numbers
    tt.atomic_rmw add %q, (cvt %x)
 -> tt.atomic_rmw add %p, %x

Triton lays scattered stores and atomics out one element per lane, as if neighbours could share a
message.  They cannot, so that layout is not worth an exchange of 8-byte addresses through shared
local memory, with its barrier.  The result of an atomic is converted.

    tt.store %p, (cvt %x)  ->  tt.store %p, %x

Triton also does so if it does not know that addresses are aligned.  Messages do not need alignment:
they are as wide in the layout of the value, which was loaded as it is stored.  The conversion stays
if the program loads from the same tensor, because the exchange orders its loads before its stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.lowering.emit.tensors.memory import needed_mask, vector_width
from triton_xe.lowering.emit.tensors.view import View, view_of
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.insert_barriers import base_of
from triton_xe.lowering.layouts.rematerialize import (
    before_conversions,
    is_cheap,
    layout_attr_of,
    layout_of,
    rematerialize,
    replace_converted,
    with_encoding,
)
from triton_xe.lowering.rewriting import all_of, erase_dead, functions
from triton_xe.lowering.targeted_pass import TargetedPass

Scatter = StoreOp | AtomicRMWOp | AtomicCASOp


@dataclass(frozen=True)
class ScatterInPlacePass(TargetedPass):
    """Store, and do atomics, in the layout of the operands."""

    name: ClassVar = "scatter-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for scatter, encoding in list(_scatters(function, Facts())):
                _move(scatter, encoding)
            for store, encoding in list(_converted_stores(function, Facts())):
                _move(store, encoding)
            erase_dead(function)


def _scatters(function: Operation, facts: Facts) -> Iterator[tuple[Operation, Attribute]]:
    """Stores and atomics with the layout of their addresses' source, if all operands fit it."""
    scatters: list[Scatter] = all_of(function, StoreOp, AtomicRMWOp, AtomicCASOp)
    for op in scatters:
        addresses = before_conversions(op.ptr)
        if addresses is op.ptr or is_cheap(addresses):
            continue
        if any(run > 1 for run in facts.of(addresses).contiguity):
            continue
        encoding = layout_attr_of(addresses)
        if layout_of(addresses.type).is_injective and all(_has(v, encoding) for v in op.operands):
            yield op, encoding


def _converted_stores(
    function: Operation, facts: Facts
) -> Iterator[tuple[Operation, Attribute]]:
    """Stores of converted values, with the layout of the value if that takes no more messages."""
    loaded = {base_of(load.ptr) for load in all_of(function, LoadOp)}
    for op in all_of(function, StoreOp):
        if base_of(op.ptr) in loaded | {None}:
            continue
        value = before_conversions(op.value)
        if value is op.value or not isinstance(value.type, TensorType):
            continue
        encoding, layout = layout_attr_of(value), layout_of(value.type)
        addresses = [v for v in (op.ptr, op.mask) if v is not None]
        if not layout.is_injective or not all(_has(v, encoding) for v in addresses):
            continue
        here, there = (_messages(op, facts, view_of(form))
                       for form in (layout, layout_of(op.value.type)))
        if here is not None and here <= (there or here):
            yield op, encoding


def _messages(op: StoreOp, facts: Facts, view: View) -> int | None:
    """Number of messages of a store, if neighbouring lanes are neighbours in memory."""
    width, _ = vector_width(facts, op.ptr, needed_mask(op.mask), view)
    runs = facts.of(op.ptr).contiguity
    step = [(d, c) for d, c in enumerate(view.lanes[0]) if c]
    adjacent = len(step) == 1 and step[0][1] == width and runs[step[0][0]] > width
    return len(view.registers) // width if adjacent else None


def _has(value: SSAValue, encoding: Attribute) -> bool:
    """True if a value is available in a layout without an exchange."""
    made = before_conversions(value).type
    return is_cheap(value) or (isinstance(made, TensorType) and made.encoding == encoding)


def _move(op: Operation, encoding: Attribute) -> None:
    """Move the operation to another layout; users of its results see the old one."""
    made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
    operands = [rematerialize(v, encoding, made) for v in op.operands]
    replace_converted(op, with_encoding(op, encoding, InsertPoint.before(op), operands))
