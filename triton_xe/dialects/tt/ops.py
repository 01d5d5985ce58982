"""Ops of dialect `tt` that compute: casts, arithmetic, shapes, matrix products, program ids."""

from __future__ import annotations

from abc import ABC
from math import prod

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect, Pure

from triton_xe.dialects.elementwise import Elementwise
from triton_xe.dialects.text.assembly import (
    ANY,
    TENSOR,
    FieldOp,
    Follows,
    KeywordConstraint,
    bool_like,
    element_type,
    need_shape,
    shape_of_type,
)


class ConversionOp(FieldOp, ABC):
    """Base of ops that convert one value to a value of any type."""

    src = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"


class SameTypeOp(FieldOp, ABC):
    """Base of ops whose operands and result have one type."""

    result = result_def(ANY)
    traits = traits_def(Elementwise(), Pure())
    assembly_format = "operands attr-dict `:` type($result)"


class PairOp(FieldOp, ABC):
    """Base of ops that combine two values of one type to a value of another type."""

    lhs = operand_def(ANY)
    rhs = operand_def(ANY)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)"


# Casts


@irdl_op_definition
class IntToPtrOp(ConversionOp):
    name = "tt.int_to_ptr"


@irdl_op_definition
class PtrToIntOp(ConversionOp):
    name = "tt.ptr_to_int"


@irdl_op_definition
class BitcastOp(ConversionOp):
    """Reinterpret between types of one width, pointers included."""

    name = "tt.bitcast"
    traits = traits_def(Elementwise(), Pure())


@irdl_op_definition
class FpToFpOp(FieldOp):
    """Convert to or from 8-bit floats, or with a rounding mode that is not the default."""

    name = "tt.fp_to_fp"
    src = operand_def()
    rounding = opt_prop_def(KeywordConstraint(("rtz", "rtne")))
    result = result_def()
    traits = traits_def(Elementwise(), Pure())
    assembly_format = (
        "$src attr-dict (`,` `rounding` `=` custom<Keyword>($rounding)^)?"
        " `:` type($src) `->` type($result)"
    )


# Arithmetic


@irdl_op_definition
class ClampFOp(FieldOp):
    """min(max(x, min), max)."""

    name = "tt.clampf"
    x = operand_def(ANY)
    min = operand_def(ANY)
    max = operand_def(ANY)
    propagate_nan = prop_def(KeywordConstraint(("none", "all")), prop_name="propagateNan")
    result = result_def(ANY)
    traits = traits_def(Elementwise(), Pure())
    assembly_format = (
        "$x `,` $min `,` $max `,` `propagateNan` `=` custom<Keyword>($propagateNan) attr-dict"
        " `:` type($result)"
    )


@irdl_op_definition
class PreciseSqrtOp(SameTypeOp):
    name = "tt.precise_sqrt"
    x = operand_def(ANY)


@irdl_op_definition
class PreciseDivFOp(SameTypeOp):
    name = "tt.precise_divf"
    x = operand_def(ANY)
    y = operand_def(ANY)


@irdl_op_definition
class ApproxDivFOp(SameTypeOp):
    name = "tt.approx_divf"
    x = operand_def(ANY)
    y = operand_def(ANY)


@irdl_op_definition
class MulhiUIOp(SameTypeOp):
    """Upper half of the unsigned product."""

    name = "tt.mulhiui"
    x = operand_def(ANY)
    y = operand_def(ANY)


@irdl_op_definition
class AddPtrOp(FieldOp):
    """Pointer plus an offset counted in elements."""

    name = "tt.addptr"
    ptr = operand_def(ANY)
    offset = operand_def()
    result = result_def(ANY)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` type(operands)"

    def verify_(self) -> None:
        need_shape(self, self.offset, shape_of_type(self.ptr.type))


# Shapes


@irdl_op_definition
class SplatOp(ConversionOp):
    """A tensor whose elements all equal one scalar."""

    name = "tt.splat"

    def verify_(self) -> None:
        if self.src.type != element_type(self.result.type):
            self.refuse("the result's elements must have the source's type")


@irdl_op_definition
class UnsplatOp(FieldOp):
    """The scalar in a tensor of one element."""

    name = "tt.unsplat"
    src = operand_def(TENSOR)
    result = result_def(Follows(element_type, "the result is an element of the source"))
    traits = traits_def(Pure())
    assembly_format = "$src attr-dict `:` type($src)"


@irdl_op_definition
class ExpandDimsOp(ConversionOp):
    """Insert a dimension of size 1 at `axis`."""

    name = "tt.expand_dims"
    axis = prop_def(IntegerAttr)

    def verify_(self) -> None:
        shape, axis = list(shape_of_type(self.src.type)), self.axis.value.data
        if not 0 <= axis <= len(shape):
            self.refuse(f"{self.src.type} has no axis {axis} to insert")
        need_shape(self, self.result, (*shape[:axis], 1, *shape[axis:]))


@irdl_op_definition
class BroadcastOp(ConversionOp):
    """Repeat elements along dimensions of size 1."""

    name = "tt.broadcast"

    def verify_(self) -> None:
        old, new = shape_of_type(self.src.type), shape_of_type(self.result.type)
        if len(old) != len(new) or any(a not in (1, b) for a, b in zip(old, new, strict=True)):
            self.refuse(f"dimensions of size 1 grow; {self.src.type} became {self.result.type}")


@irdl_op_definition
class TransOp(ConversionOp):
    """Permute the dimensions: result dimension i is source dimension `order[i]`."""

    name = "tt.trans"
    order = prop_def(DenseArrayBase)

    def verify_(self) -> None:
        order: tuple[int, ...] = self.order.get_values()
        shape = shape_of_type(self.src.type)
        if sorted(order) != list(range(len(shape))):
            self.refuse(f"{list(order)} does not permute the dimensions of {self.src.type}")
        need_shape(self, self.result, [shape[dim] for dim in order])


@irdl_op_definition
class ReshapeOp(FieldOp):
    """Another shape with as many elements, row-major unless reordering is allowed."""

    name = "tt.reshape"
    src = operand_def(TensorType)
    allow_reorder = opt_prop_def(UnitAttr)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$src (`allow_reorder` $allow_reorder^)? (`efficient_layout` $efficient_layout^)? attr-dict"
        " `:` type($src) `->` type($result)"
    )

    def verify_(self) -> None:
        if prod(shape_of_type(self.src.type)) != prod(shape_of_type(self.result.type)):
            self.refuse(f"{self.src.type} has not as many elements as {self.result.type}")


@irdl_op_definition
class CatOp(PairOp):
    """Concatenate along dimension 0; may reorder elements."""

    name = "tt.cat"
    traits = traits_def(NoMemoryEffect())

    def verify_(self) -> None:
        first, *rest = shape_of_type(self.lhs.type) or (0,)
        need_shape(self, self.result, (2 * first, *rest))


@irdl_op_definition
class JoinOp(PairOp):
    """Stack two tensors along a new last dimension of size 2."""

    name = "tt.join"

    def verify_(self) -> None:
        need_shape(self, self.result, (*shape_of_type(self.lhs.type), 2))


@irdl_op_definition
class SplitOp(FieldOp):
    """Undo `tt.join`: the halves of the last dimension, which has size 2."""

    name = "tt.split"
    src = operand_def(TensorType)
    lhs = result_def(TENSOR)
    rhs = result_def(TENSOR)
    traits = traits_def(Pure())
    assembly_format = "$src attr-dict `:` type($src) `->` type($lhs)"

    def verify_(self) -> None:
        need_shape(self, self.src, (*shape_of_type(self.lhs.type), 2))


@irdl_op_definition
class MakeRangeOp(FieldOp):
    """start, start + 1, ..., end - 1 as a 1D i32 tensor."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        size = self.end.value.data - self.start.value.data
        if self.result.type.get_shape() != (size,):
            self.refuse(f"{size} values do not fit {self.result.type}")


@irdl_op_definition
class GatherOp(FieldOp):
    """Pick elements of `src` along `axis` by `indices`."""

    name = "tt.gather"
    src = operand_def(TensorType)
    indices = operand_def(TensorType)
    axis = prop_def(IntegerAttr)
    efficient_layout = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$src `[` $indices `]` attr-dict `:` functional-type(operands, results)"

    def verify_(self) -> None:
        if not 0 <= self.axis.value.data < len(shape_of_type(self.src.type)):
            self.refuse(f"{self.src.type} has no axis {self.axis.value.data}")
        need_shape(self, self.result, shape_of_type(self.indices.type))


@irdl_op_definition
class HistogramOp(FieldOp):
    """Counts of the values 0 .. bins-1; bins is the result's size."""

    name = "tt.histogram"
    src = operand_def(TENSOR)
    mask = opt_operand_def(Follows(bool_like, "the mask has the source's shape and layout"))
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$src (`,` $mask^)? attr-dict `:` type($src) `->` type($result)"


# Matrix products


@irdl_op_definition
class DotOp(FieldOp):
    """d = a @ b + c; `swapped` if its columns are gathered rows of the program's dot."""

    name = "tt.dot"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TENSOR)
    input_precision = prop_def(
        KeywordConstraint(("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")),
        default_value=StringAttr("ieee"),
        prop_name="inputPrecision",
    )
    max_num_imprecise_acc = opt_prop_def(IntegerAttr, prop_name="maxNumImpreciseAcc")
    swapped = opt_prop_def(UnitAttr, prop_name="xe.swapped")
    d = result_def(TENSOR)
    traits = traits_def(Pure())
    assembly_format = (
        "$a `,` $b `,` $c (`,` `inputPrecision` `=` custom<Keyword>($inputPrecision)^)? attr-dict"
        " `:` type($a) `*` type($b) `->` type($d)"
    )

    def verify_(self) -> None:
        *batch, m, k = shape_of_type(self.a.type) if self._rank > 1 else (0, 0)
        need_shape(self, self.b, (*batch, k, shape_of_type(self.b.type)[-1]))
        need_shape(self, self.d, (*batch, m, shape_of_type(self.b.type)[-1]))
        floats = {isinstance(element_type(v.type), AnyFloat) for v in (self.a, self.b, self.d)}
        if len(floats) > 1:
            self.refuse(f"{self.a.type}, {self.b.type} and {self.d.type} mix floats and integers")

    @property
    def _rank(self) -> int:
        return min(len(shape_of_type(factor.type)) for factor in (self.a, self.b))

    @property
    def precision(self) -> str:
        attr = self.input_precision
        assert isinstance(attr, StringAttr)
        return attr.data


SCALE_DOT_ELEMENTS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "fp16")


@irdl_op_definition
class DotScaledOp(FieldOp):
    """d = scale(a, a_scale) @ scale(b, b_scale) + c, in the microscaling formats."""

    name = "tt.dot_scaled"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TENSOR)
    a_scale = opt_operand_def(TensorType)
    b_scale = opt_operand_def(TensorType)
    a_elem_type = prop_def(KeywordConstraint(SCALE_DOT_ELEMENTS))
    b_elem_type = prop_def(KeywordConstraint(SCALE_DOT_ELEMENTS))
    fast_math = prop_def(IntegerAttr, prop_name="fastMath")
    lhs_k_pack = opt_prop_def(IntegerAttr)
    rhs_k_pack = opt_prop_def(IntegerAttr)
    d = result_def(TENSOR)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$a (`scale` $a_scale^)? `,` $b (`scale` $b_scale^)? `,` $c"
        " `lhs` `=` custom<Keyword>($a_elem_type) `rhs` `=` custom<Keyword>($b_elem_type) attr-dict"
        " `:` type($a) (`,` type($a_scale)^)? `*` type($b) (`,` type($b_scale)^)? `->` type($d)"
    )

    def verify_(self) -> None:
        if min(len(shape_of_type(factor.type)) for factor in (self.a, self.b)) < 2:
            self.refuse(f"{self.a.type} or {self.b.type} is no matrix")
        *batch, m, k = self._unpacked(self.a, self.a_elem_type, self.lhs_k_pack, -1)
        *_, kb, n = self._unpacked(self.b, self.b_elem_type, self.rhs_k_pack, -2)
        if k != kb:
            self.refuse(f"A has {k} columns, B {kb} rows: {self.a.type} and {self.b.type}")
        need_shape(self, self.d, (*batch, m, n))
        if not isinstance(element_type(self.d.type), AnyFloat):
            self.refuse(f"the product is of floats, not {self.d.type}")

    @staticmethod
    def _unpacked(
        factor: SSAValue, elements: Attribute, packed: IntegerAttr | None, along_k: int
    ) -> list[int]:
        """The shape in elements; a byte packs two e2m1, along K or along the other dimension."""
        shape = list(shape_of_type(factor.type))
        if elements == StringAttr("e2m1"):
            shape[along_k if packed is None or packed.value.data else -3 - along_k] *= 2
        return shape


# Programs

PROGRAM_AXES = ("x", "y", "z")


class ProgramAxisOp(FieldOp, ABC):
    """Base of ops that return a number of one axis of the launch grid."""

    axis = prop_def(KeywordConstraint(PROGRAM_AXES))
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "custom<Keyword>($axis) attr-dict `:` type($result)"

    @property
    def dimension(self) -> int:
        assert isinstance(self.axis, StringAttr)
        return PROGRAM_AXES.index(self.axis.data)


@irdl_op_definition
class GetProgramIdOp(ProgramAxisOp):
    name = "tt.get_program_id"


@irdl_op_definition
class GetNumProgramsOp(ProgramAxisOp):
    name = "tt.get_num_programs"
