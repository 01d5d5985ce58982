"""Layout conversions: the plan, carried out in numpy, delivers every element."""

import random

import numpy as np
import pytest

from triton_xe.errors import LayoutError, LegalityError
from triton_xe.hardware.target import target
from triton_xe.layout import (
    BlockedEncoding,
    DotOperandEncoding,
    DpasEncoding,
    LinearLayout,
    SliceEncoding,
    to_linear_layout,
)
from triton_xe.plan.conversion import ConversionKind, plan_conversion
from triton_xe.plan.shared_swizzle import plan_block_trip, plan_plain_trip, plan_shared_trip
from triton_xe.plan.turns import split

BMG = target("bmg")


def slots(layout):
    """The element number in every (warp, lane, register)."""
    sizes = layout.in_dims
    warp, lane, register = np.meshgrid(
        *(np.arange(sizes[name]) for name in ("warp", "lane", "register")), indexing="ij"
    )
    index = {"register": register, "lane": lane, "warp": warp, "block": 0}
    return layout.flatten_outs().apply_numpy(index)[next(iter(layout.out_dims))]


def run_swaps(values, swaps):
    n_warps, n_lanes, n_registers = values.shape
    for swap in swaps:
        applies = np.array(
            [[swap.applies(lane, warp) for lane in range(n_lanes)] for warp in range(n_warps)]
        )
        other = values[:, :, np.arange(n_registers) ^ swap.registers]
        values = np.where(applies[:, :, None], other, values)
    return values


def run_shuffle(shuffle, values):
    """The recipe as a kernel does it: swaps, one shuffle per round (and choice), swaps."""
    values = run_swaps(values, shuffle.before)
    n_warps, n_lanes, _ = values.shape
    result = np.full((n_warps, n_lanes, len(shuffle.rounds)), -1)
    for step in shuffle.rounds:
        for warp in range(n_warps):
            for lane in range(n_lanes):
                source = step.source
                for choice in shuffle.choices:
                    source ^= choice.registers if choice.applies(lane, warp) else 0
                other = shuffle.source_lane(step, lane, warp)
                result[warp, lane, step.result] = values[warp, other, source]
    return run_swaps(result, shuffle.after)


def run_shared(trip, source, result):
    """Store in messages of neighbouring elements, load the same way."""
    values, memory = slots(source), {}
    for warp, lane in np.ndindex(values.shape[:2]):
        if lane & trip.copies["lane"] or warp & trip.copies["warp"]:
            continue
        for group in trip.store.groups:
            start = address(trip.store, group, lane, warp, len(group))
            for position, register in enumerate(group):
                memory[start + position] = values[warp, lane, register]
    loaded = np.full(slots(result).shape, -1)
    for warp, lane in np.ndindex(loaded.shape[:2]):
        for group in trip.load.groups:
            start = address(trip.load, group, lane, warp, len(group))
            for position, register in enumerate(group):
                loaded[warp, lane, register] = memory[start + position]
    for copy, original in trip.load.copies:
        loaded[:, :, copy] = loaded[:, :, original]
    return loaded


def address(access, group, lane, warp, vector):
    slot = {"register": group[0], "lane": lane, "warp": warp, "block": 0}
    start = access.offsets.apply(slot)["offset"]
    assert start % vector == 0
    return start


def check(source, result, bits=32):
    plan = plan_conversion(source, result, bits, BMG)
    if plan.lanes:
        found = run_shuffle(plan.lanes, slots(source))
    else:
        found = run_shared(plan.shared, source, result)
    np.testing.assert_array_equal(found, slots(result))
    return plan


def random_layout(rng, n_bits, n_lanes, n_warps, mixed=0):
    """All element bits and some copies dealt to lanes, warps and registers."""
    columns = [1 << bit for bit in rng.sample(range(n_bits), n_bits)]
    for _ in range(mixed):
        a, b = rng.sample(range(n_bits), 2)
        columns[a] ^= columns[b]
    columns += [0] * rng.choice((0, 0, 1, 2))
    columns += [0] * max(0, n_lanes + n_warps - len(columns))
    rng.shuffle(columns)
    bases = {
        "register": columns[n_lanes + n_warps :],
        "lane": columns[:n_lanes],
        "warp": columns[n_lanes : n_lanes + n_warps],
        "block": [],
    }
    flat = LinearLayout({k: [(c,) for c in v] for k, v in bases.items()}, {"dim0": 1 << n_bits})
    return flat


@pytest.mark.covering
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_warps", [0, 2])
def test_random_conversions_are_exact(seed, n_warps):
    print(f"seed {seed}")
    rng = random.Random(seed)
    kinds = set()
    for _ in range(25):
        n_bits = rng.randint(3, 8)
        mixed = rng.choice((0, 0, 4))
        pair = [random_layout(rng, n_bits, 3, n_warps, mixed) for _ in range(2)]
        kinds.add(check(*pair, rng.choice((8, 16, 32, 64))).kind)
    assert ConversionKind.SHARED in kinds or n_warps == 0


@pytest.mark.parametrize("seed", range(8))
def test_random_conversions_inside_a_warp_are_exact(seed):
    """Warps keep their part; lanes and registers are anything, also depending on the warp."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(25):
        inner = [random_layout(rng, rng.randint(3, 6), 3, 0, 3) for _ in range(2)]
        if inner[0].out_dims != inner[1].out_dims:
            continue
        warps = LinearLayout.identity1d(4, "warp", "dim0")
        pair = [(part * warps) for part in inner]
        pair[1] = blur(rng, pair[1], inner[1].out_bits)
        plan = check(*pair)
        assert plan.lanes or plan.n_shuffles == 0


def blur(rng, layout, low_bits):
    """Let the warp move data inside the warp as well."""
    bases = {name: list(vectors) for name, vectors in layout.bases.items()}
    bases["warp"] = [(v[0] ^ rng.randrange(1 << low_bits),) for v in bases["warp"]]
    return LinearLayout(bases, layout.out_dims)


def blocked(registers, lanes, warps=(1, 1), order=(1, 0)):
    return BlockedEncoding(registers, lanes, warps, order)


def layouts(*encodings, shape):
    return [to_linear_layout(encoding, shape) for encoding in encodings]


DPAS = DpasEncoding(8, 8, 16, 2, 16, (4, 2), (2, 2))


@pytest.mark.parametrize(
    ("source", "result", "shape", "kind", "shuffles"),
    [
        (blocked((1, 4), (2, 8)), blocked((1, 4), (2, 8)), (16, 32), "NOTHING", 0),
        (blocked((2, 2), (2, 8)), blocked((2, 2), (2, 8), order=(1, 0)), (8, 32), "NOTHING", 0),
        (blocked((2, 2), (1, 16), order=(0, 1)), blocked((2, 2), (1, 16)), (2, 32), "PERMUTE", 0),
        (
            blocked((1, 16), (16, 1)),
            blocked((16, 1), (1, 16), order=(0, 1)),
            (16, 16),
            "SHUFFLE_SELECT",
            16,
        ),
        (blocked((1, 1), (4, 4)), blocked((1, 1), (4, 4), order=(0, 1)), (4, 4), "SHUFFLE", 1),
        (blocked((1, 4), (2, 8), (4, 2)), DPAS, (64, 64), "SHARED", 0),
        (DPAS, DotOperandEncoding(0, DPAS), (64, 64), "SHARED", 0),
        (
            DPAS,
            DotOperandEncoding(0, DpasEncoding(8, 8, 16, 2, 16, (8, 1), (2, 2))),
            (128, 32),
            "SHARED",
            0,
        ),
        (
            DpasEncoding(8, 8, 16, 2, 16, (8, 1), (1, 2)),
            DotOperandEncoding(0, DpasEncoding(8, 8, 16, 2, 16, (8, 1), (1, 2))),
            (64, 32),
            "NOTHING",
            0,
        ),
    ],
)
def test_known_conversions(source, result, shape, kind, shuffles):
    plan = check(*layouts(source, result, shape=shape))
    assert (plan.kind.name, plan.n_shuffles) == (kind, shuffles)
    assert plan.reason


def test_a_reduced_dim_comes_back_by_shuffles_inside_the_warp():
    """The row maximum of a DPAS result, one per lane row, to the layout along the lanes."""
    dpas = DpasEncoding(8, 8, 16, 2, 16, (4, 1), (1, 1))
    rows = SliceEncoding(1, dpas)
    per_lane = BlockedEncoding((1,), (16,), (4,), (0,))
    source, result = layouts(rows, per_lane, shape=(32,))
    assert plan_conversion(source, result, 32, BMG).shared is not None
    check(source, result)
    check(result, source)


@pytest.mark.covering
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("seed", range(4))
def test_shared_memory_is_free_of_bank_conflicts(seed, bits):
    """Transposes of tensors big enough to fill the banks, with and without wide registers."""
    print(f"seed {seed}")
    rng = random.Random(seed * 100 + bits)
    for _ in range(30):
        rows = tuple(1 << b for b in rng.sample(range(0, 3), 2))
        lanes = rng.choice(((1, 16), (2, 8), (4, 4), (8, 2), (16, 1)))
        first = blocked(rows, lanes, (2, 2), rng.choice(((0, 1), (1, 0))))
        lanes = rng.choice(((1, 16), (2, 8), (4, 4), (8, 2), (16, 1)))
        second = blocked(rows[::-1], lanes, (2, 2), rng.choice(((0, 1), (1, 0))))
        source, result = layouts(first, second, shape=(128, 128))
        trip = plan_shared_trip(source, result, bits)
        assert (trip.store.conflicts, trip.load.conflicts) == (1, 1), f"{first} -> {second}"


def test_plain_trips_deliver_and_read_wide():
    rng = random.Random(5)
    for _ in range(40):
        source, result = (random_layout(rng, 9, 4, 2) for _ in range(2))
        trip = plan_plain_trip(source, result, rng.choice((8, 16, 32, 64)))
        np.testing.assert_array_equal(run_shared(trip, source, result), slots(result))
    operand = DotOperandEncoding(1, DPAS)
    source, result = layouts(blocked((1, 8), (2, 8), (4, 2)), operand, shape=(64, 64))
    trip = plan_plain_trip(source, result, 16)
    assert trip.vector == 8
    assert len(trip.load.groups) == result.in_dims["register"] // 8
    # addresses are sums: no bit of a register's part is one that lanes or warps move
    columns = trip.load.offsets.flatten_outs().bases
    moved = 0
    for name in ("lane", "warp"):
        for (column,) in columns[name]:
            moved |= column
    assert not any(column & moved for (column,) in columns["register"])


def test_plain_trips_write_wide_what_lanes_hold_in_a_row():
    operand = DotOperandEncoding(1, DPAS)
    source, result = layouts(blocked((8, 1), (8, 2), (2, 4), (0, 1)), operand, shape=(64, 64))
    trip = plan_plain_trip(source, result, 16)
    assert {len(group) for group in trip.store.groups} == {8}
    np.testing.assert_array_equal(run_shared(trip, source, result), slots(result))


def test_plain_trips_of_few_elements():
    source, result = (LinearLayout({"register": bases, "lane": [], "warp": [], "block": []},
                                   {"dim0": 4}) for bases in ([(1,), (2,)], [(2,), (1,)]))
    trip = plan_plain_trip(source, result, 8)
    assert [len(group) for group in trip.store.groups] == [4]


def test_block_trips_put_registers_in_a_row_and_write_wide():
    operand = DotOperandEncoding(0, DpasEncoding(8, 8, 16, 2, 16, (1, 4), (8, 2)), 1)
    source, result = layouts(blocked((1, 8), (4, 4), (4, 1)), operand, shape=(64, 32))
    trip = plan_block_trip(source, result, 16)
    np.testing.assert_array_equal(run_shared(trip, source, result), slots(result))
    assert {len(group) for group in trip.store.groups} == {8}
    columns = trip.load.offsets.flatten_outs().bases
    assert [c for (c,) in columns["lane"]] == [1, 2, 4, 8]
    assert [c for (c,) in columns["register"]] == [
        16 << i for i in range(len(columns["register"]))]
    narrow, _ = layouts(blocked((8, 1), (4, 4), (1, 4)), operand, shape=(64, 32))
    assert plan_block_trip(narrow, result, 16) is None  # writes of single elements
    rng = random.Random(8)
    for _ in range(40):
        source, result = (random_layout(rng, 9, 4, 2) for _ in range(2))
        trip = plan_block_trip(source, result, rng.choice((16, 32)))
        if trip is not None:
            np.testing.assert_array_equal(run_shared(trip, source, result), slots(result))
            columns = trip.load.offsets.flatten_outs().bases
            assert not any(c & 127 for (c,) in columns["warp"])  # sums with those of registers


def test_block_trips_of_pairs_put_two_registers_in_each_word():
    operand = DotOperandEncoding(1, DPAS)
    source, result = layouts(blocked((2, 8), (2, 8), (4, 2)), operand, shape=(64, 64))
    trip = plan_block_trip(source, result, 16, pairs=True)
    np.testing.assert_array_equal(run_shared(trip, source, result), slots(result))
    assert {len(group) for group in trip.store.groups} == {8}
    columns = trip.load.offsets.flatten_outs().bases
    assert [c for (c,) in columns["lane"]] == [2, 4, 8, 16]
    assert columns["register"][:2] == ((1,), (32,))


def test_wide_messages_where_registers_allow():
    source, result = layouts(
        blocked((1, 8), (2, 8), (4, 1)), blocked((1, 8), (16, 1), (1, 4)), shape=(64, 64)
    )
    trip = plan_shared_trip(source, result, 16)
    assert trip.vector == 8
    assert len(trip.store.groups) == source.in_dims["register"] // 8


def test_layouts_of_different_kernels_are_refused():
    pair = layouts(blocked((1, 1), (2, 8)), blocked((1, 1), (2, 8), (2, 1)), shape=(16, 16))
    with pytest.raises(LayoutError, match="1 and 2 warps"):
        plan_conversion(*pair, 32, BMG)


def run_turns(plan, source, result):
    """The registers of each turn through shared memory; lanes keep what is for them."""
    turns, whole = plan.turns, slots(source)
    out = np.full(slots(result).shape, -1)
    warp, lane, register = np.indices(out.shape)
    for turn in range(turns.count):
        order = [turns.register(turn, r) for r in range(whole.shape[2] // turns.count)]
        elements, kept = slots(turns.source), whole[:, :, order]
        back = dict(zip(elements.ravel().tolist(), kept.ravel().tolist(), strict=True))
        found = run_shared(plan.shared, turns.source, turns.result)
        mine = np.ones(out.shape, bool)
        for i, w in enumerate(turns.where):
            odd = sum(np.bitwise_count(n & m) for n, m in (
                (register, w.registers), (lane, w.lanes), (warp, w.warps))) & 1
            mine &= odd == turn >> i & 1
        out[mine] = np.vectorize(back.get)(found)[mine]
    return out


@pytest.mark.covering
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("second", [
    blocked((1, 4), (2, 8), (1, 8)),
    blocked((1, 4), (2, 8), (4, 2)),
    blocked((16, 1), (1, 16), (1, 8)),
])
def test_what_shared_memory_does_not_hold_at_once_goes_in_turns(second, bits):
    source, result = layouts(blocked((1, 4), (2, 8), (8, 1)), second, shape=(256, 256))
    plan = plan_conversion(source, result, bits, BMG)
    assert (plan.n_turns, plan.slm_bytes) == (bits // 16, 128 * 1024)
    np.testing.assert_array_equal(run_turns(plan, source, result), slots(result))


def test_more_turns_than_registers_are_refused():
    pair = layouts(blocked((1, 1), (2, 8)), blocked((1, 1), (16, 1)), shape=(16, 16))
    with pytest.raises(LegalityError, match=r"32 turns .* lanes hold 16 elements"):
        split(*pair, 5)


def test_blocks_are_refused():
    split = BlockedEncoding((1, 1), (2, 8), (1, 1), (1, 0), ((1, 0),))
    other = BlockedEncoding((1, 1), (2, 8), (1, 1), (1, 0), ((0, 1),))
    pair = layouts(split, other, shape=(16, 16))
    with pytest.raises(LayoutError, match="these layouts have 2"):
        plan_conversion(*pair, 32, BMG)
