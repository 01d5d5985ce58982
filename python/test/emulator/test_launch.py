"""Native code of whole kernels, launched on the emulated devices."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import loops
from triton_xe.runtime.emulator import AddressSpace, Launch, Program
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_compiler


def native(row: str, device: str) -> bytes:
    kernel = loops.compiled(row, device)
    return intel.compile_spirv(
        kernel.asm["spv"], device, kernel.metadata.build_flags, dump_asm=False).binary


@pytest.mark.parametrize("device", ["bmg", "pvc"])
def test_a_product_of_matrices(device):
    binary = native("gemm 64x64x32", device)
    rng = np.random.default_rng(0)
    m, n, k = 128, 128, 96
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    space = AddressSpace()
    buffers = [space.put(x) for x in (a, b, np.zeros((m, n), np.float16), np.zeros(8))]
    launch = Launch.from_zebin(
        Program.from_zebin(device, binary), binary, space, (2, 2, 1),
        [*buffers, m, n, k, k, n, n]).run()
    found = space.get(buffers[2], np.float16, (m, n)).astype(np.float64)
    assert np.abs(found - a.astype(np.float64) @ b.astype(np.float64)).max() < 0.02
    assert launch.executed()["dpas.8x8"] >= m * n * k // (8 * 16 * 16)
