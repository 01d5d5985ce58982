"""Write records of executed messages: five words per message and subgroup.

The words are the time in cycles, work-group << 32 | subgroup, the site, and two that depend on the
message.  These are x and y of a 2D block, or active lanes and cache lines of an access (for shared
memory: passes over its banks).
"""

from __future__ import annotations

from triton_xe.hardware.memory import SLM_BANKS
from triton_xe.llvm import I1, I32, I64, PTR, VOID, Function, vector
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Value
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer.functions import write
from triton_xe.runtime.simulator.sanitizer.records import Checks
from triton_xe.runtime.simulator.sanitizer.state import Word

RECORD_WORDS = 5
_SITE = (("ctx", PTR), ("sg", I32), ("site", I32))
RECORD = Routine(symbol("trace", "message"), VOID, (*_SITE, ("a", I64), ("b", I64)))


def record_lanes(lanes: int) -> Routine:
    return Routine(symbol("trace", "lanes", lanes), VOID, (
        *_SITE, ("addresses", vector(lanes, I64)), ("slm", I1), ("mask", vector(lanes, I1))))


def function(host: HostCpu, name: str, lanes: int = 0) -> list[Function]:
    """Functions of the trace by name: for a message, or for an access of `lanes` lanes."""
    return write(record_lanes(lanes), _lanes) if lanes else write(RECORD, _message)


def _message(w: Checks, ctx: Value, sg: Value, site: Value, a: Value, b: Value) -> None:
    """Append one record; beyond the end of the buffer it is only counted."""
    count = w.state[Word.TRACED]
    w.state[Word.TRACED] = count + 1
    with w.when(count < w.state[Word.TRACE_MOST]):
        record = w.state.follow(Word.TRACE).row(count, RECORD_WORDS)
        time = w.call("llvm.readcyclecounter", result=I64)
        who = w.ctx[Context.GROUP] << 32 | sg.to(I64)
        for k, value in enumerate((time, who, site, a, b)):
            record[k] = value


def _lanes(w: Checks, ctx: Value, sg: Value, site: Value, addresses: Value, slm: Value,
           mask: Value) -> None:
    """Record an access: the number of active lanes, and of cache lines or bank conflicts."""
    lanes = mask.type.count
    units = Memory(w, w.space(addresses.type))
    w.store(addresses >> w.select(slm, 2, 6), units.base)
    active = mask.bits.to(I64)
    many, different, most, firsts = (w.variable(0) for _ in range(4))
    with w.range(0, lanes) as k:
        mine, on = units[k], (active >> k).to(I1)
        again, same_bank = w.variable(0, I1), w.variable(1)
        with w.range(0, k) as j:
            other = units[j]
            equal = mine == other
            again.value |= (active >> j).to(I1) & equal
            bank = ~(mine ^ other).has(SLM_BANKS - 1)
            same_bank.value += ((firsts.value >> j).to(I1) & bank & ~equal).to(I64)
        fresh = on & ~again.value
        firsts.value |= fresh.to(I64) << k
        many.value += on.to(I64)
        different.value += fresh.to(I64)
        most.value = w.select(fresh, w.largest(most.value, same_bank.value), most.value)
    w.call(RECORD, ctx, sg, site, many.value, w.select(slm, most.value, different.value))
