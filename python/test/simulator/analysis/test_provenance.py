"""Which pointer arguments an address can come from, through shared memory too."""

from __future__ import annotations

import pytest

from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.provenance import pointer_roots

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


@pytest.mark.parametrize(("field", "roots"), [(1, {1}), (5, {0})])
def test_a_copied_descriptor_belongs_to_the_base_that_it_is_given(
    field: int, roots: set[int]
) -> None:
    given = "ptr %q, i32 1, i64 %y, i1 false" if field == 1 else "ptr %q, i32 5, i32 8, i1 true"
    name, kind = "@llvm.genx.GenISA.LSC2DBlock", "i64" if field == 1 else "i32"
    text = "\n".join([
        f"define spir_kernel void @k({G} %a, {G} %b) {{",
        f"  %x = ptrtoint {G} %a to i64", f"  %y = ptrtoint {G} %b to i64",
        f"  %p = call ptr {name}CreateAddrPayload.p0i32(i64 %x, i32 63, i32 7, i32 63, i32 0, "
        "i32 0, i32 16, i32 8, i32 1)",
        f"  %q = call ptr {name}CopyAddrPayload.p0i32.p0i32(ptr %p)",
        f"  call void {name}SetAddrPayloadField.p0i32.{kind}({given})", "  ret void", "}",
        f"declare ptr {name}CreateAddrPayload.p0i32(i64, i32, i32, i32, i32, i32, i32, i32, i32)",
        f"declare ptr {name}CopyAddrPayload.p0i32.p0i32(ptr)",
        f"declare void {name}SetAddrPayloadField.p0i32.{kind}(ptr, i32, {kind}, i1)"])
    found = pointer_roots(next(iter(parse_module(text).kernels())))
    assert (found["%p"], found["%q"]) == ({0}, roots)
