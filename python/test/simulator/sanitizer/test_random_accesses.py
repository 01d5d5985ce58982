"""Programs that load and store random elements, against every pair of accesses that clashes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from python.test.gemm.pairwise import settings
from triton_xe.errors import SimulatorTrap

LOAD, STORE, BOTH, BARRIER = range(4)
PROGRAMS, BLOCK, COUNT = 6, 64, 512
STEPS = {"load, both, store": (LOAD, BOTH, STORE), "both, both": (BOTH, BOTH),
         "store, load, both": (STORE, LOAD, BOTH), "stores": (STORE, STORE, BOTH),
         "barriers": (BOTH, BARRIER, STORE, BARRIER, LOAD)}


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


@triton.jit
def accesses(places, x, sums, STEPS: tl.constexpr, COUNT: tl.constexpr, B: tl.constexpr):
    """The elements whose number is negative are left out."""
    program = tl.program_id(0)
    i = tl.arange(0, B)
    total = tl.zeros((B,), x.dtype.element_ty)
    for k in tl.static_range(COUNT):
        if STEPS // 4**k % 4 == 3:
            tl.debug_barrier()
        else:
            at = tl.load(places + (program * COUNT + k) * B + i)
            inside = at >= 0
            if STEPS // 4**k % 4 == 0:
                total += tl.load(x + at, inside, other=0)
            if STEPS // 4**k % 4 == 1:
                tl.store(x + at, total + program * 8 + k, inside)
            if STEPS // 4**k % 4 == 2:
                tl.store(x + at, tl.load(x + at, inside, other=0) + program + 1, inside)
    tl.store(sums + program * B + i, total)


@dataclass(frozen=True)
class Clash:
    """The first access that an access of an earlier program clashes with."""

    program: int
    elements: frozenset[int]
    is_load: bool


def first_clash(places: NDArray[np.int32], steps: tuple[int, ...]) -> Clash | None:
    """By each element's accesses of earlier programs."""
    loaded, stored = (np.zeros((PROGRAMS, COUNT), bool) for _ in range(2))
    for program in range(PROGRAMS):
        for k, step in enumerate(steps):
            at = places[program, k]
            at = at[at >= 0] if step != BARRIER else at[:0]
            for loads in [step == LOAD] if step != BOTH else [True, False]:
                before = stored[:program].any(0)
                if not loads:
                    before |= loaded[:program].any(0)
                bad = frozenset(at[before[at]].tolist())
                if bad:
                    return Clash(program, bad, loads)
                (loaded if loads else stored)[program, at] = True
    return None


def drawn(rng: np.random.Generator, steps: tuple[int, ...]) -> NDArray[np.int32]:
    """Elements of each program's own, in any order, and some that all only load."""
    owner = rng.integers(-1, PROGRAMS, COUNT)
    if rng.random() < 0.3:
        owner = np.sort(owner)
    places = np.full((PROGRAMS, len(steps), BLOCK), -1, np.int32)
    for program in range(PROGRAMS):
        for k, step in enumerate(steps):
            fitting = np.flatnonzero((owner == program) | ((owner < 0) & (step == LOAD)))
            some = rng.permutation(fitting)[: rng.integers(1, BLOCK + 1)]
            if rng.random() < 0.3:
                some = np.sort(some)
            places[program, k, : len(some)] = some
    return places


def plant(rng: np.random.Generator, places: NDArray[np.int32], steps: tuple[int, ...]) -> None:
    """Give one program an element of another one."""
    used = [k for k, step in enumerate(steps) if step != BARRIER]
    one, other = rng.permutation(PROGRAMS)[:2]
    at, k = rng.choice(np.flatnonzero(places[one, used[0]] >= 0)), rng.choice(used)
    place = rng.integers(BLOCK)
    if places[one, used[0], at] not in places[other, k]:
        places[other, k, place] = places[one, used[0], at]


@pytest.mark.parametrize(*settings(
    name=tuple(STEPS), dtype=(torch.int8, torch.float16, torch.float32), strength=1, in_turns=True,
    unselected=pytest.mark.rest))
def test_clashes_are_those_of_all_pairs(name: str, dtype: Any) -> None:
    steps = STEPS[name]
    rng = np.random.default_rng(sum(k * 5**n for n, k in enumerate(steps)) + dtype.itemsize)
    found = 0
    for turn in range(24):
        places = drawn(rng, steps)
        if turn % 2:
            plant(rng, places, steps)
        want = first_clash(places, steps)
        x, sums = (torch.zeros(n, dtype=dtype, device="xpu") for n in (COUNT, PROGRAMS * BLOCK))
        numbers = sum(step * 4**k for k, step in enumerate(steps))
        given = torch.from_numpy(places.reshape(-1)).to("xpu"), x, sums
        if want is None:
            accesses[(PROGRAMS,)](*given, numbers, len(steps), BLOCK, num_warps=1)
            continue
        found += 1
        with pytest.raises(SimulatorTrap) as caught:
            accesses[(PROGRAMS,)](*given, numbers, len(steps), BLOCK, num_warps=1)
        text = str(caught.value)
        assert f"data race: {'load' if want.is_load else 'store'}" in text
        assert f"program ({want.program}, 0, 0)" in text
        element = re.search(r"element \((\d+),\)", text)
        assert element is not None
        assert int(element[1]) in want.elements
    assert found > 4
