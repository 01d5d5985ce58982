"""Gradients of group norm are right whatever the strides of its input and of what comes back."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")

INPUTS = {
    "rows": lambda: torch.randn(2, 6, 5),
    "images": lambda: torch.randn(2, 6, 4, 3),
    "channels_last": lambda: torch.randn(2, 6, 4, 3).to(memory_format=torch.channels_last),
    "volumes_channels_last": lambda: torch.randn(2, 6, 4, 3, 2).to(
        memory_format=torch.channels_last_3d),
    "turned": lambda: torch.randn(2, 4, 6).mT,
}
LOSSES = {
    "sum": lambda y: y.sum(),
    "spread": lambda y: y.select(-1, 0).square().sum() + y.sum(-1).square().sum(),
    "turned": lambda y: (y.movedim(1, -1).contiguous() ** 3).sum(),
    "as_rows": lambda y: (y.contiguous() ** 3).sum(),
    "as_channels_last": lambda y: (y.movedim(1, -1).contiguous().movedim(-1, 1) ** 3).sum(),
}


def gradients(x: Any, loss: str, device: str, dtype: Any) -> list[Any]:
    placed = [each.to(device, dtype).detach().requires_grad_() for each in (
        x, torch.linspace(0.5, 2, 6), torch.linspace(-1, 1, 6))]
    y = torch.nn.functional.group_norm(placed[0], 3, *placed[1:])
    return [each.cpu() for each in torch.autograd.grad(LOSSES[loss](y), placed)]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", INPUTS)
def test_gradients(name: str, loss: str) -> None:
    torch.manual_seed(3)
    x = INPUTS[name]()
    got = gradients(x, loss, "xpu", torch.float32)
    want = gradients(x, loss, "cpu", torch.float64)
    for each, other in zip(got, want, strict=True):
        torch.testing.assert_close(each, other.float(), rtol=1e-4, atol=1e-4)
