"""Facts, guards and refusals; prefetch splits."""

from __future__ import annotations

import time

import numpy as np
import pytest

from triton_xe.errors import LayoutError, UnsupportedError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import check_surface
from triton_xe.hardware.target import target
from triton_xe.layout import LinearLayout, parse_encoding, to_linear_layout
from triton_xe.plan import (
    BlockLoadPlan,
    BlockStorePlan,
    GatherPlan,
    Guard,
    PrefetchPlan,
    Refusal,
    Relation,
    SizeClass,
    SurfaceFacts,
    fragment_of,
    plan_block_load,
    plan_block_store,
    plan_load,
    plan_prefetch,
    plan_store,
    size_class,
)

DPAS = (
    "#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, "
    "threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>"
)
A = parse_encoding(f"#ttg.dot_op<{{opIdx = 0, parent = {DPAS}, kWidth = 1}}>")
LAYOUT = to_linear_layout(A, (256, 32))
KNOWN = SurfaceFacts(
    base_alignment=64, pitch_bytes=10240, width_bytes=10240, height=1024, x_multiple=32
)


def load(facts: SurfaceFacts) -> BlockLoadPlan | Refusal:
    return plan_block_load(LAYOUT, facts, 16, target("bmg"), fragment=fragment_of(A, 16))


def test_what_is_known_needs_no_guard() -> None:
    plan = load(KNOWN)
    assert isinstance(plan, BlockLoadPlan)
    assert plan.guards == ()


def test_what_is_open_becomes_a_guard() -> None:
    plan = load(SurfaceFacts(base_alignment=16, pitch_multiple=32, x_multiple=32))
    assert isinstance(plan, BlockLoadPlan)
    assert [str(guard) for guard in plan.guards] == [
        "base is a multiple of 64 bytes",
        "pitch is at least 64 bytes",
        "pitch is below 16777216 bytes",
        "pitch is at least the width",
        "width is a multiple of 4 bytes",
        "width is at least 64 bytes",
        "width is below 16777216 bytes",
        "height is at least 1 row",
        "height is below 16777216 rows",
    ]


def test_guards_are_the_surface_rules() -> None:
    """A surface that satisfies the open guards is legal, one that breaks any is not."""
    plan = load(SurfaceFacts())
    assert isinstance(plan, BlockLoadPlan)
    rng = np.random.default_rng(5)
    for _ in range(2000):
        base, width, pitch, height, x = (
            int(rng.choice(values))
            for values in (
                (0, 64, 16, 4),
                (60, 64, 66, 1024, 1 << 24),
                (48, 64, 72, 1024, 1 << 24),
                (0, 1, 7, (1 << 24) - 1, 1 << 24),
                (0, 1, 2, 32),
            )
        )
        amounts = {"base": base, "width": width, "pitch": pitch, "height": height, "x": x}
        held = all(guard.holds(amounts) for guard in plan.guards)
        reason = check_surface(
            base=base, width_bytes=width, pitch_bytes=pitch, height=height, x=x, element_bits=16
        )
        assert held == (reason is None), (amounts, reason)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (SurfaceFacts(pitch_bytes=1022), "pitch is not a multiple of 16 bytes"),
        (SurfaceFacts(width_bytes=62), "width is not a multiple of 4 bytes"),
        (SurfaceFacts(width_bytes=48), "width is not at least 64 bytes"),
        (SurfaceFacts(pitch_bytes=64, width_bytes=128), "pitch is not at least the width"),
        (SurfaceFacts(pitch_bytes=1 << 24), "pitch is not below 16777216 bytes"),
        (SurfaceFacts(height=1 << 24), "height is not below 16777216 rows"),
    ],
)
def test_what_is_known_to_fail_is_refused(facts: SurfaceFacts, reason: str) -> None:
    refusal = load(facts)
    assert isinstance(refusal, Refusal)
    assert refusal.reason.endswith(reason)
    fallback = plan_load(LAYOUT, facts, 16, target("bmg"))
    assert isinstance(fallback, GatherPlan)
    assert fallback.masked
    assert fallback.because == str(refusal)


def test_transposed_x_granularity() -> None:
    """A 32-bit transposing read of 16-bit elements starts at an even element."""
    plan = load(SurfaceFacts(contiguous_dim=0))
    assert isinstance(plan, BlockLoadPlan)
    assert Guard("x", Relation.MULTIPLE_OF, 2) in plan.guards
    assert plan.message_x(plan.messages[1].x) == 8


def test_refusals_say_what_to_do() -> None:
    blocked = to_linear_layout(
        parse_encoding(
            "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 4], "
            "warpsPerCTA = [4, 1], order = [1, 0]}>"
        ),
        (64, 32),
    )
    refusal = plan_block_load(blocked, SurfaceFacts(), 32, target("bmg"))
    assert isinstance(refusal, Refusal)
    assert "(8, 0), (16, 0), (0, 1), (0, 2)" in refusal.reason
    assert refusal.remedy.startswith("lanes must run along a row of memory")
    refusal = plan_block_load(LAYOUT, SurfaceFacts(), 16, target("arl-h"))
    assert str(refusal).startswith("arl-h has no 2D block messages")
    refusal = plan_block_load(LAYOUT, SurfaceFacts(), 4, target("bmg"))
    assert str(refusal).startswith("4-bit elements")
    refusal = plan_block_store(LAYOUT, SurfaceFacts(contiguous_dim=0), 16, target("bmg"))
    assert "a store needs the lanes of a subgroup along the rows of memory" in str(refusal)


def layout_of(registers: list[tuple[int, int]], lanes: list[tuple[int, int]]) -> LinearLayout:
    return LinearLayout({"register": registers, "lane": lanes, "warp": []}, ["dim0", "dim1"], False)


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (layout_of([(1, 1)], [(0, 1), (0, 2), (0, 4), (0, 8)]), "swizzled"),
        (layout_of([(1, 0)], [(0, 1), (0, 2), (0, 4), (0, 0)]), "several lanes hold the same"),
        (layout_of([(1, 0)], [(0, 1), (0, 2), (0, 4)]), "the layout has 8 lanes"),
        (
            LinearLayout(
                {"register": [(1, 0)], "lane": [(0, 1), (0, 2), (0, 4), (0, 8)], "warp": [(3, 0)]},
                ["dim0", "dim1"],
            ),
            "interleaved",
        ),
    ],
)
def test_layouts_no_rectangle_serves(layout: LinearLayout, reason: str) -> None:
    refusal = plan_block_load(layout, SurfaceFacts(), 32, target("bmg"))
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason


def test_copies_share_a_source(model) -> None:
    layout = LinearLayout(
        {
            "register": [(1, 0), (0, 0), (2, 0)],
            "lane": [(0, 1), (0, 2), (0, 4), (0, 8)],
            "warp": [(0, 0), (4, 0)],
        },
        {"dim0": 8, "dim1": 16},
    )
    plan = plan_block_load(layout, SurfaceFacts(), 32, target("pvc"))
    assert isinstance(plan, BlockLoadPlan)
    model.check_delivery(plan)
    assert plan.redundant_warp_mask == 1
    assert [r for r, source in enumerate(plan.sources) if source == plan.sources[0]] == [0, 2]


def test_stores(model) -> None:
    c = parse_encoding(DPAS)
    layout = to_linear_layout(c, (256, 256))
    plan = plan_store(layout, KNOWN, 32, target("bmg"), fragment=fragment_of(c, 32))
    assert isinstance(plan, BlockStorePlan)
    assert str(plan.shape) == "d32 16x8 v1"
    assert all(fragment.is_slice for fragment in plan.fragments)
    model.check_delivery(plan)
    half = plan_store(layout, KNOWN, 16, target("bmg"))
    assert isinstance(half, BlockStorePlan)
    assert (str(half.shape), len(half.messages)) == ("d16 32x8 v1", 8)
    scatter = plan_store(layout, SurfaceFacts(pitch_bytes=1022), 16, target("bmg"))
    assert isinstance(scatter, GatherPlan)


def test_devices_without_blocks_read_whole_rows() -> None:
    """DG2's A operand holds pairs of K per lane: a row of 64 bytes is one 1D block."""
    text = DPAS.replace("executionSize = 16", "executionSize = 8").replace("Warp = 16", "Warp = 8")
    layout = to_linear_layout(
        parse_encoding(f"#ttg.dot_op<{{opIdx = 0, parent = {text}}}>"), (256, 32)
    )
    facts = SurfaceFacts(base_alignment=16, pitch_multiple=16, x_multiple=32, in_bounds=True)
    plan = plan_load(layout, facts, 16, target("dg2"))
    assert isinstance(plan, GatherPlan)
    assert (plan.access.value, plan.lane_type, len(plan.accesses)) == ("1D block", "<2 x i32>", 32)
    assert not plan.masked


def test_gather_refuses_what_it_cannot_move() -> None:
    with pytest.raises(UnsupportedError, match="a tile of 4-bit elements"):
        plan_load(LAYOUT, SurfaceFacts(), 4, target("bmg"))


@pytest.mark.parametrize(
    ("tile", "shape", "messages"),
    [
        ((256, 32, 16, 32), "d16 32x8 v1", 1),
        ((32, 256, 16, 32), "d16 32x8 v1", 1),
        ((32, 256, 16, 4), "d16 32x32 v1", 2),
        ((64, 64, 8, 4), "d8 64x16 v1", 1),
        ((16, 32, 16, 32), "d16 32x1 v1", 1),
        ((8, 8, 32, 4), "d32 8x2 v1", 1),
        ((256, 256, 64, 8), "d64 8x32 v1", 32),
    ],
)
def test_cooperative_prefetch(tile: tuple[int, int, int, int], shape: str, messages: int) -> None:
    rows, columns, bits, warps = tile
    plan = plan_prefetch(rows, columns, bits, warps, target("pvc"))
    assert isinstance(plan, PrefetchPlan)
    assert (str(plan.shape), len(plan.messages)) == (shape, messages)
    assert block_2d.check_prefetch(plan.shape, target("pvc")) is None
    covered = np.zeros((rows, columns), dtype=int)
    for warp in range(warps):
        if warp & plan.redundant_warp_mask:
            continue
        origin = plan.origin.apply({"warp": warp})
        for message in plan.messages:
            y, x = origin["y"] + message.y, origin["x"] + message.x
            covered[y : y + plan.shape.height, x : x + plan.shape.width] += 1
    assert (covered == 1).all()


def test_prefetch_refusals() -> None:
    assert "dg2 has no 2D block messages" in str(plan_prefetch(8, 32, 16, 4, target("dg2")))
    assert "rows of 2 bytes" in str(plan_prefetch(8, 1, 16, 4, target("bmg")))
    facts = SurfaceFacts(pitch_bytes=1022)
    assert "pitch is not a multiple of 16 bytes" in str(
        plan_prefetch(8, 32, 16, 4, target("bmg"), facts)
    )
    with pytest.raises(LayoutError, match="rows is a power of 2, not 24"):
        plan_prefetch(24, 32, 16, 4, target("bmg"))


def test_planning_is_quick() -> None:
    """2 ms per operand is the limit, in this thread's time: others may use the machine too."""
    c = parse_encoding(DPAS)
    layout = to_linear_layout(c, (256, 256))
    for facts in (SurfaceFacts(), SurfaceFacts(contiguous_dim=0)):
        best = 1.0
        for _ in range(20):
            start = time.thread_time()
            plan_block_load(layout, facts, 16, target("bmg"), fragment=fragment_of(c, 16))
            best = min(best, time.thread_time() - start)
        assert best < 2e-3


def test_folded_base() -> None:
    """A base that is only known to be 16-byte aligned is counted from the line below."""
    facts = SurfaceFacts(
        base_alignment=16, pitch_bytes=1024, width_bytes=512, height=64, x_multiple=32,
        fold_base=True,
    )  # fmt: skip
    plan = load(facts)
    assert isinstance(plan, BlockLoadPlan)
    assert [str(guard) for guard in plan.guards] == [
        "pitch is at least the width",
        "width is at least 64 bytes",
        "width is below 16777216 bytes",
        "x is at least 0 elements",
    ]
    aligned = load(SurfaceFacts(**(vars(facts) | {"base_alignment": 64})))
    assert isinstance(aligned, BlockLoadPlan)
    assert aligned.guards == ()
    assert not aligned.surface.is_folded()


def test_batches_over_warps(model) -> None:
    """Of a batch of matrices, each warp may load one; the batch is part of its origin."""
    lanes = [(0, 0, 1), (0, 0, 2), (0, 0, 4), (0, 0, 8)]
    dims = {"dim0": 4, "dim1": 4, "dim2": 16}
    layout = LinearLayout(
        {"register": [(0, 1, 0), (0, 2, 0)], "lane": lanes, "warp": [(1, 0, 0), (2, 0, 0)]}, dims
    )
    plan = plan_block_load(layout, SurfaceFacts(), 32, target("bmg"))
    assert isinstance(plan, BlockLoadPlan)
    model.check_delivery(plan)
    assert plan.origin.apply({"warp": 3}) == {"dim0": 3, "dim1": 0, "dim2": 0}
    inside = LinearLayout(
        {"register": [(0, 1, 0), (1, 0, 0)], "lane": lanes, "warp": [(0, 2, 0), (2, 0, 0)]}, dims
    )
    refusal = plan_block_load(inside, SurfaceFacts(), 32, target("bmg"))
    assert isinstance(refusal, Refusal)
    assert "a warp holds several matrices" in refusal.reason
    with pytest.raises(UnsupportedError, match="cannot be gathered as one matrix"):
        plan_load(inside, SurfaceFacts(), 32, target("bmg"))


def test_padding_of_small_blocks(model) -> None:
    """One row of 32 bytes fills half a register, which a load writes whole and a store does not.

    With two such blocks the second begins at a register of its own.
    """
    lanes = [(0, 1), (0, 2), (0, 4), (0, 8)]
    one = LinearLayout({"register": [], "lane": lanes, "warp": []}, {"dim0": 1, "dim1": 16})
    load_plan = plan_block_load(one, SurfaceFacts(), 16, target("pvc"))
    store_plan = plan_block_store(one, SurfaceFacts(), 16, target("pvc"))
    assert isinstance(load_plan, BlockLoadPlan)
    assert isinstance(store_plan, BlockStorePlan)
    assert (load_plan.vector_type, store_plan.vector_type) == ("<2 x i16>", "i16")
    model.check_delivery(load_plan)
    model.check_delivery(store_plan)
    two = LinearLayout({"register": [(0, 16)], "lane": lanes, "warp": []}, {"dim0": 1, "dim1": 32})
    fragment = fragment_of(A, 16)
    plan = plan_block_load(two, SurfaceFacts(), 16, target("pvc"), fragment=fragment)
    assert isinstance(plan, BlockLoadPlan)
    model.check_delivery(plan)


def test_no_vectors_where_lanes_swizzle_them() -> None:
    """Lane 1 has its two neighbours in the other order: each element is gathered by itself."""
    layout = LinearLayout(
        {"register": [(0, 1)], "lane": [(1, 1), (2, 0), (4, 0), (8, 0)], "warp": []},
        {"dim0": 16, "dim1": 2},
    )
    facts = SurfaceFacts(base_alignment=64, pitch_multiple=64, x_multiple=16, in_bounds=True)
    plan = plan_load(layout, facts, 16, target("bmg"))
    assert isinstance(plan, GatherPlan)
    assert (plan.access.value, plan.accesses) == ("scalar gather", ((0,), (1,)))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, SizeClass.DIVISIBLE),
        ({"in_bounds": True, "height": None}, SizeClass.DIVISIBLE),
        ({"height": 1000}, SizeClass.BOUNDED),
        ({"width_bytes": 10000}, SizeClass.BOUNDED),
        ({"width_bytes": None}, SizeClass.BOUNDED),
        ({"height": 1001}, SizeClass.ROW_REMAINDER),
        ({"pitch_bytes": 10242}, SizeClass.UNALIGNED),
        ({"width_bytes": 10238}, SizeClass.UNALIGNED),
    ],
)
def test_size_classes(change: dict[str, object], expected: SizeClass) -> None:
    facts = SurfaceFacts(**(vars(KNOWN) | change))  # type: ignore[arg-type]
    assert size_class(facts, 256, 32, 16) is expected
    assert isinstance(load(facts), BlockLoadPlan) == expected.uses_blocks


@pytest.mark.parametrize(("device", "rows", "columns", "warps", "shape", "messages"), [
    ("cri", 64, 128, 4, "d16 128x16 v1", 1), ("ptl", 64, 128, 4, "d16 32x32 v1", 2),
    ("cri", 32, 128, 4, "d16 32x32 v1", 1), ("cri", 256, 64, 4, "d16 32x32 v1", 4),
    ("nvl-p", 64, 512, 8, "d16 128x32 v1", 1)])
def test_long_rows_are_prefetched_if_short_ones_do_not_suffice(
    device: str, rows: int, columns: int, warps: int, shape: str, messages: int
) -> None:
    plan = plan_prefetch(rows, columns, 16, warps, target(device))
    assert isinstance(plan, PrefetchPlan)
    assert (str(plan.shape), len(plan.messages)) == (shape, messages)
