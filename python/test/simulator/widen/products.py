"""Random products of the matrix unit: kernels in LLVM IR, and the images of their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from python.test.simulator.conftest import kernel_text
from triton_xe.hardware.dpas import PRECISION, Dpas
from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.definitions import dpas as definition
from triton_xe.runtime.opening import get, put
from triton_xe.runtime.simulator.interface import HostDevice

P = "ptr addrspace(1)"
SCALED = [
    ("hf8", "hf8", "f32"), ("bf8", "hf8", "f32"), ("hf8", "bf8", "bf16"), ("bf8", "bf8", "f32"),
    ("e2m1", "e2m1", "f32"), ("e2m1", "e2m1", "bf16"), ("f16", "f16", "f32"),
    ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"),
]
"""Types of A, B and the accumulator of products with scales."""
NARROW = [(a, b, c) for a in ("hf8", "bf8") for b in ("hf8", "bf8") for c in ("f32", "bf16")] + [
    ("e2m1", "e2m1", "f32"), ("e2m1", "e2m1", "bf16")]
"""Those of products without scales that Xe3P has and earlier devices lack."""
_SCALES_BYTES = 32
"""Bytes from the scales of one work-group to those of the next."""
_FLOATS = {"f32": (np.uint32, 0x7F800000), "f16": (np.uint16, 0x7C00), "bf16": (np.uint16, 0x7F80)}
"""Type of a sum -> its bits, and infinity."""


def scales_type(shape: Dpas) -> str:
    return "<2 x i8>" if shape.scales == 2 else "i8"


def text(shape: Dpas, scales: str = "") -> str:
    """A kernel whose work-groups multiply the operands at their numbers.

    `scales` is the LLVM type of its scales; without it the product has none.
    """
    tc, ta, tb = shape.llvm_types
    images = {"a": (ta, shape.a_bytes), "b": (tb, shape.b_bytes),
              "c": (tc, 128 * shape.bits_of("c") // 8),
              "x": (scales, _SCALES_BYTES), "y": (scales, _SCALES_BYTES)}
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
    return kernel_text(", ".join(f"{P} %p{n}" for n in used), "\n".join(lines), lanes=16,
                  other="\n".join(declared))


def random_images(shape: Dpas, count: int, seed: int) -> list[Any]:
    """A, B, C and the scales of A and B for each of `count` work-groups.

    A quarter of them have any bits, the others those of small numbers.
    """
    random = np.random.default_rng(seed)
    sizes = (shape.a_bytes, shape.b_bytes, 128 * shape.bits_of("c") // 8, 16 * shape.scales,
             16 * shape.scales)
    made = [random.integers(0, 256, (count, size), dtype=np.uint8) for size in sizes]
    tame = slice(count // 4, None)
    for image, kind in zip(made[:3], (shape.a, shape.b, shape.accumulator), strict=True):
        if kind not in _FLOATS:
            image[tame] &= 0xBB
            continue
        bits, _ = _FLOATS[kind]
        values = random.standard_normal(image[tame].size // np.dtype(bits).itemsize).astype(
            np.float16 if kind == "f16" else np.float32)
        values = values.view(np.uint32) >> 16 if kind == "bf16" else values.view(bits)
        image[tame] = values.astype(bits).view(np.uint8).reshape(image[tame].shape)
    for image in made[3:]:
        image[tame] = random.integers(115, 140, image[tame].shape, dtype=np.uint8)
    return made


def defined(images: list[Any], shape: Dpas) -> Any:
    """Results of the definition for each work-group's images; three images have no scales."""
    a, b, c, *scales = images
    if not scales:
        return np.stack([definition.dpas(z, x, y, shape) for x, y, z in zip(a, b, c, strict=True)])
    return np.stack([definition.scaled_dpas(z, x, y, *s, shape)
                     for x, y, z, *s in zip(a, b, c, *scales, strict=True)])


def multiply(device: HostDevice[Any], module: bytes, images: list[Any]) -> Any:
    """The sums after a launch of `text` with these images on a device."""
    given = images[:3]
    for scales in images[3:]:
        given.append(np.zeros((len(scales), _SCALES_BYTES), np.uint8))
        given[-1][:, : scales.shape[1]] = scales
    buffers = [put(device, each) for each in given]
    device.launch(device.load(module, "k"), (len(images[0]), 1, 1), [b.pointer for b in buffers])
    return get(device, buffers[2], given[2].shape, np.uint8)


def assert_same(got: Any, want: Any, accumulator: str) -> None:
    """Bit for bit, but any NaN equals any NaN."""
    kind, infinity = _FLOATS[accumulator]
    top = 1 << 8 * np.dtype(kind).itemsize - 1
    x, y = got.view(kind), want.view(kind)
    both = ((x & ~kind(top)) > infinity) & ((y & ~kind(top)) > infinity)
    np.testing.assert_array_equal(np.where(both, 0, x), np.where(both, 0, y))
