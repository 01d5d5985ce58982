"""Divisions in loops by what no pass changes: exact for all numbers of 32 bits."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

EXTREMES = (0, 1, 2, 3, 7, 127, 128, 65535, 65536, (1 << 31) - 1, -1, -2, -5, -(1 << 31))


@triton.jit
def divide(x, d, q, r, n, divisor, BY_LOADED: tl.constexpr):
    for i in range(n):
        number = tl.load(x + i)
        by = divisor
        if BY_LOADED:
            by = tl.load(d)
        tl.store(q + i, number // by)
        tl.store(r + i, number % by)


def numbers(rng, dtype, count):
    info = np.iinfo(dtype)
    near = [k * s + o for k in (1, 2, 3, 1000) for s in (3, 7, 128, 65537) for o in (-1, 0, 1)]
    found = [x for x in (*EXTREMES, *near) if info.min <= x <= info.max]
    return np.array([*found, info.min, info.max, *rng.integers(info.min, info.max, count)], dtype)


@pytest.mark.parametrize(("dtype", "loaded"), [
    (np.int32, False), (np.int32, True), (np.uint32, True)])
def test_divisions_in_loops(dtype, loaded):
    rng = np.random.default_rng(0)
    x, info = numbers(rng, dtype, 40), np.iinfo(dtype)
    some = rng.integers(info.min, info.max, 12)
    for d in (*(e for e in EXTREMES if e and info.min <= e <= info.max), *some):
        if dtype is np.int32 and d == -1:
            x = np.where(x == info.min, 5, x).astype(dtype)  # what does not fit is undefined
        out = [torch.empty(len(x), dtype=torch.int32, device="xpu") for _ in range(2)]
        held = [torch.from_numpy(v.view(np.int32)).to("xpu")
                for v in (x, np.array([d], dtype))]
        if dtype is np.uint32:
            held = [triton.reinterpret(v, tl.uint32) for v in held]
            out = [triton.reinterpret(v, tl.uint32) for v in out]
        divide[(1,)](*held, *out, len(x), int(d) if not loaded else 0, loaded)
        got = [getattr(v, "base", v).cpu().numpy().view(dtype) for v in out]
        exact = [(abs(int(v)) // abs(int(d)), abs(int(v)) % abs(int(d))) for v in x]
        signs = [(-1 if (v < 0) != (d < 0) else 1, -1 if v < 0 else 1) for v in x.tolist()]
        for k in range(2):
            wanted = [e[k] * s[k] for e, s in zip(exact, signs, strict=True)]
            assert got[k].tolist() == wanted, (d, k)


@pytest.mark.parametrize(("device", "divisions"), [("bmg", 1), ("pvc", 2)])
def test_one_division_before_the_loop(device, divisions):
    types = {"x": "*i32", "d": "*i32", "q": "*i32", "r": "*i32", "n": "i32", "divisor": "i32",
             "BY_LOADED": "constexpr"}
    kernel = triton.compile(ASTSource(divide, types, {"BY_LOADED": False}),
                            target=GPUTarget("xpu", device, 16))
    text = kernel.asm["llir"]
    assert sum(text.count(f" {name} i32") for name in ("sdiv", "udiv", "srem")) == divisions
