"""Timing kernels: on the simulator, where a launch is expensive and repeats alike, and on any
device without torch, with the part of `torch.xpu` that Triton's benchmarks use.

A simulated device has a clock that says what a card would need.  Launches that are only timed are
noted by that clock, and not run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from triton_xe.runtime.device import Device

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.clock import DeviceClock

SMALLEST_MS = 1e-6
"""Callers divide by the time."""


def bench_simulated(
    kernel_call: Callable[[], Any],
    *,
    clock: DeviceClock | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **_: Any,
) -> Any:
    """Milliseconds of one call, after one that compiles; shaped like `triton.testing.do_bench`.

    By the device's clock no kernel runs, without one both calls do.

    Answers one number without `quantiles`, else one per quantile; with one measurement they agree.
    """
    elapsed = max(_once(kernel_call, clock), SMALLEST_MS)
    if quantiles is not None:
        return elapsed if len(quantiles) == 1 else [elapsed] * len(quantiles)
    return [elapsed] if return_mode == "all" else elapsed


def _once(kernel_call: Callable[[], Any], clock: DeviceClock | None) -> float:
    if clock is None:
        kernel_call()
        begin = time.perf_counter()
        kernel_call()
        return (time.perf_counter() - begin) * 1e3
    return clock.time_of(kernel_call)


class BenchInterface:
    """Stands for `torch.xpu`, or what stands for it, in one run of `triton.testing.do_bench`.

    That function runs its subject once, estimates its time over five more runs, and repeats it for
    a tenth of a second by the time it estimated.  Here the five runs, and all after them, are noted
    by the device's clock; and the estimate is so large that one repetition will do.
    """

    def __init__(self, interface: Any, clock: DeviceClock) -> None:
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

    def __init__(self, clock: DeviceClock, *, is_estimate: bool) -> None:
        self._clock = clock
        self._is_estimate = is_estimate
        self._ms = 0.0

    def record(self) -> None:
        self._ms = self._clock.now_ms()

    def elapsed_time(self, end: ClockEvent) -> float:
        """Milliseconds from here to `end`; more than a benchmark would wait for an estimate."""
        return self.ESTIMATE_MS if self._is_estimate else end._ms - self._ms


def is_benchmarking() -> bool:
    """Whether `triton.testing.do_bench` is running in this thread."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_do_bench(frame):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def is_do_bench(frame: FrameType) -> bool:
    return frame.f_code.co_name == "do_bench" and frame.f_globals["__name__"] == "triton.testing"


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
