"""What a GPU sums in floats before it rounds to a half."""

from __future__ import annotations

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
