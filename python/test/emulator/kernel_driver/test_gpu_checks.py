"""`triton-xe doctor --gpu` on the emulated GPU: the checks that are made for a real card."""

import json
import sys

import pytest

from triton_xe.tools import gpu_checks
from triton_xe.tools.gpu_checks.bench import NOT_DECIDED, PASSED, SKIPPED

pytestmark = pytest.mark.intel_driver
BLOCKS = {"block-load", "block-store", "block-prefetch"}
LACKING = {"dg2": BLOCKS | {"fp64"}, "arl-h": BLOCKS,
           "mtl": BLOCKS | {"dpas", "dpas-rounding", "matmul-rate"}}
QUICK = {
    "bmg": ("vector-add", "identity", "memory", "cached-code", "graph", "recording", "timer",
            "masks", "dpas", "dpas-rounding", "ordering", "launch-cost"),
    "pvc": ("dpas", "block-prefetch"), "dg2": ("dpas", "masks"), "arl-h": ("identity",),
    "cri": ("vector-add", "recording", "timer", "dpas", "work-group"), "nvl-p": ("masks",),
}
"""Those that take least; --full runs all."""


def expected(check, device):
    if check.name in LACKING.get(device, ()):
        return SKIPPED
    return NOT_DECIDED if check.only_silicon else PASSED


@pytest.mark.sample(3)
@pytest.mark.parametrize("device", list(QUICK))
def test_quick_checks_pass(emulate, device):
    names = QUICK[device]
    done = emulate(sys.executable, "-m", "triton_xe.tools.gpu_checks", *names, device=device)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    states = {each["check"]: (each["state"], each["detail"]) for each in found}
    assert {name: state for name, (state, _) in states.items()} == {
        check.name: expected(check, device) for check in gpu_checks.checks()
        if check.name in names}, (states, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("device", [
    "bmg", "lnl", "ptl", "pvc", "dg2", "mtl", "arl-h", "nvl-p", "cri"])
def test_every_check_passes_or_is_for_silicon_to_decide(emulate, device, tmp_path):
    file = tmp_path / "report.json"
    done = emulate(sys.executable, "-m", "triton_xe.tools.cli", "doctor", "--gpu", "--report",
                   str(file), device=device, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["check"]: each["state"] for each in json.loads(file.read_text())["checks"]}
    assert found == {check.name: expected(check, device) for check in gpu_checks.checks()}
