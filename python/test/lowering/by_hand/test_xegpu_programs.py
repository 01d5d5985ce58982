"""Every XeGPU op on the simulator, against numpy, with 16 and with 8 lanes."""


import numpy as np
import pytest

from python.test.lowering.by_hand.xegpu_programs import PROGRAMS
from triton_xe.errors import LegalityError
from triton_xe.tools.commands.run import run_program

NOT_ON_DG2 = {"block f64", "gather f64"} | {
    f"dpas tf32 {form}" for form in ("2d", "vnni", "one row", "two rows")}


def run(name, target, lanes):
    text, arrays, check = PROGRAMS[name](lanes)
    run_program(text, arrays, target=target)
    check(arrays)


@pytest.mark.sample(44)
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_16_lanes(name):
    run(name, "bmg", 16)


@pytest.mark.sample(27)
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in NOT_ON_DG2])
def test_with_8_lanes(name):
    run(name, "dg2", 8)


SCALED = """func.func @k(%o: memref<8x16xf32>) {
  %a = arith.constant dense<2.0> : vector<8x2xf8E5M2>
  %b = arith.constant dense<1.0> : vector<8x4xf8E5M2>
  %c = arith.constant dense<1.0> : vector<8x1xf32>
  %s = arith.constant dense<129> : vector<1x1xi8>
  %t = arith.constant dense<126> : vector<1x1xi8>
  %d = xegpu.dpas_mx %a, %b, %c, %s, %t : vector<8x2xf8E5M2>, vector<8x4xf8E5M2>,
       vector<8x1xf32>, vector<1x1xi8>, vector<1x1xi8> -> vector<8x1xf32>
  %m = xegpu.create_nd_tdesc %o, 0, 0 : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32, MAP>
  xegpu.store_nd %d, %m : vector<8x1xf32>, !xegpu.tensor_desc<8x16xf32, MAP>
  func.return
}
""".replace("MAP", "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>")


def test_scaled_dpas():
    out = np.zeros((8, 16), np.float32)
    run_program(SCALED, [out], target="cri")
    assert (out == 1 + 32 * (2 * 4) * (1 / 2)).all()
    with pytest.raises(LegalityError, match="bmg has no scaled DPAS"):
        run_program(SCALED, [out], target="bmg")
