"""Code after the K loop of a product."""

from __future__ import annotations

from benchmarks.loops import compiled
from python.test.operations import name_of, parsed
from triton_xe.llvm import Instruction

TILES = 16
"""Products of one subgroup: 32x64 elements, 8x16 each."""
STORES = 8
STORE = "GenISA.LSC2DBlockWriteAddrPayload"


def part(name: str, device: str, block: str) -> list[Instruction]:
    return parsed(compiled(name, device).asm["llir"], block)


def test_stores_wait_for_all_values_where_messages_have_no_offsets():
    after = part("gemm", "pvc", "after")
    names = [name_of(each) for each in after]
    assert [n for n in names if n in ("fptrunc", STORE)] == ["fptrunc"] * TILES + [STORE] * STORES
    # each payload but the first is another one, moved in one direction
    assert names.count("GenISA.LSC2DBlockCopyAddrPayload") == STORES - 1
    assert names.count("GenISA.LSC2DBlockSetAddrPayloadField") == STORES - 1
    stores = [[operand.text for operand in each.operands]
              for each in after if name_of(each) == STORE]
    assert len({payload for payload, *_ in stores}) == STORES
    assert {(x, y) for _, x, y, *_ in stores} == {("0", "0")}


def test_stores_follow_their_values_where_messages_have_offsets():
    names = [name_of(each) for each in part("gemm", "bmg", "after")]
    assert [n for n in names if n in ("fptrunc", STORE)] == ["fptrunc", "fptrunc", STORE] * STORES
    assert "GenISA.LSC2DBlockCopyAddrPayload" not in names
