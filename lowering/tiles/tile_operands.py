"""A tile of registers as operands of matrix instructions.

Rows and columns are cut into blocks.  Rows of A and C are cut by the instruction's repeat count,
and the remainder by the next power of 2.  All others are cut by the instruction's size, with the
last block padded.  Blocks are numbered as in the layouts of DPAS: A column by column, B and C row
by row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from triton_xe.dialects import xe, xetile
from triton_xe.dialects.xegpu.dpas import accumulator_name, precision_name, scaled_name
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.hardware.dpas import MAX_REPEAT_COUNT, SYSTOLIC_DEPTH, Dpas, DpasShape, Fragment
from triton_xe.hardware.target import Target
from triton_xe.layout import (
    DotOperandEncoding,
    DpasEncoding,
    LinearEncoding,
    LinearLayout,
    to_linear_layout,
)
from triton_xe.lowering.layouts.dpas_choice import SCALED_BYTES, scales_bases

MOST_ELEMENTS = 8
"""Most vector elements of a fragment that is no operand of an instruction."""


class Cut(NamedTuple):
    """One block of rows or columns: its start, its valid size, its padded size."""

    start: int
    valid: int
    size: int


@dataclass(frozen=True)
class Span:
    """Adjacent blocks of equal size; their number is a power of 2."""

    first: int
    count: int


@dataclass(frozen=True)
class TileOperand:
    """A tile as operand "a", "b" or result "c" of instructions, with elements of `bits` there."""

    operand: str
    shape: DpasShape
    bits: int
    rows: int
    columns: int

    @cached_property
    def unit(self) -> tuple[int, int]:
        """Rows and columns of one operand."""
        return self.shape.size(self.operand)

    @property
    def layout_key(self) -> tuple[object, ...]:
        """Key of the layout: tiles with equal keys have the same layout."""
        return (self.operand, self.rows, self.columns, self.unit,
                self.shape.fragment(self.operand, self.bits))

    @cached_property
    def row_cuts(self) -> tuple[Cut, ...]:
        """The blocks of rows."""
        least = 2 if self.shape.k < self.shape.execution_size else 1
        return cuts(self.rows, self.unit[0], self.operand != "b", least)

    @cached_property
    def column_cuts(self) -> tuple[Cut, ...]:
        """The blocks of columns."""
        return cuts(self.columns, self.unit[1], False)

    @cached_property
    def grid(self) -> tuple[int, int]:
        """Operands along the rows and the columns of the tile."""
        return len(self.row_cuts), len(self.column_cuts)

    @property
    def count(self) -> int:
        return self.grid[0] * self.grid[1]

    def index(self, row: int, column: int) -> int:
        """Index of the operand at (row, column) of the grid."""
        rows, columns = self.grid
        return column * rows + row if self.operand == "a" else row * columns + column

    def row_of(self, number: int) -> int:
        """Row in the grid of the operand with an index."""
        rows, columns = self.grid
        return number % rows if self.operand == "a" else number // columns

    def shape_at(self, row: int) -> DpasShape:
        """The instruction for a block of rows of A or C."""
        if self.operand == "b":
            return self.shape
        return self.shape._replace(repeat_count=self.row_cuts[row].size)

    def fragment_at(self, row: int) -> Fragment:
        """One work-item's part of an operand in a block of rows."""
        return self.shape_at(row).fragment(self.operand, self.bits)

    @property
    def is_ragged(self) -> bool:
        """True if the sum covers a part of the last instruction's K; the remainder must be 0."""
        last = {"a": self.column_cuts[-1], "b": self.row_cuts[-1]}.get(self.operand)
        return last is not None and last.valid < last.size

    def part(self, rows: Span, columns: Span) -> TileOperand:
        """Select a rectangle of blocks."""
        height = sum(c.size for c in self.row_cuts[rows.first : rows.first + rows.count])
        width = columns.count * self.unit[1]
        return replace(self, shape=self.shape_at(rows.first), rows=height, columns=width)

    @property
    def layout(self) -> LinearLayout:
        """Layout of the tile in one subgroup (powers of 2 only): operands in order of `index`."""
        m, n = (self.grid[0] if self.operand != "b" else 1,
                self.grid[1] if self.operand != "a" else 1)
        d = self.shape
        parent = DpasEncoding(
            d.repeat_count, SYSTOLIC_DEPTH, d.execution_size, d.k // SYSTOLIC_DEPTH,
            d.execution_size, (1, 1), (m, n),
        )
        shape = (self.rows, self.columns)
        if self.operand == "c":
            return to_linear_layout(parent, shape)
        packed = d.fragment(self.operand, self.bits).packed
        return to_linear_layout(
            DotOperandEncoding("ab".index(self.operand), parent, packed), shape)


@dataclass(frozen=True)
class WordsTile(TileOperand):
    """The words from which bit fields are extracted: registers in any order, four bytes per
    word.
    """

    held: LinearLayout
    packed: int

    @property
    def layout_key(self) -> tuple[object, ...]:
        return (self.operand, self.rows, self.columns, self.held)

    @property
    def _fragment(self) -> Fragment:
        registers = self.held.in_dims["register"]
        return Fragment(min(registers, MOST_ELEMENTS * self.packed), min(registers, self.packed))

    @property
    def row_cuts(self) -> tuple[Cut, ...]:
        """The fragments, stacked along the rows."""
        count = self.held.in_dims["register"] // self._fragment.registers
        return (Cut(0, 1, 1),) * count

    @property
    def column_cuts(self) -> tuple[Cut, ...]:
        return (Cut(0, 1, 1),)

    def fragment_at(self, row: int) -> Fragment:
        return self._fragment

    def part(self, rows: Span, columns: Span) -> TileOperand:
        assert (rows.first, rows.count) == (0, len(self.row_cuts))
        return self

    @property
    def layout(self) -> LinearLayout:
        return self.held


def cuts(total: int, unit: int, shrink: bool, least: int = 1) -> tuple[Cut, ...]:
    """Cut into blocks of `unit`, with the last one as small as allowed.

    >>> cuts(21, 8, True)
    (Cut(start=0, valid=8, size=8), Cut(start=8, valid=8, size=8), Cut(start=16, valid=5, size=8))
    >>> cuts(9, 8, True)[-1], cuts(9, 8, False)[-1]
    (Cut(start=8, valid=1, size=1), Cut(start=8, valid=1, size=8))
    """
    whole, rest = divmod(total, unit)
    out = [Cut(i * unit, unit, unit) for i in range(whole)]
    if rest:
        size = max(least, power_of_2(rest)) if shrink else unit
        out.append(Cut(whole * unit, rest, size))
    return tuple(out)


def power_of_2(value: int) -> int:
    """The least power of 2 that is not less than `value`."""
    return 1 << (value - 1).bit_length()


def spans(blocks: tuple[Cut, ...], most: int = 1 << 30) -> list[Span]:
    """Runs of blocks of equal size, split into powers of 2 of at most `most`."""
    out: list[Span] = []
    at = 0
    while at < len(blocks):
        same = 1
        while same < most and at + same < len(blocks) and blocks[at + same].size == blocks[at].size:
            same += 1
        count = 1 << (same.bit_length() - 1)
        out.append(Span(at, count))
        at += count
    return out


def plane(kind: Attribute) -> tuple[int, int]:
    """Rows and columns of a tile of registers, with inner blocks or without."""
    assert isinstance(kind, VectorType)
    shape = kind.get_shape()
    if len(shape) == 4:
        return shape[0] * shape[2], shape[1] * shape[3]
    if len(shape) != 2:
        raise UnsupportedError(f"{kind} is no tile; tiles of registers have 2 or 4 dimensions")
    return shape[0], shape[1]


def dpas_of(op: xetile.TileMmaOp, target: Target) -> Dpas:
    """The instruction for a tile_mma; refused if there is none."""
    kinds = [v.type for v in (op.a, op.b, op.result)]
    elements = [k.element_type for k in kinds]  # type: ignore[attr-defined]
    rows = plane(kinds[0])[0]
    if not target.has_dpas:
        raise UnsupportedError(f"xetile.tile_mma: {target.name} has no DPAS")
    count = MAX_REPEAT_COUNT if rows >= MAX_REPEAT_COUNT else power_of_2(rows)
    try:
        return Dpas(precision_name(elements[0]), precision_name(elements[1]),
                    accumulator_name(elements[2]), count, target.dpas_execution_size)
    except LegalityError as error:
        raise UnsupportedError(
            f"xetile.tile_mma of {elements[0]} by {elements[1]} to {elements[2]}: {error}"
        ) from error


def scaled_dpas_of(op: xetile.TileMmaMxOp) -> Dpas:
    """The instruction for a tile_mma_mx."""
    a, b, result = (v.type.element_type for v in (op.a, op.b, op.result))  # type: ignore[attr-defined]
    return Dpas(scaled_name(a), scaled_name(b), accumulator_name(result))


def places(tile: TileOperand, kind: Attribute, lanes: int) -> list[int]:
    """Position of each element of a tile: registers of its operands in sequence, and lanes in
    each.
    """
    import numpy as np

    at: dict[tuple[int, int], int] = {}
    first = 0
    blocks = {tile.index(r, c): (r, c) for r in range(tile.grid[0]) for c in range(tile.grid[1])}
    for _, (row, column) in sorted(blocks.items()):
        top, left = tile.row_cuts[row].start, tile.column_cuts[column].start
        layout = tile.part(Span(row, 1), Span(column, 1)).layout
        size = layout.in_dims["register"] * lanes
        register, lane = divmod(np.arange(size), lanes)
        y, x = layout.apply_numpy(
            {"register": register, "lane": lane, "warp": 0, "block": 0}).values()
        at |= zip(zip(top + y, left + x, strict=True), range(first, first + size), strict=True)
        first += size
    assert isinstance(kind, VectorType)
    *outer, height, width = kind.get_shape()
    down, across = outer or (1, 1)
    return [at[i * height + y, j * width + x] for i in range(down) for j in range(across)
            for y in range(height) for x in range(width)]


def operand_of(name: str, dpas: Dpas, kind: Attribute) -> TileOperand:
    """A tile of some type as operand "a", "b" or "c" of an instruction."""
    return TileOperand(name, dpas.shape, dpas.bits_of(name), *plane(kind))


def operand_of_tensor(op: xe.ToTileOp | xe.FromTileOp) -> TileOperand:
    """The tile that a tensor with a layout of DPAS is viewed as."""
    encoding = op.tensor.type.encoding.encoding  # type: ignore[attr-defined]
    name, parent = "c", encoding
    if isinstance(encoding, LinearEncoding):
        return _words_tile(encoding.layout, op)
    if isinstance(encoding, DotOperandEncoding):
        name, parent = "ab"[encoding.op_idx], encoding.parent
    if not isinstance(parent, DpasEncoding):
        raise UnsupportedError(f"a tile of a tensor with layout {encoding}")
    shape = DpasShape(
        parent.repeat_count, parent.execution_size, SYSTOLIC_DEPTH * parent.ops_per_channel
    )
    return TileOperand(name, shape, 32 // parent.ops_per_channel, *plane(op.tile.type))


def _words_tile(layout: LinearLayout, op: xe.ToTileOp | xe.FromTileOp) -> WordsTile:
    """The words of one subgroup."""
    held = layout.sublayout(["register", "lane"], layout.out_dims)
    bits = bit_width(op.tensor.type.element_type)  # type: ignore[attr-defined]
    shape = DpasShape(MAX_REPEAT_COUNT, held.in_dims["lane"], 2 * SYSTOLIC_DEPTH)
    return WordsTile("c", shape, 32, *plane(op.tile.type), held, 32 // bits if bits < 16 else 1)


def scales_tile(kind: Attribute) -> WordsTile:
    """The scales of a product's rows or columns in one subgroup."""
    rows, groups = plane(kind)
    shape, inside = SCALED_BYTES.shape, [1 << bit for bit in range(rows.bit_length() - 1)]
    held = LinearLayout(scales_bases(inside, groups, shape.execution_size),
                        {"dim0": rows, "dim1": groups})
    return WordsTile("c", shape, 32, rows, groups, held, min(groups, 4))


def plain_tile(kind: Attribute, target: Target) -> TileOperand:
    """A tile that no matrix instruction uses: a column per lane, rows in groups of up to eight."""
    rows, columns = plane(kind)
    count = MAX_REPEAT_COUNT if rows >= MAX_REPEAT_COUNT else power_of_2(rows)
    shape = DpasShape(count, target.subgroup_size, 2 * SYSTOLIC_DEPTH)
    return TileOperand("c", shape, 32, rows, columns)


def fragment_for(tile: TileOperand, row: int, bits: int) -> Fragment:
    """The operand's registers, unpacked if the elements are not those of the instruction."""
    fragment = tile.fragment_at(row)
    if tile.operand == "c" or tile.bits == bits:
        return fragment
    return Fragment(fragment.registers, 1, fragment.outer_dim)
