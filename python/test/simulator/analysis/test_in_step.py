"""Kernels whose subgroups run in step give the bits that they give one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from python.test.counting import watched
from python.test.gemm.pairwise import settings
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.analysis import in_step
from triton_xe.runtime.simulator.kernel import KernelSource

Text = Callable[..., str]
P, S = "ptr addrspace(1)", "ptr addrspace(3)"
BARRIER = "  call void @_Z22__spirv_ControlBarrieriii(i32 2, i32 2, i32 272)\n"
IDS = """  %lane = call i32 @_Z22get_sub_group_local_idv()
  %sg = call i32 @_Z16get_sub_group_idv()
  %base = mul i32 %sg, 16
  %at = add i32 %base, %lane
"""


@triton.jit
def norm(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + column, mask=column < N, other=0.0)
    top = tl.max(x, axis=0)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) + top)
    tl.store(y_ptr + tl.program_id(0) * N + column, x * scale, mask=column < N)


@triton.jit
def chunks(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """A barrier in each pass, and what the passes hand on."""
    row = tl.program_id(0) * N
    top, total = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + column, mask=column < N, other=-float("inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    for start in range(0, N, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + column, mask=column < N)
        tl.store(y_ptr + row + column, tl.exp(x - top) / total, mask=column < N)


@triton.jit
def rows(x_ptr, y_ptr, N: tl.constexpr, ROWS: tl.constexpr):
    """Sums along the second axis, and a change of layout through shared memory."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + row[:, None] * N + tl.arange(0, N)[None, :])
    product = tl.trans(x) * tl.sum(x, axis=1)[None, :]
    place = tl.arange(0, N)[:, None] * ROWS + tl.arange(0, ROWS)[None, :]
    tl.store(y_ptr + tl.program_id(0) * ROWS * N + place, product)


@triton.jit
def convert(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x.to(y_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def turned(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """A transposed block, its columns less their largest."""
    row, column = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    inside = (row < M)[:, None] & (column < N)[None, :]
    x = tl.load(x_ptr + row[:, None] * N + column[None, :], mask=inside, other=-100)
    x = tl.trans(x - tl.max(x, axis=0)[None, :])
    tl.store(y_ptr + column[:, None] * M + row[None, :], x, mask=tl.trans(inside))


@triton.jit
def masked_rows(x_ptr, y_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    inside = (row < M)[:, None] & (column < N)[None, :]
    place = row[:, None] * stride + column[None, :]
    x = tl.load(x_ptr + place, mask=inside, other=0)
    x -= (tl.sum(x, axis=1) / N)[:, None]
    scale = tl.rsqrt(tl.sum(x * x, axis=1) / N + 1e-5)
    tl.store(y_ptr + place, x * scale[:, None], mask=inside)


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of compiled code for each form, whose kernels are the same otherwise."""
    return {form: tmp_path_factory.mktemp("cache") for form in ("written out", "loops")}


@pytest.fixture(autouse=True, params=["written out", "loops"])
def form(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caches: dict[str, Path],
    without_maps: None,
) -> str:
    """Each subgroup for itself, or loops over all, whatever would be faster."""
    monkeypatch.setattr(in_step, "MOST", 1 << 30 if request.param == "written out" else -1)
    monkeypatch.setenv("TRITON_XE_CACHE", str(caches[request.param]))
    for kernel in (norm, chunks, rows, convert, turned, masked_rows):
        kernel.device_caches.clear()
    return str(request.param)


def both(monkeypatch: pytest.MonkeyPatch, launch: Callable[[np.ndarray[Any, Any]], object],
         y: np.ndarray[Any, Any], *, again: bool = False) -> None:
    """Launch one subgroup after another, then in step, which must have been possible.

    `again`: the kernel has run in step before.
    """
    results = []
    with watched(KernelSource.translated) as calls:
        for after in (10**9, 0):
            monkeypatch.setenv("TRITON_XE_IN_STEP_AFTER", str(after))
            y[...] = 0
            launch(y)
            results.append(y.copy())
    assert again or calls[-1].result.in_step is True
    np.testing.assert_array_equal(results[0].view(np.uint8), results[1].view(np.uint8))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("N", "BLOCK", "num_warps"), [(1000, 1024, 4), (256, 256, 8), (70, 128, 2)])
def test_rows_in_step(monkeypatch: pytest.MonkeyPatch, N: int, BLOCK: int, num_warps: int) -> None:
    x = np.random.default_rng(1).standard_normal((5, N), np.float32)
    y = np.empty_like(x)
    both(monkeypatch, lambda y: norm[(5,)](x, y, N, BLOCK=BLOCK, num_warps=num_warps), y)
    expected = x / np.sqrt((x * x).sum(1) + x.max(1))[:, None]
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.sample(1)
@pytest.mark.parametrize(*settings(M=(8, 7), num_warps=(4, 8), strength=1))
def test_full_masks_of_rows_in_step(
    monkeypatch: pytest.MonkeyPatch, M: int, num_warps: int
) -> None:
    """Of rows as long as a block, masks are the same for all subgroups."""
    memory = np.random.default_rng(3).standard_normal(8 * 1040 + 1, np.float32)
    x = memory[1:].reshape(8, 1040)
    y = np.zeros(x.size + 1, np.float32)
    both(monkeypatch, lambda y: masked_rows[(4,)](
        x, y[1:], M, 1024, 1040, BM=2, BN=1024, num_warps=num_warps), y)
    found, rows = y[1:].reshape(8, 1040)[:M, :1024], x[:M, :1024].astype(float)
    expected = (rows - rows.mean(1)[:, None]) / np.sqrt(rows.var(1) + 1e-5)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seen", [
    1000, 1500, 0, *(pytest.param(more, marks=pytest.mark.slow) for more in (1024, 700, -3))])
def test_rows_of_other_lengths_than_the_one_seen(
    monkeypatch: pytest.MonkeyPatch, seen: int
) -> None:
    """Code made for launches with one length takes all others, too: bit by bit the same."""
    rng = np.random.default_rng(seen + 9)
    lengths = [seen, *(int(n) for n in rng.integers(1, 1024, 4)), 1024, 1023, 1025, -1]
    x = rng.standard_normal((6, 2048)).astype(np.float32)

    def launches() -> list[np.ndarray[Any, Any]]:
        results = []
        for n in lengths:
            y = np.full_like(x, 7)
            norm[(5,)](x, y, n, BLOCK=1024, num_warps=4)
            results.append(y)
        return results

    found = []
    for after in (10**9, 0):
        monkeypatch.setenv("TRITON_XE_IN_STEP_AFTER", str(after))
        norm.device_caches.clear()
        found.append(launches())
    for n, before, now in zip(lengths, *found, strict=True):
        np.testing.assert_array_equal(before.view(np.uint8), now.view(np.uint8), err_msg=str(n))
        assert n < 1 or (now != 7).any()


def test_loops_with_barriers_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).standard_normal((3, 300), np.float32)
    y = np.empty_like(x)
    both(monkeypatch, lambda y: chunks[(3,)](x, y, 300, BLOCK=128, num_warps=4), y)
    e = np.exp(x - x.max(1)[:, None])
    np.testing.assert_allclose(y, e / e.sum(1)[:, None], rtol=1e-4)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_sums_along_rows_and_layouts_in_step(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (16, 64)).astype(dtype)
    y = np.empty((2, 64, 8), dtype)
    both(monkeypatch, lambda y: rows[(2,)](x, y, N=64, ROWS=8), y)
    blocks = x.reshape(2, 8, 64)
    expected = (blocks * blocks.sum(2)[:, :, None]).transpose(0, 2, 1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.sample(3)
@pytest.mark.parametrize(*settings(
    types=((np.int8, np.float32), (np.float16, np.float32), (np.uint8, np.float16),
           (np.int16, np.int64), (np.int8, np.int32)),
    num_warps=(2, 4), strength=1))
def test_layouts_change_between_types_in_step(
    monkeypatch: pytest.MonkeyPatch, types: tuple[Any, Any], num_warps: int
) -> None:
    """Whole programs, and one that comes to the code that was left out."""
    source, to = types
    for n in (4096, 3001):
        x = np.random.default_rng(n).integers(0, 100, n).astype(source)
        y = np.empty(n, to)
        grid = (triton.cdiv(n, 1024),)

        def launch(y: np.ndarray[Any, Any], x: Any = x, n: int = n, grid: Any = grid) -> object:
            return convert[grid](x, y, n, BLOCK=1024, num_warps=num_warps)

        both(monkeypatch, launch, y, again=n != 4096)
        np.testing.assert_array_equal(y, x.astype(to))


@pytest.mark.sample(3)
@pytest.mark.parametrize(*settings(
    dtype=(np.float32, np.float16, np.int8),
    sizes=((32, 64, 32, 32), (30, 61, 32, 16), (8, 128, 8, 64)), strength=1))
def test_blocks_are_turned_in_step(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, sizes: tuple[int, ...]
) -> None:
    M, N, BM, BN = sizes
    x = np.random.default_rng(M).integers(-9, 9, (M, N)).astype(dtype)
    y = np.empty((N, M), dtype)
    both(monkeypatch, lambda y: turned[(triton.cdiv(N, BN),)](x, y, M, N, BM=BM, BN=BN), y)
    np.testing.assert_array_equal(y, (x - x.max(0)).T)


SLM = "@slm = internal addrspace(3) global [1024 x i8] undef, align 64\n"
OWN = f"""  %byte = shl i32 %at, 3
  %own = getelementptr i8, {S} @slm, i32 %byte
  %there = xor i32 %byte, 48
  %other = getelementptr i8, {S} @slm, i32 %there
  %to = getelementptr i64, {P} %a, i32 %at
  %long = zext i32 %at to i64
"""
WORDS = f"""  %pair = bitcast i64 %long to <2 x i32>
  store <2 x i32> %pair, {S} %own
"""
LATER = f"  %r = load i64, {S} %other\n  store i64 %r, {P} %to\n"


@pytest.mark.parametrize("body", [
    f"  store i64 %long, {S} %own\n{BARRIER}{LATER}",
    f"{WORDS}{BARRIER}{LATER}",
    f"{BARRIER}{LATER}",
    f"  store i64 %long, {S} %own\n{BARRIER}  %n = call i64 @_Z12get_group_idj(i32 0)\n"
    f"  %c = icmp eq i64 %n, 0\n  br i1 %c, label %x, label %y\nx:\n{LATER}  br label %y\ny:\n",
    f"  store i64 %long, {S} %own\n{BARRIER}  store i16 7, {S} @slm\n{BARRIER}{LATER}",
    f"  store i64 %long, {S} %own\n{BARRIER}  %n = call i64 @_Z12get_group_idj(i32 0)\n"
    f"  %q = getelementptr i8, {S} @slm, i64 %n\n  store i8 7, {S} %q\n{BARRIER}{LATER}",
    f"{WORDS}{BARRIER}  %v = load <4 x i16>, {S} %other\n"
    "  %w = shufflevector <4 x i16> %v, <4 x i16> %v, <4 x i32> <i32 2, i32 3, i32 0, i32 1>\n"
    f"  store <4 x i16> %w, {P} %to\n",
    f"  %p = getelementptr i64, {S} @slm, i32 %sg\n  %n = zext i32 %sg to i64\n"
    f"  store i64 %n, {S} %p\n{BARRIER}  %l = and i32 %lane, 3\n"
    f"  %q = getelementptr i64, {S} @slm, i32 %l\n  %r = load i64, {S} %q\n"
    f"  store i64 %r, {P} %to\n",
    f"  %p = getelementptr i64, {S} @slm, i32 %sg\n  %n = zext i32 %sg to i64\n"
    f"  store i64 %n, {S} %p\n{BARRIER}  %q = getelementptr i64, {S} @slm, i32 1\n"
    f"  %v = load <2 x i64>, {S} %q\n  %x = extractelement <2 x i64> %v, i32 0\n"
    f"  %y = extractelement <2 x i64> %v, i32 1\n  %r = add i64 %x, %y\n  store i64 %r, {P} %to\n",
    f"  %h = lshr i32 %byte, 1\n  %p = getelementptr i8, {S} @slm, i32 %h\n"
    f"  store i64 %long, {S} %p\n{BARRIER}{LATER}",
], ids=["elements", "words", "nothing stored", "another block", "part written over",
        "an unknown address", "halves", "of subgroups", "of all", "overlaps"])
def test_shared_memory_holds_what_was_stored(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., None], kernel: Text, body: str
) -> None:
    results = []
    for after in (10**9, 0):
        monkeypatch.setenv("TRITON_XE_IN_STEP_AFTER", str(after))
        a = np.zeros(64, np.int64)
        run(kernel(f"{P} %a", IDS + OWN + body, warps=4, other=SLM), a, grid=(1, 1, 1))
        results.append(a)
    np.testing.assert_array_equal(*results)
    assert results[0].any()


@pytest.mark.parametrize("handed_on", ["%x", "%k", "%own_x", "%last"])
def test_loops_with_barriers_hand_on_what_each_subgroup_has(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., None], kernel: Text, handed_on: str
) -> None:
    """Two values that change places, a counter, and what the last pass left: after the loop."""
    body = IDS + f"""  %mine = shl i32 %at, 2
  %own = getelementptr i8, {S} @slm, i32 %mine
  %there = xor i32 %mine, 192
  %other = getelementptr i8, {S} @slm, i32 %there
  br label %again
again:
  %k = phi i32 [ 0, %0 ], [ %k1, %met ]
  %x = phi i32 [ %at, %0 ], [ %y, %met ]
  %y = phi i32 [ %lane, %0 ], [ %z, %met ]
  %own_x = add i32 %x, %k
  store i32 %own_x, {S} %own
{BARRIER}  %seen = load i32, {S} %other
  %z = add i32 %seen, %y
  %odd = and i32 %k, 1
  %b = icmp eq i32 %odd, 0
  br i1 %b, label %wait, label %met
wait:
{BARRIER}  br label %met
met:
  %last = phi i32 [ %z, %wait ], [ %seen, %again ]
{BARRIER}  %k1 = add i32 %k, 1
  %c = icmp slt i32 %k1, %n
  br i1 %c, label %again, label %end
end:
  %to = getelementptr i32, {P} %a, i32 %at
  %r = add i32 {handed_on}, %y
  store i32 %r, {P} %to
"""
    results = []
    for after in (10**9, 0):
        monkeypatch.setenv("TRITON_XE_IN_STEP_AFTER", str(after))
        for n in (1, 2, 5):
            a = np.zeros(64, np.int32)
            run(kernel(f"{P} %a, i32 %n", body, warps=4, other=SLM), a, n, grid=(1, 1, 1))
            results.append(a)
    np.testing.assert_array_equal(results[:3], results[3:])
    assert np.unique(results, axis=0).shape == (3, 64)


@pytest.mark.parametrize(("body", "is_fit"), [
    (IDS + BARRIER, True),
    (IDS, False),
    (IDS + BARRIER + "  %old = atomicrmw add ptr addrspace(1) %a, i32 1 monotonic\n", False),
    (IDS + BARRIER + f"  %v = load volatile i32, {P} %a\n", False),
    (IDS + BARRIER + "  %c = icmp eq i32 %sg, 0\n  br i1 %c, label %x, label %y\n"
     f"x:\n  store i32 1, {P} %a\n  br label %y\ny:\n", False),
    (IDS + BARRIER + f"  %n = load i32, {P} %a\n  %c = icmp eq i32 %n, 0\n"
     f"  br i1 %c, label %x, label %y\nx:\n  store i32 1, {P} %a\n  br label %y\ny:\n", True),
], ids=["barrier", "none", "atomic", "volatile", "ways part", "one way"])
def test_which_kernels_can_run_in_step(
    kernel: Text, body: str, is_fit: bool, form: str
) -> None:
    module = parse_module(kernel(f"{P} %a", body, warps=4))
    (function,) = module.kernels()
    found = in_step.in_step(function, module.functions, 4, 16)
    assert (found is not None) == is_fit
    if found is not None:
        assert found.in_loops == (form == "loops")
        if found.shared is not None:
            assert "%lane" in found.shared
            assert found.shared.isdisjoint({"%sg", "%at"})
    if form == "loops":
        assert in_step.in_step(function, module.functions, 1 << 20, 16) is None
    assert in_step.in_step(function, module.functions, 1, 16) is None
