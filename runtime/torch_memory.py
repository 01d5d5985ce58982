"""Memory of torch's simulated device, for the simulator: its blocks and their unwritten bytes.

All functions find nothing until torch's device is loaded; nothing of it is imported here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from triton_xe.runtime.observers import Observer

if TYPE_CHECKING:
    from triton_xe.runtime.torch_xpu.library import Allocation, Library


def allocation_of(pointer: int, *, freed: bool = False) -> Allocation | None:
    """The live block of simulated device memory that contains `pointer`: (base, size, device).

    With `freed`, the freed block whose memory has not been reused yet.
    """
    library = loaded()
    return library.allocation_of(pointer, freed=freed) if library else None


def to_map(pointer: int) -> int:
    """Bytes from the block at an address to its map of unwritten bytes; 0 without one."""
    library = loaded()
    return library.to_map(pointer) if library else 0


unwritten_maps = Observer()
"""Active once a launch has requested to track unwritten memory."""


def has_maps() -> bool:
    """True if some block has unwritten bytes."""
    library = loaded()
    if library is None or not library.functions.xe_maps():
        return False
    if not unwritten_maps.is_active:
        track_writes()
    return True


def mark_block(pointer: int) -> None:
    """Mark all of the block that contains `pointer` as written."""
    library = loaded()
    if library is not None:
        library.functions.xe_mark_block(pointer)


def track_writes() -> None:
    """Track which bytes are unwritten, for blocks that are allocated from here on."""
    library = loaded()
    if library is not None:
        unwritten_maps.is_active = True
        library.functions.xe_track_writes()


def loaded() -> Library | None:
    """The library of this process's simulated device; None without one."""
    activation: Any = sys.modules.get("triton_xe.runtime.torch_xpu.activation")
    found: Library | None = None if activation is None else activation.library()
    return found
