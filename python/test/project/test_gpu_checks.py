"""`triton-xe doctor --gpu`: its checks on the simulator, on an erring device, and on the driver."""

import json
import os
import signal
import sys
import time

import numpy as np
import pytest

from triton_xe.runtime.simulator.interface import SimulatedDevice
from triton_xe.tools import cli, gpu_checks, intel
from triton_xe.tools.gpu_checks import isolation
from triton_xe.tools.gpu_checks.bench import BUILT, FAILED, NOT_RUN, PASSED, SKIPPED, WRONG, Wrong

QUICK = ("vector-add", "grid", "masks", "block-store", "dpas", "dpas-rounding", "atomics",
         "ordering", "conversions", "arithmetic", "functions", "integers", "fp64")
"""Those that take the simulator least; the whole list is `triton-xe doctor --gpu`'s."""


class Erring(SimulatedDevice):
    """A device that gives back one wrong bit of each array."""

    def copy_to_host(self, array, pointer):
        super().copy_to_host(array, pointer)
        array.reshape(-1).view(np.uint8)[-1] ^= 0x41


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["bmg", "dg2"])
def test_the_simulator_passes(target):
    results = gpu_checks.run_here(SimulatedDevice(target), (*QUICK, "recording"))
    found = {result.check: result for result in results}
    assert set(found) == {*QUICK, "recording"}
    lacking = {"block-store", "fp64"} if target == "dg2" else set()
    assert {name: r.detail for name, r in found.items()
            if r.state != (SKIPPED if name in lacking else PASSED)} == {}


def test_products_without_matrix_units():
    (found,) = gpu_checks.run_here(SimulatedDevice("mtl"), ("registers",))
    assert (found.state, found.detail) == (PASSED, "")


def test_each_check_notices_a_wrong_bit():
    found = {r.check: r.state for r in gpu_checks.run_here(Erring("bmg"), QUICK)}
    assert found == dict.fromkeys(QUICK, WRONG)


def test_the_names_are_all_there():
    names = [check.name for check in gpu_checks.checks()]
    assert set(QUICK) < set(names)
    assert len(set(names)) == len(names) == 28


TIMED = ("timer", "launch-cost", "bandwidth")
"""Checks that ask for times of events, for each of which the driver waits 5 s here."""


@pytest.mark.intel_driver
@pytest.mark.parametrize(("target", "more"), [
    ("bmg", ()), pytest.param("dg2", ("recording",), marks=pytest.mark.rest),
    pytest.param("bmg", TIMED, marks=pytest.mark.slow)])
def test_intels_driver_takes_every_step(target, more, tmp_path):
    names = (*QUICK, "identity", "memory", "cached-code", "graph", *more)
    program = (
        "import json\n"
        "from triton_xe.runtime.opening import open_device\n"
        "from triton_xe.tools import gpu_checks\n"
        f"found = gpu_checks.run_here(open_device('gpu'), {names})\n"
        "print(json.dumps([[each.check, each.state, each.detail] for each in found]))\n")
    done = intel.level_zero_environment(target).run(
        "-c", program, extra={"TRITON_XE_CACHE": str(tmp_path)}, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    lacking = {"block-store", "fp64"} if target == "dg2" else set()
    assert [each for each in found if each[1] != (SKIPPED if each[0] in lacking else BUILT)] == []
    assert len(found) == len(names)


def test_without_a_gpu(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("TRITON_XE_LEVEL_ZERO", "/no/loader")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--gpu"]) == 3
    out, err = capsys.readouterr()
    assert out.count(f"{NOT_RUN}: no GPU\n") == len(gpu_checks.checks())
    assert err.startswith("no check was run: the Level Zero loader /no/loader")
    assert cli.main(["doctor", "--gpu", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["packages"]["triton"]
    assert {each["state"] for each in document["checks"]} == {NOT_RUN}
    assert list(tmp_path.iterdir()) == []


def test_with_a_gpu(capsys, tmp_path):
    from triton_xe.tools.commands import doctor

    machine = {"devices": [{"name": "card", "target": "bmg"}]}
    results = [gpu_checks.Result("fine", PASSED), gpu_checks.Result("wrong", WRONG, "why")]
    assert doctor.check_gpu(False, tmp_path / "out.json", machine, iter(results)) == 1
    assert "1 of 2 hold; please attach" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())["checks"]
    assert found == [each.to_json() for each in results]


def test_each_check_has_a_process_of_its_own():
    """One ends by a signal, one does not end, one cannot open its device, one prints."""
    def dies(bench):
        os.write(2, b"a fault\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def wrong(bench):
        raise Wrong("why")

    runs = {"fine": lambda bench: os.write(1, b"noise"), "wrong": wrong, "dies": dies,
            "hangs": lambda bench: time.sleep(60), "fine again": lambda bench: None}
    checks = [gpu_checks.Check(name, name, run) for name, run in runs.items()]
    hangs = [check for check in checks if check.name == "hangs"]
    found = [*isolation.run_each([x for x in checks if x not in hangs],
                             lambda: SimulatedDevice("bmg"), 60),
             *isolation.run_each(hangs, lambda: SimulatedDevice("bmg"), 0.5)]
    assert {each.check: (each.state, each.detail) for each in found} == {
        "fine": (PASSED, ""), "wrong": (WRONG, "why"),
        "dies": (FAILED, "its process ended with -9: a fault"),
        "hangs": (FAILED, "did not end within 0.5 s"), "fine again": (PASSED, "")}
    (closed,) = isolation.run_each(checks[:1], lambda: SimulatedDevice("none"), 10)
    assert (closed.check, closed.state) == ("fine", FAILED)
    assert closed.detail.startswith("its process ended with 1: triton_xe.errors.")


def test_two_processes_share_the_checks_of_an_emulated_gpu(monkeypatch):
    """Results come in the order of the checks; a process that is gone is a finding."""
    worker = """
import json, sys
from triton_xe.tools.gpu_checks.bench import Result
for name in sys.argv[1:]:
    if name == "gone": sys.exit(7)
    print(json.dumps(Result(name, "passed").to_json()), flush=True)
"""
    names = ("a", "b", "c", "gone", "d")
    monkeypatch.setenv("TRITON_XE_EMULATED", "a socket")
    found = [(each.check, each.state, each.detail)
             for each in gpu_checks.isolated(names, (sys.executable, "-c", worker))]
    assert found == [
        ("a", PASSED, ""), ("b", PASSED, ""), ("c", PASSED, ""),
        ("gone", FAILED, "the process that runs the checks ended with 7"), ("d", PASSED, "")]
