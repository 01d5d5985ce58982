"""Dialect `vector`: xDSL's own, with the ops it lacks that XeGPU programs need.

    %b = vector.shape_cast %a : vector<8x32xf16> to vector<8x16x2xf16>
    %i = vector.step : vector<16xindex>
    %t = vector.transpose %a, [1, 0] : vector<8x16xf32> to vector<16x8xf32>
    %e = vector.extract_strided_slice %a {offsets = [2], sizes = [4], strides = [1]}
         : vector<8x16xf32> to vector<4x16xf32>
    %s = vector.multi_reduction <add>, %a, %zero [1] : vector<8x16xf32> to vector<8xf32>
    %d = vector.contract {indexing_maps = [...], iterator_types = ["parallel", "parallel",
         "reduction"], kind = #vector.kind<add>} %a, %b, %c : vector<8x16xf16>,
         vector<16x16xf16> into vector<8x16xf32>
    %g = vector.gather %m[%y][%i], %mask, %other : memref<?xf32>, vector<16xindex>,
         vector<16xi1>, vector<16xf32> into vector<16xf32>
    vector.scatter %m[%y][%i], %mask, %g : memref<?xf32>, vector<16xindex>, vector<16xi1>,
                                           vector<16xf32>
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import NoReturn

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.vector import CombiningKindAttr
from xdsl.dialects.vector import Vector as Stock
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

Numbers = ArrayAttr[IntegerAttr]
SAME = VarConstraint("T", AnyAttr())
"""Constraint that all values with it have one type."""


def numbers(held: ArrayAttr[IntegerAttr]) -> list[int]:
    return [int(number.value.data) for number in held]


def vector_shape(value: SSAValue) -> tuple[int, ...]:
    """The sizes of a vector; empty for a scalar."""
    return tuple(value.type.get_shape()) if isinstance(value.type, VectorType) else ()


def element_of(value: SSAValue) -> Attribute:
    return value.type.element_type if isinstance(value.type, VectorType) else value.type


class VectorOp(IRDLOperation, ABC):
    """Base of the ops, with errors that name the violated rule."""

    def refuse(self, rule: str) -> NoReturn:
        raise VerifyException(f"{self.name}: {rule}")

    def need(self, holds: bool, rule: str) -> None:
        if not holds:
            self.refuse(rule)


@irdl_op_definition
class ShapeCastOp(VectorOp):
    """Change the shape of a vector without moving elements."""

    name = "vector.shape_cast"
    source = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, VectorType)
        assert isinstance(result, VectorType)
        same = prod(source.get_shape()) == prod(result.get_shape())
        if not same or source.element_type != result.element_type:
            self.refuse(
                f"keeps the number and type of the elements; {source} became {result}"
            )


@irdl_op_definition
class StepOp(VectorOp):
    """The vector 0, 1, 2, ... of index values."""

    name = "vector.step"
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, VectorType)
        if len(type_.get_shape()) != 1 or not isinstance(type_.element_type, IndexType):
            self.refuse(f"makes a vector<Nxindex>, not {type_}")


@irdl_op_definition
class TransposeOp(VectorOp):
    """Dimension d of the result is dimension permutation[d] of the source."""

    name = "vector.transpose"
    vector = operand_def(VectorType)
    permutation = prop_def(Numbers)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$vector `,` $permutation attr-dict `:` type($vector) `to` type($result)"

    def verify_(self) -> None:
        shape, order = vector_shape(self.vector), tuple(numbers(self.permutation))
        self.need(sorted(order) == list(range(len(shape))),
                  f"{list(order)} is no permutation of {len(shape)} dimensions")
        self.need(vector_shape(self.result) == tuple(shape[d] for d in order)
                  and element_of(self.result) == element_of(self.vector),
                  f"{self.vector.type} does not become {self.result.type}")


@irdl_op_definition
class ExtractStridedSliceOp(VectorOp):
    """Extract a box of the leading dimensions."""

    name = "vector.extract_strided_slice"
    vector = operand_def(VectorType)
    offsets = prop_def(Numbers)
    sizes = prop_def(Numbers)
    strides = prop_def(Numbers)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$vector attr-dict `:` type($vector) `to` type($result)"

    @property
    def box(self) -> list[range]:
        """The positions along each dimension of the source."""
        shape = vector_shape(self.vector)
        given = map(numbers, (self.offsets, self.sizes, self.strides))
        cut = [range(o, o + s * step, step) for o, s, step in zip(*given, strict=True)]
        return cut + [range(size) for size in shape[len(cut):]]

    def verify_(self) -> None:
        counts = {len(self.offsets), len(self.sizes), len(self.strides)}
        shape = vector_shape(self.vector)
        self.need(len(counts) == 1 and counts.pop() <= len(shape),
                  "takes as many offsets, sizes and strides, at most one per dimension")
        self.need(min(numbers(self.strides) + numbers(self.sizes), default=1) > 0,
                  "sizes and strides are positive")
        inside = all(r.start >= 0 and r[-1] < size
                     for r, size in zip(self.box, shape, strict=True))
        self.need(inside, f"the slice leaves {self.vector.type}")
        self.need(vector_shape(self.result) == tuple(map(len, self.box))
                  and element_of(self.result) == element_of(self.vector),
                  f"the slice is no {self.result.type}")


@irdl_op_definition
class MultiReductionOp(VectorOp):
    """Reduce along some dimensions, and combine with `acc`."""

    name = "vector.multi_reduction"
    kind = prop_def(CombiningKindAttr)
    source = operand_def(VectorType)
    acc = operand_def(SAME)
    reduction_dims = prop_def(Numbers)
    dest = result_def(SAME)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind `,` $source `,` $acc $reduction_dims attr-dict `:` type($source) `to` type($dest)"
    )

    @property
    def kept(self) -> list[int]:
        """The dimensions of the result."""
        gone = set(numbers(self.reduction_dims))
        return [d for d in range(len(vector_shape(self.source))) if d not in gone]

    def verify_(self) -> None:
        shape, dims = vector_shape(self.source), numbers(self.reduction_dims)
        self.need(len(set(dims)) == len(dims) and all(0 <= d < len(shape) for d in dims),
                  f"{dims} are no dimensions of {self.source.type}")
        self.need(vector_shape(self.dest) == tuple(shape[d] for d in self.kept)
                  and element_of(self.dest) == element_of(self.source),
                  f"{self.source.type} without {dims} is no {self.dest.type}")


@irdl_op_definition
class ContractOp(VectorOp):
    """acc + the sum of products of lhs and rhs over the dimensions that the result lacks."""

    name = "vector.contract"
    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    acc = operand_def(SAME)
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    iterator_types = prop_def(ArrayAttr)
    kind = opt_prop_def(CombiningKindAttr)
    result = result_def(SAME)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "attr-dict $lhs `,` $rhs `,` $acc `:` type($lhs) `,` type($rhs) `into` type($result)"
    )

    @property
    def maps(self) -> list[list[int]]:
        """Dimensions of the iteration space of lhs, rhs and the result, in their order."""
        return [[e.position if isinstance(e, AffineDimExpr) else -1 for e in held.data.results]
                for held in self.indexing_maps]

    @property
    def sizes(self) -> dict[int, int]:
        """The size of each dimension of the iteration space."""
        values = (self.lhs, self.rhs, self.result)
        return {d: size for dims, value in zip(self.maps, values, strict=True)
                for d, size in zip(dims, vector_shape(value), strict=True)}

    def verify_(self) -> None:
        values = (self.lhs, self.rhs, self.result)
        self.need(len(self.maps) == 3, "takes three indexing_maps")
        for dims, value in zip(self.maps, values, strict=True):
            self.need(-1 not in dims and len(set(dims)) == len(dims)
                      and len(dims) == len(vector_shape(value)),
                      f"the map of {value.type} names each of its dimensions once")
        sizes = self.sizes
        for dims, value in zip(self.maps, values, strict=True):
            self.need(vector_shape(value) == tuple(sizes[d] for d in dims),
                      f"the sizes of {value.type} are not those of the others")
        wanted = ["parallel" if d in self.maps[2] else "reduction" for d in sorted(sizes)]
        given = [getattr(held, "data", "") for held in self.iterator_types]
        self.need(given == wanted, f"by its maps, iterator_types are {wanted}, not {given}")
        self.need(sorted(sizes) == list(range(len(sizes))) and set(self.maps[2])
                  <= {*self.maps[0], *self.maps[1]}, "the maps leave a dimension out")


class IndexedAccessOp(VectorOp, ABC):
    """Access a memref at indices from a vector."""

    base = operand_def()
    indices = var_operand_def(IndexType)
    index_vec = operand_def(VectorType)
    mask = operand_def(VectorType)

    @property
    def moved(self) -> SSAValue:
        raise NotImplementedError

    def verify_(self) -> None:
        kind, moved = self.base.type, self.moved
        if not isinstance(kind, MemRefType):
            self.refuse(f"an access to a memref, not to {kind}")
        self.need(len(self.indices) == kind.get_num_dims(), "an index for each dimension")
        self.need(kind.element_type == element_of(moved), f"{kind} does not hold {moved.type}")
        same = {vector_shape(v) for v in (self.index_vec, self.mask, moved)}
        self.need(len(same) == 1 and element_of(self.mask) == i1,
                  "indices, mask (of i1) and values have one shape")


@irdl_op_definition
class GatherOp(IndexedAccessOp):
    """Read base[indices + index_vec] where the mask is true, otherwise `pass_thru`."""

    name = "vector.gather"
    pass_thru = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $indices `]` `[` $index_vec `]` `,` $mask `,` $pass_thru attr-dict `:`"
        " type($base) `,` type($index_vec) `,` type($mask) `,` type($pass_thru) `into`"
        " type($result)"
    )

    @property
    def moved(self) -> SSAValue:
        return self.result

    def verify_(self) -> None:
        super().verify_()
        self.need(self.pass_thru.type == self.result.type, "pass_thru has the type of the result")


@irdl_op_definition
class ScatterOp(IndexedAccessOp):
    """Write base[indices + index_vec] where the mask is true."""

    name = "vector.scatter"
    value = operand_def(VectorType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$base `[` $indices `]` `[` $index_vec `]` `,` $mask `,` $value attr-dict `:`"
        " type($base) `,` type($index_vec) `,` type($mask) `,` type($value)"
    )

    @property
    def moved(self) -> SSAValue:
        return self.value


@irdl_op_definition
class PermuteOp(VectorOp):
    """Element p of the result is element origins[p] of the concatenated sources, or zero for -1."""

    name = "vector.permute"
    sources = var_operand_def(VectorType)
    origins = prop_def(DenseArrayBase)
    result = result_def(VectorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sources attr-dict `:` type($sources) `to` type($result)"

    def __init__(
        self, sources: Sequence[SSAValue], origins: Sequence[int], result_type: Attribute
    ) -> None:
        super().__init__(operands=[sources], result_types=[result_type],
                         properties={"origins": DenseArrayBase.from_list(i64, list(origins))})

    def verify_(self) -> None:
        origins = self.origins.get_values()
        size = sum(prod(vector_shape(source)) for source in self.sources)
        self.need({element_of(v) for v in self.sources} == {element_of(self.result)},
                  "sources and result have one type of elements")
        self.need(len(origins) == prod(vector_shape(self.result)), "an origin for each element")
        self.need(all(-1 <= o < size for o in origins), f"an origin outside of {size} elements")


Vector = Dialect("vector", [
    *Stock.operations, ShapeCastOp, StepOp, TransposeOp, ExtractStridedSliceOp, MultiReductionOp,
    ContractOp, GatherOp, ScatterOp, PermuteOp,
], list(Stock.attributes))
