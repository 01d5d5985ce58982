"""A kernel cache that detects damaged entries, so that they are compiled again and never run.

Triton's cache trusts every file in it.  A full disk, a power failure or an editor can leave a
half-written stage.  This cache stores a digest of each file of a kernel.  A group with a wrong
digest, or with a file that other users can write, is reported as absent.  Kernels of other backends
are not affected.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from triton import knobs
from triton.runtime.cache import FileCacheManager

from triton_xe import knobs as xe_knobs
from triton_xe.runtime import checked_files

CHECKED = ".spv"
"""Groups are checked if they have a file with this suffix."""


def install() -> None:
    """Install as Triton's cache, unless the user chose one (`TRITON_CACHE_MANAGER` or in
    Python).
    """
    if knobs.cache.manager_class is None:
        knobs.cache.manager_class = CheckedCacheManager


def digest_of(file: Path) -> str:
    """A digest of the file's bytes; empty if it cannot be read, or others can write it."""
    data = checked_files.read_own(file)
    return "" if data is None else hashlib.blake2b(data, digest_size=16).hexdigest()


class CheckedCacheManager(FileCacheManager):
    """Triton's file cache, with a digest per file of a kernel that has SPIR-V."""

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        """Store the group, and then the digests of its files."""
        if any(name.endswith(CHECKED) for name in group):
            digests = {name: digest_of(Path(path)) for name, path in group.items()}
            self.put(json.dumps(digests), _digest_file(filename), binary=False)
        return str(super().put_group(filename, group))

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files of a kernel; None if there are none, or if one of them is damaged.

        None also if `TRITON_XE_DEBUG` is set: it prints stages during compilation, so the kernel
        must be compiled again.
        """
        try:
            group: dict[str, str] | None = super().get_group(filename)
        except (AttributeError, TypeError, OSError):  # the stored list of files is damaged
            return None
        if group is None or not any(name.endswith(CHECKED) for name in group):
            return group
        return group if not xe_knobs.debug() and self._is_intact(filename, group) else None

    def _is_intact(self, filename: str, group: dict[str, str]) -> bool:
        """True if the digests of a group's files are those that were written with the group."""
        file = self.get_file(_digest_file(filename))
        if file is None:
            return False
        try:
            expected = json.loads(checked_files.read_own(Path(file)) or b"")
        except ValueError:
            return False
        found = {name: digest_of(Path(path)) for name, path in group.items()}
        return isinstance(expected, dict) and all(found.values()) and found == {
            name: expected.get(name) for name in group}


def _digest_file(filename: str) -> str:
    return f"__digests__{filename}"
