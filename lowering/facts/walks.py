"""Walks over the operands of values, without recursion: code may be arbitrarily deep."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from xdsl.ir import BlockArgument, Operation, SSAValue


def operands_first(
    value: SSAValue, known: Container[SSAValue],
    through: Callable[[Operation], Iterable[SSAValue]],
) -> Iterator[SSAValue]:
    """Yield `value` after the values that it is computed from, without known ones.

    `through` lists the operands of an operation to visit.  An analysis that caches its results in
    `known` gets each value after its operands.
    """
    waiting = [(value, False)]
    while waiting:
        at, ready = waiting.pop()
        if at in known:
            continue
        if ready or type(at) is BlockArgument:
            yield at
            continue
        waiting.append((at, True))
        waiting += [(v, False) for v in through(at.owner) if v not in known]  # type: ignore[arg-type]


def operands_of(*kinds: type[Operation]) -> Callable[[Operation], Iterable[SSAValue]]:
    """All operands of operations of these classes, and none of others."""
    followed = frozenset(kinds)
    return lambda op: op.operands if type(op) in followed else ()
