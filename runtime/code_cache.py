"""Compiled code kept on disk, below a size: what was not read for longest makes room.

A room (`native`, `simulator`, `general`) is split into 256 folders by the first digits of its keys.
Each write looks at its own folder alone, and keeps that below a 256th of the room's size: nothing
is counted elsewhere, and processes need not agree on anything.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from triton_xe import knobs
from triton_xe.runtime import checked_files

FOLDERS = 256


def file(room: str, key: str, suffix: str) -> Path:
    """Where the code of a hexadecimal key is kept."""
    return knobs.cache_dir() / room / key[:2] / f"{key}{suffix}"


def read(path: Path) -> bytes | None:
    """The bytes that were written, now the last ones to go; None as of `checked_files.read`."""
    found = checked_files.read(path)
    if found is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
    return found


def write(path: Path, content: bytes) -> bool:
    """Keep the bytes, and make room for them; False when the folder cannot be written."""
    kept = checked_files.write(path, content)
    if kept:
        _make_room(path, knobs.cache_limit() // FOLDERS)
    return kept


def _make_room(newest: Path, limit: int) -> None:
    """Delete files beside the newest one, the longest unread first; it stays whatever its size."""
    with contextlib.suppress(OSError), os.scandir(newest.parent) as entries:
        files = [(entry.stat(), entry.path) for entry in entries if entry.name != newest.name]
        left = limit - newest.stat().st_size
        for at, path in sorted(files, key=lambda one: one[0].st_mtime_ns, reverse=True):
            left -= at.st_size
            if left < 0:
                os.unlink(path)
