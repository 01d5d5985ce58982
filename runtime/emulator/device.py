"""`EmulatedDevice`: the device protocol on native code, executed by the emulator.

Intel's compiler builds each kernel, and the emulator executes its instructions: no driver is
involved.  GPU addresses are host addresses.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.hardware.register_file import refuse_lost_spills
from triton_xe.hardware.residency import resident_groups
from triton_xe.hardware.target import target
from triton_xe.progress import progress
from triton_xe.runtime import ocloc
from triton_xe.runtime.device import Grid, MemoryBlock
from triton_xe.runtime.emulator import iga
from triton_xe.runtime.emulator.dispatch import Dispatch, of_zebin
from triton_xe.runtime.emulator.kernel_info import KernelInfo, kernel_info
from triton_xe.runtime.emulator.launch import Launch
from triton_xe.runtime.emulator.memory import Addresses, AddressSpace, Fault
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.emulator.undefined_registers import payload, refuse_lost_value
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.interface import HostDevice, ModuleKernel, Work

MOST_THREADS = 8192
"""Threads that run at once: more than the largest of these devices holds (4,096 on pvc)."""
MOST_LAUNCHES = 64
Counts = NDArray[np.int64]


@dataclass(eq=False)
class EmulatedKernel(ModuleKernel):
    """A kernel, built by Intel's compiler at its first run."""

    device: EmulatedDevice = field(kw_only=True)
    counts: dict[tuple[Any, ...], Counts] = field(default_factory=dict)
    """Counts of the last `MOST_LAUNCHES` launches, by grid and arguments."""

    @once
    def native(self) -> NativeKernel:
        with progress(f"building native code of kernel {self.name!r}"):
            made = NativeKernel(self.device.target.name, self.source.name,
                                self.device.module_of(self), self.build_flags)
            made.program.find_lines = partial(self.device.lines_of, made)
            refuse_lost_value(made.program, payload(made.info, made.program.grf_bytes))
            return made

    @property
    def resident(self) -> int:
        """Work-groups that the device holds at once."""
        info = self.native.info
        subgroups = -(-prod(info.work_group or (1,)) // info.simd)
        return resident_groups(self.source.target, subgroups, info.grf_count, info.slm_bytes,
                           barriers=info.barriers)

    def executed(self, grid: Grid, arguments: Sequence[Any]) -> tuple[Program, Counts] | None:
        """The program and the counts of a launch, while they are kept."""
        counts = self.counts.get((grid, *arguments))
        return None if counts is None else (self.native.program, counts)

    def note(self, grid: Grid, arguments: Sequence[Any], count: Counts) -> None:
        """Keep the counts of a launch."""
        self.counts.pop((grid, *arguments), None)
        self.counts[grid, *arguments] = count
        if len(self.counts) > MOST_LAUNCHES:
            del self.counts[next(iter(self.counts))]


class EmulatedDevice(HostDevice[EmulatedKernel]):
    """One emulated GPU of the type `target_name`; see `runtime.device.Device`."""

    def __init__(self, target_name: str = "bmg", index: int = 0) -> None:
        reason = ocloc.available() or iga.unavailable()
        if not iga.is_emulated(target_name):
            reason = f"there is no emulated {target_name}; use {', '.join(iga.devices())}"
        if reason:
            raise DeviceError(f"emu:{target_name} cannot run kernels: {reason}")
        super().__init__(target_name, index)
        self.name = f"{self.target.product or target_name} (emulated)"
        self.module_of: Callable[[EmulatedKernel], bytes] = attrgetter("module")
        """Function that returns the SPIR-V of a kernel for Intel's compiler."""
        self.lines_of: Callable[[NativeKernel], Mapping[int, str]] = lambda native: {}
        """Function that returns the source location of each program counter of native code."""
        self.executed: dict[str, NativeKernel] = {}
        """The native code that ran, with counts of its instructions, by name of the kernel."""
        say_once()

    def _kernel(self, *known: Any, is_general: bool) -> EmulatedKernel:
        made = EmulatedKernel(*known, device=self)
        made.source.check()
        return made

    def execute(self, kernel: EmulatedKernel, work: Work) -> None:
        """Run a launch on the emulator, which has no checks, no traces and no partial launches."""
        if work.is_checked:
            raise _simulator_only("the checks of TRITON_XE_SANITIZE")
        if knobs.trace():
            raise _simulator_only("traces")
        if work.programs is not None:
            raise _simulator_only("launches of some programs")
        packed = kernel.pack(work.args)
        arguments = [int(x) if kind == "ptr" else packed[8 * k : 8 * k + 8]
                     for k, (kind, x) in enumerate(zip(
                         kernel.argument_types, work.args, strict=True))]
        try:
            count = kernel.native.run(self._space(kernel, work), work.grid, arguments)
        except Fault as error:
            if not knobs.lines():
                error.add_note("TRITON_XE_LINES=1 adds source lines to reports of emulated devices")
            raise
        kernel.note(work.grid, work.args, count)
        self.executed[kernel.name] = kernel.native

    def _space(self, kernel: EmulatedKernel, work: Work) -> HostSpace:
        space = HostSpace(self.accessible)
        for k in sorted(kernel.pointer_arguments):
            space.lend(int(work.args[k]))
        return space


def _simulator_only(what: str) -> DeviceError:
    return DeviceError(f"{what} exist on simulated devices only, not on emulated ones: set "
                       "TRITON_XE_DEVICE=sim")


@cache
def say_once() -> None:
    """Print once per process that kernels run on an emulated GPU, which is slow."""
    print("triton-xe: kernels run on an emulated GPU, instruction by instruction: this is some "
          "hundred times slower than the simulator", file=sys.stderr)


class NativeKernel:
    """A kernel's native code, and how often its instructions ran."""

    def __init__(self, device: str, entry: str, module: bytes, flags: str) -> None:
        self.device, self.entry, self.flags, self.module = device, entry, flags, module
        self.binary = ocloc.native_code(module, entry, device, flags).binary
        refuse_lost_spills(entry, self.info.spill_bytes, target(device))
        self.executed = np.zeros(len(self.program.instructions), np.int64)
        """Instructions of a thread, by position in the program, of all launches."""
        self.bytes_moved = Counter[int]()
        """Bytes that messages asked for, by program counter, in all launches."""

    @once
    def program(self) -> Program:
        return Program.from_zebin(self.device, self.binary, self.entry)

    @once
    def info(self) -> KernelInfo:
        return kernel_info(self.binary, self.entry)

    def run(self, space: AddressSpace, grid: Grid, arguments: list[int | bytes]) -> Counts:
        """Execute a launch to its end, as many work-groups at once as a device may hold.

        Returns how often a thread executed each instruction, by position in the program.
        """
        whole = of_zebin(self.info, self.binary, space, grid, arguments)
        found: Counts = np.zeros_like(self.executed)
        for part in parts(whole, max(1, MOST_THREADS // whole.threads)):
            launch = Launch(self.program, space, part).check_waits()
            launch.run(seconds=knobs.time_limit())
            launch.refuse_findings()
            found += launch.counters.executed
            self.bytes_moved += launch.bytes_moved
        self.executed += found
        self.program.refuse_missing_waits()
        return found


def parts(whole: Dispatch, most: int) -> Iterator[Dispatch]:
    """The dispatch in parts of at most so many work-groups, in their order.

    >>> made = Dispatch((4, 3, 2), 1, 16)
    >>> [(p.first_group, p.groups) for p in parts(made, 8)]
    [((0, 0, 0), (4, 2, 1)), ((0, 2, 0), (4, 1, 1)), ((0, 0, 1), (4, 2, 1)), ((0, 2, 1), (4, 1, 1))]
    """
    x, y, z = whole.groups
    sizes = (min(x, most), max(1, min(y, most // x)), max(1, min(z, most // (x * y))))
    for k in range(0, z, sizes[2]):
        for j in range(0, y, sizes[1]):
            for i in range(0, x, sizes[0]):
                first = (i, j, k)
                gx, gy, gz = (min(s, n - f) for s, n, f in zip(
                    sizes, whole.groups, first, strict=True))
                groups = gx, gy, gz
                assert prod(groups) <= most
                yield replace(whole, groups=groups, first_group=first)


class HostSpace(AddressSpace):
    """GPU addresses that are host addresses, within the live blocks of a device."""

    def __init__(self, find: Callable[[int], MemoryBlock | None]) -> None:
        super().__init__()
        self._find = find

    def lend(self, address: int) -> None:
        """Map memory that is no block of the device, such as a numpy array's: all pages with it."""
        if address and self._find(address) is None:
            low, high = _pages_around(address)
            if low not in self._ranges and low < high:
                self.map(low, low, high - low)

    def _locate_each(self, addresses: Addresses, size: int) -> Addresses:
        """Map the allocations of new addresses on first use."""
        for address in np.unique(addresses).tolist():
            if self.bytes_from(address) >= size:
                continue
            block = self._find(address)
            if block is not None and block.low not in self._ranges:
                self.map(block.low, block.low, block.high - block.low)
        return super()._locate_each(addresses, size)


def _pages_around(address: int) -> tuple[int, int]:
    """The readable memory of this process around an address; nothing where there is none."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            low, high = (int(x, 16) for x in line.split(None, 1)[0].split("-"))
            if low <= address < high and line.split()[1].startswith("rw"):
                return low, high
    return 0, 0
