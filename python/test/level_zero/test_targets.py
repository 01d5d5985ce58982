"""IP versions of devices and the targets they get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.matmul import matmul_kernel
from python.test.filecheck import check_text
from python.test.level_zero.conftest import START
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import TARGETS, by_ip_version, nearest, target
from triton_xe.runtime.opening import get, open_device, put
from triton_xe.tools import cli
from triton_xe.tools.commands.compile import compile_kernel


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_found_by_its_ip_version(name: str) -> None:
    assert by_ip_version(TARGETS[name].ip_version) == (TARGETS[name], True)


@pytest.mark.parametrize(
    ("ip_version", "name", "known"),
    [
        ((12, 56, 5), "dg2", True), ((12, 57, 0), "dg2", True), ((12, 71, 4), "mtl", True),
        ((20, 2, 0), "bmg-g31", True), ((20, 4, 4), "lnl", True), ((20, 9, 0), "lnl", False),
        ((30, 0, 4), "ptl", True), ((30, 1, 0), "ptl", True), ((30, 4, 4), "nvl-s", True),
        ((30, 9, 0), "ptl", False), ((35, 11, 0), "cri", True), ((35, 12, 0), "nvl-p", False),
    ],
)
def test_relatives_and_newer_devices(
    ip_version: tuple[int, ...], name: str, known: bool
) -> None:
    found, is_known = by_ip_version(ip_version)
    assert (found.name, is_known) == (name, known)


def test_ponte_vecchio_without_matrix_unit() -> None:
    found, is_known = by_ip_version((12, 61, 7))
    assert (found.name, is_known) == ("pvc-no-dpas", True)
    assert not found.has_dpas
    assert not found.has_tf32_dpas
    assert found.has_block_2d


@pytest.mark.parametrize("ip_version", [(9, 0, 9), (12, 0, 0), (12, 10, 0)])
def test_older_devices_are_refused(ip_version: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError, match="older than Xe-HPG"):
        by_ip_version(ip_version)


def test_what_a_driver_does_not_say_an_unknown_device_does_not_have() -> None:
    sizes = (16, 32)
    everything = dict.fromkeys(("dpas", "block2d", "fp64"), True)
    assert nearest((30, 9, 0), sizes, **everything)[0] == TARGETS["ptl"]
    nothing = dict.fromkeys(everything, False)
    assert nearest((40, 1, 0), sizes, **nothing)[0].name == "nvl-p-no-dpas-no-block2d-no-fp64"
    assert nearest((20, 1, 0), sizes, **nothing) == (TARGETS["bmg"], True)
    assert nearest((0, 0, 0), (8, 16, 32), **everything)[0].name == "dg2"
    with pytest.raises(UnsupportedError, match="unknown Intel GPU 'ptl-no-luck'"):
        target("ptl-no-luck")


SIGNATURE = (
    "a_ptr=*fp16:16 b_ptr=*fp16:16 c_ptr=*fp16:16 M=i32:16 N=i32:16 K=i32:16 stride_am=i32:16 "
    "stride_ak=1 stride_bk=i32:16 stride_bn=1 stride_cm=i32:16 stride_cn=1 BLOCK_M=32 BLOCK_N=32 "
    "BLOCK_K=32 GROUP_M=4 ACTIVATION=''"
)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["pvc-no-dpas", "ptl-no-block2d", "bmg-no-dpas-no-block2d"])
def test_a_device_that_lacks_features_computes_the_same(name: str) -> None:
    kernel = compile_kernel(matmul_kernel, SIGNATURE, name, {"num_warps": 4})
    assert bool(kernel.metadata.n_dpas) is ("no-dpas" not in name)
    check_text(kernel.asm["llir"], "CHECK-NOT: LSC2DBlock")
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    device = open_device(f"sim:{name}")
    buffers = [put(device, each) for each in (a, b, np.zeros_like(a))]
    built = device.load(kernel.asm["spv"], kernel.name, build_flags=kernel.metadata.build_flags)
    values = [*(each.pointer for each in buffers), 64, 64, 64, 64, 64, 64]
    device.launch(built, (4, 1, 1), values)
    c = get(device, buffers[2], (64, 64), np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.abs(c - expected).max() < 0.05


def test_the_command_compiles_for_a_device_that_lacks_features(tmp_path: Path) -> None:
    kernel = f"{Path(__file__).parents[3] / 'examples/matmul.py'}::matmul_kernel"
    rest = ["--emit", "ttgir", "-o", str(tmp_path / "out"), "--signature", SIGNATURE]
    assert cli.main(["compile", kernel, "--target", "pvc-no-dpas", *rest]) == 0
    assert "xpu:pvc-no-dpas" in (tmp_path / "out").read_text()


FORGOTTEN = """
from triton_xe.hardware import target
del target.BY_RELEASE[30, 5]
"""
"""Makes a device that the driver knows unknown to the table."""


@pytest.mark.sample(2)
@pytest.mark.intel_driver
@pytest.mark.parametrize(
    ("chosen", "expected", "said"),
    [
        ({"ProductFamilyOverride": "nvls"}, ["nvl-s", True, True, True], ""),
        ({"ProductFamilyOverride": "cri"}, ["cri", True, True, True], ""),
        ({"ProductFamilyOverride": "nvlu"}, ["ptl", True, True, True], "30.5.4"),
        ({"OverrideHwIpVersion": str(12 << 22 | 61 << 14 | 7)},
         ["pvc-no-dpas", False, True, True], ""),
    ],
)
def test_newer_devices_on_the_driver(
    chosen: dict[str, str], expected: list[Any], said: str, on_driver: Any, tmp_path: Path
) -> None:
    path = tmp_path / "matmul.spv"
    kernel = compile_kernel(matmul_kernel, SIGNATURE, expected[0], {"num_warps": 4})
    path.write_bytes(kernel.asm["spv"])
    out = on_driver(
        f"""
        assert open_devices()[0] is device
        t = device.target
        out["target"] = [t.name, t.has_dpas, t.has_block_2d, t.has_fp64]
        kernel = device.load(open({str(path)!r}, "rb").read(), "matmul_kernel")
        memory = device.allocate(1 << 20)
        p = memory.pointer
        device.launch(kernel, (4, 1, 1), [p, p, p, 64, 64, 64, 64, 64, 64])
        device.synchronize()
        """,
        "pvc" if expected[0].startswith("pvc") else "ptl", chosen, start=FORGOTTEN + START,
    )
    assert out["target"] == expected
    warned = out["stderr"].count("is newer than this version of triton-xe: its kernels are those")
    assert (warned, f"(IP version {said})" in out["stderr"]) == ((1, True) if said else (0, False))
