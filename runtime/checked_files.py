"""Cache files with a digest; damaged files are treated as missing.

A file that another user may have written is treated as missing too, because its code would run as
this user.  Files are written under a temporary name and renamed, so that a reader sees a complete
file or none.  A folder that cannot be written is no error, because the cache can be recomputed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_DIGEST_BYTES = 32


def read_own(path: Path) -> bytes | None:
    """The bytes of a file that only this user, or root, can have written; otherwise None."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall() if _is_own(os.fstat(file.fileno())) else None
    except OSError:
        return None


def folder_is_own(folder: Path) -> bool:
    """True if only this user, or root, can have put files into a folder."""
    try:
        return _is_own(folder.stat())
    except OSError:
        return False


def _is_own(status: os.stat_result) -> bool:
    user = getattr(os, "geteuid", lambda: status.st_uid)()
    return status.st_uid in (user, 0) and not status.st_mode & stat.S_IWOTH


def read(path: Path) -> bytes | None:
    """The bytes that `write` stored; None if the file is absent, damaged, or of another user."""
    data = read_own(path)
    if data is None:
        return None
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def write(path: Path, content: bytes) -> bool:
    """Store the bytes; False if the folder cannot be written."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(content + hashlib.sha256(content).digest())
        os.replace(temporary, path)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return False
    return True


def sources_below(folder: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name below `folder`, file) of each source of Python and each text read by one, unordered."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from sources_below(entry.path, f"{prefix}{entry.name}/")
            elif entry.name.endswith((".py", ".txt")):
                yield prefix + entry.name, entry.path


SETTLED_SECONDS = 2
"""Age of a file from which on a change can be seen in its times."""


def cached_digest(kept: Path, beside: Sequence[str], files: Callable[[], Sequence[str]],
                make: Callable[[], str], settled: float = SETTLED_SECONDS) -> str:
    """Return `make()`, a digest of files, from a cache in folder `kept` if no file has changed.

    `files` lists the files that `make` reads; `beside` are more files that it depends on.  Inode,
    size and times of each file and folder are cached too.  One of the times is that of the last
    change, which no program can set.  If any differs, `files` and `make` are called again.
    A digest of files that changed within `settled` seconds is not cached, because they may change
    again within one tick of the system's clock.
    """
    path = kept / hashlib.sha256(beside[0].encode()).hexdigest()[:16]
    head, *names = (read(path) or b"").decode(errors="replace").split("\n")
    known, _, digest = head.partition(" ")
    with contextlib.suppress(OSError):
        if known and _signature([*beside, *names])[0] == known:
            return digest
    found = files()
    names = [*found, *sorted({os.path.dirname(file) for file in found})]
    signature, changed = _signature([*beside, *names])
    digest = make()
    if changed < time.time() - settled:
        write(path, "\n".join([f"{signature} {digest}", *names]).encode())
    return digest


def _signature(names: Sequence[str]) -> tuple[str, float]:
    """A digest of the inodes, sizes and times of files and folders, and the latest change."""
    seen = [os.stat(name) for name in names]
    words = [f"{name} {at.st_ino} {at.st_size} {at.st_mtime_ns} {at.st_ctime_ns}"
             for name, at in zip(names, seen, strict=True)]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    return digest, max(at.st_ctime for at in seen)
