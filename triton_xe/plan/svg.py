"""Draw a plan as SVG: the tile with each warp's part, and one message with its operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from triton_xe.layout.svg import document, rect, text
from triton_xe.plan.drawing import describe
from triton_xe.plan.model import BlockPlan

TILE_PIXELS = 520
MESSAGE_PIXELS = 420
SMALLEST_PIXELS = 72
"""Minimum side of a panel in pixels, so that its labels fit."""
COMFORTABLE = 10
"""Font size below which a label is broken into two lines."""
LEFT, TOP, BETWEEN = 60, 84, 90


@dataclass(frozen=True)
class Panel:
    """A rectangle of the drawing that shows `width` x `height` elements."""

    left: float
    top: float
    width: int
    height: int
    pixels: int

    @property
    def scale_x(self) -> float:
        return max(SMALLEST_PIXELS, self.pixels * self.width / self.longest) / self.width

    @property
    def scale_y(self) -> float:
        return max(SMALLEST_PIXELS, self.pixels * self.height / self.longest) / self.height

    @property
    def longest(self) -> int:
        return max(self.width, self.height)

    @property
    def right(self) -> float:
        return self.left + self.width * self.scale_x

    @property
    def bottom(self) -> float:
        return self.top + self.height * self.scale_y

    def box(self, x: int, y: int, width: int, height: int) -> tuple[float, float, float, float]:
        """A rectangle of elements in pixels."""
        return (
            self.left + x * self.scale_x,
            self.top + y * self.scale_y,
            width * self.scale_x,
            height * self.scale_y,
        )


Box = tuple[int, int, int, int]
"""x, y, width, height in tensor elements."""


def plan_svg(plan: BlockPlan) -> str:
    """Draw a plan as an SVG document, whose rectangles have hover texts."""
    sizes = plan.layout.out_dims
    tile = Panel(LEFT, TOP, sizes[plan.x_dim], sizes[plan.y_dim], TILE_PIXELS)
    width = _row_elements(plan)
    what = f"{plan.y_dim} x {plan.x_dim} in memory, one colour per warp"
    left = max(tile.right + BETWEEN, LEFT + _text_width(what, 12) + BETWEEN / 2)
    message = Panel(left, TOP, width, plan.shape.height, MESSAGE_PIXELS)
    bottom = max(tile.bottom, message.bottom) + 60
    title = describe(plan)
    caption = _caption(plan)
    widths = LEFT + _text_width(title, 15), LEFT + _text_width(caption, 12), message.right
    right = 40 + max(widths)
    body = [
        text(LEFT, 30, title, size=15),
        *_axes(tile, what),
        *_warps(plan, tile),
        *_axes(message, "message #0 and its operands"),
        *_operands(plan, message),
        text(LEFT, bottom - 16, caption, size=12, colour="#555"),
    ]
    return document(right, bottom, body)


def _text_width(words: str, size: float) -> float:
    """Pixels of monospaced text; a little more than the fonts need."""
    return 0.62 * size * len(words)


def _caption(plan: BlockPlan) -> str:
    copies = plan.redundant_warp_mask.bit_count()
    shared = f"each part is moved by {1 << copies} warps; " if copies else ""
    elements = "e: elements of a message's vector; "
    return f"outlined: the messages of warp 0; {shared}{elements}{plan.moves} register moves"


def _row_elements(plan: BlockPlan) -> int:
    return plan.shape.row_bytes * 8 // plan.element_bits


def _axes(panel: Panel, title: str) -> Iterator[str]:
    yield text(panel.left, panel.top - 26, title, size=12, colour="#555")
    yield text(panel.left, panel.top - 8, "0", size=11)
    yield text(panel.right, panel.top - 8, str(panel.width), size=11, anchor="end")
    yield text(panel.left - 6, panel.top + 10, "0", size=11, anchor="end")
    yield text(panel.left - 6, panel.bottom, str(panel.height), size=11, anchor="end")
    yield rect(*panel.box(0, 0, panel.width, panel.height), "#f4f4f4", "#999")


def _warps(plan: BlockPlan, panel: Panel) -> Iterator[str]:
    """Draw the messages of all warps that have parts of their own; outline those of warp 0."""
    count = plan.layout.in_dims.get("warp", 1)
    shown = [warp for warp in range(count) if not warp & plan.redundant_warp_mask]
    for position, warp in enumerate(shown):
        for i, box in enumerate(_message_boxes(plan, warp)):
            name = f"warp {warp}, message #{i}: x {box[0]}, y {box[1]}, {box[2]} x {box[3]}"
            yield rect(*panel.box(*box), _colour(position, len(shown)), "white", hover=name)
    for i, box in enumerate(_message_boxes(plan, 0)):
        yield rect(*panel.box(*box), "none", "#111", stroke_width=2)
        yield _label(panel, box, f"#{i}")


def _message_boxes(plan: BlockPlan, warp: int) -> Iterator[Box]:
    zero = dict.fromkeys(plan.origin.in_dims, 0)
    at = plan.origin.apply(zero | {"warp": warp} if "warp" in zero else zero)
    for message in plan.messages:
        x, y = at[plan.x_dim] + message.x, at[plan.y_dim] + message.y
        yield x, y, _row_elements(plan), plan.shape.height


def _operands(plan: BlockPlan, panel: Panel) -> Iterator[str]:
    """Draw the operands' rectangles in message 0, or its blocks if there are no operands."""
    boxes = list(_operand_boxes(plan)) if plan.fragment.registers > 1 else list(_blocks(plan))
    for position, (box, name) in enumerate(boxes):
        colour = _colour(position, len(boxes), lightness=86)
        yield rect(*panel.box(*box), colour, "#555", hover=name)
        yield _label(panel, box, name)
    block = _row_elements(plan) // plan.shape.blocks
    for i in range(1, plan.shape.blocks):
        x = panel.left + i * block * panel.scale_x
        yield (
            f"<line x1='{x:.1f}' y1='{panel.top}' x2='{x:.1f}' y2='{panel.bottom:.1f}' "
            "stroke='#111' stroke-width='2' stroke-dasharray='6 4'/>"
        )


def _operand_boxes(plan: BlockPlan) -> Iterator[tuple[Box, str]]:
    for number, fragment in enumerate(plan.fragments):
        if fragment.message != 0:
            continue
        registers = np.arange(fragment.first_register, fragment.first_register + fragment.registers)
        lanes = np.arange(plan.layout.in_dims["lane"])[:, None]
        index = {name: np.zeros((1, 1), int) for name in plan.layout.in_dims}
        index |= {"register": registers[None, :], "lane": lanes}
        coordinates = plan.layout.apply_numpy(index)
        xs, ys = coordinates[plan.x_dim], coordinates[plan.y_dim]
        x, y = int(xs.min()), int(ys.min())
        box = (x, y, int(xs.max()) + 1 - x, int(ys.max()) + 1 - y)
        yield box, f"operand {number}: {_elements(fragment.elements)}"


def _elements(elements: tuple[int, ...]) -> str:
    """A run of elements as first..last, with the step if it is not 1."""
    if len(elements) == 1:
        return f"e{elements[0]}"
    step = elements[1] - elements[0]
    run = f"e{elements[0]}..{elements[-1]}"
    return run if step == 1 else f"{run} by {step}"


def _blocks(plan: BlockPlan) -> Iterator[tuple[Box, str]]:
    width = _row_elements(plan) // plan.shape.blocks
    count = plan.elements // plan.shape.blocks
    for block in range(plan.shape.blocks):
        elements = tuple(range(block * count, (block + 1) * count))
        yield (block * width, 0, width, plan.shape.height), _elements(elements)


def _colour(index: int, count: int, lightness: int = 78) -> str:
    """Return distinct hues for neighbours: steps of the golden angle."""
    return f"hsl({index * 137.5 % 360:.0f},{55 if count > 1 else 30}%,{lightness}%)"


def _label(panel: Panel, box: Box, label: str) -> str:
    """Text in the middle of a box, as large as fits; empty if it would not be readable.

    Text that would be small in one line is broken after its `:`.
    """
    x, y, width, height = panel.box(*box)
    lines = [label]
    size = _label_size(width, height, lines)
    if size < COMFORTABLE:
        lines = label.split(": ")
        size = _label_size(width, height, lines)
    if size < 5:
        return ""
    first = y + height / 2 + (0.95 - 0.6 * len(lines)) * size
    return "".join(
        text(x + width / 2, first + 1.2 * i * size, line, size=size, anchor="middle")
        for i, line in enumerate(lines)
    )


def _label_size(width: float, height: float, lines: Sequence[str]) -> float:
    longest = max(map(len, lines))
    return min(14.0, 0.8 * height / len(lines), width / (0.65 * longest))
