"""What accesses of one operation on a tensor need stands before the first of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.grouped_accesses import grouped_accesses

P = "ptr addrspace(1)"
LOAD = (f"call half @llvm.genx.GenISA.PredicatedLoad.f16.p1.f16("
        f"{P} %{{}}, i64 2, i1 %{{}}, half 0.0)")
MASKED = f"""
  %x = {LOAD.format("a", "m")}, !xe.at !3
  %s = fadd half %x, %x
  %q = getelementptr i8, {P} %a, i64 128
  %n = icmp slt i32 %c, 9
  %y = {LOAD.format("q", "n")}, !xe.at !3"""
PLAIN = f"""
  %x = load i32, {P} %a, align 4, !xe.at !3
  %q = getelementptr i8, {P} %a, i64 64
  %y = load i32, {P} %q, align 4, !xe.at !{{}}"""
BETWEEN = f"""
  %x = load i32, {P} %a, align 4, !xe.at !3
  {{}}
  %y = load i32, {P} %b, align 4, !xe.at !3"""
CHAINED = f"""
  %x = load i32, {P} %a, align 4, !xe.at !3
  %q = getelementptr i32, {P} %a, i32 %x
  %y = load i32, {P} %q, align 4, !xe.at !3"""


@pytest.mark.parametrize(("body", "groups", "order"), [
    (MASKED, [["%x", "%y"]], "%q %n %x %s %y"),
    (PLAIN.format(3), [["%x", "%y"]], "%q %x %y"),
    (PLAIN.format(4), [], "%x %q %y"),
    (CHAINED, [], "%x %q %y"),
    (BETWEEN.format("%u = add i32 %x, 1"), [["%x", "%y"]], "%x %u %y"),
    (BETWEEN.format(f"store i32 0, {P} %a, align 4"), [], "%x store %y"),
    (BETWEEN.format(f"%u = atomicrmw add {P} %a, i32 1 seq_cst"), [], "%x %u %y"),
    (PLAIN.format(3) + "\n  %z = load i8, " + P + " %a, align 1, !xe.at !3",
     [["%x", "%y"]], "%q %x %y %z"),
])
def test_accesses_of_one_operation_with_nothing_between_that_orders_them(
    body: str, groups: list[list[str]], order: str, kernel: Callable[..., str]
) -> None:
    text = kernel(f"{P} %a, {P} %b, i1 %m, i32 %c", body, other=(
        '!3 = !{!"k.py", i32 3, i32 1}\n!4 = !{!"k.py", i32 4, i32 1}\n'))
    (function,) = parse_module(text).kernels()
    made, found = grouped_accesses(function)
    assert [[i.result for i in group] for group in found.values()] == groups
    assert [group[0] for group in found.values()] == list(found)
    assert " ".join(i.result or i.opcode for i in made.blocks[0].instructions[:-1]) == order
