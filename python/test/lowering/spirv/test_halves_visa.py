"""The vISA of functions that turn bytes into fp16, executed on all bytes; and where it is used."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from xdsl.dialects.builtin import ModuleOp

from triton_xe.hardware.target import target
from triton_xe.lowering.emit.maths.fp8 import FORMATS
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.lowering.spirv.halves_visa import body_of, use_visa
from triton_xe.lowering.spirv.spirv_target import verified

TYPES: dict[str, Any] = {"W": np.int16, "UW": np.uint16, "HF": np.float16, "B": np.int8,
                         "UB": np.uint8, "UD": np.uint32}
SUFFIXES = {"w": np.int16, "uw": np.uint16, "hf": np.float16}
DECLARED = re.compile(r"\.decl (\w+) v_type=G type=(\w+) num_elts=(\d+)(?: alias=<\$?(\w),0>)?")
LINE = re.compile(r"([\w.]+) \(M1_NM, (\d+)\) (.*)")
OPERAND = re.compile(r"(\(-\))?([A-Z]\d?)\((\d+),(\d+)\)<([\d;,]+)>|(0x[0-9a-f]+):(\w+)")
LANES, REGISTER = 16, 64
OPERATIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "shl": np.left_shift, "asr": np.right_shift,
    "and": np.bitwise_and, "mov": np.positive,
    "ror": lambda a, b: a >> (b & 31) | a << (-b & 31) & 0xFFFFFFFF}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float16)


def run(body: str, *given: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, Any]:
    """The four registers of the result, as bytes; of the arguments the last has what is left."""
    memory = {"0": np.zeros(4 * REGISTER, np.uint8), "T": np.zeros(8 * REGISTER, np.uint8)}
    memory |= {str(n + 1): argument for n, argument in enumerate(given)}
    views = {name: memory[alias or name].view(TYPES[kind])
             for name, kind, _, alias in DECLARED.findall(body)}
    for opcode, width, rest in LINE.findall(body):
        n = int(width)
        into, *sources = [_operand(views, n, found) for found in OPERAND.findall(rest)]
        values = [np.asarray(s) for s in sources]
        if opcode.startswith("bfn"):
            a, b, c = values
            made = {"bfn.x78": (a & b) ^ c, "bfn.xf8": (a & b) | c}[opcode]
        else:
            wide = [v if v.dtype == np.float16 else v.astype(np.int64) for v in values]
            made = OPERATIONS[opcode](*wide)
        view, places = into
        view[places] = made.astype(view.dtype)
    return memory["0"]


class _Place(tuple[Any, Any]):
    """Where an operand lies, also as the numbers there."""

    def __array__(self, *args: Any, **more: Any) -> Any:
        view, places = self
        return view[places]


def _operand(views: dict[str, Any], n: int, found: tuple[str, ...]) -> Any:
    sign, name, row, column, region, number, suffix = found
    if number:
        bits = np.array([int(number, 16)], np.uint16)
        return bits.view(SUFFIXES[suffix])[0]
    view, lanes = views[name], np.arange(n)
    step, *rest = map(int, re.split("[;,]", region))
    width, inner = rest or (1, 0)
    places = int(row) * REGISTER // view.itemsize + int(column) + (
        lanes // width * step + lanes % width * inner)
    return -view[places] if sign else _Place((view, places))


def expected(name: str, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if name in ("s8", "u8"):
        return given.view(np.int8 if name == "s8" else np.uint8).astype(np.float16)
    if name.startswith("e2m1"):
        return E2M1[given >> 4 if name == "e2m1_high" else given & 15]
    kind = FORMATS[name]
    return np.array([kind.value(int(b)) for b in given], np.float16)


@pytest.mark.parametrize("name", ["s8", "u8", "f8E5M2", "f8E4M3FN", "e2m1_low", "e2m1_high"])
@pytest.mark.parametrize("form", ["rows", "pairs"])
@pytest.mark.parametrize("source", ["bytes", "dwords", "words"])
def test_all_bytes(name: str, form: str, source: str) -> None:
    given = np.arange(256, dtype=np.uint8)
    lanes = np.arange(LANES)
    halves = []
    for first in (0, 8):
        mine = given[16 * first :] if source == "words" else given
        body = body_of(name, form, source, 0 if source == "words" else first)
        image = run(body, mine, mine[REGISTER:]).view(np.float16)
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
    module = ModuleState(ir.Module(), target(device), 4, lanes, ModuleOp([]))
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
    module = verified(PLAIN)
    assert not use_visa(module)
    assert "ret i32 %x" in str(module)


def test_bodies_become_visa_of_internal_functions() -> None:
    module = verified(PLAIN + HALVES)
    assert use_visa(module)
    module.verify()
    text = str(module)
    assert "zeroinitializer" not in text
    assert "ret i32 %x" in text
    assert "define internal spir_func <4 x i32> @xe.half.s8.pairs_of_bytes.0(<16 x i8> %x0)" in text
    assert 'call <4 x i32> asm "{' in text
    assert '"=rw,rw"(<16 x i8> %x0)' in text
    assert "call spir_func <4 x i32> @xe.half.s8.pairs_of_bytes.0(<16 x i8> %x)" in text
