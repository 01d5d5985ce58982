"""Compiled functions here use the simulated device, one process, and a cache of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from triton_xe.runtime import selection


@pytest.fixture(autouse=True)
def inductor(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> (
        Iterator[None]):
    torch = pytest.importorskip("torch")
    if selection.select().kind != "sim" or selection.torch_build() != "other":
        pytest.skip("no simulated device")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    import torch._inductor.config as config

    torch._dynamo.reset()
    torch.manual_seed(0)
    with config.patch({"compile_threads": 1, "fx_graph_cache": False}):
        yield
