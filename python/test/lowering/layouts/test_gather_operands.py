"""Products of gathered rows: computed transposed, with rows loaded as operand B."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings
from python.test.operations import operations

ROWS, COLUMNS, DEPTH = 90, 96, 64
BLOCKS = {"M": 32, "N": 64, "BLOCK_K": 32}


@triton.jit
def experts(a, b, c, place, weight, sums, rows, n, k, M: tl.constexpr, N: tl.constexpr,
            BLOCK_K: tl.constexpr, KIND: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, BLOCK_K)
    at = tl.program_id(0) * M + i
    row = tl.load(place + at)
    known = row < rows
    a_ptrs = a + row[:, None] * k + d[None, :]
    b_ptrs = b + d[:, None] + (j % n)[None, :] * k
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, k, BLOCK_K):
        inside = d < k - first
        x = tl.load(a_ptrs, mask=known[:, None] & inside[None, :], other=0.0)
        y = tl.load(b_ptrs, mask=inside[:, None], other=0.0)
        total = tl.dot(x, y, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    if KIND == "weighted":
        bias = tl.load(weight + j, j < n, other=0.0)
        total = total * tl.load(weight + at)[:, None] + bias[None, :]
    if KIND == "sums":
        tl.store(sums + at, tl.sum(tl.where((j < n)[None, :], total, 0.0), 1))
    seen = (j < n)[None, :] & (at < 1000)[:, None]
    if KIND != "all rows":
        seen = seen & known[:, None]
    tl.store(c + at[:, None] * n + j[None, :], total.to(c.dtype.element_ty), mask=seen)


def launched(kind, dtype, k=DEPTH, warps=4, **blocks):
    blocks = BLOCKS | blocks
    made = torch.Generator().manual_seed(len(kind) + k)
    a, b = (torch.randint(-3, 4, (n, k), generator=made).to(dtype) for n in (ROWS, COLUMNS))
    place = torch.randint(0, ROWS + 30, (4 * blocks["M"],), generator=made, dtype=torch.int32)
    weight = torch.randint(-3, 4, (4 * blocks["M"],), generator=made).float()
    # behind the rows lies what no number may come from
    behind = torch.cat([a, torch.full((40, k), float("nan"), dtype=dtype)])
    c = torch.full((len(place), COLUMNS), 7.0, device="xpu")
    sums = torch.full((len(place),), 7.0, device="xpu")
    grid = 4, triton.cdiv(COLUMNS, blocks["N"])
    kernel = experts[grid](
        behind.to("xpu"), b.to("xpu"), c, place.to("xpu"), weight.to("xpu"), sums, ROWS, COLUMNS, k,
        **blocks, KIND=kind, num_warps=warps)
    known = (place < ROWS)[:, None]
    wanted = torch.where(known, a[place.clamp(max=ROWS - 1).long()].float() @ b.float().T, 0.0)
    if kind == "weighted":
        wanted = wanted * weight[:, None] + weight[:COLUMNS]
    if kind != "all rows":
        wanted = torch.where(known, wanted, 7.0)
    return kernel.asm["xetile"], c.cpu(), wanted, sums.cpu()


@pytest.mark.sample(2)
@pytest.mark.parametrize(*settings(
    kind=("plain", "weighted", "all rows"),
    dtype=(torch.float16, torch.bfloat16, torch.float32), strength=1))
def test_each_lane_loads_the_rows_of_its_columns(kind, dtype):
    xetile, c, wanted, _ = launched(kind, dtype)
    assert torch.equal(c, wanted)
    assert "ttg.convert_layout" not in operations(xetile, after="scf.for", before="scf.yield")
    check_text(xetile, f"""
        CHECK: computed transposed
        CHECK: scf.for
        CHECK: xe.columns
        CHECK{'-NOT' if kind == "all rows" else '-SAME'}: xe.hidden
        CHECK: scf.yield
        """)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("blocks", "warps"), [
    ({"M": 16, "N": 32}, 4), ({"M": 64, "N": 32}, 8), ({"M": 32, "N": 16, "BLOCK_K": 16}, 1)])
def test_blocks_of_other_shapes(blocks, warps):
    xetile, c, wanted, _ = launched("plain", torch.float16, warps=warps, **blocks)
    assert torch.equal(c, wanted)
    check_text(xetile, "CHECK: xe.columns")


def test_a_product_that_is_used_as_it_was_is_transposed_back():
    """Its rows are added up, and stored: those without a row of A as well."""
    xetile, c, wanted, sums = launched("sums", torch.float16, N=128)
    assert torch.equal(c, wanted)
    known = wanted[:, 0] != 7
    assert torch.equal(sums, torch.where(known, wanted.sum(1), 0.0))
    check_text(xetile, "CHECK-NOT: xe.hidden")


def test_blocks_that_reach_over_the_end_take_the_general_version():
    _, c, wanted, _ = launched("plain", torch.float16, k=48)
    assert torch.equal(c, wanted)


def test_rows_that_do_not_fill_operands_are_exchanged():
    xetile, c, wanted, _ = launched("plain", torch.float16, k=72)
    assert torch.equal(c, wanted)
    check_text(xetile, "CHECK-NOT: xe.columns")


@triton.jit
def scores(q, keys, out, place, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    x = tl.load(q + i[:, None] * D + d[None, :])
    for first in range(0, n, N):
        row = tl.load(place + first + j)
        y = tl.load(keys + row[None, :] * D + d[:, None])
        tl.store(out + i[:, None] * n + (first + j)[None, :], tl.dot(x, y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_keys_at_loaded_places_need_no_exchange(dtype):
    """As in paged attention, where places are loaded in each pass."""
    made = torch.Generator().manual_seed(5)
    q, keys = (torch.randint(-3, 4, (n, 32), generator=made).to(dtype) for n in (16, 50))
    place = torch.randint(0, 50, (128,), generator=made, dtype=torch.int32)
    out = torch.zeros(16, 128, device="xpu")
    kernel = scores[(1,)](q.to("xpu"), keys.to("xpu"), out, place.to("xpu"), 128, 16, 32, 32,
                          num_warps=2)
    assert torch.equal(out.cpu(), q.float() @ keys[place.long()].float().T)
    assert "transposed" not in "".join(kernel.metadata.remarks)
    check_text(kernel.asm["xetile"], "CHECK: xe.columns")
