"""Values that went through shared local memory, used in several branches."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def in_either_branch(x, y, out, loops, flag, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    at = out + i[:, None] * N + j[None, :]
    s = tl.zeros((M, N), tl.float32)
    for _ in range(tl.load(loops)):
        s += tl.dot(tl.load(x + i[:, None] * N + j[None, :]),
                    tl.load(y + j[:, None] * N + j[None, :]))
    n, most = tl.load(flag), tl.max(s, 1)
    if n == 0:
        tl.store(out + i, most)
    else:
        total = tl.sum(s, 1)
        if n > 1:
            for _ in range(n):
                s = s * 0.5 + tl.load(at)
                most = tl.maximum(most, tl.max(s, 1))
                total += tl.load(out + i)
        tl.store(at, s / total[:, None] + most[:, None])


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("flag", [0, 1, 2])
def test_either_branch(flag: int, warps: int) -> None:
    torch.manual_seed(1)  # rows whose sum is near zero would show the rounding of s
    x, y = torch.randn(16, 64), torch.randn(64, 64)
    x, y = x.half(), y.half()
    out = torch.zeros(16, 64, device="xpu")
    one = torch.ones(1, dtype=torch.int32, device="xpu")
    in_either_branch[(1,)](x.to("xpu"), y.to("xpu"), out, one, one * flag, 16, 64, num_warps=warps)
    s = x.float() @ y.float()
    most, total, want = s.amax(1), s.sum(1), torch.zeros(16, 64)
    if flag == 0:
        want.view(-1)[:16] = most
    else:
        for _ in range(flag if flag > 1 else 0):
            s = s * 0.5
            most = torch.maximum(most, s.amax(1))
        want = s / total[:, None] + most[:, None]
    torch.testing.assert_close(out.cpu(), want, rtol=1e-2, atol=1e-2)
