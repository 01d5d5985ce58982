"""Rule expand-descriptors: replace descriptors by pointers and masks.

    d = tt.make_tensor_descriptor p, shape, strides ; tt.descriptor_load d[i, j]
    ->  tt.load p + (i + rows) * stride + ..., 0 <= i + rows < shape & ..., padding

Kernels in Python have no descriptors left here (`front_passes.make_ttir`).  Those written as TTGIR
have layouts that Triton's own passes would not keep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from triton_xe.dialects.arith_ext import CmpiOp, ExtSIOp
from triton_xe.dialects.layouts import layout_attr
from triton_xe.dialects.tt.memory import (
    DescriptorLoadOp,
    DescriptorStoreOp,
    LoadOp,
    MakeTensorDescOp,
    StoreOp,
)
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, ExpandDimsOp, MakeRangeOp, SplatOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.tt.types import TensorDescType
from triton_xe.errors import UnsupportedError
from triton_xe.layout import SliceEncoding
from triton_xe.lowering.family import Scope
from triton_xe.lowering.front.writer import Writer
from triton_xe.lowering.rewriting import below, replace_by


def expand_descriptors(function: FuncOp, scope: Scope) -> None:
    """In kernels written as TTGIR: descriptors -> pointers and masks."""
    for op in below(function):
        if _takes_descriptor(op):
            replace_by(op, partial(_expand, op))


def _takes_descriptor(op: Operation) -> bool:
    return any(type(v.type) is TensorDescType for v in op.operands)


def _expand(op: Operation) -> list[SSAValue]:
    """Write an access through a descriptor as one through pointers and a mask."""
    made = op.operands[0].owner if op.operands else None
    if not isinstance(op, (DescriptorLoadOp, DescriptorStoreOp)) or not isinstance(
        made, MakeTensorDescOp
    ):
        raise UnsupportedError(
            f"{op.name} in TTGIR: only loads and stores through the result of a "
            "tt.make_tensor_descriptor can be compiled; use pointers, or write it in Python"
        )
    block = op.result if isinstance(op, DescriptorLoadOp) else op.src
    type_ = block.type
    assert isinstance(type_, TensorType)
    if type_.get_shape() != made.result.type.get_shape():
        raise UnsupportedError(f"{op.name} of {type_} through {made.result.type}")
    write = _Writer(op, type_)
    pointers, mask = write.accesses(made, op.indices)
    if isinstance(op, DescriptorStoreOp):
        store = StoreOp(ptr=pointers, value=block, mask=mask, block=op.block)
        Rewriter.insert_op(store, write.at)
        return []
    floats = isinstance(type_.element_type, AnyFloat)
    if made.pads_with_nan and not floats:
        raise UnsupportedError(f"{made.name}: {type_.element_type} has no NaN to fill up with")
    padding = math.nan if made.pads_with_nan else 0
    other = write.constant(padding, type_)
    load = LoadOp(ptr=pointers, mask=mask, other=other, result_type=type_, block=op.block)
    return [write.put(load)]


class _Writer(Writer):
    """Writer of operations on tensors with the layout of one block, before an access to it."""

    def __init__(self, op: Operation, type_: TensorType[Attribute]) -> None:
        super().__init__(op)
        self.shape: Sequence[int] = type_.get_shape()
        self.encoding = type_.encoding

    def accesses(
        self, descriptor: MakeTensorDescOp, indices: Sequence[SSAValue]
    ) -> tuple[SSAValue, SSAValue]:
        """The block's pointers, and the mask of those inside of the tensor."""
        base = descriptor.base
        pointers = self.splat(base)
        mask: SSAValue | None = None
        for dim, index in enumerate(indices):
            coordinate = self.coordinate(dim, index)
            moved = self.put(arith.MuliOp(coordinate, self.splat(descriptor.strides[dim])))
            pointers = self.put(AddPtrOp(operands=[pointers, moved], result_types=[pointers.type]))
            size = self.splat(self.put(ExtSIOp(descriptor.shape[dim], i64)))
            for test in (CmpiOp(coordinate, self.constant(0, self.type_with_element(i64)), "sge"),
                         CmpiOp(coordinate, size, "slt")):
                found = self.put(test)
                mask = found if mask is None else self.put(arith.AndIOp(mask, found))
        assert mask is not None
        return pointers, mask

    def coordinate(self, dim: int, index: SSAValue) -> SSAValue:
        """Coordinate `dim` of every element, in i64."""
        others = [d for d in range(len(self.shape)) if d != dim]
        layouts = [self.encoding]
        for d in reversed(others):
            layouts.append(layout_attr(SliceEncoding(d, layouts[-1].encoding)))  # type: ignore[attr-defined]
        size = self.shape[dim]
        value = self.put(MakeRangeOp(
            properties={"start": IntegerAttr(0, i32), "end": IntegerAttr(size, i32)},
            result_types=[TensorType(i32, [size], layouts.pop())],
        ))
        value = self.put(ExtSIOp(value, TensorType(i64, [size], value.type.encoding)))  # type: ignore[attr-defined]
        shape = [size]
        for d in others:
            shape.insert(d, 1)
            value = self.put(ExpandDimsOp(
                operands=[value], properties={"axis": IntegerAttr(d, i32)},
                result_types=[TensorType(i64, shape, layouts.pop())],
            ))
        if tuple(shape) != tuple(self.shape):
            kind = self.type_with_element(i64)
            value = self.put(BroadcastOp(operands=[value], result_types=[kind]))
        return self.put(arith.AddiOp(value, self.splat(self.put(ExtSIOp(index, i64)))))

    def type_with_element(self, element: Attribute) -> TensorType[Attribute]:
        return TensorType(element, self.shape, self.encoding)

    def splat(self, value: SSAValue) -> SSAValue:
        kind = self.type_with_element(value.type)
        return self.put(SplatOp(operands=[value], result_types=[kind]))
