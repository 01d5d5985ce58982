"""Integer instructions against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import result

pytestmark = pytest.mark.intel_compiler
TYPES = {"b": np.int8, "ub": np.uint8, "w": np.int16, "uw": np.uint16, "d": np.int32,
         "ud": np.uint32, "q": np.int64, "uq": np.uint64}
WORDS = ("d", "ud", "w", "uw")


def numbers(kind, seed, count=16):
    """Random numbers, small ones, and the ends of the range."""
    info, rng = np.iinfo(TYPES[kind]), np.random.default_rng(seed)
    wide = rng.integers(info.min, info.max, count, TYPES[kind], endpoint=True)
    ends = np.array([0, 1, info.max, info.min, info.max - 1], TYPES[kind])
    wide[rng.permutation(count)[:5]] = ends
    return np.where(rng.random(count) < 0.2, (wide % 8).astype(TYPES[kind]), wide)


def wrapped(values, kind):
    bits = 8 * np.dtype(TYPES[kind]).itemsize
    return np.array([v % (1 << bits) for v in values], np.uint64).astype(
        np.dtype(TYPES[kind]).str.replace("i", "u")).view(TYPES[kind])


def clipped(values, kind):
    info = np.iinfo(TYPES[kind])
    return np.array([min(max(v, int(info.min)), int(info.max)) for v in values], TYPES[kind])


def stride(kind):
    return max(1, 4 // np.dtype(TYPES[kind]).itemsize)


def spread(values, kind):
    """Elements a dword apart, as `<N;1,0>` reads them."""
    parts = np.zeros(len(values) * stride(kind), TYPES[kind])
    parts[:: stride(kind)] = values
    return parts


def source(register, kind, modifier=""):
    return f"{modifier}r{register}.0<{stride(kind)};1,0>:{kind}"


def python(values):
    return [int(v) for v in values]


BINARY = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "avg": lambda a, b: (a + b + 1) >> 1,
}


@pytest.mark.parametrize("kinds", [("d", "d", "d"), ("ud", "ud", "ud"), ("d", "w", "d"),
                                   ("d", "uw", "ud"), ("ud", "d", "w"), ("w", "w", "w"),
                                   ("uw", "ud", "ud")])
@pytest.mark.parametrize("op", ["add", "avg"])
@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("device", ["bmg", "dg2"])
def test_sums(op, kinds, saturates, device):
    target, left, right = kinds
    if op == "avg" and (saturates or len({*kinds}) > 1):
        return
    a, b = numbers(left, 1, 8), numbers(right, 2, 8)
    for modifier in ("", "-") if op == "add" else ("",):
        text = (f"{op} (8|M0) {'(sat)' if saturates else ''}r20.0<{stride(target)}>:{target} "
                f"{source(4, left)} {source(8, right, modifier)}")
        found = result(device, text, {4: spread(a, left), 8: spread(b, right)},
                       TYPES[target], 8 * stride(target))[:: stride(target)]
        exact = [BINARY[op](x, -y if modifier else y)
                 for x, y in zip(python(a), python(b), strict=True)]
        np.testing.assert_array_equal(found, (clipped if saturates else wrapped)(exact, target))


@pytest.mark.parametrize("kind", ["q", "uq"])
def test_sums_of_64_bits(kind):
    a, b = numbers(kind, 3, 8), numbers(kind, 4, 8)
    text = f"add (8|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind} r8.0<1;1,0>:{kind}"
    exact = [x + y for x, y in zip(python(a), python(b), strict=True)]
    np.testing.assert_array_equal(result("bmg", text, {4: a, 8: b}, TYPES[kind], 8),
                                  wrapped(exact, kind))
    text = text.replace("r20", "(sat)r20")
    np.testing.assert_array_equal(result("bmg", text, {4: a, 8: b}, TYPES[kind], 8),
                                  clipped(exact, kind))


@pytest.mark.parametrize("kinds", [("d", "d", "w"), ("d", "w", "w"), ("ud", "ud", "uw"),
                                   ("q", "d", "d"), ("uq", "ud", "ud")])
def test_products(kinds):
    target, left, right = kinds
    a, b = numbers(left, 5, 8), numbers(right, 6, 8)
    text = f"mul (8|M0) r20.0<1>:{target} {source(4, left)} {source(8, right)}"
    found = result("bmg", text, {4: spread(a, left), 8: spread(b, right)}, TYPES[target], 8)
    exact = [x * y for x, y in zip(python(a), python(b), strict=True)]
    np.testing.assert_array_equal(found, wrapped(exact, target))


@pytest.mark.parametrize("kind", ["d", "ud"])
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_low_and_high_halves(kind, device):
    """IGC's sequence: mul of the lower word into the accumulator, then macl or mach."""
    a, b = numbers(kind, 7), numbers(kind, 8)
    exact = [x * y for x, y in zip(python(a), python(b), strict=True)]
    for op, half in (("macl", exact), ("mach", [v >> 32 for v in exact])):
        text = (f"(W) mul (16|M0) acc0.0<1>:{kind} r4.0<1;1,0>:{kind} r6.0<2;1,0>:uw\n"
                f"{op} (16|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind} r6.0<1;1,0>:{kind}")
        found = result(device, text, {4: a, 6: b}, TYPES[kind])
        np.testing.assert_array_equal(found, wrapped(half, kind))


@pytest.mark.parametrize("kind", ["d", "ud"])
def test_halves_on_xe_hpg(kind):
    """Without AccWrEn mach is the low half, with it the high half."""
    a, b = numbers(kind, 7, 8), numbers(kind, 8, 8)
    exact = [x * y for x, y in zip(python(a), python(b), strict=True)]
    for option, half in (("", exact), (" {AccWrEn}", [v >> 32 for v in exact])):
        text = (f"(W) mul (8|M0) acc0.0<1>:{kind} r4.0<1;1,0>:{kind} r6.0<2;1,0>:uw\n"
                f"mach (8|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind} r6.0<1;1,0>:{kind}{option}")
        found = result("dg2", text, {4: a, 6: b}, TYPES[kind], 8)
        np.testing.assert_array_equal(found, wrapped(half, kind))


def test_the_accumulator_has_more_than_32_bits():
    """nGEN: the high part of a product of 32 by 16 bits by mach with 0, at an element offset."""
    a, b = numbers("ud", 9), numbers("uw", 10)
    text = ("(W) mul (1|M0) acc0.14<1>:ud r4.0<0;1,0>:ud r6.0<0;1,0>:uw\n"
            "(W) mach (1|M0) r20.14<1>:ud r4.0<0;1,0>:ud 0x0:ud")
    found = result("bmg", text, {4: a, 6: b}, np.uint32)[14]
    assert int(found) == int(a[0]) * int(b[0]) >> 32


def test_multiply_add_and_three_sums():
    a, b, c = numbers("d", 1), numbers("d", 2), numbers("w", 3)
    registers = {4: a, 6: b, 8: spread(c, "w")}
    found = result("bmg", "add3 (16|M0) r20.0<1>:d r4.0<1;0>:d -r6.0<1;0>:d r8.0<2>:w", registers,
                   np.int32)
    np.testing.assert_array_equal(found, wrapped(
        [x - y + z for x, y, z in zip(*map(python, (a, b, c)), strict=True)], "d"))
    found = result("bmg", "mad (16|M0) r20.0<1>:d r4.0<1;0>:d r6.0<1;0>:d r8.0<2>:w", registers,
                   np.int32)
    np.testing.assert_array_equal(found, wrapped(
        [x + y * z for x, y, z in zip(*map(python, (a, b, c)), strict=True)], "d"))


@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_logic_inverts_with_a_minus(op):
    a, b = numbers("ud", 1), numbers("ud", 2)
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op]
    text = f"{op} (16|M0) r20.0<1>:ud r4.0<1;1,0>:ud ~r6.0<1;1,0>:ud"
    np.testing.assert_array_equal(result("bmg", text, {4: a, 6: b}, np.uint32), function(a, ~b))


@pytest.mark.parametrize("table", [0xD8, 0xE2, 0x80, 0xFE, 0x96, 0x1])
def test_boolean_functions(table):
    a, b, c = (numbers("ud", seed) for seed in (1, 2, 3))
    text = f"bfn.0x{table:X} (16|M0) r20.0<1>:ud r4.0<1;0>:ud r6.0<1;0>:ud r8.0<1>:ud"
    found = result("bmg", text, {4: a, 6: b, 8: c}, np.uint32)
    for x, y, z, r in zip(*map(python, (a, b, c)), python(found), strict=True):
        bits = [table >> ((x >> i & 1) | (y >> i & 1) << 1 | (z >> i & 1) << 2) & 1
                for i in range(32)]
        assert r == sum(bit << i for i, bit in enumerate(bits))


SHIFTS = {
    "shl": lambda x, n, bits: x << n,
    "shr": lambda x, n, bits: x % (1 << bits) >> n,
    "asr": lambda x, n, bits: x >> n,
}


@pytest.mark.parametrize("op", list(SHIFTS))
@pytest.mark.parametrize("kind", ["d", "ud", "q", "uq"])
def test_shifts(op, kind):
    bits = 64 if "q" in kind else 32
    a = numbers(kind, 1, 8)
    counts = np.random.default_rng(2).integers(0, 2 * bits, 8).astype(np.uint32)
    text = f"{op} (8|M0) r20.0<1>:{kind} r4.0<1;1,0>:{kind} r6.0<1;1,0>:ud"
    found = result("bmg", text, {4: a, 6: counts}, TYPES[kind], 8)
    exact = [SHIFTS[op](x, n % bits, bits)
             for x, n in zip(python(a), python(counts), strict=True)]
    np.testing.assert_array_equal(found, wrapped(exact, kind))


def test_a_shift_with_conversion():
    a = numbers("w", 1, 8)
    text = "shr (8|M0) r20.0<1>:d r4.0<2;1,0>:uw 3:w\nasr (8|M0) r21.0<1>:d r4.0<2;1,0>:w 3:w"
    registers = {4: spread(a, "w")}
    np.testing.assert_array_equal(
        result("bmg", text, registers, np.int32, 8), a.view(np.uint16) >> 3)


@pytest.mark.parametrize("op", ["rol", "ror"])
def test_rotations(op):
    a = numbers("ud", 1)
    counts = np.random.default_rng(2).integers(0, 64, 16).astype(np.uint32)
    text = f"{op} (16|M0) r20.0<1>:ud r4.0<1;1,0>:ud r6.0<1;1,0>:ud"
    found = result("bmg", text, {4: a, 6: counts}, np.uint32)
    for x, n, r in zip(*map(python, (a, counts, found)), strict=True):
        left = (n if op == "rol" else -n) % 32
        assert r == (x << left | x >> (32 - left) % 32 if left else x) & 0xFFFFFFFF


BITS = {
    "cbit": lambda x: bin(x).count("1"),
    "lzd": lambda x: len(f"{x:032b}") - len(f"{x:032b}".lstrip("0")),
    "fbl": lambda x: f"{x:032b}"[::-1].index("1") if x else 0xFFFFFFFF,
    "bfrev": lambda x: int(f"{x:032b}"[::-1], 2),
    "fbh": lambda x: f"{x:032b}".index("1") if x else 0xFFFFFFFF,
}


@pytest.mark.parametrize("op", list(BITS))
def test_bits(op):
    a = numbers("ud", 1)
    found = result("bmg", f"{op} (16|M0) r20.0<1>:ud r4.0<1;1,0>:ud", {4: a}, np.uint32)
    assert python(found) == [BITS[op](x) for x in python(a)]


def test_the_first_bit_that_differs_from_the_sign():
    a = numbers("d", 1)
    found = result("bmg", "fbh (16|M0) r20.0<1>:ud r4.0<1;1,0>:d", {4: a}, np.uint32)
    for x, r in zip(python(a), python(found), strict=True):
        text = f"{x % 2**32:032b}"
        other = "10"[int(text[0])]
        assert r == (text.index(other) if other in text else 0xFFFFFFFF)


def test_fields():
    rng = np.random.default_rng(1)
    width, first = (rng.integers(0, 32, 16).astype(np.uint32) for _ in range(2))
    a, b = numbers("ud", 2), numbers("ud", 3)
    registers = {4: width, 6: first, 8: a, 10: b}
    found = result("bmg", "bfe (16|M0) r20.0<1>:ud r4.0<1;0>:ud r6.0<1;0>:ud r8.0<1>:ud",
                   registers, np.uint32)
    for w, f, x, r in zip(*map(python, (width, first, a, found)), strict=True):
        assert r == x >> f & (1 << w) - 1
    text = ("bfi1 (16|M0) r12.0<1>:ud r4.0<1;1,0>:ud r6.0<1;1,0>:ud\n"
            "bfi2 (16|M0) r20.0<1>:ud r12.0<1;0>:ud r8.0<1;0>:ud r10.0<1>:ud")
    found = result("bmg", text, registers, np.uint32)
    for w, f, x, y, r in zip(*map(python, (width, first, a, b, found)), strict=True):
        mask = ((1 << w) - 1 << f) & 0xFFFFFFFF
        assert r == (x & mask) | (y & ~mask & 0xFFFFFFFF)


@pytest.mark.parametrize("kinds", [("d", "d"), ("ud", "ud"), ("d", "ud")])
def test_four_products(kinds):
    a, b, c = numbers("d", 1), numbers("ud", 2), numbers("ud", 3)
    text = f"dp4a (16|M0) r20.0<1>:d r4.0<1;0>:d r6.0<1;0>:{kinds[0]} r8.0<1>:{kinds[1]}"
    found = result("bmg", text, {4: a, 6: b, 8: c}, np.int32)
    parts = [x.view(np.int8 if kind == "d" else np.uint8).reshape(16, 4).astype(object)
             for x, kind in zip((b, c), kinds, strict=True)]
    np.testing.assert_array_equal(found, wrapped(a.astype(object) + (parts[0] * parts[1]).sum(1),
                                                 "d"))


@pytest.mark.parametrize("device", ["bmg", "dg2"])
def test_carry_and_borrow(device):
    a, b = numbers("ud", 1, 8), numbers("ud", 2, 8)
    for op, sign in (("addc", 1), ("subb", -1)):
        option = " {AccWrEn}" if device == "dg2" else ""
        text = (f"{op} (8|M0) r20.0<1>:ud r4.0<1;1,0>:ud r6.0<1;1,0>:ud{option}\n"
                "mov (8|M0) r21.0<1>:ud acc0.0<1;1,0>:ud")
        registers = {4: a, 6: b}
        exact = [x + sign * y for x, y in zip(python(a), python(b), strict=True)]
        np.testing.assert_array_equal(result(device, text, registers, np.uint32, 8),
                                      wrapped(exact, "ud"))
        carried = text.replace("r20.0<1>", "r22.0<1>").replace("r21", "r20")
        assert python(result(device, carried, registers, np.uint32, 8)) == [
            int(not 0 <= v < 2**32) for v in exact]


@pytest.mark.parametrize("target", ["b", "ub", "w", "uw", "d", "ud", "q", "uq"])
@pytest.mark.parametrize("kind", ["b", "ub", "w", "uw", "d", "ud", "q", "uq"])
def test_moves_between_integers(target, kind):
    a = numbers(kind, 1, 8)
    for saturates in (False, True):
        text = (f"mov (8|M0) {'(sat)' if saturates else ''}r20.0<{stride(target)}>:{target} "
                f"{source(4, kind)}")
        found = result("bmg", text, {4: spread(a, kind)}, TYPES[target], 8 * stride(target))
        expected = (clipped if saturates else wrapped)(python(a), target)
        np.testing.assert_array_equal(found[:: stride(target)], expected)


@pytest.mark.parametrize("modifier", ["-", "(abs)", "-(abs)"])
@pytest.mark.parametrize("kind", ["d", "w", "q"])
def test_modifiers(modifier, kind):
    a = numbers(kind, 1, 8)
    text = f"mov (8|M0) r20.0<1>:q {source(4, kind, modifier)}"
    exact = [abs(x) if "abs" in modifier else x for x in python(a)]
    exact = [-x if "-" in modifier else x for x in exact]
    np.testing.assert_array_equal(result("bmg", text, {4: spread(a, kind)}, np.int64, 8),
                                  wrapped(exact, "q"))


@pytest.mark.parametrize("condition", ["eq", "ne", "gt", "ge", "lt", "le"])
@pytest.mark.parametrize("kinds", [("d", "d"), ("ud", "ud"), ("d", "ud"), ("uw", "d"),
                                   ("q", "uq"), ("uq", "uq")])
def test_comparisons(condition, kinds):
    a, b = numbers(kinds[0], 1, 8), numbers(kinds[1], 2, 8)
    b[:3] = a[:3].astype(b.dtype)
    text = f"cmp (8|M0) ({condition})f0.0 r20.0<1>:d {source(4, kinds[0])} {source(8, kinds[1])}"
    found = result("bmg", text, {4: spread(a, kinds[0]), 8: spread(b, kinds[1])}, np.int32, 8)
    holds = {"eq": int.__eq__, "ne": int.__ne__, "gt": int.__gt__, "ge": int.__ge__,
             "lt": int.__lt__, "le": int.__le__}[condition]
    assert python(found) == [-int(holds(x, y))
                             for x, y in zip(python(a), python(b), strict=True)]


@pytest.mark.parametrize("kind", ["d", "ud", "w"])
def test_extremes(kind):
    a, b = numbers(kind, 1, 8), numbers(kind, 2, 8)
    registers = {4: spread(a, kind), 8: spread(b, kind)}
    for condition, function in (("lt", min), ("ge", max)):
        text = f"sel (8|M0) ({condition})f0.0 r20.0<1>:d {source(4, kind)} {source(8, kind)}"
        np.testing.assert_array_equal(
            result("bmg", text, registers, np.int32, 8),
            wrapped([function(x, y) for x, y in zip(python(a), python(b), strict=True)], "d"))


def test_conditions_of_results():
    a, b = numbers("d", 1), numbers("d", 2)
    b[:4] = -a[:4]
    text = ("add (16|M0) (eq)f0.0 r22.0<1>:d r4.0<1;1,0>:d r6.0<1;1,0>:d\n"
            "mov (1|M0) r20.0<1>:uw f0.0<0;1,0>:uw")
    found = int(result("bmg", text, {4: a, 6: b}, np.uint16, 1)[0])
    with np.errstate(over="ignore"):
        assert found == sum(int(v == 0) << i for i, v in enumerate(a + b))


@pytest.mark.parametrize("number", range(8))
def test_a_product_in_any_accumulator(number):
    x, y = np.arange(16, dtype=np.int32) - 7, np.arange(16, dtype=np.uint16) * 4000
    found = result("bmg", f"mul (16|M0) acc{number}.0<1>:d r4.0<1;1,0>:d r6.0<1;1,0>:uw\n"
                          f"add (16|M0) r20.0<1>:d acc{number}.0<1;1,0>:d 5:w",
                   {4: x, 6: y}, np.int32)
    np.testing.assert_array_equal(found, x * y.astype(np.int32) + 5)
