"""A function that the table of intrinsics does not have counts as doing anything."""

from __future__ import annotations

import pytest

from triton_xe.intrinsics import Effect, Uniformity, find
from triton_xe.llvm import Function, Module
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.calls import is_barrier
from triton_xe.runtime.simulator.analysis.guards import part_of
from triton_xe.runtime.simulator.analysis.provenance import pointer_roots
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis
from triton_xe.runtime.simulator.host_kernel import Part
from triton_xe.runtime.simulator.sanitizer.definedness import instrument
from triton_xe.runtime.simulator.sanitizer.plan import Undefined

G, S = "ptr addrspace(1)", "ptr addrspace(3)"
NAMES = ["_Z7mysteryi", "llvm.mystery.i32", "llvm.genx.GenISA.mystery.i32", "__spirv_mystery",
         "llvm.masked.mystery.i32", "mystery"]
KNOWN = "llvm.ctpop.i32"


def parse(text: str) -> Module:
    return parse_module("@slm = internal addrspace(3) global [64 x i8] undef\n" + text)


def kernel(text: str) -> Function:
    return next(iter(parse(text).kernels()))


def calling(name: str, rest: str = "") -> str:
    return (f"define spir_kernel void @k({G} %a, i32 %n) {{\nentry:\n"
            f"  %x = call i32 @{name}(i32 %n)\n{rest}  ret void\n}}\ndeclare i32 @{name}(i32)\n")


@pytest.mark.parametrize("name", NAMES)
def test_it_may_do_anything(name: str) -> None:
    found = find(name)
    assert not found.known
    assert not found.pure
    assert set(found.effects) == set(Effect) - {Effect.NONE}
    assert found.uniformity is Uniformity.LANE


@pytest.mark.parametrize(("name", "uniform"), [(KNOWN, True), *((n, False) for n in NAMES)])
def test_its_result_is_divergent(name: str, uniform: bool) -> None:
    module = parse(calling(name))
    (values,) = ShapeAnalysis(module, 16).values.values()
    assert values["%x"].uniform == uniform


@pytest.mark.parametrize(("name", "known"), [(KNOWN, True), *((n, False) for n in NAMES)])
def test_it_may_store_to_shared_memory(name: str, known: bool) -> None:
    text = calling(name, f"  %p = ptrtoint {G} %a to i64\n  store i64 %p, {S} @slm\n"
                   f"  %v = load i64, {S} @slm\n")
    assert pointer_roots(kernel(text)).get("%v", frozenset()) == ({0} if known else set())


@pytest.mark.parametrize("name", NAMES)
def test_its_result_may_come_from_memory(name: str) -> None:
    assert "%x" not in pointer_roots(kernel(
        f"define spir_kernel void @k({G} %a) {{\n  %p = ptrtoint {G} %a to i64\n"
        f"  %x = call i64 @{name}(i64 %p)\n  ret void\n}}\ndeclare i64 @{name}(i64)\n"))


@pytest.mark.parametrize(("name", "left_out"), [
    (KNOWN, True), ("llvm.memset.p1.i64", False), *((n, False) for n in NAMES)])
def test_nothing_after_it_runs_again(name: str, left_out: bool) -> None:
    block = "llvm.genx.GenISA.LSC2DBlockPrefetch"
    shape = "i32 32, i32 16, i32 8, i32 1, i1 false, i1 false, i32 0"
    cold = "".join(f"  %c{k} = add i32 %n, {k}\n" for k in range(120))
    text = calling(
        name, "  %guard = icmp eq i32 %n, 0\n  br i1 %guard, label %hot, label %cold, "
        "!xe.fallback !0\n"
        f"hot:\n  call void @{block}(i64 0, i32 63, i32 7, i32 63, i32 0, i32 0, {shape})\n"
        f"  br label %end\ncold:\n{cold}  br label %end\nend:\n") + "!0 = !{i32 1}\n"
    assert (part_of(kernel(text), Part.COMMON) is not None) == left_out


@pytest.mark.parametrize(("name", "used"), [(KNOWN, False), *((n, True) for n in NAMES)])
def test_it_may_use_undefined_bits(name: str, used: bool) -> None:
    load = "llvm.genx.GenISA.PredicatedLoad.i32.p1.i32"
    function = kernel(
        f"define spir_kernel void @k({G} %a, i1 %m) {{\n"
        f"  %n = call i32 @{load}({G} %a, i64 4, i1 %m, i32 undef)\n"
        f"  %x = call i32 @{name}(i32 %n)\n  ret void\n}}\ndeclare i32 @{name}(i32)\n"
        f"declare i32 @{load}({G}, i64, i1, i32)\n")
    next(function.instructions()).unfilled = True
    plan = Undefined()
    instrument(function, plan, helpers={}, entry=lambda pointer: 0)
    assert [use.what for use in plan.uses] == ([f"a call of {name} with"] if used else [])


def test_only_known_barriers_are_barriers() -> None:
    text = ("define spir_kernel void @k() {\n"
            "  call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
            "  call void @_Z22__spirv_ControlBarrieriii(i32 3, i32 3, i32 272)\n"
            "  call void @llvm.genx.GenISA.threadgroupnamedbarriers.wait(i8 1)\n"
            "  call void @_Z7mysteryi(i32 1)\n  ret void\n}\n")
    assert [is_barrier(i) for i in kernel(text).instructions()] == [
        True, False, True, False, False]
