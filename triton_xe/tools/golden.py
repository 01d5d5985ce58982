"""Record the compiler's output for a corpus of kernels, and compare later compilers with it.

    python -m triton_xe.tools.golden gather CORPUS --cache DIR
    python -m triton_xe.tools.golden record CORPUS OUT
    python -m triton_xe.tools.golden compare CORPUS OUT --sample 40 --devices bmg,dg2

`gather` takes kernels from a Triton cache that programs have filled.  `record` compiles each for
each device and stores the stages' texts, or the refusal.  `compare` compiles again, lists
differences and exits with 1 if there are any.  Stages that differ only in names, numbers and the
order of declarations are equivalent.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import difflib
import gzip
import hashlib
import io
import itertools
import json
import logging
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

DEVICES = ("pvc", "bmg", "lnl", "ptl", "dg2")
STAGES = ("metadata", "xegpu", "llir", "spv")
INPUTS = (".glir", ".ttir")
PROGRAM = ".mlir"
OPTIONS = (
    "num_warps", "num_stages", "num_ctas", "grf_mode", "maxnreg", "enable_fp_fusion", "debug",
    "sanitize", "sanitize_overflow", "launch_cooperative_grid", "instrumentation_mode",
    "fpsan_homomorphic_casts",
)
"""Options that stages after the front end read; `warp_size` is included if it was requested."""
METADATA = (
    "name", "shared", "global_scratch_size", "build_flags", "n_dpas", "n_block_loads",
    "debug_sites", "plan_summary", "remarks",
)
Recording = dict[str, str]
"""Text by stage, base64 for SPIR-V; or the one stage `refusal`."""
Item = TypeVar("Item")


@dataclass(frozen=True, order=True)
class Case:
    """One file of the corpus, for one device."""

    source: Path
    device: str

    @property
    def name(self) -> str:
        return f"{self.source.parent.name}/{self.source.stem}"

    def recording_path(self, out: Path) -> Path:
        return out / self.source.parent.name / f"{self.source.stem}.{self.device}.json.gz"


# ---------------------------------------------------------------- the corpus

def gather(corpus: Path, caches: Sequence[Path], kind: str, sample: int, seed: int) -> int:
    """Copy the kernels below `caches` that the corpus lacks; return how many were new."""
    found: dict[str, tuple[Path, str]] = {}
    for path in sorted(file for cache in caches for file in cache.rglob("*.json")):
        source = next((s for e in INPUTS if (s := path.with_suffix(e)).is_file()), None)
        if source is not None and not path.name.startswith("__"):
            options = json.dumps(_options(json.loads(path.read_text())), sort_keys=True)
            found.setdefault(_digest(source, options), (source, options))
    known = {p.stem.rpartition("-")[2] for p in sources(corpus)}
    new = [(d, *f) for d, f in sorted(found.items()) if d not in known]
    chosen = spread(new, lambda n: _features(n[1]), lambda n: n[0], seed)[: sample or None]
    for digest, source, options in chosen:
        base = corpus / (kind or _program_of(source)) / f"{source.stem[:60]}-{digest}"
        base.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, base.with_name(base.name + source.suffix))
        base.with_name(base.name + ".json").write_text(options)
    return len(chosen)


def add_program(corpus: Path, program: Path, passes: str, kind: str) -> None:
    """Copy a module over which `triton-xe opt` is to run `passes`."""
    options = json.dumps({"passes": passes})
    base = corpus / kind / f"{program.stem}-{_digest(program, options)}"
    base.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, base.with_name(base.name + PROGRAM))
    base.with_name(base.name + ".json").write_text(options)


def sources(corpus: Path) -> list[Path]:
    """The inputs of the corpus, sorted."""
    return sorted(p for p in corpus.glob("*/*") if p.suffix in (*INPUTS, PROGRAM))


def _options(metadata: dict[str, Any]) -> dict[str, Any]:
    options = {name: metadata[name] for name in OPTIONS if metadata.get(name) is not None}
    if metadata["warp_size"] != metadata["target"]["warp_size"]:
        options["warp_size"] = metadata["warp_size"]
    return options


def _digest(source: Path, options: str) -> str:
    """Digest of everything but source locations."""
    text = re.sub(r'^#loc.*\n| loc\((?:#loc\d*|"[^"]*"\(#loc\d*\))\)', "", source.read_text(),
                  flags=re.MULTILINE)
    return hashlib.sha256((options + text).encode()).hexdigest()[:10]


def _program_of(source: Path) -> str:
    """The Python file of the kernel."""
    found = re.search(r'loc\("[^"]*?([^"/]+)\.py":', source.read_text())
    return found[1] if found else "kernels"


def _features(source: Path) -> frozenset[str]:
    """The operations of a kernel, and the library functions that it calls."""
    pattern = r'\b(?:ttg?|arith|math|scf|cf)\.\w+|symbol = "\w+'
    return frozenset(re.findall(pattern, source.read_text()))


def spread(
    items: Iterable[Item], group: Callable[[Item], Hashable], name: Callable[[Item], str], seed: int
) -> list[Item]:
    """All items, one of each group in turn, so that every prefix is a representative sample.

    >>> spread("aAbc", str.lower, str, 0)[-1] in "aA"
    True
    """
    def draw(text: str) -> bytes:
        return hashlib.sha256(f"{seed} {text}".encode()).digest()

    groups: dict[Hashable, list[Item]] = {}
    for item in sorted(items, key=lambda i: draw(name(i))):
        groups.setdefault(group(item), []).append(item)
    rounds = itertools.zip_longest(*groups.values())
    return [item for turn in rounds for item in turn if item is not None]


def choose(corpus: Path, devices: Sequence[str], sample: int, seed: int, kinds: str) -> list[Case]:
    """Cases of `sample` kernels (all for 0), spread over kinds and within them over features."""
    found = [p for p in sources(corpus) if re.fullmatch(kinds or ".*", p.parent.name)]
    by_kind = itertools.groupby(found, lambda p: p.parent.name)
    within = [spread(group, _features, lambda p: p.stem, seed) for _, group in by_kind]
    rounds = itertools.zip_longest(*within)
    chosen = [path for turn in rounds for path in turn if path is not None][: sample or None]
    return [Case(path, device) for path in chosen for device in devices]


# ---------------------------------------------------------------- compiling

def compiled(case: Case) -> Recording:
    """Compile every recorded stage; a refusal is recorded as its first line."""
    options = json.loads(case.source.with_suffix(".json").read_text())
    make = _program if case.source.suffix == PROGRAM else _kernel
    try:
        return make(case, options)
    except Exception as error:
        text = str(error).strip().split("\n")[0]
        return {"refusal": f"{type(error).__name__}: {text}"}


def _kernel(case: Case, options: dict[str, Any]) -> Recording:
    """Compile a kernel by `triton.compile`."""
    import triton
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("xpu", case.device, 16)
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        kernel = triton.compile(str(case.source), target=target, options=options)
        found = {name: value for name in METADATA
                 if (value := getattr(kernel.metadata, name, None)) is not None}
        return {
            "metadata": json.dumps(found, indent=1, sort_keys=True),
            "xegpu": kernel.asm["xegpu"],
            "llir": kernel.asm["llir"],
            "spv": base64.b64encode(kernel.asm["spv"]).decode(),
        }


def _program(case: Case, options: dict[str, Any]) -> Recording:
    """Run `triton-xe opt` on a module written by hand."""
    from triton_xe.tools.cli import main

    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said):
        out = Path(folder, "out")
        command = ["opt", str(case.source), "-p", options["passes"], "--target", case.device]
        if main([*command, "-o", str(out)]):
            return {"refusal": said.getvalue().split("\n")[0]}
        text = out.read_text()
    return {"llir" if text.startswith("target triple") else "xegpu": text}


def compile_all(cases: Sequence[Case], jobs: int) -> Iterator[tuple[Case, Recording, float]]:
    """Each case, its recording and the seconds it took."""
    if jobs <= 1:
        yield from map(_compile_timed, cases)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_quiet) as pool:
        yield from pool.map(_compile_timed, cases)


def _compile_timed(case: Case) -> tuple[Case, Recording, float]:
    started = time.perf_counter()
    recording = compiled(case)
    return case, recording, time.perf_counter() - started


def _quiet() -> None:
    """Suppress libtriton's output for a module that it refuses."""
    logging.disable(logging.WARNING)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


# ---------------------------------------------------------------- recording, comparing

def record(cases: Sequence[Case], out: Path, jobs: int) -> Counter[str]:
    """Write every case's recording; return how many were compiled and refused."""
    count: Counter[str] = Counter()
    for case, recording, seconds in compile_all(cases, jobs):
        path = case.recording_path(out)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"seconds": round(seconds, 3), "stages": recording})
        path.write_bytes(gzip.compress(text.encode(), 6, mtime=0))
        count["refused" if "refusal" in recording else "compiled"] += 1
    return count


def read(case: Case, out: Path) -> tuple[Recording, float]:
    """The recording of a case, and the seconds that it took."""
    data = json.loads(gzip.decompress(case.recording_path(out).read_bytes()))
    return data["stages"], data["seconds"]


def verdict(stage: str, before: str | None, after: str | None) -> str:
    """Compare two texts of a stage: `identical`, `equivalent` or `differ`."""
    from triton_xe.tools.canonical import canonical

    if before == after:
        return "identical"
    if before is None or after is None or canonical(stage, before) != canonical(stage, after):
        return "differ"
    return "equivalent"


def difference(stage: str, before: str, after: str, most: int = 60) -> str:
    """A unified diff of the canonical texts, cut after `most` lines."""
    from triton_xe.tools.canonical import canonical

    old, new = canonical(stage, before).splitlines(), canonical(stage, after).splitlines()
    lines = list(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=2))
    cut = [f"... {len(lines) - most} more lines"] if len(lines) > most else []
    return "\n".join(lines[:most] + cut)


def compare(
    cases: Sequence[Case], out: Path, jobs: int, stages: Sequence[str] = STAGES, show: int = 0
) -> Counter[str]:
    """Compile again and print the differences from the recording, the first `show` as a diff."""
    count: Counter[str] = Counter()
    for case, now, _ in compile_all(cases, jobs):
        recorded, _ = read(case, out)
        for stage in [s for s in (*stages, "refusal") if s in recorded or s in now]:
            before, after = recorded.get(stage), now.get(stage)
            found = verdict(stage, before, after)
            count[found] += 1
            if found != "differ":
                continue
            print(f"{case.device} {case.name} {stage} differs", flush=True)
            if count[found] <= show or stage == "refusal":
                print(difference(stage, before or "", after or ""), flush=True)
    return count


# ---------------------------------------------------------------- the command

def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = made.add_subparsers(dest="command", required=True)
    for name in ("gather", "record", "compare"):
        command = commands.add_parser(name)
        command.add_argument("corpus", type=Path)
        command.add_argument("--sample", type=int, default=0, help="kernels; default: all")
        command.add_argument("--seed", type=int, default=0)
        if name == "gather":
            command.add_argument("--cache", type=Path, nargs="+", default=[], metavar="DIR")
            command.add_argument("--kind", default="",
                                 help="folder of the corpus; default: the Python file's name")
            command.add_argument("--program", nargs=2, metavar=("FILE", "PASSES"),
                                 help="a module for triton-xe opt in place of a cache")
            continue
        command.add_argument("out", type=Path)
        command.add_argument("--devices", default=",".join(DEVICES))
        command.add_argument("--kinds", default="", help="regular expression")
        command.add_argument("--jobs", type=int, default=1)
        if name == "record":
            command.add_argument("--missing", action="store_true", help="only what has none yet")
    command.add_argument("--stages", default=",".join(STAGES))
    command.add_argument("--show", type=int, default=0, metavar="K", help="differences to print")
    command.add_argument("--slow", type=float, default=0, metavar="SECONDS",
                         help="leave out what took longer when it was recorded")
    return made


def run(arguments: argparse.Namespace) -> int:
    """Run a command; return 1 if something differs, or nothing was compared."""
    a, unrecorded = arguments, 0
    if a.command == "gather":
        if a.program:
            add_program(a.corpus, Path(a.program[0]), a.program[1], a.kind or "programs")
        print(f"{gather(a.corpus, a.cache, a.kind, a.sample, a.seed)} new kernels")
        return 0
    started = time.perf_counter()
    cases = choose(a.corpus, a.devices.split(","), a.sample, a.seed, a.kinds)
    if a.command == "record":
        cases = [c for c in cases if not (a.missing and c.recording_path(a.out).exists())]
        count = record(cases, a.out, a.jobs)
    else:
        recorded = [c for c in cases if c.recording_path(a.out).exists()]
        unrecorded = len(cases) - len(recorded)
        cases = [c for c in recorded if not a.slow or read(c, a.out)[1] <= a.slow]
        count = compare(cases, a.out, a.jobs, a.stages.split(","), a.show)
    kernels = len({case.source for case in cases})
    figures = ", ".join(f"{name} {count[name]}" for name in _outcomes(a.command))
    print(f"{kernels} kernels, {len(cases)} compilations in "
          f"{time.perf_counter() - started:.0f} s: {figures}")
    if unrecorded:
        print(f"not compared: {unrecorded} compilations have no recording")
    nothing = a.command == "compare" and not cases
    return 1 if count["differ"] or nothing else 0


def _outcomes(command: str) -> tuple[str, ...]:
    if command == "record":
        return ("compiled", "refused")
    return ("identical", "equivalent", "differ")


if __name__ == "__main__":
    sys.exit(run(parser().parse_args()))
