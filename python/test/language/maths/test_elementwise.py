"""Integer and float arithmetic, comparisons and selects on every type, against numpy."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SIZE = 128


def on_device(values):
    return torch.from_numpy(np.ascontiguousarray(values)).to("xpu")


def outputs(count, dtype):
    return tuple(torch.empty(SIZE, dtype=getattr(torch, dtype), device="xpu") for _ in range(count))


def random_integers(dtype, seed):
    info = np.iinfo(dtype)
    drawn = np.random.default_rng(seed).integers(info.min, info.max, SIZE, dtype, endpoint=True)
    drawn[:4] = info.min, info.max, 0, 1
    return drawn


@triton.jit
def integer_operations(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, x + y)
    tl.store(out[1] + at, x - y)
    tl.store(out[2] + at, x * y)
    tl.store(out[3] + at, x & y)
    tl.store(out[4] + at, x | y)
    tl.store(out[5] + at, x ^ y)
    tl.store(out[6] + at, tl.minimum(x, y))
    tl.store(out[7] + at, tl.maximum(x, y))
    tl.store(out[8] + at, tl.abs(x))
    tl.store(out[9] + at, -x)
    tl.store(out[10] + at, ~x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    x, y = random_integers(dtype, 0), random_integers(dtype, 1)
    results = outputs(11, dtype)
    integer_operations[(1,)](on_device(x), on_device(y), results, SIZE)
    with np.errstate(over="ignore"):
        expected = [x + y, x - y, x * y, x & y, x | y, x ^ y, np.minimum(x, y), np.maximum(x, y),
                    np.abs(x), np.negative(x), ~x]
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        assert np.array_equal(result.cpu().numpy(), value), index


@triton.jit
def divisions(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, x // y)
    tl.store(out[1] + at, x % y)
    tl.store(out[2] + at, tl.cdiv(x, y))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_cuts_toward_zero(dtype):
    x, y = random_integers(dtype, 0), random_integers(dtype, 1) // 7
    y[y == 0] = 3
    x[0] = 7
    results = outputs(3, dtype)
    divisions[(1,)](on_device(x), on_device(y), results, SIZE)
    a, b = x.astype(object), y.astype(object)
    quotient = np.array([abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
                         for p, q in zip(a, b, strict=True)], dtype=object)
    assert np.array_equal(results[0].cpu().numpy(), quotient.astype(dtype))
    assert np.array_equal(results[1].cpu().numpy(), (a - quotient * b).astype(dtype))


def test_division_by_zero_gives_some_value_and_others_stay_right(monkeypatch):
    monkeypatch.setenv("TRITON_XE_SANITIZE", "0")
    x = np.arange(SIZE, dtype=np.int32)
    y = np.where(x % 2, 3, 0).astype(np.int32)
    x[0], y[0] = np.iinfo(np.int32).min, -1
    results = outputs(3, "int32")
    divisions[(1,)](on_device(x), on_device(y), results, SIZE)
    odd = np.arange(SIZE) % 2 == 1
    assert np.array_equal(results[0].cpu().numpy()[odd], x[odd] // 3)


@triton.jit
def shifts(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, x << y)
    tl.store(out[1] + at, x >> y)
    tl.store(out[2] + at, (x << 3) >> 1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_the_width_and_more_shift_everything_out(dtype, monkeypatch):
    monkeypatch.setenv("TRITON_XE_SANITIZE", "0")
    width = np.iinfo(dtype).bits
    x = random_integers(dtype, 0)
    y = (np.arange(SIZE) % (width + 9)).astype(dtype)
    results = outputs(3, dtype)
    shifts[(1,)](on_device(x), on_device(y), results, SIZE)
    a, b = x.astype(object), y.astype(object)
    mask = (1 << width) - 1
    left = np.array([(int(p) << int(q)) & mask for p, q in zip(a, b, strict=True)], dtype=object)
    unsigned = f"uint{width}"
    assert np.array_equal(results[0].cpu().numpy().view(unsigned), left.astype(unsigned))
    right = np.array([int(p) >> int(q) for p, q in zip(a, b, strict=True)], dtype=object)
    assert np.array_equal(results[1].cpu().numpy(), right.astype(dtype))


@triton.jit
def comparisons(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, x == y)
    tl.store(out[1] + at, x != y)
    tl.store(out[2] + at, x < y)
    tl.store(out[3] + at, x <= y)
    tl.store(out[4] + at, x > y)
    tl.store(out[5] + at, x >= y)
    tl.store(out[6] + at, tl.where(x < y, x, y) == x)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "float32"])
def test_comparisons(dtype):
    if dtype.startswith("float"):
        x = np.random.default_rng(0).standard_normal(SIZE).astype(dtype)
        x[:3] = np.nan, np.inf, -0.0
        y = np.roll(x, 1)
        y[2] = 0.0
    else:
        x, y = random_integers(dtype, 0), random_integers(dtype, 1)
    y[10:20] = x[10:20]
    results = outputs(7, "bool")
    comparisons[(1,)](on_device(x), on_device(y), results, SIZE)
    expected = [x == y, x != y, x < y, x <= y, x > y, x >= y, np.where(x < y, x, y) == x]
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        assert np.array_equal(result.cpu().numpy(), value), index


@triton.jit
def bit_operations(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, x & y)
    tl.store(out[1] + at, x | y)
    tl.store(out[2] + at, x ^ y)
    tl.store(out[3] + at, x == y)
    tl.store(out[4] + at, x < y)
    tl.store(out[5] + at, ~x)
    tl.store(out[6] + at, tl.where(x, y, True))


def test_booleans():
    x, y = np.arange(SIZE) % 2 == 0, np.arange(SIZE) % 3 == 0
    results = outputs(7, "bool")
    bit_operations[(1,)](on_device(x), on_device(y), results, SIZE)
    expected = [x & y, x | y, x ^ y, x == y, x < y, ~x, np.where(x, y, True)]
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        assert np.array_equal(result.cpu().numpy(), value), index


@triton.jit
def float_operations(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, x + y)
    tl.store(out[1] + at, x - y)
    tl.store(out[2] + at, x * y)
    tl.store(out[3] + at, x / y)
    tl.store(out[4] + at, x % y)
    tl.store(out[5] + at, -x)
    tl.store(out[6] + at, tl.abs(x))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_are_rounded_once(dtype):
    kind = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(SIZE, generator=generator, dtype=torch.float64).to(kind) for _ in range(2))
    results = outputs(7, dtype)
    float_operations[(1,)](x.to("xpu"), y.to("xpu"), results, SIZE)
    a, b = x.double(), y.double()
    expected = [a + b, a - b, a * b, a / b, torch.fmod(a, b), -a, a.abs()]
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        assert torch.equal(result.cpu(), value.to(kind)), index


@triton.jit
def extrema(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, tl.minimum(x, y))
    tl.store(out[1] + at, tl.maximum(x, y))
    tl.store(out[2] + at, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out[3] + at, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out[4] + at, tl.clamp(x, -0.5, 0.5))
    tl.store(out[5] + at, tl.clamp(x, -0.5, 0.5, propagate_nan=tl.PropagateNan.ALL))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_minimum_and_maximum_drop_or_keep_nan(dtype):
    kind = getattr(torch, dtype)
    x = torch.linspace(-1, 1, SIZE, dtype=torch.float64)
    y = x.flip(0)
    x[::5], y[::7] = torch.nan, torch.nan
    results = outputs(6, dtype)
    x, y = x.to(kind), y.to(kind)
    extrema[(1,)](x.to("xpu"), y.to("xpu"), results, SIZE)
    a, b = x.double(), y.double()
    dropped = torch.where(x.isnan(), -0.5, a.clamp(-0.5, 0.5))
    expected = [torch.fmin(a, b), torch.fmax(a, b), torch.minimum(a, b), torch.maximum(a, b),
                dropped, a.clamp(-0.5, 0.5)]
    for index, (result, value) in enumerate(zip(results, expected, strict=True)):
        same = (result.cpu().double() == value) | (result.cpu().isnan() & value.isnan())
        assert bool(same.all()), index


@triton.jit
def high_products(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, tl.umulhi(tl.load(X + at), tl.load(Y + at)))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_umulhi(dtype):
    x, y = random_integers(dtype, 0), random_integers(dtype, 1)
    (out,) = outputs(1, dtype)
    high_products[(1,)](on_device(x), on_device(y), out, SIZE)
    width = np.iinfo(dtype).bits
    a, b = (v.view(f"uint{width}").astype(object) for v in (x, y))
    expected = (a * b >> width).astype(f"uint{width}")
    assert np.array_equal(out.cpu().numpy().view(f"uint{width}"), expected)


@triton.jit
def scalars(out, n, f):
    tl.store(out, n // 3 + (n << 2))
    tl.store(out + 1, (f * 2.0).to(tl.int32))
    tl.store(out + 2, tl.where(n > 3, n % 5, -1))
    tl.store(out + 3, tl.maximum(n, 9) ^ 1)


def test_scalars_outside_tensors():
    out = torch.empty(4, dtype=torch.int32, device="xpu")
    scalars[(1,)](out, 17, 3.25)
    assert out.tolist() == [5 + 68, 6, 2, 17 ^ 1]
