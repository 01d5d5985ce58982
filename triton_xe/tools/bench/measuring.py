"""The benchmarks of one file on one simulated device.

    python -m triton_xe.tools.bench.measuring OUT FILE

The file runs as a program.  If it calls `run` of a `perf_report`, or has one that it does not run,
each value of its axes is measured.  Then kernels are only timed, and do not run.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from triton_xe import knobs


@dataclass(frozen=True)
class Series:
    """One line of a plot on one device; a value that could not be measured is None."""

    device: str
    name: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Table:
    """One plot of a `perf_report`."""

    plot: str
    unit: str
    x_names: Sequence[str]
    x_values: Sequence[Sequence[Any]]
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    notes: Sequence[str] = ()

    def merge(self, other: Table) -> Table:
        """Add the lines of another device."""
        return Table(**{**vars(self), "series": [*self.series, *other.series],
                        "notes": [*self.notes, *other.notes]})


def measured(file: Path, device: str, *, exact: bool = False) -> list[Table]:
    """The file's tables for one device, measured in a separate process."""
    with TemporaryDirectory(prefix="triton-xe-") as folder:
        out = Path(folder) / "tables.json"
        environment = knobs.process_environment() | {
            "TRITON_XE_DEVICE": f"sim:{device}", "TRITON_XE_CLOCK": "exact" if exact else "device"}
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(out), str(file)], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            check=False)
        if done.returncode or not out.exists():
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise ValueError(f"{file} on {device}: {lines[-1]}")
        found = json.loads(out.read_text())
    return [Table(**{**t, "series": [Series(**s) for s in t["series"]]}) for t in found]


def run_file(out: Path, file: str) -> None:
    """Run the file in this process, and write the tables of its benchmarks."""
    from triton import testing

    tables: list[Table] = []
    ran: set[int] = set()

    def run(mark: Any, *_: Any, **given: Any) -> None:
        ran.add(id(mark))
        for name in ("show_plots", "print_data", "save_path", "return_df", "diff_col",
                     "save_precision"):
            given.pop(name, None)
        several = isinstance(mark.benchmarks, (list, tuple))
        for benchmark in mark.benchmarks if several else [mark.benchmarks]:
            tables.append(table(mark.fn, benchmark, given))

    testing.Mark.run = run
    sys.argv = [file]
    sys.path.insert(0, str(Path(file).resolve().parent))
    names = runpy.run_path(file, run_name="__main__")
    for mark in names.values():
        if isinstance(mark, testing.Mark) and id(mark) not in ran:
            run(mark)
    out.write_text(json.dumps([asdict(t) for t in tables]))


def table(function: Any, benchmark: Any, given: dict[str, Any]) -> Table:
    """One plot: the function at each point of its axes, on the device of this process."""
    from triton_xe.backend.devices import device

    here = device(0)
    clock = getattr(here, "clock", None)
    if clock is None:
        raise ValueError("there is no simulated device with a clock here")
    places = [list(x) if isinstance(x, (list, tuple)) else [x] * len(benchmark.x_names)
              for x in benchmark.x_vals]
    notes: list[str] = []

    def value(line: Any, place: Sequence[Any]) -> float | None:
        arguments = dict(zip(benchmark.x_names, place, strict=True))
        arguments |= {benchmark.line_arg: line} | benchmark.args | given
        try:
            found = function(**arguments)
        except Exception as error:  # one failing configuration leaves the others
            said = str(error).splitlines() or [""]
            notes.append(f"{here.target.product}: {arguments}: {type(error).__name__}: {said[0]}")
            return None
        return float(found[0] if isinstance(found, (list, tuple)) else found)

    with clock.only_timing():
        series = [Series(clock.rates.label, str(name), [value(line, p) for p in places])
                  for line, name in zip(benchmark.line_vals, benchmark.line_names, strict=True)]
    return Table(benchmark.plot_name, benchmark.ylabel, benchmark.x_names, places, series,
                 benchmark.x_log, benchmark.y_log, notes)


if __name__ == "__main__":
    run_file(Path(sys.argv[1]), sys.argv[2])
