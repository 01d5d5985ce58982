"""`triton-xe layout ATTR -t TYPE`: the owner of each element, as text or as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_xe.errors import LayoutError
from triton_xe.layout import Encoding, to_linear_layout
from triton_xe.layout.views import hardware_view, plain, tensor_view
from triton_xe.tools.tensor_arguments import parse_tensor_type, read_encoding
from triton_xe.tools.terminal import painted, wants_colour

HELP = "show which lane and register holds each element"
EPILOG = """\
example:
  triton-xe layout "#ttg.dot_op<{opIdx = 0, parent = #xe.dpas<{repeatCount = 8, systolicDepth = 8,
      executionSize = 16, opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 4],
      repCluster = [4, 2]}>, kWidth = 1}>" -t 'tensor<256x32xf16>' --hw-view --warp 0
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("encoding", metavar="ATTR", help="layout attribute, as in a ttgir file")
    parser.add_argument("-t", "--type", required=True, help="tensor type: tensor<256x32xf16>")
    parser.add_argument("--file", type=Path, help="ttgir file whose #aliases ATTR may use")
    parser.add_argument("--hw-view", action="store_true",
                        help="by warp, lane and register instead of by element")  # fmt: skip
    parser.add_argument("--bases", action="store_true", help="print the linear layout itself")
    parser.add_argument("--warp", type=int, action="append",
                        help="with --hw-view: only this warp (may be repeated)")  # fmt: skip
    parser.add_argument("--svg", type=Path, help="draw into this file")
    parser.add_argument("--html", type=Path, help="write a page that shows the owner on hover")


def run(arguments: argparse.Namespace) -> int:
    """Print the requested view; for a picture, print only its path."""
    shape, bits = parse_tensor_type(arguments.type)
    encoding = read_encoding(arguments.encoding, arguments.file)
    if arguments.svg or arguments.html:
        return draw(arguments, encoding, shape, bits)
    layout = to_linear_layout(encoding, shape)
    paint = painted if wants_colour() else plain
    if arguments.bases:
        print(layout)
    elif arguments.hw_view:
        check_warps(arguments.warp, layout.in_dims.get("warp", 1))
        print(hardware_view(layout, arguments.warp, paint))
    else:
        print(tensor_view(layout, paint))
    return 0


def draw(
    arguments: argparse.Namespace, encoding: Encoding, shape: tuple[int, ...], bits: int
) -> int:
    from triton_xe.tools.layout_page import write_html
    from triton_xe.tools.layout_picture import write_svg

    for path, write in ((arguments.svg, write_svg), (arguments.html, write_html)):
        if path:
            write(encoding, shape, bits, path)
            print(f"wrote {path}")
    return 0


def check_warps(warps: list[int] | None, n_warps: int) -> None:
    for warp in warps or ():
        if not 0 <= warp < n_warps:
            raise LayoutError(f"there is no warp {warp}; this layout has {n_warps}")
