"""Types of the XeGPU dialect, and which vectors an access through a descriptor moves.

    !xegpu.tensor_desc<8x16xbf16>
    !xegpu.tensor_desc<8x16xbf16, array_length = 2, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
    !xegpu.tensor_desc<16x8xui16, memory_scope = slm, #xegpu.scattered>
    !xegpu.nbarrier

Source: the XeGPU RFC.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NoReturn

from xdsl.dialects.builtin import (
    ArrayAttr,
    ContainerType,
    FixedBitwidthType,
    FloatTF32Type,
    IndexType,
    IntAttr,
    NoneAttr,
    ShapedType,
    VectorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.access_attributes import (
    CHUNK_SIZES,
    ScatteredAttr,
    SgMapAttr,
    TdescAttr,
    int_array,
    ints,
    parse_optional_field,
    tdesc_attr,
)
from triton_xe.hardware.block_2d import GRF_BYTES

SCATTERED_LANES = (1, 2, 4, 8, 16, 32)
"""Work-items that a scattered descriptor may address."""
PACKED_BITS = 32
"""Number of bits of consecutive rows that VNNI packs."""


def bit_width(element: Attribute) -> int:
    """Bits of an element in memory; 64 for index, 32 for tf32."""
    if isinstance(element, IndexType):
        return 64
    if isinstance(element, FloatTF32Type):
        return 32
    if not isinstance(element, FixedBitwidthType):
        raise VerifyException(f"{element} has no size; use an integer or a float type")
    return element.bitwidth


def _refuse(rule: str) -> NoReturn:
    raise VerifyException(f"tensor_desc: {rule}")


@irdl_attr_definition
class NbarrierType(ParametrizedAttribute, TypeAttribute):
    """A named barrier, as `init_nbarrier` describes it."""

    name = "xegpu.nbarrier"


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute, ShapedType, ContainerType[Attribute]):
    """The address of a block of a tensor, or of one chunk of memory per work-item."""

    name = "xegpu.tensor_desc"
    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    encoding: TdescAttr
    sg_map: SgMapAttr | NoneAttr

    def get_num_dims(self) -> int:
        return len(self.shape.data)

    def get_shape(self) -> tuple[int, ...]:
        return ints(self.shape)

    def get_element_type(self) -> Attribute:
        return self.element_type

    @property
    def rank(self) -> int:
        return len(self.shape.data)

    @property
    def memory_scope(self) -> str:
        return self.encoding.memory_scope.data

    @property
    def array_length(self) -> int:
        return self.encoding.array_length.data

    @property
    def boundary_check(self) -> bool:
        return bool(self.encoding.boundary_check.data)

    @property
    def scattered(self) -> bool:
        return bool(self.encoding.scattered.data)

    @property
    def chunk_size_per_lane(self) -> int:
        """Elements per work-item of a scattered descriptor; 1 for a block."""
        return self.shape.data[1].data if self.scattered and self.rank == 2 else 1

    @property
    def lane_map(self) -> SgMapAttr | None:
        """The sg_map, or None in the whole-vector flavour."""
        return self.sg_map if isinstance(self.sg_map, SgMapAttr) else None

    @property
    def element_bits(self) -> int:
        return bit_width(self.element_type)

    def verify(self) -> None:
        shape = self.get_shape()
        if not shape or min(shape) < 1:
            _refuse(f"a descriptor has positive sizes, not {list(shape)}")
        if len(shape) > 2 and (self.scattered or self.array_length > 1 or self.lane_map):
            _refuse("only blocks of 1 or 2 dimensions are scattered, arrays, or have an sg_map")
        if self.element_bits not in (4, 8, 16, 32, 64):
            _refuse(f"elements have 4, 8, 16, 32 or 64 bits, not {self.element_bits}")
        if self.scattered:
            _verify_scattered(self, shape)
        elif self.array_length > 1 and len(shape) == 1:
            _refuse("array_length needs a 2D block, this one is 1D")
        if self.lane_map is not None:
            _verify_distribution(self, shape, self.lane_map)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        found: dict[str, Any] = {}
        lanes: SgMapAttr | None = None
        attr: TdescAttr | None = None
        with parser.in_angle_brackets():
            shape, element = parser.parse_ranked_shape()
            while parser.parse_optional_punctuation(",") is not None:
                if parse_optional_field(parser, found):
                    continue
                match parser.parse_attribute():
                    case SgMapAttr() as entry if lanes is None:
                        lanes = entry
                    case TdescAttr() as entry if attr is None:
                        attr = entry
                    case ScatteredAttr():
                        found["scattered"] = True
                    case other:
                        parser.raise_error(
                            "a tensor_desc takes one #xegpu.sg_map, one #xegpu.tdesc_attr or"
                            f" #xegpu.scattered, not {other}"
                        )
        if attr is not None:
            found = attr.entries | found
        chunk = int(found.pop("chunk_size_per_lane", 0))
        if chunk and chunk != (shape[1] if len(shape) == 2 else 1):
            parser.raise_error(
                f"chunk_size_per_lane {chunk} does not fit the shape {shape}: a scattered"
                " tensor_desc is lanes x chunk, or just lanes for a chunk of 1"
            )
        encoding = tdesc_attr(**found)
        return int_array(tuple(shape)), element, encoding, lanes or NoneAttr()

    def print_parameters(self, printer: Printer) -> None:
        dims = "".join(f"{size}x" for size in self.get_shape())
        printer.print_string(f"<{dims}")
        printer.print_attribute(self.element_type)
        for field in self.encoding.fields():
            text = "#xegpu.scattered" if field == "scattered = true" else field
            printer.print_string(f", {text}")
        if self.lane_map is not None:
            printer.print_string(", ")
            printer.print_attribute(self.lane_map)
        printer.print_string(">")


@lru_cache(maxsize=1024)
def tensor_desc(
    shape: tuple[int, ...],
    element_type: Attribute,
    *,
    sg_map: SgMapAttr | None = None,
    memory_scope: str = "global",
    array_length: int = 1,
    boundary_check: bool = True,
    scattered: bool = False,
) -> TensorDescType:
    """The descriptor type; equal calls give the same object.

    >>> from xdsl.dialects.builtin import bf16
    >>> print(tensor_desc((8, 16), bf16, array_length=2))
    !xegpu.tensor_desc<8x16xbf16, array_length = 2>
    """
    encoding = tdesc_attr(memory_scope, array_length, boundary_check, scattered)
    return TensorDescType(int_array(shape), element_type, encoding, sg_map or NoneAttr())


def _verify_scattered(desc: TensorDescType, shape: tuple[int, ...]) -> None:
    if shape[0] not in SCATTERED_LANES:
        _refuse(
            "a scattered descriptor addresses 1, 2, 4, 8, 16 or 32 work-items,"
            f" not {shape[0]}"
        )
    if len(shape) == 2 and shape[1] not in CHUNK_SIZES[1:]:
        _refuse(
            "a scattered descriptor with chunks has chunk_size_per_lane 2, 3, 4 or 8"
            f" as its second size, not {shape[1]}; without chunks it is 1D"
        )
    if desc.element_bits not in (8, 16, 32, 64):
        _refuse(
            "scattered elements have 8, 16, 32 or 64 bits,"
            f" {desc.element_type} has {desc.element_bits}"
        )
    if desc.array_length > 1:
        _refuse("a scattered descriptor has no array_length")
    if desc.encoding.chunk_size.data:
        _refuse("the shape says what chunk_size_per_lane is")


def _verify_distribution(desc: TensorDescType, shape: tuple[int, ...], lanes: SgMapAttr) -> None:
    if len(shape) == 1:
        _verify_distribution_1d(shape[0], lanes)
        return
    for dim, size in enumerate(shape):
        step = lanes.layout[dim] * lanes.data[dim]
        if size % step:
            _refuse(
                f"size {size} of dimension {dim} is not a multiple of"
                f" wi_layout[{dim}] x wi_data[{dim}] = {step}"
            )
    if desc.scattered and (lanes.layout != (shape[0], 1) or lanes.data[0] != 1):
        _refuse(
            f"the sg_map of {shape[0]} work-items with chunks has wi_layout ="
            f" [{shape[0]}, 1] and wi_data[0] = 1, one chunk each, not {lanes}"
        )


def _verify_distribution_1d(size: int, lanes: SgMapAttr) -> None:
    if 1 not in lanes.layout or lanes.data[0] != 1:
        _refuse(
            "the sg_map of a 1D descriptor has one row or one column of work-items"
            f" and wi_data[0] = 1, not {lanes}"
        )
    step = lanes.lanes * lanes.data_size
    if size % step:
        _refuse(f"size {size} is not a multiple of work-items x wi_data = {step}")


def vnni_factor(element: Attribute) -> int:
    """Rows that VNNI packs into 32 bits; 1 for elements of 32 bits or more.

    >>> from xdsl.dialects.builtin import bf16
    >>> vnni_factor(bf16)
    2
    """
    return max(1, PACKED_BITS // bit_width(element))


Shape = tuple[int, ...]


@lru_cache(maxsize=1024)
def vector_type(element: Attribute, shape: Shape) -> VectorType[Any]:
    """The vector type; equal calls give the same object."""
    return VectorType(element, shape)


@lru_cache(maxsize=4096)
def value_shapes(
    desc: TensorDescType, packed: bool = False, transpose: bool = False, unit_bits: int = 0
) -> tuple[Shape, ...]:
    """The vector shapes that an access through `desc` may have, the usual one first.

    With an sg_map the vector is one work-item's fragment, [steps, elements per step]; without, it
    is the whole block.  `unit_bits` is transpose_bit_width.  Blocks of an array either extend the
    vector or are a leading dimension.
    """
    if desc.lane_map is not None:
        return _fragment_shapes(desc, desc.lane_map)
    return _whole_shapes(desc, packed, transpose, unit_bits)


def _fragment_shapes(desc: TensorDescType, lanes: SgMapAttr) -> tuple[Shape, ...]:
    width, blocks = lanes.data_size, desc.array_length
    steps = prod(desc.get_shape()) // (lanes.lanes * width)
    if desc.rank == 1:
        return (steps * width,), (steps, width)
    if blocks == 1:
        shapes: tuple[Shape, ...] = ((steps, width),)
    else:
        shapes = (blocks * steps, width), (blocks, steps, width)
    padded = _padded_bits(desc) // (lanes.lanes * width * desc.element_bits)
    return shapes if padded == steps else (*shapes, (blocks * padded, width))


def _padded_bits(desc: TensorDescType) -> int:
    """Bits of a block in the result of a message, padded to powers of 2 and to whole registers."""
    columns, rows = (1 << (size - 1).bit_length() for size in reversed(desc.get_shape()))
    return -(-rows * columns * desc.element_bits // (8 * GRF_BYTES)) * 8 * GRF_BYTES


def _whole_shapes(
    desc: TensorDescType, packed: bool, transpose: bool, unit_bits: int
) -> tuple[Shape, ...]:
    if desc.rank == 1:
        return (desc.get_shape(),)
    *outer, rows, columns = desc.get_shape()
    blocks = desc.array_length
    shape = _block_shape(desc, rows, columns * blocks, packed, transpose, unit_bits)
    if blocks == 1:
        return ((*outer, *shape),)
    return shape, (blocks, *_block_shape(desc, rows, columns, packed, transpose, unit_bits))


def _block_shape(
    desc: TensorDescType, rows: int, columns: int, packed: bool, transpose: bool, unit_bits: int
) -> Shape:
    if packed:
        factor = vnni_factor(desc.element_type)
        return rows // factor, columns, factor
    if transpose:
        factor = max(1, unit_bits // desc.element_bits)
        return columns // factor, rows * factor
    return rows, columns
