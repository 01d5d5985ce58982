"""A digest of everything that decides what a kernel compiles to, apart from Triton itself.

Triton hashes only its own sources into a kernel's cache key; the plugin's are up to the plugin.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import metadata
from pathlib import Path

import triton_xe

LIBRARIES = ("triton", "llvmlite", "xdsl")
SKIPPED = ("tools", "runtime")
"""Parts of the package that do not change the compiled code."""


def source_files() -> list[tuple[str, Path]]:
    """(name below `triton_xe`, file) of each source that takes part in compiling, sorted."""
    found: dict[str, Path] = {}
    package = Path(triton_xe.__file__).parent
    for root, prefix in ((package, ""), (Path(__file__).parent, "backend/"),
                         (_outer("lowering"), "lowering/")):
        for file in root.rglob("*.py"):
            found[prefix + file.relative_to(root).as_posix()] = file
    return sorted((n, f) for n, f in found.items() if not n.startswith(SKIPPED))


def _outer(name: str) -> Path:
    """Where `triton_xe.<name>` lies, without importing it: inside the package, or beside it."""
    import importlib.util

    spec = importlib.util.find_spec(f"triton_xe.{name}")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"triton_xe.{name} is missing; reinstall triton-xe")
    return Path(spec.origin).parent


@functools.cache
def source_hash() -> str:
    """Once per process: the modules in memory do not change when their files do."""
    digest = hashlib.sha256()
    for name in LIBRARIES:
        digest.update(f"{name} {metadata.version(name)}\n".encode())
    for name, file in source_files():
        digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
