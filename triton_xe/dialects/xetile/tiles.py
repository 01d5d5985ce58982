"""XeTile ops that make and move tiles; no memory is touched.

Source: the RFC for XeTile and XeGPU, section "XeTile Dialect"; see `triton_xe.dialects.xetile`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from triton_xe.dialects.text.assembly import parse_type_list, print_type_after
from triton_xe.dialects.text.tile_syntax import (
    AddressConstraint,
    Index,
    IndexConstraint,
    join_indices,
    parse_arrow,
    parse_attr_dict,
    parse_index_list,
    print_attr_dict,
    print_indices,
    print_types,
    resolve_indices,
    split_indices,
    static_values,
    verify_value_count,
)
from triton_xe.dialects.xegpu.nd import verify_alignment, verify_memref
from triton_xe.dialects.xetile.types import TileType, as_tile


@irdl_op_definition
class InitTileOp(IRDLOperation):
    """Make a tile of a base tensor.

    Offsets (row, column), sizes (rows, columns of the base tensor) and stride (of its leading
    dimension) count elements.  A memref of static shape says its sizes and stride itself.
    """

    name = "xetile.init_tile"
    base = operand_def(AddressConstraint())
    indices = var_operand_def(IndexConstraint())
    static_offsets = prop_def(DenseArrayBase)
    static_sizes = prop_def(DenseArrayBase)
    static_stride = prop_def(DenseArrayBase)
    gather = opt_prop_def(UnitAttr, prop_name="xe.gather")
    base_alignment = opt_prop_def(IntegerAttr, prop_name="xe.base_alignment")
    tile = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(
        self,
        *,
        base: SSAValue,
        offsets: Sequence[Index],
        sizes: Sequence[Index] = (),
        stride: Index | None = None,
        tile_type: TileType,
    ) -> None:
        operands = [base]
        properties: dict[str, Attribute] = {
            "static_offsets": split_indices(offsets, operands),
            "static_sizes": split_indices(sizes, operands),
            "static_stride": split_indices(() if stride is None else (stride,), operands),
        }
        Operation.__init__(
            self, operands=operands, result_types=(tile_type,), properties=properties
        )

    @property
    def tile_type(self) -> TileType:
        return as_tile(self.tile.type)

    def _groups(self) -> tuple[tuple[Index, ...], ...]:
        values = iter(self.indices)
        arrays = (self.static_offsets, self.static_sizes, self.static_stride)
        return tuple(join_indices(array, values) for array in arrays)

    @property
    def offsets(self) -> tuple[Index, ...]:
        """Row and column of the tile's first element."""
        return self._groups()[0]

    @property
    def sizes(self) -> tuple[Index, ...]:
        """Rows and columns of the base tensor; empty when the memref says them."""
        return self._groups()[1]

    @property
    def stride(self) -> Index | None:
        """Elements from one row (column, if column-major) to the next; None: the memref says."""
        group = self._groups()[2]
        return group[0] if group else None

    def verify_(self) -> None:
        arrays = (self.static_offsets, self.static_sizes, self.static_stride)
        verify_value_count(self.name, self.indices, *arrays)
        counts = tuple(len(static_values(array)) for array in arrays)
        memref = self.base.type
        optional = isinstance(memref, MemRefType) and memref.has_static_shape()
        if counts != (2, 2, 1) and not (optional and counts == (2, 0, 0)):
            raise VerifyException(
                f"{self.name}: takes 2 offsets, 2 sizes and 1 stride (a memref of static shape may"
                f" do without sizes and stride), not {counts[0]}, {counts[1]} and {counts[2]}"
            )
        verify_alignment(self.name, self.base_alignment)
        tile = self.tile_type
        if isinstance(memref, MemRefType):
            verify_memref(self.name, memref, 2, tile.element_type)
            if not tile.row_major:
                raise VerifyException(
                    f"{self.name}: a memref is row-major, so are its tiles, not {tile}"
                )
        for size in static_values(self.static_sizes) + static_values(self.static_stride):
            if size < 1 and size != DYNAMIC_INDEX:
                raise VerifyException(f"{self.name}: sizes and stride are positive, not {size}")

    @classmethod
    def parse(cls, parser: Parser) -> InitTileOp:
        base = parser.parse_unresolved_operand()
        indices = parse_index_list(parser)
        properties, attributes = parse_attr_dict(parser, cls)
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        parse_arrow(parser)
        tile = as_tile(parser.parse_type())
        flat = resolve_indices(parser, indices, types[1:])
        if len(flat) not in (2, 5):
            parser.raise_error(
                f"{cls.name} takes 2 offsets, alone or with 2 sizes and a stride; these are"
                f" {len(flat)} numbers"
            )
        op = cls(
            base=parser.resolve_operand(base, types[0]),
            offsets=flat[:2],
            sizes=flat[2:4],
            stride=flat[4] if len(flat) == 5 else None,
            tile_type=tile,
        )
        op.properties.update(properties)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.base)
        for group in self._groups():
            print_indices(printer, group)
        print_attr_dict(printer, self, ("static_offsets", "static_sizes", "static_stride"))
        print_types(printer, *(operand.type for operand in self.operands))
        print_type_after(printer, "->", self.tile.type)


@irdl_op_definition
class InitCoopTileOp(IRDLOperation):
    """The part of a tile that one of several cooperating subgroups takes.

    The tile is cut into parts of the result's size, counted row by row; subgroup `coop_id` of
    `coop_size` takes part `coop_id` modulo their number.
    """

    name = "xetile.init_coop_tile"
    tile = operand_def(TileType)
    indices = var_operand_def(IndexConstraint())
    static_coop = prop_def(DenseArrayBase)
    part = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(
        self, *, tile: SSAValue, coop_id: Index, coop_size: Index, part_type: TileType
    ) -> None:
        operands = [tile]
        properties: dict[str, Attribute] = {
            "static_coop": split_indices((coop_id, coop_size), operands)
        }
        Operation.__init__(
            self, operands=operands, result_types=(part_type,), properties=properties
        )

    @property
    def coop_id(self) -> Index:
        return join_indices(self.static_coop, iter(self.indices))[0]

    @property
    def coop_size(self) -> Index:
        return join_indices(self.static_coop, iter(self.indices))[1]

    @property
    def tile_type(self) -> TileType:
        return as_tile(self.tile.type)

    @property
    def part_type(self) -> TileType:
        return as_tile(self.part.type)

    @property
    def parts(self) -> tuple[int, int]:
        """How many parts lie below each other and side by side."""
        whole, part = self.tile_type, self.part_type
        return whole.rows // part.rows, whole.columns // part.columns

    def verify_(self) -> None:
        verify_value_count(self.name, self.indices, self.static_coop)
        whole, part = self.tile_type, self.part_type
        same = ("element_type", "order", "memory_scope")
        if any(getattr(whole, name) != getattr(part, name) for name in same):
            raise VerifyException(
                f"{self.name}: a part has the elements, order and memory_scope of its tile;"
                f" {whole} became {part}"
            )
        if whole.rows % part.rows or whole.columns % part.columns:
            raise VerifyException(
                f"{self.name}: {whole} does not divide into parts of {part.rows}x{part.columns}"
            )
        pair = static_values(self.static_coop)
        if len(pair) != 2:
            raise VerifyException(f"{self.name}: takes coop_id and coop_size, not {len(pair)}")
        count = self.parts[0] * self.parts[1]
        if pair[1] != DYNAMIC_INDEX and pair[1] < count:
            raise VerifyException(
                f"{self.name}: {pair[1]} subgroups cannot take {count} parts, one each"
            )

    @classmethod
    def parse(cls, parser: Parser) -> InitCoopTileOp:
        tile = parser.parse_unresolved_operand()
        indices = parse_index_list(parser)
        _, attributes = parse_attr_dict(parser, cls)
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        parse_arrow(parser)
        part = parser.parse_type()
        operands = [parser.resolve_operand(tile, types[0])]
        coop = split_indices(resolve_indices(parser, indices, types[1:]), operands)
        return cls.create(
            operands=operands,
            result_types=(part,),
            properties={"static_coop": coop},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.tile)
        print_indices(printer, join_indices(self.static_coop, iter(self.indices)))
        print_attr_dict(printer, self, ("static_coop",))
        print_types(printer, *(operand.type for operand in self.operands))
        print_type_after(printer, "->", self.part.type)


@irdl_op_definition
class UpdateTileOffsetOp(IRDLOperation):
    """The same tile, moved by a number of rows and columns."""

    name = "xetile.update_tile_offset"
    tile = operand_def(TileType)
    indices = var_operand_def(IndexConstraint())
    static_offsets = prop_def(DenseArrayBase)
    moved = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, *, tile: SSAValue, offsets: Sequence[Index]) -> None:
        operands = [tile]
        properties: dict[str, Attribute] = {"static_offsets": split_indices(offsets, operands)}
        Operation.__init__(
            self, operands=operands, result_types=(tile.type,), properties=properties
        )

    @property
    def tile_type(self) -> TileType:
        return as_tile(self.tile.type)

    @property
    def offsets(self) -> tuple[Index, ...]:
        return join_indices(self.static_offsets, iter(self.indices))

    def verify_(self) -> None:
        verify_value_count(self.name, self.indices, self.static_offsets)
        if self.moved.type != self.tile.type:
            raise VerifyException(
                f"{self.name}: moving keeps the type of the tile; {self.tile.type} became"
                f" {self.moved.type}"
            )
        count = len(static_values(self.static_offsets))
        if count != 2:
            raise VerifyException(f"{self.name}: a tile moves by 2 offsets, not {count}")

    @classmethod
    def parse(cls, parser: Parser) -> UpdateTileOffsetOp:
        tile = parser.parse_unresolved_operand()
        indices = parse_index_list(parser)
        _, attributes = parse_attr_dict(parser, cls)
        parser.parse_punctuation(":")
        types = parse_type_list(parser)
        parse_arrow(parser)
        moved = parser.parse_type()
        operands = [parser.resolve_operand(tile, types[0])]
        offsets = split_indices(resolve_indices(parser, indices, types[1:]), operands)
        return cls.create(
            operands=operands,
            result_types=(moved,),
            properties={"static_offsets": offsets},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.tile)
        print_indices(printer, self.offsets)
        print_attr_dict(printer, self, ("static_offsets",))
        print_types(printer, *(operand.type for operand in self.operands))
        print_type_after(printer, "->", self.moved.type)
