"""Products of halves are summed in fp32, rounded once, and computed by products of fp32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("xpu")

HALVES = [torch.half, torch.bfloat16]
PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "mm": lambda x: x[0] @ x[0].T,
    "mv": lambda x: x[0] @ x[0, 0],
    "bmm": lambda x: x @ x.mT,
    "addmm": lambda x: torch.addmm(x[0, :, :5], x[0], x[0].T[:, :5], beta=0.5, alpha=2),
    "addmm_": lambda x: x[0, :, :5].clone().addmm_(x[0], x[0].T[:, :5]),
    "addmv": lambda x: torch.addmv(x[0, :, 0], x[0], x[0, 0]),
    "baddbmm": lambda x: torch.baddbmm(x[:, :, :7], x, x.mT),
    "addbmm": lambda x: torch.addbmm(x[0, :, :7], x, x.mT),
    "linear": lambda x: F.linear(x, x[0]),
    "conv1d": lambda x: F.conv1d(x, x[:, :, :3], x[0, :3, 0], padding=1),
    "gradients": lambda x: torch.func.grad(lambda w: F.conv1d(x, w).sum())(x[:, :, :3].clone()),
    "out": lambda x: torch.mm(x[0], x[0].T, out=torch.empty(0, dtype=x.dtype, device=x.device)),
    "turned_out": lambda x: torch.mm(
        x[0], x[0].T, out=torch.empty(7, 7, dtype=x.dtype, device=x.device).T),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_rounded_once(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    x = torch.randn(3, 7, 600).to(dtype)
    got = PRODUCTS[name](x.to("xpu"))
    want = PRODUCTS[name](x.double())
    assert (got.dtype, got.shape) == (dtype, want.shape)
    rounding = torch.finfo(dtype).eps
    torch.testing.assert_close(got.cpu().double(), want, rtol=rounding / 1.9, atol=1e-4)


@pytest.mark.parametrize("dtype", HALVES)
def test_what_is_added_nought_times_is_not_read(dtype: torch.dtype) -> None:
    x = torch.ones(4, 4, dtype=dtype, device="xpu")
    unread = torch.full_like(x, float("nan"))
    assert torch.equal(torch.addmm(unread, x, x, beta=0), x * 4)


@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16])
def test_types_that_torch_refuses(other: torch.dtype) -> None:
    x = torch.ones(4, 4, dtype=torch.half, device="xpu")
    with pytest.raises(RuntimeError, match=r"dtype|same"):
        torch.mm(x, x.to(other))
    with pytest.raises(RuntimeError, match=r"dtype|same|type"):
        torch.mm(x, x, out=torch.empty(4, 4, dtype=other, device="xpu"))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_halves_are_multiplied_in_fp32(dtype: torch.dtype) -> None:
    """CPUs without fp16 instructions take up to 300 times as long for products of fp16."""
    x = torch.ones(64, 64, device="xpu", dtype=dtype)
    torch.mm(x, x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        torch.mm(x, x)
    conversions = [event.name for event in seen.events()].count("aten::_to_copy")
    assert conversions == (0 if dtype == torch.float32 else 3)  # both factors, and the result
