"""Rule scatter-in-place: stores and atomics use the layout of their operands.

    %q = ttg.convert_layout %p          addresses that were computed from loaded numbers
    tt.atomic_rmw add %q, (cvt %x)
 -> tt.atomic_rmw add %p, %x

Triton distributes scattered stores and atomics one element per lane, as if neighbours could share a
message.  Since they cannot, that layout is not worth an exchange of 8-byte addresses through shared
local memory, with its barrier.  The result of an atomic is converted.

    tt.store %p, (cvt %x)  ->  tt.store %p, %x

Triton also does so if it does not know that addresses are aligned.  Messages do not need alignment:
they are as wide in the layout of the value, which was loaded as it is stored.  The conversion stays
if the program loads from the same tensor, because the exchange orders its loads before its stores.

    tt.store %p, (cvt %x : #xe.dpas)  ->  tt.store %p', %x

Addresses and masks of results of the matrix unit are recomputed in their layout.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, StoreOp
from triton_xe.lowering.facts.accesses import needed_mask, vector_width
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.facts.view import View, view_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.insert_barriers import base_of
from triton_xe.lowering.layouts.propagate_layouts import is_dpas
from triton_xe.lowering.layouts.rematerialize import (
    before_conversions,
    is_cheap,
    layout_attr_of,
    layout_of,
    rematerialize,
    replace_converted,
    with_encoding,
)

Scatter = StoreOp | AtomicRMWOp | AtomicCASOp


def scatter_in_place(op: Scatter, scope: Scope) -> None:
    """Store, and do atomics, in the layout of the operands."""
    encoding = _layout_of_addresses(op, scope.facts)
    if encoding is None and not isinstance(op, AtomicCASOp):
        encoding = _layout_of_value(op, scope)
    if encoding is not None:
        operands = [rematerialize(v, encoding, scope.made) for v in op.operands]
        replace_converted(op, with_encoding(op, encoding, InsertPoint.before(op), operands))


def _layout_of_addresses(op: Scatter, facts: Facts) -> Attribute | None:
    """The layout that the addresses are converted from, if all operands fit it."""
    addresses = before_conversions(op.ptr)
    if addresses is op.ptr or is_cheap(addresses):
        return None
    if any(run > 1 for run in facts.of(addresses).contiguity):
        return None
    encoding = layout_attr_of(addresses)
    fits = layout_of(addresses.type).is_injective and all(_has(v, encoding) for v in op.operands)
    return encoding if fits else None


def _layout_of_value(op: StoreOp | AtomicRMWOp, scope: Scope) -> Attribute | None:
    """The layout that the value is converted from, if a store in it takes no more messages.

    Results of the matrix unit keep their layout, whatever the number of messages.
    """
    given = op.value if isinstance(op, StoreOp) else op.val
    value = before_conversions(given)
    if value is given or not isinstance(value.type, TensorType):
        return None
    if is_dpas(value.type) and len(shape_of(value)) > 1 and all(
            is_cheap(v) for v in op.operands if v is not given):
        return layout_attr_of(value)
    if not isinstance(op, StoreOp) or base_of(op.ptr) in scope.loaded | {None}:
        return None
    encoding, layout = layout_attr_of(value), layout_of(value.type)
    addresses = [v for v in (op.ptr, op.mask) if v is not None]
    if not layout.is_injective or not all(_has(v, encoding) for v in addresses):
        return None
    here, there = (_messages(op, scope.facts, view_of(form))
                   for form in (layout, layout_of(op.value.type)))
    return encoding if here is not None and here <= (there or here) else None


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
