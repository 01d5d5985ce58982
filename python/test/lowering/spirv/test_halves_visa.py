"""Functions that convert bytes to fp16 in vISA: native code on all bytes, and their uses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from python.test.lowering.native_functions import functions
from triton_xe.hardware.target import target
from triton_xe.llvm import ASSEMBLY, Module
from triton_xe.llvm.parser import parse_module
from triton_xe.lowering.emit.maths.fp8 import FORMATS
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.lowering.spirv.emit_spirv import for_compiler, use_visa
from triton_xe.lowering.spirv.function_writer import write_module
from triton_xe.spirv import HALVES, instructions

LANES = 16
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float16)


def expected(name: str, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if name in ("s8", "u8"):
        return given.view(np.int8 if name == "s8" else np.uint8).astype(np.float16)
    if name.startswith("e2m1"):
        return E2M1[given >> 4 if name == "e2m1_high" else given & 15]
    kind = FORMATS[name]
    return np.array([kind.value(int(b)) for b in given], np.float16)


NAMES = ("s8", "u8", "f8E5M2", "f8E4M3FN", "e2m1_low", "e2m1_high")
FORMS = ("rows", "pairs")
FIRST = {"bytes": (0, 8), "dwords": (0, 8), "words": (0, 0)}
"""The first element of each half of 16; two words have 8."""
SYMBOLS = {(name, form, source, first): f"{HALVES}{name}.{form}_of_{source}.{first}"
           for name in NAMES for form in FORMS for source in FIRST for first in FIRST[source]}


@pytest.mark.covering
@pytest.mark.intel_compiler
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", list(FIRST))
def test_all_bytes(name: str, form: str, source: str) -> None:
    given = np.arange(256, dtype=np.uint8)
    lanes = np.arange(LANES)
    halves = []
    for half, first in enumerate(FIRST[source]):
        parts = given.reshape(2, 2, 64)[half] if source == "words" else [given]
        symbol = SYMBOLS[name, form, source, first]
        image = functions(*SYMBOLS.values())(symbol, *parts).view(np.float16)
        for element in range(8):
            row, k = divmod(element, 2)
            at = 32 * row + (LANES * k + lanes if form == "rows" else 2 * lanes + k)
            halves.append(image[at])
    sources = [LANES * e + lanes if source == "bytes" else 4 * LANES * (e // 4) + 4 * lanes + e % 4
               for e in range(16)]
    want = expected(name, given)[np.concatenate(sources)]
    got = np.concatenate(halves)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))


@pytest.mark.parametrize(("device", "lanes", "used"), [
    ("bmg", 16, True), ("pvc", 16, True), ("bmg", 32, False), ("dg2", 8, False),
    ("dg2", 16, False)])
def test_where_it_is_used(device: str, lanes: int, used: bool) -> None:
    """Registers of 64 bytes and 16 lanes: what the vISA says of places holds nowhere else."""
    module = ModuleState(Module(), target(device), 4, lanes, ModuleOp([]))
    assert suits(module) is used


PLAIN = """define i32 @f(i32 %x) {
entry:
  ret i32 %x
}
"""
HALVES = """define internal spir_func <4 x i32> @xe.half.s8.pairs_of_bytes.0(<16 x i8> %x) {
  ret <4 x i32> zeroinitializer
}

define spir_kernel void @k(<16 x i8> %x, ptr addrspace(1) %p) {
  %y = call spir_func <4 x i32> @xe.half.s8.pairs_of_bytes.0(<16 x i8> %x)
  store <4 x i32> %y, ptr addrspace(1) %p
  ret void
}
"""


def test_other_functions_stay() -> None:
    module = parse_module(PLAIN)
    functions = dict(module.functions)
    use_visa(module)
    assert module.functions == functions


def test_bodies_become_visa_of_internal_functions() -> None:
    module = parse_module(PLAIN + HALVES)
    use_visa(module)
    made = module.functions["xe.half.s8.pairs_of_bytes.0"]
    (call, _) = made.instructions()
    assert made.is_internal
    assert call.callee == ASSEMBLY
    assert call.extra.endswith('"=rw,rw"')


def test_visa_is_written_where_it_is_called() -> None:
    function, function_call, assembly_call = 54, 57, 5611
    module = write_module(for_compiler(parse_module(HALVES)))
    found = Counter(opcode for opcode, *_ in instructions(module))
    assert (found[function], found[function_call], found[assembly_call]) == (1, 0, 1)
