"""The GEMM written by hand in XeTile: right for any sizes, and as good as hand-tuned code."""

from pathlib import Path

import numpy as np
import pytest

from triton_xe.intrinsics.definitions.conversions import bf16_to_float
from triton_xe.lowering.by_hand.dialect_pipeline import compile_text
from triton_xe.tools import intel
from triton_xe.tools.commands.run import made_array, run_program
from triton_xe.tools.native_figures import loops

SOURCE = (Path(__file__).parents[4] / "examples" / "xetile_gemm.mlir").read_text()
INT8 = (
    ("32x64xf16", "64x64xi8"), ("32x32xf16", "32x64xi8"), ("256x32xf16", "256x64xi8"),
    ("32x256xf16", "64x256xi8"), ("8x32xf16", "8x64xi8"), ("xf32", "xi32"),
    ("dense<0.0>", "dense<0>"), (", 0, 32 :", ", 0, 64 :"), (", 32, 0 :", ", 64, 0 :"),
    (", 0, 32\n", ", 0, 64\n"), (", 32, 0\n", ", 64, 0\n"), ("step %c32", "step %c64"),
)
LOOP_LIMIT = {"bmg": 48, "pvc": 57}


def source_for(kind):
    """The example for another element type; a K step of 64 bytes."""
    if kind == "i8":
        text = SOURCE
        for old, new in INT8:
            text = text.replace(old, new)
        return text
    return SOURCE.replace("f16", kind)


def numbers(array, kind):
    return (bf16_to_float(array) if kind == "bf16" else array).astype(np.float64)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("m", "n", "k", "kind", "target"),
    [
        (300, 264, 200, "f16", "bmg"),
        (257, 272, 64, "bf16", "pvc"),
        pytest.param(37, 41, 29, "bf16", "lnl", marks=pytest.mark.slow),
        (70, 80, 160, "i8", "bmg"),
        pytest.param(33, 50, 45, "i8", "ptl", marks=pytest.mark.slow),
        (8, 32, 0, "f16", "bmg"),
        (37, 41, 29, "f16", "dg2"),
    ],
)
def test_gemm_of_any_size(m, n, k, kind, target):
    a = made_array(f"shape:{m}x{k}:{kind}:seed=1")
    b = made_array(f"shape:{k}x{n}:{kind}:seed=2")
    c = np.full((m, n), 7, np.int32 if kind == "i8" else np.float32)
    grid = (-(-m // 256), -(-n // 256), 1)
    run_program(source_for(kind), [a, b, c, m, n, k], target=target, grid=grid)
    a64, b64 = numbers(a, kind), numbers(b, kind)
    expected, magnitude = a64 @ b64, np.abs(a64) @ np.abs(b64)
    bound = 0 if kind == "i8" else 2 * max(k, 1) * 2.0**-24 * magnitude
    assert (np.abs(c - expected) <= bound).all()


@pytest.mark.sample(1)
@pytest.mark.intel_compiler
@pytest.mark.parametrize(("kind", "target"), [
    ("f16", "bmg"), ("bf16", "pvc"), *(pytest.param(*more, marks=pytest.mark.slow) for more in (
        ("f16", "pvc"), ("bf16", "bmg"), ("i8", "bmg"), ("i8", "pvc")))])
def test_the_k_loop_is_as_short_as_hand_tuned_code(kind, target):
    if (reason := intel.available()) is not None:
        pytest.skip(reason)
    program = compile_text(source_for(kind), target)
    built = intel.compile_spirv(program.spirv, target, program.metadata["build_flags"])
    loop = fast_loop(built.program)
    assert loop.dpas == 32
    assert (loop.block_loads, loop.prefetches, loop.gathers) == (3, 2, 0)
    assert loop.instructions <= LOOP_LIMIT[target]
    assert built.facts.spill_size == 0


def fast_loop(program):
    """The loop with block loads, of the versions of the K loop."""
    return next(loop for loop in loops(program) if loop.dpas and loop.block_loads)
