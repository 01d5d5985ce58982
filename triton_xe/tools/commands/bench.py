"""`triton-xe bench FILE`: predict the file's `perf_report` functions for several devices."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_xe.hardware.target import TARGETS

HELP = "predict the benchmarks of a file for several devices"
EPILOG = """\
The file runs once for each device, as a program; its functions with @triton.testing.perf_report are
then measured by the clock of the simulated device, without running their kernels.

example:
  triton-xe bench my_benchmark.py --devices bmg,pvc -o plots.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a Python file with @perf_report functions")
    parser.add_argument("--devices", default="bmg", help=f"some of {','.join(TARGETS)}")
    parser.add_argument("--exact", action="store_true",
                        help="predict from the instructions of Intel's compiler")
    parser.add_argument("-o", "--output", type=Path, help="also write a page with plots")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables, and write the page."""
    from triton_xe.errors import DeviceError
    from triton_xe.hardware.target import target
    from triton_xe.tools import intel
    from triton_xe.tools.bench import measuring, plot

    if arguments.exact and (missing := intel.available()) is not None:
        raise DeviceError(f"--exact counts instructions of native code: {missing}")
    devices = [target(name.strip()).name for name in arguments.devices.split(",")]
    if not arguments.file.is_file():
        raise FileNotFoundError(f"there is no file {arguments.file}")
    first, *others = (measuring.measured(arguments.file, device, exact=arguments.exact)
                      for device in devices)
    if not first:
        raise ValueError(f"{arguments.file} has no function with @triton.testing.perf_report")
    tables = first
    for more in others:
        tables = [one.merge(two) for one, two in zip(tables, more, strict=True)]
    print("\n\n".join(map(plot.as_text, tables)))
    if arguments.output is not None:
        arguments.output.write_text(plot.as_page(tables, arguments.file.name), encoding="utf-8")
        print(arguments.output)
    return 0
