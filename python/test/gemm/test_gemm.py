"""Matmuls against float64: layouts x types x shapes x blocks x warps x stages, on the simulator.

By default every pair of settings is tried together in some case, but for large blocks of a single
warp, which take long to compile; `--full` tries all combinations.

The tolerance is derived, not tuned.  Products of two 16-bit floats are exact in float32.  A sum of
K of them in any order is off by at most K·u times the sum of their magnitudes (u = 2⁻²⁴; twice
that where the hardware truncates instead of rounding), and rounding the result to the output type
adds half a unit in its last place, plus its smallest subnormal.
"""

import math

import numpy as np
import pytest
import torch

from examples import matmul, matmul_descriptor
from python.test.filecheck import check_text
from python.test.gemm.pairwise import covering_cases, every_case, settings
from python.test.operations import operations
from triton_xe.tools.loop_counts import main_loop

UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
SUBNORMAL = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133, torch.float32: 2.0**-149}

FACTORS = {
    "module": (matmul, matmul_descriptor),
    "layout": ("AB", "ABt", "AtB", "AtBt"),
    "dtype": (torch.float16, torch.bfloat16),
    "out": ("same", torch.float32),
    "shape": ((16, 16, 16), (64, 128, 96), (100, 77, 52), (33, 200, 72)),
    "blocks": ((16, 16, 16), (32, 64, 32), (64, 64, 32), (64, 32, 64)),
    "warps": (1, 4, 8),
    "stages": (1, 2, 3),
    "activation": ("", "leaky_relu"),
}


def is_allowed(case):
    """Skip what no one would launch: more warps than 8x16 pieces of the tile."""
    rows, columns, _ = case["blocks"]
    return case["warps"] <= max(1, rows * columns // 128)


def is_quick(case):
    """True if it is allowed, small, and no warp has more than 2^14 products of a step, written
    out.

    Blocks of 64x64x32 and rows of 200 are in other tests of this file.
    """
    return (is_allowed(case) and math.prod(case["blocks"]) <= case["warps"] << 14
            and case["blocks"] != (64, 64, 32) and case["shape"] != (33, 200, 72))


def name_of(case):
    parts = [str(v).removeprefix("torch.") for k, v in case.items() if k != "module"]
    return "-".join([case["module"].__name__.removeprefix("examples."), *parts]).replace(" ", "")


def tolerance(a, b, expected, out_dtype):
    """Largest allowed error of each element; see the module's docstring."""
    magnitude = np.abs(a) @ np.abs(b)
    summing = 2 * a.shape[1] * 2.0**-24 * magnitude
    rounding = UNIT[out_dtype] * (np.abs(expected) + summing) + SUBNORMAL[out_dtype]
    return summing + rounding


def check(c, a, b, activation=""):
    a64, b64 = (x.cpu().double().numpy() for x in (a, b))
    expected = a64 @ b64
    if activation == "leaky_relu":
        expected = np.where(expected >= 0, expected, np.float32(0.01) * expected)
    error = np.abs(c.cpu().double().numpy() - expected)
    excess = error - tolerance(a64, b64, expected, c.dtype)
    assert np.isfinite(error).all()
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    assert excess.max() <= 0, f"C{tuple(map(int, worst))} is off by {error[worst]:.3g}"


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full")
        cases = every_case(FACTORS, is_allowed) if full else covering_cases(FACTORS, is_quick)
        metafunc.parametrize("case", cases, ids=name_of)


@pytest.mark.sample(6)
def test_settings(case):
    a, b = matmul.operands(*case["shape"], case["layout"], case["dtype"])
    out = case["dtype"] if case["out"] == "same" else case["out"]
    c = case["module"].matmul(
        a, b, activation=case["activation"], out_dtype=out, blocks=case["blocks"], group_m=4,
        num_warps=case["warps"], num_stages=case["stages"],
    )
    check(c, a, b, case["activation"])


@pytest.mark.parametrize(*settings(
    layout=("AB", "ABt", "AtB"), module=(matmul, matmul_descriptor), strength=1))
@pytest.mark.parametrize(("size", "blocks", "warps"), [
    ((136, 83, 104), (64, 64, 32), 8),
    pytest.param((1000, 777, 520), (128, 128, 32), 8, marks=pytest.mark.slow)])
def test_a_size_that_nothing_divides(module, layout, size, blocks, warps):
    a, b = matmul.operands(*size, layout)
    check(module.matmul(a, b, blocks=blocks, num_warps=warps), a, b)


@pytest.mark.parametrize(*settings(
    layout=["AB", "ABt", "AtB"], dtype=[torch.float16, torch.bfloat16], strength=1))
def test_512_cubed(layout, dtype):
    a, b = matmul.operands(512, 512, 512, layout, dtype)
    check(matmul.matmul(a, b, blocks=(64, 64, 32), num_warps=4), a, b)


@pytest.mark.parametrize("module", [matmul, matmul_descriptor])
def test_the_large_example(module):
    """The kernel is that of any sizes that 16 divides."""
    a, b = matmul.operands(512, 768, 256)
    c, kernel = module.launch(a, b, "", None, (256, 256, 32), 4, {"num_warps": 32})
    check(c, a, b)
    counts = main_loop(kernel.asm["llir"])
    assert counts.dpas == 32
    assert counts.block_loads <= 3
    assert counts.gathers == 0


@pytest.mark.smoke
def test_the_smallest_example():
    a, b = matmul.operands(16, 16, 16)
    check(matmul.matmul(a, b, blocks=(16, 16, 16), num_warps=1), a, b)


def test_matmuls_take_the_road_through_both_dialects():
    a, b = matmul.operands(64, 64, 64)
    _, kernel = matmul.launch(a, b, "", None, (64, 64, 32), 4, {"num_warps": 4})
    tiles, messages = (set(operations(kernel.asm[stage])) for stage in ("xetile", "xegpu"))
    for operation in ("init_tile", "load_tile", "tile_mma", "store_tile"):
        assert f"xetile.{operation}" in tiles
    for operation in ("create_nd_tdesc", "load_nd", "dpas", "store_nd"):
        assert f"xegpu.{operation}" in messages
    assert not any(name.startswith("xetile.") for name in messages)
    for stage in ("ttgir", "xetile", "xegpu"):
        check_text(kernel.asm[stage], "CHECK-NOT: GenISA")


def padded(x, columns):
    """The same matrix with `columns` more elements between its rows."""
    wide = torch.zeros(x.shape[0], x.shape[1] + columns, dtype=x.dtype, device=x.device)
    wide[:, : x.shape[1]] = x
    return wide[:, : x.shape[1]]


@pytest.mark.sample(3)
@pytest.mark.parametrize(*settings(
    module=(matmul, matmul_descriptor), extra=(1, 8, 3, 16, 4), strength=1, in_turns=True))
def test_odd_leading_dimensions(module, extra):
    """Block loads want a pitch that is a multiple of 16 bytes; other pitches are gathered."""
    a, b = (padded(x, extra) for x in matmul.operands(48, 80, 64))
    check(module.matmul(a, b, blocks=(16, 32, 16), num_warps=2), a, b)


@pytest.mark.sample(2)
@pytest.mark.parametrize("shift", [1, 2, 8, 32])
def test_operands_that_start_anywhere(shift):
    """Block loads want a base address that is a multiple of 64 bytes."""
    a, b = matmul.operands(48 + shift, 64, 64 + shift)
    a, b = a[shift:, shift:], b[shift:, :]
    check(matmul.matmul(a, b, blocks=(16, 32, 16), num_warps=2), a, b)


def test_neither_dimension_contiguous():
    a, b = matmul.operands(32, 32, 64)
    a, b = a[:, ::2], b[::2, :]
    check(matmul.matmul(a, b, blocks=(16, 16, 16), num_warps=1), a, b)


def test_more_columns_than_programs_wrap_around():
    """`% N` wraps the last tile; what it reads twice must not reach C."""
    a, b = matmul.operands(40, 40, 32)
    c = torch.full((64, 64), 7.0, dtype=torch.float16, device="xpu")
    view = c[:40, :40]
    matmul.matmul_kernel[(4,)](
        a, b, view, 40, 40, 32, *a.stride(), *b.stride(), *view.stride(), 32, 32, 32,
        GROUP_M=2, ACTIVATION="", num_warps=2,
    )
    check(view, a, b)
    assert (c[40:].cpu() == 7).all()
    assert (c[:, 40:].cpu() == 7).all()


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 65504.0])
def test_special_values_stay_in_their_row_and_column(value):
    a, b = matmul.operands(32, 32, 32)
    a[3, 5] = value
    c = matmul.matmul(a, b, out_dtype=torch.float32, blocks=(32, 32, 32), num_warps=1).cpu()
    expected = a.cpu().float() @ b.cpu().float()
    assert torch.equal(c.isnan(), expected.isnan())
    finite = expected.isfinite()
    assert torch.equal(c.isfinite(), finite)
    assert torch.allclose(c[finite], expected[finite], rtol=1e-4, atol=1e-2)


def test_the_empty_inner_dimension_gives_zeros():
    a = torch.empty(32, 0, dtype=torch.float16, device="xpu")
    b = torch.empty(0, 32, dtype=torch.float16, device="xpu")
    c = matmul.matmul(a, b, blocks=(16, 16, 16), num_warps=1)
    assert (c.cpu() == 0).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", ["AB", "ABt"])
def test_the_fast_path_survives_the_wrap_and_unknown_strides(layout):
    """520 columns are a pitch of 1040 bytes: legal for block loads, but only known at run time."""
    a, b = matmul.operands(136, 136, 520, layout)
    c, kernel = matmul.launch(a, b, "", None, (64, 64, 32), 4, {"num_warps": 4})
    check(c, a, b)
    counts = main_loop(kernel.asm["llir"])
    assert counts.block_loads > 0
    assert counts.gathers == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(("rows", "columns"), [(1, 0), (0, 1)])
def test_matrices_that_begin_inside_another(rows, columns):
    """A base that is not a multiple of 64 bytes lengthens the rows, perhaps beyond the pitch."""
    a, b = matmul.operands(35, 32, 72)
    a = a[rows:, columns:]
    b = b[columns:]
    check(matmul.matmul(a, b, blocks=(16, 16, 16), num_warps=1), a, b)
