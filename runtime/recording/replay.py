"""Repeat a recorded launch, without torch, triton and the program that recorded it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from triton_xe.errors import DeviceError
from triton_xe.runtime.arguments import Elements
from triton_xe.runtime.debug_buffer import DebugBuffer
from triton_xe.runtime.opening import open_device
from triton_xe.runtime.recording import folder as folders
from triton_xe.runtime.recording import memory
from triton_xe.runtime.recording.findings import finding_of
from triton_xe.runtime.recording.folder import Argument, Finding, Recording, View
from triton_xe.runtime.recording.memory import BlocksOnDevice, Bytes
from triton_xe.runtime.recording.recorder import REPORTS
from triton_xe.runtime.spirv_reader import EntryPoint

Memory = dict[int, Bytes]
"""Contents of blocks, by number."""


@dataclass(frozen=True)
class Outcome:
    """Result of one run; `after` is memory after it, `seconds` is the host's time."""

    finding: Finding | None
    milliseconds: float
    """Time on the device's clock; NaN for a run with a finding, or if the device has no time."""
    after: Memory
    seconds: float
    is_whole: bool
    """True if the kernel ran to its end."""


@dataclass(frozen=True)
class _Tensor:
    """Substitute for a tensor in the simulator's reports."""

    view: View
    address: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def dtype(self) -> str:
        return self.view.dtype

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.view.itemsize for step in self.view.steps)

    def element_size(self) -> int:
        return self.view.itemsize

    def data_ptr(self) -> int:
        return self.address


class Replay:
    """The launch of a folder on a device, which can be run any number of times.

    `device` is a name as for `open_device`.  The default, also for `sim`, is the simulated device
    that the kernel was compiled for.  Raise `DeviceError` if the folder is damaged, or the device
    has another type.
    """

    def __init__(self, folder: Path, device: str = "") -> None:
        self.folder, self.recording = folder, folders.read(folder)
        program = self.recording.program
        is_usual = device in ("", "sim")
        self.device: Any = open_device(f"sim:{program.target}" if is_usual else device)
        if self.device.target.name != program.target:
            raise DeviceError(
                f"kernel {program.kernel!r} was compiled for {program.target}, but "
                f"{self.device.name} is {self.device.target.name}; leave out --device")
        blocks = self.recording.blocks
        self.placed = BlocksOnDevice(self.device, blocks)
        before = memory.load(folder / folders.BEFORE, blocks, range(len(blocks)))
        self.before = self._relocated(before)
        self.values = [self._value(argument) for argument in self.recording.arguments]
        self.unwritten = memory.load(folder / folders.UNWRITTEN, blocks, self.recording.unwritten)
        self._maps = {number: map_.copy() for number, map_ in self.unwritten.items()}
        if self.device.is_simulated:
            self._grant_memory()
        self.kernel = self._load()
        self._check_version()

    def _grant_memory(self) -> None:
        """Let the simulator's kernels access the recorded memory only; mark unwritten bytes."""
        for number, map_ in self._maps.items():
            self.device.note_unwritten(self.placed.blocks[number].low, map_)
        for argument in self.recording.arguments:
            low, high = argument.extent
            if argument.block is not None and high > low:
                self.device.borrow(*(self.placed.moved(at, argument.block) for at in (low, high)))
        named = {argument.block for argument in self.recording.arguments if argument.type == "ptr"}
        for number, block in enumerate(self.placed.blocks):
            if number not in named and block.nbytes:
                self.device.borrow(block.low, block.high)

    def _relocated(self, contents: Memory) -> Memory:
        """Replace recorded addresses in memory contents by those of this process."""
        for table in self.recording.tables:
            data = contents.get(table.block)
            if data is not None:
                old = memory.words(data, table.offsets)
                memory.set_words(data, table.offsets, self.placed.moved_by_number(old))
        return contents

    def _value(self, argument: Argument) -> int | float:
        """The value to launch with; pointers point to memory of this process."""
        if argument.triton == REPORTS or (argument.type != "ptr" and argument.block is None):
            return argument.value
        if argument.block is None and argument.value and not self.device.is_simulated:
            raise DeviceError(
                f"argument {argument.name!r} of kernel {self.recording.program.kernel!r} pointed "
                "to unknown memory; only a simulated device replays such a launch")
        return self.placed.moved(int(argument.value), argument.block)

    def _load(self) -> Any:
        """Load the recorded module, with its general version if the launch used that."""
        program, recording = self.recording.program, self.recording
        binary = self._file(program.module)
        if program.kind == "zebin":
            if self.device.is_simulated:
                raise DeviceError(
                    f"kernel {program.kernel!r} is native code, which the simulator cannot run; "
                    "replay it with --device gpu, or record one compiled with --emit spirv")
            types = tuple(argument.type for argument in recording.arguments)
            return self.device.load_native(binary, EntryPoint(
                program.kernel, types, program.subgroup_size, program.group_size))
        general = None
        if recording.failing:
            module = self._file(folders.GENERAL), recording.general_flags
            general = lambda: module  # noqa: E731
        return self.device.load(
            binary, program.kernel, build_flags=program.build_flags, general=general)

    def _file(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise DeviceError(f"{self.folder / name} is missing: {error.strerror}") from error

    def _check_version(self) -> None:
        """Check that the launch takes the same version of the kernel as the recorded one."""
        versions = self.kernel.versions
        failing = "" if versions is None else versions.failing(self.values, self.recording.grid)
        if failing != self.recording.failing:
            raise DeviceError(
                f"the recorded launch ran {_version(self.recording.failing)}, and this one would "
                f"run {_version(failing)}")

    @property
    def programs(self) -> int:
        return int(np.prod(self.recording.grid, dtype=np.int64))

    def run(self, *, sanitize: bool = False, programs: Sequence[int] | None = None) -> Outcome:
        """Launch with the recorded memory, and return the result."""
        if (sanitize or programs is not None) and not self.device.is_simulated:
            raise DeviceError("a GPU runs whole launches, without checks: leave out --device")
        for number, data in self.before.items():
            self.placed.write(number, data)
        for number, map_ in self.unwritten.items():
            self._maps[number][:] = map_
        finding, start, end = None, self.device.record_event(), None
        began = time.perf_counter()
        buffers = {k: self._buffer() for k, each in enumerate(self.recording.arguments)
                   if each.triton == REPORTS}
        try:
            self._launch(buffers, sanitize, programs)
            end = self.device.record_event()
            for buffer in buffers.values():
                buffer.report()
            self.device.synchronize()
        except DeviceError as error:
            finding = finding_of(error)
        seconds = time.perf_counter() - began
        after = {number: self.placed.read(number) for number in self.before}
        return Outcome(finding, self._elapsed_ms(start, end), after, seconds, end is not None)

    def _buffer(self) -> DebugBuffer:
        """Buffer for prints and asserts of the kernel."""
        program = self.recording.program
        return DebugBuffer(self.device, program.kernel, program.sites)

    def _elapsed_ms(self, start: Any, end: Any) -> float:
        """Milliseconds between two events; NaN for a run that did not end, or without a clock."""
        try:
            return float("nan") if end is None else float(self.device.elapsed_ms(start, end))
        except DeviceError:
            return float("nan")

    def _launch(
        self, buffers: dict[int, DebugBuffer], sanitize: bool, programs: Sequence[int] | None
    ) -> None:
        simulated = {"sanitize": sanitize, "programs": programs, "tensors": self._tensors()}
        asked: dict[str, Any] = simulated if self.device.is_simulated else {}
        values = [buffers[k].pointer if k in buffers else value
                  for k, value in enumerate(self.values)]
        self.device.launch(
            self.kernel, self.recording.grid, values,
            cooperative=self.recording.cooperative and programs is None, **asked)

    def _tensors(self) -> Any:
        """Tensors for the simulator's checks; arrays of the host have only a type."""
        found = [(k, argument.name, self._tensor(argument, int(self.values[k])))
                 for k, argument in enumerate(self.recording.arguments) if argument.type == "ptr"]
        return tuple(each[:2] for each in found), tuple(each[2] for each in found)

    def _tensor(self, argument: Argument, address: int) -> _Tensor | Elements:
        blocks = self.recording.blocks
        is_array = argument.block is not None and blocks[argument.block].kind == "host"
        if argument.view is None or is_array:
            return Elements(address, argument.triton)
        return _Tensor(argument.view, address)

    @property
    def why_nothing_to_compare(self) -> str:
        """Reason why there is no memory after the recorded launch; empty if there is."""
        if self.recording.changed is not None:
            return ""
        if self.recording.finding is not None:
            return "the recorded launch ended in an error"
        return "memory after the launch was not recorded (TRITON_XE_RECORD_AFTER, or it never came)"

    def expected(self) -> Memory:
        """The memory after the recorded launch; `DeviceError` if that was not recorded."""
        changed = self.recording.changed
        if changed is None:
            raise DeviceError(f"{self.folder}: {self.why_nothing_to_compare}")
        found = memory.load(self.folder / folders.AFTER, self.recording.blocks, changed)
        return self.before | self._relocated(found)


def _version(failing: str) -> str:
    if not failing:
        return "the version that was compiled for it"
    return f"the general version, as it does not hold that {failing}"


def describe(recording: Recording) -> str:
    """Describe a recorded launch in a few lines."""
    program, versions, device = recording.program, recording.versions, recording.device
    made = ", ".join(f"{name} {number}" for name, number in versions.items())
    driver = f", driver {device['driver']}" if "driver" in device else ""
    driver += ", under the checks" if recording.sanitize else ""
    lines = [f"kernel {program.kernel}, launch {recording.number}, grid {recording.grid}",
             f"  recorded on {device.get('name')}{driver}; {made}"]
    if recording.failing:
        lines.append(f"  {_version(recording.failing)}")
    return "\n".join([*lines, *(f"  {_describe(each)}" for each in recording.arguments)])


def _describe(argument: Argument) -> str:
    """Describe an argument in one line."""
    if argument.type != "ptr":
        return f"{argument.name}: {argument.triton} = {argument.value}"
    if argument.triton == REPORTS:
        return "a buffer for what it prints and asserts"
    if not argument.value:
        return f"{argument.name}: {argument.triton}, a null pointer"
    if argument.block is None:
        return f"{argument.name}: {argument.triton}, to unknown memory"
    where = f"in block {argument.block}"
    view = argument.view
    if view is None:
        return f"{argument.name}: {argument.triton}, {where}"
    strides = tuple(step // view.itemsize for step in view.steps)
    return f"{argument.name}: {view.dtype} {view.shape}, strides {strides}, {where}"
