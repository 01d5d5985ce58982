"""The scaled DPAS in the simulator, and the DPAS of fp4, against their definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.dpas import ACCUMULATOR_LLVM, PRECISION, Dpas, check_scaled_dpas
from triton_xe.hardware.target import target
from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.definitions import dpas as definition
from triton_xe.runtime.simulator.device import SimulatedDevice

Text = Callable[..., str]
P = "ptr addrspace(1)"
CASES = [("hf8", "hf8", "f32"), ("bf8", "hf8", "f32"), ("hf8", "bf8", "bf16"),
         ("bf8", "bf8", "f32"), ("e2m1", "e2m1", "f32"), ("e2m1", "e2m1", "bf16"),
         ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"),
         ("bf16", "bf16", "bf16")]
EACH = 50


def text(kernel: Text, shape: Dpas, scales: str) -> str:
    """Each work-group multiplies the operands at its number."""
    tc, ta, tb = shape.llvm_types
    images = {"a": (ta, shape.a_bytes), "b": (tb, shape.b_bytes),
              "c": (tc, 128 * shape.bits_of("c") // 8), "x": (scales, 32), "y": (scales, 32)}
    used = {n: held for n, held in images.items() if scales or n in "abc"}
    lines = ["  %g = call i64 @_Z12get_group_idj(i32 0)"]
    declared = []
    for name, (kind, size) in used.items():
        lines += [f"  %o{name} = mul i64 %g, {size}",
                  f"  %q{name} = getelementptr i8, {P} %p{name}, i64 %o{name}",
                  f"  %{name} = call {kind} @llvm.genx.GenISA.simdBlockRead.{name}({P} %q{name})"]
        declared.append(f"declare {kind} @llvm.genx.GenISA.simdBlockRead.{name}({P})")
    codes = [PRECISION[shape.a], PRECISION[shape.b]]
    row, types, tail = (genisa.SCALED_DPAS, [tc, ta, tb, scales, scales], codes) if scales else (
        genisa.DPAS, [tc, ta, tb], [*codes, 8, 8])
    given = [f"{t} %{n}" for t, n in zip(types, used if not scales else "cabxy", strict=True)]
    if not scales:
        given = [f"{tc} %c", f"{ta} %a", f"{tb} %b"]
    given += [f"i32 {n}" for n in tail] + ([] if scales else ["i1 false"])
    symbol = row.symbol(tc, [*types, *["i32"] * len(tail)])
    lines += [f"  %d = call {tc} @{symbol}({', '.join(given)})",
              f"  call void @llvm.genx.GenISA.simdBlockWrite.d({P} %qc, {tc} %d)"]
    declared += [f"declare {tc} @{symbol}({', '.join(g.rpartition(' ')[0] for g in given)})",
                 f"declare void @llvm.genx.GenISA.simdBlockWrite.d({P}, {tc})"]
    return kernel(", ".join(f"{P} %p{n}" for n in used), "\n".join(lines), lanes=16,
                  other="\n".join(declared))


def inputs(shape: Dpas, seed: int) -> list[Any]:
    """Images for each work-group: any bits in a quarter of them, else bits of small numbers."""
    random = np.random.default_rng(seed)
    sizes = (shape.a_bytes, shape.b_bytes, 128 * shape.bits_of("c") // 8, 16 * shape.scales,
             16 * shape.scales)
    made = [random.integers(0, 256, (EACH, size), dtype=np.uint8) for size in sizes]
    tame = slice(EACH // 4, None)
    for image, kind in zip(made[:3], (shape.a, shape.b, shape.accumulator), strict=True):
        count = image[tame].size * 8 // {"f32": 32, "f16": 16, "bf16": 16}.get(kind, 8)
        values = random.standard_normal(count).astype(np.float32)
        bits = {"f32": values, "f16": values.astype(np.float16),
                "bf16": (values.view(np.uint32) >> 16).astype(np.uint16)}.get(kind)
        image[tame] = image[tame] & 0xBB if bits is None else (
            bits.view(np.uint8).reshape(image[tame].shape))
    for image in made[3:]:
        image[tame] = random.integers(115, 140, image[tame].shape, dtype=np.uint8)
    return made


def run(name: str, written: str, images: list[Any]) -> None:
    device = SimulatedDevice(name)
    loaded = device.load(written.encode(), "k")
    device.launch(loaded, (EACH, 1, 1), [image.ctypes.data for image in images])


def assert_same(got: Any, want: Any, accumulator: str) -> None:
    """Bit for bit, but any NaN equals any NaN."""
    kind, infinity = {"f32": (np.uint32, 0x7F800000), "f16": (np.uint16, 0x7C00),
                      "bf16": (np.uint16, 0x7F80)}[accumulator]
    top = 1 << 8 * np.dtype(kind).itemsize - 1
    x, y = got.view(kind), want.view(kind)
    both = ((x & ~kind(top)) > infinity) & ((y & ~kind(top)) > infinity)
    np.testing.assert_array_equal(np.where(both, 0, x), np.where(both, 0, y))


@pytest.mark.sample(5)
@pytest.mark.parametrize(("a", "b", "accumulator"), CASES)
def test_scaled_products(kernel: Text, a: str, b: str, accumulator: str) -> None:
    shape = Dpas(a, b, accumulator)
    images = inputs(shape, 3)
    padded = [np.zeros((EACH, 32), np.uint8) for _ in range(2)]
    for wide, scales in zip(padded, images[3:], strict=True):
        wide[:, : scales.shape[1]] = scales
    want = np.stack([definition.scaled_dpas(c, x, y, s, t, shape)
                     for x, y, c, s, t in zip(*images, strict=True)])
    run("cri", text(kernel, shape, "<2 x i8>" if shape.scales == 2 else "i8"),
        [*images[:3], *padded])
    assert_same(images[2], want, accumulator)


@pytest.mark.parametrize("accumulator", ["f32", "bf16"])
def test_products_of_fp4(kernel: Text, accumulator: str) -> None:
    shape = Dpas("e2m1", "e2m1", accumulator)
    images = inputs(shape, 4)[:3]
    want = np.stack([definition.dpas(c, x, y, shape) for x, y, c in zip(*images, strict=True)])
    run("cri", text(kernel, shape, ""), images)
    assert_same(images[2], want, accumulator)


def test_definition_against_double_precision() -> None:
    shape = Dpas("e2m1", "e2m1", "f32")
    a, b, c, x, y = (image[-1] for image in inputs(shape, 5))
    codes = [np.stack([raw & 15, raw >> 4], -1).reshape(-1) for raw in (a, b)]
    numbers = [np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[code & 7] * (1 - 2.0 * (code >> 3))
               for code in codes]
    rows = numbers[0].reshape(8, 64)
    columns = numbers[1].reshape(8, 16, 8).transpose(0, 2, 1).reshape(64, 16)
    left, right = (np.exp2(s.reshape(2, 16) - 127.0).repeat(32, 0) for s in (x, y))
    want = c.view(np.float32).reshape(8, 16) + (rows * left.T[:8]) @ (columns * right)
    got = definition.scaled_dpas(c, a, b, x, y, shape).view(np.float32).reshape(8, 16)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(("name", "kinds", "scales", "reason"), [
    ("ptl", ("hf8", "hf8", "f32"), "i8", "ptl has no scaled DPAS"),
    ("nvl-p", ("e2m1", "e2m1", "f32"), "<2 x i8>", "nvl-p has no fp4 DPAS"),
    ("cri", ("e2m1", "e2m1", "f32"), "i8", "scale_a of a DPAS of e2m1 by e2m1 has 2 bytes"),
    ("cri", ("s8", "s8", "i32"), "i8", "multiplies floats of 4 to 16 bits, not s8"),
])
def test_what_hardware_would_not_report(
    kernel: Text, name: str, kinds: tuple[str, str, str], scales: str, reason: str
) -> None:
    written = text(kernel, Dpas(*kinds), scales)
    with pytest.raises(SimulatorTrap, match=reason):
        run(name, written, [np.zeros((EACH, 1024), np.uint8)] * 5)


def test_table() -> None:
    cri = target("cri")
    assert ACCUMULATOR_LLVM["bf16"] == "i16"
    assert check_scaled_dpas("hf8", "bf8", "bf16", cri) is None
    assert "accumulates" in (check_scaled_dpas("hf8", "hf8", "f16", cri) or "")
    assert "cannot multiply" in (check_scaled_dpas("hf8", "e2m1", "f32", cri) or "")
    assert "no scaled DPAS" in (check_scaled_dpas("hf8", "hf8", "f32", target("bmg")) or "")
