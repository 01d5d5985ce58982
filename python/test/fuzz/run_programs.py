"""Run random programs on the device of `TRITON_XE_DEVICE`, and report those with wrong numbers.

    TRITON_XE_DEVICE=sim:pvc python python/test/fuzz/run_programs.py --seed 1 --count 100

With `TRITON_XE_SANITIZE=1` they run under the checks, which may find nothing.  With `--native`
Intel's compiler builds every kernel too, whose code may not read registers that nothing wrote.
With `--in-step` the simulator runs all subgroups of a program in step at once, as it does else with
kernels that ran for long.
With `--compare` and `TRITON_XE_DEVICE=emu:bmg`, each launch on native code also runs on the
simulator, and has to leave the same memory.
Programs that were not right are kept in `--keep`; run one with
`PYTHONPATH=python/test/fuzz python FILE`.
"""

import argparse
import os
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

from programs import KINDS, program  # noqa: E402

from python.test.emulator.differential import compare_launches  # noqa: E402

SECONDS = 120
"""What a program may take, of processor time."""


def outcome(path: Path) -> str:
    """Run a program in a child: what is wrong with it, or nothing."""
    return next(outcomes([path]))


def outcomes(paths: Sequence[Path]) -> Iterator[str]:
    """What is wrong with each program; a child runs them up to the first that is not right."""
    done = 0
    while done < len(paths):
        for text in _in_child(paths[done:]):
            done += 1
            yield text


def _in_child(paths: Sequence[Path]) -> Iterator[str]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            _run_up_to_a_wrong_one(paths, write)
        finally:
            os._exit(1)
    os.close(write)
    said, finished = b"", 0
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while more := pipe.read(65536):
            *whole, said = (said + more).split(b"\0")
            finished += len(whole)
            yield from (text.decode(errors="replace") for text in whole)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        yield f"signal {os.WTERMSIG(status)}"
    elif not finished:
        yield "the child ended without a word"


def _run_up_to_a_wrong_one(paths: Sequence[Path], write: int) -> None:
    for path in paths:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        why = _run(path)
        os.write(write, why.replace("\0", " ").encode() + b"\0")
        if why:
            break


def _run(path: Path) -> str:
    try:
        runpy.run_path(str(path))
    except SystemExit as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def build_native_code() -> None:
    """From now on Intel's compiler builds every kernel that is compiled."""
    import triton

    from triton_xe.backend.arch import device_name
    from triton_xe.tools import intel

    def compiled(*, src, metadata, metadata_group, times, cache_hit) -> None:
        module = Path(metadata_group[f"{metadata['name']}.spv"]).read_bytes()
        device = device_name(metadata["target"].arch)  # torch gives a mapping
        intel.compile_spirv(module, device, metadata["build_flags"])

    triton.knobs.compilation.listener = compiled


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--in-step", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "xe-programs")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    import answers  # noqa: F401  (children inherit what is imported)
    import reference  # noqa: F401

    if given.native:
        build_native_code()
    if given.in_step:
        os.environ["TRITON_XE_IN_STEP_AFTER"] = "0"  # the first launch runs so
    if given.compare:
        compare_launches()
    wrong, begin = 0, time.time()
    paths = []
    for i in range(given.count):
        kind = given.kinds[i % len(given.kinds)]
        paths.append(given.keep / f"{kind}_{given.seed}_{i}.py")
        paths[-1].write_text(program(kind, f"{given.seed} {i}"))
    for path, why in zip(paths, outcomes(paths), strict=True):
        if why:
            wrong += 1
            print(f"{path}: {why[:1000]}", flush=True)
        else:
            path.unlink()
    print(f"{given.count - wrong} of {given.count} right in {time.time() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
