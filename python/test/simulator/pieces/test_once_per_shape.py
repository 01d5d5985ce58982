"""Large functions taken apart compute the same, and their code grows by numbers and calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from python.test.filecheck import check_text
from triton_xe import llvm as ir
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.printer import print_module
from triton_xe.runtime.simulator.pieces import once_per_shape, stretches
from triton_xe.runtime.simulator.pieces.choices import Choice, with_choices
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.pipeline import translate
from triton_xe.runtime.simulator.run.kernel_module import canonical

P, S = "ptr addrspace(1)", "ptr addrspace(3)"
SHARED = "@shared = internal addrspace(3) global [64 x float] undef"
BARRIER = "call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)"
HEAD = f"""
  br label %begin
begin:
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %first = mul i32 %lane, 4
  %at = getelementptr float, {P} %a, i32 %first
  %to = getelementptr float, {P} %b, i32 %first
  %x = load <4 x float>, {P} %at
  %y = fmul <4 x float> %x, splat (float 3.0)
  br label %loop
"""
EXCHANGED = f"""{HEAD}
loop:
  %k = phi i32 [ 0, %begin ], [ %k1, %loop ]
  %p = phi <4 x float> [ %x, %begin ], [ %q, %loop ]
  %q = phi <4 x float> [ %y, %begin ], [ %p, %loop ]
  %k1 = add i32 %k, 1
  %again = icmp slt i32 %k1, %n
  br i1 %again, label %loop, label %end
end:
  %d = fsub <4 x float> %p, %q
  store <4 x float> %d, {P} %to"""
LEFT_BEHIND = f"""{HEAD}
loop:
  %k = phi i32 [ 0, %begin ], [ %k1, %loop ]
  %p = phi <4 x float> [ %x, %begin ], [ %next, %loop ]
  %next = fadd <4 x float> %p, %y
  %k1 = add i32 %k, 1
  %again = icmp slt i32 %k1, %n
  br i1 %again, label %loop, label %end
end:
  store <4 x float> %p, {P} %to"""
READ_BEFORE_WRITTEN = f"""{HEAD}
loop:
  %old = load <4 x float>, {P} %to
  store <4 x float> %y, {P} %to
  %new = load <4 x float>, {P} %to
  %d = fsub <4 x float> %new, %old
  store <4 x float> %d, {P} %to"""
PARTS_MOVED = f"""{HEAD}
loop:
  %low = shufflevector <4 x float> %x, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %high = shufflevector <4 x float> %y, <4 x float> poison, <2 x i32> <i32 1, i32 0>
  %m = shufflevector <2 x float> %low, <2 x float> %high, <4 x i32> <i32 3, i32 0, i32 2, i32 1>
  %one = extractelement <4 x float> %m, i32 2
  %v = insertelement <4 x float> %m, float %one, i32 0
  %less = fcmp olt <4 x float> %v, %y
  %s = select <4 x i1> %less, <4 x float> %v, <4 x float> splat (float -7.0)
  store <4 x float> %s, {P} %to"""
KERNELS = {"exchanged": EXCHANGED, "left behind": LEFT_BEHIND,
           "read before written": READ_BEFORE_WRITTEN, "parts moved": PARTS_MOVED}


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Take all functions apart, or none, and outline even short stretches of them."""

    def choose(yes: bool, *, outlines: bool = False) -> None:
        for module, name, value in (
            (once_per_shape, "LARGE", -1 if yes else 1 << 60),
            (stretches, "LONG", 0 if outlines else 1 << 60), (stretches, "LEAST", 2),
        ):
            monkeypatch.setattr(module, name, value)

    return choose


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_results_are_the_same_bits(
    name: str, n: int, run: Callable[..., None], kernel: Callable[..., str],
    apart: Callable[..., None],
) -> None:
    text = kernel(f"{P} %a, {P} %b, i32 %n", KERNELS[name])
    results = []
    for yes, outlines in ((False, False), (True, False), (True, True)):
        apart(yes, outlines=outlines)
        a = np.random.default_rng(n).standard_normal(64).astype(np.float32)
        b = np.arange(64, dtype=np.float32)
        run(text, a, b, n)
        results.append(b.tobytes())
    assert results[0] == results[1] == results[2]


def summed(count: int) -> str:
    """Each of `count` vectors of a lane, times its number, with what the next subgroup has."""
    lines = [HEAD, "loop:", "  %g = call i32 @_Z16get_sub_group_idv()",
             f"  %own = getelementptr float, {S} @shared, i32 %first",
             f"  store <4 x float> %y, {S} %own", f"  {BARRIER}",
             "  br label %after", "after:",
             f"  %seen = load <4 x float>, {S} %own", "  %t0 = fadd <4 x float> %x, %seen"]
    for k in range(count):
        lines += [f"  %m{k} = fmul <4 x float> %t{k}, splat (float {k}.0)",
                  f"  %s{k} = shufflevector <4 x float> %m{k}, <4 x float> %x, "
                  "<4 x i32> <i32 1, i32 6, i32 3, i32 4>",
                  f"  %t{k + 1} = fadd <4 x float> %s{k}, %t{k}"]
    return "\n".join([*lines, f"  store <4 x float> %t{count}, {P} %to"])


def pieces_of(count: int, kernel: Callable[..., str]) -> dict[str, int]:
    """Instructions of each host function."""
    text = kernel(f"{P} %a, {P} %b, i32 %n", summed(count), warps=1, other=SHARED)
    host = translate(parse_module(canonical(text)), "k", target("bmg")).text
    bodies = host.split("define ")[1:]
    return {body.split("@")[1].split("(")[0]: len(body.splitlines()) for body in bodies}


def test_each_shape_is_compiled_once(
    kernel: Callable[..., str], apart: Callable[..., None]
) -> None:
    apart(True)
    some, twice = (pieces_of(n, kernel) for n in (40, 80))
    assert some.keys() == twice.keys()
    assert twice["xe_kernel"] < 2.2 * some["xe_kernel"]
    assert {name: n for name, n in twice.items() if name != "xe_kernel"} == {
        name: n for name, n in some.items() if name != "xe_kernel"}


def test_small_functions_stay(kernel: Callable[..., str]) -> None:
    assert set(pieces_of(40, kernel)) == {"xe_kernel"}


def test_ways_to_one_vector_become_a_choice() -> None:
    value: Any = ir.Operand(ir.vector(4, ir.F32), "%z")
    b = ir.Builder(ir.Function("f", ir.VOID, [("%c", ir.I1), ("%p", ir.PTR)], [ir.Block("%entry")]))
    condition, p = b.arguments
    b.cond_br(condition, "%one", "%other")
    taken = []
    for label in ("%one", "%other"):
        b.start(label)
        taken.append((b.load(value.type, p), label))
        b.br("%end")
    b.start("%end")
    b.store(b.phi(value.type, *taken).value, p)
    b.br("%after")
    b.start("%after")
    phi = b.phi(ir.I32, (ir.constant(ir.I32, 1), "%end"))
    b.ret()
    first, after = with_choices(b.function.blocks)
    assert [i.opcode for i in first.instructions] == ["choice", "store", "br"]
    assert isinstance(first.instructions[0], Choice)
    assert after.phis[0].labels == ["%entry"]
    assert phi.labels == ["%end"]


def two_ways(kind: ir.Type | None) -> ir.Function:
    """A branch whose arms copy a value of that kind, or do nothing."""
    parameters = [("%c", ir.I1), ("%p", ir.PTR), ("%q", ir.PTR)]
    b = ir.Builder(ir.Function("f", ir.VOID, parameters, [ir.Block("%entry")]))
    condition, p, q = b.arguments
    b.cond_br(condition, "%one", "%other")
    for label in ("%one", "%other"):
        b.start(label)
        if kind is not None:
            b.store(b.load(kind, p), q)
        b.br("%end")
    b.start("%end")
    b.ret()
    return b.function


@pytest.mark.parametrize(("kind", "is_choice"), [
    (ir.vector(64, ir.F32), True), (ir.F32, False), (None, False),
])
def test_only_ways_to_vectors_become_a_choice(kind: ir.Type | None, is_choice: bool) -> None:
    function = two_ways(kind)
    blocks = with_choices(function.blocks)
    assert any(isinstance(i, Choice) for b in blocks for i in b.instructions) == is_choice
    made = once_per_shape.once_per_shape(function, HostCosts(32, {}))[0]
    check_text(print_module(made, []), "CHECK-NOT: choice")
