"""`TRITON_XE_RECORD=DIR`: write launches to folders, from which `triton-xe replay` repeats them.

The environment variables are read when the launch function of a kernel is created.  Therefore a
kernel is recorded from its first launch on, or never.  Other kernels are launched without any
overhead.  A recorded launch waits for the device before and after it.  If a launch cannot be
recorded, it still runs, and a warning gives the reason.
"""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata as packages
from pathlib import Path
from typing import Any

import numpy as np

from triton_xe import __version__, knobs
from triton_xe.errors import DeviceError
from triton_xe.locks import Lock
from triton_xe.runtime import arrays, observers
from triton_xe.runtime.device import Device, Kernel
from triton_xe.runtime.device import MemoryBlock as Block
from triton_xe.runtime.recording import folder as folders
from triton_xe.runtime.recording import memory
from triton_xe.runtime.recording.findings import finding_of
from triton_xe.runtime.recording.folder import (
    Argument,
    Finding,
    Program,
    Recording,
    Words,
)
from triton_xe.runtime.recording.views import array_extent, root_of, view_of

Tensors = tuple[Sequence[tuple[int, str]], Sequence[Any]]
"""((index among the launch's values, name) of each tensor), the tensors."""
REPORTS = "reports"
"""Triton's type of the buffer for prints and asserts of a kernel; replays have their own."""
MOST_WORDS = 1 << 16
"""Distinct numbers in one block that may be addresses; tables of pointers have fewer."""
MOST_NAME = 80
_lock = Lock()
launch_counts: Counter[tuple[str, str]] = Counter()
"""Launches by folder and kernel."""
used_bytes: Counter[str] = Counter()
"""Bytes recorded in each folder."""


@dataclass(frozen=True)
class Filter:
    """`name` or `name:nth`, several with commas; a name may have wildcards, nth counts from 1.

    >>> chosen = Filter.read("add*:2,softmax")
    >>> chosen.names("add_kernel"), chosen.takes("add_kernel", 1), chosen.takes("add_kernel", 2)
    (True, False, True)
    """

    parts: tuple[tuple[str, int], ...]

    @staticmethod
    @cache
    def read(text: str) -> Filter:
        parts = [each.strip().partition(":") for each in (text or "*").split(",")]
        wrong = [nth for _, colon, nth in parts if colon and not (nth.isdigit() and int(nth))]
        if wrong:
            raise DeviceError(f"TRITON_XE_RECORD_FILTER={text}: a launch is a number from 1 on, "
                              f"not {wrong[0]!r}; use name or name:nth")
        return Filter(tuple((name, int(nth or 0)) for name, _, nth in parts))

    def names(self, kernel: str) -> bool:
        """True if some launch of a kernel is chosen."""
        return any(fnmatch.fnmatchcase(kernel, name) for name, _ in self.parts)

    def takes(self, kernel: str, number: int) -> bool:
        return any(nth in (0, number) and fnmatch.fnmatchcase(kernel, name)
                   for name, nth in self.parts)


@dataclass(frozen=True)
class Loaded:
    """A kernel on its device, and the module that it was loaded from."""

    device: Device
    kernel: Kernel
    binary: bytes


def recorder(
    program: Callable[[Loaded], tuple[Program, str]], kernel: str, types: Sequence[str]
) -> Recorder | None:
    """The recorder of the launches of a kernel; None if none of them is to be recorded.

    `program` describes the kernel and its source, once it is loaded; `types` are Triton's.
    """
    is_chosen = knobs.record() and Filter.read(knobs.record_filter()).names(kernel)
    return Recorder(kernel, program, tuple(types)) if is_chosen else None


@dataclass(frozen=True)
class Recorder:
    """Launches one kernel, and records the launches that the variables choose."""

    kernel: str
    program: Callable[[Loaded], tuple[Program, str]]
    types: tuple[str, ...]

    def launch(
        self, loaded: Any, names: Sequence[str], grid: tuple[int, int, int],
        values: Sequence[Any], tensors: Tensors = ((), ()), **how: Any,
    ) -> None:
        """Launch a kernel of `loaded`, with `how` as keywords of the device's own launch.

        A launch that a simulated device captures into a graph is recorded at every replay of the
        graph.
        """
        start = partial(self._launch, loaded, names, grid, values, tensors, how)
        around = observers.wanted() if loaded.device.is_simulated else None
        if around is None:
            start()
        else:
            around.run(loaded.device, self.kernel, start)

    def _launch(
        self, loaded: Any, names: Sequence[str], grid: tuple[int, int, int],
        values: Sequence[Any], tensors: Tensors, given: dict[str, Any],
    ) -> None:
        """Launch a kernel, and record memory before and after it, or its error."""
        device, how = loaded.device, dict(given)
        taken = None if device.is_dry else self._record(loaded, names, grid, values, tensors, how)
        try:
            device.launch(loaded.kernel, grid, values, tensors=tensors, **how)
        except Exception as error:
            if taken is not None:
                taken.end(finding_of(error))
            raise
        if taken is not None:
            taken.end(None)

    def _record(
        self, loaded: Any, names: Sequence[str], grid: tuple[int, int, int],
        values: Sequence[Any], tensors: Tensors, how: dict[str, Any],
    ) -> _OpenRecording | None:
        """Record the inputs of the launch in a folder; None if it is not recorded."""
        with _lock:
            into, chosen = knobs.record(), Filter.read(knobs.record_filter())
            launch_counts[into, self.kernel] += 1
            number = launch_counts[into, self.kernel]
            if not (into and chosen.takes(self.kernel, number)):
                return None
            with _errors_as_warnings(f"launch {number} of kernel {self.kernel!r} is not recorded"):
                loaded.device.wait_for(how.get("stream", 0))
                found = _Launch(loaded, names, grid, values, tensors, self.types)
                program, source = self.program(loaded)
                made = replace(
                    found.recording(program, number), cooperative=how.get("cooperative", False),
                    sanitize=bool(how.get("sanitize", knobs.sanitize())))
                return _write(Path(into), made, found, source)
        return None


@contextlib.contextmanager
def _errors_as_warnings(what: str) -> Iterator[None]:
    """Turn an error into a warning, because a failed recording must not stop the program."""
    try:
        yield
    except Exception as error:
        why = str(error) or type(error).__name__
        warnings.warn(f"{what}: {why}", RuntimeWarning, stacklevel=5)


class _Launch:
    """Collects the memory that is reachable from a launch's arguments."""

    def __init__(
        self, loaded: Any, names: Sequence[str], grid: tuple[int, int, int],
        values: Sequence[Any], tensors: Tensors, types: Sequence[str],
    ) -> None:
        self.device, self.kernel, self.binary = loaded.device, loaded.kernel, loaded.binary
        self.grid, self.names, self.types = grid, names, types
        self.tensors = {k: tensor for (k, _), tensor in zip(*tensors, strict=True)}
        self.native = self.kernel.argument_types
        self.numbers = [_number(kind, value)
                        for kind, value in zip(self.native, values, strict=True)]
        self.own = {k: root_of(self.device, self.tensors.get(k), self._address(k))
                    for k in self._addresses()}
        self.blocks = self._merged(block for block in self.own.values() if block is not None)
        self.tables = self._find_tables()

    def _addresses(self) -> list[int]:
        """Indices of the values that are, or may be, addresses."""
        return [k for k, kind in enumerate(self.native) if self.types[k] != REPORTS and
                (kind == "ptr" or (kind == "i64" and is_like_address(self.numbers[k])))]

    def _address(self, k: int) -> int:
        """A value as an unsigned number, because addresses of a GPU may be in the upper half."""
        return int(self.numbers[k]) % (1 << 64)

    def _merged(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """Blocks that do not overlap, in the order of the arguments, then by address."""
        def first(block: Block) -> int:
            return min((k for k, own in self.own.items()
                        if own is not None and block.low <= own.low <= own.high <= block.high),
                       default=len(self.own))

        return tuple(sorted(merged(blocks), key=lambda block: (first(block), block.low)))

    def block_of(self, address: int) -> int | None:
        """The number of the block that contains an address, or ends at it."""
        inside = [n for n, b in enumerate(self.blocks) if b.low <= address < b.high]
        behind = [n for n, b in enumerate(self.blocks) if address in (b.low, b.high)]
        return next(iter(inside + behind), None)

    def _find_tables(self) -> tuple[Words, ...]:
        """Addresses in tensors of 64-bit integers; the blocks they point to are recorded, too."""
        found = []
        for k, kind in enumerate(self.types):
            block = self.own.get(k)
            if kind in ("*i64", "*u64") and block is not None:
                found.append((block, *self._pointers_in(block, self._address(k))))
        self.blocks = self._merged((*self.blocks, *(b for _, _, more in found for b in more)))
        tables: dict[int, set[int]] = {}
        for block, addresses, _ in found:
            number = self.block_of(block.low)
            if number is not None and addresses:
                offset = block.low - self.blocks[number].low
                tables.setdefault(number, set()).update(offset + at for at in addresses)
        return tuple(Words(number, tuple(sorted(at))) for number, at in sorted(tables.items()))

    def _pointers_in(self, block: Block, address: int) -> tuple[list[int], list[Block]]:
        """Byte offsets of a block at which there are addresses, and the blocks of these."""
        first = (address - block.low) % 8
        data = memory.contents(self.device, block)[first:]
        numbers = data[: data.size // 8 * 8].view(np.uint64)
        likely = np.unique(numbers[is_like_address(numbers.view(np.int64))])
        if likely.size > MOST_WORDS:
            return [], []
        blocks = {int(n): b for n in likely
                  if (b := self._known_block(int(n))) is not None and b.nbytes}
        at = np.flatnonzero(np.isin(numbers, np.array(list(blocks), np.uint64)))
        return (at * 8 + first).tolist(), list(blocks.values())

    def _known_block(self, address: int) -> Block | None:
        """The block that contains an address, of those found or else of the device."""
        number = self.block_of(address)
        return self.device.block_of(address) if number is None else self.blocks[number]

    def recording(self, program: Program, number: int) -> Recording:
        versions = self.kernel.versions
        failing = "" if versions is None else versions.failing(self.numbers, self.grid)
        return Recording(
            program, self.grid, tuple(map(self._argument, range(len(self.native)))), self.blocks,
            self.tables, number, failing, device=_device_facts(self), versions=_versions())

    def _argument(self, k: int) -> Argument:
        """Describe an argument, with the block that it points to."""
        value, tensor = self.numbers[k], self.tensors.get(k)
        block = self.block_of(self._address(k)) if k in self.own and value else None
        value = value if block is None else self._address(k)
        made = Argument(self.names[k], self.native[k], self.types[k], value, block)
        if self.native[k] != "ptr" or block is None:
            return made
        known = self.own[k] or self.blocks[block]
        extent = array_extent(tensor) or (known.low, known.high)
        return replace(made, extent=extent, view=view_of(tensor))


def is_like_address(number: Any) -> Any:
    """True if a number may be an address of memory; elementwise for an array.

    >>> is_like_address(5), is_like_address(0x7F00_0000_1000), is_like_address(-(1 << 45))
    (False, True, True)
    """
    return (abs(number) >= 1 << 16) & (abs(number) < 1 << 57)


def _number(kind: str, value: Any) -> int | float:
    if kind == "ptr":
        return arrays.address_of(value)
    return float(value) if kind.startswith("f") else int(value)


def merged(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Merge blocks that overlap, and sort them by address.

    >>> [(b.low, b.high) for b in merged([Block(0, 8), Block(16, 20), Block(4, 12), Block(12, 14)])]
    [(0, 12), (12, 14), (16, 20)]
    """
    found: list[Block] = []
    for block in sorted(set(blocks), key=lambda b: (b.low, b.high)):
        if found and block.low < found[-1].high:
            found[-1] = replace(found[-1], high=max(block.high, found[-1].high))
        elif not (found and found[-1].low == block.low):
            found.append(block)
        else:
            found[-1] = block
    return tuple(found)


def _device_facts(launch: _Launch) -> dict[str, Any]:
    """Properties of the device, and of the kernel on it."""
    device, kernel = launch.device, launch.kernel
    facts = {"name": device.name, "simulated": device.is_simulated, "registers": kernel.n_registers,
             "spills": kernel.n_spills}
    return facts | device.build_facts(kernel)


def _versions() -> dict[str, str]:
    """Versions of the packages involved."""
    found = {"triton-xe": __version__, "python": sys.version.split()[0]}
    for name in ("triton", "torch", "numpy", "llvmlite"):
        with contextlib.suppress(packages.PackageNotFoundError):
            found |= {name: packages.version(name)} if name in sys.modules else {}
    return found


@dataclass
class _OpenRecording:
    """A recorded launch that has not ended yet."""

    folder: Path
    recording: Recording
    device: Any
    digests: list[bytes] | None
    """Digests of the blocks before the launch; None if memory after it is not recorded."""

    def end(self, finding: Finding | None) -> None:
        """Add the result of the launch, and the memory that it changed."""
        made = replace(self.recording, finding=finding)
        with _errors_as_warnings(f"{self.folder} has no memory after the launch"), _lock:
            if finding is None and self.digests is not None:
                made = replace(made, changed=self._store_changed(self.digests))
        with _errors_as_warnings(f"{self.folder} does not say how the launch ended"):
            (self.folder / folders.LAUNCH).write_text(made.to_json())


    def _store_changed(self, before: list[bytes]) -> tuple[int, ...]:
        """Write the blocks whose digests changed."""
        self.device.wait_for(0)
        blocks = self.recording.blocks
        changed = tuple(n for n, block in enumerate(blocks)
                        if memory.digest(self.device, block) != before[n])
        _check_limit(sum(blocks[n].nbytes for n in changed))
        memory.store(self.folder / folders.AFTER,
                     ((n, memory.pieces(self.device, blocks[n])) for n in changed))
        return changed


def _check_limit(nbytes: int) -> None:
    """Count bytes as recorded; `DeviceError` if they exceed the limit."""
    before = used_bytes[knobs.record()]
    if before + nbytes > knobs.record_limit():
        raise DeviceError(
            f"its {nbytes} bytes of memory and the {before} bytes recorded before are more "
            f"than TRITON_XE_RECORD_LIMIT={knobs.record_limit()}; name the launch that matters "
            "with TRITON_XE_RECORD_FILTER=name:nth, or set the limit to more bytes")
    used_bytes[knobs.record()] += nbytes


def _write(into: Path, recording: Recording, launch: _Launch, source: str) -> _OpenRecording:
    """Write everything known before the launch, because the launch may end the process."""
    _check_limit(recording.nbytes)
    folder = _new_folder(into, recording.program.kernel)
    try:
        general, recording = _general(recording, launch)
        for name, data in {
            recording.program.module: launch.binary, folders.SOURCE: source.encode(), **general,
        }.items():
            (folder / name).write_bytes(data)
        recording = _store_before(folder, recording, launch.device)
        (folder / folders.LAUNCH).write_text(recording.to_json())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    digests = ([memory.digest(launch.device, block) for block in recording.blocks]
               if knobs.record_after() else None)
    return _OpenRecording(folder, recording, launch.device, digests)


def _store_before(folder: Path, recording: Recording, device: Device) -> Recording:
    """Write the memory, and which of its bytes were never written, if known."""
    memory.store(folder / folders.BEFORE,
                 ((n, memory.pieces(device, block)) for n, block in enumerate(recording.blocks)))
    maps = {n: device.unwritten(block) for n, block in enumerate(recording.blocks)}
    known = {n: map_ for n, map_ in maps.items() if map_ is not None}
    if known:
        memory.store(folder / folders.UNWRITTEN, ((n, iter([map_])) for n, map_ in known.items()))
    return replace(recording, unwritten=tuple(known))


def _general(recording: Recording, launch: _Launch) -> tuple[dict[str, bytes], Recording]:
    """The general version, if the launch uses it."""
    if not recording.failing:
        return {}, recording
    binary, flags = launch.kernel.versions.module()
    return {folders.GENERAL: binary}, replace(recording, general_flags=flags)


def _new_folder(into: Path, kernel: str) -> Path:
    """Create a folder whose name sorts after all others, also those of other processes."""
    into.mkdir(parents=True, exist_ok=True)
    taken = [int(each.name[:6]) for each in into.iterdir() if each.name[:6].isdigit()]
    for number in itertools.count(max(taken, default=0) + 1):
        made = into / f"{number:06}-{kernel[:MOST_NAME]}"
        with contextlib.suppress(FileExistsError):
            made.mkdir()
            return made
    raise AssertionError
