"""A conversion through shared local memory (SLM), with wide accesses and without bank conflicts.

The tensor is written with one layout and read with another.  The memory order is a basis of the
tensor's index bits (as in the paper "Linear Layouts", arXiv:2505.23819, section on swizzling),
lowest address bits first:

  1. vectors: bits that a lane has in registers on both sides, up to 16 bytes;
  2. banks: bits that the lanes differ in.  If the two sides' lanes differ in different bits s
     and l, the bank bit is s and the bit s ^ l is a row bit, so that both s and l change the bank;
  3. the remaining bits, the rows.

Banks of shared local memory: `hardware.memory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triton_xe.hardware.memory import MAX_LANE_BYTES, SLM_BANK_BYTES, SLM_BANKS
from triton_xe.layout import f2
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan.lane_shuffles import check_slots, columns_by_dim


class Access(NamedTuple):
    """One side of the trip through SLM.

    `offsets` maps slots to elements in memory.  `groups` lists the registers of each message in
    memory order (the first gives the address).  `copies` are the registers in no message, each with
    the register of the same value.  `conflicts` is the factor by which bank conflicts lengthen a
    message.
    """

    offsets: LinearLayout
    groups: tuple[tuple[int, ...], ...]
    copies: tuple[tuple[int, int], ...]
    conflicts: int


class SharedTrip(NamedTuple):
    """Conversion through SLM: store, barrier, load.

    `order` maps memory elements to tensor indices, `vector` is the number of elements of a load.
    `copies` are the bits of lane and warp that hold copies when storing: only slots in which they
    are zero need to store.
    """

    order: LinearLayout
    vector: int
    store: Access
    load: Access
    bytes: int
    copies: dict[str, int]


def plan_shared_trip(source: LinearLayout, result: LinearLayout, element_bits: int) -> SharedTrip:
    """Find the memory order and messages that convert `source` to `result`.

    `element_bits` is 8, 16, 32 or 64.
    """
    check_slots(source, result)
    size = element_bits // 8
    have, want = columns_by_dim(source), columns_by_dim(result)
    vectors = _vectors(have, want, (MAX_LANE_BYTES // size).bit_length() - 1)
    basis = _memory_basis(vectors, have, want, source.out_bits, size)
    return _trip(source, result, basis, size, 1 << len(vectors), 1 << len(vectors))


def plan_plain_trip(
    source: LinearLayout, result: LinearLayout, element_bits: int
) -> SharedTrip:
    """Plan a trip without swizzling, so that the addresses of messages differ by constants alone.

    Elements that a lane reads in one message are adjacent in memory, so that reads are wide.
    Writes are wide if a lane has these elements on the other side too.  Both may have bank
    conflicts.
    """
    check_slots(source, result)
    size = element_bits // 8
    want = columns_by_dim(result)
    moving = [c for name in ("lane", "warp", "block") for c in want[name]]
    vectors: list[int] = []
    for column in want["register"]:
        filled = size << len(vectors) >= MAX_LANE_BYTES
        if filled or f2.Elimination([*moving, *vectors]).solve(column) is not None:
            break
        vectors.append(column)
    basis = [*vectors, *f2.extend(vectors, f2.unit_vectors(source.out_bits))]
    stored = _elements_per_message(source, basis, size)
    return _trip(source, result, basis, size, stored, 1 << len(vectors))


def plan_block_trip(
    source: LinearLayout, result: LinearLayout, element_bits: int, *, pairs: bool = False
) -> SharedTrip | None:
    """Plan a trip with memory in the order of the result's registers; None if writes are narrow.

    The elements of one register of all lanes are adjacent, and registers follow each other, so that
    a block read loads many registers at once.  With `pairs`, that holds for every two registers,
    whose elements of a lane share a dword.
    """
    check_slots(source, result)
    size, want = element_bits // 8, columns_by_dim(result)
    first = 1 if pairs else 0
    basis = [*want["register"][:first], *want["lane"], *want["register"][first:]]
    if f2.extend([], basis) != basis:
        return None
    basis += f2.extend(basis, f2.unit_vectors(source.out_bits))
    stored = _elements_per_message(source, basis, size)
    trip = _trip(source, result, basis, size, stored, 1)
    mine = (1 << len(want["lane"]) + len(want["register"])) - 1
    elsewhere = columns_by_dim(trip.load.offsets)
    apart = not any(c & mine for name in ("warp", "block") for c in elsewhere[name])
    return trip if apart and stored * size >= SLM_BANK_BYTES else None


def plan_rows_trip(
    source: LinearLayout, result: LinearLayout, element_bits: int, at_once: int, *,
    pairs: bool = False,
) -> SharedTrip | None:
    """`plan_block_trip` if block writes of `at_once` registers are possible too; otherwise None.

    They are possible if the lanes and the first registers have the same elements on both sides.
    """
    check_slots(source, result)
    have, want = columns_by_dim(source), columns_by_dim(result)
    alike, first = at_once.bit_length() - 1, 1 if pairs else 0
    basis = [*want["register"][:first], *want["lane"], *want["register"][first:]]
    if (have["lane"] != want["lane"] or have["register"][:alike] != want["register"][:alike]
            or len(want["register"]) < alike or f2.extend([], basis) != basis):
        return None
    basis += f2.extend(basis, f2.unit_vectors(source.out_bits))
    trip = _trip(source, result, basis, element_bits // 8, 1, 1)
    block = (1 << len(want["lane"]) + alike) - 1
    moved = [c for side in (trip.store, trip.load) for name, columns in columns_by_dim(
        side.offsets).items() for c in (columns[alike:] if name == "register" else columns)
        if name != "lane"]
    return None if any(c & block for c in moved) else trip


def _elements_per_message(source: LinearLayout, basis: list[int], size: int) -> int:
    """Number of elements, in memory in the order of `basis`, that a lane can write in one
    message.
    """
    stored = 1
    while (stored * size < MAX_LANE_BYTES and stored < 1 << source.out_bits
            and _in_registers(source, basis[: stored.bit_length()], basis)):
        stored *= 2
    return stored


def _in_registers(source: LinearLayout, first: list[int], basis: list[int]) -> bool:
    """True if register bits alone determine the first address bits, one register bit each."""
    flat = LinearLayout({"offset": [(b,) for b in basis]}, {"element": 1 << source.out_bits})
    columns = columns_by_dim(source.compose(flat.reshape_outs(source.out_dims).invert()))
    low = (1 << len(first)) - 1
    moved = [c & low for name in ("lane", "warp", "block") for c in columns[name]]
    return not any(moved) and {1 << i for i in range(len(first))} <= set(columns["register"])


def _trip(
    source: LinearLayout, result: LinearLayout, basis: list[int], size: int, stored: int,
    loaded: int,
) -> SharedTrip:
    """Trip through memory in the order of `basis`, in messages of `stored` and `loaded` elements of
    `size` bytes.
    """
    flat = LinearLayout({"offset": [(b,) for b in basis]}, {"element": 1 << source.out_bits})
    order = flat.reshape_outs(source.out_dims)
    masks = source.free_variable_masks()
    return SharedTrip(
        order, loaded, _access(source, order, stored, size), _access(result, order, loaded, size),
        size << source.out_bits, {name: masks[name] for name in ("lane", "warp")},
    )


def _vectors(
    have: dict[str, tuple[int, ...]], want: dict[str, tuple[int, ...]], limit: int
) -> list[int]:
    """Bits in registers on both sides, along which no lane or warp of either side moves."""
    moving = [c for side in (have, want) for n in ("lane", "warp", "block") for c in side[n]]
    chosen: list[int] = []
    for vector in f2.intersection(have["register"], want["register"]):
        if len(chosen) == limit:
            break
        if f2.Elimination([*moving, *chosen]).solve(vector) is None:
            chosen.append(vector)
    return chosen


def _memory_basis(
    vectors: list[int],
    have: dict[str, tuple[int, ...]],
    want: dict[str, tuple[int, ...]],
    n_bits: int,
    element_bytes: int,
) -> list[int]:
    """All index bits in memory order: vectors, rest of the first dword, banks, rows."""
    shared = f2.intersection(have["lane"], want["lane"])
    own = f2.extend(shared, have["lane"])
    other = f2.extend(shared, want["lane"])
    width = element_bytes << len(vectors)
    inside = max(0, (SLM_BANK_BYTES // width).bit_length() - 1)
    bank_bits = max(0, (SLM_BANKS * SLM_BANK_BYTES // max(width, SLM_BANK_BYTES)).bit_length() - 1)
    pairs = list(zip(own, other, strict=False))
    alone = [*own[len(pairs) :], *other[len(pairs) :]]
    moving = [c for side in (have, want) for n in ("warp", "block") for c in side[n]]
    lanes = [*shared, *own, *other]
    still = f2.extend([*vectors, *lanes], [*moving, *f2.unit_vectors(n_bits)])
    dword = [*shared[:inside], *still[: max(0, inside - len(shared))]]
    banks = [*shared[inside:], *(s for s, _ in pairs), *alone][:bank_bits]
    used = [*vectors, *dword, *banks]
    rows = [s ^ other for s, other in pairs] + lanes + still
    return [*used, *f2.extend(used, [*rows, *f2.unit_vectors(n_bits)])]


def _access(
    layout: LinearLayout, order: LinearLayout, vector: int, element_bytes: int
) -> Access:
    """Group the registers of one side into messages of `vector` elements."""
    offsets = layout.compose(order.invert())
    groups: dict[int, dict[int, int]] = {}
    copies: list[tuple[int, int]] = []
    columns = columns_by_dim(offsets)
    for register in range(offsets.in_dims["register"]):
        offset = f2.apply(columns["register"], register)
        first = groups.setdefault(offset // vector, {}).setdefault(offset % vector, register)
        if first != register:
            copies.append((register, first))
    messages = tuple(tuple(group[p] for p in range(vector)) for group in groups.values())
    conflicts = bank_conflicts(columns["lane"], vector, element_bytes)
    return Access(offsets, messages, tuple(copies), conflicts)


def bank_conflicts(lane_columns: Sequence[int], vector: int, element_bytes: int) -> int:
    """Factor by which bank conflicts lengthen one message; 1 without conflicts.

    Lanes that access the same dword are served together.
    """
    dwords: set[int] = set()
    for lane in range(1 << len(lane_columns)):
        start = f2.apply(lane_columns, lane) * element_bytes
        stop = start + vector * element_bytes
        dwords.update(range(start // SLM_BANK_BYTES, -(-stop // SLM_BANK_BYTES)))
    per_bank = [0] * SLM_BANKS
    for dword in dwords:
        per_bank[dword % SLM_BANKS] += 1
    return -(-max(per_bank) // -(-len(dwords) // SLM_BANKS))
