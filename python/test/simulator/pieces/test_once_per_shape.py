"""Large functions taken apart compute the same, and their code grows by numbers and calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.pieces import once_per_shape, stretches
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
