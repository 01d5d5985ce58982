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


F = torch.nn.functional
GRID = torch.rand(2, 20, 20, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
ROUNDED_ONCE = {
    "average pools": lambda x: F.avg_pool2d(x, 5, 1, 2),
    "adaptive pools": lambda x: F.adaptive_avg_pool2d(x, (7, 5)),
    "largest of 2D windows": lambda x: F.max_pool2d(x, 5, 1, 2),
    "largest of 3D windows": lambda x: F.max_pool3d(x[None], 3, 1, 1),
    "reflected": lambda x: F.pad(x, (9, 9, 9, 9), "reflect"),
    "replicated": lambda x: F.pad(x, (15, 15, 5, 5), "replicate"),
    "windows": lambda x: F.unfold(x, 3),
    "sums of windows": lambda x: F.fold(x.reshape(2, 16, 256)[:, :9, :196], (16, 16), 3),
    "linear": lambda x: F.interpolate(x[0], scale_factor=9, mode="linear"),
    "trilinear": lambda x: F.interpolate(x[None], scale_factor=3, mode="trilinear"),
    "grid": lambda x: F.grid_sample(x, GRID.bfloat16().to(x), align_corners=False),
    "grid in 3D": lambda x: F.grid_sample(
        x[:, :, None], F.pad(GRID, (0, 1)).bfloat16().to(x)[:, None], align_corners=False),
    "index_select": lambda x: x.index_select(1, x.new_zeros(64).long()),
    "segments": lambda x: torch.segment_reduce(
        x.flatten(), "sum", lengths=torch.tensor([8000, 192], device=x.device)),
    "nll": lambda x: F.nll_loss(x.reshape(-1, 2), x.new_zeros(4096).long()),
}


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_kernels_and_their_gradients_round_once(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 16, 16, 16).to(dtype)

    def results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = x.detach().requires_grad_()
        out = ROUNDED_ONCE[name](leaf)
        weights = (torch.arange(out.numel(), device=out.device) % 13 / 8 - 0.75).to(out.dtype)
        return out, torch.autograd.grad(out, leaf, weights.view(out.shape))[0]

    for one, want in zip(results(inputs.to("xpu")), results(inputs.double()), strict=True):
        rounding = root_mean_square(want.to(dtype) - want)
        assert one.dtype == dtype
        assert root_mean_square(one.cpu() - want) <= 1.01 * rounding


def root_mean_square(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolutions_and_their_gradients_round_once(
    dtype: torch.dtype, transposed: bool, channels_last: bool
) -> None:
    convolution = torch.conv_transpose2d if transposed else torch.conv2d
    torch.manual_seed(0)
    sizes = (2, 16, 12, 12), (16, 16, 3, 3), (16,)
    x, weight, bias = (torch.randn(size).to(dtype) for size in sizes)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)

    def results(*inputs: torch.Tensor) -> list[torch.Tensor]:
        leaves = [each.detach().requires_grad_() for each in inputs]
        out = convolution(*leaves)
        weights = (torch.arange(out.numel(), device=out.device) % 13 / 8 - 0.75).to(dtype)
        return [out, *torch.autograd.grad(out, leaves, weights.view(out.shape).to(out.dtype))]

    got = results(x.to("xpu"), weight.to("xpu"), bias.to("xpu"))
    exact = results(x.double(), weight.double(), bias.double())
    for one, want in zip(got, exact, strict=True):
        rounding = root_mean_square(want.to(dtype) - want)
        assert one.dtype == dtype
        assert root_mean_square(one.cpu() - want) <= 1.05 * rounding
    assert got[0].stride() == convolution(x, weight, bias).stride()
