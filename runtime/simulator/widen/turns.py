"""Points where a subgroup yields to others.

These are barriers, loops that wait, and, for shuffled programs, accesses to memory that others can
observe.  The subgroup is a coroutine then.  The site of its suspension is the line of a barrier,
or, with `READY`, a point where it may continue before the others arrive.
"""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.intrinsics import Effect, Family, find
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.records import Instruction, Operand, constant
from triton_xe.llvm.types import I8, I32, I64, PTR, TOKEN, integer
from triton_xe.runtime.simulator.analysis.calls import is_barrier
from triton_xe.runtime.simulator.context import READY, Context
from triton_xe.runtime.simulator.widen.host_function import CTX, SG, SITES_AT
from triton_xe.runtime.simulator.widen.widener import Widener

_SLM, _PRIVATE = 3, 0
_SEEN = Effect.READS | Effect.WRITES


def suspend(w: Widener, i: Instruction, flags: int = 0) -> None:
    """Yield to others at an instruction."""
    b = w.b
    w.note_location(i)
    site = b.gep(I32, b.load(PTR, SITES_AT), SG)
    b.store(constant(I32, i.line - flags), site)
    after = b.label()
    state = b.call("llvm.coro.suspend", I8, [Operand(TOKEN, "none"), ir.FALSE])
    b.switch(state, "%coro.leave", [(0, after), (1, "%coro.cleanup")])
    b.start(after)
    w.b.resume()


def wait(w: Widener, polled: Instruction) -> None:
    """Yield to others before a waiting loop polls again."""
    suspend(w, polled, READY)


def write_before(w: Widener, i: Instruction) -> None:
    """Write code that precedes an instruction in a kernel that takes turns."""
    turns = w.kernel.schedule.turns
    if i in turns.takes or i in turns.after_waits or (turns.anywhere and _is_seen(i)):
        _take_turn(w, i)
    if _writes(i):
        count(w.b, constant(I64, 1))


def _is_seen(i: Instruction) -> bool:
    """True if others can observe an access, or change its result."""
    if i.opcode in ir.ACCESSES:
        return i.operands[i.opcode == "store"].type.space != _PRIVATE
    return i.opcode == "call" and not is_barrier(i) and bool(find(i.callee).effects & _SEEN)


def _writes(i: Instruction) -> bool:
    """True if an instruction changes global memory; atomics and helpers count their changes."""
    if i.opcode == "store":
        return i.operands[1].type.space not in (_PRIVATE, _SLM)
    known = find(i.callee)
    return (i.opcode == "call" and not is_barrier(i)
            and known.family not in (Family.HELPER, Family.SHADOW)
            and Effect.WRITES in known.effects)


def _take_turn(w: Widener, i: Instruction) -> None:
    """Yield once the accesses that the runner has granted are used up."""
    b = w.b
    at = b.at(CTX, Context.TURN.offset)
    left = b.sub(b.load(I64, at, volatile=True), constant(I64, 1))
    b.store(left, at)
    gives = b.icmp("eq", left, 0)
    if i in w.kernel.schedule.turns.after_waits:
        long = b.load(I64, b.at(CTX, Context.LONG.offset), volatile=True)
        gives = b.and_(gives, b.icmp("eq", long, 0))
    over, after = b.label(), b.label()
    b.cond_br(gives, over, after)
    b.start(over)
    taken = b.at(CTX, Context.TAKEN.offset)
    first = b.zext(b.icmp("eq", SG, 0), I64)
    b.store(b.add(b.load(I64, taken), first), taken)
    suspend(w, i, READY)
    b.br(after)
    b.start(after)


def count(b: Builder, changes: Operand) -> None:
    """Count stores that changed global memory."""
    at = b.at(CTX, Context.CHANGES.offset)
    b.store(b.add(b.load(I64, at, volatile=True), changes), at)


def count_atomic(b: Builder, i: Instruction, address: Operand, result: Operand) -> None:
    """Count an atomic if it changed the memory at a global address."""
    if i.operands[0].type.space == _SLM:
        return
    old = b.extract_value(result, 0) if i.opcode == "cmpxchg" else result
    bits = integer(8 * old.type.size)
    old = b.ptrtoint(old) if old.type.kind == "ptr" else b.bitcast(old, bits)
    now = b.load(bits, address, volatile=True)
    count(b, b.zext(b.icmp("ne", old, now), I64))
