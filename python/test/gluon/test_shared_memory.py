"""Gluon kernels on the simulated device: shared memory in every layout, views, copies, dots."""

import numpy as np
import pytest
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from python.test.filecheck import check_text

ROWS = gl.BlockedLayout([1, 1], [1, 16], [4, 1], [1, 0])
FOREIGN = gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[2, 2], instr_shape=[16, 8])
COLUMNS = gl.BlockedLayout([2, 4], [4, 4], [2, 2], [0, 1])
IDENTITY = gl.PaddedSharedLayout.with_identity_for
SHARED = [
    gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
    gl.SwizzledSharedLayout(4, 2, 8, [1, 0]),
    gl.SwizzledSharedLayout(2, 1, 4, [0, 1]),
    IDENTITY([[32, 4]], [64, 64], [1, 0]),
    IDENTITY([[64, 8], [256, 4]], [64, 64], [0, 1]),
    gl.NVMMASharedLayout(swizzle_byte_width=64, element_bitwidth=16, rank=2),
    gl.SharedLinearLayout([[0, 1], [0, 2], [1, 0], [0, 4], [2, 8], [4, 0], [8, 4], [16, 1],
                           [0, 8], [0, 16], [32, 0], [0, 32]]),
]


@gluon.jit
def grid(rows: gl.constexpr, columns: gl.constexpr, layout: gl.constexpr):
    """Row and column of each element."""
    return (gl.arange(0, rows, gl.SliceLayout(1, layout))[:, None],
            gl.arange(0, columns, gl.SliceLayout(0, layout))[None, :])


@gluon.jit
def move(p, out, first: gl.constexpr, second: gl.constexpr, memory: gl.constexpr, n):
    """Through two of three buffers, transposed; and a quarter of the last."""
    row, column = grid(64, 64, first)
    buffers = gl.allocate_shared_memory(p.dtype.element_ty, [3, 64, 64], memory)
    for i in range(n):
        x = gl.load(p + row * 64 + column) + i.to(p.dtype.element_ty)
        buffers.index(i % 2).store(x)
        buffers.index(2).store(buffers.index(i % 2).permute([1, 0]).load(second))
    whole = buffers.index(2)
    row, column = grid(64, 64, second)
    gl.store(out + row * 64 + column, whole.load(second))
    row, column = grid(32, 16, first)
    part = whole.slice(32, 32, 0).slice(16, 16, 1)
    gl.store(out + 4096 + row * 16 + column, part.load(first))


@pytest.mark.sample(4)
@pytest.mark.parametrize("memory", SHARED, ids=lambda layout: type(layout).__name__)
def test_buffers_in_every_layout(memory):
    checked = memory is SHARED[1]
    x = torch.randint(-99, 99, (64, 64)).to(torch.int16 if checked else torch.float16)
    out = torch.empty(4096 + 512, dtype=x.dtype, device="xpu")
    move[(1,)](x.to("xpu"), out, ROWS, COLUMNS, memory, 3, num_warps=4, sanitize=checked)
    expected = (x + 2).T
    assert torch.equal(out.cpu()[:4096].view(64, 64), expected)
    assert torch.equal(out.cpu()[4096:].view(32, 16), expected[32:, 16:32])


@gluon.jit
def pick(p, at, out, axis: gl.constexpr, layout: gl.constexpr, memory: gl.constexpr):
    row, column = grid(64, 64, layout)
    place = row * 64 + column
    buffer = gl.allocate_shared_memory(gl.int32, [64, 64], memory, gl.load(p + place))
    index = gl.load(at + place)
    gl.store(out + place, buffer.gather(index, axis))
    old = buffer.atomic_scatter_add(gl.full([64, 64], 1, gl.int32, layout), index, axis,
                                    mask=index % 3 == 0)
    gl.store(out + 4096 + place, buffer.load(layout))
    gl.store(out + 8192 + place, old)
    permuted = row if axis == 0 else column
    buffer.scatter(gl.load(p + place), 63 - permuted + (row + column) * 0, axis)
    gl.store(out + 12288 + place, buffer.load(layout))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("axis", "memory"), [(0, SHARED[1]), (1, SHARED[4])])
def test_elements_by_index(axis, memory):
    random = np.random.default_rng(axis)
    x = random.integers(0, 1000, (64, 64)).astype(np.int32)
    at = random.integers(0, 64, (64, 64)).astype(np.int32)
    out = torch.zeros(4 * 4096, dtype=torch.int32, device="xpu")
    layout = gl.BlockedLayout([1, 1], [1, 16], [2, 8], [1, 0])  # warps hold copies
    pick[(1,)](torch.from_numpy(x).to("xpu"), torch.from_numpy(at).to("xpu"), out, axis, layout,
               memory, num_warps=16)
    taken, counted, old, put = out.cpu().numpy().reshape(4, 64, 64)
    assert (taken == np.take_along_axis(x, at, axis)).all()
    rows, columns = np.indices((64, 64))
    target = (at, columns) if axis == 0 else (rows, at)
    expected = x.copy()
    np.add.at(expected, target, at % 3 == 0)
    assert (counted == expected).all()
    masked = at % 3 == 0
    seen = old[masked] - x[target][masked]
    assert (seen >= 0).all()
    assert seen.sum() == sum(
        n * (n - 1) // 2 for n in (expected - x).ravel())
    assert (put == np.flip(x, axis)).all()


@gluon.jit
def copied(p, out, n: gl.constexpr, layout: gl.constexpr, memory: gl.constexpr):
    """Two buffers filled while the other is read, as on machines whose copies are asynchronous."""
    row, column = grid(64, 64, layout)
    place = row * 64 + column
    buffers = gl.allocate_shared_memory(gl.float32, [2, 64, 64], memory)
    async_copy.async_load(buffers.index(0), p + place, mask=column < n)
    async_copy.commit_group()
    total = gl.zeros([64, 64], gl.float32, layout)
    for i in range(1, 4):
        async_copy.async_load(buffers.index(i % 2), p + 4096 * i + place, mask=column < n)
        async_copy.commit_group()
        async_copy.wait_group(1)
        total += buffers.index((i - 1) % 2).load(layout)
    async_copy.wait_group(0)
    gl.store(out + place, total + buffers.index(1).load(layout))


def test_asynchronous_copies():
    x = torch.randn(4, 64, 64)
    out = torch.empty(64, 64, device="xpu")
    copied[(1,)](x.to("xpu"), out, 50, COLUMNS, SHARED[1], num_warps=4, sanitize=True)
    x[:, :, 50:] = 0
    assert torch.equal(out.cpu(), x[0] + x[1] + x[2] + x[3])


@gluon.jit
def chosen(p, out, which, layout: gl.constexpr, memory: gl.constexpr):
    """Views that loops carry and branches choose."""
    place = gl.arange(0, 64, layout)
    buffers = gl.allocate_shared_memory(gl.float32, [2, 128], memory)
    wide: gl.constexpr = gl.BlockedLayout([2], [16], [4], [0])
    both = gl.arange(0, 128, wide)
    buffers.index(0).store(gl.load(p + both))
    buffers.index(1).store(gl.load(p + 128 + both))
    here, there = buffers.index(0), buffers.index(1)
    for _ in range(which):
        here, there = there, here
    if which > 1:
        part = here.slice(0, 64)
    else:
        part = here.slice(64, 64)
    gl.store(out + place, part.load(layout))


@pytest.mark.parametrize("which", [1, 2])
def test_views_in_control_flow(which):
    x = torch.randn(2, 128)
    out = torch.empty(64, device="xpu")
    chosen[(1,)](x.to("xpu"), out, which, gl.BlockedLayout([1], [16], [4], [0]),
                 gl.SwizzledSharedLayout(1, 1, 1, [0]), num_warps=4)
    assert torch.equal(out.cpu(), x[which % 2].view(2, 64)[0 if which > 1 else 1])


@gluon.jit
def reversed_twice(p, out, memory: gl.constexpr, layout: gl.constexpr):
    """One warp whose lanes read what others wrote."""
    place = gl.arange(0, 16, layout)
    buffer = gl.allocate_shared_memory(gl.int32, [16], memory)
    for _ in range(3):
        buffer.store(gl.load(p + place))
        gl.store(out + place, buffer.gather(15 - place, 0))
        p, out = out, out + 16


def test_lanes_of_one_warp():
    x = torch.arange(16, dtype=torch.int32)
    out = torch.empty(48, dtype=torch.int32, device="xpu")
    reversed_twice[(1,)](x.to("xpu"), out, gl.SwizzledSharedLayout(1, 1, 1, [0]),
                         gl.BlockedLayout([1], [16], [1], [0]), num_warps=1)
    assert torch.equal(out.cpu().view(3, 16), torch.stack([x.flip(0), x, x.flip(0)]))


@gluon.jit
def multiply(a, b, out, parent: gl.constexpr, memory: gl.constexpr):
    """By multiply-adds, operands by way of shared memory."""
    row, column = grid(32, 32, parent)
    place = row * 32 + column
    left = gl.allocate_shared_memory(gl.float32, [32, 32], memory, gl.load(a + place))
    right = gl.allocate_shared_memory(gl.float32, [32, 32], memory, gl.load(b + place))
    total = gl.dot_fma(left.load(gl.DotOperandLayout(0, parent, 0)),
                       right.load(gl.DotOperandLayout(1, parent, 0)),
                       gl.zeros([32, 32], gl.float32, parent))
    gl.store(out + place, total)


def test_dots_keep_their_layouts():
    a, b = torch.randn(2, 32, 32)
    out = torch.empty(32, 32, device="xpu")
    parent = gl.BlockedLayout([2, 2], [4, 4], [2, 2], [1, 0])
    kernel = multiply[(1,)](a.to("xpu"), b.to("xpu"), out, parent, SHARED[0], num_warps=4)
    assert torch.allclose(out.cpu(), a @ b, atol=1e-5)
    assert kernel.metadata.n_dpas == 0
    check_text(kernel.asm["xegpu"], "CHECK-NOT: {{#xe.dpas|ttg.convert_layout}}")


@triton.autotune([triton.Config({"SIZE": n}, num_warps=w) for n, w in ((128, 4), (512, 8))], ["n"])
@gluon.jit
def scaled(x, out, n, SIZE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2], [16], [gl.num_warps()], [0])
    at = gl.program_id(0) * SIZE + gl.arange(0, SIZE, layout)
    gl.store(out + at, gl.load(x + at, at < n) * 2, at < n)


def test_autotuned_kernels():
    x = torch.randn(1000)
    out = torch.zeros(1000, device="xpu")
    scaled[lambda meta: (triton.cdiv(1000, meta["SIZE"]),)](x.to("xpu"), out, 1000)
    assert torch.equal(out.cpu(), 2 * x)
    assert scaled.best_config.kwargs["SIZE"] in (128, 512)


@gluon.jit
def huge(p, memory: gl.constexpr, layout: gl.constexpr):
    row, column = grid(64, 64, layout)
    buffers = gl.allocate_shared_memory(gl.float32, [9, 64, 64], memory)
    buffers.index(8).store(gl.load(p + row * 64 + column))
    gl.store(p + row * 64 + column, buffers.index(8).load(layout))


def test_more_than_there_is_is_refused():
    x = torch.zeros(64, 64)
    large = gl.BlockedLayout([1, 4], [2, 8], [8, 2], [1, 0])
    with pytest.raises(triton.OutOfResources, match="shared memory"):
        huge[(1,)](x.to("xpu"), SHARED[0], large, num_warps=16)


@pytest.mark.parametrize("layout", [
    FOREIGN, gl.amd.AMDWMMALayout(version=1, transposed=True, warp_bases=[[0, 1], [1, 0]])])
def test_layouts_of_other_vendors_are_layouts(layout):
    """Their matrix units are not needed to hold elements as they do; they have 32 lanes."""
    x = torch.randn(64, 64)
    out = torch.empty(4096 + 512, device="xpu")
    move[(1,)](x.to("xpu"), out, layout, gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]),
               SHARED[0], 1, num_warps=4, warp_size=32)
    assert torch.equal(out.cpu()[:4096].view(64, 64), x.T)


@gluon.jit
def in_turns(p, out, first: gl.constexpr, second: gl.constexpr, memory: gl.constexpr, n):
    """Through four buffers, two of which are over when the others begin."""
    row, column = grid(64, 64, first)
    x = gl.load(p + row * 64 + column)
    a = gl.allocate_shared_memory(gl.float32, [64, 64], memory, x)
    b = gl.allocate_shared_memory(gl.float32, [64, 64], memory, x + 1)
    y = a.permute([1, 0]).load(first) + b.load(first)
    c = gl.allocate_shared_memory(gl.float32, [64, 64], memory, y)
    for _ in range(n):
        y += c.permute([1, 0]).load(first)
        d = gl.allocate_shared_memory(gl.float32, [64, 64], memory, y)
        y = d.permute([1, 0]).load(first)
    gl.store(out + row * 64 + column, y)


@pytest.mark.sample(1)
@pytest.mark.parametrize("sanitize", [False, True])
def test_buffers_take_the_places_of_those_that_are_over(sanitize):
    x = torch.randint(-9, 9, (64, 64)).float()
    out = torch.empty(64, 64, device="xpu")
    made = in_turns[(1,)](x.to("xpu"), out, ROWS, COLUMNS, SHARED[0], 2, num_warps=4,
                          sanitize=sanitize)
    y = c = x.T + x + 1
    for _ in range(2):
        y = (y + c.T).T
    assert torch.equal(out.cpu(), y)
    assert made.metadata.shared == 2 * 64 * 64 * 4
