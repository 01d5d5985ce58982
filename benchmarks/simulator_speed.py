"""Speed of the simulator relative to torch's own CPU code: `python -m benchmarks.simulator_speed`.

Each side runs on one core, then on all cores; compile time is not counted.  The machine's clock and
load change from second to second.  Therefore the sides take turns of a tenth of a second, and
ratios are those of one turn.  A turn during which other processes used the cores does not count;
`turns` is the number of those that do.

Rates on one core, in CPU time, as simulator (torch); GFLOP/s, or GB/s for vector add:

| host, fp32 peak | fp16 | bf16 | int8 | attention | layer norm | softmax | vector add |
|---|---|---|---|---|---|---|---|
| Sapphire Rapids, 139 | 104 (fp32 118) | 97 | 166 | | | | |
| Cascade Lake 2.4 GHz, 152 | | | | 46 (89) | 5.8 (13) | 5.1 (8.1) | 16 (22) |
| Zen 4, 117 | 84-99 | 85-99 | 136-171 (70-99) | 49-78 (65-82) | 15-22 (13-21) | 20 (14) | 68 (74) |
| Emerald Rapids, 175 | 121 | 128 | 213 (150) | 97 (119) | | | |
| the same, its hyperthreads busy | | 100 (117) | | 71 (87) | | | |

The threads of a launch begin and end within a microsecond of each other, so only the work outside
of them does not scale.  Of the 265 us of a vector add on two cores, 50 are spent in Python.  The
kernel has evicted Python's code and data from the caches.  Triton takes 20 of them before our
launch code, `triton.cdiv` 7, the result's memory 7, and our own code around the threads 5.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import triton
import triton.language as tl

from examples import attention, matmul, softmax, vector_add

TURNS = 9
BATCH = 0.1
PATIENCE = 20.0
"""Seconds within which a kernel has to find undisturbed turns."""
NOISE = 0.05
"""Cores that other processes may use in an undisturbed turn."""


@triton.jit
def integer_kernel(a_ptr, b_ptr, c_ptr, N, BLOCK: tl.constexpr, STEP: tl.constexpr):
    """C = A·B of square int8 matrices, in int32."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, STEP)
    total = tl.zeros((BLOCK, BLOCK), tl.int32)
    for start in range(0, N, STEP):
        a = tl.load(a_ptr + row[:, None] * N + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * N + column[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + row[:, None] * N + column[None, :], total)


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, N, eps, BLOCK: tl.constexpr):
    """Layer norm of one row per program."""
    column = tl.arange(0, BLOCK)
    inside = column < N
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    w = tl.load(w_ptr + column, mask=inside)
    b = tl.load(b_ptr + column, mask=inside)
    y = centred * scale * w + b
    tl.store(y_ptr + tl.program_id(0) * N + column, y, mask=inside)


@triton.jit
def rms_norm_kernel(x_ptr, y_ptr, w_ptr, N, eps, BLOCK: tl.constexpr):
    """RMS norm of one row per program, in fp32."""
    column = tl.arange(0, BLOCK)
    inside = column < N
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    y = x * scale * tl.load(w_ptr + column, mask=inside)
    tl.store(y_ptr + tl.program_id(0) * N + column, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """GELU with the error function, in fp32."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < N).to(tl.float32)
    y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + index, y.to(y_ptr.dtype.element_ty), mask=index < N)


@triton.jit
def bias_kernel(x_ptr, b_ptr, y_ptr, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A bias for each column, then ReLU."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < M) & (column < N)[None, :]
    x = tl.load(x_ptr + row * N + column[None, :], mask=inside)
    y = tl.maximum(x + tl.load(b_ptr + column, mask=column < N)[None, :], 0.0)
    tl.store(y_ptr + row * N + column[None, :], y, mask=inside)


@triton.jit
def cast_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Convert numbers to another type."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + index, tl.load(x_ptr + index).to(y_ptr.dtype.element_ty))


@triton.jit
def column_sum_kernel(x_ptr, y_ptr, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sum of each column, `ROWS` rows at a time."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, M, ROWS):
        row = start + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (column < N)[None, :]
        total += tl.load(x_ptr + row * N + column[None, :], mask=inside, other=0.0)
    tl.store(y_ptr + column, tl.sum(total, axis=0), mask=column < N)


@triton.jit
def row_sum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """The sum of one row per program, in fp32."""
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=column < N, other=0.0)
    total = tl.sum(x.to(tl.float32), axis=0)
    tl.store(y_ptr + tl.program_id(0), total.to(y_ptr.dtype.element_ty))


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """The running sum of one row per program."""
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=column < N, other=0.0)
    tl.store(y_ptr + tl.program_id(0) * N + column, tl.cumsum(x, axis=0), mask=column < N)


@triton.jit
def half_norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, N, eps, BLOCK: tl.constexpr):
    """Layer norm of one row per program, computed in fp32."""
    column = tl.arange(0, BLOCK)
    inside = column < N
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    w = tl.load(w_ptr + column, mask=inside).to(tl.float32)
    b = tl.load(b_ptr + column, mask=inside).to(tl.float32)
    y = (centred * scale * w + b).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + tl.program_id(0) * N + column, y, mask=inside)


@triton.jit
def half_softmax_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """Softmax of one row per program, computed in fp32."""
    column = tl.arange(0, BLOCK)
    inside = column < N
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=inside, other=float("-inf"))
    x = x.to(tl.float32)
    power = tl.exp(x - tl.max(x, axis=0))
    y = (power / tl.sum(power, axis=0)).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + tl.program_id(0) * N + column, y, mask=inside)


@triton.jit
def transpose_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    """The transposed matrix, block by block."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row[:, None] * N + column[None, :])
    tl.store(y_ptr + column[:, None] * M + row[None, :], tl.trans(x))


@triton.jit
def arithmetic_kernel(x_ptr, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Fused multiply-adds in registers, limited only by the cores themselves."""
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index)
    for _ in range(COUNT):
        x = x * 0.75 + 0.5
    tl.store(x_ptr + index, x)


@dataclass(frozen=True)
class Work:
    """One row of the table; `amount` is in GFLOP or GB."""

    name: str
    unit: str
    amount: float
    simulated: Callable[[], object]
    torch: Callable[[], object]


def works() -> list[Work]:
    """The measured kernels, on the current device."""
    n = 1024
    a, b = (torch.randn(n, n, device="xpu", dtype=torch.float16) for _ in range(2))
    fa, fb = torch.randn(n, n), torch.randn(n, n)
    bf16 = [x.to(torch.bfloat16) for x in (a, b)]
    int8 = [torch.randint(-100, 100, (n, n), dtype=torch.int8).to("xpu") for _ in range(2)]
    rows = torch.randn(1024, 1024, device="xpu")
    wide, weight, bias = (torch.randn(shape, device="xpu") for shape in ((n, 2 * n), 2 * n, 2 * n))
    cwide, cweight, cbias = wide.cpu(), weight.cpu(), bias.cpu()
    q, k, v = (torch.randn(1, 2, 512, 64).half().to("xpu") for _ in range(3))
    cq, ck, cv = (x.cpu().float() for x in (q, k, v))
    x, y = (torch.randn(1 << 20, device="xpu") for _ in range(2))
    cx, cy, crows = torch.randn(1 << 20), torch.randn(1 << 20), torch.randn(1024, 1024)
    return [
        Work("matmul fp16 1024, 128x128x32", "GFLOP/s", 2 * n**3 / 1e9,
             lambda: matmul.matmul(a, b, blocks=(128, 128, 32), num_warps=8),
             lambda: fa @ fb),
        Work("matmul bf16 (fp32 in torch)", "GFLOP/s", 2 * n**3 / 1e9,
             lambda: matmul.matmul(*bf16, blocks=(128, 128, 32), num_warps=8),
             lambda: fa @ fb),
        Work("matmul int8 (fp32 in torch)", "GFLOP/s", 2 * n**3 / 1e9,
             lambda: integer_matmul(*int8), lambda: fa @ fb),
        Work("flash attention Z1 H2 N512 D64", "GFLOP/s", 4 * 2 * 512 * 512 * 64 / 1e9,
             lambda: attention.attention(q, k, v, num_warps=4),
             lambda: torch.nn.functional.scaled_dot_product_attention(cq, ck, cv)),
        Work("layer norm 1024 x 2048 fp32", "GB/s", 2 * wide.nbytes / 1e9,
             lambda: layer_norm(wide, weight, bias),
             lambda: torch.nn.functional.layer_norm(cwide, (2 * n,), cweight, cbias)),
        Work("softmax 1024 x 1024 fp32", "GB/s", 2 * rows.nbytes / 1e9,
             lambda: softmax.softmax(rows), lambda: torch.softmax(crows, 1)),
        Work("vector add 1M fp32", "GB/s", 3 * x.nbytes / 1e9,
             lambda: vector_add.add(x, y), lambda: cx + cy),
        *more_works(cwide, cweight),
        *[made(*shape) for made, shapes in ROWS.items() for shape in shapes],
    ]


def more_works(wide: torch.Tensor, row: torch.Tensor) -> list[Work]:
    """More kernels of these kinds, on a matrix and a vector with an element per column."""
    m, n = wide.shape
    half, row_half = wide.half(), row.half()
    odd, odd_row = wide[:1000, :1000].contiguous(), row[:1000].contiguous()
    x, x_half, w, w_half, x_odd, w_odd = (
        t.to("xpu") for t in (wide, half, row, row_half, odd, odd_row))
    functional = torch.nn.functional
    return [
        Work("RMS norm 1024 x 2048 fp32", "GB/s", 2 * wide.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x), lambda y: rms_norm_kernel[(m,)](
                 x, y, w, n, 1e-5, BLOCK=n, num_warps=8)),
             lambda: functional.rms_norm(wide, (n,), row, 1e-5)),
        Work("RMS norm 1024 x 2048 fp16", "GB/s", 2 * half.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x_half), lambda y: rms_norm_kernel[(m,)](
                 x_half, y, w_half, n, 1e-5, BLOCK=n, num_warps=8)),
             lambda: functional.rms_norm(half, (n,), row_half, 1e-5)),
        Work("layer norm 1000 x 1000 fp32", "GB/s", 2 * odd.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x_odd), lambda y: layer_norm_kernel[(1000,)](
                 x_odd, y, w_odd, w_odd, 1000, 1e-5, BLOCK=1024)),
             lambda: functional.layer_norm(odd, (1000,), odd_row, odd_row)),
        Work("GELU 2M fp32", "GB/s", 2 * wide.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x), lambda y: gelu_kernel[(m * n // 1024,)](
                 x, y, m * n, BLOCK=1024)), lambda: functional.gelu(wide)),
        Work("bias and ReLU 1024 x 2048 fp16", "GB/s", 2 * half.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x_half), lambda y: bias_kernel[(m // 32, n // 128)](
                 x_half, w_half, y, m, n, ROWS=32, COLUMNS=128)),
             lambda: torch.relu(half + row_half)),
        Work("fp32 to fp16 2M", "GB/s", 1.5 * wide.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x_half), lambda y: cast_kernel[(m * n // 1024,)](
                 x, y, BLOCK=1024)), lambda: wide.half()),
        Work("fp16 to fp32 2M", "GB/s", 1.5 * wide.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(x), lambda y: cast_kernel[(m * n // 1024,)](
                 x_half, y, BLOCK=1024)), lambda: half.float()),
        Work("column sums 1024 x 2048 fp32", "GB/s", wide.nbytes / 1e9,
             lambda: filled_by(torch.empty_like(w), lambda y: column_sum_kernel[(n // 64,)](
                 x, y, m, n, ROWS=32, COLUMNS=64)), lambda: wide.sum(0)),
        Work("transposition 1024 x 2048 fp32", "GB/s", 2 * wide.nbytes / 1e9,
             lambda: filled_by(torch.empty((n, m), device="xpu"), lambda y: transpose_kernel[
                 (m // 64, n // 64)](x, y, m, n, BLOCK=64)), lambda: wide.t().contiguous()),
    ]


def row_norm(m: int, n: int, dtype: torch.dtype, warps: int) -> Work:
    """Layer norm of rows in one type."""
    x, w, b = (torch.randn(shape).to(dtype) for shape in ((m, n), n, n))
    dx, dw, db = (t.to("xpu") for t in (x, w, b))
    return Work(
        f"layer norm {m} x {n} {NAMES[dtype]}", "GB/s", 2 * x.nbytes / 1e9,
        lambda: filled_by(torch.empty_like(dx), lambda y: half_norm_kernel[(m,)](
            dx, y, dw, db, n, 1e-5, BLOCK=triton.next_power_of_2(n), num_warps=warps)),
        lambda: torch.nn.functional.layer_norm(x, (n,), w, b))


def row_softmax(m: int, n: int, dtype: torch.dtype, warps: int) -> Work:
    """Softmax of rows in one type."""
    return of_rows("softmax", half_softmax_kernel, m, n, dtype, warps, lambda x: x.softmax(1))


def row_sum(m: int, n: int, dtype: torch.dtype, warps: int) -> Work:
    """The sum of each row."""
    return of_rows("row sums", row_sum_kernel, m, n, dtype, warps, lambda x: x.sum(1))


def row_cumsum(m: int, n: int, dtype: torch.dtype, warps: int) -> Work:
    """The running sum of each row."""
    return of_rows("running sums", cumsum_kernel, m, n, dtype, warps, lambda x: x.cumsum(1))


def of_rows(
    name: str, kernel: Any, m: int, n: int, dtype: torch.dtype, warps: int,
    expected: Callable[[torch.Tensor], torch.Tensor],
) -> Work:
    """A program for each row, which computes another row or a number from it."""
    x = torch.randn(m, n).to(dtype)
    dx, out = x.to("xpu"), torch.empty_like(expected(x))
    return Work(
        f"{name} {m} x {n} {NAMES[dtype]}", "GB/s",
        (x.nbytes + (out.nbytes if out.shape == x.shape else 0)) / 1e9,
        lambda: filled_by(torch.empty_like(out, device="xpu"), lambda y: kernel[(m,)](
            dx, y, n, BLOCK=triton.next_power_of_2(n), num_warps=warps)),
        lambda: expected(x))


def column_sum(m: int, n: int, rows: int, columns: int) -> Work:
    """The sum of each column, in blocks of that shape."""
    x = torch.randn(m, n)
    dx = x.to("xpu")
    return Work(
        f"column sums {m} x {n}, {rows} x {columns}", "GB/s", x.nbytes / 1e9,
        lambda: filled_by(torch.empty(n, device="xpu"), lambda y: column_sum_kernel[
            (triton.cdiv(n, columns),)](dx, y, m, n, ROWS=rows, COLUMNS=columns)),
        lambda: x.sum(0))


NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
ROWS: dict[Callable[..., Work], list[tuple[Any, ...]]] = {
    row_norm: [(512, 4096, torch.float32, 8), (4096, 1024, torch.float32, 4),
               (1024, 2048, torch.float16, 8), (1024, 2048, torch.bfloat16, 8)],
    row_softmax: [(4096, 256, torch.float32, 4), (512, 4096, torch.float32, 8),
                  (1823, 781, torch.float32, 4), (1024, 1024, torch.float16, 4)],
    row_sum: [(1024, 2048, torch.float32, 4), (1024, 2048, torch.float16, 4),
              (512, 4096, torch.bfloat16, 8)],
    row_cumsum: [(1024, 1024, torch.float32, 4), (1024, 2048, torch.float32, 4)],
    column_sum: [(2048, 1000, 32, 64), (2048, 1024, 64, 32), (4096, 512, 16, 128)],
}
"""More shapes of each kind: rows with their number of warps, columns with their blocks."""


def filled_by(result: torch.Tensor, launch: Callable[[torch.Tensor], object]) -> torch.Tensor:
    """Run a launch that fills a tensor, and return the tensor."""
    launch(result)
    return result


def integer_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """int8 times int8 in int32."""
    n = len(a)
    c = torch.empty((n, n), dtype=torch.int32, device=a.device)
    integer_kernel[(n // 128, n // 128)](a, b, c, n, BLOCK=128, STEP=32, num_warps=8)
    return c


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Layer norm of each row."""
    y = torch.empty_like(x)
    layer_norm_kernel[(len(x),)](x, y, weight, bias, x.shape[1], 1e-5, BLOCK=x.shape[1],
                                 num_warps=8)
    return y


def seconds(work: Callable[[], object], threads: int) -> float:
    """One run with that many threads of the simulator."""
    os.environ["TRITON_XE_THREADS"] = str(threads)
    start = time.perf_counter()
    work()
    torch.xpu.synchronize()
    return time.perf_counter() - start


def torch_seconds(work: Callable[[], object], threads: int) -> float:
    """One run with that many threads of torch."""
    torch.set_num_threads(threads)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def seconds_of_other_processes() -> float:
    """Seconds of this machine's cores that other processes used, according to Linux."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    except OSError:
        return 0.0
    used, idle = resource.getrusage(resource.RUSAGE_SELF), ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK") - used.ru_utime - used.ru_stime


def median_run(run: Callable[[], float]) -> float:
    """Seconds of a median run among those of a tenth of a second, after a warm-up."""
    run()
    end = time.perf_counter() + BATCH
    times: list[float] = []
    while time.perf_counter() < end or not times:
        times.append(run())
    return median(times)


def turns_of(work: Work, cores: int) -> tuple[list[tuple[float, ...]], bool]:
    """Seconds of each turn on one core and on all, then torch's; and True if turns were
    undisturbed.
    """
    ours: list[tuple[float, ...]] = []
    all_turns: list[tuple[float, ...]] = []
    until = time.perf_counter() + PATIENCE
    while len(ours) < TURNS and time.perf_counter() < until:
        before, start = seconds_of_other_processes(), time.perf_counter()
        turn = (
            median_run(partial(seconds, work.simulated, 1)),
            median_run(partial(seconds, work.simulated, cores)),
            median_run(partial(torch_seconds, work.torch, 1)),
            median_run(partial(torch_seconds, work.torch, cores)),
        )
        all_turns.append(turn)
        if seconds_of_other_processes() - before < NOISE * (time.perf_counter() - start):
            ours.append(turn)
    return (ours, True) if ours else (all_turns, False)


def row(work: Work, cores: int) -> str:
    """First run (compiles), then medians over the turns."""
    first = seconds(work.simulated, cores)
    turns, quiet = turns_of(work, cores)
    one, every, other, _ = (work.amount / median(times) for times in zip(*turns, strict=True))
    ratio = median(turn[2] / turn[0] for turn in turns)
    scale = median(turn[0] / turn[1] for turn in turns)
    torch_scale = median(turn[2] / turn[3] for turn in turns)
    return (f"{work.name:30s} {one:8.1f} {every:8.1f} {other:8.1f} {work.unit:8s} {ratio:6.2f} "
            f"{scale:6.2f} {torch_scale:6.2f} {len(turns):6d}{' ' if quiet else '*'} {first:8.2f}")


def arithmetic_scale(cores: int) -> float:
    """Speed of all cores relative to one for work without memory and launches."""
    x = torch.zeros(64 * 128, device="xpu")

    def work() -> object:
        return arithmetic_kernel[(64,)](x, COUNT=20_000, BLOCK=128, num_warps=1)

    seconds(work, cores)
    turns = [(median_run(partial(seconds, work, 1)), median_run(partial(seconds, work, cores)))
             for _ in range(TURNS)]
    return median(one / every for one, every in turns)


def small_launch() -> float:
    """Microseconds of host time for the launch of a kernel of one program."""
    x = torch.zeros(1024, device="xpu")

    def some() -> float:
        start = time.process_time()
        for _ in range(300):
            cast_kernel[(1,)](x, x, BLOCK=1024)
        return (time.process_time() - start) / 300 * 1e6

    some()
    return min(some() for _ in range(TURNS))


def main() -> None:
    """Print all rows, or those whose names contain a word of the command line."""
    words = sys.argv[1:]
    cores = len(os.sched_getaffinity(0))
    heads = ("1 core", f"{cores} cores", "torch 1")
    columns = " ".join(f"{h:>8s}" for h in heads)
    print(f"{'work':30s} {columns} unit      ratio  scale  torch's  turns  first s")
    for work in works():
        if words and not any(word in work.name for word in words):
            continue
        print(row(work, cores), flush=True)
    print("ratio: 1 core to torch's; scale: all cores to 1; turns*: no turn was free of others")
    print(f"scale of arithmetic in registers alone, here and now: {arithmetic_scale(cores):.2f}")
    print(f"launch of a small kernel: {small_launch():.1f} us")


if __name__ == "__main__":
    main()
