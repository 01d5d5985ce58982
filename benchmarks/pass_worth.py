"""Leave out each pass or rule of the compiler, and measure what the kernels of the ledger lose.

    python -m benchmarks.pass_worth [--devices bmg] [--passes NAME ...] [--native] [ROW ...]

Prints a table in Markdown, that of docs/architecture.md.  A pass is left out of the rows whose
module it changes.  A row counts as changed if its LLVM IR differs in more than names.  `refused`
counts rows that do not compile without the pass.  `time` is the predicted time without the pass,
`code` the number of LLVM instructions or, with `--native`, of issued native instructions.  Both are
relative to those with the pass, for the row that loses most and for the one that gains most.
`spills` is the sum of bytes that the rows spill without the pass, less those that they spill with
it.  It needs `--native`, and therefore Intel's compiler.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import triton
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from benchmarks.ledger import native, predicted_us
from benchmarks.loops import ROWS, compiled
from triton_xe.dialects.text.unchanged import snapshot
from triton_xe.lowering import pipeline
from triton_xe.lowering.module_facts import CompileOptions
from triton_xe.tools.canonical import canonical_llvm

PASSES = tuple(name for stage, _ in pipeline.PIPELINE for name, _ in pipeline.steps_of(stage))
"""The passes, and the rules of families, in order."""
_INSTRUCTION = re.compile(r"^  (?:%\S+ = )?[a-z]", re.MULTILINE)


@dataclass(frozen=True)
class Code:
    """Figures of a compiled row: µs, instructions, bytes of spills."""

    text: str
    us: float
    instructions: int
    spills: int


@dataclass(frozen=True)
class Worth:
    """The changes of a pass's rows; ratios are those without the pass to those with it."""

    rows: int = 0
    refused: int = 0
    times: tuple[float, ...] = ()
    codes: tuple[float, ...] = ()
    spills: int = 0

    def __add__(self, other: Worth) -> Worth:
        return Worth(self.rows + other.rows, self.refused + other.refused,
                     self.times + other.times, self.codes + other.codes,
                     self.spills + other.spills)


@dataclass
class Run:
    """Runs the passes and rules of a stage but one, and records those that change the module."""

    left_out: str = ""
    active: set[str] = field(default_factory=set)

    def __call__(
        self, stage: str, module: ModuleOp, options: CompileOptions | None = None
    ) -> None:
        before = _state(module)
        for name, made in pipeline.steps_of(stage, options):
            if name == self.left_out:
                continue
            made.apply(Context(), module)
            if not self.left_out and before != (before := _state(module)):
                self.active.add(name)


def _state(module: ModuleOp) -> Any:
    return snapshot(module), dict(module.attributes)


@contextmanager
def _running(run: Run) -> Iterator[None]:
    """Compile with `run` in place of all passes, and without Triton's cache."""
    with (tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope(),
          patch.object(pipeline, "run_passes", run)):
        triton.knobs.cache.dir = folder
        yield


def code(name: str, device: str, run: Run, with_native: bool) -> Code:
    """Compile a row, and count."""
    with _running(run):
        kernel = compiled(name, device)
        text, module = kernel.asm["llir"], kernel.asm["spv"]
    made = Code(text, predicted_us(name, kernel, device), len(_INSTRUCTION.findall(text)), 0)
    if not with_native:
        return made
    found = native(module, device, kernel.metadata.build_flags)
    return replace(made, instructions=found.loop + found.outside, spills=found.spills)


def worth(name: str, device: str, passes: Iterable[str], with_native: bool) -> dict[str, Worth]:
    """The change of a row for each pass that does anything in it."""
    run = Run()
    try:
        whole = code(name, device, run, with_native)
    except Exception:  # a row that the device refuses
        return {}
    return {each: _change(name, device, each, whole, with_native)
            for each in passes if each in run.active}


def _change(name: str, device: str, left_out: str, whole: Code, with_native: bool) -> Worth:
    """Change of a kernel's figures if one pass is left out."""
    try:
        less = code(name, device, Run(left_out), with_native)
    except Exception:  # the later passes need this one
        return Worth(refused=1)
    if less.text == whole.text or canonical_llvm(less.text) == canonical_llvm(whole.text):
        return Worth()
    return Worth(1, 0, (less.us / whole.us,), (less.instructions / whole.instructions,),
                 less.spills - whole.spills)


def table(found: dict[str, Worth]) -> str:
    """The passes as a table in Markdown."""
    lines = [f"| `{name}` | {w.rows or ''} | {w.refused or ''} | {_extremes(w.times)} | "
             f"{_extremes(w.codes)} | {w.spills or ''} |" for name, w in found.items()]
    head = ["| pass or rule | changed | refused | time | code | spills |",
            "|---|---|---|---|---|---|"]
    return re.sub(r"\|  (?=\|)", "| ", "\n".join(head + lines))


def _extremes(ratios: tuple[float, ...]) -> str:
    """The largest loss and the largest gain in percent; empty if both are below 0.05."""
    ends = [] if not ratios else [max(*ratios, 1), min(*ratios, 1)]
    return ", ".join(f"{100 * (end - 1):+.1f} %" for end in ends if abs(end - 1) >= 0.0005)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="bmg")
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES, metavar="NAME")
    parser.add_argument("--native", action="store_true", help="compile with Intel's compiler too")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("rows", nargs="*", help="parts of rows' names; default: all")
    a = parser.parse_args(arguments)
    rows = [n for n in ROWS if not a.rows or any(part in n for part in a.rows)]
    for device in a.devices.split(","):
        started = time.perf_counter()
        total = dict.fromkeys(a.passes, Worth())
        for found in _map(a.jobs, [(n, device, a.passes, a.native) for n in rows]):
            for name, change in found.items():
                total[name] += change
        seconds = time.perf_counter() - started
        print(f"{device}, {len(rows)} rows, {seconds:.0f} s\n\n{table(total)}\n", flush=True)


def _map(jobs: int, work: list[tuple[Any, ...]]) -> Iterator[dict[str, Worth]]:
    if jobs <= 1:
        yield from (worth(*each) for each in work)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(worth, *zip(*work, strict=True))


if __name__ == "__main__":
    main()
