"""Values that are needed at the same time have places of their own."""

from __future__ import annotations

import random
import time

import pytest

from triton_xe.llvm.liveness import Path, Step
from triton_xe.runtime.simulator.analysis.assign_offsets import assign_offsets


def program(seed: int) -> tuple[list[Path], dict[str, int]]:
    """Blocks that branch to any others; a value is made in one step, or in several like a phi's."""
    chance = random.Random(seed)
    sizes = {f"%{k}": chance.choice((8, 64, 100, 512)) for k in range(12)}
    names = list(sizes)
    labels = [f"b{k}" for k in range(6)]
    return [Path(label, [Step(tuple(chance.sample(names, chance.randint(0, 2))),
                              tuple(chance.sample(names, chance.randint(0, 1))))
                         for _ in range(4)],
                 chance.sample(labels, chance.randint(0, 2))) for label in labels], sizes


@pytest.mark.parametrize("seed", range(60))
def test_what_is_read_is_what_was_written(seed: int) -> None:
    """Random walks through random programs, with the memory that they would have."""
    paths, sizes = program(seed)
    places, nbytes = assign_offsets(paths, sizes)
    by_label, chance = {p.label: p for p in paths}, random.Random(seed)
    for _ in range(40):
        memory: dict[int, str] = {}
        written = set[str]()
        label = paths[0].label
        for _ in range(10):
            for step in by_label[label].steps:
                for name in written.intersection(step.read):
                    own = range(places[name], places[name] + sizes[name])
                    assert {memory[k] for k in own} == {name}
                for name in step.written:
                    assert places[name] + sizes[name] <= nbytes
                    for k in range(places[name], places[name] + sizes[name]):
                        memory[k] = name
                    written.add(name)
            if not by_label[label].successors:
                break
            label = chance.choice(by_label[label].successors)


def test_places_are_used_again() -> None:
    steps = [Step((f"%{k}",), (f"%{k + 1}",)) for k in range(100)]
    _, nbytes = assign_offsets([Path("b", steps, [])], {f"%{k}": 256 for k in range(101)})
    assert nbytes == 2 * 256


def seconds(blocks: int) -> float:
    """Processor time for a row of blocks whose values are all live to the end."""
    names = [f"%{k}" for k in range(10 * blocks)]
    paths = [Path(f"b{k}", [Step((), (name,)) for name in names[10 * k : 10 * k + 10]],
                  [f"b{k + 1}"]) for k in range(blocks)]
    paths.append(Path(f"b{blocks}", [Step(tuple(names))], []))
    start = time.thread_time()  # other tests' threads may still spin
    assign_offsets(paths, dict.fromkeys(names, 64))
    return time.thread_time() - start


def test_time_does_not_grow_with_the_square_of_the_length() -> None:
    """Sets of the values that are live in each block would have a million elements for 500."""
    turns = [(seconds(500), seconds(1500)) for _ in range(5)]
    short, long = map(min, zip(*turns, strict=True))
    assert long < 7 * short
