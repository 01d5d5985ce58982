"""How a scan holds the values of a lane: alone, as vectors, as runs, or as chunks that are stored.

Vectors have registers at equal positions along the axis.  Two fp16 values of a vector are a dword,
which one instruction computes (`halves_at_once`), and lanes exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_xe import llvm as ir
from triton_xe.dialects import xe
from triton_xe.dialects.tt.structure import ScanOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths import pairs
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.maths.wide import AT_ONCE, COMPUTED
from triton_xe.lowering.emit.tensors.reduce import vectorizable, wave_operation
from triton_xe.lowering.emit.tensors.registers import (
    CHUNK,
    Halves,
    Registers,
    eager,
    from_scalars,
    join,
    regrouped,
)
from triton_xe.lowering.emit.types import FLOAT, HALF, I32, TWO_HALVES
from triton_xe.lowering.emit.values import instruction_of, opcode_of
from triton_xe.lowering.facts.view import Coordinates, View, consecutive


@dataclass(frozen=True)
class Bits:
    """Register, lane and warp bits that select the position along the axis, by position bit."""

    register: dict[int, int]
    lane: dict[int, int]
    warp: dict[int, int]


def bits_along(view: View, axis: int) -> Bits:
    """Find the bits of a layout that select the position along an axis.

    `UnsupportedError` for a swizzled layout, where one bit changes several position bits.
    """
    found: tuple[dict[int, int], ...] = ({}, {}, {})
    for table, bases in zip(found[1:], (view.lanes, view.warps), strict=True):
        for bit, c in enumerate(bases):
            if c[axis]:
                table[_position(c[axis])] = bit
    reached = 0
    for c in view.registers:
        reached |= c[axis]
    for bit in range(reached.bit_length()):
        if reached >> bit & 1:
            found[0][bit] = 1 << bit
    return Bits(*found)


def _position(value: int) -> int:
    """Number of the only bit that is set; `UnsupportedError` if several are."""
    if value & (value - 1):
        raise UnsupportedError("tt.scan along a swizzled dimension")
    return value.bit_length() - 1


def moved_by(c: Coordinates, other: Coordinates) -> Coordinates:
    """The register at a distance from another one."""
    return tuple(a + b for a, b in zip(c, other, strict=True))


def wave_of(op: ScanOp, sources: Sequence[Registers]) -> int | None:
    """Number of the subgroup operation (`genisa.WAVE_OPERATIONS`) that computes this scan."""
    return wave_operation(op) if all(s.kind in (HALF, FLOAT, I32) for s in sources) else None


def registers_beside(
    em: Emitter, op: ScanOp, sources: Sequence[Registers], axis: int
) -> tuple[Coordinates, ...]:
    """The first register, and those at an equal position along the axis that join its vector.

    Those of loaded fp16 are two, which fill a dword: neighbours, or else of two rows, or of two
    blocks that lanes scan separately.  Others are the first ones up to one at another position, at
    most a chunk.
    """
    view = em.view(op.srcs[0])
    registers, count = view.registers, 1
    # vectors of four registers of 32 bytes spill
    if not vectorizable(op) or em.state.target.grf_bytes < 64:
        return registers[:1]
    is_half = suits(em.state) and all(
        isinstance(s, Halves) and s.kind == HALF for s in sources)
    while count < min(len(registers), 2 if is_half else CHUNK) and not registers[count][axis]:
        count *= 2
    if not is_half or count > 1:
        return registers[:count]
    bits = bits_along(view, axis)
    block = 1 << next(n for n in range(32) if n not in bits.register)
    apart = [c for c in registers[1:] if not c[axis] % block]
    rows = [c for c in apart if not c[axis]]
    return (registers[0], *(rows or (apart if block.bit_length() - 1 in bits.lane else []))[:1])


def as_vector(em: Emitter, source: Registers, group: list[int]) -> ir.Operand:
    """The registers of a group as one vector."""
    first, last = group[0], group[-1]
    is_dword = len(group) == 2 and isinstance(source, Halves) and source.kind == HALF
    if is_dword and last == first + 1:
        return em.b.bitcast(source.words(em, first, 2), TWO_HALVES)
    if not is_dword or (last - first) % 2:
        return join(em, source, group)
    assert isinstance(source, Halves)
    return em.remember((source, "zip", first // 2, last // 2), lambda: pairs.zipped(em, *(
        source.pairs.register(em, r // 2) for r in group)))[first % 2]


def registers_of(
    em: Emitter, groups: Sequence[Sequence[int]], vectors: Sequence[ir.Operand]
) -> Registers:
    """The registers whose values are in vectors, those of each group in one."""
    kind, count = vectors[0].type.scalar, len(groups[0])
    in_order = count > 1 and list(groups[0]) == list(range(count))
    if in_order and vectors[0].type == TWO_HALVES:
        words = from_scalars(em, I32, [em.b.bitcast(x, I32) for x in vectors])
        return Halves(em, HALF, regrouped(em, words, CHUNK // 2))
    if in_order:
        return regrouped(em, eager(kind, vectors, count))
    scalars = {r: em.b.extract(x, i) if count > 1 else x
               for group, x in zip(groups, vectors, strict=True) for i, r in enumerate(group)}
    return from_scalars(em, kind, [scalars[r] for r in sorted(scalars)])


def groups_of(view: View, beside: tuple[Coordinates, ...]) -> list[list[int]]:
    """The registers whose values are one vector."""
    groups: dict[Coordinates, list[int]] = {}
    taken = set[Coordinates]()
    for c in view.registers:
        if c not in taken:
            each = [moved_by(c, other) for other in beside]
            taken.update(each)
            groups[c] = [view.index[e] for e in each]
    return list(groups.values())


def runs_of(
    em: Emitter, op: ScanOp, source: Registers, view: View, axis: int
) -> list[ir.Operand]:
    """Vectors of consecutive positions of int32, if functions scan them; none otherwise.

    Those of fp32 would save no cycles, because prefixes of two registers are copied first.
    """
    if not (wave_of(op, [source]) is not None and suits(em.state) and source.kind == I32
            and source.count % AT_ONCE == 0 and op.srcs[0].has_one_use()
            and consecutive(view, axis, AT_ONCE)):
        return []
    chunks = [x for chunk in source.all_chunks(em) for x in _parts(chunk)]
    return chunks if all(x.type.count == AT_ONCE and _is_computed(x) for x in chunks) else []


def stored_chunks(
    em: Emitter, op: ScanOp, source: Registers, count: int
) -> list[ir.Operand]:
    """The chunks of `count` registers that functions scan in place; none if they would be copied.

    That is so for vectors that are used otherwise or are parts of others.  Results that are not
    stored need no consecutive registers, and Intel's compiler moves none of them.
    """
    is_stored = all(isinstance(use.operation, xe.ToFragmentOp) for use in op.res[0].uses)
    if not (is_stored and op.srcs[0].has_one_use() and source.kind in (FLOAT, I32)):
        return []
    chunks = [part for chunk in source.all_chunks(em)
              for part in (_parts(chunk) if chunk.type.lanes > count else [chunk])]
    return chunks if all(x.type.lanes == count and _is_computed(x) for x in chunks) else []


def _parts(vector: ir.Operand) -> Sequence[ir.Operand]:
    """The vectors that a vector is concatenated from, or the vector."""
    joined = instruction_of(vector, "shufflevector")
    if joined is None or joined.indices != tuple(range(vector.type.count)):
        return [vector]
    return joined.operands


def _is_computed(vector: ir.Operand) -> bool:
    """True if a vector is loaded or computed, and has consecutive registers of its own."""
    while (cast := instruction_of(vector, "bitcast")) is not None:
        vector = cast.operands[0]
    return opcode_of(vector) in (*COMPUTED, "fpext", "load")
