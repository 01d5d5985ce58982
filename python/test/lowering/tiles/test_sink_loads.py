"""Reads move to their uses where a block reads more than its registers can hold, else they stay."""

import pytest
from xdsl.context import Context

from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.tiles.convert_to_xetile import ConvertToXeTilePass
from triton_xe.lowering.tiles.convert_xetile_to_xegpu import ConvertXeTileToXeGPUPass
from triton_xe.lowering.tiles.sink_loads import SinkLoadsPass

PASSES = (ConvertToXeTilePass(num_stages=1), ConvertXeTileToXeGPUPass(), SinkLoadsPass())
TEXT = """
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2,
                  threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [1, ACROSS]}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "xpu:bmg",
                   "ttg.threads-per-warp" = 16 : i32} {
tt.func public @f(%s: !tt.ptr<f16>, %t: !tt.ptr<f16>) -> tensor<8xNxf32, #dpas> {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<8xNxf32, #dpas>
  %a0 = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0]
      : !tt.ptr<f16> -> !xe.cursor<f16>
  %b0 = xe.cursor %t aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0]
      : !tt.ptr<f16> -> !xe.cursor<f16>
  %a = xe.block_load %a0 : !xe.cursor<f16> -> tensor<8x64xf16, #dot_a>
  %b = xe.block_load %b0 : !xe.cursor<f16> -> tensor<64xNxf16, #dot_b>
  %d = tt.dot %a, %b, %zero
      : tensor<8x64xf16, #dot_a> * tensor<64xNxf16, #dot_b> -> tensor<8xNxf32, #dpas>
  tt.return %d : tensor<8xNxf32, #dpas>
}
}
"""


STORED = """
#dpas = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2,
                  threadsPerWarp = 16, warpsPerCTA = [1, 1], repCluster = [ROWS, 4]}>
#dot_a = #ttg.dot_op<{opIdx = 0, parent = #dpas, kWidth = 1}>
#dot_b = #ttg.dot_op<{opIdx = 1, parent = #dpas, kWidth = 2}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "xpu:bmg",
                   "ttg.threads-per-warp" = 16 : i32} {
tt.func public @f(%s: !tt.ptr<f32>, %a: tensor<Mx32xf16, #dot_a>, %b: tensor<32x64xf16, #dot_b>) {
  %c0 = arith.constant 0 : i32
  %c512 = arith.constant 512 : i32
  %zero = arith.constant dense<0.0> : tensor<Mx64xf32, #dpas>
  %d = tt.dot %a, %b, %zero
      : tensor<Mx32xf16, #dot_a> * tensor<32x64xf16, #dot_b> -> tensor<Mx64xf32, #dpas>
  %to = xe.cursor %s aligned 64 : i32 height %c512 width %c512 pitch %c512 at [%c0, %c0]
      : !tt.ptr<f32> -> !xe.cursor<f32>
  xe.block_store %d, %to : tensor<Mx64xf32, #dpas>, !xe.cursor<f32>
  tt.return
}
}
"""


@pytest.mark.parametrize(("rows", "late"), [(32, False), (64, True)])
def test_products_that_fill_the_registers_are_computed_at_their_use(rows, late):
    text = STORED.replace("ROWS", str(rows // 8)).replace("Mx", f"{rows}x")
    module = import_ttgir(text)
    for step in PASSES:
        step.apply(Context(), module)
    module.verify()
    products = [op for op in module.walk() if op.name == "xegpu.dpas"]
    assert len(products) == rows // 8 * 4 * 2
    assert {op.at_use is not None for op in products} == {late}


@pytest.mark.parametrize(("columns", "moved"), [(32, False), (128, True)])
def test_only_large_reads_move(columns, moved):
    text = TEXT.replace("ACROSS", str(columns // 16)).replace("xN", f"x{columns}")
    module = import_ttgir(text)
    for step in PASSES:
        step.apply(Context(), module)
    module.verify()
    reads = [op for op in module.walk() if op.name == "xegpu.load_nd"]
    assert {op.at_use is not None for op in reads} == {moved}
    names = [op.name for op in module.walk() if op.name in ("xegpu.load_nd", "xegpu.dpas")]
    last_load = len(names) - 1 - names[::-1].index("xegpu.load_nd")
    assert (last_load > names.index("xegpu.dpas")) == moved
    assert names.count("xegpu.dpas") == 4 * columns // 16
