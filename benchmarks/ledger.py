"""Figures of some seventy kernels on five devices, and of products on Crescent Island, stored in
`ledger.csv`: `make ledger` writes it.

    python -m benchmarks.ledger             compile what changed, and write the file
    python -m benchmarks.ledger --check     compare with the file; exit code 1 on a regression

No GPU is needed, but Intel's compiler is.  A figure that got more than 3 % worse is a regression;
an intended change updates the file in the same commit.  Native code is cached by the module that it
was compiled from, so only kernels whose module changed are compiled again.

`loop` and `outside` are issued instructions, and `share` is the fraction of DPAS in the loop.
`spills` is in bytes.  `messages` counts those of the loop to memory or shared local memory.  `code`
is in bytes of native code, and `us` is the predicted time.  `ratio` is the compile time relative to
Triton's own for PTX, `igc` that of Intel's compiler in ms.  Both depend on the machine, and are
only shown.  So is `fork`, the loop that Intel's fork makes of the kernel
(`published/intel_fork_loops.csv`).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from benchmarks.compile_time import stage_times
from benchmarks.loops import ROWS, compiled
from triton_xe import knobs
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import target
from triton_xe.model.rates import PRODUCTS
from triton_xe.model.time import predict
from triton_xe.runtime import checked_files
from triton_xe.runtime.level_zero.zebin import sections
from triton_xe.runtime.simulator.interface import KernelSource, TimedKernel
from triton_xe.runtime.versions import entry_name
from triton_xe.spirv import without_texts
from triton_xe.tools import intel

FILE = Path(__file__).with_name("ledger.csv")
FORK = Path(__file__).with_name("published") / "intel_fork_loops.csv"
DEVICES = ("bmg", "pvc", "ptl", "lnl", "dg2")
ALSO = {"cri": ("gemm", "gemm int8", "gemm add bf16", "gemm fp8e5", "gemm fp8e4nv", "scaled e4m3",
                "scaled e2m1", "attention 128", "attention fp8e4nv"),
        "nvl-p": ("gemm fp8e4nv", "scaled e4m3")}
"""Rows whose instructions a further device has for itself."""
TOLERANCE = 0.03
BETTER_WHEN_LARGER = ("share",)
SHOWN_ONLY = ("ratio", "igc")
CHOICE = "more registers if that spills less"
"""How native code is chosen if the flags name no register file: a part of the keys of the cache."""
MESSAGES = ("block_loads", "block_stores", "prefetches", "gathers", "scatters", "atomics", "slm")


@dataclass(frozen=True)
class Native:
    """Figures of the native code of a kernel."""

    loop: int
    outside: int
    share: float
    spills: int
    messages: int
    code: int
    igc: int


@dataclass(frozen=True)
class Entry:
    """One line of the ledger; `refused` is the reason if a device cannot run the kernel."""

    kernel: str
    device: str
    figures: Mapping[str, float]
    refused: str = ""


STATIC = (*(f.name for f in fields(Native) if f.name != "igc"), "us")
FIGURES = (*STATIC, *SHOWN_ONLY)
COLUMNS = ("kernel", "device", *FIGURES, "fork", "refused")


def devices_of(name: str) -> tuple[str, ...]:
    """The devices that a kernel is compiled for."""
    return *DEVICES, *(device for device, names in ALSO.items() if name in names)


def entry(place: tuple[str, str]) -> Entry:
    """Compile a kernel for a device, and count."""
    name, device = place
    try:
        kernel = compiled(name, device)
        figures = asdict(native(kernel.asm["spv"], device, kernel.metadata.build_flags))
    except Exception as error:  # one kernel that a device refuses leaves the others
        return Entry(name, device, {}, (str(error) or type(error).__name__).splitlines()[0])
    figures["us"] = predicted_us(name, kernel, device)
    return Entry(name, device, figures)


def native(module: bytes, device: str, flags: str) -> Native:
    """The figures of a module, from the cache if the compiler has compiled it before."""
    key = hashlib.sha256(b"\0".join([without_texts(module), *(text.encode() for text in (
        device, flags, compiler_version(), CHOICE))])).hexdigest()
    path = knobs.cache_dir() / "ledger" / f"{key}.json"
    known = checked_files.read(path)
    if known is not None:
        return Native(**json.loads(known))
    started = time.perf_counter()
    built = intel.compile_spirv(module, device, flags)
    igc = (time.perf_counter() - started) * 1e3
    read = built.figures
    loop = read.hot_loop
    made = Native(
        loop=loop.issued, outside=read.whole.issued - loop.issued,
        share=round(loop.dpas / loop.issued, 4), spills=read.spill_size,
        messages=sum(getattr(loop, kind) for kind in MESSAGES),
        code=sum(len(data) for name, data in sections(built.binary).items()
                 if name.startswith(".text.")),
        igc=round(igc))
    checked_files.write(path, json.dumps(asdict(made)).encode())
    return made


@cache
def compiler_version() -> str:
    return intel.compiler_version()


def predicted_us(name: str, kernel: Any, device: str) -> float:
    """Device time of the row's launch."""
    machine, module, row = target(device), kernel.asm["spv"], ROWS[name]
    source = KernelSource(kernel.asm["llir"], entry_name(module, kernel.metadata.name), machine)
    registers = RegisterFile.of_flags(kernel.metadata.build_flags).registers or 128
    rates = PRODUCTS[machine.product]
    work, _ = TimedKernel.from_source(source, registers).launch_work(row.arguments, row.grid)
    return round(predict(work, rates).us, 1)


def with_ratio(e: Entry) -> Entry:
    """Add the compile time, which is measured for one device only."""
    if e.device != DEVICES[0] or e.refused:
        return e
    return replace(e, figures={**e.figures, "ratio": compile_ratio(e.kernel, e.device)})


def compile_ratio(name: str, device: str) -> float:
    """Time from Python to SPIR-V, relative to Triton's own from Python to PTX."""
    row = ROWS[name]

    def ms(gpu: GPUTarget, last: str) -> float:
        return min(sum(stage_times(gpu, last, row.source(), row.num_warps).values())
                   for _ in range(2))

    try:
        theirs = ms(GPUTarget("cuda", 90, 32), "ptx")
    except Exception:  # no PTX of what only Xe has
        return float("nan")
    return round(ms(GPUTarget("xpu", device, 16), "spv") / theirs, 2)


# -- the file -------------------------------------------------------------------------------------


def write(entries: list[Entry], path: Path = FILE) -> None:
    with path.open("w", newline="") as file:
        file.write(f"# {versions()}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for e in entries:
            shown = {k: f"{v:g}" if v == v else "" for k, v in e.figures.items()}
            writer.writerow([e.kernel, e.device, *(shown.get(c, "") for c in FIGURES),
                             fork_loops().get((e.kernel, e.device), ""), e.refused])


@cache
def fork_loops() -> dict[tuple[str, str], str]:
    """Issued instructions of the loops that Intel's fork makes, by kernel and device."""
    with FORK.open(newline="") as file:
        return {(f["kernel"], f["device"]): f["loop"] for f in csv.DictReader(file)}


def read(path: Path = FILE) -> tuple[str, list[Entry]]:
    """The versions with which the file was written, and its lines."""
    first, *lines = path.read_text().splitlines()
    return first.removeprefix("# "), [
        Entry(f["kernel"], f["device"],
              {c: float(f[c]) for c in FIGURES if f[c]}, f["refused"])
        for f in csv.DictReader(lines)
    ]


def versions() -> str:
    return f"Triton {triton.__version__}, {compiler_version()}"


# -- comparing ------------------------------------------------------------------------------------


def regressions(old: Entry, new: Entry) -> Iterator[str]:
    """Yield a sentence per regression, with kernel and figure."""
    where = f"{new.kernel} on {new.device}"
    if new.refused and not old.refused:
        yield f"{where}: no longer compiles: {new.refused}"
    if new.refused or old.refused:
        return
    for name, was, now in _compared(old, new):
        yield f"{where}: {name} was {was:g}, is {now:g}"


def _compared(old: Entry, new: Entry) -> Iterator[tuple[str, float, float]]:
    """Yield the figures that got worse; a loop with products is judged by their share, not its
    length.
    """
    for name in STATIC:
        was, now = old.figures[name], new.figures[name]
        if name in ("loop", "messages") and old.figures["share"] != 0:
            continue
        worse = was - now if name in BETTER_WHEN_LARGER else now - was
        if worse > TOLERANCE * was:
            yield name, was, now


def entries_of(names: Iterable[str], jobs: int) -> list[Entry]:
    """Entries of these kernels on all their devices."""
    places = [(name, device) for name in names for device in devices_of(name)]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(entry, places, chunksize=len(DEVICES)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("names", nargs="*", help="parts of kernels' names; default: all")
    options = parser.parse_args(arguments)
    if (reason := intel.available()) is not None:
        print(f"ledger: {reason}")
        return 0 if options.check else 1
    chosen = [n for n in ROWS if not options.names or any(p in n for p in options.names)]
    made_with, kept = read() if FILE.exists() else ("", [])
    if options.check and made_with != versions():
        print(f"ledger: not compared: it was made with {made_with}, and here is {versions()}")
        return 0
    found = entries_of(chosen, options.jobs)
    return check(kept, found) if options.check else update(kept, found)


def check(kept: list[Entry], found: list[Entry]) -> int:
    """Print regressions; an entry that the file lacks is a difference too."""
    old = {(e.kernel, e.device): e for e in kept}
    missing = [f"{e.kernel} on {e.device}: not in the ledger" for e in found
               if (e.kernel, e.device) not in old]
    worse = [line for e in found if (e.kernel, e.device) in old
             for line in regressions(old[e.kernel, e.device], e)]
    print(*missing, *worse, sep="\n")
    print(f"ledger: {len(found)} compared, {len(missing) + len(worse)} regressions"
          + "; `make ledger` records what is meant" * bool(missing or worse))
    return 1 if missing or worse else 0


def update(kept: list[Entry], found: list[Entry]) -> int:
    """Write the file; lines with unchanged figures keep the times of the machine."""
    merged = {(e.kernel, e.device): e for e in kept}
    for e in found:
        before = merged.get((e.kernel, e.device))
        was = before.figures if before is not None else {}
        if before is None or e.refused or any(was.get(k) != e.figures[k] for k in STATIC):
            merged[e.kernel, e.device] = with_ratio(e)
    write([merged[n, d] for n in ROWS for d in devices_of(n) if (n, d) in merged])
    print(f"ledger: {len(found)} of {len(merged)} lines written to {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
