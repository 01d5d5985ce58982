"""The digest of Triton is kept, and made again when one of its files differs."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from triton.runtime import cache

from triton_xe.runtime import checked_files, toolkit_keys


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that changed just now are settled."""
    now = time.time
    monkeypatch.setattr(checked_files.time, "time", lambda: now() + 10)


def library(folder: Path, made: list[str]) -> tuple[ModuleType, Path]:
    """One of two sources, which digests the second."""
    source = folder / "language" / "core.py"
    for each in (folder / "runtime" / "cache.py", source, folder / "compiler" / "code.py",
                 folder / "backends" / "driver.py"):
        each.parent.mkdir(exist_ok=True)
        if not each.exists():
            each.touch()
    module: Any = ModuleType("library")
    module.__file__ = str(folder / "runtime" / "cache.py")

    def triton_key() -> str:
        made.append(hashlib.sha256(source.read_bytes()).hexdigest())
        return made[-1]

    module.triton_key = triton_key
    toolkit_keys.keep_triton_key(module)
    return module, source


def test_a_key_is_made_once_until_a_source_changes(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "cache"))
    later(monkeypatch)
    made: list[str] = []
    keys = [library(tmp_path, made)[0].triton_key() for _ in range(3)]
    assert len(made) == 1
    assert set(keys) == set(made)
    module, source = library(tmp_path, made)
    source.write_text("x = 1\n")
    assert module.triton_key() == hashlib.sha256(b"x = 1\n").hexdigest() == made[1]
    (source.parent / "added.py").touch()
    library(tmp_path, made)[0].triton_key()
    assert len(made) == 3


def test_the_key_is_that_of_triton() -> None:
    toolkit_keys.keep_triton_key(cache)
    kept = cache.triton_key
    assert kept() == kept.__wrapped__()
    toolkit_keys.keep_triton_key(cache)
    assert cache.triton_key is kept
