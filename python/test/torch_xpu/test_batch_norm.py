"""Batch norm returns the statistics that a GPU's does, and SyncBatchNorm has its parts."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("xpu")

TYPES = [torch.float64, torch.float32, torch.bfloat16]
CLOSE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 1e-2}


def statistics_type(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def running(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    mean, variance = torch.randn(2), torch.rand(2) + 0.5
    return mean.to("xpu", dtype), variance.to("xpu", dtype)


def normalized(x: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return ((x.to(scale.dtype) - mean[:, None]) * scale[:, None]).to(x.dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["native_batch_norm", "_native_batch_norm_legit",
                                  "_native_batch_norm_legit_no_training", "_batch_norm_no_update"])
def test_evaluation_returns_what_it_normalized_with(name: str, dtype: torch.dtype) -> None:
    x = torch.randn(3, 2, 4, device="xpu", dtype=dtype)
    mean, variance = running(dtype)
    training = () if "no_" in name else (False,)
    function = getattr(torch.ops.aten, name).default
    out, saved, scale = function(x, None, None, mean, variance, *training, 0.1, 1e-5)[:3]
    wide = statistics_type(dtype)
    assert saved.dtype == scale.dtype == wide
    assert torch.equal(saved, mean.to(wide))
    assert saved.data_ptr() != mean.data_ptr()
    torch.testing.assert_close(scale, (variance.to(wide) + 1e-5).rsqrt())
    torch.testing.assert_close(
        out, normalized(x, saved, scale), rtol=CLOSE[dtype], atol=CLOSE[dtype])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("overload", ["default", "no_stats"])
def test_training_measures_in_floats(overload: str, dtype: torch.dtype) -> None:
    x = torch.randn(64, 2, 4, device="xpu", dtype=dtype)
    mean, variance = before = running(dtype)
    given = () if overload == "no_stats" else (mean.clone(), variance.clone())
    function = getattr(torch.ops.aten._native_batch_norm_legit, overload)
    out, saved, scale = function(x, None, None, *given, True, 0.25, 1e-5)
    wide = x.to(statistics_type(dtype))
    assert saved.dtype == scale.dtype == wide.dtype
    torch.testing.assert_close(saved, wide.mean((0, 2)))
    torch.testing.assert_close(scale, (wide.var((0, 2), correction=0) + 1e-5).rsqrt())
    torch.testing.assert_close(
        out, normalized(x, saved, scale), rtol=CLOSE[dtype], atol=CLOSE[dtype])
    measured = wide.mean((0, 2)), wide.var((0, 2))
    for kept, old, new in zip(given, before, measured, strict=False):
        assert kept.dtype == dtype
        torch.testing.assert_close(kept, (0.75 * old + 0.25 * new).to(dtype))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["native_batch_norm", "_native_batch_norm_legit"])
def test_results_are_written_where_they_are_wanted(name: str, training: bool) -> None:
    x = torch.randn(5, 2, 4, device="xpu")
    arguments: tuple[Any, ...] = (None, None, *running(torch.float32), training, 0.1, 1e-5)
    outs = [torch.empty(0, device="xpu") for _ in range(3)]
    names = ("out", "save_mean", "save_invstd")
    got = getattr(torch.ops.aten, name).out(x, *arguments, **dict(zip(names, outs, strict=True)))
    assert all(a is b for a, b in zip(got, outs, strict=True))
    wants = getattr(torch.ops.aten, name).default(x, *arguments)
    for out, want in zip(outs, wants, strict=True):
        torch.testing.assert_close(out, want)


@pytest.mark.parametrize("training", [False, True])
def test_gradients_of_halves_follow_floats(training: bool) -> None:
    layer = torch.nn.BatchNorm1d(2).to("xpu", torch.bfloat16).train(training)
    x = torch.randn(64, 2, 4, device="xpu", dtype=torch.bfloat16, requires_grad=True)
    direction = torch.randn_like(x)
    got = torch.autograd.grad((layer(x) * direction).sum(), (x, layer.weight, layer.bias))
    wide = torch.nn.BatchNorm1d(2).to("xpu").train(training)
    y = x.detach().float().requires_grad_()
    want = torch.autograd.grad((wide(y) * direction).sum(), (y, wide.weight, wide.bias))
    for a, b in zip(got, want, strict=True):
        assert a.dtype == torch.bfloat16
        torch.testing.assert_close(a.float(), b, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", TYPES)
def test_parts_of_synchronized_batch_norm_make_one(dtype: torch.dtype) -> None:
    """A batch in two unequal parts, each as a process of SyncBatchNorm has it."""
    x = torch.randn(12, 2, 4, device="xpu", dtype=dtype)
    gradient = torch.randn_like(x)
    wide = statistics_type(dtype)
    weight, bias = (torch.randn(2, device="xpu", dtype=wide) for _ in range(2))
    mean, variance = running(wide)
    kept = mean.clone(), variance.clone()
    parts, gradients = x.split([4, 8]), gradient.split([4, 8])
    each = [torch.batch_norm_stats(part, 1e-5) for part in parts]
    counts = torch.tensor([16.0, 32.0], device="xpu", dtype=wide)
    means, scales = (torch.stack(column) for column in zip(*each, strict=True))
    saved, scale = torch.batch_norm_gather_stats_with_counts(
        x, means, scales, *kept, 0.25, 1e-5, counts)
    got = torch.cat([torch.batch_norm_elemt(p, weight, bias, saved, scale, 1e-5) for p in parts])
    sums = [torch.batch_norm_backward_reduce(g, p, saved, scale, weight, True, True, True)
            for g, p in zip(gradients, parts, strict=True)]
    total, product, of_weight, of_bias = (sum(column) for column in zip(*sums, strict=True))
    of_input = torch.cat([
        torch.batch_norm_backward_elemt(g, p, saved, scale, weight, total, product, counts.int())
        for g, p in zip(gradients, parts, strict=True)])

    leaves = [t.detach().cpu().to(wide).requires_grad_() for t in (x, weight, bias)]
    at_once = mean.cpu(), variance.cpu()
    want = torch.nn.functional.batch_norm(
        leaves[0], *at_once, *leaves[1:], training=True, momentum=0.25)
    wants = torch.autograd.grad(want, leaves, gradient.cpu().to(wide))
    close = {"rtol": CLOSE[dtype], "atol": CLOSE[dtype], "check_dtype": False}
    for a, b in zip((got, of_input, of_weight, of_bias, *kept),
                    (want, *wants, *at_once), strict=True):
        torch.testing.assert_close(a.cpu(), b, **close)
    assert (got.dtype, of_input.dtype) == (dtype, dtype)
