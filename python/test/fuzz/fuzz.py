"""Compile random kernels in children, and report every one that ends otherwise than it should.

    python python/test/fuzz/fuzz.py --seed 1 --count 1000 --device bmg --native 20

A kernel is compiled, or refused with an exception of ours: a signal, or another exception, is a
bug.  `--native N` also hands each Nth to Intel's compiler, whose code may not read registers that
nothing wrote.  `--casts` compiles all chains of three casts instead, `--chains` as many kernels of
40 chains, drawn from the seed; `--texts` gives `triton-xe opt` and `run` the module texts of the
tests with mistakes in them.  What was not compiled is kept in `--keep`.
"""

import argparse
import json
import os
import re
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from zlib import crc32

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3])]

from module_texts import ModuleText, mistaken  # noqa: E402
from random_kernels import (  # noqa: E402
    DTYPES,
    Kernel,
    all_cast_chains,
    cast_chains,
    kernel,
)

BATCH = 25
SECONDS = 120
"""A kernel that takes longer, of processor time, is a bug too."""


@dataclass(frozen=True)
class Outcome:
    """What became of a kernel: `compiled`, `refused`, `front end`, or `bug`; and the reason."""

    name: str
    kind: str
    why: str = ""


def compile_one(made: Kernel | ModuleText, path: Path, device: str, native: bool) -> Outcome:
    """Compile in this process."""
    if isinstance(made, ModuleText):
        return transform_one(made, path, device)
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources

    from triton_xe.errors import XeError
    from triton_xe.hardware.target import target
    from triton_xe.tools import intel

    path.write_text(made.source)
    try:
        function = runpy.run_path(str(path))["kernel"]
        result = triton.compile(
            ASTSource(function, made.signature),
            target=GPUTarget("xpu", device, target(device).subgroup_size),
            options={"num_warps": made.num_warps, "num_stages": made.num_stages},
        )
        if native:
            intel.compile_spirv(result.asm["spv"], device, result.metadata.build_flags)
    except CompilationError as error:
        return Outcome(path.stem, "front end", str(error).strip().splitlines()[-1])
    except intel.IntelCompilerError as error:
        return Outcome(path.stem, "bug", f"Intel's compiler: {error} {error.log}"[:1000])
    except (XeError, OutOfResources) as error:
        return Outcome(path.stem, "refused", f"{type(error).__name__}: {error}"[:500])
    except Exception as error:
        return Outcome(path.stem, "bug", _where(error))
    return Outcome(path.stem, "compiled")


def transform_one(made: ModuleText, path: Path, device: str) -> Outcome:
    """What `triton-xe opt` makes of a text, or `run`; a refusal says the line and the column."""
    from triton_xe.errors import XeError
    from triton_xe.tools.commands.opt import current_notation, transformed
    from triton_xe.tools.commands.run import run_program

    path.write_text(f"// {made.passes}\n{made.text}")
    try:
        if made.arrays:
            os.environ["TRITON_XE_SANITIZE"] = "1"  # wrong addresses stay without harm
            run_program(made.text, made.arrays, target=device, name=path.name)
        else:
            text = current_notation(made.text, path.name)
            transformed(text, made.passes, name=path.name, target=device)
    except XeError as error:
        located = made.arrays or re.search(rf"{re.escape(path.name)}:\d+:\d+", str(error))
        internal = re.search(r"cannot take this|left a wrong|: [A-Z]\w+Error: ", str(error))
        return Outcome(path.stem, "refused" if located and not internal else "bug",
                       f"{type(error).__name__}: {error}"[:500])
    except Exception as error:
        return Outcome(path.stem, "bug", _where(error))
    return Outcome(path.stem, "compiled")


def _where(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"[:500]


def outcomes(
    kernels: Iterator[tuple[str, Kernel]], folder: Path, device: str, native: int = 0,
    batch: int = BATCH,
) -> Iterator[Outcome]:
    """What becomes of each kernel, in children that may die."""
    while todo := list(islice(kernels, batch)):
        while todo:
            done, died = _child(todo, folder, device, native)
            yield from done
            todo = todo[len(done):]
            if died:
                yield Outcome(todo.pop(0)[0], "bug", died)


def _child(todo, folder: Path, device: str, native: int) -> tuple[list[Outcome], str]:
    """The outcomes that a child got to, and how it died if it did."""
    read, write = os.pipe()
    log = tempfile.TemporaryFile()
    pid = os.fork()
    if pid == 0:
        os.dup2(log.fileno(), 2)
        for name, made in todo:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            found = compile_one(made, folder / f"{name}.py", device, bool(native)
                                and crc32(name.encode()) % native == 0)
            os.write(write, (json.dumps(vars(found)) + "\n").encode())
            signal.setitimer(signal.ITIMER_PROF, 0)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as lines:
        done = [Outcome(**json.loads(line)) for line in lines]
    _, status = os.waitpid(pid, 0)
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()
    if not status:
        return done, ""
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status >> 8}"
    return done, f"{how}: {said[-1] if said else ''}"[:500]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--device", default="bmg")
    parser.add_argument("--native", type=int, default=0, metavar="N")
    parser.add_argument("--casts", action="store_true")
    parser.add_argument("--chains", action="store_true")
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "xe-fuzz")
    given = parser.parse_args()
    doubles = given.device != "dg2"
    numbers = range(given.first, given.first + given.count)
    drawn = ((f"k{given.seed}_{i}", kernel(f"{given.seed}-{i}", doubles=doubles)) for i in numbers)
    if given.casts:
        drawn = ((f"casts_{a}_{b}_{n}", all_cast_chains(a, b, n))
                 for n, a, b in product((1, 2, 4, 8), DTYPES, DTYPES))
    if given.chains:
        drawn = ((f"chains{given.seed}_{i}", cast_chains(f"{given.seed}-{i}", 40, 1 << i % 4))
                 for i in numbers)
    if given.texts:
        drawn = ((f"text{given.seed}_{i}", mistaken(f"{given.seed}-{i}")) for i in numbers)
    given.keep.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    os.environ["TRITON_CACHE_DIR"] = str(given.keep / "cache")
    import triton  # noqa: F401  (children inherit what is imported)

    from triton_xe.lowering import pipeline  # noqa: F401

    counts, begin = Counter(), time.time()
    for outcome in outcomes(drawn, given.keep, given.device, given.native):
        counts[outcome.kind] += 1
        if outcome.kind == "compiled":
            (given.keep / f"{outcome.name}.py").unlink()
        else:
            print(f"{outcome.kind}: {outcome.name}: {outcome.why}", flush=True)
    print(f"{dict(counts)} in {time.time() - begin:.0f} s", flush=True)
    return 1 if counts["bug"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
