"""What a program stores after it loaded, several warps holding copies of what was loaded."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import instructions

WARPS = pytest.mark.parametrize("num_warps", [1, 4, 8])


@triton.jit
def scalar_kernel(counter, out, rounds, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    for i in range(rounds):
        seen = tl.load(counter)
        tl.store(counter, seen + 1)
        tl.store(out + i * SIZE + at, at * 0 + seen)


@WARPS
def test_every_warp_sees_a_scalar_before_it_is_stored(num_warps):
    counter = torch.full((1,), 5, dtype=torch.int32, device="xpu")
    out = torch.zeros(3, 256, dtype=torch.int32, device="xpu")
    scalar_kernel[(1,)](counter, out, 3, 256, num_warps=num_warps)
    assert counter.item() == 8
    want = torch.tensor([5, 6, 7], dtype=torch.int32)
    assert torch.equal(out.cpu(), want[:, None].expand(3, 256))


@triton.jit
def branch_kernel(flag, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    if tl.load(flag) == 0:
        tl.atomic_xchg(flag, 1)
        tl.store(out + at, tl.sum(at, 0) + at)
    else:
        tl.store(out + at, -1)


@WARPS
def test_every_warp_takes_the_same_side(num_warps):
    flag = torch.zeros(1, dtype=torch.int32, device="xpu")
    out = torch.zeros(256, dtype=torch.int32, device="xpu")
    branch_kernel[(1,)](flag, out, 256, num_warps=num_warps)
    assert flag.item() == 1
    assert torch.equal(out.cpu(), torch.arange(256, dtype=torch.int32) + 255 * 128)


@triton.jit
def add_norm_kernel(x, residual, size, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    mask = at < size
    total = tl.load(x + at, mask, other=0.0) + tl.load(residual + at, mask, other=0.0)
    tl.store(residual + at, total, mask)
    tl.store(x + at, total / tl.sqrt(tl.sum(total * total, 0)), mask)


@pytest.mark.covering
@WARPS
@pytest.mark.parametrize("size", [8, 32, 100])
@pytest.mark.parametrize("sanitize", [False, True])
def test_sums_in_place_of_rows_that_warps_share(size, num_warps, sanitize):
    x, residual = torch.rand(2, size)
    given = x.to("xpu"), residual.to("xpu")
    block = triton.next_power_of_2(size)
    add_norm_kernel[(1,)](*given, size, block, num_warps=num_warps, sanitize=sanitize)
    total = x + residual
    torch.testing.assert_close(given[1].cpu(), total)
    torch.testing.assert_close(given[0].cpu(), total / total.norm())


@triton.jit
def butterfly_kernel(x, LEVELS: tl.constexpr):
    """Walsh-Hadamard transform in place."""
    i = tl.arange(0, 1 << LEVELS)
    for level in tl.static_range(LEVELS):
        bit = 1 << level
        own, other = tl.load(x + i), tl.load(x + (i ^ bit))
        tl.store(x + i, tl.where((i & bit) == 0, own + other, other - own))


@WARPS
@pytest.mark.parametrize("sanitize", [False, True])
def test_elements_that_other_warps_load_are_stored_later(num_warps, sanitize):
    """All warps load the elements of a level before any of them is stored."""
    x = torch.randint(-8, 8, (256,), dtype=torch.int32)
    given = x.to("xpu")
    butterfly_kernel[(1,)](given, 8, num_warps=num_warps, sanitize=sanitize)
    expected = x
    for _ in range(8):
        first, second = expected.view(-1, 2).unbind(1)
        expected = torch.cat([first + second, first - second])
    assert torch.equal(given.cpu(), expected)


@triton.jit
def copies_kernel(x, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, tl.load(x + at) + 1)


def test_no_barrier_where_none_is_needed():
    x = torch.rand(32).to("xpu")
    out = torch.empty(32, device="xpu")
    kernel = copies_kernel[(1,)](x, out, 32, num_warps=4)
    assert "__spirv_ControlBarrier" not in instructions(kernel.asm["llir"])
    kernel = copies_kernel[(1,)](x, x, 32, num_warps=4)
    assert torch.equal(out.cpu(), x.cpu())
