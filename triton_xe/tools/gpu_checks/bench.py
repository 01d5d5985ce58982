"""Definition of a check, and functions that run a kernel on the device and on the simulator.

The simulator is the reference, because the compiler was tested against it.  A check states a fact
about the hardware, runs kernels that depend on it on both, and compares bits.  If several roundings
are valid it compares with numpy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe import knobs
from triton_xe.hardware.target import Target
from triton_xe.runtime.device import Device, Grid
from triton_xe.runtime.opening import get, put, time_ms
from triton_xe.runtime.simulator.interface import SimulatedDevice
from triton_xe.tools import sample_kernel

Array = NDArray[Any]
PASSED, WRONG, FAILED = "passed", "WRONG", "FAILED"
SKIPPED, BUILT, NOT_RUN = "skipped", "launched, not executed", "not run"
NOT_DECIDED = "not decided here"
"""States of a result.

`BUILT`: the driver works on a simulated command stream.  `NOT_DECIDED`: the emulated GPU agrees,
but its definition of this fact is the project's own.
"""


class Wrong(Exception):
    """The device's numbers are not what the check expects."""


@dataclass(frozen=True)
class Module:
    """A SPIR-V module with one kernel."""

    kernel: str
    spirv: bytes
    flags: str = ""


def from_llvm(name: str, text: str) -> Module:
    """A module written as LLVM IR."""
    return Module(name, sample_kernel.to_spirv(text))


@dataclass
class Bench:
    """The device under test, and a simulated one of its type."""

    device: Device
    reference: Device = field(init=False)
    is_emulated: bool = field(init=False)
    """True on the GPU of `triton-xe emulate`."""
    executes: bool = True
    """False on Intel's driver with the simulated command stream, on which nothing is executed."""
    values: dict[str, float] = field(default_factory=dict)
    """Measured values."""

    def __post_init__(self) -> None:
        self.reference = SimulatedDevice(self.device.target.name)
        stream = knobs.process_environment().get("SetCommandStreamReceiver", "")
        self.is_emulated = knobs.emulated() and not self.device.is_simulated
        self.executes = self.device.is_simulated or stream in ("", "0", "-1")

    @property
    def target(self) -> Target:
        return self.device.target

    @property
    def is_real(self) -> bool:
        return not self.device.is_simulated

    @property
    def is_timed(self) -> bool:
        """True if times are those of a real GPU, so that a large problem is worth its time."""
        return self.is_real and self.executes and not self.is_emulated

    def random(self, seed: int = 0) -> np.random.Generator:
        return np.random.default_rng(seed)

    def run(
        self, module: Module, grid: Grid, arguments: Sequence[Any], *, on: Device | None = None
    ) -> list[Array]:
        """The arrays among the arguments after a launch on the device."""
        device = on or self.device
        kernel = device.load(module.spirv, module.kernel, build_flags=module.flags)
        arrays = [each for each in arguments if isinstance(each, np.ndarray)]
        buffers = [put(device, array) for array in arrays]
        pointers = iter(buffers)
        device.launch(kernel, grid, [
            next(pointers).pointer if isinstance(each, np.ndarray) else each for each in arguments])
        found = [get(device, buffer, array.shape, array.dtype)
                 for buffer, array in zip(buffers, arrays, strict=True)]
        for buffer in buffers:
            buffer.free()
        kernel.close()
        return found

    def milliseconds(self, action: Callable[[], Any]) -> float:
        """The device's time for the launches of an action, the minimum of five tries."""
        action()
        if self.executes:
            return min(time_ms(self.device, action) for _ in range(1 if self.is_emulated else 5))
        return math.inf

    def same(self, module: Module, grid: Grid, arguments: Sequence[Any], what: str = "") -> None:
        """Raise `Wrong` unless the device computes the same bits as the simulator; all NaNs are
        equal.
        """
        found = self.run(module, grid, arguments)
        expected = self.run(module, grid, arguments, on=self.reference)
        for got, want in zip(found, expected, strict=True):
            self.equal(got, want, what or module.kernel)

    def equal(self, got: Array, want: Array, what: str) -> None:
        """Raise `Wrong` with the first element whose bits differ."""
        if self.executes:
            _compare(got, want, _bits(got) != _bits(want), what)

    def close(self, got: Array, want: Array, bound: Any, what: str) -> None:
        """Raise `Wrong` if a number differs by more than `bound`, one number or one for each
        element.
        """
        if not self.executes:
            return
        with np.errstate(all="ignore"):
            off = np.abs(got.astype(np.float64) - want.astype(np.float64))
            alike = (off <= bound) | (got == want) | (np.isnan(got) & np.isnan(want))
        _compare(got, want, ~alike, what)


def _bits(array: Array) -> Array:
    """The array as integers, with equal bits for all NaNs."""
    plain = array.copy()
    if plain.dtype.kind == "f":
        plain[np.isnan(plain)] = np.nan
    return plain.view(f"u{plain.itemsize}")


def _compare(got: Array, want: Array, differs: Array, what: str) -> None:
    count = int(np.count_nonzero(differs))
    if count:
        at = tuple(int(k) for k in np.argwhere(differs)[0])
        raise Wrong(f"{what}: {count} of {got.size} differ; the first, at {at}, is {got[at]} "
                    f"and should be {want[at]}")


@dataclass(frozen=True)
class Check:
    """One fact that only a GPU can confirm; `run` raises `Wrong` if it does not hold."""

    name: str
    fact: str
    run: Callable[[Bench], None]
    needs: Callable[[Bench], bool] = lambda bench: True
    only_silicon: str = ""
    """Why only a real GPU decides it, if the emulated one does not."""


@dataclass
class Result:
    """Result of a check."""

    check: str
    state: str
    detail: str = ""
    seconds: float = 0.0
    values: dict[str, float] = field(default_factory=dict)

    def line(self) -> str:
        measured = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        more = "; ".join(filter(None, (measured, self.detail)))
        return f"{self.check:18} {self.state}{': ' if more else ''}{more}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def perform(check: Check, bench: Bench) -> Result:
    """Run one check; never raises."""
    if not check.needs(bench):
        return Result(check.name, SKIPPED, f"not for {bench.device.name}")
    start, bench.values = time.perf_counter(), {}
    state, detail = PASSED if bench.executes else BUILT, ""
    try:
        check.run(bench)
    except Wrong as wrong:
        state, detail = WRONG, str(wrong)
    except Exception as error:  # whatever a driver or a compiler raises is a finding
        state, detail = FAILED, f"{type(error).__name__}: {error}"
    if state == PASSED and bench.is_emulated and check.only_silicon:
        state, detail = NOT_DECIDED, check.only_silicon
    values = bench.values if bench.executes else {}
    return Result(check.name, state, detail, round(time.perf_counter() - start, 2), values)
