"""Operations that move elements: transposes, joins, gathers, conversions between layouts."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from triton_xe.hardware.target import target
from triton_xe.layout import BlockedEncoding, SliceEncoding, to_linear_layout
from triton_xe.llvm import Module
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit.control import Frame
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.lane_access import store
from triton_xe.lowering.emit.module import new_kernel, resize_slm
from triton_xe.lowering.emit.tensors.convert import relaid, without_copies
from triton_xe.lowering.emit.tensors.exchange import place_regions
from triton_xe.lowering.emit.tensors.registers import from_scalars
from triton_xe.lowering.emit.types import I8, I16, I32, POINTER
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.lowering.facts.view import view_of
from triton_xe.runtime.simulator.interface import SimulatedDevice


@triton.jit
def trans_kernel(x, out, a: tl.constexpr, b: tl.constexpr, c: tl.constexpr):
    i = tl.arange(0, a)[:, None, None] * (b * c)
    at = i + tl.arange(0, b)[None, :, None] * c + tl.arange(0, c)[None, None, :]
    v = tl.permute(tl.load(x + at), (2, 0, 1))
    at = tl.arange(0, c)[:, None, None] * (a * b) + tl.arange(0, a)[None, :, None] * b
    tl.store(out + at + tl.arange(0, b)[None, None, :], v)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64])
def test_permute(dtype):
    x = torch.randint(-100, 100, (4, 16, 8)).to(dtype)
    out = torch.empty(8, 4, 16, dtype=dtype, device="xpu")
    trans_kernel[(1,)](x.to("xpu"), out, 4, 16, 8)
    assert torch.equal(out.cpu(), x.permute(2, 0, 1))


@triton.jit
def large_transpose_kernel(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + i[:, None] * n + i[None, :])
    tl.store(out + i[:, None] * n + i[None, :], v.T + 1)


@pytest.mark.parametrize("warps", [8, 32])
def test_what_shared_memory_does_not_hold_is_converted_in_turns(warps):
    x = torch.randint(-1000, 1000, (256, 256), dtype=torch.int32)
    out = torch.empty_like(x, device="xpu")
    large_transpose_kernel[(1,)](x.to("xpu"), out, 256, num_warps=warps)
    assert torch.equal(out.cpu(), x.T + 1)


@triton.jit
def join_kernel(x, y, woven, flipped, first, both, size: tl.constexpr):
    i = tl.arange(0, size)
    u, v = tl.load(x + i), tl.load(y + i)
    tl.store(woven + tl.arange(0, 2 * size), tl.interleave(u, v))
    tl.store(flipped + i, tl.flip(u, 0))
    a, _ = tl.split(tl.reshape(u, (size // 2, 2)))
    tl.store(first + tl.arange(0, size // 2), a)
    tl.store(both + tl.arange(0, 2 * size), tl.cat(u, v))


@pytest.mark.parametrize(("size", "warps"), [(16, 1), (64, 4), (512, 2)])
def test_interleave_flip_split_cat(size, warps):
    x, y = torch.randn(2, size)
    woven, both = torch.empty(2, 2 * size, device="xpu")
    flipped, first = torch.empty(size, device="xpu"), torch.empty(size // 2, device="xpu")
    join_kernel[(1,)](x.to("xpu"), y.to("xpu"), woven, flipped, first, both, size,
                      num_warps=warps)
    assert torch.equal(woven.cpu(), torch.stack([x, y], 1).flatten())
    assert torch.equal(flipped.cpu(), x.flip(0))
    assert torch.equal(first.cpu(), x[::2])
    assert torch.equal(both.cpu(), torch.cat([x, y]))


@triton.jit
def gather_kernel(x, index, out, rows: tl.constexpr, columns: tl.constexpr, taken: tl.constexpr):
    i = tl.arange(0, rows)[:, None]
    v = tl.load(x + i * columns + tl.arange(0, columns)[None, :])
    at = i * taken + tl.arange(0, taken)[None, :]
    tl.store(out + at, tl.gather(v, tl.load(index + at), 1))


@pytest.mark.parametrize("kind", [torch.int8, torch.int32, torch.int64])
def test_gather(kind):
    x = torch.randn(8, 64)
    index = torch.randint(0, 64, (8, 16)).to(kind)
    out = torch.empty(8, 16, device="xpu")
    gather_kernel[(1,)](x.to("xpu"), index.to("xpu"), out, 8, 64, 16)
    assert torch.equal(out.cpu(), x.gather(1, index.long()))


WARPS, ROWS, COLUMNS = 2, 16, 32


def split(total, parts):
    return st.sampled_from([(1 << i, total >> i) for i in range(parts)])


@st.composite
def layouts(draw):
    """A distributed layout of a 16x32 tensor for 2 warps of 16 lanes."""
    per_lane = draw(st.sampled_from([(1, 1), (1, 4), (2, 2), (4, 1)]))
    order = draw(st.sampled_from([(0, 1), (1, 0)]))
    blocked = BlockedEncoding(per_lane, draw(split(16, 5)), draw(split(WARPS, 2)), order)
    if draw(st.booleans()):
        return to_linear_layout(blocked, (ROWS, COLUMNS))
    deep = BlockedEncoding((1, *per_lane), (2, *draw(split(8, 4))), (1, *draw(split(WARPS, 2))),
                           (2, 1, 0))
    return to_linear_layout(SliceEncoding(0, deep), (ROWS, COLUMNS))


def element_numbers(layout, registers):
    """The row-major element in every (warp, lane, register)."""
    warp, lane, register = np.meshgrid(np.arange(WARPS), np.arange(16), registers, indexing="ij")
    found = layout.apply_numpy({"warp": warp, "lane": lane, "register": register, "block": 0})
    row, column = found.values()
    return row * COLUMNS + column


def convert_on_simulator(old, new, kind, dtype):
    """Every slot of the new layout, when each slot of the old one holds its element's number."""
    device = target("bmg")
    state = ModuleState(Module(), device, WARPS, 16, None)
    function = new_kernel(state, "k", [POINTER, POINTER])
    em = Emitter(state, function, ModuleOp([]))
    em.frames.append(Frame("k"))
    lane = em.b.add(em.b.mul(em.warp_id(), 16), em.lane_id())

    def slot(pointer, count, register):
        at = em.b.add(em.b.mul(lane, count), register)
        return em.b.gep(I8, pointer, em.b.mul(at, kind.bits // 8))

    source, result = function.arguments
    count, wanted = (len(view_of(x).registers) for x in (old, new))
    loaded = [em.b.load(kind, slot(source, count, r)) for r in range(count)]
    moved = relaid(em, from_scalars(em, kind, loaded), old, new)
    for r in range(wanted):
        store(em, slot(result, wanted, r), moved.register(em, r), None, kind.bits // 8)
    em.b.ret()
    place_regions(em)
    if state.slm is not None:
        resize_slm(state)
    simulated = SimulatedDevice("bmg")
    kernel = simulated.load(print_kernels(state.llvm).encode(), "k")
    given = element_numbers(without_copies(old), np.arange(count)).astype(dtype)
    out = np.empty((WARPS, 16, wanted), dtype)
    simulated.launch(kernel, (1, 1, 1), (given.ctypes.data, out.ctypes.data))
    return out


@pytest.mark.parametrize(("kind", "dtype"), [(I16, np.int16), (I32, np.int32)])
@given(old=layouts(), new=layouts())
@settings(max_examples=4, deadline=None, derandomize=True)
def test_conversions_deliver_every_element(kind, dtype, old, new):
    out = convert_on_simulator(old, new, kind, dtype)
    want = element_numbers(without_copies(new), np.arange(out.shape[2]))
    assert np.array_equal(out, want)
