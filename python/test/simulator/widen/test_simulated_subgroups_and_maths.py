"""Shuffles, reductions, scans, mathematical functions and conversions of the simulator."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from python.test.filecheck import check_text
from triton_xe.hardware.target import target
from triton_xe.intrinsics.definitions import conversions, subgroup
from triton_xe.llvm.parser import parse_module
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.simulator.pipeline import translate
from triton_xe.runtime.simulator.run.kernel_module import canonical

Run = Callable[..., None]
Text = Callable[..., str]
P = "ptr addrspace(1)"
G = "llvm.genx.GenISA."
LANE = "  %lane = call spir_func i32 @_Z22get_sub_group_local_idv()\n"


def map_text(
    kernel: Text, t: str, body: str, declarations: str, result: str = "", loads: int = 1,
    lanes: int = 16,
) -> str:
    """out[i] = body(in0[i], in1[i] ...): `body` computes %r from %x0, %x1."""
    result = result or t
    head = LANE + "  %g64 = call spir_func i64 @_Z12get_group_idj(i32 0)\n" \
        f"  %g = trunc i64 %g64 to i32\n  %row = mul i32 %g, {lanes}\n" \
        "  %i = add i32 %row, %lane\n"
    for k in range(loads):
        head += (f"  %p{k} = getelementptr {t}, {P} %in{k}, i32 %i\n"
                 f"  %x{k} = load {t}, {P} %p{k}, align 1\n")
    tail = (f"\n  %q = getelementptr {result}, {P} %out, i32 %i\n"
            f"  store {result} %r, {P} %q, align 1")
    parameters = ", ".join([f"{P} %in{k}" for k in range(loads)] + [f"{P} %out"])
    return kernel(parameters, head + body + tail, other=declarations, lanes=lanes)


@pytest.mark.parametrize("mask", [1, 2, 5, 8, 15])
@pytest.mark.parametrize(("t", "dtype"), [("float", np.float32), ("i16", np.int16),
                                          ("half", np.float16), ("i64", np.int64)])
def test_shuffle_xor(run: Run, kernel: Text, mask: int, t: str, dtype: Any) -> None:
    data, out = np.arange(1, 17).astype(dtype), np.zeros(16, dtype)
    name = f"{G}simdShuffleXor.x"
    run(map_text(kernel, t, f"  %r = call {t} @{name}({t} %x0, i32 {mask})",
                 f"declare {t} @{name}({t}, i32)"), data, out)
    np.testing.assert_array_equal(out, subgroup.shuffle_xor(data, mask))


@pytest.mark.parametrize("index", ["%d", "15", "%lane3", "%x1"])
@pytest.mark.parametrize(("t", "dtype"), [("float", np.float32), ("i8", np.int8)])
def test_shuffle_by_index(run: Run, kernel: Text, index: str, t: str, dtype: Any) -> None:
    data = np.arange(1, 17).astype(dtype)
    out = np.zeros(16, dtype)
    chosen = np.random.default_rng(0).integers(0, 40, 16).astype(np.int32)
    body = f"""
  %lane3 = mul i32 %lane, 3
  %d = call i32 @llvm.ctpop.i32(i32 31)
  %pi = getelementptr i32, {P} %index, i32 %lane
  %x1 = load i32, {P} %pi, align 4
  %r = call {t} @{G}WaveShuffleIndex.x({t} %x0, i32 {index}, i32 0)"""
    text = map_text(kernel, t, body, f"declare {t} @{G}WaveShuffleIndex.x({t}, i32, i32)\n"
                    "declare i32 @llvm.ctpop.i32(i32)")
    text = text.replace(f"{P} %out)", f"{P} %out, {P} %index)")
    run(text, data, out, chosen)
    lanes = {"%d": np.full(16, 5), "15": np.full(16, 15), "%lane3": np.arange(16) * 3,
             "%x1": chosen}[index]
    np.testing.assert_array_equal(out, subgroup.shuffle_index(data, lanes))


@pytest.mark.parametrize("t", ["float", "double", "half"])
def test_shuffles_move_bits(run: Run, kernel: Text, t: str) -> None:
    """NaN payloads, infinities and denormals arrive as they are."""
    width = {"half": 16, "float": 32, "double": 64}[t]
    unsigned: Any = np.dtype(f"uint{width}")
    data = np.random.default_rng(width).integers(0, 1 << width, 16, dtype=unsigned)
    data[:4] = [(1 << width) - 1, 1, (1 << (width - 1)) + 1, (1 << width) - 2]
    out = np.zeros(16, unsigned)
    text = map_text(
        kernel, t,
        f"  %s = call {t} @{G}simdShuffleXor.x({t} %x0, i32 5)\n"
        f"  %r = call {t} @{G}WaveShuffleIndex.x({t} %s, i32 %lane3, i32 0)",
        f"declare {t} @{G}simdShuffleXor.x({t}, i32)\n"
        f"declare {t} @{G}WaveShuffleIndex.x({t}, i32, i32)")
    run(text.replace("  %s =", "  %lane3 = mul i32 %lane, 3\n  %s ="), data, out)
    moved = subgroup.shuffle_index(subgroup.shuffle_xor(data, 5), np.arange(16) * 3)
    np.testing.assert_array_equal(out, moved)


REDUCTIONS = [
    (0, "i32", np.add), (1, "i32", np.multiply), (2, "i32", np.minimum), (3, "i32", np.maximum),
    (4, "i32", np.minimum), (5, "i32", np.maximum), (6, "i32", np.bitwise_or),
    (7, "i32", np.bitwise_xor), (8, "i32", np.bitwise_and), (9, "float", np.add),
    (10, "float", np.multiply), (11, "float", np.minimum), (12, "float", np.maximum),
]


@pytest.mark.parametrize(("code", "t", "combine"), REDUCTIONS)
def test_wave_reductions_and_scans(run: Run, kernel: Text, code: int, t: str, combine: Any) -> None:
    generator = np.random.default_rng(code)
    dtype: Any = np.float32 if t == "float" else np.uint32 if code in (2, 3) else np.int32
    data = (generator.standard_normal(16).astype(np.float32) if t == "float"
            else generator.integers(-9, 9, 16).astype(dtype))
    out = np.zeros(16, dtype)
    run(map_text(kernel, t, f"  %r = call {t} @{G}WaveAll.x({t} %x0, i8 {code}, i1 true, i32 0)",
                 f"declare {t} @{G}WaveAll.x({t}, i8, i1, i32)"), data, out)
    np.testing.assert_array_equal(out, np.full(16, subgroup.reduce(data, combine)))
    run(map_text(
        kernel, t,
        f"  %r = call {t} @{G}WavePrefix.x({t} %x0, i8 {code}, i1 true, i1 true, i32 0)",
        f"declare {t} @{G}WavePrefix.x({t}, i8, i1, i1, i32)"), data, out)
    np.testing.assert_array_equal(out, subgroup.scan(data, combine))


def test_scans_keep_a_first_value_that_is_no_number(run: Run, kernel: Text) -> None:
    data, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    data[[0, 5]] = np.nan
    run(map_text(
        kernel, "float",
        f"  %r = call float @{G}WavePrefix.x(float %x0, i8 12, i1 true, i1 true, i32 0)",
        f"declare float @{G}WavePrefix.x(float, i8, i1, i1, i32)"), data, out)
    np.testing.assert_array_equal(out, np.fmax.accumulate(data))


def test_clustered_and_interleaved_reductions(run: Run, kernel: Text) -> None:
    data, out = np.arange(16, dtype=np.int32) ** 2, np.zeros(16, np.int32)
    for name, want in (
        ("WaveClustered", np.repeat(data.reshape(4, 4).sum(1), 4)),
        ("WaveInterleave", np.tile(data.reshape(4, 4).sum(0), 4)),
    ):
        run(map_text(kernel, "i32", f"  %r = call i32 @{G}{name}.x(i32 %x0, i8 0, i32 4, i32 0)",
                     f"declare i32 @{G}{name}.x(i32, i8, i32, i32)"), data, out)
        np.testing.assert_array_equal(out, want)


def test_builtin_reductions_votes_and_broadcasts(run: Run, kernel: Text) -> None:
    body = """
  %sum = call spir_func i32 @_Z17__spirv_GroupIAddjji(i32 3, i32 0, i32 %x0)
  %pre = call spir_func i32 @_Z17__spirv_GroupIAddjji(i32 3, i32 2, i32 %x0)
  %max = call spir_func i32 @_Z20sub_group_reduce_maxi(i32 %x0)
  %fifth = call spir_func i32 @_Z22__spirv_GroupBroadcastjij(i32 3, i32 %x0, i32 5)
  %odd = trunc i32 %x0 to i1
  %bits = call i32 @llvm.genx.GenISA.WaveBallot(i1 %odd, i32 0)
  %a = add i32 %sum, %pre
  %b = add i32 %a, %max
  %c = add i32 %b, %fifth
  %r = add i32 %c, %bits"""
    declarations = """
declare i32 @_Z17__spirv_GroupIAddjji(i32, i32, i32)
declare i32 @_Z20sub_group_reduce_maxi(i32)
declare i32 @_Z22__spirv_GroupBroadcastjij(i32, i32, i32)
declare i32 @llvm.genx.GenISA.WaveBallot(i1, i32)"""
    data = np.random.default_rng(0).integers(0, 50, 16).astype(np.int32)
    out = np.zeros(16, np.int32)
    run(map_text(kernel, "i32", body, declarations), data, out)
    bits = sum(int(v & 1) << k for k, v in enumerate(data))
    exclusive = np.cumsum(data) - data
    np.testing.assert_array_equal(out, data.sum() + exclusive + data.max() + data[5] + bits)


def test_an_infinity_may_be_broadcast(
    device: SimulatedDevice, kernel: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lanes that receive it had finite values, but did not make it."""
    monkeypatch.setenv("TRITON_XE_SANITIZE", "finite")
    name = "_Z19sub_group_broadcastfj"
    data = np.where(np.arange(16) == 5, np.inf, 1).astype(np.float32)
    text = map_text(kernel, "float", f"  %r = call float @{name}(float %x0, i32 5)",
                    f"declare float @{name}(float, i32)")
    buffers = [device.allocate(64) for _ in range(2)]
    device.copy_to_device(buffers[0].pointer, data)
    device.launch(device.load(text.encode(), "k"), (1, 1, 1), [b.pointer for b in buffers])
    out = np.zeros(16, np.float32)
    device.copy_to_host(out, buffers[1].pointer)
    assert np.isposinf(out).all()


# --- mathematical functions -----------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38,
           88.7, 88.8, -87.3, -103.9, -104.1, 127.9, 128.0, -149.4, -150.0]
FUNCTIONS = [
    ("_Z10native_expf", np.exp, -110, 95, 2), ("_Z3expf", np.exp, -110, 95, 2),
    ("_Z11native_exp2f", np.exp2, -152, 130, 2), ("llvm.exp2.f32", np.exp2, -152, 130, 2),
    ("_Z3logf", np.log, 0, 100, 2), ("_Z11native_log2f", np.log2, 0, 100, 2),
    ("llvm.log2.f32", np.log2, 0.5, 2, 2), ("_Z5log10f", np.log10, 0, 100, 2),
    ("_Z3sinf", np.sin, -100, 100, 4), ("_Z3cosf", np.cos, -100, 100, 4),
    ("_Z4tanhf", np.tanh, -10, 10, 4), ("_Z4sqrtf", np.sqrt, 0, 100, 1),
    ("_Z5rsqrtf", lambda x: 1 / np.sqrt(x), 0.01, 100, 2), ("_Z5floorf", np.floor, -9, 9, 0),
    ("llvm.fabs.f32", np.abs, -9, 9, 0), ("llvm.rint.f32", np.rint, -9, 9, 0),
]


@pytest.mark.parametrize(("name", "reference", "low", "high", "ulp"), FUNCTIONS,
                         ids=[f[0] for f in FUNCTIONS])
def test_function_accuracy(
    run: Run, kernel: Text, name: str, reference: Any, low: float, high: float, ulp: float
) -> None:
    values = np.random.default_rng(0).uniform(low, high, 4096 - len(SPECIAL))
    data = np.concatenate([values, SPECIAL]).astype(np.float32)
    out = np.zeros_like(data)
    text = map_text(kernel, "float", f"  %r = call float @{name}(float %x0)",
                    f"declare float @{name}(float)")
    run(text, data, out, grid=(data.size // 16, 1, 1))
    with np.errstate(all="ignore"):
        exact = reference(data.astype(np.float64))
        want = exact.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(out[~finite & ~np.isnan(want)], want[~finite & ~np.isnan(want)])
    spacing = np.spacing(np.abs(want[finite])).astype(np.float64)
    error = np.abs(out[finite].astype(np.float64) - exact[finite]) / spacing
    assert error.max() <= ulp + 0.01, f"{error.max()} ulp at {data[finite][error.argmax()]!r}"


def test_exact_powers_have_exact_logarithms(run: Run, kernel: Text) -> None:
    data = (2.0 ** np.arange(-64, 64)).astype(np.float32)
    out = np.zeros_like(data)
    run(map_text(kernel, "float", "  %r = call float @_Z4log2f(float %x0)",
                 "declare float @_Z4log2f(float)"), data, out, grid=(8, 1, 1))
    np.testing.assert_array_equal(out, np.arange(-64, 64))


@pytest.mark.parametrize(("name", "reference"), [("_Z3powff", np.power),
                                                 ("_Z4fmodff", np.fmod)])
def test_functions_of_two(run: Run, kernel: Text, name: str, reference: Any) -> None:
    a = np.random.default_rng(0).uniform(0.1, 9, 64).astype(np.float32)
    b = np.random.default_rng(1).uniform(0.5, 3, 64).astype(np.float32)
    out = np.zeros_like(a)
    run(map_text(kernel, "float", f"  %r = call float @{name}(float %x0, float %x1)",
                 f"declare float @{name}(float, float)", loads=2), a, b, out, grid=(4, 1, 1))
    np.testing.assert_allclose(out, reference(a.astype(np.float64), b), rtol=3e-6, atol=1e-6)


def test_double_precision_and_half(run: Run, kernel: Text) -> None:
    data = np.random.default_rng(0).uniform(0.1, 5, 32)
    out = np.zeros_like(data)
    run(map_text(kernel, "double", "  %r = call double @_Z3expd(double %x0)",
                 "declare double @_Z3expd(double)"), data, out, grid=(2, 1, 1))
    np.testing.assert_allclose(out, np.exp(data), rtol=1e-14)
    half, result = data.astype(np.float16), np.zeros(32, np.float16)
    run(map_text(kernel, "half", "  %r = call half @llvm.exp2.f16(half %x0)",
                 "declare half @llvm.exp2.f16(half)"), half, result, grid=(2, 1, 1))
    np.testing.assert_array_equal(result, np.exp2(half.astype(np.float32)).astype(np.float16))


def test_fma_of_half_rounds_once(run: Run, kernel: Text) -> None:
    """Random bits, products just beside the middle of two numbers, infinities and NaN."""
    rng = np.random.default_rng(5)
    shape = (3, 1 << 12)
    bits = rng.integers(0, 1 << 16, shape, np.uint16).view(np.float16)
    near = rng.standard_normal(shape).astype(np.float16)
    near[2] *= np.exp2(rng.integers(-14, 14, shape[1])).astype(np.float16)
    beside = np.array([[4.8125], [-1632], [2.0**-13]], np.float16)
    a, b, c = np.concatenate([bits, near, np.repeat(beside, 16, axis=1)], axis=1)
    out = np.zeros_like(a)
    run(map_text(kernel, "half", "  %r = call half @llvm.fma.f16(half %x0, half %x1, half %x2)",
                 "declare half @llvm.fma.f16(half, half, half)", loads=3),
        *map(np.ascontiguousarray, (a, b, c)), out, grid=(len(a) // 16, 1, 1))
    for x, y, z, found in zip(a, b, c, out, strict=True):
        if not np.isfinite([x, y, z]).all():
            with np.errstate(invalid="ignore"):
                expected = x.astype(np.float64) * y.astype(np.float64) + z
            assert np.isnan(found) == np.isnan(expected)
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert found == _nearest_half(exact), (x, y, z)


def _nearest_half(exact: Fraction) -> float:
    """The number of half precision next to another, the even one of two."""
    if abs(exact) >= 65520:
        return math.copysign(math.inf, exact)
    size = abs(exact)
    exponent = max(-14, math.floor(math.log2(size))) if size else -14
    while exponent > -14 and size < Fraction(2) ** exponent:
        exponent -= 1
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (exponent - 10)
    return float(round(exact / step) * step)


def test_multiply_high(run: Run, kernel: Text) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.integers(0, 2**32, 16, dtype=np.uint64).astype(np.uint32) for _ in range(2))
    out = np.zeros(16, np.uint32)
    run(map_text(kernel, "i32", "  %r = call i32 @_Z6mul_hijj(i32 %x0, i32 %x1)",
                 "declare i32 @_Z6mul_hijj(i32, i32)", loads=2), a, b, out)
    np.testing.assert_array_equal(out, (a.astype(np.uint64) * b) >> 32)


def random_bits(count: int) -> Any:
    bits = np.random.default_rng(0).integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32)
    bits[:6] = [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x00000001, 0x3F808000]
    return bits.view(np.float32)


def test_float_to_bf16_equals_its_definition(run: Run, kernel: Text) -> None:
    data, out = random_bits(4096), np.zeros(4096, np.uint16)
    name = f"{G}ftobf.i16.f32"
    run(map_text(kernel, "float", f"  %r = call i16 @{name}(float %x0, i32 0)",
                 f"declare i16 @{name}(float, i32)", "i16"), data, out, grid=(256, 1, 1))
    np.testing.assert_array_equal(out, conversions.float_to_bf16(data))


def test_float_to_tf32_equals_its_definition(run: Run, kernel: Text) -> None:
    data, out = random_bits(4096), np.zeros(4096, np.uint32)
    name = f"{G}ftotf32.f32.f32"
    run(map_text(kernel, "float", f"  %r = call float @{name}(float %x0, i32 0)",
                 f"declare float @{name}(float, i32)"), data, out, grid=(256, 1, 1))
    np.testing.assert_array_equal(out, conversions.float_to_tf32(data))


@pytest.mark.parametrize("lanes", [16, 32])
def test_index_arithmetic_of_lanes(run: Run, kernel: Text, lanes: int) -> None:
    """Bit tricks on the lane number, whose tables are folded, against numpy."""
    body = """
  %a = and i32 %lane, 3
  %b = lshr i32 %lane, 2
  %c = xor i32 %a, %b
  %d = shl i32 %c, 4
  %g16 = shl i32 %g, 8
  %e = or disjoint i32 %g16, %d
  %f = urem i32 %e, 64
  %h = udiv i32 %e, 16
  %z = zext i32 %h to i64
  %t = trunc i64 %z to i32
  %m = icmp slt i32 %lane, 5
  %s = select i1 %m, i32 %t, i32 %f
  %u = sub i32 %s, %lane
  %v = sdiv i32 %u, 3
  %w = sub i32 0, %v
  %r = add i32 %w, %x0"""
    data = np.arange(4 * lanes, dtype=np.int32)
    out = np.zeros_like(data)
    run(map_text(kernel, "i32", body, "", lanes=lanes), data, out, grid=(4, 1, 1))
    lane, g = np.tile(np.arange(lanes), 4), np.repeat(np.arange(4), lanes)
    e = (g << 8) | (((lane & 3) ^ (lane >> 2)) << 4)
    u = np.where(lane < 5, e // 16, e % 64) - lane
    np.testing.assert_array_equal(out, data - np.trunc(u / 3).astype(np.int32))


@pytest.mark.covering
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("opcode", ["sdiv", "srem", "udiv", "urem"])
@pytest.mark.parametrize("same", [False, True], ids=["any divisors", "one divisor"])
def test_integer_divisions_are_exact(
    run: Run, kernel: Text, bits: int, opcode: str, same: bool
) -> None:
    """Beside multiples, at both ends; by zero, and of the least number by -1, as hosts are told."""
    rng = np.random.default_rng(3)
    signed, unsigned = np.dtype(f"i{bits // 8}"), np.dtype(f"u{bits // 8}")
    ends = np.array([0, 1, -1, 2, 3, -3, 1 << bits - 1, (1 << bits - 1) - 1, 7, -7], np.int64)
    for divisor in (ends if same else [None]):
        d = rng.integers(0, 1 << bits, 2048) >> rng.integers(0, bits, 2048)
        d[: 2 * len(ends)] = np.resize(ends, 2 * len(ends))
        if divisor is not None:
            d[:] = divisor
        k = rng.integers(0, 1 << bits, 2048) // np.maximum(np.abs(d), 1)
        x = np.where(rng.random(2048) < 0.7, k * d + rng.integers(-1, 2, 2048),
                     rng.choice(ends, 2048)).astype(signed)
        d = d.astype(signed)
        out = np.zeros_like(x)
        body = f"  %r = {opcode} i{bits} %x0, %x1"
        if divisor is not None:
            body = f"  %one = load i{bits}, {P} %in1, align 1\n  %r = {opcode} i{bits} %x0, %one"
        run(map_text(kernel, f"i{bits}", body, "", loads=2), x, d, out, grid=(128, 1, 1))
        a, b = (v if opcode[0] == "s" else v.view(unsigned) for v in (x, d))
        b = np.where(b == 0, 1, b).astype(object)
        quotient = np.abs(a.astype(object)) // np.abs(b) * (np.sign(a.astype(object)) * np.sign(b))
        want = quotient if opcode.endswith("div") else a.astype(object) - quotient * b
        np.testing.assert_array_equal(
            out.view(unsigned), (want % (1 << bits)).astype(np.int64).astype(unsigned))


def test_vectors_of_integers_are_divided_without_leaving_them(kernel: Text) -> None:
    text = map_text(kernel, "i32", "  %r = urem i32 %x0, %x1", "", loads=2)
    made = translate(parse_module(canonical(text)), "k", target("bmg")).text
    check_text(made, "CHECK-NOT: {{ urem }}")
