"""DPAS that follow each other become calls that keep their accumulators in host registers.

Within a run of DPAS calls only the accumulators are written, each in memory of its own, so calls
on different accumulators may change places.  Those on one accumulator stay in their order, which
is what the sum depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from triton_xe.hardware import dpas
from triton_xe.hardware.memory import CACHE_LINE_BYTES
from triton_xe.runtime.simulator.analysis.tile_tables import READ_NOW
from triton_xe.runtime.simulator.library.names import dpas_name, dpas_rows_ahead
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.widener import Widener

MAX_STEPS = 2
"""DPAS on one accumulator per call: more would only make the library larger."""
_PURE = re.compile(r"%\S+ = (?!(?:load|call|tail|cmpxchg|atomicrmw|va_arg)\b)\w+ ")


@dataclass(frozen=True)
class Dpas:
    """One DPAS on memory: host pointers of the accumulator and the prepared operands."""

    shape: dpas.Dpas
    accumulator: str
    slot: str
    a: str
    b: str


@dataclass(frozen=True)
class Ahead:
    """Where a block read will read next: host integers, and how many rows."""

    start: str
    pitch: str
    rows: int


@dataclass(frozen=True)
class _Chain:
    """The DPAS of a run that update one accumulator, in order."""

    slot: str
    a: tuple[str, ...]
    b: tuple[str, ...]


@dataclass(frozen=True)
class _Call:
    """A call of a library function; `like` is one of its DPAS."""

    like: Dpas
    form: str
    steps: int
    pointers: tuple[str, ...]

    @property
    def rows_ahead(self) -> int:
        """Rows it can read ahead."""
        return dpas_rows_ahead(self.like.shape, self.steps)


def note_dpas(w: Widener, one: Dpas) -> None:
    """Emit a DPAS alone; `group_dpas` may merge it with its neighbours."""
    _call(w, _Call(one, "one", 1, (one.slot, one.a, one.b)))
    w.dpas_lines[w.block.lines[-1]] = one


def group_dpas(w: Widener) -> None:
    """Merge the DPAS calls of the current block, run by run."""
    lines, w.block.lines = w.block.lines, []
    run: list[Dpas] = []
    ahead: list[Ahead] = []
    for line in lines:
        one = w.dpas_lines.get(line)
        like = run[0] if run else one
        if one is None:
            ends = bool(run) and not _may_precede(w, line, run)
        else:
            ends = like is not None and (one.shape, one.accumulator) != (
                like.shape, like.accumulator
            )
        if ends:
            _emit_run(w, run, ahead)
            run, ahead = [], []
        if one is not None:
            run.append(one)
            continue
        w.block.lines.append(line)
        if line in w.reads_ahead:
            ahead.append(w.reads_ahead[line])
    _emit_run(w, run, ahead)


def _may_precede(w: Widener, line: str, run: list[Dpas]) -> bool:
    """Whether a line that follows the DPAS of a run does the same before them."""
    if _PURE.match(line) or line in w.own_memory:
        return True
    slot = w.slot_stores.get(line)
    return slot is not None and all(one.slot != slot for one in run)


def note_read(w: Widener, surface: tuple[str, ...], rows: int, element: int) -> None:
    """Work out where a block read of a loop will read next: as far on as it came since last time.

    `surface` is base, width - 1, height - 1, pitch - 1, x, y; `element` is in bytes.
    """
    if not w.in_loop:
        return
    base, _, _, pitch, x, y = surface
    wide = [w.emit(f"{kind} i32 {text} to i64")
            for kind, text in (("zext", pitch), ("sext", x), ("sext", y))]
    full = w.emit(f"add i64 {wide[0]}, 1")
    down = w.emit(f"mul i64 {wide[2]}, {full}")
    across = w.emit(f"mul i64 {wide[1]}, {element}")
    start = w.emit(f"add i64 {base}, {down}")
    here = w.emit(f"add i64 {start}, {across}")
    w.reads_ahead[w.block.lines[-1]] = Ahead(_next_place(w, here), full, rows)


def _next_place(w: Widener, here: str) -> str:
    """As far on from `here` as that is from where the last pass of the loop was."""
    last = w.temporary(8)
    w.entry.append(f"store i64 0, ptr {last}")
    before = w.emit(f"load i64, ptr {last}")
    w.do(f"store i64 {here}, ptr {last}")
    first = w.emit(f"icmp eq i64 {before}, 0")
    since = w.emit(f"select i1 {first}, i64 {here}, i64 {before}")
    step = w.emit(f"sub i64 {here}, {since}")
    return w.emit(f"add i64 {here}, {step}")


def note_tile(w: Widener, head: str, tile: str, tile_bytes: int) -> None:
    """After a read through a table: where it found its tile, the next one of the table follows."""
    was = w.reads_ahead.pop(next(x for x in reversed(w.block.lines) if x in w.reads_ahead))
    now = w.emit(f"icmp ne i64 {w.emit(f'load i64, ptr {w.at(head, READ_NOW)}')}, 0")
    here = w.emit(f"ptrtoint ptr {tile} to i64")
    next_tile = w.emit(f"add i64 {here}, {tile_bytes}")
    pitch = w.emit(f"select i1 {now}, i64 {was.pitch}, i64 {CACHE_LINE_BYTES}")
    start = w.emit(f"select i1 {now}, i64 {was.start}, i64 {next_tile}")
    rows = max(was.rows, tile_bytes // CACHE_LINE_BYTES)
    w.reads_ahead[w.block.lines[-1]] = Ahead(start, pitch, rows)


def _emit_run(w: Widener, run: list[Dpas], ahead: list[Ahead]) -> None:
    if not run:
        return
    calls = list(_calls(run))
    pieces = list(_pieces(ahead, min(c.rows_ahead for c in calls)))
    for k, call in enumerate(calls):
        due = pieces[k * len(pieces) // len(calls) : (k + 1) * len(pieces) // len(calls)]
        for start, pitch, row in due[:1]:
            skip = w.emit(f"mul i64 {pitch}, {row}")
            _call(w, call, (w.emit(f"add i64 {start}, {skip}"), pitch))
        if not due:
            _call(w, call)


def _pieces(reads: list[Ahead], rows: int) -> Iterator[tuple[str, str, int]]:
    for read in reads:
        for row in range(0, read.rows, rows):
            yield read.start, read.pitch, row


def _calls(run: list[Dpas]) -> Iterator[_Call]:
    steps = MAX_STEPS if run[0].accumulator in ("float", "i32") else 1
    for form, chains in _pairs(_chains(run), run[0]):
        for first in range(0, len(chains[0].a), steps):
            part = range(first, min(first + steps, len(chains[0].a)))
            pointers = [chain.slot for chain in chains]
            for k in part:
                pointers += dict.fromkeys(chain.a[k] for chain in chains)
                pointers += dict.fromkeys(chain.b[k] for chain in chains)
            yield _Call(run[0], form, len(part), tuple(pointers))


def _call(w: Widener, call: _Call, ahead: tuple[str, str] | None = None) -> None:
    like = call.like
    name = dpas_name(like.shape, like.accumulator, call.form, call.steps, bool(ahead))
    w.call_helper(name, "void", [*(f"ptr {p}" for p in call.pointers),
                                 *(f"i64 {n}" for n in ahead or ())])


def _chains(run: list[Dpas]) -> list[_Chain]:
    found: dict[str, list[Dpas]] = {}
    for one in run:
        found.setdefault(one.slot, []).append(one)
    return [
        _Chain(slot, tuple(x.a for x in chain), tuple(x.b for x in chain))
        for slot, chain in found.items()
    ]


def _pairs(chains: list[_Chain], like: Dpas) -> Iterator[tuple[str, tuple[_Chain, ...]]]:
    """Chains two by two where they share an operand and the host has the registers."""
    alone = host_cpu().vector_bytes < 64 or like.accumulator not in ("float", "i32")
    waiting = list(chains)
    while waiting:
        chain = waiting.pop(0)
        for form in () if alone else ("wide", "tall"):
            other = next((c for c in waiting if _fit(form, chain, c)), None)
            if other is not None:
                waiting.remove(other)
                yield form, (chain, other)
                break
        else:
            yield "one", (chain,)


def _fit(form: str, one: _Chain, other: _Chain) -> bool:
    """Whether two accumulators share A, or B, in every step, and the other operand in none."""
    if len(one.a) != len(other.a):
        return False
    same, different = (one.a, other.a), (one.b, other.b)
    if form == "tall":
        same, different = different, same
    return same[0] == same[1] and all(
        x != y for x, y in zip(*different, strict=True)
    )
