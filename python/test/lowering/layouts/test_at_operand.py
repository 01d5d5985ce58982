"""Loops carry scalars in place of many pointers, and come to the same addresses."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from xdsl.dialects.builtin import TensorType
from xdsl.utils.type import get_element_type_or_self

from python.test.lowering.ttgir_helper import make_ttgir
from triton_xe.dialects.tt.types import PointerType
from triton_xe.lowering.module_facts import CompileOptions
from triton_xe.lowering.pipeline import make_xetile

TILE = 32


@triton.jit
def backwards(a_ptr, b_ptr, c_ptr, k, sa, sb, TILE: tl.constexpr, SWAP: tl.constexpr):
    """A times B from the last columns and rows to the first; `sb` may be negative."""
    here, inner = tl.arange(0, TILE), tl.arange(0, TILE)
    a_ptrs = a_ptr + here[:, None] * sa + (k - TILE + inner)[None, :]
    b_ptrs = b_ptr + (k - TILE + inner)[:, None] * sb + here[None, :]
    total = tl.zeros((TILE, TILE), tl.float32)
    for left in range(k, 0, -TILE):
        a = tl.load(a_ptrs, inner[None, :] >= TILE - left, 0.0)
        b = tl.load(b_ptrs, inner[:, None] >= TILE - left, 0.0)
        if SWAP and left % (2 * TILE) == 0:
            total += tl.load(a_ptrs, inner[None, :] >= TILE - left, 0.0)
        total = tl.dot(a, b, total)
        a_ptrs -= TILE
        b_ptrs -= TILE * sb
    tl.store(c_ptr + here[:, None] * TILE + here[None, :], total)


def carried_pointers(num_warps, arch="bmg"):
    """Shapes of the pointers that loops of the kernel carry; that of a scalar is ()."""
    types = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "k": "i32", "sa": "i32",
             "sb": "i32"}
    text = make_ttgir(backwards, types, {"TILE": TILE, "SWAP": False}, num_warps=num_warps,
                      arch=arch)
    module = make_xetile(text, CompileOptions(guards="kernel"), arch).module
    held = [arg.type for op in module.walk() if op.name == "scf.for" for arg in op.body.block.args]
    return [kind.get_shape() if isinstance(kind, TensorType) else () for kind in held
            if isinstance(get_element_type_or_self(kind), PointerType)]


def test_many_pointers_become_scalars_and_few_stay():
    assert carried_pointers(num_warps=1) == [(), ()]
    assert carried_pointers(num_warps=4) == [(TILE, TILE)] * 2


@pytest.mark.parametrize("seed", [
    0, 3, *(pytest.param(seed, marks=pytest.mark.rest) for seed in (1, 2, 4, 5, 6, 7))])
def test_pointers_written_again_are_those_that_moved(seed):
    rng = np.random.default_rng(seed)
    k, pads, offset = rng.integers(1, 150), rng.integers(0, 9, 2), rng.integers(0, 5)
    a = rng.integers(-4, 5, (TILE, k + pads[0])).astype(np.float16)
    b = rng.integers(-4, 5, (k, TILE + pads[1])).astype(np.float16)
    memory = torch.zeros(b.size + offset, dtype=torch.float16)
    memory[offset:] = torch.from_numpy(b.reshape(-1))
    memory, c = memory.to("xpu"), torch.zeros(TILE, TILE, device="xpu")
    turned, swap = bool(seed & 1), bool(seed & 2)
    step, first = b.shape[1], memory[offset:]
    if turned:
        step, first = -step, memory[offset + (k - 1) * step :]
    backwards[(1,)](torch.from_numpy(a).to("xpu"), first, c, int(k), a.shape[1], step,
                    TILE=TILE, SWAP=swap, num_warps=1)
    rows = b[::-1] if turned else b
    expected = a[:, :k].astype(np.float64) @ rows[:, :TILE].astype(np.float64)
    for left in range(int(k), 0, -TILE) if swap else ():
        if left % (2 * TILE) == 0:
            expected += a[:, left - TILE : left]
    assert np.array_equal(c.cpu().numpy(), expected)
