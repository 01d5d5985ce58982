"""Recompute a part of a tensor, by the operations that compute the tensor on parts of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr, TensorType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe
from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.layout import SliceEncoding
from triton_xe.layout.encodings import DistributedEncoding, Encoding
from triton_xe.lowering.facts.values import Unknown, dimension_map
from triton_xe.lowering.layouts.rematerialize import converted
from triton_xe.lowering.rewriting import locate

Layout = Callable[[Encoding, int], Encoding]
"""The layout of parts along a dimension of tensors in a layout that is no slice."""
Source = Callable[["Parts", SSAValue, int], SSAValue | None]
"""Write the part of a value in another way than by the operation that computes it, or `None`."""


@dataclass
class Parts:
    """Writer of parts of tensors in `block`: elements first + stride * i of a dimension, i < count.

    `first` is the block's first argument.
    """

    block: Block
    count: int
    layout: Layout
    source: Source
    stride: int = 1
    made: dict[tuple[SSAValue, int], SSAValue] = field(default_factory=dict)

    def value(self, value: SSAValue, dim: int) -> SSAValue:
        """The part of a tensor, written once; raises `Unknown` if it cannot be computed."""
        if (value, dim) not in self.made:
            found = self.source(self, value, dim)
            self.made[value, dim] = self._recomputed(value, dim) if found is None else found
        return self.made[value, dim]

    def again(self, op: Operation, dim: int) -> SSAValue:
        """The part of the result of an operation on elements of the same coordinates."""
        return self._with_operands(op, dim, [
            self.value(v, dim) if isinstance(v.type, TensorType) else v for v in op.operands])

    def put(self, source: Operation, made: Operation) -> SSAValue:
        """Insert an operation, at the source location of another one."""
        locate(source, made)
        self.block.add_op(made)
        return made.results[0]

    def kind(self, value: SSAValue, dim: int) -> TensorType[Any]:
        """The type of a value's part."""
        assert isinstance(value.type, TensorType)
        shape = list(value.type.get_shape())
        shape[dim] = self.count
        held = layout_attr(self._of_parts(encoding_of(value.type), dim))
        return TensorType(value.type.element_type, shape, held)

    def _of_parts(self, held: Encoding, dim: int) -> Encoding:
        if not isinstance(held, SliceEncoding):
            return self.layout(held, dim)
        parent = self._of_parts(held.parent, dim + (dim >= held.dim))
        assert isinstance(parent, DistributedEncoding)
        return replace(held, parent=parent)

    def _recomputed(self, value: SSAValue, dim: int) -> SSAValue:
        op = value.owner
        match op:
            case MakeRangeOp():
                return self._range(op)
            case SplatOp():
                return self._with_operands(op, dim, op.operands)
            case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held) if held.is_splat():
                kind = self.kind(value, dim)
                return self.put(op, arith.ConstantOp(
                    DenseIntOrFPElementsAttr(kind, held.data), kind))
            case BroadcastOp() | ExpandDimsOp() | ReshapeOp() | TransOp():
                source = dimension_map(op)[dim]
                return self._with_operands(op, dim, [
                    self._whole(op.src, dim) if source is None else self.value(op.src, source)])
        if isinstance(op, Operation) and (
                isinstance(op, AddPtrOp | ConvertLayoutOp) or is_elementwise(op)):
            return self.again(op, dim)
        raise Unknown("a tensor without parts")

    def _range(self, op: MakeRangeOp) -> SSAValue:
        kind = self.kind(op.result, 0)
        begin = op.start.value.data
        numbers = self.put(op, MakeRangeOp.create(result_types=[kind], properties={
            "start": IntegerAttr(0, i32), "end": IntegerAttr(self.count, i32)}))
        for number, kind_of in ((self.stride, arith.MuliOp), (begin, arith.AddiOp)):
            if number != (kind_of is arith.MuliOp):
                by = self.put(op, arith.ConstantOp(
                    DenseIntOrFPElementsAttr.from_list(kind, [number]), kind))
                numbers = self.put(op, kind_of(numbers, by))
        first = self.put(op, SplatOp(src=self.block.args[0], result_type=kind))
        return self.put(op, arith.AddiOp(first, numbers))

    def _whole(self, value: SSAValue, dim: int) -> SSAValue:
        """A tensor with one element along a dimension, in the layout of the parts."""
        held = layout_attr(self._of_parts(encoding_of(value.type), dim))
        return converted(value, held, InsertPoint.at_end(self.block))

    def _with_operands(self, op: Operation, dim: int, operands: Sequence[SSAValue]) -> SSAValue:
        return self.put(op, type(op).create(
            operands=list(operands), result_types=[self.kind(op.results[0], dim)],
            properties=dict(op.properties), attributes=dict(op.attributes)))


def rolled_loop(
    before: Operation, end: int, step: int, body: Block, carried: Sequence[SSAValue] = ()
) -> scf.ForOp:
    """Insert a loop from 0 to `end` that Intel's compiler must not unroll."""
    low, high, by = (arith.ConstantOp(IntegerAttr(n, i32)) for n in (0, end, step))
    loop = scf.ForOp(low, high, by, carried, body)
    locate(before, low, high, by, loop)
    xe.RUNS.put(loop)
    xe.ROLLED.put(loop)
    Rewriter.insert_op([low, high, by, loop], InsertPoint.before(before))
    return loop
