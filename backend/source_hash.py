"""A digest of everything that decides what a kernel compiles to, apart from Triton itself.

Triton hashes only its own sources into a kernel's cache key; the plugin's are up to the plugin.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import triton_xe
from triton_xe import knobs
from triton_xe.runtime import checked_files

LIBRARIES = ("triton", "llvmlite", "xdsl")
SKIPPED = ("tools", "runtime")
"""Parts of the package that do not change the compiled code."""
SETTLED_SECONDS = 2


def source_files() -> list[tuple[str, str]]:
    """(name below `triton_xe`, file) of each source that takes part in compiling, sorted."""
    roots = ((Path(triton_xe.__file__).parent, ""), (Path(__file__).parent, "backend/"),
             (_outer("lowering"), "lowering/"))
    return sorted((name, file) for root, prefix in roots
                  for name, file in _sources(str(root), prefix) if not name.startswith(SKIPPED))


def _sources(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _sources(entry.path, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".py"):
                yield prefix + entry.name, entry.path


def _outer(name: str) -> Path:
    """Where `triton_xe.<name>` lies, without importing it: inside the package, or beside it."""
    import importlib.util

    spec = importlib.util.find_spec(f"triton_xe.{name}")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"triton_xe.{name} is missing; reinstall triton-xe")
    return Path(spec.origin).parent


@functools.cache
def source_hash() -> str:
    """Once per process: the modules in memory do not change when their files do.

    The digest of the files' contents is kept beside what the file system says of them, which
    includes the time of the last change that nobody can set, and made again where that differs.
    Files that changed just now may change once more at what the system's clock calls the same time.
    """
    files = source_files()
    seen = [(file, os.stat(file))
            for file in (*(file for _, file in files), *map(_library, LIBRARIES))]
    signature = hashlib.sha256(repr([
        (name, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for name, at in seen
    ]).encode()).hexdigest()
    place = hashlib.sha256(files[0][1].encode()).hexdigest()[:16]
    kept = knobs.cache_dir() / "sources" / place
    known, _, digest = (checked_files.read(kept) or b"").decode(errors="replace").partition(" ")
    if known == signature:
        return digest
    digest = _digest(files)
    if max(at.st_ctime for _, at in seen) < time.time() - SETTLED_SECONDS:
        checked_files.write(kept, f"{signature} {digest}".encode())
    return digest


def _library(name: str) -> str:
    """The first module of a library: another version has another one."""
    import importlib.util

    spec = importlib.util.find_spec(name)
    return (spec and spec.origin) or "."


def _digest(files: list[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for name in LIBRARIES:
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    for name, file in files:
        digest.update(f"{name} {hashlib.sha256(Path(file).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
