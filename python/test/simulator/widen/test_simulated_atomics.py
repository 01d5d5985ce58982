"""Atomics of the simulator against their definition: colliding lanes, and every kind of value."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from python.test.operations import instructions
from triton_xe.hardware.target import target
from triton_xe.intrinsics.definitions.memory import atomic_cas, atomic_rmw
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator import pipeline
from triton_xe.runtime.simulator.run.kernel_module import canonical

Run = Callable[..., None]
Text = Callable[..., str]
P = "ptr addrspace(1)"
CELLS = 5
SIGNED = {"i32": np.int32, "i64": np.int64}
UNSIGNED = {"i32": np.uint32, "i64": np.uint64}
FLOATS: dict[str, Any] = {"float": np.float32, "double": np.float64}
SPECIAL = [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38]
CASES = [
    *((kind, t, SIGNED[t]) for t in SIGNED
      for kind in ("add", "sub", "and", "or", "xor", "xchg", "max", "min")),
    *((kind, t, UNSIGNED[t]) for t in UNSIGNED for kind in ("umax", "umin")),
    *((kind, t, FLOATS[t]) for t in FLOATS for kind in ("fadd", "fsub", "fmax", "fmin", "xchg")),
]


def body(t: str, operation: str) -> str:
    """`operation` makes %r from %p, the lane's cell, and %x and %y, its values."""
    return f"""
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %pi = getelementptr i32, {P} %index, i32 %lane
  %i = load i32, {P} %pi, align 4
  %p = getelementptr {t}, {P} %memory, i32 %i
  %px = getelementptr {t}, {P} %values, i32 %lane
  %x = load {t}, {P} %px, align 4
  %py = getelementptr {t}, {P} %expected, i32 %lane
  %y = load {t}, {P} %py, align 4
{operation}
  %po = getelementptr {t}, {P} %out, i32 %lane
  store {t} %r, {P} %po, align 4"""


PARAMETERS = ", ".join(f"{P} %{name}" for name in ("memory", "index", "values", "expected", "out"))


def random_values(generator: Any, dtype: Any, count: int) -> Any:
    if np.issubdtype(dtype, np.floating):
        return generator.choice(np.array(SPECIAL), count).astype(dtype)
    info = np.iinfo(dtype)
    return generator.integers(info.min, info.max, count, dtype=dtype, endpoint=True)


@pytest.mark.covering
@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize(("kind", "t", "dtype"), CASES)
def test_read_modify_write(
    run: Run, kernel: Text, kind: str, t: str, dtype: Any, lanes: int
) -> None:
    text = kernel(PARAMETERS, body(t, f"  %r = atomicrmw {kind} {P} %p, {t} %x monotonic"),
                  lanes=lanes)
    generator = np.random.default_rng(lanes)
    for _ in range(4):
        index = generator.integers(0, CELLS, lanes).astype(np.int32)
        memory, values = (random_values(generator, dtype, n) for n in (CELLS, lanes))
        want = memory.copy()
        with np.errstate(all="ignore"):
            found = atomic_rmw(kind, want, index, values)
        out = np.zeros(lanes, dtype)
        run(text, memory, index, values, values, out)
        np.testing.assert_array_equal(out, found)
        np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("t", UNSIGNED)
def test_compare_and_swap(run: Run, kernel: Text, t: str, lanes: int) -> None:
    operation = (f"  %pair = cmpxchg {P} %p, {t} %y, {t} %x monotonic monotonic\n"
                 f"  %r = extractvalue {{ {t}, i1 }} %pair, 0")
    text = kernel(PARAMETERS, body(t, operation), lanes=lanes)
    generator = np.random.default_rng(lanes)
    swapped = 0
    for _ in range(4):
        index = generator.integers(0, CELLS, lanes).astype(np.int32)
        memory, values, expected = (
            generator.integers(0, 3, n).astype(UNSIGNED[t]) for n in (CELLS, lanes, lanes))
        want = memory.copy()
        found = atomic_cas(want, index, expected, values)
        swapped += int(np.count_nonzero(found == expected))
        out = np.zeros(lanes, UNSIGNED[t])
        run(text, memory, index, values, expected, out)
        np.testing.assert_array_equal(out, found)
        np.testing.assert_array_equal(memory, want)
    assert swapped


LANE_ADD = f"""
define internal i32 @__xe_lane_add({P} %p, i32 %x) {{
  %found = atomicrmw add {P} %p, i32 %x monotonic
  ret i32 %found
}}"""


def test_calls_of_lanes_need_no_arrays(run: Run, kernel: Text) -> None:
    """LLVM takes long for a frame with an array for each operand of each call."""
    x = np.arange(16, dtype=np.int32)
    for number in (1, 7):  # each adds what the one before found
        values = ["%x", *(f"%v{k}" for k in range(1, number)), "%r"]
        text = kernel(PARAMETERS, body("i32", "\n".join(
            f"  {found} = call i32 @__xe_lane_add({P} %p, i32 {added})"
            for added, found in pairwise(values))), other=LANE_ADD)
        memory, out = np.zeros(16, np.int32), np.zeros(16, np.int32)
        run(text, memory, x, x, x, out)
        host = pipeline.translate(parse_module(canonical(text)), "k", target("bmg")).text
        assert instructions(host).count("xe.lanes.__xe_lane_add") == number
        assert "alloca" not in instructions(host)
    np.testing.assert_array_equal(out, 8 * x)
    np.testing.assert_array_equal(memory, 13 * x)
