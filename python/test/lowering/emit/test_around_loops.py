"""The K loop of a product, and code after it."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from benchmarks.loops import compiled
from python.test.operations import name_of, parsed
from triton_xe.llvm import I32, I64, Instruction

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


@triton.jit
def product_and_sum(a_ptr, b_ptr, c_ptr, sum_ptr, K, STEP: tl.constexpr):
    at, inner = tl.arange(0, 32), tl.arange(0, 16)
    a_ptrs = a_ptr + at[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * 32 + at[None, :]
    total, product = 0, tl.zeros((32, 32), tl.float32)
    for _ in range(0, K, 16):
        product = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), product)
        total += STEP
        a_ptrs += 16
        b_ptrs += 16 * 32
    tl.store(c_ptr + at[:, None] * 32 + at[None, :], product)
    tl.store(sum_ptr, total)


def test_a_sum_that_wraps_around_does_not_count_iterations():
    step, times = 1 << 24, 300  # the sum has its last value 256 iterations earlier, too
    a, b = torch.ones(32, 16 * times).half(), torch.ones(16 * times, 32).half()
    c, total = torch.zeros(32, 32).to("xpu"), torch.zeros(1, dtype=torch.int32).to("xpu")
    product_and_sum[(1,)](a.to("xpu"), b.to("xpu"), c, total, 16 * times, step, num_warps=1)
    assert c.cpu().eq(16 * times).all()
    assert total.item() == (step * times) % (1 << 32)


def moves(loop: list[Instruction]) -> list[Instruction]:
    """The phis of scalars that a loop changes."""
    return [each for each in loop if each.opcode == "phi" and each.type is I32
            and each.operands[1].text != each.result]


@pytest.mark.parametrize("name", ["gemm", "gemm split-K"])
def test_positions_that_advance_with_the_counter_are_sums_with_it(name):
    loop = part(name, "pvc", "loop")
    (counter,) = moves(loop)
    loads = [each for each in loop if "LSC2DBlockRead" in name_of(each)]
    sums = {each.result: each for each in loop if each.opcode == "add"}
    places = {each.operands[place].text for each in loads for place in (4, 5)}
    found = [sums[place].operands[1].text if place in sums else place for place in places]
    assert counter.result in found


def test_initial_pointers_are_computed_after_the_test_of_the_loop():
    loop = part("gemm ABt", "dg2", "loop")
    pointers = [each for each in loop if each.opcode == "phi" and each.type.elem is I64]
    computed = {each.result for each in part("gemm ABt", "dg2", "start")}
    assert len(pointers) == 8
    assert computed.issuperset(each.operands[0].text for each in pointers)


@triton.jit
def sum_of_rows(x_ptr, out_ptr, rows, W: tl.constexpr):
    """The sum of the first rows, plus the row after them."""
    at = tl.arange(0, W)
    x_ptrs, total = x_ptr + at, tl.zeros((W,), tl.float32)
    for _ in range(0, rows):
        total += tl.load(x_ptrs)
        x_ptrs += W
    tl.store(out_ptr + at, total + tl.load(x_ptrs))


@pytest.mark.parametrize("rows", [0, 3])
def test_pointers_are_used_after_a_loop_that_may_not_run(rows):
    x, out = torch.randn(rows + 1, 64), torch.zeros(64).to("xpu")
    sum_of_rows[(1,)](x.to("xpu"), out, rows, 64)
    torch.testing.assert_close(out.cpu(), x.sum(0))


def test_rows_of_a_lane_are_stored_to_shared_memory_in_words():
    stores = [each for each in part("gemm ABt", "dg2", "loop") if name_of(each) == "store.slm"]
    assert stores
    assert {each.operands[0].type.scalar for each in stores} == {I32}
