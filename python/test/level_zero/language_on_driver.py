"""Runs tests of the language with kernels that Intel's driver builds and launches.

    python language_on_driver.py FOLDER PART PARTS STEP

The tests run on torch's simulated device, but what it is asked to load and to launch goes to the
driver's simulated command stream, which executes nothing: the results of the tests say nothing and
are dropped.  Printed is a JSON object: how many tests reached the driver, the number of kernels and
launches, and everything that the driver refused.  Of every PARTS-th file, from the PART-th on, the
first case of every STEP-th test function is run.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from triton_xe.runtime.level_zero import native_cache
from triton_xe.runtime.level_zero.device import LevelZeroDevice, open_devices
from triton_xe.runtime.simulator.interface import SimulatedDevice
from triton_xe.spirv import is_spirv

BYTES = 1 << 20


class Driver:
    """Stands in for the simulator; notes what happens."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.device: LevelZeroDevice = open_devices()[0]
        self.memory = self.device.allocate(BYTES)
        self.test = ""
        self.reached: set[str] = set()
        self.kernels = self.launches = 0
        self.refused: list[str] = []

    def load(self, _: Any, binary: bytes, name: str, **options: Any) -> Any:
        if not is_spirv(binary):
            pytest.skip("a kernel in LLVM IR, for the simulator only")
        self.kernels += 1
        try:
            return self.device.load(binary, name, **options)
        except Exception as error:
            self.refused.append(f"{self.test}: {error}")
            raise

    def launch(self, _: Any, kernel: Any, grid: Any, args: Any, **options: Any) -> None:
        pairs = zip(kernel.argument_types, args, strict=True)
        values = [self.memory.pointer if kind == "ptr" else value for kind, value in pairs]
        try:
            self.device.launch(kernel, grid, values)
        except Exception as error:
            self.refused.append(f"{self.test}: {error}")
            raise
        self.launches += 1
        self.reached.add(self.test)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        first: dict[tuple[str, str], pytest.Item] = {}
        for item in items:
            first.setdefault((str(item.path), item.name.partition("[")[0]), item)
        items[:] = list(first.values())[:: self.step]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.test = item.name


def main(folder: str, part: str, parts: str, step: str) -> None:
    driver = Driver(int(step))
    files = sorted(str(path) for path in Path(folder).rglob("test_*.py"))[int(part) :: int(parts)]
    native_cache.read = lambda key: None  # every kernel is built
    SimulatedDevice.load = lambda *a, **k: driver.load(*a, **k)  # type: ignore[method-assign]
    SimulatedDevice.launch = lambda *a, **k: driver.launch(*a, **k)  # type: ignore[method-assign]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*files, "-q", "-p", "no:cacheprovider", "--no-header"], plugins=[driver])
    driver.device.synchronize()
    found = {
        "tests": len(driver.reached), "kernels": driver.kernels, "launches": driver.launches,
        "refused": driver.refused,
    }
    print("OUT" + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
