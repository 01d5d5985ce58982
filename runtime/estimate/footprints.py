"""Where the messages of the sampled work-groups lie: blocks of the surfaces that they address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from triton_xe.intrinsics import Family, find
from triton_xe.model.work import Blocks
from triton_xe.runtime.estimate.numbers import Known, Numbers
from triton_xe.runtime.estimate.walk import Message

LINE = 64
SLM_SPACE = 3


@dataclass
class Surface:
    """What the sampled work-groups touch of one argument: hulls of blocks, and bytes moved."""

    pitch: int
    bounds: NDArray[np.int64]
    bytes: NDArray[np.float64]
    density: float = 1.0


@dataclass
class Footprints:
    """Bytes of the sampled work-groups by level, and blocks by argument."""

    groups: int
    l1: float = 0
    slm: float = 0
    unknown: float = 0
    """Bytes of accesses whose place nobody knows."""
    reads: dict[int, Surface] = field(default_factory=dict)
    writes: dict[int, Surface] = field(default_factory=dict)


def footprints_of(messages: Sequence[Message], pointers: Sequence[int], groups: int) -> Footprints:
    """Sort messages by level and argument; `pointers` are the addresses among the arguments."""
    found = Footprints(groups)
    ordered = np.array(sorted(pointers) or [0], np.int64)
    for message in messages:
        if find(message.instruction.callee).family is Family.BLOCK_2D:
            _block(found, message, ordered)
        else:
            _lanes(found, message, ordered)
    return found


def moved(message: Message) -> tuple[str, float]:
    """Bytes of all executions of a message, and where: `l1`, `slm`, or only `l2`, ahead of time."""
    family = find(message.instruction.callee).family
    if family is Family.BLOCK_2D:
        ahead = "Prefetch" in message.instruction.callee
        return "l2" if ahead else "l1", _block_bytes(message)
    address, size, space = _access(message)
    lanes = 16 if address is None else address.shape[2]
    level = "slm" if space == SLM_SPACE else "l1"
    return level, float((message.mask * message.rounds).sum()) * size * lanes


# -- 2D blocks ------------------------------------------------------------------------------------


def _block(found: Footprints, message: Message, pointers: Numbers) -> None:
    i = message.instruction
    named = dict(zip((p.name for p in find(i.callee).parameters), message.arguments, strict=False))
    surface = message.payload or named
    size = _one(named["bits"]) // 8 * _one(named["blocks"])
    level, total = moved(message)
    if level == "l1":
        found.l1 += total
    base, pitch, x, y = (surface[n] for n in ("base", "pitch", "x", "y"))
    if base is None or pitch is None or x is None or y is None:
        found.unknown += total
        return
    if message.payload is not None:
        x, y = x + _or_zero(named["x"]), y + _or_zero(named["y"])
    element = _one(named["bits"]) // 8
    row_bytes = int(pitch.max()) + 1
    which, start = _argument(base, pointers)
    row = start // row_bytes + y
    first = start % row_bytes + x * element
    _add(
        found, which, message, row_bytes,
        (first, first + size * _one(named["tile_width"]), row, row + _one(named["tile_height"])),
        total if level == "l1" else 0.0,
    )


def _block_bytes(message: Message) -> float:
    """Of a 2D message, in all its executions."""
    parameters = find(message.instruction.callee).parameters
    named = dict(zip((p.name for p in parameters), message.arguments, strict=False))
    each = _one(named["bits"]) // 8
    for side in ("blocks", "tile_width", "tile_height"):
        each *= _one(named[side])
    return float((message.mask * message.rounds).sum()) * each


# -- lanes ----------------------------------------------------------------------------------------


def _lanes(found: Footprints, message: Message, pointers: Numbers) -> None:
    address, size, _ = _access(message)
    level, total = moved(message)
    if level == "slm":
        found.slm += total
        return
    found.l1 += total
    if address is None:
        found.unknown += total
        return
    which, start = _argument(address, pointers)
    low, high = start.min((2, 3), keepdims=True), start.max((2, 3), keepdims=True) + size
    _add(found, which, message, 0, (low, high, low * 0, low * 0 + 1), total)


def _access(message: Message) -> tuple[Known, int, int]:
    """Address, bytes of a lane, address space."""
    i = message.instruction
    at = 1 if i.opcode == "store" else 0
    pointer = i.operands[at]
    value = i.type if i.result else i.operands[0 if i.opcode == "store" else 1].type
    return message.arguments[at], value.size, pointer.type.space


# -- both -----------------------------------------------------------------------------------------


def _argument(address: Numbers, pointers: Numbers) -> tuple[int, Numbers]:
    """The argument whose memory it is: the last one before it; and the distance from it."""
    k = int(np.clip(np.searchsorted(pointers, int(address.flat[0]), "right") - 1, 0, None))
    return k, address - pointers[k]


def _add(
    found: Footprints, which: int, message: Message, pitch: int,
    block: tuple[Numbers, Numbers, Numbers, Numbers], total: float,
) -> None:
    bounds = np.full((found.groups, 4), -1, np.int64)
    for k, values in enumerate(block):
        spread = np.broadcast_to(values[..., 0, 0], message.mask.shape)
        low = k % 2 == 0
        filler = np.iinfo(np.int64).max if low else np.iinfo(np.int64).min
        masked = np.where(message.mask, spread, filler)
        bounds[:, k] = masked.min(1) if low else masked.max(1)
    here = np.any(message.mask, axis=1)
    into = found.reads if message.instruction.result or total == 0 else found.writes
    surface = into.get(which)
    if surface is None:
        into[which] = Surface(pitch, np.where(here[:, None], bounds, 0),
                              np.full(found.groups, total / found.groups))
        return
    if surface.pitch != pitch:
        surface.bounds, bounds = _flat(surface.bounds, surface.pitch), _flat(bounds, pitch)
        surface.pitch = 0
    empty = np.all(surface.bounds == 0, axis=1)
    merged = np.where(
        [True, False, True, False],
        np.minimum(surface.bounds, bounds), np.maximum(surface.bounds, bounds),
    )
    merged = np.where(empty[:, None], bounds, merged)
    surface.bounds = np.where(here[:, None], merged, surface.bounds)
    surface.bytes += total / found.groups


def _flat(bounds: NDArray[np.int64], pitch: int) -> NDArray[np.int64]:
    """Rows of a surface as one range of memory."""
    if not pitch:
        return bounds
    low = bounds[:, 2] * pitch + bounds[:, 0]
    high = (bounds[:, 3] - 1) * pitch + bounds[:, 1]
    return np.stack([low, high, low * 0, low * 0 + 1], 1)


def blocks_of(surface: Surface) -> Blocks:
    """The blocks, as dense as the bytes that were moved can make them."""
    b = np.maximum(surface.bounds, 0)
    area = float(((b[:, 1] - b[:, 0]) * (b[:, 3] - b[:, 2])).sum())
    moved = float(surface.bytes.sum())
    return Blocks(b, min(1.0, moved / area) if area else 1.0)


def _one(value: Known) -> int:
    return 1 if value is None else int(value.flat[0])


def _or_zero(value: Known) -> Numbers | int:
    return 0 if value is None else value
