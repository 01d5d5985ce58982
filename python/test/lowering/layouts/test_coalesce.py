"""Layouts of accesses are those that libtriton's own pass chooses, in linear time."""

import runpy

import numpy as np
import pytest

from python.test.counting import watched
from python.test.lowering.ttgir_helper import make_ttgir
from python.test.lowering.ttgir_kernels import CASES
from triton_xe.backend import front_passes
from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.lowering.emit import builder
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.layouts.coalesce import coalesced
from triton_xe.lowering.rewriting import all_of

LONG_KERNEL = """import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, i < n)
"""
STEP = """
    v = v * 0.5 + tl.load(x + i + {j} * n, i < n)
    tl.store(y + i + {j} * n, v, i < n)
"""


def accesses(text):
    found = all_of(import_ttgir(text), LoadOp, StoreOp, AtomicRMWOp, AtomicCASOp)
    return [(op.name, str(op.ptr.type)) for op in found]


@pytest.mark.sample(7)
@pytest.mark.parametrize("case", CASES[::2], ids=lambda case: case.name)
def test_accesses_are_laid_out_as_libtriton_does(case, monkeypatch):
    def made():
        return accesses(make_ttgir(case.fn, case.signature, case.constants, aligned=case.aligned,
                                   **case.options))

    theirs = made()
    monkeypatch.setattr(front_passes, "LONG", -1)
    assert made() == theirs


@pytest.mark.parametrize("limit", ["LONG", "MANY"])
def test_a_long_kernel_is_right(limit, tmp_path, monkeypatch):
    """Its accesses laid out here, and its instructions written once."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(front_passes, limit, 8)
    monkeypatch.setattr(builder, "LONG", 50)
    steps, n, size = 5, 300, 512
    path = tmp_path / "long.py"
    path.write_text(LONG_KERNEL + "".join(STEP.format(j=j) for j in range(steps)))
    x = np.random.default_rng(1).random((steps, n), np.float32)
    y = np.zeros_like(x)
    with watched(coalesced) as calls:
        runpy.run_path(str(path))["kernel"][(1,)](x, y, n, B=size)
    wanted = np.empty_like(x)
    v = x[0]
    for j in range(steps):
        wanted[j] = v = v * np.float32(0.5) + x[j]
    assert calls
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
