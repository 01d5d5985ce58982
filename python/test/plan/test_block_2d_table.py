"""The tables of legal 2D block messages."""

from __future__ import annotations

import pytest

from triton_xe.errors import LegalityError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import BlockShape, check_load, check_prefetch, check_store
from triton_xe.hardware.target import TARGETS, target
from triton_xe.plan import result_layout


def since(generation: int) -> str:
    """Names of the devices with 2D messages from a generation on."""
    return " ".join(name for name, device in TARGETS.items()
                    if device.has_block_2d and device.ip_version[0] >= generation)


ALL, XE2, XE3P = since(12), since(20), since(35)


@pytest.mark.parametrize(
    ("shape", "legal_on"),
    [
        (BlockShape(16, 16, 32, 2), ALL),
        (BlockShape(16, 32, 32), ALL),
        (BlockShape(16, 32, 32, 2), ""),
        (BlockShape(16, 12, 8), ""),
        (BlockShape(16, 16, 64), ""),
        (BlockShape(16, 8, 2, 2), ""),
        (BlockShape(16, 16, 32, 2, vnni=True), ALL),
        (BlockShape(16, 32, 16, vnni=True), XE2),
        (BlockShape(16, 32, 32, vnni=True), ""),
        (BlockShape(8, 16, 32, 4, vnni=True), ALL),
        (BlockShape(8, 64, 32, vnni=True), XE2),
        (BlockShape(32, 8, 8, vnni=True), ""),
        (BlockShape(32, 8, 32, transpose=True), ALL),
        (BlockShape(32, 16, 8, transpose=True), XE3P),
        (BlockShape(32, 8, 16, 2, transpose=True), ""),
        (BlockShape(64, 4, 8, transpose=True), ALL),
        (BlockShape(64, 4, 16, transpose=True), XE3P),
        (BlockShape(64, 8, 8, transpose=True), XE3P),
        (BlockShape(64, 4, 32, transpose=True), ""),
        (BlockShape(16, 8, 16, transpose=True), ""),
    ],
    ids=lambda each: str(each) if isinstance(each, BlockShape) else f"on {len(each.split())}",
)
def test_loads(shape: BlockShape, legal_on: str) -> None:
    for name, device in TARGETS.items():
        reason = check_load(shape, device)
        assert (reason is None) == (name in legal_on.split()), reason
        assert reason is None or reason.startswith(f"{shape}: ")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (BlockShape(16, 32, 8), None),
        (BlockShape(64, 8, 1), None),
        (BlockShape(16, 16, 16), "height 16 is over the limit of 8 rows of a store"),
        (BlockShape(16, 16, 8, 2), "a store has one block"),
        (BlockShape(16, 16, 8, vnni=True), "a store neither transposes nor packs"),
        (BlockShape(16, 1, 8), "a row of 2 bytes is less than 4"),
        (BlockShape(32, 32, 8), "a row of 128 bytes is over the limit of 64"),
    ],
    ids=str,
)
def test_stores(shape: BlockShape, reason: str | None) -> None:
    expected = None if reason is None else f"{shape}: {reason}"
    assert check_store(shape, target("bmg")) == expected
    assert check_store(shape, target("dg2")) == f"{shape}: dg2 has no 2D block messages"


def test_prefetches() -> None:
    assert check_prefetch(BlockShape(16, 32, 8), target("pvc")) is None
    assert check_prefetch(BlockShape(8, 16, 32, 4), target("pvc")) is None
    assert check_prefetch(BlockShape(16, 32, 8, 2), target("pvc")) is not None
    assert check_prefetch(BlockShape(32, 8, 8, transpose=True), target("pvc")) is not None


@pytest.mark.parametrize(("shape", "is_row"), [
    (BlockShape(8, 256, 1), True), (BlockShape(16, 32, 32, 4), True),
    (BlockShape(64, 16, 8, 2), True), (BlockShape(16, 64, 8), False),
    (BlockShape(8, 128, 8, 4), False)], ids=str)
def test_xe3p_prefetches_rows_of_256_bytes(shape: BlockShape, is_row: bool) -> None:
    for name, device in TARGETS.items():
        assert (check_prefetch(shape, device) is None) == (is_row and name in XE3P.split())
        assert check_load(shape, device) is not None


@pytest.mark.parametrize("operation", ["load", "store", "prefetch"])
@pytest.mark.parametrize("name", ["pvc", "bmg"])
def test_no_table_row_breaks_a_general_rule(operation: str, name: str) -> None:
    shapes = block_2d.legal_shapes(operation, target(name))
    assert len(shapes) > 50
    for shape in shapes:
        assert 4 <= shape.element_bytes * shape.width
        assert shape.row_bytes <= 64
        assert shape.registers <= 32
        assert shape.height <= (8 if operation == "store" else 32)
        assert not (shape.transpose and shape.blocks > 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"base": 32}, "base is not 64-byte aligned"),
        ({"width_bytes": 60}, "width of 60 bytes is less than 64"),
        ({"width_bytes": 130}, "width of 130 bytes is not a multiple of 4"),
        ({"width_bytes": 260}, "pitch of 256 bytes is less than the width of 260"),
        ({"width_bytes": 132, "element_bits": 64}, "width of 132 bytes is not a multiple of 8"),
        ({"pitch_bytes": 248}, "pitch of 248 bytes is not a multiple of 16"),
        ({"pitch_bytes": 1 << 24}, "pitch of 16777216 bytes is not below 2^24"),
        ({"height": 0}, "height of 0 rows is not in 1..2^24-1"),
        ({"element_bits": 16, "x": 3}, "x = 3 elements of 16 bits is not a multiple of 4 bytes"),
    ],
)
def test_surface(change: dict[str, int], reason: str | None) -> None:
    surface = {"width_bytes": 128, "height": 8, "pitch_bytes": 256} | change
    assert block_2d.check_surface(**surface) == reason  # type: ignore[arg-type]


@pytest.mark.parametrize(("change", "reason"), [
    ({"base": 4, "pitch_bytes": 132}, None),
    ({"base": 2}, "base is not 4-byte aligned"),
    ({"pitch_bytes": 130}, "pitch of 130 bytes is not a multiple of 4"),
])
@pytest.mark.parametrize("name", ["cri", "nvl-p"])
def test_surfaces_of_xe3p(name: str, change: dict[str, int], reason: str | None) -> None:
    surface = {"width_bytes": 128, "height": 8, "pitch_bytes": 256} | change
    needed = block_2d.alignment(target(name))
    assert block_2d.check_surface(**surface, needed=needed) == reason  # type: ignore[arg-type]


def test_cache_codes() -> None:
    assert block_2d.cache_code("st.uc", target("pvc")) == 5
    assert block_2d.cache_code("ca.cc", target("bmg")) == 9
    assert block_2d.cache_code("wb.wb", target("pvc"), write=True) == 7
    with pytest.raises(LegalityError, match=r"pvc has no read cache policy 'ca\.cc'"):
        block_2d.cache_code("ca.cc", target("pvc"))


@pytest.mark.parametrize("name", ["pvc", "bmg"])
def test_result_bits_follow_the_formula(name: str, model) -> None:
    """Every legal load, against the formula of the result's element order."""
    for shape in block_2d.legal_shapes("load", target(name)):
        register_bits = max(shape.element_bits, 32)
        layout = result_layout(shape, register_bits=register_bits)
        parts = register_bits // shape.element_bits
        for (element, lane, part), place in model.placed(
            shape, register_bits, shape.element_bits
        ).items():
            index = {"register": element * parts + part, "lane": lane}
            assert tuple(layout.apply(index).values())[::-1] == place, shape


@pytest.mark.parametrize(
    ("shape", "bits", "index", "place"),
    [
        (BlockShape(16, 32, 8), 16, (5, 3), {"y": 2, "x": 19}),
        (BlockShape(8, 32, 8, 2), 16, (17, 3), {"y": 0, "x": 39}),
        (BlockShape(32, 8, 32), 32, (5, 11), {"y": 11, "x": 3}),
        (BlockShape(16, 16, 32, 2, vnni=True), 32, (33, 3), {"y": 1, "x": 19}),
        (BlockShape(8, 16, 32, vnni=True), 32, (5, 3), {"y": 5, "x": 3}),
        (BlockShape(32, 8, 32, transpose=True), 32, (5, 3), {"y": 19, "x": 2}),
        (BlockShape(64, 4, 8, transpose=True), 64, (1, 11), {"y": 3, "x": 3}),
    ],
    ids=str,
)
def test_result_layout(
    shape: BlockShape, bits: int, index: tuple[int, int], place: dict[str, int]
) -> None:
    register, lane = index
    found = result_layout(shape, register_bits=bits).apply({"register": register, "lane": lane})
    assert found == place


def test_bad_shapes_and_widths() -> None:
    with pytest.raises(LegalityError, match="8 to 64 bits, not 4"):
        BlockShape(4, 16, 8)
    with pytest.raises(LegalityError, match="height of a 2D block is at least 1, not 0"):
        BlockShape(8, 16, 0)
    with pytest.raises(LegalityError, match="not both"):
        BlockShape(32, 8, 8, transpose=True, vnni=True)
