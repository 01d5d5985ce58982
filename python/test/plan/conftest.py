"""Brute-force model of 2D block messages, written from the formulas and not from the planner.

Element (x, y) of block b of a result stands at index p, in elements of e bytes; the result's byte
q = p * e is byte q mod z of vector element q / (z * lanes), lane (q / z) mod lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from triton_xe.hardware.block_2d import BlockShape, check_load, check_store
from triton_xe.plan import BlockLoadPlan, BlockPlan

LANES = 16
Slot = tuple[int, int, int]


def _up(value: int) -> int:
    return 1 << (value - 1).bit_length()


def _index(shape: BlockShape, x: int, y: int, b: int) -> int:
    e = shape.element_bits // 8
    wp, hp = _up(shape.width), _up(shape.height)
    start = b * -(-wp * hp // (64 // e)) * (64 // e)
    if shape.transpose:
        return start + x * hp + y
    n = 4 // e if shape.vnni else 1
    return start + (y - y % n) * wp + x * n + y % n


def placed(shape: BlockShape, register_bits: int, tensor_bits: int) -> dict[Slot, tuple[int, int]]:
    """(vector element, lane, part) -> (x, y) in tensor elements."""
    e, z, t = shape.element_bits // 8, register_bits // 8, tensor_bits // 8
    table: dict[Slot, tuple[int, int]] = {}
    for b in range(shape.blocks):
        for y in range(shape.height):
            for x in range(shape.width):
                for byte in range(0, e, min(e, t)):
                    column = (b * shape.width + x) * e + byte
                    if column % t:
                        continue
                    q = _index(shape, x, y, b) * e + byte
                    slot = q // (z * LANES), q // z % LANES, q % z // t
                    assert slot not in table
                    table[slot] = column // t, y
    return table


def check_delivery(plan: BlockPlan) -> None:
    """Every register of every lane and warp has its element, once; nothing else is moved."""
    check = check_load if isinstance(plan, BlockLoadPlan) else check_store
    assert check(plan.shape, plan.target) is None
    table = placed(plan.shape, plan.register_bits, plan.element_bits)
    offset = np.array([[m.x, m.y] for m in plan.messages])
    got = (
        np.array([[table[s.element, lane, s.sub] for lane in range(LANES)] for s in plan.sources])
        + np.array([offset[s.message] for s in plan.sources])[:, None, :]
    )
    sizes = plan.layout.in_dims
    warps, registers = sizes.get("warp", 1), sizes["register"]
    w, r, lane = np.meshgrid(
        np.arange(warps), np.arange(registers), np.arange(LANES), indexing="ij"
    )
    index = {name: 0 * w for name in sizes} | {"warp": w, "register": r, "lane": lane}
    want = plan.layout.apply_numpy(index)
    zero = dict.fromkeys(plan.origin.in_dims, 0)
    for warp in range(warps):
        origin = plan.origin.apply(zero | {"warp": warp})
        for i, dim in enumerate((plan.x_dim, plan.y_dim)):
            np.testing.assert_array_equal(want[dim][warp], got[:, :, i] + origin[dim])
    used = {(s.message, s.element, lane, s.sub) for s in plan.sources for lane in range(LANES)}
    assert used == {(m, *slot) for m in range(len(plan.messages)) for slot in table}
    places = [(m.x + x, m.y + y) for m in plan.messages for x, y in table.values()]
    assert len(set(places)) == len(places)


@pytest.fixture(scope="session")
def model() -> SimpleNamespace:
    """The model's functions, for tests that import nothing from here."""
    functions: dict[str, Callable[..., object]] = dict(placed=placed, check_delivery=check_delivery)
    return SimpleNamespace(lanes=LANES, **functions)
