"""Reduce a launch to the fewest programs that still show its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Programs = Sequence[int]
MOST_RUNS = 2000


class _RunLimitReached(Exception):
    """The limit of runs is reached."""


def smallest(
    programs: Programs, shows: Callable[[Programs], bool], likely: Iterable[Programs] = ()
) -> tuple[list[int], bool]:
    """Find a minimal subset of `programs` that shows the error: no program can be left out.

    Return the subset, and False if MOST_RUNS runs were not enough to be certain.  `likely` subsets
    are tried first.  Then halves are left out, then smaller parts, at last single programs.

    >>> smallest(range(1000), lambda some: {3, 700} <= set(some))
    ([3, 700], True)
    >>> smallest(range(1000), lambda some: 7 in some, [[8], [7]])
    ([7], True)
    """
    left, runs = list(programs), 0

    def tried(some: Programs) -> bool:
        nonlocal left, runs
        if runs == MOST_RUNS:
            raise _RunLimitReached
        runs += 1
        if some and shows(some):
            left = list(some)
            return True
        return False

    try:
        any(tried(some) for some in likely)
        size, is_less = len(left), True
        while size > 1 or is_less:
            size, is_less, at = -(-size // 2), False, 0
            while at < len(left):
                if tried(left[:at] + left[at + size :]):
                    is_less = True
                else:
                    at += size
    except _RunLimitReached:
        return left, False
    return left, True
