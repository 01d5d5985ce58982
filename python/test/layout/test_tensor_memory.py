"""Tensor memory and Gluon's marks: text, mistakes, views, and what libtriton does not tell."""

import pytest

from triton_xe.errors import LayoutError
from triton_xe.layout import TensorMemoryEncoding, parse_encoding, to_linear_layout
from triton_xe.layout.views import hardware_view, tensor_view
from triton_xe.tools.layout_picture import make_picture

PLAIN = "#ttng.tensor_memory_encoding<blockM = 64, blockN = 32, colStride = 1>"
SCALES = "#ttng.tensor_memory_scales_encoding<CGALayout = [[1, 0]], blockRepOrder = kThenMn>"
MARKS = ["#ttng.tensor_memory", "#gluon.auto_encoding", "#gluon.coalesced_encoding"]


@pytest.mark.parametrize("text", [PLAIN, SCALES, "#ttng.tensor_memory_scales_encoding<>", *MARKS])
def test_text_survives(text):
    assert str(parse_encoding(text)) == text


@pytest.mark.parametrize("text", MARKS)
def test_marks_have_no_linear_layout(text):
    with pytest.raises(LayoutError, match=f"^{text} (names a memory|is no layout yet)"):
        to_linear_layout(parse_encoding(text), (16, 16))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAIN.replace("64", "32"), "column 1: .* blockM must be 64 or 128, got 32"),
        (PLAIN.replace("= 1>", "= 3>"), "colStride must be 1, 2 or 4, got 3"),
        (PLAIN.replace("32", "24"), "blockN .* must be powers of two"),
        (PLAIN.replace(">", ", twoCTAs = true>"), "twoCTAs needs \\[1, 0\\] as the first basis"),
        (PLAIN.replace("= 1>", "= 2, fp4Padded = true>"), "fp4Padded needs colStride = 1"),
        (PLAIN.replace(", blockN = 32", ""), "expected blockN of #ttng.tensor_memory_encoding"),
        (SCALES.replace("kThenMn", "kThenN"), "column 75: expected mnThenK or kThenMn for"),
        (SCALES.replace("kThenMn", "3"), "column 75: expected mnThenK or kThenMn for"),
        ("#gluon.auto_encoding<{x = 1}>", "expected no entry 'x'"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(LayoutError, match=message):
        parse_encoding(text)


@pytest.mark.parametrize("shape", [(32, 64), (64, 32, 2)])
def test_shapes_that_do_not_fit(shape):
    with pytest.raises(LayoutError, match=r"less than blockM 64|has rank 2"):
        to_linear_layout(parse_encoding(PLAIN), shape)


def test_blocks_that_would_get_nothing():
    with pytest.raises(LayoutError, match=r"\[256, 1\] cannot be split over \[1, 2\] blocks"):
        to_linear_layout(TensorMemoryEncoding(128, 32, 1, ((0, 1),)), (256, 1))


def test_two_ctas_of_64_rows_hold_their_right_half_in_the_upper_rows():
    encoding = TensorMemoryEncoding(64, 32, 1, ((1, 0),), two_ctas=True)
    layout = to_linear_layout(encoding, (128, 32))
    assert layout.bases["row"][-1] == (0, 16)
    assert layout.bases["block"] == ((64, 0),)
    assert layout.apply({"row": 65, "col": 3, "block": 1}) == {"dim0": 65, "dim1": 19}


def test_views_count_rows_and_columns():
    layout = to_linear_layout(parse_encoding(PLAIN), (64, 64))
    lines = hardware_view(layout).splitlines()
    assert lines[16 * 33].startswith("Block: 0: Row: 16:")
    assert lines[16 * 33 + 2] == "Col: 1 -> ( 0,33)"
    assert tensor_view(layout).startswith("[[(0:  0: 0),(0:  0: 1)")
    picture = make_picture(parse_encoding(PLAIN), (64, 64), 32)
    assert picture.labels[16][33] == "48:1"
    assert picture.group[16][33] == 1
