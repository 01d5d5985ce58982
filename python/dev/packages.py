"""Run tests of libraries with Triton kernels: `python python/dev/packages.py [NAME=FOLDER ...]`.

The libraries are installed from the package index into a virtual environment of their own, on top
of the one that runs this script.  Their archives there have no tests, so a sample of these comes
from the sources of the same version.  These are the tag of the repository, or a checkout FOLDER.
If neither can be had, the sample is skipped by name.  Tests of this project that use the libraries
always run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from triton_xe import knobs

OURS = Path(__file__).parents[1] / "test/packages"
"""Tests of this project that use the libraries."""
ENVIRONMENT = {"TRITON_XE_DEVICE": "sim", "BNB_TEST_DEVICE": "xpu"}


@dataclass(frozen=True)
class Package:
    """A library, the folders of its sources that its tests need, and pytest's arguments."""

    name: str
    version: str
    repository: str
    tag: str
    folders: tuple[str, ...]
    sample: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Requirements that its archive does not name."""


PACKAGES = (
    Package("helion", "1.5.1", "https://github.com/pytorch/helion", "v1.5.1",
            ("test", "examples"),
            ("test/test_atomic_ops.py", "test/test_masking.py", "test/test_grid.py"),
            also=("cloudpickle",)),
    Package("bitsandbytes", "0.50.2", "https://github.com/bitsandbytes-foundation/bitsandbytes",
            "0.50.2", ("tests",), ("tests/test_ops.py", "-k", "xpu and 4bit and not gemv")),
)


def environment() -> Path:
    """The interpreter of an environment that also sees the packages of this one."""
    folder = Path(sys.prefix) / "packages"
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        purelib = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        (purelib / "below.pth").write_text(
            f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return python


def installed(python: Path, package: Package) -> bool:
    """Install a library unless it is there; False, with a sentence, if the index has it not."""
    wanted = [f"{package.name}=={package.version}", *package.also]
    done = subprocess.run([python, "-m", "pip", "install", "-q", *wanted],
                          capture_output=True, text=True)
    if done.returncode:
        print(f"{package.name}: skipped, it cannot be installed: "
              f"{(done.stderr.strip().splitlines() or ['pip failed'])[-1]}", flush=True)
    return not done.returncode


def sources(package: Package, given: dict[str, str]) -> Path | None:
    """A folder with the library's sources: the one given, or a clone of the tag, fetched once."""
    if package.name in given:
        return Path(given[package.name])
    kept = knobs.cache_dir() / "package_tests" / f"{package.name}-{package.version}"
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["git", "clone", "-q", "--depth", "1", "--branch", package.tag, package.repository,
         str(kept)], capture_output=True, text=True, env=os.environ | {"GIT_TERMINAL_PROMPT": "0"})
    if not done.returncode:
        return kept
    print(f"{package.name}: its own tests are skipped, because {package.repository} cannot be "
          f"reached; {package.name}=FOLDER names a checkout of {package.tag}", flush=True)
    return None


def run_sample(python: Path, package: Package, folder: Path) -> int:
    """Run a sample of a library's tests from a copy without its modules; return pytest's status."""
    with tempfile.TemporaryDirectory() as work:
        for name in package.folders:
            shutil.copytree(folder / name, Path(work) / name)
        return pytest(python, "-p", "no:cacheprovider", *package.sample, folder=work)


def pytest(python: Path, *arguments: str, folder: str | None = None) -> int:
    """Run pytest with the simulated device; return its status."""
    return subprocess.run([python, "-m", "pytest", "-q", *arguments], cwd=folder,
                          env=os.environ | ENVIRONMENT).returncode


def main() -> int:
    given = dict(argument.split("=", 1) for argument in sys.argv[1:])
    python = environment()
    found = [package for package in PACKAGES if installed(python, package)]
    statuses = [pytest(python, "--durations=3", str(OURS))]
    for package in found:
        folder = sources(package, given)
        if folder is not None:
            statuses.append(run_sample(python, package, folder))
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
