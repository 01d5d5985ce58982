"""Dialect `tt`: Triton's own ops, as libtriton 3.9.0 prints them for an xpu target.

Names, operands and syntax follow `triton/Dialect/Triton/IR/TritonOps.td` of the installed wheel.
Deviations: an enum is a `StringAttr` with its keyword if libtriton prints the keyword, and an
integer if libtriton prints it in an attribute dictionary. Async, cluster and TMEM ops of other
vendors are not included.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from triton_xe.dialects.text.assembly import ops_of
from triton_xe.dialects.tt import memory, ops, structure
from triton_xe.dialects.tt.types import CachePolicyAttr, PointerType, TensorDescType

__all__ = ["TT"]

TT = Dialect(
    "tt",
    ops_of(vars(ops), vars(memory), vars(structure)),
    [PointerType, TensorDescType, CachePolicyAttr],
)
