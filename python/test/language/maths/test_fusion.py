"""`enable_fp_fusion`: products and sums are rounded once, or each on its own."""

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

from python.test.filecheck import check_text
from python.test.operations import instructions
from triton_xe.tools import intel

SIZE = 1024


@triton.jit
def products(x, y, z, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, a * b + c)
    tl.store(out + SIZE + i, c - b * b * 0.5)
    tl.store(out + 2 * SIZE + i, c * c - b)


def numbers(dtype):
    torch.manual_seed(0)
    return [torch.randn(SIZE, dtype=torch.float64).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_fused_operations_are_rounded_once(dtype, fuse):
    """float64 holds the exact results of fp16, and of fp32 nearly always (ties aside)."""
    a, b, c = numbers(dtype)
    out = torch.empty(3 * SIZE, dtype=dtype, device="xpu")
    kernel = products[(1,)](*(t.to("xpu") for t in (a, b, c)), out, SIZE, enable_fp_fusion=fuse)
    x, y, z = (t.double() for t in (a, b, c))
    half = (b * b).double() * 0.5
    once = [(e.to(dtype)) for e in (x * y + z, z - half, z * z - y)]
    apart = [a * b + c, c - b * b * 0.5, c * c - b]
    assert torch.equal(out.cpu(), torch.cat(once if fuse else apart))
    assert not torch.equal(torch.cat(once), torch.cat(apart))
    assert ("llvm.fma" in instructions(kernel.asm["llir"], helpers=True)) == fuse


@triton.jit
def rounded_next_to_fused(x, y, z, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, libdevice.add_rn(libdevice.mul_rn(a, b), c))
    tl.store(out + SIZE + i, a * c + b)


def test_operations_that_ask_for_their_own_rounding_leave_the_others_alone():
    a, b, c = numbers(torch.float32)
    out = torch.empty(2 * SIZE, device="xpu")
    rounded_next_to_fused[(1,)](*(t.to("xpu") for t in (a, b, c)), out, SIZE)
    assert torch.equal(out.cpu()[:SIZE], a * b + c)
    assert torch.equal(out.cpu()[SIZE:], (a.double() * c.double() + b.double()).float())


@pytest.mark.intel_compiler
@pytest.mark.skipif(bool(intel.available()), reason=str(intel.available()))
@pytest.mark.parametrize("fuse", [True, False])
def test_intels_compiler_fuses_the_same(fuse):
    types = dict.fromkeys(("x", "y", "z", "out"), "*fp32")
    source = ASTSource(products, types, {"SIZE": 256})
    made = triton.compile(source, target=GPUTarget("xpu", "bmg", 16),
                          options={"enable_fp_fusion": fuse})
    (listing,) = intel.compile_spirv(made.asm["spv"], "bmg").asm.values()
    check_text(listing, f"CHECK{'' if fuse else '-NOT'}: mad (16")
    check_text(listing, "CHECK: mul (16")
