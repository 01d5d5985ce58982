"""Rule scan-in-runs: order the positions along the axis of a scan by registers, lanes and warps.

    #ttg.blocked<{sizePerThread = [1, 4], warpsPerCTA = [4, 1]}>     64 rows, scanned along dim 0
 -> #ttg.linear<{register = [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0], [8, 0]],
                 warp = [[16, 0], [32, 0]], ...}>

Triton repeats the tile of a work-group until it covers the tensor.  Then each repetition in a lane
has a total, which warps exchange through shared local memory.  If a warp has consecutive positions,
it has one total.  Lanes get consecutive positions too, except along the adjacent dimension, where
messages need their order.
"""

from __future__ import annotations

from triton_xe.dialects.layouts import encoding_of
from triton_xe.dialects.tt.structure import ScanOp
from triton_xe.layout import BlockedEncoding, LinearEncoding, LinearLayout, to_linear_layout
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.keep_rows_in_warps import exchange


def scan_in_runs(op: ScanOp, scope: Scope) -> None:
    """Order the positions along the axis of a scan by registers, lanes and warps."""
    held, axis = encoding_of(op.srcs[0].type), int(op.axis.value.data)
    if not isinstance(held, BlockedEncoding) or held.cga_layout:
        return
    shape = shape_of(op.srcs[0])
    adjacent = held.size_per_thread[axis] if held.order[0] == axis else shape[axis]
    layout = to_linear_layout(held, shape)
    runs = in_runs(layout, axis, adjacent)
    if runs != layout:
        exchange(scope, {held: LinearEncoding(runs)}, axis)


def in_runs(layout: LinearLayout, axis: int, adjacent: int) -> LinearLayout:
    """The layout with bits of positions from registers, then from lanes, and then from warps.

    Registers whose positions are not below `adjacent` follow the lanes.

    >>> layout = LinearLayout({"register": [[1], [8]], "lane": [[2]], "warp": [[4]]}, ["dim0"])
    >>> in_runs(layout, 0, 2).bases
    {'register': ((1,), (4,)), 'lane': ((2,),), 'warp': ((8,),)}
    """
    def rank(part: str, position: int) -> tuple[int, int]:
        late = part == "register" and position >= adjacent
        return ("register", "lane", "late", "warp").index("late" if late else part), position

    found = sorted((*rank(part, b[axis]), part, i) for part, bases in layout.bases.items()
                   for i, b in enumerate(bases) if b[axis])
    bases = {part: [list(b) for b in bases] for part, bases in layout.bases.items()}
    positions = sorted(position for _, position, _, _ in found)
    for position, (_, _, part, i) in zip(positions, found, strict=True):
        bases[part][i][axis] = position
    return LinearLayout(bases, layout.out_dims)
