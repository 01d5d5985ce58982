"""Find fixed points: what is reached from some seeds, and the facts of a lattice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import eq
from typing import TypeVar

S = TypeVar("S", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def reached(seeds: Iterable[K], following: Callable[[K], Iterable[K]]) -> set[K]:
    """The seeds, and all that follows from them."""
    found: set[K] = set()
    todo = list(seeds)
    while todo:
        key = todo.pop()
        if key not in found:
            found.add(key)
            todo += following(key)
    return found


def solve(
    steps: Sequence[S], rule: Callable[[S], tuple[K, V] | None],
    readers: Mapping[K, Iterable[S]], found: dict[K, V],
    same: Callable[[V, V], bool] = eq,
) -> None:
    """Complete the facts in `found`: apply a rule to each step until nothing changes.

    `rule` returns a key and its fact, or None as long as a fact that it needs is unknown.  After a
    change, the steps that read the fact are visited again, in rounds, in their order.
    """
    number = {step: k for k, step in enumerate(steps)}
    waiting = set(number.values())
    while waiting:
        left, waiting = waiting, set()
        for k in sorted(left):
            left.discard(k)
            made = rule(steps[k])
            if made is None or (made[0] in found and same(found[made[0]], made[1])):
                continue
            found[made[0]] = made[1]
            again = (number[step] for step in readers.get(made[0], ()) if step in number)
            waiting.update(n for n in again if n not in left)


def readers(sources: Mapping[S, Iterable[K]]) -> dict[K, list[S]]:
    """Key -> the steps whose facts are computed from its fact."""
    found: dict[K, list[S]] = {}
    for step, keys in sources.items():
        for key in keys:
            found.setdefault(key, []).append(step)
    return found
