"""What the checks of one launch after another keep in memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from triton_xe.errors import SimulatorTrap
from triton_xe.runtime.simulator.sanitizer import shadow


def test_memory_of_a_launch_is_zeros_again_for_the_next() -> None:
    arena = shadow._Arena()
    for _ in range(2):
        taken = [arena.take(1000, np.int64), arena.take(3, np.uint8), arena.take(77, np.int32)]
        taken.append(arena.take(shadow.ARENA_BYTES, np.uint8))
        starts = [shadow._address(memory) for memory in taken]
        assert [len(memory) for memory in taken] == [1000, 3, 77, shadow.ARENA_BYTES]
        assert all(start % 64 == 0 for start in starts)
        assert not any(memory.any() for memory in (*taken, arena.table))
        assert min(b - a for a, b in pairwise(starts[:3])) >= 64
        for memory in taken:
            memory[:] = 0x55
        arena.table[:9] = 5
        arena.clear(9)


@triton.jit
def through_addresses(table, out, ROWS: tl.constexpr):
    i = tl.arange(0, 16)
    for row in range(ROWS):
        block = tl.load(table + row).to(tl.pointer_type(tl.float32))
        tl.store(out + row * 16 + i, tl.load(block + i))


def test_blocks_that_an_earlier_launch_found_are_found_anew(monkeypatch: Any) -> None:
    monkeypatch.setenv("TRITON_XE_SANITIZE", "1")
    rows = [torch.full((16,), float(k), device="xpu") for k in range(40)]
    table = torch.tensor([row.data_ptr() for row in rows]).to("xpu")
    out = torch.zeros(40 * 16, device="xpu")
    for _ in range(3):
        through_addresses[(1,)](table, out, ROWS=40)
        assert torch.equal(out.view(40, 16).cpu(), torch.arange(40.0)[:, None].expand(40, 16))
    del rows[7]
    with pytest.raises(SimulatorTrap, match="after free"):
        through_addresses[(1,)](table, out, ROWS=40)
    through_addresses[(1,)](table, out, ROWS=7)
