"""Fixed points, liveness, and maps of a function against plain definitions of them."""

from __future__ import annotations

import random

import pytest

from triton_xe.llvm.facts import Facts
from triton_xe.llvm.liveness import Path, Step, clashes, live
from triton_xe.llvm.parser import parse_module
from triton_xe.llvm.records import Operand
from triton_xe.llvm.solver import reached, readers, solve
from triton_xe.llvm.types import I32


def graph(seed: int) -> dict[int, list[int]]:
    rng = random.Random(seed)
    return {k: rng.sample(range(8), rng.randint(0, 3)) for k in range(8)}


@pytest.mark.parametrize("seed", range(20))
def test_the_solution_is_that_of_all_rules_again_and_again(seed: int) -> None:
    """The fact of a node is itself, with the facts of the nodes that it reads."""
    reads = graph(seed)
    expected = {k: frozenset((k,)) for k in reads}
    for _ in reads:
        expected = {k: expected[k].union(*(expected[x] for x in reads[k])) for k in reads}
    found: dict[int, frozenset[int]] = {}

    def rule(k: int) -> tuple[int, frozenset[int]]:
        return k, frozenset((k,)).union(*(found.get(x, frozenset()) for x in reads[k]))

    solve([*reads], rule, readers(reads), found)
    assert found == expected
    assert all(reached([k], reads.__getitem__) == facts for k, facts in found.items())


def walk(paths: list[Path], rng: random.Random) -> list[tuple[str, Step | None]]:
    """Steps of a random run; None at the end of a block."""
    by_label = {p.label: p for p in paths}
    label, found = paths[0].label, list[tuple[str, Step | None]]()
    for _ in range(8):
        found += [(label, step) for step in by_label[label].steps] + [(label, None)]
        following = list(by_label[label].successors)
        if not following:
            break
        label = rng.choice(following)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_value_is_live_until_its_last_read(seed: int) -> None:
    rng = random.Random(seed)
    names, labels = [f"%{k}" for k in range(6)], [f"b{k}" for k in range(5)]

    def some(most: int) -> tuple[str, ...]:
        return tuple(rng.sample(names, rng.randint(0, most)))

    paths = [Path(x, [Step(some(2), some(2)) for _ in range(3)],
                  rng.sample(labels, rng.randint(0, 2))) for x in labels]
    ends, apart = live(paths), clashes(paths)
    for _ in range(40):
        needed = set[str]()
        for label, step in reversed(walk(paths, rng)):
            if step is None:
                assert needed <= {*ends.named(ends.outgoing[label])}
                continue
            for name in step.written:
                assert (needed | set(step.written)) - {name} <= apart[name]
            needed = needed - set(step.written) | set(step.read)
    assert all(name in apart[other] for name in apart for other in apart[name])


def test_elements_are_followed_to_their_vectors() -> None:
    (function,) = parse_module("""
define spir_kernel void @k(<2 x i32> %v, i32 %n) {
entry:
  %x = extractelement <2 x i32> %v, i32 1
  %y = extractelement <2 x i32> %v, i32 %n
  %a = insertelement <2 x i32> undef, i32 %x, i32 0
  %b = insertelement <2 x i32> %a, i32 %y, i32 1
  %c = insertelement <2 x i32> %b, i32 %n, i32 0
  ret void
}""").kernels()
    facts = Facts(function)
    taken = facts.extraction(Operand(I32, "%x"))
    assert taken is not None
    assert (taken[0].text, taken[1]) == ("%v", 1)
    assert facts.extraction(Operand(I32, "%y")) is None
    found = facts.inserted(facts.makers["%c"].value)
    assert {k: x.text for k, x in found.items()} == {0: "%n", 1: "%y"}
    assert facts.results("%x") == ["%a"]
    assert [b.label for b in facts.order] == [facts.homes[facts.makers["%c"]]]
