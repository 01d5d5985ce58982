"""Divisions by what is the same for many: exact for all numbers of 32 bits."""


import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from python.test.operations import instructions

EXTREMES = (0, 1, 2, 3, 7, 127, 128, 65535, 65536, (1 << 31) - 1, -1, -2, -5, -(1 << 31))


@triton.jit
def divide(x, d, q, r, n, divisor, BY_LOADED: tl.constexpr):
    for i in range(n):
        number = tl.load(x + i)
        by = divisor
        if BY_LOADED:
            by = tl.load(d)
        tl.store(q + i, number // by)
        tl.store(r + i, number % by)


def numbers(rng, dtype, count):
    info = np.iinfo(dtype)
    near = [k * s + o for k in (1, 2, 3, 1000) for s in (3, 7, 128, 65537) for o in (-1, 0, 1)]
    found = [x for x in (*EXTREMES, *near) if info.min <= x <= info.max]
    return np.array([*found, info.min, info.max, *rng.integers(info.min, info.max, count)], dtype)


def check_divisions(launch, rng, x, count):
    """Quotients and remainders of `x` by extreme numbers and by some others, with Python's."""
    dtype, info = x.dtype.type, np.iinfo(x.dtype)
    some = rng.integers(info.min, info.max, count)
    for d in map(int, (*(e for e in EXTREMES if e and info.min <= e <= info.max), *some)):
        if dtype is np.int32 and d == -1:
            x = np.where(x == info.min, 5, x).astype(dtype)  # what does not fit is undefined
        out = [torch.empty(len(x), dtype=torch.int32, device="xpu") for _ in range(2)]
        held = [torch.from_numpy(v.view(np.int32)).to("xpu")
                for v in (x, np.array([d], dtype))]
        if dtype is np.uint32:
            held = [triton.reinterpret(v, tl.uint32) for v in held]
            out = [triton.reinterpret(v, tl.uint32) for v in out]
        launch(held, out, len(x), d)
        got = [getattr(v, "base", v).cpu().numpy().view(dtype).tolist() for v in out]
        exact = [(abs(v) // abs(d), abs(v) % abs(d)) for v in x.tolist()]
        signs = [(-1 if (v < 0) != (d < 0) else 1, -1 if v < 0 else 1) for v in x.tolist()]
        for k in range(2):
            assert got[k] == [e[k] * s[k] for e, s in zip(exact, signs, strict=True)], (d, k)


@pytest.mark.parametrize(("dtype", "loaded"), [
    (np.int32, False), (np.int32, True), (np.uint32, True)])
def test_divisions_in_loops(dtype, loaded):
    def launch(held, out, count, d):
        divide[(1,)](*held, *out, count, d if not loaded else 0, loaded)

    rng = np.random.default_rng(0)
    check_divisions(launch, rng, numbers(rng, dtype, 40), 12)


@pytest.mark.parametrize(("device", "divisions"), [("bmg", 1), ("pvc", 1), ("dg2", 2)])
def test_one_division_before_the_loop(device, divisions):
    types = {"x": "*i32", "d": "*i32", "q": "*i32", "r": "*i32", "n": "i32", "divisor": "i32",
             "BY_LOADED": "constexpr"}
    kernel = triton.compile(ASTSource(divide, types, {"BY_LOADED": False}),
                            target=GPUTarget("xpu", device, 16))
    found = instructions(kernel.asm["llir"], helpers=True)
    assert sum(found.count(name) for name in ("sdiv", "udiv", "srem")) == divisions


@triton.jit
def divide_all(x, d, q, r, divisor, BY_LOADED: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    number = tl.load(x + i)
    by = divisor
    if BY_LOADED:
        by = tl.load(d)
    tl.store(q + i, number // by)
    tl.store(r + i, number % by)


@triton.jit
def divide_in_loop(x, y, n, divisor, N: tl.constexpr):
    by = divisor // 2
    for start in range(0, n, N):
        i = start + tl.arange(0, N)
        tl.store(y + i, tl.load(x + i // by), mask=i < n)


@pytest.mark.parametrize(("dtype", "loaded"), [
    (np.int32, False), (np.int32, True), (np.uint32, True)])
def test_divisions_of_tensors(dtype, loaded):
    def launch(held, out, count, d):
        divide_all[(1,)](*held, *out, d if not loaded else 0, loaded, N=count, num_warps=1)

    rng = np.random.default_rng(1)
    check_divisions(launch, rng, np.resize(numbers(rng, dtype, 200), 256), 6)


def compiled(kernel, device="bmg", **constants):
    numbers = ("low", "n", "divisor")
    types = {name: "i32" if name in numbers else "*i32" for name in kernel.arg_names}
    types |= dict.fromkeys(constants, "constexpr")
    return triton.compile(ASTSource(kernel, types, constants),
                          target=GPUTarget("xpu", device, 16)).asm["llir"]


@pytest.mark.parametrize("device", ["bmg", "pvc", "dg2"])
def test_one_factor_for_all_elements(device):
    found = instructions(compiled(divide_all, device, BY_LOADED=False, N=512))
    assert found.count("udiv" if device == "dg2" else "xe.quotient.factor") == 1
    assert not {"sdiv", "srem"} & {*found}
    assert {"xe.quotient.sdiv.8", "xe.quotient.srem.8"} <= {*found}


def test_one_element_of_a_lane_is_divided_as_it_is():
    check_text(compiled(divide_all, BY_LOADED=False, N=64), "CHECK-NOT: xe.quotient")


def test_the_factor_stands_before_the_loop():
    text = compiled(divide_in_loop, N=256)
    before, loop = (instructions(text, label) for label in ("body", "loop"))
    assert before.count("xe.quotient.factor") == 1
    assert "xe.quotient.sdiv.4.natural" in loop
    assert "xe.quotient.factor" not in loop


@triton.jit
def divide_counter(q, r, low, n, divisor, FIRST: tl.constexpr):
    first = low if FIRST == "given" else FIRST
    for i in range(first, n):
        tl.store(q + (i - first), i // divisor)
        tl.store(r + (i - first), i % divisor)


@pytest.mark.covering
@pytest.mark.parametrize("first", [0, 2, -7, "given"])
@pytest.mark.parametrize("divisor", [1, -1, 3, -3, 64, -(1 << 31)])
def test_counters_of_loops_are_divided(first, divisor):
    low = -9 if first == "given" else first
    out = [torch.zeros(40 - low, dtype=torch.int32, device="xpu") for _ in range(2)]
    divide_counter[(1,)](*out, low, 40, divisor, first)
    counted = torch.arange(low, 40)
    assert torch.equal(out[0].cpu().long(), torch.div(counted, divisor, rounding_mode="trunc"))
    assert torch.equal(out[1].cpu().long(), torch.fmod(counted, divisor))


@pytest.mark.parametrize(("first", "signs"), [(0, 0), (2, 0), (-7, 1), ("given", 1)])
def test_counters_that_start_at_no_negative_number_have_no_sign(first, signs):
    loop = instructions(compiled(divide_counter, FIRST=first), "loop")
    assert loop.count("ashr") == 2 * signs


@triton.jit
def divide_wide(x, q, r, divisor, N: tl.constexpr):
    i = tl.arange(0, N)
    number = tl.load(x + i)
    tl.store(q + i, number // divisor)
    tl.store(r + i, number // 7 % divisor)


@pytest.mark.parametrize("divisor", [
    3, -7, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32, (1 << 40) + 3, -(1 << 50), (1 << 63) - 1])
def test_divisors_of_64_bits(divisor):
    x = np.resize(numbers(np.random.default_rng(2), np.int32, 150), 256)
    out = [torch.empty(len(x), dtype=torch.int64, device="xpu") for _ in range(2)]
    kernel = divide_wide[(1,)](torch.from_numpy(x).to("xpu"), *out, divisor, N=len(x), num_warps=1)
    wide = ".wide" if not -(1 << 31) <= divisor < 1 << 31 else ""
    quotients = {f"xe.quotient.{name}.8{wide}" for name in ("sdiv", "srem")}
    assert quotients <= {*instructions(kernel.asm["llir"])}

    def toward_zero(a, b):
        return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)

    for got, left in zip(out, (x.tolist(), [toward_zero(a, 7) for a in x.tolist()]), strict=True):
        quotients = [toward_zero(a, divisor) for a in left]
        wanted = quotients if got is out[0] else [
            a - q * divisor for a, q in zip(left, quotients, strict=True)]
        assert got.cpu().tolist() == wanted


@triton.jit
def divide_programs(x, d, q, r, number_q, number_r, scaled, count, by, scale, N: tl.constexpr):
    program, i = tl.program_id(0).to(tl.int64), tl.arange(0, N)
    numbers, divisors = tl.load(x + i).to(tl.int64), tl.load(d + i).to(tl.int64)
    tl.store(q + program * N + i, numbers // divisors)
    tl.store(r + program * N + i, numbers % divisors)
    tl.store(number_q + program, program // by)
    tl.store(number_r + program, program % by)
    tl.store(scaled + program, program * scale)


@pytest.mark.parametrize("by", [2, 3, -1, -5, 100_000])
def test_numbers_of_32_bits_are_divided_as_such_after_they_became_larger(by):
    """Not so the least one, whose quotient by -1 has no room."""
    x, d = np.meshgrid(np.int32(EXTREMES), np.int32([e for e in EXTREMES if e] + [9, -77, 64]))
    x, d = torch.from_numpy(x.ravel()[:128].copy()), torch.from_numpy(d.ravel()[:128].copy())
    q, r = (torch.zeros(5, 128, dtype=torch.int64, device="xpu") for _ in range(2))
    parts = [torch.zeros(5, dtype=torch.int64, device="xpu") for _ in range(3)]
    kernel = divide_programs[(5,)](
        x.to("xpu"), d.to("xpu"), q, r, *parts, 5, by, -2_000_000_011, 128)
    quotients = torch.div(x.long(), d.long(), rounding_mode="trunc")
    assert torch.equal(q[4].cpu(), quotients)
    assert torch.equal(r[4].cpu(), x.long() - quotients * d.long())
    programs = torch.arange(5)
    wanted = torch.div(programs, by, rounding_mode="trunc")
    assert [p.tolist() for p in parts] == [
        wanted.tolist(), (programs - wanted * by).tolist(), (programs * -2_000_000_011).tolist()]
    check_text(kernel.asm["llir"], """
        CHECK-DAG: sdiv <{{[0-9]+}} x i64>
        CHECK-DAG: sdiv i32
        """)
