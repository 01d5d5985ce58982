"""Parts in C, built where a compiler is; each has a slower equal in Python.

- `launch.c`, an extension over Python's limited API: launches on Level Zero.
- `threads.c`, a library without Python: the simulator's threads, and its handler of wild accesses.

`launch` and `threads` are None where they are missing: no compiler when the package was built from
source, a Python without its global lock, or `TRITON_XE_NATIVE=0`.
"""

from __future__ import annotations

import ctypes
from importlib import import_module
from pathlib import Path
from typing import Any

from triton_xe import knobs


def _launch() -> Any:
    try:
        return import_module(f"{__name__}.launch") if knobs.native() else None
    except ImportError:
        return None


def _threads() -> ctypes.CDLL | None:
    found = sorted(Path(__file__).parent.glob("threads.*so")) if knobs.native() else []
    try:
        return ctypes.CDLL(str(found[0])) if found else None
    except OSError:
        return None


launch, threads = _launch(), _threads()


def describe() -> str:
    """One sentence: what does launches on a GPU, and runs the simulator's threads."""
    parts = {"launches on a GPU": launch, "the simulator's threads": threads}
    how = [f"{what}: {'Python' if part is None else 'C'}" for what, part in parts.items()]
    return ", ".join(how)
