"""A layout as an SVG: one colour per warp, darker with the lane.

A large tensor gets an overview of the warps and a sample at reading size.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from triton_xe.hardware.memory import SLM_BANK_BYTES, SLM_BANKS
from triton_xe.layout import Encoding, to_linear_layout
from triton_xe.layout.svg import document, rect, text
from triton_xe.layout.views import Numbers, Slots, all_slots

MARGIN, CELL_HEIGHT = 16, 20
SAMPLE_ROWS, SAMPLE_COLUMNS = 32, 32
OVERVIEW = 420
MAX_AREAS = 20_000
LABELS = {"warp": "lane:register", "bank": "offset", "warp's rows": "row:column"}
SHADING = {
    "warp": "darker: higher lane",
    "bank": "darker: later row",
    "warp's rows": "darker: higher row",
}


@dataclass(frozen=True)
class Picture:
    """The tensor as a matrix (leading dims stacked): the group, shade and label of each element.

    The group is the warp, or the bank in shared memory.  The shade increases from 0 to 1 over the
    lanes, or over the rows of banks.
    """

    group: Numbers
    shade: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    labels: list[list[str]]
    n_groups: int
    group_name: str
    note: str

    @property
    def rows(self) -> int:
        return int(self.group.shape[0])

    @property
    def columns(self) -> int:
        return int(self.group.shape[1])


def make_picture(encoding: Encoding, shape: tuple[int, ...], bits: int) -> Picture:
    layout = to_linear_layout(encoding, shape)
    slots = all_slots(layout)
    flat = slots.element.reshape(-1)
    # the first slot in C order owns the element; copies come after it
    _, first = np.unique(flat, return_index=True)
    matrix = (int(np.prod(shape[:-1], dtype=np.int64)), shape[-1])
    place = np.unravel_index(first, slots.element.shape)
    copies = flat.size // first.size
    note = f"each element is stored {copies} times; the first owner is shown" if copies > 1 else ""
    if "offset" in layout.in_dims:
        return _shared_picture(slots, place, matrix, bits)
    if "row" in layout.in_dims:
        return _tensor_memory_picture(place, matrix, note)
    warp, lane, register = (np.asarray(part).reshape(matrix) for part in place[1:])
    n_blocks, n_warps, n_lanes, _ = slots.element.shape
    group = np.asarray(place[0]).reshape(matrix) * n_warps + warp
    shade = lane / max(1, n_lanes - 1)
    return Picture(group, shade, _pairs(lane, register), n_blocks * n_warps, "warp", note)


def _shared_picture(
    slots: Slots, place: tuple[Numbers, ...], matrix: tuple[int, int], bits: int
) -> Picture:
    offset = np.asarray(place[-1]).reshape(matrix)
    dword = offset * bits // (8 * SLM_BANK_BYTES)
    row = dword // SLM_BANKS
    shade = row / max(1, int(row.max()))
    labels = [[str(value) for value in line] for line in offset]
    note = "labels are offsets in elements"
    return Picture(dword % SLM_BANKS, shade, labels, SLM_BANKS, "bank", note)


def _tensor_memory_picture(
    place: tuple[Numbers, ...], matrix: tuple[int, int], note: str
) -> Picture:
    """Picture of tensor memory, of which each warp reaches 32 of the 128 rows."""
    row, column = (np.asarray(part).reshape(matrix) for part in place[-2:])
    labels = _pairs(row, column)
    group = np.asarray(place[0]).reshape(matrix) * 4 + row // 32
    return Picture(group, row % 32 / 31, labels, int(group.max()) + 1, "warp's rows", note)


def _pairs(first: Numbers, second: Numbers) -> list[list[str]]:
    """Labels `first:second` of each element."""
    rows = zip(first, second, strict=True)
    return [[f"{a}:{b}" for a, b in zip(*row, strict=True)] for row in rows]


def colour(group: int, shade: float) -> str:
    """Distinct hues for neighbouring groups; shade 1 is the darkest."""
    hue = group * 0.61803398875 % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, 0.86 - 0.30 * shade, 0.62)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def write_svg(encoding: Encoding, shape: tuple[int, ...], bits: int, path: Path) -> None:
    path.write_text(to_svg(encoding, shape, bits))


def to_svg(encoding: Encoding, shape: tuple[int, ...], bits: int) -> str:
    picture = make_picture(encoding, shape, bits)
    size = "x".join(map(str, shape))
    lines = _wrapped(f"{encoding}  on a tensor of {size}", 100)
    top = MARGIN + 16 * (len(lines) + 1)
    body = [text(MARGIN, MARGIN + 12 + 16 * i, line, 12) for i, line in enumerate(lines)]
    sample_rows = min(picture.rows, SAMPLE_ROWS)
    sample_columns = min(picture.columns, SAMPLE_COLUMNS)
    whole = (sample_rows, sample_columns) == (picture.rows, picture.columns)
    right, bottom = float(MARGIN), float(top)
    if not whole:
        right, bottom = _draw_overview(picture, body, top, sample_rows, sample_columns)
        right += 2 * MARGIN
    right, below = _draw_sample(picture, body, right, top, sample_rows, sample_columns)
    bottom = max(bottom, below) + 8
    bottom = _draw_legend(picture, body, bottom, right)
    width = max(right + MARGIN, MARGIN + 7.3 * max(map(len, lines)) + MARGIN)
    return document(width, bottom, body)


def _wrapped(line: str, width: int) -> list[str]:
    """Break a line between parameters, but not inside a list of numbers."""
    words, lines = re.split(r" (?![\d\[])", line), [""]
    for word in words:
        if len(lines[-1]) + len(word) >= width:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1].strip() else word
    return lines


def _draw_overview(
    picture: Picture, body: list[str], top: float, sample_rows: int, sample_columns: int
) -> tuple[float, float]:
    """Draw all elements; equal neighbours are one rectangle, and very many lanes are not shaded."""
    scale = min(OVERVIEW / picture.columns, OVERVIEW / picture.rows, 12.0)
    caption = f"whole tensor, one colour per {picture.group_name}"
    body.append(text(MARGIN, top + 10, caption, 11))
    top += 18
    shades = np.unique(picture.shade, return_inverse=True)[1].reshape(picture.group.shape)
    areas = [*rectangles(picture.group * (int(shades.max()) + 1) + shades)]
    plain = len(areas) > MAX_AREAS
    for row, height, column, width in [*rectangles(picture.group)] if plain else areas:
        shade = 0.35 if plain else float(picture.shade[row, column])
        fill = colour(int(picture.group[row, column]), shade)
        body.append(rect(MARGIN + column * scale, top + row * scale, width * scale,
                          height * scale, fill))  # fmt: skip
    for row, height, column, width in rectangles(picture.group):
        if min(width * scale, height * scale) >= 20:
            middle = MARGIN + (column + width / 2) * scale
            number = str(picture.group[row, column])
            body.append(text(middle, top + (row + height / 2) * scale + 4, number, 11, "middle"))
    sample = sample_columns * scale, sample_rows * scale
    body.append(rect(MARGIN, top, *sample, "none", "black", 1.5))
    right = MARGIN + max(picture.columns * scale, 6.8 * len(caption))
    return right, top + picture.rows * scale


def rectangles(group: Numbers) -> Iterator[tuple[int, int, int, int]]:
    """(row, height, column, width) of equal areas: runs in a row, merged over equal rows."""
    changes = np.any(group[1:] != group[:-1], axis=1)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(group)]
    for start, stop in pairwise(starts):
        line = group[start]
        edges = [0, *(np.flatnonzero(line[1:] != line[:-1]) + 1).tolist(), len(line)]
        for left, right in pairwise(edges):
            yield start, stop - start, left, right - left


def _draw_sample(
    picture: Picture, body: list[str], left: float, top: float, rows: int, columns: int
) -> tuple[float, float]:
    """Draw every element with its label, and row and column numbers around."""
    longest = max(len(label) for line in picture.labels[:rows] for label in line[:columns])
    cell = max(22.0, 6.2 * longest + 6)
    what = LABELS[picture.group_name]
    whole = (rows, columns) == (picture.rows, picture.columns)
    which = "each element" if whole else f"the first {rows} x {columns} elements"
    body.append(text(left, top + 10, f"{what} of {which}", 11))
    top += 34
    left += 26
    for column in range(columns):
        body.append(text(left + (column + 0.5) * cell, top - 5, str(column), 9, "middle", "#666"))
    for row in range(rows):
        y = top + row * CELL_HEIGHT
        body.append(text(left - 5, y + 13.5, str(row), 9, "end", "#666"))
        for column in range(columns):
            fill = colour(int(picture.group[row, column]), float(picture.shade[row, column]))
            x = left + column * cell
            body.append(rect(x, y, cell, CELL_HEIGHT, fill, "white"))
            label = picture.labels[row][column]
            body.append(text(x + cell / 2, y + 13.5, label, 10, "middle"))
    return left + columns * cell, top + rows * CELL_HEIGHT


def _draw_legend(picture: Picture, body: list[str], top: float, right: float) -> float:
    """Draw the groups in their colours, and the remark."""
    x, y = float(MARGIN), top + 8
    step = 26 + 6.2 * len(f"{picture.group_name} {picture.n_groups - 1}")
    for group in range(min(picture.n_groups, 64)):
        if x + step > max(right, 500.0):
            x, y = float(MARGIN), y + 20
        body.append(rect(x, y, 14, 14, colour(group, 0.35)))
        body.append(text(x + 18, y + 11, f"{picture.group_name} {group}", 10))
        x += step
    y += 20
    shading = SHADING[picture.group_name]
    remark = f"{shading}. {picture.note}" if picture.note else shading
    body.append(text(MARGIN, y + 11, remark, 10))
    return y + 24
