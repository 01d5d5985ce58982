"""Products of one batch are as fast as those of matrices, and as right."""

import pytest
import torch
import triton
import triton.language as tl

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
    assert "tensor<1x64x64" not in made.asm["ttgir"]
    assert made.metadata.n_dpas > 0

