"""Test the wheel on another Python or processor: `python python/dev/other_machines.py [NAME ...]`.

Each of `MACHINES` is the wheel, with its requirements, and an interpreter.  If this machine has
no such interpreter, it is unpacked from Debian's packages into the cache folder.  That needs root
and debootstrap, and for another processor qemu-user-static and a cross compiler
(`apt-get install debootstrap qemu-user-static gcc-aarch64-linux-gnu`).  A machine that cannot be
had is skipped by name.  Torch is not installed there: the sample of tests uses numpy arrays.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from triton_xe import knobs

ROOT = Path(__file__).parents[2]
COPIED = ("benchmarks", "examples", "python", "pyproject.toml")
TESTS = ("pytest", "hypothesis", "scipy", "ml_dtypes")
SAMPLE = ("dialects", *(f"backend/test_{name}.py" for name in (
    "code_cache", "launch_conditions", "plugin", "refusals", "two_drivers", "versions")),
    "simulator/widen/test_simulated_matmul.py")


class Missing(Exception):
    """Says why a machine cannot be had."""


@dataclass(frozen=True)
class Machine:
    """A Python of a Debian release and architecture, and what runs there."""

    python: str
    suite: str
    architecture: str
    """Debian's name of it."""
    platform: str
    """The wheel's name of it."""
    run: tuple[str, ...]
    wheels: str = "manylinux_2_28"
    compiler: str = ""

    @property
    def is_foreign(self) -> bool:
        return not self.platform.endswith(platform.machine())


MACHINES = {
    "python3.14": Machine(
        "3.14", "testing", "amd64", "linux_x86_64",
        ("-m", "pytest", "-q", "-p", "no:warnings", *(f"python/test/{name}" for name in SAMPLE))),
    "arm64": Machine(
        "3.11", "bookworm", "arm64", "linux_aarch64",
        ("-c", "import platform, triton_xe, triton_xe.backend.compiler\n"
               "from triton_xe.runtime import native\n"
               "assert native.launch and native.threads\n"
               "print('imported on', platform.machine(), platform.python_version())"),
        compiler="aarch64-linux-gnu-gcc"),
}


def wheel(machine: Machine, folder: Path) -> Path:
    """Build the wheel for a machine, with a cross compiler for another processor."""
    given = os.environ.copy()
    if machine.is_foreign:
        if shutil.which(machine.compiler) is None:
            raise Missing(f"there is no {machine.compiler}")
        given |= {"CC": machine.compiler, "LDSHARED": f"{machine.compiler} -shared",
                  "_PYTHON_HOST_PLATFORM": machine.platform.replace("_", "-", 1)}
    source = folder / "source"  # without libraries that were built for this machine
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(
        ".*", "__pycache__", "*.so", "build", "docs", "python"))
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)],
        env=given)
    (found,) = folder.glob(f"*{machine.platform}.whl")
    return found


def packages(machine: Machine, built: Path, folder: Path) -> None:
    """Install the wheel and its requirements for a machine into a folder."""
    tags = [machine.platform, *(f"{name}_{machine.platform.partition('_')[2]}" for name in (
        machine.wheels, "manylinux_2_27", "manylinux_2_17", "manylinux2014"))]
    wanted = [str(built), *(() if machine.is_foreign else TESTS)]
    run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder),
         "--only-binary", ":all:", "--implementation", "cp", "--python-version", machine.python,
         *(word for tag in tags for word in ("--platform", tag)), *wanted])


def interpreter(name: str, machine: Machine, work: Path) -> list[str]:
    """The command of a machine's interpreter."""
    here = shutil.which(f"python{machine.python}")
    if here and not machine.is_foreign:
        return [here]
    root = knobs.cache_dir() / "machines" / name
    python = root / f"usr/bin/python{machine.python}"
    if not python.exists():
        _unpack(machine, root)
    if machine.is_foreign:
        emulator = shutil.which(f"qemu-{machine.platform.partition('_')[2]}-static")
        if emulator is None:
            raise Missing("there is no qemu-user-static")
        return [emulator, "-L", str(root), str(python)]
    loader = next(root.glob("usr/lib*/ld-linux-*"))
    libraries = root / f"usr/lib/{machine.platform.partition('_')[2]}-linux-gnu"
    script = work / "interpreter"
    script.write_text(f"#!/bin/sh\nPYTHONHOME={root}/usr exec {loader} --argv0 {script} "
                      f'--library-path {libraries} {python} "$@"\n')
    script.chmod(0o755)
    return [str(script)]


def _unpack(machine: Machine, root: Path) -> None:
    """Unpack an interpreter and the libraries that it needs; nothing of it is configured."""
    if os.geteuid() or shutil.which("debootstrap") is None:
        raise Missing(f"there is no Python {machine.python}, and Debian's needs root and "
                      "debootstrap")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        run(["debootstrap", "--foreign", f"--arch={machine.architecture}", "--variant=minbase",
             f"--include=python{machine.python}", machine.suite, folder])
        for package in sorted(Path(folder).glob("var/cache/apt/archives/*.deb")):
            run(["dpkg-deb", "-x", str(package), folder])
        Path(folder).rename(root)
        Path(folder).mkdir()  # for the context's end


def run(command: list[str], *, env: dict[str, str] | None = None) -> None:
    """Run a command that is needed; `Missing` with its last line if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise Missing(f"{Path(command[0]).name} says: {lines[-1]}")


def run_on(name: str, machine: Machine) -> int:
    """Run a machine's program; return its status."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        python = interpreter(name, machine, work)
        packages(machine, wheel(machine, work), work / "packages")
        for entry in COPIED:
            copy = shutil.copytree if (ROOT / entry).is_dir() else shutil.copy
            copy(ROOT / entry, work / entry)
        return subprocess.run([*python, *machine.run], cwd=work, env=os.environ | {
            "PYTHONPATH": str(work / "packages"), "TRITON_CACHE_DIR": str(work / "cache"),
        }).returncode


def main() -> int:
    failures = 0
    for name in sys.argv[1:] or MACHINES:
        try:
            status = run_on(name, MACHINES[name])
        except Missing as reason:
            print(f"{name}: skipped: {reason}", flush=True)
            continue
        print(f"{name}: {'failed' if status else 'passed'}", flush=True)
        failures += bool(status)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
