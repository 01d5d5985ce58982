"""How many neighbouring elements one lane can move per access to global memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triton_xe.errors import LayoutError
from triton_xe.layout import f2
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.lane_shuffles import columns_by_dim

MAX_ACCESS_BYTES = 16


@dataclass(frozen=True)
class AccessWidth:
    """`groups` lists the registers of each access in memory order; registers that hold copies of
    others are in no group.  `reason` says what stopped a wider one."""

    elements: int
    groups: tuple[tuple[int, ...], ...]
    reason: str


def access_width(
    layout: LinearLayout,
    contiguity: Sequence[int],
    divisibility: Sequence[int],
    element_bits: int,
    max_bytes: int = MAX_ACCESS_BYTES,
) -> AccessWidth:
    """The widest access through pointers laid out by `layout`.

    Per dim, `contiguity` is the length of aligned runs of elements with consecutive addresses,
    and `divisibility` a power of two that divides the byte address where such a run starts (as
    Triton's axis analysis has it).  The dim with the longest runs is used.

    >>> from triton_xe.layout import BlockedEncoding, to_linear_layout
    >>> layout = to_linear_layout(BlockedEncoding((1, 8), (2, 8), (1, 1), (1, 0)), (2, 64))
    >>> access_width(layout, (1, 64), (1, 8), 16).elements
    4
    """
    rank = len(layout.out_dims)
    if len(contiguity) != rank or len(divisibility) != rank:
        raise LayoutError(f"contiguity and divisibility must have one value per dim, {rank}")
    fast = max(range(rank), key=lambda dim: (contiguity[dim], dim))
    element_bytes = max(1, element_bits // 8)
    limits = (
        (f"an access moves {max_bytes} bytes", max(1, max_bytes // element_bytes)),
        (f"{contiguity[fast]} elements are contiguous", contiguity[fast]),
        (f"addresses are multiples of {divisibility[fast]} bytes",
         max(1, divisibility[fast] // element_bytes)),
        ("of the registers of a lane", _contiguous_registers(layout, fast)),
    )  # fmt: skip
    reason, elements = min(limits, key=lambda limit: limit[1])
    elements = 1 << (elements.bit_length() - 1)
    return AccessWidth(elements, _groups(layout, fast, elements), reason)


def _contiguous_registers(layout: LinearLayout, fast: int) -> int:
    """The longest aligned run along dim `fast` that each lane holds, at the same registers."""
    name = list(layout.out_dims)[fast]
    shift = sum(layout.out_size_log2(other) for other in list(layout.out_dims)[:fast])
    columns = columns_by_dim(layout)
    registers = f2.Elimination(columns["register"])
    others = [c for dim, part in columns.items() if dim != "register" for c in part]
    run = 1
    for bit in range(layout.out_size_log2(name)):
        step = 1 << (shift + bit)
        if registers.solve(step) is None or any(column & step for column in others):
            break
        run *= 2
    return run


def _groups(layout: LinearLayout, fast: int, elements: int) -> tuple[tuple[int, ...], ...]:
    """Registers by run, each run in memory order."""
    shift = sum(layout.out_size_log2(other) for other in list(layout.out_dims)[:fast])
    inside = (elements - 1) << shift
    columns = columns_by_dim(layout)["register"]
    groups: dict[int, dict[int, int]] = {}
    for register in range(1 << len(columns)):
        place = f2.apply(columns, register)
        groups.setdefault(place & ~inside, {}).setdefault((place & inside) >> shift, register)
    return tuple(tuple(group[i] for i in range(elements)) for group in groups.values())
