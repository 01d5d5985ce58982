"""Few test cases that still try every pair of settings together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import pytest

Case = dict[str, Any]


def every_case(
    factors: Mapping[str, Sequence[Hashable]], allowed: Callable[[Case], bool]
) -> list[Case]:
    """The whole product of the factors' values, less what is not allowed."""
    names = list(factors)
    cases = (dict(zip(names, values, strict=True)) for values in product(*factors.values()))
    return [case for case in cases if allowed(case)]


def covering_cases(
    factors: Mapping[str, Sequence[Hashable]], allowed: Callable[[Case], bool], strength: int = 2,
    in_turns: bool = False,
) -> list[Case]:
    """A small selection of `every_case` in which each pair of values that can meet does meet.

    `strength` is how many values meet: with 1, each value is in some case.  Greedy and
    deterministic: the case with the most new pairs is taken next, the first on a tie.  With
    `in_turns`, a tie goes to the case whose values are in the fewest cases so far.
    """
    cases = every_case(factors, allowed)
    return [cases[i] for i in cover([tuple(case.items()) for case in cases], strength, in_turns)]


def cover(
    cases: Sequence[tuple[Hashable, ...]], strength: int, in_turns: bool = False
) -> list[int]:
    """Places of a selection of cases, as in `covering_cases`; a case is a tuple of its settings."""
    pairs = [frozenset(combinations(case, strength)) for case in cases]
    missing = set().union(*pairs)
    chosen: list[int] = []
    uses: Counter[Hashable] = Counter()

    def worth(i: int) -> tuple[int, int]:
        used = sum(uses[setting] for setting in cases[i]) if in_turns else 0
        return len(missing & pairs[i]), -used

    while missing:
        best = max(range(len(cases)), key=worth)
        chosen.append(best)
        uses.update(cases[best])
        missing -= pairs[best]
    return chosen


def settings(
    *, strength: int = 2, in_turns: bool = False, unselected: Any = pytest.mark.slow,
    **factors: Sequence[Hashable],
) -> tuple[str, list[Any]]:
    """Arguments of `parametrize` for the product of the values; only a covering selection is quick.

    The other cases have the mark `unselected`.
    """
    quick = covering_cases(factors, lambda case: True, strength, in_turns)
    return ",".join(factors), [
        pytest.param(*case.values(), marks=() if case in quick else unselected)
        for case in every_case(factors, lambda case: True)]
