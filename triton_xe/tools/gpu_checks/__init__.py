"""Checks of the facts about hardware that compiler and simulator rely on and only a GPU can
confirm.

`triton-xe doctor --gpu` runs the checks, each in a separate process, because a failing check may
make the device unusable.  `python -m triton_xe.tools.gpu_checks NAME` runs one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from triton_xe import knobs
from triton_xe.runtime.device import Device
from triton_xe.tools.gpu_checks.bench import (
    BUILT,
    FAILED,
    NOT_DECIDED,
    NOT_RUN,
    PASSED,
    SKIPPED,
    Bench,
    Check,
    Result,
    perform,
)

TIME_LIMIT = 300
"""Seconds for one check; the driver resets a hanging GPU earlier."""
OK = (PASSED, SKIPPED, BUILT, NOT_DECIDED)


def checks() -> tuple[Check, ...]:
    """All checks, in the recommended order for a new device."""
    from triton_xe.tools.gpu_checks import kernels, machine, messages

    return (*machine.CHECKS, *kernels.CHECKS[:3], *messages.CHECKS, *kernels.CHECKS[3:],
            *machine.SPEED)


def on(device: Device, names: tuple[str, ...] = ()) -> Iterator[Result]:
    """Run the checks, or those named, in this process."""
    bench = Bench(device)
    for check in checks():
        if not names or check.name in names:
            yield perform(check, bench)


def isolated() -> Iterator[Result]:
    """Run each check on the first GPU, in a new process; two at once on an emulated one."""
    with ThreadPoolExecutor(2 if knobs.emulated() else 1) as pool:
        yield from pool.map(_in_process, checks())


def not_run(why: str) -> list[Result]:
    return [Result(check.name, NOT_RUN, why) for check in checks()]


def _in_process(check: Check) -> Result:
    command = [sys.executable, "-m", __name__, check.name]
    limit = TIME_LIMIT * (4 if knobs.emulated() else 1)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit,
            check=False)
    except subprocess.TimeoutExpired:
        return Result(check.name, FAILED, f"did not end within {limit} s")
    try:
        return Result(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Result(check.name, FAILED, f"its process ended with {done.returncode}: {last}")
