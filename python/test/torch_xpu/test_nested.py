"""Nested tensors, of which each part has a length of its own, are held as on a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("xpu")


def test_nested_tensors() -> None:
    parts = [torch.randn(3, 4), torch.randn(5, 4)]
    here = torch.nested.nested_tensor(parts)
    there = torch.nested.nested_tensor(parts, device="xpu", requires_grad=True)
    weight = torch.randn(6, 4)
    for f in (
            lambda x: x * 2 + x, lambda x: x.softmax(-1), lambda x: x.clone().mul_(3),
            lambda x: F.linear(x, weight.to(x.device)), lambda x: torch.empty_like(x).copy_(here)):
        made = f(there.detach())
        assert made.is_xpu
        for got, want in zip(made.unbind(), f(here).unbind(), strict=True):
            torch.testing.assert_close(got.cpu(), want)
    (there * there).to_padded_tensor(0.0).sum().backward()
    for got, want in zip(there.grad.cpu().unbind(), parts, strict=True):
        torch.testing.assert_close(got, want * 2)
    assert "device='xpu:0'" in repr(there)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_attention_of_nested_tensors(layout: torch.layout) -> None:
    """Each part has a length and two heads, in the order that the layout wants."""
    shapes = [(3, 2, 8), (5, 2, 8)] if layout == torch.jagged else [(2, 3, 8), (2, 5, 8)]
    x = torch.nested.nested_tensor([torch.randn(shape) for shape in shapes], layout=layout)

    def attention(x: torch.Tensor) -> torch.Tensor:
        heads = x.transpose(1, 2) if layout == torch.jagged else x
        return F.scaled_dot_product_attention(heads, heads, heads)

    for got, want in zip(attention(x.to("xpu")).unbind(), attention(x).unbind(), strict=True):
        torch.testing.assert_close(got.cpu(), want)


def test_an_encoder_that_leaves_padding_out() -> None:
    """In evaluation it makes a nested tensor of what the mask keeps."""
    model = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x, mask = torch.randn(2, 5, 16), torch.tensor([[0, 0, 0, 1, 1], [0] * 5]).bool()
    with torch.no_grad():
        want = model(x, src_key_padding_mask=mask)
        got = model.to("xpu")(x.to("xpu"), src_key_padding_mask=mask.to("xpu"))
    torch.testing.assert_close(got.cpu(), want)


def test_quantized_tensors_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="and is quantized"):
        torch.quantize_per_tensor(torch.randn(4, device="xpu"), 0.1, 0, torch.qint8)


def test_quantized_layers_are_refused_as_their_weights_are_packed_for_the_cpu() -> None:
    x = torch.randn(2, 4)
    layer = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 3)))
    assert layer(x).shape == (2, 3)
    with pytest.raises(NotImplementedError, match=r"'quantized::linear_dynamic'.* 'XPU' backend"):
        layer(x.to("xpu"))
