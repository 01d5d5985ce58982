"""Matmul rate with Triton's own benchmark harness: `python -m benchmarks.matmul`.

On the simulator the figures are the speed of the simulator; on a GPU, that of the kernel.  Tables
are printed, plots and CSV files are written to benchmarks/results.
"""

from __future__ import annotations

from pathlib import Path

import torch
import triton
import triton.testing

from examples import matmul, matmul_descriptor

RESULTS = Path(__file__).parent / "results"
PROVIDERS = {
    "pointers": lambda a, b: matmul.matmul(a, b, blocks=(256, 256, 32), num_warps=32),
    "descriptors": lambda a, b: matmul_descriptor.matmul(
        a, b, blocks=(256, 256, 32), num_warps=32),
    "torch": torch.matmul,
}


def reports() -> list[triton.testing.Benchmark]:
    """One plot per layout and type."""
    return [
        triton.testing.Benchmark(
            x_names=["size"], x_vals=[256, 512, 1024], line_arg="provider",
            line_vals=list(PROVIDERS), line_names=list(PROVIDERS), ylabel="GFLOP/s",
            plot_name=f"matmul-{layout}-{str(dtype).removeprefix('torch.')}",
            args={"layout": layout, "dtype": dtype},
        )
        for layout, dtype in (
            ("AB", torch.float16), ("ABt", torch.float16), ("AtB", torch.float16),
            ("AB", torch.bfloat16),
        )
    ]


@triton.testing.perf_report(reports())
def rate(size: int, provider: str, layout: str, dtype: torch.dtype) -> float:
    """GFLOP/s of a square matmul."""
    a, b = matmul.operands(size, size, size, layout, dtype)
    call = PROVIDERS[provider]
    ms = triton.testing.do_bench(lambda: call(a, b), warmup=1, rep=20)
    return 2e-6 * size**3 / ms


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    rate.run(print_data=True, save_path=str(RESULTS))


if __name__ == "__main__":
    main()
