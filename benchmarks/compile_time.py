"""How long the tutorial's matmul takes to compile, stage by stage, next to the stock wheel's PTX.

    python -m benchmarks.compile_time [--repeat 7] [--target bmg]

Both compile the same kernel in this process, from Python source to the last text or binary that
the wheel makes itself: SPIR-V here, PTX for sm_90 there.  Warm: the first round is not counted,
the median of the others is.  A stage's time includes printing its text, as Triton's cache does.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from examples.matmul import matmul_kernel

CONSTANTS = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP_M": 8, "ACTIVATION": "",
             "stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
OPTIONS = {"num_warps": 8, "num_stages": 3}
HERE = ("frontend", "ttir", "ttgir", "xetile", "xegpu", "llir", "spv")
THERE = ("frontend", "ttir", "ttgir", "llir", "ptx")


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
    begin = time.perf_counter()
    module = source.make_ir(target, options, backend.get_codegen_implementation(options),
                            backend.get_module_map(), context)
    for name in ("frontend", *stages):
        if name != "frontend":
            module = stages[name](module, metadata)
        if not isinstance(module, bytes):
            str(module)
        now = time.perf_counter()
        times[name] = (now - begin) * 1e3
        begin = now
        if name == last:
            break
    return times


def medians(target: GPUTarget, last: str, repeat: int) -> dict[str, float]:
    """The median of each stage over `repeat` rounds, after one round that is not counted."""
    rounds = [stage_times(target, last) for _ in range(repeat + 1)][1:]
    return {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}


def table(ours: dict[str, float], theirs: dict[str, float]) -> str:
    """Stages side by side; the ratio is of the totals."""
    lines = [f"{'stage':10}{'to SPIR-V':>12}{'stage':>14}{'to PTX':>12}   (ms)"]
    rows = max(len(ours), len(theirs))
    pairs = [list(side.items()) + [("", float("nan"))] * rows for side in (ours, theirs)]
    for (name, value), (other, base) in zip(*(p[:rows] for p in pairs), strict=True):
        right = f"{other:>14}{base:12.1f}" if other else ""
        left = f"{name:10}{value:12.1f}" if name else " " * 22
        lines.append(left + right)
    total, base = sum(ours.values()), sum(theirs.values())
    lines.append(f"{'total':10}{total:12.1f}{'total':>14}{base:12.1f}   ratio {total / base:.2f}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--target", default="bmg")
    parsed = parser.parse_args(arguments)
    ours = medians(GPUTarget("xpu", parsed.target, 16), "spv", parsed.repeat)
    theirs = medians(GPUTarget("cuda", 90, 32), "ptx", parsed.repeat)
    print(f"matmul 128x128x32, Triton {triton.__version__}, {parsed.target} and sm_90")
    print(table(ours, theirs))


if __name__ == "__main__":
    main()
