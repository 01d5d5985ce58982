"""C++ that Inductor writes, and packages of it, run their kernels on the simulated device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
pytestmark = pytest.mark.slow
IN_CPP = {"cpp_wrapper": True}


@triton.jit
def _scaled(x, out, n, by, is_negated, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < n) * by
    tl.store(out + at, tl.where(is_negated, -value, value), at < n)


def everything(x: Any, w: Any, at: Any, image: Any) -> tuple[Any, ...]:
    """Kernels of Inductor's and our own, and operators with all kinds of arguments."""
    y = torch.mm(x, w)
    scaled = torch.empty_like(y)
    if y.is_xpu:
        _scaled[(triton.cdiv(y.numel(), 64),)](y, scaled, y.numel(), 1.5, True, BLOCK=64)
    else:
        scaled = y * -1.5
    order, index = torch.sort(y, dim=1, stable=True, descending=True)
    q = y.view(1, 2, 4, -1)
    return (
        scaled, order, index, *y.topk(3), y.index_put((at,), torch.ones_like(y), accumulate=True),
        torch.addmm(w[0], x, w, beta=0.5, alpha=2), torch.bmm(x[None], w[None]),
        F.conv2d(image, image[:, :, :3, :3], stride=2, padding=1), torch.cdist(x, x),
        F.scaled_dot_product_attention(q, q, q, is_causal=True), F.fractional_max_pool2d(
            image, 2, output_size=3, _random_samples=torch.full((1, 3, 2), 0.3, device=x.device)),
        torch.searchsorted(order.flip(1).contiguous(), y, right=True), torch.histc(x, 8, -2, 2),
        y.cummax(1)[0], F.adaptive_max_pool2d(image, 4), torch.linalg.qr(x.T)[1].abs(),
        y[at], torch.repeat_interleave(y, 2, dim=0))


def given() -> tuple[Any, ...]:
    return (torch.randn(8, 16), torch.randn(16, 12), torch.tensor([1, 0, 1, 5, 7, 2, 2, 3]),
            torch.randn(1, 3, 9, 9))


def close(got: Any, want: Any) -> None:
    for each, other in zip(got, want, strict=True):
        assert each.device.type == "xpu"
        torch.testing.assert_close(each.cpu(), other, rtol=1e-4, atol=1e-4)


def on_xpu(values: Any) -> tuple[Any, ...]:
    return tuple(value.to("xpu") for value in values)


def test_compiled_to_cpp() -> None:
    arguments = given()
    compiled = torch.compile(everything, options=IN_CPP, fullgraph=True)
    close(compiled(*on_xpu(arguments)), everything(*arguments))
    again = given()
    close(compiled(*on_xpu(again)), everything(*again))


def test_a_kernel_is_given_a_view_of_another_type() -> None:
    def numbers(x: Any) -> tuple[Any, ...]:
        bits = torch.empty(x.shape, device=x.device, dtype=torch.int32)
        _scaled[(1,)](x, bits.view(torch.float32), x.numel(), 2.0, False, BLOCK=64)
        return bits, bits.view(torch.float32)

    x = torch.randn(40)
    got = torch.compile(numbers, options=IN_CPP)(x.to("xpu"))
    close(got, ((2 * x).view(torch.int32), 2 * x))


def test_training_in_cpp() -> None:
    def gradients(device: str, through: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(64, 5))
        x = torch.randn(2, 3, 6, 6)
        model = model.to(device)
        through(model)(x.to(device)).square().sum().backward()
        return [each.grad for each in model.parameters()]

    close(gradients("xpu", lambda m: torch.compile(m, options=IN_CPP)),
          gradients("cpu", lambda m: m))


def test_an_index_out_of_bounds_is_reported_in_cpp() -> None:
    compiled = torch.compile(lambda x, at: x[at] + 1, options=IN_CPP)
    x, at = torch.randn(5, device="xpu"), torch.tensor([1, 4], device="xpu")
    close([compiled(x, at)], [x.cpu()[at.cpu()] + 1])
    with pytest.raises(RuntimeError, match="index out of bounds"):
        compiled(x, at + 5)


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(16, 12))
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x: Any, at: Any, image: Any) -> Any:
        return tuple(each * self.scale.to(each.dtype) if each.is_floating_point() else each
                     for each in everything(x, self.rows, at, image))


_RUN = """
import sys
import torch
run = torch._inductor.aoti_load_package(sys.argv[1])
arguments, want = torch.load(sys.argv[2])
got = run(*(each.to("xpu") for each in arguments))
for each, other in zip(got, want, strict=True):
    torch.testing.assert_close(each.cpu(), other, rtol=1e-4, atol=1e-4)
    assert each.device.type == "xpu"
assert "triton" not in sys.modules or "triton_xe.lowering" not in sys.modules
print("equal")
"""


@pytest.mark.parametrize("options", [{}, {"aot_inductor.embed_kernel_binary": False}])
def test_a_package_is_loaded_by_another_process(tmp_path: Path, options: dict[str, Any]) -> None:
    x, _, at, image = given()
    model = _Model()
    want = model(x, at, image)
    placed = model.to("xpu")
    program = torch.export.export(placed, on_xpu((x, at, image)), strict=True)
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "made.pt2"), inductor_configs=options)
    torch.save(((x, at, image), [each.detach() for each in want]), tmp_path / "values.pt")
    done = subprocess.run(
        [sys.executable, "-c", _RUN, package, str(tmp_path / "values.pt")],
        capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
    assert "Warning" not in done.stderr
    assert "SYCL" not in done.stderr


def test_sizes_that_a_package_leaves_open(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 7), nn.Softmax(-1)).to("xpu")
    rows = torch.export.Dim("rows", min=2, max=1000)
    program = torch.export.export(
        model, (torch.randn(4, 6, device="xpu"),), dynamic_shapes=({0: rows},))
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "made.pt2"))
    run = torch._inductor.aoti_load_package(package)
    for count in (2, 33, 700):
        x = torch.randn(count, 6, device="xpu")
        torch.testing.assert_close(run(x).cpu(), model(x).cpu(), rtol=1e-4, atol=1e-5)
