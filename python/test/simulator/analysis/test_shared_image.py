"""What the bytes of shared local memory hold, followed from store to store."""

from __future__ import annotations

import numpy as np
import pytest

from triton_xe.runtime.simulator.analysis.shared_image import STEP, SharedImage


def test_random_stores_and_loads_agree_with_memory() -> None:
    """Elements of all sizes, some that nobody knows, against bytes that are really kept."""
    rng = np.random.default_rng(7)
    known = 0
    for _ in range(200):
        image, memory = SharedImage[str](128), np.full(128, -1, np.int64)
        held: dict[str, np.ndarray] = {}
        for k in range(6):
            size = int(rng.choice([1, 2, 4, 8]))
            count = int(rng.integers(1, 9))
            addresses = rng.permutation(128 // size)[:count] * size
            name = f"v{k}"
            held[name] = np.arange(64) + 1000 * (k + 1)
            places = rng.permutation(64 // size)[:count]
            places = np.where(rng.random(count) < 0.1, -1, places)
            image.store(addresses[None, :], size, [name], places[None, :])
            for address, place in zip(addresses, places, strict=True):
                memory[address : address + size] = -1 if place < 0 else (
                    held[name][place * size : (place + 1) * size])
        size = int(rng.choice([1, 2, 4, 8]))
        addresses = rng.permutation(128 // size)[:2][:, None] * size
        found = image.load(addresses, size)
        expected = memory[addresses + np.arange(size)]
        if found is None:
            steps = np.diff(expected, axis=1) == 1
            assert (expected < 0).any() or not steps.all() or (expected[:, 0] % 1000 % size).any()
            continue
        known += 1
        sources, places = found
        for row, place in zip(expected, places[:, 0], strict=True):
            first = int(place % STEP) * size
            np.testing.assert_array_equal(
                row, held[sources[int(place // STEP)]][first : first + size])
    assert known > 20


@pytest.mark.parametrize("address", [-4, 61])
def test_a_store_outside_makes_all_unknown(address: int) -> None:
    image = SharedImage[str](64)
    image.store(np.array([[0]]), 4, ["x"], np.array([[0]]))
    assert image.load(np.array([[0]]), 4) is not None
    image.store(np.array([[address]]), 4, ["x"], np.array([[0]]))
    assert image.load(np.array([[0]]), 4) is None
    assert image.load(np.array([[address]]), 4) is None


def test_elements_at_one_address_are_unknown() -> None:
    image = SharedImage[str](64)
    image.store(np.array([[0, 0, 4]]), 4, ["x"], np.array([[0, 1, 2]]))
    assert image.load(np.array([[0]]), 4) is None
    assert image.load(np.array([[4]]), 4) == (["x"], np.array([[2]]))
