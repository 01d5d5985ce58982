"""Checks of the facts about hardware that compiler and simulator rely on and only a GPU can
confirm.

`triton-xe doctor --gpu` runs the checks, each in a separate process (`isolation`).
`python -m triton_xe.tools.gpu_checks NAME` runs one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

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

OK = (PASSED, SKIPPED, BUILT, NOT_DECIDED)


def checks() -> tuple[Check, ...]:
    """All checks, in the recommended order for a new device."""
    from triton_xe.tools.gpu_checks import kernels, machine, messages

    return (*machine.CHECKS, *kernels.CHECKS[:3], *messages.CHECKS, *kernels.CHECKS[3:],
            *machine.SPEED)


def run_here(device: Device, names: tuple[str, ...] = ()) -> Iterator[Result]:
    """Run the checks, or those named, in this process."""
    bench = Bench(device)
    for check in checks():
        if not names or check.name in names:
            yield perform(check, bench)


ISOLATED = (sys.executable, "-m", __name__, "--isolated")


def isolated(
    names: Sequence[str] = (), command: Sequence[str] = ISOLATED
) -> Iterator[Result]:
    """Run each check on the first GPU, in its own process; two at once on an emulated one.

    `command` runs the checks that are named after it.
    """
    names = names or [check.name for check in checks()]
    count = 2 if knobs.emulated() else 1
    with ExitStack() as stack:
        workers = [stack.enter_context(subprocess.Popen(
            [*command, *names[k::count]], stdout=subprocess.PIPE, text=True)) for k in range(count)]
        for number, name in enumerate(names):
            worker = workers[number % count]
            assert worker.stdout is not None
            line = worker.stdout.readline()
            yield Result(**json.loads(line)) if line else Result(
                name, FAILED, f"the process that runs the checks ended with {worker.wait()}")


def not_run(why: str) -> list[Result]:
    return [Result(check.name, NOT_RUN, why) for check in checks()]
