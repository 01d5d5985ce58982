"""What a GPU sums in floats before it rounds to a half."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")

COUNT = 5000
"""Ones: a sum of halves stops at 2048, one of bfloat16 at 256."""


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("name", ["index_put", "index_put_", "_unsafe_index_put"])
def test_values_put_at_one_index(name: str, dtype: torch.dtype) -> None:
    to = torch.zeros(3, dtype=dtype, device="xpu")
    indices = (torch.ones(COUNT, dtype=torch.long, device="xpu"),)
    ones = torch.ones(COUNT, dtype=dtype, device="xpu")
    got = getattr(torch.ops.aten, name)(to, indices, ones, True)
    want = torch.tensor([0, COUNT, 0], dtype=dtype)
    assert torch.equal(got.cpu(), want)
    assert torch.equal(to.cpu(), want if name.endswith("_") else torch.zeros_like(want))


def test_values_of_another_type_are_refused() -> None:
    to = torch.zeros(3, dtype=torch.half, device="xpu")
    with pytest.raises(RuntimeError, match="dtypes match"):
        to.index_put_((torch.tensor([1], device="xpu"),), torch.ones(1, device="xpu"), True)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_gradients_of_what_is_read_often(dtype: torch.dtype) -> None:
    table = torch.zeros(3, 2, dtype=dtype, device="xpu", requires_grad=True)
    indices = torch.ones(COUNT, dtype=torch.long, device="xpu")
    want = torch.tensor([[0, 0], [COUNT, COUNT], [0, 0]], dtype=dtype)
    for read in (table[indices], torch.nn.functional.embedding(indices, table)):
        (gradient,) = torch.autograd.grad(read, table, torch.ones_like(read))
        assert torch.equal(gradient.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_gradients_of_bags(dtype: torch.dtype) -> None:
    table = torch.zeros(3, 2, dtype=dtype, device="xpu", requires_grad=True)
    bags = torch.ones(COUNT, 1, dtype=torch.long, device="xpu")
    read = torch.nn.functional.embedding_bag(bags, table, mode="sum")
    (gradient,) = torch.autograd.grad(read, table, torch.ones_like(read))
    assert torch.equal(gradient.cpu(), torch.tensor([[0, 0], [COUNT] * 2, [0, 0]], dtype=dtype))


def gradients(inputs: list[torch.Tensor]) -> Any:
    x, weight, bias = leaves = [x.detach().requires_grad_() for x in inputs]
    out = torch.nn.functional.layer_norm(x, (6,), weight, bias)
    weights = (torch.arange(out.numel(), device=out.device) % 7 / 4).view(out.shape)
    return torch.autograd.grad(out, leaves, weights.to(out.dtype))


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_gradients_of_layer_norm(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(shape).to("xpu", dtype) for shape in ((COUNT, 6), (6,), (6,))]
    want = gradients([x.cpu().double() for x in inputs])
    for mine, exact in zip(gradients(inputs), want, strict=True):
        assert mine.dtype == dtype
        error = (mine.cpu().double() - exact).abs().max() / exact.abs().max()
        assert error < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("parameters", ["given", "none", "wide"])
def test_layer_norm_returns_floats_that_it_measured(dtype: torch.dtype, parameters: str) -> None:
    x = torch.randn(5, 8, device="xpu").to(dtype)
    weight = None if parameters == "none" else x[0].float() if parameters == "wide" else x[0]
    out, mean, scale = torch.native_layer_norm(x, (8,), weight, weight, 1e-5)
    assert out.dtype == dtype
    assert mean.dtype == scale.dtype == torch.float32
    torch.testing.assert_close(mean, x.float().mean(1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
def test_products(dtype: torch.dtype) -> None:
    x = torch.full((COUNT,), 1 + torch.finfo(dtype).eps, device="xpu", dtype=dtype)
    x[::2] = 1 - torch.finfo(dtype).eps
    want = x.cpu().double().prod()
    for got in (x.prod(), x.prod(0), x.prod(dtype=dtype), x.view(1, -1).prod(1, keepdim=True)[0, 0],
                torch.prod(x, 0, out=torch.empty((), dtype=dtype, device="xpu"))):
        assert got.dtype == dtype
        assert got.cpu() == want.to(dtype)
    assert x.prod(dtype=torch.float64).cpu() == pytest.approx(want)
    assert x.prod(dtype=torch.float32).dtype == torch.float32
