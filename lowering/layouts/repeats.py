"""Tensors of which several elements in a row are the same: fewer of them, and what repeats them.

    load p  ->  xe.repeat (load p')      p' is every eighth pointer along a dimension
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

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
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.layout import LinearEncoding, LinearLayout
from triton_xe.lowering.layouts.elementwise import is_elementwise
from triton_xe.lowering.layouts.rematerialize import before_conversions
from triton_xe.lowering.rewriting import locate
from triton_xe.lowering.surfaces.affine import constant_of, shape_of
from triton_xe.lowering.surfaces.axis_info import AxisAnalysis

TIMES = 8
"""Fields of four bits in a word of 32."""
LANES, COLUMN_BITS = 16, 3


def joined(value: SSAValue) -> SSAValue | None:
    """What a tensor has eight times in a row along its last dimension, joined with itself."""
    for _ in range(TIMES.bit_length() - 1):
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


def repeats_of(load: LoadOp) -> int | None:
    """The dimension along which every eight elements of a load of words are the same."""
    kind = load.result.type
    if not isinstance(kind, TensorType) or bit_width(kind.element_type) != 32:
        return None
    if len(shape_of(load.result)) != 2 or load.other is not None:
        return None
    facts = AxisAnalysis(trusting=False)
    infos = [facts.info(v) for v in (load.ptr, load.mask) if v is not None]
    for axis in (1, 0):
        same = all(i.constancy[axis] >= TIMES for i in infos)
        if same and all(_can_shrink(v, axis) for v in load.operands[1:]):
            return axis
    return None


def _can_shrink(value: SSAValue, axis: int) -> bool:
    """Whether `shrunk` knows how a value is made."""
    op = value.owner
    if not isinstance(value.type, TensorType) or shape_of(value)[axis] == 1:
        return True
    if not isinstance(op, Operation) or shape_of(value)[axis] % TIMES:
        return False
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, DenseIntOrFPElementsAttr) and op.value.is_splat()
    if isinstance(op, MakeRangeOp | SplatOp):
        return True
    if isinstance(op, ExpandDimsOp):
        return _can_shrink(op.src, axis - (op.axis.value.data < axis))
    known = isinstance(op, BroadcastOp | AddPtrOp | ConvertLayoutOp) or is_elementwise(op)
    return known and all(_can_shrink(v, axis) for v in op.operands)


def shrunk(value: SSAValue, axis: int, made: dict[tuple[SSAValue, int], SSAValue]) -> SSAValue:
    """Every eighth element of a tensor along a dimension, in the encoding that it has."""
    if not isinstance(value.type, TensorType) or shape_of(value)[axis] == 1:
        return value
    if (value, axis) not in made:
        op = value.owner
        assert isinstance(op, Operation)
        made[value, axis] = _shrunk(op, axis, made)
    return made[value, axis]


def _shrunk(op: Operation, axis: int, made: dict[tuple[SSAValue, int], SSAValue]) -> SSAValue:
    (result,), at = op.results, InsertPoint.after(op)
    kind: Any = shrunk_type(result.type, axis)
    if isinstance(op, MakeRangeOp):
        start, end = op.start.value.data, op.end.value.data
        numbers = MakeRangeOp(start=0, end=(end - start) // TIMES, result_type=kind)
        by, first = (_splat(kind, n) for n in (TIMES, start))
        scaled = arith.MuliOp(numbers.result, by.result)
        last = arith.AddiOp(scaled.result, first.result)
        Rewriter.insert_op([numbers, by, scaled, first, last], at)
        return last.result
    if isinstance(op, arith.DivSIOp | arith.DivUIOp) and constant_of(op.rhs) == TIMES:
        exact = _eighth(shrunk(op.lhs, axis, made), at)
        if exact is not None:
            return exact
    properties = dict(op.properties)
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, DenseIntOrFPElementsAttr)
        properties["value"] = DenseIntOrFPElementsAttr.from_list(kind, [op.value.get_values()[0]])
    inner = axis - (op.axis.value.data < axis) if isinstance(op, ExpandDimsOp) else axis
    copy = type(op).create(
        operands=[shrunk(v, inner, made) for v in op.operands], result_types=[kind],
        properties=properties, attributes=dict(op.attributes))
    locate(op, copy)
    Rewriter.insert_op(copy, at)
    return copy.results[0]


def _eighth(value: SSAValue, at: InsertPoint) -> SSAValue | None:
    """The eighth of numbers whose parts are all multiples of eight; None where that is not known.

    What is a sum of the same known numbers in all lanes then stays one.
    """
    op, new = value.owner, None
    known = constant_of(value)
    if known is not None:
        new = _splat(value.type, known // TIMES) if known % TIMES == 0 else None
    elif isinstance(op, SplatOp) and AxisAnalysis(trusting=False).info(
            op.src).divisibility[0] % TIMES == 0:
        return _eighth_of_scalar(op, at)
    elif isinstance(op, arith.MuliOp) and constant_of(op.rhs) == TIMES:
        return op.lhs
    elif isinstance(op, arith.AddiOp):
        sides = [_eighth(v, at) for v in op.operands]
        if None not in sides:
            new = arith.AddiOp(*sides)
    elif isinstance(op, ExpandDimsOp | BroadcastOp | ConvertLayoutOp):
        inner = _eighth(op.operands[0], at)
        new = None if inner is None else type(op).create(
            operands=[inner], result_types=[value.type], properties=dict(op.properties))
    if new is None:
        return None
    Rewriter.insert_op(new, at)
    return new.results[0]


def _eighth_of_scalar(op: SplatOp, at: InsertPoint) -> SSAValue:
    by = arith.ConstantOp(IntegerAttr(TIMES, op.src.type))  # type: ignore[arg-type]
    divided = arith.DivSIOp(op.src, by.result)
    spread = SplatOp(operands=[divided.result], result_types=[op.result.type])
    Rewriter.insert_op([by, divided, spread], at)
    return spread.result


def _splat(kind: Any, number: int) -> arith.ConstantOp:
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [number]), kind)


def shrunk_type(kind: Attribute, axis: int) -> TensorType[Attribute]:
    """The type of every eighth element along a dimension."""
    assert isinstance(kind, TensorType)
    shape = [s // TIMES if d == axis else s for d, s in enumerate(kind.get_shape())]
    return TensorType(kind.element_type, shape, kind.encoding)


def words_layout(result: LinearLayout, axis: int) -> LinearEncoding:
    """The layout of words that are to be repeated along a dimension.

    Where lanes would hold the same words, they have those of different rows instead.
    """
    def divided(basis: Sequence[int]) -> tuple[int, ...]:
        return tuple(x // TIMES if d == axis else x for d, x in enumerate(basis))

    bases = {name: list(map(divided, held)) for name, held in result.bases.items()}
    lanes, registers = bases["lane"], bases["register"]
    spread = LANES == 1 << len(lanes) and len(registers) >= 3 and all(
        any(b) for b in registers[:3]) and not any(any(b) for b in lanes[:COLUMN_BITS])
    if spread:
        bases["lane"] = [*lanes[COLUMN_BITS:], *registers[:COLUMN_BITS]]
        bases["register"] = registers[COLUMN_BITS:]
    bases["register"] = [b for b in bases["register"] if any(b)]
    sizes = {name: size // (TIMES if d == axis else 1)
             for d, (name, size) in enumerate(result.out_dims.items())}
    return LinearEncoding(LinearLayout(bases, sizes))
