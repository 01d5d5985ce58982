"""Registers whose elements are at a known distance are addressed from one pointer."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from python.test.operations import instructions

torch = pytest.importorskip("torch")


@triton.jit
def copied(x, o, starts, start, stride, M: tl.constexpr, N: tl.constexpr, HOW: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, 16)[None, :]
    if HOW == "constant":
        at = i * N + j
    elif HOW == "backwards":
        at = (M - 1 - i) * N + j
    elif HOW == "argument":
        at = i * stride + j
    elif HOW == "start":  # a condition of the launch says that sums do not wrap around
        at = start + i * N + j
    else:
        at = tl.load(starts) + i * N + j
    tl.store(o + i * N + j, tl.load(x + at) + 1)


@pytest.mark.parametrize(("how", "pointers"), [
    ("constant", 2), ("backwards", 2), ("start", 2), ("argument", 33), ("loaded", 33)])
def test_rows_at_a_constant_distance_share_a_pointer(how: str, pointers: int) -> None:
    x = torch.randn(32, 17)  # no pitch of 2D messages
    made = torch.zeros(32, 17, device="xpu")
    starts = torch.zeros(1, dtype=torch.int32, device="xpu")
    kernel = copied[(1,)](x.to("xpu"), made, starts, 0, 17, 32, 17, how, num_warps=1)
    wanted = x.flip(0) if how == "backwards" else x
    assert torch.equal(made.cpu()[:, :16], wanted[:, :16] + 1)
    assert instructions(kernel.asm["llir"]).count("inttoptr") == pointers
