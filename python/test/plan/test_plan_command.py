"""`triton-xe plan`, the text drawing and the SVG picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from triton_xe.hardware.target import target
from triton_xe.layout import parse_encoding, to_linear_layout
from triton_xe.plan import (
    BlockLoadPlan,
    BlockStorePlan,
    SurfaceFacts,
    fragment_of,
    plan_block_load,
    plan_block_store,
)
from triton_xe.plan.drawing import describe, draw_plan
from triton_xe.plan.svg import plan_svg
from triton_xe.tools.cli import main

DPAS = (
    "#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, "
    "threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>"
)
A = f"#ttg.dot_op<{{opIdx = 0, parent = {DPAS}, kWidth = 1}}>"
B = f"#ttg.dot_op<{{opIdx = 1, parent = {DPAS}, kWidth = 2}}>"


def load(text: str, shape: tuple[int, int], contiguous_dim: int = 1) -> BlockLoadPlan:
    encoding = parse_encoding(text)
    plan = plan_block_load(
        to_linear_layout(encoding, shape),
        SurfaceFacts(contiguous_dim),
        16,
        target("bmg"),
        fragment=fragment_of(encoding, 16),
    )
    assert isinstance(plan, BlockLoadPlan)
    return plan


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


def test_drawing_of_b() -> None:
    """Two messages of two blocks each, and the columns of the other warps between them."""
    expected = """\
      x=0        16         32   128        144        160  256
y=0   +----------+----------+    +----------+----------+
      | #0       : #0       |    | #1       : #1       |
      | e0..15   : e16..31  |    | e0..15   : e16..31  |
32    +----------+----------+    +----------+----------+"""
    assert draw_plan(load(B, (32, 256))) == expected


def test_drawing_of_a() -> None:
    expected = """\
      x=0        16         32
y=0   +----------+----------+
      | #0       : #0       |
      | e0..31   : e32..63  |
32    +----------+----------+
256"""
    assert draw_plan(load(A, (256, 32))) == expected


def test_tall_drawings_are_cut() -> None:
    layout = to_linear_layout(parse_encoding(DPAS.replace("[8, 4]", "[1, 4]")), (256, 64))
    plan = plan_block_store(layout, SurfaceFacts(), 32, target("bmg"))
    assert isinstance(plan, BlockStorePlan)
    lines = draw_plan(plan).splitlines()
    assert lines[-1].strip() == "... 20 more rows of messages"
    assert len(lines) == 2 + 12 * 3 + 1


def test_one_line() -> None:
    assert describe(load(B, (32, 256))) == (
        "load d16 16x32 v2 vnni -> <32 x i32>: 2 messages of 2048 bytes, 32 registers each (bmg)"
    )


def test_command_prints_steps_messages_and_guards(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, B, "-t", "tensor<32x256xf16>", "--pitch", "8192")
    assert out.startswith("Block load tile layout:\n - offset=1 -> (0, 1)\n")
    assert " - load=1 -> (128, 0)\nwhere out dims are: [dim0 (size 256), dim1 (size 32)]" in out
    assert "  1  load     16     16      32       2  vnni           128      0   2048" in out
    assert "every operand is a run of a message's elements: nothing is moved" in out
    assert "  base is a multiple of 64 bytes\n" in out
    assert "pitch is a multiple" not in out


@pytest.mark.parametrize(("name", "product"), [
    ("b70", "Arc Pro B70"), ("cri", "Crescent Island (assumed rates)")])
def test_predicted_times_name_the_product(
    name: str, product: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "512x512x512", "-t", "f16", "--target", name]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"predicted on {product}")


def test_transposed_names_the_alternative(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, B, "-t", "tensor<32x256xf16>", "--transposed")
    assert out.endswith(
        "with --objective instructions: 8 messages d32 8x16 v1 transpose, 0 moves\n"
    )
    out = run(capsys, B, "-t", "tensor<32x256xf16>", "--transposed", "--objective", "instructions")
    assert "load d32 8x16 v1 transpose -> <8 x i32>: 8 messages" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, A, "-t", "tensor<256x32xf16>", "--target", "pvc", "--json"))
    assert (data["target"], data["width"], data["height"], data["blocks"]) == ("pvc", 16, 32, 2)
    assert data["messages"] == [{"x": 0, "y": 0}]
    assert data["steps"]["loads"]["bases"]["load"] == []
    assert data["steps"]["tile"]["out_dims"] == {"dim0": 8, "dim1": 16}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--target", "dg2"], "dg2 has no 2D block messages"),
        (["--pitch", "1001"], "pitch is not a multiple of 16 bytes; pad the tensor in memory"),
        (["--store", "--transposed"], "a store needs the lanes of a subgroup along the rows"),
    ],
)
def test_refusals_are_answers(
    capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    out = run(capsys, A, "-t", "tensor<256x32xf16>", *options)
    assert out.startswith("scalar gather: 64 accesses of i16 per lane, masked")
    assert reason in out


def test_aliases_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ttgir"
    file.write_text(f"#mma = {DPAS}\nmodule {{\n}}\n")
    text = "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 1}>"
    assert "16x32 v2" in run(capsys, text, "-t", "tensor<256x32xbf16>", "--file", str(file))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A, "-t", "tensor<256xf16"), "column 15: expected ', encoding' or '>', found the end"),
        ((A, "-t", "tensor<256x32xq7>"), "column 15: expected a size or an element type"),
        ((A[:-9], "-t", "tensor<256x32xf16>"), "column"),
    ],
)
def test_bad_text(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["plan", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_svg_shows_every_message_of_every_warp(tmp_path: Path) -> None:
    file = tmp_path / "b.svg"
    assert main(["plan", B, "-t", "tensor<32x256xf16>", "--svg", str(file)]) == 0
    root = ElementTree.fromstring(file.read_text())
    names = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    messages = [name for name in names if name.startswith("warp")]
    covered = set()
    for name in messages:
        x, y, width, height = map(
            int,
            re.fullmatch(r".*: x (\d+), y (\d+), (\d+) x (\d+)", name).groups(),  # type: ignore[union-attr]
        )
        covered |= {(x + dx, y + dy) for dx in range(width) for dy in range(height)}
    assert len(messages) == 8
    assert len(covered) == 32 * 256
    assert [name for name in names if name.startswith("operand")] == [
        "operand 0: e0..7",
        "operand 1: e16..23",
        "operand 2: e8..15",
        "operand 3: e24..31",
    ]


def test_svg_says_which_elements_interleave() -> None:
    picture = plan_svg(load(B, (32, 256), contiguous_dim=0))
    assert "operand 0: e0..14 by 2" in picture
    assert "64 register moves" in picture


def test_svg_of_a_gather_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.svg"
    arguments = [A, "-t", "tensor<256x32xf16>", "--target", "dg2", "--svg", str(file)]
    assert main(["plan", *arguments]) == 1
    assert "there are no 2D block messages to draw" in capsys.readouterr().err
    assert not file.exists()


def test_tiles_for_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    """Large products take the tiles of Intel's GEMMs; the registers of all fit."""
    lines = run(capsys, "4096x4096x4096", "-t", "f16", "--target", "pvc").splitlines()
    _, subgroup, _, *rest = lines[1].split()
    assert [subgroup, *rest[:5]] == ["32x64", "240", "of", "256", "32", "3"]
    small = run(capsys, "8x4096x4096", "-t", "bf16").splitlines()[1:-1]
    assert all(row.split()[1].startswith("8x") for row in small)
    for row in (*lines[1:-1], *small):
        needed, _, held = row.split()[3:6]
        assert int(needed) <= int(held)
    assert main(["plan", "64x64x64", "-t", "f64"]) == 1
    assert "choose one of i8" in capsys.readouterr().err


def test_groups_of_instructions_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert "grouped by what one load of A and one of B feed" in run(
        capsys, A, "-t", "tensor<256x32xf16>", "--target", "pvc")
    wide = run(capsys, A.replace("[4, 2]", "[4, 4]"), "-t", "tensor<256x32xf16>", "--target", "pvc")
    assert "repCluster = [4, 4]: each has one rectangle of 32x64" in wide
    assert "Intel's backend repeats [4, 2]" in wide
