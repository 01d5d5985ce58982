"""`HostDevice`: memory, events and launches of devices that compute on the host CPU.

Device pointers are host addresses, so memory of numpy arrays and CPU tensors works as it is.
The simulator and the emulated GPU differ in how they run the version of a kernel that a launch
takes.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.target import Target
from triton_xe.hardware.target import target as find_target
from triton_xe.runtime import observers
from triton_xe.runtime.arguments import check_grid, check_resident
from triton_xe.runtime.device import Grid, MemoryBlock, TensorArguments, triton_properties
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.clock import clock_of
from triton_xe.runtime.simulator.run.blocks import Block, BlockMap
from triton_xe.runtime.simulator.run.kernel_source import KernelSource
from triton_xe.runtime.simulator.run.launch import pack_arguments
from triton_xe.runtime.versions import General, Versions, versions_of
from triton_xe.spirv import CONDITIONAL, is_spirv

DEFAULT_REGISTERS = 128


class HostBuffer:
    """A block of host memory; free it once."""

    dtype = ""
    _memory: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = None

    def __init__(self, nbytes: int, align: int, blocks: BlockMap, device: int) -> None:
        if nbytes < 0 or align < 1 or align & (align - 1):
            raise DeviceError(f"cannot allocate {nbytes} bytes aligned to {align}")
        self._memory = np.empty(nbytes + align, np.uint8)
        address = self._memory.ctypes.data
        self.pointer = address + (-address) % align
        self.nbytes = nbytes
        self._blocks = blocks
        blocks.add(Block(self.pointer, self.pointer + nbytes, device))

    def free(self) -> None:
        if self._memory is not None:
            self._blocks.remove(self.pointer, self._memory)
        self._memory = None

    def __del__(self) -> None:
        self.free()


@dataclass(eq=False)
class ModuleKernel:
    """A kernel of a loaded module: what its launches and the clock need of it."""

    source: KernelSource
    module: bytes = b""
    """The module that it was loaded from."""
    build_flags: str = ""
    versions: Versions | None = None
    """Versions for launches that do not satisfy this one's conditions."""
    launch_state: Any = None
    """State for launches by compiled code; None without such code."""
    is_closed: bool = False
    serial: int = field(default_factory=itertools.count().__next__)

    def __post_init__(self) -> None:
        self.name = self.source.name.removesuffix(CONDITIONAL)
        self.n_registers = RegisterFile.of_flags(self.build_flags).registers or DEFAULT_REGISTERS
        self.n_spills = 0
        self.max_threads = self.source.target.max_work_group_size

    @once
    def argument_types(self) -> tuple[str, ...]:
        return self.source.parsed.argument_types

    @once
    def pointer_arguments(self) -> frozenset[int]:
        return frozenset(k for k, kind in enumerate(self.argument_types) if kind == "ptr")

    @property
    def resident(self) -> int:
        """Number of its work-groups that the device holds at once."""
        raise NotImplementedError

    def pack(self, arguments: Sequence[int | float]) -> bytes:
        """The arguments in slots of 8 bytes."""
        return pack_arguments(self.name, self.argument_types, arguments)

    def executed(self, grid: Grid, arguments: Sequence[int | float]) -> Any:
        """Program and executed instructions of the last such launch; None if not counted."""
        return None

    def close(self) -> None:
        self.is_closed = True
        if self.versions is not None:
            self.versions.close()


class Work(NamedTuple):
    """Grid, arguments and options of a launch."""

    grid: Grid
    args: Sequence[int | float]
    tensors: TensorArguments | None = None
    cooperative: bool = False
    programs: Sequence[int] | None = None
    """Numbers of the programs to run; None for all."""
    sanitize: bool | None = None
    """True to check its accesses; None: as `TRITON_XE_SANITIZE` says."""

    @property
    def groups(self) -> int:
        return math.prod(self.grid)

    @property
    def is_checked(self) -> bool:
        return knobs.sanitize() if self.sanitize is None else self.sanitize


K = TypeVar("K", bound=ModuleKernel)


class HostDevice(ABC, Generic[K]):
    """One device of the type `target_name`; see `runtime.device.Device`."""

    is_simulated = True

    def __init__(self, target_name: str = "bmg", index: int = 0) -> None:
        self.target: Target = find_target(target_name)
        self.index = index
        self.name = f"{self.target.product or target_name} (simulated)"
        self.clock = clock_of(self.target, index) if knobs.device_clock() else None
        self._last_ms = 0.0
        self.blocks = BlockMap()

    def allocate(self, nbytes: int, align: int = 64) -> HostBuffer:
        return HostBuffer(nbytes, align, self.blocks, self.index)

    def borrow(self, low: int, high: int) -> None:
        """Allow kernels to access memory that was allocated elsewhere."""
        self.blocks.borrow(Block(low, high, self.index))

    def note_unwritten(self, low: int, map_: NDArray[np.uint8]) -> None:
        """Set the map of unwritten bytes (0xff) of borrowed memory; the checks update it."""
        self.blocks.note_unwritten(low, map_)

    def unwritten(self, block: MemoryBlock) -> NDArray[np.uint8] | None:
        """A copy of the map of unwritten bytes of a block; None if all may be written."""
        to_map = self.blocks.to_map(block.low) if block.nbytes else 0
        if not to_map:
            return None
        map_ = (ctypes.c_uint8 * block.nbytes).from_address(block.low + to_map)
        return np.ctypeslib.as_array(map_).copy()

    def block_of(self, pointer: int) -> MemoryBlock | None:
        """The live block that contains an address; borrowed memory may have been freed."""
        found = self.blocks.owned(pointer)
        return None if found is None else MemoryBlock(found.low, found.high)

    def accessible(self, pointer: int) -> MemoryBlock | None:
        """The live or borrowed memory around an address that kernels may access."""
        found = self.blocks.find(pointer)
        return None if found is None else MemoryBlock(found.low, found.high)

    @property
    def is_dry(self) -> bool:
        return self.clock is not None and self.clock.is_dry()

    def copy_to_device(self, pointer: int, data: Any) -> None:
        array = np.ascontiguousarray(
            np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else data
        )
        ctypes.memmove(pointer, array.ctypes.data, array.nbytes)

    def copy_to_host(self, array: Any, pointer: int) -> None:
        if not array.flags.c_contiguous:
            raise DeviceError("copy_to_host needs a contiguous array")
        ctypes.memmove(array.ctypes.data, pointer, array.nbytes)

    def load(
        self, binary: bytes, kernel_name: str, *, build_flags: str = "",
        general: General | None = None, is_general: bool = False,
    ) -> K:
        """Load a kernel of a SPIR-V module that contains its LLVM IR (or of plain LLVM IR).

        `is_general`: the module is the version for launches that fail a condition of another one.
        """
        source = KernelSource.from_binary(binary, kernel_name, self.target)
        versions = None if not is_spirv(binary) else versions_of(
            binary, kernel_name, lambda module, flags: self.load(
                module, kernel_name, build_flags=flags, is_general=True), general)
        return self._kernel(source, binary, build_flags, versions, is_general=is_general)

    @abstractmethod
    def _kernel(self, *known: Any, is_general: bool) -> K:
        """A kernel with the first fields of `ModuleKernel`; `DeviceError` if it does not fit."""

    def launch(
        self,
        kernel: K,
        grid: Grid,
        args: Sequence[int | float],
        *,
        stream: int = 0,
        cooperative: bool = False,
        tensors: TensorArguments | None = None,
        sanitize: bool | None = None,
        programs: Sequence[int] | None = None,
    ) -> None:
        """Run and wait.  `SimulatorTrap` reports an error that a real device would have run into.

        `sanitize` checks every access of this launch; by default `TRITON_XE_SANITIZE` decides.
        Findings name one of `tensors`.  The device must hold all of a `cooperative` launch at once.
        `programs`: the numbers of the programs to run, in this order; the grid that they see does
        not change.
        """
        if kernel.is_closed:
            raise DeviceError(f"kernel {kernel.name} was closed")
        check_grid(kernel.name, grid)
        work = Work(grid, args, tensors, cooperative, programs, sanitize)
        if self._run_plainly(kernel, work):
            return
        around = observers.wanted()
        if around is None:
            self._start(kernel, work)
        else:
            around.run(self, kernel.name, partial(self._start, kernel, work))

    def _run_plainly(self, kernel: K, work: Work) -> bool:
        """Run a launch that nothing observes; False if it was not run."""
        return False

    def _start(self, kernel: K, work: Work) -> None:
        """Run the version for these arguments."""
        version = self._version(kernel, work)
        if version is not kernel:
            self._start(version, work)
            return
        if work.cooperative:
            check_resident(kernel.name, work.grid, kernel.resident)
        if self.is_dry:
            kernel.pack(work.args)
        else:
            self.execute(kernel, work)
        if self.clock is not None:
            self.clock.note(kernel, work.grid, work.args)

    @staticmethod
    def _version(kernel: K, work: Work) -> K:
        """The version of a kernel for these arguments."""
        versions = kernel.versions
        failing = "" if versions is None else versions.failing(work.args, work.grid)
        return cast(K, versions.general(failing)) if failing and versions is not None else kernel

    @abstractmethod
    def execute(self, kernel: K, work: Work) -> None:
        """Run a launch of this version."""

    def synchronize(self) -> None:
        """Do nothing, because launches have ended when `launch` returns."""

    def wait_for(self, stream: int) -> None:
        """Do nothing, because no launch is pending."""

    def fill(self, pointer: int, byte: int, nbytes: int) -> None:
        """Set memory to one byte."""
        ctypes.memset(pointer, byte, nbytes)

    def record_event(self) -> float:
        """Device time in milliseconds; strictly increasing."""
        if self.clock is not None:
            return self.clock.now_ms()
        self._last_ms = max(time.perf_counter() * 1e3, self._last_ms + 1e-6)
        return self._last_ms

    def elapsed_ms(self, start: float, end: float) -> float:
        return end - start

    def properties(self) -> dict[str, Any]:
        return triton_properties(self.name, self.target)

    def build_facts(self, kernel: K) -> dict[str, Any]:
        """Nothing: no driver builds kernels."""
        return {}
