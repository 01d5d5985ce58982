"""Native binaries on disk, so that a second process does not wait for Intel's compiler.

There is one file per kernel, SPIR-V module, build flags, driver and device.  It contains all that a
launch needs to know, so that the SPIR-V module is not read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from triton_xe.runtime import code_cache
from triton_xe.runtime.spirv_reader import EntryPoint


@dataclass(frozen=True)
class NativeEntry:
    """A built module: `flags` as finally used; `spills_at_128` bytes before a rebuild, or 0."""

    binary: bytes
    flags: str
    spills_at_128: int = 0
    registers: int = 0
    entry: EntryPoint = field(default_factory=lambda: EntryPoint("", ()))


def entry_key(spirv: bytes, *what_decides: str) -> str:
    """The name of an entry: a digest of everything that determines the native code."""
    digest = hashlib.sha256(spirv)
    digest.update(json.dumps(what_decides).encode())
    return digest.hexdigest()


def read(key: str) -> NativeEntry | None:
    """The entry, or None if there is none or it is damaged."""
    head, _, binary = (code_cache.read(_path(key)) or b"").partition(b"\n")
    try:
        facts = json.loads(head)
        point: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in facts.pop("entry").items()
        }
        return NativeEntry(binary, entry=EntryPoint(**point), **facts)
    except (ValueError, TypeError, KeyError):
        return None


def write(key: str, entry: NativeEntry) -> bool:
    """Store the entry; False if the folder cannot be written."""
    facts = asdict(entry)
    del facts["binary"]
    return code_cache.write(_path(key), json.dumps(facts).encode() + b"\n" + entry.binary)


def remove(key: str) -> None:
    """Delete the entry, because the driver does not accept it."""
    with contextlib.suppress(OSError):
        _path(key).unlink()


def _path(key: str) -> Path:
    return code_cache.file("native", key, ".native")
