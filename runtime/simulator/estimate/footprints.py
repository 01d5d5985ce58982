"""Memory that the messages of the sampled work-groups access, as blocks of surfaces."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics import Family
from triton_xe.runtime.simulator.estimate.numbers import Known, Numbers, Sum, full, plain, terms_of
from triton_xe.runtime.simulator.estimate.walk import Mask, Message, Walk

LINE = 64
COUNTED = 6
"""Work-groups whose cache lines are counted; none of them is at an end of the grid."""
MOST = 1 << 60
"""Bound larger than every address."""
MANY, SPAN = 256, 1 << 21
"""Rows of at least MANY numbers within SPAN are counted by marking instead of sorting."""
TOGETHER = 64
"""Accesses of one kind that are processed in one step."""
_AXES = (0, 3, 4)
"""Axes of merged accesses other than work-group and subgroup."""


@dataclass
class Surface:
    """Memory of one argument that the work-groups access: a bounding box for each of them."""

    pitch: int
    """Bytes of a row; 0 if the memory is one range of bytes."""
    hulls: Numbers
    """First byte, end byte, first row and end row of each work-group's bounding box.

    A work-group without accesses has MOST as first and -MOST as end.
    """
    moved: float = 0.0
    """Bytes of 2D blocks and of unknown addresses, per work-group; equal blocks count once."""
    lines: dict[int, list[Numbers]] = field(default_factory=lambda: defaultdict(list))
    """Executions of an access -> its cache lines, by counted work-group."""

    @property
    def bounds(self) -> Numbers:
        """Transpose `hulls`: one row for each work-group, 0 if it accesses nothing."""
        here = (self.hulls[0] < self.hulls[1]) & (self.hulls[2] < self.hulls[3])
        return np.maximum(np.where(here, self.hulls, 0), 0).T

    def density(self, counted: Numbers) -> float:
        """Fraction of the mean bounding box that block messages and whole cache lines cover."""
        sides = np.diff(self.bounds, axis=1)
        area = (sides[:, 0] * sides[:, 2]).astype(float)
        lines = sum(count_different(np.concatenate(found, 1)).mean() * rounds
                    for rounds, found in self.lines.items())
        parts = ((self.moved, area.mean()), (lines * LINE, area[counted].mean()))
        dense = sum(float(some / all_) for some, all_ in parts if all_)
        return min(1.0, dense) if area.any() else 1.0

    def widen(self, block: Sequence[Numbers], mask: Mask, pitch: int) -> None:
        """Extend the hulls by a block of each subgroup of `mask`, or of each work-group."""
        if self.pitch != pitch:
            self.hulls, self.pitch = flat(self.hulls, self.pitch), 0
            block = flat(block, pitch)
        everywhere = mask.all()
        for k, values in enumerate(block):
            wider, none = (np.maximum, -MOST) if k % 2 else (np.minimum, MOST)
            one = values if everywhere else np.where(mask, values, none)
            wider(self.hulls[k], wider.reduce(one, 1), out=self.hulls[k])


@dataclass
class Footprints:
    """Bytes of all sampled work-groups by level of memory, and surfaces by argument.

    Each instruction whose address is unknown has a surface of its own, with a name as key.  Its
    positions are the numbers of distinct keys (`Message.key`) instead of addresses.
    """

    groups: int
    lanes: int
    pointers: list[int]
    """Addresses among the arguments, in ascending order."""
    counted: Numbers
    """Work-groups whose cache lines are counted."""
    l1: float = 0
    slm: float = 0
    unknown: float = 0
    """Bytes of accesses with unknown address."""
    reads: dict[int | str, Surface] = field(default_factory=dict)
    writes: dict[int | str, Surface] = field(default_factory=dict)
    keyed: dict[int, tuple[Numbers, Numbers]] = field(default_factory=dict)
    """Identity of an array of keys -> the result of `key_numbers`."""
    shared_hulls: dict[bytes, Numbers] = field(default_factory=dict)
    """Key numbers of the first subgroups -> their hulls, so that equal hulls are one array."""

    def argument(self, address: Numbers | Sum) -> int:
        """Number of the pointer with the largest value that does not exceed an address."""
        first = sum([term.item(0) for term in terms_of(address)])
        return max(0, bisect_right(self.pointers, first) - 1)

    def key_numbers(self, message: Message) -> tuple[Numbers, Numbers]:
        """Number the distinct keys of a message with unknown address.

        Return the number of each subgroup's key, and hulls around those of the first subgroups.
        """
        found = self.keyed.get(id(message.key))
        if found is None:
            shape = message.mask.shape
            key = np.zeros(shape, np.int64) if message.key is None else message.key
            number = np.unique(key, return_inverse=True)[1].reshape(shape)
            first = np.unique(number[:, 0], return_inverse=True)[1]
            hulls = self.shared_hulls.setdefault(
                first.tobytes(), np.stack([first, first + 1, first * 0, first * 0 + 1]))
            found = self.keyed[id(message.key)] = number, hulls
        return found

    def surface(self, which: int, reads: bool, pitch: int) -> Surface:
        """Return the surface of an argument's reads or writes; create it at the first access."""
        into = self.reads if reads else self.writes
        if which not in into:
            into[which] = Surface(pitch, np.tile(np.array([[MOST], [-MOST]] * 2), self.groups))
        return into[which]


def footprints_of(walk: Walk, counted: int = COUNTED) -> Footprints:
    """Group the messages of a walk by level and argument."""
    groups = len(walk.groups)
    inside = np.linspace(0, groups - 1, counted + 2)[1:-1]
    pointers = [int(v) for (_, t), v in zip(walk.program.function.parameters, walk.arguments,
                                            strict=True) if t.kind == "ptr"]
    found = Footprints(groups, walk.lanes, sorted(pointers) or [0],
                       np.unique(inside.astype(np.int64)))
    found.slm = walk.lanes * float(sum(
        count.sum() * walk.program.shared_bytes[label] for label, count in walk.counts.items()))
    by_kind: defaultdict[Any, list[Message]] = defaultdict(list)
    for message in walk.messages:
        by_kind[_kind(found, message)].append(message)
    for (add, *_), messages in by_kind.items():
        for k in range(0, len(messages), TOGETHER):
            add(found, messages[k : k + TOGETHER])
    return found


def _kind(found: Footprints, m: Message) -> tuple[Any, ...]:
    """Key of the messages that can be processed in one step: the function for it comes first."""
    often = (id(m.mask), id(m.rounds))
    if m.site.family is Family.BLOCK_2D:
        if m.payload is None or m.key is not None:
            return _block, id(m)
        return _block, *often, id(m.payload), m.site.reads, m.site.is_prefetch, m.site.block
    if m.site.is_shared:
        return _shared, *often
    address, active = m.arguments[m.site.at], _active(m)
    if address is None:
        return _unknown, id(m)
    return (_lanes, *often, found.argument(address), m.site.reads, m.site.updates,
            m.site.size(found.lanes), tuple([t.shape for t in terms_of(address)]),
            None if active is None else active.shape)


def moved(message: Message, lanes: int) -> tuple[str, float]:
    """Level and bytes of all executions of a message: `l1`, `slm`, or `l2` for a prefetch."""
    if message.site.family is Family.BLOCK_2D:
        return "l2" if message.site.is_prefetch else "l1", _block_bytes([message])
    return "slm" if message.site.is_shared else "l1", _lane_bytes([message], lanes)


def _executed(message: Message) -> float:
    return float((message.mask * message.rounds).sum())


def _active(message: Message) -> Numbers | None:
    """The mask of each lane; None if all lanes take part."""
    if message.site.masked is None:
        return None
    active = plain(message.arguments[message.site.masked])
    return None if active is None or (active.size == 1 and active.item()) else active


def _lane_bytes(messages: Sequence[Message], lanes: int) -> float:
    """Bytes of all executions of messages that the same subgroups execute equally often."""
    total = sum(_count(m, lanes) * m.site.size(lanes) for m in messages)
    return float((messages[0].mask * messages[0].rounds * total).sum())


def _count(message: Message, lanes: int) -> NDArray[np.float64]:
    """Active lanes of each subgroup, times the elements of the message."""
    address, active = message.arguments[message.site.at], _active(message)
    count = address.shape[2] if address is not None else (
        1 if message.site.family is Family.BLOCK_1D else lanes)
    part = np.ones((1, 1, 1)) if active is None else (active != 0).mean(2)
    return part.mean(2) * count


def _shared(found: Footprints, messages: Sequence[Message]) -> None:
    """Add accesses of shared local memory."""
    found.slm += _lane_bytes(messages, found.lanes)


# -- 2D blocks ------------------------------------------------------------------------------------


def _block(found: Footprints, messages: Sequence[Message]) -> None:
    """Add 2D blocks of one shape and payload."""
    message, total = messages[0], 0.0
    if len(found.counted):
        total = _block_bytes(messages)
        found.l1 += 0.0 if message.site.is_prefetch else total
    offsets = [_offset(m) for m in messages]
    surface = message.payload or _named(message)
    base, pitch, x, y = (plain(surface[n]) for n in ("base", "pitch", "x", "y"))
    if base is None or pitch is None or x is None or y is None:
        _unknown(found, messages, total)
        return
    element, width, height = message.site.block
    row_bytes = int(pitch.max()) + 1
    which = found.argument(base)
    start = base - found.pointers[which]
    row, first = (v[..., 0, 0] for v in (start // row_bytes + y, start % row_bytes + x * element))
    (left, right), (low, high) = ((min(o), max(o)) for o in zip(*offsets, strict=True))
    touched = found.surface(which, message.site.reads, row_bytes)
    touched.widen((first + left * element, first + right * element + width, row + low,
                   row + high + height), message.mask, row_bytes)
    if total and not message.site.is_prefetch:
        touched.moved += total / found.groups * _distinct(
            row * row_bytes + first, message.mask, found.counted)


def _named(message: Message) -> dict[str, Known]:
    return dict(zip(message.site.names, message.arguments, strict=False))


def _offset(message: Message) -> tuple[int, int]:
    """Immediate offsets of a message with a payload: elements along x, and rows."""
    if message.payload is None:
        return 0, 0
    x, y = (plain(message.arguments[message.site.names.index(name)]) for name in ("x", "y"))
    return 0 if x is None else x.item(0), 0 if y is None else y.item(0)


def _distinct(origins: Numbers, mask: Mask, counted: Numbers) -> float:
    """Fraction of the blocks of a work-group that are distinct, by their origins."""
    here = mask[counted]
    at = np.broadcast_to(origins, mask.shape)[counted]
    return float(count_different(np.where(here, at, -1)).mean() * len(counted) / max(1, here.sum()))


def _block_bytes(messages: Sequence[Message]) -> float:
    """Bytes of 2D messages of one shape, in all their executions."""
    _, width, height = messages[0].site.block
    return _executed(messages[0]) * width * height * len(messages)


# -- lanes ----------------------------------------------------------------------------------------


def _lanes(found: Footprints, messages: Sequence[Message]) -> None:
    """Add accesses of lanes.  In all arrays, the first axis is that of `messages`."""
    message, size = messages[0], messages[0].site.size(found.lanes)
    which = found.argument(_address(message))
    terms = [*_stacked(messages), np.full((1, 1, 1, 1, 1), -found.pointers[which])]
    active = _stack([active for m in messages if (active := _active(m)) is not None])
    low, high = _extreme(terms, active, np.min), _extreme(terms, active, np.max)
    mask = message.mask if active is None else message.mask & active.any(_AXES)
    block = low // LINE * LINE, -(-(high + size) // LINE) * LINE, _ZERO, _ZERO + 1
    surfaces = [found.surface(which, message.site.reads, 0)]
    if message.site.updates:
        written = found.writes.setdefault(which, surfaces[0])
        surfaces += [written] if written is not surfaces[0] else []
    for surface in surfaces:
        surface.widen(block, mask, 0)
    if len(found.counted):
        lines = _lines(found, message, terms, active)
        surfaces[0].lines[_rounds(found, message)].append(
            np.moveaxis(lines, 2, 0).reshape(lines.shape[2], -1))
        part = np.ones((1, 1, 1, 1)) if active is None else (active != 0).mean(3)
        count = part * (message.mask * message.rounds)[None, ..., None]
        total = np.moveaxis(count, 3, 1).sum((2, 3)) * _address(message).shape[2] * size
        scattered = (count_different(lines).mean((2, 3)) - 1) * LINE * _executed(message)
        found.l1 += float(np.broadcast_to(np.maximum(total, scattered), (len(messages), 1)).sum())


def _address(message: Message) -> Numbers | Sum:
    address = message.arguments[message.site.at]
    assert address is not None
    return address


def _stacked(messages: Sequence[Message]) -> list[Numbers]:
    """Terms of addresses, with an axis for the messages if they differ."""
    return [_stack(terms) for terms in zip(
        *(terms_of(_address(m)) for m in messages), strict=True)]


def _stack(values: Sequence[Numbers]) -> Any:
    """Stack values along a new axis if they differ; None for an empty list."""
    if not values:
        return None
    return values[0][None] if all(v is values[0] for v in values) else np.stack(values)


def _total(terms: Sequence[Numbers]) -> Numbers:
    return full(Sum(tuple(terms), 0, 0))


def _extreme(
    terms: Sequence[Numbers], active: Numbers | None, end: Callable[..., Numbers]
) -> Numbers:
    """Minimum or maximum of the sum for each subgroup."""
    if active is None:
        terms = _ends(terms, end)
    if active is None or len(active) == 1:
        own, common = ([t for t in terms if (len(t) > 1) == here] for here in (True, False))
        terms = [*([end(_total(own), 0, keepdims=True)] if own else []), *common]
    sum_ = _total(terms)
    if active is not None:
        sum_ = np.where(active != 0, sum_, MOST if end is np.min else -MOST)
    return end(sum_, _AXES)


def _ends(
    terms: Sequence[Numbers], end: Callable[..., Numbers], axes: tuple[int, ...] = (3, 4)
) -> Sequence[Numbers]:
    """Take the minimum or maximum of a sum along some axes.

    If no two terms share one of these axes, that of each term is taken.  The reason is that
    the sum of minima is then the minimum of the sum.
    """
    shared = any(sum(t.shape[axis] > 1 for t in terms) > 1 for axis in axes)
    return [end(t, axes, keepdims=True) for t in ([_total(terms)] if shared else terms)]


def _lines(
    found: Footprints, message: Message, terms: Sequence[Numbers], active: Numbers | None
) -> Numbers:
    """Cache lines by message, element, counted work-group and subgroup; -1 for none."""
    def counted(values: NDArray[Any]) -> NDArray[Any]:
        return values[:, found.counted] if values.shape[1] > 1 else values

    terms = [counted(term) for term in terms]
    taken = counted(message.mask[None, ..., None, None])
    if active is None:
        first, last = (_total(_ends(terms, end, (3,))) // LINE for end in (np.min, np.max))
    else:
        taken = taken & (counted(active) != 0)
        line = _total(terms) // LINE
        first = np.where(taken, line, MOST).min(3, keepdims=True)
        last = np.where(taken, line, -1).max(3, keepdims=True)
        first = np.minimum(first, last)
    if (last <= first + 1).all():
        here = taken.any(3, keepdims=True)
        both = np.where(here, first, -1), np.where(here, last, -1)
        line = np.concatenate(np.broadcast_arrays(*both), 3)
    else:
        line = np.where(taken, _total(terms) // LINE, -1)
    return np.moveaxis(line, 4, 1)


def _rounds(found: Footprints, message: Message) -> int:
    """Mean number of executions that an executed message represents."""
    rounds = message.rounds[found.counted][message.mask[found.counted]]
    return round(float(rounds.mean())) if rounds.size else 0


def count_different(rows: Numbers) -> Numbers:
    """Number of distinct values of each row; -1 does not count."""
    if rows.shape[-1] == 2:
        first, last = rows[..., 0], rows[..., 1]
        return (first >= 0) * 1 + ((last != first) & (last >= 0))
    if rows.shape[-1] >= MANY:
        least = np.where(rows < 0, MOST, rows).min(-1, keepdims=True)
        marks = np.where(rows < 0, 0, rows - least + 1)
        if marks.max() < SPAN:
            return _marked(marks)
    ordered = np.sort(rows)
    return np.count_nonzero(ordered[..., 1:] != ordered[..., :-1], -1) + (ordered[..., 0] >= 0)


def _marked(rows: Numbers) -> Numbers:
    """Number of distinct values above 0 of each row; faster than sorting."""
    seen = np.zeros((*rows.shape[:-1], int(rows.max()) + 1), bool)
    np.put_along_axis(seen, rows, True, -1)
    return np.count_nonzero(seen[..., 1:], -1)


# -- both -----------------------------------------------------------------------------------------

_ZERO = np.zeros((1, 1), np.int64)


def _unknown(found: Footprints, messages: Sequence[Message], total: float = -1) -> None:
    """Add an access with unknown address; subgroups with equal keys access the same address.

    `total` is its bytes, if they have been added to `l1`.
    """
    (message,), site = messages, messages[0].site
    if total < 0:
        total = _lane_bytes(messages, found.lanes) if len(found.counted) else 0.0
        found.l1 += total
    found.unknown += total
    if site.is_prefetch:
        return
    into = found.reads if site.reads else found.writes
    name = f"{site.instruction.callee} {id(site)}"
    surface = into.get(name)
    if surface is None:
        surface = into[name] = Surface(0, found.key_numbers(message)[1])
    if len(found.counted):
        surface.moved += total / found.groups * _distinct(
            found.key_numbers(message)[0], message.mask, found.counted)


def flat(block: Any, pitch: int) -> Any:
    """Convert rows of a surface to one range of memory."""
    if not pitch:
        return block
    x0, x1, y0, y1 = block
    low = np.where(x0 < x1, y0 * pitch + x0, MOST)
    high = np.where(x0 < x1, (y1 - 1) * pitch + x1, -MOST)
    parts = (low, high, low * 0, low * 0 + 1)
    return np.stack(parts) if isinstance(block, np.ndarray) else parts
