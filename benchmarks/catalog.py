"""oneDNN's choices for products of matrices, beside those of this project's tuning.

    python -m benchmarks.catalog [--devices bmg,pvc] [--types f16,s8] [MxNxK ...]

oneDNN's catalog of kernels was tuned on hardware.  It prints its choice for a shape on the emulated
GPU (docs/emulator.md), without running it.  The packages are those of the extra `onednn`, here or
in the environment `ONEDNN_PREFIX`.  `ours` and `Inductor` are the configurations of
`against_onednn.BLOCKS` and of torch's heuristic for `xpu` with the least predicted time.  `its` is
the predicted time of the example's kernel with oneDNN's blocks, relative to `ours`.

Blocks are M x N x K, then warps; `/2` says that warps of a work-group split K, `+` that work-groups
do.  `prefetch` and `barrier` are distances in elements of K.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import onednn_programs
from triton_xe import knobs
from triton_xe.hardware.target import target
from triton_xe.runtime.emulator import Launch
from triton_xe.runtime.emulator.kernel_driver.server import EmulatedGpu
from triton_xe.tools import intel

PREFIX = Path(os.environ.get("ONEDNN_PREFIX", sys.prefix))


SHAPES = (
    "256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048", "4096x4096x4096",
    "64x4096x4096", "128x4096x1024", "256x4096x4096", "1024x4096x4096", "4096x512x4096")


def run(
    device: str, words: Sequence[str], observe: Callable[[Launch], object] | None = None
) -> str:
    """Run oneDNN's program on an emulated GPU; `observe` is called after each launch."""
    with EmulatedGpu(target(device)) as gpu:
        gpu.dispatcher.observe = observe
        variables = gpu.environment(intel.toolchain_root(), intel.LIBRARIES) | {
            "LD_LIBRARY_PATH": str(PREFIX / "lib"), "ONEAPI_DEVICE_SELECTOR": "level_zero:*",
            "ONEDNN_VERBOSE": "debuginfo=255", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}
        done = subprocess.run(
            ["/usr/bin/env", str(PREFIX / "bin/python"), onednn_programs.__file__, *words],
            env={**knobs.process_environment(), **variables}, capture_output=True, text=True,
            check=False)
    if done.returncode:
        raise RuntimeError(f"oneDNN on {words}: {done.stdout[-500:]}{done.stderr[-2000:]}")
    return done.stdout


@dataclass(frozen=True)
class Choice:
    """A configuration of a product; distances of prefetches and of barriers in elements of K."""

    m: int
    n: int
    k: int
    warps: int
    slices: int = 1
    """Parts of K that warps of a work-group sum up."""
    splits: bool = False
    """True if work-groups split K too."""
    prefetches: tuple[int, ...] = ()
    barriers: int = 0

    @property
    def is_expressible(self) -> bool:
        """True if Triton can have blocks of this size: powers of 2."""
        return not any(size & size - 1 for size in (self.m, self.n, self.k))

    def without_slices(self) -> Choice:
        """Its blocks for the warps that share a part of K."""
        return replace(self, warps=self.warps // self.slices, slices=1)

    def __str__(self) -> str:
        slices = f"/{self.slices}" if self.slices > 1 else ""
        return f"{self.m}x{self.n}x{self.k} {self.warps}{slices}{'+' if self.splits else ''}"


_KERNEL = re.compile(
    r"kernel:gemm \S+ \S+ (\d+) (\d+) \S+ \S+ (.*?) wg (\d+)x(\d+)(?:x(\d+))? (.*)")


def choice_of(text: str) -> Choice | None:
    """The configuration in what oneDNN printed; None if its code generator is not used.

    oneDNN stores by columns, so that its M is the N of matrices that are stored by rows.

    >>> str(choice_of("kernel:gemm HH NNN 64 32 1 0 aV16+M32,32@40 aM32 aB wg 4x8x2 kr k32 sb64"))
    '256x256x32 64/2'
    """
    found = _KERNEL.search(text)
    if found is None:
        return None
    n, m, operands, across, down, slices, rest = found.groups(default="1")
    flags = rest.split()
    steps = {each[: len(name)]: int(each[len(name) :]) for each in flags for name in ("k", "sb")
             if re.fullmatch(rf"{name}\d+", each)}
    return Choice(
        int(m) * int(down), int(n) * int(across), steps["k"],
        int(across) * int(down) * int(slices), int(slices), "kv" in flags or "kb" in flags,
        tuple(int(each) for each in re.findall(r"@(\d+)", operands)), steps.get("sb", 0))


def choices(device: str, names: Sequence[str]) -> dict[str, Choice | None]:
    """oneDNN's choice for each product."""
    parts = run(device, ["--choose", *names]).split('{"case": "')[1:]
    return {part.partition('"')[0]: choice_of(part) for part in parts}


def inductor_blocks(device: str, least_k: int) -> list[Choice]:
    """The configurations that torch tries for products on a device (see `adjust_products`)."""
    from torch._inductor.template_heuristics.triton import XPUConfigHeuristic

    from triton_xe.runtime.torch_xpu.inductor import sums_fit

    found = {Choice(each.block_m, each.block_n, max(each.block_k, least_k), each.num_warps)
             for each in XPUConfigHeuristic().mm_configs}
    return sorted((each for each in found if sums_fit(
        each.m * each.n, each.warps, target(device))), key=str)


class Clock:
    """Predicted times of the example's kernel on simulated devices."""

    def __init__(self, devices: str) -> None:
        os.environ["TRITON_XE_DEVICE"] = f"sim:{devices}"
        import torch
        import triton.testing

        self.torch, self.bench, self.devices = torch, triton.testing.do_bench, devices.split(",")

    def us(self, device: int, name: str, choice: Choice) -> float:
        """Microseconds of a product; infinite if these blocks do not fit the device."""
        from triton.runtime.errors import OutOfResources

        from examples.matmul import matmul_kernel
        from triton_xe.errors import XeError

        m, n, k = map(int, name.split()[1].split("x"))
        types = {"f16": "float16", "bf16": "bfloat16", "s8": "int8", "s32": "int32"}
        ta, tb, tc = (getattr(self.torch, types[each]) for each in name.split()[2:])
        with self.torch.xpu.device(device):
            a, b, c = (self.torch.empty(shape, dtype=dtype, device="xpu") for shape, dtype in (
                ((m, k), ta), ((k, n), tb), ((m, n), tc)))
            grid = (math.ceil(m / choice.m) * math.ceil(n / choice.n),)
            try:
                return 1e3 * self.bench(lambda: matmul_kernel[grid](
                    a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), choice.m, choice.n,
                    choice.k, GROUP_M=4, ACTIVATION="", num_warps=choice.warps))
            except (OutOfResources, XeError):
                return math.inf

    def best(self, device: int, name: str, among: Sequence[Choice]) -> tuple[float, Choice]:
        """The least time, and its configuration."""
        return min(((self.us(device, name, each), each) for each in among),
                   key=lambda pair: pair[0])


def line(clock: Clock, device: int, name: str, theirs: Choice | None) -> str:
    """One line of the table."""
    from benchmarks.against_onednn import BLOCKS

    factor = 2 if " s8 " in name else 1
    us, ours = clock.best(device, name, [Choice(m, n, k * factor, w) for m, n, k, w in BLOCKS])
    torch_us, inductor = clock.best(
        device, name, inductor_blocks(clock.devices[device], 16 * factor))
    its = clock.us(device, name, theirs.without_slices()) / us if (
        theirs and theirs.is_expressible) else math.nan
    prefetches = ",".join(map(str, theirs.prefetches)) if theirs else ""
    barriers = theirs.barriers if theirs else 0
    return (f"{name:36}{theirs or 'OpenCL'!s:20}{prefetches:>9}{barriers or '':>8}"
            f"  {ours!s:18}{us:9.1f}{its:7.2f}  {inductor!s:18}{torch_us / us:7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", default="bmg,pvc")
    parser.add_argument("--types", default="f16,s8")
    parser.add_argument("shapes", metavar="MxNxK", nargs="*")
    arguments = parser.parse_args()
    results = {"f16": "f16 f16 f16", "bf16": "bf16 bf16 bf16", "s8": "s8 s8 s32"}
    names = [f"matmul {shape} {results[each]}" for each in arguments.types.split(",")
             for shape in arguments.shapes or SHAPES]
    clock = Clock(arguments.devices)
    print(f"{'':40}{'oneDNN':20}{'prefetch':>9}{'barrier':>8}  {'ours':18}{'us':>9}{'its':>7}  "
          f"{'Inductor':18}{'':7}")
    for index, device in enumerate(clock.devices):
        for name, theirs in choices(device, names).items():
            print(f"{device} {line(clock, index, name, theirs)}", flush=True)


if __name__ == "__main__":
    main()
