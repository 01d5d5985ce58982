"""Walks over modules."""

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, i1, i32
from xdsl.ir import Block, Region

from triton_xe.lowering.rewriting import all_of, below


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
