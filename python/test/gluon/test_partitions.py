"""Gluon kernels with specialized warps: partitions run one after another, or are refused."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from triton_xe.errors import UnsupportedError
from triton_xe.tools.commands.opt import transformed

LINE = gl.BlockedLayout([1], [16], [4], [0])
TURNED = gl.BlockedLayout([2], [16], [4], [0])


@gluon.jit
def doubled(x, out, memory, LINE: gl.constexpr, TURNED: gl.constexpr):
    """Through shared memory into another layout."""
    at = gl.arange(0, 128, LINE)
    own = memory.index(0)
    own.store(gl.load(x + at) * 2)
    gl.barrier()
    return own.load(TURNED)


@gluon.jit
def counted(x, out, memory, LINE: gl.constexpr, TURNED: gl.constexpr):
    at = gl.arange(0, 128, LINE)
    own = memory.index(1)
    own.store(gl.load(x + at) + 1)
    gl.barrier()
    total = gl.sum(own.load(TURNED), 0)
    gl.atomic_add(out + 128, total)
    gl.atomic_add(out + 129 + gl.arange(0, 16, LINE), 1.0)


@gluon.jit
def kernel(x, out, LINE: gl.constexpr, TURNED: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.float32, [2, 128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    found = gl.warp_specialize([
        (doubled, (x, out, memory, LINE, TURNED)), (counted, (x, out, memory, LINE, TURNED)),
        (counted, (x, out, memory, LINE, TURNED))], [4, 4], [24, 24])
    gl.store(out + gl.arange(0, 128, TURNED), found)


def test_partitions_run_one_after_another():
    x, out = torch.arange(128.0, device="xpu"), torch.zeros(145, device="xpu")
    made = kernel[(1,)](x, out, LINE, TURNED, num_warps=4)
    total = 2 * (x.cpu() + 1).sum()
    expected = torch.cat([2 * x.cpu(), total[None], torch.full((16,), 2.0)])
    assert torch.equal(out.cpu(), expected)
    text = made.asm["ttgir"]
    assert "warp_specialize" in text
    again = transformed(transformed(text, ""), "")  # as printed, and read again
    assert again.count("ttg.warp_return") == 2


@gluon.jit
def nothing(flag):
    pass


@gluon.jit
def waits(flag):
    while gl.atomic_cas(flag, 1, 2) != 1:
        pass


@gluon.jit
def fewer(flag):
    gl.warp_specialize([(nothing, (flag,)), (waits, (flag,))], [2], [24])


@gluon.jit
def polling(flag):
    gl.warp_specialize([(nothing, (flag,)), (waits, (flag,))], [4], [24])


@pytest.mark.parametrize(("kernel", "why"), [
    (fewer, "a partition of 2 warps in a kernel of 4"),
    (polling, "a partition waits in a loop for memory"),
])
def test_what_cannot_run_so_is_refused(kernel, why):
    with pytest.raises(UnsupportedError, match=why):
        kernel[(1,)](torch.ones(1, dtype=torch.int32, device="xpu"), num_warps=4)
