"""Speed-up of parallel compilation: `python -m benchmarks.parallel_compile [--repeat 5]`.

Two processes compile the same kernels from Python source to SPIR-V, each into a new cache, as
Inductor's workers do.  One process does the same alone, in turns.  With a core for each, two take
no longer than one.  `speed-up` is how many times as much is compiled in the same time; the bar is
1.7.  `cores` is the same ratio for a loop of arithmetic, so what this machine gives two processes
now; below 1.9 other processes use it.  Threads, as in `triton.AsyncCompileMode`, share Python's
lock, so most of their work runs in sequence.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from statistics import median

import triton
from triton.backends.compiler import GPUTarget

from benchmarks.loops import ROWS

KERNELS = ("matmul example", "gemm 64x128x64", "softmax fp32", "layer norm", "add")
BAR = 1.7


def compile_all(target: str) -> float:
    """Seconds for the kernels, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        start = time.perf_counter()
        for name in KERNELS:
            compiled(name, target)
        return time.perf_counter() - start


def compiled(name: str, target: str) -> object:
    row = ROWS[name]
    return triton.compile(row.source(), target=GPUTarget("xpu", target, 16),
                          options={"num_warps": row.num_warps})


def threads(count: int, target: str) -> float:
    """Seconds for the kernels on this number of threads of this process."""
    with tempfile.TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        start = time.perf_counter()
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(compiled, name, target) for name in KERNELS]:
                done.result()
        return time.perf_counter() - start


def compute(target: str) -> float:
    """Seconds for a loop that needs no memory."""
    start, x = time.perf_counter(), 0
    for k in range(4_000_000):
        x += k & 7
    return time.perf_counter() - start


def speed_up(executor: Executor, work: Callable[[str], float], target: str, repeat: int) -> float:
    """Work that two executors do in the time of one, relative to one."""
    def together(count: int) -> float:
        start = time.perf_counter()
        for done in [executor.submit(work, target) for _ in range(count)]:
            done.result()
        return time.perf_counter() - start

    together(2)
    return median(2 * together(1) / together(2) for _ in range(repeat))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--target", default="bmg")
    parsed = parser.parse_args(arguments)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        cores = speed_up(pool, compute, parsed.target, parsed.repeat)
        processes = speed_up(pool, compile_all, parsed.target, parsed.repeat)
        cores = max(cores, speed_up(pool, compute, parsed.target, parsed.repeat))
    print(f"cores      {cores:.2f}")
    print(f"processes  {processes:.2f} (bar {BAR})")
    threads(2, parsed.target)
    ratio = median(threads(1, parsed.target) / threads(2, parsed.target)
                   for _ in range(parsed.repeat))
    print(f"threads    {ratio:.2f}")


if __name__ == "__main__":
    main()
