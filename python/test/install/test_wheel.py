"""The sdist and the wheel: what is in them, and a kernel run from the wheel alone."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

pytestmark = pytest.mark.rest
ROOT = Path(__file__).parents[3]
KERNEL = '''
import triton
import triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)
'''
LAUNCH = '''
import numpy as np
import triton_xe
from triton_xe import runtime

device = runtime.open_device("sim:bmg")
kernel = runtime.load_folder("double", device)
x = np.arange(100, dtype=np.float32)
held = runtime.put(device, x)
kernel((1,), held, x.size)
print(triton_xe.__file__, (runtime.get(device, held, x.shape, x.dtype) == 2 * x).all())
'''


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(sdist, wheel), the wheel made from the unpacked sdist."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check",
         "--outdir", str(out), str(ROOT)],
        check=True, capture_output=True,
    )
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(
            archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))))
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"triton_xe"}
    assert not [name for name in names if "/test" in name or name.endswith(".pyc")]
    assert {name.split("licenses/")[1] for name in names if "/licenses/" in name} == {
        "LICENSE", "third_party/level_zero/LICENSE"}
    assert metadata["License-Expression"] == "MIT"
    for field in ("Summary", "Requires-Python", "Classifier", "Project-URL", "Keywords"):
        assert metadata[field], field


def test_the_sdist_has_what_a_packager_needs(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("python/test/conftest.py", "docs/architecture.md", "examples/matmul.py",
                 "third_party/level_zero/include/ze_api.h", "CHANGELOG.md", "Makefile", "setup.py"):
        assert name in names, name


def test_each_source_of_the_package_is_in_the_wheel(built):
    with zipfile.ZipFile(built[1]) as archive:
        held = set(archive.namelist())
    for top, prefix in (("triton_xe", ""), *((t, "triton_xe/") for t in (
            "backend", "lowering", "runtime"))):
        for file in (ROOT / top).rglob("*.py"):
            assert prefix + file.relative_to(ROOT).as_posix() in held


def test_a_kernel_runs_from_the_installed_wheel(built, tmp_path):
    """In an environment of its own, the dependencies taken from this one."""
    venv.create(tmp_path / "environment", with_pip=False)
    python = str(tmp_path / "environment/bin/python")
    site = next((tmp_path / "environment").glob("lib/python*/site-packages"))
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(site)
    paths = [p for p in sys.path if p.endswith("site-packages")] or [
        sysconfig.get_path("purelib")]
    (site / "dependencies.pth").write_text("\n".join(paths) + "\n")
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "launch.py").write_text(LAUNCH)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*words):
        done = subprocess.run(
            [python, *words], capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "triton_xe.tools.cli", "compile", "kernel.py::double", "--target", "bmg",
        "--out", "double", "--signature", "x=*fp32:16 n=i32 BLOCK=128")
    assert run("launch.py") == f"{site / 'triton_xe' / '__init__.py'} True\n"
    assert '"can_run": true' in run("-m", "triton_xe.tools.cli", "doctor", "--json")
