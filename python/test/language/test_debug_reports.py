"""tl.device_print and tl.device_assert reach the user."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from triton_xe.runtime.debug_buffer import DeviceAssertionError


@triton.jit
def print_kernel(x, size: tl.constexpr):
    i = tl.arange(0, size)
    tl.device_print("v", tl.load(x + i))


PRINTED = [
    (torch.int32, [-2, 3], ["-2", "3"]),
    (torch.uint8, [200, 3], ["200", "3"]),
    (torch.int64, [-(1 << 40), 1], [str(-(1 << 40)), "1"]),
    (torch.float16, [0.5, -2.0], ["0.500000", "-2.000000"]),
    (torch.bfloat16, [0.5, -2.0], ["0.500000", "-2.000000"]),
    (torch.float64, [0.5, -2.0], ["0.500000", "-2.000000"]),
]


@pytest.mark.parametrize(("dtype", "values", "shown"), PRINTED)
def test_every_element_is_printed_once(capfd, dtype, values, shown):
    print_kernel[(2,)](torch.tensor(values, dtype=dtype, device="xpu"), 2, num_warps=1)
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == sorted(
        f"pid ({p}, 0, 0) idx ({i}) v: {text}" for p in range(2) for i, text in enumerate(shown)
    )


def test_several_operands_and_hexadecimal(capfd):
    @triton.jit
    def kernel(x):
        v = tl.load(x + tl.arange(0, 2))
        tl.device_print("both", v, v + 1, hex=True)

    kernel[(1,)](torch.tensor([10, 255], dtype=torch.int16, device="xpu"), num_warps=1)
    assert sorted(capfd.readouterr().out.splitlines()) == [
        "pid (0, 0, 0) idx (0) both: (operand 0) 0x000a",
        "pid (0, 0, 0) idx (0) both: (operand 1) 0x000b",
        "pid (0, 0, 0) idx (1) both: (operand 0) 0x00ff",
        "pid (0, 0, 0) idx (1) both: (operand 1) 0x0100",
    ]


@triton.jit
def assert_kernel(x, out, size: tl.constexpr):
    i = tl.arange(0, size)
    v = tl.load(x + i)
    tl.device_assert(v < 100, "too large")
    tl.store(out + i, v)


def test_a_failed_assertion_names_place_program_and_message():
    x = torch.arange(16, dtype=torch.int32, device="xpu")
    out = torch.zeros_like(x)
    assert_kernel[(1,)](x, out, 16, debug=True)
    x[5] = 1000
    with pytest.raises(DeviceAssertionError, match="too large") as caught:
        assert_kernel[(1,)](x, out, 16, debug=True)
    assert "test_debug_reports.py" in str(caught.value)
    assert "program (0, 0, 0), element (5)" in str(caught.value)
    x[5] = 5
    assert_kernel[(1,)](x, out, 16, debug=True)
    assert torch.equal(out, x)


def test_assertions_cost_nothing_without_debug():
    x = torch.full((16,), 1000, dtype=torch.int32, device="xpu")
    out = torch.zeros_like(x)
    compiled = assert_kernel[(1,)](x, out, 16)
    assert compiled.metadata.debug_sites == []
    assert torch.equal(out, x)


def test_what_does_not_fit_is_counted(capfd, monkeypatch):
    monkeypatch.setenv("TRITON_XE_PRINT_BYTES", "160")
    print_kernel[(1,)](torch.arange(16, device="xpu"), 16, num_warps=1)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 5
    assert "12 more reports did not fit" in lines[-1]


ABORTS = """
import torch
from test_debug_reports import assert_kernel
x = torch.full((16,), 1000, dtype=torch.int32, device="xpu")
assert_kernel[(1,)](x, torch.zeros_like(x), 16, debug=True)
"""


@pytest.mark.parametrize(("asked", "status"), [
    ("abort", -signal.SIGABRT), pytest.param("", 1, marks=pytest.mark.rest)])
def test_a_failed_assertion_ends_the_process_where_asked(asked, status):
    ended = subprocess.run(
        [sys.executable, "-c", ABORTS], env={**os.environ, "TRITON_XE_ASSERT": asked},
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == status, ended.stderr
    assert "program (0, 0, 0), element (0): too large" in ended.stderr
    assert ("Traceback" in ended.stderr) == (asked != "abort")
