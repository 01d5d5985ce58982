"""Cached digests of Triton and of torch, which each process that compiles would compute anew.

Triton reads all of its half a gigabyte for its digest, and torch three thousand sources: half a
second each.  The digests do not change (see `checked_files.kept_digest`).
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
    if _is_kept(module, "triton_key"):
        return
    root = Path(module.__file__).parents[1]
    _keep(module, "triton_key", [root / name for name in ("compiler", "backends", "language")],
          lambda: _named(root / "_C", "libtriton."))


def keep_torch_key(module: Any) -> None:
    """Cache the digest of `torch._inductor.codecache`, which is bytes."""
    if _is_kept(module, "torch_key"):
        return
    root = Path(module.__file__).parents[1]
    _keep(module, "torch_key", [root], lambda: [
        *_named(root, "", ".so"), root / "_inductor/script.ld",
        root / "_inductor/codegen/aoti_runtime/interface.cpp"])


def _named(folder: Path, start: str, end: str = "") -> list[Path]:
    """Sorted files of a folder whose names have this start and end."""
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [folder / name for name in names
            if name.startswith(start) and name.endswith(end)]


def _is_kept(module: Any, name: str) -> bool:
    """True if there is no such digest, or it is already cached."""
    made = getattr(module, name, None)
    return made is None or hasattr(made, "is_kept")


def _keep(module: Any, name: str, folders: list[Path], others: Callable[[], list[Path]]) -> None:
    made: Callable[[], str | bytes] = getattr(module, name)

    def text() -> str:
        key = made()
        return key.hex() if isinstance(key, bytes) else key

    def sources() -> list[str]:
        return [file for each in folders for _, file in checked_files.sources_below(str(each))]

    @functools.cache
    def kept() -> str | bytes:
        beside = [module.__file__, *(str(each) for each in others() if each.exists())]
        key = checked_files.kept_digest(knobs.cache_dir() / "toolkits", beside, sources, text)
        return bytes.fromhex(key) if name == "torch_key" else key

    functools.update_wrapper(kept, made).is_kept = True  # type: ignore[attr-defined]
    setattr(module, name, kept)
