"""What cannot become tiles is refused."""

import pytest

from python.test.operations import operations
from triton_xe.errors import UnsupportedError
from triton_xe.tools.commands.opt import transformed

MODULE = """
#dpas = #xe.dpas<{{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2, \
threadsPerWarp = 16, warpsPerCTA = [2, 2], repCluster = {cluster}}}>
#a = #ttg.dot_op<{{opIdx = 0, parent = #dpas, kWidth = 1}}>
#b = #ttg.dot_op<{{opIdx = 1, parent = #dpas, kWidth = 2}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, \
"ttg.threads-per-warp" = 16 : i32, ttg.target = "xpu:bmg"}} {{
tt.func public @f(%a: tensor<32x32xf16, #a>, %b: tensor<32x32xf16, #b>, \
%c: tensor<32x32xf32, #dpas>) -> tensor<32x32xf32, #dpas> {{
  %d = tt.dot %a, %b, %c : tensor<32x32xf16, #a> * tensor<32x32xf16, #b> -> tensor<32x32xf32, #dpas>
  tt.return %d : tensor<32x32xf32, #dpas>
}}
}}
"""


def test_a_warp_with_several_rectangles_is_refused():
    """Its registers are in the order of its clusters, which is not that of one tile."""
    tiles = transformed(MODULE.format(cluster="[2, 1]"), "convert-to-xetile")
    assert "xetile.tile_mma" in operations(tiles)
    with pytest.raises(UnsupportedError, match="several rectangles"):
        transformed(MODULE.format(cluster="[1, 1]"), "convert-to-xetile")
