"""Find divisors whose reciprocals are exact enough.

A reciprocal is exact enough if fp32 represents it with all bits, or if the divisor is 0, infinite
or NaN.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects import math as maths
from xdsl.dialects.builtin import Float16Type, FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects import arith_ext
from triton_xe.dialects.tt import ops as tt
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.dialects.ttg import ConvertLayoutOp

_SPREAD = (tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.ReshapeOp, ConvertLayoutOp)
_SAFE = (arith_ext.SIToFPOp, arith_ext.UIToFPOp, maths.SqrtOp, tt.PreciseSqrtOp)
"""Operations with results in a safe range: integers are at least 1, roots from 2^-75 to 2^64."""
LEAST, GREATEST = 2.0**-126, 2.0**126
LARGE, SMALL = 2.0**96, 2.0**-96
"""Bounds outside of which a divisor is scaled, so that its reciprocal is a normal number."""
BY_LARGE, BY_SMALL = 2.0**-32, 2.0**64
"""Powers of two for that scaling."""


def has_exact_range(divisor: SSAValue) -> bool:
    """True if a product with 1 / `divisor` is within 2 units in the last place of the quotient."""
    op = spread_from(divisor).owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
        return LEAST <= abs(op.value.value.data) <= GREATEST
    if isinstance(op, arith_ext.ExtFOp):
        return isinstance(get_element_type_or_self(op.input.type), Float16Type)
    return isinstance(op, _SAFE) or (isinstance(op, ReduceOp) and _sums_to_one_at_least(op))


def spread_from(value: SSAValue) -> SSAValue:
    """The value that is broadcast to several elements of a value, or the value itself."""
    while isinstance(value.owner, _SPREAD):
        value = value.owner.operands[0]
    return value


def _sums_to_one_at_least(total: ReduceOp) -> bool:
    """True if it is the sum of exp(x - max x), which is at least exp(0) = 1."""
    power = total.srcs[0].owner
    if not _combines(total, arith.AddfOp) or not isinstance(power, maths.ExpOp | maths.Exp2Op):
        return False
    difference = power.operand.owner
    if not isinstance(difference, arith.SubfOp):
        return False
    largest = spread_from(difference.rhs).owner
    return (isinstance(largest, ReduceOp) and largest.axis == total.axis
            and _combines(largest, arith.MaxnumfOp, arith.MaximumfOp)
            and largest.srcs[0] is difference.lhs)


def _combines(op: ReduceOp, *kinds: type[Operation]) -> bool:
    """True if a reduction of one tensor combines by one operation of these kinds."""
    first, *rest = op.combine.block.ops
    return len(op.srcs) == 1 and len(rest) == 1 and isinstance(first, kinds) and (
        set(first.operands) == set(op.combine.block.args))


MOST_DIVIDED = 1 << 20
"""Integer dividends below it have quotients that one correction makes exact."""
