# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Checks of whole kernels, compiled by Triton: memory, atomics, numbers, matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.language.extra import libdevice

from triton_xe.tools.gpu_checks.bench import Array, Bench, Check, Module

_TRITON = {"float32": "fp32", "float16": "fp16", "float64": "fp64", "int8": "i8", "int16": "i16",
           "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "bf16", "uint32": "u32"}
"""Triton's names of array types; bits of bf16 are stored in uint16."""


@triton.jit
def masked(x, y, far, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * tl.where(i < n, 1, far), i < n, other=-1))
    tl.store(x + i * far, i, (i > n) & (far < 0))


@triton.jit
def counted(counts, one, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(counts + i % N, tl.load(one) + tl.zeros((BLOCK,), one.dtype.element_ty))


@triton.jit
def extremes(x, found, BLOCK: tl.constexpr):
    v = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    at = found + tl.zeros((BLOCK,), tl.int32)
    tl.atomic_max(at, v)
    tl.atomic_min(at + 1, v)
    tl.atomic_xor(at + 2, v)
    tl.atomic_cas(found + 3, 0, tl.program_id(0) + 1)


@triton.jit
def last_one_sums(x, parts, ticket, total, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.sum(tl.load(x + pid * BLOCK + tl.arange(0, BLOCK))))
    if tl.atomic_add(ticket, 1, sem="acq_rel") == PROGRAMS - 1:
        tl.store(total, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS), cache_modifier=".cv")))


@triton.jit
def exchanged(x, sorted_, scanned, turned, N: tl.constexpr, M: tl.constexpr, SORT: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if SORT:
        tl.store(sorted_ + i, tl.sort(v))
    tl.store(scanned + i, tl.cumsum(v) + tl.max(v) + tl.argmin(v, 0))
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N // M)[None, :]
    tl.store(turned + columns * M + rows, tl.load(x + rows * (N // M) + columns))
    tl.store(turned + N + i, tl.reshape(tl.trans(tl.reshape(v, (M, N // M))), (N,)))


@triton.jit
def places(out, X: tl.constexpr, Y: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * Y + y) * X + x
    tl.store(out + at, tl.num_programs(0) + 100 * tl.num_programs(1) + 10000 * at)


@triton.jit
def converted(x, half, brain, e5, e4, whole, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(half + i, v.to(tl.float16))
    tl.store(brain + i, v.to(tl.bfloat16))
    tl.store(e5 + i, v.to(tl.float8e5).to(tl.uint8, bitcast=True))
    tl.store(e4 + i, v.to(tl.float8e4nv).to(tl.uint8, bitcast=True))
    tl.store(whole + i, tl.where(tl.abs(v) < 2.0e9, v, 0).to(tl.int32))


@triton.jit
def widened(bits, half, brain, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(bits + i)
    tl.store(half + i, v.to(tl.float16, bitcast=True).to(tl.float32))
    tl.store(brain + i, v.to(tl.bfloat16, bitcast=True).to(tl.float32))


@triton.jit
def exact(x, y, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, n = tl.load(x + i), tl.load(y + i), tl.num_programs(0) * BLOCK
    tl.store(out + i, a + b)
    tl.store(out + n + i, a * b)
    tl.store(out + 2 * n + i, tl.fma(a, b, a))
    tl.store(out + 3 * n + i, tl.div_rn(a, b))
    tl.store(out + 4 * n + i, tl.sqrt_rn(a))
    tl.store(out + 5 * n + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 6 * n + i, tl.minimum(a, b))
    tl.store(out + 7 * n + i, tl.floor(a) + tl.ceil(b))


@triton.jit
def functions(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v, n = tl.load(x + i), tl.num_programs(0) * BLOCK
    tl.store(out + i, tl.exp(v))
    tl.store(out + n + i, tl.log(tl.abs(v)))
    tl.store(out + 2 * n + i, tl.sin(v))
    tl.store(out + 3 * n + i, tl.cos(v))
    tl.store(out + 4 * n + i, tl.exp2(v))
    tl.store(out + 5 * n + i, tl.rsqrt(tl.abs(v)))
    tl.store(out + 6 * n + i, tl.erf(v))
    tl.store(out + 7 * n + i, libdevice.tanh(v))


@triton.jit
def integers(x, y, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, n = tl.load(x + i), tl.load(y + i), tl.num_programs(0) * BLOCK
    tl.store(out + i, a // b)
    tl.store(out + n + i, a % b)
    tl.store(out + 2 * n + i, tl.umulhi(a, b))
    tl.store(out + 3 * n + i, a << (b & 31))
    tl.store(out + 4 * n + i, a >> (b & 31))
    wide = a.to(tl.int64) * b
    tl.store(out + 5 * n + i, (wide >> 17).to(tl.int32) ^ (wide // 1000).to(tl.int32))
    tl.store(out + 6 * n + i, libdevice.popc(a) + libdevice.clz(b))


@triton.jit
def doubles(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a / b + tl.sqrt(tl.abs(a)) * b - tl.fma(a, b, a))


@triton.jit
def product(
    a, b, c, M, N, K, PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), c.dtype.element_ty)
    for start in range(0, K, BLOCK_K):
        at = start + k
        x = tl.load(a + rows * K + at[None, :], (rows < M) & (at[None, :] < K), other=0)
        y = tl.load(b + at[:, None] * N + columns, (at[:, None] < K) & (columns < N), other=0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=c.dtype.element_ty)
    tl.store(c + rows * N + columns, total, (rows < M) & (columns < N))


def compiled(
    bench: Bench, function: Any, arguments: Mapping[str, Any], **options: Any
) -> tuple[Module, list[Any]]:
    """Compile a kernel for these arguments; return its module and the arguments of a launch.

    Arrays are pointers aligned to 16 bytes, names in capitals are constants, and integers are i32.
    """
    signature, constants, attributes, passed = {}, {}, {}, []
    for k, (name, value) in enumerate(arguments.items()):
        if name.isupper():
            signature[name], constants[name] = "constexpr", value
            continue
        passed.append(value)
        if isinstance(value, np.ndarray):
            signature[name] = f"*{_TRITON[value.dtype.name]}"
            attributes[(k,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "i32"
    source = triton.compiler.ASTSource(function, signature, constants, attributes)
    target = GPUTarget("xpu", bench.target.name, bench.target.subgroup_size)
    # launched by hand, so that the kernel itself has to test what fast code needs
    kernel = triton.compile(source, target=target, options={**options, "guards": "kernel"})
    flags = str(getattr(kernel.metadata, "build_flags", ""))
    return Module(kernel.name, kernel.asm["spv"], flags), passed


def _same(bench: Bench, function: Any, grid: int, arguments: Mapping[str, Any], what: str = "",
          **options: Any) -> None:
    module, passed = compiled(bench, function, arguments, **options)
    bench.same(module, (grid, 1, 1), passed, what)


def _run(bench: Bench, function: Any, grid: tuple[int, int, int], arguments: Mapping[str, Any],
         **options: Any) -> list[Array]:
    module, passed = compiled(bench, function, arguments, **options)
    return bench.run(module, grid, passed)


def masks(bench: Bench) -> None:
    x, y = np.arange(1024, dtype=np.int32), np.zeros(1024, np.int32)
    _same(bench, masked, 4, {"x": x, "y": y, "far": 2**30, "n": 700, "BLOCK": 256})


def atomics(bench: Bench) -> None:
    """Check that each of 64 programs of 256 lanes adds to 16 counters: 1024 each.

    fp16 and bf16 cannot represent that number exactly, and get fewer additions.
    """
    kinds = ["int32", "int64", "float32", "float16", "uint16"]
    for kind in [*kinds, "float64"] if bench.target.has_fp64 else kinds:
        few = kind in ("float16", "uint16")
        programs, one = (8, np.ones(1, kind)) if few else (64, np.ones(1, kind))
        if kind == "uint16":
            one[:] = 0x3F80
        counts = np.zeros(16, kind)
        got = _run(bench, counted, (programs, 1, 1),
                   {"counts": counts, "one": one, "N": 16, "BLOCK": 256})[0]
        want = np.full(16, programs * 16, np.float32)
        bits = (want.view(np.uint32) >> 16).astype(np.uint16) if kind == "uint16" else want
        bench.equal(got, bits.astype(kind), f"atomic_add of {_TRITON[kind]}")
    x = bench.random().integers(-(2**31), 2**31, 4096).astype(np.int32)
    found = np.array([0, 0, 0, 0], np.int32)
    got = _run(bench, extremes, (16, 1, 1), {"x": x, "found": found, "BLOCK": 256})[1]
    want = np.array([x.max(), x.min(), np.bitwise_xor.reduce(x)], np.int32)
    bench.equal(got[:3], want, "atomic_max, atomic_min, atomic_xor")
    bench.equal(np.array([1 <= got[3] <= 16]), np.array([True]), "atomic_cas")


def ordering(bench: Bench) -> None:
    programs = 256
    for seed in range(8):
        x = bench.random(seed).integers(0, 100, programs * 256).astype(np.int32)
        total = np.zeros(1, np.int32)
        got = _run(bench, last_one_sums, (programs, 1, 1), {
            "x": x, "parts": np.zeros(programs, np.int32), "ticket": np.zeros(1, np.int32),
            "total": total, "BLOCK": 256, "PROGRAMS": programs})[3]
        bench.equal(got, x.sum(keepdims=True, dtype=np.int32), "sum by the program that is last")


def exchanges(bench: Bench) -> None:
    for size, rows, warps in ((256, 16, 4), (1024, 32, 16), (2048, 32, 32)):
        x = bench.random(size).integers(-1000, 1000, size).astype(np.int32)
        out = {name: np.zeros(size, np.int32) for name in ("sorted_", "scanned")}
        arguments = {"x": x, **out, "turned": np.zeros(2 * size, np.int32), "N": size, "M": rows,
                     "SORT": size < 1024}
        _same(bench, exchanged, 1, arguments, f"{size} by {warps} warps", num_warps=warps)


def grids(bench: Bench) -> None:
    got = _run(bench, places, (7, 5, 3), {"out": np.zeros(105, np.int32), "X": 7, "Y": 5})[0]
    bench.equal(got, 507 + 10000 * np.arange(105, dtype=np.int32), "program ids")


def _floats(bench: Bench, count: int, seed: int = 0) -> Array:
    """Random bits, then numbers around 1, and ties of narrower types."""
    random = bench.random(seed)
    bits = random.integers(0, 2**32, count, dtype=np.uint32)
    bits[::4] = (bits[::4] & 0x80FFFFFF) | (random.integers(100, 144, bits[::4].shape) << 23)
    bits[1::8] &= 0xFFFF0000
    bits[2::8] = (bits[2::8] & 0xFFFFE000) | 0x1000
    bits[3::8] = (bits[3::8] & 0xFFFF0000) | 0x8000
    return bits.astype(np.uint32).view(np.float32)


def conversions(bench: Bench) -> None:
    x, n = _floats(bench, 8192), 8192
    _same(bench, converted, 32, {
        "x": x, "half": np.zeros(n, np.float16), "brain": np.zeros(n, np.uint16),
        "e5": np.zeros(n, np.uint8), "e4": np.zeros(n, np.uint8), "whole": np.zeros(n, np.int32),
        "BLOCK": 256})
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.int16)
    _same(bench, widened, 256, {"bits": bits, "half": np.zeros(1 << 16, np.float32),
                                "brain": np.zeros(1 << 16, np.float32), "BLOCK": 256})


def arithmetic(bench: Bench) -> None:
    x, y = _floats(bench, 4096, 1), _floats(bench, 4096, 2)
    _same(bench, exact, 16, {"x": x, "y": y, "out": np.zeros(8 * 4096, np.float32), "BLOCK": 256})


def mathematics(bench: Bench) -> None:
    """Check functions to 16 units in the last place of float64, or 2^-20 around 0."""
    from math import erf

    x = bench.random(3).uniform(-8, 8, 4096).astype(np.float32)
    got = _run(bench, functions, (16, 1, 1), {
        "x": x, "out": np.zeros(8 * 4096, np.float32), "BLOCK": 256})[1].reshape(8, -1)
    v = x.astype(np.float64)
    wants = (np.exp(v), np.log(abs(v)), np.sin(v), np.cos(v), np.exp2(v), 1 / np.sqrt(abs(v)),
             np.vectorize(erf)(v), np.tanh(v))
    names = ("exp", "log", "sin", "cos", "exp2", "rsqrt", "erf", "tanh")
    for name, found, want in zip(names, got, wants, strict=True):
        ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
        bench.values[f"{name} ulp"] = float(np.nanmax(np.abs(found - want) / ulp))
        bench.close(found, want, np.maximum(16 * ulp, 2.0**-20), name)


def whole_numbers(bench: Bench) -> None:
    x, y = (bench.random(s).integers(-(2**31), 2**31, 4096).astype(np.int32) for s in (4, 5))
    y[y == 0], y[::3] = 1, y[::3] % 1000 + 1
    _same(bench, integers, 16, {"x": x, "y": y, "out": np.zeros(7 * 4096, np.int32), "BLOCK": 256})


def double_precision(bench: Bench) -> None:
    x, y = (bench.random(s).standard_normal(256) for s in (6, 7))
    _same(bench, doubles, 1, {"x": x, "y": y, "out": np.zeros(256), "BLOCK": 256})


_PRODUCTS = (
    ("float16", "float32", "ieee", 2e-2), ("uint16", "float32", "ieee", 2e-1),
    ("float32", "float32", "tf32", 2e-2), ("float32", "float32", "ieee", 1e-4),
    ("int8", "int32", "ieee", 0),
)
"""Types of operands and result, precision, and the largest error of sums of 200 products."""


def products(bench: Bench) -> None:
    """Check sizes that 2D messages can address, and sizes that they cannot."""
    for kind, result, precision, bound in _PRODUCTS:
        for m, n, k in ((256, 128, 192), (131, 77, 201)):
            random = bench.random(m)
            numbers = [random.integers(-4, 5, s) if kind == "int8" else random.standard_normal(s)
                       for s in ((m, k), (k, n))]
            a, b = (each.astype(kind if kind != "uint16" else np.float32) for each in numbers)
            if kind == "uint16":
                a, b = (each.view(np.uint32) & 0xFFFF0000 for each in (a, b))
                want = a.view(np.float32).astype(np.float64) @ b.view(np.float32)
                a, b = ((each >> 16).astype(np.uint16) for each in (a, b))
            else:
                want = a.astype(np.float64) @ b.astype(np.float64)
            got = _run(bench, product, (-(-m // 64), -(-n // 64), 1), {
                "a": a, "b": b, "c": np.zeros((m, n), result), "M": m, "N": n, "K": k,
                "PRECISION": precision, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32})[2]
            bench.close(got, want, bound, f"{_TRITON[kind]} {precision} {m}x{n}x{k}")


def register_files(bench: Bench) -> None:
    """Run one product with each register file, and check the driver's report."""
    random = bench.random()
    a, b = (random.standard_normal((256, 256)).astype(np.float16) for _ in range(2))
    want = a.astype(np.float64) @ b.astype(np.float64)
    for mode in bench.target.grf_modes:
        if mode < 128:
            continue
        module, passed = compiled(bench, product, {
            "a": a, "b": b, "c": np.zeros((256, 256), np.float32), "M": 256, "N": 256, "K": 256,
            "PRECISION": "ieee", "BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32},
            grf_mode=str(mode), num_warps=8)
        kernel = bench.device.load(module.spirv, module.kernel, build_flags=module.flags)
        bench.values[f"spills at {mode}"] = kernel.n_spills
        kernel.close()
        bench.close(bench.run(module, (4, 2, 1), passed)[2], want, 2e-2, f"{mode} registers")


def large_groups(bench: Bench) -> None:
    warps = min(32, bench.target.max_work_group_size // bench.target.subgroup_size)
    x = bench.random().integers(0, 99, 8192).astype(np.int32)
    _same(bench, exchanged, 1, {
        "x": x, "sorted_": np.zeros(8192, np.int32), "scanned": np.zeros(8192, np.int32),
        "turned": np.zeros(2 * 8192, np.int32), "N": 8192, "M": 64, "SORT": False}, num_warps=warps)


CHECKS = (
    Check("grid", "Programs of a three-dimensional grid have the ids and counts they should.",
          grids),
    Check("masks", "Lanes whose mask is false touch no memory, wherever they point.", masks),
    Check("exchange", "Values pass between lanes and, through shared local memory and barriers, "
          "between up to 32 subgroups: sort, scan, reductions, transposes.", exchanges),
    Check("work-group", "The largest work-group that the table allows runs, with 32 KiB and more "
          "of shared local memory.", large_groups),
    Check("atomics", "Atomics of each type lose nothing, those of fp16 and bf16 (which compare "
          "and swap) included.", atomics),
    Check("ordering", "An atomic that acquires and releases orders the stores before it: the "
          "program that comes last sees the parts of all others.", ordering),
    Check("conversions", "fp32 to fp16, bf16, fp8 and int32 rounds as the simulator does, ties, "
          "denormals and infinities included; each of the 65,536 bit patterns comes back.",
          conversions),
    Check("arithmetic", "fp32 keeps denormals; sums, products, fused products, divisions and "
          "square roots are correctly rounded; maximum passes NaN on.", arithmetic),
    Check("functions", "exp, log, sin, cos, exp2, rsqrt, erf and tanh are within 16 ulp.",
          mathematics, only_silicon="emulated `math` instructions are exact to the last bit"),
    Check("integers", "Division, remainder, high products, shifts, counts of bits, and products "
          "of 64 bits are exact.", whole_numbers),
    Check("fp64", "Double precision is IEEE's.", double_precision,
          lambda bench: bench.target.has_fp64),
    Check("matmul", "Products of fp16, bf16, tf32, fp32 and int8 agree with numpy, for sizes that "
          "2D messages can address and for sizes that they cannot.", products),
    Check("registers", "A kernel gives the same with each register file; says what spills.",
          register_files),
)
