"""Loops are written once for each part of their accumulators, unless the parts need each other."""

from __future__ import annotations

import re

import pytest
from llvmlite import binding

from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.rewrites.separate_loops import separate_loops

LOOP = """
define void @kernel(ptr %x, ptr %y, i32 %n) {{
entry:
  br label %loop
loop:
  %i = phi i32 [0, %entry], [%j, %loop]
  %a = phi <8 x float> [zeroinitializer, %entry], [%c, %loop]
  %b = phi <8 x float> [zeroinitializer, %entry], [%d, %loop]
  %p = getelementptr float, ptr %x, i32 %i
  %q = getelementptr float, ptr %y, i32 %i
  %l = load <8 x float>, ptr %p, align 4
  %m = load <8 x float>, ptr %q, align 4
  {extra}
  %c = fadd <8 x float> %a, %l
  %d = fadd <8 x float> %b, {second}
  %j = add i32 %i, 8
  %more = icmp slt i32 %j, {end}
  br i1 %more, label %loop, label %after
after:
  store <8 x float> %c, ptr %x, align 4
  store <8 x float> %d, ptr %y, align 4
  ret void
}}
"""


def separated(most: int, *, extra: str = "", second: str = "%m", end: str = "%n"):
    module = parse_module(canonical(LOOP.format(extra=extra, second=second, end=end)))
    (function,) = module.functions.values()
    made = separate_loops(function, most)
    parse_module(canonical(print_module([made], [])))
    return made


def test_each_part_has_a_loop():
    made = separated(32)
    assert [b.label for b in made.blocks] == ["%entry", "%loop.part0", "%loop.part0.end", "%loop",
                                            "%after"]
    for head in made.loops():
        (block,) = (b for b in made.blocks if b.label == head)
        assert [i.type.text for i in block.phis] == ["i32", "<8 x float>"]
        assert sum(i.opcode == "load" for i in block.instructions) == 1
    results = [i.result for i in made.instructions() if i.result]
    assert len(results) == len({*results})
    assert {x for i in made.instructions() for x in i.locals()} <= {*results, "%x", "%y", "%n"}


@pytest.mark.parametrize("extra", [
    "store float 0.0, ptr %p, align 4", "%v = load volatile i32, ptr %p, align 4",
    "%v = atomicrmw add ptr %p, i32 1 monotonic, align 4"])
def test_loops_with_effects_stay_whole(extra):
    assert len(separated(32, extra=extra).loops()) == 1


def test_loops_whose_parts_need_each_other_stay_whole():
    assert len(separated(64).loops()) == 1
    assert len(separated(32, second="%l").loops()) == 1
    assert len(separated(32, second="%c").loops()) == 1
    assert len(separated(32, extra="%e = load i32, ptr %p, align 4", end="%e").loops()) == 1


def test_names_that_end_with_numbers_stay_different():
    """Compilers name a second loop `loop.0` or `loop.1`, and values alike."""
    before, loop, after = re.split(r"(?m)^(?=loop:|after:)", LOOP.format(
        extra="", second="%m", end="%n"))
    second = re.sub(r"%([abcdijlmpq]|more)\b", r"%\1.0", loop).replace("loop", "loop.0")
    after = after.replace("%c, ptr %x", "%c.0, ptr %x")
    text = before + loop.replace("label %after", "label %loop.0") + second.replace(
        "%entry", "%loop") + after
    (function,) = parse_module(canonical(text)).functions.values()
    made = separate_loops(function, 32)
    binding.parse_assembly(print_module([made], [])).verify()
    assert len(made.loops()) == 4
