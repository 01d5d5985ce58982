"""Allocate the exchanges of a kernel in shared local memory, and find the barriers that they need.

An exchange writes its region, waits at a barrier, and reads.  Before it writes, all earlier reads
of that memory must be complete.  The emitter therefore inserts a barrier before the write, too.
This module finds the unnecessary barriers.  Its analysis propagates the regions accessed since the
last barrier along all paths.  Exchanges alternate between two halves of the memory, so that the
barrier of the exchange in between is usually enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SPARE_BYTES = 32 * 1024
"""Bytes of shared memory up to which none is reused, because reuse costs a barrier."""


@dataclass(eq=False)
class Region:
    """Memory of one exchange; `SlmPlan.assign_offsets` sets `offset`."""

    nbytes: int
    half: int
    """Half of the memory, 0 or 1, that the region uses if the halves fit."""
    block: Any = None
    first: int = 0
    """Number of accesses and barriers before its first access."""
    last: int = 0
    """Number of accesses and barriers up to its last access."""
    open_until: float = 0
    """Number of accesses and barriers after which it is not read at uses in its block any more."""
    offset: int = 0

    def is_live(self, other: Region) -> bool:
        """True if this region may be read after a later one is written.

        Uses in a block read its open regions.  These do not share memory.  Therefore a loop needs
        no barrier between the reads of one and the writes of another in the next iteration.
        """
        return self.last > other.first or (
            self.block is other.block and self.open_until > other.first)

    def overlaps(self, other: Region) -> bool:
        ends = self.offset + self.nbytes, other.offset + other.nbytes
        return self.offset < ends[1] and other.offset < ends[0]


@dataclass(eq=False)
class Touch:
    """A write or read of a region."""

    region: Region
    barrier: Any = None
    """Barrier directly before the access that may be removed; None if there is none."""
    reads: bool = False
    ends: bool = False
    """True for the last write of an exchange: its other writes do not conflict with it."""


@dataclass(eq=False)
class Barrier:
    """A barrier of the work-group between the writes and the reads of an exchange."""

    barrier: Any = None
    """The barrier if it may be removed, which is right if a later one also precedes the reads."""
    removed: bool = False


Event = Touch | Barrier


@dataclass
class SlmPlan:
    """The exchanges of one kernel in the order in which they are emitted."""

    regions: list[Region] = field(default_factory=list)
    events: dict[Any, list[Event]] = field(default_factory=dict)
    """Block -> its accesses and barriers in order."""
    count: int = 0

    def region(self, nbytes: int, block: Any = None) -> Region:
        """Add a region of at least `nbytes`, in the half that the previous one does not use."""
        region = Region(nbytes + -nbytes % 64, len(self.regions) & 1, block, self.count)
        self.regions.append(region)
        return region

    def note(self, block: Any, event: Event) -> None:
        """Append an event; successive reads of one region count once."""
        events = self.events.setdefault(block, [])
        self.count += 1
        if isinstance(event, Touch):
            event.region.last = self.count
        if isinstance(event, Touch) and event.reads and events:
            last = events[-1]
            if isinstance(last, Touch) and last.reads and last.region is event.region:
                return
        events.append(event)

    def assign_offsets(self) -> int:
        """Assign an offset to each region; return the bytes needed."""
        sizes = [max((r.nbytes for r in self.regions if r.half == h), default=0) for h in (0, 1)]
        first = sizes[0] if sum(sizes) <= SPARE_BYTES else 0
        live: list[Region] = []
        for region in self.regions:
            live = [other for other in live if other.is_live(region)]
            ends = sorted(other.offset + other.nbytes for other in live)
            for offset in (first * region.half, 0, *ends):
                region.offset = offset
                if not any(map(region.overlaps, live)):
                    break
            live.append(region)
        return max((r.offset + r.nbytes for r in self.regions), default=0)

    def removable_barriers(
        self, entry: Any, successors: Mapping[Any, Sequence[Any]]
    ) -> list[Any]:
        """Return the barriers that can be removed; `successors` is the control flow.

        Try each barrier before a write, then each before reads.  The latter are removable because
        two exchanges that are both written before either is read need one barrier.
        """
        removed: list[Any] = []
        optional = [
            e for events in self.events.values() for e in events
            if isinstance(e, Touch) and e.barrier is not None
        ]
        for touch in optional:
            barrier, touch.barrier = touch.barrier, None
            if self._safe(entry, successors):
                removed.append(barrier)
            else:
                touch.barrier = barrier
        before_reads = [e for events in self.events.values() for e in events
                        if isinstance(e, Barrier) and e.barrier is not None]
        for event in before_reads:
            event.removed = True
            if self._safe(entry, successors):
                removed.append(event.barrier)
            else:
                event.removed = False
        return removed

    def _safe(self, entry: Any, successors: Mapping[Any, Sequence[Any]]) -> bool:
        """True if no region is written while an overlapping one may still be in use."""
        incoming: dict[Any, frozenset[tuple[Region, bool]]] = {entry: frozenset()}
        waiting = [entry]
        while waiting:
            block = waiting.pop()
            leaving = self._propagate(block, incoming[block])
            if leaving is None:
                return False
            for following in successors[block]:
                known = incoming.get(following)
                joined = leaving if known is None else known | leaving
                if joined != known:
                    incoming[following] = joined
                    waiting.append(following)
        return True

    def _propagate(
        self, block: Any, touched: frozenset[tuple[Region, bool]]
    ) -> frozenset[tuple[Region, bool]] | None:
        """Propagate the regions accessed since the last barrier through a block.

        Each comes with a flag: true for a read, false for a write.  None if an access conflicts
        with an earlier one.
        """
        for event in self.events.get(block, ()):
            if isinstance(event, Barrier):
                touched = touched if event.removed else frozenset()
                continue
            if event.barrier is not None:
                touched = frozenset()
            others = (region for region, reads in touched if not (reads and event.reads)
                      and not (event.ends and region is event.region and not reads))
            if clash(event.region, others):
                return None
            touched = touched | {(event.region, event.reads)}
        return touched


def clash(region: Region, touched: Iterable[Region]) -> bool:
    """True if a region overlaps one of the accessed ones."""
    return any(region.overlaps(other) for other in touched)
