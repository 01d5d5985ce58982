"""Tensors with a batch of one lose that dimension, so that products are those of matrices.

    %x = tt.expand_dims %m {axis = 0}   : MxK -> 1xMxK         %m itself
    %y = tt.load %p                     : 1xKxN             -> tt.load %p    : KxN
    tt.dot %x, %y, %c                   : 1xMxN                tt.dot %m, %y : MxN

Only a product of matrices is computed from 2D block messages.  This happens before tensors have
layouts.  A function keeps its batches if one of its operations on them is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.text.writer import write_module
from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BitcastOp,
    BroadcastOp,
    DotOp,
    ExpandDimsOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.rewriting import all_of, functions, locate, retype, values_below

_RETYPED = (
    AddPtrOp, AtomicCASOp, AtomicRMWOp, BitcastOp, BroadcastOp, DotOp, LoadOp, SplatOp, StoreOp,
    scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp,
)
"""Operations that stay what they are when the shapes of their operands and results change."""
_MOVED = (ExpandDimsOp, ReshapeOp, TransOp, ReduceOp)
_ELEMENTWISE = ("arith.", "math.", "tt.fp_to_fp", "tt.precise_", "tt.clampf")


def without_unit_batches(ttir: str) -> str | None:
    """The text of a module whose products of one batch are those of matrices; None if unchanged."""
    module = import_ttgir(ttir)
    changed = [drop_unit_batches(function) for function in functions(module)]
    return write_module(module, locations=True) if any(changed) else None


def drop_unit_batches(function: Operation) -> bool:
    """Drop the batches of a function; False, and nothing changed, if that is not possible."""
    batches = [v for v in values_below(function) if _is_batch(v)]
    dots = all_of(function, DotOp)
    if not any(_is_batch(dot.d) for dot in dots) or not all(map(_is_known, _users(batches))):
        return False
    moved = [op for op in all_of(function, *_MOVED) if any(
        _is_batch(v) for v in (*op.operands, *op.results))]
    for value in batches:
        kind = value.type
        assert isinstance(kind, TensorType)
        retype(value, TensorType(kind.element_type, kind.get_shape()[1:]))
    for op in moved:
        _move(op)
    return True


def _is_batch(value: SSAValue) -> bool:
    shape = shape_of(value)
    return len(shape) == 3 and shape[0] == 1


def _users(values: Sequence[SSAValue]) -> Iterator[Operation]:
    """The operations that make or use values; of an argument the operation with its block."""
    for value in values:
        maker = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        assert maker is not None
        yield maker
        for use in value.uses:
            yield use.operation


def _is_known(op: Operation) -> bool:
    if any(len(shape_of(v)) > 3 for v in (*op.operands, *op.results)):
        return False
    if isinstance(op, TransOp):
        return int(op.order.get_values()[0]) == 0
    if isinstance(op, ReduceOp):
        return len(op.operands) == 1
    return isinstance(op, (*_RETYPED, *_MOVED)) or op.name.startswith(_ELEMENTWISE)


def _move(op: Operation) -> None:
    """Make an operation that moves elements fit its operand and result, as they are now."""
    (source,), (result,) = op.operands, op.results
    if isinstance(op, TransOp):
        order = [int(d) - 1 for d in op.order.get_values()[1:]]
        op.properties["order"] = DenseArrayBase.from_list(i32, order)
    elif isinstance(op, ReduceOp):
        _move_reduction(op)
    elif shape_of(source) == shape_of(result):
        Rewriter.replace_op(op, [], [source])
    else:
        _replace(op, _reshaped(source, result.type))


def _move_reduction(op: ReduceOp) -> None:
    axis, (result,) = op.axis.value.data, op.results
    if axis == 0:
        Rewriter.replace_op(op, [], [op.operands[0]])
        return
    kind = result.type
    assert isinstance(kind, TensorType)
    op.properties["axis"] = IntegerAttr(axis - 1, i32)
    retype(result, TensorType(kind.element_type, kind.get_shape()[1:]))
    (result,), users = op.results, list(op.results[0].uses)
    again = ExpandDimsOp.build(operands=[result], result_types=[kind],
                               properties={"axis": IntegerAttr(0, i32)})
    locate(op, again)
    Rewriter.insert_op(again, InsertPoint.after(op))
    for use in users:
        use.operation.operands[use.index] = again.results[0]


def _reshaped(source: SSAValue, kind: Attribute) -> Operation:
    """1xK as Kx1, from K where that is known; any other shape by a reshape."""
    row = source.owner
    assert isinstance(kind, TensorType)
    if isinstance(row, ExpandDimsOp) and row.axis.value.data == 0 and (
            kind.get_shape() == (*shape_of(row.src), 1)):
        return ExpandDimsOp.build(operands=[row.src], result_types=[kind],
                                  properties={"axis": IntegerAttr(len(shape_of(row.src)), i32)})
    return ReshapeOp.build(operands=[source], result_types=[kind])


def _replace(op: Operation, made: Operation) -> None:
    locate(op, made)
    Rewriter.replace_op(op, made)


