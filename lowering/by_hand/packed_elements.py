"""Elements of 4 bits outside of products: computed with, and put in order, as bytes.

    arith ops on them          ->  the same on bytes, of which two are packed into one afterwards
    load_nd {packed, transpose}  ->  a plain load, whose elements change their order
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, Protocol

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, VectorType, i8
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe.dialects import xegpu
from triton_xe.dialects.arith_ext import CmpiOp, ExtSIOp, ExtUIOp
from triton_xe.dialects.vector_ext import PermuteOp, ShapeCastOp, element_of, vector_shape
from triton_xe.errors import UnsupportedError

_UNSIGNED = ("ui", "uitofp")
"""Ends of the names of operations that take their operands as unsigned."""
_FIRST_UNSIGNED_PREDICATE = 6
_KEEP = (vector.BitcastOp, ShapeCastOp)
"""Operations that see the bits, however they are packed."""


class Before(Protocol):
    """Writes operations in front of one."""

    op: Operation

    def put(self, new: Operation) -> SSAValue: ...

    def constant(self, kind: VectorType[Any], values: list[int]) -> SSAValue: ...


def is_packed(kind: Attribute) -> bool:
    """True if a type is a vector whose elements share bytes."""
    element = kind.element_type if isinstance(kind, VectorType) else None
    return isinstance(element, IntegerType) and element.bitwidth in (2, 4)


def unpacked(before: Before, value: SSAValue, *, signed: bool) -> SSAValue:
    """The elements of a vector of 4-bit elements, as bytes."""
    *outer, last = vector_shape(value)
    if element_of(value).bitwidth != 4 or last % 2:  # type: ignore[attr-defined]
        raise UnsupportedError(
            f"{before.op.name} of {value.type}: only 4-bit elements, an even number in the last"
            " dimension; others serve xegpu.dpas only")
    kind = VectorType(i8, [*outer, last // 2])
    pairs = before.put(vector.BitcastOp.create(operands=[value], result_types=[kind]))
    count = prod(kind.get_shape())
    four = before.constant(kind, [4] * count)
    down = arith.ShRSIOp if signed else arith.ShRUIOp
    low = before.put(down(before.put(arith.ShLIOp(pairs, four)), four))
    high = before.put(down(pairs, four))
    order = [place for p in range(count) for place in (p, count + p)]
    return before.put(PermuteOp([low, high], order, VectorType(i8, [*outer, last])))


def repacked(before: Before, value: SSAValue) -> SSAValue:
    """The low halves of bytes as 4-bit elements."""
    *outer, last = vector_shape(value)
    if last % 2:
        raise UnsupportedError(f"{before.op.name}: an odd number of 4-bit elements in a row")
    kind = VectorType(i8, [*outer, last // 2])
    count = prod(kind.get_shape())
    low, high = (before.put(PermuteOp([value], range(first, 2 * count, 2), kind))
                 for first in (0, 1))
    low = before.put(arith.AndIOp(low, before.constant(kind, [15] * count)))
    high = before.put(arith.ShLIOp(high, before.constant(kind, [4] * count)))
    both = before.put(arith.OrIOp(low, high))
    return before.put(vector.BitcastOp.create(
        operands=[both], result_types=[VectorType(IntegerType(4), [*outer, last])]))


def compute_in_bytes(before: Before) -> SSAValue | None:
    """Replace an operation on packed elements by one on bytes; None if it is no such operation."""
    op = before.op
    kinds = [v.type for v in (*op.operands, *op.results)]
    if len(op.results) != 1 or not any(map(is_packed, kinds)) or isinstance(op, _KEEP):
        return None
    (result,) = op.results
    if isinstance(op, arith.ConstantOp):
        return _constant(before, op)
    if op.dialect_name() == "xegpu":
        return _reordered(before, op) if isinstance(op, xegpu.LoadNdOp) else None
    if op.dialect_name() != "arith" and not _picks_rows(op):
        raise UnsupportedError(f"{op.name} of 4-bit elements: extend them before, truncate after")
    signed = not op.name.endswith(_UNSIGNED) and not (
        isinstance(op, CmpiOp) and op.predicate.value.data >= _FIRST_UNSIGNED_PREDICATE)
    operands = [unpacked(before, v, signed=signed) if is_packed(v.type) else v
                for v in op.operands]
    packs = is_packed(result.type)
    into = VectorType(i8, vector_shape(result)) if packs else result.type
    if isinstance(op, ExtSIOp | ExtUIOp) and operands[0].type == into:
        return operands[0]
    made = operands[0] if packs and op.name == "arith.trunci" and operands[0].type == into else (
        before.put(type(op).create(
            operands=operands, result_types=[into], properties=dict(op.properties),
            attributes=dict(op.attributes))))
    return repacked(before, made) if packs else made


def _picks_rows(op: Operation) -> bool:
    """True if an op of the dialect `vector` extracts or inserts vectors, not single elements."""
    moves = isinstance(op, vector.ExtractOp | vector.InsertOp)
    return moves and all(isinstance(v.type, VectorType) for v in (op.operands[0], *op.results))


def _constant(before: Before, op: arith.ConstantOp) -> SSAValue:
    assert isinstance(op.value, DenseIntOrFPElementsAttr)
    values = [int(v) for v in op.value.get_values()]
    wide = before.constant(VectorType(i8, vector_shape(op.result)), values)
    return repacked(before, wide)


def _reordered(before: Before, op: xegpu.LoadNdOp) -> SSAValue | None:
    """A packed or transposed load as a plain one, and its elements in order."""
    desc = op.desc_type
    if op.packed is None and op.transpose is None:
        return None
    if desc.lane_map is not None or desc.array_length > 1:
        raise UnsupportedError(
            f"{op.name} of {desc}: 4-bit elements are packed or transposed without sg_map and"
            " array_length")
    *outer, rows, columns = desc.get_shape()
    plain = xegpu.LoadNdOp(desc=op.desc, value_type=VectorType(desc.element_type, desc.get_shape()))
    plain.properties.update({k: v for k, v in op.properties.items() if k.endswith("_hint")})
    loaded = unpacked(before, before.put(plain), signed=False)
    unit = max(1, op.unit_bits // desc.element_bits)
    inner = vector_shape(op.value)[len(outer) :]

    def origin(place: tuple[int, ...]) -> int:
        if op.packed is not None:
            y, x = place[0] * inner[2] + place[2], place[1]
        else:
            x, y = place[0] * unit + place[1] % unit, place[1] // unit
        return y * columns + x

    order = [block * rows * columns + origin(place) for block in range(prod(outer))
             for place in product(*map(range, inner))]
    kind = VectorType(i8, vector_shape(op.value))
    return repacked(before, before.put(PermuteOp([loaded], order, kind)))
