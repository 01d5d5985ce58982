"""Kernels of the ledger: native code on the emulator equals the simulator.

Results are equal bit for bit.  Hardware's `math.exp`, `inv` and `rsqt` are not correctly rounded;
the emulator rounds them correctly, the simulator computes them in its own way, so that rows with
these functions may differ by `BOUND`.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import loops
from python.test.emulator import rows
from triton_xe.hardware.target import target
from triton_xe.runtime.emulator import iga
from triton_xe.runtime.level_zero.zebin import sections

pytestmark = pytest.mark.intel_compiler
APPROXIMATE = ("attention", "softmax", "swiglu", "inductor", "layer norm", "rms norm", "cross")
"""Beginnings of the names of rows with these functions."""
BOUND = {np.dtype(kind): 2.0**-bits
         for kind, bits in ((np.float16, 10), (np.uint16, 7), (np.float32, 20))}
"""Largest difference of such rows, relative to the largest magnitude of the array: a unit in the
last place of fp16 and bf16, 8 of fp32."""
UNUSED = 0.5
"""Largest share of prefetched lines that nothing loads: short loops prefetch past their end."""
QUICK = {
    "bmg": ("gemm 64x64x32", "gemm int8", "packed 16x128x64", "scaled e2m1", "attention 64",
            "softmax fp16", "add, n odd", "descriptor transpose u8",
            "argmax", "sort", "dropout"),
    "pvc": ("gemm 64x64x32", "packed pairs 16x128x64", "layer norm", "prefix sum",
            "inductor reduction"),
    "ptl": ("gemm small (MoE)", "add"),
    "dg2": ("add", "softmax fp32", "layer norm"),
    "lnl": ("row sum",),
    "cri": ("gemm fp8e4nv", "scaled e4m3", "scaled e2m1", "attention fp8e5", "packed 64x128x64",
            "layer norm", "sort", "dropout"),
    "nvl-p": ("gemm fp8e5", "inductor pointwise"),
}
CASES = [
    pytest.param(row, device, marks=[] if row in quick else pytest.mark.slow, id=f"{device}-{row}")
    for device, quick in QUICK.items() for row in loops.ROWS]


def differences(found, expected):
    """Largest difference relative to the largest magnitude; 0 if all bits are equal."""
    if np.array_equal(rows.bits(found), rows.bits(expected)):
        return 0.0
    a, b = (numbers(x) for x in (found, expected))
    both = np.isnan(a) & np.isnan(b) | (a == b)
    apart = np.where(both, 0, np.abs(a - b))
    scale = np.abs(b[np.isfinite(b)]).max()
    return float(np.nan_to_num(apart, nan=np.inf).max() / scale)


def numbers(array):
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


@pytest.mark.sample(9)
@pytest.mark.parametrize(("row", "device"), CASES)
def test_native_code_equals_the_simulator(row, device):
    kernel = rows.compiled(row, device)
    given = rows.arguments(kernel)
    expected = rows.run_simulated(kernel, given)
    found, launch = rows.run_native(kernel, given, watch=True)
    arrays = [(name, array) for name, value in zip(kernel.parameters, given, strict=True)
              for array in rows.arrays(value)]
    assert any(not np.array_equal(rows.bits(a), rows.bits(b))
               for (_, a), b in zip(arrays, found, strict=True)), "nothing was stored"
    for (name, _), a, b in zip(arrays, found, expected, strict=True):
        bound = BOUND.get(a.dtype, 0.0) if row.startswith(APPROXIMATE) else 0.0
        assert differences(a, b) <= bound, name
    assert not launch.misaligned
    assert not launch.findings
    assert launch.missing_waits == ()
    unused = list(launch.unused_prefetches().values())
    assert sum(unused) <= UNUSED * len(unused)
    check_text(kernel)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("device", "operand"), [("bmg", "a"), ("bmg", "b"), ("pvc", "a")])
def test_prefetches_of_lanes_request_the_lines_of_2d_prefetches(device, operand):
    results, requested = [], []
    for value in ("", operand):
        kernel = rows.compiled("gemm 64x64x32", device, line_prefetches=value)
        found, launch = rows.run_native(kernel, rows.arguments(kernel), watch=True)
        results.append(found)
        requested.append(launch.prefetched_lines())
    results.append(rows.run_simulated(kernel, rows.arguments(kernel)))
    for blocks, *others in zip(*results, strict=True):
        assert all(np.array_equal(rows.bits(blocks), rows.bits(other)) for other in others)
    blocks, lanes = (np.unique(np.concatenate([*lines.values()])) for lines in requested)
    assert len(blocks)
    assert np.array_equal(blocks, lanes)


def check_text(kernel):
    """The code as text assembles to the same bytes; libiga64 2.40 does so up to r255."""
    if target(kernel.device).grf_modes[-1] > 256:
        return
    for name, code in sections(kernel.binary).items():
        if name.startswith(".text.") and not name.endswith("Void_Program"):
            again = iga.assemble(kernel.device, iga.disassemble(kernel.device, code))
            assert code[: len(again)] == again
            assert not any(code[len(again) :])
