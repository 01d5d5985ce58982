"""Windows of positions, tested by one comparison: also empty ones, and behind an edge."""

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def windows(out, n, window, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 64)
    seen = (i[:, None] >= j[None, :]) & (i[:, None] - j[None, :] < window) & (j[None, :] < n)
    if WIDTH > 0:
        seen = seen & (i[:, None] - j[None, :] < WIDTH)
    tl.store(out + i[:, None] * 64 + j[None, :], tl.where(seen, 1, 0))


@pytest.mark.covering
@pytest.mark.parametrize("window", [-3, 0, 1, 20, 1000])
@pytest.mark.parametrize("width", [0, 9])
def test_what_is_seen(window, width):
    out = torch.full((64, 64), 7, dtype=torch.int32, device="xpu")
    windows[(4,)](out, 50, window, 16, width, num_warps=2)
    i, j = torch.arange(64)[:, None], torch.arange(64)[None, :]
    wanted = (i >= j) & (i - j < window) & (j < 50)
    wanted = wanted & (i - j < width) if width else wanted
    assert torch.equal(out.cpu(), wanted.int())
