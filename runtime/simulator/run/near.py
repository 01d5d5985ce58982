"""Map the sections of an object within reach of each other.

LLVM maps code, constants and variables one by one, wherever the system has room, but code addresses
the others by 32 bits.  In a process that has mapped gigabytes, a small gap far above them may take
one section and not the next.  Then LLVM ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

REACH = 1 << 30
"""Largest distance of two sections in bytes, out of the 2 GiB that an instruction can address."""
_NO_ACCESS, _NO_RESERVE, _FAILED = 0, 0x4000, ctypes.c_void_p(-1).value


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
    return libc


def _map(nbytes: int) -> int | None:
    """Address at which the system has room for that many bytes; None if nowhere."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    at = _libc().mmap(None, nbytes, _NO_ACCESS, flags, -1, 0)
    return None if at == _FAILED else int(at)


@contextmanager
def near_each_other(nbytes: int) -> Iterator[None]:
    """Make the system map `nbytes` in total within `REACH` of each other, inside this context.

    The system maps into the highest gap that is large enough.  Therefore smaller gaps, far above
    the first one that takes all bytes, are occupied until the context ends.
    """
    size = 1 << max(nbytes, mmap.PAGESIZE).bit_length()
    whole = _map(size) if sys.platform == "linux" else None
    if whole is None:
        yield
        return
    filled, part = [], size
    while part >= mmap.PAGESIZE:
        at = _map(part)
        if at is not None and at > whole + REACH:
            filled.append((at, part))
            continue
        if at is not None:
            _libc().munmap(at, part)
        part //= 2
    _libc().munmap(whole, size)
    try:
        yield
    finally:
        for at, part in filled:
            _libc().munmap(at, part)
