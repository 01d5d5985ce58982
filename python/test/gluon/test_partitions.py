"""Specialized warps, whose partitions run one after another, and partitioned shared memory."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd.cdna5 import PartitionedSharedLayout

from python.test.operations import operations
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
    assert "ttg.warp_specialize" in operations(text)
    again = transformed(transformed(text, ""), "")  # as printed, and read again
    assert operations(again).count("ttg.warp_return") == 2


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


@gluon.jit
def through(x, out, FIRST: gl.constexpr, SECOND: gl.constexpr, MEMORY: gl.constexpr):
    """All of a buffer in another layout; and over the upper half of it, the lower one."""
    buffer = gl.allocate_shared_memory(gl.float32, [64, 64], MEMORY)
    row = gl.arange(0, 64, gl.SliceLayout(1, FIRST))[:, None]
    buffer.store(gl.load(x + row * 64 + gl.arange(0, 64, gl.SliceLayout(0, FIRST))[None, :]))
    column = gl.arange(0, 64, gl.SliceLayout(0, SECOND))[None, :]
    row = gl.arange(0, 64, gl.SliceLayout(1, SECOND))[:, None]
    gl.store(out + row * 64 + column, buffer.load(SECOND))
    row = gl.arange(0, 32, gl.SliceLayout(1, SECOND))[:, None]
    gl.store(out + row * 64 + column, buffer.slice(32, 32, 0).load(SECOND))


@pytest.mark.sample(2)
@pytest.mark.parametrize("memory", [
    PartitionedSharedLayout(2, 1, 0, gl.SwizzledSharedLayout(4, 2, 8, [1, 0])),
    PartitionedSharedLayout(4, 2, 1, gl.SwizzledSharedLayout(1, 1, 1, [0, 1])),
    PartitionedSharedLayout(
        2, 2, 0, gl.PaddedSharedLayout.with_identity_for([[32, 4]], [16, 64], [1, 0])),
])
def test_partitions_of_a_buffer(memory):
    x, out = torch.randn(64, 64, device="xpu"), torch.zeros(64, 64, device="xpu")
    rows = gl.BlockedLayout([1, 1], [1, 16], [4, 1], [1, 0])
    columns = gl.BlockedLayout([2, 4], [4, 4], [2, 2], [0, 1])
    is_checked = memory.num_partitions == 4
    through[(1,)](x, out, rows, columns, memory, num_warps=4, sanitize=is_checked)
    assert torch.equal(out.cpu(), torch.cat([x.cpu()[32:], x.cpu()[32:]]))
