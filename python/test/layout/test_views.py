"""The text and pictures of layouts, and the commands that show them."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from triton_xe.layout import (
    BlockedEncoding,
    SwizzledSharedEncoding,
    parse_encoding,
    to_linear_layout,
)
from triton_xe.layout.views import hardware_view, tensor_view
from triton_xe.tools.cli import main
from triton_xe.tools.layout_picture import make_picture, rectangles, to_svg

DPAS = (
    "#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, "
    "threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>"
)
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [2, 2], warpsPerCTA = [2, 1], "
    "order = [1, 0]}>"
)


def test_hardware_view_of_two_blocks():
    encoding = BlockedEncoding((1, 2), (2, 2), (1, 2), (1, 0), ((0, 1),))
    assert (
        hardware_view(to_linear_layout(encoding, (2, 16)))
        == """\
Block0:
Warp0:
(0, 0), (0, 2), (1, 0), (1, 2)
(0, 1), (0, 3), (1, 1), (1, 3)
Warp1:
(0, 4), (0, 6), (1, 4), (1, 6)
(0, 5), (0, 7), (1, 5), (1, 7)
Block1:
Warp0:
(0, 8), (0,10), (1, 8), (1,10)
(0, 9), (0,11), (1, 9), (1,11)
Warp1:
(0,12), (0,14), (1,12), (1,14)
(0,13), (0,15), (1,13), (1,15)"""
    )


def test_tensor_view_with_copies():
    encoding = BlockedEncoding((1, 2), (4, 1), (2, 1), (1, 0))
    assert tensor_view(to_linear_layout(encoding, (2, 2))) == (
        "[[T0:0|T2:0|T4:0|T6:0, T0:1|T2:1|T4:1|T6:1]\n[ T1:0|T3:0|T5:0|T7:0, T1:1|T3:1|T5:1|T7:1]]"
    )


def test_tensor_view_of_three_dims():
    encoding = BlockedEncoding((1, 1, 2), (2, 2, 1), (1, 1, 1), (2, 1, 0))
    assert (
        tensor_view(to_linear_layout(encoding, (2, 2, 2)))
        == """\
[[[T0:0, T0:1]
[  T1:0, T1:1]]
[[ T2:0, T2:1]
[  T3:0, T3:1]]]"""
    )


def test_views_of_shared_memory():
    layout = to_linear_layout(SwizzledSharedEncoding(1, 1, 2, (1, 0)), (2, 2))
    assert hardware_view(layout) == (
        "Block: 0:\nOffset: 0 -> (0,0)\nOffset: 1 -> (0,1)\nOffset: 2 -> (1,1)\nOffset: 3 -> (1,0)"
    )
    assert tensor_view(layout) == "[[(0:0),(0:1)]\n[ (0:3),(0:2)]]"


def test_rectangles_cover_each_element_once():
    group = np.random.default_rng(1).integers(0, 3, (13, 17))
    painted = np.full(group.shape, -1)
    for row, height, column, width in rectangles(group):
        area = (slice(row, row + height), slice(column, column + width))
        assert (painted[area] == -1).all()
        painted[area] = group[row, column]
    assert (painted == group).all()


def test_picture_knows_the_owner():
    picture = make_picture(parse_encoding(BLOCKED), (4, 4), 16)
    assert picture.labels[1] == ["2:0", "2:1", "3:0", "3:1"]
    assert picture.group.tolist() == [[0] * 4, [0] * 4, [1] * 4, [1] * 4]
    banks = make_picture(parse_encoding(
        "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"),
        (2, 32), 16)  # fmt: skip
    assert banks.group[0].tolist() == [i // 2 for i in range(32)]


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [(DPAS, (256, 256), ["whole tensor", "15:63"]), (BLOCKED, (8, 16), ["each element", "warp 1"])],
)
def test_svg_is_well_formed_and_labelled(text, shape, expected):
    drawing = to_svg(parse_encoding(text), shape, 16)
    root = ElementTree.fromstring(drawing)
    words = " ".join(element.text or "" for element in root.iter())
    assert all(phrase in words for phrase in expected)
    assert len(drawing) < 1_000_000


def test_layout_command(capsys, tmp_path):
    source = tmp_path / "k.ttgir"
    source.write_text(f"#blocked = {BLOCKED}\n#mma = {DPAS}\nmodule {{}}\n")
    assert main(["layout", "#blocked", "-t", "tensor<4x4xf32>", "--file", str(source)]) == 0
    assert capsys.readouterr().out.startswith("[[T0:0, T0:1, T1:0, T1:1]\n")
    nested = "#ttg.slice<{dim = 1, parent = #mma}>"
    asked = ["layout", nested, "-t", "tensor<256xf32, #blocked>", "--file", str(source)]
    assert main([*asked, "--hw-view", "--warp", "4"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["Warp4:", ", ".join(["( 32)"] * 16)]
    assert main([*asked, "--hw-view", "--warp", "32"]) == 1
    assert "there is no warp 32; this layout has 32" in capsys.readouterr().err
    assert main([*asked, "--bases"]) == 0
    assert "where out dims are: [dim0 (size 256)]" in capsys.readouterr().out
    pictures = [str(tmp_path / "l.svg"), str(tmp_path / "l.html")]
    assert main([*asked, "--svg", pictures[0], "--html", pictures[1]]) == 0
    assert (tmp_path / "l.svg").read_text().startswith("<svg")
    page = (tmp_path / "l.html").read_text()
    data = json.loads(page.split("const layout = ")[1].split(";\n")[0])
    assert data["shape"] == [256]


def test_layout_command_refuses(capsys):
    assert main(["layout", BLOCKED, "-t", "vector<4xf32>"]) == 1
    assert "column 1: expected a tensor type such as" in capsys.readouterr().err
    assert main(["layout", BLOCKED, "-t", "tensor<4x4xfoo>"]) == 1
    assert "column 12: expected a size or an element type such as f16" in capsys.readouterr().err
    assert main(["layout", BLOCKED, "-t", "tensor<4xf32>"]) == 1
    assert "has rank 2, but the tensor shape is [4]" in capsys.readouterr().err
    assert main(["layout", BLOCKED[:-3], "-t", "tensor<4x4xf32>"]) == 1
    assert "expected ',' or ']', found the end" in capsys.readouterr().err


def test_convert_command(capsys):
    rows = str(BlockedEncoding((1, 4), (4, 1), (1, 1), (1, 0)))
    columns = str(BlockedEncoding((4, 1), (1, 4), (1, 1), (0, 1)))
    assert main(["convert", rows, columns, "-t", "tensor<4x4xf32>", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["shuffles"]) == ("lane shuffles and selects", 4)
    assert main(["convert", rows, columns, "-t", "tensor<4x4xf32>"]) == 0
    assert "4 xor shuffles, 16 selects per lane" in capsys.readouterr().out
    dot = f"#ttg.dot_op<{{opIdx = 0, parent = {DPAS}, kWidth = 1}}>"
    assert main(["convert", DPAS, dot, "-t", "tensor<256x64xf16>"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("through shared memory: an element's new warp differs from its old one")
    assert "no bank conflicts" in out
