"""The worked examples in the descriptions of Triton's encoding attributes.

Two of them draw the warps of matrix units down the columns; Triton's own conversion counts them
along the rows, and so do we: there the first warp's content is compared.
"""

import pytest

from triton_xe.errors import LayoutError
from triton_xe.layout import (
    AmdMfmaEncoding,
    AmdRotatingSharedEncoding,
    AmdWmmaEncoding,
    BlockedEncoding,
    LinearEncoding,
    LinearLayout,
    NvidiaMmaEncoding,
    PaddedSharedEncoding,
    SliceEncoding,
    SwizzledSharedEncoding,
    parse_encoding,
    to_linear_layout,
)
from triton_xe.layout.attribute_text import split_blocks
from triton_xe.layout.shared import block_dim
from triton_xe.layout.tiling import identity


def owners(encoding, shape):
    """Per element, the threads (counted through the warps) that hold it, by block."""
    layout = to_linear_layout(encoding, shape)
    found = {}
    for index in layout.domain():
        thread = index["warp"] * layout.in_dims["lane"] + index["lane"]
        place = tuple(layout.apply(index).values())
        found.setdefault((index["block"], place), set()).add(thread)
    return found


def rows_of(encoding, shape, block=0):
    """The first owner of each element, as a matrix."""
    found = owners(encoding, shape)
    return [[min(found[block, (y, x)]) for x in range(shape[1])] for y in range(shape[0])]


def memory(encoding, shape):
    """The elements 0, 1, 2, ... of a matrix as they lie in memory, row by row."""
    layout = to_linear_layout(encoding, shape)
    flat = [layout.apply({"offset": i, "block": 0}) for i in range(shape[0] * shape[1])]
    numbers = [place["dim0"] * shape[1] + place["dim1"] for place in flat]
    return [numbers[i : i + shape[1]] for i in range(0, len(numbers), shape[1])]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ((1, 1, 4), [[0, 1, 2, 3], [5, 4, 7, 6], [10, 11, 8, 9], [15, 14, 13, 12]]),
        ((1, 2, 4), [[0, 1, 2, 3], [4, 5, 6, 7], [9, 8, 11, 10], [13, 12, 15, 14]]),
        (
            (1, 1, 2),
            [[0, 1, 2, 3], [5, 4, 7, 6], [8, 9, 10, 11], [13, 12, 15, 14], [16, 17, 18, 19],
             [21, 20, 23, 22], [24, 25, 26, 27], [29, 28, 31, 30]],
        ),
        (
            (1, 2, 2),
            [[0, 1, 2, 3], [4, 5, 6, 7], [9, 8, 11, 10], [13, 12, 15, 14], [16, 17, 18, 19],
             [20, 21, 22, 23], [25, 24, 27, 26], [29, 28, 31, 30]],
        ),
        (
            (2, 1, 4),
            [[0, 1, 2, 3, 4, 5, 6, 7], [10, 11, 8, 9, 14, 15, 12, 13],
             [20, 21, 22, 23, 16, 17, 18, 19], [30, 31, 28, 29, 26, 27, 24, 25]],
        ),
    ],
)  # fmt: skip
def test_swizzled_shared(parameters, expected):
    encoding = SwizzledSharedEncoding(*parameters, (1, 0))
    assert memory(encoding, (len(expected), len(expected[0]))) == expected


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            (1, 1, 2),
            [[0, 1, 2, 3], [5, 4, 7, 6], [9, 8, 11, 10], [12, 13, 14, 15], [16, 17, 18, 19],
             [21, 20, 23, 22], [25, 24, 27, 26], [28, 29, 30, 31]],
        ),
        (
            (1, 2, 2),
            [[0, 1, 2, 3], [4, 5, 6, 7], [9, 8, 11, 10], [13, 12, 15, 14], [17, 16, 19, 18],
             [21, 20, 23, 22], [24, 25, 26, 27], [28, 29, 30, 31]],
        ),
        (
            (1, 1, 4),
            [[0, 1, 2, 3], [5, 4, 7, 6], [10, 11, 8, 9], [15, 14, 13, 12], [17, 16, 19, 18],
             [20, 21, 22, 23], [27, 26, 25, 24], [30, 31, 28, 29]],
        ),
    ],
)  # fmt: skip
def test_amd_rotating_shared(parameters, expected):
    encoding = AmdRotatingSharedEncoding(*parameters, (1, 0))
    assert memory(encoding, (8, 4)) == expected
    assert parse_encoding(str(encoding)) == encoding


@pytest.mark.parametrize("vec", [1, 2])
@pytest.mark.parametrize("per_phase", [1, 2, 4])
@pytest.mark.parametrize("max_phase", [1, 2, 4, 8])
def test_amd_rotating_shared_follows_its_formula(vec, per_phase, max_phase):
    encoding = AmdRotatingSharedEncoding(vec, per_phase, max_phase, (0, 1))
    layout = to_linear_layout(encoding, (16, 64)).invert()
    for row in range(64):
        phase = row // per_phase % max_phase
        block = row // (per_phase * max_phase) % max_phase
        for column in range(16):
            moved = (column // vec ^ phase ^ block) % (16 // vec) * vec + column % vec
            assert layout.apply({"dim0": column, "dim1": row})["offset"] == moved + row * 16


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (((2, 2),), ["e0", "e1", "p", "p", "e2", "e3", "p", "p"]),
        (
            ((2, 1), (4, 2)),
            ["e0", "e1", "p", "e2", "e3", "p", "p", "p", "e4", "e5", "p", "e6", "e7", "p", "p",
             "p"],
        ),
    ],
)  # fmt: skip
def test_padded_shared(pairs, expected):
    layout = identity("offset", (8,), (0,)) * block_dim(1)
    encoding = PaddedSharedEncoding(*zip(*pairs, strict=True), layout)
    drawn = ["p"] * (encoding.padded_offset(7) + 1)
    for element in range(8):
        drawn[encoding.padded_offset(element)] = f"e{element}"
    assert drawn[: len(expected)] == expected[: len(drawn)]


@pytest.mark.parametrize("rest", ["", " {order = [1, 0], CTAsPerCGA = [1, 1]}"])
def test_padded_shared_of_older_texts_lacks_a_shape(rest):
    with pytest.raises(LayoutError, match=r"add order and shape, \{order = \[1, 0\], shape ="):
        parse_encoding(f"#ttg.padded_shared<[2:+1, 4:+2]{rest}>")


def test_padded_shared_remaps_rows():
    """Even rows first; and the short form of an identity is the long one."""
    text = (
        "#ttg.padded_shared<[16:+1] "
        "{offset = [[0, 1], [0, 2], [2, 0], [4, 0], [1, 0]], block = []}>"
    )
    encoding = parse_encoding(text)
    places = [tuple(encoding.layout.apply({"offset": i, "block": 0}).values()) for i in range(32)]
    rows = [row for row, column in places if column == 0]
    assert rows == [0, 2, 4, 6, 1, 3, 5, 7]
    assert encoding.padded_offset(16) == 17
    short = "#ttg.padded_shared<[2:+2] {order = [1, 0], shape = [16, 32]}>"
    long = (
        "#ttg.padded_shared<[2:+2] {offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], "
        "[2, 0], [4, 0], [8, 0]], block = []}>"
    )
    assert parse_encoding(short) == parse_encoding(long)
    assert str(parse_encoding(long)) == short


def test_a_layout_smaller_and_larger_than_the_tensor():
    """4x4 threads on a 2x8 tensor: rows are shared, columns wrap around."""
    threads = BlockedEncoding((1, 1), (4, 4), (1, 1), (1, 0))
    found = owners(threads, (2, 8))
    for row in range(2):
        for column in range(8):
            first = 4 * row + column % 4
            assert found[0, (row, column)] == {first, first + 8}


BLOCKED = ((2, 2), (8, 4), (1, 2), (1, 0))


def blocked_row(row, columns):
    return [32 * (x // 8 % 2) + 4 * (row // 2 % 8) + x % 8 // 2 for x in range(columns)]


def test_blocked():
    encoding = BlockedEncoding(*BLOCKED)
    small = rows_of(encoding, (16, 16))
    assert small[0] == [0, 0, 1, 1, 2, 2, 3, 3, 32, 32, 33, 33, 34, 34, 35, 35]
    assert small[3][:8] == [4, 4, 5, 5, 6, 6, 7, 7]
    assert small[15] == [28, 28, 29, 29, 30, 30, 31, 31, 60, 60, 61, 61, 62, 62, 63, 63]
    assert rows_of(encoding, (32, 32)) == [blocked_row(y, 32) for y in range(32)]


@pytest.mark.parametrize("spelling", ["bases", "split"])
def test_blocked_over_four_blocks(spelling):
    """Each of 2x2 blocks has a quarter of the tensor."""
    if spelling == "bases":
        encoding = BlockedEncoding(*BLOCKED, cga_layout=((0, 1), (1, 0)))
    else:
        encoding = parse_encoding(
            "#ttg.blocked<{sizePerThread = [2, 2], threadsPerWarp = [8, 4], warpsPerCTA = [1, 2], "
            "order = [1, 0], CTAsPerCGA = [2, 2], CTASplitNum = [2, 2], CTAOrder = [1, 0]}>"
        )
    found = owners(encoding, (32, 32))
    for (_, (row, column)), threads in found.items():
        assert threads == {blocked_row(row % 16, 16)[column % 16]}
    quarter = {block: {place for b, place in found if b == block} for block in range(4)}
    assert quarter[1] == {(y, x) for y in range(16) for x in range(16, 32)}
    assert quarter[2] == {(y, x) for y in range(16, 32) for x in range(16)}


@pytest.mark.parametrize(
    ("ctas", "split", "pieces"),
    [((1, 2), (1, 2), [(0, 0), (0, 64)]), ((1, 2), (1, 1), [(0, 0), (0, 0)])],
)
def test_blocks_split_or_share(ctas, split, pieces):
    bases = split_blocks(ctas, split, (1, 0))
    encoding = BlockedEncoding((1, 1), (1, 32), (1, 1), (1, 0), bases)
    layout = to_linear_layout(encoding, (64, 128))
    zero = {"register": 0, "lane": 0, "warp": 0}
    assert [tuple(layout.apply({**zero, "block": b}).values()) for b in range(2)] == pieces


def test_slice():
    parent = BlockedEncoding((1, 1), (4, 4), (1, 1), (1, 0))
    columns = owners(SliceEncoding(0, parent), (8,))
    rows = owners(SliceEncoding(1, parent), (8,))
    for i in range(8):
        assert columns[0, (i,)] == {i % 4, i % 4 + 4, i % 4 + 8, i % 4 + 12}
        assert rows[0, (i,)] == {4 * (i % 4) + j for j in range(4)}


def test_linear():
    text = (
        "#ttg.linear<{register = [[0, 1], [8, 0], [0, 8], [64, 0]], "
        "lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]], block = []}>"
    )
    encoding = parse_encoding(text)
    assert isinstance(encoding, LinearEncoding)
    assert str(encoding) == text
    assert list(encoding.layout.out_dims.values()) == [128, 16]


@pytest.mark.parametrize(("size", "shape"), [(32, (32, 64)), (16, (16, 32))])
def test_mfma(size, shape):
    """Runs of 4 rows; a 32x32 tile takes 2 runs of lanes and starts over, a 16x16 tile 4 runs."""
    encoding = AmdMfmaEncoding(3, (1, 2), (size, size, 16), False)
    expected = [
        [64 * (x // size) + size * (y // 4 % (64 // size)) + x % size for x in range(shape[1])]
        for y in range(shape[0])
    ]
    assert rows_of(encoding, shape) == expected


def test_mfma_of_older_texts():
    text = ("#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32],"
            " isTransposed = false%s}>")
    encoding = parse_encoding(text % ", elementType = f32")
    assert encoding == parse_encoding(text % "") == AmdMfmaEncoding(3, (2, 2), (32, 32), False)
    assert str(encoding) == text % ""
    assert parse_encoding((text % "").replace(
        "instrShape = [32, 32]", "MDim = 32, NDim = 32")) == encoding
    with pytest.raises(LayoutError, match="column 15: expected NDim"):
        parse_encoding((text % "").replace("instrShape = [32, 32]", "MDim = 32"))


def test_mfma_4x4_is_held_by_16_lanes():
    found = owners(AmdMfmaEncoding(2, (2, 2), (4, 4, 4), False), (8, 8))
    for row in range(4):
        for column in range(4):
            assert found[0, (row, column)] == set(range(column, 64, 4))
    assert {len(threads) for threads in found.values()} == {16}


@pytest.mark.parametrize(
    ("tiles", "expected"),
    [
        ((1, 1), ["0101", "2323", "0101", "2323"]),
        ((2, 2), ["0011", "0011", "2233", "2233"]),
    ],
)
def test_mfma_tiles_per_warp(tiles, expected):
    encoding = AmdMfmaEncoding(3, (2, 2), (16, 16, 16), False, (), tiles)
    rows = rows_of(encoding, (64, 64))
    drawn = ["".join(str(rows[y][x] // 64) for x in range(0, 64, 16)) for y in range(0, 64, 16)]
    assert drawn == expected


def wmma(version, transposed, registers=(), warps=((0, 1), (1, 0))):
    tiles = LinearLayout({"register": registers, "warp": warps}, ["dim0", "dim1"])
    k_size = 32 if version == 3 else 16
    return AmdWmmaEncoding(version, transposed, tiles, (), (16, 16, k_size))


@pytest.mark.parametrize(
    ("version", "transposed", "lane"),
    [
        (1, False, lambda y, x: 16 * (y % 2) + x % 16),
        (2, False, lambda y, x: 16 * (y % 16 // 8) + x % 16),
        (2, True, lambda y, x: 16 * (x % 16 // 8) + y % 16),
        (3, False, lambda y, x: 16 * (y % 16 // 8) + x % 16),
    ],
)
def test_wmma(version, transposed, lane):
    encoding = wmma(version, transposed)
    rows = rows_of(encoding, (32, 32))
    for y in range(32):
        for x in range(32):
            warp = y // 16 * 2 + x // 16
            assert rows[y][x] == 32 * warp + lane(y, x)


@pytest.mark.parametrize(("warps", "expected"), [
    ("[2, 2]", ["0101", "2323", "0101", "2323"]), ("[4, 1]", ["0000", "1111", "2222", "3333"])])
def test_wmma_of_older_texts(warps, expected):
    encoding = parse_encoding(
        f"#ttg.amd_wmma<{{version = 2, isTranspose = false, warpsPerCTA = {warps}}}>")
    rows = rows_of(encoding, (64, 64))
    drawn = ["".join(str(rows[y][x] // 32) for x in range(0, 64, 16)) for y in range(0, 64, 16)]
    assert drawn == expected


@pytest.mark.parametrize(
    ("registers", "warps", "expected"),
    [
        ((), ((0, 1), (1, 0)), ["0101", "2323", "0101", "2323"]),
        (((0, 1), (1, 0)), ((0, 2), (2, 0)), ["0011", "0011", "2233", "2233"]),
        (((1, 0), (0, 1)), ((0, 2), (2, 0)), ["0011", "0011", "2233", "2233"]),
    ],
)
def test_wmma_cta_layout(registers, warps, expected):
    rows = rows_of(wmma(2, False, registers, warps), (64, 64))
    drawn = ["".join(str(rows[y][x] // 32) for x in range(0, 64, 16)) for y in range(0, 64, 16)]
    assert drawn == expected


def test_nvidia_version_2():
    rows = rows_of(NvidiaMmaEncoding(2, 0, (2, 2), (16, 8)), (32, 16))
    for y in range(16):
        assert rows[y][:8] == [4 * (y % 8) + x // 2 for x in range(8)]
    assert [rows[y][x] // 32 for y in (0, 16) for x in (0, 8)] == [0, 1, 2, 3]


def test_nvidia_version_1_is_gone():
    with pytest.raises(LayoutError, match="no longer part of Triton"):
        NvidiaMmaEncoding(1, 1, (2, 2), (16, 16))
