"""The clock of a simulated device: the time that a real card is predicted to need.

Launches are only noted; the time model runs when the clock is read.  The clock starts at its first
reading, so that earlier launches are not counted.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from triton_xe import knobs
from triton_xe.collector import paused_collector
from triton_xe.hardware.target import Target
from triton_xe.model.rates import PRODUCTS, Rates
from triton_xe.runtime import native
from triton_xe.runtime.observers import OBSERVERS
from triton_xe.runtime.operator_traffic import SOURCES, Traffic

if TYPE_CHECKING:
    from triton_xe.model.time import Prediction
    from triton_xe.model.work import Issue
    from triton_xe.runtime.simulator.estimate.launch_work import TimedKernel
    from triton_xe.runtime.simulator.estimate.walk import Walk

    NativeIssue = Callable[[Any, TimedKernel, Walk, Issue], Issue]

_SMALLEST_MS = 1e-6
_DIGITS = 6
"""Digits of microseconds: times are whole picoseconds, and differ by the same at any time."""
_MOST_RECENT, _MOST_NOTED = 256, 4096


@dataclass
class _Noted:
    kernel: Any
    grid: tuple[int, int, int]
    arguments: Sequence[int | float]
    count: int = 0


class DeviceClock:
    """Time of one simulated device.

    >>> from triton_xe.hardware.target import target
    >>> clock = DeviceClock(target("bmg"))
    >>> clock.now_ms() < clock.now_ms()
    True
    """

    def __init__(self, target: Target, index: int = 0) -> None:
        self.index = index
        self.rates: Rates = PRODUCTS[target.product]
        self._journal = native.launch.Journal() if native.launch is not None else None
        """Journal in which compiled code notes launches."""
        self._dry: Callable[[], bool] | None = None
        self.native: NativeIssue | None = None
        """Source of instruction counts of native code, if the clock counts these."""
        self._only_timing = False
        self._us = 0.0
        self._last_ms = 0.0
        self._was_read = False
        self._recent: dict[tuple[Any, ...], _Noted] = {}
        self._noted: dict[tuple[Any, ...], _Noted] = {}
        self.known_times: dict[tuple[Any, ...], float] = {}
        self._described: dict[int, TimedKernel] = {}

    def note(
        self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float]
    ) -> None:
        """Note a launch."""
        for observer in OBSERVERS:
            observer.note(kernel, grid, arguments, not self.is_dry())
        key = (kernel.serial, grid, *arguments)
        noted = self._recent.get(key)
        if self._journal is not None and self._journal.count >= _MOST_RECENT:
            self._count()
        if noted is None:
            if len(self._recent) >= _MOST_RECENT:
                self._count()
                if len(self._noted) >= _MOST_NOTED:
                    self._predict_noted()
            noted = self._recent[key] = _Noted(kernel, grid, arguments)
        noted.count += 1

    def _count(self) -> None:
        """Merge noted launches that take equally long."""
        recent, self._recent = self._recent, {}
        journal = () if self._journal is None else self._journal.take()
        for launch in (*recent.values(), *(_Noted(*each) for each in journal)):
            key = self._key(launch.kernel, launch.grid, launch.arguments)
            found = self._noted.setdefault(key, launch)
            if found is not launch:
                found.count += launch.count

    @property
    def journal(self) -> Any:
        """Journal in which compiled code notes launches; None without compiled code."""
        return self._journal

    @property
    def dry(self) -> Callable[[], bool] | None:
        """Callback that tests whether launches are only noted and not run; None if they run."""
        return self._dry

    @dry.setter
    def dry(self, asked: Callable[[], bool] | None) -> None:
        self._dry = asked
        self._update_journal()

    def _update_journal(self) -> None:
        if self._journal is not None:
            self._journal.is_dry = self._only_timing or self._dry is not None

    def is_dry(self) -> bool:
        """True while launches are noted only; ends when the callback says so."""
        if self._only_timing:
            return True
        if self.dry is None:
            return False
        if not self.dry():
            self.dry = None
        return self.dry is not None

    def operate(self, done: Traffic) -> None:
        """Add operators and copies.

        Their time is that of their launches, plus the longer of memory traffic and products.
        """
        rates = self.rates
        moved = done.read / (rates.read * 1e3) + done.written / (rates.write * 1e3)
        computed = done.narrow_products / rates.matrix_flops_per_us + (
            done.wide_products / rates.vector_flops_per_us)
        self._us += round(done.operators * rates.launch_us + max(moved, computed), _DIGITS)

    def begin(self) -> None:
        """Drop launches since the last reading without predicting them."""
        self._was_read = False

    def now_ms(self) -> float:
        """Device time; strictly increasing."""
        self._predict_noted()
        if self.rates.is_assumed and not self._was_read:
            warnings.warn(
                f"the clock of the simulated {self.rates.product} is a guess: no rates of it "
                "are published; compare kernels by instructions instead", stacklevel=2)
        self._was_read = True
        self._last_ms = max(self._us * 1e-3, self._last_ms + _SMALLEST_MS)
        return self._last_ms

    def predict(
        self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float]
    ) -> Prediction:
        """Predict the time of one launch, with its terms."""
        from triton_xe.model.time import predict
        from triton_xe.runtime.simulator.estimate.launch_work import TimedKernel

        source = kernel.source
        described = self._described.get(kernel.serial)
        if described is None:
            described = self._described[kernel.serial] = TimedKernel.from_source(
                source, kernel.n_registers)
        walk = described.sampled(arguments, grid)
        work, known = described.work_of(walk)
        if self.native is not None:
            work = replace(work, issue=self.native(kernel, described, walk, work.issue))
        if not known and knobs.debug():
            print(f"{source.name}: loops, branches or addresses depend on data; the predicted time"
                  " takes them as usual")
        return predict(work, self.rates)

    def time_of(self, call: Callable[[], Any]) -> float:
        """Milliseconds of a call, without running its kernels.

        If it launches any, it is called twice, because the first call may compile or tune kernels.
        """
        with self.without_running():
            start = self.now_ms()
            call()
            self._count()
            if self._noted:
                start = self.now_ms()
                call()
            return self.now_ms() - start

    @contextlib.contextmanager
    def without_running(self) -> Iterator[None]:
        """Note the launches of this context without running them."""
        before, self.dry = self.dry, lambda: True
        try:
            yield
        finally:
            self.dry = before

    @contextlib.contextmanager
    def only_timing(self) -> Iterator[None]:
        """Run no kernel in this context, not even for nested requests to run."""
        self._only_timing = True
        self._update_journal()
        try:
            yield
        finally:
            self._only_timing = False
            self._update_journal()

    def _predict_noted(self) -> None:
        """Add the predicted times of the launches noted since the clock was last read."""
        source = SOURCES.get(self.index)
        if source is not None:
            self.operate(source())
        self._count()
        noted, self._noted = self._noted, {}
        if not self._was_read:
            return
        for key, launch in noted.items():
            self._us += self._time(key, launch) * launch.count

    def predicted_us(
        self, kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float]
    ) -> float:
        """Microseconds of one launch; if a prediction fails, warn and count an empty launch."""
        return self._time(self._key(kernel, grid, arguments), _Noted(kernel, grid, arguments))

    def _time(self, key: tuple[Any, ...], launch: _Noted) -> float:
        us = self.known_times.get(key)
        if us is None:
            us = self.known_times[key] = self._new_time(launch)
        return us

    def _new_time(self, launch: _Noted) -> float:
        """Predicted microseconds of a launch; if that fails, those of an empty kernel."""
        if 0 in launch.grid:
            return 0.0
        try:
            with paused_collector():
                us = self.predict(launch.kernel, launch.grid, launch.arguments).us
                return round(us, _DIGITS)
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:
            warnings.warn(
                f"the device time of {launch.kernel.name} cannot be predicted ({error!r}) and"
                " counts as that of an empty kernel", RuntimeWarning, stacklevel=6)
            return self.rates.launch_us

    @staticmethod
    def _key(
        kernel: Any, grid: tuple[int, int, int], arguments: Sequence[int | float]
    ) -> tuple[Any, ...]:
        """Key that is equal for launches that take equally long; addresses do not count."""
        pointers = kernel.pointer_arguments
        scalars = tuple(v for k, v in enumerate(arguments) if k not in pointers)
        return (kernel.serial, grid, scalars, len({arguments[k] for k in pointers}))


@cache
def clock_of(target: Target, index: int) -> DeviceClock:
    """The one clock of a simulated device in this process."""
    return DeviceClock(target, index)
