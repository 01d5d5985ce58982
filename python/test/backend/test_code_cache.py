"""Compiled code on disk stays below a size; what was read last stays longest."""

import os
from pathlib import Path

import pytest

from triton_xe.runtime import code_cache

CONTENT = b"x" * 1000


@pytest.fixture(autouse=True)
def _room_for_three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_XE_CACHE_LIMIT", str(code_cache.FOLDERS * 3200))


def _written(key: str, age: int, content: bytes = CONTENT) -> Path:
    path = code_cache.file("simulator", key, ".o")
    assert code_cache.write(path, content)
    os.utime(path, (0, 1_000_000 - age))
    return path


def test_what_was_read_last_stays() -> None:
    oldest, older, newer = (_written(f"ab{age}", age) for age in (3, 2, 1))
    assert code_cache.read(oldest) == CONTENT
    _written("ab0", 0)
    assert [path.exists() for path in (oldest, older, newer)] == [True, False, True]


def test_other_folders_are_left_alone() -> None:
    kept = _written("cd0", 9)
    for age in range(8):
        _written(f"ab{age}", 8 - age)
    assert kept.exists()
    assert len(list(kept.parent.parent.glob("ab/*"))) == 3


def test_code_larger_than_the_room_is_kept_alone() -> None:
    _written("ab1", 1)
    large = _written("ab2", 0, CONTENT * 100)
    assert list(large.parent.iterdir()) == [large]
    assert code_cache.read(large) == CONTENT * 100
