"""Products of tokens, sorted by experts, with the weights of each, as servers have them."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings
from python.test.operations import operations

EXPERTS, TOKENS, TOP = 4, 40, 2
BLOCKS = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32}


@triton.jit
def fused_experts(
    a_ptr, b_ptr, c_ptr, weights_ptr, tokens_ptr, experts_ptr, padded_ptr, N, K, EM, count,
    stride_am, stride_be, stride_bn, stride_cm, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, WEIGHTED: tl.constexpr, TOP_K: tl.constexpr,
):
    pid = tl.program_id(0)
    blocks_m, blocks_n = tl.cdiv(EM, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * blocks_n
    first_m = pid // in_group * GROUP_M
    size_m = min(blocks_m - first_m, GROUP_M)
    pid_m = first_m + (pid % in_group) % size_m
    pid_n = (pid % in_group) // size_m
    if pid_m * BLOCK_M >= tl.load(padded_ptr):
        return
    token = tl.load(tokens_ptr + pid_m * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64))
    known = token < count
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * token[:, None] + columns[None, :]
    written = known[:, None] & (columns[None, :] < N)
    expert = tl.load(experts_ptr + pid_m).to(tl.int64)
    if expert == -1:
        tl.store(c_ptrs, tl.zeros((BLOCK_M, BLOCK_N), c_ptr.dtype.element_ty), mask=written)
        return
    wrapped = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (token[:, None] // TOP_K * stride_am + k[None, :])
    b_ptrs = b_ptr + expert * stride_be + (k[:, None] + wrapped[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        inside = k < K - step * BLOCK_K
        a = tl.load(a_ptrs, mask=known[:, None] & inside[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=inside[:, None], other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    if WEIGHTED:
        acc = acc * tl.load(weights_ptr + token, mask=known, other=0)[:, None]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=written)


def sorted_tokens(chosen, block):
    """Places of tokens by their experts, in whole blocks, and the expert of each block."""
    places, experts = [], []
    for expert in (-1, *range(EXPERTS)):
        mine = (chosen.flatten() == expert).nonzero().flatten().tolist()
        mine += [chosen.numel()] * (-len(mine) % block)
        places += mine
        experts += [expert] * (len(mine) // block)
    return (torch.tensor(each, dtype=torch.int32) for each in (places, experts))


def launched(n, k, apart, dtype=torch.float16, weighted=False, warps=2):
    """The kernel, what it made and should have made; experts are `apart` more elements apart."""
    made = torch.Generator().manual_seed(n + k + apart)
    a = torch.randint(-3, 4, (TOKENS, k), generator=made).to(dtype)
    held = torch.randint(-3, 4, (EXPERTS * (n * k + apart),), generator=made).to(dtype).to("xpu")
    b = held.as_strided((EXPERTS, n, k), (n * k + apart, k, 1))
    chosen = torch.randint(-1, EXPERTS, (TOKENS, TOP), generator=made)
    weights = torch.randint(1, 4, (TOKENS * TOP,), generator=made).float()
    places, experts = sorted_tokens(chosen, BLOCKS["BLOCK_M"])
    c = torch.full((TOKENS * TOP, n), 7, dtype=dtype, device="xpu")
    grid = (len(experts) + 2) * triton.cdiv(n, BLOCKS["BLOCK_N"]),
    kernel = fused_experts[grid](
        a.to("xpu"), b, c, weights.to("xpu"), places.to("xpu"), experts.to("xpu"),
        torch.tensor([len(places)], dtype=torch.int32, device="xpu"), n, k,
        len(places) + 2 * BLOCKS["BLOCK_M"], TOKENS * TOP, k, n * k + apart, k, n, **BLOCKS,
        GROUP_M=2, WEIGHTED=weighted, TOP_K=TOP, num_warps=warps)
    rows = a.float().repeat_interleave(TOP, 0)
    wanted = torch.einsum("tk,tnk->tn", rows, b.cpu().float()[chosen.flatten().clamp(min=0)])
    wanted = wanted * weights[:, None] if weighted else wanted
    return kernel, c.cpu().float(), torch.where(chosen.flatten()[:, None] < 0, 0.0, wanted)


@pytest.mark.sample(3)
@pytest.mark.parametrize(*settings(
    sizes=((64, 64, 0), (64, 64, 8), (64, 64, 1), (96, 40, 32), (50, 40, 0), (33, 35, 0),
           (16, 96, 8)),
    dtype=(torch.float16, torch.bfloat16), weighted=(False, True), strength=1))
def test_products_with_all_experts(sizes, dtype, weighted):
    _, made, wanted = launched(*sizes, dtype, weighted)
    torch.testing.assert_close(made, wanted, rtol=1e-2 if dtype == torch.bfloat16 else 1e-3, atol=0)


def test_launch_checks_that_experts_are_aligned():
    """So the kernel has one version; a launch whose experts are not takes the general one."""
    kernel, _, _ = launched(64, 64, 0)
    assert "gathered blocks are aligned" in kernel.metadata.launch_conditions
    assert "arith.remsi" in operations(kernel.asm["xetile"])
    check_text(kernel.asm["xetile"], "CHECK-NOT: xe.versions")
    check_text(kernel.asm["llir"], "CHECK-NOT: {{[us]rem i64}}")


@triton.jit
def rows_from(a_ptr, b_ptr, c_ptr, start_ptr, K, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The product of a block of rows, which begins at a loaded row number, and a matrix."""
    start = tl.load(start_ptr)
    i, j, k = tl.arange(0, ROWS), tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for at in range(0, K, BLOCK):
        inside = k < K - at
        a = tl.load(a_ptr + start * stride + i[:, None] * K + (at + k)[None, :],
                    mask=inside[None, :], other=0.0)
        b = tl.load(b_ptr + (at + k)[:, None] * BLOCK + j[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * BLOCK + j[None, :], acc)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("stride", "versions"), [(1, True), (64, False), (80, False)])
def test_places_that_are_multiples_of_nothing_known_are_tested_in_the_kernel(stride, versions):
    made = torch.Generator().manual_seed(stride)
    a = torch.randint(-3, 4, (4096,), generator=made).half()
    b = torch.randint(-3, 4, (64, 32), generator=made).half()
    c = torch.empty(32, 32, device="xpu")
    start = torch.tensor([16 if stride == 1 else 3], dtype=torch.int32, device="xpu")
    kernel = rows_from[(1,)](a.to("xpu"), b.to("xpu"), c, start, 64, stride, 32, 32, num_warps=2)
    first = int(start) * stride
    assert torch.equal(c.cpu(), a[first : first + 2048].view(32, 64).float() @ b.float())
    check_text(kernel.asm["xetile"], f"CHECK{'' if versions else '-NOT'}: xe.versions")


@triton.jit
def expert_of_block(a_ptr, expert_ptr, b_ptr, c_ptr, M, N, K: tl.constexpr, BLOCK: tl.constexpr):
    """A product without a loop, whose weights are known only after A is loaded."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
    b_ptr += tl.load(expert_ptr + tl.program_id(0)) * K * N
    b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
    c_ptrs = c_ptr + m[:, None] * N + n[None, :]
    tl.store(c_ptrs, tl.dot(a, b), mask=(m[:, None] < M) & (n[None, :] < N))


def test_weights_that_are_known_late_are_blocks_too():
    block, (m, n, k) = 32, (70, 96, 64)
    a, b = torch.randn(m, k).half().xpu(), torch.randn(EXPERTS, k, n).half().xpu()
    experts = torch.tensor([2, 0, 3], dtype=torch.int32, device="xpu")
    c = torch.zeros(m, n, device="xpu")
    kernel = expert_of_block[3, 3](a, experts, b, c, m, n, k, block)
    wanted = [part.cpu().float() @ b[e].cpu().float()
              for part, e in zip(a.split(block), (2, 0, 3), strict=True)]
    torch.testing.assert_close(c.cpu(), torch.cat(wanted), rtol=1e-3, atol=1e-3)
    remarks = [text for text in kernel.metadata.remarks if text.startswith("tt.load")]
    assert ["2D block load" in text for text in remarks] == [True, True]
