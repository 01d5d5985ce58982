"""Host time for predicting a launch of the ledger's kernels.

    python -m benchmarks.prediction_cost [--devices bmg,pvc,ptl,lnl,dg2] [NAME ...]

CPU time in ms: `new` is that of another configuration of a compiled kernel (bar: 50, goal: 10), the
median of five.  `first` is that of the first configuration, with the analyses that are done once
per kernel.  Both depend on the machine's load.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from benchmarks.ledger import DEVICES
from benchmarks.loops import ROWS, compiled
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import target
from triton_xe.model.rates import PRODUCTS
from triton_xe.model.time import predict
from triton_xe.runtime.simulator.interface import KernelSource, TimedKernel
from triton_xe.runtime.versions import entry_name

BAR_MS, REPEAT = 50.0, 5


def costs(name: str, kernel: Any, device: str) -> tuple[float, float]:
    """Time of the row's launch: as the first configuration, and as a new one."""
    machine, row = target(device), ROWS[name]
    source = KernelSource(
        kernel.asm["llir"], entry_name(kernel.asm["spv"], kernel.metadata.name), machine)
    registers = RegisterFile.of_flags(kernel.metadata.build_flags).registers or 128
    assert source.parsed.module.functions, "what the simulator has read before it can launch"
    started = time.process_time()
    described = TimedKernel.from_source(source, registers)
    found = []
    for _ in range(1 + REPEAT):
        work, _ = described.launch_work(row.arguments, row.grid)
        predict(work, PRODUCTS[machine.product])
        found.append((time.process_time() - started) * 1e3)
        started = time.process_time()
    return found[0], statistics.median(found[1:])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default=",".join(DEVICES))
    parser.add_argument("names", nargs="*", help="parts of kernels' names; default: all")
    options = parser.parse_args(arguments)
    print(f"{'kernel':26}{'device':6}{'first':>8}{'new':>8}")
    above = 0
    for device in options.devices.split(","):
        for name in [r for r in ROWS if not options.names or any(p in r for p in options.names)]:
            try:
                kernel = compiled(name, device)
            except Exception as error:  # one kernel that a device refuses leaves the others
                print(f"{name:26}{device:6}  {str(error).splitlines()[0][:80]}")
                continue
            first, new = costs(name, kernel, device)
            above += new > BAR_MS
            print(f"{name:26}{device:6}{first:8.1f}{new:8.1f}", flush=True)
    print(f"{above} above {BAR_MS:g} ms")
    return 1 if above else 0


if __name__ == "__main__":
    raise SystemExit(main())
