"""Elements at loaded indices: programs share dwords, and never elements, but for a planted one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from python.test.gemm.pairwise import settings
from triton_xe.errors import SimulatorTrap

I32 = torch.int32
BLOCK = 128
DTYPES = pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32], ids=str)


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")


@triton.jit
def scatter(x, put, got, out, LOADS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i)
    if LOADS:
        value += tl.load(out + tl.load(got + i))
    tl.store(out + tl.load(put + i), value)


@pytest.mark.parametrize(*settings(
    size=((256, 0, 4), (512, 1, 2), (4096, 2, 4), (4096, 3, 1), (16384, 4, 1)),
    loads=(False, True), bug=("", "store", "load"),
    dtype=(torch.int8, torch.float16, torch.float32), unselected=pytest.mark.rest))
def test_shared_dwords(
    size: tuple[int, int, int], loads: bool, bug: str, dtype: Any
) -> None:
    """Some accesses have two elements of a dword, and of most dwords several programs store."""
    n, seed, warps = size
    torch.manual_seed(seed)
    x, old = (torch.randint(1, 50, (n,)).to(dtype) for _ in range(2))
    put = torch.randperm(n).to(I32)
    got = put.clone()
    first, last = sorted(torch.randperm(n // BLOCK)[:2].tolist())
    one, other = (p * BLOCK + int(torch.randint(BLOCK, ())) for p in (first, last))
    if bug == "store":
        put[other], x[other] = put[one], x[one] + 1
    if bug == "load":
        loads, got[other] = True, put[one]
    out = old.to("xpu")
    arguments = (x.to("xpu"), put.to("xpu"), got.to("xpu"), out, loads, BLOCK)
    if bug:
        with pytest.raises(SimulatorTrap, match=f"data race: {bug}") as caught:
            scatter[(n // BLOCK,)](*arguments, num_warps=warps)
        assert f"element ({int(put[one])},)" in str(caught.value)
        assert f"program ({last}, 0, 0)" in str(caught.value)
        return
    scatter[(n // BLOCK,)](*arguments, num_warps=warps)
    want = old.clone()
    want[put.long()] = x + old[put.long()] * loads
    assert torch.equal(out.cpu(), want)


@triton.jit
def scatter_twice(put, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(put + i)
    tl.store(out + at, 1)
    tl.store(out + at, 2)


@DTYPES
@pytest.mark.parametrize("bug", [False, True])
def test_elements_stored_again(bug: bool, dtype: Any) -> None:
    """What one program stores again beside another's element does not hide that one's."""
    torch.manual_seed(5)
    put = torch.randperm(1 << 14)[: 3 * BLOCK].to(I32) * 4
    put[BLOCK : 2 * BLOCK] = put[:BLOCK] + 1
    if bug:
        put[2 * BLOCK + 77] = put[33]
    out = torch.zeros(1 << 16, dtype=dtype, device="xpu")
    if bug:
        with pytest.raises(SimulatorTrap, match="data race: store"):
            scatter_twice[(3,)](put.to("xpu"), out, BLOCK)
    else:
        scatter_twice[(3,)](put.to("xpu"), out, BLOCK)
        assert int(out.cpu().sum()) == 2 * 3 * BLOCK


@triton.jit
def scatter_and_read(x, put, out, sums, PROGRAMS: tl.constexpr, B: tl.constexpr):
    """The first programs store elements, each its own; the others read rows of what none stores."""
    program, i = tl.program_id(0), tl.arange(0, B)
    at = tl.load(put + program * B + i)
    if program < PROGRAMS:
        tl.store(out + at, tl.load(x + program * B + i))
    else:
        tl.store(sums + program, tl.sum(tl.load(out + at).to(tl.float32)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16], ids=str)
@pytest.mark.parametrize("step", [1, 2, 7])
@pytest.mark.parametrize("bug", [False, True])
def test_rows_of_memory_that_was_scattered_to(bug: bool, step: int, dtype: Any) -> None:
    """What single elements were told is known of the dwords that others read with them."""
    torch.manual_seed(step)
    n, programs = 4096, 4
    rows = torch.arange(4 * BLOCK) * step
    free = torch.ones(n, dtype=torch.bool)
    free[rows] = False
    stored = free.nonzero().flatten()
    stored = stored[torch.randperm(len(stored))[: programs * BLOCK]]
    put = torch.cat([stored, rows]).to(I32)
    if bug:
        put[programs * BLOCK + 3 * BLOCK + 17] = stored[2 * BLOCK + 5]
    out = torch.zeros(n, dtype=dtype, device="xpu")
    x, sums = torch.ones(programs * BLOCK).to(dtype).to("xpu"), torch.zeros(16, device="xpu")
    grid = (programs + 4,)
    if bug:
        with pytest.raises(SimulatorTrap, match="data race: load") as caught:
            scatter_and_read[grid](x, put.to("xpu"), out, sums, programs, BLOCK)
        assert f"element ({int(stored[2 * BLOCK + 5])},)" in str(caught.value)
        assert "(program (2, 0, 0)" in str(caught.value)
        return
    scatter_and_read[grid](x, put.to("xpu"), out, sums, programs, BLOCK)


@triton.jit
def move(x, put, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + tl.load(put + i), tl.load(x + i), i < B - 3)


@pytest.mark.covering
@DTYPES
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("at", [3, 40, 200])
def test_one_of_several_registers_is_outside(at: int, masked: bool, dtype: Any) -> None:
    """All registers of a store are asked for together; the report is of the element at fault."""
    put = torch.randperm(256).to(I32)
    put[255 if masked else at] = 256
    arguments = torch.ones(256).to(dtype).to("xpu"), put.to("xpu"), torch.zeros(
        256, dtype=dtype, device="xpu")
    if masked:
        move[(1,)](*arguments, 256, num_warps=1)
        assert int(arguments[2].cpu().sum()) == 253
        return
    with pytest.raises(SimulatorTrap, match="store of") as caught:
        move[(1,)](*arguments, 256, num_warps=1)
    assert "argument 'out'" in str(caught.value)
    assert "element (256,), which it does not have" in str(caught.value)


@triton.jit
def in_two_sizes(even, words, odd, x, found, N: tl.constexpr, B: tl.constexpr):
    """Load elements, then load elements with their neighbours, then store to some neighbours."""
    i, program = tl.arange(0, B), tl.program_id(0)
    if program == 0:
        for start in range(0, N, B):
            tl.store(found + start + i, tl.load(x + tl.load(even + start + i)).to(tl.int32))
    elif program == 1:
        wide = x.to(tl.pointer_type(tl.int32))
        tl.store(found + N + i, tl.load(wide + tl.load(words + i)))
    else:
        tl.store(x + tl.load(odd + i), i.to(x.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16], ids=str)
def test_elements_and_words_of_a_tensor(dtype: torch.dtype) -> None:
    """All of the tensor has cells of elements, until the loads of words merge some of them."""
    torch.manual_seed(5)
    n = 4096
    even, odd = torch.randperm(n // 2) * 2, torch.randperm(n // 4)[:BLOCK] * 2 + 1
    words = torch.randperm(n * dtype.itemsize // 8)[:BLOCK]
    x = torch.zeros(n, dtype=dtype, device="xpu")
    found = torch.zeros(n // 2 + BLOCK, dtype=I32, device="xpu")
    for planted in (False, True):
        stored = odd + n // 2
        if planted:
            stored[BLOCK // 2] = words[BLOCK // 4] * (4 // dtype.itemsize) + 1
        given = [t.to(I32).to("xpu") for t in (even, words, stored)]
        if not planted:
            in_two_sizes[(3,)](*given, x, found, n // 2, BLOCK)
            continue
        with pytest.raises(SimulatorTrap, match=r"data race: store.*earlier load.*program \(1, 0"):
            in_two_sizes[(3,)](*given, x, found, n // 2, BLOCK)
