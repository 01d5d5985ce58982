"""Notes of executed messages: one record of five words per message and subgroup.

Words: time (cycles), work-group << 32 | subgroup, site, and two that depend on the message: x and y
of a 2D block, or active lanes and cache lines (shared memory: passes over its banks) of an access.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from triton_xe.hardware.memory import SLM_BANKS
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer.state import (
    GROUP_WORD,
    I1,
    I32,
    I64,
    SITE_ARGUMENTS,
    Text,
    Word,
    Writer,
)

RECORD_WORDS = 5
NOTE = "xe_trace_note"
PATTERN = r"xe_trace_(note|lanes_\d+)"


def lanes_name(lanes: int) -> str:
    return f"xe_trace_lanes_{lanes}"


def function(host: HostCpu, name: str) -> Text:
    """The module of `xe_trace_<name>`."""
    return _note() if name == "note" else _lanes(int(name.removeprefix("lanes_")))


def _note() -> Text:
    """Append one record; past the end of the buffer it is only counted."""
    w = Writer(NOTE, ir.VoidType(), [*SITE_ARGUMENTS, ("a", I64), ("b", I64)])
    b, state = w.b, w.state()
    count = w.word(state, Word.TRACED)
    w.set_word(state, Word.TRACED, b.add(count, I64(1)))
    with b.if_then(b.icmp_unsigned("<", count, w.word(state, Word.TRACE_MOST))):
        at = b.gep(w.pointer(state, Word.TRACE), [b.mul(count, I64(RECORD_WORDS))],
                   source_etype=I64)
        time = w.call("llvm.readcyclecounter", I64, [])
        group = b.shl(w.word(w["ctx"], GROUP_WORD), I64(32))
        who = b.or_(group, b.zext(w["sg"], I64))
        for k, value in enumerate((time, who, b.zext(w["site"], I64), w["a"], w["b"])):
            w.set_word(at, k, value)
    b.ret_void()
    return w.text(), ()


def _lanes(lanes: int) -> Text:
    """An access of every active lane: how many there are, and what memory makes of them."""
    vector, masks = ir.VectorType(I64, lanes), ir.VectorType(I1, lanes)
    w = Writer(lanes_name(lanes), ir.VoidType(), [
        *SITE_ARGUMENTS, ("addresses", vector), ("slm", I1), ("mask", masks)])
    b = w.b
    memory, bits = w.space(vector), b.zext(b.bitcast(w["mask"], ir.IntType(lanes)), I64)
    shift = b.select(w["slm"], I64(2), I64(6))
    spread = ir.Constant(vector, ir.Undefined)
    for k in range(lanes):
        spread = b.insert_element(spread, shift, I32(k))
    b.store(b.lshr(w["addresses"], spread), memory)
    active, units, most, firsts = (w.variable(I64(0)) for _ in range(4))
    with w.loop(I64(0), I64(lanes)) as k:
        mine = w.word(memory, k)
        on = b.trunc(b.lshr(bits, k), I1)
        again, same_bank = w.variable(I1(0)), w.variable(I64(1))
        b.store(I1(0), again)
        b.store(I64(1), same_bank)
        with w.loop(I64(0), k) as j:
            other = w.word(memory, j)
            both = b.trunc(b.lshr(bits, j), I1)
            equal = b.icmp_unsigned("==", mine, other)
            b.store(b.or_(w.get(again), b.and_(both, equal)), again)
            bank = b.icmp_unsigned("==", b.and_(b.xor(mine, other), I64(SLM_BANKS - 1)), I64(0))
            first = b.trunc(b.lshr(w.get(firsts), j), I1)
            clash = b.and_(first, b.and_(bank, b.not_(equal)))
            b.store(b.add(w.get(same_bank), b.zext(clash, I64)), same_bank)
        fresh = b.and_(on, b.not_(w.get(again)))
        b.store(b.or_(w.get(firsts), b.shl(b.zext(fresh, I64), k)), firsts)
        b.store(b.add(w.get(active), b.zext(on, I64)), active)
        b.store(b.add(w.get(units), b.zext(fresh, I64)), units)
        passes = _larger(b, w.get(most), w.get(same_bank))
        b.store(b.select(fresh, passes, w.get(most)), most)
    second = b.select(w["slm"], w.get(most), w.get(units))
    w.call(NOTE, ir.VoidType(), [w["ctx"], w["sg"], w["site"], w.get(active), second])
    b.ret_void()
    return w.text(), (NOTE,)


def _larger(b: Any, x: Any, y: Any) -> Any:
    return b.select(b.icmp_unsigned(">", x, y), x, y)


__all__ = ["NOTE", "PATTERN", "RECORD_WORDS", "function", "lanes_name"]
