"""What the checks of one launch after another keep in memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.counting import Call, watched
from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings
from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.target import target
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.host_kernel import Form
from triton_xe.runtime.simulator.pipeline import translate
from triton_xe.runtime.simulator.sanitizer import instrument, shadow
from triton_xe.runtime.simulator.sanitizer.plan import SEARCHED, Instrumentation
from triton_xe.runtime.simulator.sanitizer.state import Entry, Word


def test_memory_of_a_launch_is_zeros_again_for_the_next() -> None:
    arena = shadow.Arena()
    for _ in range(2):
        sizes = [8000, 3, 308, shadow.ARENA_BYTES]
        starts = [arena.take(nbytes) for nbytes in sizes]
        taken = [shadow.array_at(at, n, np.uint8) for at, n in zip(starts, sizes, strict=True)]
        assert all(start % 64 == 0 for start in starts)
        assert not any(memory.any() for memory in (*taken, arena.table))
        assert min(b - a for a, b in pairwise(starts[:3])) >= 64
        for memory in taken:
            memory[:] = 0x55
        arena.table[:9] = 5
        arena.clear(9)
        assert arena.begin() is arena


@triton.jit
def through_addresses(table, out, ROWS: tl.constexpr):
    i = tl.arange(0, 16)
    for row in range(ROWS):
        block = tl.load(table + row).to(tl.pointer_type(tl.float32))
        tl.store(out + row * 16 + i, tl.load(block + i))


def test_blocks_that_an_earlier_launch_found_are_found_anew(monkeypatch: Any) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    rows = [torch.full((16,), float(k), device="xpu") for k in range(40)]
    table = torch.tensor([row.data_ptr() for row in rows]).to("xpu")
    out = torch.zeros(40 * 16, device="xpu")
    for _ in range(3):
        through_addresses[(1,)](table, out, ROWS=40)
        assert torch.equal(out.view(40, 16).cpu(), torch.arange(40.0)[:, None].expand(40, 16))
    del rows[7]
    with pytest.raises(SimulatorTrap, match=r"after free.*was read from argument 'table'"):
        through_addresses[(1,)](table, out, ROWS=40)
    through_addresses[(1,)](table, out, ROWS=7)


@triton.jit
def some_accesses(x, out, starts, kinds, N: tl.constexpr):
    """Programs load, or store, at one place each: whole lines, parts, every third dword."""
    p, i = tl.program_id(0), tl.arange(0, N)
    at, kind = x + tl.load(starts + p), tl.load(kinds + p)
    if kind == 0:
        tl.store(out + p * N + i, tl.load(at + i))
    elif kind == 1:
        tl.store(at + i, (p + 1.0).to(x.dtype.element_ty))
    elif kind == 2:
        tl.store(out + p * N, tl.load(at))
    elif kind == 3:
        tl.store(at, (p + 1.0).to(x.dtype.element_ty))
    elif kind == 4:
        tl.store(at + i, (p + 1.0).to(x.dtype.element_ty), i < 5)
    else:
        tl.store(out + p * N + i, tl.load(at + 3 * i))


def touched(kind: int, start: int, N: int) -> set[int]:
    count = {2: 1, 3: 1, 4: 5}.get(kind, N)
    return {start + k * (3 if kind == 5 else 1) for k in range(count)}


@pytest.mark.parametrize(*settings(
    N=(16, 64), dtype=(torch.int8, torch.float16, torch.float32), strength=1,
    in_turns=True))
def test_races_of_lines_and_of_their_parts(
    N: int, dtype: torch.dtype, monkeypatch: Any
) -> None:
    """However programs mix accesses of whole lines with others, races are found, and only those."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    random, seen = np.random.default_rng(N), [0, 0]
    x, out = torch.zeros(4096, dtype=dtype, device="xpu"), torch.zeros(8 * N, device="xpu")
    for _ in range(150):
        count = int(random.integers(2, 6))
        kinds = random.integers(0, 6, count)
        starts = random.integers(0, 20 * count, count) * random.choice([1, 16])
        cells = [touched(k, s, N) for k, s in zip(kinds, starts, strict=True)]
        races = any(cells[a] & cells[b] and {1, 3, 4} & {int(kinds[a]), int(kinds[b])}
                    for a in range(count) for b in range(a))
        given = [torch.from_numpy(np.array(v, np.int32)).to("xpu") for v in (starts, kinds)]
        seen[races] += 1
        if races:
            with pytest.raises(SimulatorTrap, match=r"data race: .*'x'.*element \(\d+,\)"):
                some_accesses[(count,)](x, out, *given, N, num_warps=1)
        else:
            some_accesses[(count,)](x, out, *given, N, num_warps=1)
    assert min(seen) > 20


@triton.jit
def strided_accesses(x, out, table, N: tl.constexpr, STEPS: tl.constexpr):
    """Programs load and store at places and steps of a table, one after another."""
    p, i = tl.program_id(0), tl.arange(0, N)
    for k in range(STEPS):
        row = table + (p * STEPS + k) * 3
        at = x + tl.load(row + 1) + i * tl.load(row + 2)
        if tl.load(row) == 0:
            tl.store(out + p * N + i, tl.load(at))
        elif tl.load(row) == 1:
            tl.store(at, (p + k).to(x.dtype.element_ty))
        else:
            tl.store(at, tl.load(at) + 1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.int64])
def test_races_of_strided_accesses(dtype: torch.dtype, monkeypatch: Any) -> None:
    """What programs do to every k-th element, again and again, races where they meet."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    N, steps, random, seen = 32, 4, np.random.default_rng(5), [0, 0]
    x, out = torch.zeros(4096, dtype=dtype, device="xpu"), torch.zeros(160, device="xpu")
    for _ in range(80):
        count, step = int(random.integers(2, 5)), int(random.integers(1, 6))
        table = np.zeros((count, steps, 3), np.int32)
        table[..., 0] = random.integers(0, 3, (count, steps)) * random.choice([0, 1], (count, 1))
        apart = random.permutation(count) * int(random.choice([1, N * 5, 64]))
        table[..., 1] = apart[:, None] + random.choice([0, 0, 40], (count, steps)) * step
        table[..., 2] = step
        stores, all_ = ([{a + s * j for kind, a, s in program if kind or of for j in range(N)}
                         for program in table.tolist()] for of in (0, 1))
        races = any(stores[a] & all_[b] for a in range(count) for b in range(count) if a != b)
        seen[races] += 1
        given = torch.from_numpy(table.reshape(-1)).to("xpu")
        if races:
            with pytest.raises(SimulatorTrap, match=r"data race: .*'x'"):
                strided_accesses[(count,)](x, out, given, N, steps, num_warps=1)
        else:
            strided_accesses[(count,)](x, out, given, N, steps, num_warps=1)
    assert min(seen) > 10


@triton.jit
def records(x, shift, N: tl.constexpr, FIELDS: tl.constexpr, BUG: tl.constexpr):
    """Each program reads and writes records of some fields; a store of program 1 may be off."""
    p = tl.program_id(0)
    at = x + (p * N + tl.arange(0, N)) * FIELDS
    a = tl.load(at)
    b = tl.load(at + 1)
    c = tl.load(at + FIELDS - 1)
    tl.store(at, b + 1.0)
    tl.store(at + 1, c + 2.0)
    tl.store(at + FIELDS - 1, a + 3.0)
    if BUG:
        tl.store(x + (p == 1) * (shift + 1) - 1 + (p != 1) * (p * N + 1) * FIELDS, 1.0)


STORES = [next(k for k, line in enumerate(records.src.splitlines()) if f" + {n}.0)" in line)
          for n in (1, 2, 3)]


@pytest.mark.covering
@pytest.mark.parametrize("fields", [2, 3, 4, 5])
@pytest.mark.parametrize("bug", [True, False])
def test_earlier_store_of_a_field_is_named_by_its_line(
    fields: int, bug: bool, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    N, begin = 32, records.starting_line_number + 1  # behind the decorator
    x = torch.zeros(4 * N * fields, device="xpu")
    if not bug:
        records[(4,)](x, 0, N, fields, bug, num_warps=1)
        rows = x.view(-1, fields).cpu()
        last = torch.tensor(3.0 if fields > 2 else 2.0)
        assert (rows[:, 0] == 1).all()
        assert (rows[:, fields - 1] >= last).all()
        return
    for field, store in ((0, 0), (1, 1 if fields > 2 else 2), (fields - 1, 2)):
        for record in (1, 13, 31):
            with pytest.raises(SimulatorTrap) as caught:
                records[(4,)](x, record * fields + field, N, fields, bug, num_warps=1)
            text = str(caught.value)
            assert "data race" in text
            assert f"element ({record * fields + field},)" in text
            earlier = text.split("the earlier store at ", 1)[1].split(" (program")[0]
            assert f"test_shadow.py:{begin + STORES[store]}:" in earlier


def test_loads_of_a_block_that_is_not_known_read_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row of the table of blocks is theirs, and none before it is looked at."""
    text = """
define spir_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q)
    !intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {
entry:
  %x = load i32, ptr addrspace(1) %p, align 4
  store i32 %x, ptr addrspace(1) %q, align 4
  ret void
}
!0 = !{i32 16}
!1 = !{i32 16, i32 1, i32 1}
""".replace(")\n    !intel", ") !intel")
    before = f"i64 {-8 * Entry.WORDS}"
    in_map = instrument.in_map
    for row in (0, SEARCHED):
        monkeypatch.setattr(instrument, "in_map",
                            lambda w, p, _, t, row=row: in_map(w, p, row, t))
        plan = Instrumentation(suspects=frozenset({0}))
        made = translate(parse_module(text), "k", target("bmg"), Form(plan=plan)).text
        check_text(made, f"CHECK-NOT: {before}")


@triton.jit
def numbered(ticket, out):
    k = tl.atomic_add(ticket, 1)
    tl.store(out + k, k)


def test_each_warp_has_a_place_for_the_result_of_an_atomic(monkeypatch: Any) -> None:
    """Where several store to one, the cells are asked for all of shared memory from then on."""
    mixed: list[int] = []

    def note(call: Call) -> None:
        mixed.append(int(call.arguments["self"].words[Word.SLM_MIXED]))

    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    ticket, out = (torch.zeros(n, dtype=torch.int32, device="xpu") for n in (1, 8))
    with watched(shadow.LaunchState.close, at_call=note):
        numbered[(8,)](ticket, out, num_warps=8)
    assert torch.equal(out.cpu(), torch.arange(8, dtype=torch.int32))
    assert mixed == [0]
