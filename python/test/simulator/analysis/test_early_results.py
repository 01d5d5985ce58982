"""Which arithmetic is done before a store that loads may not pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.late_loads import late_loads

P = "ptr addrspace(1)"
HEAD = f"""
  %x = load <4 x float>, {P} %a
  %w = load <4 x float>, {P} %b
  store float 1.0, {P} %c
"""


def order(kernel: Callable[..., str], body: str) -> list[str]:
    text = kernel(f"{P} %a, {P} %b, {P} %c, float %f, {P} %d", HEAD + body)
    (function,) = parse_module(text).kernels()
    (block,) = late_loads(function).blocks
    return [i.result or i.opcode for i in block.instructions]


def test_a_sum_takes_the_place_of_what_it_is_made_of(kernel: Callable[..., str]) -> None:
    assert order(kernel, f"""
  %s = fadd <4 x float> %x, %w
  store <4 x float> %s, {P} %d""") == ["%x", "%w", "%s", "store", "store", "ret"]


def test_each_sum_follows_its_own_loads(kernel: Callable[..., str]) -> None:
    assert order(kernel, f"""
  %e = getelementptr i8, {P} %d, i32 16
  %s = shufflevector <4 x float> %x, <4 x float> %x, <4 x i32> <i32 1, i32 0, i32 3, i32 2>
  %t = fmul <4 x float> %s, %w
  store <4 x float> %t, {P} %d""") == ["%x", "%s", "%w", "%t", "store", "%e", "store", "ret"]


def test_a_chain_goes_where_only_all_of_it_pays(kernel: Callable[..., str]) -> None:
    assert order(kernel, f"""
  %m = fmul <4 x float> %x, <float 2.0, float 2.0, float 2.0, float 2.0>
  %h = fptrunc <4 x float> %m to <4 x half>
  store <4 x half> %h, {P} %d
  store <4 x float> %w, {P} %d""") == [
        "%w", "%x", "%m", "%h", "store", "store", "store", "ret"]


@pytest.mark.parametrize("body", [
    f"""
  %s = fmul <4 x float> %x, %x
  store <4 x float> %s, {P} %d
  store <4 x float> %w, {P} %d""", f"""
  %y = load <4 x float>, {P} %d
  %s = fadd <4 x float> %x, %y
  %t = fadd <4 x float> %s, %w
  store <4 x float> %t, {P} %d""", f"""
  %s = fadd <4 x float> %x, %w
  store <4 x float> %s, {P} %d
  store <4 x float> %x, {P} %d
  store <4 x float> %w, {P} %d"""], ids=["as large", "later load", "needed again"])
def test_what_gains_nothing_stays(kernel: Callable[..., str], body: str) -> None:
    found = order(kernel, body)
    assert found.index("store") < found.index("%s")


def test_uses_elsewhere_count() -> None:
    from triton_xe.runtime.simulator.analysis.early_results import early_results

    (function,) = parse_module("""
define void @k(ptr addrspace(1) %a) {
  %x = load float, ptr addrspace(1) %a
  %y = load float, ptr addrspace(1) %a
  store float 1.0, ptr addrspace(1) %a
  %s = fadd float %x, %y
  ret void
}""").functions.values()

    def found(**uses: int) -> dict[str, int]:
        return early_results(
            function.blocks[0].instructions, Counter({f"%{k}": n for k, n in uses.items()}),
            lambda i: i.opcode == "load", lambda i: i.opcode == "store")

    assert found(x=1, y=1) == {"%s": 2}
    assert found(x=2, y=1) == {}


def test_what_is_computed_before_a_store_waits_itself(kernel: Callable[..., str]) -> None:
    text = kernel(f"{P} %a, {P} %b, {P} %c", f"""
  %x = load <4 x float>, {P} %a
  %w = load <4 x float>, {P} %b
  %u = fadd <4 x float> %x, %w
  store <4 x float> %u, {P} %c
  %s = fneg <4 x float> %u
  store <4 x float> %s, {P} %b""")
    (function,) = parse_module(text).kernels()
    (block,) = late_loads(function).blocks
    found = [i.result or i.opcode for i in block.instructions]
    assert found == ["%x", "%w", "%u", "store", "%s", "store", "ret"]
