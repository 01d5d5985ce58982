"""Plan the 2D block messages that load or store a tile, from layout, surface facts and target.

A layout and a message are linear maps to memory coordinates, given by their basis vectors.  A
message fits if its lanes are the layout's lanes, and its elements are registers of the layout.  The
fitting form that needs the fewest messages (or the fewest instructions) is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import TypeVar

from triton_xe.hardware import block_2d
from triton_xe.hardware.dpas import Fragment
from triton_xe.hardware.target import Target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.candidates import Candidate, candidates, coordinate, split
from triton_xe.plan.model import (
    BlockLoadPlan,
    BlockPlan,
    BlockStorePlan,
    FragmentSource,
    Message,
    Refusal,
    Source,
    matrix_dims,
)
from triton_xe.plan.surface import SurfaceFacts, open_guards


class Objective(Enum):
    """Quantity that the best plan minimizes.

    Messages and instructions differ for Aᵀ and Bᵀ.  A 32-row transposing load halves the messages,
    but its result interleaves two operands, which moves must separate.  (IGC 2.40 splits such a
    load of Bᵀ into two of 16 rows; it keeps one of Aᵀ.)
    """

    MESSAGES = "messages"
    INSTRUCTIONS = "instructions"
    ROWS = "rows"
    """Messages; among equals, those of one block, which stores use too."""


AnyBlockPlan = TypeVar("AnyBlockPlan", bound=BlockPlan)


def plan_block(
    plan_type: type[AnyBlockPlan],
    layout: LinearLayout,
    surface: SurfaceFacts,
    element_bits: int,
    target: Target,
    *,
    fragment: Fragment | None = None,
    objective: Objective = Objective.MESSAGES,
    same_width: bool = False,
    most: tuple[int, int] | None = None,
) -> AnyBlockPlan | Refusal:
    """Plan the 2D block messages that load a tile into `layout`, or store it; refuse with a reason.

    `layout` maps (register, lane, warp, ...) to (dim0, dim1), perhaps after further dims in which
    only warps differ.  `fragment` is the operand of the consumer (`Dpas.fragment`,
    `fragment_of`); without it each register is used separately.  With `same_width`, plain messages
    have elements of the tensor's size, as descriptors do.  A message has at most `most` rows and
    columns.  In a store, warps and registers that hold copies write equal values to the same
    address.
    """
    refusal = check_request(layout, element_bits, target)
    if refusal:
        return refusal
    tile = MemoryTile.from_layout(layout, surface)
    refusal = tile.check()
    if refusal:
        return refusal
    fragment = _limit_fragment(fragment or Fragment(1), len(tile.register_bases))
    messages_for = candidates(plan_type.operation, target, element_bits, tile.lane_bases)
    if same_width:
        messages_for = tuple(c for c in messages_for if c.shape.transpose or (
            c.shape.element_bits == element_bits))
    if most is not None:
        messages_for = tuple(c for c in messages_for
                             if c.shape.height <= most[0] and c.shape.width <= most[1])
    best = _best(tile, messages_for, fragment, objective)
    if best is None:
        return _no_candidate(tile, plan_type.operation, element_bits, target)
    needed = block_2d.alignment(target)
    guards = open_guards(surface, best.shape.element_bits, element_bits, needed)
    if not isinstance(guards, tuple):
        return Refusal(
            f"the surface is not legal for 2D block messages: {guards.broken}",
            "pad the tensor in memory, or copy it to one that is",
        )
    messages, sources = tile.deliver(best)
    return plan_type(
        layout=layout,
        surface=surface,
        element_bits=element_bits,
        target=target,
        fragment=fragment,
        shape=best.shape,
        register_bits=best.register_bits,
        elements=best.elements,
        messages=messages,
        sources=sources,
        fragments=_fragments(sources, fragment, 1 << best.sub_bits),
        guards=guards,
        moves=sum(tile.moves(best, fragment)),
    )


plan_block_load = partial(plan_block, BlockLoadPlan)
plan_block_store = partial(plan_block, BlockStorePlan)


def check_request(layout: LinearLayout, element_bits: int, target: Target) -> Refusal | None:
    """Refuse a request that is impossible for every surface and every layout of this form."""
    if not target.has_block_2d:
        return Refusal(
            f"{target.name} has no 2D block messages", "gathers or 1D block loads do the work"
        )
    if element_bits not in block_2d.ELEMENT_BITS:
        return Refusal(
            f"{element_bits}-bit elements", "2D blocks hold elements of 8, 16, 32 and 64 bits"
        )
    refusal = check_rank(layout)
    if refusal:
        return refusal
    lanes = layout.in_dims.get("lane", 1)
    if lanes != block_2d.SUBGROUP_SIZE:
        return Refusal(
            f"the layout has {lanes} lanes", f"2D blocks need {block_2d.SUBGROUP_SIZE} per subgroup"
        )
    return None


def check_rank(layout: LinearLayout) -> Refusal | None:
    """Refuse a layout in which a warp's part of the tensor is not a matrix."""
    names = list(layout.out_dims)
    if sorted(names) != [f"dim{i}" for i in range(len(names))] or len(names) < 2:
        return Refusal(f"the tensor has dimensions {names}", "at least dim0 and dim1 are needed")
    matrix = matrix_dims(layout)
    within = layout.sublayout(["register", "lane"], [n for n in names if n not in matrix])
    if any(within.columns):
        return Refusal(
            f"a warp holds several matrices: its registers or lanes differ in more than {matrix}",
            "spread the other dimensions over warps or over program instances",
        )
    return None


@dataclass(frozen=True)
class MemoryTile:
    """Basis vectors of a layout as memory coordinates (see `candidates`)."""

    register_bases: tuple[int, ...]
    lane_bases: tuple[int, ...]
    other_bases: tuple[int, ...]

    @staticmethod
    def from_layout(layout: LinearLayout, surface: SurfaceFacts) -> MemoryTile:
        """The tile of a layout; x runs along the contiguous dimension of the surface."""
        names, matrix = list(layout.out_dims), matrix_dims(layout)
        x = names.index(matrix[surface.contiguous_dim])
        y = names.index(matrix[1 - surface.contiguous_dim])
        bases = {
            name: tuple(coordinate(vector[x], vector[y]) for vector in vectors)
            for name, vectors in layout.bases.items()
        }
        registers, lanes = bases.pop("register", ()), bases.pop("lane", ())
        return MemoryTile(registers, lanes, tuple(base for some in bases.values() for base in some))

    def check(self) -> Refusal | None:
        """Refuse broadcast or swizzled lanes, and interleaved warps: these are no rectangles."""
        if 0 in self.lane_bases or len(set(self.lane_bases)) < len(self.lane_bases):
            return Refusal("several lanes hold the same element", "a gather can load it")
        lanes = union(self.lane_bases)
        registers = union(self.register_bases)
        if lanes & registers:
            return Refusal(
                "the layout is swizzled: an element's lane depends on its register",
                "convert it from a layout that is not",
            )
        if union(self.other_bases) & (lanes | registers):
            return Refusal(
                "the tiles of two warps are interleaved", "each warp needs a rectangle of its own"
            )
        return None

    @cached_property
    def units(self) -> int:
        """Union of the coordinate bits that registers change independently of other bits."""
        if all(_is_unit(base) for base in self.register_bases):
            return union(self.register_bases)
        return sum(base for base in _reduced_basis(self.register_bases) if _is_unit(base))

    @cached_property
    def rank(self) -> int:
        """Bits of the register number that change the coordinate."""
        return len(_reduced_basis(self.register_bases))

    def fits(self, candidate: Candidate) -> bool:
        """True if a candidate with this tile's lanes delivers only elements of this tile."""
        return not candidate.mask & ~self.units

    def message_count(self, candidate: Candidate) -> int:
        """Number of messages if the tile is loaded by a candidate that fits."""
        return 1 << (self.rank - candidate.mask.bit_count())

    def deliver(self, candidate: Candidate) -> tuple[tuple[Message, ...], tuple[Source, ...]]:
        """Messages in the order of the registers they fill, and the source of each register."""
        mask, parts = candidate.mask, candidate.sub_bits
        slot_of = {vector: 1 << i for i, vector in enumerate(candidate.slots) if vector}
        slots, origins = [0], [0]
        for base in self.register_bases:
            slot = sum(at for vector, at in slot_of.items() if base & vector)
            origin = base & ~mask
            slots += [slot ^ other for other in slots]
            origins += [origin ^ other for other in origins]
        number = {origin: i for i, origin in enumerate(dict.fromkeys(origins))}
        low = (1 << parts) - 1
        sources = tuple(
            Source(number[origin], slot >> parts, slot & low)
            for slot, origin in zip(slots, origins, strict=True)
        )
        return tuple(Message(*split(origin)) for origin in number), sources

    def moves(self, candidate: Candidate, fragment: Fragment) -> tuple[int, int]:
        """Estimate the moves from messages' results to operands, as (separating, gathering) moves.

        No moves are needed if each operand is a run of a result's elements.  One move per element
        gathers scattered elements, and one per layout register unpacks elements.  (Measured with
        IGC 2.40: a transposed fp16 A of 16x32 takes 32 moves from two 16-row loads.  From one
        32-row load it takes 16 more, to gather the halves of registers.)
        """
        registers = 1 << len(self.register_bases)
        bits = fragment.registers.bit_length() - 1
        parts = fragment.packed.bit_length() - 1
        inside = candidate.slots[: candidate.sub_bits]
        wanted = self.register_bases[:bits]
        rest = tuple(base for base in wanted if base not in inside)
        elements = candidate.slots[candidate.sub_bits :]
        scattered = 0 if elements[: len(rest)] == rest else registers >> candidate.sub_bits
        if candidate.sub_bits == parts and inside == wanted[:parts]:
            return 0, scattered
        return registers, scattered


def union(vectors: Iterable[int]) -> int:
    """Bitwise or of the vectors."""
    result = 0
    for vector in vectors:
        result |= vector
    return result


def _is_unit(vector: int) -> bool:
    return not vector & (vector - 1)


def _reduced_basis(bases: Sequence[int]) -> list[int]:
    """Basis of the same span in reduced echelon form, without zeros."""
    rows: list[int] = []
    for base in bases:
        for row in rows:
            base = min(base, base ^ row)
        if not base:
            continue
        top = 1 << (base.bit_length() - 1)
        rows = [row ^ base if row & top else row for row in rows]
        rows.append(base)
    return rows


def _limit_fragment(fragment: Fragment, register_bits: int) -> Fragment:
    """Reduce the fragment to the size of the layout."""
    registers = min(fragment.registers, 1 << register_bits)
    return Fragment(registers, min(fragment.packed, registers), fragment.outer_dim)


def _best(
    tile: MemoryTile,
    same_lanes: Sequence[Candidate],
    fragment: Fragment,
    objective: Objective,
) -> Candidate | None:
    """The fitting candidate of least cost; None if none fits."""
    fitting = [c for c in same_lanes if tile.fits(c)]
    if not fitting:
        return None
    most = max(c.mask.bit_count() for c in fitting)
    if objective is not Objective.INSTRUCTIONS:
        fitting = [c for c in fitting if c.mask.bit_count() == most]

    def cost(candidate: Candidate) -> tuple[int, ...]:
        messages = tile.message_count(candidate)
        separating, scattered = tile.moves(candidate, fragment)
        total = messages
        if objective is Objective.INSTRUCTIONS:
            total += separating + scattered
        blocks = candidate.shape.blocks
        by_rows = blocks if objective is Objective.ROWS else 0
        return total, messages, separating, by_rows, candidate.register_bits, scattered, blocks

    return min(fitting, key=cost)


def _fragments(
    sources: tuple[Source, ...], fragment: Fragment, parts: int
) -> tuple[FragmentSource, ...]:
    size = fragment.registers
    return tuple(
        _fragment(first, sources[first : first + size], parts)
        for first in range(0, len(sources), size)
    )


def _fragment(first: int, sources: tuple[Source, ...], parts: int) -> FragmentSource:
    """Describe an operand by elements of one message, or without a message if it has several."""
    message = sources[0].message
    if len(sources) == parts == 1:
        return FragmentSource(first, 1, message, (sources[0].element,), (sources[0].sub,))
    elements = tuple(dict.fromkeys(source.element for source in sources))
    one_message = all(source.message == message for source in sources)
    if not one_message or len(elements) * parts != len(sources):
        return FragmentSource(first, len(sources), None)
    at = {element: i * parts for i, element in enumerate(elements)}
    order = tuple(at[source.element] + source.sub for source in sources)
    return FragmentSource(first, len(sources), message, elements, order)


def _no_candidate(tile: MemoryTile, operation: str, element_bits: int, target: Target) -> Refusal:
    lanes = ", ".join(str(split(base)) for base in tile.lane_bases)
    if operation == "store":
        remedy = "a store needs the lanes of a subgroup along the rows of memory"
    else:
        remedy = (
            "lanes must run along a row of memory, or down a column with a register for each "
            f"of the {max(1, 32 // element_bits)} elements of a 32-bit word"
        )
    return Refusal(
        f"no {element_bits}-bit 2D block {operation} of {target.name} brings lanes to "
        f"(x, y) = {lanes} with the registers of this layout",
        remedy,
    )
