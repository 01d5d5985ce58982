"""Dialect `vector`: xDSL's own, with the two ops it lacks that XeGPU programs need.

    %b = vector.shape_cast %a : vector<8x32xf16> to vector<8x16x2xf16>
    %i = vector.step : vector<16xindex>
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.dialects.vector import Vector as Stock
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class ShapeCastOp(IRDLOperation):
    """The same elements in the same order under another shape; moves no data."""

    name = "vector.shape_cast"
    source = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, VectorType)
        assert isinstance(result, VectorType)
        same = prod(source.get_shape()) == prod(result.get_shape())
        if not same or source.element_type != result.element_type:
            raise VerifyException(
                f"{self.name}: keeps the number and type of the elements; {source} became {result}"
            )


@irdl_op_definition
class StepOp(IRDLOperation):
    """0, 1, 2, ... as index values."""

    name = "vector.step"
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, VectorType)
        if len(type_.get_shape()) != 1 or not isinstance(type_.element_type, IndexType):
            raise VerifyException(f"{self.name}: makes a vector<Nxindex>, not {type_}")


Vector = Dialect("vector", [*Stock.operations, ShapeCastOp, StepOp], list(Stock.attributes))
