"""Check the C++ of the simulated device against the headers of versions of torch, not installed.

    python -m benchmarks.torch_headers                  the oldest, the newest and one in between
    python -m benchmarks.torch_headers 2.11.0 2.12.1    these
    python -m benchmarks.torch_headers --all --record   all of docs/install.md, which it writes

The headers come from torch's wheel on the package index.  Requests of ranges fetch the 9 MB of its
500 MB that hold them, and the cache folder keeps them.  A version that is not kept and cannot be
fetched is skipped by name.  Each compiler of `COMPILERS` that is installed checks the syntax alone.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import compatibility
from triton_xe import knobs
from triton_xe.runtime.torch_xpu import compilation

COMPILERS = ("g++", "g++-11", "g++-12", "g++-13", "g++-14", "clang++", "clang++-14", "clang++-19")
HEADERS = "torch/include/"
PIECE = 4 << 20
"""Bytes per request; a wheel's headers are adjacent and take three requests."""
TIMEOUT = 60


class RemoteFile(io.RawIOBase):
    """A file at an address, of which only the ranges that are read are fetched."""

    def __init__(self, address: str) -> None:
        self.address, self._at = address, 0
        with self._ask(method="HEAD") as answer:
            self.size = int(answer.headers["Content-Length"])

    def _ask(self, *, method: str = "GET", headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(self.address, method=method, headers=headers or {})
        return urllib.request.urlopen(request, timeout=TIMEOUT)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self.size - self._at)
        if count <= 0:
            return 0
        asked = {"Range": f"bytes={self._at}-{self._at + count - 1}"}
        with self._ask(headers=asked) as answer:
            found = answer.read()
        if len(found) != count:
            raise OSError(f"{self.address} does not answer requests of ranges")
        buffer[:count] = found
        self._at += count
        return count


def headers(version: str, address: str = "") -> Path:
    """The folder `torch` with the headers of a version, fetched once from its wheel."""
    kept = knobs.cache_dir() / "torch_headers" / version
    if kept.is_dir():
        return kept / "torch"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        with opened(address or address_of(version)) as file, zipfile.ZipFile(file) as wheel:
            names = sorted((i for i in wheel.infolist() if i.filename.startswith(HEADERS)),
                           key=lambda i: i.header_offset)
            wheel.extractall(folder, names)
        Path(folder).rename(kept)
        Path(folder).mkdir()  # for the context's end
    return kept / "torch"


def opened(address: str) -> Any:
    """A wheel on this machine, or at an address of the web."""
    if address.startswith("file:"):
        return open(urllib.request.url2pathname(address.removeprefix("file://")), "rb")
    return io.BufferedReader(RemoteFile(address), PIECE)


def address_of(version: str) -> str:
    """The address of torch's wheel for this Python, as pip resolves it; downloads no wheel."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed",
         "--quiet", "--report", "-", f"torch=={version}"], capture_output=True, text=True)
    if done.returncode:
        raise OSError((done.stderr.strip().splitlines() or ["pip finds no wheel"])[-1])
    (found,) = json.loads(done.stdout)["install"]
    return str(found["download_info"]["url"])


def accepted(
    version: str, folder: Path, compilers: list[str],
    units: Sequence[tuple[str, ...]] = compilation.DEVICE.units,
) -> Iterator[tuple[str, str]]:
    """Each compiler's name and version, and its first error in the units or nothing."""
    torch = compilation.Torch(folder, version, 1)
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(2) as pool:
        def check(job: tuple[int, str, tuple[str, ...]]) -> str:
            number, compiler, names = job
            command = compilation.command_for(
                compiler, torch, Path(work) / f"unit{number}.cpp", names, Path(work))
            done = subprocess.run([*command, "-fsyntax-only"], capture_output=True, text=True)
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            return (errors or [f"status {done.returncode}"])[0] if done.returncode else ""

        jobs = [(k, compiler, names) for k, (compiler, names) in enumerate(
            (compiler, names) for compiler in compilers for names in units)]
        found = list(pool.map(check, jobs))
    for k, compiler in enumerate(compilers):
        mine = found[k * len(units):(k + 1) * len(units)]
        yield version_of(compiler), next(filter(None, mine), "")


def version_of(compiler: str) -> str:
    """A compiler's name and major version: `g++ 12`."""
    first = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    number = re.search(r"(\d+)\.\d+\.\d+", first)
    name = "clang" if "clang" in first else "g++"
    return f"{name} {number[1] if number else ''}".strip()


def installed_compilers() -> list[str]:
    """One name of each compiler that is there."""
    found = {version_of(name): name for name in COMPILERS if shutil.which(name)}
    return [found[version] for version in sorted(found)]


def sample(versions: list[str]) -> list[str]:
    """The newest, the oldest, and the one in the middle."""
    return [versions[0], versions[len(versions) // 2], versions[-1]]


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", help="versions of torch")
    parser.add_argument("--all", action="store_true", help="all versions of docs/install.md")
    parser.add_argument("--record", action="store_true", help="write that table")
    arguments = parser.parse_args()
    known = list(dict.fromkeys(row["torch"] for row in compatibility.rows()))
    versions = arguments.versions or (known if arguments.all else sample(known))
    compilers, failures = installed_compilers(), 0
    for version in versions:
        try:
            folder = headers(version)
        except OSError as error:
            print(f"torch {version}: skipped, its headers cannot be fetched: {error}", flush=True)
            continue
        results = dict(accepted(version, folder, compilers))
        for compiler, message in results.items():
            print(f"torch {version}, {compiler}: {message or 'accepted'}", flush=True)
        failures += sum(map(bool, results.values()))
        if arguments.record:
            compatibility.record_compilers(
                version, [name for name, message in results.items() if not message], commit())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
