"""Merge consecutive DPAS into calls that keep their accumulators in host registers.

Within a run of DPAS calls only the accumulators are written, each in memory of its own.  Therefore
calls on different accumulators may be reordered.  Those on one accumulator keep their order, on
which the sum depends.  Operands are read and prepared before the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from triton_xe.llvm import I64, VOID, Block, Instruction, Operand, constant
from triton_xe.runtime.simulator.analysis.frame_memory import FrameMemory
from triton_xe.runtime.simulator.library.names import dpas_passes, dpas_symbol
from triton_xe.runtime.simulator.widen.host_function import CTX
from triton_xe.runtime.simulator.widen.parts import Dpas, PredictedRead
from triton_xe.runtime.simulator.widen.widener import Widener

MAX_STEPS = 2
"""Largest number of DPAS on one accumulator per call, to keep the library small."""
_ROWS_PER_PASS = (2, 4)
"""Numbers of rows that each pass of a call may prefetch for later block reads."""


@dataclass(frozen=True)
class _Call:
    """A call of a library function; `like` is one of the DPAS that it computes."""

    like: Dpas
    steps: int
    pointers: tuple[Operand, ...]

    @property
    def passes(self) -> int:
        """Number of passes, each of which can prefetch some rows."""
        return dpas_passes(self.like.shape, self.steps)


@dataclass
class _Run:
    """DPAS without anything between them that must stay there, and the arrays that they access."""

    memory: FrameMemory
    products: list[Dpas] = field(default_factory=list)
    written: set[str | None] = field(default_factory=set)
    read: set[str | None] = field(default_factory=set)

    def append(self, one: Dpas) -> None:
        self.products.append(one)
        self.written.add(self.memory.array(one.slot))
        self.read |= {self.memory.array(one.a), self.memory.array(one.b)}

    def may_move_after(self, i: Instruction) -> bool:
        """True if all of the run may be moved after an instruction that follows it."""
        return i.is_pure or self.memory.is_independent(i, self.written, self.read)


def emit_dpas(w: Widener, one: Dpas) -> None:
    """Emit a DPAS alone; `group_dpas` may merge it with its neighbours."""
    _call(w, _Call(one, 1, (one.slot, one.a, one.b)))
    w.matrices.calls[_last(w)] = one


def _last(w: Widener) -> Instruction:
    return w.b.block.instructions[-1]


def group_dpas(w: Widener, blocks: Sequence[Block]) -> None:
    """Merge the DPAS calls of the host blocks of one source block, run by run."""
    m = w.matrices
    if not any(i in m.calls for block in blocks for i in block.instructions):
        return
    memory = FrameMemory(w.b.frame, blocks, (CTX,))
    run = _Run(memory)
    ahead: list[PredictedRead] = []
    for block in blocks:
        instructions, block.instructions = block.instructions, []
        w.b.block = block
        for i in instructions:
            one = m.calls.get(i)
            if run.products and not (run.may_move_after(i) if one is None
                                     else _has_same_function(one, run.products[0])):
                _emit_run(w, run.products, ahead)
                run, ahead = _Run(memory), []
            if one is not None:
                run.append(one)
                continue
            block.instructions.append(i)
            if i in m.predicted_reads:
                ahead.append(m.predicted_reads[i])
    _emit_run(w, run.products, ahead)


def _has_same_function(one: Dpas, other: Dpas) -> bool:
    """True if the same function computes both DPAS."""
    return one.shape == other.shape and one.accumulator == other.accumulator


def predict_read(w: Widener, surface: tuple[Operand, ...], rows: int, element: int) -> None:
    """Predict where a block read of a loop will read next, from its last step.

    `surface` is base, width - 1, height - 1, pitch - 1, x, y; `element` is in bytes.
    """
    if not w.b.here.repeats_dpas:
        return
    base, _, _, pitch, x, y = surface
    b = w.b
    pitch, x, y = b.zext(pitch, I64), b.sext(x, I64), b.sext(y, I64)
    full = b.add(pitch, 1)
    down = b.mul(y, full)
    across = b.mul(x, element)
    here = b.add(b.add(base, down), across)
    found = PredictedRead(_predict_address(w, here), full, rows)
    w.matrices.predicted_reads[_last(w)] = found


def _predict_address(w: Widener, here: Operand) -> Operand:
    """Next address of a loop's access, with the same step as the last one."""
    last = w.b.temporary(8)
    w.b.frame.append(Instruction("store", VOID, [constant(I64, 0), last]))
    before = w.b.load(I64, last)
    w.b.store(here, last)
    since = w.b.select(w.b.icmp("eq", before, 0), here, before)
    return w.b.add(here, w.b.sub(here, since))


def _emit_run(w: Widener, run: list[Dpas], ahead: list[PredictedRead]) -> None:
    """Write the calls of a run.  Those of the same function as the first prefetch.

    Each function that prefetches is compiled in addition to the one that does not.
    """
    if not run:
        return
    calls = list(_calls(run))
    able = [k for k, c in enumerate(calls) if c.steps == calls[0].steps]
    for rows in _ROWS_PER_PASS:
        pieces = list(_pieces(ahead, rows * calls[0].passes))
        if len(pieces) <= len(able):
            break
    given = {able[k]: pieces[k * len(pieces) // len(able)] for k in range(len(able))
             if k * len(pieces) // len(able) < (k + 1) * len(pieces) // len(able)}
    for k, call in enumerate(calls):
        if k in given:
            start, pitch, row = given[k]
            _call(w, call, rows, w.b.add(start, w.b.mul(pitch, row)), pitch)
        else:
            _call(w, call)


def _pieces(reads: list[PredictedRead], rows: int) -> Iterator[tuple[Operand, Operand, int]]:
    for read in reads:
        for row in range(0, read.rows, rows):
            yield read.start, read.pitch, row


def _calls(run: list[Dpas]) -> Iterator[_Call]:
    """Calls for a run of DPAS: those on one accumulator, in order, in parts of `steps`."""
    steps = MAX_STEPS if run[0].accumulator in ("float", "i32") else 1
    chains: dict[Operand, list[Dpas]] = {}
    for one in run:
        chains.setdefault(one.slot, []).append(one)
    for slot, chain in chains.items():
        for first in range(0, len(chain), steps):
            part = chain[first : first + steps]
            operands = (x for one in part for x in (one.a, one.b))
            yield _Call(run[0], len(part), (slot, *operands))


def _call(w: Widener, call: _Call, rows: int = 0, *ahead: Operand) -> None:
    """Write a call that prefetches `rows` rows per pass; `ahead` is their address and pitch."""
    like = call.like
    name = dpas_symbol(like.shape, like.accumulator, call.steps, rows)
    w.b.call(name, VOID, [*call.pointers, *ahead])
