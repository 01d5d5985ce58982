"""Move data between the lanes and registers of a warp, exactly and with few shuffles.

Given two layouts, each slot (register r, lane l) of warp w of the result reads some slot of the
source.  Both numbers are linear:

    register = Rr r ^ Rl l ^ Rw w          lane = Lr r ^ Ll l ^ Lw w

A shuffle moves one register per lane, and each lane chooses the lane that it reads.  The steps are:

  1. Lanes permute their registers, so that one shuffle finds the right one under one number in
     every lane: register q of lane s becomes the old register q ^ A s ^ C w.
  2. Round j: each lane takes register P j of lane N l ^ Lr j ^ Lw w.  (If copies leave no other
     way, it takes register P j ^ B l, at the cost of one shuffle per possibility, and selects.)
     Lane l fetches the value of its register j ^ Q l.  Q is chosen such that in a round all lanes
     read different lanes.
  3. Lanes permute registers again: register r becomes r ^ Q l.

A transpose of 16 registers and 16 lanes therefore takes 16 shuffles instead of 256.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from triton_xe.errors import LayoutError
from triton_xe.layout import f2
from triton_xe.layout.linear_layout import LinearLayout

Columns = tuple[int, ...]
SLOT_DIMS = ("register", "lane", "warp", "block")


class Route(NamedTuple):
    """Slot of the source that each slot of the result reads: columns per bit of register, lane and
    warp.
    """

    register_of_register: Columns
    register_of_lane: Columns
    register_of_warp: Columns
    lane_of_register: Columns
    lane_of_lane: Columns
    lane_of_warp: Columns
    source_registers: int
    """Number of registers of the source."""


class Swap(NamedTuple):
    """Registers q and q ^ `registers` are exchanged in the lanes whose condition is odd.

    The condition of lane l in warp w is the number of ones in l & `lanes` plus those in
    w & `warps`.  A swap costs one select per register.
    """

    registers: int
    lanes: int
    warps: int

    def applies(self, lane: int, warp: int) -> bool:
        return bool(((lane & self.lanes).bit_count() + (warp & self.warps).bit_count()) & 1)


class Round(NamedTuple):
    """Register `result` in lane l is register `source` of lane (lane map of l) ^ `lane_xor`.

    With `choices`, the source register also depends on the lane: it is xored with the
    `registers` of each choice that applies.
    """

    result: int
    source: int
    lane_xor: int


class LaneShuffle(NamedTuple):
    """The three steps of this module's header; rounds with the same source are done once.

    `lane_columns` and `warp_columns` are N and Lw.  `source_registers` registers go in,
    `len(rounds)` come out.
    """

    source_registers: int
    before: tuple[Swap, ...]
    rounds: tuple[Round, ...]
    choices: tuple[Swap, ...]
    after: tuple[Swap, ...]
    lane_columns: Columns
    warp_columns: Columns

    def source_lane(self, round: Round, lane: int, warp: int) -> int:
        """Lane that `lane` of `warp` reads."""
        by_lane = f2.apply(self.lane_columns, lane)
        return by_lane ^ f2.apply(self.warp_columns, warp) ^ round.lane_xor

    @property
    def stays_in_lane(self) -> bool:
        """True if no data crosses lanes: the rounds only rename registers."""
        own = all(column == 1 << bit for bit, column in enumerate(self.lane_columns))
        return own and not any(self.warp_columns) and not any(r.lane_xor for r in self.rounds)

    @property
    def is_xor(self) -> bool:
        """True if each round reads lane l ^ constant, which needs no index register."""
        own = all(column == 1 << bit for bit, column in enumerate(self.lane_columns))
        return own and not any(self.warp_columns)

    @property
    def is_broadcast(self) -> bool:
        """True if each round gives all lanes the value of one fixed lane."""
        return not any(self.lane_columns) and not any(self.warp_columns)

    @property
    def n_shuffles(self) -> int:
        """Shuffles of one element; 0 if no data crosses lanes."""
        if self.stays_in_lane:
            return 0
        return len({(r.source, r.lane_xor) for r in self.rounds}) << len(self.choices)

    @property
    def n_selects(self) -> int:
        per_round = (1 << len(self.choices)) - 1
        swaps = self.source_registers * len(self.before) + len(self.rounds) * len(self.after)
        return swaps + per_round * len({(r.source, r.lane_xor) for r in self.rounds})

    @property
    def is_identity(self) -> bool:
        plain = self.stays_in_lane and not (self.before or self.choices or self.after)
        return plain and self.is_rename and all(r.source == r.result for r in self.rounds)

    @property
    def is_rename(self) -> bool:
        return len(self.rounds) == self.source_registers


@lru_cache(maxsize=256)
def find_route(source: LinearLayout, result: LinearLayout) -> Route | None:
    """Find the slots from which each warp reads `result` out of `source`; None if data crosses
    warps.

    Both have the in-dims register, lane, warp, block and equal out-dims.  Of several copies the one
    in the own lane is read, otherwise the one in the lowest registers and lanes.  Raise
    `LayoutError` if the numbers of lanes or warps differ, or if data crosses blocks.
    """
    check_slots(source, result)
    have, want = columns_by_dim(source), columns_by_dim(result)
    registers = f2.Elimination(have["register"])
    both = f2.Elimination([*have["register"], *have["lane"]])
    n_registers = len(have["register"])
    found: dict[str, list[tuple[int, int]]] = {}
    same_for_all = not any(want["lane"]) and any(have["lane"])
    for dim in SLOT_DIMS:
        found[dim] = []
        for bit, target in enumerate(want[dim]):
            if dim == "lane" and same_for_all:
                found[dim].append((0, 0))
                continue
            own = have[dim][bit] if dim != "register" else 0
            slot = _slot(registers, both, n_registers, target, own, bit if dim == "lane" else -1)
            if slot is None:
                return None
            found[dim].append(slot)
    if any(slot != (0, 0) for slot in found["block"]):
        raise LayoutError("this conversion depends on the block, but kernels run one block each")
    register = {dim: tuple(slot[0] for slot in found[dim]) for dim in SLOT_DIMS}
    lane = {dim: tuple(slot[1] for slot in found[dim]) for dim in SLOT_DIMS}
    return Route(
        register["register"],
        register["lane"],
        register["warp"],
        lane["register"],
        lane["lane"],
        lane["warp"],
        source_registers=1 << n_registers,
    )


def _slot(
    registers: f2.Elimination,
    both: f2.Elimination,
    n_registers: int,
    target: int,
    own: int,
    lane_bit: int,
) -> tuple[int, int] | None:
    """The (register, lane) of `target`, relative to the data of the own lane or warp."""
    near = registers.solve(target ^ own)
    if near is not None:
        return near, (1 << lane_bit if lane_bit >= 0 else 0)
    anywhere = both.solve(target if lane_bit >= 0 else target ^ own)
    if anywhere is None:
        return None
    return anywhere & ((1 << n_registers) - 1), anywhere >> n_registers


def check_slots(source: LinearLayout, result: LinearLayout) -> None:
    """Raise `LayoutError` unless the two layouts have the same tensor and number of slots."""
    for layout in (source, result):
        if tuple(layout.in_dims) != SLOT_DIMS:
            raise LayoutError(f"a register layout has the in dims {SLOT_DIMS}, got:\n{layout}")
    if source.out_dims != result.out_dims:
        raise LayoutError(f"cannot convert {source.out_dims} to {result.out_dims}")
    for dim in SLOT_DIMS[1:]:
        if source.in_dims[dim] != result.in_dims[dim]:
            raise LayoutError(
                f"cannot convert between {source.in_dims[dim]} and {result.in_dims[dim]} "
                f"{dim}s: both layouts must belong to the same kernel"
            )


def columns_by_dim(layout: LinearLayout) -> dict[str, Columns]:
    """The flat columns of each in-dim."""
    flat = layout.flatten_outs()
    return {name: tuple(basis[0] for basis in bases) for name, bases in flat.bases.items()}


def independent_registers(layout: LinearLayout) -> list[tuple[int, ...]]:
    """Register bases that do not depend on earlier ones."""
    if not layout.out_dims:
        return []
    spanned: list[int] = []
    found = []
    flat = columns_by_dim(layout)["register"]
    for column, basis in zip(flat, layout.bases["register"], strict=True):
        if f2.rank([*spanned, column]) > len(spanned):
            spanned.append(column)
            found.append(basis)
    return found


def plan_lane_shuffle(route: Route) -> LaneShuffle:
    """Find the cheapest shuffles of the form described in the module's header."""
    steps, lane_columns = _spread(route)
    along = [f2.apply(route.register_of_register, q) for q in steps]
    wanted = [a ^ b for a, b in zip(route.register_of_lane, along, strict=True)]
    n_lanes = len(lane_columns)
    inverse = f2.Elimination(lane_columns).generalized_inverse(n_lanes)
    by_source_lane = [f2.apply(wanted, column) for column in inverse]
    left = [
        value ^ f2.apply(by_source_lane, column)
        for value, column in zip(wanted, lane_columns, strict=True)
    ]
    by_warp = [
        f2.apply(by_source_lane, lane) ^ register
        for lane, register in zip(route.lane_of_warp, route.register_of_warp, strict=True)
    ]
    picks = [
        f2.apply(by_source_lane, lane) ^ register
        for lane, register in zip(route.lane_of_register, route.register_of_register, strict=True)
    ]
    rounds = tuple(
        Round(j, f2.apply(picks, j), f2.apply(route.lane_of_register, j))
        for j in range(1 << len(picks))
    )
    return LaneShuffle(
        route.source_registers,
        tuple(_swaps(by_source_lane, by_warp)),
        rounds,
        tuple(_swaps(left, ())),
        tuple(_swaps(steps, ())),
        tuple(lane_columns),
        route.lane_of_warp,
    )


def _spread(route: Route) -> tuple[list[int], list[int]]:
    """Q and N: the register that each lane asks for in a round, so that lanes ask different lanes.

    Lane bits that read a lane which other bits reach as well iterate over the registers instead.
    """
    steps = [0] * len(route.lane_of_lane)
    lane_columns = list(route.lane_of_lane)
    if not any(lane_columns) and not any(route.register_of_lane):
        return steps, lane_columns  # a broadcast: one lane's register is an operand by itself
    for bit in range(len(lane_columns)):
        if not f2.Elimination(lane_columns).free >> bit & 1:
            continue
        for register, lane in enumerate(route.lane_of_register):
            tried = [*lane_columns]
            tried[bit] ^= lane
            if f2.rank(tried) > f2.rank(lane_columns):
                steps[bit], lane_columns = 1 << register, tried
                break
    return steps, lane_columns


def _swaps(by_lane: Sequence[int], by_warp: Sequence[int]) -> Iterator[Swap]:
    """The map q -> q ^ by_lane l ^ by_warp w as one swap per independent vector."""
    vectors = [*by_lane, *by_warp]
    elimination = f2.Elimination(vectors)
    coordinates = [elimination.solve(vector) or 0 for vector in vectors]
    for pivot, vector in enumerate(vectors):
        if elimination.free >> pivot & 1:
            continue
        where = sum(1 << i for i, c in enumerate(coordinates) if c >> pivot & 1)
        yield Swap(vector, where & ((1 << len(by_lane)) - 1), where >> len(by_lane))
