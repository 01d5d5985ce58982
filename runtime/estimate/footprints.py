"""Where the messages of the sampled work-groups lie: blocks of the surfaces that they address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics import Family, find
from triton_xe.runtime.estimate.numbers import Known, Numbers
from triton_xe.runtime.estimate.program import SLM_SPACE
from triton_xe.runtime.estimate.walk import Message

LINE = 64
LANES = 16
COUNTED = 6
"""Work-groups whose cache lines are counted, none of them at an end of the grid."""
MOST = 1 << 60
TOGETHER = 64
"""Accesses of one kind that are looked at together."""
Block = tuple[Numbers, Numbers, Numbers, Numbers]


@dataclass
class Surface:
    """What the work-groups touch of one argument: hulls of blocks, bytes of block messages, and the
    cache lines of others in the work-groups that are counted, by the rounds that they stand for.
    """

    pitch: int
    hulls: Numbers
    """First byte, byte behind the last, first row, row behind the last; MOST, -MOST without any."""
    moved: float = 0.0
    lines: dict[int, list[Numbers]] = field(default_factory=lambda: defaultdict(list))

    @property
    def bounds(self) -> Numbers:
        """A row for each work-group."""
        here = (self.hulls[0] < self.hulls[1]) & (self.hulls[2] < self.hulls[3])
        return np.maximum(np.where(here, self.hulls, 0), 0).T

    def density(self, counted: Numbers) -> float:
        """The part of a hull that is touched, in whole lines."""
        sides = np.diff(self.bounds, axis=1)
        area = (sides[:, 0] * sides[:, 2]).astype(float)
        lines = sum(_count(found) / len(found[0]) * rounds for rounds, found in self.lines.items())
        parts = ((self.moved, area.mean()), (lines * LINE, area[counted].mean()))
        dense = sum(float(some / all_) for some, all_ in parts if all_)
        return min(1.0, dense) if area.any() else 1.0

    def widen(self, block: Block, mask: NDArray[np.bool_]) -> None:
        """Take in a block of each subgroup of `mask`."""
        everywhere = mask.all()
        for k, values in enumerate(block):
            wider, none = (np.maximum, -MOST) if k % 2 else (np.minimum, MOST)
            one = values[..., 0, 0]
            if not everywhere:
                one = np.where(mask, one, none)
            axes = (0, 2) if one.ndim == 3 else 1
            wider(self.hulls[k], wider.reduce(one, axes), out=self.hulls[k])


@dataclass
class Footprints:
    """Bytes of the work-groups by level, and blocks by argument.

    Surfaces of accesses whose place nobody knows are named by their instruction: there equal keys
    stand for equal places.
    """

    groups: int
    counted: Numbers
    """Work-groups whose cache lines are counted."""
    l1: float = 0
    slm: float = 0
    unknown: float = 0
    reads: dict[int | str, Surface] = field(default_factory=dict)
    writes: dict[int | str, Surface] = field(default_factory=dict)


def footprints_of(
    messages: Sequence[Message], pointers: Sequence[int], groups: int, counted: int = COUNTED
) -> Footprints:
    """Sort messages by level and argument; `pointers` are the addresses among the arguments."""
    inside = np.linspace(0, groups - 1, counted + 2)[1:-1]
    found = Footprints(groups, np.unique(inside.astype(np.int64)))
    ordered = np.array(sorted(pointers) or [0], np.int64)
    alike: defaultdict[Any, list[tuple[Message, Access]]] = defaultdict(list)
    shared: defaultdict[tuple[int, int], list[Message]] = defaultdict(list)
    for message in messages:
        if find(message.instruction.callee).family is Family.BLOCK_2D:
            _block(found, message, ordered)
            continue
        access = _access(message)
        if access.space == SLM_SPACE:
            shared[id(message.mask), id(message.rounds)].append(message)
        elif access.address is None:
            total = moved(message)[1] if len(found.counted) else 0.0
            found.l1 += total
            _nowhere(found, message, total)
        else:
            alike[_kind(message, access, ordered)].append((message, access))
    for together in shared.values():
        found.slm += _moved_by_lanes(together)
    for accesses in alike.values():
        for k in range(0, len(accesses), TOGETHER):
            _lanes(found, accesses[k : k + TOGETHER], ordered)
    return found


def moved(message: Message) -> tuple[str, float]:
    """Bytes of all executions of a message, and where: `l1`, `slm`, or only `l2`, ahead of time."""
    family = find(message.instruction.callee).family
    if family is Family.BLOCK_2D:
        ahead = "Prefetch" in message.instruction.callee
        return "l2" if ahead else "l1", _block_bytes(message)
    return "slm" if _access(message).space == SLM_SPACE else "l1", _moved_by_lanes([message])


def _moved_by_lanes(messages: Sequence[Message]) -> float:
    """Bytes of all executions of messages that the same subgroups execute as often."""
    accesses = [_access(message) for message in messages]
    each = sum(access.lanes * access.size for access in accesses)
    return float((messages[0].mask * messages[0].rounds * each).sum())


# -- 2D blocks ------------------------------------------------------------------------------------


def _block(found: Footprints, message: Message, pointers: Numbers) -> None:
    named = _named(message)
    surface = message.payload or named
    level, total = moved(message) if len(found.counted) else ("", 0.0)
    found.l1 += total if level == "l1" else 0.0
    base, pitch, x, y = (surface[n] for n in ("base", "pitch", "x", "y"))
    if base is None or pitch is None or x is None or y is None:
        _nowhere(found, message, total)
        return
    if message.payload is not None:
        x, y = x + _or_zero(named["x"]), y + _or_zero(named["y"])
    element = _one(named["bits"]) // 8
    width = element * _one(named["blocks"]) * _one(named["tile_width"])
    row_bytes = int(pitch.max()) + 1
    which, start = _argument(base, pointers)
    row, first = start // row_bytes + y, start % row_bytes + x * element
    touched = _surface(found, which, message, row_bytes)
    _widen(touched, (first, first + width, row, row + _one(named["tile_height"])), row_bytes,
           message.mask)
    if level == "l1":
        touched.moved += total / found.groups * _different(
            row * row_bytes + first, message.mask, found.counted)


def _different(origins: Numbers, mask: NDArray[np.bool_], counted: Numbers) -> float:
    """The part of the subgroups' blocks that no other subgroup of their work-group has."""
    here = mask[counted]
    at = np.broadcast_to(origins[..., 0, 0], mask.shape)[counted]
    return _count([np.where(here, at, -1)]) / max(1, int(here.sum()))


def _block_bytes(message: Message) -> float:
    """Of a 2D message, in all its executions."""
    named = _named(message)
    each = _one(named["bits"]) // 8
    for side in ("blocks", "tile_width", "tile_height"):
        each *= _one(named[side])
    return float((message.mask * message.rounds).sum()) * each


# -- lanes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """Of each lane: address, bytes, and whether it takes part (None: all do)."""

    address: Known
    size: int
    space: int
    active: Known

    @property
    def lanes(self) -> NDArray[np.float64] | float:
        """Lanes that move something, of each subgroup."""
        count = LANES if self.address is None else self.address.shape[2]
        if self.active is None:
            return float(count)
        return (self.active != 0).any(3).mean(2) * count


def _access(message: Message) -> Access:
    i = message.instruction
    family = find(i.callee).family
    names = {"load": ["pointer"], "store": ["value", "pointer"]}.get(i.opcode, ["pointer", "value"])
    if family is Family.HELPER:
        names = ["pointer", *["value"] * (len(i.operands) - 2), "mask"]
    elif i.opcode == "call":
        names = [p.name for p in find(i.callee).parameters]
    at = names.index("pointer")
    value = i.type if i.result else i.operands[names.index("value")].type
    active = message.arguments[names.index("mask")] if "mask" in names else None
    size = value.size * (LANES if family is Family.BLOCK_1D else 1)
    return Access(message.arguments[at], size, i.operands[at].type.space, active)


def _kind(message: Message, access: Access, pointers: Numbers) -> tuple[Any, ...]:
    """What is equal in accesses that are looked at together."""
    i, address, active = message.instruction, access.address, access.active
    assert address is not None
    return (_argument(address, pointers)[0], bool(i.result), find(i.callee).family, i.opcode,
            access.size, id(message.mask), id(message.rounds), address.shape,
            None if active is None else active.shape)


def _lanes(found: Footprints, alike: Sequence[tuple[Message, Access]], pointers: Numbers) -> None:
    """Take in accesses of one kind; their first axis counts them."""
    message, access = alike[0]
    addresses, masks = zip(*((a.address, a.active) for _, a in alike), strict=True)
    which, start = _argument(np.stack(addresses), pointers)
    active = None if access.active is None else np.stack(masks)
    low = high = start
    mask = message.mask
    if active is not None:
        low, high = (np.where(active, start, none) for none in (MOST, -MOST))
        mask = mask & active.any((-2, -1))
    if low.shape[-2:] != (1, 1):
        low, high = low.min((-2, -1), keepdims=True), high.max((-2, -1), keepdims=True)
    low, high = low // LINE * LINE, -(-(high + access.size) // LINE) * LINE
    surfaces = _surfaces(found, which, message)
    for surface in surfaces:
        _widen(surface, (low, high, _ZERO, _ZERO + 1), 0, mask)
    if len(found.counted):
        lines = _lines(found, message, start, active)
        surfaces[0].lines[_rounds(found, message)].append(
            lines.swapaxes(0, 1).reshape(lines.shape[1], -1))
        each = (message.mask * message.rounds).sum()
        rows = lines.reshape(len(lines) * lines[0, ..., 0].size, -1)
        scattered = _different_lines(rows).reshape(len(lines), -1).mean(1) - 1
        total = np.array([moved(m)[1] for m, _ in alike])
        found.l1 += float(np.maximum(total, scattered * LINE * each).sum())


def _lines(found: Footprints, message: Message, start: Numbers, active: Known) -> Numbers:
    """Cache lines of each subgroup of the work-groups that are counted; -1 is none."""
    taken = message.mask[..., None, None] & (True if active is None else active != 0)
    shape = np.broadcast_shapes(taken.shape, start.shape)
    here, line = (np.broadcast_to(v, shape)[:, found.counted] for v in (taken, start // LINE))
    last = np.where(here, line, -1).max((-2, -1))
    first = np.where(here, line, last[..., None, None]).min((-2, -1))
    if (last <= first + 1).all():
        return np.stack([first, last], -1)
    return np.where(here, line, -1).reshape(*last.shape, -1)


def _rounds(found: Footprints, message: Message) -> int:
    """How often a mean execution stands for others."""
    rounds = message.rounds[found.counted][message.mask[found.counted]]
    return round(float(rounds.mean())) if rounds.size else 0


def _count(found: Sequence[Numbers]) -> int:
    """Different numbers of the rows, but for -1."""
    return int(_different_lines(np.concatenate(found, 1)).sum())


def _different_lines(rows: Numbers) -> Numbers:
    """How many different numbers each row has, but for -1."""
    return np.count_nonzero(np.diff(np.sort(rows), axis=1, prepend=-1), axis=1)


# -- both -----------------------------------------------------------------------------------------

_ZERO = np.zeros((1, 1, 1, 1), np.int64)


def _argument(address: Numbers, pointers: Numbers) -> tuple[int, Numbers]:
    """The argument whose memory it is: the last one before it; and the distance from it."""
    k = max(0, int(np.searchsorted(pointers, address.flat[0], "right")) - 1)
    return k, address - pointers[k]


def _nowhere(found: Footprints, message: Message, total: float) -> None:
    """Note an access whose place is not known: subgroups with equal keys go to the same place."""
    found.unknown += total
    i = message.instruction
    if "Prefetch" in i.callee:
        return
    key = np.broadcast_to(0 if message.key is None else message.key, message.mask.shape)
    into = found.reads if i.result else found.writes
    surface = into.get(f"{i.callee} {id(i)}")
    if surface is None:
        _, place = np.unique(key[:, 0], return_inverse=True)
        hulls = np.stack([place, place + 1, place * 0, place * 0 + 1])
        surface = into[f"{i.callee} {id(i)}"] = Surface(0, hulls)
    if len(found.counted):
        _, number = np.unique(key, return_inverse=True)
        surface.moved += total / found.groups * _different(
            number.reshape(*key.shape, 1, 1), message.mask, found.counted)


def _surfaces(found: Footprints, which: int, message: Message) -> list[Surface]:
    """The one that is read, or written; atomics do both."""
    both = [_surface(found, which, message, 0)]
    if find(message.instruction.callee).family is Family.HELPER or (
            message.instruction.opcode in ("atomicrmw", "cmpxchg")):
        written = found.writes.setdefault(which, both[0])
        return both if written is both[0] else [*both, written]
    return both


def _surface(found: Footprints, which: int, message: Message, pitch: int) -> Surface:
    reads = message.instruction.result or "Prefetch" in message.instruction.callee
    into = found.reads if reads else found.writes
    if which not in into:
        into[which] = _empty(found, pitch)
    return into[which]


def _empty(found: Footprints, pitch: int) -> Surface:
    return Surface(pitch, np.tile(np.array([[MOST], [-MOST]] * 2), found.groups))


def _widen(surface: Surface, block: Block, pitch: int, mask: NDArray[np.bool_]) -> None:
    if surface.pitch != pitch:
        surface.hulls, surface.pitch = flat(surface.hulls, surface.pitch), 0
        block = flat(block, pitch)
    surface.widen(block, mask)


def flat(block: Any, pitch: int) -> Any:
    """Rows of a surface as one range of memory."""
    if not pitch:
        return block
    x0, x1, y0, y1 = block
    low = np.where(x0 < x1, y0 * pitch + x0, MOST)
    high = np.where(x0 < x1, (y1 - 1) * pitch + x1, -MOST)
    parts = (low, high, low * 0, low * 0 + 1)
    return np.stack(parts) if isinstance(block, np.ndarray) else parts


def _named(message: Message) -> dict[str, Known]:
    parameters = find(message.instruction.callee).parameters
    return dict(zip((p.name for p in parameters), message.arguments, strict=False))


def _one(value: Known) -> int:
    return 1 if value is None else int(value.flat[0])


def _or_zero(value: Known) -> Numbers | int:
    return 0 if value is None else value
