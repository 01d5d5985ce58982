"""A tensor in another layout, recomputed from its operands if that is cheap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects.layouts import LayoutAttr, encoding_of, layout_attr
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.target import Target
from triton_xe.layout import LinearLayout, SliceEncoding, to_linear_layout
from triton_xe.layout.encodings import DistributedEncoding, Encoding
from triton_xe.lowering.facts.values import element_bits, shape_of
from triton_xe.lowering.facts.view import without_copies
from triton_xe.lowering.rewriting import locate, retype, retyped, values_below
from triton_xe.plan.conversion import is_through_shared

_CHEAP = (SplatOp, MakeRangeOp, ExpandDimsOp, BroadcastOp, AddPtrOp, ReshapeOp, ConvertLayoutOp)
DEPTH = 60


def layout_attr_of(value: SSAValue) -> LayoutAttr:
    """The layout attribute of a tensor's type."""
    assert isinstance(value.type, TensorType)
    assert isinstance(value.type.encoding, LayoutAttr)
    return value.type.encoding


def layout_of(kind: Attribute) -> LinearLayout:
    """The linear layout of a tensor type."""
    assert isinstance(kind, TensorType)
    return to_linear_layout(encoding_of(kind), tuple(kind.get_shape()))


def conversion_of(op: ConvertLayoutOp) -> tuple[LinearLayout, LinearLayout, int]:
    """Old and new layout of a conversion, without copies, and the bits of an element."""
    old, new = (without_copies(layout_of(v.type)) for v in (op.src, op.result))
    return old, new, element_bits(get_element_type_or_self(op.src.type))


def changes_in_shared_memory(op: Operation, target: Target) -> bool:
    """True if an operation changes a layout through shared local memory."""
    if not isinstance(op, ConvertLayoutOp):
        return False
    old, new, bits = conversion_of(op)
    return old != new and is_through_shared(old, new, bits, target)


def converted(value: SSAValue, encoding: Attribute, at: InsertPoint) -> SSAValue:
    """The tensor in a layout; converted at `at` unless it already has it."""
    if layout_attr_of(value) == encoding:
        return value
    op = ConvertLayoutOp(operands=[value], result_types=[retyped(value.type, encoding)])
    Rewriter.insert_op(op, at)
    return op.results[0]


def with_encoding(
    op: Operation, encoding: Attribute, at: InsertPoint, operands: list[SSAValue] | None = None
) -> Operation:
    """A copy of an operation with the same source location, its results in a layout, with other
    operands.
    """
    kinds = [retyped(r.type, encoding) for r in op.results]
    properties = dict(op.properties)
    held = properties.get("value")
    if isinstance(held, DenseIntOrFPElementsAttr):
        properties["value"] = DenseIntOrFPElementsAttr(cast(Any, kinds[0]), held.data)
    copy = type(op).create(
        operands=list(op.operands) if operands is None else operands, result_types=kinds,
        properties=properties, attributes=dict(op.attributes),
        regions=[region.clone() for region in op.regions],
    )
    locate(op, copy)
    Rewriter.insert_op(copy, at)
    return copy


def replace_converted(op: Operation, copy: Operation) -> None:
    """Replace the results of `op` by those of `copy`, converted back right after it."""
    locate(op, copy)
    for old, new in zip(op.results, copy.results, strict=True):
        back = ConvertLayoutOp(operands=[new], result_types=[old.type])
        locate(op, back)
        Rewriter.insert_op(back, InsertPoint.before(op))
        old.replace_all_uses_with(back.results[0])
    Rewriter.erase_op(op)


def exchange_layouts(function: Operation, exchanged: Mapping[Encoding, Encoding]) -> None:
    """Replace layouts, and the parents of slices, in the types of all values of a function."""
    kinds: dict[Attribute, TensorType[Attribute]] = {}
    for value in list(values_below(function)):
        kind = value.type
        if not isinstance(kind, TensorType) or not isinstance(kind.encoding, LayoutAttr):
            continue
        if kind not in kinds:
            kinds[kind] = retyped(kind, layout_attr(exchanged_in(encoding_of(kind), exchanged)))
        if kinds[kind] != kind:
            retype(value, kinds[kind])


def exchanged_in(encoding: Encoding, exchanged: Mapping[Encoding, Encoding]) -> Encoding:
    """The encoding in place of another one, also as the parent of a slice."""
    if encoding in exchanged or not isinstance(encoding, SliceEncoding):
        return exchanged.get(encoding, encoding)
    parent = exchanged_in(encoding.parent, exchanged)
    assert isinstance(parent, DistributedEncoding)
    return replace(encoding, parent=parent)


def before_conversions(value: SSAValue) -> SSAValue:
    """The tensor before any layout conversions."""
    op = value.owner
    while isinstance(op, ConvertLayoutOp):
        value = op.src
        op = value.owner
    return value


def is_volatile(load: LoadOp) -> bool:
    return load.is_volatile is not None and bool(load.is_volatile.value.data)


def is_cheap(value: SSAValue) -> bool:
    """True if a tensor is index arithmetic on scalars, without loads and loop-carried tensors."""
    level = {value}
    for _ in range(DEPTH):
        level = {v for v in level if type(v.type) is TensorType}
        if not all(map(_is_cheap_step, level)):
            return False
        level = {v for made in level for v in made.owner.operands}  # type: ignore[union-attr]
    return not level


def _is_cheap_step(value: SSAValue) -> bool:
    op: Any = value.owner
    kind = type(op)
    if kind is Block or (kind is ReshapeOp and not adds_unit_dim(op)):
        return False
    if kind is arith.ConstantOp:
        return isinstance(op.value, DenseIntOrFPElementsAttr) and op.value.is_splat()
    return kind in _CHEAP or op.dialect_name() == "arith"


def adds_unit_dim(op: ReshapeOp) -> bool:
    """True if a tt.reshape is equivalent to a tt.expand_dims."""
    old, new = shape_of(op.src), shape_of(op.result)
    return len(new) == len(old) + 1 and [s for s in new if s != 1] == [s for s in old if s != 1]


def rematerialize(
    value: SSAValue, encoding: Attribute, recomputed: dict[tuple[SSAValue, Attribute], SSAValue]
) -> SSAValue:
    """Recompute a cheap tensor, with every step in the layout that leads to `encoding`.

    Each copy is inserted next to its original and cached in `recomputed`.
    """
    kind = value.type
    if not isinstance(kind, TensorType) or kind.encoding == encoding:
        return value
    known = recomputed.get((value, encoding))
    if known is not None:
        return known
    op = value.owner
    assert isinstance(op, Operation)
    if isinstance(op, ConvertLayoutOp):
        return rematerialize(op.src, encoding, recomputed)
    inner = slice_of(op, encoding) if isinstance(op, ExpandDimsOp | ReshapeOp) else encoding
    operands = [rematerialize(v, inner, recomputed) for v in op.operands]
    copy = with_encoding(op, encoding, InsertPoint.after(op), operands)
    recomputed[value, encoding] = copy.results[0]
    return copy.results[0]


@dataclass
class Rematerializer:
    """Recomputes values in other layouts, each next to the original."""

    made: dict[tuple[SSAValue, Attribute], SSAValue] = field(default_factory=dict)

    def value(self, value: SSAValue, encoding: Attribute) -> SSAValue:
        """The value in a layout: itself, or a copy that is made once."""
        kind = value.type
        if not isinstance(kind, TensorType) or kind.encoding == encoding:
            return value
        if is_cheap(value):
            return rematerialize(value, encoding, self.made)
        if (value, encoding) not in self.made:
            self.made[value, encoding] = self.recompute(value, encoding)
        return self.made[value, encoding]

    def recompute(self, value: SSAValue, encoding: Attribute) -> SSAValue:
        """Recompute a tensor that is not cheap, by the same operation on recomputed operands."""
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, ConvertLayoutOp):
            return self.value(op.src, encoding)
        inner = slice_of(op, encoding) if isinstance(op, ExpandDimsOp) else encoding
        operands = [self.value(v, inner) for v in op.operands]
        return with_encoding(op, encoding, InsertPoint.after(op), operands).results[0]


def slice_of(op: ExpandDimsOp | ReshapeOp, encoding: Attribute) -> Attribute:
    """The operand layout of an operation that adds a unit dim, for the result layout `encoding`."""
    old, new = shape_of(op.src), shape_of(op.result)
    if isinstance(op, ExpandDimsOp):
        axis = op.axis.value.data
    else:
        axis = next(d for d in range(len(new)) if new[:d] + new[d + 1 :] == old)
    return layout_attr(SliceEncoding(axis, encoding.encoding))  # type: ignore[attr-defined]
