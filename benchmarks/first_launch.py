"""Processor time of first launches on the simulator, with fresh caches, stage by stage.

    python -m benchmarks.first_launch [--check] [--device bmg] [NAME ...]

Each kernel is compiled in a new process and launched, or made ready if it is one of
`benchmarks.loops`.  `Triton` is its front end and own passes,
`rewriting` is from the device's LLVM IR to the host's, `other` is all else, such as imports.  The
limit is 2.5 s and 0.25 ms for each instruction of the device's LLVM IR; with
`TRITON_XE_SANITIZE=1` or `TRITON_XE_CLOCK=exact` it is twice that.  `--check` ends with 1 if a
kernel is over its limit, or if one of twice the size takes more than 2.2 times as long.
`TRITON_XE_HOST_CPU` limits the features of the host's CPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks.loops import ROWS
from triton_xe import knobs
from triton_xe.hardware.target import target

START, PER_INSTRUCTION = 2.5, 0.25e-3
"""Seconds that a launch may take, and those for each instruction of the device's LLVM IR."""
GROWTH = 2.2
SIZE, BYTES = 64, 1 << 22
"""Value of integer arguments, and bytes of memory at each pointer argument."""
STAGES = ("Triton", "lowering", "SPIR-V", "rewriting", "LLVM passes", "code generation", "other")
_STAGE = {"ttir": "Triton", "ttgir": "Triton", "spv": "SPIR-V"}


@triton.jit
def gather(x_ptr, index_ptr, out_ptr, R: tl.constexpr, C: tl.constexpr):
    """Rows of each column, by number."""
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(out_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(index_ptr + i), 0))


@triton.jit
def strided_copy(x_ptr, out_ptr, sx, sy, M, N, B: tl.constexpr):
    """A block of a matrix with any strides."""
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    inside = (i < M) & (j < N)
    tl.store(out_ptr + i * B + j, tl.load(x_ptr + i * sx + j * sy, inside, other=0), inside)


@triton.jit
def two_products(a1_ptr, a2_ptr, b1_ptr, b2_ptr, c_ptr, M, N, K, BM: tl.constexpr,
                 BN: tl.constexpr, BK: tl.constexpr):
    """Two products in each step of one loop."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        in_a = (m[:, None] < M) & (k[None, :] < K)
        in_b = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a1_ptr + m[:, None] * K + k[None, :], in_a, other=0.0)
        b = tl.load(b1_ptr + k[:, None] * N + n[None, :], in_b, other=0.0)
        total = tl.dot(a, b, total)
        a = tl.load(a2_ptr + m[:, None] * K + k[None, :], in_a, other=0.0)
        b = tl.load(b2_ptr + k[:, None] * N + n[None, :], in_b, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))


@triton.jit
def _log_sum(a, b):
    largest = tl.maximum(a, b)
    return largest + tl.log(tl.exp(a - largest) + tl.exp(b - largest))


@triton.jit
def log_sums(x_ptr, out_ptr, N: tl.constexpr):
    """Running logarithms of sums of exponentials."""
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.associative_scan(tl.load(x_ptr + i), 0, _log_sum))


@triton.jit
def rolled_sums(x_ptr, y_ptr, K: tl.constexpr, N: tl.constexpr, TIMES: tl.constexpr):
    """The sum of a block rolled by each of `TIMES` distances."""
    column = tl.arange(0, N)[None, :]
    at = tl.arange(0, K)[:, None] * N + column
    value, total = tl.load(x_ptr + at), tl.zeros((K, N), tl.float32)
    for i in tl.static_range(TIMES):
        total += tl.gather(value, tl.broadcast_to((column + i) % N, (K, N)), 1)
    tl.store(y_ptr + at, total)


@triton.jit
def pack_levels(x_ptr, top_ptr, out_ptr, n, ROWS: tl.constexpr, B: tl.constexpr):
    """Eight levels of each number by the largest of its row, two in a byte."""
    at = tl.program_id(0) * ROWS * B + tl.arange(0, ROWS * B)
    v = tl.reshape(tl.load(x_ptr + at, mask=at < n, other=0.0), (ROWS, B))
    largest = tl.max(tl.abs(v), axis=1)
    tl.store(top_ptr + tl.program_id(0) * ROWS + tl.arange(0, ROWS), largest)
    v = v / largest[:, None]
    high = tl.where(v > 0.5, tl.where(v > 0.75, 7, 6), tl.where(v > 0.25, 5, 4))
    low = tl.where(v > -0.5, tl.where(v > -0.25, 3, 2), tl.where(v > -0.75, 1, 0))
    levels = tl.reshape(tl.where(v > 0, high, low).to(tl.uint8), (ROWS, B // 2, 2))
    first, second = levels.split()
    half = tl.program_id(0) * ROWS * B // 2 + tl.arange(0, ROWS * B // 2)
    packed = tl.reshape(first << 4 | second, (ROWS * B // 2,))
    tl.store(out_ptr + half, packed, mask=half < n // 2)


@triton.jit
def cube_sums(x_ptr, n0_ptr, n1_ptr, out_ptr, B: tl.constexpr):
    """Sums of doubles over two of three dimensions."""
    i = tl.arange(0, B)
    n0, n1 = tl.load(n0_ptr), tl.load(n1_ptr)
    total = tl.zeros([B], tl.float64)
    for first in tl.range(0, n0, B):
        j = first + tl.arange(0, B)
        for second in tl.range(0, n1, B):
            k = second + tl.arange(0, B)
            at = i[:, None, None] * 65536 + j[None, :, None] * 256 + k[None, None, :]
            inside = (j < n0)[None, :, None] & (k < n1)[None, None, :]
            total += tl.sum(tl.sum(tl.load(x_ptr + at, inside, other=0), 2), 1)
    tl.store(out_ptr + i, total)


@triton.jit
def batched(a_ptr, b_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A product with a batch of one."""
    z, m, n = tl.program_id(0), tl.arange(0, M), tl.arange(0, N)
    total = tl.zeros([1, M, N], tl.float32)
    for start in tl.range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a_ptr + z * M * K + m[:, None] * K + k[None, :], (k < K)[None, :], other=0)
        y = tl.load(b_ptr + z * K * N + k[:, None] * N + n[None, :], (k < K)[:, None], other=0)
        total = tl.dot(x[None], y[None], total)
    tl.store(out_ptr + z * M * N + m[:, None] * N + n[None, :], tl.reshape(total, [M, N]))


@triton.jit
def added_product(a_ptr, b_ptr, out_ptr, K, R: tl.constexpr):
    """A part of a product, added to those of other programs."""
    i, j, k = tl.arange(0, R), tl.arange(0, 256), tl.arange(0, 32)
    total = tl.zeros([R, 256], tl.float32)
    for first in range(0, K, 32):
        a = tl.load(a_ptr + i[:, None] * K + first + k[None, :])
        total += tl.dot(a, tl.load(b_ptr + (first + k)[:, None] * 256 + j[None, :]))
    tl.atomic_add(out_ptr + i[:, None] * 256 + j[None, :], total)


@dataclass(frozen=True)
class Case:
    """A kernel with arguments of these types; integers are 64, but for those in `odd`."""

    kernel: Any
    constants: dict[str, Any]
    num_warps: int = 4
    types: dict[str, str] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)

    @property
    def arguments(self) -> list[tuple[str, int]]:
        """Type and value of each argument of a launch; a pointer's value is its position."""
        names = [n for n in self.kernel.arg_names if n not in self.constants]
        return [(self._type(n), self.odd.get(n, SIZE if self._type(n) == "i32" else k))
                for k, n in enumerate(names)]

    def _type(self, name: str) -> str:
        return self.types.get(name, "*fp32" if name.endswith("_ptr") else "i32")

    def source(self) -> ASTSource:
        names = self.kernel.arg_names
        types = {n: self._type(n) for n in names} | dict.fromkeys(self.constants, "constexpr")
        aligned = [k for k, n in enumerate(names)
                   if types[n] != "constexpr" and n not in self.odd]
        return ASTSource(self.kernel, types, self.constants,
                         {(k,): [["tt.divisibility", 16]] for k in aligned})


_HALVES = {f"{name}{k}_ptr": "*fp16" for name in "ab" for k in ("", 1, 2)}
_DOUBLES = {"x_ptr": "*fp64", "out_ptr": "*fp64", "n0_ptr": "*i64", "n1_ptr": "*i64"}


def _products(**odd: int) -> Case:
    return Case(two_products, {"BM": 128, "BN": 32, "BK": 32}, types=_HALVES, odd=odd)


def _gathers(count: int) -> Case:
    return Case(rolled_sums, {"K": 32, "N": 64, "TIMES": count})


def _packed(rows: int) -> Case:
    return Case(pack_levels, {"ROWS": rows, "B": 4096}, types={"out_ptr": "*u8"})


def _rows(count: int) -> Case:
    return Case(gather, {"R": count, "C": 64}, types={"index_ptr": "*i32"})


def _added(rows: int) -> Case:
    return Case(added_product, {"R": rows})


CASES = {
    "gather 64x64": _rows(64),
    "gather 64x64, 1 warp": Case(gather, {"R": 64, "C": 64}, 1, {"index_ptr": "*i32"}),
    "strided copy 64x64, 1 warp": Case(
        strided_copy, {"B": 64}, 1, odd={"sx": 61, "sy": 2, "M": 30, "N": 30}),
    "two products 128x32x32": _products(M=5),
    "two products, odd K": _products(M=5, N=40, K=70),
    "scan of 2048": Case(log_sums, {"N": 2048}, 2),
    "32 gathers": _gathers(32),
    "8x4096 packed": _packed(8),
    "sums of doubles": Case(cube_sums, {"B": 32}, types=_DOUBLES),
    "batch of one": Case(batched, {"M": 128, "N": 128, "BK": 256}, types=_HALVES),
    "16 gathers": _gathers(16),
    "4x4096 packed": _packed(4),
    "gather 128x64": _rows(128),
    "added 128x256": _added(128),
    "added 256x256": _added(256),
}
DOUBLED = {"16 gathers": "32 gathers", "4x4096 packed": "8x4096 packed",
         "gather 64x64": "gather 128x64", "added 128x256": "added 256x256"}
"""Kernels, and those of twice their size."""
LOOP_ROWS = (
    "gemm", "gemm AtB", "gemm tf32 32", "gemm int8", "gemm W8A16", "gemm split-K", "gemm add bf16",
    "packed 64x128x64", "block-scaled fp8e4nv", "scaled e4m3", "scaled e2m1", "attention 64",
    "attention fp8e5", "attention backward", "attention masked", "attention window",
    "softmax fp32", "rms norm bf16", "swiglu gradient", "rotary embedding", "layer norm",
    "layer norm gradient fp32", "softmax gradient", "cross entropy", "add", "descriptor transpose",
    "matmul example", "MoE", "grouped", "argmax", "prefix sum", "sort", "inductor pointwise",
    "inductor reduction", "dropout")
"""Rows of `benchmarks.loops`: kernels of the examples, the tutorials, the ledger and Inductor."""


class Stages:
    """Processor seconds of each stage; a stage inside another counts only for itself."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inside = [0.0]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the CPU time of a block to a stage, without that of stages inside."""
        begin = time.process_time()
        self.inside.append(0.0)
        yield
        took = time.process_time() - begin
        self.seconds[name] += took - self.inside.pop()
        self.inside[-1] += took

    def timed(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.stage(name):
                return run(*arguments, **named)

        return timed

    def watch(self, owner: Any, attribute: str, name: str) -> None:
        setattr(owner, attribute, self.timed(name, getattr(owner, attribute)))

    def watch_compiler(self, backend: Any) -> None:
        """Measure the stages that Triton asks the backend for."""
        add = backend.add_stages

        def add_stages(self_: Any, stages: dict[str, Any], *others: Any) -> None:
            add(self_, stages, *others)
            for name, run in stages.items():
                stages[name] = self.timed(_STAGE.get(name, "lowering"), run)

        backend.add_stages = add_stages


def measure(name: str, device: str) -> tuple[dict[str, float], int]:
    """Seconds of each stage, and the instructions of the device's LLVM IR; in a new process."""
    os.environ["TRITON_CACHE_DIR"], os.environ["TRITON_XE_CACHE"] = (
        tempfile.mkdtemp() for _ in range(2))
    os.environ["TRITON_XE_DEVICE"] = f"sim:{device}"
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import llvmlite.binding as llvm

    from triton_xe.backend.compiler import XeBackend
    from triton_xe.backend.general_version import general_version
    from triton_xe.llvm.parser import canonical
    from triton_xe.runtime.simulator.interface import KernelSource, SimulatedDevice

    texts, check = [""], KernelSource.check

    def noted(source: KernelSource) -> None:
        texts.append(source.text)
        check(source)

    KernelSource.check = noted  # type: ignore[assignment, method-assign]
    stages, case = Stages(), CASES.get(name) or ROWS[name]
    stages.watch(ASTSource, "make_ir", "Triton")
    stages.watch_compiler(XeBackend)
    stages.watch(KernelSource, "translated", "rewriting")
    stages.watch(KernelSource, "check", "rewriting")
    stages.watch(llvm.ModulePassManager, "run", "LLVM passes")
    stages.watch(llvm.TargetMachine, "emit_object", "code generation")
    with stages.stage("other"):
        gpu = GPUTarget("xpu", device, 16)
        compiled = triton.compile(case.source(), gpu, {"num_warps": case.num_warps})
        binary = compiled.asm["spv"]
        simulated = SimulatedDevice(device)
        kernel = simulated.load(binary, compiled.metadata.name,
                                general=partial(general_version, binary))
        if isinstance(case, Case):
            memory = simulated.allocate(BYTES * len(case.arguments))
            simulated.copy_to_device(memory.pointer, bytes(memory.nbytes))
            simulated.launch(kernel, (1, 1, 1), [
                memory.pointer + BYTES * x if kind[0] == "*" else x for kind, x in case.arguments])
        else:
            assert kernel.prepared
    return dict(stages.seconds), max(
        sum(line.startswith("  ") for line in canonical(text).splitlines()) for text in texts)


def why_unsupported(name: str, device: str) -> str | None:
    """The reason why a device cannot run a kernel; None if it can."""
    has_doubles = "*fp64" in CASES[name].types.values() if name in CASES else False
    return f"{device} has no doubles" if has_doubles and not target(device).has_fp64 else None


def in_new_process(name: str, device: str) -> tuple[dict[str, float], int]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, name, device).result()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--device", default="bmg")
    parser.add_argument("names", nargs="*")
    parsed = parser.parse_args(arguments)
    print(f"{'kernel':28}" + "".join(f"{s:>16}" for s in STAGES) + f"{'all':>7}{'limit':>7}")
    totals, bad = {}, list[str]()
    slower = 2 if knobs.sanitize() or knobs.exact_clock() else 1
    for name in (*CASES, *LOOP_ROWS):
        if parsed.names and not any(word in name for word in parsed.names):
            continue
        if why := why_unsupported(name, parsed.device):
            print(f"{name:28}skipped: {why}", flush=True)
            continue
        seconds, count = in_new_process(name, parsed.device)
        total, limit = sum(seconds.values()), slower * (START + PER_INSTRUCTION * count)
        totals[name] = total
        bad += [f"{name}: {total:.1f} s, of at most {limit:.1f}"] if total > limit else []
        print(f"{name:28}" + "".join(f"{seconds.get(s, 0):16.2f}" for s in STAGES)
              + f"{total:7.2f}{limit:7.2f}", flush=True)
    for name, twice in DOUBLED.items():
        if name in totals and totals.get(twice, 0) > GROWTH * totals[name]:
            bad.append(f"{twice}: {totals[twice] / totals[name]:.1f} times {name}")
    print("\n".join(bad) or "all within their limits")
    if parsed.check and bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
