"""Pass scatter-in-place: scattered stores and atomics work in the layout of their addresses.

    %q = ttg.convert_layout %p          addresses that were computed from loaded numbers
    tt.atomic_rmw add %q, (cvt %x)
 -> tt.atomic_rmw add %p, %x

Triton lays scattered stores and atomics out one element per lane, whatever their operands have, as
if neighbours could share a message.  They cannot, so that layout is worth no exchange of addresses
of 8 bytes through shared local memory, with its barrier.  What an atomic returns is converted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, StoreOp
from triton_xe.lowering.layouts.rematerialize import (
    before_conversions,
    is_cheap,
    layout_held,
    layout_of,
    rematerialize,
    replace_converted,
    with_encoding,
)
from triton_xe.lowering.rewriting import all_of, erase_dead, functions
from triton_xe.lowering.surfaces.axis_info import AxisAnalysis
from triton_xe.lowering.targeted_pass import TargetedPass

Scatter = StoreOp | AtomicRMWOp | AtomicCASOp


@dataclass(frozen=True)
class ScatterInPlacePass(TargetedPass):
    """Scattered stores and atomics work in the layout of their addresses."""

    name: ClassVar = "scatter-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for scatter, encoding in list(_scatters(function, AxisAnalysis())):
                _move(scatter, encoding)
            erase_dead(function)


def _scatters(function: Operation, facts: AxisAnalysis) -> Iterator[tuple[Operation, Attribute]]:
    """Stores and atomics with the layout that their addresses come from, if all can have it."""
    scatters: list[Scatter] = all_of(function, StoreOp, AtomicRMWOp, AtomicCASOp)
    for op in scatters:
        addresses = before_conversions(op.ptr)
        if addresses is op.ptr or is_cheap(addresses):
            continue
        if any(run > 1 for run in facts.info(addresses).contiguity):
            continue
        encoding = layout_held(addresses)
        if layout_of(addresses.type).is_injective and all(_has(v, encoding) for v in op.operands):
            yield op, encoding


def _has(value: SSAValue, encoding: Attribute) -> bool:
    """Whether a value is had in a layout without an exchange."""
    made = before_conversions(value).type
    return is_cheap(value) or (isinstance(made, TensorType) and made.encoding == encoding)


def _move(op: Operation, encoding: Attribute) -> None:
    """The operation in another layout; users of its results see the old one."""
    made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
    operands = [rematerialize(v, encoding, made) for v in op.operands]
    replace_converted(op, with_encoding(op, encoding, InsertPoint.before(op), operands))
