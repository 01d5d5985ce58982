"""Plans: messages, the source of each register's value, guards; or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from triton_xe.hardware.block_2d import BlockShape, Guard
from triton_xe.hardware.dpas import Fragment
from triton_xe.hardware.target import Target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.surface import SurfaceFacts


def matrix_dims(layout: LinearLayout) -> tuple[str, str]:
    """The names of a tensor's last two dimensions."""
    rank = len(layout.out_dims)
    return f"dim{rank - 2}", f"dim{rank - 1}"


@dataclass(frozen=True)
class Refusal:
    """Reason why there is no plan, and a remedy."""

    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}" if self.remedy else self.reason


class Message(NamedTuple):
    """One message: offset of its rectangle from the warp's tile origin, in tensor elements."""

    x: int
    y: int


class Source(NamedTuple):
    """Position of a register's value: vector element `element` of a message's result, part
    `sub`.
    """

    message: int
    element: int
    sub: int


@dataclass(frozen=True)
class FragmentSource:
    """How one operand is assembled: registers `first_register`, ... from elements of one message.

    `elements` are the message's vector elements in operand order.  `order[i]` is the position of
    the fragment's i-th register in the parts of those elements.  `message` is None if several
    messages form one operand; then `sources` of the plan has the positions.
    """

    first_register: int
    registers: int
    message: int | None
    elements: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def in_order(self) -> bool:
        """True if the concatenated elements contain the registers in their order."""
        return self.message is not None and self.order == tuple(range(self.registers))

    @property
    def is_slice(self) -> bool:
        """True if the operand is a run of the message's vector elements without moves."""
        if not self.in_order:
            return False
        first = self.elements[0]
        return self.elements == tuple(range(first, first + len(self.elements)))


@dataclass(frozen=True)
class BlockPlan:
    """2D block messages of one shape with which one subgroup moves its part of a tile.

    The message at warp w reads or writes the rectangle at memory coordinates `tile offset +
    origin(w) + (message.x, message.y)`.  Its result (or value) is a vector of `elements` elements
    of `register_bits` bits.  The value of the layout's register r is part `sources[r].sub` of
    element `sources[r].element` of message `sources[r].message`.
    """

    operation: ClassVar[str]

    layout: LinearLayout
    surface: SurfaceFacts
    element_bits: int
    target: Target
    fragment: Fragment
    shape: BlockShape
    register_bits: int
    elements: int
    messages: tuple[Message, ...]
    sources: tuple[Source, ...]
    fragments: tuple[FragmentSource, ...]
    guards: tuple[Guard, ...]
    moves: int
    """Estimate of the register moves from results to operands."""

    @property
    def x_dim(self) -> str:
        """The tensor dimension along memory rows."""
        return matrix_dims(self.layout)[self.surface.contiguous_dim]

    @property
    def y_dim(self) -> str:
        return matrix_dims(self.layout)[1 - self.surface.contiguous_dim]

    @cached_property
    def origin(self) -> LinearLayout:
        """(warp, block) -> tensor coordinates of the warp's tile."""
        ins = [name for name in self.layout.in_dims if name not in ("register", "lane")]
        return self.layout.sublayout(ins, self.layout.out_dims)

    @property
    def element_type(self) -> str:
        """LLVM type of a vector element."""
        return f"i{self.register_bits}"

    @property
    def vector_type(self) -> str:
        """LLVM type of one message's result or value."""
        if self.elements == 1:
            return self.element_type
        return f"<{self.elements} x {self.element_type}>"

    @property
    def parts(self) -> int:
        """Tensor elements in one vector element."""
        return self.register_bits // self.element_bits

    def message_x(self, x: int) -> int:
        """x in units of the message's elements, from tensor elements (a multiple of the unit)."""
        return x * self.element_bits // self.shape.element_bits

    @property
    def bytes_per_message(self) -> int:
        return self.shape.payload_bytes

    @property
    def redundant_warp_mask(self) -> int:
        """Bits of the warp number on which the moved elements do not depend (broadcast warps)."""
        return self.layout.sublayout(["warp"], self.layout.out_dims).free_variable_masks()["warp"]

    def summary(self) -> dict[str, Any]:
        """The plan as plain data, for JSON and kernel metadata."""
        shape = self.shape
        return {
            "op": self.operation,
            "target": self.target.name,
            "element_bits": shape.element_bits,
            "width": shape.width,
            "height": shape.height,
            "blocks": shape.blocks,
            "transpose": shape.transpose,
            "vnni": shape.vnni,
            "result": self.vector_type,
            "bytes": self.bytes_per_message,
            "registers": shape.registers,
            "messages": [{"x": self.message_x(m.x), "y": m.y} for m in self.messages],
            "fragments": len(self.fragments),
            "moves": self.moves,
            "guards": [str(guard) for guard in self.guards],
        }


class BlockLoadPlan(BlockPlan):
    """A `BlockPlan` that loads: every register of the layout is delivered exactly once."""

    operation = "load"


class BlockStorePlan(BlockPlan):
    """A `BlockPlan` that stores: every element of the tile is written by its owners."""

    operation = "store"
