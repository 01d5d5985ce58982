"""`triton-xe doctor` says what there is and whether kernels can run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from triton_xe.hardware.target import TARGETS
from triton_xe.runtime import selection
from triton_xe.tools import intel
from triton_xe.tools.cli import main
from triton_xe.tools.commands import doctor as doctor_command


@pytest.fixture(scope="module")
def triton_here() -> dict[str, Any]:
    """Answer of a new process about Triton, which depends on no device."""
    return doctor_command.triton_report()


QUICK = ("dg2", "mtl", "pvc", "bmg", "ptl", "cri")
"""A device of each architecture; the others run with --rest."""


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.rest) for name in TARGETS])
def test_kernels_run_on_every_simulated_device(
    name: str, triton_here: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", f"sim:{name}")
    found = doctor_command.examine(lambda: triton_here)
    assert found.can_run
    assert found.trial["target"] == name
    assert found.choice == {
        "kind": "sim", "targets": [name], "reason": f"TRITON_XE_DEVICE=sim:{name} asks for it",
        "on_request": False,
    }


def test_page_without_a_driver_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "gpu")
    monkeypatch.setenv("TRITON_XE_LEVEL_ZERO", "/nowhere/libze_loader.so.1")
    monkeypatch.setenv("TRITON_XE_OCLOC", "/nowhere/ocloc")
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path_factory.mktemp("cache") / "new"))
    assert main(["doctor"]) == 1
    page = capsys.readouterr().out
    assert page.startswith("triton-xe doctor: kernels CANNOT run")
    assert "the GPU: TRITON_XE_DEVICE=gpu asks for it" in page
    assert "/nowhere/libze_loader.so.1 cannot be loaded" in page
    assert "ocloc: missing" in page
    for hint in (doctor_command.DRIVER_HINT, doctor_command.OCLOC_HINT):
        assert hint in page
    assert "writable True" in page


def test_beside_another_vendors_gpu_the_plugin_is_inactive_on_purpose(
    triton_here: dict[str, Any]
) -> None:
    """Nothing is wrong, and the simulator is tried all the same."""
    beside = selection.Machine(other_gpu="NVIDIA", torch="other")
    report = doctor_command.examine(
        lambda: triton_here, lambda: selection.decide("", beside))
    assert report.can_run
    page = doctor_command.page(report)
    assert page.startswith(
        "triton-xe doctor: inactive on purpose, until TRITON_XE_DEVICE=sim is set")
    assert "none: this machine has an NVIDIA GPU" in page
    assert doctor_command.ON_REQUEST_HINT in page
    assert "a vector addition gave the right numbers" in page


def test_wrong_choice_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRITON_XE_DEVICE", "cuda")
    assert main(["doctor"]) == 1
    page = capsys.readouterr().out
    assert "TRITON_XE_DEVICE=cuda names no device" in page
    assert "no device is chosen" in page


def test_wrong_numbers_are_noticed(triton_here: dict[str, Any]) -> None:
    report = doctor_command.examine(lambda: triton_here)
    simulated = selection.decide("sim", selection.Machine())
    report.trial = doctor_command.run_trial(simulated, lambda device: 3)
    assert not report.can_run
    assert "3 of 1024 numbers are wrong" in doctor_command.page(report)


@pytest.mark.intel_driver
@pytest.mark.parametrize("name", ["bmg", "dg2"])
def test_on_the_driver_that_executes_nothing_the_trial_fails_and_devices_are_listed(
    name: str,
) -> None:
    reason = intel.driver_available()
    if reason:
        pytest.skip(reason)
    session = intel.level_zero_environment(name)
    code = "import sys; from triton_xe.tools.cli import main; sys.exit(main(['doctor', '--json']))"
    done = session.run("-c", code, extra={"TRITON_XE_DEVICE": "gpu"})
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 1
    (device,) = found["level_zero"]["devices"]
    assert (device["target"], device["note"]) == (name, "")
    assert device["xe_cores"] == TARGETS[name].xe_cores
    assert "1024 numbers are wrong" in found["trial"]["why"]
