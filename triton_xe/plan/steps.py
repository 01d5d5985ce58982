"""The three layouts by which a block-load plan is explained.

  1. tile: "offset", the row-wise index into one operand's part of memory;
  2. iterations: the operands that one message loads, in register order;
  3. loads: the messages of one subgroup, in register order.

"offset" and "iteration" are (row, column) in memory, counted in packed elements.  Rows of a VNNI
load and columns of a transposing one contain several tensor elements.  "load" is in tensor elements
of the whole block (outer dimension, summed dimension), if there are several loads.

Intel's write-up of its 2D block loads prints them in this form.  For B of a 256x256x32 fp16 matmul
with repCluster [4, 2] that text shows the iterations twice, as (8,0) (16,0) (0,16) and as (0,16)
(8,0).  The second is right.  The cluster repeats along N before anything repeats along K, as in the
register table of the same text.  There columns 16..31 of rows 0..15 come before rows 16..31.  Only
2 x 2 operands of 16x16 fit into one 32x32 load; the first print is that of A.
"""

from __future__ import annotations

from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.block_load import MemoryTile
from triton_xe.plan.candidates import coordinate, split
from triton_xe.plan.model import BlockPlan, matrix_dims

STEP_TITLES = (
    "Block load tile layout",
    "Block load tile layout after adding iterations",
    "Block load tile layout after adding loads",
)
DEFAULT_ELEMENTS = 8
"""Vector elements of a tile when no operand is known: the rows of a full DPAS."""

Bases = list[tuple[int, int]]
"""(row, column) of each bit of one input."""


def plan_steps(plan: BlockPlan) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """Return the plan as tile, tile with iterations, tile with iterations and loads."""
    tile = MemoryTile.from_layout(plan.layout, plan.surface)
    packed_x, packed_y = packing(plan)
    row = 8 * plan.shape.row_bytes // plan.element_bits
    area = coordinate(row - 1, plan.shape.height - 1)

    def in_message(bases: tuple[int, ...]) -> Bases:
        vectors = (split(base) for base in bases if base and not base & ~area)
        found = ((y // packed_y, x // packed_x) for x, y in vectors)
        return [vector for vector in found if vector != (0, 0)]

    bits = fragment_registers(plan).bit_length() - 1
    operand, rest = tile.register_bases[:bits], tile.register_bases[bits:]
    offsets = sorted(in_message(tile.lane_bases + operand))
    iterations = in_message(rest)
    loads = [_outer_inner(base, plan) for base in (*operand, *rest) if base & ~area]
    both = {"offset": offsets, "iteration": iterations}
    sizes = _block_sizes(plan) if loads else _extent(offsets + iterations)
    return (
        _layout({"offset": offsets}, _extent(offsets)),
        _layout(both, _extent(offsets + iterations)),
        _layout({**both, "load": loads}, sizes),
    )


def dump(plan: BlockPlan) -> str:
    """The three steps as text."""
    parts = zip(STEP_TITLES, plan_steps(plan), strict=True)
    return "\n\n".join(f"{title}:\n{layout}" for title, layout in parts)


def tables(plan: BlockPlan) -> str:
    """Print offsets and their coordinates, in the form of Intel's write-up.

    For one operand, print as many offsets, evenly spaced, as there are lanes; for iterations and
    loads, the first and the last of each.
    """
    tile, iterations, loads = plan_steps(plan)
    lanes, last = plan.target.subgroup_size, tile.in_dims["offset"] - 1
    steps, messages = (range(loads.in_dims[name]) for name in ("iteration", "load"))
    end = steps[-1], last
    parts = [(f"{STEP_TITLES[0]}, every {lanes}th offset", [
        _row(tile, offset=at) for at in range(0, last + 1, lanes)])]
    if len(steps) > 1:
        parts.append((STEP_TITLES[1], [
            _row(iterations, iteration=i, offset=at) for i in steps for at in (0, last)]))
    if len(messages) > 1:
        parts.append((STEP_TITLES[2], [
            _row(loads, load=n, iteration=i, offset=at) + ("\n" if (i, at) == end else "")
            for n in messages for i in steps for at in (0, last)]))
    return "\n\n".join("\n".join([f"{title}:", *rows]).rstrip() for title, rows in parts)


def _row(layout: LinearLayout, **index: int) -> str:
    """`load, iteration, offset : row, column`."""
    found = layout.apply(index)
    return f"{', '.join(map(str, index.values()))} : {', '.join(map(str, found.values()))}"


def packing(plan: BlockPlan) -> tuple[int, int]:
    """Tensor elements (along x, along y) in one element of the message, in the units of this
    module.
    """
    if plan.shape.transpose:
        return plan.shape.element_bits // plan.element_bits, 1
    return 1, plan.shape.packing


def fragment_registers(plan: BlockPlan) -> int:
    """Registers of the tile of step 1."""
    if plan.fragment.registers > 1:
        return plan.fragment.registers
    return min(DEFAULT_ELEMENTS * plan.parts, plan.layout.in_dims["register"])


def _outer_inner(base: int, plan: BlockPlan) -> tuple[int, int]:
    x, y = split(base)
    along_x = plan.fragment.outer_dim == plan.surface.contiguous_dim
    return (x, y) if along_x else (y, x)


def _block_sizes(plan: BlockPlan) -> tuple[int, int]:
    outer = plan.fragment.outer_dim
    sizes, names = plan.layout.out_dims, matrix_dims(plan.layout)
    return sizes[names[outer]], sizes[names[1 - outer]]


def _extent(vectors: Bases) -> tuple[int, int]:
    """The smallest power-of-2 sizes that hold the vectors."""
    rows = max((row for row, _ in vectors), default=0)
    columns = max((column for _, column in vectors), default=0)
    return 1 << rows.bit_length(), 1 << columns.bit_length()


def _layout(bases: dict[str, Bases], sizes: tuple[int, int]) -> LinearLayout:
    out_dims = {"dim0": sizes[0], "dim1": sizes[1]}
    return LinearLayout(bases, out_dims, require_surjective=False)
