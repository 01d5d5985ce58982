"""Casts between every pair of types, against numpy and torch."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
FP8 = {"float8e4nv": torch.float8_e4m3fn, "float8e5": torch.float8_e5m2}
SIZE = 256


@triton.jit
def cast(source, targets, SIZE: tl.constexpr, TYPES: tl.constexpr, ROUNDING: tl.constexpr):
    at = tl.arange(0, SIZE)
    for k in tl.static_range(len(targets)):
        value = tl.load(source + at)
        tl.store(targets[k] + at, value.to(TYPES[k], fp_downcast_rounding=ROUNDING))


NAMES = {kind: name for name, kind in FP8.items()} | {torch.bool: "int1"}


def triton_type(kind):
    return getattr(tl, NAMES.get(kind, str(kind).removeprefix("torch.")))


def run_all(values, kinds, rounding=None):
    """`values` cast to every one of `kinds` by one kernel."""
    targets = tuple(torch.empty(values.shape, dtype=kind, device="xpu") for kind in kinds)
    types = tuple(map(triton_type, kinds))
    cast[(1,)](values.to("xpu"), targets, values.numel(), types, rounding)
    return [target.cpu() for target in targets]


def run(values, kind, rounding=None):
    return run_all(values, (kind,), rounding)[0]


def torch_types(names):
    return tuple(getattr(torch, name) for name in names)


def samples(dtype, low=-100):
    """Small numbers, exact in every type they are cast to; no negative ones when unsigned."""
    numbers = torch.linspace(0 if dtype.startswith("u") else low, 120, SIZE, dtype=torch.float64)
    return numbers.round().to(getattr(torch, dtype))


@pytest.mark.sample(6)
@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_small_numbers_survive_every_cast(source):
    signed = torch_types(n for n in (*INTEGERS, *FLOATS) if not n.startswith("u"))
    unsigned = torch_types(n for n in INTEGERS if n.startswith("u"))
    for low, kinds in ((-100, signed), (0, unsigned)):
        values = samples(source, low)
        for kind, result in zip(kinds, run_all(values, kinds), strict=True):
            assert torch.equal(result.double(), values.double()), kind


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(source):
    info = np.iinfo(source)
    values = np.random.default_rng(0).integers(info.min, info.max, SIZE, dtype=source)
    results = run_all(torch.from_numpy(values), torch_types(INTEGERS))
    for target, result in zip(INTEGERS, results, strict=True):
        assert np.array_equal(result.numpy(), values.astype(target)), target


@pytest.mark.parametrize("source", ["int8", "uint16", "int32", "int64", "float16", "float32"])
def test_bool_is_not_zero(source):
    values = samples(source)
    values[::3] = 0
    result = run(values, torch.bool)
    assert torch.equal(result, values != 0)
    assert torch.equal(run(result, getattr(torch, source)), (values != 0).to(values.dtype))


@triton.jit
def count_positive(source, target, SIZE: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(target + at, (tl.load(source + at) > 0).to(KIND))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_many_bools_of_a_lane_become_numbers(kind):
    values = torch.linspace(-1, 1, 512)
    target = torch.empty(512, dtype=kind, device="xpu")
    count_positive[(1,)](values.to("xpu"), target, 512, triton_type(kind), num_warps=1)
    assert torch.equal(target.cpu(), (values > 0).to(kind))


def fraction_toward_zero():
    return torch.cat([torch.linspace(-99.9, 99.9, SIZE - 4), torch.tensor([0.5, -0.5, 1.5, -1.5])])


@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_integers_are_cut_off_toward_zero(source):
    values = fraction_toward_zero().to(source)
    kinds = (torch.int8, torch.int32, torch.int64)
    for kind, result in zip(kinds, run_all(values, kinds), strict=True):
        assert torch.equal(result, values.to(kind)), kind


def random_bits(width, seed=0):
    """Floats of random bits: every exponent, infinities and NaN among them."""
    generator = np.random.default_rng(seed)
    bits = generator.integers(0, 1 << width, 1024, dtype=f"uint{width}")
    return torch.from_numpy(bits.view(f"float{width}"))


def same(left, right):
    """Equal values, and NaN at the same places."""
    left, right = left.double(), right.double()
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


@pytest.mark.parametrize(
    ("source", "kinds"),
    [(32, ("float16", "bfloat16", "float64")), (64, ("float32",)), (16, ("bfloat16", "float32"))],
)
def test_rounding_to_nearest_even(source, kinds):
    values = random_bits(source)
    kinds = torch_types(kinds)
    for kind, result in zip(kinds, run_all(values, kinds), strict=True):
        assert same(result, values.to(kind)), kind


def near_ties(mantissa):
    """Doubles at, just above and just below the middle between neighbours of a short type.

    Rounding these to fp32 first makes ties of them all.
    """
    steps = torch.arange(2 ** mantissa, 2 ** mantissa + 64, dtype=torch.float64)
    middle = (steps + 0.5) * 2.0 ** -mantissa
    close = 2.0**-40
    return torch.cat([middle, middle + close, middle - close, -middle - close])


@pytest.mark.parametrize(("target", "mantissa"), [(torch.float16, 10), (torch.bfloat16, 7)])
def test_doubles_are_rounded_once(target, mantissa):
    values = near_ties(mantissa)
    step = 2.0**-mantissa
    expected = np.rint(values.numpy() / step) * step
    assert np.array_equal(run(values, target).double().numpy(), expected)


@pytest.mark.parametrize(("target", "mantissa"), [(torch.float16, 10), (torch.bfloat16, 7)])
@pytest.mark.parametrize("source", [torch.float32, torch.float64])
def test_rounding_toward_zero(source, target, mantissa):
    values = near_ties(mantissa).to(source)
    step = 2.0**-mantissa
    expected = np.trunc(values.double().numpy() / step) * step
    assert np.array_equal(run(values, target, "rtz").double().numpy(), expected)


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16])
def test_rounding_toward_zero_keeps_infinities_and_nan_and_never_makes_them(target):
    largest = torch.finfo(target).max
    values = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38, -3.4e38, largest, 0.0, -0.0])
    expected = torch.tensor([torch.inf, -torch.inf, torch.nan, largest, -largest, largest, 0, 0])
    assert same(run(values, target, "rtz"), expected)


def test_rounding_doubles_toward_zero_to_float():
    values = torch.from_numpy(np.random.default_rng(0).standard_normal(256))
    result = run(values, torch.float32, "rtz").double()
    assert bool((result.abs() <= values.abs()).all())
    nextafter = torch.nextafter(result.float().abs(), torch.tensor(torch.inf)).double()
    assert bool((nextafter > values.abs()).all())


@pytest.mark.parametrize("kind", FP8.values(), ids=FP8)
def test_every_fp8_value_is_widened_exactly(kind):
    values = torch.arange(256, dtype=torch.uint8).view(kind)
    kinds = torch_types(FLOATS)
    for target, result in zip(kinds, run_all(values, kinds), strict=True):
        assert same(result, values.double()), target


def reference_fp8(values, kind):
    """To nearest even, saturating; torch's own conversion does not saturate fp8e5."""
    largest = torch.finfo(kind).max
    held = values.double().clamp(-largest, largest)
    exact = torch.arange(256, dtype=torch.uint8).view(kind).double()
    exact = exact[exact.isfinite()].unique()
    above = torch.searchsorted(exact, held).clamp(0, len(exact) - 1)
    below = (above - 1).clamp(0)
    up, down = exact[above] - held, held - exact[below]
    even = (above - len(exact) // 2) % 2 == 0
    chosen = torch.where((up < down) | ((up == down) & even), exact[above], exact[below])
    return torch.where(values.isnan(), torch.nan, chosen)


@pytest.mark.parametrize(
    ("source", "kind"),
    [("float16", torch.float8_e4m3fn), ("bfloat16", torch.float8_e5m2),
     ("float32", torch.float8_e4m3fn), ("float32", torch.float8_e5m2),
     ("float64", torch.float8_e4m3fn)],
)
def test_fp8_rounds_to_nearest_even_and_saturates(source, kind):
    source = getattr(torch, source)
    ties = torch.arange(256, dtype=torch.uint8).view(kind).double()
    middles = ((ties[:-1] + ties[1:]) / 2)[:252]
    extremes = torch.tensor([torch.inf, -torch.inf, 1e4, -1e30])
    values = torch.cat([random_bits(16)[: 1024 - 256].double(), middles, extremes]).to(source)
    assert same(run(values, kind), reference_fp8(values, kind))


def test_every_fp16_number_rounds_to_fp8e5():
    values = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.float16)
    result = torch.cat([run(part, torch.float8_e5m2) for part in values.split(4096)])
    assert same(result, reference_fp8(values, torch.float8_e5m2))
    assert bool((result.view(torch.int8) < 0).eq(values.view(torch.int16) < 0).all())


@pytest.mark.parametrize("source", [torch.float16, torch.float32])
def test_fp8e5_toward_zero_cuts_bits_off(source):
    values = random_bits(16).to(source)
    result = run(values, torch.float8_e5m2, "rtz").double()
    cut = (values.half().view(torch.int16) & ~0xFF).view(torch.float16).double()
    assert same(result, torch.where(values.isnan(), torch.nan, cut))


@triton.jit
def cast_e4b15(source, target, SIZE: tl.constexpr, DOWN: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, SIZE)
    if DOWN:
        byte = tl.load(source + at).to(tl.float8e4b15)
        tl.store(target + at, byte.to(tl.uint8, bitcast=True))
    else:
        number = tl.load(source + at).to(tl.float8e4b15, bitcast=True)
        tl.store(target + at, number.to(KIND))


def e4b15_values():
    """What the 256 bytes stand for: bias 15, three bits of mantissa."""
    byte = np.arange(256)
    exponent, low = (byte >> 3) & 15, byte & 7
    size = np.where(exponent == 0, low * 2.0**-17, (8 + low) * 2.0 ** (exponent - 18.0))
    return np.where(byte & 0x80, -size, size)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_e4b15_both_ways(kind):
    values = e4b15_values()
    out = torch.empty(256, dtype=kind, device="xpu")
    at = torch.arange(256, dtype=torch.uint8)
    cast_e4b15[(1,)](at.to("xpu"), out, 256, False, triton_type(kind))
    assert np.array_equal(out.cpu().double().numpy(), values)
    back = torch.empty(256, dtype=torch.uint8, device="xpu")
    numbers = torch.from_numpy(values)
    numbers[at % 128 == 127] = 5.0
    cast_e4b15[(1,)](numbers.to(kind).to("xpu"), back, 256, True, triton_type(kind))
    expected = torch.where(at % 128 == 127, torch.tensor(0x7E, dtype=torch.uint8), at)
    assert torch.equal(back.cpu(), expected)


@triton.jit
def reinterpret(source, target, SIZE: tl.constexpr, TO: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(target + at, tl.load(source + at).to(TO, bitcast=True))


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "float32"), ("bfloat16", "int16"), ("float16", "bfloat16"),
     ("int64", "float64"), ("uint8", "float8_e5m2"), ("float8_e4m3fn", "int8")],
)
def test_bitcasts_keep_the_bits(source, target):
    source, target = getattr(torch, source), getattr(torch, target)
    bits = torch.from_numpy(np.random.default_rng(0).integers(0, 255, 2048, dtype=np.uint8))
    values = bits.view(source)
    out = torch.empty(values.shape, dtype=target, device="xpu")
    reinterpret[(1,)](values.to("xpu"), out, values.numel(), triton_type(target))
    assert torch.equal(out.cpu().view(torch.uint8), bits)


def test_doubles_are_refused_where_the_hardware_has_none():
    source = ASTSource(reinterpret, {"source": "*fp64", "target": "*i64", "SIZE": "constexpr",
                                     "TO": "constexpr"}, {(2,): 64, (3,): tl.int64})
    with pytest.raises(Exception, match="fp64 is not supported on dg2"):
        triton.compile(source, target=GPUTarget("xpu", "dg2", 8))


@triton.jit
def chain(source, targets, SIZE: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr):
    at = tl.arange(0, SIZE)
    for k in tl.static_range(len(targets)):
        tl.store(targets[k] + at, tl.load(source + at).to(FIRST[k]).to(SECOND[k]))


@pytest.mark.parametrize("source", ["int16", "int32"])
def test_narrowed_or_sign_extended_integers_are_extended_again(source):
    """Of several elements per lane: LLVM ends the process on the plain instructions."""
    pairs = [(a, b) for a in torch_types(INTEGERS) for b in torch_types(INTEGERS) if a != b]
    values = torch.arange(-SIZE * 64, SIZE * 64, 128).to(getattr(torch, source))
    targets = tuple(torch.empty(SIZE, dtype=b, device="xpu") for _, b in pairs)
    first, second = (tuple(map(triton_type, kinds)) for kinds in zip(*pairs, strict=True))
    chain[(1,)](values.to("xpu"), targets, SIZE, first, second)
    for (a, b), found in zip(pairs, targets, strict=True):
        assert torch.equal(found.cpu(), values.to(a).to(b)), (a, b)
