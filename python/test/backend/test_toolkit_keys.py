"""The digest of Triton is kept, and made again when one of its files differs."""

from __future__ import annotations

import os
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


def key(folder: Path) -> str:
    """The key of a library of four sources, and one that is compiled, in a new process."""
    for name in ("runtime/cache.py", "language/core.py", "compiler/code.py", "backends/driver.py",
                 "_C/libtriton.so"):
        (folder / name).parent.mkdir(exist_ok=True)
        if not (folder / name).exists():
            (folder / name).touch()
    module: Any = ModuleType("library")
    module.__file__ = str(folder / "runtime" / "cache.py")
    module.triton_key = lambda: "unused"
    toolkit_keys.keep_triton_key(module)
    return str(module.triton_key())


def test_a_key_is_made_once_until_a_file_changes(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path / "cache"))
    later(monkeypatch)
    made: list[str] = []
    digest = toolkit_keys.digest_of

    def noted(*files: Any) -> str:
        made.append(digest(*files))
        return made[-1]

    monkeypatch.setattr(toolkit_keys, "digest_of", noted)
    keys = [{key(tmp_path) for _ in range(3)}]
    (tmp_path / "language" / "core.py").write_text("x = 1\n")
    keys.append({key(tmp_path) for _ in range(2)})
    (tmp_path / "language" / "added.py").touch()
    keys.append({key(tmp_path)})
    library = tmp_path / "_C" / "libtriton.so"
    library.write_bytes(b"code")
    keys.append({key(tmp_path)})
    at = library.stat()
    os.utime(library, ns=(at.st_atime_ns, at.st_mtime_ns + 1))
    keys.append({key(tmp_path) for _ in range(2)})
    assert [len(each) for each in keys] == [1] * 5
    assert len(set().union(*keys)) == len(made) == 5


def test_the_key_begins_with_the_version_and_is_replaced_once() -> None:
    toolkit_keys.keep_triton_key(cache)
    kept = cache.triton_key
    assert kept().startswith(f"{cache.__version__}-")
    toolkit_keys.keep_triton_key(cache)
    assert cache.triton_key is kept
