"""Split barriers: asked for, in loops of large work-groups that only load and multiply."""

import pytest
import torch

from examples import attention, matmul
from python.test.operations import operations


@pytest.mark.sample(1)
@pytest.mark.parametrize(("warps", "block", "meets"), [(32, 256, True), (4, 64, False)])
def test_the_subgroups_of_a_large_work_group_meet_in_each_pass(warps, block, meets):
    torch.manual_seed(0)
    a, b = (torch.randn(512, 512, dtype=torch.float16) for _ in range(2))
    blocks = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": 32, "GROUP_M": 4}
    results = {}
    for together in (False, True):
        c = torch.empty(512, 512, dtype=torch.float16, device="xpu")
        kernel = matmul.matmul_kernel[((512 // block) ** 2,)](
            a.to("xpu"), b.to("xpu"), c, 512, 512, 512, 512, 1, 512, 1, 512, 1, **blocks,
            ACTIVATION="", num_warps=warps, split_barriers=together)
        results[together] = c.cpu()
        loop = operations(kernel.asm["xegpu"], after="scf.for", before="scf.yield")
        found = {"xe.barrier_arrive", "xe.barrier_wait"} <= {*loop}
        assert found == (together and meets)
        assert any("barrier" in r for r in kernel.metadata.remarks) == together
    assert torch.equal(results[False], results[True])
    torch.testing.assert_close(results[True].float(), a.float() @ b.float(), rtol=2e-2, atol=0.2)


def test_loops_that_do_more_have_none():
    q, k, v = (torch.randn(1, 1, 128, 64).half().to("xpu") for _ in range(3))
    _, kernel = attention.launch(q, k, v, blocks=(128, 64), num_warps=8, split_barriers=True)
    assert "xe.barrier_arrive" not in operations(kernel.asm["xegpu"])
    assert any("no split barrier: the loop does more" in r for r in kernel.metadata.remarks)
