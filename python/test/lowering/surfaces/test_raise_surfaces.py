"""How often accesses of matrices are looked into, and how often they are written."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from python.test.counting import watched
from python.test.lowering.ttgir_helper import make_ttgir
from python.test.operations import operations
from triton_xe.lowering.module_facts import CompileOptions
from triton_xe.lowering.pipeline import make_xetile
from triton_xe.lowering.surfaces.surfaces import find_surface


@triton.jit
def copied(x, y, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr, LOOP: tl.constexpr):
    """A block of a matrix, or all blocks of some rows."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    if LOOP:
        for start in range(0, N, COLUMNS):
            at = rows * N + start + tl.arange(0, COLUMNS)[None, :]
            tl.store(y + at, tl.load(x + at))
    else:
        at = rows * N + tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        tl.store(y + at, tl.load(x + at))


@pytest.mark.parametrize("loop", [False, True])
def test_each_access_of_a_copy_is_looked_into_once_without_loops(
    loop: bool
) -> None:
    """A loop is written anew with its loads, so that a store in it is looked into again."""
    text = make_ttgir(copied, {"x": "*fp16", "y": "*fp16", "N": "i32"},
                      {"ROWS": 32, "COLUMNS": 64, "LOOP": loop}, aligned=(0, 1, 2))
    with watched(find_surface) as calls:
        made = str(make_xetile(text, CompileOptions(guards="launch"), "bmg"))
    found = operations(made)
    assert found.count("xetile.load_tile") == found.count("xetile.store_tile") == 1
    seen = sorted(call.arguments["op"].name for call in calls)
    assert seen == ["tt.load", "tt.store", *["tt.store"] * loop]


@triton.jit
def product_at(pointers, K, N, ROWS: tl.constexpr, DEPTH: tl.constexpr):
    """A product of matrices whose addresses are in memory, as those of a group are."""
    a = tl.make_tensor_descriptor(
        tl.load(pointers).to(tl.pointer_type(tl.float16)), [ROWS, K], [K, 1], [ROWS, DEPTH])
    b = tl.make_tensor_descriptor(
        tl.load(pointers + 1).to(tl.pointer_type(tl.float16)), [K, N], [N, 1], [DEPTH, ROWS])
    c = tl.make_tensor_descriptor(
        tl.load(pointers + 2).to(tl.pointer_type(tl.float16)), [ROWS, N], [N, 1], [ROWS, ROWS])
    acc = tl.zeros((ROWS, ROWS), tl.float32)
    for k in range(0, K, DEPTH):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    c.store([0, 0], acc.to(tl.float16))


@pytest.mark.parametrize(("guards", "scatters"), [("launch", 1), ("kernel", 2)])
def test_the_kernel_tests_stores_with_its_loads(guards: str, scatters: int) -> None:
    """In a general version, which some launches take always, a fast loop needs no fast store."""
    text = make_ttgir(product_at, {"pointers": "*i64", "K": "i32", "N": "i32"},
                      {"ROWS": 64, "DEPTH": 32}, aligned=(0,))
    found = operations(str(make_xetile(text, CompileOptions(guards=guards), "bmg")))
    assert found.count("tt.store") == scatters
    assert found.count("xetile.store_tile") == 1


@triton.jit
def scanned(x, y, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * stride + tl.arange(0, COLUMNS)[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), AXIS))


@pytest.mark.parametrize(("shape", "axis", "blocks"), [
    ((64, 64), 0, 1), ((8, 512), 0, 1), ((64, 64), 1, 0), ((128, 16), 0, 0)])
def test_scans_of_whole_columns_in_lanes_have_blocks(
    shape: tuple[int, int], axis: int, blocks: int
) -> None:
    """Four warps share the 16 columns of the last matrix, and exchange their totals."""
    text = make_ttgir(scanned, {"x": "*fp32", "y": "*fp32", "stride": "i32"},
                      {"ROWS": shape[0], "COLUMNS": shape[1], "AXIS": axis}, aligned=(0, 1, 2))
    found = operations(str(make_xetile(text, CompileOptions(guards="launch"), "bmg")))
    assert found.count("xetile.load_tile") == found.count("xetile.store_tile") == blocks
    assert found.count("ttg.convert_layout") == 0
