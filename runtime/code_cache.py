"""Compiled code on disk, limited in size: the least recently read files are deleted first.

A kind of code (`native`, `simulator`, `general`) is split into 256 folders by the first digits of
its keys.  Each write examines only its own folder, and keeps that below a 256th of the limit, so
that processes need no common state.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from triton_xe import knobs
from triton_xe.runtime import checked_files

FOLDERS = 256


def file(room: str, key: str, suffix: str) -> Path:
    """Path of the code of a hexadecimal key."""
    return knobs.cache_dir() / room / key[:2] / f"{key}{suffix}"


def read(path: Path) -> bytes | None:
    """Return the bytes of a file, and mark it as read last; None if it is missing or damaged."""
    found = checked_files.read(path)
    if found is not None:
        with contextlib.suppress(OSError):
            os.utime(path)
    return found


def write(path: Path, content: bytes) -> bool:
    """Store the bytes, and delete old files if necessary; False if the folder cannot be written."""
    kept = checked_files.write(path, content)
    if kept:
        _make_room(path, knobs.cache_limit() // FOLDERS)
    return kept


def _make_room(newest: Path, limit: int) -> None:
    """Delete the least recently read files of a folder, but never the newest one."""
    with contextlib.suppress(OSError), os.scandir(newest.parent) as entries:
        files = [(entry.stat(), entry.path) for entry in entries if entry.name != newest.name]
        left = limit - newest.stat().st_size
        for at, path in sorted(files, key=lambda one: one[0].st_mtime_ns, reverse=True):
            left -= at.st_size
            if left < 0:
                os.unlink(path)
