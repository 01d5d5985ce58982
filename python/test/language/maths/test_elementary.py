"""Functions of fp32 in plain arithmetic against mpmath, over all exponents.

`erf` is the simulator's here, and the hardware's in `python/test/intel/test_library_calls.py`.
"""

import mpmath
import numpy as np
import pytest
import scipy.special
import torch
import triton
import triton.language as tl

from python.test.operations import instructions
from triton_xe.backend.libdevice import FUNCTIONS as LIBDEVICE
from triton_xe.lowering.emit.maths.elementary import ELEMENTARY

BOUNDS = {"erf": 1.5, "cbrt": 1.0, "log1p": 1.5, "log2": 1.2, "log10": 1.2, "tan": 3.0,
          "lgamma": 3.0, "erfinv": 2.0}
"""Units in the last place of the exact result."""
FUNCTIONS = {
    "erf": (tl.erf, mpmath.erf),
    "cbrt": (LIBDEVICE["cbrt"], lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "log1p": (LIBDEVICE["log1p"], mpmath.log1p), "log2": (tl.log2, lambda x: mpmath.log(x, 2)),
    "log10": (LIBDEVICE["log10"], mpmath.log10), "tan": (LIBDEVICE["tan"], mpmath.tan),
    "lgamma": (LIBDEVICE["lgamma"], lambda x: mpmath.loggamma(x).real),
    "erfinv": (LIBDEVICE["erfinv"], mpmath.erfinv),
}
SIGNED = ("erf", "cbrt", "tan", "erfinv")
LARGEST = 3.4028235e38
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 2.0**-149, 2.0**-126, 3.4028235e38]


@triton.jit
def unary(x, out, SIZE: tl.constexpr, F: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(out + at, F(tl.load(x + at)))


def samples(signed):
    """Numbers of every exponent, more of them where functions change, and those around 1."""
    random = np.random.default_rng(5)
    exponents = np.repeat(np.arange(-149, 128), 8)
    numbers = np.exp2(exponents + random.random(exponents.size))
    numbers = np.concatenate([numbers, random.uniform(0.4, 5.0, 1500),
                              1 + random.uniform(-1e-3, 1e-3, 300)])[:4096]
    numbers = np.minimum(numbers, 3.4e38).astype(np.float32)
    if signed:
        numbers *= random.choice(np.array([-1, 1], np.float32), numbers.size)
    return np.concatenate([numbers, np.ones(4096 - numbers.size, np.float32)])


def inside_of_one(numbers):
    """Numbers below 1; larger ones x become 1 - 1 / x."""
    size = np.minimum(np.abs(numbers), np.float32(2.0**24))
    return np.where(size < 1, numbers, np.copysign(1 - 1 / np.maximum(size, 1), numbers))


def computed(name, numbers):
    x = torch.from_numpy(numbers).to("xpu")
    out = torch.empty_like(x)
    made = unary[(1,)](x, out, numbers.size, FUNCTIONS[name][0], num_warps=4)
    return out.cpu().numpy(), made


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors(name):
    numbers = samples(name in SIGNED)
    if name == "erfinv":
        numbers = inside_of_one(numbers)
    found, made = computed(name, numbers)
    if name in ELEMENTARY:
        assert name not in instructions(made.asm["llir"]), "there is no call of OpenCL's function"
    mpmath.mp.prec = 250
    for x, y in zip(numbers, found, strict=True):
        exact = FUNCTIONS[name][1](mpmath.mpf(float(x)))
        if exact > LARGEST:
            assert y == np.inf
            continue
        place = np.spacing(max(abs(np.float32(float(exact))), np.float32(2.0**-149)))
        assert abs(mpmath.mpf(float(y)) - exact) <= BOUNDS[name] * float(place), (name, x, y, exact)


def test_tangents_next_to_multiples_of_a_quarter_turn():
    """The nearest number of fp32 to such a multiple is 16367173 * 2^72."""
    numbers = np.concatenate([[16367173 * 2.0**72], np.arange(1, 1024) * np.pi / 2])
    numbers = numbers.astype(np.float32)
    found, _ = computed("tan", numbers)
    mpmath.mp.prec = 250
    exact = [float(mpmath.tan(mpmath.mpf(float(x)))) for x in numbers]
    assert np.all(np.abs(found - exact) <= BOUNDS["tan"] * np.spacing(np.abs(np.float32(exact))))


def test_lgamma_of_negative_numbers():
    """The error is that of the larger of lgamma(x), lgamma(-x) and 1."""
    numbers = -samples(signed=False)
    numbers = numbers[(numbers > -(2**22)) & (numbers != np.rint(numbers))][-2048:]
    numbers[:8] = -np.exp2(np.arange(-140, -20, 15))
    found, _ = computed("lgamma", numbers)
    mpmath.mp.prec = 250
    for x, y in zip(numbers, found, strict=True):
        value = mpmath.mpf(float(x))
        mirrored = mpmath.loggamma(-value).real
        exact = mpmath.log(abs(mpmath.pi / (value * mpmath.sinpi(value)))) - mirrored
        place = np.spacing(np.float32(max(abs(exact), abs(mirrored), 1)))
        assert abs(mpmath.mpf(float(y)) - exact) <= BOUNDS["lgamma"] * float(place), (x, y, exact)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(name):
    numbers = np.array(SPECIAL + [1.0] * (16 - len(SPECIAL)), np.float32)
    found, _ = computed(name, numbers)
    with np.errstate(all="ignore"):
        wanted = {"erf": scipy.special.erf, "cbrt": np.cbrt, "log1p": np.log1p, "log2": np.log2,
                  "log10": np.log10, "lgamma": scipy.special.gammaln,
                  "erfinv": lambda x: np.copysign(scipy.special.erfinv(x), x),
                  "tan": lambda x: np.tan(x.astype(np.float64))}[name](numbers)
    if name == "lgamma":
        wanted[numbers == -np.inf] = np.inf
    np.testing.assert_allclose(found, wanted, rtol=2e-7)
    np.testing.assert_array_equal(np.signbit(found)[:2], np.signbit(wanted)[:2])
    if name == "log2":
        powers = np.exp2(np.arange(-126, 127)).astype(np.float32)[:128]
        np.testing.assert_array_equal(computed(name, powers)[0], np.log2(powers))
