"""tl.dot_scaled of every pair of formats, against the numbers that the formats stand for."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text
from python.test.operations import name_of, parsed
from triton_xe.hardware.target import target
from triton_xe.lowering.tiles import keep_in_shared_memory

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


@pytest.mark.sample(3)
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


@pytest.mark.sample(1)
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


@triton.jit
def product_of_scaled(
    a_ptr, a_scale, b_ptr, b_scale, c_ptr, K, stride_ak, stride_am, stride_bk, stride_bn,
    SIZE: tl.constexpr, DEPTH: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    MASKED: tl.constexpr,
):
    PER_A: tl.constexpr = 2 if A == "e2m1" else 1
    PER_B: tl.constexpr = 2 if B == "e2m1" else 1
    rows, columns = tl.arange(0, SIZE), tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    ka, kb = tl.arange(0, DEPTH // PER_A), tl.arange(0, DEPTH // PER_B)
    g = tl.arange(0, DEPTH // 32)
    a_ptrs = a_ptr + rows[:, None] * stride_am + ka[None, :] * stride_ak
    b_ptrs = b_ptr + kb[:, None] * stride_bk + columns[None, :] * stride_bn
    a_scales = a_scale + rows[:, None] * (K // 32) + g[None, :]
    b_scales = b_scale + columns[:, None] * (K // 32) + g[None, :]
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, K, DEPTH):
        if MASKED:
            inside = g[None, :] < (K - k) // 32
            a = tl.load(a_ptrs, ka[None, :] < (K - k) // PER_A, 0)
            b = tl.load(b_ptrs, kb[:, None] < (K - k) // PER_B, 0)
            sa, sb = tl.load(a_scales, inside, 0), tl.load(b_scales, inside, 0)
        else:
            a, b = tl.load(a_ptrs), tl.load(b_ptrs)
            sa, sb = tl.load(a_scales), tl.load(b_scales)
        acc = tl.dot_scaled(a, sa, A, b, sb, B, acc)
        a_ptrs += DEPTH // PER_A * stride_ak
        b_ptrs += DEPTH // PER_B * stride_bk
        a_scales += DEPTH // 32
        b_scales += DEPTH // 32
    tl.store(c_ptr + rows[:, None] * SIZE + columns[None, :], acc)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("a_format", "b_format", "size", "depth", "k", "transposed"), [
    ("e4m3", "e4m3", 128, 64, 128, False), ("e5m2", "e4m3", 64, 128, 256, False),
    ("e4m3", "e2m1", 64, 128, 128, False), ("e2m1", "e5m2", 64, 64, 96, False),
    ("e4m3", "e5m2", 64, 32, 96, True), ("bf16", "e4m3", 32, 64, 160, False)])
def test_products_in_a_loop(a_format, b_format, size, depth, k, transposed):
    torch.manual_seed(0)
    (a, x), (b, y) = operand(a_format, size, k, 1), operand(b_format, k, size, 0)
    if transposed:
        a, b = a.mT.contiguous().mT, b.mT.contiguous().mT
    scales = [torch.randint(120, 134, (size, k // 32), dtype=torch.uint8) for _ in range(2)]
    left, right = (torch.exp2(s.double() - 127).repeat_interleave(32, 1) for s in scales)
    on_device = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="xpu").copy_(t)
                 for t in (a, b)]
    c = torch.empty(size, size, device="xpu")
    kernel = product_of_scaled[(1,)](
        on_device[0], scales[0].to("xpu"), on_device[1], scales[1].to("xpu"), c, k,
        a.stride(1), a.stride(0), b.stride(0), b.stride(1), size, depth, a_format, b_format,
        k % depth > 0, num_warps=8)
    wanted = (x.double() * left) @ (y.double() * right.T)
    assert kernel.metadata.n_dpas > 0
    torch.testing.assert_close(c.cpu().double(), wanted, rtol=1e-4, atol=1e-3)


def compiled(depth):
    x = torch.zeros(128 * 128, dtype=torch.uint8, device="xpu")
    c = torch.zeros(128 * 128, device="xpu")
    return product_of_scaled.warmup(
        x, x, x, x, c, 128, 1, 128, 128, 1, 128, depth, "e4m3", "e4m3", False, grid=(1,),
        num_warps=8)


def row():
    """The device that the tests run on, as the table has it."""
    return target(triton.runtime.driver.active.get_current_target().arch)


@pytest.mark.parametrize(("depth", "late"), [(64, False), (128, True)])
def test_b_is_loaded_behind_the_exchange_of_a_where_both_do_not_fit(depth, late):
    kernel = compiled(depth)
    if row().has_scaled_dpas:
        assert kernel.metadata.shared == 0
        return
    check_text(kernel.asm["xegpu"], f"""
        CHECK: ttg.convert_layout {{{{.*}}}}dot_op<{{opIdx = 0
        CHECK{'' if late else '-NOT'}: tt.load
        """)


def test_operand_b_goes_through_shared_memory_in_wide_words():
    kernel = compiled(64)
    if row().has_scaled_dpas:
        assert kernel.metadata.shared == 0
        return
    scales = 2 * 128 * 2 // (8 * 16)
    kinds = [str(each.operands[0].type) for each in parsed(kernel.asm["llir"])
             if name_of(each) == "store.slm"]
    assert kinds.count("i16") <= scales
    assert kinds.count("<8 x i16>") + kinds.count("<4 x i32>") == 16


@triton.jit
def product_scaled_by_blocks(
    a_ptr, b_ptr, c_ptr, a_scales, b_scales, M, N, K, stride_bk, stride_bn, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, DEPTH)
    a_ptrs = a_ptr + rows[:, None] * K + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    blocks = tl.cdiv(K, DEPTH)
    for i in range(blocks):
        a = tl.load(a_ptrs, k[None, :] < K - i * DEPTH, 0.0)
        b = tl.load(b_ptrs, k[:, None] < K - i * DEPTH, 0.0)
        by_row = tl.load(a_scales + rows * blocks + i)
        by_column = tl.load(b_scales + columns // group * blocks + i)
        acc += tl.dot(a, b) * by_row[:, None] * by_column[None, :]
        a_ptrs += DEPTH
        b_ptrs += DEPTH * stride_bk
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc,
             (rows[:, None] < M) & (columns[None, :] < N))


@pytest.mark.parametrize(("m", "n", "k", "warps", "block_m", "name", "transposed", "shared"), [
    pytest.param(128, 128, 256, 8, 128, "e4m3", True, True, marks=pytest.mark.slow),
    pytest.param(100, 160, 208, 8, 128, "e4m3", False, True, marks=pytest.mark.rest),
    (64, 128, 160, 4, 64, "e5m2", True, True), (128, 128, 128, 16, 128, "e4m3", True, False),
    pytest.param(128, 72, 128, 8, 128, "e5m2", False, True, marks=pytest.mark.slow)])
def test_products_scaled_by_blocks(m, n, k, warps, block_m, name, transposed, shared):
    torch.manual_seed(0)
    a, b = torch.randn(m, k).to(FP8[name]), torch.randn(k, n).to(FP8[name])
    blocks, group = -(-k // 128), 64
    by_row, by_column = torch.rand(m, blocks) + 0.5, torch.rand(-(-n // group), blocks) + 0.5
    left = a.double() * by_row.double().repeat_interleave(128, 1)[:, :k]
    right = b.double() * by_column.T.double().repeat_interleave(128, 0)[:k].repeat_interleave(
        group, 1)[:, :n]
    c = torch.empty(m, n, device="xpu")
    bits = b.view(torch.uint8)
    stored = bits.T.contiguous() if transposed else bits
    strides = (1, k) if transposed else (n, 1)
    kernel = product_scaled_by_blocks[(-(-m // block_m), -(-n // 128))](
        a.view(torch.uint8).to("xpu").view(FP8[name]), stored.to("xpu").view(FP8[name]), c,
        by_row.to("xpu"), by_column.to("xpu"), m, n, k, *strides, group, block_m, 128, 128,
        num_warps=warps)
    torch.testing.assert_close(c.cpu().double(), left @ right, rtol=1e-4, atol=1e-4)
    assert (kernel.metadata.shared > 0) == (shared and not row().has_fp8_dpas)
    check_text(kernel.asm["xetile"],
               f"CHECK: tt.load {{{{.*}}}}tensor<{block_m}x!tt.ptr<f32>, #linear")


def test_operands_whose_place_is_needed_are_read_before(monkeypatch):
    monkeypatch.setattr(keep_in_shared_memory, "OPEN_BYTES", 16 << 10)
    m, n, k = 128, 128, 128
    a, b = torch.randn(m, k).to(FP8["e5m2"]), torch.randn(k, n).to(FP8["e5m2"])
    c, one = torch.empty(m, n, device="xpu"), torch.ones(m, 2)
    product_scaled_by_blocks[(1, 1)](
        *(x.view(torch.uint8).to("xpu").view(FP8["e5m2"]) for x in (a, b)), c, one.to("xpu"),
        one.to("xpu"), m, n, k, n, 1, 1, 128, 128, 64, num_warps=8)
    torch.testing.assert_close(c.cpu(), a.float() @ b.float(), rtol=1e-4, atol=1e-3)


@triton.jit
def rows_that_wrap(x_ptr, y_ptr, M, K, stride, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, k = tl.arange(0, BLOCK_M) % M, tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for i in range(0, K, BLOCK_K):
        acc += tl.load(x_ptr + (rows // 2 * stride)[:, None] + i + k[None, :])
    tl.store(y_ptr + tl.arange(0, BLOCK_M)[:, None] * BLOCK_K + k[None, :], acc)


def test_quotients_are_made_before_the_loop_that_needs_them():
    x = torch.randn(8, 64)
    y = torch.empty(16, 16, device="xpu")
    kernel = rows_that_wrap[(1,)](x.to("xpu"), y, 12, 64, 64, 16, 16)
    wanted = x.reshape(8, 4, 16).sum(1)[torch.arange(16) % 12 // 2]
    torch.testing.assert_close(y.cpu(), wanted)
    check_text(kernel.asm["llir"], """
        CHECK: {{[us]rem|quotient.[us]rem}}
        CHECK: {{^}}loop
        CHECK-NOT: {{rem|quotient}}
        """)
