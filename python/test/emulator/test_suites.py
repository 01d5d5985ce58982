"""Samples of the language and GEMM suites on native code, each launch equal to the simulator's."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from triton_xe import knobs

pytestmark = [pytest.mark.intel_compiler, pytest.mark.rest]
FEW, MANY = 12, 300
NOT_HERE = ("not rows_that_warps_share and not module_for_any_xpu and not experts_are_aligned"
            " and not run_as_many_steps and not no_access_is_wider")
"""Tests that ask for the sanitizer of simulated devices, for the name of the default device, or for
its rules.
"""


@pytest.mark.parametrize(("device", "count"), [
    ("cri", FEW), pytest.param("cri", MANY, marks=pytest.mark.slow),
    pytest.param("nvl-p", MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suite", ["language", "gemm"])
def test_a_sample_agrees(device: str, count: int, suite: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "python.test.emulator.differential",
         "--sample", str(count), "--sample-seed", "44", "-k", NOT_HERE, f"python/test/{suite}"],
        env={**knobs.process_environment(), "TRITON_XE_DEVICE": f"emu:{device}",
             "PYTHONPATH": os.getcwd()},
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) > 0
