"""Time of Intel's compiler for a kernel, compared with the same kernel without its guards.

    python -m benchmarks.igc_time [--repeat 3] [--target bmg] [NAME ...]

It prints milliseconds of processor time of `ocloc` for kernels of `benchmarks.compile_time` in
turns, and the median of the ratios.  Without guards, only the faster of two versions of the same
work is compiled; `versions` is the number of branches between versions.
"""

from __future__ import annotations

import argparse
import resource
import statistics
from typing import Any

from xdsl.dialects import scf
from xdsl.rewriter import InsertPoint, Rewriter

from benchmarks.compile_time import KERNELS, OPTIONS, lowered, source_of, targets
from triton_xe.dialects.xe import VERSIONS
from triton_xe.lowering import pipeline
from triton_xe.lowering.rewriting import all_of, last_of
from triton_xe.tools import intel

BAR = 1.3


def instructions(name: str, device: str) -> pipeline.Stage:
    """The kernel before it is lowered to LLVM IR."""
    source, num_warps = source_of(name)
    (target, _), _ = targets(device)
    return lowered(source, target, OPTIONS | {"num_warps": num_warps}, "xegpu")[0]


def without_guards(stage: pipeline.Stage) -> int:
    """Remove the slower of each two versions; return how many there were."""
    choices = [op for op in all_of(stage.module, scf.IfOp) if VERSIONS.of(op)]
    for choice in choices:
        fast = choice.true_region.block
        kept = list(last_of(fast).operands)
        Rewriter.erase_op(last_of(fast))
        for result, value in zip(choice.results, kept, strict=True):
            result.replace_all_uses_with(value)
        Rewriter.inline_block(fast, InsertPoint.before(choice))
        Rewriter.erase_op(choice)
    return len(choices)


def spirv(stage: pipeline.Stage) -> tuple[bytes, str]:
    """The SPIR-V module, and its build flags."""
    facts: dict[str, Any] = {}
    return pipeline.make_spirv(pipeline.make_llir(stage, facts), facts), facts["build_flags"]


def compiler_ms(binary: bytes, flags: str, device: str) -> float:
    """Processor time of Intel's compiler."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    intel.compile_spirv(binary, device, flags, dump_asm=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--target", default="bmg")
    parser.add_argument("names", nargs="*")
    parsed = parser.parse_args(arguments)
    print(f"{'kernel':28}{'ours':>8}{'without':>9}{'ratio':>7}{'bar':>6}{'versions':>10}")
    for name in KERNELS:
        if parsed.names and not any(part in name for part in parsed.names):
            continue
        plain = instructions(name, parsed.target)
        versions = without_guards(plain)
        sides = spirv(instructions(name, parsed.target)), spirv(plain)
        rounds = [[compiler_ms(*side, parsed.target) for side in sides]
                  for _ in range(parsed.repeat)]
        ours, without = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratio = statistics.median(a / b for a, b in rounds)
        print(f"{name:28}{ours:8.0f}{without:9.0f}{ratio:7.2f}{BAR:6.1f}{versions:10}", flush=True)


if __name__ == "__main__":
    main()
