"""Functions reach Intel's compiler without its library, with equal results and no longer code."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.special

from benchmarks import loops
from python.test.language.maths.test_elementary import SPECIAL, samples
from triton_xe.intrinsics import ROWS
from triton_xe.lowering.spirv.emit_spirv import write_spirv
from triton_xe.lowering.spirv.error_function import FAR, NEAR
from triton_xe.lowering.spirv.library_calls import NATIVE
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.spirv import instructions
from triton_xe.tools import intel

LANES, MOST = 16, 3
CALLS = {12, 205, 224, 263}
"""OpExtInst, OpBitCount, OpControlBarrier and OpGroupBroadcast, which Intel's library defines."""
DTYPES = {"half": np.float16, "float": np.float32, "double": np.float64,
          "i16": np.int16, "i32": np.int32, "i64": np.int64}
CASES = [(name, scalar, count)
         for name, (_, types) in NATIVE.items() for scalar in types for count in (1, 8)]
HEAD = 'declare spir_func i32 @"_Z22get_sub_group_local_idv"()\n'
TAIL = f"!0 = !{{i32 {LANES}}}\n!1 = !{{i32 {LANES}, i32 1, i32 1}}\n"
Values = np.ndarray[Any, Any]


def kernel(number: int, name: str, scalar: str, count: int) -> str:
    """A kernel that applies a function to one element, or vector, of each lane."""
    row = ROWS[name.removesuffix(" unsigned")]
    kind = scalar if count == 1 else f"<{count} x {scalar}>"
    kinds = [kind] * len(row.parameters)
    symbol = row.symbol(kind, kinds, unsigned=name.endswith(" unsigned"))
    convention = "spir_func " if row.is_builtin else ""
    loads = "".join(
        f"  %p{k} = getelementptr {kind}, ptr addrspace(1) %x{k}, i32 %i\n"
        f"  %v{k} = load {kind}, ptr addrspace(1) %p{k}, align 8\n" for k in range(len(kinds)))
    given = ", ".join(f"ptr addrspace(1) %x{k}" for k in range(MOST))
    passed = ", ".join(f"{kind} %v{k}" for k in range(len(kinds)))
    return (
        f'declare {convention}{kind} @"{symbol}"({", ".join(kinds)})\n'
        f'define spir_kernel void @"k{number}"(ptr addrspace(1) %y, {given}) '
        "!intel_reqd_sub_group_size !0 !reqd_work_group_size !1 {\n"
        '  %i = call spir_func i32 @"_Z22get_sub_group_local_idv"()\n'
        f'{loads}  %r = call {convention}{kind} @"{symbol}"({passed})\n'
        f"  %q = getelementptr {kind}, ptr addrspace(1) %y, i32 %i\n"
        f"  store {kind} %r, ptr addrspace(1) %q, align 8\n  ret void\n}}\n")


@cache
def built(*, library: bool) -> intel.CompiledKernel:
    """All cases, each a kernel of one module."""
    text = HEAD + "".join(kernel(n, *case) for n, case in enumerate(CASES)) + TAIL
    return intel.compile_spirv(write_spirv(text, library=library), "bmg")


def inputs(scalar: str) -> list[Values]:
    """Random bits, and above all special values in the first elements."""
    rng, dtype = np.random.default_rng(5), np.dtype(DTYPES[scalar])
    found = [rng.integers(0, 256, LANES * 8 * dtype.itemsize, np.uint8).view(dtype)
             for _ in range(MOST)]
    if dtype.kind == "f":
        special = [0.0, -0.0, 1.0, -2.5, 0.5, 1.5, np.inf, -np.inf, np.nan, 1e-7, -3.0, 100.25]
        for shift, values in enumerate(found):
            values[: len(special)] = np.roll(special, 5 * shift)
            values[16:64] = rng.uniform(-8, 8, 48)
    return found


def executed(binary: bytes, number: int, given: list[Values]) -> Values:
    """The results of a kernel on the emulated GPU."""
    space = AddressSpace()
    out = space.put(np.zeros_like(given[0]))
    program = Program.from_zebin("bmg", binary, f"k{number}")
    arguments = [out, *(space.put(values) for values in given)]
    Launch.from_zebin(program, binary, space, (1, 1, 1), arguments, (LANES, 1, 1)).run()
    return space.get(out, given[0].dtype.type, given[0].shape)


@pytest.mark.intel_compiler
@pytest.mark.parametrize(
    "number", range(len(CASES)), ids=[f"{name}-{scalar}x{count}" for name, scalar, count in CASES])
def test_functions_without_the_library(number: int) -> None:
    wanted, found = (built(library=library).program_of(f"k{number}") for library in (True, False))
    assert len(found.instructions) <= len(wanted.instructions)
    name, scalar, _ = CASES[number]
    results = [executed(built(library=library).binary, number, inputs(scalar))
               for library in (True, False)]
    np.testing.assert_array_max_ulp(*results, 2) if name == "rsqrt" else (
        np.testing.assert_array_equal(*results))


def dividends_and_divisors() -> list[list[Values]]:
    """Pairs of special numbers, of any bits, of usual sizes, and with small divisors."""
    rng, size = np.random.default_rng(3), LANES * 8
    special = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2.0**-149, 2.0**-126, 2.0**-80,
                        3.4028235e38, 2.5, -7.25, 2.0**24, 0.1, 2.0**20 - 0.5], np.float32)
    pairs = [[each.reshape(-1) for each in np.meshgrid(special, special[n : n + 8])]
             for n in (0, 8)]
    pairs += [[rng.integers(0, 2**32, size, np.uint32).view(np.float32) for _ in range(2)]
              for _ in range(6)]
    pairs += [[rng.normal(0, scale, size).astype(np.float32) for scale in (1e3, 3)]]
    pairs += [[np.exp2(rng.uniform(-149, high, size)).astype(np.float32) for high in (127, -90)]]
    return pairs


@pytest.mark.intel_compiler
@pytest.mark.parametrize("count", [1, 8])
def test_remainders_are_exact(count: int) -> None:
    text = HEAD + kernel(0, "fmod", "float", count) + TAIL
    with_library, found = (
        intel.compile_spirv(write_spirv(text, library=library), "bmg") for library in (True, False))
    assert len(found.program.instructions) < 0.5 * len(with_library.program.instructions)
    for x, y in dividends_and_divisors():
        parts = [slice(n, n + LANES * count) for n in range(0, x.size, LANES * count)]
        results = [executed(found.binary, 0, [x[part], y[part], y[part]]) for part in parts]
        with np.errstate(all="ignore"):
            wanted = np.fmod(x, y)
        np.testing.assert_array_equal(np.concatenate(results), wanted)
        signs = ~np.isnan(wanted)
        np.testing.assert_array_equal(
            np.signbit(np.concatenate(results))[signs], np.signbit(wanted)[signs])


@pytest.mark.intel_compiler
@pytest.mark.parametrize("count", [1, 8])
def test_error_function(count: int) -> None:
    text = HEAD + kernel(0, "erf", "float", count) + TAIL
    with_library, found = (
        intel.compile_spirv(write_spirv(text, library=library), "bmg") for library in (True, False))
    if count > 1:
        assert len(found.program.instructions) < 0.85 * len(with_library.program.instructions)
    numbers = np.concatenate([samples(signed=True), SPECIAL * 12, [1.0] * 8]).astype(np.float32)
    parts = np.split(numbers, len(numbers) // (LANES * 8))
    results = np.concatenate([executed(found.binary, 0, [part] * MOST) for part in parts])
    if count == 1:
        numbers, results = (np.concatenate([part[:LANES] for part in np.split(each, len(parts))])
                            for each in (numbers, results))
    wanted = scipy.special.erf(numbers.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(results), np.isnan(wanted))
    places = np.spacing(np.maximum(np.abs(wanted), 2.0**-149).astype(np.float32))
    assert np.nanmax(np.abs(results - wanted) / places) <= 1.5
    assert np.nanmax(np.abs(results)) == 1
    signs = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(results)[signs], np.signbit(numbers)[signs])


def test_each_side_of_the_error_function_is_below_the_other() -> None:
    """Also if 2^q has an error of four units in the last place, as hardware may."""
    t = np.linspace(0, 8, 100_001)
    exact = scipy.special.erf(t)
    near = t + t * sum(c * t**n for n, c in NEAR.items())
    far = 1 - np.exp2(sum(c * t**n for n, c in FAR.items()))
    assert np.all((near - exact)[t > 1.17] < 2.0**-26)
    assert np.all((far - exact)[t < 0.8] < -(2.0**-22))
    assert np.all((far - exact)[t < 1.1] < -(2.0**-23))
    assert np.all(far[t > 3.95] > 1 - 2.0**-25)


@pytest.mark.intel_compiler
@pytest.mark.parametrize(
    "name", ["softmax fp32", "layer norm", "rms norm bf16", "row sum", "argmax", "dropout",
             "inductor pointwise", "swiglu gradient", "softmax of rows", "prefix sum of rows",
             "recurrence", "gemm ieee"])
def test_common_kernels_call_nothing_of_the_library(name: str) -> None:
    made = loops.compiled(name, "bmg")
    assert not CALLS & {opcode for opcode, *_ in instructions(made.asm["spv"])}
    wanted, found = (
        len(intel.compile_spirv(binary, "bmg", made.metadata.build_flags).program.instructions)
        for library in (True, False)
        for binary in [write_spirv(made.asm["llir"], library=library)])
    assert found <= 1.01 * wanted


@pytest.mark.parametrize("name", NATIVE)
def test_no_call_of_the_library_is_left(name: str) -> None:
    scalar = NATIVE[name][1][0]
    for count in (1, 8):
        text = HEAD + kernel(0, name, scalar, count) + TAIL
        with_library, without = (
            {opcode for opcode, *_ in instructions(write_spirv(text, library=library))}
            for library in (True, False))
        assert CALLS & with_library
        assert not CALLS & without
