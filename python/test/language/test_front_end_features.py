"""What Triton's front end resolves before the backend sees it."""

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.errors import CompileTimeAssertionFailure

from triton_xe import triton_versions


@tl.core._aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor

    @triton.constexpr_function
    def __init__(self, first, second):
        self.first = first
        self.second = second

    @triton.jit
    def total(self):
        return self.first + self.second


@triton.jit
def sum_of_pairs(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    pair = Pair(tl.load(x + at), tl.load(x + N + at))
    tl.store(out + at, pair.total())


def test_an_aggregate_of_tensors_and_its_method():
    x, out = torch.arange(128.0), torch.zeros(64, device="xpu")
    sum_of_pairs[(1,)](x.to("xpu"), out, 64)
    assert torch.equal(out.cpu(), x[:64] + x[64:])


@triton.jit
def asserted(out, N: tl.constexpr):
    tl.static_assert(N % 2 == 0, "N must be even")
    tl.store(out, N)


def test_a_static_assertion_stops_the_compiler():
    out = torch.zeros(1, device="xpu")
    asserted[(1,)](out, 6)
    assert out.item() == 6
    with pytest.raises(CompileTimeAssertionFailure, match="N must be even"):
        asserted[(1,)](out, 7)


@triton.jit
def specialised(x, out, steps, N: tl.constexpr):
    at = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for step in tl.range(0, steps, warp_specialize=True):
        total += tl.load(x + step * N + at)
    tl.store(out + at, total)


def test_a_loop_that_asks_for_specialised_warps():
    x, out = torch.arange(256.0), torch.zeros(64, device="xpu")
    specialised[(1,)](x.to("xpu"), out, 4, 64)
    assert torch.equal(out.cpu(), x.view(4, 64).sum(0))


@triton.jit
def block_pointer_kernel(x, out, M, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    block = tl.make_block_ptr(x, (M, N), (N, 1), (at, 0), (BLOCK, BLOCK), (1, 0))
    values = tl.load(block, boundary_check=(0, 1), padding_option="zero")
    into = tl.make_block_ptr(out, (M, N), (N, 1), (at, 0), (BLOCK, BLOCK), (1, 0))
    tl.store(into, values * 2, boundary_check=(0, 1))


@pytest.mark.skipif(triton_versions.installed().number > (3, 8), reason="removed from Triton 3.9")
@pytest.mark.filterwarnings("ignore:.*make_block_ptr is deprecated")
def test_block_pointers_end_at_their_tensor():
    x = torch.randn(37, 21, device="xpu")
    out = torch.zeros(40, 21, device="xpu")
    block_pointer_kernel[(2,)](x, out, 37, 21, BLOCK=32)
    assert torch.equal(out[:37].cpu(), x.cpu() * 2)
    assert not out[37:].cpu().any()
