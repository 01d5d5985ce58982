"""Tensors with runs of equal elements: load one element of each run, and repeat it.

    load p  ->  xe.repeat (load p')      p' is every eighth pointer along a dimension

Eight fields of four bits are in a word, two in a byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BroadcastOp,
    ExpandDimsOp,
    JoinOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import RepeatOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.layout import LinearEncoding, LinearLayout
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import constant_of, shape_of
from triton_xe.lowering.layouts.rematerialize import before_conversions
from triton_xe.lowering.rewriting import locate

TIMES = {32: 8, 8: 2}
"""Number of 4-bit fields by the bits of a word or byte."""
LANES, COLUMN_BITS = 16, 3


class Runs(NamedTuple):
    """Along dimension `axis`, each `times` consecutive elements are equal."""

    axis: int
    times: int

    def before_expansion(self, op: ExpandDimsOp) -> Runs:
        """These runs in the operand of an operation that inserts another dimension."""
        return self._replace(axis=self.axis - (op.axis.value.data < self.axis))


def joined(value: SSAValue) -> SSAValue | None:
    """The tensor that a value repeats eight times along its last dimension by joins with itself."""
    for _ in range(TIMES[32].bit_length() - 1):
        shaped = before_conversions(value).owner
        pair = before_conversions(shaped.src).owner if isinstance(shaped, ReshapeOp) else None
        if not isinstance(shaped, ReshapeOp) or not isinstance(pair, JoinOp):
            return None
        *outer, last = shape_of(pair.lhs)
        if pair.lhs is not pair.rhs or shaped.allow_reorder is not None or (
                shape_of(shaped.result) != (*outer, 2 * last)):
            return None
        value = pair.lhs
    return before_conversions(value)


def element_sources(value: SSAValue) -> list[SSAValue] | None:
    """Operands that a tensor's elements come from one by one; None if they are new."""
    op, few = value.owner, joined(value)
    if few is not None:
        return [few]
    if isinstance(op, ConvertLayoutOp | BroadcastOp | ExpandDimsOp | RepeatOp) or (
            isinstance(op, Operation) and is_elementwise(op)):
        return list(op.operands)
    return None


def repeats_of(load: LoadOp) -> Runs | None:
    """Runs of equal loaded elements: all rows, or one word or byte for all of its fields."""
    kind = load.result.type
    if not isinstance(kind, TensorType) or len(shape_of(load.result)) != 2:
        return None
    rows, times = shape_of(load.result)[0], TIMES.get(bit_width(kind.element_type), 1)
    facts = Facts(trusting=False)
    infos = [facts.of(v) for v in load.operands]
    groups = min(rows, *(info.constancy[0] for info in infos))
    some = Runs(0, groups if groups >= LANES else 1)
    for runs in (Runs(0, rows), some, Runs(1, times), Runs(0, times)):
        same = runs.times > 1 and all(i.constancy[runs.axis] >= runs.times for i in infos)
        if same and all(can_shrink(v, runs) for v in load.operands[1:]):
            return runs
    return None


def can_shrink(value: SSAValue, runs: Runs) -> bool:
    """True if `shrunk` can recompute a value."""
    op = value.owner
    if not isinstance(value.type, TensorType) or shape_of(value)[runs.axis] == 1:
        return True
    if not isinstance(op, Operation) or shape_of(value)[runs.axis] % runs.times:
        return False
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, DenseIntOrFPElementsAttr) and op.value.is_splat()
    if isinstance(op, MakeRangeOp | SplatOp):
        return True
    if isinstance(op, ExpandDimsOp):
        return can_shrink(op.src, runs.before_expansion(op))
    known = isinstance(op, BroadcastOp | AddPtrOp | ConvertLayoutOp) or is_elementwise(op)
    return known and all(can_shrink(v, runs) for v in op.operands)


def shrunk(value: SSAValue, runs: Runs, known: dict[tuple[SSAValue, Runs], SSAValue]) -> SSAValue:
    """The first element of each run of a tensor, in the same encoding."""
    if not isinstance(value.type, TensorType) or shape_of(value)[runs.axis] == 1:
        return value
    if (value, runs) not in known:
        op = value.owner
        assert isinstance(op, Operation)
        known[value, runs] = _shrunk(op, runs, known)
    return known[value, runs]


def _shrunk(op: Operation, runs: Runs, known: dict[tuple[SSAValue, Runs], SSAValue]) -> SSAValue:
    """Recompute an operation for one element of each run."""
    (result,), at = op.results, InsertPoint.after(op)
    kind: Any = shrunk_type(result.type, runs)
    if isinstance(op, MakeRangeOp):
        start, end = op.start.value.data, op.end.value.data
        numbers = MakeRangeOp(start=0, end=(end - start) // runs.times, result_type=kind)
        by, first = (_splat(kind, n) for n in (runs.times, start))
        scaled = arith.MuliOp(numbers.result, by.result)
        last = arith.AddiOp(scaled.result, first.result)
        Rewriter.insert_op([numbers, by, scaled, first, last], at)
        return last.result
    if isinstance(op, arith.DivSIOp | arith.DivUIOp) and constant_of(op.rhs) == runs.times:
        lhs, facts = shrunk(op.lhs, runs, known), Facts(trusting=False)
        natural = isinstance(op, arith.DivSIOp) or facts.range(lhs)[0] >= 0
        exact = _divided(lhs, runs.times, at, facts) if natural else None
        if exact is not None:
            return exact
    properties = dict(op.properties)
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, DenseIntOrFPElementsAttr)
        properties["value"] = DenseIntOrFPElementsAttr.from_list(kind, [op.value.get_values()[0]])
    inner = runs.before_expansion(op) if isinstance(op, ExpandDimsOp) else runs
    copy = type(op).create(
        operands=[shrunk(v, inner, known) for v in op.operands], result_types=[kind],
        properties=properties, attributes=dict(op.attributes))
    locate(op, copy)
    Rewriter.insert_op(copy, at)
    return copy.results[0]


def _divided(value: SSAValue, by: int, at: InsertPoint, facts: Facts) -> SSAValue | None:
    """Signed quotient of a sum whose terms are all multiples; None if that is not known.

    A sum with the same known numbers in all lanes keeps this form.
    """
    op, known = value.owner, constant_of(value)
    new: Operation | None = None
    if isinstance(op, arith.AddiOp | arith.MuliOp) and facts.wraps(op):
        return None
    if known is not None:
        new = None if known % by else _splat(value.type, known // by)
    elif isinstance(op, SplatOp) and facts.of(op.src).divisor % by == 0:
        return _divided_scalar(op, by, at)
    elif isinstance(op, arith.MuliOp) and constant_of(op.rhs) == by:
        return op.lhs
    elif isinstance(op, arith.AddiOp):
        left, right = (_divided(v, by, at, facts) for v in op.operands)
        new = None if left is None or right is None else arith.AddiOp(left, right)
    elif isinstance(op, ExpandDimsOp | BroadcastOp | ConvertLayoutOp):
        inner = _divided(op.operands[0], by, at, facts)
        new = None if inner is None else type(op).create(
            operands=[inner], result_types=[value.type], properties=dict(op.properties))
    if new is None:
        return None
    Rewriter.insert_op(new, at)
    return new.results[0]


def _divided_scalar(op: SplatOp, by: int, at: InsertPoint) -> SSAValue:
    number = arith.ConstantOp.from_int_and_width(by, op.src.type)  # type: ignore[arg-type]
    divided = arith.DivSIOp(op.src, number.result)
    spread = SplatOp(operands=[divided.result], result_types=[op.result.type])
    Rewriter.insert_op([number, divided, spread], at)
    return spread.result


def _splat(kind: Any, number: int) -> arith.ConstantOp:
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [number]), kind)


def shrunk_type(kind: Attribute, runs: Runs) -> TensorType[Attribute]:
    """The type of the first elements of runs."""
    assert isinstance(kind, TensorType)
    shape = [s // runs.times if d == runs.axis else s for d, s in enumerate(kind.get_shape())]
    return TensorType(kind.element_type, shape, kind.encoding)


def words_layout(result: LinearLayout, runs: Runs) -> LinearEncoding:
    """Layout of words that are to be repeated along a dimension.

    If lanes would have copies of the same words, they get words of different rows instead.
    Otherwise elements along the dimension are in consecutive registers, as they may be in memory.
    """
    def divided(basis: Sequence[int]) -> tuple[int, ...]:
        return tuple(x // runs.times if d == runs.axis else x for d, x in enumerate(basis))

    bases = {name: list(map(divided, held)) for name, held in result.bases.items()}
    lanes, registers = bases["lane"], bases["register"]
    spread = LANES == 1 << len(lanes) and len(registers) >= 3 and all(
        any(b) for b in registers[:3]) and not any(any(b) for b in lanes[:COLUMN_BITS])
    if spread:
        bases["lane"] = [*lanes[COLUMN_BITS:], *registers[:COLUMN_BITS]]
        bases["register"] = registers[COLUMN_BITS:]
    held = [b for b in bases["register"] if any(b)]
    bases["register"] = held if spread else sorted(held, key=lambda b: b[runs.axis] == 0)
    sizes = {name: size // (runs.times if d == runs.axis else 1)
             for d, (name, size) in enumerate(result.out_dims.items())}
    return LinearEncoding(LinearLayout(bases, sizes))
