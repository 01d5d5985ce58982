"""Gather at least 500 kernels for `triton_xe.tools.golden`.

    python -m python.dev.golden_corpus CORPUS [--checkout ~/triton] [--only ledger ...]

The kernels are those of the ledger, the examples and the tests of the language, which run on the
simulator.  With a checkout of Triton, a sample of its own tests is included.  Each source has a
folder in the corpus.  The command prints their numbers of kernels, and fails if there are fewer
than 500.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from triton_xe.tools import golden

FEWEST = 500
ROWS = "from benchmarks.loops import ROWS, compiled; [compiled(name, 'bmg') for name in ROWS]"
EXAMPLES = "import runpy, sys; [runpy.run_module(name, {}, '__main__') for name in sys.argv[1:]]"
SOURCES: dict[str, tuple[str, ...]] = {
    "ledger": ("-c", ROWS),
    "examples": ("-c", EXAMPLES, *(f"examples.{name}" for name in (
        "attention", "matmul", "matmul_descriptor", "softmax", "vector_add"))),
    "language": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "python/test/language"),
}
"""Arguments of the Python program that compiles the kernels of a folder."""
UPSTREAM = ("-m", "python.dev.triton_tests", "--devices", "sim:bmg", "--checkout")


def gathered(corpus: Path, kind: str, program: tuple[str, ...]) -> int:
    """Run a program with an empty cache, copy its kernels, and return how many there are."""
    with tempfile.TemporaryDirectory() as cache:
        subprocess.run(
            [sys.executable, *program], check=False, stdout=subprocess.DEVNULL,
            env={"TRITON_XE_DEVICE": "sim:bmg", **os.environ, "TRITON_CACHE_DIR": cache})
        golden.gather(corpus, [Path(cache)], kind, sample=0, seed=0)
    return sum(path.parent.name == kind for path in golden.sources(corpus))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--checkout", help="folder of Triton's sources")
    parser.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    arguments = parser.parse_args()
    programs = {kind: SOURCES[kind] for kind in arguments.only}
    if arguments.checkout:
        programs["upstream"] = (*UPSTREAM, arguments.checkout)
    for kind, program in programs.items():
        print(kind, gathered(arguments.corpus, kind, program), flush=True)
    return int(len(golden.sources(arguments.corpus)) < FEWEST)


if __name__ == "__main__":
    sys.exit(main())
