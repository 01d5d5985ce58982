"""The table of allocations that kernels may use."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from triton_xe.runtime import native
from triton_xe.runtime.device import MemoryBlock
from triton_xe.runtime.level_zero.device import open_devices
from triton_xe.runtime.level_zero.errors import QueueRecordingError

TOP = (1 << 64) - 1
CAPACITY = 1024


@pytest.fixture
def device() -> Any:
    if native.launch is None:
        pytest.skip("launch.c was not built")
    return native.launch.Device(0, 0, 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_table_knows_what_was_remembered_last(seed: int, device: Any) -> None:
    known: set[tuple[int, int]] = set()
    chance = random.Random(seed)
    for _ in range(60):
        is_new, begin = chance.random() < 0.7, chance.randrange(41)
        end = begin + chance.randrange(1, 13)
        known = {span for span in known if span[1] <= begin or end <= span[0]}
        if is_new:
            known.add((begin, end))
            device.remember(begin, end)
        else:
            device.forget(begin, end)
        inside = {address for low, high in known for address in range(low, high)}
        assert {a for a in range(60) if device.knows(a)} == inside


def test_addresses_are_unsigned(device: Any) -> None:
    device.remember(TOP - 4095, TOP)
    device.remember(4096, 8192)
    assert [device.knows(a) for a in (0, 4096, 8192, 1 << 63, TOP - 4095, TOP)] == [
        False, True, False, False, True, False,
    ]
    device.forget(0, TOP)
    assert not device.knows(TOP - 1)


def test_a_full_table_takes_nothing_more(device: Any) -> None:
    for n in range(CAPACITY + 3):
        device.remember(4096 * (5000 - n), 4096 * (5000 - n) + 64)
    first, last = 4096 * 5000, 4096 * (5000 - CAPACITY + 1)
    assert device.knows(first)
    assert device.knows(last)
    assert not device.knows(last - 4096)
    device.forget(first, first + 1)
    device.remember(64, 128)
    assert device.knows(64)


def test_waiting_for_a_queue_needs_one_that_runs(fake: Any) -> None:
    device = open_devices()[0]
    waited: list[str] = []
    queue = SimpleNamespace(is_recording=False, keeps_order=False, wait=lambda: waited.append("it"))
    device.queues[4096] = queue
    device.wait_for(4096)
    device.wait_for(0)
    assert waited == ["it"]
    queue.is_recording = True
    with pytest.raises(QueueRecordingError, match="nothing runs that can be waited for"):
        device.wait_for(4096)


def test_a_block_is_what_the_driver_allocated(fake: Any) -> None:
    device = open_devices()[0]
    fake.memory_range = lambda pointer: (pointer - 16, 64)
    assert device.block_of(4096) == MemoryBlock(4080, 4144, "device")
    fake.memory_type = lambda pointer: 0
    assert device.block_of(4096) is None
