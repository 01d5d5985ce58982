"""Reductions across lanes: the steps, carried out in numpy, give every row's sum once."""

import numpy as np
import pytest

from triton_xe.layout import BlockedEncoding, DpasEncoding, LinearEncoding, to_linear_layout
from triton_xe.plan.lane_reduction import plan_lane_reduction


def dpas(rows, columns, lanes=16):
    """One warp's result of rows x columns."""
    return DpasEncoding(min(8, rows), 8, lanes, 2, lanes, (1, 1), (-(-rows // 8), columns // lanes))


LAYOUTS = [
    (dpas(16, 64), (16, 64)),
    (dpas(8, 64), (8, 64)),
    (dpas(32, 32), (32, 32)),
    (dpas(1, 32), (1, 32)),
    (dpas(16, 16, 8), (16, 16)),
    (dpas(4, 8, 8), (4, 8)),
    (BlockedEncoding((1, 4), (2, 8), (1, 1), (1, 0)), (16, 32)),
    (BlockedEncoding((4, 4), (4, 8), (1, 1), (1, 0)), (16, 64)),
    (BlockedEncoding((1, 4), (1, 16), (2, 1), (1, 0)), (2, 64)),
]


def lane_values(layout, table):
    """What each (lane, register) of warp 0 holds of a table of values."""
    lanes, registers = (layout.in_dims[name] for name in ("lane", "register"))
    out = np.zeros((lanes, registers))
    for lane in range(lanes):
        for register in range(registers):
            at = layout.apply({"register": register, "lane": lane, "warp": 0, "block": 0})
            out[lane, register] = table[tuple(at.values())]
    return out


@pytest.mark.parametrize(("encoding", "shape"), LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("transpose", [True, False])
def test_every_row_is_summed_where_the_plan_says(encoding, shape, axis, transpose):
    layout = to_linear_layout(encoding, shape)
    table = np.random.default_rng(0).integers(0, 100, shape)
    plan = plan_lane_reduction(layout, axis, transpose=transpose)
    values = _within_lanes(layout, table, axis)
    assert values.shape[1] == plan.rows
    lanes = np.arange(len(values))
    for step in plan.steps:
        if not step.transposes:
            values = values + values[lanes ^ step.mask]
            continue
        half = values.shape[1] // 2
        upper = (lanes & step.mask != 0)[:, None]
        first, second = values[:, :half], values[:, half:]
        send = np.where(upper, first, second)
        values = np.where(upper, second, first) + send[lanes ^ step.mask]
    sums = table.sum(axis)
    if layout.in_dims["warp"] == 1:
        assert np.array_equal(values, lane_values(plan.layout, sums))
    assert values.shape[1] == plan.layout.in_dims["register"]


def _within_lanes(layout, table, axis):
    """Each lane's registers put together along the axis, one column per row, in register order."""
    lanes, registers = (layout.in_dims[name] for name in ("lane", "register"))
    rows = []
    for lane in range(lanes):
        found = {}
        seen = set()
        for register in range(registers):
            at = layout.apply({"register": register, "lane": lane, "warp": 0, "block": 0})
            place = tuple(at.values())
            base = layout.apply({"register": register, "lane": 0, "warp": 0, "block": 0})
            key = tuple(v for d, v in enumerate(base.values()) if d != axis)
            if place not in seen:
                found[key] = found.get(key, 0) + table[place]
            seen.add(place)
        rows.append(list(found.values()))
    return np.array(rows)


@pytest.mark.parametrize(("rows", "lanes", "exchanges"), [
    (16, 16, 15), (8, 16, 8), (32, 16, 30), (16, 8, 14), (8, 8, 7), (1, 16, 4), (2, 16, 4),
])
def test_exchanges_are_shared_by_rows(rows, lanes, exchanges):
    shape = (rows, lanes * 2)
    layout = to_linear_layout(dpas(*shape, lanes), shape)
    plan = plan_lane_reduction(layout, 1)
    assert plan.exchanges == exchanges
    plain = plan_lane_reduction(layout, 1, transpose=False)
    assert plain.exchanges == rows * (lanes.bit_length() - 1)
    LinearEncoding(plan.layout)


def test_a_layout_without_rows_in_registers_stays_plain():
    layout = to_linear_layout(BlockedEncoding((4,), (16,), (4,), (0,)), (256,))
    plan = plan_lane_reduction(layout, 0)
    assert (plan.rows, plan.spreads, len(plan.steps)) == (1, False, 4)
