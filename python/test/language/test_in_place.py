"""Scattered stores and atomics in the layout of their operands, and sums of whole tensors."""

import pytest
import torch
import triton
import triton.language as tl

from python.test.operations import instructions

SIZE = 512


@triton.jit
def scatter(x, places, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + tl.load(places + i), tl.load(x + i))


@triton.jit
def masked_scatter(x, places, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(places + i)
    tl.store(out + at, tl.load(x + i), mask=at % 3 != 0)


@triton.jit
def count(x, places, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(out + tl.load(places + i) % 7, 1, sem="relaxed")


@triton.jit
def exchange(x, places, out, N: tl.constexpr):
    """The old numbers are stored one after another."""
    i = tl.arange(0, N)
    old = tl.atomic_xchg(out + tl.load(places + i), tl.load(x + i))
    tl.store(x + i, old)


@triton.jit
def whole_sum(x, places, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out, tl.sum(tl.load(x + i)))


@triton.jit
def whole_sum_of_matrix(x, places, out, N: tl.constexpr):
    at = tl.arange(0, N // 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out, tl.sum(tl.load(x + at)))


@triton.jit
def whole_minimum(x, places, out, N: tl.constexpr):
    """Where the smallest is; of two, the first."""
    i = tl.arange(0, N)
    tl.store(out, tl.argmin(tl.load(x + i), 0))
    tl.store(out + 1, tl.max(tl.load(x + i)))


def expected(kernel, x, places):
    """`out`, and `x` afterwards."""
    out, at = torch.full((SIZE,), -1, dtype=torch.int32), places.long()
    if kernel is exchange:
        return out.scatter(0, at, x), out[at]
    if kernel is scatter:
        return out.scatter(0, at, x), x
    if kernel is masked_scatter:
        kept = at % 3 != 0
        return out.scatter(0, at[kept], x[kept]), x
    if kernel is count:
        return out + torch.bincount(at % 7, minlength=SIZE).int(), x
    first = {whole_minimum: [x.argmin(), x.max()]}.get(kernel, [x.sum()])
    out[: len(first)] = torch.tensor([int(v) for v in first], dtype=torch.int32)
    return out, x


@triton.jit
def add_to_matrix(x, places, masks, out, olds, M: tl.constexpr, N: tl.constexpr):
    """What was there before goes to `olds`."""
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    mask = tl.load(masks + at) != 0
    old = tl.atomic_add(out + tl.load(places + at), tl.load(x + at), mask=mask)
    tl.store(olds + at, old, mask=mask)


KERNELS = [scatter, masked_scatter, count, exchange, whole_sum, whole_sum_of_matrix, whole_minimum]


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4, 32])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.fn.__name__)
def test_results(kernel, warps):
    places = torch.randperm(SIZE, dtype=torch.int32)
    x = torch.randperm(SIZE, dtype=torch.int32) * 5
    out = torch.full((SIZE,), -1, dtype=torch.int32, device="xpu")
    given = x.to("xpu")
    kernel[(1,)](given, places.to("xpu"), out, N=SIZE, num_warps=warps)
    for got, want in zip((out, given), expected(kernel, x, places), strict=True):
        assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("kernel", [scatter, masked_scatter, count], ids=lambda k: k.fn.__name__)
def test_no_shared_memory(kernel):
    x = torch.arange(SIZE, dtype=torch.int32, device="xpu")
    made = kernel[(1,)](x, x, torch.zeros_like(x), N=SIZE, num_warps=4)
    assert made.metadata.shared == 0
    assert "__spirv_ControlBarrier" not in instructions(made.asm["llir"])


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 8, 32])
@pytest.mark.parametrize("shape", [(1, 4), (8, 16), (64, 32)])
def test_matrices_whose_layouts_may_hold_copies(shape, warps):
    size = shape[0] * shape[1]
    places = torch.randperm(size, dtype=torch.int32)
    x, out, olds = (torch.randint(-9, 9, (size,), dtype=torch.int32) for _ in range(3))
    masks = torch.randint(0, 2, (size,), dtype=torch.int32)
    on_device = [t.to("xpu") for t in (x, places, masks, out, olds)]
    add_to_matrix[(1,)](*on_device, *shape, num_warps=warps)
    at, kept = places.long(), masks.bool()
    olds[kept] = out[at[kept]]
    out[at[kept]] += x[kept]
    assert torch.equal(on_device[3].cpu(), out)
    assert torch.equal(on_device[4].cpu(), olds)


@triton.jit
def double(x, out, n, count, N: tl.constexpr, MASKED: tl.constexpr):
    """Behind 2 n elements, whose alignment nothing tells."""
    i = tl.arange(0, N)
    mask = i < count if MASKED else None
    tl.store(out + 2 * n + i, tl.load(x + i, mask=mask) * 2, mask=mask)


@pytest.mark.covering
@pytest.mark.parametrize(("dtype", "places"), [
    (torch.float32, 1), (torch.float32, 2), (torch.float16, 2), (torch.int64, 1), (torch.uint8, 2),
    (torch.float64, 3),
], ids=str)
@pytest.mark.parametrize("count", [None, SIZE - 7, SIZE])
def test_stores_that_may_be_misaligned_are_where_the_loads_are(dtype, places, count):
    x = torch.randint(0, 100, (SIZE,)).to(dtype)
    out = torch.zeros(SIZE + 16, dtype=dtype, device="xpu")
    made = double[(1,)](x.to("xpu"), out, places, count, N=SIZE, MASKED=count is not None,
                        num_warps=1)
    wanted = torch.zeros(SIZE + 16, dtype=dtype)
    wanted[2 * places : 2 * places + SIZE][:count] = x[:count] * 2
    assert torch.equal(out.cpu(), wanted)
    if count is None and dtype.itemsize >= 2:
        assert made.metadata.shared == 0


@triton.jit
def by_row(row, x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + column[None, :]
    tl.store(out + at, tl.load(x + at) * tl.load(row + column)[None, :])


@pytest.mark.covering
@pytest.mark.parametrize("num_warps", [4, 8, 16])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_row_that_is_stored_to_by_another_argument(dtype: torch.dtype, num_warps: int) -> None:
    x = torch.randn(16, 512).to(dtype)
    stored = x.to("xpu")
    by_row[(1,)](stored[0], stored, stored, 16, 512, num_warps=num_warps)
    assert torch.equal(stored.cpu(), x * x[0])
