"""Rule strength-reduce-offsets: strength-reduce 64-bit offsets in versions with gathers.

    tt.addptr (splat %base), (broadcast (%rows * %stride)) + broadcast (splat %k + %columns)
 -> tt.addptr (broadcast (tt.addptr (splat (%base + %k)), %columns)), broadcast (%rows * %stride)

    %at = splat %x + extsi %range
    andi (cmpi sge, %at, 0), (cmpi slt, %at, splat %y)
 -> cmpi ult, %range - splat %first, splat (%end - %first)    %end = trunci (%y - %x)

Descriptors have offsets of 64 bits.  Sums and products of these may be reordered, because they wrap
in any order to the same result.  In a comparison, a difference outside the range's values may be
clamped to the value next to the range.  A position that must be at least 0 and below an end takes
one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe.dialects.arith_ext import CmpiOp, ExtSIOp, TruncIOp
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, ExpandDimsOp, ReshapeOp, SplatOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.facts.view import view_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.rematerialize import layout_of
from triton_xe.lowering.rewriting import all_of, put_before
from triton_xe.lowering.surfaces.raise_surfaces import in_slow_version

_LESS, _NOT_LESS, _BELOW = "slt", "sge", "ult"
_SHAPES = (ExpandDimsOp, BroadcastOp, ReshapeOp)
SMALL, LARGE = 1 << 29, 1 << 61
"""Bounds of values that are compared in 32 bits, and of values that are subtracted in 64."""


def strength_reduce_offsets(function: FuncOp, scope: Scope) -> None:
    """Strength-reduce 64-bit offsets in versions with gathers."""
    found: list[LoadOp | StoreOp] = [*all_of(function, LoadOp), *all_of(function, StoreOp)]
    accesses = [op for op in found if isinstance(op.ptr.type, TensorType) and in_slow_version(op)]
    parts = _Splitter()
    pointers: dict[SSAValue, SSAValue] = {}
    for access in accesses:
        if access.ptr not in pointers:
            pointers[access.ptr] = _shortened(access.ptr, parts)
        access.operands[0] = pointers[access.ptr]
        if access.mask is not None:
            _shorten_mask(access.mask, parts)


class Parts(NamedTuple):
    """A tensor as the sum of a scalar and a tensor."""

    scalar: SSAValue | None
    rest: SSAValue | None


class _Splitter:
    """Write the scalar and tensor parts of 64-bit integer tensors, each next to the original."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, Parts] = {}
        self.compared: dict[SSAValue, SSAValue] = {}
        """Comparisons and their conjunctions, with their replacements."""

    def parts(self, value: SSAValue) -> Parts:
        if value not in self._known:
            self._known[value] = self._split_sum(value)
        return self._known[value]

    def _split_sum(self, value: SSAValue) -> Parts:
        """Split a value into a scalar and a tensor, whose sum it is."""
        op, constant = value.owner, constant_of(value)
        if not isinstance(op, Operation):
            return Parts(None, value)
        if constant is not None:
            return Parts(number(constant, op), None)
        if isinstance(op, SplatOp):
            return Parts(op.src, None)
        if isinstance(op, arith.AddiOp):
            (a, x), (b, y) = self.parts(op.lhs), self.parts(op.rhs)
            return Parts(_sum(a, b, op), _sum(x, y, op)) if a or b else Parts(None, value)
        if isinstance(op, arith.MuliOp):
            return self._product(op)
        if isinstance(op, _SHAPES):
            scalar, rest = self.parts(op.src)
            if scalar is None:
                return Parts(None, value)
            return Parts(scalar, rest and reshaped(op, rest))
        return Parts(None, value)

    def _product(self, op: arith.MuliOp) -> Parts:
        """Split a product of two scalars; leave others, which would take no fewer instructions."""
        (left, x), (right, y) = self.parts(op.lhs), self.parts(op.rhs)
        if x or y or left is None or right is None:
            return Parts(None, op.result)
        return Parts(put_before(arith.MuliOp(left, right), op), None)


def number(value: int, before: Operation) -> SSAValue:
    """Create a constant of 64 bits."""
    return put_before(arith.ConstantOp(IntegerAttr(value, i64)), before)


def _sum(left: SSAValue | None, right: SSAValue | None, op: Operation) -> SSAValue | None:
    return put_before(arith.AddiOp(left, right), op) if left and right else left or right


def reshaped(op: Operation, source: SSAValue) -> SSAValue:
    """Apply the operation `op` to another tensor of the same shape and layout."""
    old = op.results[0].type
    assert isinstance(old, TensorType)
    assert isinstance(source.type, TensorType)
    kind = TensorType(source.type.element_type, old.get_shape(), old.encoding)
    return put_before(type(op).create(
        operands=[source], result_types=[kind], properties=dict(op.properties),
        attributes=dict(op.attributes)), op)


def _element(kind: Attribute) -> Attribute | None:
    return kind.element_type if isinstance(kind, TensorType) else None


# -- pointers --------------------------------------------------------------------------------------


def _shortened(pointer: SSAValue, parts: _Splitter) -> SSAValue:
    """Compute the same addresses in fewer instructions, if the form of `pointer` allows it."""
    moved = pointer.owner
    if not isinstance(moved, AddPtrOp) or not isinstance(moved.ptr.owner, SplatOp) or (
            _element(moved.offset.type) != i64):
        return pointer
    scalar, rest = parts.parts(moved.offset)
    if rest is None:
        return pointer
    base: SSAValue = moved.ptr.owner.src
    if scalar is not None:
        base = put_before(AddPtrOp(operands=[base, scalar], result_types=[base.type]), moved)
    return _pointer(base, _addends(rest), moved)


def _addends(rest: SSAValue) -> list[SSAValue]:
    """List the addends of a tensor before they are broadcast, fewest registers first."""
    op = rest.owner
    if isinstance(op, arith.AddiOp) and all(isinstance(v.owner, BroadcastOp) for v in op.operands):
        return sorted((v.owner.src for v in op.operands), key=_registers)  # type: ignore[union-attr]
    return [rest]


def _registers(value: SSAValue) -> int:
    return len(view_of(layout_of(value.type)).registers)


def _pointer(base: SSAValue, addends: Iterable[SSAValue], moved: AddPtrOp) -> SSAValue:
    """Add `addends` to a base, to addresses of the shape that `moved` has."""
    made: SSAValue | None = None
    whole: Any = moved.result.type
    for addend in addends:
        kind: Any = addend.type
        of_addend = TensorType(base.type, kind.get_shape(), kind.encoding)
        if made is None:
            made = put_before(SplatOp(operands=[base], result_types=[of_addend]), moved)
        else:
            addend = _broadcast(addend, TensorType(i64, whole.get_shape(), whole.encoding), moved)
            made = _broadcast(made, whole, moved)
        made = put_before(AddPtrOp(operands=[made, addend], result_types=[made.type]), moved)
    assert made is not None
    return made


def _broadcast(value: SSAValue, kind: TensorType[Any], at: Operation) -> SSAValue:
    return value if value.type == kind else put_before(
        BroadcastOp(operands=[value], result_types=[kind]), at)


# -- masks -----------------------------------------------------------------------------------------


class _Comparison(NamedTuple):
    """A comparison of 32-bit numbers with a 64-bit number."""

    op: CmpiOp
    numbers: SSAValue
    limit: SSAValue

    def bounded(self) -> SSAValue:
        """Clamp the limit to 32 bits such that the comparison has the same result."""
        least, most = Facts(trusting=False).range(self.numbers)
        limit = put_before(arith.MaxSIOp(self.limit, number(least, self.op)), self.op)
        limit = put_before(arith.MinSIOp(limit, number(most + 1, self.op)), self.op)
        return put_before(TruncIOp(limit, i32), self.op)


def _shorten_mask(mask: SSAValue, parts: _Splitter) -> SSAValue:
    """Replace the pairs of comparisons of a mask by comparisons of 32 bits."""
    if mask in parts.compared:
        return parts.compared[mask]
    made, op = mask, mask.owner
    if isinstance(op, arith.AndIOp):
        window = _window(op, parts)
        if window is not None:
            made = window
        else:
            for value in op.operands:
                _shorten_mask(value, parts)
    elif isinstance(op, _SHAPES):
        _shorten_mask(op.src, parts)
    parts.compared[mask] = parts.compared[made] = made
    if made is not mask:
        mask.replace_all_uses_with(made)
    return made


def _comparison(op: Operation | Any, parts: _Splitter) -> _Comparison | None:
    """Return `op` as a comparison of 32-bit numbers; None if it is none."""
    if not isinstance(op, CmpiOp) or _element(op.lhs.type) != i64 or (
            _predicate(op) not in (_LESS, _NOT_LESS)):
        return None
    (x, rest), (y, other) = parts.parts(op.lhs), parts.parts(op.rhs)
    if rest is None or other is not None or y is None:
        return None
    if not all(_is_within(v, LARGE) for v in (x, y) if v) or not _is_within(rest, SMALL):
        return None
    numbers = _narrow(rest)
    if numbers is None:
        return None
    return _Comparison(op, numbers, y if x is None else put_before(arith.SubiOp(y, x), op))


def _predicate(op: CmpiOp) -> str:
    return str(CmpiOp.PREDICATES[op.predicate.value.data])


def _is_within(value: SSAValue, bound: int) -> bool:
    low, high = Facts(trusting=False).range(value)
    return -bound < low and high < bound


def _narrow(value: SSAValue) -> SSAValue | None:
    """Return the 32-bit numbers that `value` extends; None if it extends none."""
    op = value.owner
    if isinstance(op, ExtSIOp):
        return op.input if _element(op.input.type) == i32 else None
    if not isinstance(op, _SHAPES):
        return None
    source = _narrow(op.src)
    return None if source is None else reshaped(op, source)


def _splat(scalar: SSAValue, like: SSAValue, at: Operation) -> SSAValue:
    kind: Any = like.type
    return put_before(SplatOp(operands=[scalar], result_types=[
        TensorType(scalar.type, kind.get_shape(), kind.encoding)]), at)


def _window(op: arith.AndIOp, parts: _Splitter) -> SSAValue | None:
    """Compare numbers with a lower and an upper limit at once; None if `op` is no such test."""
    owners = [value.owner for value in op.operands]
    if not all(isinstance(o, CmpiOp) for o in owners) or owners[0].lhs is not owners[1].lhs:  # type: ignore[union-attr]
        return None
    found = {_predicate(c.op): c for c in (_comparison(o, parts) for o in owners) if c}
    if found.keys() != {_LESS, _NOT_LESS}:
        return None
    first, end = found[_NOT_LESS].bounded(), found[_LESS].bounded()
    size = put_before(arith.MaxSIOp(put_before(arith.SubiOp(end, first), op), _zero(op)), op)
    numbers = found[_LESS].numbers
    below = put_before(arith.SubiOp(_zero(op), first), op)
    return put_before(CmpiOp(put_before(arith.AddiOp(_splat(below, numbers, op), numbers), op),
                             _splat(size, numbers, op), _BELOW), op)


def _zero(at: Operation) -> SSAValue:
    return put_before(arith.ConstantOp(IntegerAttr(0, i32)), at)
