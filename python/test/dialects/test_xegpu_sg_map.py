"""The sg_map tables of PVC and ARC: their own arithmetic, the hardware, and the verifier agree."""

from __future__ import annotations

from math import prod

import pytest
from xdsl.dialects import test as any_op
from xdsl.dialects.builtin import (
    Attribute,
    IntegerType,
    Signedness,
    VectorType,
    bf16,
    f16,
    f32,
    i8,
    i32,
)

from triton_xe.dialects.xegpu import DpasOp, sg_map, tensor_desc
from triton_xe.dialects.xegpu.dpas import dpas_sg_map, lanes_reason, sg_map_reason
from triton_xe.dialects.xegpu.types import value_shapes
from triton_xe.hardware.dpas import Dpas
from triton_xe.hardware.target import target

u8 = IntegerType(8, Signedness.UNSIGNED)
ELEMENTS: dict[str, Attribute] = {
    "bf16": bf16, "f16": f16, "tf32": f32, "s8": i8, "u8": u8, "f32": f32, "i32": i32,
}  # fmt: skip
# The RFC's "Rules of sg_map setting on PVC and ARC".
# (operand, element) -> (wi_layout, wi_data, tile that one DPAS takes, fragment of a work-item)
PVC = {
    ("a", "bf16"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("a", "f16"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("a", "tf32"): ((2, 8), (1, 1), (8, 8), (4, 1)),
    ("a", "u8"): ((1, 16), (1, 2), (8, 32), (8, 2)),
    ("a", "s8"): ((1, 16), (1, 2), (8, 32), (8, 2)),
    ("b", "bf16"): ((1, 16), (2, 1), (16, 16), (8, 2)),
    ("b", "f16"): ((1, 16), (2, 1), (16, 16), (8, 2)),
    ("b", "tf32"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("b", "u8"): ((1, 16), (4, 1), (32, 16), (8, 4)),
    ("b", "s8"): ((1, 16), (4, 1), (32, 16), (8, 4)),
    ("c", "f32"): ((1, 16), (1, 1), (8, 16), (8, 1)),
    ("c", "i32"): ((1, 16), (1, 1), (8, 16), (8, 1)),
}
ARC = {
    ("a", "bf16"): ((1, 8), (1, 2), (8, 16), (8, 2)),
    ("a", "f16"): ((1, 8), (1, 2), (8, 16), (8, 2)),
    ("a", "tf32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
    ("a", "u8"): ((1, 8), (1, 4), (8, 32), (8, 4)),
    ("a", "s8"): ((1, 8), (1, 4), (8, 32), (8, 4)),
    ("b", "bf16"): ((1, 8), (2, 1), (16, 8), (8, 2)),
    ("b", "f16"): ((1, 8), (2, 1), (16, 8), (8, 2)),
    ("b", "tf32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
    ("b", "u8"): ((1, 8), (4, 1), (32, 8), (8, 4)),
    ("b", "s8"): ((1, 8), (4, 1), (32, 8), (8, 4)),
    ("c", "f32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
    ("c", "i32"): ((1, 8), (1, 1), (8, 8), (8, 1)),
}
TABLES = {
    16: PVC,
    8: ARC,
}
ROWS = [(lanes, *key, *row) for lanes, table in TABLES.items() for key, row in table.items()]


@pytest.mark.parametrize(
    ("lanes", "operand", "element", "layout", "data", "tile", "fragment"), ROWS
)
def test_table_row(lanes, operand, element, layout, data, tile, fragment) -> None:
    entry = sg_map(layout, data)
    assert entry.lanes == lanes
    assert dpas_sg_map(operand, element, lanes) == entry
    assert sg_map_reason(operand, element, entry) is None
    desc = tensor_desc(tile, ELEMENTS[element], sg_map=entry)
    assert value_shapes(desc) == (fragment,)


@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize("element", ["bf16", "f16", "tf32", "s8", "u8", "s4", "bf8"])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_map_deals_out_elements_as_the_hardware_does(
    lanes: int, element: str, operand: str
) -> None:
    accumulator = "i32" if element in ("s8", "u8", "s4") else "f32"
    dpas = Dpas(element, element, accumulator, 8, lanes)
    rows, columns = (dpas.repeat_count, dpas.k) if operand == "a" else (dpas.k, lanes)
    expected = dpas.coordinates(operand)
    assert deal(dpas_sg_map(operand, element, lanes), rows, columns) == expected


def deal(entry, rows: int, columns: int) -> dict[tuple[int, int], tuple[int, int]]:
    """(register, lane) -> (row, column): step by step, wi_data row by row, as the RFC says."""
    (lane_rows, lane_columns), (height, width) = entry.layout, entry.data
    table = {}
    for lane in range(entry.lanes):
        y, x = divmod(lane, lane_columns)
        register = 0
        for row in range(0, rows, lane_rows * height):
            for column in range(0, columns, lane_columns * width):
                for dy in range(height):
                    for dx in range(width):
                        place = row + y * height + dy, column + x * width + dx
                        table[register, lane] = place
                        register += 1
    return table


def test_types_outside_the_tables() -> None:
    assert dpas_sg_map("a", "s4", 16, "s8") == sg_map((1, 16), (1, 2))
    assert dpas_sg_map("b", "s4", 16, "s8") == sg_map((1, 16), (8, 1))
    assert dpas_sg_map("a", "s8", 16, "s4") == sg_map((1, 16), (1, 2))
    assert dpas_sg_map("c", "f16", 8) == sg_map((1, 8), (1, 1))


@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (bf16, bf16, f32), (bf16, bf16, bf16), (f16, f16, f32), (f16, f16, f16), (f32, f32, f32),
        (i8, i8, i32), (u8, i8, i32), (i8, u8, i32), (IntegerType(4), IntegerType(4), i32),
        (i8, IntegerType(4), i32), (IntegerType(4), i8, i32),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", [8, 4, 2])
def test_every_element_type_in_both_flavours(a, b, c, rows: int, lanes: int) -> None:
    whole = dpas_op(a, b, c, rows, lanes, None)
    whole.verify()
    dpas = whole.instruction
    maps = (
        dpas_sg_map("a", dpas.a, lanes, dpas.b),
        dpas_sg_map("b", dpas.b, lanes, dpas.a),
        dpas_sg_map("c", dpas.accumulator, lanes),
    )
    own = dpas_op(a, b, c, rows, lanes, maps)
    own.verify()
    assert own.instruction == dpas


def dpas_op(a, b, c, rows: int, lanes: int, maps) -> DpasOp:
    bits = max(64 if t == f32 else 2 * t.bitwidth for t in (a, b)) // 2
    k = 256 // bits
    shapes = ((rows, k), (k, lanes), (rows, lanes))
    if maps is not None:
        shapes = tuple(
            (x * y // (lanes * entry.data_size), entry.data_size)
            for (x, y), entry in zip(shapes, maps, strict=True)
        )
    types = [VectorType(t, shape) for t, shape in zip((a, b, c), shapes, strict=True)]
    values = any_op.TestOp(result_types=types).results
    return DpasOp(a=values[0], b=values[1], acc=values[2], sg_maps=maps)


def test_lanes_of_a_target() -> None:
    assert lanes_reason(sg_map((1, 16), (1, 1)), target("bmg")) is None
    assert lanes_reason(sg_map((1, 8), (1, 1)), target("pvc")) == (
        "the sg_map has 8 work-items, subgroups on pvc have 16"
    )


@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("element", [i8, f16, f32])
@pytest.mark.parametrize("rows", [4, 8, 32])
def test_a_value_holds_every_element_once(rows: int, element: Attribute, blocks: int) -> None:
    total = rows * 16 * blocks
    whole = tensor_desc((rows, 16), element, array_length=blocks)
    factor = 32 // element.bitwidth
    for shape in (
        *value_shapes(whole), *value_shapes(whole, packed=True),
        *value_shapes(whole, transpose=True), *value_shapes(whole, False, True, 32),
    ):  # fmt: skip
        assert prod(shape) == total
    shared = tensor_desc(
        (rows, 16), element, array_length=blocks, sg_map=sg_map((1, 16), (factor, 1))
    )
    for shape in value_shapes(shared):
        assert prod(shape) * 16 == total
        assert shape[-1] == factor
