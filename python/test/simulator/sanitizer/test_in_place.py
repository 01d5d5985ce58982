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
def cross_entropy(x, labels, loss, N, BLOCK: tl.constexpr):
    """The loss of each row, and the row's softmax in its place."""
    row = x + tl.program_id(0) * N
    most, total = -float("inf"), 0.0
    for first in range(0, N, BLOCK):
        i = first + tl.arange(0, BLOCK)
        v = tl.load(row + i, i < N, -float("inf")).to(tl.float32)
        before, most = most, tl.maximum(most, tl.max(v))
        total = total * tl.exp(before - most) + tl.sum(tl.exp(v - most))
    wanted = tl.load(row + tl.load(labels + tl.program_id(0))).to(tl.float32)
    tl.store(loss + tl.program_id(0), most + tl.log(total) - wanted)
    for first in range(0, N, BLOCK):
        i = first + tl.arange(0, BLOCK)
        v = tl.load(row + i, i < N, -float("inf")).to(tl.float32)
        tl.store(row + i, tl.exp(v - most) / total, i < N)


@pytest.mark.parametrize("size", [5003, 1801])
def test_warps_may_change_neighbours_of_what_all_have_loaded(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dword of the wanted element has a cell of its own, and several warps change it."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    torch.manual_seed(1)
    x, count = torch.randn(64, size).half(), 64
    labels, loss = torch.randint(0, size, (count,)), torch.zeros(count, device="xpu")
    y = x.to("xpu")
    cross_entropy[(count,)](y, labels.to(torch.int32).to("xpu"), loss, size, 1024)
    known = torch.nn.functional.cross_entropy(x.float(), labels, reduction="none")
    torch.testing.assert_close(loss.cpu(), known, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(y.cpu().float(), x.float().softmax(1), rtol=1e-2, atol=1e-3)


@triton.jit
def moments(x, means, squares, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < N
    value, mean = tl.load(x + i, inside), tl.load(means + i, inside)
    square = tl.load(squares + i, inside)
    tl.store(means + i, mean * 0.5 + value, inside)
    tl.store(squares + i, square * 0.5 + value * value, inside)
    tl.store(x + i, value - mean / (tl.sqrt(square) + 1.0), inside)


def test_each_launch_runs_the_code_that_its_grid_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for a partial block is left out, unless a guard says that the launch has one."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    torch.manual_seed(4)
    host = [torch.rand(2051) for _ in range(3)]
    given = [t.to("xpu") for t in host]
    for programs in (2, 2, 3, 2, 3):
        moments[(programs,)](*given, 2051, 1024)
        x, mean, square = (t[: 1024 * programs].clone() for t in host)
        for k, new in enumerate((x - mean / (square.sqrt() + 1), mean / 2 + x, square / 2 + x * x)):
            host[k][: len(new)] = new
            assert torch.allclose(given[k].cpu(), host[k], atol=1e-5)
