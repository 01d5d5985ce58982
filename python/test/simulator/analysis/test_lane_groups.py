"""Which neighbouring lanes step by constants although all lanes together do not."""

from __future__ import annotations

import pytest

from triton_xe.llvm import PTR
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.records import Operand
from triton_xe.runtime.simulator.analysis.lane_groups import LaneGroups
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis

P, S = "ptr addrspace(1)", "ptr addrspace(3)"
ROWS = """
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %row = lshr i32 %lane, 3
  %column = and i32 %lane, 7
  %quarter = lshr i32 %lane, 2
  %far = mul i32 %row, %n
  %farther = mul i32 %quarter, %n
  %lanes = mul i32 %lane, %n"""


def count(lines: str, nbytes: int = 4) -> int:
    text = f"""
@s = internal addrspace(3) global [4096 x i8] undef
define spir_kernel void @k({P} %a, {P} %b, i32 %n) {{
entry:{ROWS}
{lines}
  ret void
}}
declare i32 @_Z22get_sub_group_local_idv()"""
    module = parse_module(text)
    (kernel,) = module.kernels()
    shapes = ShapeAnalysis(module, 16)
    groups = LaneGroups(Facts(kernel), lambda x: shapes.of(kernel, x), 16)
    return groups.count(Operand(PTR, "%p"), nbytes)


def address(index: str) -> str:
    return f"  %p = getelementptr float, {P} %a, i32 {index}"


def wide(extension: str, add: str) -> str:
    """An address whose 32-bit index is a sum that is extended."""
    return f"""  %i = {add} i32 %far, %column
  %w = {extension} i32 %i to i64
  %p = getelementptr float, {P} %a, i64 %w"""


@pytest.mark.parametrize(("lines", "nbytes", "expected"), [
    ("  %i = add nsw i32 %far, %column\n" + address("%i"), 4, 8),
    ("  %i = add nsw i32 %far, %column\n" + address("%i"), 8, 1),
    ("  %c = shl nsw i32 %column, 1\n  %i = sub nsw i32 %c, %far\n" + address("%i"), 8, 8),
    ("  %i = add nsw i32 %farther, %column\n" + address("%i"), 4, 4),
    ("  %i = add nsw i32 %lanes, %column\n" + address("%i"), 4, 1),
    ("  %i = xor i32 %far, %column\n" + address("%i"), 4, 1),
    (f"""  %q = getelementptr i32, {P} %b, i32 %row
  %r = load i32, {P} %q
  %start = mul i32 %r, %n
  %i = add nsw i32 %start, %column
""" + address("%i"), 4, 8),
    (f"""  %q = getelementptr i32, {P} %b, i32 %row
  %r = load volatile i32, {P} %q
  %i = add nsw i32 %r, %column
""" + address("%i"), 4, 1),
    ("""  %w = alloca i32
  %r = load i32, ptr %w
  %i = add nsw i32 %r, %column
""" + address("%i"), 4, 1),
    ("""  %one = insertelement <2 x i32> poison, i32 %far, i32 0
  %both = shufflevector <2 x i32> %one, <2 x i32> %one, <2 x i32> zeroinitializer
  %sum = add nsw <2 x i32> %both, <i32 0, i32 5>
  %r = extractelement <2 x i32> %sum, i32 1
  %i = add nsw i32 %r, %column
""" + address("%i"), 4, 8),
    ("  %i = add i32 %far, %column\n" + address("%i"), 4, 1),
    (wide("sext", "add nsw"), 4, 8),
    (wide("sext", "add"), 4, 1),
    (wide("zext", "add nsw"), 4, 1),
    (wide("zext nneg", "add nsw"), 4, 8),
    (f"""  %i = add i32 %far, %column
  %at = getelementptr float, {S} @s, i32 %i
  %p = addrspacecast {S} %at to ptr""", 4, 8),
], ids=["rows", "another size", "two elements", "quarters", "each lane", "other bits",
        "loaded rows", "volatile", "private", "vectors", "sums that may wrap around",
        "extended", "extended, may wrap", "unsigned", "not negative", "shared memory"])
def test_lanes_of_a_group(lines: str, nbytes: int, expected: int) -> None:
    assert count(lines, nbytes) == expected


@pytest.mark.parametrize(("step", "expected"), [("%n", 8), ("%far", 8), ("%column", 1)])
def test_pointers_that_a_loop_moves(step: str, expected: int) -> None:
    assert count(f"""
  %i = add nsw i32 %far, %column
  %first = getelementptr float, {P} %a, i32 %i
  br label %again
again:
  %k = phi i32 [ 0, %entry ], [ %more, %again ]
  %p = phi {P} [ %first, %entry ], [ %next, %again ]
  %next = getelementptr float, {P} %p, i32 {step}
  %more = add nsw i32 %k, 1
  %c = icmp slt i32 %more, %n
  br i1 %c, label %again, label %end
end:""") == expected
