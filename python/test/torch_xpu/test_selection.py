"""The policy that chooses the device, on invented machines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from python.test.counting import calls_of
from triton_xe.errors import DeviceError
from triton_xe.runtime.selection import Machine, decide, look, select


@pytest.mark.parametrize(("machine", "kind"), [
    (Machine(), "sim"),
    (Machine(torch="other"), "sim"),
    (Machine(intel_gpu=True), "gpu"),
    (Machine(intel_gpu=True, torch="xpu"), "gpu"),
    (Machine(intel_gpu=True, torch="xpu", other_gpu="NVIDIA"), "gpu"),
    (Machine(intel_gpu=True, torch="other"), "sim"),
    (Machine(intel_gpu=True, torch="other", other_gpu="NVIDIA"), "none"),
    (Machine(other_gpu="AMD"), "none"),
    (Machine(other_gpu="NVIDIA", torch="other"), "none"),
    (Machine(torch="xpu"), "none"),
])
def test_default(machine: Machine, kind: str) -> None:
    chosen = decide("", machine)
    assert chosen.kind == kind
    assert chosen.targets == (("bmg",) if kind == "sim" else ())
    assert chosen.reason


@pytest.mark.parametrize(("wish", "kind", "targets"), [
    ("gpu", "gpu", ()),
    ("sim", "sim", ("bmg",)),
    ("sim:pvc", "sim", ("pvc",)),
    ("sim:bmg,pvc,bmg", "sim", ("bmg", "pvc", "bmg")),
])
@pytest.mark.parametrize("machine", [Machine(), Machine(intel_gpu=True, other_gpu="NVIDIA")])
def test_wish_wins(wish: str, kind: str, targets: tuple[str, ...], machine: Machine) -> None:
    chosen = decide(wish, machine)
    assert (chosen.kind, chosen.targets) == (kind, targets)
    assert wish in chosen.reason


@pytest.mark.parametrize(("wish", "message"), [
    ("cuda", "TRITON_XE_DEVICE=cuda names no device"),
    ("sim:", "TRITON_XE_DEVICE=sim: names no device"),
    ("gpu:0", "names no device"),
    ("sim:b580", r"unknown device 'b580'; did you mean bmg .*known: dg2,"),
    ("sim:bmg,", "unknown device ''"),
    ("sim:" + ",".join(["bmg"] * 65), "names 65 devices"),
])
def test_bad_wish_is_refused(wish: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        decide(wish, Machine())


def test_reason_names_what_to_do() -> None:
    assert "TRITON_XE_DEVICE=sim" in decide("", Machine(other_gpu="NVIDIA")).reason
    assert "XPU build" in decide("", Machine(intel_gpu=True, torch="other")).reason


def machine_with(root: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return look(root)


INTEL = {"dev/dri/renderD128": "", "sys/class/drm/renderD128/device/vendor": "0x8086\n"}
LOADER = {"usr/lib/x86_64-linux-gnu/libze_loader.so.1": ""}
WSL = {"dev/dxg": "", "usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1": ""}


@pytest.mark.parametrize(("files", "intel_gpu", "other_gpu"), [
    ({}, False, ""),
    (INTEL, False, ""),
    (LOADER, False, ""),
    (INTEL | LOADER, True, ""),
    (INTEL | LOADER | {"sys/class/drm/renderD128/device/vendor": "0x10de"}, False, ""),
    ({"dev/nvidia0": ""}, False, "NVIDIA"),
    ({"proc/driver/nvidia/version": ""}, False, "NVIDIA"),
    ({"dev/kfd": ""}, False, "AMD"),
    (INTEL | LOADER | {"dev/nvidia0": ""}, True, "NVIDIA"),
    (WSL | LOADER, True, ""),
    (WSL, False, ""),
    (LOADER | {"dev/dxg": ""}, False, ""),
    (LOADER | {"dev/dxg": "", "usr/lib/wsl/lib/libcuda.so.1": ""}, False, "NVIDIA"),
])
def test_what_a_machine_has(
    files: dict[str, str], intel_gpu: bool, other_gpu: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRITON_XE_LEVEL_ZERO", raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    machine = machine_with(tmp_path, files)
    assert (machine.intel_gpu, machine.other_gpu) == (intel_gpu, other_gpu)


def test_level_zero_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = tmp_path / "elsewhere" / "libze_loader.so.1"
    monkeypatch.setenv("TRITON_XE_LEVEL_ZERO", str(loader))
    assert not machine_with(tmp_path, INTEL | LOADER).intel_gpu
    assert machine_with(tmp_path, {"elsewhere/libze_loader.so.1": ""}).intel_gpu


def test_choosing_is_cheap() -> None:
    select()
    assert calls_of(select) < 1000


def test_choosing_imports_nothing_heavy() -> None:
    script = (
        "import sys; from triton_xe.runtime.selection import select; select();"
        "print([n for n in ('torch', 'triton', 'numpy', 'xdsl', 'llvmlite') if n in sys.modules])")
    printed = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert printed.strip() == "[]"
