"""dpas against the project's definition."""

from __future__ import annotations

import numpy as np
import pytest

from python.test.emulator.assembled import register, run
from triton_xe.hardware.dpas import Dpas
from triton_xe.intrinsics.definitions.dpas import add_once
from triton_xe.intrinsics.definitions.dpas import dpas as definition
from triton_xe.runtime.emulator.dpas import chain

pytestmark = pytest.mark.intel_compiler
TYPES = {"hf": "f16", "bf": "bf16", "tf32": "tf32", "b": "s8", "ub": "u8", "s4": "s4", "u4": "u4",
         "s2": "s2", "u2": "u2"}
RESULTS = {"f": "f32", "d": "i32", "hf": "f16", "bf": "bf16"}


def image(kind, size, rng):
    """A register image; floats are ordinary numbers with some zeros and large ones."""
    if kind in ("hf", "bf", "tf32", "f"):
        count = size // {"hf": 2, "bf": 2, "tf32": 4, "f": 4}[kind]
        values = (rng.standard_normal(count) * 2.0 ** rng.integers(-6, 6, count)).astype(np.float32)
        values[rng.random(count) < 0.1] = 0
        if kind == "hf":
            return values.astype(np.float16).view(np.uint8)
        bits = values.view(np.uint32)
        return ((bits >> 16).astype(np.uint16) if kind == "bf" else bits).view(np.uint8)
    return rng.integers(0, 256, size).astype(np.uint8)


CASES = [("hf", "hf", "f"), ("hf", "hf", "hf"), ("bf", "bf", "f"), ("bf", "bf", "bf"),
         ("tf32", "tf32", "f"), ("b", "b", "d"), ("ub", "b", "d"), ("b", "s4", "d"),
         ("u4", "s4", "d"), ("s4", "b", "d"), ("u2", "s2", "d")]


@pytest.mark.parametrize(("a", "b", "c"), CASES)
@pytest.mark.parametrize("rows", [8, 5, 1])
@pytest.mark.parametrize(("device", "columns"), [("bmg", 16), ("dg2", 8)])
def test_products(a, b, c, rows, device, columns):
    if device == "dg2" and a == "tf32":
        return
    shape = Dpas(TYPES[a], TYPES[b], RESULTS[c], rows, columns)
    rng = np.random.default_rng(rows)
    threads, grf = 3, 64 if device == "bmg" else 32
    size = {"f": 4, "d": 4}.get(c, 2) * rows * columns
    registers = {
        30: np.array([image(c if c != "d" else "b", size, rng) for _ in range(threads)]),
        40: np.array([image(b, shape.b_bytes, rng) for _ in range(threads)]),
        60: np.array([image(a, shape.a_bytes, rng) for _ in range(threads)])}
    text = f"dpas.8x{rows} ({columns}|M0) r20:{c} r30:{c} r40:{b} r60.0:{a}"
    done = run(device, text, registers, threads=threads, simd=columns)
    found = register(done, 20, np.uint8, size)
    for thread in range(threads):
        expected = definition(registers[30][thread], registers[60][thread],
                              registers[40][thread], shape)
        np.testing.assert_array_equal(found[thread], expected)
    assert grf * rows >= size or device == "dg2"


def test_a_null_accumulator_is_zero():
    rng = np.random.default_rng(1)
    shape = Dpas("f16", "f16", "f32")
    a, b = image("hf", shape.a_bytes, rng), image("hf", shape.b_bytes, rng)
    done = run("bmg", "dpas.8x8 (16|M0) r20:f null:f r40:hf r60.0:hf", {40: b, 60: a})
    np.testing.assert_array_equal(register(done, 20, np.uint8, 512)[0],
                                  definition(np.zeros(512, np.uint8), a, b, shape))


@pytest.mark.parametrize("factors", [20, 41])
def test_the_reset_of_operand_reads_on_xe_hpg(factors):
    """`dpas r null s s {Atomic}` before a chain that accumulates in r has no effect."""
    rng = np.random.default_rng(1)
    shape = Dpas("f16", "f16", "f32", execution_size=8)
    c, a, b = image("f", 256, rng), image("hf", shape.a_bytes, rng), image("hf", 256, rng)
    text = (f"dpas.8x8 (8|M0) r20:f null:f r{factors}:hf r{factors}.0:hf {{Atomic}}\n"
            "dpas.8x8 (8|M0) r20:f r20:f r40:hf r60.0:hf {$1}")
    done = run("dg2", text, {20: c, 40: b, 60: a}, simd=8)
    np.testing.assert_array_equal(register(done, 20, np.uint8, 256)[0],
                                  definition(c, a, b, shape))


@pytest.mark.parametrize("kind", ["ties", "denormals", "cancellation", "special"])
def test_hard_sums(kind):
    """Where fp64 sums are not enough: ties after rounding, denormals of fp32, NaN, infinity."""
    rng = np.random.default_rng(2)
    a, b = (rng.choice([1.0, -1.0, 0.5, 3.0], (2, 8, 16)) for _ in range(2))
    c = rng.standard_normal((2, 8, 16))
    if kind == "ties":
        c = np.ldexp(rng.integers(1 << 23, 1 << 24, c.shape) + 0.0, 30)
        a[..., ::2], b = np.ldexp(a[..., ::2], 29), b * (1 + 2.0**-10)
    elif kind == "denormals":
        a, b, c = np.ldexp(a, -70), np.ldexp(b, -70), np.ldexp(c, -140)
    elif kind == "special":
        a[0, 0, 3], b[1, 2, 2], c[0, 1, 1] = np.inf, np.nan, -np.inf
    else:
        c = -(a @ np.swapaxes(b, 1, 2)[:, :16, :].repeat(2, 2))
    b = np.swapaxes(b, 1, 2) if b.shape[1] == 8 else b
    b = np.concatenate([b, b], 2)
    c, a, b = (x.astype(np.float32) for x in (c, a, b))
    with np.errstate(all="ignore"):
        expected = c
        for k in range(16):
            product = a[:, :, k : k + 1].astype(np.float64) * b[:, k : k + 1].astype(np.float64)
            expected = add_once(product, expected.astype(np.float64))
        np.testing.assert_array_equal(chain(c, a, b), expected)
