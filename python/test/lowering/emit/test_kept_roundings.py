"""Roundings to fp16 that arithmetic takes are made by an instruction that IGC keeps."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from python.test.operations import instructions

KEPT = "GenISA.ftof.rte"


@triton.jit
def rounded(x, y, o, B: tl.constexpr, OPERATION: tl.constexpr):
    at = tl.arange(0, B)
    a, b = tl.load(x + at).to(tl.float16), tl.load(y + at).to(tl.float16)
    if OPERATION == "add":
        a = a + b
    elif OPERATION == "choose and multiply":
        a = tl.where(at < 7, a, b) * b
    elif OPERATION == "sums in a loop":
        for _ in range(3):
            a += b
    tl.store(o + at, a if OPERATION == "store" else a.to(tl.float32))


@pytest.mark.parametrize(("operation", "kept"), [
    ("add", True), ("choose and multiply", True), ("sums in a loop", True), ("extend", True),
    ("store", False)])
def test_numbers_are_rounded_once_for_each_conversion(operation: str, kept: bool) -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(32) * 100, torch.randn(32) * 7
    a, b = x.half(), y.half()
    wanted = {"add": a + b, "choose and multiply": torch.where(torch.arange(32) < 7, a, b) * b,
              "sums in a loop": a + b + b + b}.get(operation, a)
    made = torch.zeros(32, dtype=torch.float16 if operation == "store" else torch.float32,
                       device="xpu")
    kernel = rounded[(1,)](x.to("xpu"), y.to("xpu"), made, 32, operation, num_warps=1)
    assert torch.equal(made.cpu().half(), wanted)
    assert (KEPT in instructions(kernel.asm["llir"])) == kept
