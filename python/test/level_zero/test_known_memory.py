"""The table of allocations that kernels may use."""

from __future__ import annotations

import ctypes
import random

import pytest

from triton_xe.runtime.level_zero import known_memory

TOP = (1 << 64) - 1


def table() -> tuple[ctypes.Array[ctypes.c_uint64], int]:
    words = (ctypes.c_uint64 * known_memory.WORDS)()
    return words, ctypes.addressof(words)


@pytest.mark.parametrize("seed", range(20))
def test_the_table_knows_what_was_remembered_last(seed: int) -> None:
    words, at = table()
    known: set[tuple[int, int]] = set()
    chance = random.Random(seed)
    for _ in range(60):
        is_new, begin = chance.random() < 0.7, chance.randrange(41)
        end = begin + chance.randrange(1, 13)
        known = {span for span in known if span[1] <= begin or end <= span[0]}
        if is_new:
            known.add((begin, end))
            known_memory.remember(at, begin, end)
        else:
            known_memory.forget(at, begin, end)
        assert [(words[1 + 2 * n], words[2 + 2 * n]) for n in range(words[0])] == sorted(known)
    inside = {address for begin, end in known for address in range(begin, end)}
    assert {a for a in range(60) if known_memory.is_known(at, a)} == inside


def test_addresses_are_unsigned() -> None:
    _, at = table()
    known_memory.remember(at, TOP - 4095, TOP)
    known_memory.remember(at, 4096, 8192)
    assert [known_memory.is_known(at, a) for a in (0, 4096, 8192, 1 << 63, TOP - 4095, TOP)] == [
        False, True, False, False, True, False,
    ]
    known_memory.forget(at, 0, TOP)
    assert not known_memory.is_known(at, TOP - 1)


def test_a_full_table_takes_nothing_more() -> None:
    words, at = table()
    for n in range(known_memory.CAPACITY + 3):
        known_memory.remember(at, 4096 * (5000 - n), 4096 * (5000 - n) + 64)
    assert words[0] == known_memory.CAPACITY
    first, last = 4096 * 5000, 4096 * (5000 - known_memory.CAPACITY + 1)
    assert known_memory.is_known(at, first)
    assert known_memory.is_known(at, last)
    assert not known_memory.is_known(at, last - 4096)
    known_memory.forget(at, first, first + 1)
    known_memory.remember(at, 64, 128)
    assert known_memory.is_known(at, 64)
