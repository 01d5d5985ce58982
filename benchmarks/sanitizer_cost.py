"""What the simulator's checks cost: `python -m benchmarks.sanitizer_cost`.

Checked launches run on one thread, so both sides do; compile time apart.  The two take turns and
the best run of each counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from benchmarks.simulator_speed import seconds
from examples import matmul, softmax, vector_add

TURNS = 7


@triton.jit
def norm_kernel(x, y, weight, bias, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    v = tl.load(x + row * columns + i, mask=inside, other=0.0)
    mean = tl.sum(v, 0) / columns
    distance = tl.where(inside, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(distance * distance, 0) / columns + eps)
    w = tl.load(weight + i, mask=inside)
    b = tl.load(bias + i, mask=inside)
    tl.store(y + row * columns + i, distance * scale * w + b, mask=inside)


def works() -> dict[str, Callable[[], object]]:
    """What is measured: about a tenth of a second each with checks."""
    a, b = (torch.randn(512, 512, device="xpu", dtype=torch.float16) for _ in range(2))
    x = torch.randn(512, 1024, device="xpu")
    y, weight, bias = torch.empty_like(x), torch.randn(1024, device="xpu"), x[0].clone()
    long = torch.randn(1 << 20, device="xpu")
    return {
        "matmul fp16 512, 128x128x32": lambda: matmul.matmul(a, b, num_warps=8),
        "softmax 512 x 1024 fp32": lambda: softmax.softmax(x),
        "layer norm 512 x 1024 fp32": lambda: norm_kernel[(512,)](
            x, y, weight, bias, 1024, 1e-5, BLOCK=1024),
        "vector add 1M fp32": lambda: vector_add.add(long, long),
    }


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Best seconds without and with the checks."""
    best = {"0": float("inf"), "1": float("inf")}
    for turn in range(TURNS + 1):
        for checks in best:
            os.environ["TRITON_XE_SANITIZE"] = checks
            took = seconds(work, 1)
            if turn:
                best[checks] = min(best[checks], took)
    os.environ["TRITON_XE_SANITIZE"] = "0"
    return best["0"], best["1"]


def main() -> None:
    print(f"{'work':30s} {'plain ms':>9s} {'checked ms':>11s} {'times':>6s}")
    for name, work in works().items():
        plain, checked = cost(work)
        print(f"{name:30s} {plain * 1e3:9.2f} {checked * 1e3:11.2f} {checked / plain:6.1f}",
              flush=True)


if __name__ == "__main__":
    main()
