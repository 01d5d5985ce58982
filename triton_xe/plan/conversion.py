"""Cost of a layout conversion: none, renamed registers, selects, shuffles, or shared memory (SLM).

>>> from triton_xe.hardware.target import target
>>> from triton_xe.layout import BlockedEncoding, to_linear_layout
>>> rows = BlockedEncoding((1, 16), (16, 1), (1, 1), (1, 0))
>>> columns = BlockedEncoding((16, 1), (1, 16), (1, 1), (0, 1))
>>> plan = plan_conversion(
...     to_linear_layout(rows, (16, 16)), to_linear_layout(columns, (16, 16)), 32, target("bmg"))
>>> print(plan.kind.value, plan.n_shuffles, plan.n_selects)
lane shuffles and selects 16 128
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from triton_xe.errors import LayoutError
from triton_xe.hardware.target import Target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.lane_shuffles import LaneShuffle, find_route, plan_lane_shuffle
from triton_xe.plan.shared_swizzle import SharedTrip, plan_shared_trip
from triton_xe.plan.turns import Turns, split


class ConversionKind(Enum):
    NOTHING = "nothing"
    PERMUTE = "register permutation"
    SELECT = "selects"
    SHUFFLE = "lane shuffles"
    SHUFFLE_SELECT = "lane shuffles and selects"
    SHARED = "through shared memory"


# Rough costs in instructions per warp, to choose between shuffling and shared memory.  An indexed
# shuffle is an address computation and indirect moves; a xor shuffle is moves with a region.  A
# broadcast from a fixed lane is at most one move.  The trip through shared memory waits for two
# barriers and the latency of the loads.
_INDEXED_SHUFFLE, _XOR_SHUFFLE, _BROADCAST, _SELECT = 4, 2, 1, 1
_MESSAGE, _WAIT = 4, 150


@dataclass(frozen=True)
class Conversion:
    """A way from one register layout to another.

    Exactly one of `lanes` (inside a warp) and `shared` (through shared memory) is set.  With
    `turns`, `shared` is the trip of one turn.  `n_shuffles` counts moves of 32 bits, `n_selects`
    selects of one element, `n_stores` and `n_loads` messages per lane.
    """

    kind: ConversionKind
    reason: str
    element_bits: int
    lanes: LaneShuffle | None = None
    shared: SharedTrip | None = None
    turns: Turns | None = None

    def __post_init__(self) -> None:
        if (self.lanes is None) == (self.shared is None):
            raise LayoutError("a conversion is either inside the warp or through shared memory")

    @property
    def n_shuffles(self) -> int:
        per_element = max(1, self.element_bits // 32)
        return self.lanes.n_shuffles * per_element if self.lanes else 0

    @property
    def n_selects(self) -> int:
        return self.lanes.n_selects if self.lanes else 0

    @property
    def n_turns(self) -> int:
        return self.turns.count if self.turns else 1

    @property
    def n_stores(self) -> int:
        return self.n_turns * len(self.shared.store.groups) if self.shared else 0

    @property
    def n_loads(self) -> int:
        return self.n_turns * len(self.shared.load.groups) if self.shared else 0

    @property
    def n_barriers(self) -> int:
        """Two barriers per turn: one before the loads, one before the memory is reused."""
        return 2 * self.n_turns if self.shared else 0

    @property
    def slm_bytes(self) -> int:
        return self.shared.bytes if self.shared else 0


@lru_cache(maxsize=256)
def plan_conversion(
    source: LinearLayout, result: LinearLayout, element_bits: int, target: Target
) -> Conversion:
    """Find the cheapest exact way from `source` to `result`.

    Both are register layouts of the same tensor in the same kernel.  `element_bits` is 1 (stored as
    bytes in shared memory), 8, 16, 32 or 64.  Raise `LayoutError` if the layouts have different
    tensors or slots.
    """
    if element_bits not in (1, 8, 16, 32, 64):
        raise LayoutError(f"elements have 1, 8, 16, 32 or 64 bits, not {element_bits}")
    route = find_route(source, result)
    if route is None:
        why = "an element's new warp differs from its old one"
        return _plan_through_shared(source, result, element_bits, target, why)
    inside = _inside_warp(plan_lane_shuffle(route), element_bits)
    if not inside.n_shuffles:
        return inside
    shared = plan_shared_trip(source, result, max(8, element_bits))
    cost, other = _shuffle_cost(inside), _shared_cost(shared)
    if cost <= other or shared.bytes > target.max_slm_bytes:
        return inside
    why = f"{inside.kind.value} would cost about {cost} instructions, this about {other}"
    return _plan_through_shared(source, result, element_bits, target, why)


def is_through_shared(
    source: LinearLayout, result: LinearLayout, element_bits: int, target: Target
) -> bool:
    """True if `plan_conversion` takes the way through shared memory."""
    if find_route(source, result) is None:
        return True
    return plan_conversion(source, result, element_bits, target).shared is not None


def _inside_warp(shuffle: LaneShuffle, element_bits: int) -> Conversion:
    if shuffle.is_identity:
        kind, why = ConversionKind.NOTHING, "every element already is where it is wanted"
    elif shuffle.stays_in_lane and not shuffle.n_selects:
        kind, why = ConversionKind.PERMUTE, "every element stays in its lane"
    elif shuffle.stays_in_lane:
        kind, why = ConversionKind.SELECT, "the register to take depends on the lane"
    elif not shuffle.n_selects:
        kind, why = ConversionKind.SHUFFLE, "elements change lanes, not warps"
    else:
        kind = ConversionKind.SHUFFLE_SELECT
        why = "elements change lanes, and which register to take depends on the lane"
    return Conversion(kind, why, element_bits, lanes=shuffle)


def _plan_through_shared(
    source: LinearLayout, result: LinearLayout, element_bits: int, target: Target, why: str
) -> Conversion:
    if source.in_dims["block"] > 1:
        raise LayoutError(
            "a conversion through shared memory is for one block, these layouts have "
            f"{source.in_dims['block']}"
        )
    trip = plan_shared_trip(source, result, max(8, element_bits))
    n_turns = -(-trip.bytes // target.max_slm_bytes)
    if n_turns == 1:
        return Conversion(ConversionKind.SHARED, why, element_bits, shared=trip)
    turns = split(source, result, (n_turns - 1).bit_length())
    trip = plan_shared_trip(turns.source, turns.result, max(8, element_bits))
    return Conversion(ConversionKind.SHARED, why, element_bits, shared=trip, turns=turns)


def _shuffle_cost(conversion: Conversion) -> int:
    assert conversion.lanes is not None
    each = _XOR_SHUFFLE if conversion.lanes.is_xor else _INDEXED_SHUFFLE
    each = _BROADCAST if conversion.lanes.is_broadcast else each
    return each * conversion.n_shuffles + _SELECT * conversion.n_selects


def _shared_cost(trip: SharedTrip) -> int:
    messages = len(trip.store.groups) * trip.store.conflicts
    messages += len(trip.load.groups) * trip.load.conflicts
    return _WAIT + _MESSAGE * messages
