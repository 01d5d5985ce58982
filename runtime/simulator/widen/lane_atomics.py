"""Atomics that helpers do lane by lane, checked for all lanes of a subgroup at once.

Where the check of all lanes finds nothing to say, the lanes run a helper without checks, and what
they read and wrote is told afterwards, in one call.  Else each lane is checked on its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triton_xe.intrinsics import Family, find
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.ir import Function, Instruction
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.instrument import (
    ATOMIC_HELPER,
    helper_does,
    local_scope,
    order_of,
)
from triton_xe.runtime.simulator.sanitizer.records import READS, WRITES
from triton_xe.runtime.simulator.sanitizer.state import Kind, Order, Word

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.widen.widener import Widener

_ATOMIC = ("atomicrmw", "cmpxchg")
_ACCESSES = ("load", "store", *_ATOMIC)
_RELEASES = Order.RELEASE | Order.BOTH | Order.SEQUENTIAL
_SWAP = re.compile(r"^\s*(?P<result>%\S+) = cmpxchg ")


@dataclass(frozen=True)
class LaneAtomic:
    """What a helper does in each active lane, at the address that is its first argument."""

    size: int
    kind: int
    does: int
    """`READS` and `WRITES`; of a compare-and-swap, what it does when it succeeds."""
    swaps: bool


def lane_atomic(helper: Function) -> LaneAtomic | None:
    """None for helpers that do something else, or more, or have an ordering of their own."""
    accesses = [i for i in helper.instructions() if i.opcode in _ACCESSES]
    atomics = [i for i in accesses if i.opcode in _ATOMIC]
    if not helper.name.startswith(ATOMIC_HELPER) or not atomics:
        return None
    if not _in_active_lanes(helper) or any(i.opcode == "call" for i in helper.instructions()):
        return None
    swaps = any(i.opcode == "cmpxchg" for i in atomics)
    pointers = {i.operands[0].local for i in accesses}
    scopes = {local_scope(i) for i in atomics}
    sizes = {(i.type if i.opcode in ("load", "atomicrmw") else i.operands[1].type).size
             for i in accesses}
    plain = [i for i in accesses if i.opcode == "store" or (i.opcode == "load" and not swaps)]
    same = len(pointers) == len(scopes) == len(sizes) == 1
    if plain or not same or any(order_of(i) for i in atomics):
        return None
    does = helper_does(helper)
    kind = Kind.ATOMIC | scopes.pop() | (Kind.WRITE if does & WRITES else 0)
    return LaneAtomic(sizes.pop(), kind, does, swaps)


def _in_active_lanes(helper: Function) -> bool:
    """Whether just those lanes access their first argument whose last argument is true."""
    names, types = zip(*helper.parameters, strict=True)
    entry, *rest = helper.blocks
    branch = entry.instructions[-1]
    if types[0] != ir.I64 or types[-1] != ir.I1 or branch.opcode != "br" or not branch.operands:
        return False
    if branch.operands[0].local != names[-1]:
        return False
    found = {b.label: [i for i in b.instructions if i.opcode in _ACCESSES] for b in rest}
    active, idle = branch.labels
    casts = {i.result for i in helper.instructions()
             if i.opcode == "inttoptr" and i.operands[0].local == names[0]}
    addresses = {i.operands[0].local for accesses in found.values() for i in accesses}
    direct = all(i.opcode not in _ACCESSES for i in entry.instructions) and addresses <= casts
    return direct and bool(found.get(active)) and not found.get(idle)


def told_text(body: str) -> str:
    """The body of a helper that also notes what its compare-and-swap did."""
    lines: list[str] = []
    for text in body.split("\n"):
        lines.append(text)
        found = _SWAP.match(text)
        if found is not None:
            lines += _told(found["result"], text, len(lines))
    return "\n".join(lines)


def _told(pair: str, text: str, n: int) -> list[str]:
    t = "{ " + re.findall(r", (i\d+) ", text)[0] + ", i1 }"
    return [
        f"  %xe.met{n} = extractvalue {t} {pair}, 1",
        f"  %xe.did{n} = select i1 %xe.met{n}, i8 {READS | WRITES}, i8 {READS}",
        f"  %xe.w{n} = getelementptr i8, ptr %ctx, i64 {8 * checks.STATE_WORD}",
        f"  %xe.s{n} = load ptr, ptr %xe.w{n}",
        f"  %xe.d{n} = getelementptr i64, ptr %xe.s{n}, i64 {int(Word.DID)}",
        f"  %xe.l{n} = getelementptr i8, ptr %xe.d{n}, i32 %lane",
        f"  %xe.b{n} = load i8, ptr %xe.l{n}",
        f"  %xe.o{n} = or i8 %xe.b{n}, %xe.did{n}",
        f"  store i8 %xe.o{n}, ptr %xe.l{n}",
    ]


def tried(w: Widener, i: Instruction, atomic: LaneAtomic) -> str:
    """Whether no lane of a call of a helper is at fault; then the accesses are noted."""
    plan, s = w.context.sanitizer, w.lanes
    assert plan is not None
    entry = plan.entry(w.function, i.operands[0])
    addresses, lanes = w.wide_of(i.operands[0]), w.wide_of(i.operands[-1])
    if atomic.swaps and plan.releases:
        w.do(f"store <{s} x i8> zeroinitializer, ptr {_state(w, Word.DID)}")
    return w.call_helper(checks.try_lanes_name(s), "i1", [
        "ptr %ctx", "i32 %sg", f"i32 {i.line}", f"i64 {entry}", f"<{s} x i64> {addresses}",
        f"i64 {atomic.size}", f"i64 {atomic.kind | atomic.size << 8}", f"<{s} x i1> {lanes}"])


def tell(w: Widener, i: Instruction, atomic: LaneAtomic, good: str) -> None:
    """What the lanes of a call of a helper without checks did."""
    plan, s = w.context.sanitizer, w.lanes
    assert plan is not None
    if not plan.releases or atomic.kind & Kind.LOCAL:
        return
    lanes = w.emit(f"select i1 {good}, <{s} x i1> {w.wide_of(i.operands[-1])}, "
                   f"<{s} x i1> zeroinitializer")
    told = 0 if atomic.swaps and atomic.does == READS | WRITES else atomic.does
    w.call_helper(checks.sync_lanes_name(s), "void", [
        "ptr %ctx", "i32 %sg", f"<{s} x i64> {w.wide_of(i.operands[0])}", f"<{s} x i1> {lanes}",
        f"i32 {told}"])


def _state(w: Widener, word: Word) -> str:
    state = w.emit(f"load ptr, ptr {w.at('%ctx', 8 * checks.STATE_WORD)}")
    return w.at(state, 8 * word)


def releases(function: Function) -> bool:
    """Whether a function can release anything to other work-groups."""
    return any(_releases(i) for i in function.instructions())


def _releases(i: Instruction) -> bool:
    if i.opcode in _ATOMIC:
        return bool(order_of(i) & _RELEASES)
    known = find(i.callee)
    if i.opcode != "call" or known.family not in (Family.FENCE, Family.ATOMIC):
        return False
    semantics = argument(i, "semantics").integer_value() if known.has("semantics") else None
    return semantics is None or bool(semantics & _RELEASES)


__all__ = ["LaneAtomic", "lane_atomic", "releases", "tell", "told_text", "tried"]
