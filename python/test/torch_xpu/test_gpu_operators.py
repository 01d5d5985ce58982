"""Operators that torch's XPU build has and its CPU build has not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize(("bins", "low", "high"), [(5, 0, 0), (7, 3, 52), (49, 0, 49), (3, 9, 10)])
def test_histogram_of_integers(dtype: torch.dtype, bins: int, low: int, high: int) -> None:
    torch.manual_seed(bins)
    values = torch.randint(0, 60, (200,)).to(dtype)
    counts = torch.histc(values.to("xpu"), bins, low, high)
    assert counts.dtype == dtype
    ends = (low, high) if low != high else (int(values.min()), int(values.max()))
    inside = [int(v) for v in values if ends[0] <= v <= ends[1]]
    want = np.bincount([min((v - ends[0]) * bins // (ends[1] - ends[0]), bins - 1) for v in inside],
                       minlength=bins)
    assert counts.tolist() == want.tolist()
    out = torch.empty(0, dtype=dtype, device="xpu")
    torch.histc(values.to("xpu"), bins, low, high, out=out)
    assert out.tolist() == want.tolist()


def test_histogram_of_equal_integers() -> None:
    assert torch.histc(torch.full((4,), 7, device="xpu"), 2).tolist() == [0, 4]


@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12),
                    reason="torch before 2.12 has Fourier transforms of halves for CUDA alone")
@pytest.mark.parametrize("name", "fft ifft rfft irfft hfft ihfft fft2 irfft2".split())
def test_fourier_transforms_of_halves(name: str) -> None:
    x = torch.randn(8, 8, dtype=torch.half)
    got = getattr(torch.fft, name)(x.to("xpu"))
    want = getattr(torch.fft, name)(x.float())
    assert got.dtype in (torch.half, torch.complex32)
    wide = torch.complex64 if got.is_complex() else torch.float
    torch.testing.assert_close(got.cpu().to(wide), want, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
def test_products_with_a_wider_result(name: str) -> None:
    shape = (2, 4, 8) if "bmm" in name else (4, 8)
    left = torch.randn(shape, dtype=torch.bfloat16, device="xpu")
    right = left.mT.contiguous()
    added = [torch.ones((*left.shape[:-1], 4), dtype=torch.bfloat16, device="xpu")]
    arguments = (added if "add" in name else []) + [left, right]
    got = getattr(torch, name)(*arguments, out_dtype=torch.float32)
    assert got.dtype == torch.float32
    want = getattr(torch, name)(*(x.cpu().float() for x in arguments))
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12),
                    reason="scales of rows on the CPU came with torch 2.12")
@pytest.mark.parametrize("by_row", [False, True])
def test_scaled_products_are_computed_in_floats(
    by_row: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(int(by_row))
    a, b = (torch.randn(64, 64).to(torch.float8_e4m3fn) for _ in range(2))
    scales = (torch.rand(64, 1), torch.rand(1, 64)) if by_row else (torch.rand(()), torch.rand(()))
    bias = torch.randn(64).bfloat16()
    placed = [x.to("xpu") for x in (a, b, *scales, bias)]
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        got = torch._scaled_mm(placed[0], placed[1].t(), *placed[2:], out_dtype=torch.bfloat16)
    assert "f8_e4m3" not in capfd.readouterr().out  # oneDNN: a hundred times as slow on some CPUs
    want = (a.float() * scales[0]) @ (b.t().float() * scales[1]) + bias.float()
    torch.testing.assert_close(got.cpu().float(), want, rtol=1e-2, atol=5e-2)
    before = torch._C._get_mkldnn_enabled()
    with pytest.raises((RuntimeError, ValueError)):
        torch._scaled_mm(placed[0], placed[1][:, :32].t(), *placed[2:])
    assert torch._C._get_mkldnn_enabled() == before


def test_weights_of_four_bits() -> None:
    torch.manual_seed(0)
    codes = torch.randint(0, 16, (24, 64), dtype=torch.uint8)
    scale, zeros = torch.rand(24, 2) + 0.5, torch.randint(0, 16, (24, 2), dtype=torch.int8)
    packed = torch.ops.aten._convert_weight_to_int4pack(
        (codes[:, ::2] | codes[:, 1::2] << 4).to("xpu"), 8)
    assert packed.shape == (24, 8)
    x = torch.randn(5, 64)
    got = torch.ops.aten._weight_int4pack_mm_with_scales_and_zeros(
        x.to("xpu"), packed, 32, scale.T.contiguous().to("xpu"), zeros.T.contiguous().to("xpu"))
    each = lambda values: values.repeat_interleave(32, 1)  # noqa: E731
    torch.testing.assert_close(got.cpu(), x @ ((codes - each(zeros)) * each(scale)).T)


def test_in_place_views_while_tracing() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.unsqueeze_(1).transpose_(0, 2).squeeze_().t_() * 2

    x = torch.randn(3, 4, device="xpu")
    compiled = torch.compile(change, backend="aot_eager")
    torch.testing.assert_close(compiled(x), change(x))
    exported = torch.export.export(torch.nn.Identity(), (x,)).module()
    assert exported(x).shape == (3, 4)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize(("name", "shape", "arguments"), [
    ("avg_pool3d", (2, 3, 4, 4, 4), (2,)),
    ("multi_margin_loss", (3, 5), (torch.tensor([1, 0, 4]),)),
    ("multilabel_margin_loss", (2, 4), (torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]]),)),
    ("interpolate", (1, 2, 6, 6), ((3, 4), None, "bilinear", None, None, True))])
def test_operators_of_halves(
        name: str, shape: tuple[int, ...], arguments: tuple[object, ...],
        dtype: torch.dtype) -> None:
    operator = getattr(torch.nn.functional, name)
    wide = torch.randn(shape).to(dtype).float().requires_grad_()
    x = wide.detach().to("xpu", dtype).requires_grad_()
    there = [each.to("xpu") if isinstance(each, torch.Tensor) else each for each in arguments]
    got, want = operator(x, *there), operator(wide, *arguments)
    got.sum().backward()
    want.sum().backward()
    assert got.dtype == x.grad.dtype == dtype
    torch.testing.assert_close(got.cpu(), want.to(dtype))
    torch.testing.assert_close(x.grad.cpu(), wide.grad.to(dtype), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("operator", [torch.rrelu, torch.rrelu_])
def test_leaky_slopes_of_halves_are_random_and_those_of_the_gradient(
        operator: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    x = torch.linspace(-4, 3, 70, device="xpu").to(dtype).requires_grad_()
    y = operator(x * 1, 0.25, 0.5, True)
    y.sum().backward()
    slopes = (y / x).detach().float().cpu()
    below = x.cpu() < 0
    assert y.dtype == x.grad.dtype == dtype
    assert ((slopes >= 0.24) & (slopes <= 0.51))[below].all()
    assert len(slopes[below].unique()) > 20
    assert (slopes[~below] == 1).all()
    torch.testing.assert_close(x.grad.float().cpu(), slopes, rtol=2e-2, atol=0)


COMPLEX_HALVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{name: getattr(torch, name) for name in (
        "acos acosh angle asin asinh atan atanh cos cosh exp log prod rsqrt sigmoid sin sinh "
        "sqrt square sum tan tanh trace").split()},
    "div": lambda x: x / x.mT,
    "div_": lambda x: x.clone().div_(3),
    "div by half": lambda x: x / x.real,
    "div by float": lambda x: x / x.real.float(),
    "div by complex64": lambda x: x / x.to(torch.complex64),
    "pow": lambda x: x ** x.mT,
    "pow of a number": lambda x: 2 ** x,
    "pow_": lambda x: x.clone().pow_(2.5),
    "lerp": lambda x: torch.lerp(x, x.mT, 0.25),
    "logaddexp": lambda x: torch.logaddexp(x, x.mT),
    "out": lambda x: torch.sum(x, 1, out=x.new_empty(0)),
    "sum of halves": lambda x: x.real.sum(0, dtype=x.dtype),
    "sum in complex64": lambda x: x.sum(0, dtype=torch.complex64),
    "out of complex64": lambda x: torch.sin(x, out=x.new_empty((4, 4), dtype=torch.complex64)),
    "conjugated": lambda x: x.conj().sin(),
    "strided": lambda x: x[::2].t().cos(),
}


@pytest.mark.parametrize("name", COMPLEX_HALVES)
def test_complex_halves_are_computed_in_complex64(name: str) -> None:
    torch.manual_seed(len(name))
    function, x = COMPLEX_HALVES[name], torch.randn(4, 4, dtype=torch.complex64).to(torch.complex32)
    got, want = function(x.to("xpu")), function(x.to(torch.complex64))
    mixed = name in ("div by float", "div by complex64", "sum in complex64", "out of complex64")
    narrow = torch.half if not want.is_complex() else torch.complex64 if mixed else torch.complex32
    assert (got.dtype, got.shape, got.stride()) == (narrow, want.shape, want.stride())
    wide = torch.complex64 if want.is_complex() else torch.float
    assert torch.equal(got.cpu().to(wide), want.to(narrow).to(wide))


@pytest.mark.parametrize("name", "div exp lerp pow prod sigmoid sin sqrt sum tanh".split())
def test_gradients_of_complex_halves(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4, dtype=torch.complex64).to(torch.complex32)
    gradients = []
    for leaf in (x.to("xpu"), x.to(torch.complex64)):
        leaf.requires_grad_()
        COMPLEX_HALVES[name](leaf).abs().sum().backward()
        gradients.append(leaf.grad.cpu().to(torch.complex64))
    torch.testing.assert_close(*gradients, rtol=2e-2, atol=2e-2)


def test_complex_halves_beyond_their_range_are_infinite() -> None:
    x = torch.tensor([20.0], dtype=torch.complex64).to(torch.complex32).to("xpu")
    assert torch.isinf(x.exp()).item()
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, x + 1)


def test_sums_without_nan_of_complex_numbers() -> None:
    x = torch.tensor([[1 + 2j, complex("nan")], [complex(0, float("nan")), 3j]]).to("xpu")
    x.requires_grad_()
    assert x.nansum().item() == 1 + 5j
    assert x.nansum(1).tolist() == [1 + 2j, 3j]
    out = torch.empty(0, dtype=x.dtype, device="xpu")
    assert torch.nansum(x.detach(), 0, out=out).tolist() == [1 + 2j, 3j]
    x.nansum().real.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1, 0], [0, 1]]


def test_what_xpu_refuses_of_complex_halves_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="ComplexHalf"):
        torch.ones(2, dtype=torch.complex32, device="xpu").reciprocal()


def rounded_once(self: torch.Tensor, part: torch.Tensor, value: float) -> torch.Tensor:
    """`self + value * part`; products of two floats are exact in doubles."""
    factor = torch.tensor(value, dtype=torch.float32).double()
    return (self.double() + factor * part.double()).float()


@pytest.mark.parametrize("value", [1, 2.5, 1 - 0.999])
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_what_is_added_to_floats_is_rounded_once(name: str, value: float) -> None:
    torch.manual_seed(0)
    self, left, right = (torch.randn(3, 64, 64)).unbind()
    wide = left.double() if value == 1 and name == "addcmul" else left
    want = rounded_once(self, wide * right if name == "addcmul" else left / right, value)
    there = [x.to("xpu") for x in (self, left, right)]
    out = torch.empty(64, 64, device="xpu")
    getattr(torch, name)(*there, value=value, out=out)
    lists = [[x.clone(), x[:5].clone()] for x in there]
    of_list = getattr(torch, f"_foreach_{name}")(*lists, value=value)
    getattr(torch, f"_foreach_{name}_")(*lists, value=value)
    for got in (getattr(torch, name)(*there, value=value), out,
                getattr(there[0].clone(), f"{name}_")(*there[1:], value=value),
                of_list[0], lists[0][0]):
        assert got.cpu().equal(want)
    for got in (of_list[1], lists[0][1]):
        assert got.cpu().equal(want[:5])


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_what_is_added_follows_shapes_types_and_gradients(name: str) -> None:
    operator = getattr(torch, name)
    for types in ((torch.float, torch.half, torch.float), (torch.double,) * 3):
        at_home = [torch.rand(shape).add(1).to(kind).requires_grad_()
                   for shape, kind in zip(((3, 1), (4,), (2, 1, 1)), types, strict=True)]
        there = [x.detach().to("xpu").requires_grad_() for x in at_home]
        want, got = operator(*at_home, value=3), operator(*there, value=3)
        torch.testing.assert_close(got.cpu(), want)
        want.sum().backward()
        got.sum().backward()
        for mine, theirs in zip(there, at_home, strict=True):
            torch.testing.assert_close(mine.grad.cpu(), theirs.grad)
    one, row = torch.ones(1, device="xpu"), torch.ones(4, device="xpu")
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        getattr(one, f"{name}_")(row, row)
    with pytest.raises(RuntimeError, match="single memory location"):
        getattr(one.expand(4), f"{name}_")(row, row)


@pytest.fixture
def tf32() -> Iterator[None]:
    before = torch.backends.mkldnn.allow_tf32
    torch.backends.mkldnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.mkldnn.allow_tf32 = before


def in_tf32(values: torch.Tensor) -> torch.Tensor:
    """The nearest numbers with ten bits of mantissa, as doubles."""
    mantissa, exponent = torch.frexp(values.double())
    return torch.ldexp((mantissa * 2**11).round(), exponent - 11)


def conv_and_gradients(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    inputs = [each.detach().requires_grad_() for each in (x, w, b)]
    out = torch.nn.functional.conv1d(*inputs)
    got = torch.autograd.grad(out, inputs, torch.ones_like(out))
    return torch.cat([each.flatten() for each in (out, *got)])


PRODUCTS_IN_TF32: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "mm": (torch.mm, [(3, 40), (40, 5)]),
    "transposed": (lambda a, b: a.t() @ b, [(40, 3), (40, 5)]),
    "bmm": (torch.bmm, [(2, 3, 40), (2, 40, 5)]), "mv": (torch.mv, [(3, 40), (40,)]),
    "out": (lambda a, b: torch.mm(a, b, out=torch.empty((3, 5), dtype=a.dtype, device=a.device)),
            [(3, 40), (40, 5)]),
    "addmm": (lambda a, b, c: torch.addmm(c, a, b), [(3, 40), (40, 5), (3, 5)]),
    "linear": (torch.nn.functional.linear, [(3, 40), (5, 40), (5,)]),
    "conv": (conv_and_gradients, [(2, 3, 9), (4, 3, 2), (4,)])}


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("name", PRODUCTS_IN_TF32)
def test_products_in_tf32(name: str) -> None:
    torch.manual_seed(5)
    function, shapes = PRODUCTS_IN_TF32[name]
    operands = [torch.randn(shape) for shape in shapes]
    got = function(*(each.to("xpu") for each in operands)).cpu().double()
    rounded = [*map(in_tf32, operands[:2]), *(each.double() for each in operands[2:])]
    torch.testing.assert_close(got, function(*rounded), rtol=1e-6, atol=4e-6)
    assert (got - function(*(each.double() for each in operands))).abs().max() > 1e-4


def test_products_are_exact_unless_tf32_is_allowed() -> None:
    assert torch.backends.mkldnn.allow_tf32 is False
    x = torch.randn(8, 8)
    assert torch.equal((x.to("xpu") @ x.to("xpu")).cpu(), x @ x)
    with pytest.raises(TypeError, match="expects a bool, but got int"):
        torch._C._set_onednn_allow_tf32(1)


@pytest.mark.usefixtures("tf32")
def test_numbers_that_tf32_does_not_round() -> None:
    x = torch.tensor([[float("inf"), float("nan"), -0.0, 1 + 2**-10, 3e-39]], device="xpu").t()
    got = x.mm(torch.ones(1, 1, device="xpu")).flatten().tolist()
    assert got[0] == float("inf")
    assert got[1] != got[1]
    assert got[2:4] == [0.0, 1 + 2**-10]


@pytest.mark.usefixtures("tf32")
@pytest.mark.skipif(not hasattr(torch.xpu, "XPUGraph"), reason="torch 2.11 brings graphs")
def test_a_replay_multiplies_as_its_capture_did() -> None:
    x = torch.randn(8, 8, device="xpu")
    want = x @ x
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        got = x @ x
    torch.backends.mkldnn.allow_tf32 = False
    graph.replay()
    assert torch.equal(got, want)
    assert not torch.equal(got, x @ x)
