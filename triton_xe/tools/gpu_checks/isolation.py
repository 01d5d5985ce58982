"""Run each check in its own process, because a failing check may make the device unusable.

The processes are forked from one that has imported all modules and opened no device, which takes a
fifth of the time of new ones.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from triton_xe.runtime.device import Device
from triton_xe.tools.gpu_checks.bench import FAILED, Bench, Check, Result, perform

_POLL_SECONDS = 0.01


def run_each(
    checks: Iterable[Check], opened: Callable[[], Device], limit: float
) -> Iterator[Result]:
    """Run checks one after another, each on a device of its own and for at most `limit` seconds."""
    for check in checks:
        with tempfile.TemporaryFile("w+") as result, tempfile.TemporaryFile("w+") as output:
            process = os.fork()
            if not process:
                _run(check, opened, result, output)
            status = _status(process, limit)
            yield _result(check, status, limit, _text(result), _text(output))


def _run(check: Check, opened: Callable[[], Device], result: IO[str], output: IO[str]) -> None:
    """Run a check, and end this process."""
    try:
        for standard in (1, 2):
            os.dup2(output.fileno(), standard)
        result.write(json.dumps(perform(check, Bench(opened())).to_json()))
        result.flush()
    except BaseException:  # nothing of the process that forked may run here
        traceback.print_exc(file=output)
        output.flush()
        os._exit(1)
    os._exit(0)


def _status(process: int, limit: float) -> int | None:
    """The exit code of a process; None if it had to be killed."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_SECONDS)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _result(
    check: Check, status: int | None, limit: float, result: str, output: str
) -> Result:
    if status is None:
        return Result(check.name, FAILED, f"did not end within {limit:g} s")
    if result:
        return Result(**json.loads(result))
    last = (output.strip().splitlines() or ["no output"])[-1]
    return Result(check.name, FAILED, f"its process ended with {status}: {last}")
