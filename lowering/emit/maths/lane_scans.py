"""Scan the lanes of a subgroup for several values of a lane at once.

Intel's compiler writes 17 instructions for its own scan of a register, and three more to move the
result to the next lane.  As in `wide`, the scan is a function of the module, whose body in LLVM IR
is the definition.  `triton_xe.lowering.spirv.scans_visa` has the equivalent vISA: 24 instructions
for four registers of floats, 20 for integers, and four for masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from triton_xe import llvm as ir
from triton_xe.intrinsics import genisa, llvm
from triton_xe.lowering.emit.helpers import call_internal
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.tensors.shuffle import shuffle_in_runs, shuffle_index
from triton_xe.lowering.emit.types import I8, I16, I32, bits_of, number, vector_of
from triton_xe.lowering.emit.values import instruction_of, opcode_of
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.spirv.scans_visa import LANES, Run, Scan
from triton_xe.spirv import AFTER, PREVIOUS, WIDE

AT_ONCE = 4
"""Largest number of values that one function scans."""
Prefixes = tuple[list[ir.Operand], list[ir.Operand]]
"""Exclusive and inclusive prefixes."""


def scan_lanes(
    em: Writer, operation: int, values: Sequence[ir.Operand], lanes: int
) -> Prefixes:
    """Scan values of 32 bits of each block of lanes by an operation of `genisa.WAVE_OPERATIONS`.

    The exclusive prefix of the first lane is the neutral element, or its own value if there is
    none.
    """
    if lanes == 2:
        return _of_pairs(em, Scan(genisa.WAVE_OPERATIONS[operation], 1, lanes), values)
    before, inclusive = list[ir.Operand](), list[ir.Operand]()
    while len(inclusive) < len(values):
        left = values[len(inclusive):]
        part = left[: min(AT_ONCE, 1 << len(left).bit_length() - 1)]
        scan = Scan(genisa.WAVE_OPERATIONS[operation], len(part), lanes)
        exclusive, both = _by_function(em, scan, part) if suits(em.state) else (
            _defined(em, scan, part))
        before += exclusive
        inclusive += both
    return before, inclusive


def from_previous_lane(em: Writer, values: Sequence[ir.Operand]) -> list[ir.Operand]:
    """Each value of the previous lane, by functions; that of the first lane is not specified.

    The values have one type of 16 or 32 bits (`moves_by_function`).
    """
    kind, of = {16: I16, 32: I32}[bits_of(values[0].type)], values[0].type

    def body(inner: Writer, *given: ir.Operand) -> ir.Operand:
        lane = inner.b.and_(inner.b.add(inner.lane_id(), LANES - 1), LANES - 1)
        moved = [shuffle_index(inner, x, lane) for x in given]
        return inner.pack(kind, [*moved, *[ir.constant(kind, 0)] * len(moved)])

    found: list[ir.Operand] = []
    while len(found) < len(values):
        part = values[len(found) :][:AT_ONCE]
        count = 1 << len(part).bit_length() - 1
        made = call_internal(
            em, f"{WIDE}{PREVIOUS}{count}.{kind}", vector_of(kind, 2 * count),
            [em.b.bitcast(x, kind) for x in part[:count]], body)
        found += [em.b.bitcast(em.b.extract(made, i), of) for i in range(count)]
    return found


def moves_by_function(em: Writer, values: Sequence[ir.Operand]) -> bool:
    """True if `from_previous_lane` can move values."""
    return suits(em.state) and len({x.type for x in values}) == 1 and (
        bits_of(values[0].type) in (16, 32))


def scan_registers(
    em: Writer, operation: int, vector: ir.Operand, before: ir.Operand | None, *, reverse: bool
) -> ir.Operand:
    """Scan the elements of a vector, of each lane alone, by an operation of `WAVE_OPERATIONS`.

    `before` is combined with the first of them.
    """
    count, kind = vector.type.count, vector.type.scalar
    run = Run(genisa.WAVE_OPERATIONS[operation], count, str(kind), reverse, before is not None)

    def body(inner: Writer, given: ir.Operand, *first: ir.Operand) -> ir.Operand:
        order = range(count)[:: -1 if reverse else 1]
        every = accumulate([*first, *(inner.b.extract(given, i) for i in order)],
                           lambda x, y: _combined(inner, run.operation, x, y))
        return inner.pack(kind, list(every)[len(first):][:: -1 if reverse else 1])

    return call_internal(em, WIDE + run.name, vector.type,
                         [vector] if before is None else [vector, before], body)


def combine_with_prefix(
    em: Writer, operation: int, vector: ir.Operand, prefix: ir.Operand
) -> ir.Operand:
    """Combine a prefix with each element of a vector by an operation of `WAVE_OPERATIONS`."""
    name, count = genisa.WAVE_OPERATIONS[operation], vector.type.count

    def body(inner: Writer, given: ir.Operand, first: ir.Operand) -> ir.Operand:
        return _combined(inner, name, inner.splat(first, count), given)

    return call_internal(
        em, f"{WIDE}{AFTER}{name}_{count}.i32", vector.type, [vector, prefix], body)


def _whole_vectors(values: Sequence[ir.Operand]) -> tuple[int, Sequence[ir.Operand]]:
    """The common index of values in results of functions, and these; otherwise 0 and the values.

    Intel's compiler copies a part of a vector that a function gets.
    """
    made = [m for x in values if (m := instruction_of(x, "extractelement")) is not None
            and opcode_of(m.operands[0]) == "call"]
    places = {m.operands[1].integer_value() for m in made}
    place = places.pop() if len(places) == 1 and len(made) == len(values) else None
    return (0, values) if place is None else (place, [m.operands[0] for m in made])


def _by_function(em: Writer, scan: Scan, values: Sequence[ir.Operand]) -> Prefixes:
    """Scan values by a function of the module."""
    kind, unused = values[0].type, [number(0)] * (scan.first - scan.registers)
    place, values = _whole_vectors(values)
    width = values[0].type.count if values[0].type.kind == "vec" else 1
    scan = scan._replace(width=width, place=place)

    def body(inner: Writer, *given: ir.Operand) -> ir.Operand:
        each = given if width == 1 else [inner.b.extract(x, place) for x in given]
        before, inclusive = _defined(inner, scan, [inner.b.bitcast(x, kind) for x in each])
        return inner.pack(I32, [
            *(inner.b.bitcast(x, I32) for x in before), *unused,
            *(inner.b.bitcast(x, I32) for x in inclusive), *unused])

    given = I32 if width == 1 else vector_of(I32, width)
    found = call_internal(
        em, WIDE + scan.name, vector_of(I32, scan.results),
        [em.b.bitcast(x, given) for x in values], body)
    before, inclusive = ([em.b.bitcast(em.b.extract(found, first + i), kind)
                          for i in range(scan.registers)] for first in (0, scan.first))
    return before, inclusive


def _of_pairs(em: Writer, scan: Scan, values: Sequence[ir.Operand]) -> Prefixes:
    """Scan pairs of lanes: the first value is the only one that moves."""
    second = em.b.icmp("ne", em.b.and_(em.lane_id(), 1), 0)
    before = [em.b.select(second, shuffle_in_runs(em, x, 2, 0), _otherwise(em, scan, x))
              for x in values]
    return before, [_combined(em, scan.operation, b, x) for b, x in zip(
        before, values, strict=True)]


def _otherwise(em: Writer, scan: Scan, value: ir.Operand) -> ir.Operand:
    """The exclusive prefix of the first lane: the neutral element, or its own value."""
    return value if scan.neutral is None else em.b.bitcast(number(scan.neutral), value.type)


def _defined(em: Writer, scan: Scan, values: Sequence[ir.Operand]) -> Prefixes:
    """Scan values by intrinsics, and move them to the next lane."""
    last = em.state.lanes - 1
    whole = scan.lanes == em.state.lanes
    inclusive = [_of_subgroup(em, scan, x) if whole else _of_blocks(em, scan, x) for x in values]
    first = em.lane_id() if whole else em.b.and_(em.lane_id(), scan.lanes - 1)
    known = em.b.icmp("ne", first, 0)
    previous = em.b.and_(em.b.add(em.lane_id(), last), last)
    return [em.b.select(known, shuffle_index(em, x, previous), _otherwise(em, scan, x))
            for x in inclusive], inclusive


def _of_subgroup(em: Writer, scan: Scan, value: ir.Operand) -> ir.Operand:
    """Scan all lanes by Intel's intrinsic."""
    code = ir.constant(I8, genisa.WAVE_OPERATIONS.index(scan.operation))
    return em.call(genisa.WAVE_PREFIX, [value, code, ir.TRUE, ir.TRUE, number(0)])


def _of_blocks(em: Writer, scan: Scan, value: ir.Operand) -> ir.Operand:
    """Combine the later half of blocks of 2, 4 and more lanes with the last of the earlier half."""
    for step in (1, 2, 4):
        if step < scan.lanes:
            last = shuffle_in_runs(em, value, 2 * step, step - 1)
            later = em.b.icmp("ne", em.b.and_(em.lane_id(), step), 0)
            value = em.b.select(later, _combined(em, scan.operation, last, value), value)
    return value


def _combined(em: Writer, operation: str, x: ir.Operand, y: ir.Operand) -> ir.Operand:
    if operation in ("fadd", "add", "and", "or", "xor"):
        return em.b.binary(operation, x, y)
    names = {"fmin": "minnum", "fmax": "maxnum"}
    return em.call(llvm.named(names.get(operation, operation)), [x, y])
