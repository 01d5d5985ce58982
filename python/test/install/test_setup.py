"""`triton-xe setup` next to torch builds that bring another Triton, in each order."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from python.test.install.wheels import ROOT, Environment, wheels
from triton_xe.tools import installation
from triton_xe.tools.cli import command_names
from triton_xe.tools.commands import doctor

UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
XE, XPU = "triton-xe", "torch==2.13.0+xpu"
ORDERS = {
    "torch first": [("install", XPU), ("install", XE)],
    "plugin first": [("install", XE), ("install", XPU)],
    "both at once": [("install", XPU, XE)],
    "torch alone": [("install", XPU)],
    "rival removed": [("install", XPU), ("install", XE), ("uninstall", "-y", "triton-xpu")],
    "rival removed before": [("install", XPU), ("uninstall", "-y", "triton-xpu"), ("install", XE)],
    "older torch": [("install", "torch==2.8.0+xpu"), ("install", XE)],
    "torch updated": [("install", "torch==2.11.0+xpu"), ("install", XE), ("install", XPU)],
    "stock removed": [("install", XE), ("uninstall", "-y", "triton")],
}
QUICK = "torch first"
REST = ("rival removed", "older torch", "stock removed")
"""The others end as one of these, in another order, and run with --full."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for wheel in wheels():
        wheel.write(folder)
    return Environment(tmp_path_factory.mktemp("environment"), folder)


@pytest.fixture
def environment(made):
    made.clear()
    return made


def seen(environment):
    return installation.examine([str(environment.site)])


@pytest.mark.rest
def test_a_whole_installation_is_left_alone(environment):
    environment.pip("install", XE, "torch==2.13.0+cpu")
    assert installation.findings(seen(environment)) == []
    done = environment.setup("--yes")
    assert (done.returncode, done.stdout) == (
        0, "nothing to do: triton 3.9.0 is complete, and nothing shadows it\n")


@pytest.mark.parametrize("order", [
    pytest.param(order, id=name, marks=(
        pytest.mark.rest if name in (QUICK, *REST) else pytest.mark.slow))
    for name, order in ORDERS.items()])
def test_stock_triton_becomes_whole_in_each_order(environment, order):
    for words in order:
        environment.pip(*words)
    assert installation.findings(seen(environment))
    done = environment.setup("--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert installation.findings(seen(environment)) == []
    assert environment.owners() == {"stock"}
    assert not (environment.site / "triton/backends/intel").exists()
    assert installation.steps(seen(environment)) == []


@pytest.mark.rest
def test_nothing_changes_without_consent(environment):
    environment.pip("install", XPU)
    before = sorted(environment.site.rglob("*"))
    dry = environment.setup("--dry-run")
    assert dry.returncode == 0
    assert dry.stdout.splitlines() == [
        "found    triton-xpu 3.7.2 is installed: it has the same folder `triton/` as stock Triton "
        "and registers the backend `intel` too",
        "found    stock Triton is not installed",
        "step 1   uninstall triton-xpu 3.7.2 (what it shares with stock Triton comes back below)",
        "step 2   remove backends/intel, which stock Triton has not",
        "step 3   install stock Triton 3.9.0 whole (no other package is touched)",
        "step 4   tell pip that torch's requirement triton-xpu==3.7.2 is met (a distribution "
        "without files that says so)",
    ]
    refused = environment.setup()
    assert (refused.returncode, "--yes does not ask" in refused.stdout) == (1, True)
    assert sorted(environment.site.rglob("*")) == before


@pytest.mark.rest
def test_a_later_install_of_torch_keeps_the_stand_in(environment):
    environment.pip("install", XPU)
    assert environment.setup("--yes").returncode == 0
    environment.pip("install", "--force-reinstall", "--no-deps", XPU)
    environment.pip("install", XPU)
    assert environment.owners() == {"stock"}
    environment.pip("check")


@pytest.mark.rest
@pytest.mark.skipif(not UV, reason="pip install uv")
def test_environments_without_pip_are_changed_by_uv(made, tmp_path):
    environment = Environment(tmp_path / "environment", made.wheelhouse, UV)
    environment.pip("install", XPU, XE)
    done = environment.setup("--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert environment.owners() == {"stock"}
    assert not (environment.site / "triton/backends/intel").exists()
    environment.pip("check")
    environment.pip("install", XPU)
    assert environment.owners() == {"stock"}
    assert environment.setup("--undo", "--yes").returncode == 0
    assert [str(p) for p in seen(environment).rivals] == ["triton-xpu 3.7.2"]


@pytest.mark.rest
def test_another_torch_asks_for_another_stand_in(environment):
    environment.pip("install", "torch==2.11.0+xpu")
    assert environment.setup("--yes").returncode == 0
    environment.pip("install", "--no-deps", "torch==2.13.0+xpu")
    assert environment.setup("--yes").returncode == 0
    assert [str(p) for p in seen(environment).stand_ins] == ["triton-xpu 3.7.2"]
    environment.pip("install", "torch==2.13.0+cpu")
    assert installation.findings(seen(environment)) == ["the stand-in triton-xpu 3.7.2 is for "
                                                        "another torch"]
    assert environment.setup("--yes").returncode == 0
    assert seen(environment).stand_ins == ()


@pytest.mark.rest
def test_what_was_replaced_comes_back(environment):
    environment.pip("install", XPU)
    assert environment.setup("--yes").returncode == 0
    assert environment.setup("--undo", "--yes").returncode == 0
    back = seen(environment)
    assert [str(p) for p in back.rivals] == ["triton-xpu 3.7.2"]
    assert back.stand_ins == ()
    assert environment.setup("--undo").stdout == "nothing to undo\n"


@pytest.mark.rest
def test_metadata_without_its_files_is_removed(environment):
    environment.pip("install", XPU, XE)
    rival = next(environment.site.glob("triton_xpu-*.dist-info"))
    (rival / "RECORD").unlink()
    assert environment.setup("--yes").returncode == 0
    assert environment.owners() == {"stock"}
    assert not (rival / "entry_points.txt").exists()


@pytest.mark.rest
@pytest.mark.parametrize("harm", ["missing", "other text, same size"])
def test_a_damaged_file_is_found(environment, harm):
    environment.pip("install", XE)
    file = environment.site / "triton/compiler/compiler.py"
    if harm == "missing":
        file.unlink()
    else:
        file.write_text(file.read_text().replace("stock", "stick"))
    assert installation.findings(seen(environment)) == [
        "1 files of stock triton 3.9.0 are missing or another package's, among them "
        "triton/compiler/compiler.py"]
    assert environment.setup("--yes").returncode == 0
    assert environment.owners() == {"stock"}


def test_pip_says_why_it_fails():
    step = installation.Step("fail", ("install", "triton==9.9.9", "--no-index"))
    with pytest.raises(installation.DeviceError, match=r"triton==9\.9\.9.*run `triton-xe setup`"):
        step.run()


def test_doctor_names_the_command():
    """With each mixed state's sentence."""
    said = ["triton-xpu 3.7.2 is installed: ..."]
    report = doctor.examine(lambda: {"loads": "", "findings": said})
    assert not report.can_run
    page = doctor.page(report)
    assert page.startswith("triton-xe doctor: kernels CANNOT run")
    assert said[0] in page
    assert "run `triton-xe setup`" in page


def test_doctor_asks_a_new_process_for_triton():
    fails = "raise ImportError('cannot import name intel')"
    assert doctor.triton_report(fails) == {"loads": "", "findings": [
        "`import triton` does not load this plugin: ImportError: cannot import name intel"]}
    assert doctor.triton_report()["loads"].endswith("loads this plugin")


def test_the_commands_of_the_page_exist():
    page = (ROOT / "docs" / "install.md").read_text()
    asked = set(re.findall(r"(?m)(?:^|`)triton-xe ([a-z]+)", page))
    assert asked == {"doctor", "setup"} & set(command_names())
    assert set(re.findall(r"`(--[a-z-]+)` (?:only|brings)", page)) == {"--dry-run", "--undo"}
