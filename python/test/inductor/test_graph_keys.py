"""Torch keeps graphs by what compiles their kernels, whichever build of torch it is."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from python.test.counting import watched
from triton_xe.runtime import torch_xpu
from triton_xe.runtime.torch_xpu import adjustments, graph_keys

torch = pytest.importorskip("torch")


def key() -> str:
    """A key like torch's, made anew."""
    module = SimpleNamespace(CacheBase=SimpleNamespace(get_system=lambda: {"hash": "torch's own"}))
    graph_keys.adjust(module)
    return str(module.CacheBase.get_system()["hash"])


def test_a_key_names_device_and_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    first = key()
    assert first == key()
    monkeypatch.setattr(driver.active, "get_current_target", lambda: GPUTarget("xpu", "pvc", 16))
    second = key()
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")  # a part of Triton's own keys
    assert len({"torch's own", first, second, key()}) == 4


def test_without_a_device_or_a_driver_the_key_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise RuntimeError("0 active drivers")

    with monkeypatch.context() as patch:
        patch.setattr(driver.active, "get_current_target", no_driver)
        assert key() == "torch's own"
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    assert key() == "torch's own"


def test_graphs_of_this_torch_are_kept_by_it() -> None:
    import torch._inductor.codecache as codecache

    made = codecache.CacheBase.get_system
    graph_keys.adjust(codecache)
    assert codecache.CacheBase.get_system is made
    assert made()["hash"] != made.torchs_own()["hash"]


def test_a_real_xpu_build_is_adjusted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_has_xpu", True)
    with watched(adjustments.adjust) as calls:
        torch_xpu.autoload()
    (names,) = [call.arguments.popitem()[1] for call in calls]
    assert [*names] == ["torch._inductor.codecache"]
    assert "torch" in sys.modules
