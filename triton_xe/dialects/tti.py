"""Dialect `tti`: what libtriton's floating-point sanitizer adds to a ttgir module.

Names and syntax follow `triton/Dialect/TritonInstrument/IR/TritonInstrumentOps.td` of the wheel.
"""

from __future__ import annotations

from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition

from triton_xe.dialects.text.assembly import ops_of
from triton_xe.dialects.tt.ops import ConversionOp

_AS_FUNCTION = "$src attr-dict `:` `(` type($src) `)` `->` type($result)"


@irdl_op_definition
class FpsanEmbedOp(ConversionOp):
    """The integer that stands for a float while the sanitizer calculates."""

    name = "tti.experimental_fpsan_embed"
    assembly_format = _AS_FUNCTION


@irdl_op_definition
class FpsanUnembedOp(ConversionOp):
    """The float that an integer of the sanitizer stands for."""

    name = "tti.experimental_fpsan_unembed"
    assembly_format = _AS_FUNCTION


TTI = Dialect("tti", ops_of(globals()), [])
