"""Arithmetic of fp16 between fp32 values is rounded as written, in native code too.

IGC 2.40 computes it in fp32 (`triton_xe.lowering.emit.maths.kept_roundings`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import triton
import triton.language as tl
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler
RANDOM = np.random.default_rng(5)
X, Y = (RANDOM.normal(0, size, 128).astype(np.float32) for size in (100, 7))


@triton.jit
def products(x, y, o, ADD: tl.constexpr):
    at = tl.arange(0, 128)
    a, b = tl.load(x + at).to(tl.float16), tl.load(y + at).to(tl.float16)
    tl.store(o + at, (a * b + a if ADD else a * b).to(tl.float32))


def native(device: str, add: bool) -> NDArray[np.float32]:
    kernel = triton.compile(
        ASTSource(products, dict.fromkeys("xyo", "*fp32"), {"ADD": add}),
        target=GPUTarget("xpu", device, 16),
        options={"num_warps": 1, "enable_fp_fusion": False})
    built = intel.compile_spirv(kernel.asm["spv"], device, kernel.metadata.build_flags)
    space = AddressSpace()
    arguments = [space.put(array) for array in (X, Y, np.zeros_like(X))]
    program = Program.from_zebin(device, built.binary)
    Launch.from_zebin(program, built.binary, space, (1, 1, 1), arguments, (16, 1, 1)).run()
    return space.get(arguments[2], X.dtype, X.shape)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_native_code_rounds_each_operation(device: str, add: bool) -> None:
    a, b = X.astype(np.float16), Y.astype(np.float16)
    np.testing.assert_array_equal(native(device, add), (a * b + a if add else a * b))


def test_intels_compiler_leaves_roundings_out_otherwise(
    leave_out: Callable[[str], None]
) -> None:
    leave_out("keep_roundings")
    np.testing.assert_array_equal(native("bmg", False), X * Y)
