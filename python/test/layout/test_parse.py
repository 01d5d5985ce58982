"""Bad attribute text: the column, what was expected, what was found."""

import pytest

from triton_xe.errors import LayoutError
from triton_xe.layout import (
    BlockedEncoding,
    GenericLinearEncoding,
    SharedMemorySpace,
    parse_encoding,
    read_aliases,
    to_linear_layout,
)

GOOD = (
    "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 8], warpsPerCTA = [1, 1], "
    "order = [1, 0]}>"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected an attribute such as #ttg.blocked<...>, found the end"),
        ("blocked", "column 1: expected an attribute such as #ttg.blocked<...>, found 'blocked'"),
        ("#ttg.bloked<{}>", "column 1: expected one of #ttg.blocked, "),
        ("#ttg.blocked", "expected sizePerThread of #ttg.blocked, found nothing"),
        (GOOD + ">", f"column {len(GOOD) + 1}: expected the end, found '>'"),
        (GOOD.replace("[2, 8]", "[2 8]"), "column 59: expected ',' or ']', found '8'"),
        (GOOD.replace("[2, 8]", "16"), "column 56: expected a list of numbers for threadsPerWarp"),
        (GOOD.replace("[2, 8]", "[true]"), "column 57: expected a number for threadsPerWarp"),
        (GOOD.replace("order", "sizePerThread"), "expected 'sizePerThread' only once"),
        (GOOD.replace("}", ", more = 1}"), "column 102: expected no entry 'more' in #ttg.blocked"),
        (GOOD.replace("[2, 8]", "[3, 8]"), "column 1: threadsPerWarp of #ttg.blocked must be pow"),
        (GOOD.replace("[1, 0]", "[1, 1]"), "column 1: order of #ttg.blocked must be a perm"),
        (GOOD.replace("= [1, 1],", "= [1, 1]; ", 1), "expected MLIR attribute text, found ';'"),
        (GOOD.replace(", order = [1, 0]", ""), "column 14: expected order of #ttg.blocked"),
        ("#ttg.slice<{dim = 0, parent = 3}>", "column 31: expected a layout attribute for parent"),
        ("#ttg.slice<{dim = 0, parent = #ttg.shared_memory}>", "expected a register layout for"),
        (f"#ttg.slice<{{dim = 2, parent = {GOOD}}}>", "dim is 2, the parent has rank 2"),
        (f"#ttg.dot_op<{{opIdx = 0, parent = {GOOD}, kWidth = 2}}>", "kWidth of #ttg.dot_op must"),
        ("#ttg.linear<{register = [[1, 0]], lane = [], warp = [], block = [[3, 0]]}>",
         "column 1: #ttg.linear must be a permutation"),
        ("#ttg.linear<{register = [], lane = [], warp = [], block = []}>",
         "expected at least one basis, to know the rank"),
        ("#ttg.padded_shared<{order = [0], shape = [4]}>", "'[interval:+padding, ...]'"),
        ("#ttg.padded_shared<[4:2] {order = [0], shape = [4]}>", "column 22: expected ':+'"),
        ("#ttg.shared_linear<{offset = [[1]]}>", "expected alignment of #ttg.shared_linear"),
        ("#ttg.swizzled_shared<{vec = 3, perPhase = 1, maxPhase = 1, order = [0]}>",
         "vec of #ttg.swizzled_shared must be powers of two, got [3]"),
    ],
)  # fmt: skip
def test_mistakes_have_a_column(text, message):
    with pytest.raises(LayoutError) as caught:
        parse_encoding(text)
    assert message in str(caught.value)


def test_the_column_counts_from_one():
    text = GOOD.replace("[2, 8]", "[2, x]")
    with pytest.raises(LayoutError, match=rf"^column {text.index('x') + 1}: expected a number"):
        parse_encoding(text)


def test_aliases_of_a_file():
    ttgir = f'#blocked = {GOOD}\n#loc = loc("x.py":1:2)\n#smem = #ttg.shared_memory\n'
    aliases = read_aliases(ttgir)
    assert parse_encoding("#blocked", aliases) == parse_encoding(GOOD)
    assert parse_encoding("#smem", aliases) == SharedMemorySpace()
    assert parse_encoding(" #ttg.slice<{parent = #blocked,dim=0}> ", aliases).rank == 1


def test_mistakes_inside_an_alias_name_it():
    aliases = {"#a": GOOD.replace("[2, 8]", "[2 8]"), "#b": "#b"}
    with pytest.raises(LayoutError, match="column 1: in #a: column 59: expected"):
        parse_encoding("#a", aliases)
    with pytest.raises(LayoutError, match="refers to itself"):
        parse_encoding("#b", aliases)


def test_the_older_spelling_of_blocks():
    """One block written out is no blocks."""
    old = GOOD.replace("}", ", CTAsPerCGA = [1, 1], CTASplitNum = [1, 1], CTAOrder = [1, 0]}")
    assert parse_encoding(old) == parse_encoding(GOOD)
    with pytest.raises(LayoutError, match="does not divide"):
        parse_encoding(old.replace("CTASplitNum = [1, 1]", "CTASplitNum = [2, 1]"))


def test_generic_linear_may_swizzle_warps():
    text = (
        "#ttg.generic_linear<{register = [[0, 1]], lane = [[0, 2], [1, 0]], warp = [[1, 2]], "
        "block = []}>"
    )
    encoding = parse_encoding(text)
    assert isinstance(encoding, GenericLinearEncoding)
    assert str(encoding) == text
    assert to_linear_layout(encoding, (2, 4)).bases["warp"] == ((1, 2),)
    with pytest.raises(LayoutError, match="a basis of lane may move along one dim only"):
        parse_encoding(text.replace("[1, 0]", "[1, 1]"))
    with pytest.raises(LayoutError, match="do not reach every output"):
        parse_encoding(text.replace("[0, 1]", "[0, 0]"))


def test_a_memory_space_is_no_layout():
    with pytest.raises(LayoutError, match="names a memory"):
        to_linear_layout(SharedMemorySpace(), (4,))


def test_shapes_are_checked():
    encoding = parse_encoding(GOOD)
    assert isinstance(encoding, BlockedEncoding)
    with pytest.raises(LayoutError, match="powers of two, got \\[3, 4\\]"):
        to_linear_layout(encoding, (3, 4))
