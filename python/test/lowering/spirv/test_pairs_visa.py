"""Functions that compute fp16 in pairs, in vISA: native code on random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from python.test.lowering.native_functions import functions
from triton_xe.lowering.emit.maths.fp8 import FORMATS
from triton_xe.lowering.spirv.pairs_visa import arguments_of
from triton_xe.spirv import HALVES

pytestmark = pytest.mark.intel_compiler
LANES = 16
ARITHMETIC, PAIRS_OR_ONE = ("add", "sub", "mul"), ("by_pairs", "by_one")
BOTH = (*ARITHMETIC, "min", "max", "plus")
FUSED = ("plus", "less", "from")
FACTORS = ("pairs_pairs", "one_pairs", "pairs_one", "one_one")
BITS, KINDS = (1, 2, 4, 8), ("bits", "rows")
NAMES = (*(f"{name}.{how}" for name in ARITHMETIC for how in PAIRS_OR_ONE),
         *(f"{name}.by_{how}" for name in FUSED for how in FACTORS),
         *(f"{kind}.{bits}" for kind in KINDS for bits in BITS),
         *(f"both.{name}" for name in BOTH), "zip", *(f"fp8.{name}" for name in FORMATS),
         "plus.e408", "in_order.4", "in_turns.4", "nibbles")


def image(name: str, *given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a function makes, as element, lane."""
    made = functions(*(HALVES + each for each in NAMES))(HALVES + name, *given)
    return made.view(np.float16).reshape(4, LANES, 2).transpose(0, 2, 1).reshape(8, LANES)


def halves(seed: int, count: int = 4) -> np.ndarray[Any, Any]:
    """Registers of dwords with two halves in each."""
    return np.random.default_rng(seed).standard_normal((count, LANES, 2)).astype(np.float16)


def elements(words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return words.transpose(0, 2, 1).reshape(-1, LANES)


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("how", PAIRS_OR_ONE)
def test_arithmetic(name: str, how: str) -> None:
    a, b = halves(1), halves(2, 1 if how == "by_one" else 4)
    assert len(arguments_of(f"{name}.{how}")) == 2
    wide = np.broadcast_to(b, a.shape)
    made = {"add": a + wide, "sub": a - wide, "mul": a * wide}[name]
    assert np.array_equal(image(f"{name}.{how}", a, b), elements(made))


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("how", FACTORS)
def test_fused(name: str, how: str) -> None:
    given = [halves(1), *(halves(n + 2, 1 if h == "one" else 4)
                          for n, h in enumerate(how.split("_")))]
    assert len(arguments_of(f"{name}.by_{how}")) == 3
    a, b, c = (np.broadcast_to(g, given[0].shape).astype(np.float64) for g in given)
    made = {"plus": a * b + c, "less": a * b - c, "from": c - a * b}[name]
    assert np.array_equal(image(f"{name}.by_{how}", *given), elements(made.astype(np.float16)))


@pytest.mark.parametrize("name", BOTH)
def test_both_values_of_a_dword(name: str) -> None:
    a, b, c = (halves(n, 1)[0] for n in (1, 2, 3))
    given = [a, b, c][: len(arguments_of(f"both.{name}"))]
    fused = (a.astype(np.float64) * b + c).astype(np.float16)
    wanted = {"add": a + b, "sub": a - b, "mul": a * b, "min": np.fmin(a, b),
              "max": np.fmax(a, b), "plus": fused}[name]
    made = functions(*(HALVES + each for each in NAMES))(HALVES + f"both.{name}", *given)
    assert np.array_equal(made.view(np.float16).reshape(LANES, 2), wanted)


def test_zip() -> None:
    a, b = (np.random.default_rng(n).integers(0, 1 << 16, (LANES, 2), np.uint16) for n in (1, 2))
    made = functions(*(HALVES + each for each in NAMES))(HALVES + "zip", a, b)
    assert np.array_equal(made.view(np.uint16).reshape(2, LANES, 2), np.stack([a, b], -1).swapaxes(
        0, 1))


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("name", FORMATS)
def test_every_number_is_rounded_to_8_bits(name: str, part: int) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).reshape(8, -1, 4, LANES, 2)[part]
    values = every.view(np.float16).astype(np.float64)
    kind = FORMATS[name]
    sizes = np.array([kind.value(size) for size in range(kind.largest + 1)])
    middles = (sizes[1:] + sizes[:-1]) / 2
    below = np.searchsorted(middles, abs(values), "left")
    above = np.searchsorted(middles, abs(values), "right")
    rounded = np.where(below % 2, above, below)
    wanted = np.where(np.isnan(values), every >> 8 | 127 if name == "f8E5M2" else 127, rounded)
    wanted = (wanted & 127 | every >> 8 & 128).astype(np.uint8)
    for given, bytes_ in zip(every, wanted, strict=True):
        made = functions(*(HALVES + each for each in NAMES))(f"{HALVES}fp8.{name}", given)
        assert np.array_equal(made.reshape(2, LANES, 2, 2), bytes_.reshape(
            2, 2, LANES, 2).swapaxes(1, 2))


def test_plus_a_number() -> None:
    a = halves(3)
    assert np.array_equal(image("plus.e408", a), elements(a - np.float16(1032)))


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind: str, bits: int) -> None:
    rng = np.random.default_rng(bits)
    words = rng.integers(0, 1 << 32, (8, LANES), dtype=np.uint32)
    shift = (rng.integers(0, 32 // bits, LANES) * bits).astype(np.uint32)
    by = np.stack([shift, shift + 16, shift, shift + 16]).astype(np.uint32)
    given = [words[:4], words[4:], by]
    if kind == "rows":
        packed = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
        words = np.repeat(packed.reshape(8, 2), 8, axis=1)
        given = [packed, by]
    assert len(arguments_of(f"{kind}.{bits}")) == len(given)
    wanted = 1024 + (words >> shift & (1 << bits) - 1)
    assert np.array_equal(image(f"{kind}.{bits}", *given), wanted.astype(np.float16))


@pytest.mark.parametrize(("kind", "shifts"), [
    ("in_order", range(0, 32, 4)), ("in_turns", [0, 16, 4, 20, 8, 24, 12, 28])])
def test_bits_of_halves(kind: str, shifts: list[int]) -> None:
    packed = np.random.default_rng(6).integers(0, 1 << 32, LANES, dtype=np.uint32)
    shift = np.array(2 * list(shifts), np.uint32)
    wanted = 1024 + (np.repeat(packed.reshape(8, 2), 8, axis=1) >> shift & 15)
    given = [packed, shift]
    if kind == "in_turns":
        given.append(np.tile(np.array([0xF000F, 0x64006400], np.uint32), LANES // 2))
    assert arguments_of(f"{kind}.4") == ("i32",) * len(given)
    assert np.array_equal(image(f"{kind}.4", *given), wanted.astype(np.float16))


def test_nibbles() -> None:
    words = np.random.default_rng(5).integers(0, 1 << 32, LANES, dtype=np.uint32)
    wanted = 1024 + (words >> (4 * np.arange(8))[:, None].astype(np.uint32) & 15)
    assert arguments_of("nibbles") == ("i32",)
    assert np.array_equal(image("nibbles", words), wanted.astype(np.float16))
