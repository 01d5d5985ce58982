"""Products of Xe3P in native code, built by Intel's compiler, against their definitions."""

from __future__ import annotations

import pytest

from python.test.simulator.widen.products import (
    NARROW,
    SCALED,
    assert_same,
    defined,
    multiply,
    random_images,
    scales_type,
    text,
)
from triton_xe.hardware.dpas import Dpas
from triton_xe.lowering.spirv.emit_spirv import emit_spirv
from triton_xe.runtime.emulator.device import EmulatedDevice

pytestmark = pytest.mark.intel_compiler
EACH = 500


def check(name: str, kinds: tuple[str, str, str], *, scaled: bool) -> None:
    shape = Dpas(*kinds)
    images = random_images(shape, EACH, seed=5)[: 5 if scaled else 3]
    module = emit_spirv(text(shape, scales_type(shape) if scaled else ""))
    device = EmulatedDevice(name)
    got = multiply(device, module, images)
    (ran,) = device.executed.values()
    product = next(each for each in ran.program.instructions if "dpas" in each.op)
    assert product.op == ("bdpas" if scaled else "dpas")
    assert_same(got, defined(images, shape), shape.accumulator)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kinds", SCALED)
def test_scaled_products(kinds: tuple[str, str, str]) -> None:
    check("cri", kinds, scaled=True)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kinds", NARROW)
def test_products_of_fp8_and_fp4(kinds: tuple[str, str, str]) -> None:
    check("cri", kinds, scaled=False)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kinds", [each for each in NARROW if each[0] != "e2m1"])
def test_products_of_fp8_on_nova_lake(kinds: tuple[str, str, str]) -> None:
    check("nvl-p", kinds, scaled=False)
