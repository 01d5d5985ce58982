"""`triton-xe toolchain [DIR]`: install Intel's compiler and driver on a machine without Intel GPU.

The tools are for looking at machine code and for tests; kernels run without them.  They (ocloc with
IGC, the Level Zero driver and loader, spirv-val, llvm-spirv) are installed into a separate Debian
root in DIR.  By default DIR is `toolchain` in the cache folder.  Nothing outside of DIR changes,
and the programs run there without chroot.  The command needs root and debootstrap, and takes about
a minute.  It does nothing if the system has Intel's tools or DIR is complete.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.tools import intel

NEEDED = (
    "usr/bin/ocloc-*", f"{intel.LIBRARIES}/libigc.so.2", f"{intel.LIBRARIES}/libze_intel_gpu.so.1",
    f"{intel.LIBRARIES}/libze_loader.so.1", "usr/bin/spirv-val", "usr/bin/llvm-spirv-*",
)
PACKAGES = ("intel-ocloc", "libigc2", "libze-intel-gpu1", "libze1", "spirv-tools")
OPENCL = ("intel-opencl-icd", "ocl-icd-libopencl1")
OPENCL_NEEDED = tuple(f"{intel.LIBRARIES}/{name}" for name in (
    "intel-opencl/libigdrcl.so", "libigdfcl.so.2", "libOpenCL.so.1"))
MARKER = ".triton-xe-toolchain"
"""File in the root that marks the folder as created by this command, so that it may be replaced."""

HELP = "install Intel's compiler and driver where there is no Intel GPU"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", nargs="?", type=Path,
                        help="folder; default: TRITON_XE_TOOLCHAIN, else in the cache folder")
    parser.add_argument("--opencl", action="store_true",
                        help="with Intel's OpenCL driver and compiler, 210 MB more")


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if the tools are installed afterwards; `DeviceError` gives the reason otherwise."""
    system = shutil.which("ocloc")
    if arguments.folder is None and system and intel.on_system("libze_loader.so.1"):
        print(f"this system has Intel's tools ({system}); nothing to do")
        return 0
    root = (arguments.folder or knobs.toolchain()).absolute()
    if is_complete(root, arguments.opencl):
        print(f"already complete: {root}")
        return 0
    check(root)
    root.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{root.name}.partial.", dir=root.parent))
    try:
        install(partial, root.with_name(f"{root.name}.log"), arguments.opencl)
        (partial / MARKER).touch()
        shutil.rmtree(root, ignore_errors=True)
        partial.chmod(0o755)
        partial.rename(root)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    print(f"done: {root}")
    return 0


def is_complete(root: Path, opencl: bool = False) -> bool:
    """True if every tool is in the root."""
    needed = (*NEEDED, *OPENCL_NEEDED) if opencl else NEEDED
    return all(any(root.glob(pattern)) for pattern in needed)


def check(root: Path) -> None:
    """Refuse an impossible installation before anything is created."""
    if root.exists() and any(root.iterdir()) and not (root / MARKER).exists():
        raise DeviceError(f"{root} holds something else; remove it or name another folder")
    if platform.machine() != "x86_64":
        raise DeviceError(f"Intel's tools exist for x86_64 only; this is {platform.machine()}")
    if shutil.which("debootstrap", path=search_path()) is None:
        raise DeviceError(
            "debootstrap is missing: install it (apt-get install debootstrap), or install Intel's "
            "packages intel-ocloc, libze-intel-gpu1 and libze1 on the system")
    if os.geteuid() != 0:
        raise DeviceError("debootstrap needs root; run: "
                          f"sudo {sys.executable} -m triton_xe.tools.cli toolchain {root}")


def install(root: Path, log: Path, opencl: bool = False) -> None:
    """Create the root, and print each step; the output of programs goes to the log."""
    log.write_text("")
    _step("making a Debian sid root", log, "debootstrap", "--variant=minbase", "sid", str(root))
    inside = ("chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
    _step("reading its list of packages", log, *inside, "apt-get", "-o",
          "Acquire::Check-Valid-Until=false", "update")
    found = _step("looking for llvm-spirv", log, *inside, "apt-cache", "search", "--names-only",
                  "^llvm-spirv-[0-9]+$").split()
    translators = [word for word in found if word.startswith("llvm-spirv-")]
    if not translators:
        raise DeviceError(f"Debian sid has no package llvm-spirv; see {log}")
    newest = max(translators, key=lambda name: int(name.rpartition("-")[2]))
    packages = (*PACKAGES, *(OPENCL if opencl else ()), newest)
    _step(f"installing {', '.join(packages)}", log, *inside, "apt-get", "install", "-y",
          "--no-install-recommends", *packages)
    _step("removing what was downloaded", log, *inside, "apt-get", "clean")
    if not is_complete(root, opencl):
        raise DeviceError(f"the packages are installed, but a tool is missing; see {log}")


def _step(what: str, log: Path, *command: str) -> str:
    print(f"{what} ...", flush=True)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        env={**knobs.process_environment(), "PATH": search_path()}, check=False)
    with log.open("a") as file:
        file.write(done.stdout)
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no message"])[-1]
        raise DeviceError(f"{what} failed: {last} (the whole of it: {log})")
    return done.stdout


def search_path() -> str:
    """PATH of the programs that install the tools, with those of root."""
    return f"{knobs.process_environment().get('PATH', '')}:/usr/sbin:/sbin"
