"""Run random programs on the device of `TRITON_XE_DEVICE`, and report those with wrong numbers.

    TRITON_XE_DEVICE=sim:pvc python python/test/fuzz/run_programs.py --seed 1 --count 100

With `TRITON_XE_SANITIZE=1` they run under the checks, which may find nothing.  Programs that were
not right are kept in `--keep`; run one with `PYTHONPATH=python/test/fuzz python FILE`.
"""

import argparse
import os
import runpy
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from programs import KINDS, program

SECONDS = 120
"""What a program may take, of processor time."""


def outcome(path: Path) -> str:
    """Run a program in a child: what is wrong with it, or nothing."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        os.write(write, _run(path).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    _, status = os.waitpid(pid, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def _run(path: Path) -> str:
    try:
        runpy.run_path(str(path))
    except SystemExit as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "xe-programs")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    import answers  # noqa: F401  (children inherit what is imported)

    wrong, begin = 0, time.time()
    for i in range(given.count):
        kind = given.kinds[i % len(given.kinds)]
        path = given.keep / f"{kind}_{given.seed}_{i}.py"
        path.write_text(program(kind, f"{given.seed} {i}"))
        if why := outcome(path):
            wrong += 1
            print(f"{path}: {why[:1000]}", flush=True)
        else:
            path.unlink()
    print(f"{given.count - wrong} of {given.count} right in {time.time() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
