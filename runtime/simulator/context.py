"""Records that Python and the host code share: words of a launch, and of a work-group."""

from __future__ import annotations

from enum import IntEnum


class Context(IntEnum):
    """Words of a work-group, 8 bytes each; the runner writes them, other host code reads them."""

    GROUP_ID = 0
    """Program id, three words."""
    GROUPS = 3
    """Sizes of the grid, three words."""
    SLM = 6
    """Address of the shared local memory."""
    ERROR = 7
    """Address of the error record, see `launch`."""
    SITES = 8
    """Address of the barrier that each subgroup waits at, 32 bits each."""
    COLD = 9
    """Address of one byte per subgroup of the launch, set if it must run again."""
    GROUP = 10
    """Number of the work-group."""
    SUBGROUPS = 11
    STATE = 12
    """Address of the state of a sanitized launch."""
    FRAMES = 13
    """Address of the frame memory of each subgroup's coroutine."""
    HANDLES = 14
    """Address of the handle of each subgroup's coroutine."""
    CHANGES = 15
    """Number of stores of the work-group that changed global memory, if it takes turns."""
    TURN = 16
    """Number of accesses that a subgroup may still execute in its turn."""
    FRAME_BYTES = 17
    LIVE = 18
    """True if a work-group runs here."""
    SEEN = 19
    """Digest of the state of all its coroutines."""
    TAKEN = 20
    """Number of times that the first subgroup yielded before an access."""
    LONG = 22
    """True if the work-group does not yield after a wait."""
    PASSED = 21
    """Number of subgroups that have passed the last barrier; only in checked launches."""
    CHECKS = 24
    """Saved state of the launch's checks for this work-group while another one has its turn."""
    COUNT = 40

    @property
    def offset(self) -> int:
        """Offset in bytes."""
        return 8 * self


READY = 1 << 31
"""Added to the site of a subgroup that may continue before the others arrive."""


class Launch(IntEnum):
    """Words of 8 bytes of a launch: `run.launch` fills them, the runner of `library` reads them.

    Words that threads write have cache lines of their own.
    """

    PARTS = 0
    """Number of parts into which the work-groups are divided, at most `MOST_PARTS`.

    Each thread begins with one part, the same in each launch, whose data may still be in its core's
    caches.
    """
    GRID = 1
    """Sizes of the grid, three words."""
    TOTAL = 4
    """Number of work-groups to run."""
    CHUNK = 5
    """Largest number of work-groups that a thread takes at once."""
    SUBGROUPS = 6
    SLM_BYTES = 7
    COLD = 9
    GROUPS = 10
    """Address of the numbers of the work-groups to run; 0 for the first `TOTAL` ones."""
    STATE = 11
    RESIDENT = 12
    """Work-groups that the device holds at once, if they take turns."""
    SHADOW_BYTES = 14
    """Bytes of the shadow of shared memory, in which the checks track undefined values."""
    EAGER = 8
    """True if work-groups begin as soon as the device has room.

    They take turns at their queues and after they have waited.
    """
    CURRENT = 15
    """Address of the context of the work-group that the state of the checks belongs to."""
    SEED = 13
    """Seed of the order in which work-groups take turns; 0: one after another."""
    NEXT = 16
    """Work-groups taken so far, for each part: `MOST_PARTS` words.

    If work-groups take turns, the first word counts all.
    """
    LIVE = 24
    """Work-groups that have begun and not ended, if they take turns."""
    VERSION = 25
    """Number of events other than polls of waiting loops."""
    QUIET = 26
    """A value of `VERSION`, and in the lower 32 bits the work-groups that only polled since."""
    ENTERED = 27
    """Number of threads that have begun."""
    ERROR_RECORD = 32
    """16 words: code, line, numbers that depend on the code."""
    ARGUMENTS = 48
    """Arguments of the kernel."""


MOST_PARTS = 8


def program(group: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """Compute the program id of a work-group from its number."""
    x, rest = group % grid[0], group // grid[0]
    return x, rest % grid[1], rest // grid[1]


class Code(IntEnum):
    """Reason why a launch was stopped: the first word of its error record."""

    SURFACE = 1
    """A 2D block surface that breaks a rule of the hardware."""
    BARRIER = 2
    """A barrier that not all subgroups of a work-group reach."""
    BOUNDS = 10
    ALIGNMENT = 11
    RACE = 12
    UNINITIALISED = 13
    NON_FINITE = 14
    UNDEFINED = 15
    RECORDS = 16
    UNWRITTEN = 17
    COLLISION = 18
    DEADLOCK = 19
    TIME = 20
