"""Walks over modules, and what reads may move past."""

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, i1, i32
from xdsl.ir import Block, Region

from python.test.lowering.module_text import attributes
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.rewriting import all_of, below, orders_memory


def number(value):
    return arith.ConstantOp.from_int_and_width(value, i32)


def test_operations_below_another_come_in_the_order_of_a_walk():
    condition = arith.ConstantOp.from_int_and_width(1, i1)
    inner = scf.IfOp(condition, [], [number(3), scf.YieldOp()], [number(4), scf.YieldOp()])
    outer = scf.IfOp(condition, [], [number(1), inner, number(2), scf.YieldOp()], [scf.YieldOp()])
    module = ModuleOp(Region([Block([condition, outer, number(5)])]))
    assert below(module) == list(module.walk())
    assert below(inner) == list(inner.walk())
    numbers = [op.value.value.data for op in all_of(module, arith.ConstantOp)]
    assert [abs(n) for n in numbers] == [1, 1, 3, 4, 2, 5]


REDUCTION = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 16], warpsPerCTA = [4, 1],
                         order = [1, 0]}>
""" + attributes() + """ {
tt.func public @f(%x: tensor<64x64xf32, #blocked>) {
  %sum = "tt.reduce"(%x) <{axis = AXIS : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tt.reduce.return %c : f32
  }) : (tensor<64x64xf32, #blocked>) -> tensor<64xf32, #ttg.slice<{dim = AXIS, parent = #blocked}>>
  tt.return
}
}
"""


@pytest.mark.parametrize(("axis", "ordered"), [(0, True), (1, False)])
def test_reads_move_past_reductions_within_warps_alone(axis, ordered):
    """Others have a barrier, behind which another warp may write what is read."""
    (found,) = all_of(import_ttgir(REDUCTION.replace("AXIS", str(axis))), ReduceOp)
    assert orders_memory(found) == ordered
