"""Conversion of a dot's operands to those of DPAS: unchanged, widened, or split into terms.

| operands | precision | DPAS operands | products |
|---|---|---|---|
| fp8, where DPAS does not take it | | f16, which holds every fp8 value | 1 |
| f32 | tf32 | rounded to tf32, unless made of fewer bits | 1 |
| f32 | tf32x3 | big and rest in tf32 | big·big + big·rest + rest·big |
| f32 | bf16x3 | the first 2 terms in bf16 | as above |
| f32 | bf16x6 | 3 terms in bf16 | all but the three smallest |

Terms: Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations" (arXiv 1904.06376).  Small products are summed first.  With infinite
elements they are NaN (∞ - ∞), which must not reach the sum: NaN among them counts as 0.

DPAS ignores the bits after tf32's ten bits of fraction, which would round towards zero.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float32Type,
    TensorType,
    f16,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import (
    CmpfOp,
    ExtFOp,
    SelectOp,
    SIToFPOp,
    TruncFOp,
    UIToFPOp,
)
from triton_xe.dialects.text.assembly import element_type, with_element_type
from triton_xe.dialects.tt.ops import FpToFpOp, TransOp
from triton_xe.dialects.xe import RoundTf32Op
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.dpas import Dpas
from triton_xe.lowering.layouts.rematerialize import before_conversions

PRODUCTS: dict[str, tuple[tuple[int, int], ...]] = {
    "tf32x3": ((1, 0), (0, 1)),
    "bf16x3": ((1, 0), (0, 1)),
    "bf16x6": ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1)),
}
"""Products of terms besides that of the big ones, the smallest first."""


class Operands:
    """Creates the operands of one dot before it."""

    def __init__(self, dpas: Dpas, precision: str) -> None:
        self.dpas = dpas
        self.precision = precision

    def terms(self, value: SSAValue, name: str, at: InsertPoint) -> list[SSAValue]:
        """DPAS operands of type `name` whose sum is `value`, the largest first."""
        element = element_type(value.type)
        if not isinstance(element, Float32Type):
            return [_to_f16(value, at)] if name == "f16" and element != f16 else [value]
        count = 1 + max((i for i, _ in PRODUCTS.get(self.precision, ())), default=0)
        found = [self._term(value, name, at)]
        while len(found) < count:
            value = _insert(arith.SubfOp(value, _as_f32(found[-1], at)), at)
            found.append(self._term(value, name, at))
        return found

    def _term(self, value: SSAValue, name: str, at: InsertPoint) -> SSAValue:
        """Round an operand to tf32 or bf16."""
        if name == "tf32":
            if _has_few_bits(value):
                return value
            return _insert(RoundTf32Op(value=value, rounded_type=value.type), at)
        assert name == "bf16"
        return _insert(TruncFOp(value, with_element_type(value.type, BFloat16Type())), at)


def _has_few_bits(value: SSAValue) -> bool:
    """True if an fp32 value was converted from a float of at most 16 bits, or a byte; tf32 is exact
    then.
    """
    op = before_conversions(value).owner
    if isinstance(op, TransOp):
        return _has_few_bits(op.src)
    if isinstance(op, ExtFOp | FpToFpOp):
        return bit_width(element_type(op.operands[0].type)) <= 16
    return isinstance(op, SIToFPOp | UIToFPOp) and bit_width(element_type(op.input.type)) <= 8


def _to_f16(value: SSAValue, at: InsertPoint) -> SSAValue:
    return _insert(FpToFpOp(src=value, result_type=with_element_type(value.type, f16)), at)


def _as_f32(value: SSAValue, at: InsertPoint) -> SSAValue:
    wide = with_element_type(value.type, f32)
    return value if wide == value.type else _insert(ExtFOp(value, wide), at)


def _insert(op: Operation, at: InsertPoint) -> SSAValue:
    Rewriter.insert_op(op, at)
    return op.results[0]


def zeros(kind: Attribute, at: InsertPoint) -> SSAValue:
    """A tensor of zeros."""
    assert isinstance(kind, TensorType)
    return _insert(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [0.0]), kind), at)


def without_nan(value: SSAValue, at: InsertPoint) -> SSAValue:
    """The tensor with NaN replaced by 0."""
    is_number = _insert(CmpfOp(value, value, "ord"), at)
    return _insert(SelectOp(is_number, value, zeros(value.type, at)), at)


def add(left: SSAValue, right: SSAValue, at: InsertPoint) -> SSAValue:
    """The sum of two tensors."""
    return _insert(arith.AddfOp(left, right), at)
