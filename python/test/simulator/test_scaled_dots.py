"""tl.dot_scaled as the scaled DPAS of Xe3P, against the numbers that the formats stand for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import instructions, name_of, parsed
from triton_xe.runtime.opening import get, open_device, put
from triton_xe.tools.commands.compile import compile_kernel

FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
FLOATS = FP8 | {"bf16": torch.bfloat16, "fp16": torch.float16}
KINDS = {"e4m3": "fp8e4nv", "e5m2": "fp8e5", "e2m1": "u8", "bf16": "bf16", "fp16": "fp16"}
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
K = 256
PRODUCT, PRODUCED = "GenISA.sub.group.bdpas", "bdpas_"
"""The instruction, and part of the names of functions that are it in assembly."""


@triton.jit
def product(
    a_ptr, a_scale, b_ptr, b_scale, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    DEPTH: tl.constexpr, A: tl.constexpr, B: tl.constexpr, GROUP: tl.constexpr,
    HAS_A: tl.constexpr, PITCH: tl.constexpr,
):
    KA: tl.constexpr = K // 2 if A == "e2m1" else K
    KB: tl.constexpr = K // 2 if B == "e2m1" else K
    DA: tl.constexpr = DEPTH * KA // K
    DB: tl.constexpr = DEPTH * KB // K
    m, n, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, DEPTH // GROUP)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K // DEPTH):
        a = tl.load(a_ptr + m[:, None] * KA + (i * DA + tl.arange(0, DA))[None, :])
        b = tl.load(b_ptr + (i * DB + tl.arange(0, DB))[:, None] * N + n[None, :])
        at = (i * (DEPTH // GROUP) + g)[None, :]
        sb = tl.load(b_scale + n[:, None] * PITCH + at)
        if HAS_A:
            sa = tl.load(a_scale + m[:, None] * PITCH + at)
            acc = tl.dot_scaled(a, sa, A, b, sb, B, acc)
        else:
            acc = tl.dot_scaled(a, None, A, b, sb, B, acc)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc)


def operand(kind: str, rows: int, columns: int, along: int, seed: int) -> tuple[Any, Any]:
    """Bytes in memory, and the numbers that they stand for."""
    random = np.random.default_rng(seed)
    if kind == "e2m1":
        codes = random.integers(0, 16, (rows, columns), dtype=np.uint8)
        even, odd = (np.take(codes, range(i, codes.shape[along], 2), along) for i in (0, 1))
        return even | odd << 4, FP4[codes & 7] * (1 - 2.0 * (codes >> 3))
    values = torch.from_numpy(random.standard_normal((rows, columns))).to(FLOATS[kind])
    stored = values.view(torch.uint8 if kind in FP8 else torch.int16).numpy()
    return stored, values.double().numpy()


def multiply(
    device: str, a: str, b: str, size: tuple[int, int, int], *, warps: int = 4, group: int = 32,
    has_a: bool = True, scale: str = "u8", pitch: int = 0, on: str = "sim",
) -> Any:
    """Run the product; check it; return the compiled kernel.

    Rows of scales begin `pitch` bytes after each other, or at once without it.
    """
    m, n, depth = size
    signature = (f"a_ptr=*{KINDS[a]}:16 a_scale=*{scale}:16 b_ptr=*{KINDS[b]}:16 "
                 f"b_scale=*{scale}:16 c_ptr=*fp32:16 M={m} N={n} K={K} DEPTH={depth} A='{a}' "
                 f"B='{b}' GROUP={group} HAS_A={has_a} PITCH={pitch or K // group}")
    kernel = compile_kernel(product, signature, device, {"num_warps": warps})
    (x, left), (y, right) = operand(a, m, K, 1, 1), operand(b, K, n, 0, 2)
    random = np.random.default_rng(3)
    codes = [random.integers(120, 134, (rows, K // group), dtype=np.uint8) for rows in (m, n)]
    powers = [np.exp2(each - 127.0) for each in codes]
    if scale != "u8":
        powers = [np.clip(each, 2.0**-6, 2.0**6) for each in powers]
        codes = [torch.from_numpy(each).to(FP8["e4m3"]).view(torch.uint8).numpy()
                 for each in powers]
    if pitch:
        codes = [np.pad(each, ((0, 0), (0, pitch - K // group))) for each in codes]
    opened = open_device(f"{on}:{device}")
    buffers = [put(opened, each) for each in (
        x, codes[0], y, codes[1], np.zeros((m, n), np.float32))]
    built = opened.load(kernel.asm["spv"], kernel.name, build_flags=kernel.metadata.build_flags)
    opened.launch(built, (1, 1, 1), [each.pointer for each in buffers])
    if has_a:
        left = left * powers[0].repeat(group, 1)
    wanted = left @ (right * powers[1].repeat(group, 1).T)
    np.testing.assert_allclose(get(opened, buffers[4], (m, n), np.float32), wanted, 1e-4, 1e-2)
    return kernel


@pytest.mark.sample(4)
@pytest.mark.parametrize(("device", "a", "b", "size", "warps", "code"), [
    ("cri", "e4m3", "e5m2", (64, 64, 64), 4, 8), ("cri", "e2m1", "e2m1", (64, 64, 128), 4, 13),
    ("cri", "e4m3", "e4m3", (128, 128, 128), 8, 8), ("cri", "e5m2", "e2m1", (32, 32, 64), 2, 7),
    ("cri", "e2m1", "e2m1", (16, 128, 64), 8, 13), ("cri", "e4m3", "e5m2", (8, 16, 32), 1, 8),
    ("nvl-p", "e2m1", "e2m1", (64, 32, 64), 4, 7), ("nvl-p", "e5m2", "e5m2", (32, 64, 256), 4, 7),
    ("cri", "bf16", "e4m3", (64, 64, 64), 4, 11), ("cri", "e5m2", "fp16", (32, 128, 128), 4, 12),
    ("cri", "e2m1", "bf16", (16, 32, 64), 2, 11), ("nvl-p", "fp16", "e2m1", (64, 64, 64), 4, 12),
    ("cri", "bf16", "bf16", (8, 16, 32), 1, 11),
])
def test_scaled_products(
    device: str, a: str, b: str, size: tuple[int, int, int], warps: int, code: int
) -> None:
    """All products are `bdpas`; `code` is the type of A: bf8 7, hf8 8, bf16 11, f16 12, e2m1 13."""
    kernel = multiply(device, a, b, size, warps=warps)
    text = kernel.asm["llir"]
    products = [each for each in instructions(text) if PRODUCED in each]
    m, n, depth = size
    rows = max(m // 8 * n // 16, warps)
    assert kernel.metadata.n_dpas == len(products) == (
        rows * depth // {13: 64, 8: 32, 7: 32}.get(code, 16) // warps)
    assert {each.operands[5].text for each in parsed(text, helpers=True)
            if name_of(each) == PRODUCT} == {str(code)}  # of A


@pytest.mark.sample(4)
@pytest.mark.parametrize(("a", "b", "size", "warps", "messages"), [
    ("e4m3", "e4m3", (128, 128, 128), 8, 3), ("e2m1", "e2m1", (64, 64, 128), 4, 2),
    ("e5m2", "e4m3", (128, 64, 256), 2, 4), ("e4m3", "e4m3", (8, 64, 128), 1, 2),
    ("e4m3", "e5m2", (16, 32, 128), 2, 2), ("e4m3", "e4m3", (64, 64, 64), 4, 0),
])
def test_scales_of_long_rows_come_by_messages(
    a: str, b: str, size: tuple[int, int, int], warps: int, messages: int
) -> None:
    """Four scales of a row are a word of a transposing message, if a row has 64 bytes."""
    kernel = multiply("cri", a, b, size, warps=warps, pitch=64)
    loads = re.findall(r"= call .*2DBlockRead.*i32 32, i32 [12], i32 (?:16|32), i32 1, i1 true",
                       kernel.asm["llir"])
    assert len(loads) == messages


@pytest.mark.intel_compiler
@pytest.mark.sample(3)
@pytest.mark.parametrize(("device", "a", "b", "size", "warps", "pitch"), [
    ("cri", "e2m1", "e2m1", (64, 128, 128), 4, 64), ("cri", "e2m1", "e2m1", (128, 64, 256), 2, 64),
    ("cri", "e2m1", "e2m1", (16, 128, 64), 8, 0), ("cri", "e4m3", "e5m2", (64, 64, 128), 4, 64),
    ("cri", "bf16", "e4m3", (64, 64, 64), 4, 0), ("cri", "e4m3", "e5m2", (8, 16, 32), 1, 0),
    ("nvl-p", "e2m1", "e2m1", (64, 64, 128), 4, 0), ("nvl-p", "e5m2", "e2m1", (32, 64, 64), 2, 0),
])
def test_native_code_multiplies_so_too(
    device: str, a: str, b: str, size: tuple[int, int, int], warps: int, pitch: int
) -> None:
    """Products are assembly that names parts of messages, and bytes of words of scales."""
    kernel = multiply(device, a, b, size, warps=warps, pitch=pitch, on="emu")
    assert PRODUCT in instructions(kernel.asm["llir"], helpers=True)


@pytest.mark.intel_compiler
@pytest.mark.sample(2)
@pytest.mark.parametrize("on", ["sim", "emu"])
@pytest.mark.parametrize("kind", ["e4m3", "e2m1"])
def test_an_operand_without_scales(kind: str, on: str) -> None:
    kernel = multiply("cri", kind, kind, (32, 32, 64), has_a=False, on=on)
    assert PRODUCT in instructions(kernel.asm["llir"], helpers=True)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("scale", "reason"), [
    ("fp8e4nv", "its scales are f8E4M3FN, not E8M0"),
    ("u8", "a scale is for 16 elements, not 32"),
])
def test_scales_that_are_multiplied_before(scale: str, reason: str) -> None:
    kernel = multiply("cri", "e2m1", "e2m1", (32, 32, 64), group=16, scale=scale)
    assert PRODUCT not in instructions(kernel.asm["llir"], helpers=True)
    assert reason in str(kernel.metadata)
