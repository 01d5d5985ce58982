"""Lowering of tt.call: the callee is written at the place of the call.

Xe GPUs run calls through a stack in memory, and a barrier or an exchange through shared local
memory inside a callee needs to be seen by the kernel's plan, so `noinline` is not followed.
"""

from __future__ import annotations

from xdsl.ir import Operation

from triton_xe.dialects.tt.structure import CallOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.control import Frame, write_blocks
from triton_xe.lowering.emit.emitter import Emitter, flatten, lowers
from triton_xe.lowering.rewriting import functions
from triton_xe.lowering.surfaces.affine import attribute


def callee_of(em: Emitter, op: Operation) -> Operation:
    """The function that is called."""
    name = op.callee_name  # type: ignore[attr-defined]
    for function in functions(em.state.module):
        if attribute(function, "sym_name").data == name:
            return function
    raise UnsupportedError(f"a call of {name}, which has no body in this module")


@lowers(CallOp)
def lower_call(em: Emitter, op: CallOp) -> None:
    callee = callee_of(em, op)
    name = attribute(callee, "sym_name").data
    if any(frame.name == name for frame in em.frames):
        raise UnsupportedError(
            f"{name} calls itself; Triton functions must not be recursive on Xe GPUs: use a loop"
        )
    region = callee.regions[0]
    for arg, value in zip(region.blocks[0].args, op.operands, strict=True):
        held = em.get(value)
        parts, rebuild = flatten(em, held)
        em.bind(arg, rebuild(parts))
    frame = Frame(name)
    em.frames.append(frame)
    caller, em.source = em.source, callee
    write_blocks(em, region)
    em.source = caller
    em.frames.pop()
    for result, value in zip(op.results, frame.results(em), strict=True):
        em.bind(result, value)
