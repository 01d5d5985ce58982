"""Vectors of single elements are computed element by element, row after row, with the same bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_xe.llvm import Function
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.rewrites.late_loads import late_loads
from triton_xe.runtime.simulator.rewrites.split_vectors import split_vectors

P = "ptr addrspace(1)"
ROWS = 4


def made(name: str, elements: list[str]) -> list[str]:
    """A vector of elements, inserted one by one."""
    before, lines = "undef", []
    for k, element in enumerate(elements):
        lines.append(f"  %{name}{k} = insertelement <{len(elements)} x float> {before}, "
                     f"float {element}, i32 {k}")
        before = f"%{name}{k}"
    return lines


def sums_of_rows(operation: str, *, in_order: bool = False, whole: bool = False) -> str:
    """A quarter of what `operation` is of the two elements of each of four rows, all at once."""
    lines = ["  %lane = call i32 @_Z22get_sub_group_local_idv()"]
    for row in range(ROWS):
        lines += [f"  %i{row} = add i32 %lane, {16 * row}",
                  f"  %p{row} = getelementptr <2 x float>, {P} %a, i32 %i{row}",
                  f"  %v{row} = load <2 x float>, {P} %p{row}",
                  f"  %x{row} = extractelement <2 x float> %v{row}, i32 0",
                  f"  %y{row} = extractelement <2 x float> %v{row}, i32 1"]
    first = [f"%{'xy'[k % 2]}{k // 2}" if in_order else f"%x{k}" for k in range(ROWS)]
    lines += made("f", first) + made("g", [f"%y{row}" for row in range(ROWS)])
    lines.append(f"  %s = {operation.format('%f3', '%g3')}")
    for row in range(ROWS):
        lines += [f"  %e{row} = extractelement <4 x float> %s, i32 {row}",
                  f"  %d{row} = fdiv float %e{row}, 4.0",
                  f"  %q{row} = getelementptr float, {P} %b, i32 %i{row}"]
    lines += [f"  store float %d{row}, {P} %q{row}" for row in range(ROWS)]
    if whole:
        lines.append(f"  store <4 x float> %s, {P} %c")
    return "\n".join(lines)


SUM = "fadd <4 x float> {}, {}"
MOST = "call <4 x float> @llvm.maxnum.v4f32(<4 x float> {}, <4 x float> {})"
DECLARED = "declare <4 x float> @llvm.maxnum.v4f32(<4 x float>, <4 x float>)"
PARAMETERS = f"{P} %a, {P} %b, {P} %c"


def function_of(text: str) -> Function:
    (function,) = parse_module(text).kernels()
    return function


@pytest.mark.parametrize(("operation", "opcode"), [(SUM, "fadd"), (MOST, "call")])
def test_rows_are_computed_one_after_another(
    run: Callable[..., None], kernel: Callable[..., str], operation: str, opcode: str
) -> None:
    text = kernel(PARAMETERS, sums_of_rows(operation),
                  other=DECLARED if operation is MOST else "")
    (block,) = late_loads(split_vectors(function_of(text))).blocks
    order = [i.opcode for i in block.instructions
             if i.type.scalar.kind == "float" and i.opcode in ("load", opcode)]
    assert order == ["load", opcode] * ROWS
    a = (np.random.default_rng(0).standard_normal((ROWS, 16, 2)) * 1e3).astype(np.float32)
    b, c = np.zeros((ROWS, 16), np.float32), np.zeros(4, np.float32)
    run(text, a, b, c)
    wanted = a.sum(-1) if operation is SUM else a.max(-1)
    np.testing.assert_array_equal(b, wanted / 4)


@pytest.mark.parametrize("how", [{"in_order": True}, {"whole": True}])
def test_what_is_in_memory_in_this_order_or_needed_whole_stays(
    kernel: Callable[..., str], how: dict[str, bool]
) -> None:
    function = function_of(kernel(PARAMETERS, sums_of_rows(SUM, **how)))
    assert split_vectors(function) is function
