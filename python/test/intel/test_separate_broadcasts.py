"""Bytes of rows that are broadcast over lanes are those of the right row, in native code too.

IGC 2.40 takes them from lane 0 (`triton_xe.lowering.emit.separate_broadcasts`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import triton
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from python.test.gemm.pairwise import settings
from python.test.operations import instructions
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler
RANDOM = np.random.default_rng(6)
BROADCAST = "_Z19sub_group_broadcast"


@gluon.jit
def bytes_of_rows(x, o, HOW: gl.constexpr, LANES: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([16, 1], [1, LANES], [1, 1], [1, 0])
    lanes: gl.constexpr = gl.BlockedLayout([16 // LANES], [LANES], [1], [0])
    rows = gl.convert_layout(gl.load(x + gl.arange(0, 16, lanes)), gl.SliceLayout(1, layout))
    if HOW == "second byte":
        rows = (rows >> 8) & 255
    elif HOW == "low byte":
        rows = rows.to(gl.int8)
    elif HOW == "fourth byte":
        rows = rows >> 24
    elif HOW == "difference":
        rows = rows - gl.load(x) < 0
    elif HOW == "remainder":
        rows = rows % 77
    row = gl.arange(0, 16, gl.SliceLayout(1, layout))
    column = gl.arange(0, 16, gl.SliceLayout(0, layout))
    made = rows.to(gl.int32)[:, None] + 0 * column[None, :]
    gl.store(o + row[:, None] * 16 + column[None, :], made)


def bytes_in(rows: NDArray[Any], how: str) -> NDArray[Any]:
    return {"second byte": lambda: rows >> 8 & 255, "low byte": lambda: rows.astype(np.int8),
            "fourth byte": lambda: rows >> 24,
            "difference": lambda: rows - rows[0] < 0,
            "remainder": lambda: np.fmod(rows, 77)}.get(how, lambda: rows)()


def native(device: str, rows: NDArray[Any], how: str) -> NDArray[np.int32]:
    lanes = 8 if device == "dg2" else 16
    types = {"x": f"*i{8 * rows.itemsize}", "o": "*i32"}
    kernel = triton.compile(
        GluonASTSource(bytes_of_rows, types, {"HOW": how, "LANES": lanes}),
        target=GPUTarget("xpu", device, lanes), options={"num_warps": 1})
    assert "sub_group_broadcast" in instructions(kernel.asm["llir"])
    built = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
    space = AddressSpace()
    arguments = [space.put(array) for array in (rows, np.zeros(256, np.int32))]
    program = Program.from_zebin(device, built.binary)
    Launch.from_zebin(program, built.binary, space, (1, 1, 1), arguments, (lanes, 1, 1)).run()
    return space.get(arguments[1], np.dtype(np.int32), (16, 16))


def numbers(kind: str) -> NDArray[Any]:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, 16, np.dtype(kind), endpoint=True)


@pytest.mark.parametrize(*settings(unselected=pytest.mark.rest, strength=1, part=(
    ("int8", "whole"), ("int16", "whole"), ("int16", "low byte"), ("int16", "second byte"),
    ("int32", "low byte"), ("int32", "second byte"), ("int32", "fourth byte"),
    ("int64", "low byte"), ("int64", "remainder"), ("int64", "second byte"),
    ("int64", "difference")),
    device=("bmg", "pvc", "dg2"), in_turns=True))
def test_bytes_are_those_of_their_row(part: tuple[str, str], device: str) -> None:
    kind, how = part
    rows = numbers(kind)
    wanted = np.broadcast_to(bytes_in(rows, how)[:, None].astype(np.int32), (16, 16))
    np.testing.assert_array_equal(native(device, rows, how), wanted)


@pytest.mark.parametrize(("device", "kind", "how"), [
    ("bmg", "int32", "second byte"), ("dg2", "int64", "difference")])
def test_intels_compiler_takes_them_from_another_lane_otherwise(
    leave_out: Callable[[str], None], device: str, kind: str, how: str
) -> None:
    leave_out("separate_broadcasts")
    rows = numbers(kind)
    with contextlib.suppress(intel.IntelCompilerError):  # "lost a value"
        assert (native(device, rows, how) != bytes_in(rows, how)[:, None]).any()
