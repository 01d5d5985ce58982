"""Products of few batches are as fast as those of matrices, and as right."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text

M, N, K = 64, 64, 128


@triton.jit
def matrices(a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    z, m, n = tl.program_id(0), tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + z * M * K + m[:, None] * K + k[None, :])
        y = tl.load(b + z * K * N + k[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(out + z * M * N + m[:, None] * N + n[None, :], acc)


@triton.jit
def loaded_as_batches(a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    z, m, n = tl.program_id(0) + tl.arange(0, 1), tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((1, M, N), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + z[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
        y = tl.load(b + z[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
        acc = tl.dot(x, y, acc)
    at = z[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :]
    tl.store(out + at, acc)


@triton.jit
def batches_of_matrices(a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    z, m, n = tl.program_id(0), tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros([1, M, N], tl.float32)
    for k0 in tl.range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + z * M * K + m[:, None] * K + k[None, :])
        y = tl.load(b + z * K * N + k[:, None] * N + n[None, :])
        acc = tl.dot(x[None], y[None], acc)
    tl.store(out + z * M * N + m[:, None] * N + n[None, :], tl.reshape(acc, [M, N]))


@triton.jit
def transposed_and_summed(a, b, out, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """The product less the sum of its rows and its largest number, with b from its transpose."""
    z, m, n = tl.program_id(0), tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros([1, M, N], tl.float32)
    k0 = 0
    while k0 < K:
        k = k0 + tl.arange(0, BK)
        inside = (k < K)[None, None, :]
        x = tl.load(a + z * M * K + m[None, :, None] * K + k[None, None, :], inside, other=0.0)
        y = tl.load(b + z * K * N + k[None, None, :] * N + n[None, :, None], inside, other=0.0)
        acc = tl.dot(x, tl.trans(y, (0, 2, 1)), acc)
        k0 += BK
    rows = tl.sum(acc, 2)
    most = tl.max(tl.max(acc, 2), 1)
    acc = tl.where(acc > 0, acc - rows[:, :, None], acc) - most[:, None, None]
    whole = tl.sum(acc, 0)
    tl.store(out + z * M * N + m[:, None] * N + n[None, :], whole)


def run(kernel):
    torch.manual_seed(0)
    a, b = (torch.randn(3, *shape, dtype=torch.float16, device="xpu") for shape in ((M, K), (K, N)))
    out = torch.zeros(3, M, N, device="xpu")
    made = kernel[(3,)](a, b, out, K, M, N, 32, num_warps=4)
    return out.cpu(), a.cpu().float() @ b.cpu().float(), made


@pytest.mark.parametrize("kernel", [loaded_as_batches, batches_of_matrices])
def test_batches_of_one_are_matrices(kernel):
    found, exact, made = run(kernel)
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-3)
    _, _, plain = run(matrices)
    assert made.metadata.n_block_loads == plain.metadata.n_block_loads > 0
    lines, wanted = (len(each.asm["llir"].splitlines()) for each in (made, plain))
    assert lines <= 1.05 * wanted


def test_what_moves_and_folds_elements_follows():
    found, exact, made = run(transposed_and_summed)
    rows = exact.sum(2, keepdim=True)
    wanted = torch.where(exact > 0, exact - rows, exact) - exact.amax((1, 2), keepdim=True)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-3)
    check_text(made.asm["ttgir"], "CHECK-NOT: tensor<1x64x64")
    assert made.metadata.n_dpas > 0



B = 4


@triton.jit
def several(a, b, bias, out, most, first, K, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
            BK: tl.constexpr):
    """Products of B batches from number `first` on, with a bias of each batch and column."""
    z, m, n = first + tl.arange(0, B), tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((B, M, N), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + z[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
        y = tl.load(b + z[:, None, None] * (K * N) + n[None, :, None] * K + k[None, None, :],
                    mask=(k < K)[None, None, :], other=0.0)
        acc = tl.dot(x, tl.trans(y, (0, 2, 1)), acc)
    acc += tl.load(bias + z[:, None] * N + n[None, :])[:, None, :]
    tl.store(most + z[:, None] * M + m[None, :], tl.max(acc, 2))
    tl.store(out + z[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :], acc)


@triton.jit
def matrix(a, b, bias, out, most, first, K, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
           BK: tl.constexpr):
    """One batch of `several`."""
    z, m, n = first, tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + z * (M * K) + m[:, None] * K + k[None, :])
        y = tl.load(b + z * (K * N) + n[:, None] * K + k[None, :], mask=(k < K)[None, :], other=0.0)
        acc = tl.dot(x, tl.trans(y), acc)
    acc += tl.load(bias + z * N + n)[None, :]
    tl.store(most + z * M + m, tl.max(acc, 1))
    tl.store(out + z * (M * N) + m[:, None] * N + n[None, :], acc)


def of_batches(kernel, batches, M=M, N=N, num_warps=4):
    torch.manual_seed(0)
    a, b = (torch.randn(batches + 1, n, K, dtype=torch.float16) for n in (M, N))
    bias = torch.randn(batches + 1, N)
    out, most = torch.zeros(batches + 1, M, N), torch.zeros(batches + 1, M)
    given = [x.to("xpu") for x in (a, b, bias, out, most)]
    made = kernel[(1,)](*given, 1, K, batches, M, N, 32, num_warps=num_warps)
    exact = a.float() @ b.float().mT + bias[:, None]
    exact[0] = 0
    return [x.cpu() for x in given[3:]], [exact, exact.amax(2)], made


@pytest.mark.rest
def test_several_batches_are_products_of_matrices():
    found, exact, made = of_batches(several, B)
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-3)
    _, _, plain = of_batches(matrix, 1)
    check_text(made.asm["ttgir"], f"CHECK-NOT: tensor<{B}x64x64")
    assert made.metadata.n_block_loads == B * plain.metadata.n_block_loads > 0
    lines, wanted = (len(each.asm["llir"].splitlines()) for each in (made, plain))
    assert lines <= 1.05 * B * wanted


def test_warps_share_the_batches_of_small_matrices():
    found, exact, made = of_batches(several, 2, 16, 32, num_warps=8)
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-3)
    check_text(made.asm["ttgir"], "CHECK: tensor<2x16x32")


@triton.jit
def rows_of_a_product(a, b, out, K: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    """A product of B rows, and of each row with a matrix: its parts are no products."""
    z, k, n = tl.arange(0, B), tl.arange(0, K), tl.arange(0, N)
    y = tl.load(b + k[:, None] * N + n[None, :])
    rows = tl.dot(tl.load(a + z[:, None] * K + k[None, :]), y)
    each = tl.broadcast_to(rows[:, None, :], (B, K, N)).to(tl.float16)
    found = tl.dot(tl.broadcast_to(tl.trans(y)[None], (B, N, K)), each)
    at = z[:, None, None] * (N * N) + n[None, :, None] * N + n[None, None, :]
    tl.store(out + at, found)


def test_parts_of_other_products_are_not_split():
    a, b = torch.randn(8, 32, dtype=torch.float16), torch.randn(32, 32, dtype=torch.float16)
    out = torch.zeros(8, 32, 32, device="xpu")
    rows_of_a_product[(1,)](a.to("xpu"), b.to("xpu"), out, 32, 32, 8, num_warps=4)
    rows = (a.float() @ b.float()).half().float()
    exact = b.float().sum(0)[None, :, None] * rows[:, None, :]
    torch.testing.assert_close(out.cpu(), exact, rtol=1e-2, atol=1e-2)


@triton.jit
def in_tiles(a, b, out, count, K, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
             BK: tl.constexpr):
    """Products in a loop that carries no tensor, added to memory; every second one is negative."""
    z, m, n = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N)
    at = z[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :]
    for tile in range(0, count):
        acc = tl.zeros((B, M, N), tl.float32)
        k0 = 0
        while k0 < K:
            k = k0 + tl.arange(0, BK)
            x = tl.load(a + z[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
            y = tl.load(b + z[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
            acc = tl.dot(x, y, acc)
            k0 += BK
        if tile % 2:
            acc = -acc
        tl.atomic_add(out + tile * (B * M * N) + at, acc)


@pytest.mark.parametrize("batches", [1, 2])
def test_loops_branches_and_atomics_take_matrices(batches):
    torch.manual_seed(0)
    a, b = (torch.randn(batches, *s, dtype=torch.float16) for s in ((M, K), (K, N)))
    out = torch.ones(3, batches, M, N, device="xpu")
    made = in_tiles[(1,)](a.to("xpu"), b.to("xpu"), out, 3, K, batches, M, N, 32, num_warps=4)
    exact = a.float() @ b.float()
    torch.testing.assert_close(
        out.cpu(), 1 + torch.stack([exact, -exact, exact]), rtol=1e-3, atol=1e-3)
    check_text(made.asm["ttgir"], f"CHECK-NOT: tensor<{batches}x64x64")
    assert made.metadata.n_block_loads > 0


@triton.jit
def sums_of_rows(a, b, out, M: tl.constexpr, N: tl.constexpr):
    """Cumulative sums of a product's rows, from a factor that is one of two joined matrices."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[None, :, None] * M + m[None, None, :]
    x, _ = tl.split(tl.join(tl.load(a + at), tl.load(a + at)))
    y = tl.load(b + m[None, :, None] * N + n[None, None, :])
    sums = tl.cumsum(tl.dot(x, y), 2)
    tl.store(out + m[None, :, None] * N + n[None, None, :], sums)


def test_other_operations_get_the_batch_of_one_back():
    torch.manual_seed(0)
    a, b = (torch.randn(64, 64, dtype=torch.float16) for _ in range(2))
    out = torch.zeros(64, 64, device="xpu")
    made = sums_of_rows[(1,)](a.to("xpu"), b.to("xpu"), out, 64, 64, num_warps=4)
    torch.testing.assert_close(
        out.cpu(), (a.float() @ b.float()).cumsum(1), rtol=1e-3, atol=1e-2)
    check_text(made.asm["ttgir"], "CHECK: tt.dot {{.*}} -> tensor<64x64xf32")
