"""The scaled DPAS in the simulator, and the DPAS of fp8 and fp4, against their definitions."""

from __future__ import annotations

import numpy as np
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
from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.dpas import ACCUMULATOR_LLVM, Dpas, check_scaled_dpas
from triton_xe.hardware.target import target
from triton_xe.intrinsics.definitions import dpas as definition
from triton_xe.runtime.simulator.device import SimulatedDevice

EACH = 500


@pytest.mark.sample(5)
@pytest.mark.parametrize("kinds", SCALED)
def test_scaled_products(kinds: tuple[str, str, str]) -> None:
    shape = Dpas(*kinds)
    images = random_images(shape, EACH, seed=3)
    got = multiply(SimulatedDevice("cri"), text(shape, scales_type(shape)).encode(), images)
    assert_same(got, defined(images, shape), shape.accumulator)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kinds", NARROW)
def test_products_of_fp8_and_fp4(kinds: tuple[str, str, str]) -> None:
    shape = Dpas(*kinds)
    images = random_images(shape, EACH, seed=4)[:3]
    got = multiply(SimulatedDevice("cri"), text(shape).encode(), images)
    assert_same(got, defined(images, shape), shape.accumulator)


def test_definition_against_double_precision() -> None:
    shape = Dpas("e2m1", "e2m1", "f32")
    a, b, c, x, y = (image[-1] for image in random_images(shape, 8, seed=5))
    codes = [np.stack([raw & 15, raw >> 4], -1).reshape(-1) for raw in (a, b)]
    numbers = [np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[code & 7] * (1 - 2.0 * (code >> 3))
               for code in codes]
    rows = numbers[0].reshape(8, 64)
    columns = numbers[1].reshape(8, 16, 8).transpose(0, 2, 1).reshape(64, 16)
    left, right = (np.exp2(s.reshape(2, 16) - 127.0).repeat(32, 0) for s in (x, y))
    rows, columns, c0 = rows * left.T[:8], columns * right, c.view(np.float32).reshape(8, 16)
    got = definition.scaled_dpas(c, a, b, x, y, shape).view(np.float32).reshape(8, 16)
    bound = 64 * 2.0**-24 * (abs(c0) + abs(rows) @ abs(columns))
    assert (abs(got - (c0 + rows @ columns)) <= bound).all()


@pytest.mark.parametrize(("name", "kinds", "scales", "reason"), [
    ("ptl", ("hf8", "hf8", "f32"), "i8", "ptl has no scaled DPAS"),
    ("nvl-p", ("e2m1", "e2m1", "f32"), "<2 x i8>", "nvl-p has no fp4 DPAS"),
    ("cri", ("e2m1", "e2m1", "f32"), "i8", "scale_a of a DPAS of e2m1 by e2m1 has 2 bytes"),
    ("cri", ("s8", "s8", "i32"), "i8", "multiplies floats of 4 to 16 bits, not s8"),
])
def test_what_hardware_would_not_report(
    name: str, kinds: tuple[str, str, str], scales: str, reason: str
) -> None:
    module, images = text(Dpas(*kinds), scales).encode(), [np.zeros((1, 1024), np.uint8)] * 3
    with pytest.raises(SimulatorTrap, match=reason):
        multiply(SimulatedDevice(name), module, images + [images[0][:, :32]] * 2)


def test_table() -> None:
    cri = target("cri")
    assert ACCUMULATOR_LLVM["bf16"] == "i16"
    assert check_scaled_dpas("hf8", "bf8", "bf16", cri) is None
    assert "accumulates" in (check_scaled_dpas("hf8", "hf8", "f16", cri) or "")
    assert "cannot multiply" in (check_scaled_dpas("hf8", "e2m1", "f32", cri) or "")
    assert "no scaled DPAS" in (check_scaled_dpas("hf8", "hf8", "f32", target("bmg")) or "")
