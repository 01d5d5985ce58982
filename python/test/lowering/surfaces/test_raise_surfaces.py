"""How often an access of a matrix is looked into."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl

from python.test.lowering.ttgir_helper import make_ttgir
from python.test.operations import operations
from triton_xe.lowering.module_facts import CompileOptions
from triton_xe.lowering.pipeline import make_xetile
from triton_xe.lowering.surfaces import surfaces


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
    monkeypatch: pytest.MonkeyPatch, loop: bool
) -> None:
    """A loop is written anew with its loads, so that a store in it is looked into again."""
    seen: list[Any] = []
    look = surfaces.find_surface

    def noted(op: Any, *given: Any) -> surfaces.Surface:
        seen.append(op.name)
        return look(op, *given)

    monkeypatch.setattr(surfaces, "find_surface", noted)
    text = make_ttgir(copied, {"x": "*fp16", "y": "*fp16", "N": "i32"},
                      {"ROWS": 32, "COLUMNS": 64, "LOOP": loop}, aligned=(0, 1, 2))
    made = str(make_xetile(text, CompileOptions(guards="launch"), "bmg"))
    found = operations(made)
    assert found.count("xetile.load_tile") == found.count("xetile.store_tile") == 1
    assert sorted(seen) == ["tt.load", "tt.store", *["tt.store"] * loop]
