"""A plan as a drawing of its messages over the tile in memory, in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triton_xe.plan.gather import Access, GatherPlan
from triton_xe.plan.model import BlockPlan

MARGIN = 6
CELL = 10
NARROW_CELL = 5
GAP = 4
MANY_COLUMNS = 8
MAX_ROWS = 12
"""Rows of cells that are drawn; the others of a tall drawing are counted."""


@dataclass(frozen=True)
class Cell:
    """A rectangle of the tile in memory: one block of a message, or a part that other warps
    move.
    """

    message: int | None
    block: int = 0


def describe(plan: BlockPlan) -> str:
    """Describe the messages in one line.

        load d16 16x32 v2 vnni -> <32 x i32>: 2 messages of 2048 bytes, 32 registers each (bmg)
    """
    count = len(plan.messages)
    arrow = "<-" if plan.operation == "store" else "->"
    registers = f"{plan.shape.registers} register" + "s" * (plan.shape.registers > 1)
    return (
        f"{plan.operation} {plan.shape} {arrow} {plan.vector_type}: {count} "
        f"message{'s' * (count > 1)} of {plan.bytes_per_message} bytes, {registers} each "
        f"({plan.target.name})"
    )


def describe_gather(plan: GatherPlan) -> str:
    """Describe in one line the accesses that replace 2D blocks."""
    masked = ", masked" if plan.masked else ""
    count = len(plan.accesses)
    plural = "es" * (count > 1)
    return f"{plan.access.value}: {count} access{plural} of {plan.lane_type} per lane{masked}"


def draw_plan(plan: BlockPlan) -> str:
    """Draw the tile in memory, x to the right and y down, with the messages of warp 0.

    Edges are numbered in tensor elements, and bands are not to scale.  A dotted line splits the
    blocks of one message, and `e` counts the elements of its vector.  Blank cells belong to other
    warps.
    """
    columns, rows = _edges(plan)
    cells = _cells(plan, columns, rows)
    hidden = max(0, len(cells) - MAX_ROWS)
    if hidden:
        cells, rows = cells[:MAX_ROWS], rows[: MAX_ROWS + 1]
    text = _Canvas(columns, rows, cells, plan).text()
    return f"{text}\n{'':{MARGIN}}... {hidden} more rows of messages" if hidden else text


def table(plan: BlockPlan) -> str:
    """One line per message, offsets in the units of the instruction."""
    shape = plan.shape
    mode = "transpose" if shape.transpose else "vnni" if shape.vnni else "plain"
    head = "  #  op     bits  width  height  blocks  mode            x      y  bytes  registers"
    lines = [
        f"{i:3}  {plan.operation:5}  {shape.element_bits:4}  {shape.width:5}  {shape.height:6}  "
        f"{shape.blocks:6}  {mode:9}  {plan.message_x(m.x):7} {m.y:6}  "
        f"{plan.bytes_per_message:5}  {shape.registers:9}"
        for i, m in enumerate(plan.messages)
    ]
    return "\n".join([head, *lines])


def explain(plan: BlockPlan | GatherPlan) -> str:
    """Return the complete description: the line, the drawing, the table, moves and guards."""
    if isinstance(plan, GatherPlan):
        return "\n".join([describe_gather(plan), *_reasons(plan)])
    parts = [describe(plan), "", draw_plan(plan), "", table(plan), "", _operands(plan)]
    parts += _guards(plan)
    return "\n".join(parts)


def _reasons(plan: GatherPlan) -> Iterable[str]:
    if plan.because:
        yield f"no 2D block messages: {plan.because}"
    if plan.access is not Access.BLOCK_1D:
        yield (
            f"{plan.vector} element{'s' * (plan.vector > 1)} per access: more need neighbours of a "
            "row in one lane, and base, pitch, x and width known to be multiples of their size"
        )


def _operands(plan: BlockPlan) -> str:
    """Describe the moves from results to operands."""
    if plan.moves == 0:
        return "every operand is a run of a message's elements: nothing is moved"
    return f"about {plan.moves} register moves bring the elements into the layout's order"


def _guards(plan: BlockPlan) -> list[str]:
    if not plan.guards:
        return ["the surface is known to be legal"]
    return ["legal at run time if:", *(f"  {guard}" for guard in plan.guards)]


def _edges(plan: BlockPlan) -> tuple[list[int], list[int]]:
    """First column and row of each band, and the ends of the tile."""
    sizes = plan.layout.out_dims
    width = plan.shape.row_bytes * 8 // plan.element_bits // plan.shape.blocks
    columns, rows = {0, sizes[plan.x_dim]}, {0, sizes[plan.y_dim]}
    for message in plan.messages:
        columns |= {message.x + i * width for i in range(plan.shape.blocks + 1)}
        rows |= {message.y, message.y + plan.shape.height}
    return sorted(columns), sorted(rows)


def _cells(plan: BlockPlan, columns: Sequence[int], rows: Sequence[int]) -> list[list[Cell]]:
    width = plan.shape.row_bytes * 8 // plan.element_bits // plan.shape.blocks
    owner = {
        (message.x + block * width, message.y): Cell(i, block)
        for i, message in enumerate(plan.messages)
        for block in range(plan.shape.blocks)
    }
    return [[owner.get((x, y), Cell(None)) for x in columns[:-1]] for y in rows[:-1]]


class _Canvas:
    """A grid of characters, a line between every two bands."""

    def __init__(
        self,
        columns: Sequence[int],
        rows: Sequence[int],
        cells: Sequence[Sequence[Cell]],
        plan: BlockPlan,
    ) -> None:
        self.columns, self.rows, self.cells, self.plan = columns, rows, cells, plan
        used = [any(row[i].message is not None for row in cells) for i in range(len(columns) - 1)]
        wide = NARROW_CELL if sum(used) > MANY_COLUMNS else CELL
        self.at = [MARGIN]
        for has_message in used:
            self.at.append(self.at[-1] + (wide if has_message else GAP) + 1)
        self.wide = wide

    def cell(self, row: int, column: int) -> Cell:
        inside = 0 <= row < len(self.cells) and 0 <= column < len(self.columns) - 1
        return self.cells[row][column] if inside else Cell(None)

    def text(self) -> str:
        lines = [self.header()]
        for row in range(len(self.cells)):
            lines.append(self.rule(row))
            lines.extend(self.body(row))
        lines.append(self.rule(len(self.cells)))
        return "\n".join(line.rstrip() for line in lines)

    def header(self) -> str:
        line = " " * (self.at[-1] + 8)
        for edge, at in zip(self.columns, self.at, strict=True):
            label = f"x={edge}" if edge == 0 else str(edge)
            line = line[:at] + label + line[at + len(label) :]
        return line

    def rule(self, row: int) -> str:
        """The line above a row of cells."""
        edge = self.rows[row]
        line = f"{'y=' if edge == 0 else ''}{edge}".ljust(MARGIN)
        for column in range(len(self.columns)):
            around = [self.cell(row + dy, column + dx) for dy in (-1, 0) for dx in (-1, 0)]
            line += "+" if any(cell.message is not None for cell in around) else " "
            if column == len(self.columns) - 1:
                return line
            pair = self.cell(row - 1, column), self.cell(row, column)
            drawn = any(cell.message is not None for cell in pair)
            line += ("-" if drawn else " ") * (self.at[column + 1] - self.at[column] - 1)
        return line

    def body(self, row: int) -> Iterable[str]:
        for text in (self.name, self.elements):
            line = " " * MARGIN
            for column in range(len(self.columns)):
                left, cell = self.cell(row, column - 1), self.cell(row, column)
                line += _border(left, cell)
                if column < len(self.columns) - 1:
                    room = self.at[column + 1] - self.at[column] - 1
                    line += text(cell)[:room].ljust(room)
            if line.strip():
                yield line

    def name(self, cell: Cell) -> str:
        return "" if cell.message is None else f" #{cell.message}"

    def elements(self, cell: Cell) -> str:
        if cell.message is None or self.wide == NARROW_CELL:
            return ""
        count = self.plan.elements // self.plan.shape.blocks
        first = cell.block * count
        return f" e{first}" if count == 1 else f" e{first}..{first + count - 1}"


def _border(left: Cell, right: Cell) -> str:
    if left.message is None and right.message is None:
        return " "
    return ":" if left.message == right.message else "|"
