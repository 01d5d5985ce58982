"""Allocate the exchanges of a kernel in shared local memory, and find the barriers that they need.

An exchange writes its region, waits at a barrier, and reads.  Before it writes, all earlier reads
of that memory must be complete.  The emitter therefore inserts a barrier before the write, too.
This module removes the unnecessary ones, by following along every path which regions were accessed
since the last barrier.  Exchanges alternate between two halves of the memory, so that usually the
barrier of the exchange in between is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TURNS_LIMIT = 32 * 1024
"""Bytes up to which two halves are used; beyond, saving memory matters more than barriers."""


@dataclass(eq=False)
class Region:
    """Memory of one exchange; `offset` is known once all exchanges are."""

    nbytes: int
    turn: int
    offset: int = 0
    apart: list[Region] = field(default_factory=list, repr=False)
    """Earlier regions that are still read when this one is written: they must not overlap."""

    def overlaps(self, other: Region) -> bool:
        ends = self.offset + self.nbytes, other.offset + other.nbytes
        return self.offset < ends[1] and other.offset < ends[0]


@dataclass(eq=False)
class Touch:
    """A write or read of a region; `barrier` is the one right before it, if it may be removed.

    With `ends`, all writes since the last such access of the region belong to one exchange.
    """

    region: Region
    barrier: Any = None
    reads: bool = False
    ends: bool = False


@dataclass(eq=False)
class Meet:
    """A barrier; `barrier` is set if it may be removed once another one precedes its reads."""

    barrier: Any = None
    gone: bool = False


Event = Touch | Meet


@dataclass
class SlmPlan:
    """The exchanges of one kernel in the order they were written."""

    regions: list[Region] = field(default_factory=list)
    events: dict[Any, list[Event]] = field(default_factory=dict)

    def region(self, nbytes: int) -> Region:
        made = Region(nbytes + -nbytes % 64, len(self.regions) & 1)
        self.regions.append(made)
        return made

    def note(self, block: Any, event: Event) -> None:
        """Append an event; successive reads of one region count once."""
        events = self.events.setdefault(block, [])
        if isinstance(event, Touch) and event.reads and events:
            last = events[-1]
            if isinstance(last, Touch) and last.reads and last.region is event.region:
                return
        events.append(event)

    def place(self) -> int:
        """Assign an offset to each region; return the bytes needed."""
        sizes = [max((r.nbytes for r in self.regions if r.turn == t), default=0) for t in (0, 1)]
        first = sizes[0] if sum(sizes) <= TURNS_LIMIT else 0
        for region in self.regions:
            region.offset = first * region.turn
            ends = sorted(other.offset + other.nbytes for other in region.apart)
            for offset in (region.offset, 0, *ends):
                region.offset = offset
                if not any(region.overlaps(other) for other in region.apart):
                    break
        return max((r.offset + r.nbytes for r in self.regions), default=0)

    def unneeded(self, entry: Any, successors: Mapping[Any, Sequence[Any]]) -> list[Any]:
        """The barriers that can be removed; `successors` is the control flow.

        First those before writes are tested, then those before reads: two exchanges that are both
        written before either is read need one barrier.
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
        meets = [e for events in self.events.values() for e in events
                 if isinstance(e, Meet) and e.barrier is not None]
        for meet in meets:
            meet.gone = True
            if self._safe(entry, successors):
                removed.append(meet.barrier)
            else:
                meet.gone = False
        return removed

    def _safe(self, entry: Any, successors: Mapping[Any, Sequence[Any]]) -> bool:
        """True if no region is written while an overlapping one may still be in use."""
        incoming: dict[Any, frozenset[tuple[Region, bool]]] = {entry: frozenset()}
        waiting = [entry]
        while waiting:
            block = waiting.pop()
            leaving = self._through(block, incoming[block])
            if leaving is None:
                return False
            for following in successors[block]:
                known = incoming.get(following)
                joined = leaving if known is None else known | leaving
                if joined != known:
                    incoming[following] = joined
                    waiting.append(following)
        return True

    def _through(
        self, block: Any, touched: frozenset[tuple[Region, bool]]
    ) -> frozenset[tuple[Region, bool]] | None:
        """Propagate the regions accessed since the last barrier through a block.

        Each has a flag that is true if it was only read.  None if an access conflicts with an
        earlier one.
        """
        for event in self.events.get(block, ()):
            if isinstance(event, Meet):
                touched = touched if event.gone else frozenset()
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


__all__ = ["Meet", "Region", "SlmPlan", "Touch"]
