"""Instructions that this project's kernels and oneDNN's execute for the same work.

    python -m benchmarks.against_onednn [--devices bmg,pvc] [NAME ...]

Both run on emulated devices (docs/emulator.md), and both results are compared with numpy's.  The
packages of the extra `onednn` have it, here or in the environment `ONEDNN_PREFIX`.  Some of
its kernels need Intel's OpenCL driver (`triton-xe toolchain --opencl`).  This project's kernels are
the examples.  `ours` has the configuration that `triton.autotune` chooses by predicted times, `its`
oneDNN's blocks, in products of more than 16 rows.  Where oneDNN's warps split K, `its` has as many
warps as share a part.  A NAME is a part of a row's name.

Columns count instructions of threads: all, DPAS in units of eight rows, those of other pipes, and
`waits`, which no pipe executes.  Bytes are what messages ask for: of global memory without
prefetches, of prefetches by 2D blocks, and of shared local memory.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np

from benchmarks import onednn_programs as onednn
from benchmarks.catalog import Choice, choice_of, run
from triton_xe.runtime.emulator import Launch, Program
from triton_xe.runtime.emulator.messages.send import is_message
from triton_xe.tools.native_figures import pipe

Array = np.ndarray[Any, Any]
ROWS = (
    *(f"matmul {shape} {types}" for types in ("f16 f16 f16", "bf16 bf16 bf16", "s8 s8 s32")
      for shape in ("256x256x256", "512x512x1024", "1x4096x4096", "16x4096x4096",
                    "128x4096x1024")),
    *(f"{kind} 1024x1024 {name}" for kind in ("softmax", "normalization")
      for name in ("f16", "f32")))
BLOCKS = (
    (256, 256, 32, 32), (128, 256, 128, 32), (128, 128, 32, 8), (128, 128, 32, 16),
    (128, 128, 64, 32), (64, 128, 64, 8), (64, 64, 32, 4), (64, 64, 64, 16), (64, 64, 64, 32),
    (32, 64, 64, 4), (16, 128, 64, 4), (16, 64, 64, 4), (8, 128, 64, 4), (8, 64, 64, 4))
"""Blocks of M, N and K (of 16-bit operands), and warps, to choose from for a product.

Fewer warps come first: of configurations with the same predicted time, the first is chosen.
"""
THIN = 16
"""Most rows of a product for which the blocks are not compared."""


@dataclass(frozen=True)
class Figures:
    """Executed instructions, and bytes that messages asked for."""

    instructions: int = 0
    dpas: int = 0
    fp: int = 0
    integer: int = 0
    maths: int = 0
    messages: int = 0
    waits: int = 0
    moved: int = 0
    prefetched: int = 0
    slm: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def figures(program: Program, executed: Sequence[int], moved: Mapping[int, int]) -> Figures:
    """Sum up how often each instruction ran, and the bytes by program counter."""
    counts = Counter[str]()
    for each, times in zip(program.instructions, executed, strict=True):
        name = pipe(each) or "waits"
        rows = int(each.subop.partition("x")[2]) if name == "dpas" else 8
        counts["instructions"] += times
        counts[name] += times * rows // 8
        if is_message(each):
            target = each.destination
            is_prefetch = not each.sources[1].registers and (target is None or target.is_null)
            kind = "slm" if each.subop == "slm" else "prefetched" if is_prefetch else "moved"
            counts[kind] += moved.get(each.pc, 0)
    return Figures(**counts)


@dataclass(frozen=True)
class Result:
    """Configuration and figures of one side, and its largest error, relative to numpy's result."""

    configuration: str
    figures: Figures
    error: float


def of_onednn(device: str, name: str) -> tuple[Result, Choice | None]:
    """Run oneDNN's kernels twice, and count the second run: the first one clears its buffers."""
    found: list[tuple[float, Figures]] = []

    def observe(launch: Launch) -> None:
        found.append((time.monotonic(), figures(
            launch.program, launch.counters.executed.tolist(), launch.bytes_moved)))

    text = run(device, [name, name], observe)
    case = json.loads([each for each in text.splitlines() if each.startswith("{")][-1])
    total = sum((each for at, each in found if at >= case["began"]), Figures())
    choice = choice_of(text)
    return Result(str(choice or ""), total, case["off"]), choice


class Ours:
    """This project's kernels on emulated devices; the first use chooses them for the process."""

    def __init__(self, devices: str) -> None:
        os.environ["TRITON_XE_DEVICE"] = f"emu:{devices}"
        import torch
        import triton

        self.torch, self.triton = torch, triton

    def run(self, device: int, name: str, choice: Choice | None = None) -> Result:
        """Launch the kernel of a row, tuned or with given blocks."""
        from triton_xe.tools.report import executed_lines

        kind, shape, *types = name.split()
        with self.torch.xpu.device(device):
            launch = self._product if kind == "matmul" else self._rows
            configuration, got, want = launch(kind, [int(n) for n in shape.split("x")], [
                onednn.TYPES[each] for each in types], choice)
        total = Figures()
        for native in executed_lines.emulated()[device].executed.values():
            total += figures(native.program, native.executed.tolist(), native.bytes_moved)
            native.executed[:] = 0
            native.bytes_moved.clear()
        return Result(configuration, total, float(np.abs(got - want).max() / np.abs(want).max()))

    def _product(self, _: str, shape: Sequence[int], types: Sequence[onednn.Type],
                 choice: Choice | None) -> tuple[str, Array, Array]:
        from examples.matmul import matmul_kernel

        (m, n, k), (ta, tb, tc), inputs = shape, types, onednn.Inputs()
        a, b = inputs((m, k), ta), inputs((k, n), tb)
        x, y, z = self._tensor(a, ta), self._tensor(b, tb), self._tensor(
            np.zeros((m, n), tc.stored), tc)
        blocks = [(choice.m, choice.n, choice.k, choice.warps)] if choice else [
            (bm, bn, bk * 2 // a.itemsize, warps) for bm, bn, bk, warps in BLOCKS
            if bm <= max(8, self.triton.next_power_of_2(m))]
        tuned = self._tuned(matmul_kernel, [self.triton.Config(
            {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 4}, num_warps=warps)
            for bm, bn, bk, warps in blocks])
        tuned[lambda meta: (-(-m // meta["BLOCK_M"]) * -(-n // meta["BLOCK_N"]),)](
            x, y, z, m, n, k, *x.stride(), *y.stride(), *z.stride(), ACTIVATION="")
        best = tuned.best_config
        bm, bn, bk = (best.kwargs[f"BLOCK_{axis}"] for axis in "MNK")
        used = Choice(bm, bn, bk, best.num_warps)
        return str(used), self._array(z, tc), onednn.exact(a, ta) @ onednn.exact(b, tb)

    def _rows(self, kind: str, shape: Sequence[int], types: Sequence[onednn.Type],
              _: Choice | None) -> tuple[str, Array, Array]:
        """Softmax, or layer normalization with a scale and a shift."""
        from benchmarks.loop_kernels import layer_norm_row
        from examples.softmax import softmax_kernel

        (rows, columns), t, inputs = shape, types[0], onednn.Inputs()
        a = inputs((rows, columns), t)
        x, v = self._tensor(a, t), onednn.exact(a, t)
        y = self.torch.empty_like(x)
        scale, shift = (inputs((columns,), onednn.F32) for _ in range(2))
        kernel, given = (softmax_kernel, (x, y, columns, columns)) if kind == "softmax" else (
            layer_norm_row, (x, y, self._tensor(scale, onednn.F32),
                             self._tensor(shift, onednn.F32), columns, 1e-5))
        block = self.triton.next_power_of_2(columns)
        tuned = self._tuned(kernel, [
            self.triton.Config({"BLOCK": block}, num_warps=warps) for warps in (1, 2, 4, 8)])
        tuned[(rows,)](*given, columns)
        v = v - (v.max(1, keepdims=True) if kind == "softmax" else v.mean(1, keepdims=True))
        want = np.exp(v) / np.exp(v).sum(1, keepdims=True) if kind == "softmax" else (
            v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5) * scale + shift)
        return f"{block} {tuned.best_config.num_warps}", self._array(y, t), want

    def _tuned(self, kernel: Any, configs: Sequence[Any]) -> Any:
        return self.triton.autotune(configs, key=[])(kernel)

    def _tensor(self, values: Array, kind: onednn.Type) -> Any:
        """The array on the device."""
        if kind is onednn.BF16:
            return self._tensor(values.view(np.int16), onednn.S8).view(self.torch.bfloat16)
        return self.torch.from_numpy(values).to("xpu")

    def _array(self, tensor: Any, kind: onednn.Type) -> Array:
        """The exact values of a tensor."""
        if kind is onednn.BF16:
            return onednn.exact(tensor.view(self.torch.int16).cpu().numpy().view(np.uint16), kind)
        return onednn.exact(tensor.cpu().numpy(), kind)


def comparison(ours: Ours, devices: Sequence[str], device: str, name: str) -> list[Result]:
    """oneDNN's result, that of this project, and that with oneDNN's blocks if it may have them."""
    theirs, choice = of_onednn(device, name)
    index, rows = devices.index(device), int(name.split()[1].partition("x")[0])
    results = [theirs, ours.run(index, name)]
    if choice and rows > THIN and choice.is_expressible:
        results.append(ours.run(index, name, choice.without_slices()))
    return results


def line(name: str, who: str, result: Result, base: int) -> str:
    """One line of the table."""
    numbers = "".join(f"{value:12,}" for value in astuple(result.figures))
    return (f"{name:40}{who:8}{result.configuration:16}"
            f"{result.figures.instructions / base:7.2f}{numbers}{result.error:9.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", default="bmg,pvc")
    parser.add_argument("names", metavar="NAME", nargs="*")
    arguments = parser.parse_args()
    devices = arguments.devices.split(",")
    ours = Ours(arguments.devices)
    columns = "".join(f"{f.name:>12}" for f in fields(Figures))
    print(f"{'':40}{'':8}{'blocks, warps':16}{'ratio':>7}{columns}{'error':>9}")
    for device in devices:
        for name in ROWS:
            if not arguments.names or any(each in name for each in arguments.names):
                results = comparison(ours, devices, device, name)
                base = results[0].figures.instructions
                for who, result in zip(("oneDNN", "ours", "its"), results, strict=False):
                    print(line(f"{device} {name}", who, result, base), flush=True)


if __name__ == "__main__":
    main()
