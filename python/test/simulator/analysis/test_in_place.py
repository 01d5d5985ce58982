"""Which loads are checked together with the store of the same elements."""

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis.in_place import stores_in_place

HEAD = """
define spir_kernel void @k(ptr addrspace(1) %p, ptr addrspace(3) %s, i64 %n, i1 %m, i1 %o) {
entry:
  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()
  %at = getelementptr i8, ptr addrspace(1) %p, i64 %n
  %again = getelementptr i8, ptr addrspace(1) %p, i64 %n
  %x = load i32, ptr addrspace(1) %at, align 4
  %y = call i32 @llvm.genx.GenISA.PredicatedLoad.i32.p1.i32(ptr addrspace(1) %at, i64 4, i1 %m, i32 0)
"""  # noqa: E501
STORE = "  store i32 %x, ptr addrspace(1) %again, align 4\n"
MASKED = ("  call void @llvm.genx.GenISA.PredicatedStore.p1.i32("
          "ptr addrspace(1) %again, i32 %y, i64 4, i1 {})\n")
BARRIER = "  call void @llvm.genx.GenISA.threadgroupbarrier()\n"
ATOMIC = "  %a = atomicrmw add ptr addrspace(1) %p, i32 1 seq_cst\n"


@pytest.mark.parametrize(("body", "loads"), [
    (STORE, ["%x"]), (STORE + STORE, ["%x"]), (MASKED.format("%m"), ["%y"]),
    (MASKED.format("%o"), []), (STORE + MASKED.format("%m"), ["%x", "%y"]),
    (BARRIER + STORE, []), (ATOMIC + STORE, []), (STORE + BARRIER + MASKED.format("%m"), ["%x"]),
    ("  call void @unknown()\n" + STORE, []), ("  br label %b\nb:\n" + STORE, []),
    ("  store i64 0, ptr addrspace(1) %again, align 4\n", []),
    ("  store i32 0, ptr addrspace(1) %p, align 4\n", []),
    ("  store i32 0, ptr addrspace(3) %s, align 4\n" + STORE, ["%x"]),
    ("  %v = load volatile i32, ptr addrspace(1) %p, align 4\n"
     "  store i32 0, ptr addrspace(1) %p, align 4\n", []),
])
def test_pairs_have_the_same_elements_and_nothing_that_orders_between(
    body: str, loads: list[str]
) -> None:
    function = parse_module(f"{HEAD}{body}  ret void\n}}\n").functions["k"]
    assert [i.result for i in stores_in_place(function)] == loads


@triton.jit
def doubled(x, places, N, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < N
    at = x + tl.load(places + i, inside, other=0)
    tl.store(at, tl.load(at, inside) * 2, inside)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32], ids=str)
def test_a_load_of_what_another_program_stores_in_place(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load is what comes first, and what the report is about."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    torch.manual_seed(3)
    places = torch.randperm(250).to(torch.int32)
    x = torch.randint(0, 9, (250,)).to(dtype)
    given = x.to("xpu")
    doubled[(4,)](given, places.to("xpu"), 250, 64)
    assert torch.equal(given.cpu(), x * 2)
    places[170] = places[25]
    with pytest.raises(SimulatorTrap, match="data race: load") as caught:
        doubled[(4,)](given, places.to("xpu"), 250, 64)
    assert f"element ({int(places[25])},)" in str(caught.value)
    assert "program (2, 0, 0)" in str(caught.value)


def test_what_was_never_written_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store does not count as the first one before the load has been asked for that."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    x = torch.empty(250, device="xpu")
    with pytest.raises(SimulatorTrap, match="never written"):
        doubled[(4,)](x, torch.arange(250).to(torch.int32).to("xpu"), 250, 64)
