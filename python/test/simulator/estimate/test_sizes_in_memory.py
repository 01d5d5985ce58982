"""Predictions of kernels whose pointers and sizes lie in memory."""

from dataclasses import replace

import pytest
from triton import compile
from triton.backends.compiler import GPUTarget

from benchmarks.loops import ROWS
from triton_xe.hardware.target import target
from triton_xe.runtime.simulator.estimate.launch_work import TimedKernel
from triton_xe.runtime.simulator.run.kernel_source import KernelSource


@pytest.mark.parametrize("device", ["bmg", pytest.param("dg2", marks=pytest.mark.slow)])
def test_products_of_several_sizes_are_a_guess(device):
    row = replace(ROWS["grouped"], constants={"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32})
    kernel = compile(row.source(), target=GPUTarget("xpu", device, 16), options={"num_warps": 4})
    source = KernelSource(kernel.asm["llir"], kernel.metadata.name, target(device))
    work, certain = TimedKernel.from_source(source, 128).launch_work(row.arguments, row.grid)
    assert work.issue.dpas > 0
    assert not certain
