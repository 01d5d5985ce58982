"""Products of fp8, as the matrix unit of Xe3P has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from triton_xe.hardware.dpas import check_dpas
from triton_xe.hardware.target import target
from triton_xe.intrinsics.definitions.conversions import unpack
from triton_xe.runtime.opening import get, open_device, put
from triton_xe.tools.commands.compile import compile_kernel

TYPES = {"hf8": torch.float8_e4m3fn, "bf8": torch.float8_e5m2}


@pytest.mark.parametrize("kind", TYPES)
def test_every_byte_is_torchs_number(kind: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    wanted = torch.from_numpy(every).view(TYPES[kind]).float().numpy()
    np.testing.assert_array_equal(unpack(every, kind), wanted)


@triton.jit
def product(a, b, c, SIZE: tl.constexpr, K: tl.constexpr):
    at, k = tl.arange(0, SIZE), tl.arange(0, K)
    x = tl.load(a + at[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * SIZE + at[None, :])
    tl.store(c + at[:, None] * SIZE + at[None, :], tl.dot(x, y))


NAMES = {"hf8": "fp8e4nv", "bf8": "fp8e5"}


@pytest.mark.covering
@pytest.mark.parametrize("name", ["cri", "nvl-p", "ptl"])
@pytest.mark.parametrize(("left", "right"), [("hf8", "hf8"), ("bf8", "bf8"), ("hf8", "bf8")])
def test_products(name: str, left: str, right: str) -> None:
    """Devices with products of fp8 multiply bytes; on others these become fp16 first."""
    signature = f"a=*{NAMES[left]}:16 b=*{NAMES[right]}:16 c=*fp32:16 SIZE=64 K=64"
    kernel = compile_kernel(product, signature, name, {"num_warps": 4})
    k = 32 if target(name).has_fp8_dpas else 16
    assert kernel.metadata.n_dpas == 64 * 64 * 64 // (8 * 16 * k) // 4
    random = np.random.default_rng(1)
    a, b = (torch.from_numpy(random.standard_normal((64, 64)).astype(np.float32)).to(TYPES[kind])
            for kind in (left, right))
    device = open_device(f"sim:{name}")
    given = [each.view(torch.uint8).numpy() for each in (a, b)]
    buffers = [put(device, each) for each in (*given, np.zeros((64, 64), np.float32))]
    built = device.load(kernel.asm["spv"], kernel.name, build_flags=kernel.metadata.build_flags)
    device.launch(built, (1, 1, 1), [each.pointer for each in buffers])
    wanted = (a.double() @ b.double()).float().numpy()
    np.testing.assert_allclose(get(device, buffers[2], (64, 64), np.float32), wanted, 1e-5, 1e-5)


@pytest.mark.parametrize(("a", "b", "reason"), [
    ("s8", "s8", None), ("s4", "u4", None), ("hf8", "bf8", None), ("f16", "f16", None),
    ("s8", "s4", "extend the narrow"), ("u2", "u2", "extend the narrow"),
])
def test_what_xe3p_multiplies(a: str, b: str, reason: str | None) -> None:
    said = check_dpas(a, b, "i32" if a[0] in "su" else "f32", target("cri"))
    assert reason in said if reason else said is None


def test_fp4_is_for_crescent_island_alone() -> None:
    assert check_dpas("e2m1", "e2m1", "f32", target("cri")) is None
    assert "has no fp4 DPAS" in (check_dpas("e2m1", "e2m1", "f32", target("nvl-p")) or "")
