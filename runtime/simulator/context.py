"""The context of a work-group, which all functions of the host code share."""

from __future__ import annotations

from enum import IntEnum


class Context(IntEnum):
    """Words of 8 bytes; `library.run` fills them, kernels and library functions read them."""

    GROUP_ID = 0
    """Three words."""
    GROUPS = 3
    """Sizes of the grid, three words."""
    SLM = 6
    """Address of the shared local memory."""
    ERROR = 7
    """Address of the error record, see `launch`."""
    SITES = 8
    """Address of the barrier that each subgroup waits at, 32 bits each."""
    COLD = 9
    """Address of a byte for each subgroup of the launch that must run again."""
    GROUP = 10
    """Number of the work-group."""
    SUBGROUPS = 11
    STATE = 12
    """Address of the state of a sanitized launch."""
    FRAMES = 13
    """Address of the memory of each subgroup's coroutine."""
    COUNT = 16

    @property
    def offset(self) -> int:
        """In bytes."""
        return 8 * self
