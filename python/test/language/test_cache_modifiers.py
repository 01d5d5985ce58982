"""Cache modifiers and eviction policies of loads and stores: values, and the printed policy."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from triton_xe.tools import intel


@triton.jit
def copy_with_policies(X, Y, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    once = tl.load(X + at, eviction_policy="evict_first")
    far = tl.load(X + SIZE + at, cache_modifier=".cg")
    tl.store(Y + at, once, cache_modifier=".wt")
    tl.store(Y + SIZE + at, far, eviction_policy="evict_first")
    last = tl.load(X + 2 * SIZE + at, mask=at < SIZE - 1, other=5, cache_modifier=".cs")
    tl.store(Y + 2 * SIZE + at, last, mask=at < SIZE - 2, cache_modifier=".cs")


@pytest.mark.since_triton(3, 8)
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_values_stay(dtype):
    x = np.random.default_rng(3).integers(-9, 9, 3 * 256).astype(dtype)
    y = torch.full((3 * 256,), 7, dtype=getattr(torch, dtype), device="xpu")
    copy_with_policies[(1,)](torch.from_numpy(x).to("xpu"), y, 256)
    expected = x.copy()
    expected[-2:] = 7
    np.testing.assert_array_equal(y.cpu().numpy(), expected)


@pytest.mark.intel_compiler
@pytest.mark.since_triton(3, 8)
@pytest.mark.parametrize(
    ("kind", "width"), [("fp32", "d32x4"), ("fp16", "d32x4"), ("i64", "d64x2")])
def test_intel_prints_the_policies(kind, width):
    if (reason := intel.available()) is not None:
        pytest.skip(reason)
    aligned = {(i,): [["tt.divisibility", 16]] for i in (0, 1)}
    source = ASTSource(copy_with_policies, {"X": f"*{kind}", "Y": f"*{kind}", "SIZE": "constexpr"},
                       {"SIZE": 1024}, aligned)
    kernel = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 4})
    listing = intel.compile_spirv(kernel.asm["spv"], "bmg").asm["copy_with_policies"]
    check_text(listing, f"""
        CHECK-DAG: load.ugm.{width}.a64.st.ca
        CHECK-DAG: load.ugm.{width}.a64.uc.ca
        CHECK-DAG: store.ugm.{width}.a64.wt.wb
        CHECK-DAG: store.ugm.{width}.a64.st.wb
        """)
