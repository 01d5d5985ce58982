"""Programs that wait for each other run together, as many as the device holds at once."""


import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.errors import DeviceError, SimulatorTrap
from triton_xe.hardware.residency import resident_groups
from triton_xe.hardware.target import target

BMG = target("bmg")


@pytest.fixture(params=["1", "3", "shuffled", "checked"], autouse=True)
def how(request, monkeypatch):
    """How launches run; the checks follow order between programs until one begins early."""
    how = request.param
    monkeypatch.setenv("TRITON_XE_THREADS", how if how.isdigit() else "1")
    monkeypatch.setenv("TRITON_XE_SHUFFLE", "5" * (how == "shuffled"))
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1" * (how == "checked"))
    monkeypatch.setenv("TRITON_XE_TIME_LIMIT", "60")
    return how


@triton.jit
def arrive_and_wait(sem):
    """The barrier over a grid that Inductor's cooperative reductions use."""
    tl.debug_barrier()
    n = tl.num_programs(0).to(tl.uint32)
    step = tl.full([], 1, tl.uint32)
    if tl.program_id(0) == 0:
        step = tl.full([], 0x80000000, tl.uint32) - (n - 1)
    old = tl.atomic_add(sem, step, sem="release")
    flipped = False
    while not flipped:
        now = tl.atomic_add(sem, tl.full([], 0, tl.uint32), sem="acquire")
        flipped = ((old ^ now) & 0x80000000) != 0
    tl.debug_barrier()


@triton.jit
def neighbours(sem, a, b, n, ROUNDS: tl.constexpr):
    """Each program adds what the next one has, round by round."""
    p = tl.program_id(0)
    for _ in range(ROUNDS):
        tl.store(b + p, tl.load(a + p) + tl.load(a + (p + 1) % n))
        arrive_and_wait(sem)
        tl.store(a + p, tl.load(b + p))
        arrive_and_wait(sem)


@pytest.mark.parametrize("programs", [1, 7, resident_groups(BMG, 4, barriers=1)])
def test_barriers_over_the_grid(programs):
    a = np.arange(programs, dtype=np.int32)
    want = a.copy()
    for _ in range(3):
        want = want + np.roll(want, -1)
    sem = np.zeros(1, np.uint32)
    neighbours[(programs,)](sem, a, np.zeros_like(a), programs, ROUNDS=3, num_warps=4)
    assert (a == want).all()


@pytest.mark.parametrize("warps", [1, 4])
def test_more_programs_than_the_device_holds_hang(warps):
    held = resident_groups(BMG, warps, barriers=int(warps > 1))
    a = np.zeros(held + 1, np.int32)
    with pytest.raises(SimulatorTrap, match=f"a deadlock: .*others: {held}, .*1 of {held + 1} "
                       f"programs have not begun.*holds {held} at once.*a real device hangs"):
        neighbours[(held + 1,)](np.zeros(1, np.uint32), a, a.copy(), held + 1, ROUNDS=1,
                                num_warps=warps)


def test_cooperative_grids():
    """A launch that says so is refused before it runs."""
    held = resident_groups(BMG, 8, barriers=1)
    a = np.zeros(held + 1, np.int32)
    given = {"ROUNDS": 1, "num_warps": 8, "launch_cooperative_grid": True}
    neighbours[(held,)](np.zeros(1, np.uint32), a, a.copy(), held, **given)
    with pytest.raises(DeviceError, match=rf"of its {held + 1} programs.* holds {held} at"):
        neighbours[(held + 1,)](np.zeros(1, np.uint32), a, a.copy(), held + 1, **given)


@triton.jit
def take(lock):
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass


@triton.jit
def count_under_lock(lock, counter, ROUNDS: tl.constexpr):
    for _ in range(ROUNDS):
        take(lock)
        tl.store(counter, tl.load(counter, volatile=True) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0, sem="release")


@pytest.mark.parametrize("warps", [1, 4])
def test_locks(warps):
    lock, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    count_under_lock[(100,)](lock, counter, ROUNDS=3, num_warps=warps)
    assert counter[0] == 300


@triton.jit
def two_locks(locks, sem):
    """Each of two programs holds what the other one wants."""
    p = tl.program_id(0)
    take(locks + p)
    arrive_and_wait(sem)
    take(locks + 1 - p)


def test_a_deadlock_of_two_locks():
    with pytest.raises(SimulatorTrap, match=r"test_together.py:\d+.*program \(., 0, 0\), warp 0: "
                       "a deadlock: programs that wait for others: 2, and all programs of the"):
        two_locks[(2,)](np.zeros(2, np.int32), np.zeros(1, np.uint32))


@triton.jit
def wait_for_a_flag(flag, out, SETTER: tl.constexpr):
    p = tl.program_id(0)
    if p == SETTER:
        tl.store(out + p, 7)
        tl.atomic_xchg(flag, 1)
    else:
        while tl.load(flag, volatile=True) == 0:
            pass
        tl.store(out + p, tl.load(out + SETTER))


@pytest.mark.parametrize("setter", [0, 3, 9])
def test_flags_of_later_programs(setter, how):
    out = np.zeros(10, np.int32)
    if how == "checked":  # a volatile load acquires nothing
        with pytest.raises(SimulatorTrap, match="data race"):
            wait_for_a_flag[(10,)](np.zeros(1, np.int32), out, SETTER=setter)
        return
    wait_for_a_flag[(10,)](np.zeros(1, np.int32), out, SETTER=setter)
    assert (out == 7).all()


def test_a_flag_that_nobody_sets():
    with pytest.raises(SimulatorTrap, match=r"a deadlock: .*others: 9, and all"):
        wait_for_a_flag[(9,)](np.zeros(1, np.int32), np.zeros(10, np.int32), SETTER=9)
    with pytest.raises(SimulatorTrap, match=r"a deadlock: .*others: 8, and all others have ended"):
        all_but_one_wait[(9,)](np.zeros(1, np.int32))


@triton.jit
def all_but_one_wait(flag):
    if tl.program_id(0) != 4:
        while tl.load(flag, volatile=True) == 0:
            pass


@triton.jit
def bounded_wait(flag, tries, LIMIT: tl.constexpr):
    """Gives up after a while."""
    n = 0
    while (tl.load(flag, volatile=True) == 0) & (n < LIMIT):
        n += 1
    tl.store(tries + tl.program_id(0), n)


def test_a_wait_that_gives_up_is_no_deadlock():
    tries = np.zeros(4, np.int32)
    bounded_wait[(4,)](np.zeros(1, np.int32), tries, LIMIT=5000)
    assert (tries == 5000).all()


@triton.jit
def look_back(x, out, state, sums, n, BLOCK: tl.constexpr):
    """A scan whose programs begin with the last block: each waits for a later one."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n, 0)
    total = tl.sum(values)
    before = tl.full([], 0, tl.int32)
    if block > 0:
        tl.store(sums + 2 * block, total)
        tl.debug_barrier()
        tl.atomic_xchg(state + block, 1, sem="release")
        other = block - 1
        while other >= 0:
            found = tl.atomic_add(state + other, 0, sem="acquire")
            while found == 0:
                found = tl.atomic_add(state + other, 0, sem="acquire")
            if found == 2:
                before += tl.load(sums + 2 * other + 1, volatile=True)
                other = tl.full([], -1, tl.int32)
            else:
                before += tl.load(sums + 2 * other, volatile=True)
                other -= 1
    tl.store(sums + 2 * block + 1, before + total)
    tl.debug_barrier()
    tl.atomic_xchg(state + block, 2, sem="release")
    tl.store(out + at, tl.cumsum(values) + before, at < n)


@pytest.mark.sample(4)
@pytest.mark.parametrize("warps", [1, 4])
def test_scans_that_look_back(warps):
    x = np.random.default_rng(1).integers(-9, 9, 5000).astype(np.int32)
    blocks = triton.cdiv(x.size, 128)
    out, state, sums = np.zeros_like(x), np.zeros(blocks, np.int32), np.zeros(2 * blocks, np.int32)
    look_back[(blocks,)](x, out, state, sums, x.size, BLOCK=128, num_warps=warps)
    assert (out == np.cumsum(x)).all()


@triton.jit
def ring(items, slots, head, tail, out, n, SIZE: tl.constexpr):
    """Even programs produce, odd ones consume; a ring of few slots holds up both."""
    p = tl.program_id(0)
    if p % 2 == 0:
        ticket = tl.atomic_add(head, 1)
        while ticket < n:
            while tl.atomic_add(slots + ticket % SIZE, 0, sem="acquire") != ticket // SIZE * 2:
                pass
            tl.store(items + ticket % SIZE, ticket * ticket)
            tl.debug_barrier()
            tl.atomic_add(slots + ticket % SIZE, 1, sem="release")
            ticket = tl.atomic_add(head, 1)
    else:
        ticket = tl.atomic_add(tail, 1)
        while ticket < n:
            while tl.atomic_add(slots + ticket % SIZE, 0, sem="acquire") != ticket // SIZE * 2 + 1:
                pass
            tl.store(out + ticket, tl.load(items + ticket % SIZE, volatile=True))
            tl.debug_barrier()
            tl.atomic_add(slots + ticket % SIZE, 1, sem="release")
            ticket = tl.atomic_add(tail, 1)


def test_producers_and_consumers():
    n, size = 200, 4
    out = np.zeros(n, np.int32)
    ring[(10,)](np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(1, np.int32),
                np.zeros(1, np.int32), out, n, SIZE=size)
    assert (out == np.arange(n) ** 2).all()


@triton.jit
def stream_k(a, b, c, partial, flags, K, BLOCK: tl.constexpr, STEP: tl.constexpr,
             SPLIT: tl.constexpr):
    """The first program of a tile waits for the sums of the others, which come later."""
    tile, part = tl.program_id(0) // SPLIT, tl.program_id(0) % SPLIT
    rows, inner = tl.arange(0, BLOCK), tl.arange(0, STEP)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(part * (K // SPLIT), (part + 1) * (K // SPLIT), STEP):
        x = tl.load(a + (tile * BLOCK + rows)[:, None] * K + k + inner[None, :])
        y = tl.load(b + (k + inner)[:, None] * BLOCK + rows[None, :])
        acc = tl.dot(x, y, acc)
    at = rows[:, None] * BLOCK + rows[None, :]
    mine = partial + tl.program_id(0) * BLOCK * BLOCK + at
    if part > 0:
        tl.store(mine, acc)
        tl.debug_barrier()
        tl.atomic_xchg(flags + tl.program_id(0), 1, sem="release")
    else:
        for other in range(1, SPLIT):
            while tl.atomic_cas(flags + tl.program_id(0) + other, 1, 1, sem="acquire") != 1:
                pass
            acc += tl.load(mine + other * BLOCK * BLOCK)
        tl.store(c + tile * BLOCK * BLOCK + at, acc)


@pytest.mark.sample(2)
def test_stream_k():
    tiles, block, k, split = 5, 32, 256, 4
    rng = np.random.default_rng(2)
    a = rng.integers(-3, 4, (tiles * block, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, block)).astype(np.float16)
    c = np.zeros((tiles * block, block), np.float32)
    programs = tiles * split
    stream_k[(programs,)](a, b, c, np.zeros((programs, block, block), np.float32),
                          np.zeros(programs, np.int32), k, BLOCK=block, STEP=32, SPLIT=split,
                          num_warps=4)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


@triton.jit
def warps_wait_apart(flags, out, N: tl.constexpr):
    """Each element of a flag is waited for; those of the last warps come from program 1."""
    at = tl.arange(0, N)
    if tl.program_id(0) == 0:
        while tl.sum((tl.load(flags + at, volatile=True) == 0).to(tl.int32)) != 0:
            pass
        tl.store(out + at, at)
    else:
        tl.atomic_xchg(flags + at, 1)


def test_waits_with_barriers_inside():
    out = np.zeros(128, np.int32)
    warps_wait_apart[(2,)](np.zeros(128, np.int32), out, N=128, num_warps=4)
    assert (out == np.arange(128)).all()


@triton.jit
def wait_by_polls(flags, out, met, N: tl.constexpr, LIMIT: tl.constexpr):
    at = tl.arange(0, N)
    if tl.program_id(0) == 0:
        seen = tl.atomic_poll(flags + at, 1, timeout_ns=LIMIT)
        tl.store(met + at, seen.to(tl.int32))
        tl.store(out + at, at, seen)
    else:
        tl.atomic_xchg(flags + at, 1, (at % 3 == 0) | (LIMIT is None))


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("limit", [None, 100_000])
def test_polls(warps, limit):
    at, out, met = np.arange(128), np.full(128, -1, np.int32), np.zeros(128, np.int32)
    wait_by_polls[(2,)](np.zeros(128, np.int32), out, met, N=128, LIMIT=limit, num_warps=warps)
    seen = at % 3 == 0 if limit else at >= 0
    assert (met == seen).all()
    assert (out == np.where(seen, at, -1)).all()
