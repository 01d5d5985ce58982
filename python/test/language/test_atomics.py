"""Atomics against what the same updates give one after the other."""

import pytest
import torch
import triton
import triton.language as tl

TYPES = [torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


@triton.jit
def add_kernel(x, out, old, size: tl.constexpr, targets: tl.constexpr):
    i = tl.arange(0, size)
    v = tl.load(x + i)
    before = tl.atomic_add(out + i % targets, v, mask=i % 3 != 0)
    tl.store(old + i, before.to(tl.float32), mask=i % 3 != 0)


@pytest.mark.parametrize("dtype", TYPES)
def test_add_with_mask_and_many_lanes_per_address(dtype):
    x = torch.ones(128, dtype=dtype, device="xpu")
    out = torch.zeros(4, dtype=dtype, device="xpu")
    old = torch.full((128,), -1.0, device="xpu")
    add_kernel[(1,)](x, out, old, 128, 4)
    i = torch.arange(128)
    want = torch.bincount((i % 4)[i % 3 != 0], minlength=4)
    assert torch.equal(out.cpu().long(), want)
    seen = old.cpu()[i % 3 != 0]
    for target in range(4):
        mine = seen[(i % 4)[i % 3 != 0] == target]
        assert sorted(mine.tolist()) == list(range(int(want[target])))


@triton.jit
def rmw_kernel(x, out, size: tl.constexpr, op: tl.constexpr):
    i = tl.arange(0, size)
    v = tl.load(x + i)
    p = out + i * 0
    if op == "and":
        tl.atomic_and(p, v)
    elif op == "or":
        tl.atomic_or(p, v)
    elif op == "xor":
        tl.atomic_xor(p, v)
    elif op == "max":
        tl.atomic_max(p, v)
    elif op == "min":
        tl.atomic_min(p, v)


@pytest.mark.covering
@pytest.mark.parametrize("op", ["and", "or", "xor", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint32])
def test_integer_operations(op, dtype):
    x = torch.arange(-32, 32, dtype=torch.int64).to(dtype)
    start = {"and": 0x7FFFFFFF}.get(op, 5)
    out = torch.tensor([start], dtype=dtype, device="xpu")
    rmw_kernel[(1,)](x.to("xpu"), out, 64, op)
    want = start
    for v in x.tolist():
        want = {"and": want & v, "or": want | v, "xor": want ^ v, "max": max(want, v),
                "min": min(want, v)}[op]
    assert out.cpu().item() == want


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", ["max", "min"])
def test_float_extrema_of_both_signs(op, dtype):
    x = torch.tensor([-3.5, 2.0, -0.0, 0.0, 7.25, -8.0, 1.0, 3.0] * 4, dtype=dtype)
    out = torch.tensor([-1.0], dtype=dtype, device="xpu")
    rmw_kernel[(1,)](x.to("xpu"), out, 32, op)
    assert out.item() == (7.25 if op == "max" else -8.0)


@triton.jit
def counter_kernel(count, tickets, sem: tl.constexpr):
    ticket = tl.atomic_add(count, 1, sem=sem)
    tl.store(tickets + tl.program_id(0), ticket)


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release", "acq_rel"])
def test_a_scalar_atomic_happens_once_per_program(sem, warps):
    count = torch.zeros(1, dtype=torch.int32, device="xpu")
    tickets = torch.empty(32, dtype=torch.int32, device="xpu")
    counter_kernel[(32,)](count, tickets, sem, num_warps=warps)
    assert count.item() == 32
    assert sorted(tickets.tolist()) == list(range(32))


@triton.jit
def lock_kernel(lock, total):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + 1.0)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@pytest.mark.parametrize("warps", [1, 4])
def test_a_spin_lock_serialises_programs(warps):
    lock = torch.zeros(1, dtype=torch.int32, device="xpu")
    total = torch.zeros(1, device="xpu")
    lock_kernel[(40,)](lock, total, num_warps=warps)
    assert total.item() == 40.0


@triton.jit
def cas_kernel(x, expected, old, size: tl.constexpr):
    i = tl.arange(0, size)
    e = tl.load(expected + i)
    tl.store(old + i, tl.atomic_cas(x + i, e, e + e))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, torch.float32])
def test_tensor_compare_and_swap(dtype):
    x = torch.arange(64).to(dtype)
    expected = x.clone()
    expected[::2] = 100
    got, old = x.to("xpu"), torch.empty(64, dtype=dtype, device="xpu")
    cas_kernel[(1,)](got, expected.to("xpu"), old, 64)
    assert torch.equal(old.cpu(), x)
    assert torch.equal(got.cpu(), torch.where(x == expected, x + x, x))


@triton.jit
def poll_kernel(flag, met, timeout):
    tl.store(met, tl.atomic_poll(flag, 1, timeout_ns=timeout))


@pytest.mark.since_triton(3, 9)
@pytest.mark.parametrize("value", [0, 1])
def test_polling_ends_at_the_timeout(value):
    flag = torch.full((1,), value, dtype=torch.int32, device="xpu")
    met = torch.empty(1, dtype=torch.bool, device="xpu")
    poll_kernel[(1,)](flag, met, 100)
    assert met.item() == bool(value)


def test_results_nobody_uses_need_no_shared_memory():
    @triton.jit
    def kernel(x):
        tl.atomic_add(x, 1)

    x = torch.zeros(1, dtype=torch.int32, device="xpu")
    compiled = kernel[(3,)](x, num_warps=4)
    assert x.item() == 3
    assert compiled.metadata.shared == 0
