"""Lower tt.call by inlining the callee.

`noinline` is ignored, because calls on Xe GPUs use a stack in memory.  Also, the kernel's plan must
see barriers and exchanges through shared local memory inside a callee.
"""

from __future__ import annotations

from triton_xe.dialects.tt.structure import CallOp, FuncOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.control import Frame, write_blocks
from triton_xe.lowering.emit.emitter import Emitter, flatten, lowers
from triton_xe.lowering.rewriting import functions


def callee_of(em: Emitter, op: CallOp) -> FuncOp:
    """The function that is called."""
    for function in functions(em.state.module):
        if function.sym_name.data == op.callee_name:
            return function
    raise UnsupportedError(f"a call of {op.callee_name}, which has no body in this module")


@lowers(CallOp)
def lower_call(em: Emitter, op: CallOp) -> None:
    callee = callee_of(em, op)
    name = callee.sym_name.data
    if any(frame.name == name for frame in em.frames):
        raise UnsupportedError(
            f"{name} calls itself; Triton functions must not be recursive on Xe GPUs: use a loop"
        )
    for arg, value in zip(callee.body.blocks[0].args, op.arguments, strict=True):
        parts, rebuild = flatten(em, em.get(value))
        em.bind(arg, rebuild(parts))
    frame = Frame(name)
    em.frames.append(frame)
    caller, em.source = em.source, callee
    write_blocks(em, callee.body)
    em.source = caller
    em.frames.pop()
    for result, value in zip(op.res, frame.results(em), strict=True):
        em.bind(result, value)
