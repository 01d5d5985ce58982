"""How often an access of a matrix is looked into."""

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
