"""Programs that store the same value to one address: harmless where nothing reads it."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap

PARTS = pytest.mark.parametrize(
    ("dtype", "warps"), [(torch.float32, 4), (torch.float16, 1), (torch.int8, 2)])
RACE = r"data race: store .* argument 'out'"


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


@triton.jit
def wrapped(x, out, n, BLOCK: tl.constexpr, ADD: tl.constexpr):
    """Repeats rows as often as there are programs; what lies beyond one wraps around."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % n
    tl.store(out + at, tl.load(x + at) + (tl.program_id(0) * ADD).to(x.dtype.element_ty))


def launch(dtype: torch.dtype, warps: int, add: int = 0, *, in_place: bool = False) -> None:
    x = torch.arange(100).to(dtype)
    given = x.to("xpu")
    out = given if in_place else torch.zeros_like(given)
    wrapped[(4,)](given, out, 100, 128, add, num_warps=warps)
    assert torch.equal(out.cpu(), x)


@PARTS
def test_programs_may_store_the_same(dtype: torch.dtype, warps: int) -> None:
    launch(dtype, warps)


@PARTS
def test_different_values_race(dtype: torch.dtype, warps: int) -> None:
    with pytest.raises(SimulatorTrap, match=RACE):
        launch(dtype, warps, 1)


def test_the_same_values_race_where_they_are_read() -> None:
    with pytest.raises(SimulatorTrap, match="data race"):
        launch(torch.float32, 1, in_place=True)


def test_strict_checks_report_equal_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1,strict")
    with pytest.raises(SimulatorTrap, match=RACE):
        launch(torch.float32, 4)


@triton.jit
def claims(flag, out, READS: tl.constexpr):
    """The first program looks whether another one was here."""
    if READS:
        if tl.program_id(0) == 0:
            tl.store(out, tl.load(flag))
    tl.store(flag, 1)


@pytest.mark.parametrize("reads", [False, True])
def test_flag_that_every_program_sets(reads: bool) -> None:
    """Whether it was set is another question than what is there in the end."""
    flag, out = (torch.zeros(1, dtype=torch.int32, device="xpu") for _ in range(2))
    if reads:
        with pytest.raises(SimulatorTrap, match=r"data race: store .* argument 'flag'"):
            claims[(8,)](flag, out, True)
        return
    claims[(8,)](flag, out, False)
    assert flag.item() == 1


@triton.jit
def counted(out, count):
    tl.store(out, 7)
    tl.atomic_add(count, 1)


def test_the_same_values_race_beside_atomics_that_release() -> None:
    """What is ordered after one of the stores may not be after the other."""
    out, count = (torch.zeros(1, dtype=torch.int32, device="xpu") for _ in range(2))
    with pytest.raises(SimulatorTrap, match=RACE):
        counted[(8,)](out, count)
