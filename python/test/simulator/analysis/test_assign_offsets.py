"""Values that loops keep in memory find it as they left it, whatever else lies there meanwhile."""

from __future__ import annotations

import random

from triton_xe.runtime.simulator.analysis.assign_offsets import LINE, Access, assign_offsets


def stores_and_loads(text: str) -> list[Access]:
    return [Access(word[1:], word[0] == "+") for word in text.split()]


def test_what_is_computed_of_a_value_takes_its_place() -> None:
    accesses = {"first": stores_and_loads("+a +b"), "second": stores_and_loads("-a +c -b +d"),
                "third": stores_and_loads("-c -d")}
    successors = {"first": ["second"], "second": ["third"], "third": []}
    places, nbytes = assign_offsets(accesses, successors, dict.fromkeys("abcd", 60))
    assert places == {"a": 0, "b": LINE, "c": 0, "d": LINE}
    assert nbytes == 2 * LINE


def test_a_wide_value_takes_the_place_of_two_narrow_ones() -> None:
    accesses = {"only": stores_and_loads("+a +b -a -b +c -c")}
    places, nbytes = assign_offsets(accesses, {"only": []}, {"a": 64, "b": 64, "c": 128})
    assert places == {"a": 0, "b": 64, "c": 0}
    assert nbytes == 128


def test_what_a_loop_needs_in_its_next_pass_stays() -> None:
    accesses = {"before": stores_and_loads("+a"), "pass": stores_and_loads("-a +b -b")}
    places, nbytes = assign_offsets(
        accesses, {"before": ["pass"], "pass": ["pass"]}, {"a": 64, "b": 64})
    assert nbytes == 2 * LINE
    assert places["a"] != places["b"]


def test_random_programs_load_what_they_stored() -> None:
    rng = random.Random(5)
    shared = 0
    for _ in range(300):
        labels = [f"b{k}" for k in range(rng.randint(1, 5))]
        names = [f"v{k}" for k in range(rng.randint(2, 8))]
        sizes = {name: rng.choice([4, 64, 100, 256]) for name in names}
        accesses = {label: [Access(rng.choice(names), rng.random() < 0.5)
                            for _ in range(rng.randint(0, 8))] for label in labels}
        successors = {label: rng.sample(labels, rng.randint(0, min(2, len(labels))))
                      for label in labels}
        places, nbytes = assign_offsets(accesses, successors, sizes)
        assert all(places[x] % LINE == 0 and places[x] + sizes[x] <= nbytes for x in names)
        shared += nbytes < sum(-(-size // LINE) * LINE for size in sizes.values())
        for _ in range(20):
            memory, held = [""] * nbytes, set[str]()
            label: str | None = labels[0]
            for _ in range(12):
                if label is None:
                    break
                for name, is_store in accesses[label]:
                    where = slice(places[name], places[name] + sizes[name])
                    if is_store:
                        memory[where] = [name] * sizes[name]
                        held.add(name)
                    elif name in held:
                        assert set(memory[where]) == {name}
                label = rng.choice(successors[label]) if successors[label] else None
    assert shared > 100
