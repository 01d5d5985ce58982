"""The texts of the sanitizer's reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.findings import Finding
from triton_xe.runtime.simulator.context import Code, program
from triton_xe.runtime.simulator.run.blocks import Block
from triton_xe.runtime.simulator.sanitizer import cells
from triton_xe.runtime.simulator.sanitizer.plan import Cause, Origin
from triton_xe.runtime.simulator.sanitizer.shadow import MOST_RECORDS_OF_RELEASES, LaunchState
from triton_xe.runtime.simulator.sanitizer.state import Entry, Fault, Kind, Word

NEAR, FAR = 4096, 1 << 20
"""Distance in bytes from a block up to which an address is assumed to be meant for it."""


class SanitizerReport(SimulatorTrap):
    """A fault that the sanitizer found."""

    def __init__(self, finding: Finding, programs: tuple[int, ...] = ()) -> None:
        super().__init__(finding.text)
        self.finding, self.programs = finding, programs
        self.what, self.location = finding.kind, finding.location


def explain(
    state: LaunchState, kernel: str, locations: Mapping[int, str], grid: tuple[int, int, int],
    error: Sequence[int],
) -> SanitizerReport:
    """The report of an error record."""
    fault = Fault(*error[: len(Fault._fields)])
    report = _Report(state, locations, grid, fault)
    return SanitizerReport(report.make(kernel), report.programs())


class _Report:
    """Writes the text of one fault."""
    def __init__(
        self, state: LaunchState, locations: Mapping[int, str], grid: tuple[int, int, int],
        fault: Fault,
    ) -> None:
        self.state, self.locations, self.grid = state, locations, grid
        self.fault = fault
        self.slm = bool(fault.kind & Kind.SLM)
        self.slm_bytes = int(state.words[Word.SLM_BYTES])
        self.address = fault.address & (1 << 64) - 1
        self.argument = self._argument(fault.row, self.address)
        self.nbytes = fault.size
        if self.slm:
            self.argument = None
            self.address -= int(state.table[state.count, Entry.LOW])
        verb = "atomic" if fault.kind & Kind.ATOMIC else _verb(fault.kind & Kind.WRITE)
        self.what = f"{verb} of {fault.size} bytes"
        self.where = f"address {self.address:#x}"
        if self.slm:
            self.where = f"byte {self.address} of shared local memory"

    def make(self, kernel: str) -> Finding:
        """The finding: its text, with program, lane, source location and tensor."""
        f = self.fault
        kind, words = _TEXTS[Code(f.code)]
        if f.code == Code.UNDEFINED:
            uses = self.state.plan.undefined.uses
            kind = self._origin()[0].why.value[0] if uses[f.other].origins else uses[f.other].kind
        text = words(self)
        location = self.locations.get(f.site, f"line {f.site} of its LLVM module")
        who = self._warp_text(f.group, f.sg) + (f", lane {f.lane}" if f.lane >= 0 else "")
        tensor = self.state.tensors.get(-1 if self.argument is None else self.argument)
        if tensor is not None:
            text = f"{text}; {tensor.describe(self.address)}"
        table = self.state.tensors.get(self.state.plan.through.get(f.site, -1))
        if tensor is None and table is not None:
            text = f"{text}; the address was read from argument {table.name!r}"
        return Finding(kind, kernel, location, f"kernel {kernel}, {location}, {who}: {text}",
                       next((t.name for t in (tensor, table) if t is not None), ""),
                       "" if tensor is None else tensor.element(self.address))

    def programs(self) -> tuple[int, ...]:
        """The program of the fault, and the other program of a race between two."""
        other = int(cells.GROUP.extract(self.fault.other & (1 << 64) - 1)) - 1
        is_one = self.fault.code == Code.RACE and 0 <= other < cells.SEVERAL_GROUPS - 1
        return tuple(dict.fromkeys((self.fault.group, *((other,) if is_one else ()))))

    def _argument(self, row: int, address: int) -> int | None:
        return row if 0 <= row < self.state.count else self.state.argument_of(address)

    def _warp_text(self, group: int, warp: int) -> str:
        return f"program {self._program(group)}, warp {warp}"

    def _program(self, group: int) -> tuple[int, int, int]:
        return program(self.state.number(group), self.grid)

    def bounds(self) -> str:
        """Say what is at an address out of bounds: a block, freed memory, or host memory."""
        state, address, what = self.state, self.address, self.what
        if self.slm:
            return (f"out-of-bounds {what} at byte {address} of shared local memory, which has "
                    f"{self.slm_bytes} bytes")
        if 0 <= address < 1 << 16:
            return f"{what} through a null pointer (address {address:#x})"
        freed = state.memory.freed(address)
        if freed is not None:
            return f"{what} after free: address {address:#x} was in a {freed}, which has been freed"
        block = state.blocks.get(self.fault.row) if self.fault.row >= 0 else None
        if block is not None:
            return f"out-of-bounds {what}: {relative_position(block, address)}"
        near = state.memory.nearest(address)
        far = 1 << 62 if near is None else min(abs(address - near.low), abs(address - near.high))
        if near is not None and (far < NEAR or (far < FAR and not is_mapped(address))):
            return f"out-of-bounds {what}: {relative_position(near, address)}"
        if is_mapped(address):
            return (f"{what} of host memory at {address:#x}: the pointer is no device memory (a "
                    "CPU tensor?); a GPU cannot reach it")
        return f"{what} at {address:#x}, where there is no memory"

    def alignment(self) -> str:
        return (f"misaligned {self.what} at {self.where}: it was compiled for a multiple of "
                f"{self.fault.kind >> 8} bytes")

    def race(self) -> str:
        """Say which earlier access conflicts, and what does not order the two."""
        f = self.fault
        other = f.other & (1 << 64) - 1
        group, warp = cells.GROUP.extract(other) - 1, cells.WARP.extract(other)
        verb = "atomic" if f.other_writes and cells.ATOMIC.extract(other) else _verb(f.other_writes)
        if group == cells.SEVERAL_GROUPS - 1:
            who = "several programs"
        elif warp == cells.SEVERAL:
            who = f"several warps of program {self._program(group)}"
        else:
            who = self._warp_text(group, warp)
        hint = "no barrier with a fence of that memory is between them"
        if group != f.group:
            hint = "nothing orders them: programs run at the same time"
        location = self.locations.get(f.other_site, f"line {f.other_site}")
        if f.other_writes and location == self.locations.get(f.site) and group == f.group:
            location = f"the same line, {location}, of another element of the tensor"
        through = self.state.plan.through_argument
        self.argument = through.get(f.site, self.argument)
        tensor = self.state.tensors.get(through.get(f.other_site, -1))
        by = ""
        if tensor is not None and self.argument != through[f.other_site]:
            by = f" through argument {tensor.name!r}"
        return (f"data race: {self.what} at {self.where} and the earlier {verb}{by} at {location} "
                f"({who}); {hint}")

    def uninitialised(self) -> str:
        self.argument = None
        return (f"{self.what} of shared local memory that no store of this work-group wrote: byte "
                f"{self.fault.other} of {self.slm_bytes}")

    def collision(self) -> str:
        return (f"{self.what} at {self.where}, where another element of the same tensor is stored, "
                "with a different value: which one stays is not defined")

    def records(self) -> str:
        self.argument = None
        return (f"this launch releases and acquires more than the checks can follow "
                f"({MOST_RECORDS_OF_RELEASES} releases by atomics that are not relaxed); check it "
                "with fewer programs, or make the atomics relaxed where they order nothing")

    def non_finite(self) -> str:
        self.argument = None
        return "finite operands give an infinity or NaN"

    def undefined(self) -> str:
        """Describe the use of an undefined value, and the reason why it is undefined."""
        use, self.nbytes = self.state.plan.undefined.uses[self.fault.other], 0
        if not use.origins:
            self.argument = use.entry if use.entry >= 0 else None
            return use.what if self.argument is None else (
                f"{use.what}, of what was read at address {self.address:#x}")
        origin, found = self._origin()
        location = self.locations.get(origin.line, f"line {origin.line}")
        subject = ("atomic" if origin.why is Cause.ATOMIC else
                   "load" if origin.why.is_load else "operation")
        what = f"{use.what} a value that is undefined here: the {subject} at {location}"
        if not origin.why.is_load:
            if found is not None and found > 1 and origin.entry >= 0:
                self.address, self.argument = found, origin.entry
                return (f"{what} {origin.why.value[1]}{self._read_from(origin.source)}, made of "
                        f"what was read at address {found:#x}")
            self.argument = use.entry if use.entry >= 0 else None
            return (f"{what} {origin.why.value[1]}{self._read_from(origin.source)}"
                    f"{self._read_from(origin.indices, link='by')}")
        self.address, self.argument = found or 0, None
        if origin.why is Cause.PART:
            self.argument = self._argument(origin.entry, self.address)
            size = self.state.plan.undefined.integers[origin.entry]
            return (f"{use.what} what is no integer of its tensor: the {subject} at {location} "
                    f"{origin.why.value[1]}, of {8 * size} bits")
        if origin.why is Cause.UNWRITTEN:
            self.argument = origin.entry
            self.address = self.address or self.state.first_unwritten(origin.entry)
            return (f"{what} read address {self.address:#x}, which was never written: by no kernel "
                    "and no operator of torch")
        if found is not None:
            self.argument = self._argument(origin.entry, self.address)
        where = f"; it did not read address {self.address:#x}" if found is not None else ""
        return f"{what} {origin.why.value[1]}{where}"

    def _read_from(self, argument: int, link: str = "of") -> str:
        """Name the argument that a value was read from, if it is known."""
        tensor = self.state.tensors.get(argument)
        return "" if tensor is None else f", {link} what was read from argument {tensor.name!r}"

    def _origin(self) -> tuple[Origin, int | None]:
        """Origin of an undefined value; and, for a load, its address.

        A broken promise comes first: a select may leave out what else is undefined in the lane.
        """
        f, plan = self.fault, self.state.plan.undefined
        origins = sorted(plan.uses[f.other].origins,
                         key=lambda k: (plan.origins[k].why is not Cause.PROMISE, k))
        found = _masked_off(self.state.origins, origins, f.sg, f.lane, f.group + 1)
        if found is None:
            return plan.origins[origins[-1]], None
        return plan.origins[found[0]], found[1]

    def unwritten(self) -> str:
        """Describe an atomic on unwritten memory."""
        if self.argument is not None:
            self.address = self.state.first_unwritten(self.argument, self.address)
        return (f"{self.what} on memory that was never written: no kernel and no operator of torch "
                f"has written address {self.address:#x}")


_TEXTS = {
    Code.BOUNDS: ("out-of-bounds", _Report.bounds),
    Code.ALIGNMENT: ("misaligned", _Report.alignment),
    Code.RACE: ("race", _Report.race),
    Code.UNINITIALISED: ("unwritten", _Report.uninitialised),
    Code.NON_FINITE: ("not-finite", _Report.non_finite),
    Code.UNDEFINED: ("undefined", _Report.undefined),
    Code.UNWRITTEN: ("unwritten", _Report.unwritten),
    Code.COLLISION: ("collision", _Report.collision),
    Code.RECORDS: ("too-many-releases", _Report.records),
}
"""Kind of finding of each fault, and the method that describes it."""


def _verb(writes: int) -> str:
    return "store" if writes else "load"


def _masked_off(
    recorded: NDArray[np.int64], loads: Sequence[int], warp: int, lane: int, group: int
) -> tuple[int, int] | None:
    """(load, address) of a masked-off lane: this one, else one of this subgroup, else any."""
    rows = [(k, sg) for sg in range(recorded.shape[1]) for k in loads
            if recorded[k, sg, 0] == group]
    rows.sort(key=lambda row: row[1] != warp)
    for k, sg in rows:
        if sg == warp and recorded[k, sg, 8 + lane]:
            return k, int(recorded[k, sg, 8 + lane])
    for k, sg in rows:
        lanes = recorded[k, sg, 8:]
        if lanes.any():
            return k, int(lanes[np.flatnonzero(lanes)[0]])
    return None


def relative_position(block: Block, address: int) -> str:
    """Describe the position of an address relative to a block."""
    if address < block.low:
        return f"{block.low - address} bytes before the start of the {block}"
    if address >= block.high:
        return f"{address - block.high} bytes past the end of the {block}"
    return f"it begins at byte {address - block.low} of the {block} and goes over its end"


def is_mapped(address: int) -> bool:
    """True if this process has memory at an address."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            for line in maps:
                low, high = (int(x, 16) for x in line.split(" ", 1)[0].split("-"))
                if low <= address < high:
                    return True
    except OSError:
        return False
    return False
