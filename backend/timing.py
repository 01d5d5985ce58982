"""Timing kernels: on the simulator, where a launch is expensive and repeats alike, and on any
device without torch, with the part of `torch.xpu` that Triton's benchmarks use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from triton_xe.runtime.device import Device

SMALLEST_MS = 1e-6
"""Callers divide by the time."""


def bench_simulated(
    kernel_call: Callable[[], Any],
    *,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Milliseconds of one launch, after one that compiles; shaped like `triton.testing.do_bench`.

    Answers one number without `quantiles`, else one per quantile; with one measurement they agree.
    """
    kernel_call()
    begin = time.perf_counter()
    kernel_call()
    elapsed = max((time.perf_counter() - begin) * 1e3, SMALLEST_MS)
    if quantiles is not None:
        return elapsed if len(quantiles) == 1 else [elapsed] * len(quantiles)
    return [elapsed] if return_mode == "all" else elapsed


class DeviceInterface:
    """Stands for `torch.xpu` where the program does not use torch: one device, its own queue."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def current_device(self) -> int:
        return int(self.device.index)

    def synchronize(self) -> None:
        self.device.synchronize()

    def Event(self, enable_timing: bool = True) -> DeviceEvent:
        return DeviceEvent(self.device)


class DeviceEvent:
    """A point in the device's queue, with the device's time; `record` it before anything else."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._mark: Any = None

    def record(self) -> None:
        self._mark = self._device.record_event()

    def elapsed_time(self, end: DeviceEvent) -> float:
        """Milliseconds from here to `end`, never 0."""
        if self._mark is None or end._mark is None:
            raise ValueError("elapsed_time needs two events that were recorded")
        return max(self._device.elapsed_ms(self._mark, end._mark), SMALLEST_MS)


class DeviceCache:
    """Memory as large as the last-level cache; `zero_` pushes everything else out of it."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self._device = device
        self._buffer = device.allocate(nbytes)

    def zero_(self) -> None:
        self._device.fill(self._buffer.pointer, 0, self._buffer.nbytes)
