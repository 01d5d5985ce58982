"""`benchmarks.against_onednn`: what is counted, and one row of the table."""

import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.against_onednn import Figures, figures
from benchmarks.catalog import Choice, choice_of
from python.test.emulator.assembled import run
from python.test.emulator.kernel_driver.test_other_software import PREFIX, ROOT, needs_dnn
from triton_xe.runtime.emulator import AddressSpace

PRINTED = """
onednn_verbose,v1,info,gpu,gemm,catalog entry:F gemm HHS NNN 64 8 av16+m32@40 am32+m32@32 wg 2x8
onednn_verbose,v1,info,gpu,gemm,kernel:gemm HH[SH] N@16N@16N 64 8 1 0 aV16#16,0{cc}+M32,32@40{cc} \
aM32#16,0{cc}+M32,32@32{cc} aB#16,0{cc/ub} wg 2x8x2 kr sys xaf st k32 grf256 pk64 sb64 np bm1048576
"""


def test_a_choice_is_read_with_rows_and_columns_exchanged():
    assert choice_of(PRINTED) == Choice(64, 128, 32, 32, 2, False, (40, 32), 64)
    assert str(choice_of(PRINTED.replace("kr", "kv"))) == "64x128x32 32/2+"
    assert choice_of("an OpenCL kernel") is None


@pytest.mark.intel_compiler
def test_instructions_and_bytes_are_counted():
    """A load, a prefetch of 8 lanes, arithmetic and a DPAS of four rows, on two threads."""
    space = AddressSpace()
    at = (space.put(np.zeros(64, np.uint32)) + 4 * np.arange(16)).astype(np.uint64)
    done = run("bmg", """
    send.ugm (16|M0) r20 r10 null:0 0x0 0x04100580 {$0}
    send.ugm (8|M0) null r10 null:0 0x0 0x04000580 {$1}
    (W) sync.nop null {$0.dst}
    add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w
    mul (16|M0) r22.0<1>:f r30.0<1;1,0>:f r31.0<1;1,0>:f
    dpas.8x4 (16|M0) r40:f null:f r50:hf r60.0:hf {$2}
    """, {10: np.tile(at, (2, 1))}, threads=2, space=space)
    found = figures(done.program, done.counters.executed.tolist(), done.bytes_moved)
    assert found + Figures(maths=1) == Figures(
        instructions=14, dpas=1, fp=2, integer=2, maths=1, messages=4, waits=4,
        moved=2 * 64, prefetched=2 * 32)


@needs_dnn
@pytest.mark.intel_driver
@pytest.mark.slow
def test_a_product_takes_less_than_onednn_on_the_same_blocks():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.against_onednn", "--devices", "bmg",
         "matmul 256x256x256 f16"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "ONEDNN_PREFIX": str(PREFIX)})
    assert done.returncode == 0, done.stderr[-2000:]
    theirs, ours, same = (each.split() for each in done.stdout.splitlines()[1:])
    assert theirs[7:9] == same[7:9] == ["64x64x64", "32"]
    assert all(float(each[-1]) < 1e-3 for each in (theirs, ours, same))
    dpas = [int(each[11].replace(",", "")) for each in (theirs, same)]
    assert dpas[0] == dpas[1] == 8192
    assert float(same[9]) <= 0.85
