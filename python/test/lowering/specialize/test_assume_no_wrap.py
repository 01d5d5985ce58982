"""Index arithmetic is assumed not to wrap where accesses gain from it, checked at launch."""

import pytest
from xdsl.context import Context

from python.test.filecheck import check_text
from python.test.lowering.module_text import module_of
from python.test.operations import operations
from triton_xe.conditions import Table
from triton_xe.dialects.tt.memory import StoreOp
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.module_facts import CompileOptions, launch_conditions_of, set_options
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.specialize.assume_indices import AssumeIndicesPass

BODY = """
%r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, #row>
%ns = tt.splat %n : i32 -> tensor<64xi32, #row>
%i = arith.addi %r, %ns : tensor<64xi32, #row>
{index}
%base = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #row>
%ptrs = tt.addptr %base, %at : tensor<64x!tt.ptr<f32>, #row>, tensor<64xi32, #row>
%v = arith.constant dense<0.0> : tensor<64xf32, #row>
tt.store %ptrs, %v : tensor<64x!tt.ptr<f32>, #row>
"""
ROW = ("#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [16], warpsPerCTA = [1], "
       "order = [0]}>")
SIXTEEN = "%c16 = arith.constant dense<16> : tensor<64xi32, #row>\n"
SUM = "%c0 = arith.constant dense<3> : tensor<64xi32, #row>\n" \
      "%at = arith.addi %i, %c0 : tensor<64xi32, #row>"


def assumed(index, argument="%n: i32"):
    """The module after the pass, the fact of the stored addresses, and the launch's table."""
    body = BODY.format(index=index).replace("#row", ROW)
    module = module_of(body, f"%p: !tt.ptr<f32>, {argument}")
    set_options(module, CompileOptions(guards="launch"))
    AssumeIndicesPass(rules=("assume-no-wrap",)).apply(Context(), module)
    (store,) = all_of(module, StoreOp)
    return module, Facts().of(store.ptr), Table.read(launch_conditions_of(module))


def failing(table, n):
    return table.failing([0, n], (1, 1, 1))


@pytest.mark.parametrize(("n", "fails"), [
    (0, False), (5, False), (-7, False), (2**31 - 67, False), (2**31 - 66, True),
    (2**31 - 1, True), (-(2**31), False),
])
def test_sums_count_up_unless_they_pass_the_largest_number(n, fails):
    module, fact, table = assumed(SUM)
    check_text(str(module), "CHECK: nsw")
    assert fact.contiguity == (64,)
    assert bool(failing(table, n)) is fails


@pytest.mark.parametrize(("n", "fails"), [(0, False), (5, False), (-1, True), (2**31 - 1, True)])
def test_quotients_are_those_of_natural_numbers(n, fails):
    module, fact, table = assumed(
        SIXTEEN + "%at = arith.divsi %i, %c16 : tensor<64xi32, #row>",
        "%n: i32 {tt.divisibility = 16 : i32}")
    assert "arith.divui" in operations(str(module))
    assert fact.constancy == (16,)
    assert bool(failing(table, n)) is fails


def test_what_gains_nothing_is_left_alone():
    """Runs that begin at multiples of their length do not wrap around."""
    module, fact, table = assumed(
        "%at = arith.addi %i, %i : tensor<64xi32, #row>")
    check_text(str(module), "CHECK-NOT: nsw")
    assert not table.steps
    assert fact.contiguity == (1,)


def test_what_no_launch_knows_is_not_assumed():
    _, fact, table = assumed(
        "%q = tt.load %p : !tt.ptr<f32>\n%f = arith.fptosi %q : f32 to i32\n"
        "%fs = tt.splat %f : i32 -> tensor<64xi32, #row>\n"
        "%at = arith.addi %r, %fs : tensor<64xi32, #row>")
    assert not table.steps
    assert fact.contiguity == (1,)
