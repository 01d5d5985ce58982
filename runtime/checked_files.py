"""Cache files that carry a digest: what is damaged is taken as missing.

What somebody else may have written is taken as missing too: it would be run as this user.
Files are written aside and renamed, so that a reader sees a whole file or none, whoever else
writes.  A folder that cannot be written is no error: what was to be kept is only made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

_DIGEST_BYTES = 32


def read_own(path: Path) -> bytes | None:
    """The bytes of a file that only this user, or root, can have written, else None."""
    try:
        with path.open("rb") as file:
            return file.read() if _is_own(os.fstat(file.fileno())) else None
    except OSError:
        return None


def folder_is_own(folder: Path) -> bool:
    """Whether only this user, or root, can have put files into a folder."""
    try:
        return _is_own(folder.stat())
    except OSError:
        return False


def _is_own(at: os.stat_result) -> bool:
    user = getattr(os, "geteuid", lambda: at.st_uid)()
    return at.st_uid in (user, 0) and not at.st_mode & stat.S_IWOTH


def read(path: Path) -> bytes | None:
    """The bytes that were written; None when they are absent, damaged or somebody else's."""
    data = read_own(path)
    if data is None:
        return None
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def write(path: Path, content: bytes) -> bool:
    """Keep the bytes; False when the folder cannot be written."""
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
