"""Dialect `xe`: ops between Triton's work-group tensors and XeTile's subgroup tiles.

A cursor is a position in a 2D surface of global memory (base, height, width, pitch, y, x), counted
in rows and elements.  A block load reads a tensor there; elements outside the surface read as zero
and block stores drop them.  `xe.to_tile` and `xe.from_tile` convert between a tensor and the tile
that the current subgroup owns according to the tensor's layout.

    %s = xe.cursor %base aligned 16 : i32 height %h width %w pitch %p at [%y, %x]
             : !tt.ptr<f16> -> !xe.cursor<f16>
    %a = xe.block_load %s : !xe.cursor<f16> -> tensor<128x32xf16, #dot_a>
    %t = xe.advance %s by [%c0, %c32] : !xe.cursor<f16> -> !xe.cursor<f16>
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import (
    Attribute,
    Data,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    BaseAttr,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.elementwise import Elementwise
from triton_xe.dialects.layouts import DpasAttr
from triton_xe.dialects.text.assembly import TENSOR, FieldOp, ops_of
from triton_xe.dialects.xegpu.dpas import scaled_reason
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.block_2d import MATRIX_BITS


@irdl_attr_definition
class CursorType(ParametrizedAttribute, TypeAttribute):
    """A position in a 2D surface of `element` values."""

    name = "xe.cursor"
    element: Attribute


@irdl_op_definition
class CursorOp(FieldOp):
    """Create a cursor; `base_alignment` is the known alignment of the base address, in bytes."""

    name = "xe.cursor"
    base = operand_def()
    height = operand_def(i32)
    width = operand_def(i32)
    pitch = operand_def(i32)
    y = operand_def(i32)
    x = operand_def(i32)
    base_alignment = prop_def(IntegerAttr)
    cursor = result_def(CursorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$base `aligned` $base_alignment `height` $height `width` $width `pitch` $pitch"
        " `at` `[` $y `,` $x `]` attr-dict `:` type($base) `->` type($cursor)"
    )

    def verify_(self) -> None:
        if self.base_alignment.value.data.bit_count() != 1:
            self.refuse(f"an alignment is a power of 2, not {self.base_alignment.value.data}")


@irdl_op_definition
class AdvanceOp(FieldOp):
    """Move a cursor by rows and elements."""

    name = "xe.advance"
    cursor = operand_def(CursorType)
    rows = operand_def(i32)
    columns = operand_def(i32)
    moved = result_def(CursorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$cursor `by` `[` $rows `,` $columns `]` attr-dict `:` type($cursor) `->` type($moved)"
    )
    def verify_(self) -> None:
        if self.cursor.type != self.moved.type:
            self.refuse("keeps the type of its cursor")


class SurfaceOp(FieldOp, ABC):
    """An access that moves a tensor between registers and a surface by 2D messages."""

    cursor = operand_def(CursorType)

    def verify_(self) -> None:
        types = (*self.operand_types, *self.result_types)
        surface = next(type_.element for type_ in types if isinstance(type_, CursorType))
        tensor = next(type_ for type_ in types if isinstance(type_, TensorType))
        if surface != tensor.element_type:
            self.refuse(f"the surface holds {surface}, the tensor {tensor.element_type}")
        if tensor.get_num_dims() != 2:
            self.refuse(f"2D messages move matrices, not {tensor}")
        if bit_width(surface) not in MATRIX_BITS:
            self.refuse(f"no 2D message moves elements of {surface}")


@irdl_op_definition
class BlockLoadOp(SurfaceOp):
    """Read a tensor; with `transposed`, dimension 0 of the tensor runs along the surface's rows.

    With `unpacked`, its elements are unpacked for a dot.
    """

    name = "xe.block_load"
    transposed = opt_prop_def(UnitAttr)
    unpacked = opt_prop_def(UnitAttr, prop_name="xe.unpacked")
    value = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$cursor (`transposed` $transposed^)? attr-dict `:` type($cursor) `->` type($value)"
    )


@irdl_op_definition
class BlockStoreOp(SurfaceOp):
    """Write a tensor; elements outside the surface are dropped."""

    name = "xe.block_store"
    value = operand_def(TensorType)
    assembly_format = "$value `,` $cursor attr-dict `:` type($value) `,` type($cursor)"


@irdl_op_definition
class PrefetchedOp(FieldOp):
    """Mark a load as a prefetch: its value is needed in the cache only."""

    name = "xe.prefetched"
    value = operand_def(TensorType)
    assembly_format = "$value attr-dict `:` type($value)"


class HalfBarrierOp(FieldOp, ABC):
    """One half of the work-group's barrier, or of the named barrier with a number.

    With `xe.unordered` it orders no memory accesses.
    """

    number = opt_prop_def(IntegerAttr)
    unordered = opt_prop_def(UnitAttr, prop_name="xe.unordered")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"


@irdl_op_definition
class BarrierArriveOp(HalfBarrierOp):
    """Signal that this subgroup has arrived; `xe.barrier_wait` waits for all subgroups."""

    name = "xe.barrier_arrive"


@irdl_op_definition
class BarrierWaitOp(HalfBarrierOp):
    """Wait until all subgroups of the work-group have arrived."""

    name = "xe.barrier_wait"


@irdl_op_definition
class ReadSharedOp(FieldOp):
    """Read the elements of a tensor in shared memory that no use has read yet."""

    name = "xe.read_shared"
    tensor = operand_def(TensorType)
    assembly_format = "$tensor attr-dict `:` type($tensor)"


@irdl_op_definition
class DivisorOp(FieldOp):
    """Compute the values that later divisions by a scalar share; `signed`: signed divisions."""

    name = "xe.divisor"
    value = operand_def()
    signed = opt_prop_def(UnitAttr)
    assembly_format = "$value attr-dict `:` type($value)"


@irdl_op_definition
class ToTileOp(FieldOp):
    """View the part of a tensor that the current subgroup owns as a tile."""

    name = "xe.to_tile"
    tensor = operand_def(TensorType)
    tile = result_def()
    traits = traits_def(Pure())
    assembly_format = "$tensor attr-dict `:` type($tensor) `->` type($tile)"


@irdl_op_definition
class FromTileOp(FieldOp):
    """Form the tensor of which each subgroup owns the given tile."""

    name = "xe.from_tile"
    tile = operand_def()
    tensor = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$tile attr-dict `:` type($tile) `->` type($tensor)"


@irdl_op_definition
class WarpIdOp(FieldOp):
    """The index of the current subgroup in its work-group."""

    name = "xe.warp_id"
    id = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($id)"


@irdl_attr_definition
class SourcesAttr(Data[tuple[int, ...]]):
    """Sources of the values of a fragment: (load, element, part) of each, in order.

    Consecutive values are printed as a run: `<0:8:0 count 16 parts 2>` is 16 values from element 8
    of load 0 on, two parts in each element.  All others are listed.
    """

    name = "xe.sources"

    def get_values(self) -> tuple[int, ...]:
        """The flat list: load, element, part, load, element, part, ..."""
        return self.data

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        with parser.in_angle_brackets():
            groups = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _run(parser))
        return tuple(x for group in groups for x in group)

    def print_parameter(self, printer: Printer) -> None:
        triples = [self.data[i : i + 3] for i in range(0, len(self.data), 3)]
        load, element, part = triples[0]
        parts = 1 + max(t[2] for t in triples)
        run = _following(load, element, part, len(triples), parts)
        if self.data == run:
            printer.print_string(
                f"<{load}:{element}:{part} count {len(triples)} parts {parts}>"
            )
            return
        printer.print_string("<" + ", ".join(":".join(map(str, t)) for t in triples) + ">")


def _following(load: int, element: int, part: int, count: int, parts: int) -> tuple[int, ...]:
    places = [element * parts + part + i for i in range(count)]
    return tuple(x for p in places for x in (load, p // parts, p % parts))


def _run(parser: AttrParser) -> tuple[int, ...]:
    text = [parser.parse_integer()]
    for _ in range(2):
        parser.parse_punctuation(":")
        text.append(parser.parse_integer())
    if parser.parse_optional_keyword("count") is None:
        return tuple(text)
    count = parser.parse_integer()
    parser.parse_keyword("parts")
    return _following(text[0], text[1], text[2], count, parser.parse_integer())


@dataclass(frozen=True)
class Mark:
    """An attribute that this dialect defines for operations of other dialects."""

    name: str
    ops: tuple[type[Operation], ...]
    words: tuple[str, ...] = ("",)

    def put(self, op: Operation, word: str = "") -> None:
        """Mark an operation, with one of the mark's words."""
        if not isinstance(op, self.ops) or word not in self.words:
            raise VerifyException(f"{op.name} has no {self.name} = {word!r}")
        op.attributes[self.name] = StringAttr(word) if word else UnitAttr()

    def of(self, op: Operation) -> Attribute | None:
        """The attribute of an operation; None without the mark."""
        return op.attributes.get(self.name)


RUNS = Mark("xe.runs", (scf.ForOp,))
"""The loop runs at least once."""
ROLLED = Mark("xe.rolled", (scf.ForOp,))
"""Intel's compiler must not unroll the loop."""
VERSIONS = Mark("xe.versions", (scf.IfOp,))
"""The first side is the fast version of the second."""
ROUNDED = Mark("xe.rounded", (arith.MulfOp,))
"""The product is not fused with a sum, because the program asks for a rounded one."""
QUICK = Mark("xe.quick", (arith.DivSIOp, arith.RemSIOp), ("small", "unsigned"))
"""How to divide scalars, of which the divisor is positive."""
class OnFragmentsOp(FieldOp, ABC):
    """Base of the ops that create or read fragments.

    A fragment is a work-item's operand of an instruction, instead of a vector of the whole
    subgroup.
    """

    @property
    def instruction_operands(self) -> Sequence[SSAValue]:
        """The fragments that the op creates or reads."""
        return [v for v in (*self.operands, *self.results) if isinstance(v.type, VectorType)]


@irdl_op_definition
class FragmentOp(OnFragmentsOp):
    """A work-item's operand of one instruction, assembled from the results of loads.

    For each of the fragment's values in order, `sources` gives the load, the element of its result,
    and the part of the element.  With `swapped`, a lane has the values of lane (own number ^ 8).
    """

    name = "xe.fragment"
    loads = var_operand_def()
    sources = prop_def(SourcesAttr)
    swapped = opt_prop_def(UnitAttr)
    value = result_def()
    traits = traits_def(Pure())
    assembly_format = "$loads `from` $sources attr-dict `:` type($loads) `->` type($value)"


@irdl_op_definition
class ToFragmentOp(OnFragmentsOp):
    """View a tensor's registers from `first` on as an operand of an instruction."""

    name = "xe.to_fragment"
    tensor = operand_def(TensorType)
    first = prop_def(IntegerAttr)
    fragment = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$tensor `from` $first attr-dict `:` type($tensor) `->` type($fragment)"


@irdl_op_definition
class FromFragmentsOp(OnFragmentsOp):
    """Form the tensor whose registers are the given fragments in sequence."""

    name = "xe.from_fragments"
    fragments = var_operand_def()
    tensor = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$fragments attr-dict `:` type($fragments) `->` type($tensor)"


class _OnPlaces(OnFragmentsOp, ABC):
    """Base of the ops between fragments and a vector of the whole subgroup.

    A position in fragments is: register * lanes + lane.
    """

    places = prop_def(DenseArrayBase)

    def __init__(self, **given: Any) -> None:
        given["places"] = DenseArrayBase.from_list(i64, list(given["places"]))
        super().__init__(**given)


@irdl_op_definition
class VectorOfFragmentsOp(_OnPlaces):
    """Form the vector whose element p is at position `places[p]` of the fragments."""

    name = "xe.vector_of_fragments"
    fragments = var_operand_def()
    vector = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$fragments attr-dict `:` type($fragments) `->` type($vector)"
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def instruction_operands(self) -> Sequence[SSAValue]:
        return self.fragments


@irdl_op_definition
class FragmentOfVectorOp(_OnPlaces):
    """Form the fragment with element `places[p]` of a vector at position p; 0 for -1."""

    name = "xe.fragment_of_vector"
    source = operand_def(VectorType)
    fragment = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($fragment)"
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def instruction_operands(self) -> Sequence[SSAValue]:
        return self.results


VALUES = VarConstraint("T", BaseAttr(TensorType) | BaseAttr(VectorType))


@irdl_op_definition
class RoundTf32Op(FieldOp):
    """Round f32 values to the precision of tf32; the type remains f32."""

    name = "xe.round_tf32"
    value = operand_def(VALUES)
    rounded = result_def(VALUES)
    traits = traits_def(Elementwise(), Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($rounded)"


@irdl_op_definition
class ScaledDotOp(FieldOp):
    """d = scale(a) @ scale(b) + c by the scaled DPAS; elements of i8 are pairs of e2m1 along K.

    A scale is an E8M0 byte for 32 elements of a row of A, or of a column of B.  `a_scale` is
    M x K/32, `b_scale` N x K/32.
    """

    name = "xe.scaled_dot"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TENSOR)
    a_scale = operand_def(TensorType)
    b_scale = operand_def(TensorType)
    d = result_def(TENSOR)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b `,` $c `scales` $a_scale `,` $b_scale attr-dict `:` type($a) `*` type($b)"
        " `,` type($a_scale) `,` type($b_scale) `->` type($d)"
    )

    def verify_(self) -> None:
        reason = scaled_reason(*(v.type for v in self.operands))
        if reason:
            raise VerifyException(f"{self.name}: {reason}")

    @property
    def precision(self) -> str:
        """The input precision of `tt.dot`: products are exact."""
        return "ieee"


@irdl_op_definition
class RepeatOp(FieldOp):
    """Repeat each element of a tensor `times` times along a dimension."""

    name = "xe.repeat"
    source = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    times = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"
    irdl_options = (ParsePropInAttrDict(),)

    def verify_(self) -> None:
        axis, times = self.axis.value.data, self.times.value.data
        old, new = (list(v.type.get_shape()) for v in (self.source, self.result))  # type: ignore[attr-defined]
        if [s * times if d == axis else s for d, s in enumerate(old)] != new:
            raise VerifyException(f"{self.name}: {old} is not repeated to {new}")


@irdl_op_definition
class RowsOp(FieldOp):
    """Rows first, first + n, ... of a product, where n is the number of rows of an instruction.

    They are in one of n consecutive registers.
    """

    name = "xe.rows"
    tensor = operand_def(TensorType)
    first = operand_def(i32)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$tensor `[` $first `]` attr-dict `:` type($tensor) `->` type($result)"
    )


class _ByStrideOp(FieldOp, ABC):
    """Base of ops on pairs of elements whose row-major positions differ in the bit `stride`."""

    stride = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind, stride = self.results[0].type, self.stride.value.data
        if not isinstance(kind, TensorType) or not 0 < stride < prod(kind.get_shape()):
            self.refuse(f"positions of {kind} have no bit {stride}")
        if stride.bit_count() != 1:
            self.refuse(f"a stride is a power of 2, not {stride}")


@irdl_op_definition
class SwapOp(_ByStrideOp):
    """Exchange elements in pairs: position p gets the element from p ^ stride."""

    name = "xe.swap"
    src = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$src `stride` $stride attr-dict `:` type($src) `->` type($result)"

    def verify_(self) -> None:
        super().verify_()
        if self.src.type != self.result.type:
            self.refuse("keeps the type of its operand")


@irdl_op_definition
class PositionBitOp(_ByStrideOp):
    """True for elements whose position has the bit: the second of each exchanged pair."""

    name = "xe.position_bit"
    result = result_def(TensorType)
    assembly_format = "$stride attr-dict `:` type($result)"


Xe = Dialect("xe", ops_of(globals()), [CursorType, DpasAttr, SourcesAttr])
