"""Bugs of order planted in kernels whose programs wait for each other, and their correct forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from python.test.counting import watched
from python.test.gemm.pairwise import settings
from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.sanitizer import shadow

I32 = torch.int32


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    monkeypatch.setenv("TRITON_XE_TIME_LIMIT", "5")


def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.zeros(shape, device="xpu", dtype=dtype)


def expect(bug: str, launch: Callable[[], object], match: str) -> None:
    """A report where there is a bug, none where there is not."""
    if not bug:
        launch()
        return
    with pytest.raises(SimulatorTrap, match=match):
        launch()


@triton.jit
def locked_sums(dy, dw, lock, count, GROUPS: tl.constexpr, N: tl.constexpr, BUG: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, N)
    group = row % GROUPS
    taken = lock + group
    if BUG == "another's lock":
        taken = lock + (row // 2) % GROUPS
    value = tl.load(dy + row * N + columns)
    at = dw + group * N + columns
    while tl.atomic_cas(taken, 0, 1) == 1:
        pass
    first = tl.load(count + group)
    if first == 0:
        tl.atomic_xchg(count + group, 1)
    else:
        value += tl.load(at)
    tl.store(at, value)
    tl.debug_barrier()
    tl.atomic_xchg(taken, 0)


@pytest.mark.parametrize("bug", ["", "another's lock"])
def test_locks(bug: str) -> None:
    dy, dw = torch.randn(16, 512).to("xpu"), zeros(4, 512)
    locks = zeros(4, dtype=I32), zeros(4, dtype=I32)
    expect(bug, lambda: locked_sums[(16,)](dy, dw, *locks, 4, 512, bug), "data race")
    if not bug:
        want = dy.cpu().reshape(4, 4, 512).sum(0)
        torch.testing.assert_close(dw.cpu(), want, atol=1e-5, rtol=1e-5)


@triton.jit
def split_k(parts, out, count, S: tl.constexpr, N: tl.constexpr, BUG: tl.constexpr):
    tile, part = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, N)
    tl.store(parts + (tile * S + part) * N + i, i * 1.0)
    arrived = count + tile
    if BUG == "relaxed" or BUG == "release" or BUG == "acquire":
        n = tl.atomic_add(arrived, 1, sem=BUG)
    elif BUG == "only within a program":
        n = tl.atomic_add(arrived, 1, scope="cta")
    else:
        n = tl.atomic_add(arrived, 1)
    if n == (S - 2 if BUG == "one too early" else S - 1):
        total = tl.zeros((N,), tl.float32)
        for k in range(S):
            total += tl.load(parts + (tile * S + k) * N + i)
        tl.store(out + tile * N + i, total)
        tl.store(arrived, 0)


@pytest.mark.parametrize(
    "bug", ["", "relaxed", "release", "acquire", "one too early", "only within a program"])
def test_split_k_with_counters(bug: str) -> None:
    out = zeros(3, 256)

    def launch() -> None:
        split_k[(3, 4)](zeros(3, 4, 256), out, zeros(3, dtype=I32), 4, 256, bug)

    expect(bug, launch, "data race")
    if not bug:
        assert torch.equal(out.cpu(), torch.arange(256.0).mul(4).expand(3, 256))


@triton.jit
def look_back(x, sums, flags, out, N: tl.constexpr, BUG: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + p * N + i)
    before = 0.0
    if p > 0:
        flag = flags + (tl.maximum(p - 2, 0) if BUG == "another's flag" else p - 1)
        if BUG == "plain":
            while tl.load(flag, volatile=True) == 0:
                pass
        else:
            while tl.atomic_add(flag, 0, sem="relaxed" if BUG == "relaxed" else "acquire") == 0:
                pass
        before = tl.load(sums + p - 1)
    if BUG == "flag before data":
        tl.atomic_xchg(flags + p, 1, sem="release")
    tl.store(sums + p, before + tl.sum(v, 0))
    tl.atomic_xchg(flags + p, 1, sem="release")
    tl.store(out + p * N + i, before + tl.cumsum(v, 0))


@pytest.mark.parametrize("bug", ["", "another's flag", "plain", "relaxed"])
def test_look_back(bug: str) -> None:
    x = torch.randn(8, 256).to("xpu")
    arguments = (x, zeros(8), zeros(8, dtype=I32), zeros(8, 256), 256, bug)
    expect(bug, lambda: look_back[(8,)](*arguments), "data race")


@triton.jit
def neighbours(x, kept, flags, out, N: tl.constexpr, BUG: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(kept + p * N + i, tl.load(x + p * N + i))
    if BUG != "no barrier":
        tl.debug_barrier()
    tl.atomic_xchg(flags + p * 16 + tl.arange(0, 16), 1, sem="release")
    if p > 0:
        tl.atomic_poll(flags + (p if BUG == "own flag" else p - 1) * 16, 1)
        tl.store(out + p * N + i, tl.load(kept + (p - 1) * N + i))


@pytest.mark.parametrize("bug", ["", "no barrier", "own flag"])
def test_flags_that_one_warp_sets(bug: str) -> None:
    """A warp releases its own stores, and those of others before the last barrier."""
    x = torch.randn(4, 1024).to("xpu")
    arguments = (x, zeros(4, 1024), zeros(64, dtype=I32), zeros(4, 1024), 1024, bug)
    expect(bug, lambda: neighbours[(4,)](*arguments, num_warps=4), "data race: load .*'kept'")


@triton.jit
def handed_on(x, flag, out, N: tl.constexpr, HOW: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, N)
    if p == 0:
        tl.store(x + i, i * 1.0)
        tl.atomic_store(flag, 1, sem="relaxed" if HOW == "relaxed store" else "release")
    elif p == 1:
        if HOW == "stored over":
            tl.atomic_store(flag, 1, sem="relaxed")
        elif HOW == "exchanged":
            tl.atomic_xchg(flag, 1, sem="relaxed")
    else:
        tl.atomic_load(flag, sem="relaxed" if HOW == "relaxed load" else "acquire")
        tl.store(out + i, tl.load(x + i))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("how", "ordered"), [
    ("", True), ("exchanged", True), ("relaxed store", False), ("relaxed load", False),
    ("stored over", False),
])
def test_atomic_loads_and_stores(how: str, ordered: bool) -> None:
    """An exchange hands on what was released before it, a store does not."""
    x, out = zeros(256), zeros(256)
    expect("" if ordered else how,
           lambda: handed_on[(3,)](x, zeros(1, dtype=I32), out, 256, how), "data race: load .*'x'")


@triton.jit
def readers(x, count, BUG: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    n = tl.atomic_add(count, 1, sem="acquire" if BUG == "not released" else "acq_rel")
    if n == tl.num_programs(0) - (2 if BUG == "one too early" else 1):
        tl.store(x + i, v + 1)


@pytest.mark.parametrize("bug", ["", "one too early", "not released"])
def test_store_after_several_readers(bug: str) -> None:
    arguments = (zeros(256), zeros(1, dtype=I32), bug, 256)
    expect(bug, lambda: readers[(4,)](*arguments), "data race")


@triton.jit
def histogram(x, out, N: tl.constexpr, ORDER: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.atomic_add(out + tl.load(x + i), 1, sem=ORDER)


def test_more_releases_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is made as it is needed; a launch that needs too much is refused, not half checked."""
    x = torch.randint(0, 256, (64 * 256,), dtype=I32)
    out = zeros(256, dtype=I32)
    histogram[(64,)](x.to("xpu"), out, 256, "acq_rel")
    assert torch.equal(out.cpu(), x.bincount(minlength=256).int())
    monkeypatch.setattr(shadow, "MOST_RECORDS_OF_RELEASES", shadow.RECORDS)
    with pytest.raises(SimulatorTrap, match="more than the checks can follow"):
        histogram[(64,)](x.to("xpu"), out, 256, "acq_rel")
    histogram[(64,)](x.to("xpu"), out, 256, "relaxed")


@triton.jit
def many_releases(x, counts, flag, data, out, N: tl.constexpr, BUG: tl.constexpr):
    program = tl.program_id(0)
    i = tl.arange(0, N)
    last = program == tl.num_programs(0) - 1
    others = (i >= 0) & (program > 0)
    tl.atomic_add(counts + tl.load(x + program * N + i), 1, mask=others, sem="acq_rel")
    if program == 0:
        tl.store(data + i, i)
        tl.debug_barrier()
        tl.atomic_add(flag + (1 if BUG != "" else 0), 1, sem="release")
    if last:
        tl.atomic_add(flag, 1, sem="acquire")
        tl.store(out + i, tl.load(data + i))


@pytest.mark.parametrize("bug", ["", "another's flag"])
def test_flag_among_many_releases(bug: str) -> None:
    """However much a program has acquired, what it has not acquired is found."""
    x = torch.randint(0, 64, (128 * 128,), dtype=I32).to("xpu")
    arguments = (x, zeros(64, dtype=I32), zeros(2, dtype=I32), zeros(128), zeros(128), 128, bug)
    expect(bug, lambda: many_releases[(128,)](*arguments), "data race: load")


@triton.jit
def mixed_atomics(out, seen, x, N: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, N)
    program = tl.program_id(0)
    tl.atomic_max(out + (i * 7 + program) % N, i, sem="relaxed")
    tl.atomic_add(seen + i % 8, tl.load(x + i), mask=i % 3 == program % 3, sem="relaxed")
    if BUG != "" and program == 3:
        tl.store(out + 5, -1)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("bug", ["", "store"])
def test_atomics_of_several_programs(bug: str, dtype: Any) -> None:
    """Lanes at one place, masked ones, and those of other programs do not clash; stores do."""
    out, seen, x = zeros(128, dtype=I32), zeros(8, dtype=dtype), torch.ones(128, dtype=dtype)
    arguments = (out, seen, x.to("xpu"), 128, bug)
    expect(bug, lambda: mixed_atomics[(6,)](*arguments), "data race: store .* earlier atomic")
    if not bug:
        assert int(seen.float().sum()) == 2 * 128
        assert int(out.min()) > 0


@triton.jit
def one_each(out, n):
    tl.store(out + tl.program_id(0) % n, tl.program_id(0))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32])
def test_elements_of_one_word(dtype: Any) -> None:
    """Programs may store their own bytes of a word, and not another's."""
    out = zeros(8, dtype=dtype)
    one_each[(8,)](out, 8)
    assert out.cpu().tolist() == list(range(8))
    with pytest.raises(SimulatorTrap, match=r"data race: store .* the earlier store"):
        one_each[(8,)](out, 4)


@triton.jit
def add_at(out, place):
    tl.atomic_add(out + place, 1.0)


def test_atomic_that_reaches_another_tensor() -> None:
    first, second = zeros(64), zeros(64)
    add_at[(1,)](first, 63)
    with pytest.raises(SimulatorTrap, match=r"out-of-bounds atomic .*'out'"):
        add_at[(1,)](first, (second.data_ptr() - first.data_ptr()) // 4)


@triton.jit
def in_place(x, y, n, BLOCK: tl.constexpr):
    """Every warp loads one element for itself, which one of them overwrites later."""
    scale = tl.load(x + tl.load(y))
    for first in range(0, n, BLOCK):
        i = first + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, i < n, other=0.0) * scale, i < n)


def test_scalar_that_is_overwritten_in_place() -> None:
    x = torch.full((4096,), 2.0, device="xpu")
    in_place[(1,)](x, torch.tensor([1500], device="xpu"), 4096, BLOCK=1024, sanitize=True)
    assert torch.equal(x.cpu(), torch.full((4096,), 4.0))


@triton.jit
def reversed_sums(x, out, MEET: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))
    if MEET:
        tl.debug_barrier()
    tl.store(x + i, tl.load(out + BLOCK - 1 - i))


def test_barriers_that_the_compiler_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program sees what it stored; other compilers ask for a barrier, and `strict` tells."""
    x, out = torch.randn(1024, device="xpu"), torch.zeros(1024, device="xpu")
    for words, meets, fails in (("1", False, False), ("strict", True, False),
                                ("strict", False, True)):
        monkeypatch.setenv("TRITON_XE_SANITIZE", words)
        if fails:
            with pytest.raises(SimulatorTrap, match="data race: load"):
                reversed_sums[(1,)](x, out, meets, BLOCK=1024)
        else:
            reversed_sums[(1,)](x, out, meets, BLOCK=1024)


# --- programs that run together: queues, tickets, barriers over the grid --------------------------


@triton.jit
def overlapping_items(x, out, ticket, N: tl.constexpr, OVER: tl.constexpr, SEM: tl.constexpr):
    """Items of a queue span a block, and `OVER` elements of the next."""
    i = tl.arange(0, 2 * N)
    k = tl.atomic_add(ticket, 1, sem=SEM)
    while k < 32:
        tl.store(out + k * N + i, tl.load(x + k * N + i) + k, i < N + OVER)
        k = tl.atomic_add(ticket, 1, sem=SEM)


@triton.jit
def overlapping_reads(x, out, ticket, N: tl.constexpr, OVER: tl.constexpr, SEM: tl.constexpr):
    """In a loop whose end the queue does not decide; each item reads what the next one stores."""
    i = tl.arange(0, 2 * N)
    for _ in range(20):
        k = tl.atomic_add(ticket, 1, sem=SEM)
        if k < 32:
            sums = tl.load(out + k * N + i, i < N + OVER, other=0)
            tl.store(out + k * N + i, sums + tl.load(x + k * N + i), i < N)


@pytest.mark.parametrize(*settings(
    kernel=(overlapping_items, overlapping_reads), sem=("relaxed", "acq_rel"), programs=(2, 24),
    seed=("0", "5"), unselected=pytest.mark.rest))
def test_items_of_a_queue_that_overlap(
    kernel: Any, sem: str, programs: int, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few programs could do all of the work, who takes which item is open."""
    monkeypatch.setenv("TRITON_XE_SHUFFLE", seed)
    x = torch.randn(40 * 128).to("xpu")
    for over in (0, 1):
        expect(str(over or ""), lambda over=over: kernel[(programs,)](
            x, torch.ones(40 * 128, device="xpu"), zeros(1, dtype=I32), 128, over, sem),
            r"data race: .*argument 'out'.*element \(\d+,\)")


@triton.jit
def tickets(x, parts, out, ticket, done, N: tl.constexpr, TILES: tl.constexpr, BUG: tl.constexpr):
    """Parts of tiles by ticket; who does the last one of a tile adds them up."""
    i = tl.arange(0, N)
    k = tl.atomic_add(ticket, 1)
    while k < TILES * 4:
        tl.store(parts + k * N + i, tl.load(x + k * N + i))
        n = tl.atomic_add(done + k // 4, 1, sem="relaxed" if BUG == "relaxed" else "acq_rel")
        if n == (2 if BUG == "early" else 3):
            total = tl.zeros((N,), tl.float32)
            for p in range(4):
                total += tl.load(parts + (k // 4 * 4 + p) * N + i)
            tl.store(out + k // 4 * N + i, total)
        k = tl.atomic_add(ticket, 1)


@triton.jit
def locked_items(x, out, ticket, lock, N: tl.constexpr, BUG: tl.constexpr):
    i = tl.arange(0, N)
    k = tl.atomic_add(ticket, 1, sem="relaxed")
    while k < 32:
        v = tl.load(x + k * N + i)
        taken = lock + (k % 2 if BUG == "two locks" else 0)
        while tl.atomic_cas(taken, 0, 1, sem="relaxed" if BUG == "relaxed" else "acquire") == 1:
            pass
        tl.store(out + i, tl.load(out + i) + v)
        tl.atomic_xchg(taken, 0, sem="release")
        k = tl.atomic_add(ticket, 1, sem="relaxed")


@triton.jit
def over_the_grid(x, count, N: tl.constexpr, BUG: tl.constexpr):
    """Rounds of neighbours, with a barrier over the grid between them."""
    p, n, i = tl.program_id(0), tl.num_programs(0), tl.arange(0, N)
    for r in range(4):
        source, target = x + r % 2 * n * N, x + (1 - r % 2) * n * N
        tl.store(target + p * N + i, tl.load(source + (p + 1) % n * N + i) + 1)
        tl.atomic_add(count, 1, sem="release")
        if BUG != "no wait":
            while tl.atomic_add(count, 0, sem="relaxed" if BUG == "relaxed" else "acquire") < (
                    r + 1) * n:
                pass


@triton.jit
def own_scratch(x, out, scratch, ticket, N: tl.constexpr, BUG: tl.constexpr):
    """Programs use memory of their own for one item after the other."""
    i = tl.arange(0, N)
    mine = scratch + (0 if BUG == "shared" else tl.program_id(0)) * N
    k = tl.atomic_add(ticket, 1, sem="relaxed")
    while k < 32:
        tl.store(mine + i, tl.load(x + k * N + i))
        tl.debug_barrier()
        tl.store(out + k * N + i, tl.load(mine + N - 1 - i))
        tl.debug_barrier()
        k = tl.atomic_add(ticket, 1, sem="relaxed")


@pytest.mark.parametrize(*settings(strength=1, in_turns=True, planted=(
    (tickets, ""), (tickets, "relaxed"), (locked_items, ""), (locked_items, "relaxed"),
    (locked_items, "two locks"), (over_the_grid, ""), (over_the_grid, "relaxed"),
    (over_the_grid, "no wait"), (own_scratch, ""), (own_scratch, "shared"), (tickets, "early")),
    seed=("0", "1", "2")))
def test_programs_that_run_together(
    planted: tuple[Any, str], seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What atomics order is no race, in whichever order programs take turns; all else is."""
    kernel, bug = planted
    monkeypatch.setenv("TRITON_XE_SHUFFLE", seed)
    N, x, count = 128, torch.randn(32 * 128).to("xpu"), zeros(16, dtype=I32)
    given = {
        tickets: (x, zeros(32, N), zeros(8, N), count, zeros(8, dtype=I32), N, 8),
        locked_items: (x, zeros(N), count, zeros(2, dtype=I32), N),
        over_the_grid: (zeros(24, N), count, N),
        own_scratch: (x, zeros(32, N), zeros(12, N), count, N),
    }[kernel]
    expect(bug, lambda: kernel[(12,)](*given, bug), r"data race: .*element \(\d+")
    rows = x.cpu().view(32, N)
    want = {tickets: rows.view(8, 4, N).sum(1), locked_items: rows.sum(0),
            over_the_grid: torch.tensor([4.0, 3.0]).repeat_interleave(12 * N).view(24, N),
            own_scratch: rows.flip(1)}[kernel]
    if not bug:
        at = {tickets: 2, locked_items: 1, over_the_grid: 0, own_scratch: 1}[kernel]
        torch.testing.assert_close(given[at].cpu(), want, atol=1e-4, rtol=1e-4)


@triton.jit
def sums_after_all(x, count, out, N: tl.constexpr, BUG: tl.constexpr):
    """All wait for all; a shadow of undefined values goes through shared memory meanwhile."""
    p, i = tl.program_id(0), tl.arange(0, 2 * N)
    v = tl.load(x + p * N + i, i < N)
    tl.atomic_add(count, 1, sem="acq_rel")
    while tl.atomic_add(count, 0, sem="acq_rel") < tl.num_programs(0):
        pass
    s = tl.cumsum(v)
    tl.store(out + p * N + i, s, i < (2 * N if BUG else N))


@pytest.mark.parametrize("bug", [False, True])
def test_waiting_with_undefined_values(bug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the checks write in a loop that waits is no progress: it went on for ever."""
    monkeypatch.setenv("TRITON_XE_TIME_LIMIT", "60")
    x, out = torch.randn(4, 128), zeros(5, 128)
    given = (x.to("xpu"), zeros(1, dtype=I32), out, 128, bug)
    expect("unmasked" * bug, lambda: sums_after_all[(4,)](*given), "masked off and has no `other`")
    if not bug:
        torch.testing.assert_close(out.cpu()[:4], x.cumsum(1))


@triton.jit
def many_items(x, bins, ticket, out, N: tl.constexpr, ITEMS: tl.constexpr):
    i = tl.arange(0, N)
    k = tl.atomic_add(ticket, 1)
    while k < ITEMS:
        tl.atomic_add(bins + tl.load(x + k * N + i), 1, sem="acq_rel")
        tl.store(out + k, k)
        k = tl.atomic_add(ticket, 1)


def test_more_clocks_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that nobody has any more are used again; where that is not enough, all goes on."""
    x = torch.randint(0, 64, (128 * 128,), dtype=I32).to("xpu")
    for room, most, runs_out in ((shadow.CLOCK_BYTES, shadow.MOST_CLOCK_BYTES, False),
                                 (1 << 17, shadow.MOST_CLOCK_BYTES, True), (50000, 50000, True)):
        monkeypatch.setattr(shadow, "CLOCK_BYTES", room)
        monkeypatch.setattr(shadow, "MOST_CLOCK_BYTES", most)
        shadow.spare_clocks.clear()
        bins, out = zeros(64, dtype=I32), zeros(128, dtype=I32)
        with watched(shadow.LaunchState.free_clocks) as calls:
            many_items[(16,)](x, bins, zeros(1, dtype=I32), out, 128, 128)
        assert torch.equal(bins.cpu(), x.cpu().bincount(minlength=64).int())
        assert bool(calls) == runs_out
    shadow.spare_clocks.clear()


@triton.jit
def ring(x, y, slots, sent, taken, n, CAP: tl.constexpr, LIMIT: tl.constexpr, N: tl.constexpr,
         PRODUCER: tl.constexpr):
    i = tl.arange(0, N)
    if tl.program_id(0) == PRODUCER:
        for k in range(n):
            while k - tl.atomic_add(taken, 0, sem="acquire") >= LIMIT:
                pass
            tl.store(slots + k % CAP * N + i, tl.load(x + k * N + i))
            tl.debug_barrier()
            tl.atomic_xchg(sent, k + 1, sem="release")
    else:
        for k in range(n):
            while tl.atomic_add(sent, 0, sem="acquire") <= k:
                pass
            tl.store(y + k * N + i, tl.load(slots + k % CAP * N + i))
            tl.debug_barrier()
            tl.atomic_xchg(taken, k + 1, sem="release")


@triton.jit
def stages(x, y, slots, done, n, CAP: tl.constexpr, LIMIT: tl.constexpr, N: tl.constexpr):
    """Each program hands items on to the next one, through a ring."""
    p, i, last = tl.program_id(0), tl.arange(0, N), tl.num_programs(0) - 1
    for k in range(n):
        if p > 0:
            while tl.atomic_add(done + p - 1, 0, sem="acquire") <= k:
                pass
        if p < last:
            while tl.atomic_add(done + p + 1, 0, sem="acquire") + LIMIT <= k:
                pass
        source = x + k * N if p == 0 else slots + ((p - 1) * CAP + k % CAP) * N
        target = y + k * N if p == last else slots + (p * CAP + k % CAP) * N
        tl.store(target + i, tl.load(source + i))
        tl.debug_barrier()
        tl.atomic_xchg(done + p, k + 1, sem="release")


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize(("slots", "producer", "programs"), [
    (2, 0, 2), (8, 1, 2), (2, None, 3), *(
        pytest.param(*more, marks=pytest.mark.rest)
        for more in ((3, 1, 2), (8, 0, 2), (4, None, 6)))])
def test_rings_that_are_too_full(
    slots: int, producer: int | None, programs: int, extra: int
) -> None:
    """Nobody is overtaken in an order of turns that is the same for all: some must be delayed."""
    n, N, x = 40, 64, torch.randn(40, 64)
    y, kept = zeros(n, N), zeros(programs * slots, N)

    def launch() -> None:
        flags = zeros(programs, dtype=I32)
        if producer is None:
            stages[(programs,)](x.to("xpu"), y, kept, flags, n, slots, slots + extra, N)
        else:
            ring[(programs,)](x.to("xpu"), y, kept, flags, flags[1:], n, slots, slots + extra, N,
                              producer)

    expect("too full" * extra, launch, r"data race: .*argument '(slots|kept)'.*element \(\d+")
    if not extra:
        assert torch.equal(y.cpu(), x)


@triton.jit
def largest_first(x, out, count, N: tl.constexpr, BUG: tl.constexpr):
    """Positions of the largest numbers; a scalar store removes each from its tensor."""
    i = tl.arange(0, N)
    last = 0
    for k in range(count):
        if k > 0:
            tl.store(x + last, -1.0)
        value = tl.load(x + i)
        tl.store(x + i, value)
        if BUG != "":
            tl.store(x + (i + 16) % N, value)
            tl.store(x + (i + 32) % N, value)
        _, last = tl.max(value, 0, return_indices=True)
        tl.store(out + k, last)


@pytest.mark.parametrize("bug", ["", "another warp's elements"])
def test_scalar_stored_between_stores_of_all_warps(bug: str) -> None:
    """The compiler orders stores by one warp and by all, but not two accesses by all."""
    x, out = torch.randperm(256).float().to("xpu"), zeros(20, dtype=I32)
    expected = x.cpu().argsort(descending=True)[:20].tolist()
    expect(bug, lambda: largest_first[(1,)](x, out, 20, 256, bug, num_warps=8),
           "data race: .* the earlier store")
    if not bug:
        assert out.cpu().tolist() == expected
