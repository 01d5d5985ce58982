"""Initial sums of products: filled two registers at a time, once for all versions of a loop."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.loops import compiled
from python.test.lowering.native_functions import functions
from triton_xe.llvm.parser import parse_module
from triton_xe.spirv import INITIAL, WIDE


def fills(name: str, device: str) -> list[list[str]]:
    """Functions that fill sums in each block of a row's kernel that has some."""
    module = parse_module(compiled(name, device).asm["llir"])
    found = [[i.callee for i in block.instructions if i.callee.startswith(WIDE + INITIAL)]
             for kernel in module.kernels() for block in kernel.blocks]
    return [each for each in found if each]


def test_versions_share_the_fill_of_their_sums() -> None:
    assert fills("grouped", "bmg") == [[f"{WIDE}{INITIAL}00000000_8.float"] * 16]


def test_sums_of_integers_are_filled_too() -> None:
    assert fills("gemm int8", "pvc") == [[f"{WIDE}{INITIAL}00000000_8.i32"] * 16]


@pytest.mark.parametrize(("name", "device"), [("gemm", "dg2"), ("row sum", "bmg")])
def test_other_sums_stay_constants(name: str, device: str) -> None:
    """Registers of dg2 have 32 bytes, and sums of rows are added one register at a time."""
    assert fills(name, device) == []


@pytest.mark.intel_compiler
def test_all_registers_are_filled() -> None:
    name = f"{WIDE}{INITIAL}c0490fdb_8.float"
    found = functions(name)(name).view(np.uint32)
    assert found.shape == (8 * 16,)
    assert (found == 0xC0490FDB).all()
