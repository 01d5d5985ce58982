"""Warps that access random elements of shared memory, against every pair of accesses that races."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.device import SimulatedDevice

P = "ptr addrspace(1)"
BARRIER = "  call spir_func void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
WARPS, LANES, COUNT = 5, 16, 320
PHASES = "sl", "ls", "lsl", "ll", "slls"
"""Stores and loads of each warp between two barriers."""
HEAD = f"""
entry:
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %sg = call spir_func i32 @_Z16get_sub_group_idv()
  %high = mul i32 %sg, {LANES}
  %row = add i32 %high, %lane
"""
ACCESS = """
  %number{k} = add i32 %row, {first}
  %from{k} = getelementptr i32, ptr addrspace(1) %places, i32 %number{k}
  %place{k} = load i32, ptr addrspace(1) %from{k}, align 4
  %at{k} = getelementptr i8, ptr addrspace(3) @slm, i32 %place{k}
"""
STEPS = {"s": "  store TYPE %value, ptr addrspace(3) %at{k}, align SIZE\n", "l": """
  %got{k} = load TYPE, ptr addrspace(3) %at{k}, align SIZE
  %to{k} = getelementptr TYPE, ptr addrspace(1) %out, i32 %row
  store TYPE %got{k}, ptr addrspace(1) %to{k}, align SIZE
"""}
VALUES = {"i8": "  %value = trunc i32 %row to i8\n", "i32": "  %value = add i32 %row, 0\n",
          "<4 x i32>": "  %value = insertelement <4 x i32> zeroinitializer, i32 %row, i32 0\n"}
FIRST = COUNT // (WARPS * LANES)
"""Stores of each warp that initialise all elements."""


def body_of(t: str, nbytes: int) -> str:
    parts = [HEAD, VALUES[t]]
    numbers = count()
    for phase in ("s" * FIRST, *PHASES):
        for step, k in zip(phase, numbers, strict=False):
            first = k * WARPS * LANES
            parts += [text.format(k=k, first=first) for text in (ACCESS, STEPS[step])]
        parts.append(BARRIER)
    return "".join(parts).replace("TYPE", t).replace("SIZE", str(nbytes))


def drawn(rng: np.random.Generator) -> NDArray[np.int64]:
    """Elements by step, warp and lane: stores of a warp's own ones, loads of these and others'."""
    steps = [np.arange(COUNT).reshape(FIRST, WARPS, LANES)]
    for phase in PHASES:
        owner = rng.integers(-1, WARPS, COUNT)
        if rng.random() < 0.5:
            owner = np.sort(owner)
        for step in phase:
            steps.append(np.stack([rng.permutation(np.flatnonzero(
                (owner == warp) | ((owner < 0) & (step == "l"))))[:LANES]
                for warp in range(WARPS)])[None])
    return np.concatenate(steps)


def plant(rng: np.random.Generator, places: NDArray[np.int64]) -> str:
    """Let a warp load what another one stores in the same phase; return which access is later."""
    phase = rng.choice([k for k, steps in enumerate(PHASES) if len({*steps}) == 2])
    start = FIRST + sum(map(len, PHASES[:phase]))
    stores, loads = ([start + k for k, step in enumerate(PHASES[phase]) if step == kind]
                     for kind in "sl")
    one, other = rng.permutation(WARPS)[:2]
    places[rng.choice(loads), one, rng.integers(LANES)] = places[
        rng.choice(stores), other, rng.integers(LANES)]
    return "load" if one > other else "store"


@pytest.mark.parametrize(("t", "nbytes", "stride"), [
    ("i8", 1, 1), ("i8", 1, 5), ("i32", 4, 1), ("i32", 4, 17), ("<4 x i32>", 16, 1),
    ("<4 x i32>", 16, 5)])
def test_races_are_those_of_all_pairs(
    t: str, nbytes: int, stride: int, device: SimulatedDevice, kernel: Callable[..., str],
    monkeypatch: Any,
) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    rng = np.random.default_rng(nbytes + 100 * stride)
    shared = f"@slm = internal addrspace(3) global [{COUNT * nbytes * stride} x i8] undef, align 64"
    text = kernel(f"{P} %places, {P} %out", body_of(t, nbytes), warps=WARPS, other=shared)
    loaded = device.load(text.encode(), "k")
    out = device.allocate(WARPS * LANES * nbytes)
    for turn in range(40):
        places = drawn(rng)
        later = plant(rng, places) if turn % 2 else ""
        given = np.ascontiguousarray(places * (nbytes * stride), np.int32)
        table = device.allocate(given.nbytes)
        device.copy_to_device(table.pointer, given)
        if not later:
            device.launch(loaded, (1, 1, 1), [table.pointer, out.pointer])
            continue
        with pytest.raises(SimulatorTrap, match=f"data race: {later}"):
            device.launch(loaded, (1, 1, 1), [table.pointer, out.pointer])
