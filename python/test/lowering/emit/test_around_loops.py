"""What stands before and behind the K loop of a product."""

from __future__ import annotations

import re

import pytest

from benchmarks.loops import compiled

TILES = 16
"""Products of one subgroup: 32x64 elements, 8x16 each."""
STORES = 8
PRODUCT = "GenISA.sub.group.dpas"
STORE = "GenISA.LSC2DBlockWriteAddrPayload"


def parts(name: str, device: str) -> tuple[str, str, str]:
    """The LLVM IR before the loop, in it, and behind it."""
    code = compiled(name, device).asm["llir"].split("\ndeclare ")[0]
    before, _, rest = code.partition("\nloop:")
    loop, _, after = rest.partition("\nafter:")
    return before, loop, after


@pytest.mark.covering
@pytest.mark.parametrize("device", ["bmg", "pvc"])
@pytest.mark.parametrize("name", ["gemm tf32 16", "gemm W8A16"])
def test_many_sums_begin_as_products_of_zeros(name, device):
    before, loop, _ = parts(name, device)
    assert before.count(f'call <8 x float> @"llvm.genx.{PRODUCT}') == TILES
    sums = re.findall(r"phi\s+<8 x float> \[(.*?), %", loop)
    assert len(sums) == TILES
    assert not any("0x0" in start for start in sums)


def test_stores_wait_for_all_values_where_messages_have_no_offsets():
    *_, after = parts("gemm", "pvc")
    found = re.findall(rf"fptrunc|{STORE}", after)
    assert found == ["fptrunc"] * TILES + [STORE] * STORES
    # each payload but the first is another one, moved in one direction
    assert after.count("LSC2DBlockCopyAddrPayload") == STORES - 1
    assert after.count("LSC2DBlockSetAddrPayloadField") == STORES - 1
    stores = re.findall(rf"{STORE}\S*\(ptr (\S+), i32 (\d+), i32 (\d+)", after)
    assert len({payload for payload, _, _ in stores}) == STORES
    assert {(x, y) for _, x, y in stores} == {("0", "0")}


def test_stores_follow_their_values_where_messages_have_offsets():
    *_, after = parts("gemm", "bmg")
    assert re.findall(rf"fptrunc|{STORE}", after) == ["fptrunc", "fptrunc", STORE] * STORES
    assert "LSC2DBlockCopyAddrPayload" not in after
