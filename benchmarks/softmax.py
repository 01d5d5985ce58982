"""Softmax bandwidth with Triton's own benchmark harness: `python -m benchmarks.softmax`."""

from __future__ import annotations

import torch
import triton
import triton.testing

from benchmarks.matmul import RESULTS
from examples.softmax import softmax

PROVIDERS = {"triton": softmax, "torch": lambda x: torch.softmax(x, dim=1)}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["columns"], x_vals=[256, 1024, 4096], line_arg="provider",
        line_vals=list(PROVIDERS), line_names=list(PROVIDERS), ylabel="GB/s",
        plot_name="softmax-float32", args={"rows": 1024},
    )
)
def bandwidth(rows: int, columns: int, provider: str) -> float:
    """GB/s, each element read once and written once."""
    x = torch.randn(rows, columns, device="xpu")
    call = PROVIDERS[provider]
    ms = triton.testing.do_bench(lambda: call(x), warmup=1, rep=20)
    return 2e-6 * x.numel() * x.element_size() / ms


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    bandwidth.run(print_data=True, save_path=str(RESULTS))


if __name__ == "__main__":
    main()
