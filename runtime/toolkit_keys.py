"""A cached digest of Triton, which each process that compiles would compute anew.

Triton reads all of its half a gigabyte for its digest, which takes half a second and does not
change (see `checked_files.kept_digest`).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triton_xe import knobs
from triton_xe.runtime import checked_files


def keep_triton_key(module: Any) -> None:
    """Cache the digest of `triton.runtime.cache`."""
    made: Callable[[], str] = module.triton_key
    if hasattr(made, "is_kept"):
        return
    root = Path(module.__file__).parents[1]
    folders = [root / name for name in ("compiler", "backends", "language")]

    def sources() -> list[str]:
        return [file for each in folders for _, file in checked_files.sources_below(str(each))]

    @functools.cache
    def kept() -> str:
        beside = [module.__file__, *_libraries(root / "_C")]
        return checked_files.kept_digest(knobs.cache_dir() / "toolkits", beside, sources, made)

    functools.update_wrapper(kept, made).is_kept = True  # type: ignore[attr-defined]
    module.triton_key = kept


def _libraries(folder: Path) -> list[str]:
    """Triton's compiled library, if it is there."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [str(folder / name) for name in names if name.startswith("libtriton.")]
