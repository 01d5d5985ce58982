"""Bytes that a program stores after a barrier, by more warps than its block fills.

The warps that hold copies do not store, which one flag for all lanes says: LLVM keeps it in the
frame of a coroutine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from triton_xe.runtime.simulator.run.host_cpu import host_cpu

KERNELS = '''
import numpy as np
import triton
import triton.language as tl

@triton.jit
def planes(marks, number, far, out, count, step, plane, DEPTH: tl.constexpr):
    """A block of DEPTH x 4 x 2 marks, stored a second time as bytes."""
    d = tl.arange(0, DEPTH)[:, None, None]
    r, c = tl.arange(0, 4)[None, :, None], tl.arange(0, 2)[None, None, :]
    first = tl.load(marks + d * plane + r * 2 + c)
    some = tl.load(marks + d * step + r * 16 + c, mask=(d < count) & (r < 1), other=0)
    tl.store(far + d * plane + r * 2 + c, first.to(tl.float32))
    tl.debug_barrier()
    tl.store(out + d * plane + r * number + c, some)


@triton.jit
def rows(bytes, halves, far, near, out, copy, across, down, COLUMNS: tl.constexpr):
    """The smallest of 4 numbers for 2 rows: as fp16 numbers, and as bytes at an odd address."""
    r, c, k = tl.arange(0, 2), tl.arange(0, COLUMNS), tl.arange(0, 4)
    at = r[:, None, None] * across + k[None, None, :]
    kept = tl.load(bytes + at + c[None, :, None] * 16)
    x = tl.load(halves + at + c[None, :, None] * down * 2)
    least = tl.min(x, 2).to(tl.float16)
    tl.store(far + r[:, None, None] + (k * 16)[None, None, :] + c[None, :, None] * across, x)
    tl.store(near + r[:, None] * 16 + c[None, :] * down, least)
    tl.store(out + 1 + c[None, :] + r[:, None] * down * 4, least.to(tl.int8))
    tl.store(copy + at + c[None, :, None] * 16, kept)


def wrong_planes(dtype, warps):
    marks, out = np.ones(2048, dtype), np.zeros(1024, dtype)
    planes[(1,)](marks, 2, np.zeros(1024, np.float32), out, 2, 64, 8, 16, num_warps=warps)
    return np.flatnonzero(out != (np.arange(1024) % 8 < 2) * (np.arange(1024) < 16)).tolist()


def wrong_rows(warps):
    halves = np.random.default_rng(1).integers(-8, 8, (2, 16, 4)).astype(np.float16)
    out = np.full(18, 77, np.int8)
    rows[(1,)](np.zeros(512, np.int8), halves, np.zeros(1024, np.float16),
               np.zeros(64, np.float16), out, np.zeros(512, np.int8), 64, 2, 8, num_warps=warps)
    least = halves[:, :8].min(2).flatten().astype(np.int8)
    return np.flatnonzero(out != np.array([77, *least, 77])).tolist()


found = [wrong_planes(dtype, warps) for dtype in (np.int8, np.bool_) for warps in (8, 16, 32)]
found += [wrong_rows(warps) for warps in (1, 2, 4)]
print(found)
'''
NARROW = pytest.mark.skipif(not host_cpu().has("avx2"), reason="needs a CPU with AVX2")


@pytest.mark.parametrize(("device", "level"), [
    ("bmg", ""), pytest.param("dg2", "", marks=pytest.mark.rest),
    pytest.param("pvc", "x86-64-v3", marks=[NARROW, pytest.mark.rest]),
    pytest.param("pvc", "", marks=pytest.mark.slow),
    pytest.param("bmg", "x86-64-v3", marks=[NARROW, pytest.mark.slow]),
    pytest.param("dg2", "x86-64-v3", marks=[NARROW, pytest.mark.slow])])
def test_bytes_after_a_barrier_are_all_stored(
    device: str, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", f"sim:{device}")
    monkeypatch.setenv("TRITON_XE_HOST_CPU", level)
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str([[]] * 9), done.stdout + done.stderr
