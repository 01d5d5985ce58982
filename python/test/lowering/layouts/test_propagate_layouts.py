"""Conversions between two DPAS layouts come to rest: no rule undoes what another did."""

import pytest

from python.test.lowering.module_text import attributes
from triton_xe.hardware.target import target
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.layouts.propagate_layouts import propagate

TEXT = """
#a = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2,
               threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 2]}>
#b = #xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, opsPerChan = 2,
               threadsPerWarp = 16, warpsPerCTA = [4, 1], repCluster = [2, 4]}>
#rows_a = #ttg.slice<{dim = 1, parent = #a}>
#rows_b = #ttg.slice<{dim = 1, parent = #b}>
""" + attributes() + """ {
tt.func public @f(%r: tensor<64xf32, #rows_a>, %x: tensor<64x64xf32, #a>,
                  %y: tensor<64x64xf32, #b>) -> tensor<64x64xf32, #b> {
  BODY
  tt.return %d : tensor<64x64xf32, #b>
}
}
"""
OF_ROWS = """
  %s = ttg.convert_layout %r : tensor<64xf32, #rows_a> -> tensor<64xf32, #rows_b>
  %e = tt.expand_dims %s {axis = 1 : i32} : tensor<64xf32, #rows_b> -> tensor<64x1xf32, #b>
  %w = tt.broadcast %e : tensor<64x1xf32, #b> -> tensor<64x64xf32, #b>
  %d = arith.mulf %y, %w : tensor<64x64xf32, #b>
"""
OF_ELEMENTS = """
  %c = ttg.convert_layout %x : tensor<64x64xf32, #a> -> tensor<64x64xf32, #b>
  %d = arith.mulf %y, %c : tensor<64x64xf32, #b>
"""


@pytest.mark.parametrize("body", [OF_ROWS, OF_ELEMENTS])
def test_one_conversion_stays_where_it_converts_least(body):
    module = import_ttgir(TEXT.replace("BODY", body))
    (function,) = [op for op in module.walk() if op.name == "tt.func"]
    assert propagate(function, target("bmg")) < 5
    (op,) = [op for op in function.walk() if op.name == "ttg.convert_layout"]
    assert len(op.results[0].type.get_shape()) == (1 if body == OF_ROWS else 2)
