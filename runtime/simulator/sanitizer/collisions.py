"""Elements of one store of a tensor that go to one address, with different values.

Which of them stays is not defined.  Elements of different warps race; those of one warp are read
back when all are stored: what is not there any more was overwritten by another one.
"""

from __future__ import annotations

from triton_xe.intrinsics import Family, find, genisa
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.instrument import first_address, lane_flags
from triton_xe.runtime.simulator.widen.accesses import load_value
from triton_xe.runtime.simulator.widen.parts import Stored
from triton_xe.runtime.simulator.widen.values import contiguous_start
from triton_xe.runtime.simulator.widen.widener import CTX, SG, Widener


def goes_on(w: Widener, i: Instruction) -> bool:
    """Whether an instruction leaves what was stored as it is, or is of the same tensor."""
    first = w.stored[0].instruction
    if i.opcode == "store" or find(i.callee) is genisa.PREDICATED_STORE:
        return first.first and not i.first and i.debug == first.debug
    return i.is_pure or i.shadow or find(i.callee).family is Family.SHADOW


def read_back(w: Widener, following: Instruction) -> None:
    """Compare what was stored with what is there, before an instruction that is no part of it."""
    if not w.stored or goes_on(w, following):
        return
    stored, w.stored = w.stored, []
    alone = len(stored) == 1
    for s in stored:
        t = s.value.type
        if not (alone and contiguous_start(s.address, t.size) is not None):
            _compare(w, s)


def _compare(w: Widener, s: Stored) -> None:
    b, t = w.b, s.value.type
    found = w.wide(load_value(w, s.address, t, s.mask, s.value))
    bits = ir.like(t.lanes * w.lanes, ir.integer(8 * t.scalar.size))
    odd = b.icmp("ne", b.bitcast(found, bits), b.bitcast(w.wide(s.value), bits))
    bad = lane_flags(w, odd, t.lanes)
    if s.mask is not None:
        bad = b.and_(bad, lane_flags(w, w.mask(s.mask), 1))
    bad = b.select(s.fine, bad, 0)
    at = first_address(w, bad, s.address, odd, t)
    w.note_location(s.instruction)
    b.invoke(checks.COLLISION, CTX, SG, s.instruction.line, bad, at,
             t.scalar.size)
