"""`SimulatedDevice`: the device protocol on the host CPU.

Device pointers are host addresses, so memory of numpy arrays and CPU tensors works as it is.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from triton_xe import knobs
from triton_xe.collector import paused_collector
from triton_xe.errors import DeviceError, SimulatorTrap
from triton_xe.hardware.register_file import RegisterFile
from triton_xe.hardware.residency import groups_held
from triton_xe.hardware.target import Target
from triton_xe.hardware.target import target as find_target
from triton_xe.progress import progress
from triton_xe.runtime import native, observers, torch_xpu
from triton_xe.runtime.arguments import check_grid, check_held
from triton_xe.runtime.device import MemoryBlock, triton_properties
from triton_xe.runtime.native.arguments import format_of, read_tensors
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.clock import clock_of
from triton_xe.runtime.simulator.host_kernel import ENTRY, HostKernel, Part
from triton_xe.runtime.simulator.run import launch as launcher
from triton_xe.runtime.simulator.run.blocks import Block, BlockMap
from triton_xe.runtime.simulator.run.jit import IN_PIECES, NativeCode, load_kernel
from triton_xe.runtime.simulator.run.kernel_source import KernelSource
from triton_xe.runtime.simulator.run.tensors import Given, Tensor, tensors_of
from triton_xe.runtime.simulator.run.watchdog import LEAST_LIMIT
from triton_xe.runtime.simulator.sanitizer import findings
from triton_xe.runtime.versions import General, Versions, versions_of
from triton_xe.spirv import CONDITIONAL, is_spirv

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
    from triton_xe.runtime.simulator.sanitizer.shadow import LaunchState

_MOST_SEED = 1 << 62
_NEVER = 1 << 62
IN_STEP_AFTER = 20_000_000
"""Nanoseconds of run time of a kernel after which it pays to compile its in-step form."""


class SimulatedBuffer:
    """A block of host memory; free it once."""

    dtype = ""

    def __init__(self, nbytes: int, align: int, blocks: BlockMap, device: int) -> None:
        if nbytes < 0 or align < 1 or align & (align - 1):
            raise DeviceError(f"cannot allocate {nbytes} bytes aligned to {align}")
        self._memory: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = np.empty(
            nbytes + align, np.uint8
        )
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
        if getattr(self, "_memory", None) is not None:
            self.free()


@dataclass
class SimulatedKernel:
    """A kernel, compiled for the host at its first run; many are only timed by the clock."""

    name: str
    source: KernelSource
    part: Part = Part.COMMON
    sanitizer: Instrumentation | None = None
    is_shuffled: bool = False
    n_registers: int = 128
    n_spills: int = 0
    max_threads: int = 1024
    launch_state: Any = None
    """State for launches by compiled code, of a loaded kernel; None without such code."""
    module: bytes = b""
    """The module that it was loaded from."""
    build_flags: str = ""
    versions: Versions | None = None
    """Version for launches that do not satisfy this one's conditions."""
    whole: SimulatedKernel | None = None
    """This kernel including the fallbacks that `host` leaves out, once one was needed."""
    prefers_whole: bool = False
    guards: SimulatedKernel | None = None
    """Kernel that computes which launches need a fallback."""
    checked: dict[tuple[object, Part], SimulatedKernel] = field(default_factory=dict)
    """This kernel with the sanitizer's checks, or with trace records."""
    serial: int = field(default_factory=itertools.count().__next__)
    is_closed: bool = False
    arguments: Sequence[int | float] = ()
    """Arguments of the launch for which its in-step form is compiled."""

    @once
    def host(self) -> HostKernel:
        with progress(f"translating kernel {self.name!r} for the simulator", self.name), (
                paused_collector()):
            return self.source.translated(self.part, self.sanitizer, shuffled=self.is_shuffled)

    def check(self) -> None:
        """Refuse a kernel that does not fit the device; a translated one was checked before."""
        kept = self.source.kept(self.part.value)
        if kept is None:
            self.source.check()
        else:
            self.host = kept

    @once
    def argument_types(self) -> tuple[str, ...]:
        """Argument types, known without a translation."""
        return self.__dict__.get("host", self.source).argument_types

    @once
    def loaded(self) -> tuple[NativeCode, int]:
        """Machine code and the address of its entry; it stays loaded while referenced."""
        with progress(f"building kernel {self.name!r} for the simulator", self.name), (
                paused_collector()):
            kind = "coroutine" if self.host.is_coroutine else "kernel"
            kind += IN_PIECES if self.host.in_pieces else ""
            runner = launcher.runner_name(self.host.takes_turns, self.host.has_barrier)
            code = load_kernel(self.host.text, self.host.helpers, kind, runner)
            return code, code.address(ENTRY)

    @once
    def prepared(self) -> launcher.Prepared:
        """Launch record for plain launches, without checks or traces."""
        resident = self.resident if self.host.takes_turns else 0
        code, address = self.loaded
        return launcher.Prepared(self.name, self.host, code, address, resident)

    @once
    def in_step(self) -> SimulatedKernel | None:
        """The in-step form of this kernel, if it can have one."""
        if not self.host.has_barrier:
            return None
        made = SimulatedKernel(self.name, self.source, self.part, max_threads=self.max_threads)
        with progress(f"translating kernel {self.name!r} for many programs", self.name), (
                paused_collector()):
            made.host = self.source.translated(
                self.part, in_step=True, arguments=self._integers(self.arguments))
        return made if made.host.in_step else None

    def _integers(self, arguments: Sequence[int | float]) -> tuple[int, ...]:
        """The arguments that are integers; 0 for others."""
        return tuple(x if kind in ("i32", "i64") and isinstance(x, int) else 0
                     for kind, x in zip(self.argument_types, arguments, strict=False))

    def fastest(self, arguments: Sequence[int | float]) -> launcher.Prepared:
        """The fastest launch record: in step, if the kernel has run for long enough."""
        if self._patience() > 0:
            return self.prepared
        self.arguments = arguments
        return (self.in_step or self).prepared

    def _patience(self) -> int:
        """Nanoseconds of run time left until the in-step form is compiled."""
        never = self.host.takes_turns or not self.host.has_barrier
        if never or self.__dict__.get("in_step", self) is None:
            return _NEVER
        compiled = 0 if self.launch_state is None else self.launch_state.spent
        return IN_STEP_AFTER - self.prepared.spent - compiled

    def run_natively(self, made: launcher.Prepared, *, like: SimulatedKernel) -> None:
        """Leave further launches of the kernel `like` to compiled code, if this version runs them.

        They run the code of `made`, until a faster form may be compiled.
        """
        if (self.launch_state is None or like.launch_state is None or self.prefers_whole
                or self.is_closed or 0 < knobs.time_limit() < LEAST_LIMIT):
            return
        if self.launch_state.code is not made:
            patience = self._patience() if made is self.prepared else _NEVER
            self.launch_state.prepare(made, *made.native(), self.launch_state.spent + patience)
        if self is not like and like.versions is not None:
            is_short = like.versions.loaded.get(True) is self
            setattr(like.launch_state, "short_rows" if is_short else "general", self.launch_state)
        observers.tell(native.launch)
        native.launch.read_limits(*knobs.launch_limits())
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "nn"):
            read_tensors(torch.Tensor, torch.nn.Parameter)

    @once
    def pointer_arguments(self) -> frozenset[int]:
        return frozenset(k for k, kind in enumerate(self.argument_types) if kind == "ptr")

    @once
    def resident(self) -> int:
        """Number of its work-groups that the device holds at once."""
        return groups_held(
            self.source.target, self.host.sub_groups, self.n_registers, self.host.slm_bytes,
            barriers=int(self.host.has_barrier))

    def close(self) -> None:
        self.is_closed = True
        if self.launch_state is not None:
            self.launch_state.stop()
        for made in ("loaded", "prepared", "in_step"):
            self.__dict__.pop(made, None)
        self.whole = self.guards = None
        if self.versions is not None:
            self.versions.close()
        self.checked.clear()


class Work(NamedTuple):
    """Grid, arguments and options of a launch."""

    grid: tuple[int, int, int]
    args: Sequence[int | float]
    tensors: Given | None = None
    cooperative: bool = False
    programs: Sequence[int] | None = None
    """Numbers of the programs to run; None for all."""

    @property
    def groups(self) -> int:
        return math.prod(self.grid)


class SimulatedDevice:
    """One simulated GPU of the type `target_name`; see `runtime.device.Device`."""

    is_simulated = True

    def __init__(self, target_name: str = "bmg", index: int = 0) -> None:
        self.target: Target = find_target(target_name)
        self.index = index
        self.name = f"{self.target.product or target_name} (simulated)"
        self.clock = clock_of(self.target, index) if knobs.device_clock() else None
        self._last_ms = 0.0
        self._blocks = BlockMap()
        self._shuffled_launches = itertools.count()

    def allocate(self, nbytes: int, align: int = 64) -> SimulatedBuffer:
        return SimulatedBuffer(nbytes, align, self._blocks, self.index)

    def borrow(self, low: int, high: int) -> None:
        """Allow kernels to access memory that was allocated elsewhere."""
        self._blocks.borrow(Block(low, high, self.index))

    def note_unwritten(self, low: int, map_: NDArray[np.uint8]) -> None:
        """Set the map of unwritten bytes (0xff) of borrowed memory; the checks update it."""
        self._blocks.note_unwritten(low, map_)

    def unwritten(self, block: MemoryBlock) -> NDArray[np.uint8] | None:
        """A copy of the map of unwritten bytes of a block; None if all may be written."""
        to_map = self._blocks.to_map(block.low) if block.nbytes else 0
        if not to_map:
            return None
        map_ = (ctypes.c_uint8 * block.nbytes).from_address(block.low + to_map)
        return np.ctypeslib.as_array(map_).copy()

    def block_of(self, pointer: int) -> MemoryBlock | None:
        """The live block that contains an address; borrowed memory may have been freed."""
        found = self._blocks.owned(pointer)
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
        general: General | None = None,
    ) -> SimulatedKernel:
        """Load a kernel of a SPIR-V module that contains its LLVM IR (or of plain LLVM IR)."""
        return self._load(binary, kernel_name, build_flags, general, Part.COMMON)

    def _load(
        self, binary: bytes, kernel_name: str, build_flags: str, general: General | None,
        part: Part,
    ) -> SimulatedKernel:
        """Load a kernel; the version for launches that fail a condition with its fallbacks.

        Such a launch most likely needs them, and without them would compile the kernel twice.
        """
        made = self._compile(KernelSource.of(binary, kernel_name, self.target), part)
        made.check()
        made.module, made.build_flags = binary, build_flags
        made.n_registers = RegisterFile.of_flags(build_flags).registers or made.n_registers
        if is_spirv(binary):
            made.versions = versions_of(
                binary, kernel_name,
                lambda module, flags: self._load(module, kernel_name, flags, None, Part.WHOLE),
                general,
            )
        made.launch_state = self._native_state(made)
        return made

    def _native_state(self, kernel: SimulatedKernel) -> Any:
        """State of a kernel for compiled launch code; None without such code."""
        types = kernel.argument_types
        if native.launch is None or len(types) > native.launch.MOST_ARGUMENTS:
            return None
        journal = None if self.clock is None else self.clock.journal
        state = native.launch.Simulated(
            kernel, partial(self._end_rarely, kernel), journal, self.index, format_of(types))
        if kernel.versions is not None:
            conditions = kernel.versions.conditions
            state.assume(conditions.packed(), conditions.short_rows)
        return state

    def _end_rarely(
        self, kernel: SimulatedKernel, made: launcher.Prepared, grid: tuple[int, int, int],
        args: Sequence[int | float], cold: bytearray | None, error: bytes | None,
    ) -> None:
        """Finish a launch by compiled code that trapped or reached code that was left out."""
        if error is not None:
            made.trap(grid, list(struct.unpack("<16q", error)))
        assert cold is not None
        self._run_cold(kernel, Work(grid, args), cold)

    def _compile(
        self, source: KernelSource, part: Part, sanitizer: Instrumentation | None = None, *,
        registers: int = 128, shuffled: bool = False,
    ) -> SimulatedKernel:
        return SimulatedKernel(
            source.name.removesuffix(CONDITIONAL), source, part, sanitizer, shuffled, registers,
            max_threads=self.target.max_work_group_size)

    def launch(
        self,
        kernel: SimulatedKernel,
        grid: tuple[int, int, int],
        args: Sequence[int | float],
        *,
        stream: int = 0,
        sanitize: bool | None = None,
        tensors: Given | None = None,
        cooperative: bool = False,
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
        plain = not (sanitize or cooperative or programs is not None)
        if plain and self._is_plain() and self._run_plainly(kernel, grid, args):
            return
        work = Work(grid, args, tensors, cooperative, programs)
        around = observers.wanted()
        if around is None:
            self._start(kernel, work, sanitize)
        else:
            around.run(self, kernel.name, partial(self._start, kernel, work, sanitize))

    def _is_plain(self) -> bool:
        """True if nothing observes a launch: checks, traces, recorders, maps of unwritten bytes."""
        return (knobs.plain_launches() and not self.is_dry and observers.wanted() is None
                and not torch_xpu.has_maps())

    def _run_plainly(
        self, kernel: SimulatedKernel, grid: tuple[int, int, int], args: Sequence[int | float]
    ) -> bool:
        """Run the version for these arguments; False if the launch needs the general path."""
        version = kernel
        failing = kernel.versions.failing(args, grid) if kernel.versions is not None else ""
        if failing and kernel.versions is not None:
            version = cast(SimulatedKernel, kernel.versions.general(failing))
        if version.prefers_whole:
            return False
        made, cold = version.fastest(args), None
        version.run_natively(made, like=kernel)
        if not version.host.is_whole:
            cold = bytearray(math.prod(grid) * made.host.sub_groups)
        if not made.run(grid, args, cold):
            return False
        if cold is not None and 1 in cold:
            self._run_cold(version, Work(grid, args), cold)
        if self.clock is not None:
            self.clock.note(version, grid, args)
        return True

    def _run_cold(self, kernel: SimulatedKernel, work: Work, cold: bytearray) -> None:
        """Run subgroups again, in the whole kernel, that reached code that was left out."""
        kernel.prefers_whole = cold.count(1) * 4 > len(cold)
        if kernel.prefers_whole and kernel.launch_state is not None:
            kernel.launch_state.stop()
        launch = self._launch(self._whole(kernel), work)
        each = work.groups * launch.host.sub_groups // len(cold)
        launcher.run_again(launch, bytearray(np.repeat(np.frombuffer(cold, np.uint8), each)))

    def _start(self, kernel: SimulatedKernel, work: Work, sanitize: bool | None) -> None:
        """Run the version for these arguments."""
        args, grid = work.args, work.grid
        failing = kernel.versions.failing(args, grid) if kernel.versions is not None else ""
        if failing and kernel.versions is not None:
            other: Any = kernel.versions.general(failing)
            self._start(other, work, sanitize)
            return
        if work.cooperative:
            check_held(kernel.name, grid, kernel.resident)
        if self.is_dry:
            launcher.pack_arguments(kernel.name, kernel.argument_types, work.args)
        else:
            self._run(kernel, work, sanitize)
        if self.clock is not None:
            self.clock.note(kernel, grid, args)

    def _run(self, kernel: SimulatedKernel, work: Work, sanitize: bool | None) -> None:
        if knobs.sanitize() if sanitize is None else sanitize:
            from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation

            tensors = tensors_of(work.tensors)
            plan = Instrumentation(
                knobs.sanitize_finite(), knobs.strict_barriers(),
                suspects=self._suspects(kernel, work),
                integers={k: t.integer_bytes for k, t in tensors.items()})
            with self._checked(kernel, plan, work, tensors) as made:
                self._run_checked(*made, work)
            return
        for k in kernel.pointer_arguments if torch_xpu.has_maps() else ():
            if k < len(work.args):
                torch_xpu.mark_block(int(work.args[k]))
        if knobs.trace():
            self._launch_traced(kernel, work, knobs.trace())
            return
        seed = self._seed()
        if seed:
            launcher.run(self._launch(self._shuffled(kernel), work)._replace(seed=seed))
            return
        if kernel.prefers_whole or work.programs is not None:
            launcher.run(self._launch(self._whole(kernel), work))
            return
        launch = self._launch(kernel, work)
        if kernel.host.is_whole:
            launcher.run(launch)
            return
        cold = bytearray(work.groups * launch.host.sub_groups)
        launcher.run(launch, cold)
        if 1 in cold:
            self._run_cold(kernel, work, cold)

    def _suspects(self, kernel: SimulatedKernel, work: Work) -> frozenset[int]:
        """Pointer arguments that the kernel loads from, and whose memory is partly unwritten."""
        torch_xpu.track_writes()
        if not self._blocks.has_maps():
            return frozenset()
        pointers = kernel.pointer_arguments & kernel.source.read_arguments
        return frozenset(k for k in pointers if self._blocks.to_map(int(work.args[k])))

    def _needs_fallback(self, kernel: SimulatedKernel, work: Work) -> bool:
        """True if a work-group of a launch reaches code that the smaller kernel leaves out.

        If a guard traps, the answer is True, and the whole kernel, with checks, reports the reason.
        """
        if not kernel.source.has_known_guards or kernel.host.is_whole:
            return False
        if kernel.guards is None:
            kernel.guards = self._compile(kernel.source, Part.GUARDS)
        launch = self._launch(kernel.guards, work)
        cold = bytearray(work.groups * launch.host.sub_groups)
        try:
            launcher.run(launch, cold)
        except SimulatorTrap:
            return True
        return 1 in cold

    @contextmanager
    def _checked(
        self, kernel: SimulatedKernel, plan: Instrumentation, work: Work,
        tensors: Mapping[int, Tensor] | None = None,
    ) -> Iterator[tuple[SimulatedKernel, LaunchState]]:
        """Variant of a kernel for `plan` and this launch, compiled once, with its state."""
        from triton_xe.runtime.simulator.sanitizer import shadow

        with shadow.lock:
            is_whole = (kernel.part is Part.WHOLE or work.programs is not None
                        or self._needs_fallback(kernel, work))
            part = Part.WHOLE if is_whole else Part.KNOWN
            shuffled = bool(knobs.shuffle()) and not plan.trace
            key = (plan.key, shuffled), part
            found = kernel.checked.get(key)
            if found is None:
                shadow.prepare()
                found = kernel.checked[key] = self._compile(
                    kernel.source, part, plan, registers=kernel.n_registers, shuffled=shuffled)
            host = found.host
            assert host.sanitizer is not None
            state = shadow.LaunchState(
                self._blocks, host.sanitizer, host.argument_types, work.args, work.groups,
                host.slm_bytes, host.sub_groups, host.lanes,
                tensors_of(work.tensors) if tensors is None else tensors,
                takes_turns=host.takes_turns, is_eager=host.is_eager(work.groups) or shuffled)
            try:
                yield found, state
            finally:
                state.close()

    def _run_checked(
        self, kernel: SimulatedKernel, state: LaunchState, work: Work
    ) -> None:
        """Run with the checks; a trap becomes a finding too."""
        from triton_xe.runtime.simulator.sanitizer.state import Word

        try:
            self._run_with_state(kernel, state, work)
        except SimulatorTrap as error:
            findings.note(getattr(error, "finding", findings.Finding(
                "trap", kernel.name, "", str(error))))
            raise
        finally:
            accesses = int(state.words[Word.CHECKED])
            findings.note(findings.Launch(kernel.name, accesses))

    def _run_with_state(
        self, kernel: SimulatedKernel, state: LaunchState, work: Work
    ) -> None:
        seed = 0 if state.plan.trace else self._seed()
        launch = self._launch(kernel, work)._replace(state=state, seed=seed)
        cold = bytearray(work.groups * launch.host.sub_groups)
        launcher.run(launch, cold)
        if 1 in cold:
            raise DeviceError(f"kernel {kernel.name}: the answers of its guards changed")

    def _launch_traced(self, kernel: SimulatedKernel, work: Work, path: str) -> None:
        from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
        from triton_xe.runtime.simulator.sanitizer.state import Word
        from triton_xe.runtime.simulator.trace import tracing

        with self._checked(kernel, Instrumentation(trace=True), work) as (traced, state):
            records = state.trace()
            started = time.perf_counter()
            try:
                self._run_with_state(traced, state, work)
            finally:
                seconds = self._seconds(kernel, work, time.perf_counter() - started)
                count = int(state.words[Word.TRACED])
                tracing.write(path, kernel.name, state.plan.sites, records[:count],
                              max(0, count - len(records)), traced.host.lanes, seconds)

    def _seconds(self, kernel: SimulatedKernel, work: Work, here: float) -> float:
        """Time of a launch for its trace: predicted, or the host's time `here` without a clock."""
        if self.clock is None:
            return here
        return self.clock.predicted_us(kernel, work.grid, work.args) * 1e-6

    def _seed(self) -> int:
        """Seed for the order of the next launch, different each time; 0 for the usual order."""
        seed = knobs.shuffle()
        return 1 + (seed << 32) % _MOST_SEED + next(self._shuffled_launches) if seed else 0

    def _shuffled(self, kernel: SimulatedKernel) -> SimulatedKernel:
        key = "shuffled", Part.WHOLE
        if key not in kernel.checked:
            kernel.checked[key] = self._compile(
                kernel.source, Part.WHOLE, registers=kernel.n_registers, shuffled=True)
        return kernel.checked[key]

    def _whole(self, kernel: SimulatedKernel) -> SimulatedKernel:
        if kernel.whole is None:
            kernel.whole = self._compile(
                kernel.source, Part.WHOLE, registers=kernel.n_registers)
        return kernel.whole

    @staticmethod
    def _launch(kernel: SimulatedKernel, work: Work) -> launcher.Launch:
        types = kernel.host.argument_types
        arguments = launcher.pack_arguments(kernel.name, types, work.args)
        resident = kernel.resident if kernel.host.takes_turns else 0
        code, address = kernel.loaded
        return launcher.Launch(
            kernel.name, kernel.host, address, arguments, work.grid, None, resident,
            programs=work.programs, code=code)

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
