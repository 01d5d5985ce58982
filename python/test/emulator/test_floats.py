"""Floating-point instructions against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from python.test.emulator.assembled import register, result, run
from triton_xe.errors import UnsupportedError

pytestmark = pytest.mark.intel_compiler
NEAREST, UP, DOWN, ZERO = range(4)
KEPT = 0x4C0
"""cr0.0: denormals of all types are kept."""
FORMATS = {"hf": (11, -14, 15), "bf": (8, -126, 127), "f": (24, -126, 127), "df": (53, -1022, 1023)}
"""Bits of mantissa, exponents of the least and greatest normal number."""
DTYPES = {"hf": np.float16, "bf": np.uint16, "f": np.float32, "df": np.float64}


def control(mode: int, kept: int = KEPT) -> str:
    return f"(W) mov (1|M0) cr0.0<1>:ud 0x{kept | mode << 4:X}:ud\n"


def rounded(exact: Fraction, kind: str, mode: int) -> float:
    """The exact number in a format, by a rounding mode."""
    bits, least, most = FORMATS[kind]
    if exact == 0:
        return 0.0
    exponent = max(least, _exponent(abs(exact)))
    unit = Fraction(2) ** (exponent - bits + 1)
    below = exact // unit
    rest = exact / unit - below
    up = {NEAREST: rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1),
          UP: rest > 0, DOWN: False, ZERO: rest > 0 and exact < 0}[mode]
    found = (below + up) * unit
    limit = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** most
    if abs(found) > limit:
        saturates = mode == ZERO or (mode == DOWN and found > 0) or (mode == UP and found < 0)
        return (1 if found > 0 else -1) * (float(limit) if saturates else math.inf)
    return float(found)


def _exponent(value: Fraction) -> int:
    estimate = value.numerator.bit_length() - value.denominator.bit_length()
    return estimate - 1 if Fraction(2) ** estimate > value else estimate


def stored(values, kind):
    """Numbers as the elements of a register."""
    if kind == "bf":
        return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(values, DTYPES[kind])


def read(elements, kind):
    if kind == "bf":
        return (elements.astype(np.uint32) << 16).view(np.float32)
    return elements


def numbers(kind, seed, count=16, spread=6):
    """Finite numbers of a format, also denormals and zero."""
    bits, least, most = FORMATS[kind]
    rng = np.random.default_rng(seed)
    mantissa = rng.integers(-(1 << bits) + 1, 1 << bits, count).astype(np.float64)
    values = np.ldexp(mantissa, rng.integers(-spread, spread, count) - bits)
    values[0] = 0.0
    values[1] = math.ldexp(3, least - bits + 1)
    values[2] = math.ldexp(1, least)
    values[3] = math.ldexp(1 - 2.0**-bits, most + 1) if kind != "df" else 2.0**1000
    return read(stored(values, kind), kind).astype(np.float64)


def exactly(values):
    return [Fraction(float(v)) for v in values]


def check(found, exact, kind, mode):
    expected = np.array([rounded(e, kind, mode) for e in exact])
    np.testing.assert_array_equal(read(found, kind).astype(np.float64), expected)


OPERATIONS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("kind", ["hf", "f", "df"])
@pytest.mark.parametrize("op", list(OPERATIONS))
def test_sums_and_products(op, kind, mode):
    count = 8 if kind == "df" else 16
    a, b = numbers(kind, 1, count), numbers(kind, 2, count)[::-1]
    text = control(mode) + (f"{op} ({count}|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind} "
                            f"r6.0<1;1,0>:{kind}")
    found = result("bmg", text, {4: stored(a, kind), 6: stored(b, kind)}, DTYPES[kind], count)
    exact = [OPERATIONS[op](x, y) for x, y in zip(exactly(a), exactly(b), strict=True)]
    check(found, exact, kind, mode)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("kind", ["hf", "f", "df"])
@pytest.mark.parametrize("seed", range(3))
def test_multiply_add_rounds_once(kind, mode, seed):
    count = 8 if kind == "df" else 16
    x, y = numbers(kind, seed, count, 3), numbers(kind, seed + 10, count, 3)
    z = read(stored(-x * y, kind), kind).astype(np.float64)
    z[4:8] = numbers(kind, seed + 20, count, 3)[4:8]
    text = control(mode) + (f"mad ({count}|M0) r20.0<1>:{kind} r4.0<1;0>:{kind} "
                            f"r6.0<1;0>:{kind} r8.0<1>:{kind}")
    registers = {4: stored(z, kind), 6: stored(x, kind), 8: stored(y, kind)}
    found = result("bmg", text, registers, DTYPES[kind], count)
    use = np.isfinite(z)
    exact = [c + a * b if ok else Fraction(0) for c, a, b, ok in zip(
        exactly(np.where(use, z, 0)), exactly(x), exactly(y), use, strict=True)]
    expected = [rounded(e, kind, mode) for e in exact]
    np.testing.assert_array_equal(found.astype(np.float64)[use], np.array(expected)[use])


@pytest.mark.parametrize("mode", range(4))
def test_multiply_add_just_beside_halfway_between_two_numbers(mode):
    """The sum differs from the halfway number by less than fp64 has bits for."""
    z = np.array([1 + 2.0**-23, 1, -1 - 2.0**-23, -1, 1, 1 + 2.0**-23, 0, 2.0**-126], np.float32)
    x = np.float32([1 + 2.0**-23] * 6 + [2.0**-75, 2.0**-75 * (1 + 2.0**-23)])
    y = np.float32([1 - 2.0**-23, 1 - 2.0**-23, -1 + 2.0**-23, -1 + 2.0**-23] + [1 + 2.0**-23] * 2
                   + [2.0**-75, 2.0**-75 * (1 - 2.0**-23)])
    x[:6] *= np.float32(2.0**-12)
    y[:6] *= np.float32(2.0**-12)
    text = control(mode) + "mad (8|M0) r20.0<1>:f r4.0<1;0>:f r6.0<1;0>:f r8.0<1>:f"
    found = result("bmg", text, {4: z, 6: x, 8: y}, np.float32, 8)
    check(found, [c + a * b for c, a, b in zip(exactly(z), exactly(x), exactly(y), strict=True)],
          "f", mode)


@pytest.mark.parametrize("mode", range(4))
def test_multiply_add_of_every_exponent(mode):
    """Products that overflow or underflow, and sums that bring them back or are denormal."""
    rng = np.random.default_rng(3)
    x, y, z = (np.ldexp(rng.choice([-1.0, 1.0], 8) * rng.uniform(0.5, 1, 8), exponents)
               for exponents in ([1000, 600, -600, -500, -500, -537, -30, 1], [25, 425, -475, -540,
                                 -573, -537, -1040, -1073], [1024, 1024, -1022, -1070, -1022, -1073,
                                 -1060, 1000]))
    z[:2] *= -np.sign(x[:2]) * np.sign(y[:2]) * np.sign(z[:2])
    text = control(mode) + (
        "mad (8|M0) r20.0<1>:df r4.0<1;0>:df r6.0<1;0>:df r8.0<1>:df")
    found = result("bmg", text, {4: z, 6: x, 8: y}, np.float64, 8)
    check(found, [c + a * b for c, a, b in zip(*map(exactly, (z, x, y)), strict=True)], "df", mode)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("target", ["hf", "bf", "f"])
@pytest.mark.parametrize("kind", ["f", "df"])
def test_narrowing_conversions(kind, target, mode):
    if kind == target or (kind, target) in (("df", "bf"), ("df", "hf")):
        return
    step = DTYPES[kind]().itemsize // DTYPES[target]().itemsize
    a = np.r_[numbers(kind, 1, 8, 20)[[0, 1, 2, 4, 5, 6, 7]], 70000.0]
    text = control(mode) + f"mov (8|M0) r20.0<{step}>:{target} r4.0<1;1,0>:{kind}"
    found = result("bmg", text, {4: stored(a, kind)}, DTYPES[target], 8 * step)[::step]
    check(found, exactly(a), target, mode)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize(("kind", "target"), [("d", "f"), ("ud", "f"), ("q", "f"), ("uq", "f"),
                                              ("q", "df"), ("uq", "df"), ("w", "hf")])
def test_integers_become_floats(kind, target, mode):
    dtype = {"d": np.int32, "ud": np.uint32, "q": np.int64, "uq": np.uint64, "w": np.int16}[kind]
    info, rng = np.iinfo(dtype), np.random.default_rng(3)
    a = rng.integers(info.min, info.max, 8, dtype)
    a[:3] = info.max, info.min, 16777217 % (info.max + 1 if info.max < 2**31 else 2**31)
    text = control(mode) + f"mov (8|M0) r20.0<1>:{target} r4.0<1;1,0>:{kind}"
    found = result("bmg", text, {4: a}, DTYPES[target], 8)
    check(found, [Fraction(int(v)) for v in a], target, mode)


@pytest.mark.parametrize("target", ["d", "ud", "w", "ub", "q", "uq"])
@pytest.mark.parametrize("kind", ["f", "hf", "df"])
def test_floats_become_integers(kind, target):
    """Truncated and clamped; NaN is 0."""
    dtype = {"d": np.int32, "ud": np.uint32, "w": np.int16, "ub": np.uint8, "q": np.int64,
             "uq": np.uint64}[target]
    step = max(1, 4 // dtype().itemsize)
    info = np.iinfo(dtype)
    a = stored([0.5, -0.99, 300.75, -70000.5 if kind != "hf" else -40000, math.inf, -math.inf,
                math.nan, 254.99], kind)
    text = f"mov (8|M0) r20.0<{step}>:{target} r4.0<1;1,0>:{kind}"
    found = result("bmg", text, {4: a}, dtype, 8 * step)[::step]
    for x, r in zip(a.astype(np.float64), found, strict=True):
        exact = 0 if math.isnan(x) else info.max if x == math.inf else info.min if (
            x == -math.inf) else int(x)
        assert int(r) == min(max(exact, info.min), info.max)


def test_saturation_to_0_and_1():
    a = stored([-2, -0.0, 0.25, 1, 7, math.inf, math.nan, -math.inf], "f")
    found = result("bmg", "mov (8|M0) (sat)r20.0<1>:f r4.0<1;1,0>:f", {4: a}, np.float32, 8)
    np.testing.assert_array_equal(found, [0, 0, 0.25, 1, 1, 1, 0, 0])


def test_moves_keep_bits():
    """A move between equal types is a copy, also of signalling NaNs and denormals."""
    bits = np.array([0x7F800001, 0xFFC12345, 1, 0x80000000], np.uint32).repeat(4)
    found = result("bmg", control(0, 0) + "mov (16|M0) r20.0<1>:f r4.0<1;1,0>:f", {4: bits},
                   np.uint32)
    np.testing.assert_array_equal(found, bits)
    half = np.array([0x7C01, 0xFE34, 1, 0x8000], np.uint16).repeat(4)
    for kind in ("hf", "bf"):
        found = result("bmg", f"mov (16|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind}", {4: half},
                       np.uint16)
        np.testing.assert_array_equal(found, half)


@pytest.mark.parametrize(("kind", "text", "bits"), [
    ("hf", "0x43", 0x43), ("hf", "0x7C01", 0x7C01), ("f", "0x43", 0x43),
    ("f", "0x3F800000", 0x3F800000),
])
def test_moves_of_immediates_keep_bits(kind, text, bits):
    """IGC lets the float pipe move small integers, which are denormals, as addresses."""
    found = result("dg2", control(0, 0) + f"mov (8|M0) r20.0<1>:{kind} {text}:{kind}", {},
                   f"u{DTYPES[kind]().itemsize}", 8)
    np.testing.assert_array_equal(found, [bits] * 8)


def test_csel_without_condition_keeps_its_register():
    """IGC writes it between indirect moves on pvc; the register holds payload, not floats."""
    bits = np.array([1, 0x7F800001, 0x80000000, 0xFFFFFFFF], np.uint32)
    text = "(W) csel (4|M0) r20.0<1>:f r20.0<1;0>:f r{}.0<1;0>:f r20.0<1>:f"
    found = result("pvc", control(0, 0) + text.format(20), {20: bits}, np.uint32, 4)
    np.testing.assert_array_equal(found, bits)
    with pytest.raises(UnsupportedError, match="condition"):
        result("pvc", text.format(21), {20: bits}, np.uint32, 4)


def test_nan_becomes_quiet_bf16():
    bits = np.array([0x7F800001, 0xFF812345, 0x7FC00000, 0x7F800000], np.uint32).repeat(4)
    found = result("bmg", "mov (16|M0) r20.0<1>:bf r4.0<1;1,0>:f", {4: bits}, np.uint16)
    np.testing.assert_array_equal(found[::4], [0x7FC0, 0xFFC1, 0x7FC0, 0x7F80])


def test_tf32_keeps_10_bits():
    a = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    found = result("bmg", "mov (16|M0) r20.0<1>:tf32 r4.0<1;1,0>:f", {4: a}, np.uint32)
    assert not (found & 0x1FFF).any()
    for x, r in zip(exactly(a), found.view(np.float32), strict=True):
        unit = Fraction(2) ** (_exponent(abs(x)) - 10)
        assert abs(Fraction(float(r)) - x) <= unit / 2


@pytest.mark.parametrize("kind", ["f", "hf"])
def test_denormals_become_zero_unless_they_are_kept(kind):
    least = FORMATS[kind][1]
    a = stored([math.ldexp(1, least), math.ldexp(1, least - 1), -math.ldexp(1, least - 1), 1.0] * 4,
               kind)
    half = stored([0.5] * 16, kind)
    text = f"mul (16|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind} r6.0<1;1,0>:{kind}"
    kept = result("bmg", control(0) + text, {4: a, 6: half}, DTYPES[kind])
    np.testing.assert_array_equal(kept, a * half)
    flushed = result("bmg", control(0, 0) + text, {4: a, 6: half}, DTYPES[kind])
    np.testing.assert_array_equal(flushed[:4], [0, 0, 0, 0.5])
    assert np.signbit(flushed[2])


def test_threads_have_their_own_rounding_mode():
    a = np.array([1.0] * 16, np.float32)
    b = np.array([2.0**-30] * 16, np.float32)
    text = ("(W) mov (1|M0) cr0.0<1>:ud r2.0<0;1,0>:ud\n"
            "add (16|M0) r20.0<1>:f r4.0<1;1,0>:f r6.0<1;1,0>:f")
    modes = np.array([[KEPT | m << 4] for m in range(4)], np.uint32)
    done = run("bmg", text, {4: a, 6: b, 2: modes}, threads=4)
    found = register(done, 20, np.float32)[:, 0]
    above = np.nextafter(np.float32(1), np.float32(2))
    np.testing.assert_array_equal(found, [1, above, 1, 1])
    back = run("bmg", text, {4: a, 6: b, 2: modes}, threads=4)
    np.testing.assert_array_equal(register(back, 20, np.float32)[:, 0], found)


def test_an_unknown_control_bit_is_refused():
    with pytest.raises(UnsupportedError, match=r"cr0\.0.*mov at 0x0"):
        result("bmg", "(W) mov (1|M0) cr0.0<1>:ud 0x8000:ud", {}, np.uint32)


@pytest.mark.parametrize("condition", ["eq", "ne", "gt", "ge", "lt", "le", "un"])
def test_comparisons_with_nan_write_all_ones(condition):
    a = np.array([1, 2, math.nan, -0.0, math.inf, 1, -1, math.nan], np.float32)
    b = np.array([1, 1, 1, 0.0, math.nan, 2, -2, math.nan], np.float32)
    found = result("bmg", f"cmp (8|M0) ({condition})f0.0 r20.0<1>:f r4.0<1;1,0>:f r6.0<1;1,0>:f",
                   {4: a, 6: b}, np.uint32, 8)
    holds = {"eq": a == b, "ne": a != b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b,
             "un": np.isnan(a) | np.isnan(b)}[condition]
    np.testing.assert_array_equal(found, np.where(holds, 0xFFFFFFFF, 0))


@pytest.mark.parametrize("kind", ["f", "hf"])
def test_a_number_wins_over_nan(kind):
    a = stored([1, math.nan, 2, math.nan, -math.inf, 5, 0, 1], kind)
    b = stored([2, 3, math.nan, math.nan, 4, -5, 1, 1], kind)
    for condition, function in (("ge", np.fmax), ("lt", np.fmin)):
        text = (f"sel (8|M0) ({condition})f0.0 r20.0<1>:{kind} r4.0<1;1,0>:{kind} "
                f"r6.0<1;1,0>:{kind}")
        np.testing.assert_array_equal(result("bmg", text, {4: a, 6: b}, DTYPES[kind], 8),
                                      function(a, b))


def test_selection_by_a_third_operand():
    a, b = np.arange(16, dtype=np.float32), -np.arange(16, dtype=np.float32)
    c = np.array([-1, 0, 1, math.nan] * 4, np.float32)
    found = result("bmg", "csel (16|M0) (lt)f0.0 r20.0<1>:f r4.0<1;0>:f r6.0<1;0>:f r8.0<1>:f",
                   {4: a, 6: b, 8: c}, np.float32)
    np.testing.assert_array_equal(found, np.where(c < 0, a, b))


ROUNDING = {"rndd": math.floor, "rndu": math.ceil, "rndz": math.trunc, "rnde": round}


@pytest.mark.parametrize("op", list(ROUNDING))
def test_rounding_to_integers(op):
    a = np.array([0.5, 1.5, -0.5, -1.5, 2.25, -2.75, 3, -4] * 2, np.float32)
    found = result("bmg", f"{op} (16|M0) r20.0<1>:f r4.0<1;1,0>:f", {4: a}, np.float32)
    assert [float(v) for v in found] == [ROUNDING[op](float(v)) for v in a]


MATHS = {"inv": lambda x: 1 / x, "exp": lambda x: 2**x, "log": math.log2, "sqt": math.sqrt,
         "rsqt": lambda x: 1 / math.sqrt(x), "sin": math.sin, "cos": math.cos}


@pytest.mark.parametrize("name", list(MATHS))
@pytest.mark.parametrize("kind", ["f", "hf"])
def test_functions_are_correctly_rounded(name, kind):
    a = stored(np.random.default_rng(1).uniform(0.1, 3, 16), kind)
    found = result("bmg", f"math.{name} (16|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind}", {4: a},
                   DTYPES[kind])
    expected = np.array([MATHS[name](float(v)) for v in a]).astype(DTYPES[kind])
    np.testing.assert_allclose(found, expected, rtol=float(np.finfo(DTYPES[kind]).eps))
    assert (found == expected).mean() > 0.9


@pytest.mark.parametrize("modifier", ["-", "(abs)", "-(abs)"])
def test_modifiers(modifier):
    a = np.array([1.5, -2.5, 0.0, -0.0] * 4, np.float32)
    found = result("bmg", f"add (16|M0) r20.0<1>:f {modifier}r4.0<1;1,0>:f r6.0<1;1,0>:f",
                   {4: a, 6: np.zeros(16, np.float32)}, np.float32)
    expected = np.abs(a) if "abs" in modifier else a
    np.testing.assert_array_equal(found, -expected if "-" in modifier else expected)


def test_vectors_of_immediates():
    for text, dtype, expected in (
        ("0x76543210:v", np.int16, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("0xFEDC3210:v", np.int16, [0, 1, 2, 3, -4, -3, -2, -1]),
        ("0xFEDC3210:uv", np.uint16, [0, 1, 2, 3, 12, 13, 14, 15]),
    ):
        kind = "w" if dtype is np.int16 else "uw"
        found = result("bmg", f"mov (8|M0) r20.0<1>:{kind} {text}", {}, dtype, 8)
        np.testing.assert_array_equal(found, expected)
    for count, text, expected in ((4, "0xC080400", [5, 9, 13, 17]), (2, "0x201", [6, 7])):
        found = result("dg2", f"add ({count}|M0) r20.0<1>:ud r4.0<0;1,0>:uw {text}:uv",
                       {4: np.array([5], np.uint16)}, np.uint32, count)
        np.testing.assert_array_equal(found, expected)  # IGC interleaves it with zeros for dwords
    found = result("dg2", "mov (4|M0) r20.0<2>:w 0x0C080400:v", {}, np.int16, 8)
    np.testing.assert_array_equal(found[::2], [0, 4, -8, -4])
    found = result("bmg", "mov (4|M0) r20.0<1>:f 0x48403000:vf", {}, np.float32, 4)
    np.testing.assert_array_equal(found, [0, 1, 2, 3])


def test_mixed_precision_meets_in_fp32():
    a = np.array([1.0] * 16, np.float16)
    b = np.array([2.0**-20] * 16, np.float32)
    found = result("bmg", "add (16|M0) r20.0<1>:f r4.0<1;1,0>:hf r6.0<1;1,0>:f", {4: a, 6: b},
                   np.float32)
    np.testing.assert_array_equal(found, np.float32(1 + 2.0**-20))
