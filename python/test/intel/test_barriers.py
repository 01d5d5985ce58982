"""Barriers of the work-group reach Intel's compiler without its library, and mean the same."""

import re

import pytest

from benchmarks import loops
from python.test.operations import instructions
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.lowering.spirv.emit_spirv import write_spirv
from triton_xe.lowering.spirv.library_calls import for_intel
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.program import Program
from triton_xe.tools import intel

BARRIER = "_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 "


@pytest.mark.intel_compiler
@pytest.mark.parametrize("semantics", [0, 272, 528, 784])
@pytest.mark.parametrize("device", ["bmg", "pvc", "ptl"])
def test_native_code_is_that_of_spirv_barriers(device: str, semantics: int) -> None:
    kernel = loops.compiled("prefix sum", device)
    text = kernel.asm["llir"]
    assert instructions(text).count("__spirv_ControlBarrier") == 1
    text = re.sub(re.escape(BARRIER) + r"\d+", f"{BARRIER}{semantics}", text)
    module = for_intel(parse_module(canonical(text)))
    assert not any("ControlBarrier" in i.callee for f in module.functions.values()
                   for i in f.instructions())
    wanted, found = (
        up_to_the_end(intel.compile_spirv(write_spirv(text, library=library), device).program)
        for library in (True, False))
    assert found == wanted


def up_to_the_end(program: Program) -> list[Instruction]:
    """The instructions before the numbers by which Intel's compiler names a module."""
    last = max(n for n, i in enumerate(program.instructions) if i.op.startswith("send"))
    return list(program.instructions[: last + 1])
