"""Plans of random layouts, surfaces and targets against the brute-force model.

The seed of each sequence is printed, and a failure names its case and layout.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

from triton_xe.hardware.block_2d import (
    BlockShape,
    check_load,
    check_store,
    check_surface,
    result_bits,
)
from triton_xe.hardware.dpas import Fragment
from triton_xe.hardware.target import target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan import (
    BlockLoadPlan,
    BlockPlan,
    BlockStorePlan,
    GatherPlan,
    Objective,
    Refusal,
    SurfaceFacts,
    plan_block_load,
    plan_block_store,
    plan_gather,
)

SEED = 20260814
CASES = 300
TARGETS = ("pvc", "bmg", "lnl", "ptl")
Vector = tuple[int, int]


def random_layout(rng: random.Random, bits: int) -> tuple[LinearLayout, int]:
    """A layout whose lanes some message may serve, and the contiguous dimension.

    Lanes are four neighbouring coordinate bits of a random order of the low bits; registers,
    copies and warps share the rest in random order, now and then mixed with each other.
    """
    wide, high = rng.randint(3, 6), rng.randint(3, 6)
    x = [(0, 1 << i) for i in range(wide)]
    y = [(1 << i, 0) for i in range(high)]
    packed = rng.choice([0, 0, 1, 2])
    order = rng.choice([x + y, y + x, y[:packed] + x + y[packed:], x[:packed] + y + x[packed:]])
    start = rng.choice([0, 0, 0, 1, 2])
    lanes, rest = order[start : start + 4], order[:start] + order[start + 4 :]
    rng.shuffle(rest)
    split = rng.randint(0, len(rest))
    registers, warps = rest[split:], rest[:split]
    if rng.random() < 0.3 and len(registers) > 1:
        i, j = rng.sample(range(len(registers)), 2)
        mixed = tuple(a ^ b for a, b in zip(registers[i], registers[j], strict=True))
        registers[i] = mixed  # type: ignore[call-overload]
    for part in (registers, warps):
        if rng.random() < 0.2:
            part.insert(rng.randint(0, len(part)), (0, 0))
    layout = LinearLayout(
        {"register": registers, "lane": lanes, "warp": warps, "block": []},
        {"dim0": 1 << high, "dim1": 1 << wide},
    )
    if rng.random() < 0.5:
        return layout, 1
    names = {"dim0": "dim1", "dim1": "dim0"}
    return layout.rename_outs(names).transpose_outs(["dim0", "dim1"]), 0


def random_fragment(rng: random.Random) -> Fragment | None:
    if rng.random() < 0.3:
        return None
    return Fragment(rng.choice([1, 2, 4, 8, 16]), rng.choice([1, 2, 4]), rng.choice([0, 1]))


def all_shapes(store: bool) -> list[BlockShape]:
    powers = (1, 2, 4, 8, 16, 32, 64)
    modes = [(False, False)] if store else [(False, False), (True, False), (False, True)]
    return [
        BlockShape(bits, width, height, blocks, transpose, vnni)
        for bits, width, height, blocks, (transpose, vnni) in product(
            (8, 16, 32, 64), powers, powers[:6], (1, 2, 4), modes
        )
    ]


def legal(store: bool, name: str) -> list[BlockShape]:
    check = check_store if store else check_load
    return [shape for shape in all_shapes(store) if check(shape, target(name)) is None]


LEGAL = {(name, store): legal(store, name) for name in TARGETS for store in (False, True)}


def greedy_messages(
    layout: LinearLayout, contiguous_dim: int, bits: int, store: bool, name: str
) -> int | None:
    """Fewest messages of any one legal shape, tried one after the other; None if none will do.

    A shape will do if, with its top left corner at each element of lane 0 that is aligned to it,
    its rectangle is filled lane by lane with registers of that lane.
    """
    names = list(layout.out_dims)
    xi = names.index(f"dim{contiguous_dim}")
    where: dict[Vector, tuple[int, int]] = {}
    registers = layout.in_dims["register"]
    zero = {"warp": 0, "block": 0}
    for register in range(registers):
        for lane in range(16):
            c = list(layout.apply(zero | {"register": register, "lane": lane}).values())
            where.setdefault((c[xi], c[1 - xi]), (register, lane))
    best = None
    for shape in LEGAL[name, store]:
        count = _fits(shape, where, bits)
        if count is not None and (best is None or count < best):
            best = count
    return best


def _fits(shape: BlockShape, where: dict[Vector, tuple[int, int]], bits: int) -> int | None:
    width = shape.row_bytes * 8 // bits
    if shape.row_bytes * 8 < bits or width * shape.height > len(where):
        return None
    if len(where) % (width * shape.height):
        return None
    corners = {(x - x % width, y - y % shape.height) for x, y in where}
    if len(corners) * width * shape.height != len(where):
        return None
    for register_bits in (8, 16, 32, 64):
        if register_bits >= bits and _lanes_match(shape, register_bits, corners, where, bits):
            return len(corners)
    return None


@cache
def lane_of(shape: BlockShape, register_bits: int, bits: int) -> dict[Vector, int] | None:
    """(x, y) in tensor elements -> lane, from the byte address in the result; None if cut up."""
    e, t = shape.element_bits // 8, bits // 8
    if t > e and (shape.vnni or shape.transpose):
        return None
    address_bits = [(i, *bit) for i, bit in enumerate(result_bits(shape)) if bit is not None]
    lanes = {}
    for y, x in product(range(shape.height), range(shape.row_bytes // t)):
        fields = {"byte": x * t % e, "x": x * t // e, "y": y}
        address = sum(1 << i for i, name, weight in address_bits if fields[name] & weight)
        if address % t:
            return None
        lanes[x, y] = address // (register_bits // 8) % 16
    return lanes


def _lanes_match(
    shape: BlockShape,
    register_bits: int,
    corners: set[Vector],
    where: dict[Vector, tuple[int, int]],
    bits: int,
) -> bool:
    lanes = lane_of(shape, register_bits, bits)
    if lanes is None:
        return False
    return all(
        where.get((x0 + x, y0 + y), (0, -1))[1] == lane
        for x0, y0 in corners
        for (x, y), lane in lanes.items()
    )


def requests(seed: int, cases: int) -> Iterator[tuple[int, random.Random, int, LinearLayout, int]]:
    rng = random.Random(seed)
    print(f"seed {seed}")
    for case in range(cases):
        bits = rng.choice((8, 16, 32, 64))
        layout, contiguous_dim = random_layout(rng, bits)
        yield case, rng, bits, layout, contiguous_dim


@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
def test_every_element_is_moved_exactly_once(store: bool, model) -> None:
    plans = 0
    for case, rng, bits, layout, contiguous_dim in requests(SEED, CASES):
        facts = SurfaceFacts(contiguous_dim)
        plan = (plan_block_store if store else plan_block_load)(
            layout,
            facts,
            bits,
            target(rng.choice(TARGETS)),
            fragment=random_fragment(rng),
            objective=rng.choice(list(Objective)),
        )
        if isinstance(plan, Refusal):
            assert plan.reason
            assert plan.remedy
            continue
        plans += 1
        try:
            model.check_delivery(plan)
            check_fragments(plan)
        except (AssertionError, KeyError) as error:
            raise AssertionError(f"case {case}: {plan.shape} for\n{layout}") from error
    assert plans > CASES // (8 if store else 4)


def check_fragments(plan: BlockPlan) -> None:
    """Fragments tell the same as the sources."""
    covered = 0
    for fragment in plan.fragments:
        assert fragment.first_register == covered
        covered += fragment.registers
        if fragment.message is None:
            continue
        for i, place in enumerate(fragment.order):
            source = plan.sources[fragment.first_register + i]
            element, sub = divmod(place, plan.parts)
            assert source == (fragment.message, fragment.elements[element], sub)
    assert covered == len(plan.sources)


def random_surface(rng: random.Random, contiguous_dim: int) -> dict[str, int]:
    """Sizes of a surface, legal and not."""
    pitch = rng.choice((64, 96, 128, 130, 1024, 4096))
    return {
        "contiguous_dim": contiguous_dim,
        "pitch_bytes": pitch,
        "width_bytes": rng.choice((pitch, pitch, pitch - 4, pitch - 2, 60, pitch + 16)),
        "height": rng.choice((1, 7, 32, 1001)),
        "base_alignment": rng.choice((4, 64, 64, 64)),
    }


@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
def test_nothing_outside_the_tile_or_of_an_illegal_surface_is_touched(store: bool) -> None:
    """The hardware keeps messages inside a surface that is legal; a plan keeps them in the tile."""
    legal = refused = 0
    for case, rng, bits, layout, contiguous_dim in requests(SEED + 2, CASES // 2):
        sizes = random_surface(rng, contiguous_dim)
        name = rng.choice(TARGETS)
        plan = (plan_block_store if store else plan_block_load)(
            layout, SurfaceFacts(**sizes), bits, target(name)
        )
        reason = check_surface(
            width_bytes=sizes["width_bytes"],
            height=sizes["height"],
            pitch_bytes=sizes["pitch_bytes"],
            element_bits=8,
        )
        if isinstance(plan, Refusal):
            refused += 1
            continue
        legal += 1
        assert reason is None, f"case {case}: planned for {sizes}, but {reason}"
        check = check_store if store else check_load
        assert check(plan.shape, target(name)) is None
        width = plan.shape.row_bytes * 8 // bits
        for message in plan.messages:
            assert 0 <= message.x <= layout.out_dims[plan.x_dim] - width
            assert 0 <= message.y <= layout.out_dims[plan.y_dim] - plan.shape.height
    assert legal > 5
    assert refused > 5


@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
def test_never_more_messages_than_the_greedy_baseline(store: bool) -> None:
    compared = refused = 0
    for case, rng, bits, layout, contiguous_dim in requests(SEED + 1, CASES // 5):
        name = rng.choice(TARGETS)
        greedy = greedy_messages(layout, contiguous_dim, bits, store, name)
        facts = SurfaceFacts(contiguous_dim)
        plan = (plan_block_store if store else plan_block_load)(layout, facts, bits, target(name))
        if isinstance(plan, Refusal):
            refused += 1
            assert greedy is None or "warps are interleaved" in plan.reason, (
                f"case {case}: {plan}, but greedy finds {greedy}\n{layout}"
            )
            continue
        compared += 1
        assert greedy is not None
        assert len(plan.messages) <= greedy, f"case {case}: {plan.shape}, greedy {greedy}\n{layout}"
    assert compared > 10
    assert refused > 10


def test_gathers_reach_every_element_exactly_once() -> None:
    for case, rng, bits, layout, contiguous_dim in requests(SEED + 2, CASES):
        facts = SurfaceFacts(
            contiguous_dim,
            base_alignment=rng.choice((1, 4, 16, 64)),
            pitch_multiple=rng.choice((1, 2, 4, 16, 64)),
            width_multiple=rng.choice((1, 2, 4, 64)),
            x_multiple=rng.choice((1, 2, 8, 64)),
            in_bounds=rng.random() < 0.5,
        )
        plan = plan_gather(layout, facts, bits, target("dg2"))
        try:
            check_gather(plan)
        except AssertionError as error:
            raise AssertionError(f"case {case}: {plan.summary()}\n{layout}") from error


def check_gather(plan: GatherPlan) -> None:
    zero = {"warp": 0, "block": 0}
    x_dim = f"dim{plan.surface.contiguous_dim}"

    def at(register: int, lane: int) -> dict[str, int]:
        return plan.layout.apply(zero | {"register": register, "lane": lane})

    claimed = [register for access in plan.accesses for register in access]
    assert len(claimed) == len(set(claimed))
    assert set(plan.same_as) == set(claimed)
    for register, original in enumerate(plan.same_as):
        assert at(register, 5) == at(original, 5)
    parts, lanes = plan.parts, plan.layout.in_dims["lane"]
    for access in plan.accesses:
        for lane in range(lanes):
            start = at(access[0], lane if plan.access.value != "1D block" else 0)
            for i, register in enumerate(access):
                step = i
                if plan.access.value == "1D block":
                    word, part = divmod(i, parts)
                    step = (word * lanes + lane) * parts + part
                assert at(register, lane) == start | {x_dim: start[x_dim] + step}
            size = plan.vector * plan.element_bits // 8
            if plan.access.value == "vector gather":
                assert start[x_dim] % plan.vector == 0
                assert plan.surface.base_alignment % size == 0
                assert plan.surface.pitch_multiple % size == 0
                assert plan.surface.in_bounds or plan.surface.width_multiple % size == 0


def test_kinds_of_plans() -> None:
    """The classes keep their promise in the type."""
    layout = LinearLayout(
        {"register": [(1, 0), (2, 0)], "lane": [(0, 1), (0, 2), (0, 4), (0, 8)], "warp": []},
        {"dim0": 4, "dim1": 16},
    )
    load = plan_block_load(layout, SurfaceFacts(), 32, target("pvc"))
    store = plan_block_store(layout, SurfaceFacts(), 32, target("pvc"))
    assert isinstance(load, BlockLoadPlan)
    assert isinstance(store, BlockStorePlan)
    assert (load.operation, store.operation) == ("load", "store")
