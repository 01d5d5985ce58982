"""vISA text in kernels: Intel's compiler takes it, and what it cannot say is refused."""

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from triton_xe.errors import UnsupportedError
from triton_xe.tools import intel

REVERSE = "bfrev (M1, 16) $0(0, 0)<1> $1(0, 0)<1;1,0>"


@triton.jit
def reversed_bits(x, y, TEXT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.inline_asm_elementwise(TEXT, "=rw,rw", [tl.load(x + i)], tl.int32, True, 1))


@triton.jit
def two_results(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.inline_asm_elementwise(
        "", "=rw,=rw,rw", [tl.load(x + i)], (tl.int32, tl.int32), True, 1)
    tl.store(y + i, a + b)


@triton.jit
def packed(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.inline_asm_elementwise("", "=rw,rw", [tl.load(x + i)], tl.int32, True, 2))


@triton.jit
def foreign(x, y, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.inline_asm_elementwise("mov", HOW, [tl.load(x + i)], tl.int32, True, 4))


def compiled(function, **constants):
    signature = {"x": "*i32", "y": "*i32", **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(function, signature, constants)
    return triton.compile(source, target=GPUTarget("xpu", "bmg", 16))


@pytest.mark.intel_compiler
def test_the_text_arrives():
    made = compiled(reversed_bits, TEXT=REVERSE, N=64)
    listing = intel.compile_spirv(made.asm["spv"], "bmg").asm["reversed_bits"]
    check_text(listing, "CHECK: bfrev (16")


@pytest.mark.parametrize(("function", "message"), [
    (two_results, "with 2 results: .* write the text once for each result"),
    (packed, r"with pack=2: .* \(pack=1\)"),
])
def test_what_has_no_form_is_refused(function, message):
    with pytest.raises(UnsupportedError, match=message):
        compiled(function, N=64)


@pytest.mark.parametrize(("how", "language"), [
    ("=r,r", "PTX, NVIDIA's"), ("=&r, r, ~{memory}", "PTX"), ("=v,v", "AMD's"),
])
def test_assembly_of_other_vendors_is_named(how, language):
    with pytest.raises(UnsupportedError, match=f"are those of {language}.* Triton's operations"):
        compiled(foreign, HOW=how, N=64)
