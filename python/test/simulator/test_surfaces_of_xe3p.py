"""Products on Xe3P of matrices that 2D messages of no earlier device can address."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_xe.errors import DeviceError
from triton_xe.runtime.opening import get, open_device, put
from triton_xe.tools.commands.compile import compile_kernel
from triton_xe.tools.gpu_checks.kernels import product

SIGNATURE = ("a=*fp16 b=*fp16 c=*fp32 M=i32 N=i32 K=i32 PRECISION='ieee' BLOCK_M=64 BLOCK_N=64 "
             "BLOCK_K=32")
M = 70


def error(name: str, first: int, k: int, n: int, on: str = "sim") -> float:
    """The error of a product by the version for 2D messages; `first` elements precede A and B."""
    device: Any = open_device(f"{on}:{name}")
    kernel = compile_kernel(product, SIGNATURE, name, {"num_warps": 4})
    loaded = device.load(kernel.asm["spv"], kernel.name, build_flags=kernel.metadata.build_flags)
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((M, k), (k, n)))
    held = [put(device, np.pad(each.reshape(-1), (first, 0))) for each in (a, b)]
    out = put(device, np.zeros((M, n), np.float32))
    starts = [each.pointer + 2 * first for each in held]
    device.launch(loaded, (2, 2, 1), [*starts, out.pointer, M, n, k])
    want = a.astype(np.float64) @ b
    return float(np.abs(get(device, out, (M, n), np.float32) - want).max())


@pytest.mark.parametrize("first", [0, 2, 6])
@pytest.mark.parametrize(("k", "n"), [(98, 66), (100, 70)])
def test_rows_of_words_anywhere(first: int, k: int, n: int) -> None:
    assert error("cri", first, k, n) < 1e-3


@pytest.mark.intel_compiler
def test_native_code_does_so_too() -> None:
    assert error("nvl-p", 2, 98, 66, on="emu") < 1e-3


@pytest.mark.parametrize(("name", "first", "k", "n", "rule"), [
    ("cri", 0, 99, 66, "the pitch is a multiple of 4 bytes"),
    ("cri", 1, 98, 66, "the base address is a multiple of 4 bytes"),
    ("bmg", 0, 100, 72, "the pitch is a multiple of 16 bytes"),
    ("bmg", 2, 104, 72, "the base address is a multiple of 64 bytes"),
])
def test_what_is_left_to_the_general_version(
    name: str, first: int, k: int, n: int, rule: str
) -> None:
    with pytest.raises(DeviceError, match=rule):
        error(name, first, k, n)
