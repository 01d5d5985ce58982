"""A cheaper digest of Triton, for the keys of its cache.

Triton reads all of its half a gigabyte, which takes half a second of each process that compiles.
Here its compiled library counts by size and time of the last change, and its sources by their
contents, whose digest is cached (see `checked_files.kept_digest`).
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triton_xe import knobs
from triton_xe.runtime import checked_files


def keep_triton_key(module: Any) -> None:
    """Replace `triton_key` of `triton.runtime.cache` with a function that reads less."""
    made = module.triton_key
    if hasattr(made, "is_kept"):
        return
    root = Path(module.__file__).parents[1]
    folders = [root / name for name in ("compiler", "backends", "language")]

    def sources() -> list[str]:
        return [file for each in folders for _, file in checked_files.sources_below(str(each))]

    @functools.cache
    def kept() -> str:
        libraries = _libraries(root / "_C")
        digest = checked_files.kept_digest(
            knobs.cache_dir() / "toolkits", [module.__file__, *libraries], sources,
            lambda: digest_of([module.__file__, *sources()], libraries))
        return f"{getattr(module, '__version__', '')}-{digest}"

    functools.update_wrapper(kept, made).is_kept = True  # type: ignore[attr-defined]
    module.triton_key = kept


def digest_of(sources: Iterable[str], libraries: Iterable[str]) -> str:
    """Digest of the contents of sources, and of the sizes and times of libraries."""
    digest = hashlib.sha256()
    for file in sorted(sources):
        digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
    for at in map(os.stat, libraries):
        digest.update(f"{at.st_size} {at.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _libraries(folder: Path) -> list[str]:
    """Triton's compiled library, if it is there."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [str(folder / name) for name in names if name.startswith("libtriton.")]
