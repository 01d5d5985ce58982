"""Which pointer arguments an address can come from, through shared memory too."""

from __future__ import annotations

import pytest

from triton_xe.runtime.simulator.analysis.provenance import pointer_roots
from triton_xe.runtime.simulator.ir.parser import parse_module

G, S = "ptr addrspace(1)", "ptr addrspace(3)"


@pytest.mark.parametrize(("lines", "roots"), [
    ([f"store i64 %x, {S} @slm"], {0}),
    ([f"store i64 %x, {S} @slm", f"store i64 %y, {S} @slm"], {0, 1}),
    ([f"store i64 %x, {S} @slm", f"store i64 %n, {S} @slm"], set()),
    ([f"store i64 %x, {S} @slm", f"store i32 7, {S} @slm"], {0}),
    ([f"store i64 %x, {S} @slm", f"%u = atomicrmw xchg {S} @slm, i64 %n monotonic"], set()),
    ([f"store i64 %x, {S} @slm", f"call void @other({S} @slm)"], set()),
    ([f"store i64 %x, {S} @slm", "call void @mine()"], set()),
    (["%u = add i64 %x, 1"], set()),
    ([f"store i64 %x, {S} @slm", f"%u = ptrtoint {S} @slm to i64"], set()),
    ([f"store i64 %x, {S} @slm", f"%u = add i64 ptrtoint ({S} @slm to i64), 8"], set()),
    ([f"store i64 %x, {S} @slm", f"%u = getelementptr i8, {S} @slm, i64 8"], {0}),
])
def test_words_of_shared_memory(lines: list[str], roots: set[int]) -> None:
    text = "\n".join([
        "@slm = internal addrspace(3) global [64 x i8] undef",
        f"define spir_kernel void @k({G} %a, {G} %b, i64 %n) {{",
        f"  %x = ptrtoint {G} %a to i64", f"  %y = ptrtoint {G} %b to i64",
        *(f"  {line}" for line in lines),
        f"  %v = load i64, {S} @slm", "  %z = add i64 %v, 8", "  ret void", "}",
        f"declare void @other({S})", "define internal void @mine() {", "  ret void", "}"])
    kernel = next(iter(parse_module(text).kernels()))
    assert pointer_roots(kernel).get("%z", frozenset()) == roots
