"""The worked example of Intel's write-up: A 256x32, B 32x256 and Bᵀ in fp16, 8x4 warps."""

from __future__ import annotations

import pytest

from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import target
from triton_xe.layout.linear_layout import LinearLayout
from triton_xe.plan import BlockLoadPlan, Objective, SurfaceFacts, plan_block_load, steps

LANES = [(0, 1), (0, 2), (0, 4), (0, 8)]
A = LinearLayout(
    {
        "register": [(1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (0, 16)],
        "lane": LANES,
        "warp": [(0, 0), (0, 0), (32, 0), (64, 0), (128, 0)],
    },
    {"dim0": 256, "dim1": 32},
)
B = LinearLayout(
    {
        "register": [(1, 0), (2, 0), (4, 0), (8, 0), (0, 16), (16, 0), (0, 128)],
        "lane": LANES,
        "warp": [(0, 32), (0, 64), (0, 0), (0, 0), (0, 0)],
    },
    {"dim0": 32, "dim1": 256},
)
DPAS = Dpas("f16", "f16", "f32")

ROWS = """
 - offset=1 -> (0, 1)
   offset=2 -> (0, 2)
   offset=4 -> (0, 4)
   offset=8 -> (0, 8)
   offset=16 -> (1, 0)
   offset=32 -> (2, 0)
   offset=64 -> (4, 0)"""
COLUMNS = """
 - offset=1 -> (0, 1)
   offset=2 -> (0, 2)
   offset=4 -> (0, 4)
   offset=8 -> (1, 0)
   offset=16 -> (2, 0)
   offset=32 -> (4, 0)
   offset=64 -> (8, 0)"""


def dump(tile: str, size: str, iterations: str, many: str, loads: str, all_: str) -> str:
    dims = "\nwhere out dims are: [dim0 (size {}), dim1 (size {})]"
    title = "Block load tile layout"
    return (
        f"{title}:{tile}{dims.format(*size.split('x'))}\n\n"
        f"{title} after adding iterations:{tile}{iterations}{dims.format(*many.split('x'))}\n\n"
        f"{title} after adding loads:{tile}{iterations}{loads}{dims.format(*all_.split('x'))}"
    )


def plan(layout: LinearLayout, operand: str, contiguous_dim: int = 1) -> BlockLoadPlan:
    result = plan_block_load(
        layout,
        SurfaceFacts(contiguous_dim),
        16,
        target("bmg"),
        fragment=DPAS.fragment(operand),
    )
    assert isinstance(result, BlockLoadPlan)
    return result


def test_a() -> None:
    iterations = "\n - iteration=1 -> (8, 0)\n   iteration=2 -> (16, 0)\n   iteration=4 -> (0, 16)"
    expected = dump(ROWS, "8x16", iterations, "32x32", "\n - load is a size 1 dimension", "32x32")
    assert steps.dump(plan(A, "a")) == expected


def test_b() -> None:
    """The write-up shows B's iterations twice; the print with the loads is the right one.

    Its other print, (8,0) (16,0) (0,16) in 32x32, is A's: B's cluster repeats along N first, as
    the write-up's own register table has it, and in packed rows 32x32 would be a K of 64.
    """
    iterations = "\n - iteration=1 -> (0, 16)\n   iteration=2 -> (8, 0)"
    expected = dump(ROWS, "8x16", iterations, "16x32", "\n - load=1 -> (128, 0)", "256x32")
    assert steps.dump(plan(B, "b")) == expected
    registers = [B.apply({"register": r, "lane": 0, "warp": 0}) for r in (0, 16, 32, 64)]
    assert [(c["dim0"], c["dim1"]) for c in registers] == [(0, 0), (0, 16), (16, 0), (0, 128)]


def test_the_offsets_of_b() -> None:
    tile, iterations, loads = (
        part.partition(":\n")[2] for part in steps.tables(plan(B, "b")).split("\n\nBlock")
    )
    assert tile.splitlines() == [f"{16 * row} : {row}, 0" for row in range(8)]
    assert iterations.splitlines()[:4] == [
        "0, 0 : 0, 0", "0, 127 : 7, 15", "1, 0 : 0, 16", "1, 127 : 7, 31"]  # fmt: skip
    first, second = loads.split("\n\n")
    assert first.splitlines()[-2:] == ["0, 3, 0 : 8, 16", "0, 3, 127 : 15, 31"]
    assert second.splitlines() == [
        "1, 0, 0 : 128, 0", "1, 0, 127 : 135, 15", "1, 1, 0 : 128, 16", "1, 1, 127 : 135, 31",
        "1, 2, 0 : 136, 0", "1, 2, 127 : 143, 15", "1, 3, 0 : 136, 16", "1, 3, 127 : 143, 31",
    ]  # fmt: skip


def test_b_transposed() -> None:
    iterations = "\n - iteration=1 -> (16, 0)"
    loads = "\n - load=1 -> (0, 16)\n   load=2 -> (128, 0)"
    expected = dump(COLUMNS, "16x8", iterations, "32x8", loads, "256x32")
    assert steps.dump(plan(B, "b", contiguous_dim=0)) == expected


@pytest.mark.parametrize(
    ("layout", "operand", "contiguous_dim", "shape", "messages"),
    [
        (A, "a", 1, "d16 16x32 v2", 1),
        (B, "b", 1, "d16 16x32 v2 vnni", 2),
        (B, "b", 0, "d32 8x32 v1 transpose", 4),
        (A, "a", 0, "d32 8x32 v1 transpose", 2),
    ],
)
def test_messages(
    layout: LinearLayout, operand: str, contiguous_dim: int, shape: str, messages: int, model
) -> None:
    found = plan(layout, operand, contiguous_dim)
    assert str(found.shape) == shape
    assert len(found.messages) == messages
    model.check_delivery(found)


def test_whole_rows_in_one_block_are_as_stores_leave_them(model) -> None:
    """As many messages, whose elements come in the order of a row of memory."""
    facts = SurfaceFacts(contiguous_dim=1)
    found = plan_block_load(A, facts, 16, target("bmg"), fragment=DPAS.fragment("a"),
                            objective=Objective.ROWS)
    assert (str(found.shape), len(found.messages)) == ("d16 32x32 v1", 1)
    model.check_delivery(found)


def test_fewest_instructions_for_b_transposed() -> None:
    """16-row messages bring whole operands: twice the messages, but nothing to move."""
    facts = SurfaceFacts(contiguous_dim=0)
    found = plan_block_load(
        B, facts, 16, target("bmg"), fragment=DPAS.fragment("b"), objective=Objective.INSTRUCTIONS
    )
    assert isinstance(found, BlockLoadPlan)
    assert str(found.shape) == "d32 8x16 v1 transpose"
    assert (len(found.messages), found.moves) == (8, 0)
    assert all(fragment.is_slice for fragment in found.fragments)


def test_a_and_b_operands_are_slices() -> None:
    for layout, operand in ((A, "a"), (B, "b")):
        assert all(fragment.is_slice for fragment in plan(layout, operand).fragments)


def test_transposed_a_is_a_reinterpretation() -> None:
    """Four 32-bit elements of a transposed read are, read as eight 16-bit ones, operand A."""
    found = plan(A, "a", contiguous_dim=0)
    assert found.vector_type == "<16 x i32>"
    assert [f.elements for f in found.fragments[:2]] == [(0, 2, 4, 6), (8, 10, 12, 14)]
    assert all(fragment.in_order for fragment in found.fragments)


def test_fewest_instructions_for_transposed_a() -> None:
    """Each 8x16 operand is four neighbouring elements of a 16-row message."""
    facts = SurfaceFacts(contiguous_dim=0)
    found = plan_block_load(
        A, facts, 16, target("bmg"), fragment=DPAS.fragment("a"), objective=Objective.INSTRUCTIONS
    )
    assert isinstance(found, BlockLoadPlan)
    assert str(found.shape) == "d32 8x16 v1 transpose"
    assert (len(found.messages), found.moves) == (4, 64)
    assert [f.elements for f in found.fragments[:2]] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_transposed_8_bit_a(model) -> None:
    """One 32x32 read as 64-bit elements: a lane has both bytes of each of its pairs along K."""
    lanes = [(0, 2), (0, 4), (0, 8), (0, 16)]
    layout = LinearLayout(
        {"register": [(0, 1), (1, 0), (2, 0), (4, 0), (8, 0), (16, 0)], "lane": lanes, "warp": []},
        {"dim0": 32, "dim1": 32},
    )
    fragment = Dpas("s8", "s8", "i32").fragment("a")
    found = plan_block_load(
        layout, SurfaceFacts(contiguous_dim=0), 8, target("bmg"), fragment=fragment
    )
    assert isinstance(found, BlockLoadPlan)
    assert (str(found.shape), found.vector_type) == ("d32 8x32 v1 transpose", "<8 x i64>")
    assert len(found.messages) == 1
    model.check_delivery(found)
    assert found.fragments[0].elements == (0, 1)
    assert found.fragments[0].order == (0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15)
