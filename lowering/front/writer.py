"""`Writer`: operations before the one that they replace."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import CmpiOp, splat_attr
from triton_xe.dialects.tt.ops import BitcastOp


class Writer:
    """Writes operations on numbers, or on tensors of them, before an operation."""

    def __init__(self, op: Operation) -> None:
        self.at = InsertPoint.before(op)

    def put(self, op: Operation) -> SSAValue:
        Rewriter.insert_op(op, self.at)
        return op.results[0]

    def bitcast(self, value: SSAValue, kind: Attribute) -> SSAValue:
        return self.put(BitcastOp(src=value, result_type=kind))

    def constant(self, value: float, kind: Any) -> SSAValue:
        number = (splat_attr(kind, value) if isinstance(kind, TensorType)
                  else IntegerAttr(kind.get_normalized_value(value), kind))
        return self.put(arith.ConstantOp(number))

    def do(self, operation: Any, value: SSAValue, other: SSAValue | int) -> SSAValue:
        if isinstance(other, int):
            other = self.constant(other, value.type)
        return self.put(operation(value, other))

    def compare(self, value: SSAValue, other: SSAValue | int, how: str) -> SSAValue:
        if isinstance(other, int):
            other = self.constant(other, value.type)
        return self.put(CmpiOp(value, other, how))
