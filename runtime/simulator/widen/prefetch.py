"""Prefetch the memory that the next program will access.

Programs run in the order of their numbers.  The address that the next program will access is
computed again, by the same operations, from the next number.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_xe.hardware.memory import CACHE_LINE_BYTES
from triton_xe.llvm.records import BINARY, CASTS, Operand, constant
from triton_xe.llvm.types import I32, VOID
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.widener import Widener

_SECOND_LEVEL = 2
"""Cache level of prefetches, because the current program's data fill the first level.

On AMD's CPUs (measured: Zen 4) a prefetch for a store brings lines into the first level all the
same.  One for a load does not: layer norm of 16 MB went from 15 to 22 GB/s.
"""
_DEEPEST = 50
"""Longest chain of operations that is computed again."""
_COMPUTED = BINARY - set("sdiv udiv srem urem".split()) | CASTS | frozenset(
    "icmp select freeze getelementptr extractelement insertelement shufflevector".split())


class Unknown(Exception):
    """The value depends on more than arguments and program numbers, or on a quotient of these."""


def prefetch_next(
    w: Widener, start: Operand, parts: Iterable[tuple[int, int]], *, write: bool
) -> None:
    """Prefetch the memory of the next program that corresponds to an access of this one.

    `parts`: offset from `start`, and bytes, of each accessed part.  Accesses in loops are left to
    the host's own prefetching.
    """
    plan = w.kernel.plan
    if w.b.here.in_loop or (plan is not None and plan.trace):
        return
    try:
        there = _following(w, start, 0)
    except Unknown:
        return
    if there == start:
        return
    owned = write and not host_cpu().is_amd
    lines = {byte // CACHE_LINE_BYTES for first, size in parts
             for byte in (*range(first, first + size, CACHE_LINE_BYTES), first + size - 1)}
    for line in sorted(lines):
        w.b.call("llvm.prefetch.p0", VOID, [
            w.b.at(there, line * CACHE_LINE_BYTES), constant(I32, int(owned)),
            constant(I32, _SECOND_LEVEL), constant(I32, 1)])


def _following(w: Widener, x: Operand, depth: int) -> Operand:
    """A host value in the next program; itself if it is equal there."""
    if x.local is None:
        return x
    b, i, key = w.b, w.b.makers.get(x.text), (w.b.here.label, x.text)
    if key in b.following:
        return b.following[key]
    found = x
    if x.text in b.program_ids:
        is_next = b.program_ids[x.text] == min(b.program_ids.values())
        found = b.add(x, 1) if is_next else x
    elif i is not None and not b.is_argument(i):
        if depth > _DEEPEST or i.opcode not in _COMPUTED:
            raise Unknown
        operands = [_following(w, o, depth + 1) for o in i.operands]
        found = x if operands == i.operands else b.emit(i.with_operands(operands))
    b.following[key] = found
    return found
