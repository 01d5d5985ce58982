"""Programs that are ordered by atomics, and ones that only look so: what the sanitizer says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.device import SimulatedDevice


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.zeros(shape, device="xpu", dtype=dtype)


@triton.jit
def sum_under_lock(x, out, lock, TAKE: tl.constexpr, GIVE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(lock, 0, 1, sem=TAKE) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem=GIVE)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("take", "give", "ordered"), [
    ("acq_rel", "acq_rel", True), ("acquire", "release", True), ("relaxed", "release", False),
    ("relaxed", "acq_rel", False), ("acquire", "relaxed", False), ("acq_rel", "relaxed", False),
    ("release", "acquire", False), ("relaxed", "relaxed", False),
])
def test_lock(take: str, give: str, ordered: bool) -> None:
    """An atomic alone orders nothing; releasing orders what came before, acquiring what follows."""
    x, out = torch.randn(8, 512).to("xpu"), zeros(512)
    arguments = (x, out, zeros(1, dtype=torch.int32), take, give, 512)
    if not ordered:
        with pytest.raises(SimulatorTrap, match=r"data race: load .*test_ordering\.py.*'out'"):
            sum_under_lock[(8,)](*arguments)
        return
    sum_under_lock[(8,)](*arguments)
    torch.testing.assert_close(out.cpu(), x.cpu().sum(0))


@triton.jit
def scan(x, sums, flags, out, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    """Each program waits for the sum of those before it."""
    me = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + me * BLOCK + i)
    before = 0.0
    if me > 0:
        while tl.atomic_add(flags + me - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums + me - 1)
    tl.store(sums + me, before + tl.sum(v, 0))
    if ATOMIC:
        tl.atomic_xchg(flags + me, 1, sem="release")
    else:
        tl.store(flags + me, 1)
    tl.store(out + me * BLOCK + i, before + tl.cumsum(v, 0))


def test_scan_with_look_back() -> None:
    x, out = torch.randn(8, 256).to("xpu"), zeros(8, 256)
    scan[(8,)](x, zeros(8), zeros(8, dtype=torch.int32), out, True, 256)
    torch.testing.assert_close(out.cpu().flatten(), x.cpu().flatten().cumsum(0), atol=1e-4,
                               rtol=1e-4)
    with pytest.raises(SimulatorTrap, match=r"data race: atomic .*'flags'"):
        scan[(8,)](x, zeros(8), zeros(8, dtype=torch.int32), out, False, 256)


@triton.jit
def split_k(a, b, c, K, PART, ATOMIC: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    i, j, s = tl.arange(0, N), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((N, N), tl.float32)
    first = tl.program_id(0) * PART
    for k in range(first, first + PART, STEP):
        x = tl.load(a + i[:, None] * K + (k + s)[None, :])
        y = tl.load(b + (k + s)[:, None] * N + j[None, :])
        total = tl.dot(x, y, total)
    at = c + i[:, None] * N + j[None, :]
    if ATOMIC:
        tl.atomic_add(at, total)
    else:
        tl.store(at, tl.load(at) + total)


def test_split_k() -> None:
    a, b = (torch.randn(n).half().to("xpu") for n in ((32, 128), (128, 32)))
    c = zeros(32, 32)
    split_k[(4,)](a, b, c, 128, 32, True, 32, 32)
    torch.testing.assert_close(c.cpu(), a.cpu().float() @ b.cpu().float(), atol=1e-2, rtol=1e-2)
    with pytest.raises(SimulatorTrap, match=r"data race: load .*'c'"):
        split_k[(4,)](a, b, c, 128, 32, False, 32, 32)


@triton.jit
def tally(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 4, tl.load(x + i), mask=i < n)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_of_several_programs(dtype: Any) -> None:
    """Sums that are loops of compare-and-swap do not race with each other."""
    x, out = torch.ones(64, dtype=dtype).to("xpu"), zeros(4, dtype=dtype)
    tally[(3,)](x, out, 64, 64)
    assert (out.cpu() == 48).all()
    with pytest.raises(SimulatorTrap, match=r"out-of-bounds atomic of .*'out'"):
        tally[(1,)](x, out[2:], 64, 64)


HANDED_ON = """
define spir_kernel void @k(ptr addrspace(1) %data, ptr addrspace(1) %count, ptr addrspace(1) %out)
    !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %group = call i64 @_Z12get_group_idj(i32 0)
  %g = trunc i64 %group to i32
  %first = icmp eq i32 %g, 0
  %to = getelementptr i32, ptr addrspace(1) %data, i32 %lane
  br i1 %first, label %give, label %take
give:
  store i32 7, ptr addrspace(1) %to, align 4
  %a = atomicrmw add ptr addrspace(1) %count, i32 1 syncscope("device") RELEASE, align 4
  br label %done
take:
  %b = atomicrmw add ptr addrspace(1) %count, i32 1 syncscope("device") ACQUIRE, align 4
  %v = load i32, ptr addrspace(1) %to, align 4
  %at = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  store i32 %v, ptr addrspace(1) %at, align 4
  br label %done
done:
  ret void
}
declare i64 @_Z12get_group_idj(i32)
declare i32 @_Z22get_sub_group_local_idv()
!0 = !{i32 16}
!1 = !{i32 16, i32 1, i32 1}
"""


@pytest.mark.parametrize(("release", "acquire", "ordered"), [
    ("release", "acquire", True), ("seq_cst", "acq_rel", True), ("monotonic", "acquire", False),
    ("release", "monotonic", False), ("acquire", "release", False),
])
def test_orderings_of_atomic_instructions(release: str, acquire: str, ordered: bool) -> None:
    device = SimulatedDevice("bmg")
    text = HANDED_ON.replace("RELEASE", release).replace("ACQUIRE", acquire)
    kernel = device.load(text.encode(), "k")
    buffers = [device.allocate(64) for _ in range(3)]
    pointers = [b.pointer for b in buffers]
    if ordered:
        device.launch(kernel, (2, 1, 1), pointers)
        return
    with pytest.raises(SimulatorTrap, match="data race: load"):
        device.launch(kernel, (2, 1, 1), pointers)


@triton.jit
def exchanged(x, out, MODE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    count: tl.constexpr = ROWS * COLUMNS
    k = tl.arange(0, count)
    across = (k + 64) % count
    if MODE == "turned":
        v = tl.load(x + i[:, None] + j[None, :] * ROWS)
        tl.store(x + i[:, None] * COLUMNS + j[None, :], v)
    elif MODE == "swapped":
        tl.store(out + across, tl.load(x + k))
    elif MODE == "own":
        tl.store(x + k, tl.load(x + k) + 1)
        tl.store(out + k, tl.load(x + across))
    else:
        tl.store(out + k, tl.load(x + k) + 1)
        if MODE == "met":
            tl.debug_barrier()
        v = tl.load(x + across)
        tl.debug_barrier()
        tl.store(out + k, v)


def test_store_after_loads_that_other_warps_made() -> None:
    """Nothing orders a load and a store through two arguments, if these are one tensor."""
    x = torch.randn(32, 64).to("xpu")
    want = x.cpu().reshape(64, 32).T.reshape(32, 64).clone()
    exchanged[(1,)](x, x, "turned", 32, 64)
    assert torch.equal(x.cpu(), want)
    with pytest.raises(SimulatorTrap, match="data race"):
        exchanged[(1,)](x, x, "swapped", 32, 64)


def test_load_after_stores_of_other_warps() -> None:
    """The compiler orders them where both go through one argument."""
    x, out = torch.randn(32, 64), zeros(32, 64)
    want = x.flatten().roll(-64) + 1
    exchanged[(1,)](x.to("xpu"), out, "own", 32, 64)
    assert torch.equal(out.cpu().flatten(), want)
    same = x.to("xpu")
    exchanged[(1,)](same, same, "met", 32, 64)
    assert torch.equal(same.cpu().flatten(), want)
    with pytest.raises(SimulatorTrap, match="data race"):
        exchanged[(1,)](same, same, "apart", 32, 64)
