"""Flash attention: right, and without detours through memory between its two products."""

import re

import pytest
import torch

from examples.attention import launch, reference


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("dtype", "depth", "blocks", "warps"),
    [(torch.float16, 64, (64, 32), 4), (torch.bfloat16, 32, (32, 32), 2)],
)
def test_attention(causal, dtype, depth, blocks, warps):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 128, depth).to(dtype).to("xpu") for _ in range(3))
    out, kernel = launch(q, k, v, causal, blocks, num_warps=warps, num_stages=2)
    bound = 4e-3 if dtype == torch.float16 else 3e-2
    assert (out.cpu().float() - reference(q, k, v, causal)).abs().max() < bound
    assert sum("2D block load" in line for line in kernel.metadata.remarks) == 3 + 2 * causal


def test_the_fast_loop_exchanges_nothing_between_subgroups():
    q, k, v = (torch.randn(1, 1, 64, 64).half().to("xpu") for _ in range(3))
    _, kernel = launch(q, k, v, False, (64, 32), num_warps=4)
    blocks = re.split(r"\n(?=\S+:)", kernel.asm["llir"])
    wanted = (r"= phi ", r" call .*LSC2DBlockRead", r" call .*dpas")
    (loop,) = [b for b in blocks if all(re.search(pattern, b) for pattern in wanted)]
    assert "addrspace(3)" not in loop
    assert "Barrier" not in loop
