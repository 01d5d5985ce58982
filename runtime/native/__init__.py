"""Load the parts in C, which are built if there is a compiler; two have replacements in Python.

- `launch.c`, an extension over Python's limited API: launches on Level Zero and the simulator.
- `threads.c`, a library without Python: the simulator's threads, and a handler of invalid accesses.
- `emulated_gpu.c`, a library that `triton-xe emulate` preloads into programs; nothing replaces it.

`launch`, `threads` and `emulated_gpu` are None where they are missing.  Reasons are no compiler
when the package was built from source, a source that changed since, a Python without its global
lock, or `TRITON_XE_NATIVE=0`.
"""

from __future__ import annotations

import ctypes
import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any

from triton_xe import knobs

HERE = Path(__file__).parent


def digest_of_source(name: str, folder: Path = HERE) -> str:
    """Digest of a source file; `setup.py` compiles the digest of its source into each library."""
    return hashlib.sha256((folder / f"{name}.c").read_bytes()).hexdigest()


def load_launch(sources: Path = HERE) -> Any:
    """Import `launch.c`'s extension; None if it is missing or has another source."""
    try:
        module = import_module(f"{__name__}.launch")
    except ImportError:
        return None
    return module if getattr(module, "source", "") == digest_of_source("launch", sources) else None


def load_threads(sources: Path = HERE) -> ctypes.CDLL | None:
    """Load `threads.c`'s library; None if it is missing or has another source."""
    try:
        library = ctypes.CDLL(str(next(HERE.glob("threads.*so"))))
        source = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "xe_source")))
    except (OSError, StopIteration, ValueError):
        return None
    return library if source.decode() == digest_of_source("threads", sources) else None


def _emulated_gpu() -> Path | None:
    """Path of `emulated_gpu.c`'s library if it was built from this source; it is not loaded."""
    found = next(HERE.glob("emulated_gpu.*so"), None)
    digest = digest_of_source("emulated_gpu").encode()
    return found if found is not None and digest in found.read_bytes() else None


launch: Any = load_launch() if knobs.native() else None
threads: ctypes.CDLL | None = load_threads() if knobs.native() else None
emulated_gpu: Path | None = _emulated_gpu()
NO_EMULATED_GPU = (
    "the emulated GPU needs a part of this package in C, which is not built: install the package "
    "from source where a C compiler and Python's headers are (Debian and Ubuntu: gcc, python3-dev)"
)


def describe() -> str:
    """Say in one sentence whether C or Python launches kernels and runs the simulator's threads."""
    parts = {"launches": launch, "the simulator's threads": threads}
    how = [f"{what}: {'Python' if part is None else 'C'}" for what, part in parts.items()]
    return ", ".join(how)
