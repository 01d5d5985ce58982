"""Inline polls as loops of the kernel, in which other programs can have their turn.

    %r = call i1 @poll(%a, %x, %t, %m)     pass:  %left = phi [%t, before], [%rest, pass]
                                                  %due = phi [%m, before], [%go, pass]
                                    ->            %had = phi [false, before], [%r, pass]
                                                  %met = call i1 @poll(%a, %x, 0, %due)
                                                  %r = or %had, %met
                                                  %go: due, not met, and time is left
                                                  any lane of %go: to pass, else after
"""

from __future__ import annotations

from dataclasses import replace

from triton_xe.intrinsics import find
from triton_xe.intrinsics.opencl import SUB_GROUP_ANY
from triton_xe.intrinsics.own import ATOMIC_POLL
from triton_xe.llvm import I1, I32, I64, Builder, Function, Instruction
from triton_xe.llvm.records import constant

TURN_NS = 10
"""Nanoseconds that a turn of such a loop counts for, as in the function itself."""


def loops_for_polls(function: Function) -> Function:
    """A copy of the function with its calls of polls inlined."""
    if not any(map(_is_poll, function.instructions())):
        return function
    made = replace(function, blocks=[])
    ends: dict[str, str] = {}
    """Label of a block -> label of the block at which it ends after splitting."""
    b = Builder(made, "xe.poll.")
    for block in function.blocks:
        b.start(block.label)
        for i in block.instructions:
            if _is_poll(i):
                _loop(b, i)
            else:
                b.append(replace(i))
        ends[block.label] = b.block.label
    own = {i.result for i in function.instructions()}
    for block in made.blocks:
        for phi in block.phis:
            if phi.result in own:
                phi.labels = [ends[x] for x in phi.labels]
    return made


def _is_poll(i: Instruction) -> bool:
    return i.opcode == "call" and find(i.callee) is ATOMIC_POLL


def _loop(b: Builder, call: Instruction) -> None:
    """Write a poll as a loop that ends when no lane waits, or all time is over."""
    address, expected, timeout, active = call.operands
    before, again, after = b.block.label, b.label("xe.pass"), b.label("xe.polled")
    b.br(again)
    b.start(again)
    left, due, had = b.phi(I64), b.phi(I1), b.phi(I1)
    asked = replace(call, operands=[address, expected, constant(I64, 0), due.value], result=None)
    met = b.emit(asked)
    assert call.result is not None
    b.append(Instruction("or", I1, [had.value, met], call.result))
    forever, rest = b.icmp("slt", left.value, 0), b.sub(left.value, constant(I64, TURN_NS))
    rest = b.select(b.icmp("slt", rest, 0), constant(I64, 0), rest)
    rest = b.select(forever, left.value, rest)
    go = b.and_(b.and_(due.value, b.not_(met)), b.icmp("ne", left.value, 0))
    any_goes = b.call(SUB_GROUP_ANY.symbol(I32, [I32]), I32, [b.zext(go, I32)])
    for phi, first, following in ((left, timeout, rest), (due, active, go),
                                  (had, constant(I1, 0), call.value)):
        b.add_incoming(phi, first, before)
        b.add_incoming(phi, following, again)
    b.cond_br(b.icmp("ne", any_goes, 0), again, after)
    for i in b.block.instructions:
        i.line, i.debug = call.line, call.debug
    b.start(after)
