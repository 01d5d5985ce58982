"""What a per-work-item value becomes on the host.

A varying `<n x T>` is ONE flat host vector of n*S elements, element-major and lane-minor
(index = element * S + lane), S being the subgroup size: the register image of the hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from triton_xe.runtime.simulator.analysis.shapes import Table
from triton_xe.runtime.simulator.ir import Type


@dataclass(frozen=True)
class Uniform:
    """The same in every lane; `text` is a host operand of the per-work-item type."""

    text: str
    type: Type


@dataclass(frozen=True, eq=False)
class Tabled:
    """`base + table[element, lane]`; `base` None is zero.  Pointers: table in bytes."""

    base: str | None
    table: Table
    type: Type


@dataclass(frozen=True)
class Wide:
    """A flat host vector in an SSA name."""

    text: str
    type: Type


@dataclass(frozen=True)
class Pieces:
    """A vector as its elements, joined only when it is needed whole."""

    parts: tuple[Value, ...]
    type: Type


@dataclass(frozen=True)
class Slot:
    """A flat host vector in memory at `pointer`, valid as long as the value is live."""

    pointer: str
    type: Type


@dataclass(frozen=True)
class Private:
    """A pointer into a private array: `offset` bytes of each work-item into `array`."""

    array: str
    offset: int
    type: Type


@dataclass(frozen=True)
class Aggregate:
    """A literal struct, field by field."""

    parts: tuple[Value, ...]
    type: Type


Value = Uniform | Tabled | Wide | Pieces | Slot | Private | Aggregate


@lru_cache(maxsize=4096)
def mask_text(indices: tuple[int, ...]) -> str:
    """A shuffle mask operand; -1 is undefined."""
    items = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in indices)
    return f"<{len(indices)} x i32> <{items}>"


@lru_cache(maxsize=4096)
def slice_mask(first: int, count: int) -> str:
    return mask_text(tuple(range(first, first + count)))


def wide_type(t: Type, lanes: int) -> str:
    return f"<{t.lanes * lanes} x {t.scalar.text}>"


def constant_vector(values: Sequence[int], t: Type) -> str:
    """A vector constant of integers of scalar type `t`, without its type."""
    if len(set(values)) == 1:
        return f"splat ({t.text} {_integer(values[0], t)})"
    return "<" + ", ".join(f"{t.text} {_integer(v, t)}" for v in values) + ">"


def _integer(value: int, t: Type) -> str:
    return ("true" if value & 1 else "false") if t.bits == 1 else str(value)


def is_constant_text(text: str) -> bool:
    return not text.startswith("%")
