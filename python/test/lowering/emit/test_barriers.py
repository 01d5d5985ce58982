"""What memory the barriers of a kernel order."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import parsed

GLOBAL, ALL = 528, 784
"""Memory semantics of SPIR-V, sequentially consistent: of global memory, and of all memory."""


@triton.jit
def transposed(x_ptr, y_ptr, N: tl.constexpr, SHARES: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + j * N + i)
    if SHARES:
        x += tl.sum(x, 0)[None, :]
    tl.debug_barrier()
    tl.store(y_ptr + i * N + j, x)


@pytest.mark.parametrize(("shares", "ordered"), [(False, GLOBAL), (True, ALL)])
def test_a_kernel_without_shared_memory_orders_global_memory_alone(shares, ordered):
    x = torch.arange(64 * 64, dtype=torch.float32, device="xpu").view(64, 64) % 7
    y = torch.empty_like(x)
    made = transposed[(1,)](x, y, 64, shares, num_warps=4)
    wanted = x.T + (x.T.sum(0) if shares else 0)
    assert torch.equal(y.cpu(), wanted.cpu())
    barriers = [each for each in parsed(made.asm["llir"]) if "ControlBarrier" in each.callee]
    assert {each.operands[2].text for each in barriers} & {str(GLOBAL), str(ALL)} == {str(ordered)}
