"""Recording and replaying on Intel's driver, where everything is real but the execution.

Kernels do nothing there and copies neither, so what can be looked at is host and shared memory;
the simulator then runs what the driver's process recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_xe.runtime.recording import folder
from triton_xe.runtime.recording.replay import Replay
from triton_xe.tools import intel

pytestmark = pytest.mark.intel_driver
KERNELS = '''
import ctypes
import numpy as np
import triton
import triton.language as tl

@triton.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

@triton.jit
def product(a, b, c, M, N, K, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, K, 32):
        k = start + tl.arange(0, 32)
        x = tl.load(a + i[:, None] * K + k[None, :], (i[:, None] < M) & (k[None, :] < K), 0.0)
        y = tl.load(b + k[:, None] * N + j[None, :], (k[:, None] < K) & (j[None, :] < N), 0.0)
        total += tl.dot(x, y)
    tl.store(c + i[:, None] * N + j[None, :], total, (i[:, None] < M) & (j[None, :] < N))

class Tensor:
    def __init__(self, memory, dtype, offset=0):
        self.address, self.dtype = memory.pointer + offset, dtype
    def data_ptr(self):
        return self.address
'''
LAUNCHES = KERNELS + '''
from triton_xe.backend import devices
device = devices.device(0)
x, y, out = (device.allocate(1 << 16, kind=kind) for kind in ("shared", "host", "shared"))
numbers = np.arange(1 << 14, dtype=np.float32)
for memory in (x, y):
    ctypes.memmove(memory.pointer, numbers.ctypes.data, numbers.nbytes)
added[(4,)](Tensor(x, "fp32", 64), Tensor(y, "fp32"), Tensor(x, "fp32", 8192), 900, BLOCK=256)
halves = [Tensor(x, "fp16"), Tensor(y, "fp16"), Tensor(out, "fp32")]
product[(1,)](*halves, 64, 64, 64, B=32)
product[(1,)](*halves, 50, 60, 41, B=32)
'''
REPLAY = """
import sys
from triton_xe.tools.cli import main
said = [main(["replay", folder, "--device", "gpu", *options.split()])
        for folder, options in zip(sys.argv[1::2], sys.argv[2::2])]
print("exit codes", *said)
"""


def on_driver(tmp_path: Path, text: str, *arguments: str) -> str:
    """What a program prints on the driver of a B580."""
    reason = intel.driver_available()
    if reason:
        pytest.skip(reason)
    script = tmp_path / "program.py"
    script.write_text(text)
    done = intel.level_zero_environment("bmg").run(str(script), *arguments, timeout=200, extra={
        "TRITON_XE_DEVICE": "gpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TRITON_XE_CACHE": str(tmp_path / "cache"), "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TRITON_XE_RECORD": str(tmp_path / "driver"),
    })
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@triton.jit
def copied(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)


@pytest.mark.rest
def test_what_the_driver_is_given_runs_anywhere(tmp_path: Path, records: Any) -> None:
    """The simulator runs what the driver was given, and the driver what the simulator was."""
    on_driver(tmp_path, LAUNCHES)
    paths = folder.recordings(tmp_path / "driver")
    sums, usual, general = (folder.read(path) for path in paths)
    assert [block.kind for block in sums.blocks] == ["shared", "host"]
    assert (sums.blocks[0].nbytes, sums.arguments[0].value - sums.blocks[0].low) == (1 << 16, 64)
    assert (usual.failing, bool(general.failing)) == ("", True)
    assert usual.device["driver"].startswith("1.")
    assert usual.device["simulated"] is False

    numbers = np.arange(1 << 14, dtype=np.float32)
    after = Replay(paths[0]).run().after[0].view(np.float32)
    expected = numbers.copy()
    expected[2048:2948] = numbers[16:916] + numbers[:900]
    np.testing.assert_array_equal(after, expected)
    assert Replay(paths[2]).run().finding is None

    copied[(4,)](numbers[3:], np.zeros(1000, np.float32), 1000, BLOCK=256)
    printed = on_driver(  # a time of the device, which gives none here, takes the driver 5 s
        tmp_path, REPLAY, str(paths[2]), "--compare", str(records.path), "", str(paths[0]),
        "--sanitize")
    assert printed.count("replayed on Intel(R) Graphics") == 2
    assert printed.count("the general version") == 1
    assert printed.count("the same as after the recorded launch, to the bit") == 1
    assert "--sanitize is for simulated devices, and Intel(R) Graphics" in printed
    assert "exit codes 0 0 1" in printed
