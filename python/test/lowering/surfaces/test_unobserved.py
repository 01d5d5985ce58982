"""What a masked load leaves out needs no value where no store shows it."""

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from python.test.operations import instructions

N, SIZE = 49, 64


@triton.jit
def kernel(x, out, n, m, HOW: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    inside = i < n
    v = tl.load(x + i, mask=inside, other=77.0).to(tl.float32)
    if HOW == "stored":
        tl.store(out + i, tl.exp(v) / 3, mask=inside)
    if HOW == "stored where more holds":
        tl.store(out + i, v + 1, mask=(i >= m) & inside)
    if HOW == "chosen":
        tl.store(out + i, tl.zeros_like(v) + tl.sum(tl.where(inside, v, 0.0), 0))
    if HOW == "summed":
        tl.store(out + i, tl.zeros_like(v) + tl.sum(v, 0), mask=inside)
    if HOW == "stored everywhere":
        tl.store(out + i, v)
    if HOW == "stored elsewhere":
        tl.store(out + i, v, mask=i >= m)
    if HOW == "chosen elsewhere":
        tl.store(out + i, tl.where(inside, 0.0, v))
    if HOW == "an address":
        tl.store(out + v.to(tl.int32), v + 1, mask=i == n)


def wanted(how, x):
    left_out = torch.arange(SIZE) >= N
    held = torch.where(left_out, 77.0, x)
    if how == "stored":
        return torch.where(left_out, 0.0, torch.exp(x) / 3)
    if how == "stored where more holds":
        return torch.where(left_out | (torch.arange(SIZE) < 5), 0.0, x + 1)
    if how == "chosen":
        return x[:N].sum().expand(SIZE)
    if how == "summed":
        return torch.where(left_out, 0.0, held.sum())
    if how == "stored everywhere":
        return held
    if how == "stored elsewhere":
        return torch.where(torch.arange(SIZE) < 5, 0.0, held)
    return torch.where(left_out, 77.0, 0.0) if how == "chosen elsewhere" else None


HIDDEN = ("stored", "stored where more holds", "chosen")
SEEN = ("summed", "stored everywhere", "stored elsewhere", "chosen elsewhere", "an address")


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("how", HIDDEN + SEEN[:-1])
def test_results(how, dtype):
    x = torch.randint(-3, 3, (SIZE,)).to(dtype)
    out = torch.zeros(SIZE, device="xpu")
    kernel[(1,)](x.to("xpu"), out, N, 5, how, SIZE, num_warps=1)
    torch.testing.assert_close(out.cpu(), wanted(how, x.float()))


@pytest.mark.parametrize("how", HIDDEN + SEEN)
def test_values_that_nobody_sees_are_not_written(how):
    types = {"x": "*fp32", "out": "*fp32", "n": "i32", "m": "i32"}
    types |= dict.fromkeys(("HOW", "SIZE"), "constexpr")
    constants = {"HOW": how, "SIZE": SIZE}
    divisible = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = ASTSource(kernel, types, constants, divisible)
    made = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 1})
    assert "GenISA.PredicatedLoad" in instructions(made.asm["llir"])
    check_text(made.asm["llir"], f"CHECK{'' if how in SEEN else '-NOT'}: 0x4053400000000000")
