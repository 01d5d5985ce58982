"""Time kernels on the simulator, and on any device without torch.

On the simulator a launch is expensive, and equal launches take equal time.  A simulated device has
a clock that predicts the time of a real one.  While a launch is only timed, the clock counts it,
and the kernel does not run.  Without torch, this module provides the part of `torch.xpu` that
Triton's benchmarks use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from triton_xe.runtime.device import Clock, Device

SMALLEST_MS = 1e-6
"""Lower limit of a time, because callers divide by it."""
DIGITS = 9
"""Digits of milliseconds, because the clock counts picoseconds.

Equal predictions are thus equal times, and an autotuner takes the first of their configurations.
"""


def bench_simulated(
    kernel_call: Callable[[], Any],
    *,
    clock: Clock | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Measure one call in milliseconds, after one that compiles.

    Parameters and result are those of `triton.testing.do_bench`.  All quantiles are equal, because
    there is one measurement.  With the device's clock no kernel runs; without one, both calls run.
    """
    elapsed = max(_once(kernel_call, clock), SMALLEST_MS)
    if quantiles is not None:
        return elapsed if len(quantiles) == 1 else [elapsed] * len(quantiles)
    return [elapsed] if return_mode == "all" else elapsed


def _once(kernel_call: Callable[[], Any], clock: Clock | None) -> float:
    if clock is None:
        kernel_call()
        begin = time.perf_counter()
        kernel_call()
        return (time.perf_counter() - begin) * 1e3
    return round(clock.time_of(kernel_call), DIGITS)


class BenchInterface:
    """Replaces `torch.xpu`, or its substitute, during one run of `triton.testing.do_bench`.

    That function runs its subject once, and estimates its time over five more runs.  Then it
    repeats it for a tenth of a second according to the estimate.  Here the device's clock records
    the five runs and all later ones.  The estimate is so large that one repetition is enough.
    """

    def __init__(self, interface: Any, clock: Clock) -> None:
        self._interface = interface
        self._clock = clock
        self._events = 0
        clock.dry = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._interface, name)

    def Event(self, enable_timing: bool = True) -> ClockEvent:
        self._clock.dry = is_benchmarking
        self._events += 1
        return ClockEvent(self._clock, is_estimate=self._events <= 2)


class ClockEvent:
    """A point in the time of a device's clock."""

    ESTIMATE_MS = 1e6

    def __init__(self, clock: Clock, *, is_estimate: bool) -> None:
        self._clock = clock
        self._is_estimate = is_estimate
        self._ms = 0.0

    def record(self) -> None:
        self._ms = self._clock.now_ms()

    def elapsed_time(self, end: ClockEvent) -> float:
        """Milliseconds from here to `end`; for the estimate, more than a benchmark repeats for."""
        return self.ESTIMATE_MS if self._is_estimate else round(end._ms - self._ms, DIGITS)


def is_benchmarking() -> bool:
    """True if `triton.testing.do_bench` is running in this thread."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_do_bench(frame):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def is_do_bench(frame: FrameType) -> bool:
    return frame.f_code.co_name == "do_bench" and frame.f_globals["__name__"] == "triton.testing"


class DeviceInterface:
    """Replaces `torch.xpu` if the program does not use torch: one device with its own queue."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def current_device(self) -> int:
        return int(self.device.index)

    def synchronize(self) -> None:
        self.device.synchronize()

    def Event(self, enable_timing: bool = True) -> DeviceEvent:
        return DeviceEvent(self.device)


class DeviceEvent:
    """A point in the device's queue, with the device's time; it must be recorded before use."""

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
    """Memory as large as the last-level cache; `zero_` evicts everything else from it."""

    def __init__(self, device: Device, nbytes: int) -> None:
        self._device = device
        self._buffer = device.allocate(nbytes)

    def zero_(self) -> None:
        self._device.fill(self._buffer.pointer, 0, self._buffer.nbytes)
