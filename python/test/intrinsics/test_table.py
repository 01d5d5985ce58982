"""The table of intrinsics: names there and back, and rows that are complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triton_xe.errors import LegalityError
from triton_xe.intrinsics import ROWS, Family, Uniformity, find, genisa, opencl, spirv
from triton_xe.intrinsics.definitions import subgroup
from triton_xe.intrinsics.intrinsic import Intrinsic

NOTHING_TO_DEFINE = {
    Family.HINT, Family.BARRIER, Family.FENCE, Family.HELPER, Family.SHADOW}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_rows_are_complete(row: Intrinsic) -> None:
    """Each cites a source, and what computes something has a readable definition."""
    assert row.source
    assert len(row.positions) == len(row.parameters), "names of arguments are unique"
    assert (row.definition is None) == (row.family in NOTHING_TO_DEFINE)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_names_lead_back_to_their_row(row: Intrinsic) -> None:
    if any(p.type == "P" for p in row.parameters) and row.is_builtin:
        pytest.skip("pointers of builtins are spelled by what they point to")
    types = {"P": "ptr addrspace(1)", "p": "ptr", "u32": "i32", "f32": "float"}
    arguments = [types.get(p.type, "i32" if p.type.isupper() else p.type) for p in row.parameters]
    result = types.get(row.result, "i32" if row.result.isupper() else row.result)
    symbol = row.symbol(result, arguments)
    assert find(symbol) is row
    row.check(result, arguments)


OVER_LANES = [
    r for r in ROWS.values() if r.family in (Family.SHUFFLE, Family.REDUCTION, Family.VOTE)]


@pytest.mark.parametrize("row", OVER_LANES, ids=lambda r: r.name)
def test_uniformity_is_that_of_the_definition(row: Intrinsic) -> None:
    """One value for all lanes, of different values, or of equal ones, or with an equal index."""
    rest: list[Any] = [np.add] if row.family is Family.REDUCTION else []
    if row.has("size") and row.definition is not subgroup.group_operation:
        rest.append(4)
    if row.definition is subgroup.exclusive_scan:
        rest.append(0)

    def same(value: Any, *more: Any) -> bool:
        assert row.definition is not None
        return np.unique(row.definition(value, *more)).size == 1

    lanes, ones = np.arange(1, 17), np.ones(16, int)
    if row.uniformity is Uniformity.OPERATION:
        assert same(lanes, *rest, spirv.REDUCE)
        assert not same(lanes, *rest, spirv.INCLUSIVE_SCAN)
    elif row.family is Family.SHUFFLE:
        assert same(ones, *rest, 3)
        uniform = row.uniformity in (Uniformity.SUBGROUP, Uniformity.INDEXED)
        assert same(lanes, *rest, 3) == uniform
    else:
        assert same(lanes > 3 if row.family is Family.VOTE else lanes, *rest) == (
            row.uniformity is Uniformity.SUBGROUP)


@pytest.mark.parametrize(("symbol", "row"), [
    ("_Z12get_group_idj", opencl.GROUP_ID),
    ("_Z20sub_group_reduce_maxi", ROWS["sub_group_reduce_max"]),
    ("_Z27__spirv_GroupNonUniformFAddjjf", ROWS["__spirv_GroupNonUniformFAdd"]),
    ("_Z18__spirv_AtomicLoadPU3AS1iii", spirv.ATOMIC_LOAD),
    ("_Z15__spirv_ocl_expf", ROWS["exp"]),
    ("_Z18convert_float4_rteDv4_i", opencl.CONVERT),
    ("llvm.genx.GenISA.LSC2DBlockReadAddrPayload.v8i16.p0i32", genisa.LSC_2D_BLOCK_READ_PAYLOAD),
    ('"llvm.genx.GenISA.threadgroupnamedbarriers.wait"', genisa.NAMED_BARRIER_WAIT),
])
def test_symbols_as_other_tools_spell_them(symbol: str, row: Intrinsic) -> None:
    assert find(symbol) is row


@pytest.mark.parametrize("symbol", ["", "_Z", "_Z9exp", "_Z99expf", "_Z0", "llvm", "llvm.", "exp"])
def test_what_is_no_symbol_is_unknown(symbol: str) -> None:
    assert not find(symbol).known


def test_symbols_of_vectors_and_signs() -> None:
    mul_hi = ROWS["mul_hi"]
    assert mul_hi.symbol("<4 x i32>", ["<4 x i32>"] * 2, unsigned=True) == "_Z6mul_hiDv4_jS_"
    assert mul_hi.symbol("i64", ["i64"] * 2) == "_Z6mul_hill"
    assert ROWS["ldexp"].symbol("<2 x float>", ["<2 x float>", "<2 x i32>"]) == (
        "_Z5ldexpDv2_fDv2_i")
    assert genisa.DPAS.symbol("<8 x float>", ["<8 x float>", "<8 x i16>", "<8 x i32>"]) == (
        "llvm.genx.GenISA.sub.group.dpas.v8f32.v8f32.v8i16.v8i32")


def test_a_wrong_declaration_is_refused() -> None:
    with pytest.raises(LegalityError, match=r"ftobf is R \(value: V, =rounding: i32\)"):
        genisa.FLOAT_TO_BF16.check("i16", ["float"])
    with pytest.raises(LegalityError, match="PredicatedLoad is"):
        genisa.PREDICATED_LOAD.check("float", ["ptr addrspace(1)", "i64", "i1", "half"])
