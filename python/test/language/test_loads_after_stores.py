"""Programs that load what they stored before, with several warps."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import operations
from triton_xe.dialects import context
from triton_xe.lowering.insert_barriers import InsertBarriersPass
from triton_xe.lowering.pipeline import stage_of
from triton_xe.lowering.rewriting import functions


@triton.jit
def square_in_place(z, steps, N: tl.constexpr):
    at = z + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    for _ in range(steps):
        x = tl.load(at)
        tl.store(at, tl.dot(x, x) - x)


@triton.jit(noinline=True)
def square_once(z, N: tl.constexpr):
    at = z + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(at)
    tl.store(at, tl.dot(x, x) - x)


@triton.jit
def square_by_calls(z, steps, N: tl.constexpr):
    for _ in range(steps):
        square_once(z, N)


@triton.jit
def many_products(a, b, c, count, K, N: tl.constexpr):
    """Tile after tile; the loop over K loads what no tile stores, or what the last one stored."""
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    for tile in range(count):
        total = tl.zeros((N, N), tl.float32)
        for k in range(0, K, N):
            x = tl.load(a + row * K + column + k)
            y = tl.load(b + (row + k) * N + column)
            total = tl.dot(x, y, total)
        tl.store(c + tile * N * N + row * N + column, total.to(tl.float16))


@pytest.mark.covering
@pytest.mark.parametrize("kernel", [square_in_place, square_by_calls])
@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_a_step_sees_what_all_warps_stored_in_the_step_before(kernel, num_warps):
    x = torch.randint(-1, 2, (16, 16)).float()
    z = x.to("xpu")
    kernel[(1,)](z, 3, 16, num_warps=num_warps)
    for _ in range(3):
        x = x @ x - x
    assert torch.equal(z.cpu(), x)


@triton.jit
def chained_tiles(a, c, count, K, N: tl.constexpr):
    """As above, but each tile is multiplied with the one before, from the same buffer."""
    row, column = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    for tile in range(count):
        total = tl.zeros((N, N), tl.float32)
        for k in range(0, K, N):
            x = tl.load(a + row * K + column + k)
            y = tl.load(c + tile * N * N + (row + k) % N * N + column)
            total = tl.dot(x, y, total)
        tl.store(c + (tile + 1) * N * N + row * N + column, total.to(tl.float16))


def test_accesses_wait_only_for_those_of_one_argument_and_outside_of_inner_loops():
    a, b = (torch.randint(-1, 2, shape).half() for shape in ((32, 64), (64, 32)))
    c = torch.zeros(4, 32, 32, dtype=torch.float16, device="xpu")
    apart = many_products[(1,)](a.to("xpu"), b.to("xpu"), c, 2, 64, 32)
    for tile in c.cpu()[:2]:
        assert torch.equal(tile, (a.float() @ b.float()).half())
    assert _order(apart.asm["ttgir"]) == "for for load load store"
    chain = torch.zeros(4, 32, 32, dtype=torch.float16)
    chain[0] = torch.eye(32)
    c = chain.to("xpu")
    chained = chained_tiles[(1,)](a.to("xpu"), c, 3, 64, 32)
    for tile in range(3):
        chain[tile + 1] = (a[:, :32].float() + a[:, 32:].float()) @ chain[tile].float()
    assert torch.equal(c.cpu(), chain)
    assert _order(chained.asm["ttgir"]) == "for barrier for load load barrier store"


def _order(ttgir):
    """Loops, barriers and accesses of a kernel with barriers between them."""
    module = stage_of(ttgir).module
    InsertBarriersPass().apply(context(), module)
    (function,) = functions(module)
    kept = ("scf.for", "ttg.barrier", "tt.load", "tt.store")
    return " ".join(op.name.split(".")[1] for op in function.walk() if op.name in kept)


@triton.jit
def compact_then_reverse(x, buffer, out, N: tl.constexpr):
    """The even numbers, moved to the front, and read back from there in reverse."""
    at = tl.arange(0, N)
    v = tl.load(x + at)
    even = v % 2 == 0
    place = tl.cumsum(even.to(tl.int32), 0) - 1
    tl.store(buffer + place, v, mask=even)
    count = tl.sum(even.to(tl.int32), 0)
    tl.store(out + at, tl.load(buffer + count - 1 - at, mask=at < count, other=-1))


@pytest.mark.parametrize("num_warps", [1, 4, 8, 16])
def test_elements_stored_by_one_warp_are_loaded_by_another(num_warps):
    x = torch.randperm(512, dtype=torch.int32)
    out, buffer = (torch.zeros(512, dtype=torch.int32, device="xpu") for _ in range(2))
    compact_then_reverse[(1,)](x.to("xpu"), buffer, out, 512, num_warps=num_warps)
    even = x[x % 2 == 0].flip(0)
    assert torch.equal(out.cpu(), torch.cat([even, torch.full((512 - len(even),), -1)]).int())


@triton.jit
def shift_in_steps(z, steps, N: tl.constexpr):
    at = tl.arange(0, N)
    for step in range(steps):
        v = tl.load(z + step + at) + 1
        tl.debug_barrier()
        tl.store(z + step + 1 + at, v)


@pytest.mark.parametrize("num_warps", [1, 4])
def test_a_step_of_a_loop_loads_what_the_step_before_stored_elsewhere(num_warps):
    z = torch.zeros(128 + 8, dtype=torch.int32, device="xpu")
    shift_in_steps[(1,)](z, 8, 128, num_warps=num_warps)
    expected = torch.zeros(128 + 8, dtype=torch.int32)
    for step in range(8):
        expected[step + 1 : step + 129] = expected[step : step + 128] + 1
    assert torch.equal(z.cpu(), expected)


@triton.jit
def store_then_load(z, out, N: tl.constexpr, SHIFT: tl.constexpr):
    at = z + tl.arange(0, N)
    tl.store(at, tl.arange(0, N))
    tl.store(out + tl.arange(0, N), tl.load(at + SHIFT if SHIFT else at, volatile=True))


@pytest.mark.parametrize(("shift", "barriers"), [(0, 0), (1, 1)])
def test_lanes_that_load_their_own_elements_do_not_wait(shift, barriers):
    z, out = (torch.zeros(256 + 1, dtype=torch.int32, device="xpu") for _ in range(2))
    compiled = store_then_load[(1,)](z, out, 256, shift, num_warps=4)
    assert operations(compiled.asm["xetile"]).count("ttg.barrier") == barriers
    assert torch.equal(out.cpu()[:255], torch.arange(shift, 255 + shift).int())


@triton.jit
def halve_in_place(z, first, n, STEP: tl.constexpr, BLOCK: tl.constexpr, NESTED: tl.constexpr):
    for _ in range(2 if NESTED else 1):
        for start in range(0 if first is None else first, n, STEP):
            at = z + start + tl.arange(0, BLOCK)
            tl.store(at, tl.load(at) * 0.5)


@pytest.mark.parametrize(("first", "step", "nested", "waits"), [
    (None, 512, False, False), (None, 1024, False, False), (None, 256, False, True),
    (0, 512, False, True), (None, 512, True, True),
], ids=["blocks", "gaps", "overlap", "anywhere", "again"])
def test_passes_over_blocks_of_their_own_do_not_wait(first, step, nested, waits):
    """A start that is known at run time only may be negative."""
    x = torch.randn(2048)
    z = x.to("xpu")
    kernel = halve_in_place[(1,)](z, first, 1536, step, 512, nested, num_warps=4)
    ttgir = stage_of(kernel.asm["ttgir"]).module
    InsertBarriersPass().apply(context(), ttgir)
    assert any(op.name == "ttg.barrier" for op in ttgir.walk()) == waits
    for _ in range(2 if nested else 1):
        for start in range(0, 1536, step):
            x[start:start + 512] *= 0.5
    assert torch.equal(z.cpu(), x)
