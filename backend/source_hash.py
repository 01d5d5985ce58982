"""A digest of everything that determines what a kernel compiles to, except Triton itself.

Triton hashes only its own sources into a kernel's cache key, so the plugin must hash its own.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import metadata
from pathlib import Path

import triton_xe
from triton_xe import knobs
from triton_xe.runtime import checked_files

LIBRARIES = ("triton", "llvmlite", "xdsl")
SKIPPED = ("tools", "runtime")
"""Parts of the package that do not change the compiled code."""


def source_files() -> list[tuple[str, str]]:
    """(name below `triton_xe`, file) of each source that affects compilation, sorted."""
    roots = ((Path(triton_xe.__file__).parent, ""), (Path(__file__).parent, "backend/"),
             (_outer("lowering"), "lowering/"))
    return sorted((name, file) for root, prefix in roots
                  for name, file in checked_files.sources_below(str(root), prefix)
                  if not name.startswith(SKIPPED))


def _outer(name: str) -> Path:
    """Folder of `triton_xe.<name>`, without importing it: inside the package, or next to it."""
    import importlib.util

    spec = importlib.util.find_spec(f"triton_xe.{name}")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"triton_xe.{name} is missing; reinstall triton-xe")
    return Path(spec.origin).parent


@functools.cache
def source_hash() -> str:
    """The digest, computed once per process, because loaded modules do not change with their
    files.
    """
    return checked_files.cached_digest(
        knobs.cache_dir() / "sources",
        [__file__, str(triton_xe.__file__), *map(library_path, LIBRARIES)],
        lambda: [file for _, file in source_files()], lambda: _digest(source_files()))


def library_path(name: str) -> str:
    """The first module of a library, which differs between its versions."""
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
