"""Versions of torch and Triton that work together: measure them, and print the table of the page.

    python -m benchmarks.compatibility             print the table of recorded measurements
    python -m benchmarks.compatibility --measure   measure this environment, and record it
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import triton

from examples import matmul

FILE = Path(__file__).with_suffix(".json")
PRODUCT, FUSED = 0.05, 1e-5
"""Error bounds: sums up to 128 that are rounded to half precision, and a softmax."""
PAGE = Path(__file__).parents[1] / "docs" / "install.md"
HEAD = ("| torch | brings Triton | measured with | kernels | torch.compile | "
        "compiles with | commit |\n"
        "|---|---|---|---|---|---|---|\n")


def rows() -> list[dict[str, str]]:
    """The recorded measurements, newest torch first."""
    found: list[dict[str, str]] = json.loads(FILE.read_text())
    return sorted(found, key=lambda row: [int(n) for n in row["torch"].split(".")], reverse=True)


def table() -> str:
    """The table of docs/install.md."""
    return HEAD + "".join(
        f"| {row['torch']} | {row['brings']} | {row['triton']} | {row['kernels']} | "
        f"{row['compiled']} | {row.get('compilers', '')} | {row.get('commit', '')} |\n"
        for row in rows())


def write_table() -> None:
    """Replace the table in the page."""
    text = PAGE.read_text()
    start = text.index("| torch | brings Triton")
    PAGE.write_text(text[:start] + table() + text[text.index("\n\n", start) + 1:])


def measure() -> dict[str, str]:
    """A row for this environment: a product and a fused reduction are right, wrong, or fail."""
    return {
        "torch": torch.__version__.partition("+")[0],
        "brings": _requirement(),
        "triton": triton.__version__,
        "python": platform.python_version(),
        "kernels": _verdict(_product_error, PRODUCT),
        "compiled": _verdict(_fused_error, FUSED),
    }


def _verdict(error: Callable[[], float], bound: float) -> str:
    try:
        return "works" if error() <= bound else "wrong"
    except Exception as failure:  # whatever a version raises, the row says that it fails
        print(f"{type(failure).__name__}: {failure}", file=sys.stderr)
        return "fails"


def _product_error() -> float:
    a, b = matmul.operands(512, 512, 512, "AB")
    exact = a.cpu().double() @ b.cpu().double()
    return float((matmul.matmul(a, b).cpu().double() - exact).abs().max())


def _fused_error() -> float:
    def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x) * 2 + y, dim=-1).sum(0)

    x, y = torch.randn(64, 96), torch.randn(64, 96)
    got = torch.compile(fused)(x.to("xpu"), y.to("xpu"))
    return float((got.cpu() - fused(x, y)).abs().max())


def _requirement() -> str:
    """The stock Triton that torch's wheel of the package index requires; "none" for a CPU build."""
    for text in importlib.metadata.requires("torch") or ():
        found = re.match(r"triton\s*[=~]=\s*([\d.]+)", text)
        if found:
            return found[1]
    return "none"


def record(row: dict[str, str]) -> None:
    """Add the row, or replace an older one of the same torch and Triton."""
    kept = [old for old in rows() if (old["torch"], old["triton"]) != (row["torch"], row["triton"])]
    FILE.write_text(json.dumps([*kept, row], indent=1) + "\n")
    write_table()


def record_compilers(torch_version: str, compilers: list[str], commit: str) -> None:
    """Note in the rows of a torch which compilers accept the simulated device's sources."""
    noted = {"compilers": ", ".join(compilers), "commit": commit}
    found = [row | noted if row["torch"] == torch_version else row for row in rows()]
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    write_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure and record a row")
    if parser.parse_args().measure:
        record(measure())
    print(table(), end="")


if __name__ == "__main__":
    main()
