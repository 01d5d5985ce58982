"""libdevice's arithmetic with directed rounding, against exact rational numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

import triton_xe.backend.libdevice as ours
from python.test.language.maths.test_libdevice import call

SIZE = 256
ARITHMETIC = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}
MODES = ("rd", "ru", "rz")


def numbers(dtype, seed):
    """Of every exponent, denormal, infinite and NaN ones too, and neighbours of simple ones."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(dtype).itemsize * 8
    found = rng.integers(0, 1 << bits, SIZE, dtype=f"uint{bits}").view(dtype)
    found[64:128] = rng.normal(size=64)
    found[128:160] = rng.integers(0, 1 << 20, 32, dtype=f"uint{bits}").view(dtype)
    found[160:176] = np.nextafter(dtype(1), rng.integers(0, 3, 16).astype(dtype)) * 2.0**7
    special = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, np.finfo(dtype).max,
               -np.finfo(dtype).max, np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal]
    found[:64] = rng.choice(np.array(special, dtype), 64)
    return found


def is_at_most(x, exact):
    return x == -math.inf or (x != math.inf and Fraction(float(x)) <= exact)


def neighbours(exact, dtype, start):
    """The floats next to an exact number on both sides, found from an approximation."""
    low = dtype(start)
    with np.errstate(all="ignore"):
        while not is_at_most(low, exact):
            low = np.nextafter(low, dtype(-np.inf))
        while is_at_most(high := np.nextafter(low, dtype(np.inf)), exact) and high != np.inf:
            low = high
    return low, low if np.isfinite(low) and Fraction(float(low)) == exact else high


def expected(exact, dtype, nearest, mode):
    """The rounding of a rational number; `nearest` has its sign where it is zero."""
    low, high = neighbours(exact, dtype, nearest)
    if mode == "rz":
        mode = "ru" if exact < 0 else "rd"
    value = low if mode == "rd" else high
    return np.copysign(value, dtype(nearest)) if value == 0 else value


def same(x, y):
    return x.tobytes() == y.tobytes() or (np.isnan(x) and np.isnan(y))


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic(dtype, name, mode):
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    b[200:216] = -a[200:216]
    result = call(f"{name}_{mode}", a, b)
    with np.errstate(all="ignore"):
        nearest = ARITHMETIC[name](a, b)
    for x, y, near, found in zip(a, b, nearest, result, strict=True):
        if not (np.isfinite(x) and np.isfinite(y)) or (name == "div" and y == 0):
            want = near
        else:
            exact = ARITHMETIC[name](Fraction(float(x)), Fraction(float(y)))
            want = expected(exact, dtype, near, mode)
            if name in ("add", "sub") and exact == 0 and mode == "rd":
                both = not np.signbit(x) and np.signbit(y) == (name == "sub")
                want = dtype(0.0) if both else dtype(-0.0)
        assert same(found, want), f"{name}_{mode}({x!r}, {y!r}) is {want!r}, not {found!r}"


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_roots_and_reciprocals(dtype, mode):
    x = numbers(dtype, 3)
    with np.errstate(all="ignore"):
        roots, reciprocals = np.sqrt(x), dtype(1) / x
    for value, near, found in zip(x, roots, call(f"sqrt_{mode}", x), strict=True):
        want = near
        if np.isfinite(value) and value > 0:
            up = Fraction(float(near)) ** 2 < Fraction(float(value))
            down = Fraction(float(near)) ** 2 > Fraction(float(value))
            if mode == "ru" and up:
                want = np.nextafter(near, dtype(np.inf))
            elif mode != "ru" and down:
                want = np.nextafter(near, dtype(0))
        assert same(found, want), f"sqrt_{mode}({value!r})"
    for value, near, found in zip(x, reciprocals, call(f"rcp_{mode}", x), strict=True):
        want = near
        if np.isfinite(value) and value != 0:
            want = expected(1 / Fraction(float(value)), dtype, near, mode)
        assert same(found, want), f"rcp_{mode}({value!r})"


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("letters", "integer"), [
    ("int", np.int32), ("uint", np.uint32), ("ll", np.int64), ("ull", np.uint64)])
def test_from_integers(letters, integer, mode):
    limits = np.iinfo(integer)
    x = np.random.default_rng(4).integers(limits.min, limits.max, SIZE, integer, endpoint=True)
    x[:5] = limits.min, limits.max, limits.max - 1, 0, 1
    x[64:128] >>= integer(limits.bits // 2 - 1)
    for name, dtype in (("float", np.float32), ("double", np.float64)):
        if limits.bits == 32 and name == "double":
            continue
        kind = torch.float32 if name == "float" else torch.float64
        result = call(f"{letters}2{name}_{mode}", x, result=kind)
        for value, found in zip(x.tolist(), result, strict=True):
            want = expected(Fraction(value), dtype, dtype(float(value)), mode)
            assert same(found, want), f"{letters}2{name}_{mode}({value})"


@pytest.mark.parametrize("mode", MODES)
def test_doubles_to_floats(mode):
    x = numbers(np.float64, 5)
    with np.errstate(all="ignore"):
        x[100:] = numbers(np.float32, 6)[100:] * (1 + x[100:] * 2.0**-40)
        nearest = x.astype(np.float32)
    result = call(f"double2float_{mode}", x, result=torch.float32)
    for value, near, found in zip(x, nearest, result, strict=True):
        want = near
        if np.isfinite(value):
            want = expected(Fraction(float(value)), np.float32, near, mode)
        assert same(found, want), f"double2float_{mode}({value!r})"


def test_every_name_of_the_stub_module_is_there():
    names = [n for n, value in vars(libdevice).items() if callable(value) and n[0] != "_"]
    assert len(names) > 150
    assert [n for n in names if not hasattr(ours, n)] == []


@triton.jit
def bessel(X, OUT):
    tl.store(OUT, libdevice.jn(3, tl.load(X)))


def test_what_is_absent_is_refused_when_called():
    x = torch.ones(1, device="xpu")
    with pytest.raises(triton.CompilationError) as error:
        bessel[(1,)](x, x)
    assert "libdevice.jn does not exist on Xe GPUs; use j0 and j1" in str(error.value.__cause__)
