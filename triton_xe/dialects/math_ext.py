"""Dialect `math` as libtriton uses it: xDSL's own, and operations that xDSL 0.75 lacks."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects import math as stock
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from triton_xe.dialects.arith_ext import fast_math
from triton_xe.dialects.text.assembly import ANY, Follows, bool_like, ops_of

_FAST = "(`fastmath` `` $fastmath^)? attr-dict `:` "


class _FloatOp(IRDLOperation, ABC):
    fastmath = fast_math()
    traits = traits_def(Pure())


class _UnaryOp(_FloatOp, ABC):
    operand = operand_def(ANY)
    result = result_def(ANY)
    assembly_format = "$operand " + _FAST + "type($result)"


class _TestOp(_FloatOp, ABC):
    operand = operand_def(ANY)
    result = result_def(Follows(bool_like, "the result is i1, in the shape of the operand"))
    assembly_format = "$operand " + _FAST + "type($operand)"


@irdl_op_definition
class ErfcOp(_UnaryOp):
    """1 - erf(x)."""

    name = "math.erfc"


@irdl_op_definition
class IsFiniteOp(_TestOp):
    name = "math.isfinite"


@irdl_op_definition
class IsInfOp(_TestOp):
    name = "math.isinf"


@irdl_op_definition
class IsNaNOp(_TestOp):
    name = "math.isnan"


@irdl_op_definition
class ClampFOp(_FloatOp):
    """minimumf(maximumf(value, min), max)."""

    name = "math.clampf"
    value = operand_def(ANY)
    low = operand_def(ANY)
    high = operand_def(ANY)
    result = result_def(ANY)
    assembly_format = "$value `to` `[` $low `,` $high `]` " + _FAST + "type($result)"


@irdl_op_definition
class SincosOp(_FloatOp):
    """The sine, and the cosine."""

    name = "math.sincos"
    operand = operand_def(ANY)
    sin = result_def(ANY)
    cos = result_def(ANY)
    assembly_format = "$operand " + _FAST + "type($operand)"


_ADDED_OPS = ops_of(globals())

Math = Dialect("math", [*stock.Math.operations, *_ADDED_OPS], list(stock.Math.attributes))
