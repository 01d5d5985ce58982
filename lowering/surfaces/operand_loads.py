"""The loads that an operand of a dot is computed from, element by element."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, SSAValue

from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.lowering.layouts.repeats import element_sources


def operand_loads(operand: SSAValue) -> Iterator[LoadOp]:
    """Yield loads of weights, scales and zero points; for repeated values, their load once."""
    work, seen = [operand], set[SSAValue]()
    while work:
        value = work.pop()
        op = value.owner
        if value in seen or isinstance(op, Block):
            continue
        seen.add(value)
        if isinstance(op, LoadOp):
            yield op
        else:
            work += element_sources(value) or []
