"""How well the time model ranks the tiles that a tuned library chooses from.

Run: python -m benchmarks.model_ranking

oneDNN has a catalogue of GEMM kernels for Data Center GPU Max, each with a formula for its time
that Intel fitted on the device.  This benchmark ranks the tiles of that catalogue by the time model
and by those formulas.  Rows with an impossible formula are left out: those below the time that the
matrix units of the cores need at their highest clock.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median

import numpy as np

from triton_xe.model.gemm import Shape, Tile, gemm
from triton_xe.model.rates import PRODUCTS
from triton_xe.model.time import predict

ROWS = Path(__file__).with_name("published") / "onednn_max_configurations.csv"
RATES = PRODUCTS["Data Center GPU Max 1550 (one stack)"]
FEWEST = 10
"""Fewest tiles of a problem for which a ranking is computed."""


@dataclass(frozen=True)
class Row:
    """A tile for a problem, with the catalogue's time in microseconds."""

    shape: Shape
    layouts: str
    tile: Tile
    us: float

    @property
    def problem(self) -> str:
        s = self.shape
        return f"{s.m}x{s.n}x{s.k} {'int8' if s.a == 1 else 'fp16'} {self.layouts}"

    @property
    def is_possible(self) -> bool:
        """True if the matrix units that its work-groups reach can be that fast."""
        s, t = self.shape, self.tile
        cores = min(RATES.cores, -(-s.m // t.m) * -(-s.n // t.n))
        dpas = s.m * s.n * s.k * s.a / 2 / 2048
        return self.us > dpas * RATES.dpas_clocks / (
            cores * RATES.device.eus_per_core * RATES.clock_ghz * 1e3)


@dataclass(frozen=True)
class Ranking:
    """Result for one problem.  Regret: by how much the chosen tile is slower than the best one."""

    problem: str
    tiles: int
    spearman: float
    regret: float
    regret_of_five: float


def problems() -> tuple[Mapping[str, list[Row]], int]:
    """Rows by problem, and the number of rows left out."""
    with ROWS.open(newline="") as file:
        found = [_row({k: v for k, v in f.items()}) for f in csv.DictReader(file)]
    kept: dict[str, list[Row]] = {}
    for row in found:
        if row.is_possible:
            kept.setdefault(row.problem, []).append(row)
    left_out = sum(not row.is_possible for row in found)
    return {name: rows for name, rows in kept.items() if len(rows) >= FEWEST}, left_out


def _row(f: Mapping[str, str]) -> Row:
    n = {k: int(v) for k, v in f.items() if k not in ("layouts", "us")}
    shape = Shape(n["m"], n["n"], n["k"], n["bytes"], n["bytes"], 4)
    tile = Tile(n["tile_m"], n["tile_n"], n["sub_m"], n["sub_n"], registers=n["registers"],
                slices=n["slices"])
    return Row(shape, f["layouts"], tile, float(f["us"]))


def ranking(name: str, rows: Iterable[Row]) -> Ranking:
    """Compare the order of predicted times with that of the catalogue's."""
    rows = list(rows)
    there = np.array([row.us for row in rows])
    here = np.array([predict(gemm(row.shape, row.tile), RATES).us for row in rows])
    chosen = np.argsort(here, kind="stable")
    best = there.min()
    return Ranking(name, len(rows), _spearman(here, there), there[chosen[0]] / best - 1,
                   there[chosen[:5]].min() / best - 1)


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of ranks; equal values share theirs."""
    def ranks(values: np.ndarray) -> np.ndarray:
        _, which, count = np.unique(values, return_inverse=True, return_counts=True)
        ranked: np.ndarray = (np.cumsum(count) - (count - 1) / 2)[which]
        return ranked

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def main() -> None:
    found, left_out = problems()
    rankings = [ranking(name, rows) for name, rows in found.items()]
    print(f"{'problem':34}{'tiles':>6}{'Spearman':>10}{'regret':>9}{'of five':>9}")
    for r in rankings:
        print(f"{r.problem:34}{r.tiles:6}{r.spearman:10.2f}{r.regret:9.1%}{r.regret_of_five:9.1%}")
    for name, of in (("median", median), ("mean", mean)):
        values = (of(getattr(r, f) for r in rankings)
                  for f in ("spearman", "regret", "regret_of_five"))
        print("{:34}{:6}{:10.2f}{:9.1%}{:9.1%}".format(name, "", *values))
    print(f"{left_out} rows left out: faster than the matrix units of the cores they reach")


if __name__ == "__main__":
    main()
