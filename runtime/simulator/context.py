"""The records that Python and the host code share: of a launch, and of a work-group of it."""

from __future__ import annotations

from enum import IntEnum


class Context(IntEnum):
    """Words of a work-group, 8 bytes each: the runner fills them, other host code reads them."""

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
    HANDLES = 14
    """Address of the handle of each subgroup's coroutine."""
    CHANGES = 15
    """How often what the work-group wrote changed global memory, where it takes turns."""
    TURN = 16
    """Accesses that a subgroup may still do before it gives its turn to others."""
    FRAME_BYTES = 17
    LIVE = 18
    """True if a work-group runs here."""
    SEEN = 19
    """Of all that its coroutines hold, a digest."""
    TAKEN = 20
    """Turns that its first subgroup has given to others before an access."""
    LONG = 22
    """True if it keeps its turn after it has waited."""
    PASSED = 21
    """Subgroups that are past the last barrier, until all are; where there are checks."""
    CHECKS = 24
    """What the checks of a launch know of the work-group while another one has its turn."""
    COUNT = 40

    @property
    def offset(self) -> int:
        """In bytes."""
        return 8 * self


READY = 1 << 31
"""Added to the site of a subgroup that goes on without others having to arrive."""


class Launch(IntEnum):
    """Words of 8 bytes of a launch: `run.launch` fills them, the runner of `library` reads them.

    What threads write has cache lines of its own.
    """

    PARTS = 0
    """Into how many parts the work-groups are divided, at most `MOST_PARTS`: threads begin with
    one each, the same in each launch, whose memory their core may still have."""
    GRID = 1
    """Three words."""
    TOTAL = 4
    """How many work-groups to run."""
    CHUNK = 5
    """How many a thread takes at once, at most."""
    SUBGROUPS = 6
    SLM_BYTES = 7
    COLD = 9
    GROUPS = 10
    """Address of the numbers of the work-groups to run, or 0 for the first ones."""
    STATE = 11
    RESIDENT = 12
    """How many work-groups the device holds at once, where they take turns."""
    SHADOW_BYTES = 14
    """Of the shadow of shared memory, where the checks follow undefined values."""
    EAGER = 8
    """True if work-groups begin as soon as there is room, and take turns at their queues and after
    they have waited."""
    CURRENT = 15
    """Address of the context of the work-group that the words of the checks are of."""
    SEED = 13
    """Of the order in which they do; 0 is one after another."""
    NEXT = 16
    """How many of each part have been taken: `MOST_PARTS` words; of all where they take turns."""
    LIVE = 24
    """How many have begun and not ended, where they take turns."""
    VERSION = 25
    """How often anything happened but waiting."""
    QUIET = 26
    """A version, above the number of work-groups known to wait since, in the lower 32 bits."""
    ENTERED = 27
    """How many threads have begun."""
    ERROR_RECORD = 32
    """16 words: code, line, numbers that depend on the code."""
    ARGUMENTS = 48
    """Those of the kernel."""


MOST_PARTS = 8

HEAD_BYTES = 64
PITCH, USED, GROUP, FOUND, READ_NOW, OFF = range(0, 48, 8)
"""Offsets at the start of a table of tiles, see `analysis.tile_tables`."""
TILE_KEY, TILE_PLACE, TILE_GROUP, TILE_WORDS = range(4)
"""Words of the record of each tile, after the keys and the numbers."""
WINDOW = 8
"""Keys of such a table that are compared together."""


def program(group: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The program id of a work-group by number."""
    x, rest = group % grid[0], group // grid[0]
    return x, rest % grid[1], rest // grid[1]


def tiles_offset(slm_bytes: int) -> int:
    """Where the tables are, after the shared local memory of a thread's work-group."""
    return -(-slm_bytes // 64) * 64


class Code(IntEnum):
    """Why a launch was stopped: the first word of its error record."""

    SURFACE = 1
    """A 2D block surface that hardware does not take."""
    BARRIER = 2
    """Subgroups of a work-group that do not all arrive."""
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
