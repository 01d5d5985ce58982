"""Instructions and bytes of a tiled GEMM that is not compiled.

They rank tiles, and compare the model with published measurements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.model.rates import FABRIC, Rates
from triton_xe.model.time import Prediction, predict
from triton_xe.model.work import Blocks, Issue, Work


@dataclass(frozen=True)
class Shape:
    """Shape of C[m, n] = A[m, k] B[k, n]; `a`, `b`, `c` are bytes of an element of each matrix."""

    m: int
    n: int
    k: int
    a: float = 2
    b: float = 2
    c: float = 2

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


@dataclass(frozen=True)
class Tile:
    """Tile of C that a work-group computes, and the tiles of its subgroups.

    K is split among `split` work-groups.  Inside a work-group, `slices` sets of subgroups split it
    again.
    """

    m: int
    n: int
    sub_m: int
    sub_n: int
    split: int = 1
    registers: int = 256
    slices: int = 1

    @property
    def subgroups(self) -> int:
        return (self.m // self.sub_m) * (self.n // self.sub_n) * self.slices


TILES = tuple(
    Tile(m * sm, n * sn, sm, sn)
    for sm, sn in ((32, 64), (32, 32), (16, 64), (8, 64), (16, 32), (8, 32), (8, 16))
    for m, n in ((8, 4), (4, 8), (4, 4), (2, 8), (2, 4), (4, 2), (1, 8), (1, 4), (1, 16), (1, 32))
)
"""Tiles that tuned libraries choose from."""
UNPACK: Mapping[tuple[float, float], int] = {(2, 0.5): 6, (1, 0.5): 2, (2, 1): 2}
"""Instructions that unpack 16 operands from narrower weights, by bytes of A and B."""
PARTIAL_SUM = 4
"""Bytes of an element of the partial sums that a slice passes on."""
MOST_GROUPS = 20_000
"""Work-groups of the largest launches that are predicted."""
LIKELY = 6
"""Tiles whose time is predicted: those with the least `_bound`."""


def gemm(shape: Shape, tile: Tile, lanes: int = 16) -> Work:
    """Return the work of a tiled GEMM, in row-major order of tiles; a DPAS has `lanes` columns."""
    rows, columns = -(-shape.m // tile.m), -(-shape.n // tile.n)
    k = -(-shape.k // tile.split)
    width = max(shape.a, shape.b)
    per_dpas = 8 * lanes * (16 * 2 / max(1, width))
    at_m, at_n = (x.ravel() for x in np.meshgrid(
        np.arange(rows) * tile.m, np.arange(columns) * tile.n, indexing="ij"))
    order = np.argsort(at_n, kind="stable")
    at_m, at_n = at_m[order], at_n[order]
    height, wide = np.minimum(tile.m, shape.m - at_m), np.minimum(tile.n, shape.n - at_n)
    zero, all_k = np.zeros_like(at_m), np.full_like(at_m, shape.k)

    def blocks(*bounds: NDArray[Any]) -> Blocks:
        return Blocks(np.stack(bounds, 1).astype(np.int64))

    a_bytes, b_bytes = float(height.mean()) * k * shape.a, float(wide.mean()) * k * shape.b
    own_k = k / tile.slices
    steps = own_k / 32
    unpacked = tile.sub_n * own_k / 16 * UNPACK.get((shape.a, shape.b), 0)
    subs = tile.subgroups
    return Work(
        groups=rows * columns * tile.split, subgroups=subs, registers=tile.registers,
        issue=Issue(
            dpas=tile.sub_m * tile.sub_n * own_k / per_dpas, integer=steps * 6 + unpacked,
            messages=steps * 5, waits=2,
        ),
        l1_bytes=own_k * subs * (tile.sub_m * shape.a + tile.sub_n * shape.b),
        slm_bytes=2 * tile.m * tile.n * PARTIAL_SUM * (tile.slices - 1),
        l2_bytes=a_bytes + b_bytes + tile.m * tile.n * shape.c,
        reads=(
            blocks(zero, all_k * shape.a, at_m, at_m + height),
            blocks(at_n * shape.b, (at_n + wide) * shape.b, zero, all_k),
        ),
        writes=(blocks(at_n * shape.c, (at_n + wide) * shape.c, at_m, at_m + height),),
    )


def candidates(shape: Shape) -> Iterator[Tile]:
    """Yield tiles of at most max(8, m) rows per subgroup, and `MOST_GROUPS` work-groups in all."""
    for tile in TILES:
        groups = -(-shape.m // tile.m) * -(-shape.n // tile.n)
        if tile.sub_m <= max(8, shape.m) and groups <= MOST_GROUPS:
            yield tile


def best(shape: Shape, rates: Rates) -> tuple[Tile, Prediction]:
    """Return the tile with the least predicted time; tuned libraries are assumed to find it."""
    likely = sorted(candidates(shape), key=lambda tile: _bound(shape, tile, rates))[:LIKELY]
    found = ((tile, predict(gemm(shape, tile, rates.lanes), rates)) for tile in likely)
    return min(found, key=lambda pair: pair[1].us)


def _bound(shape: Shape, tile: Tile, rates: Rates) -> float:
    """Clocks per element of k: the longest of matrix, L1 and L2 time, in whole waves of groups."""
    groups = -(-shape.m // tile.m) * -(-shape.n // tile.n)
    engines = rates.device.eus_per_core
    resident = max(1, 4 * engines // tile.subgroups)  # groups that a core runs at once
    dpas = tile.m * tile.n * max(shape.a, shape.b) / 2 / 128 / rates.lanes
    per_group = max(
        dpas * rates.dpas_clocks / engines,
        tile.subgroups * (tile.sub_m * shape.a + tile.sub_n * shape.b) / rates.l1,
        (tile.m * shape.a + tile.n * shape.b) / (rates.l2 * FABRIC),
    )
    full, rest = divmod(groups, resident * rates.cores)
    return (full * resident + -(-rest // rates.cores)) * per_group
