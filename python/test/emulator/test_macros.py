"""IGC's sequences of division and square root against exact rational arithmetic.

The sequences are those that IGC 2.40 writes for `fdiv double` and `sqrt` of both types on bmg.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from python.test.emulator.assembled import result
from python.test.emulator.test_floats import DOWN, NEAREST, UP, ZERO, control, exactly, rounded

pytestmark = pytest.mark.intel_compiler
DIVISION = """math.invm (8|M0) (eo)f0.0 r20.mme0:df r4.nomme<1;1,0>:df r6.nomme<1;1,0>:df
(f0.0) goto (8|M0) end end
madm (8|M0) r24.mme1:df r8.nomme:df r4.nomme:df r20.mme0:df
madm (8|M0) r26.mme2:df r12.nomme:df -r6.nomme:df r20.mme0:df
madm (8|M0) r28.mme3:df r4.nomme:df -r6.nomme:df r24.mme1:df
madm (8|M0) r30.mme4:df r20.mme0:df r26.mme2:df r20.mme0:df
madm (8|M0) r32.mme5:df r12.nomme:df -r6.nomme:df r30.mme4:df
madm (8|M0) r20.mme6:df r20.mme0:df r26.mme2:df r30.mme4:df
madm (8|M0) r24.mme7:df r24.mme1:df r28.mme3:df r30.mme4:df
madm (8|M0) r30.mme0:df r30.mme4:df r20.mme6:df r32.mme5:df
madm (8|M0) r28.mme1:df r4.nomme:df -r6.nomme:df r24.mme7:df
LAST
madm (8|M0) r20.nomme:df r24.mme7:df r28.mme1:df r30.mme0:df
end:
join (8|M0) after
after:
"""
ROOT = """math.rsqtm (8|M0) (eo)f0.0 r20.mme0:df r4.nomme<1;1,0>:df
(f0.0) goto (8|M0) end end
madm (8|M0) r24.mme1:df r8.nomme:df r10.nomme:df r20.mme0:df
madm (8|M0) r28.mme2:df r8.nomme:df r4.nomme:df r20.mme0:df
madm (8|M0) r26.mme3:df r10.nomme:df -r28.mme2:df r24.mme1:df
madm (8|M0) r22.mme5:df r12.nomme:df r14.nomme:df r26.mme3:df
madm (8|M0) r20.mme6:df r8.nomme:df r26.mme3:df r28.mme2:df
madm (8|M0) r26.mme7:df r8.nomme:df r26.mme3:df r24.mme1:df
madm (8|M0) r20.mme6:df r28.mme2:df r22.mme5:df r20.mme6:df
madm (8|M0) r22.mme5:df r24.mme1:df r22.mme5:df r26.mme7:df
madm (8|M0) r24.mme1:df r4.nomme:df -r20.mme6:df r20.mme6:df
LAST
madm (8|M0) r20.nomme:df r20.mme6:df r24.mme1:df r22.mme5:df
end:
join (8|M0) after
after:
"""
SINGLE_ROOT = """math.rsqtm (8|M0) (eo)f0.0 r20.mme0:f r4.nomme<1;1,0>:f
(f0.0) goto (8|M0) end end
madm (8|M0) r24.mme1:f r8.nomme:f r10.nomme:f r20.mme0:f
madm (8|M0) r28.mme2:f r8.nomme:f r4.nomme:f r20.mme0:f
madm (8|M0) r26.mme3:f r10.nomme:f -r28.mme2:f r24.mme1:f
madm (8|M0) r24.mme4:f r24.mme1:f r26.mme3:f r24.mme1:f
madm (8|M0) r20.mme5:f r28.mme2:f r26.mme3:f r28.mme2:f
madm (8|M0) r26.mme6:f r4.nomme:f -r20.mme5:f r20.mme5:f
LAST
madm (8|M0) r20.nomme:f r20.mme5:f r24.mme4:f r26.mme6:f
end:
join (8|M0) after
after:
"""


def computed(text, dtype, mode, a, b=0.0):
    """The sequence in nearest even, its last step by `mode`."""
    changed = f"(W) mov (1|M0) cr0.0<1>:ud 0x{0x4C0 | mode << 4:X}:ud"
    constants = {8: 0, 10: 0.5, 12: 1, 14: 1.5}
    registers = {n: np.full(8, value, dtype) for n, value in constants.items()}
    registers |= {4: np.asarray(a, dtype), 6: np.full(8, b, dtype) if np.ndim(b) == 0 else b}
    return result("bmg", control(NEAREST) + text.replace("LAST", changed), registers, dtype, 8)


def of_every_exponent(dtype, seed, count):
    """Finite numbers that are not zero, a quarter of them denormal."""
    bits = np.dtype(dtype).itemsize * 8
    found = np.random.default_rng(seed).integers(0, 1 << bits, 4 * count, f"uint{bits}").view(dtype)
    denormal = np.float64(np.finfo(dtype).tiny)
    found[::4] = (np.random.default_rng(seed).uniform(-1, 1, count) * denormal).astype(dtype)
    return found[np.isfinite(found) & (found != 0)][:count].astype(dtype)


@pytest.mark.parametrize("mode", [NEAREST, UP, DOWN, ZERO])
def test_quotients_of_every_exponent(mode):
    a, b = (of_every_exponent(np.float64, seed, 64).reshape(-1, 8) for seed in (1, 2))
    a[0], b[0, :4] = [1, -1, 3, 2.0**-1022, 1e300, -1e-300, 5e-324, 7], [5e-324, 5e-324, 3e-310, 3]
    for x, y in zip(a, b, strict=True):
        exact = [p / q for p, q in zip(exactly(x), exactly(y), strict=True)]
        np.testing.assert_array_equal(computed(DIVISION, np.float64, mode, x, y),
                                      [rounded(e, "df", mode) for e in exact])


@pytest.mark.parametrize(("text", "dtype"), [(ROOT, np.float64), (SINGLE_ROOT, np.float32)])
def test_roots_of_every_exponent(text, dtype):
    for x in np.abs(of_every_exponent(dtype, 3, 64)).reshape(-1, 8):
        for mode in (NEAREST, UP, DOWN):
            found = computed(text, dtype, mode, x)
            if mode == NEAREST:
                np.testing.assert_array_equal(found, np.sqrt(x))
                continue
            away = dtype(0 if mode == UP else math.inf)
            for value, root in zip(x, found, strict=True):
                exact, square = Fraction(float(value)), Fraction(float(root)) ** 2
                beyond = Fraction(float(np.nextafter(root, away))) ** 2
                low, high = (beyond, square) if mode == UP else (square, beyond)
                assert low <= exact <= high


@pytest.mark.parametrize(("text", "dtype"), [(ROOT, np.float64), (SINGLE_ROOT, np.float32)])
def test_special_roots(text, dtype):
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, -1, 4, -5e-324], dtype)
    found = computed(text, dtype, NEAREST, x)
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:3]), np.signbit(expected[:3]))


def test_special_quotients():
    a = np.array([0.0, -0.0, 1, -1, math.inf, math.inf, 0, math.nan])
    b = np.array([3.0, 3.0, 0.0, 0.0, math.inf, -2, 0, 1])
    with np.errstate(all="ignore"):
        expected = a / b
    found = computed(DIVISION, np.float64, NEAREST, a, b)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:4]), np.signbit(expected[:4]))
