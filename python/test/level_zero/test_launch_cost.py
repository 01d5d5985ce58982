"""The launch benchmark measures every floor in one run; its figures depend on the machine."""

from __future__ import annotations

import math

import pytest

from benchmarks import launch_cost
from triton_xe.tools import intel


@pytest.mark.rest
@pytest.mark.intel_driver
def test_the_whole_call_is_measured_against_its_floor() -> None:
    if intel.driver_available():
        pytest.skip(str(intel.driver_available()))
    found = launch_cost.on_simulated_stream("bmg", 20)
    whole = found["the whole call"]
    assert whole["call"] > whole["floor"] > 1
    assert math.isclose(whole["call / floor"], whole["call"] / whole["floor"])
    alone = found["pointers as tensors"]
    assert alone["nothing"] < alone["ours"] < alone["launch"]
    assert alone["ours"] < launch_cost.OURS_GOAL_US
