"""Kernels of the language's own tests, built and launched by the driver of each device.

`--rest` gives three devices a third of the files each, and a third of their test functions.
`--full` gives every device all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triton_xe.tools import intel

DEVICES = ["pvc", "bmg", "dg2", "lnl", "ptl"]
QUICK = 3
"""Devices without `--full`."""
SCRIPT = Path(__file__).with_name("language_on_driver.py")
TESTS = Path(__file__).parents[1] / "language"
CHECKS = {"ZE_ENABLE_VALIDATION_LAYER": "1", "ZE_ENABLE_PARAMETER_VALIDATION": "1"}


@pytest.mark.intel_driver
@pytest.mark.parametrize("device", [
    pytest.param(device, marks=pytest.mark.rest if place < QUICK else pytest.mark.slow)
    for place, device in enumerate(DEVICES)])
def test_tests_of_the_language_build_and_launch(
    device: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if intel.driver_available():
        pytest.skip(str(intel.driver_available()))
    full = request.config.getoption("--full")
    share = (0, 1, 1) if full else (DEVICES.index(device), QUICK, 3)
    done = intel.level_zero_environment(device).run(
        str(SCRIPT), str(TESTS), *map(str, share),
        extra={**CHECKS, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_XE_DEVICE": f"sim:{device}"},
        timeout=1000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.rpartition("OUT")[2])
    assert found["refused"] == []
    assert found["launches"] >= found["kernels"] >= found["tests"]
    assert found["tests"] >= (60 if full else 12)
