"""Row sums that a loop only adds to are taken across lanes once, behind it."""

import pytest
import torch
import triton
import triton.language as tl

from examples.attention import launch, reference
from python.test.operations import operations


@triton.jit
def running(x, y, start, out, seen, count, KIND: tl.constexpr):
    i, j = tl.arange(0, 32), tl.arange(0, 32)
    a = tl.load(x + i[:, None] * 32 + j[None, :])
    total = tl.load(start + i)
    for step in range(count):
        p = tl.dot(a, tl.load(y + step * 1024 + i[:, None] * 32 + j[None, :]))
        if KIND == "scaled":
            total = total * tl.max(p, 1) + tl.sum(p, 1)
        elif KIND == "used":
            total += tl.sum(p, 1)
            tl.store(seen + step * 32 + i, total)
        else:
            total = tl.sum(p, 1) + total
    tl.store(out + i, total)


@pytest.mark.covering
@pytest.mark.parametrize("kind", ["plain", "scaled", "used"])
@pytest.mark.parametrize("warps", [1, 4])
def test_running_sums(kind, warps):
    torch.manual_seed(0)
    x, y = (torch.randint(-3, 4, s).half() for s in ((32, 32), (3, 32, 32)))
    start = torch.randint(-9, 9, (32,)).float()
    out, seen = torch.empty(32, device="xpu"), torch.empty(3, 32, device="xpu")
    kernel = running[(1,)](x.to("xpu"), y.to("xpu"), start.to("xpu"), out, seen, 3, kind,
                           num_warps=warps)
    wanted = start
    for step in range(3):
        p = x.float() @ y[step].float()
        wanted = wanted * (p.amax(1) if kind == "scaled" else 1) + p.sum(1)
    torch.testing.assert_close(out.cpu(), wanted, rtol=1e-5, atol=0)
    body = operations(kernel.asm["xetile"], after="scf.for", before="scf.yield")
    assert ("tt.reshape" in body) == (kind != "used" and warps == 1)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("depth", "blocks"), [(64, (64, 64)), (128, (64, 64)), (64, (128, 32))])
def test_attention_that_sums_after_its_loop(depth, blocks):
    q, k, v = (torch.randn(1, 1, 256, depth, dtype=torch.float16) for _ in range(3))
    out, kernel = launch(*(t.to("xpu") for t in (q, k, v)), blocks=blocks, num_warps=8)
    assert "tt.reshape" in operations(kernel.asm["xetile"])
    assert (out.cpu().float() - reference(q, k, v)).abs().max() < 1e-2
