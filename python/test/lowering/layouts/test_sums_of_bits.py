"""Known numbers as sums over the bits of indices."""

import numpy as np
import pytest

from triton_xe.lowering.layouts.sums_of_bits import decomposed

TURNS = np.array([0, 16, 4, 20, 8, 24, 12, 28])


@pytest.mark.parametrize("numbers", [
    np.tile(TURNS, (4, 2)), np.arange(32).reshape(4, 8), np.arange(8)[:, None] * 3 + [[0, 1]],
    np.zeros((4, 4), int)])
def test_sums_are_the_numbers(numbers: np.ndarray) -> None:
    rows, columns = decomposed(numbers)
    index = [np.arange(size) for size in numbers.shape]
    along = [sum(((i >> first) & (1 << count) - 1) * least for first, count, least in runs)
             for i, runs in zip(index, (rows, columns), strict=True)]
    total = np.zeros(numbers.shape, int) + np.reshape(along[0] + 0 * index[0], (-1, 1)) + along[1]
    assert np.array_equal(total, numbers)


def test_bits_that_lie_in_a_row_are_taken_together() -> None:
    assert decomposed(np.tile(TURNS, (2, 1))) == [[], [(0, 1, 16), (1, 2, 4)]]


@pytest.mark.parametrize("numbers", [[[0, 1, 2, 4]], [[1, 2, 3, 4]], [[0, 1], [1, 0]]])
def test_other_numbers_are_none(numbers: list[list[int]]) -> None:
    assert decomposed(np.array(numbers)) == []
