"""Reducing across the lanes of a warp: which exchanges, in which order, and where results end up.

A lane holds one partial result for each of its rows.  Two ways to take the next lane bit in:

- plain: every row takes in the value of lane l ^ mask; each lane then holds every row;
- transposing: rows come in pairs (a, b).  Lanes whose bit is clear keep a and send b away, the
  others keep b and send a away: one exchange for two rows, and half as many rows are left.

Sixteen rows on sixteen lanes so take 15 exchanges instead of 64, and leave lane l with row l.

>>> from triton_xe.layout import DpasEncoding, to_linear_layout
>>> rows = to_linear_layout(DpasEncoding(8, 8, 16, 2, 16, (1, 1), (2, 4)), (16, 64))
>>> plan = plan_lane_reduction(rows, 1)
>>> [(step.mask, step.transposes) for step in plan.steps]
[(1, True), (8, True), (2, True), (4, True)]
>>> plan.exchanges, plan.layout.in_dims["register"]
(15, 1)
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_xe.layout import f2
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.lane_shuffles import columns_by_dim


@dataclass(frozen=True)
class LaneStep:
    """One lane bit, as the mask of the xor that flips it."""

    mask: int
    transposes: bool


@dataclass(frozen=True)
class LaneReduction:
    """The steps; `rows` values per lane go in, and lie in `layout` (without the axis) after."""

    steps: tuple[LaneStep, ...]
    rows: int
    layout: LinearLayout

    @property
    def exchanges(self) -> int:
        """Shuffles of one value."""
        total, left = 0, self.rows
        for step in self.steps:
            left = left // 2 if step.transposes else left
            total += left
        return total

    @property
    def spreads(self) -> bool:
        """Whether lanes hold different rows in the end."""
        return any(step.transposes for step in self.steps)


def plan_lane_reduction(
    source: LinearLayout, axis: int, *, transpose: bool = True
) -> LaneReduction:
    """How to reduce dim `axis` of a register layout across lanes.

    Registers along the axis are put together before: one value per row is left.  Without
    `transpose` every lane keeps every row, as suits a result that all lanes need at once.
    """
    kept = _without(source, axis)
    rows = _independent(kept)
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
    return LaneReduction(tuple(steps), 1 << len(_independent(kept)), layout)


def _without(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout of what is left without one dim, with the dims numbered anew."""
    sizes = [size for dim, size in enumerate(layout.out_dims.values()) if dim != axis]
    bases = {
        name: [base[:axis] + base[axis + 1 :] for base in held]
        for name, held in layout.bases.items()
    }
    dims = {f"dim{dim}": size for dim, size in enumerate(sizes)}
    return LinearLayout(bases, dims, require_surjective=False)


def _independent(layout: LinearLayout) -> list[tuple[int, ...]]:
    """The register bases that reach new rows."""
    if not layout.out_dims:
        return []
    spanned: list[int] = []
    found = []
    flat = columns_by_dim(layout)["register"]
    for column, base in zip(flat, layout.bases["register"], strict=True):
        if f2.rank([*spanned, column]) > len(spanned):
            spanned.append(column)
            found.append(base)
    return found


def _moves(bit: int, lane_bits: int) -> int:
    """Moves of one register with regions that exchange lanes l and l ^ (1 << bit).

    Counted in what Intel's compiler writes for 16 lanes: two for neighbours and for halves.
    """
    return 2 if bit in (0, lane_bits - 1) else 4


__all__ = ["LaneReduction", "LaneStep", "plan_lane_reduction"]
