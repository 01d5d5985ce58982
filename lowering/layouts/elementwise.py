"""Operations that compute each element of a result from those of their operands."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation

from triton_xe.dialects import arith_ext
from triton_xe.dialects.tt.ops import (
    BitcastOp,
    ClampFOp,
    FpToFpOp,
    MulhiUIOp,
    PreciseDivFOp,
    PreciseSqrtOp,
)
from triton_xe.dialects.tt.structure import ExternElementwiseOp
from triton_xe.dialects.xe import RoundTf32Op

CASTS = (
    arith_ext.TruncFOp, arith_ext.ExtFOp, arith_ext.SIToFPOp, arith_ext.UIToFPOp,
    arith_ext.ExtSIOp, arith_ext.ExtUIOp, arith_ext.TruncIOp, arith.BitcastOp, FpToFpOp, BitcastOp,
    RoundTf32Op,
)
_ELEMENTWISE = (*CASTS, ClampFOp, PreciseSqrtOp, PreciseDivFOp, MulhiUIOp, ExternElementwiseOp)


def is_elementwise(op: Operation) -> bool:
    """True if an operation computes each element of its one result from those of its operands."""
    known = type(op) in _ELEMENTWISE or op.dialect_name() in ("arith", "math")
    return known and len(op.results) == 1 and not op.regions
