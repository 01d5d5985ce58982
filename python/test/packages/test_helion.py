"""Helion's autotuner, as it is: `make test-packages` installs Helion for it."""

import pytest

torch = pytest.importorskip("torch")
helion = pytest.importorskip(
    "helion", reason="Helion is not installed; `make test-packages` installs it")
language = pytest.importorskip("helion.language")
metrics = pytest.importorskip("helion.autotuner.metrics")


@helion.kernel(autotune_effort="quick")
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for rows in language.tile(x.size(0)):
        out[rows, :] = torch.softmax(x[rows, :].to(torch.float32), dim=1).to(x.dtype)
    return out


def test_its_autotuner_tunes_a_softmax_and_no_configuration_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("HELION_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HELION_CAP_REBENCHMARK_REPEAT", "3")
    monkeypatch.setenv("HELION_AUTOTUNE_BUDGET_SECONDS", "60")
    monkeypatch.setenv("HELION_AUTOTUNE_COMPILE_TIMEOUT", "600")  # of the host, however busy
    monkeypatch.setenv("HELION_AUTOTUNE_BENCHMARK_TIMEOUT", "600")
    found = []
    monkeypatch.setattr(metrics, "_post_autotune_hooks", [found.append])
    x = torch.randn(256, 256, device="xpu")
    torch.testing.assert_close(softmax(x).cpu(), torch.softmax(x.cpu(), 1))
    (tuned,) = found
    assert tuned.num_configs_tested > 10
    assert not tuned.num_compile_failures
    assert not tuned.num_worker_failures
    assert not tuned.num_accuracy_failures
