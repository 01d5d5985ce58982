"""Quotients and remainders by a scalar, as the hardware computes them: exact for all of 32 bits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from python.test.host_loops import loop_over
from triton_xe.lowering.facts.divisors import MOST
from triton_xe.lowering.spirv.quotients import FACTOR, declared, definition
from triton_xe.spirv import QUOTIENT

EXACT = "fdiv arcp float 1.0, %y"
Numbers = np.ndarray[Any, Any]
POWERS = (1 << 15, 1 << 16, 1 << 23, 1 << 24, 1 << 30, 1 << 31)
EDGES = sorted({
    *range(12), 25, 125, 127, 128, 255, 256, 625, 641, 1000, 65537,
    *(power + i for power in POWERS for i in (-2, -1, 0, 1)),
    *((1 << 32) - i for i in range(1, 12))})
"""Bits of 32-bit integers."""


def on_host(name: str, count: int, bits: int) -> Callable[[Numbers, int], Numbers]:
    """The function, compiled for the CPU, on many elements; of its divisor it is given all."""
    symbol = QUOTIENT + name
    one, narrow = f"i{bits}", "i32" if count == 1 else f"<{count} x i32>"
    held = one if count == 1 else f"<{count} x {one}>"
    text = definition(symbol) + _declarations(symbol, narrow, count)
    text += loop_over(
        held, held, f'call spir_func {held} @"{symbol}"({held} %x, {one} %by, '
                    "i32 %size, i32 %sign, i32 %factor)",
        parameters="i64 %d, i32 %size, i32 %sign, i32 %factor",
        begin="%by = trunc i64 %d to i32" if bits == 32 else "%by = add i64 %d, 0")
    engine = _engine(text)
    kind = ctypes.CFUNCTYPE(
        None, *[ctypes.c_void_p] * 2, *[ctypes.c_uint64] * 2, *[ctypes.c_uint32] * 3)
    run = kind(engine.get_function_address("all"))

    def call(x: Numbers, by: int) -> Numbers:
        assert engine is not None  # lives as long as what it made
        x = np.ascontiguousarray(np.resize(x, -(-len(x) // count) * count))
        out, size = np.empty_like(x), min(abs(by), MOST)
        given = by & (1 << 64) - 1, size, MOST if by < 0 else 0, MOST // size
        run(x.ctypes.data, out.ctypes.data, len(x) // count, *given)
        return out

    return call


def _engine(text: str) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine


def _declarations(symbol: str, kind: str, count: int) -> str:
    """What a function calls, with a product for the host."""
    return "".join(_high_product(line, kind, count) if "mul_hi" in line else f"{line}\n"
                   for line in declared([symbol]).splitlines())


def _high_product(declaration: str, kind: str, count: int) -> str:
    wide = "i64" if count == 1 else f"<{count} x i64>"
    shift = "32" if count == 1 else "<" + ", ".join(["i64 32"] * count) + ">"
    name = declaration[declaration.index("@"): declaration.index("(")]
    return f"""define spir_func {kind} {name}({kind} %a, {kind} %b) {{
  %x = zext {kind} %a to {wide}
  %y = zext {kind} %b to {wide}
  %p = mul {wide} %x, %y
  %h = lshr {wide} %p, {shift}
  %r = trunc {wide} %h to {kind}
  ret {kind} %r
}}
"""


def exact(name: str, x: Numbers, by: int) -> Numbers:
    """Toward zero."""
    x = x.astype(np.int64)
    if abs(by) > MOST:
        return np.zeros_like(x) if name.endswith("div") else x
    quotient = np.abs(x) // abs(by) * np.sign(x) * (1 if by > 0 else -1)
    return quotient if name.endswith("div") else x - quotient * by


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("name", ["sdiv", "srem", "udiv", "urem", "sdiv natural", "srem natural"])
def test_all_kinds_of_numbers(name: str, count: int) -> None:
    name, _, natural = name.partition(" ")
    call = on_host(f"{name}.{count}" + ".natural" * bool(natural), count, 32)
    kind = np.dtype(np.int32 if name[0] == "s" else np.uint32)
    rng = np.random.default_rng(count)
    edges = np.array(EDGES, np.uint32)
    some = rng.integers(0, 1 << 32, 40, np.uint32) >> rng.integers(0, 32, 40, np.uint32)
    for by in np.concatenate([edges, some]).view(kind).tolist():
        if by == 0:
            continue
        x = np.concatenate([edges, _beside_multiples(rng, by)]).astype(np.uint32).view(kind)
        x = x[x >= 0] if natural else x
        np.testing.assert_array_equal(
            call(x, by)[:len(x)].view(np.uint32), exact(name, x, by).astype(np.uint32), f"{by}")


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("name", ["sdiv", "srem", "udiv", "urem", "sdiv natural", "srem natural"])
def test_numbers_of_64_bits_with_a_size_of_32(name: str, count: int) -> None:
    name, _, natural = name.partition(" ")
    call = on_host(f"{name}.{count}.wide" + ".natural" * bool(natural), count, 64)
    rng = np.random.default_rng(count)
    sizes = [*EDGES, 1 << 32, (1 << 32) + 1, 1 << 40, (1 << 63) - 1, *rng.integers(1, 1 << 34, 30)]
    signs = (1, -1) if name[0] == "s" else (1,)
    for by in (int(size) * sign for size in sizes for sign in signs if size):
        x = np.concatenate([EDGES, _beside_multiples(rng, by)]).astype(np.int64) % MOST
        if name[0] == "s" and not natural:
            x = np.concatenate([x, -x])
        np.testing.assert_array_equal(call(x, by)[:len(x)], exact(name, x, by), f"{by}")


def _beside_multiples(rng: np.random.Generator, by: int) -> Numbers:
    multiples = rng.integers(0, (1 << 32) // abs(by) + 1, 60) * min(abs(by), 1 << 33)
    near = np.concatenate([multiples, multiples - 1, multiples + 1])
    return np.concatenate([near, -near, rng.integers(0, 1 << 32, 64)])


def factors(off: int) -> Callable[[Numbers], Numbers]:
    """The factors of divisors, with reciprocals that are off by some units in the last place."""
    symbol = f"{QUOTIENT}{FACTOR}"
    inverse = f"""%inverse = bitcast i32 %moved to float
  %exact = {EXACT}
  %bits = bitcast float %exact to i32
  %moved = add i32 %bits, {off}"""
    first, *others = inverse.splitlines()
    text = definition(symbol)
    assert f"%inverse = {EXACT}" in text
    text = text.replace(f"%inverse = {EXACT}", "\n".join([*others, first]))
    text += _declarations(symbol, "i32", 1)
    text += loop_over("i32", "i32", f'call spir_func i32 @"{symbol}"(i32 %x)')
    engine = _engine(text)
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_uint64)(
        engine.get_function_address("all"))

    def call(divisors: Numbers) -> Numbers:
        assert engine is not None  # lives as long as what it made
        out = np.empty_like(divisors)
        run(divisors.ctypes.data, out.ctypes.data, len(divisors))
        return out

    return call


@pytest.mark.parametrize("off", [-2, -1, 0, 1, 2])
def test_every_reciprocal_within_two_units_gives_the_factor(off: int) -> None:
    rng = np.random.default_rng(off + 2)
    divisors = np.concatenate([
        np.arange(1, 1 << 16), *(np.arange(-1000, 1000) + (1 << power) for power in range(16, 32)),
        np.arange((1 << 32) - (1 << 16), 1 << 32), rng.integers(1, 1 << 32, 200_000),
    ]).astype(np.uint32)
    np.testing.assert_array_equal(factors(off)(divisors), MOST // divisors.astype(np.uint64))
