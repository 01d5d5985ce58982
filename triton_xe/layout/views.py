"""A layout as text, by hardware slot (its element) or by element (its slots).

The hardware view is that of Intel's `triton-tensor-layout -use-hw-view`: per warp one line per
register, one column per lane.  The tensor view is that of `triton-tensor-layout`: threads count
through all warps, `T17:3` is register 3 of thread 17, copies are separated by `|`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from triton_xe.layout.linear_layout import LinearLayout

Numbers = npt.NDArray[np.int64]
Paint = Callable[[int, str], str]
"""Function (number of a warp, text) -> the text, coloured or not."""
SLOT_ORDER = ("block", "warp", "lane", "register", "partition", "offset", "row", "col")


@dataclass(frozen=True)
class Slots:
    """Every slot of a layout and its element.

    `coordinates[dim]` and `element` are arrays indexed by block, warp, lane, register (block,
    offset in shared memory; block, row, col in tensor memory).  `element` counts row-major through
    the tensor.
    """

    in_dims: tuple[str, ...]
    coordinates: tuple[Numbers, ...]
    element: Numbers
    shape: tuple[int, ...]


def all_slots(layout: LinearLayout) -> Slots:
    """The slots of a register, shared-memory or tensor-memory layout."""
    names = [name for name in SLOT_ORDER if name in layout.in_dims]
    axes = np.meshgrid(*(np.arange(layout.in_dims[name]) for name in names), indexing="ij")
    found = layout.apply_numpy(dict(zip(names, axes, strict=True)))
    shape = tuple(layout.out_dims.values())
    coordinates = tuple(np.asarray(value, dtype=np.int64) for value in found.values())
    element = np.zeros_like(coordinates[0])
    for size, coordinate in zip(shape, coordinates, strict=True):
        element = element * size + coordinate
    return Slots(tuple(names), coordinates, element, shape)


def plain(number: int, text: str) -> str:
    """Return the text without colours."""
    return text


def hardware_view(
    layout: LinearLayout, warps: Sequence[int] | None = None, paint: Paint = plain
) -> str:
    """Print the element of each slot.  `warps` limits the output to those warps."""
    slots = all_slots(layout)
    if "register" not in layout.in_dims:
        return "\n".join(_memory_lines(slots))
    return "\n".join(_register_lines(slots, warps, paint))


def _register_lines(slots: Slots, warps: Sequence[int] | None, paint: Paint) -> Iterator[str]:
    widths = [len(str(size - 1)) for size in slots.shape]
    n_blocks, n_warps, n_lanes, n_registers = slots.element.shape
    for block in range(n_blocks):
        if n_blocks > 1:
            yield f"Block{block}:"
        for warp in range(n_warps) if warps is None else warps:
            yield paint(warp, f"Warp{warp}:")
            for register in range(n_registers):
                slots_of_row = ((block, warp, lane, register) for lane in range(n_lanes))
                yield ", ".join(_coordinate(slots, slot, widths) for slot in slots_of_row)


def _coordinate(slots: Slots, slot: tuple[int, ...], widths: Sequence[int]) -> str:
    values = zip(slots.coordinates, widths, strict=True)
    return f"({','.join(str(value[slot]).rjust(width) for value, width in values)})"


def _memory_lines(slots: Slots) -> Iterator[str]:
    widths = [len(str(size - 1)) for size in slots.shape]
    *outer, n_offsets = slots.element.shape
    last = slots.in_dims[-1].capitalize()
    for slot in np.ndindex(*outer):
        names = zip(slots.in_dims, slot, strict=False)
        yield " ".join(f"{name.capitalize()}: {index}:" for name, index in names)
        for offset in range(n_offsets):
            yield f"{last}: {offset} -> {_coordinate(slots, (*slot, offset), widths)}"


def tensor_view(layout: LinearLayout, paint: Paint = plain) -> str:
    """Print the slots of each element, as nested lists."""
    slots = all_slots(layout)
    owners: list[list[str]] = [[] for _ in range(int(np.prod(slots.shape)))]
    in_memory = "register" not in layout.in_dims
    name = _offset_namer(slots) if in_memory else _thread_namer(slots, paint)
    for slot in np.ndindex(*slots.element.shape):
        owners[slots.element[slot]].append(name(slot))
    joined = ["|".join(names) for names in owners]
    separator = "," if in_memory else ", "
    return _nested(joined, slots.shape, 0, separator)


def _thread_namer(slots: Slots, paint: Paint) -> Callable[[tuple[int, ...]], str]:
    n_blocks, n_warps, n_lanes, n_registers = slots.element.shape
    width = len(f"T{n_warps * n_lanes - 1}:{n_registers - 1}")

    def name(slot: tuple[int, ...]) -> str:
        block, warp, lane, register = slot
        thread = f"T{warp * n_lanes + lane}:{register}".rjust(width)
        return paint(warp, f"B{block}:{thread}" if n_blocks > 1 else thread)

    return name


def _offset_namer(slots: Slots) -> Callable[[tuple[int, ...]], str]:
    widths = [len(str(size - 1)) for size in slots.element.shape]

    def name(slot: tuple[int, ...]) -> str:
        values = zip(slot, widths, strict=True)
        return f"({':'.join(str(value).rjust(width) for value, width in values)})"

    return name


def _nested(entries: Sequence[str], shape: Sequence[int], depth: int, separator: str) -> str:
    """Print `[[a, b]` / `[ c, d]]`: inner lists start below the outer ones."""
    if len(shape) == 1:
        return f"[{separator.join(entries)}]"
    step = len(entries) // shape[0]
    rows = [
        _nested(entries[i : i + step], shape[1:], depth + 1, separator)
        for i in range(0, len(entries), step)
    ]
    indented = [row if i == 0 else _indent_row(row, depth + 1) for i, row in enumerate(rows)]
    return f"[{chr(10).join(indented)}]"


def _indent_row(row: str, width: int) -> str:
    """Insert spaces after the opening brackets."""
    inside = row.lstrip("[")
    return "[" * (len(row) - len(inside)) + " " * width + inside
