"""Kernels whose results another kind of host must share; run by `test_host_cpus`, or by hand:

    TRITON_XE_HOST_CPU=x86-64-v3 python python/test/simulator/host_kernels.py OUT.npz [GROUP ...]

It needs triton, numpy and pytest, and prints which registers of AVX-512 its code used.
"""

import ctypes
import re
import sys
from functools import partial

import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

from triton_xe.backend import devices
from triton_xe.errors import SimulatorTrap
from triton_xe.intrinsics.definitions.conversions import float_to_bf16
from triton_xe.runtime import native
from triton_xe.runtime.simulator.run import jit

AVX512 = re.compile(r"%zmm|%k[0-7]|%[xy]mm(?:1[6-9]|2\d|3[01])\b")
assembly: list[str] = []


def keep_assembly() -> None:
    """From here on this process keeps the assembly of all that it compiles for this CPU."""

    def noted(passes, module, machine):
        passes(module, machine)
        copy = module.clone()
        copy.triple, copy.data_layout = module.triple, module.data_layout
        assembly.append(machine.emit_assembly(copy))

    jit.optimise = partial(noted, jit.optimise)
    jit.lower = partial(noted, jit.lower)
    jit.shorten = partial(noted, jit.shorten)


class Tensor:
    """An array in memory of the simulated device, as an argument of a kernel."""

    def __init__(self, values, dtype=None):
        self.buffer = devices.device(0).allocate(values.nbytes)
        memory = (ctypes.c_char * values.nbytes).from_address(self.buffer.pointer)
        self.array = np.frombuffer(memory, values.dtype).reshape(values.shape)
        self.array[...] = values
        self.dtype = dtype or str(values.dtype)

    def data_ptr(self):
        return self.buffer.pointer


RANDOM = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


def bf16(values):
    """The bits of fp32 numbers that are bf16 numbers."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def as_bf16(values):
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr, KIND: tl.constexpr):
    x_surface = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK, STEP])
    y_surface = tl.make_tensor_descriptor(b, [K, N], [N, 1], [STEP, BLOCK])
    z_surface = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK, BLOCK])
    i, j = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    total = tl.zeros((BLOCK, BLOCK), KIND)
    for k in range(0, K, STEP):
        total = tl.dot(x_surface.load([i, k]), y_surface.load([k, j]), total, out_dtype=KIND)
    z_surface.store([i, j], total)


def product(a, b, kind, dtype=None):
    """The block at the end of each side is padded."""
    (m, k), n = a.shape, b.shape[1]
    c = Tensor(np.zeros((m, n), np.int32 if kind == tl.int32 else np.float32))
    matmul[(-(-m // 32), -(-n // 32))](Tensor(a, dtype), Tensor(b, dtype), c, m, n, k, BLOCK=32,
                                       STEP=32, KIND=kind)
    return c.array.copy()


def matrices():
    halves = normal(80, 80, dtype=np.float16), normal(80, 48, dtype=np.float16)
    yield "fp16", product(*halves, tl.float32), np.matmul(*(x.astype(float) for x in halves)), 1e-4
    a, b = (RANDOM.integers(-128, 128, s).astype(np.int8) for s in ((80, 128), (128, 64)))
    yield "int8", product(a, b, tl.int32), a.astype(np.int32) @ b.astype(np.int32), 0


def more_matrices():
    a, b = normal(80, 80), normal(80, 48)
    short = as_bf16(a), as_bf16(b)
    made = product(bf16(a), bf16(b), tl.float32, "bfloat16")
    yield "bf16", made, np.matmul(*(x.astype(float) for x in short)), 1e-4
    yield "tf32", product(a, b, tl.float32), a.astype(float) @ b.astype(float), 3e-2


@triton.jit
def normalise(x, y, columns, BLOCK: tl.constexpr):
    """Softmax of a layer norm, and running sums; several warps per row."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    row = tl.load(x + tl.program_id(0) * columns + at, mask=inside, other=0.0)
    mean = tl.sum(row, 0) / columns
    away = tl.where(inside, row - mean, 0.0)
    level = away * tl.rsqrt(tl.sum(away * away, 0) / columns + 1e-5)
    power = tl.where(inside, tl.exp(level - tl.max(level, 0)), 0.0)
    share = power / tl.sum(power, 0)
    tl.store(y + tl.program_id(0) * columns + at, tl.cumsum(share, 0), mask=inside)


def rows():
    x = normal(9, 500)
    y = Tensor(np.zeros_like(x))
    normalise[(9,)](Tensor(x), y, 500, BLOCK=512, num_warps=4)
    exact = x.astype(float)
    level = exact - exact.mean(1, keepdims=True)
    level /= np.sqrt((level**2).mean(1, keepdims=True) + 1e-5)
    power = np.exp(level - level.max(1, keepdims=True))
    yield "rows", y.array, np.cumsum(power / power.sum(1, keepdims=True), 1), 1e-6


@triton.jit
def functions(x, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    v = tl.load(x + at)
    tl.store(out + at, libdevice.exp(v))
    tl.store(out + SIZE + at, libdevice.log(tl.abs(v)))
    tl.store(out + 2 * SIZE + at, libdevice.sin(v))
    tl.store(out + 3 * SIZE + at, libdevice.cbrt(v))
    tl.store(out + 4 * SIZE + at, libdevice.erf(v))
    tl.store(out + 5 * SIZE + at, libdevice.pow(tl.abs(v), v))


def maths():
    from math import erf

    x = np.linspace(-9, 9, 2048).astype(np.float32)
    out = Tensor(np.zeros((6, x.size), np.float32))
    functions[(1,)](Tensor(x), out, SIZE=x.size)
    e = x.astype(float)
    exact = [np.exp(e), np.log(np.abs(e)), np.sin(e), np.cbrt(e), np.vectorize(erf)(e),
             np.abs(e) ** e]
    for name, got, want, units in zip(("exp", "log", "sin", "cbrt", "erf", "pow"), out.array,
                                      exact, (3, 3, 4, 2, 16, 16), strict=True):
        place = np.spacing(np.abs(want).astype(np.float32)).astype(float)
        yield name, got.astype(float) / place, want / place, units


@triton.jit
def casts(x, d, half, brain, back, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    v, w = tl.load(x + at), tl.load(d + at)
    h = v.to(tl.float16)
    tl.store(half + at, h)
    tl.store(half + SIZE + at, w.to(tl.float16))
    tl.store(half + 2 * SIZE + at, tl.fma(h, h, w.to(tl.float16)))
    tl.store(brain + at, v.to(tl.bfloat16))
    tl.store(back + at, h.to(tl.float32))


def rounded():
    tie = np.arange(1, 257)  # between two neighbours in fp16, and next to that
    near = (1 + (2 * tie - 1) / 2048) * (1 + (tie % 3 - 1) * 2.0**-40)
    d = np.concatenate([near, near * 2.0**-16, near * 2.0**-26, normal(256) * 70000.0])
    x = np.concatenate([normal(512) * 100, normal(512) * 2.0**-15]).astype(np.float32)
    size = x.size
    half, back = Tensor(np.zeros((3, size), np.float16)), Tensor(np.zeros(size, np.float32))
    brain = Tensor(np.zeros(size, np.uint16), "bfloat16")
    casts[(1,)](Tensor(x), Tensor(d), half, brain, back, SIZE=size)
    with np.errstate(over="ignore", invalid="ignore"):
        h, wide = x.astype(np.float16), d.astype(np.float16)
        fused = (h.astype(float) ** 2 + wide.astype(float)).astype(np.float16)
    yield "half", half.array, np.stack([h, wide, fused]), 0
    yield "brain", brain.array, float_to_bf16(x), 0
    yield "back", back.array, h.astype(np.float32), 0


@triton.jit
def short_casts(x, five, four, back, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    v = tl.load(x + at)
    tl.store(five + at, v.to(tl.float8e5))
    tl.store(four + at, v.to(tl.float8e4nv))
    tl.store(back + at, v.to(tl.float8e5).to(tl.float32))
    tl.store(back + SIZE + at, v.to(tl.float8e4nv).to(tl.float32))


def eight_bits():
    """Numbers that both formats hold are kept, others are compared between hosts."""
    kept = np.concatenate([s * np.arange(8, 16) * 2.0**e for e in range(-9, 5) for s in (1, -1)])
    x = np.concatenate([kept, normal(288) * 50]).astype(np.float32)
    five, four = (Tensor(np.zeros(x.size, np.uint8), k) for k in ("float8_e5m2", "float8_e4m3fn"))
    back = Tensor(np.zeros((2, x.size), np.float32))
    short_casts[(1,)](Tensor(x), five, four, back, SIZE=x.size)
    yield "e4m3 numbers", back.array[1, : kept.size], kept, 0
    yield "nearness", back.array / x, np.ones((2, x.size)), 1 / 8
    for name, made in (("five", five), ("four", four)):
        yield name, made.array, made.array, 0


@triton.jit
def count(x, bins, total, highest, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    v = tl.load(x + at)
    tl.atomic_add(bins + v % 16, 1)
    tl.atomic_add(total + v % 4, v.to(tl.float32))
    tl.atomic_max(highest, tl.max(v, 0))


def atomics():
    x = RANDOM.integers(0, 1000, 4096).astype(np.int32)
    bins, total = Tensor(np.zeros(16, np.int32)), Tensor(np.zeros(4, np.float32))
    highest = Tensor(np.zeros(1, np.int32))
    count[(16,)](Tensor(x), bins, total, highest, SIZE=256)
    yield "bins", bins.array, np.bincount(x % 16, minlength=16), 0
    yield "total", total.array, np.bincount(x % 4, weights=x, minlength=4), 0
    yield "highest", highest.array, x.max(keepdims=True), 0


@triton.jit
def shift(x, away, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(x + at, tl.load(x + away + at))


def reports():
    """One by the checks; one of a page that is not there, by a signal, which takes C."""
    x = Tensor(np.arange(64, dtype=np.float32))
    cases = [("outside", 16, True), ("wild", 1 << 44, False)]
    for name, away, checked in cases[: 1 if native.threads is None else 2]:
        with pytest.raises(SimulatorTrap) as caught:
            shift[(1,)](x, away, SIZE=64, num_warps=1, sanitize=checked)
        words = "where there is no memory" if name == "wild" else "out-of-bounds load"
        yield name, np.array([words in str(caught.value)]), [True], 0


GROUPS = {
    f.__name__: f
    for f in (matrices, more_matrices, rows, maths, rounded, eight_bits, atomics, reports)
}


def main(path, *groups):
    keep_assembly()
    results = {}
    for group in groups or GROUPS:
        for case, got, want, tolerance in GROUPS[group]():
            np.testing.assert_allclose(got, want, atol=tolerance, rtol=0, err_msg=case)
            results[case] = np.array(got)
    np.savez(path, **results)
    used = sorted({word for text in assembly for word in AVX512.findall(text)})
    print(f"{len(assembly)} objects, AVX-512: {' '.join(used) or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
