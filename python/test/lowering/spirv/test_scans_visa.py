"""Functions that scan lanes: their native code computes what their definition in LLVM IR says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from python.test.lowering.native_functions import LANES, functions
from triton_xe.intrinsics.definitions.subgroup import exclusive_scan, scan
from triton_xe.lowering.spirv.scans_visa import Run, Scan
from triton_xe.spirv import AFTER, PREVIOUS, WIDE

OPERATIONS: dict[str, tuple[Any, Any]] = {
    "fadd": (np.add, np.float32), "fmin": (np.fmin, np.float32), "fmax": (np.fmax, np.float32),
    "add": (np.add, np.int32), "smin": (np.minimum, np.int32), "smax": (np.maximum, np.int32),
    "umin": (np.minimum, np.uint32), "umax": (np.maximum, np.uint32),
    "and": (np.bitwise_and, np.uint32), "or": (np.bitwise_or, np.uint32),
    "xor": (np.bitwise_xor, np.uint32)}
SCANS = [Scan(operation, count, lanes) for operation in OPERATIONS for count in (1, 2, 4)
         for lanes in (4, 8, 16)]
SCANS += [Scan(operation, count, 16, width=4, place=3) for operation in OPERATIONS
          for count in (1, 4)]


@pytest.mark.intel_compiler
@pytest.mark.parametrize("given", SCANS, ids=lambda s: s.name)
def test_registers_are_scanned_as_defined(given: Scan) -> None:
    combine, kind = OPERATIONS[given.operation]
    rng = np.random.default_rng(given.registers)
    if kind is np.float32:
        x = rng.standard_normal((given.registers, LANES)).astype(kind)
        x[0, 3:6] = -0.0, np.inf, np.nan
    else:
        x = rng.integers(0, 1 << 32, (given.registers, LANES), np.uint32).view(kind)
    every = functions(*(WIDE + each.name for each in SCANS))
    others = [np.zeros((given.place, LANES), kind)] if given.place else []
    arguments = [np.concatenate([*others, row[None]]) for row in x] if others else x
    found = every(WIDE + given.name, *arguments).view(kind).reshape(-1, LANES)
    neutral = given.neutral
    blocks = x.reshape(given.registers, -1, given.lanes)
    first = blocks[..., :1] if neutral is None else np.array(neutral, np.uint32).view(kind)
    with np.errstate(invalid="ignore"):
        both = [y.reshape(-1, LANES) for y in (
            scan(blocks, combine), exclusive_scan(blocks, combine, first))]
    for made, expected in zip(
            (found[given.first :][: given.registers], found[: given.registers]), both, strict=True):
        same = (made == expected) & (np.signbit(made) == np.signbit(expected))
        assert (same | (made != made) & (expected != expected)).all()


RUNS = [Run(operation, 8, "float" if kind is np.float32 else "i32", reverse, continued)
        for operation, (_, kind) in OPERATIONS.items() for reverse in (False, True)
        for continued in (False, True)]


@pytest.mark.intel_compiler
@pytest.mark.parametrize("given", RUNS, ids=lambda r: r.name)
def test_runs_of_registers_are_scanned_as_defined(given: Run) -> None:
    combine, kind = OPERATIONS[given.operation]
    x = np.random.default_rng(0).integers(0, 1 << 20, (given.registers + 1, LANES)).astype(kind)
    if kind is np.float32:
        x[1, 3:6] = -0.0, np.inf, np.nan
        x[8] = x[8, 0]
    every = functions(*(WIDE + each.name for each in RUNS))
    found = every(WIDE + given.name, *(x[:8], x[8])[: 1 + given.continued]).view(kind)
    order = slice(None, None, -1 if given.reverse else 1)
    values = np.concatenate([x[8:][: given.continued], x[:8][order]])
    wanted = combine.accumulate(values, axis=0)[-8:][order]
    assert np.array_equal(found.reshape(-1, LANES), wanted, equal_nan=True)


INTEGERS = [name for name, (_, kind) in OPERATIONS.items() if kind is not np.float32]


@pytest.mark.intel_compiler
@pytest.mark.parametrize("name", INTEGERS)
def test_a_register_is_combined_with_each_of_several(name: str) -> None:
    combine, kind = OPERATIONS[name]
    x = np.random.default_rng(0).integers(0, 1 << 32, (5, LANES), np.uint32).view(kind)
    every = functions(*(f"{WIDE}{AFTER}{each}_4.i32" for each in INTEGERS))
    found = every(f"{WIDE}{AFTER}{name}_4.i32", x[:4], x[4]).view(kind)
    assert np.array_equal(found.reshape(4, LANES), combine(x[4], x[:4]))


PREVIOUS_ONES = [f"{WIDE}{PREVIOUS}{count}.{kind}" for count in (1, 2, 4)
                 for kind in ("i16", "i32")]


@pytest.mark.intel_compiler
@pytest.mark.parametrize("name", PREVIOUS_ONES)
def test_registers_are_moved_to_the_next_lane(name: str) -> None:
    count, kind = int(name[-5]), np.uint16 if name.endswith("i16") else np.uint32
    x = np.random.default_rng(0).integers(0, 1 << 16, (count, LANES)).astype(kind)
    found = functions(*PREVIOUS_ONES)(name, *x).view(kind).reshape(-1, LANES)
    assert np.array_equal(found[:count, 1:], x[:, :-1])


@pytest.mark.parametrize("name", [name for name in OPERATIONS if Scan(name, 1).neutral is not None])
def test_neutral_elements_leave_values_as_they_are(name: str) -> None:
    combine, kind = OPERATIONS[name]
    neutral = np.array(Scan(name, 1).neutral, np.uint32).view(kind)
    x = np.array([0, 1 << 31, 5, 0xFFFFFFFF, 0x7F800000], np.uint32).view(kind)
    assert np.array_equal(combine(neutral, x).view(np.uint32)[:3], x.view(np.uint32)[:3])
