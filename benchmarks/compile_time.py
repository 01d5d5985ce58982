"""Compile time of kernels, compared with the stock wheel's PTX.

    python -m benchmarks.compile_time [--repeat 5] [--target bmg] [NAME ...]

Both backends compile the same kernel in this process, in turns.  They start from Python source, and
end with the last text or binary that the wheel itself creates: SPIR-V here, PTX for sm_90 there.
The first round is a warm-up and not counted; the result is the median processor time of the others.
A stage's time includes printing its text, as Triton's cache does.  The garbage collector is paused
until the last stage has ended, and then collects what this compilation has left (`garbage`).
`memory` is the peak memory of a new process with torch and one compilation, relative to that of the
wheel.  A NAME is a part of a kernel's name; its stages are printed too.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from benchmarks.loops import ROWS
from examples.matmul import matmul_kernel
from triton_xe.collector import paused_collector

CONSTANTS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8, "ACTIVATION": "",
             "stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
OPTIONS = {"num_warps": 8, "num_stages": 3}
KERNELS = {
    "tutorial": 0.6,
    "matmul example": 0.6,
    "matmul descriptor example": 0.6,
    "gemm 64x128x64": 0.6,
    "attention 64": 0.8,
    "attention backward": 0.8,
    "add": 1.0,
    "descriptor copy": 1.0,
    "softmax fp32": 1.0,
    "layer norm": 1.0,
    "inductor pointwise": 1.0,
    "inductor reduction": 1.0,
    "scaled e4m3": 1.5,
    "scaled e2m1": 1.5,
}
"""Rows of `benchmarks.loops`, and the largest allowed fraction of the wheel's own time."""


def tutorial_source() -> ASTSource:
    """The matmul as a launch with contiguous, aligned fp16 matrices compiles it."""
    names = matmul_kernel.arg_names
    types = {n: "constexpr" if n in CONSTANTS else "*fp16" if n.endswith("_ptr") else "i32"
             for n in names}
    aligned = [i for i, n in enumerate(names) if types[n] != "constexpr"]
    return ASTSource(matmul_kernel, types, CONSTANTS,
                     {(i,): [["tt.divisibility", 16]] for i in aligned})


def stage_times(
    target: GPUTarget, last: str, source: ASTSource | None = None, num_warps: int = 8
) -> dict[str, float]:
    """Milliseconds of each stage of one compilation, up to stage `last`."""
    backend = make_backend(target)
    options = backend.parse_options(OPTIONS | {"num_warps": num_warps})
    source = source or tutorial_source()
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)

    times: dict[str, float] = {}
    metadata: dict[str, Any] = {}
    begin = time.process_time()
    module = source.make_ir(target, options, backend.get_codegen_implementation(options),
                            backend.get_module_map(), context)
    for name in ("frontend", *stages):
        if name != "frontend":
            module = stages[name](module, metadata)
        if not isinstance(module, bytes):
            str(module)
        now = time.process_time()
        times[name] = (now - begin) * 1e3
        begin = now
        if name == last:
            break
    return times


def source_of(name: str) -> tuple[ASTSource, int]:
    """The kernel's source, and its number of warps."""
    if name == "tutorial":
        return tutorial_source(), OPTIONS["num_warps"]
    return ROWS[name].source(), ROWS[name].num_warps


def lowered(
    source: ASTSource, target: GPUTarget, options: dict[str, Any], last: str
) -> tuple[Any, dict[str, Any]]:
    """The module of a kernel after the stage `last`, and its metadata, without Triton's cache."""
    backend = make_backend(target)
    parsed = backend.parse_options(options)
    context = ir.context()
    ir.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    module = source.make_ir(target, parsed, backend.get_codegen_implementation(parsed),
                            backend.get_module_map(), context)
    metadata: dict[str, Any] = {}
    for stage, run in stages.items():
        module = run(module, metadata)
        if stage == last:
            return module, metadata
    raise ValueError(f"there is no stage {last}, only {', '.join(stages)}")


def targets(device: str) -> tuple[tuple[GPUTarget, str], tuple[GPUTarget, str]]:
    """Our target and the wheel's, each with its last stage."""
    return (GPUTarget("xpu", device, 16), "spv"), (GPUTarget("cuda", 90, 32), "ptx")


def turn(side: tuple[GPUTarget, str], source: ASTSource, num_warps: int) -> dict[str, float]:
    """The stages of one compilation, and the cost of its garbage, independent of earlier turns.

    Existing objects are frozen, so that the collection does not visit them.  With frozen objects
    our backend does not make young objects old when its own pause ends.  The next collection would
    be part of its last stage.  Therefore both backends run in a pause of this function.
    """
    gc.collect()
    gc.freeze()
    with paused_collector():
        times = stage_times(*side, source, num_warps)
        begin = time.process_time()
        gc.collect()
        times["garbage"] = (time.process_time() - begin) * 1e3
        gc.unfreeze()
    return times


def medians(name: str, device: str, repeat: int) -> list[dict[str, float]]:
    """Median times of each stage, for both backends in turns, after a warm-up round."""
    source, num_warps = source_of(name)
    rounds = [[turn(side, source, num_warps) for side in targets(device)]
              for _ in range(repeat + 1)][1:]
    return [{stage: statistics.median(one[stage] for one in turns) for stage in turns[0]}
            for turns in zip(*rounds, strict=True)]


def peak(name: str, device: str, side: int) -> int:
    """Peak memory, in KB, of this process after it has compiled the kernel."""
    importlib.import_module("torch")
    source, num_warps = source_of(name)
    stage_times(*targets(device)[side], source, num_warps)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def memory_ratio(name: str, device: str) -> float:
    """Our peak memory divided by the wheel's, each in a new process."""
    peaks = []
    for side in (0, 1):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            peaks.append(pool.submit(peak, name, device, side).result())
    return peaks[0] / peaks[1]


def stages(ours: dict[str, float], theirs: dict[str, float]) -> str:
    """Stages side by side."""
    lines = [f"{'stage':10}{'to SPIR-V':>12}{'stage':>14}{'to PTX':>12}   (ms)"]
    rows = max(len(ours), len(theirs))
    pairs = [list(side.items()) + [("", float("nan"))] * rows for side in (ours, theirs)]
    for (name, value), (other, base) in zip(*(p[:rows] for p in pairs), strict=True):
        right = f"{other:>14}{base:12.1f}" if other else ""
        left = f"{name:10}{value:12.1f}" if name else " " * 22
        lines.append(left + right)
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--target", default="bmg")
    parser.add_argument("names", nargs="*")
    parsed = parser.parse_args(arguments)
    print(f"Triton {triton.__version__}, {parsed.target} and sm_90; ms of processor time")
    print(f"{'kernel':28}{'to SPIR-V':>10}{'to PTX':>10}{'ratio':>8}{'bar':>6}{'memory':>8}")
    for name, bar in KERNELS.items():
        if parsed.names and not any(part in name for part in parsed.names):
            continue
        ours, theirs = medians(name, parsed.target, parsed.repeat)
        total, base = sum(ours.values()), sum(theirs.values())
        print(f"{name:28}{total:10.0f}{base:10.0f}{total / base:8.2f}{bar:6.1f}"
              f"{memory_ratio(name, parsed.target):8.2f}", flush=True)
        if parsed.names:
            print(stages(ours, theirs))


if __name__ == "__main__":
    main()
