"""0 - x of +0 is +0, in native code too; IGC 2.40 makes -x of a plain subtraction."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import triton
import triton.language as tl
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.lowering.emit import arithmetic
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler
TYPES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
NUMBERS = np.tile(np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, 65504, 6e-8]), 16)


@triton.jit
def negated(x, o, PRODUCT: tl.constexpr):
    at = tl.arange(0, 128)
    value = tl.load(x + at)
    tl.store(o + at, 0.0 - (value * 0.5 if PRODUCT else value))


def native(device: str, kind: str, product: bool) -> NDArray[Any]:
    kernel = triton.compile(
        ASTSource(negated, dict.fromkeys("xo", f"*{kind}"), {"PRODUCT": product}),
        target=GPUTarget("xpu", device, 16), options={"num_warps": 1})
    built = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
    x, space = NUMBERS.astype(TYPES[kind]), AddressSpace()
    arguments = [space.put(array) for array in (x, np.ones_like(x))]
    program = Program.from_zebin(device, built.binary)
    Launch.from_zebin(program, built.binary, space, (1, 1, 1), arguments, (16, 1, 1)).run()
    return space.get(arguments[1], x.dtype.type, x.shape)


@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_zero_less_zero_is_positive(device: str, kind: str, product: bool) -> None:
    x = NUMBERS.astype(TYPES[kind])
    expected = 0 - (x * x.dtype.type(0.5) if product else x)
    found = native(device, kind, product)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_intels_compiler_negates_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with mock.patch.object(arithmetic, "_is_positive_zero", return_value=False):
        assert np.signbit(native("bmg", "fp64", product=False)[0])
