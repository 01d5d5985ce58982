"""Reductions across the lanes of a warp: the exchanges, their order, and the layout of the results.

A lane holds one partial result for each of its rows.  There are two ways to combine across the next
lane bit:

- plain: every row takes the value of lane l ^ mask, after which each lane has every row;
- transposing: rows form pairs (a, b).  Lanes whose bit is clear keep a and send b; the others keep
  b and send a.  One exchange serves two rows, and half as many rows remain per lane.

Sixteen rows on sixteen lanes therefore take 15 exchanges instead of 64, after which lane l has row
l.

>>> from triton_xe.layout import DpasEncoding, to_linear_layout
>>> rows = to_linear_layout(DpasEncoding(8, 8, 16, 2, 16, (1, 1), (2, 4)), (16, 64))
>>> plan = plan_lane_reduction(rows, 1)
>>> [(step.mask, step.transposes) for step in plan.steps]
[(1, True), (8, True), (2, True), (4, True)]
>>> plan.exchanges, plan.layout.in_dims["register"]
(15, 1)
"""

from __future__ import annotations

from typing import NamedTuple

from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.lane_shuffles import independent_registers


class LaneStep(NamedTuple):
    """One lane bit, as the mask of the xor that flips it."""

    mask: int
    transposes: bool


class LaneReduction(NamedTuple):
    """The steps; `rows` values per lane are reduced to values in `layout` (without the axis)."""

    steps: tuple[LaneStep, ...]
    rows: int
    layout: LinearLayout

    @property
    def exchanges(self) -> int:
        """Number of shuffles of one value."""
        total, left = 0, self.rows
        for step in self.steps:
            left = left // 2 if step.transposes else left
            total += left
        return total

    @property
    def spreads(self) -> bool:
        """True if lanes hold different rows at the end."""
        return any(step.transposes for step in self.steps)


def plan_lane_reduction(
    source: LinearLayout, axis: int, *, transpose: bool = True
) -> LaneReduction:
    """Plan the reduction of dim `axis` of a register layout across lanes.

    Registers along the axis are reduced before, so that one value per row is left.  Without
    `transpose` every lane keeps every row, for results that all lanes need at once.
    """
    kept = _remove_dim(source, axis)
    rows = independent_registers(kept)
    lanes = list(kept.bases["lane"])
    along = [bit for bit, base in enumerate(source.bases["lane"]) if base[axis]]
    along.sort(key=lambda bit: (_moves(bit, len(lanes)), bit))
    steps = []
    for bit in along:
        lanes[bit] = (0,) * len(kept.out_dims)
        if transpose and rows:
            lanes[bit] = rows.pop()
            steps.append(LaneStep(1 << bit, True))
        else:
            steps.append(LaneStep(1 << bit, False))
    layout = LinearLayout(
        {**kept.bases, "register": rows, "lane": lanes}, kept.out_dims, require_surjective=False
    )
    return LaneReduction(tuple(steps), 1 << len(independent_registers(kept)), layout)


def _remove_dim(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout without dim `axis`, with the remaining dims renumbered."""
    sizes = [size for dim, size in enumerate(layout.out_dims.values()) if dim != axis]
    bases = {
        name: [base[:axis] + base[axis + 1 :] for base in held]
        for name, held in layout.bases.items()
    }
    dims = {f"dim{dim}": size for dim, size in enumerate(sizes)}
    return LinearLayout(bases, dims, require_surjective=False)


def _moves(bit: int, lane_bits: int) -> int:
    """Register moves with regions that exchange lanes l and l ^ (1 << bit).

    Counted in the code of Intel's compiler for 16 lanes: two for adjacent lanes and for halves of a
    register, otherwise four.
    """
    return 2 if bit in (0, lane_bits - 1) else 4


__all__ = ["LaneReduction", "LaneStep", "plan_lane_reduction"]
