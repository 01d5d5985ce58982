"""Triton's benchmarks on the device's clock, without torch, and its launcher."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import triton.testing
from triton.runtime import driver

from triton_xe.backend import devices
from triton_xe.backend.driver import XeDriver
from triton_xe.backend.launcher import XeLauncher
from triton_xe.backend.timing import DeviceInterface
from triton_xe.errors import UnsupportedError
from triton_xe.runtime import time_ms
from triton_xe.runtime.simulator.interface import SimulatedDevice
from triton_xe.tools.sample_kernel import to_spirv, vector_add


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def test_do_bench_takes_the_devices_time(
    fake: Any, without_torch: None, choose: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choose("gpu")
    (device,) = devices.devices()
    monkeypatch.setattr(driver, "_active", XeDriver())
    kernel, memory = device.load(to_spirv(vector_add()), "vector_add"), device.allocate(64)
    values = (memory.pointer,) * 3

    def launch() -> None:
        device.launch(kernel, (1, 1, 1), (*values, 4))

    # each event of the fake driver is 1000 ticks of 1000 ns after the one before
    assert triton.testing.do_bench(launch, warmup=1, rep=10) == pytest.approx(1.0)
    assert len(fake.launches) > 10
    assert "zeCommandListAppendMemoryFill" in fake.calls
    assert time_ms(device, launch) == pytest.approx(1.0)


def test_the_simulator_has_the_same_interface() -> None:
    interface = DeviceInterface(SimulatedDevice("bmg"))
    start, end = interface.Event(enable_timing=True), interface.Event()
    with pytest.raises(ValueError, match="events that were recorded"):
        start.elapsed_time(end)
    start.record()
    end.record()
    interface.synchronize()
    assert start.elapsed_time(end) > 0
    assert interface.current_device() == 0


def test_the_sanitizer_is_refused_on_a_real_device(
    fake: Any, choose: Callable[[str], None]
) -> None:
    choose("gpu")
    metadata = SimpleNamespace(name="k", sanitize=True)
    with pytest.raises(UnsupportedError, match="'k': sanitize=True is for simulated devices"):
        XeLauncher(SimpleNamespace(signature={"n": "i32"}), metadata)
