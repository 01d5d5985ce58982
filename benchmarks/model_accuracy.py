"""Accuracy of the time model against published measurements.

Run: python -m benchmarks.model_accuracy

The constants of the model that no source gives (`traffic.SHARPNESS`, `traffic.DRIFT`,
`time.OVERLAP`) were chosen on the rows of one study.  The other rows are a test.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from triton_xe.model.gemm import Shape, Tile, best, gemm
from triton_xe.model.rates import PRODUCTS
from triton_xe.model.time import predict

ROWS = Path(__file__).with_name("published") / "xe_measurements.csv"
CALIBRATION = "B70 prefill study"
LEFT_OUT = "gemm of an unnamed card"
TILED = "hand OpenCL C (pf_gemm_bf16)"


@dataclass(frozen=True)
class Row:
    """A published time and the predicted one, in microseconds."""

    product: str
    kind: str
    implementation: str
    source: str
    what: str
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    @property
    def calibrates(self) -> bool:
        return self.source.startswith(CALIBRATION) and self.implementation.startswith(TILED)


def rows(every: int = 1, kind: str = "") -> list[Row]:
    """Published rows with predictions: every `every`-th, of one kind (`tiled`: all with a tile)."""
    with ROWS.open(newline="") as file:
        found = [f for f in csv.DictReader(file) if f["kind"] != LEFT_OUT]
    if kind:
        found = [f for f in found if f["kind"] == kind or (kind == "tiled" and f["tile"])]
    return [_row(fields) for fields in found[::every]]


def _row(f: dict[str, str]) -> Row:
    """Predict the time of one published measurement, and compare."""
    rates = PRODUCTS[f["product"]]
    m, n, k = (int(f[name]) for name in "mnk")
    if f["kind"] == "stream":
        us = rates.launch_us + m / (rates.read * 1e3) + n / (rates.write * 1e3)
        what = f"{m >> 20} MiB read, {n >> 20} MiB written"
    else:
        shape = Shape(m, n, k, *(float(f[f"{name}_bytes"]) for name in "abc"))
        what = f"{m}x{n}x{k}"
        us = predict(gemm(shape, _tile(f["tile"]), rates.lanes), rates).us if f["tile"] else best(
            shape, rates)[1].us
        if f["kind"] == "quantized gemm":
            us += rates.launch_us + m * k * (2 / rates.read + 1 / rates.write) / 1e3
    return Row(f["product"], f["kind"], f["implementation"], f["source"], what, float(f["us"]), us)


def _tile(text: str) -> Tile:
    (m, n), (sub_m, sub_n) = (map(int, part.split("x")) for part in text.split("/"))
    return Tile(m, n, sub_m, sub_n)


def error(found: Iterable[Row]) -> float:
    """Median of the relative errors."""
    return median(abs(row.ratio - 1) for row in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", action="store_true", help="every row, not the summary only")
    parser.add_argument("--svg", type=Path, help="write a plot of predicted against measured")
    options = parser.parse_args()
    found = rows()
    if options.rows:
        for row in found:
            print(f"{row.product:36} {row.what:28} {row.measured:10.1f} us measured"
                  f" {row.predicted:10.1f} us predicted  {row.ratio:5.2f}  {row.implementation}")
    for product in dict.fromkeys(row.product for row in found):
        test = [row for row in found if row.product == product and not row.calibrates]
        print(f"{product:36} {len(test):4} rows  median error {error(test):5.1%}"
              f"  median ratio {median(row.ratio for row in test):4.2f}")
    test = [row for row in found if not row.calibrates]
    print(f"{'all that did not calibrate':36} {len(test):4} rows  median error {error(test):5.1%}")
    if options.svg:
        options.svg.write_text(plot(found))


def plot(found: Iterable[Row]) -> str:
    """Plot predicted against measured times, both in powers of ten of a microsecond."""
    from math import log10

    size, dots = 100, []
    for row in found:
        x, y = (log10(us) * size for us in (row.measured, row.predicted))
        colour = "#c60" if row.calibrates else "#06c"
        dots.append(f'<circle cx="{x:.1f}" cy="{-y:.1f}" r="2.5" fill="{colour}" opacity="0.6">'
                    f"<title>{row.product}: {row.what}, {row.ratio:.2f}</title></circle>")
    lines = "".join(
        f'<line x1="{size}" y1="{-size - s}" x2="{5 * size}" y2="{-5 * size - s}" stroke="#888"'
        f' stroke-dasharray="{dash}"/>' for s, dash in ((0, "0"), (9.7, "3"), (-12.5, "3")))
    labels = "".join(
        f'<text x="{k * size}" y="{-size + 14}" text-anchor="middle">{10**k} us</text>'
        f'<text x="{size - 6}" y="{-k * size + 4}" text-anchor="end">{10**k} us</text>'
        for k in range(1, 6))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="30 {-5 * size - 20} {5 * size} '
        f'{4 * size + 60}" font-family="sans-serif" font-size="10" fill="#888">'
        f'{lines}{labels}{"".join(dots)}'
        f'<text x="{3 * size}" y="{-size + 30}" text-anchor="middle">measured (dashed: 25 %)</text>'
        f"</svg>\n")


if __name__ == "__main__":
    main()
