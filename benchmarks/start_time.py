"""Cost of starting a process: imports, and a first launch from the cache.

    python -m benchmarks.start_time [--repeat 15] [--device bmg]

Imports: processor time of whole processes that `import triton`, with the plugin and without it, in
turns of changing order.  The result is the difference of the medians, and of the fastest, in
milliseconds.  `noise` is the difference of two halves of the processes without.  "Without" means
that this package's entry points are hidden.  `import torch` takes a second, of which a busy machine
hides 50 ms; so its part that loads plugins is timed inside the process.

First launch: processor time of the first `kernel[grid](...)` of a new process whose kernel is in
Triton's cache, until its result is available.  It runs on the simulator, and on Intel's driver with
its simulated command stream if that is installed.  Triton's own first steps on any device (reading
its library for the cache's key, importing its code generator) are done before.  So is opening the
device; `device` is its time, including imports.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from triton.runtime import driver
from triton.runtime.cache import triton_key

from benchmarks.launch_cost import FloatTensor
from benchmarks.loop_kernels import add
from triton_xe import knobs
from triton_xe.backend import devices
from triton_xe.tools import intel

IMPORT_BAR_MS = LAUNCH_BAR_MS = 15
LOADING = """import os, time
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
begin = time.process_time()
torch._import_device_backends()
print((time.process_time() - begin) * 1e3)
"""
"""Program that prints the time of the step in which `import torch` loads plugins."""
WITHOUT = """import importlib.metadata as m
every = m.distributions
def some(**given):
    return [d for d in every(**given) if SEES or not d._path.name.startswith("triton_xe")]
m.distributions = some
"""


def processor_ms(command: list[str], extra: Mapping[str, str]) -> float:
    """Milliseconds of processor time of a new process."""
    process = subprocess.Popen(command, env=os.environ | extra, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1e3


def compiled_modules(folder: str) -> dict[str, str]:
    """Environment variables that make Python cache compiled modules, as in installed packages."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/pyc"}


def loading_cost(repeat: int) -> list[float]:
    """Milliseconds in which `import torch` loads the plugin."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | compiled_modules(folder)
        return [float(subprocess.check_output([sys.executable, "-c", LOADING], env=environment))
                for _ in range(repeat + 1)][1:]


def import_cost(repeat: int) -> dict[str, list[float]]:
    """Cost of `import triton`: without the plugin, with it, and without it again."""
    sees = {"without": False, "with": True, "again": False}
    scripts = {name: f"SEES = {seen}\n{WITHOUT}import triton" for name, seen in sees.items()}
    found: dict[str, list[float]] = {name: [] for name in scripts}
    with tempfile.TemporaryDirectory() as folder:
        extra = compiled_modules(folder)
        for k in range(repeat + 1):
            for name in list(scripts)[:: 1 if k % 2 else -1]:
                cost = processor_ms([sys.executable, "-c", scripts[name]], extra)
                found[name] += [cost] if k else []
    return found


def first_launch() -> None:
    """Print the milliseconds of this process's first launch."""
    simulated = knobs.device().startswith("sim")
    importlib.import_module("triton.compiler.code_generator")
    triton_key()
    begin = time.process_time()
    driver.active.get_current_target()
    devices.device(0)
    opened = time.process_time()
    x = arguments_of(simulated)
    device, begin = opened - begin, time.process_time()
    add[(4,)](*x, 4096, BLOCK=1024)
    if not simulated:
        devices.device(0).synchronize()
    spent = time.process_time() - begin
    if simulated and x[2][-1] != 2:
        raise SystemExit("a wrong sum")
    print(device * 1e3, spent * 1e3)


def arguments_of(simulated: bool) -> list[Any]:
    """Two operands and a result: arrays, or memory of the driver, which executes nothing."""
    if simulated:
        return [np.ones(4096, np.float32) for _ in range(3)]
    on: Any = devices.device(0)
    memory.extend(on.allocate(4 * 4096, kind="host") for _ in range(3))
    return [FloatTensor(block.pointer) for block in memory]


memory: list[Any] = []
"""Memory of the arguments."""


def launch_cost(
    repeat: int, folder: str, session: intel.DriverSession | None
) -> tuple[float, float]:
    """Medians of opening the device and of the launch; the first process fills the caches."""
    extra = {"TRITON_CACHE_DIR": folder, "TRITON_XE_CACHE": f"{folder}/xe",
             "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **compiled_modules(folder)}
    found = []
    for _ in range(repeat + 1):
        if session is None:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.start_time", "--launch"], text=True,
                capture_output=True, env=os.environ | extra | {"TRITON_XE_DEVICE": "sim"},
                check=False)
        else:
            done = session.run(__file__, "--launch", timeout=300,
                               extra=extra | {"TRITON_XE_DEVICE": "gpu"})
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        found.append([float(part) for part in done.stdout.split()[-2:]])
    opened, launched = (statistics.median(column) for column in zip(*found[1:], strict=True))
    return opened, launched


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--device", default="bmg", help="device that the driver acts as")
    parser.add_argument("--only", choices=("imports", "launches"))
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args(arguments)
    if parsed.launch:
        first_launch()
        return
    if parsed.only != "launches":
        report_imports(parsed.repeat)
    if parsed.only != "imports":
        report_launches(parsed.repeat, parsed.device)


def report_imports(repeat: int) -> None:
    costs = import_cost(repeat)
    without, with_it, again = (statistics.median(costs[k]) for k in costs)
    fastest = min(costs["with"]) - min(costs["without"] + costs["again"])
    print(f"import triton   {without:8.1f} ms without the plugin, "
          f"{with_it - (without + again) / 2:+6.1f} with it (bar {IMPORT_BAR_MS:+}, fastest "
          f"{fastest:+.1f}, noise {abs(without - again):.1f})", flush=True)
    loading = loading_cost(repeat)
    print(f"import torch    {statistics.median(loading):8.1f} ms for plugins (bar {IMPORT_BAR_MS}, "
          f"fastest {min(loading):.1f})", flush=True)


def report_launches(repeat: int, device: str) -> None:
    sessions: dict[str, intel.DriverSession | None] = {"simulator": None}
    reason = intel.driver_available()
    if reason:
        print(f"first launch on Intel's driver not measured: {reason}")
    else:
        sessions["Intel's driver"] = intel.level_zero_environment(device)
    for name, session in sessions.items():
        with tempfile.TemporaryDirectory() as folder:
            opened, launched = launch_cost(repeat, folder, session)
        print(f"first launch, {name:15}{launched:8.1f} ms (bar {LAUNCH_BAR_MS}), device "
              f"{opened:.1f} ms", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
