"""A small drawing of a block-load plan, from its summary in a kernel's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_COLUMNS = 64
MAX_LINES = 12


def describe(plan: Mapping[str, Any]) -> str:
    """Describe a plan in one line: number and shape of messages, and the order of the values.

    >>> describe(dict(op="load", messages=[{"x": 0, "y": 0}], width=16, height=32, blocks=2,
    ...               element_bits=16, transpose=False, vnni=True, bytes=2048))
    '1 block load of 32 rows x 2 blocks of 16 x 16-bit, vnni, 2048 bytes'
    """
    count = len(plan["messages"])
    noun = f"block {plan['op']}" + ("s" if count > 1 else "")
    blocks = f"{plan['blocks']} blocks of " if plan["blocks"] > 1 else ""
    shape = f"{plan['height']} rows x {blocks}{plan['width']} x {plan['element_bits']}-bit"
    flags = "".join(f", {name}" for name in ("transpose", "vnni") if plan[name])
    return f"{count} {noun} of {shape}{flags}, {plan['bytes']} bytes{' each' * (count > 1)}"


def draw(plan: Mapping[str, Any]) -> str:
    """Draw the blocks over the tile of one subgroup, memory rows from left to right.

    Each block shows the number of the message that moves it.  Large tiles are drawn smaller.
    """
    boxes = rectangles(plan)
    right = max(x + plan["width"] for _, x, _ in boxes)
    bottom = max(y + plan["height"] for _, _, y in boxes)
    across, down = _step(right, MAX_COLUMNS), _step(2 * bottom, 2 * MAX_LINES)
    if right <= MAX_COLUMNS // 2:
        across = -2
    canvas = [[" "] * (_scaled(right, across) + 1) for _ in range(_scaled(bottom, down) + 1)]
    for number, x, y in boxes:
        _box(canvas, str(number), _scaled(x, across), _scaled(y, down),
             _scaled(x + plan["width"], across), _scaled(y + plan["height"], down))
    return "\n".join("".join(line).rstrip() for line in canvas)


def rectangles(plan: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """(message, x, y) of each block, the top left of the tile at 0, 0."""
    found = [
        (number, message["x"] + block * plan["width"], message["y"])
        for number, message in enumerate(plan["messages"])
        for block in range(plan["blocks"])
    ]
    left, top = min(x for _, x, _ in found), min(y for _, _, y in found)
    return [(number, x - left, y - top) for number, x, y in found]


def _step(size: int, most: int) -> int:
    """Elements per character; negative: characters per element."""
    step = 1
    while size > step * most:
        step *= 2
    return step


def _scaled(position: int, step: int) -> int:
    return position * -step if step < 0 else position // step


def _box(canvas: list[list[str]], label: str, x0: int, y0: int, x1: int, y1: int) -> None:
    for x in range(x0, x1 + 1):
        for y in (y0, y1):
            canvas[y][x] = "+" if x in (x0, x1) or canvas[y][x] in "+|" else "-"
    for y in range(y0 + 1, y1):
        for x in (x0, x1):
            canvas[y][x] = "|" if canvas[y][x] != "+" else "+"
    middle = (y0 + y1) // 2
    start = (x0 + x1 - len(label) + 1) // 2
    if y0 < middle < y1:
        for i, letter in enumerate(label):
            canvas[middle][start + i] = letter
