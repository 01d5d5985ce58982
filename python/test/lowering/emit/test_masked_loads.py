"""Masked loads whose elements are only moved take no other value's registers."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from python.test.operations import name_of, parsed


@triton.jit
def halves(x, y, o, n, B: tl.constexpr, CHANGE: tl.constexpr):
    at, half = tl.arange(0, B), tl.arange(0, B // 2)
    v = tl.load(x + at, at < n, tl.load(y + at))
    if CHANGE == "add":
        v += 1
    elif CHANGE == "select":
        v = tl.where(at < n, v, 1)
    elif CHANGE == "fma":
        v = v * n + 1
    first, second = tl.split(tl.reshape(v, (B // 2, 2)))
    tl.store(o + half, first)
    tl.store(o + B // 2 + half, second)


@pytest.mark.parametrize("change", ["", "add", "select", "fma"])
def test_lanes_that_are_masked_off_have_the_other_value(change: str) -> None:
    torch = pytest.importorskip("torch")
    x, y, o = torch.arange(1024.0), -torch.arange(1024.0), torch.zeros(1024)
    made = o.to("xpu")
    kernel = halves[(1,)](x.to("xpu"), y.to("xpu"), made, 601, 1024, change, num_warps=4)
    inside = torch.arange(1024) < 601
    wanted = torch.where(inside, x, y)
    wanted = {"": wanted, "add": wanted + 1, "select": torch.where(inside, wanted, 1),
              "fma": wanted * 601 + 1}[change]
    assert torch.equal(made.cpu(), torch.cat((wanted[::2], wanted[1::2])))
    others = [each.operands[3] for each in parsed(kernel.asm["llir"])
              if name_of(each) == "GenISA.PredicatedLoad"]
    assert others
    assert {other.is_constant for other in others} == {not change}
