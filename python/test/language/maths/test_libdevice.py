"""Every libdevice function against scipy or numpy in double, with error bounds.

Bounds of fp32 are in units of the last place of the exact result, plus `floor`, an absolute error
for functions with zeros where no relative bound can hold; those of fp64 are relative to 1e-16.
"""

import inspect
import math
from unittest import mock

import numpy as np
import pytest
import scipy.special as special
import torch
import triton
import triton.language as tl
from triton.language import core
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.cuda.libdevice import rsqrt as cuda_rsqrt
from triton.language.extra.intel import libdevice as intel_libdevice

from triton_xe.backend.libdevice import ABSENT, FUNCTIONS

SIZE = 512


def call(name, *columns, result=None):
    """libdevice's function `name` on columns of numbers."""
    tensors = [torch.from_numpy(np.ascontiguousarray(c)).to("xpu") for c in columns]
    kind = result or tensors[0].dtype
    out = torch.empty(len(columns[0]), dtype=kind, device="xpu")
    function = KERNELS[len(columns)]
    function[(1,)](*tensors, out, len(columns[0]), FUNCTIONS[name])
    return out.cpu().numpy()


@triton.jit
def unary(X, OUT, SIZE: tl.constexpr, F: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(OUT + at, F(tl.load(X + at)))


@triton.jit
def binary(X, Y, OUT, SIZE: tl.constexpr, F: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(OUT + at, F(tl.load(X + at), tl.load(Y + at)))


@triton.jit
def ternary(X, Y, Z, OUT, SIZE: tl.constexpr, F: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(OUT + at, F(tl.load(X + at), tl.load(Y + at), tl.load(Z + at)))


KERNELS = {1: unary, 2: binary, 3: ternary}


def errors(result, exact, dtype):
    """Errors in units of the last place of the exact results; equal infinities and NaN are 0."""
    same = (result == exact) | (np.isnan(result) & np.isnan(exact))
    with np.errstate(over="ignore", invalid="ignore"):
        place = np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
        distance = np.abs(result.astype(np.float64) - exact)
    return np.where(same, 0.0, distance / place), np.where(same, 0.0, distance)


def spread(low, high):
    """Numbers evenly and unevenly spread in a range, its ends included."""
    even = np.linspace(low, high, SIZE // 2)
    random = np.random.default_rng(0).uniform(low, high, SIZE // 2)
    return np.concatenate([even, random])


EVERYWHERE = (-30.0, 30.0)
CASES = {
    # name: (reference, range, ulp, floor)
    "abs": (np.abs, EVERYWHERE, 0, 0), "acos": (np.arccos, (-1, 1), 4, 0),
    "acosh": (np.arccosh, (1, 100), 4, 0), "asin": (np.arcsin, (-1, 1), 4, 0),
    "asinh": (np.arcsinh, EVERYWHERE, 4, 0), "atan": (np.arctan, EVERYWHERE, 5, 0),
    "atanh": (np.arctanh, (-0.999, 0.999), 5, 0), "cbrt": (np.cbrt, EVERYWHERE, 2, 0),
    "ceil": (np.ceil, EVERYWHERE, 0, 0), "cos": (np.cos, EVERYWHERE, 4, 0),
    "cosh": (np.cosh, EVERYWHERE, 4, 0),
    "cospi": (lambda x: np.where((2 * x) % 2 == 1, 0, np.cos(np.pi * (x % 2))), (-9, 9), 4, 3e-15),
    "cyl_bessel_i0": (special.i0, (-60, 60), 16, 0),
    "cyl_bessel_i1": (special.i1, (-60, 60), 16, 0),
    "erf": (special.erf, (-5, 5), 16, 0), "erfc": (special.erfc, (-5, 9), 16, 0),
    "erfcinv": (special.erfcinv, (1e-6, 2), 8, 3e-7), "erfcx": (special.erfcx, (-9, 50), 8, 0),
    "erfinv": (special.erfinv, (-1, 1), 8, 0), "exp": (np.exp, (-80, 80), 3, 0),
    "exp10": (lambda x: 10.0**x, EVERYWHERE, 3, 0), "exp2": (np.exp2, (-100, 100), 3, 0),
    "expm1": (np.expm1, (-20, 20), 3, 0), "floor": (np.floor, EVERYWHERE, 0, 0),
    "j0": (special.j0, (-50, 50), 8, 1e-6), "j1": (special.j1, (-50, 50), 8, 1e-6),
    "lgamma": (special.gammaln, (0.1, 50), 8, 4e-7), "log": (np.log, (1e-9, 99), 3, 0),
    "log10": (np.log10, (1e-9, 99), 3, 0), "log1p": (np.log1p, (-0.99, 99), 3, 0),
    "log2": (np.log2, (1e-9, 99), 3, 0), "nearbyint": (np.rint, EVERYWHERE, 0, 0),
    "normcdf": (special.ndtr, (-9, 9), 20, 0), "normcdfinv": (special.ndtri, (1e-6, 1), 8, 4e-7),
    "rcbrt": (lambda x: 1 / np.cbrt(x), (0.1, 99), 4, 0),
    "rcp_rn": (lambda x: 1 / x, (0.1, 99), 0.5, 0), "rint": (np.rint, EVERYWHERE, 0, 0),
    "round": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), EVERYWHERE, 0, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.1, 99), 2, 0),
    "rsqrt_rn": (lambda x: 1 / np.sqrt(x), (0.1, 99), 1, 0), "sin": (np.sin, EVERYWHERE, 4, 0),
    "sinh": (np.sinh, EVERYWHERE, 4, 0),
    "sinpi": (lambda x: np.where(x % 1 == 0, 0, np.sin(np.pi * (x % 2))), (-9, 9), 4, 3e-15),
    "sqrt": (np.sqrt, (0, 99), 0.5, 0), "sqrt_rn": (np.sqrt, (0, 99), 0.5, 0),
    "tan": (np.tan, (-1.5, 1.5), 5, 0), "tanh": (np.tanh, (-9, 9), 5, 0),
    "tgamma": (special.gamma, (0.1, 30), 16, 0), "trunc": (np.trunc, EVERYWHERE, 0, 0),
    "y0": (special.y0, (1e-3, 50), 8, 4e-7), "y1": (special.y1, (1e-3, 50), 8, 4e-7),
    "logb": (lambda x: np.floor(np.log2(np.abs(x))), (0.01, 99), 0, 0),
    "fast_sinf": (np.sin, (-3, 3), 8, 1e-6), "fast_cosf": (np.cos, (-3, 3), 8, 1e-6),
    "fast_expf": (np.exp, (-10, 10), 16, 0), "fast_logf": (np.log, (0.1, 99), 16, 1e-6),
    "fast_exp10f": (lambda x: 10.0**x, (-5, 5), 32, 0), "fast_tanhf": (np.tanh, (-5, 5), 8, 0),
    "fast_log2f": (np.log2, (0.1, 99), 8, 1e-6), "fast_log10f": (np.log10, (0.1, 99), 8, 1e-6),
    "fast_tanf": (np.tan, (-1, 1), 16, 0), "saturatef": (lambda x: np.clip(x, 0, 1), (-2, 2), 0, 0),
}


@pytest.mark.sample(31)
@pytest.mark.parametrize("name", CASES)
def test_functions_of_floats(name):
    reference, bounds, ulp, floor = CASES[name]
    x = spread(*bounds).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(x.astype(np.float64)))
    units, distance = errors(call(name, x), exact, np.float32)
    bad = (units > max(ulp, 0.5)) & (distance > floor)
    assert not bad.any(), (x[bad][:4], units[bad].max(), distance[bad].max())


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("j0", 1e-13), ("y1", 1e-13), ("cyl_bessel_i0", 1e-13), ("cyl_bessel_i1", 1e-13),
     ("erfcx", 1e-13), ("erfinv", 1e-13), ("sinpi", 1e-12), ("exp", 1e-14), ("atan", 1e-14)],
)
def test_functions_of_doubles(name, tolerance):
    reference, (low, high), _, _ = CASES[name]
    x = spread(low, high)
    with np.errstate(all="ignore"):
        exact = reference(x)
        result = call(name, x)
        error = np.abs(result - exact) / np.maximum(np.abs(exact), 1e-2)
    same = (result == exact) | (np.isnan(result) & np.isnan(exact))
    assert (same | (error < tolerance)).all(), error[~same].max()


SPECIAL_VALUES = {
    "j0": (1, 0, 0, math.nan), "j1": (0, 0, -0.0, math.nan),
    "y0": (-math.inf, 0, math.nan, math.nan), "y1": (-math.inf, 0, math.nan, math.nan),
    "cyl_bessel_i0": (1, math.inf, math.inf, math.nan),
    "cyl_bessel_i1": (0, math.inf, -math.inf, math.nan),
    "erfcx": (1, 0, math.inf, math.nan), "erfinv": (0, math.nan, math.nan, math.nan),
    "erfcinv": (math.inf, math.nan, math.nan, math.nan),
    "logb": (-math.inf, math.inf, math.inf, math.nan),
}


@pytest.mark.parametrize("name", SPECIAL_VALUES)
def test_at_zero_infinity_and_nan(name):
    x = np.array([0, math.inf, -math.inf, math.nan], dtype=np.float32)
    expected = np.array(SPECIAL_VALUES[name], dtype=np.float32)
    assert np.array_equal(call(name, x), expected, equal_nan=True)


def pairs():
    generator = np.random.default_rng(1)
    x, y = (generator.standard_normal(SIZE).astype(np.float32) * 9 for _ in range(2))
    x[:6] = 0, -0.0, np.inf, np.nan, 1.5, -6
    y[:6] = 1, 1, 2, 1, 0, 4
    return x, y


BINARY = {
    "add_rn": (np.add, 0.5), "sub_rn": (np.subtract, 0.5), "mul_rn": (np.multiply, 0.5),
    "div_rn": (np.divide, 0.5), "atan2": (np.arctan2, 6), "copysign": (np.copysign, 0.5),
    "fdim": (lambda a, b: np.where(a <= b, 0, a - b), 0.5), "fmod": (np.fmod, 0.5),
    "hypot": (np.hypot, 4), "remainder": (np.vectorize(lambda a, b: math.remainder(a, b) if (
        b and math.isfinite(a)) else math.nan), 0.5),
    "rhypot": (lambda a, b: 1 / np.hypot(a, b), 6), "fast_dividef": (np.divide, 3),
    "pow": (lambda a, b: np.abs(a) ** b, 16), "fast_powf": (lambda a, b: np.abs(a) ** b, 2**14),
}


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_floats(name):
    reference, ulp = BINARY[name]
    x, y = pairs()
    if name.endswith(("pow", "powf")):
        x, y = np.abs(x[6:262]), y[6:262]
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), y.astype(np.float64))
        exact = np.where(np.abs(exact) > 3.4e38, np.copysign(np.inf, exact), exact)
    units, _ = errors(call(name, x, y), exact, np.float32)
    assert units.max() <= ulp, (x[units.argmax()], y[units.argmax()], units.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nextafter(dtype):
    x, y = (column.astype(dtype) for column in pairs())
    assert np.array_equal(call("nextafter", x, y), np.nextafter(x, y), equal_nan=True)


def test_powers_by_integers():
    x = np.linspace(-3, 3, SIZE).astype(np.float32)
    n = (np.arange(SIZE) % 13 - 6).astype(np.int32)
    powers = x.astype(float) ** n
    for name, exact in (("ldexp", np.ldexp(x.astype(float), n)), ("pown", powers), ("pow", powers)):
        units, _ = errors(call(name, x, n), exact, np.float32)
        assert units.max() <= 16, name


def test_three_and_four_operands():
    x, y = (column[6:262] for column in pairs())
    z = x[::-1].copy()
    a, b, c = (v.astype(np.float64) for v in (x, y, z))
    for name, exact in (("fma", a * b + c), ("norm3d", np.sqrt(a * a + b * b + c * c))):
        units, _ = errors(call(name, x, y, z), exact, np.float32)
        assert units.max() <= (0.51 if name == "fma" else 5), name


CLASSES = np.array([0, -0.0, 1, -2, 1e-40, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classification(dtype):
    x = CLASSES.astype(dtype)
    exponents = [-(2**31), -(2**31), 0, 1, -133, 2**31 - 1, 2**31 - 1, -(2**31)]
    for name, expected in (
        ("isnan", np.isnan(x)), ("isinf", np.isinf(x)), ("isfinited", np.isfinite(x)),
        ("signbit", np.signbit(x)), ("ilogb", exponents),
    ):
        result = call(name, x, result=torch.int32)
        assert np.array_equal(result != 0 if name != "ilogb" else result, expected), name


def test_conversions_round_as_their_names_say():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.25, 7.75], dtype=np.float32)
    for suffix, reference in (("rn", np.rint), ("rz", np.trunc), ("rd", np.floor), ("ru", np.ceil)):
        result = call(f"float2int_{suffix}", x, result=torch.int32)
        assert np.array_equal(result, reference(x).astype(np.int32)), suffix
    assert np.array_equal(call("llrint", x, result=torch.int64), np.rint(x).astype(np.int64))
    away = np.copysign(np.floor(np.abs(x) + 0.5), x).astype(np.int64)
    assert np.array_equal(call("llround", x, result=torch.int64), away)
    assert np.array_equal(call("float_as_int", x, result=torch.int32), x.view(np.int32))
    wide = x.astype(np.float64)
    high = (wide.view(np.int64) >> 32).astype(np.int32)
    assert np.array_equal(call("double2hiint", wide, result=torch.int32), high)
    low = (wide.view(np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    assert np.array_equal(call("hiloint2double", high, low, result=torch.float64), wide)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_bit_functions(dtype):
    width = np.iinfo(dtype).bits
    x = np.random.default_rng(0).integers(0, 1 << (width - 1), 64, dtype=dtype)
    x[:4] = 0, 1, -1, 1 << 20
    texts = [format(int(v) & ((1 << width) - 1), f"0{width}b") for v in x]
    assert call("popc", x, result=torch.int32).tolist() == [t.count("1") for t in texts]
    assert call("clz", x, result=torch.int32).tolist() == [
        width - len(t.lstrip("0")) for t in texts]
    assert call("ffs", x, result=torch.int32).tolist() == [t[::-1].find("1") + 1 for t in texts]
    reversed_bits = call("brev", x)
    assert [int(v) & ((1 << width) - 1) for v in reversed_bits] == [int(t[::-1], 2) for t in texts]
    y = x[::-1].copy()
    high = [int(a) * int(b) >> width for a, b in zip(x, y, strict=True)]
    assert call("mulhi", x, y).tolist() == high


def test_small_integer_functions():
    x = np.array([7, -8, 2**31 - 1, -(2**31)], dtype=np.int32)
    y = np.array([2, 3, 2**31 - 1, 2**31 - 1], dtype=np.int32)
    sums = [int(a) + int(b) for a, b in zip(x, y, strict=True)]
    assert call("hadd", x, y).tolist() == [s >> 1 for s in sums]
    assert call("rhadd", x, y).tolist() == [(s + 1) >> 1 for s in sums]
    assert call("mul24", x[:2], y[:2]).tolist() == [14, -24]
    picks = np.array([0x3210, 0x7654, 0x0123, 0x5140], dtype=np.int32)
    a, b = np.full(4, 0x44332211, np.int32), np.full(4, 0x08070605, np.int32)
    expected = [0x44332211, 0x08070605, 0x11223344, 0x06220511]
    assert call("byte_perm", a, b, picks).tolist() == expected


def test_every_function_has_a_lowering():
    from triton_xe.lowering.emit.maths.libdevice import FUNCTIONS as LOWERINGS

    symbols = {name for name in FUNCTIONS if name not in LOWERINGS}
    assert symbols == set()


def operand_types(function):
    """The tuples of operand types that a libdevice function takes."""
    found = set()
    count = len(inspect.signature(inspect.unwrap(function)).parameters) - 1

    def note(_library, _path, _operands, table, **_):
        found.update(table)
        return mock.MagicMock()

    with mock.patch.object(core, "extern_elementwise", note):
        function(*[None] * count, _semantic=object())
    return found


def test_what_the_wheel_takes_for_cuda_is_taken_here():
    compared = 0
    for name, function in vars(cuda_libdevice).items():
        if name.startswith("_") or name in ABSENT or name not in FUNCTIONS:
            continue
        assert operand_types(function) <= operand_types(FUNCTIONS[name]), name
        compared += 1
    assert compared > 150


@triton.jit
def by_names_of_cuda(X, OUT, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    x = tl.load(X + at)
    tl.store(OUT + at, cuda_libdevice.expm1(x) + tl.extra.cuda.libdevice.rint(x) + cuda_rsqrt(x))


def test_names_of_cuda_are_those_of_triton():
    """With a remark, by whichever name the kernel has them."""
    x = torch.rand(64, device="xpu") + 1
    out = torch.empty_like(x)
    kernel = by_names_of_cuda[(1,)](x, out, SIZE=64)
    host = x.cpu()
    torch.testing.assert_close(out.cpu(), host.expm1() + host.round() + host.rsqrt())
    told = [line for line in kernel.metadata.remarks if "cuda's libdevice" in line]
    assert len(told) == 3
    assert "expm1 of cuda's libdevice is that of triton.language.extra.libdevice" in told[0]


@triton.jit
def by_an_absent_name(X, OUT, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(OUT + at, cuda_libdevice.jn(tl.load(X + at).to(tl.int32), tl.load(X + at)))


def test_what_triton_lacks_is_refused_by_names_of_cuda():
    x = torch.rand(64, device="xpu")
    with pytest.raises(triton.CompilationError) as refused:
        by_an_absent_name[(1,)](x, x, SIZE=64)
    assert "libdevice.jn does not exist on Xe GPUs" in str(refused.value.__cause__)


def test_the_stub_module_is_replaced():
    assert libdevice is not FUNCTIONS
    assert np.array_equal(call("abs", np.array([-1.0, 2.0], np.float32)), [1, 2])


@triton.jit
def by_intels_names(X, OUT, SIZE: tl.constexpr):
    x = tl.load(X + tl.arange(0, SIZE))
    y = tl.extra.intel.libdevice.round(x) + intel_libdevice.tanh(x)
    tl.store(OUT + tl.arange(0, SIZE), y)


def test_the_names_of_intels_own_triton():
    """Kernels for `xpu` say `tl.extra.intel`, which the stock wheel has no package for."""
    x = torch.linspace(-3.2, 3.1, SIZE)
    out = torch.empty(SIZE, device="xpu")
    by_intels_names[(1,)](x.to("xpu"), out, SIZE)
    half_away = torch.trunc(x + 0.5 * torch.sign(x))
    torch.testing.assert_close(out.cpu(), half_away + torch.tanh(x))
    assert intel_libdevice.round is FUNCTIONS["round"]
