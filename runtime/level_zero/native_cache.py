"""Native binaries on disk, so that a second process never waits for Intel's compiler.

One file per SPIR-V module, build flags, driver version and device.  Files are written to a
temporary name and renamed, so that a reader sees a whole file or none, whoever else writes; a file
that is damaged anyway is taken as missing.  A folder that cannot be written is no error: the
binary is only built again by the next process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from triton_xe import knobs

_MAGIC = b"triton-xe native 1\n"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class NativeEntry:
    """A built module: `flags` as finally used; `spills_at_128` bytes before a rebuild, or 0."""

    binary: bytes
    flags: str
    spills_at_128: int = 0


def entry_key(spirv: bytes, flags: str, driver_version: int, device: str) -> str:
    """The name of an entry: a digest of all that decides the native code."""
    digest = hashlib.sha256(spirv)
    digest.update(json.dumps([flags, driver_version, device]).encode())
    return digest.hexdigest()


def read(key: str) -> NativeEntry | None:
    """The entry, or None when there is none or it is damaged."""
    try:
        data = _path(key).read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    digest, content = data[len(_MAGIC) : start], data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(content).digest() != digest:
        return None
    head, _, binary = content.partition(b"\n")
    try:
        return NativeEntry(binary, **json.loads(head))
    except (ValueError, TypeError):
        return None


def write(key: str, entry: NativeEntry) -> bool:
    """Store the entry; False when the folder cannot be written."""
    facts = asdict(entry)
    del facts["binary"]
    content = json.dumps(facts).encode() + b"\n" + entry.binary
    path = _path(key)
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f"{key[:16]}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(content).digest() + content)
        Path(temporary).replace(path)
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        return False
    return True


def remove(key: str) -> None:
    """Forget the entry, for a driver that does not take it."""
    with contextlib.suppress(OSError):
        _path(key).unlink()


def _path(key: str) -> Path:
    return knobs.cache_dir() / "native" / key[:2] / f"{key}.bin"
