"""Reports about kernels that load and then store the same elements."""

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap


@triton.jit
def doubled(x, places, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < N
    at = x + tl.load(places + i, inside, other=0)
    tl.store(at, tl.load(at, inside) * 2, inside)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32], ids=str)
def test_a_load_of_what_another_program_stores_in_place(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load is what comes first, and what the report is about."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    torch.manual_seed(3)
    places = torch.randperm(250).to(torch.int32)
    x = torch.randint(0, 9, (250,)).to(dtype)
    given = x.to("xpu")
    doubled[(4,)](given, places.to("xpu"), 250, 64)
    assert torch.equal(given.cpu(), x * 2)
    places[170] = places[25]
    with pytest.raises(SimulatorTrap, match="data race: load") as caught:
        doubled[(4,)](given, places.to("xpu"), 250, 64)
    assert f"element ({int(places[25])},)" in str(caught.value)
    assert "program (2, 0, 0)" in str(caught.value)


def test_what_was_never_written_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store does not count as the first one before the load has been asked for that."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x = torch.empty(250, device="xpu")
    with pytest.raises(SimulatorTrap, match="never written"):
        doubled[(4,)](x, torch.arange(250).to(torch.int32).to("xpu"), 250, 64)


@triton.jit
def moved_rows(x, label, out, N, BLOCK: tl.constexpr):
    """Change each row in place, block by block, after all warps have loaded one of its elements."""
    program = tl.program_id(0)
    tl.store(out + program, tl.load(x + program * N + tl.load(label)).to(tl.float32))
    for first in range(0, N, BLOCK):
        i = first + tl.arange(0, BLOCK)
        v = tl.load(x + program * N + i, i < N, 0).to(tl.float32)
        tl.store(x + program * N + i, tl.exp(v), i < N)


@pytest.mark.parametrize("element", [0, 16, 255, 1535, 5002])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16], ids=str)
def test_warps_may_change_neighbours_of_what_all_have_loaded(
    dtype: torch.dtype, element: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dword of the element has a cell of its own, and several warps change it."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x, out = torch.zeros(4, 5003, dtype=dtype, device="xpu"), torch.zeros(4, device="xpu")
    label = torch.tensor([element], dtype=torch.int32).to("xpu")
    moved_rows[(4,)](x, label, out, 5003, 1024)
    assert (x.cpu() == 1).all()
