"""Operations that convert each element to another type."""

from __future__ import annotations

from xdsl.dialects import arith

from triton_xe.dialects import arith_ext
from triton_xe.dialects.tt.ops import BitcastOp, FpToFpOp
from triton_xe.dialects.xe import RoundTf32Op

CASTS = (
    arith_ext.TruncFOp, arith_ext.ExtFOp, arith_ext.SIToFPOp, arith_ext.UIToFPOp,
    arith_ext.ExtSIOp, arith_ext.ExtUIOp, arith_ext.TruncIOp, arith.BitcastOp, FpToFpOp, BitcastOp,
    RoundTf32Op,
)
