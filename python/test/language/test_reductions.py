"""Reductions and scans: every kind of combine function, axis, layout and type."""


import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings
from python.test.operations import calls, instructions

SHAPES = [(64, 1, 4), (16, 32, 1), (4, 128, 4), (128, 4, 2)]


@triton.jit
def reduce_kernel(x, out, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr,
                  op: tl.constexpr):
    i, j = tl.arange(0, rows), tl.arange(0, columns)
    v = tl.load(x + i[:, None] * columns + j[None, :])
    if op == "sum":
        r = tl.sum(v, axis)
    elif op == "max":
        r = tl.max(v, axis)
    elif op == "argmax":
        r = tl.argmax(v, axis)
    elif op == "argmin":
        r = tl.argmin(v, axis)
    tl.store(out + tl.arange(0, columns if axis == 0 else rows), r)


@pytest.mark.covering
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_bf16_round_once(shape, axis):
    rows, columns, warps = shape
    x = torch.randn(rows, columns).bfloat16()
    out = torch.empty(rows if axis else columns, dtype=torch.bfloat16, device="xpu")
    reduce_kernel[(1,)](x.to("xpu"), out, rows, columns, axis, "sum", num_warps=warps)
    want = x.double().sum(axis)
    assert torch.all((out.cpu().double() - want).abs() <= want.abs() * 2.0**-8 + 1e-5)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float16, torch.float64])
def test_maximum_of_types(dtype):
    x = (torch.randn(16, 64) * 50).to(dtype)
    out = torch.empty(16, dtype=dtype, device="xpu")
    reduce_kernel[(1,)](x.to("xpu"), out, 16, 64, 1, "max")
    assert torch.equal(out.cpu(), x.max(1).values)


@pytest.mark.covering
@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_of_equal_elements_wins(op, axis):
    x = torch.randint(0, 4, (32, 64), dtype=torch.int32)
    out = torch.empty(32 if axis else 64, dtype=torch.int32, device="xpu")
    reduce_kernel[(1,)](x.to("xpu"), out, 32, 64, axis, op)
    assert np.array_equal(out.cpu().numpy(), getattr(np, op)(x.numpy(), axis))


@triton.jit
def clamp_add(a, b):
    s = a + b
    if s > 100:
        s = 100
    return s


@triton.jit
def branching_kernel(x, out, size: tl.constexpr):
    tl.store(out, tl.reduce(tl.load(x + tl.arange(0, size)), 0, clamp_add))


@pytest.mark.parametrize(("value", "want"), [(0, 0), (1, 100)])
def test_combine_functions_may_branch(value, want):
    x = torch.full((256,), value, dtype=torch.int32, device="xpu")
    out = torch.empty(1, dtype=torch.int32, device="xpu")
    branching_kernel[(1,)](x, out, 256)
    assert out.item() == want


@triton.jit
def least_valid(a, valid, b, other_valid):
    if other_valid == 0:
        return a, valid
    if valid == 0:
        return b, other_valid
    if a < b:
        return a, valid
    else:
        return b, other_valid


@triton.jit
def least_valid_kernel(x, out, start, size: tl.constexpr):
    at = tl.arange(0, size)
    valid = (at >= start).to(tl.int32)
    value, found = tl.reduce((tl.load(x + at), valid), 0, least_valid)
    tl.store(out, value + found)


@pytest.mark.parametrize("start", [0, 40, 63, 64])
def test_combine_functions_of_tuples_may_branch(start):
    x = torch.arange(64, dtype=torch.float32)
    out = torch.empty(1, device="xpu")
    least_valid_kernel[(1,)](x.to("xpu"), out, start, 64)
    assert out.item() == start + 1 if start < 64 else out.item() in range(64)


@triton.jit
def recurrence(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def scan_kernel(x, y, out, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr,
                reverse: tl.constexpr):
    at = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    _, r = tl.associative_scan((tl.load(x + at), tl.load(y + at)), axis, recurrence,
                               reverse=reverse)
    tl.store(out + at, r)


LONG_SHAPES = [(512, 2, 4), (256, 4, 1), (2, 512, 2), (1, 1024, 8), (1, 1024, 16), (16, 128, 4)]


@pytest.mark.sample(6)
@pytest.mark.parametrize(*settings(
    shape=(*SHAPES, *LONG_SHAPES), axis=(0, 1), reverse=(False, True)))
def test_scans_of_tuples_keep_the_order(shape, axis, reverse):
    rows, columns, warps = shape
    x, y = torch.randint(-1, 2, (2, rows, columns), dtype=torch.int32)
    out = torch.empty(rows, columns, dtype=torch.int32, device="xpu")
    scan_kernel[(1,)](x.to("xpu"), y.to("xpu"), out, rows, columns, axis, reverse,
                      num_warps=warps)
    xs, ys = (np.moveaxis(t.numpy(), axis, 0) for t in (x, y))
    if reverse:
        xs, ys = xs[::-1], ys[::-1]
    want, carry = [], np.zeros_like(xs[0])
    for a, b in zip(xs, ys, strict=True):
        carry = carry * a + b
        want.append(carry)
    want = np.stack(want[::-1] if reverse else want)
    assert np.array_equal(np.moveaxis(out.cpu().numpy(), axis, 0), want)


@triton.jit
def sum_kernel(x, out, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr):
    at = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_nothing_is_added_to_the_first_elements_of_a_scan(axis, dtype):
    """Minus zero and denormal numbers stay as they are, also where lanes and warps meet."""
    x = torch.full((32, 128), -0.0, dtype=dtype)
    x.diagonal().fill_(torch.finfo(dtype).smallest_normal / 2)
    out = torch.empty_like(x, device="xpu")
    sum_kernel[(1,)](x.to("xpu"), out, *x.shape, axis)
    want, found = np.add.accumulate(x.numpy(), axis), out.cpu().numpy()
    assert np.array_equal(found, want)
    assert np.array_equal(np.signbit(found), np.signbit(want))


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_fp16_are_rounded_to_fp16(axis):
    x = torch.randint(-8, 9, (64, 64)).half()
    out = torch.empty_like(x, device="xpu")
    sum_kernel[(1,)](x.to("xpu"), out, *x.shape, axis)
    assert torch.equal(out.cpu(), x.float().cumsum(axis).half())


@triton.jit
def scan_of_rows_kernel(x, out, rows: tl.constexpr, columns: tl.constexpr, reverse: tl.constexpr,
                        has_neutral: tl.constexpr):
    at = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    if has_neutral:
        tl.store(out + at, tl.cumsum(tl.load(x + at), 1, reverse))
    else:
        tl.store(out + at, tl.associative_scan(tl.load(x + at), 1, larger, reverse))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("has_neutral", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32])
@pytest.mark.parametrize("shape", [(1, 4096), (8, 64), (64, 8), (16, 128)])
def test_runs_of_rows_are_scanned_by_functions(shape, dtype, has_neutral, reverse):
    """fp16 of two rows or blocks in a dword, int32 two registers at a time."""
    x = torch.randint(-3, 4, shape).to(dtype)
    out = torch.empty_like(x, device="xpu")
    made = scan_of_rows_kernel[(1,)](x.to("xpu"), out, *shape, reverse, has_neutral)
    given = x.flip(1) if reverse else x
    want = given.float().cumsum(1) if has_neutral else given.cummax(1).values
    assert torch.equal(out.cpu(), (want.flip(1) if reverse else want).to(dtype))
    way, name = "down" if reverse else "up", "add" if has_neutral else "max"
    wanted = {torch.float16: (f"xe.half.both.{name}",), torch.int32: (
        f"xe.wide.run_{'' if has_neutral else 's'}{name}_4_{way}", "xe.wide.after_")}
    of_one_lane = dtype == torch.float16 and x.numel() <= 512  # eight numbers are one block
    assert all(calls(made.asm["llir"], name) != of_one_lane for name in wanted[dtype])


@triton.jit
def merged_scan_kernel(x, out, n, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr):
    at = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    v = tl.cumsum(tl.load(x + at), axis)
    if n % 2 == 0:
        v = v * 2
    tl.store(out + at, v)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(16, 64), (64, 16), (32, 128)])
def test_a_scan_is_merged_with_other_values(shape, axis, n):
    x = torch.randint(-8, 9, shape).float()
    out = torch.empty_like(x, device="xpu")
    merged_scan_kernel[(1,)](x.to("xpu"), out, n, *shape, axis)
    assert torch.equal(out.cpu(), x.cumsum(axis) * (2 if n % 2 == 0 else 1))


@triton.jit
def part_kernel(x, out, rows, columns, stride, R: tl.constexpr, C: tl.constexpr):
    """Twice the running sums of columns, less the elements, in blocks inside the bounds."""
    i = tl.arange(0, R)[:, None]
    j = tl.program_id(0) * C + tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    v = tl.load(x + i * stride + j, inside, 0)
    tl.store(out + i * stride + j, tl.cumsum(v, 0) * 2 - v, inside)


@pytest.mark.parametrize("stride", [256, 250, 257])
def test_columns_are_scanned_in_blocks_or_by_the_general_version(stride):
    """A pitch of 250 or 257 elements suits no 2D message."""
    x = torch.randint(-8, 9, (29, stride)).float()
    out = torch.zeros_like(x, device="xpu")
    part_kernel[(2,)](x.to("xpu"), out, 29, 200, stride, 32, 128)
    want = x.cumsum(0) * 2 - x
    want[:, 200:] = 0
    assert torch.equal(out.cpu(), want)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def either(a, b):
    return a ^ b


@triton.jit
def one_scan_kernel(x, out, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr,
                    reverse: tl.constexpr, has_neutral: tl.constexpr):
    at = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    if has_neutral:
        y = tl.associative_scan(tl.load(x + at), axis, either, reverse=reverse)
    else:
        y = tl.associative_scan(tl.load(x + at), axis, larger, reverse=reverse)
    tl.store(out + at, y)


@pytest.mark.sample(6)
@pytest.mark.parametrize(*settings(
    shape=(*SHAPES, *LONG_SHAPES), axis=(0, 1), reverse=(False, True),
    has_neutral=(True, False)))
def test_scans_of_one_operation(shape, axis, reverse, has_neutral):
    """With a neutral element, and without one, where the first lanes have no prefix."""
    rows, columns, warps = shape
    x = torch.randint(-2**31, 2**31, (rows, columns)).int()
    out = torch.empty_like(x, device="xpu")
    one_scan_kernel[(1,)](x.to("xpu"), out, rows, columns, axis, reverse, has_neutral,
                          num_warps=warps)
    held = np.flip(x.numpy(), axis) if reverse else x.numpy()
    want = (np.bitwise_xor if has_neutral else np.maximum).accumulate(held, axis)
    assert np.array_equal(out.cpu().numpy(), np.flip(want, axis) if reverse else want)


def messages_of_scan(rows, columns, axis, **options):
    """Stores and loads of shared local memory, as vectors, in a scan of pairs."""
    source = ASTSource(scan_kernel, {"x": "*i32", "y": "*i32", "out": "*i32"},
                       {"rows": rows, "columns": columns, "axis": axis, "reverse": False})
    text = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options=options).asm["llir"]
    return [instructions(text).count(kind) for kind in ("store.slm", "load.slm")]


@pytest.mark.parametrize(("rows", "columns", "axis", "warps"),
                         [(1, 4096, 1, 4), (2, 2048, 1, 8), (1024, 8, 0, 4)])
def test_a_warp_exchanges_one_total_of_each_tensor(rows, columns, axis, warps):
    assert messages_of_scan(rows, columns, axis, num_warps=warps) == [2, 2]


def test_lanes_with_equal_totals_share_an_exchange():
    """256 rows of 16 columns on 8 warps: four lanes have the same 4 totals of each tensor.

    Each of them writes one, and reads 8 of all 32.
    """
    assert messages_of_scan(256, 16, 0, num_warps=8) == [2, 2 * 8]


@triton.jit
def softmax_of_rows_kernel(x, out, rows: tl.constexpr, columns: tl.constexpr):
    at = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    v = tl.load(x + at).to(tl.float32)
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(out + at, (e / tl.sum(e, 1)[:, None]).to(out.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("rows", "warps"), [(8, 4), (4, 4), (2, 4)])
def test_quotients_of_a_row_share_a_reciprocal(dtype, rows, warps):
    """Warps have two rows, one row, or half of a row each; only these exchange."""
    x = (torch.randn(rows, 256) * 20).to(dtype)
    out = torch.empty_like(x, device="xpu")
    kernel = softmax_of_rows_kernel[(1,)](x.to("xpu"), out, *x.shape, num_warps=warps)
    want, bits = torch.softmax(x.double(), 1), 24 if dtype == torch.float32 else 11
    largest = 32 if dtype == torch.float32 else 2  # exp adds an error that grows with its operand
    assert torch.all((out.cpu().double() - want).abs() <= want * largest * 2.0**-bits + 2.0**-24)
    assert instructions(kernel.asm["llir"]).count("fdiv") == 1  # of a vector of rows
    assert (kernel.metadata.shared > 0) == (rows < warps)


@triton.jit
def sort_kernel(x, out, best, size: tl.constexpr, k: tl.constexpr, descending: tl.constexpr):
    v = tl.load(x + tl.arange(0, size))
    tl.store(out + tl.arange(0, size), tl.sort(v, descending=descending))
    tl.store(best + tl.arange(0, k), tl.topk(v, k))


@pytest.mark.parametrize("descending", [False, True])
def test_sort_and_topk(descending):
    x = torch.randn(64)
    out, best = torch.empty(64, device="xpu"), torch.empty(8, device="xpu")
    sort_kernel[(1,)](x.to("xpu"), out, best, 64, 8, descending)
    assert torch.equal(out.cpu(), x.sort(descending=descending).values)
    assert torch.equal(best.cpu(), x.topk(8).values)


@triton.jit
def histogram_kernel(x, mask, out, size: tl.constexpr, bins: tl.constexpr):
    i = tl.arange(0, size)
    keep = tl.load(mask + i) != 0
    tl.store(out + tl.arange(0, bins), tl.histogram(tl.load(x + i), bins, mask=keep))


@pytest.mark.parametrize(("size", "bins"), [(512, 16), (64, 128)])
def test_histogram(size, bins):
    x = torch.randint(0, bins, (size,), dtype=torch.int32)
    mask = torch.randint(0, 2, (size,), dtype=torch.int32)
    out = torch.empty(bins, dtype=torch.int32, device="xpu")
    histogram_kernel[(1,)](x.to("xpu"), mask.to("xpu"), out, size, bins)
    assert torch.equal(out.cpu().long(), torch.bincount(x[mask != 0], minlength=bins))


@pytest.mark.covering
@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("warps", [1, 4])
def test_kernels_may_ask_for_their_number_of_lanes(lanes, warps):
    x, out = torch.randn(16, 128, device="xpu"), torch.empty(16, device="xpu")
    kernel = reduce_kernel[(1,)](x, out, 16, 128, 1, "max", num_warps=warps, warp_size=lanes)
    assert torch.equal(out.cpu(), x.cpu().max(1)[0])
    check_text(kernel.asm["llir"], f"CHECK: i32 {lanes * warps}, i32 1, i32 1")


@triton.jit
def softmax_of_dot_kernel(x, y, out, top, total, ROWS: tl.constexpr, N: tl.constexpr):
    i, j, k = tl.arange(0, ROWS), tl.arange(0, N), tl.arange(0, 32)
    a = tl.load(x + i[:, None] * 32 + k[None, :])
    highest = tl.full((ROWS,), -1.0e30, tl.float32)
    sums = tl.zeros((ROWS,), tl.float32)
    for _ in range(2):
        z = tl.dot(a, tl.load(y + k[:, None] * N + j[None, :]))
        highest = tl.maximum(highest, tl.max(z, 1))
        p = tl.exp(z - highest[:, None])
        sums += tl.sum(p, 1)
        tl.store(out + i[:, None] * N + j[None, :], p)
    tl.store(top + i, highest)
    tl.store(total + i, tl.where(i % 2 == 0, sums, -sums))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("rows", "columns", "warps"), [(16, 32, 1), (64, 16, 4), (32, 64, 1)])
def test_rows_of_a_dot_are_spread_over_the_lanes_and_come_back(rows, columns, warps):
    x = torch.randn(rows, 32, dtype=torch.float16)
    y = torch.randn(32, columns, dtype=torch.float16)
    out = torch.empty(rows, columns, device="xpu")
    top, total = torch.empty(rows, device="xpu"), torch.empty(rows, device="xpu")
    softmax_of_dot_kernel[(1,)](
        x.to("xpu"), y.to("xpu"), out, top, total, rows, columns, num_warps=warps
    )
    z = x.float() @ y.float()
    p = torch.exp(z - z.max(1, keepdim=True)[0])
    signs = torch.tensor([1.0, -1.0]).repeat(rows // 2)
    assert torch.allclose(top.cpu(), z.max(1)[0], atol=1e-4)
    assert torch.allclose(out.cpu(), p, atol=1e-3)
    assert torch.allclose(total.cpu(), 2 * p.sum(1) * signs, rtol=1e-3)


@triton.jit
def rows_of_halves_kernel(x, y, n, size: tl.constexpr):
    i = tl.arange(0, size)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-3.5).to(tl.float32)
    tl.store(y + tl.program_id(0) * 2, tl.max(v, 0))
    tl.store(y + tl.program_id(0) * 2 + 1, tl.sum(v, 0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masked_rows_of_16_bits_are_filled_and_reduced(dtype):
    """With as many warps as lanes, each lane takes one warp's part."""
    n, size = 208, 512
    x = torch.randint(-8, 9, (3, n)).to(dtype)
    y = torch.empty(3, 2, device="xpu")
    rows_of_halves_kernel[(3,)](x.to("xpu"), y, n, size, num_warps=16)
    filled = torch.cat([x.float(), torch.full((3, size - n), -3.5)], 1)
    assert torch.equal(y.cpu(), torch.stack([filled.amax(1), filled.sum(1)], 1))


@triton.jit
def byte_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, (tl.load(x + i).to(tl.int32) * 3 - 7).to(out.dtype.element_ty))


@pytest.mark.parametrize("into", [torch.int8, torch.uint8, torch.int32])
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_bytes_are_computed_in_words(dtype, into):
    x = torch.arange(256).to(torch.uint8).view(dtype).repeat(4)
    out = torch.empty(1024, dtype=into, device="xpu")
    byte_kernel[(1,)](x.to("xpu"), out, 1024, num_warps=4)
    assert torch.equal(out.cpu(), (x.int() * 3 - 7).to(into))
