"""What divides numbers that are chosen or put together bit by bit."""

import pytest

from python.test.lowering.module_text import attributes
from triton_xe.dialects.tt.structure import ReturnOp
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.rewriting import all_of

MODULE = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4],
                         order = [0]}>
""" + attributes() + """ {
tt.func public @f(%a: i32 {tt.divisibility = 16 : i32}, %x: i32, %c: i1) -> TYPE {
  %c4 = arith.constant 4 : i32
  %b = arith.muli %x, %c4 : i32
  %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
  %zeros = arith.constant dense<0> : tensor<64xi32, #blocked>
  %cs = tt.splat %c : i1 -> tensor<64xi1, #blocked>
  %made = MADE
  tt.return %made : TYPE
}
}
"""
ROW = "tensor<64xi32, #blocked>"


@pytest.mark.parametrize(("made", "kind", "divides"), [
    ("arith.select %c, %a, %b : i32", "i32", 4),
    ("arith.maxsi %a, %b : i32", "i32", 4),
    ("arith.ori %a, %b : i32", "i32", 4),
    ("arith.andi %a, %b : i32", "i32", 16),
    (f"arith.select %cs, %range, %zeros : tensor<64xi1, #blocked>, {ROW}", ROW, 1),
])
def test_a_chosen_number_is_divided_by_what_divides_all(made: str, kind: str, divides: int) -> None:
    """Elements of a run are no multiples of what its first one is a multiple of."""
    module = import_ttgir(MODULE.replace("MADE", made).replace("TYPE", kind))
    (end,) = all_of(module, ReturnOp)
    assert Facts().of(end.operands[0]).divisibility == (divides,)
