"""Few test cases that still try every pair of settings together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Case = dict[str, Any]


def every_case(
    factors: Mapping[str, Sequence[Hashable]], allowed: Callable[[Case], bool]
) -> list[Case]:
    """The whole product of the factors' values, less what is not allowed."""
    names = list(factors)
    cases = (dict(zip(names, values, strict=True)) for values in product(*factors.values()))
    return [case for case in cases if allowed(case)]


def covering_cases(
    factors: Mapping[str, Sequence[Hashable]], allowed: Callable[[Case], bool]
) -> list[Case]:
    """A small selection of `every_case` in which each pair of values that can meet does meet.

    Greedy and deterministic: the case with the most new pairs is taken next, the first on a tie.
    """
    cases = every_case(factors, allowed)
    pairs = [frozenset(combinations(case.items(), 2)) for case in cases]
    missing = set().union(*pairs)
    chosen: list[Case] = []
    while missing:
        best = max(range(len(cases)), key=lambda i: len(missing & pairs[i]))
        chosen.append(cases[best])
        missing -= pairs[best]
    return chosen
