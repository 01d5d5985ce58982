"""The protocol of devices, which Level Zero, the simulator and the emulated GPU implement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from triton_xe.hardware.target import Target
from triton_xe.runtime.operator_traffic import Traffic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Grid = tuple[int, int, int]
TensorArguments = tuple[tuple[tuple[int, str], ...], tuple[Any, ...]]
"""Parameter number and name of each tensor of a launch, and the tensors themselves."""


@dataclass(frozen=True)
class MemoryBlock:
    """Bytes `low` to `high` (exclusive) of an allocation; `kind` is host, shared or device."""

    low: int
    high: int
    kind: str = "device"

    @property
    def nbytes(self) -> int:
        return self.high - self.low


class Buffer(Protocol):
    """A block of device memory; `pointer` is its device address.

    As an argument of a `@triton.jit` kernel it needs a `dtype`, numpy's name of its elements.
    """

    pointer: int
    nbytes: int
    dtype: str

    def free(self) -> None: ...


class Kernel(Protocol):
    """A kernel ready to launch on one device."""

    name: str
    n_registers: int
    n_spills: int
    max_threads: int
    launch_state: Any
    """State for compiled launch code; None if there is none."""

    @property
    def argument_types(self) -> tuple[str, ...]:
        """Type of each parameter: ptr, i1, i8, i16, i32, i64, f16, f32 or f64."""

    @property
    def versions(self) -> Any:
        """`runtime.versions.Versions` if the module has conditions on launches, otherwise None."""

    def close(self) -> None: ...


class Clock(Protocol):
    """The predicted time of a simulated device."""

    dry: Callable[[], bool] | None
    """Callback that tests whether launches are only timed; None if they run."""
    native: Callable[..., Any] | None
    """Source of instruction counts of native code; None if they are estimated."""

    def now_ms(self) -> float:
        """Device time; strictly increasing."""

    def time_of(self, call: Callable[[], Any]) -> float:
        """Milliseconds of a call, without running its kernels."""

    def without_running(self) -> AbstractContextManager[None]:
        """Note the launches of this context without running them."""

    def operate(self, done: Traffic) -> None:
        """Advance the clock by the time of operators and copies."""


class Device(Protocol):
    """One GPU: real, simulated or emulated."""

    target: Target
    index: int
    name: str
    is_simulated: bool
    """True if kernels run on the CPU, by the simulator or the emulator."""
    @property
    def clock(self) -> Clock | None:
        """Predicted time; None for a real device, or if `TRITON_XE_CLOCK` says so."""

    @property
    def is_dry(self) -> bool:
        """True if launches are only timed, and do not run."""

    def allocate(self, nbytes: int, align: int = 64) -> Buffer: ...

    def borrow(self, low: int, high: int) -> None:
        """Let kernels use memory that another library allocated, if the device can access it."""

    def block_of(self, pointer: int) -> MemoryBlock | None:
        """The live allocation that contains an address, without borrowed memory."""

    def copy_to_device(self, pointer: int, data: Any) -> None: ...

    def copy_to_host(self, array: Any, pointer: int) -> None: ...

    def load(
        self, binary: bytes, kernel_name: str, *, build_flags: str = "",
        general: Callable[[], tuple[bytes, str]] | None = None,
    ) -> Kernel:
        """Load one kernel of a module.

        If the module has conditions on launches, `general` returns the module and its build flags
        for other launches (see `versions`).
        """

    def launch(
        self, kernel: Any, grid: Grid, args: Sequence[int | float], *, stream: int = 0,
        cooperative: bool = False, tensors: TensorArguments | None = None,
    ) -> None:
        """Launch a kernel.

        A simulated device's checks name one of `tensors` in their reports.
        """

    def fill(self, pointer: int, byte: int, nbytes: int) -> None: ...

    def synchronize(self) -> None: ...

    def wait_for(self, stream: int) -> None:
        """Wait for the work of a stream, and for the device's own work.

        Raise `QueueRecordingError` while the stream is recorded into a graph, because nothing runs
        then.
        """

    def record_event(self) -> Any:
        """Record the device's time after all launches so far, for `elapsed_ms`."""

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events; waits for both."""

    def properties(self) -> dict[str, Any]: ...

    def build_facts(self, kernel: Any) -> dict[str, Any]:
        """Flags, identity and driver of a kernel's native code."""

    def unwritten(self, block: MemoryBlock) -> NDArray[np.uint8] | None:
        """A copy of the map of unwritten bytes of a block; None if there is none."""


def triton_properties(name: str, target: Target) -> dict[str, Any]:
    """Device properties that Triton reads; clocks in kHz."""
    return {
        "name": name,
        "arch": target.name,
        "max_shared_mem": target.max_slm_bytes,
        "multiprocessor_count": target.xe_cores,
        "mem_clock_rate": target.memory_clock_mhz * 1000,
        "mem_bus_width": target.memory_bus_bits,
        "sm_clock_rate": target.clock_mhz * 1000,
        "max_num_regs": max(target.grf_modes),
        "warpSize": target.subgroup_size,
        "max_work_group_size": target.max_work_group_size,
        "sub_group_sizes": list(target.subgroup_sizes),
    }
