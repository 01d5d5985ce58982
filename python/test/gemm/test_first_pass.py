"""Sums with which loops of products begin."""

import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from triton_xe.tools import intel

BLOCK, DEPTH = 64, 32


def operands(steps):
    k, rng = steps * DEPTH, np.random.default_rng(steps)
    return [rng.integers(-4, 5, shape).astype(np.float16) for shape in ((BLOCK, k), (k, BLOCK))]


@triton.jit
def product(a_ptr, b_ptr, c_ptr, k, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    i, j = tl.arange(0, BLOCK), tl.arange(0, DEPTH)
    a_ptrs, b_ptrs = a_ptr + i[:, None] * k + j[None, :], b_ptr + j[:, None] * BLOCK + i[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(0, k, DEPTH):
        total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total)
        a_ptrs += DEPTH
        b_ptrs += DEPTH * BLOCK
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], total)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6])
def test_any_number_of_steps(steps):
    k, (a, b) = steps * DEPTH, operands(steps)
    c = torch.full((BLOCK, BLOCK), 7.0, device="xpu")
    padded = (np.append(x.ravel(), np.zeros(64, np.float16)) for x in (a, b))
    product[(1,)](*(torch.from_numpy(x).to("xpu") for x in padded), c, k, BLOCK, DEPTH, num_warps=4)
    assert np.array_equal(c.cpu().numpy(), a.astype(np.float32) @ b.astype(np.float32))


def compiled_for(device):
    types = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "k": "i32",
             "BLOCK": "constexpr", "DEPTH": "constexpr"}
    return triton.compile(
        ASTSource(product, types, {"BLOCK": 256, "DEPTH": 32},
                  {(i,): [["tt.divisibility", 16]] for i in range(4)}),
        target=GPUTarget("xpu", device, 16), options={"num_warps": 32})


@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_sums_begin_as_products_of_zeros(device):
    made = compiled_for(device)
    check_text(made.asm["llir"], """
        CHECK-COUNT-16: call {{.*}}sub.group.dpas.v8f32.v8f32.v4i32.v8i32
        CHECK-NOT: call {{.*}}sub.group.dpas
        CHECK: {{^}}loop
        """)
    assert made.metadata.n_dpas == 32


@pytest.mark.intel_compiler
def test_zeros_that_are_multiplied_are_not_copied():
    made = compiled_for("pvc")
    native = intel.compile_spirv(made.asm["spv"], "pvc", made.metadata.build_flags)
    (listing,) = native.asm.values()
    before = listing.partition("dpas.8x8")[0]
    fills = re.findall(r"mov \(32\|M0\)\s+r\d+\.0<1>:ud\s+0x0:", before)
    copies = re.findall(r"mov \(16\|M0\)\s+r\d+\.0<1>:f\s+r\d+\.0<1;1,0>:f", before)
    assert (len(fills), len(copies)) == (4, 0)
