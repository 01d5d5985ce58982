"""Narrow products of small integers and fp16, computed in fp32 and rounded, to products in fp16.

    truncf (mulf (sitofp %q - 8.0), (extf %s)) : f16  ->  mulf (sitofp (%q - 8) : f16), %s

The integers are exact in fp16, and their products with eleven bits in fp32, so that both forms
round once.  The rounded product is not fused into a sum.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    IntegerType,
    TensorType,
    f16,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import (
    ExtFOp,
    ExtSIOp,
    ExtUIOp,
    SIToFPOp,
    TruncFOp,
    TruncIOp,
    UIToFPOp,
)
from triton_xe.dialects.tt.ops import BroadcastOp, ExpandDimsOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import ROUNDED
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import constant_of, element_of
from triton_xe.lowering.rewriting import all_of, locate, put

EXACT = 2048
"""Largest integer up to which fp16 represents all integers."""
_MOVES = (BroadcastOp, ExpandDimsOp, ConvertLayoutOp)
"""Operations that only move elements, for example scales of columns."""


def narrow_products(function: Operation) -> None:
    """Compute such products in fp16."""
    for op in all_of(function, TruncFOp):
        factors = _factors(op)
        if factors is not None:
            _narrow(op, *factors)


def _factors(op: TruncFOp) -> tuple[SSAValue, SSAValue] | None:
    """The integer and the fp16 factor, both converted to fp32, whose product is rounded."""
    product, kind = op.input.owner, op.result.type
    if not isinstance(product, arith.MulfOp) or op.rounding_mode is not None:
        return None
    if not isinstance(kind, TensorType) or not isinstance(kind.element_type, Float16Type):
        return None
    for number, half in (product.operands, reversed(product.operands)):
        low, high = _range(number) or (-EXACT - 1, 0)
        if -EXACT <= low and high <= EXACT and _is_half(half):
            return number, half
    return None


def _is_half(value: SSAValue) -> bool:
    """True if an fp32 value is converted from fp16."""
    op = value.owner
    if isinstance(op, _MOVES):
        return _is_half(op.src)
    return isinstance(op, ExtFOp) and element_of(op.input) == f16


def _range(value: SSAValue) -> tuple[int, int] | None:
    """Bounds of an fp32 value that is computed from integers alone; None for others."""
    op = value.owner
    if isinstance(op, _MOVES):
        return _range(op.src)
    if isinstance(op, SIToFPOp | UIToFPOp):
        low, high = Facts(trusting=False).range(op.input)
        return (low, high) if low >= 0 or isinstance(op, SIToFPOp) else None
    known = _number(value)
    if known is not None:
        return known, known
    if not isinstance(op, arith.AddfOp | arith.SubfOp):
        return None
    left, right = _range(op.lhs), _range(op.rhs)
    if left is None or right is None:
        return None
    least, most = right if isinstance(op, arith.AddfOp) else (-right[1], -right[0])
    return left[0] + least, left[1] + most


def _number(value: SSAValue) -> int | None:
    """The integer that all elements of a constant equal; None for -0."""
    held = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    if not isinstance(held, DenseIntOrFPElementsAttr) or not held.is_splat():
        return None
    number = float(held.get_values()[0])
    whole = number.is_integer() and abs(number) <= EXACT and str(number) != "-0.0"
    return int(number) if whole and isinstance(element_of(value), Float32Type) else None


def _narrow(op: TruncFOp, number: SSAValue, half: SSAValue) -> None:
    """Replace a product that is rounded to fp16 by a product in fp16."""
    at = InsertPoint.before(op)
    whole = _integer(number, at)
    cast = SIToFPOp(whole, op.result.type)
    product = arith.MulfOp(cast.result, _half(half, at))
    ROUNDED.put(product)
    for made in (cast, product):
        locate(op, made)
        Rewriter.insert_op(made, at)
    op.result.replace_all_uses_with(product.result)


def _type_with_element(value: SSAValue, element: Attribute) -> TensorType[Attribute]:
    kind = value.type
    assert isinstance(kind, TensorType)
    return TensorType(element, kind.get_shape(), kind.encoding)


def _half(value: SSAValue, at: InsertPoint) -> SSAValue:
    """The fp16 value that an fp32 value is extended from."""
    op = value.owner
    if isinstance(op, ExtFOp):
        return op.input
    assert isinstance(op, _MOVES)
    return _clone_with_type(op, _half(op.src, at), _type_with_element(value, f16), at)


def _integer(value: SSAValue, at: InsertPoint) -> SSAValue:
    """The integers that an fp32 value is computed from."""
    op, kind = value.owner, _type_with_element(value, IntegerType(32))
    if isinstance(op, SIToFPOp | UIToFPOp):
        return _as_32_bits(op, kind, at)
    if isinstance(op, _MOVES):
        return _clone_with_type(op, _integer(op.src, at), kind, at)
    known = _number(value)
    if known is not None:
        held: Any = DenseIntOrFPElementsAttr.from_list(cast(Any, kind), [known])
        return put(arith.ConstantOp(held, kind), at)
    assert isinstance(op, arith.AddfOp | arith.SubfOp)
    made = arith.AddiOp if isinstance(op, arith.AddfOp) else arith.SubiOp
    return put(made(_integer(op.lhs, at), _integer(op.rhs, at)), at)


def _clone_with_type(
    op: Operation, source: SSAValue, kind: TensorType[Attribute], at: InsertPoint
) -> SSAValue:
    """Clone an operation for elements of another type."""
    return put(type(op).create(
        operands=[source], result_types=[kind], properties=dict(op.properties)), at)


def _as_32_bits(
    op: SIToFPOp | UIToFPOp, kind: TensorType[Attribute], at: InsertPoint
) -> SSAValue:
    """The integer that a cast takes, in 32 bits; upper bits of wider ones are dropped."""
    bits = bit_width(element_of(op.input))
    if bits == 32:
        return op.input
    narrow = _narrow_field(op.input, kind, at) if bits > 32 else None
    if narrow is not None:
        return narrow
    widen = ExtSIOp if isinstance(op, SIToFPOp) else ExtUIOp
    return put((TruncIOp if bits > 32 else widen)(op.input, kind), at)


def _narrow_field(
    value: SSAValue, kind: TensorType[Attribute], at: InsertPoint
) -> SSAValue | None:
    """Extract a bit field of a 64-bit extension from 32 bits instead; None for others.

    A shift that removes all of the few bits of the source removes all of 32 too.
    """
    masked = value.owner
    if not isinstance(masked, arith.AndIOp) or not isinstance(masked.lhs.owner, arith.ShRUIOp):
        return None
    moved, mask = masked.lhs.owner, constant_of(masked.rhs)
    words = moved.lhs.owner
    low, high = Facts(trusting=False).range(moved.rhs)
    if not isinstance(words, ExtUIOp) or bit_width(element_of(words.input)) > 32 or mask is None:
        return None
    if not (0 <= mask < 1 << 31 and -(1 << 31) <= low and high < 1 << 31):
        return None
    few = words.input if element_of(words.input) == i32 else put(ExtUIOp(words.input, kind), at)
    by = put(TruncIOp(moved.rhs, kind), at)
    held: Any = DenseIntOrFPElementsAttr.from_list(cast(Any, kind), [mask])
    mine = put(arith.ConstantOp(held, kind), at)
    return put(arith.AndIOp(put(arith.ShRUIOp(few, by), at), mine), at)
