"""Build C++ libraries once, and find them again.

A library is in `<cache>/torch_xpu/<key>/`, where the key covers torch's version and ABI, the
processor, the compiler flags and the sources.  The compiler is not part of the key.  Any compiler
of the same ABI gives an equal library, and a machine that lost its compiler keeps its libraries.
The compiler is recorded next to the library, with a checksum, so that a truncated file is rebuilt
and never loaded.  Only one process builds; the others wait for it and then load its library.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from triton_xe import knobs
from triton_xe.errors import DeviceError
from triton_xe.runtime import checked_files

SOURCES = Path(__file__).parent / "shim"
FLAGS = ("-O1", "-fPIC", "-fvisibility=hidden", "-w", "-DAT_PER_OPERATOR_HEADERS")


class Torch(NamedTuple):
    """The torch to build for: its folder, version, and C++ ABI (1 is the new one)."""

    folder: Path
    version: str
    cxx11_abi: int

    @property
    def standard(self) -> str:
        """The C++ standard of its headers."""
        numbers = tuple(int(part) for part in self.version.split(".")[:2])
        return "-std=c++20" if numbers >= (2, 14) else "-std=c++17"


class Recipe(NamedTuple):
    """Sources of a library."""

    name: str
    units: tuple[tuple[str, ...], ...]
    """Sources that are compiled together: reading torch's headers takes most of the time."""
    headers: tuple[str, ...] = ()
    what: str = "the simulated xpu device"
    generated: Callable[[Torch], dict[str, str]] = lambda torch: {}
    """Generated headers, by their path in the folder `include` beside the library."""

    @property
    def sources(self) -> tuple[Path, ...]:
        return tuple(SOURCES / name for name in (
            *self.headers, *(name for unit in self.units for name in unit)))


DEVICE = Recipe("libtriton_xe_torch_xpu.so", (
    ("twin.cpp", "kernels.cpp", "operators/contractions.cpp", "operators/batch_norm.cpp",
     "operators/group_norm.cpp", "operators/composites.cpp", "operators/collectives.cpp",
     "operators/widening.cpp", "operators/precision.cpp", "capture.cpp", "profiler.cpp"),
    ("locks.cpp", "devices.cpp", "generators.cpp", "addresses.cpp", "memory.cpp", "fallback.cpp",
     "api.cpp"),
), ("shim.h", "operators/widening.h", "compat.h"))


@cache
def installed_torch() -> Torch:
    import torch

    return Torch(
        Path(torch.__file__).parent, str(torch.__version__), int(torch._C._GLIBCXX_USE_CXX11_ABI))


def key(torch: Torch, recipe: Recipe = DEVICE) -> str:
    """Name of the folder that holds the library for this torch and these sources."""
    kind = f"{recipe.name} {torch.version} {torch.cxx11_abi} {platform.machine()}"
    sources = [__file__, *map(str, recipe.sources)]
    return checked_files.cached_digest(
        _digest_file(kind), sources, lambda: [], lambda: _key(torch, recipe))


def _digest_file(kind: str) -> Path:
    """File that caches digests, which would take a millisecond of each `import torch`."""
    return knobs.cache_dir() / "torch_xpu" / "digests" / hashlib.sha256(
        kind.encode()).hexdigest()[:16]


def _key(torch: Torch, recipe: Recipe) -> str:
    """Name of a library's build: it depends on torch, the machine, flags and sources."""
    digest = hashlib.sha256()
    for part in (torch.version, str(torch.cxx11_abi), platform.machine(), " ".join(FLAGS)):
        digest.update(part.encode() + b"\0")
    for path in recipe.sources:
        digest.update(path.read_bytes() + b"\0")
    return f"{torch.version}-{digest.hexdigest()[:16]}"


def library_path(torch: Torch | None = None, recipe: Recipe = DEVICE) -> Path:
    chosen = torch or installed_torch()
    return knobs.cache_dir() / "torch_xpu" / key(chosen, recipe) / recipe.name


def find(torch: Torch | None = None, recipe: Recipe = DEVICE) -> Path | None:
    """The library, if it is built, intact, and writable by this user only; else None."""
    path = library_path(torch, recipe)
    files = [str(path), str(_record_path(path))]
    try:
        checked = checked_files.cached_digest(
            _digest_file("checked"), files, lambda: [], lambda: checked_library(path))
    except OSError:
        return None
    return path if checked == _WHOLE and not _foreign(path) else None


_WHOLE = "whole"


def checked_library(path: Path) -> str:
    """"whole" if a library is the one that was built, else "missing" or "damaged"."""
    library, record = map(checked_files.read_own, (path, _record_path(path)))
    if library is None or record is None:
        return "missing"
    try:
        return _WHOLE if json.loads(record)["sha256"] == digest_of(library) else "damaged"
    except (ValueError, KeyError, TypeError):
        return "damaged"


def _foreign(library: Path) -> str:
    """A sentence if another user could replace the library that is loaded, else ""."""
    for folder in (library.parent.parent, library.parent):
        if folder.exists() and not checked_files.folder_is_own(folder):
            return (f"{folder} belongs to another user, or others may write it; remove it, or set "
                    "TRITON_XE_CACHE to a folder of your own")
    return ""


def build(recipe: Recipe = DEVICE, *, quiet: bool = False) -> Path:
    """Build the library if needed, and return its path; `DeviceError` if that fails."""
    torch = installed_torch()
    found = find(torch, recipe)
    if found is not None:
        return found
    path = library_path(torch, recipe)
    if why := _foreign(path):
        raise DeviceError(f"{recipe.what} cannot be built: {why}")
    compiler = find_compiler()
    with _lock(path.parent.parent):
        found = find(torch, recipe)
        if found is not None:
            return found
        if not quiet:
            print(
                f"triton-xe: building {recipe.what} for torch {torch.version} "
                "(once, about half a minute)", file=sys.stderr, flush=True)
        build_into(path, compiler, torch, recipe)
    return path


def find_compiler() -> str:
    """The C++ compiler: `CXX`, else g++, clang++ or c++ on the path; `DeviceError` without one."""
    wanted = knobs.cxx()
    for name in (wanted,) if wanted else ("g++", "clang++", "c++"):
        found = shutil.which(name)
        if found:
            return found
    missing = f"CXX={wanted} was not found" if wanted else "g++, clang++ and c++ are all missing"
    remedy = "unset CXX or correct it" if wanted else "install g++ (apt install g++)"
    raise DeviceError(
        f"device \"xpu\" on torch's CPU build needs a C++ compiler once, and {missing}: {remedy}, "
        "then run: python -m triton_xe.runtime.torch_xpu")


def build_into(path: Path, compiler: str, torch: Torch, recipe: Recipe = DEVICE) -> None:
    """Compile a library to `path`; `DeviceError` says why that fails."""
    try:
        path.parent.mkdir(0o755, exist_ok=True)
        _make(path, compiler, torch, recipe)
    except (OSError, DeviceError) as error:
        why = _full(path.parent) or str(error)
        raise DeviceError(f"{recipe.what} cannot be built: {why}") from error


def _make(path: Path, compiler: str, torch: Torch, recipe: Recipe) -> None:
    """Compile and link a library, and write it with a record of its digest."""
    for name, content in recipe.generated(torch).items():
        file = path.parent / "include" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        work = Path(folder)
        with ThreadPoolExecutor(len(recipe.units)) as pool:
            objects = list(pool.map(
                lambda pair: _compile(
                    compiler, torch, work / f"unit{pair[0]}.cpp", pair[1], path.parent / "include"),
                enumerate(recipe.units)))
        library = work / recipe.name
        link = [compiler, "-shared", "-o", str(library), *map(str, objects),
                f"-L{torch.folder / 'lib'}", "-ltorch_cpu", "-lc10"]
        _run(link)
        checksum = digest_of(library.read_bytes())
        record = {"sha256": checksum, "compiler": compiler, "torch": torch.version}
        text = work / "record.json"
        text.write_text(json.dumps(record))
        library.chmod(0o755)  # whatever the umask: what others can write is not loaded
        text.chmod(0o644)
        os.replace(library, path)
        os.replace(text, _record_path(path))


def command_for(
    compiler: str, torch: Torch, unit: Path, names: tuple[str, ...], generated: Path
) -> list[str]:
    """Write a unit that includes the sources `names`, and return the command that compiles it."""
    unit.write_text("".join(f'#include "{SOURCES / name}"\n' for name in names))
    include = torch.folder / "include"
    return [
        compiler, torch.standard, *FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={torch.cxx11_abi}",
        f"-I{generated}", f"-I{include}", f"-I{include / 'torch/csrc/api/include'}",
        f"-I{include / 'kineto'}", "-c", str(unit)]


def _compile(
    compiler: str, torch: Torch, unit: Path, names: tuple[str, ...], generated: Path
) -> Path:
    target = unit.with_suffix(".o")
    _run([*command_for(compiler, torch, unit, names, generated), "-o", str(target)])
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    first = errors[0].strip() if errors else f"exit status {done.returncode}"
    raise DeviceError(f"{command[0]} says: {first}")


NEEDED_BYTES = 64 << 20
"""Bytes that a build writes: objects, the library, and the compiler's temporary files."""


def _full(folder: Path) -> str:
    """A sentence if a disk that the build writes to is full; the compiler's error names none."""
    places = ((folder, "TRITON_XE_CACHE"), (Path(tempfile.gettempdir()), "TMPDIR"))
    for each, variable in places:
        free = shutil.disk_usage(each).free
        if free < NEEDED_BYTES:
            return (
                f"{each} has {free >> 20} MiB left and {NEEDED_BYTES >> 20} are needed; make "
                f"room, or set {variable} to another folder")
    return ""


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the build lock; the operating system releases it when the process ends."""
    import fcntl

    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)
        handle = (folder / "build.lock").open("w")
    except OSError as error:
        raise DeviceError(
            f"the simulated xpu device cannot be built in {folder}: {error.strerror}; set "
            "TRITON_XE_CACHE to a folder that can be written") from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _record_path(library: Path) -> Path:
    return library.with_suffix(".json")


def digest_of(library: bytes) -> str:
    """SHA-256 of a library."""
    return hashlib.sha256(library).hexdigest()
