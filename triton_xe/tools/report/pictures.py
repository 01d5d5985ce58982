"""Pictures for a report: the blocks of messages, and the owners of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triton_xe.errors import LayoutError
from triton_xe.layout import parse_encoding, read_aliases
from triton_xe.layout.svg import document, rect, text
from triton_xe.tools.layout_picture import to_svg
from triton_xe.tools.plan_picture import describe, rectangles
from triton_xe.tools.tensor_arguments import parse_tensor_type

_TYPE = re.compile(r"tensor<(?:\d+x)+[\w]+, (#\w+)>")
WIDEST, HIGHEST = 480, 300
SMALLEST = 34
MOST_LAYOUTS = 6
LONGEST = 4096
"""Largest number of elements of a vector that is drawn."""


def block_picture(plan: Mapping[str, Any]) -> str:
    """The tile of a subgroup with the blocks of each message; hover shows their coordinates."""
    found = rectangles(plan)
    right = max(x + plan["width"] for _, x, _ in found)
    bottom = max(y + plan["height"] for _, _, y in found)
    scale = min(WIDEST / right, HIGHEST / bottom)
    across, down = max(SMALLEST / plan["width"], scale), max(SMALLEST / plan["height"], scale)
    body = []
    for number, x, y in found:
        where = f"message {number}: columns {x} to {x + plan['width'] - 1}, " \
                f"rows {y} to {y + plan['height'] - 1}"
        box = (4 + x * across, 4 + y * down, plan["width"] * across, plan["height"] * down)
        body.append(rect(*box, f"hsl({number * 67 % 360} 60% 82%)", "#555", hover=where))
        body.append(text(box[0] + box[2] / 2, box[1] + box[3] / 2 + 5, str(number), 13, "middle"))
    return document(right * across + 8, bottom * down + 8, body)


def caption(plan: Mapping[str, Any]) -> str:
    return f"{plan.get('operand') or plan['op']}: {describe(plan)}"


def layouts(stages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(type, picture) of the largest tensor of each layout in these stages."""
    largest: dict[str, tuple[int, str, str]] = {}
    for stage in stages:
        aliases = read_aliases(stage)
        for found in _TYPE.finditer(stage):
            shape, _ = parse_tensor_type(found[0])
            written = aliases.get(found[1])
            size = 1
            for side in shape:
                size *= side
            drawn = len(shape) == 2 or (len(shape) == 1 and size <= LONGEST)
            if written is not None and drawn and size > largest.get(written, (0,))[0]:
                largest[written] = size, found[0], stage
    for _, type_, stage in sorted(largest.values(), reverse=True)[:MOST_LAYOUTS]:
        shape, bits = parse_tensor_type(type_)
        alias = _TYPE.fullmatch(type_)
        try:
            encoding = parse_encoding(alias[1] if alias else "", read_aliases(stage))
            yield type_, to_svg(encoding, shape, bits)
        except LayoutError:  # a layout that only other devices have is not drawn
            continue
