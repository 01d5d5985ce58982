"""Mathematical functions of the language, against numpy in double, with error bounds."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import instructions

SIZE = 256


@triton.jit
def functions(X, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x = tl.load(X + at)
    tl.store(out[0] + at, tl.exp(x))
    tl.store(out[1] + at, tl.exp2(x))
    tl.store(out[2] + at, tl.log(x))
    tl.store(out[3] + at, tl.log2(x))
    tl.store(out[4] + at, tl.sin(x))
    tl.store(out[5] + at, tl.cos(x))
    tl.store(out[6] + at, tl.sqrt(x))
    tl.store(out[7] + at, tl.rsqrt(x))
    tl.store(out[8] + at, tl.floor(x))
    tl.store(out[9] + at, tl.ceil(x))
    tl.store(out[10] + at, tl.math.erf(x))
    tl.store(out[11] + at, tl.sigmoid(x))
    tl.store(out[12] + at, tl.fma(x, x, x))


REFERENCES = (
    np.exp, np.exp2, np.log, np.log2, np.sin, np.cos, np.sqrt, lambda x: x**-0.5, np.floor, np.ceil,
    None, lambda x: 1 / (1 + np.exp(-x)), lambda x: x * x + x,
)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-14)])
def test_functions(dtype, tolerance):
    from scipy.special import erf

    x = np.linspace(0.01, 12, SIZE).astype(dtype)
    out = tuple(torch.empty(SIZE, dtype=getattr(torch, dtype), device="xpu") for _ in REFERENCES)
    functions[(1,)](torch.from_numpy(x).to("xpu"), out, SIZE)
    for index, (result, reference) in enumerate(zip(out, REFERENCES, strict=True)):
        exact = (reference or erf)(x.astype(np.float64))
        error = np.abs(result.cpu().double().numpy() - exact) / np.maximum(np.abs(exact), 0.05)
        assert error.max() < tolerance, index


@triton.jit
def exact(X, Y, out, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x, y = tl.load(X + at), tl.load(Y + at)
    tl.store(out[0] + at, tl.div_rn(x, y))
    tl.store(out[1] + at, tl.sqrt_rn(x))
    tl.store(out[2] + at, tl.fma(x, y, x))


def test_exact_division_root_and_fma():
    generator = np.random.default_rng(0)
    x, y = (generator.uniform(0.1, 9, SIZE).astype(np.float32) for _ in range(2))
    out = tuple(torch.empty(SIZE, device="xpu") for _ in range(3))
    kernel = exact[(1,)](torch.from_numpy(x).to("xpu"), torch.from_numpy(y).to("xpu"), out, SIZE)
    a, b = x.astype(np.float64), y.astype(np.float64)
    assert np.array_equal(out[0].cpu().numpy(), x / y)
    assert np.array_equal(out[1].cpu().numpy(), np.sqrt(x))
    assert np.array_equal(out[2].cpu().numpy(), (a * b + a).astype(np.float32))
    assert "-cl-fp32-correctly-rounded-divide-sqrt" in kernel.metadata.build_flags


@triton.jit
def random(OUT, NORMAL, BITS, seed, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(OUT + at, tl.rand(seed, at))
    tl.store(NORMAL + at, tl.randn(seed, at))
    tl.store(BITS + at, tl.randint(seed, at))


def philox(seed, counter):
    """The first word of Philox 4x32-10 (Salmon et al. 2011), as Triton counts."""
    mask = 0xFFFFFFFF
    c = [counter & mask, 0, 0, 0]
    k = [seed & mask, seed >> 32 & mask]
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & mask, first >> 32 ^ c[3] ^ k[1], first & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c[0]


def test_random_numbers_are_philox():
    count, seed = 1024, 7
    out, normal = (torch.empty(count, device="xpu") for _ in range(2))
    bits = torch.empty(count, dtype=torch.int32, device="xpu")
    random[(count // SIZE,)](out, normal, bits, seed, SIZE)
    expected = np.array([philox(seed, i) for i in range(count)], dtype=np.uint32)
    assert np.array_equal(bits.cpu().numpy().view(np.uint32), expected)
    assert 0 <= out.cpu().min() < 0.01 < 0.99 < out.cpu().max() < 1
    assert abs(float(normal.cpu().mean())) < 0.1
    assert abs(float(normal.cpu().std()) - 1) < 0.1


@triton.jit
def quotients(X, D, out, count, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    for i in range(count):
        tl.store(out + i * SIZE + at, tl.load(X + at) / tl.load(D + i))


def test_quotients_by_one_number_in_a_loop_are_within_2_units_of_the_whole_range():
    generator = np.random.default_rng(1)
    x = (generator.uniform(1, 2, SIZE) * 2.0 ** generator.integers(-126, 127, SIZE)).astype("f4")
    x[:4] = 0, np.inf, np.nan, -49
    divisors = [3, 49, -7e-39, 1e-45, 3e38, 2.0**127, 1e-30, 0, -0.0, np.inf, np.nan]
    divisors = np.array(divisors, "f4")
    out = torch.empty(len(divisors), SIZE, device="xpu")
    kernel = quotients[(1,)](*(torch.from_numpy(a).to("xpu") for a in (x, divisors)), out,
                             len(divisors), SIZE)
    assert instructions(kernel.asm["llir"]).count("fdiv") == 1
    with np.errstate(all="ignore"):
        wanted = x.astype("f8") / divisors[:, None].astype("f8")
        rounded = wanted.astype("f4")
        step = np.spacing(np.abs(rounded)).astype("f8")
    found = out.cpu().numpy()
    special = ~np.isfinite(rounded) | (rounded == 0)
    np.testing.assert_array_equal(found[special], rounded[special])
    assert (np.abs(found[~special] - wanted[~special]) <= 2 * step[~special]).all()
