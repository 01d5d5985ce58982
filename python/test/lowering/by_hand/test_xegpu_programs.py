"""Every XeGPU op on the simulator, against numpy, with 16 and with 8 lanes."""


import pytest

from python.test.lowering.by_hand.xegpu_programs import PROGRAMS
from triton_xe.tools.commands.run import run_program

NOT_ON_DG2 = {"block f64", "gather f64"} | {
    f"dpas tf32 {form}" for form in ("2d", "vnni", "one row", "two rows")}


def run(name, target, lanes):
    text, arrays, check = PROGRAMS[name](lanes)
    run_program(text, arrays, target=target)
    check(arrays)


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_16_lanes(name):
    run(name, "bmg", 16)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in NOT_ON_DG2])
def test_with_8_lanes(name):
    run(name, "dg2", 8)
