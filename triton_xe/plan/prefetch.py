"""Prefetch a work-group's tile cooperatively: each subgroup prefetches an equal part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triton_xe.errors import LayoutError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import BlockShape, Guard
from triton_xe.hardware.target import Target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.model import Message, Refusal
from triton_xe.plan.surface import SurfaceFacts, open_guards


@dataclass(frozen=True)
class PrefetchPlan:
    """Warp w prefetches `shape` at `tile offset + origin(w) + (message.x, message.y)`.

    `origin` maps "warp" to ("y", "x") in the memory tile of `rows` x `columns` elements.
    """

    rows: int
    columns: int
    element_bits: int
    target: Target
    shape: BlockShape
    messages: tuple[Message, ...]
    origin: LinearLayout
    guards: tuple[Guard, ...]

    @property
    def redundant_warp_mask(self) -> int:
        """Bits of the warp number without effect, because there are more warps than messages."""
        return self.origin.free_variable_masks()["warp"]


def plan_prefetch(
    rows: int,
    columns: int,
    element_bits: int,
    n_warps: int,
    target: Target,
    surface: SurfaceFacts | None = None,
) -> PrefetchPlan | Refusal:
    """Split a memory tile of `rows` x `columns` (contiguous) elements over `n_warps` subgroups.

    Messages have rows of up to 64 bytes and as many rows as each warp's share.  If they do not
    suffice, they have rows of 256 bytes on devices that prefetch such rows.

    >>> from triton_xe.hardware.target import target
    >>> plan = plan_prefetch(256, 32, 16, 32, target("bmg"))
    >>> str(plan.shape), len(plan.messages), plan.origin.apply({"warp": 5})
    ('d16 32x8 v1', 1, {'y': 40, 'x': 0})
    """
    for name, value in (("rows", rows), ("columns", columns), ("n_warps", n_warps)):
        if value < 1 or value & (value - 1):
            raise LayoutError(f"{name} is a power of 2, not {value}")
    if not target.has_block_2d:
        return Refusal(f"{target.name} has no 2D block messages", "prefetch addresses per lane")
    if element_bits not in block_2d.ELEMENT_BITS:
        return Refusal(f"{element_bits}-bit elements", "2D blocks hold 8, 16, 32 and 64 bits")
    row_bytes = columns * element_bits // 8
    if row_bytes < block_2d.OFFSET_BYTES:
        return Refusal(f"rows of {row_bytes} bytes", "a message asks for at least 4")
    shape = _shape(rows, columns, element_bits, n_warps, block_2d.MAX_ROW_BYTES)
    longer = _shape(rows, columns, element_bits, n_warps, block_2d.LONG_ROW_BYTES)
    does_suffice = rows * columns <= n_warps * shape.width * shape.height
    if not does_suffice and block_2d.check_prefetch(longer, target) is None:
        shape = longer
    reason = block_2d.check_prefetch(shape, target)
    if reason:
        return Refusal(reason)
    guards = open_guards(surface or SurfaceFacts(), shape.element_bits, element_bits,
                         block_2d.alignment(target))
    if not isinstance(guards, tuple):
        return Refusal(f"the surface is not legal for 2D block messages: {guards.broken}")
    positions = list(_positions(shape, rows, columns))
    warp_bits = n_warps.bit_length() - 1
    origin = positions[:warp_bits] + [(0, 0)] * (warp_bits - len(positions))
    return PrefetchPlan(
        rows=rows,
        columns=columns,
        element_bits=element_bits,
        target=target,
        shape=shape,
        messages=_spread(positions[warp_bits:]),
        origin=LinearLayout({"warp": origin}, {"y": rows, "x": columns}, require_surjective=False),
        guards=guards,
    )


def _shape(
    rows: int, columns: int, element_bits: int, n_warps: int, most_bytes: int
) -> BlockShape:
    width = min(columns, 8 * most_bytes // element_bits)
    share = max(1, rows * columns // (width * n_warps))
    return BlockShape(element_bits, width, min(share, rows, block_2d.MAX_HEIGHT))


def _positions(shape: BlockShape, rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """(y, x) of the bits that number the messages: along a row first."""
    x, y = shape.width, shape.height
    while x < columns:
        yield 0, x
        x *= 2
    while y < rows:
        yield y, 0
        y *= 2


def _spread(bases: list[tuple[int, int]]) -> tuple[Message, ...]:
    """Messages at the sums of all subsets of the bases."""
    messages = [Message(0, 0)]
    for y, x in bases:
        messages += [Message(m.x + x, m.y + y) for m in messages]
    return tuple(messages)
