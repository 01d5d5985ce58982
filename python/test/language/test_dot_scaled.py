"""tl.dot_scaled of every pair of formats, against the numbers that the formats stand for."""

import pytest
import torch
import triton
import triton.language as tl

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


@triton.jit
def scaled_kernel(
    a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, HAS_A: tl.constexpr, HAS_B: tl.constexpr,
):
    PER_A: tl.constexpr = 2 if A == "e2m1" else 1
    PER_B: tl.constexpr = 2 if B == "e2m1" else 1
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    ka = tl.arange(0, K // PER_A)
    kb = tl.arange(0, K // PER_B)
    g = tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * (K // PER_A) + ka[None, :])
    y = tl.load(b + kb[:, None] * N + n[None, :])
    xs = None
    ys = None
    if HAS_A:
        xs = tl.load(a_scale + m[:, None] * (K // 32) + g[None, :])
    if HAS_B:
        ys = tl.load(b_scale + n[:, None] * (K // 32) + g[None, :])
    z = tl.dot_scaled(x, xs, A, y, ys, B)
    tl.store(c + m[:, None] * N + n[None, :], z)


def operand(name, rows, columns, k_dim):
    """(stored tensor, its numbers)."""
    if name == "e2m1":
        codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
        even, odd = (codes.index_select(k_dim, torch.arange(i, codes.shape[k_dim], 2))
                     for i in (0, 1))
        numbers = FP4[(codes & 7).long()] * (1 - 2 * (codes >> 3).float())
        return even | odd << 4, numbers
    if name in FP8:
        numbers = torch.randn(rows, columns).to(FP8[name])
        return numbers.view(torch.uint8), numbers.float()
    numbers = torch.randn(rows, columns).to({"bf16": torch.bfloat16, "fp16": torch.float16}[name])
    return numbers, numbers.float()


@pytest.mark.parametrize(
    ("a_format", "b_format"),
    [("e2m1", "e2m1"), ("e4m3", "e5m2"), ("e5m2", "e2m1"), ("bf16", "e2m1"), ("fp16", "e4m3")],
)
def test_formats(a_format, b_format):
    torch.manual_seed(0)
    m, n, k = 16, 16, 64
    a, a_numbers = operand(a_format, m, k, 1)
    b, b_numbers = operand(b_format, k, n, 0)
    has = [name not in ("bf16", "fp16") for name in (a_format, b_format)]
    scales = [torch.randint(120, 134, (rows, k // 32), dtype=torch.uint8) for rows in (m, n)]
    wide = [torch.exp2(s.float() - 127).repeat_interleave(32, 1) if used else 1
            for s, used in zip(scales, has, strict=True)]
    wanted = (a_numbers * wide[0]).double() @ (b_numbers * (wide[1].T if has[1] else 1)).double()
    c = torch.empty(m, n, device="xpu")
    kernel = scaled_kernel[(1,)](
        a.to("xpu"), scales[0].to("xpu"), b.to("xpu"), scales[1].to("xpu"), c, m, n, k,
        a_format, b_format, *has,
    )
    assert kernel.metadata.n_dpas > 0
    torch.testing.assert_close(c.cpu().double(), wanted, rtol=1e-4, atol=1e-4)


def test_the_scale_that_is_not_a_number_and_the_smallest():
    m = n = 16
    k = 32
    a = torch.full((m, k), 2.0).to(torch.float8_e5m2).view(torch.uint8)
    b = torch.full((k, n), 2.0).to(torch.float8_e5m2).view(torch.uint8)
    rows, columns = (torch.full((16, 1), 127, dtype=torch.uint8) for _ in range(2))
    rows[0], rows[1], columns[:] = 255, 0, 130
    c = torch.empty(m, n, device="xpu")
    scaled_kernel[(1,)](
        a.to("xpu"), rows.to("xpu"), b.to("xpu"), columns.to("xpu"), c, m, n, k, "e5m2", "e5m2",
        True, True,
    )
    got = c.cpu()
    assert got[0].isnan().all()
    assert torch.equal(got[1], torch.full((n,), 32 * 4 * 8 * 2.0**-127))
    assert torch.equal(got[2:], torch.full((m - 2, n), 32 * 4 * 8.0))


@triton.jit
def batched_kernel(
    a, a_scale, b, b_scale, c, BATCH: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):
    PER_A: tl.constexpr = 2 if A == "e2m1" else 1
    PER_B: tl.constexpr = 2 if B == "e2m1" else 1
    batch = tl.arange(0, BATCH)[:, None, None]
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)
    g = tl.arange(0, K // 32)[None, None, :]
    KA: tl.constexpr = K // PER_A
    KB: tl.constexpr = K // PER_B
    x = tl.load(a + batch * M * KA + (m * KA + tl.arange(0, KA)[None, :])[None, :, :])
    y = tl.load(b + batch * KB * N + (tl.arange(0, KB)[:, None] * N + n[None, :])[None, :, :])
    xs = tl.load(a_scale + batch * M * (K // 32) + m[None, :, :] * (K // 32) + g)
    ys = tl.load(b_scale + batch * N * (K // 32) + n[None, :, None] * (K // 32) + g)
    z = tl.dot_scaled(x, xs, A, y, ys, B)
    tl.store(c + batch * M * N + (m * N + n[None, :])[None, :, :], z)


@pytest.mark.parametrize(("a_format", "b_format"), [("e5m2", "e5m2"), ("e2m1", "e4m3")])
def test_batches(a_format, b_format):
    torch.manual_seed(0)
    batch, m, n, k = 4, 16, 32, 64
    made = [(operand(a_format, m, k, 1), operand(b_format, k, n, 0)) for _ in range(batch)]
    (a, a_numbers), (b, b_numbers) = (
        [torch.stack([pair[side][part] for pair in made]) for part in (0, 1)] for side in (0, 1)
    )
    scales = [torch.randint(120, 134, (batch, rows, k // 32), dtype=torch.uint8) for rows in (m, n)]
    x, y = (torch.exp2(s.double() - 127).repeat_interleave(32, 2) for s in scales)
    wanted = (a_numbers.double() * x) @ (b_numbers.double() * y.mT)
    c = torch.empty(batch, m, n, device="xpu")
    kernel = batched_kernel[(1,)](
        a.to("xpu"), scales[0].to("xpu"), b.to("xpu"), scales[1].to("xpu"), c, batch, m, n, k,
        a_format, b_format,
    )
    assert kernel.metadata.n_dpas > 0
    torch.testing.assert_close(c.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
