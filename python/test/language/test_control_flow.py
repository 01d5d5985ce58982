"""Loops, branches, early returns and calls."""

import re

import pytest
import torch
import triton
import triton.language as tl

from python.test.filecheck import check_text
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.pipeline import stage_of


@triton.jit
def early_kernel(x, n, size: tl.constexpr):
    i = tl.arange(0, size)
    if n == 0:
        return
    if n > 5:
        tl.store(x + i, 7.0)
        return
    tl.store(x + i, tl.sum(tl.load(x + i)) + n)


@pytest.mark.parametrize(("n", "want"), [(0, 1.0), (6, 7.0), (3, 67.0)])
def test_early_returns(n, want):
    x = torch.ones(64, device="xpu")
    early_kernel[(1,)](x, n, 64)
    assert torch.equal(x.cpu(), torch.full((64,), want))


@triton.jit
def assuming_kernel(x, n, stride, size: tl.constexpr):
    tl.assume(n > 0)
    tl.assume(stride >= 1)
    i = tl.arange(0, size)
    tl.store(x + i * stride, i + n, mask=i < n)


def test_assumptions_change_nothing():
    x = torch.zeros(64, device="xpu", dtype=torch.int32)
    assuming_kernel[(1,)](x, 20, 2, 32)
    want = torch.zeros(64, dtype=torch.int32)
    want[:40:2] = torch.arange(20, dtype=torch.int32) + 20
    assert torch.equal(x.cpu(), want)


@triton.jit
def collatz_kernel(x, steps):
    n = tl.load(x)
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    tl.store(steps, count)


@pytest.mark.parametrize("start", [1, 2, 27])
def test_while_with_branches(start):
    x = torch.tensor([start], device="xpu", dtype=torch.int32)
    steps = torch.empty(1, device="xpu", dtype=torch.int32)
    collatz_kernel[(1,)](x, steps)
    n, want = start, 0
    while n != 1:
        n, want = (n // 2 if n % 2 == 0 else 3 * n + 1), want + 1
    assert steps.item() == want


@triton.jit
def products_kernel(a_ptr, b_ptr, out_ptr, count, every, SIZE: tl.constexpr):
    """Add products in a while loop; double the sum every few times instead, or keep it."""
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    total, i = tl.zeros((SIZE, SIZE), tl.float32), 0
    while i < count:
        if i % every == 0:
            total = tl.dot(tl.load(a_ptr + i * SIZE * SIZE + at), tl.load(b_ptr + at), total)
        elif i % every == 1:
            total *= 2
        i += 1
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_products_in_branches_of_a_while_loop(count):
    a, b = torch.randint(-3, 4, (count + 1, 32, 32)).half(), torch.randint(-3, 4, (32, 32)).half()
    out = torch.ones(32, 32, device="xpu")
    products_kernel[(1,)](a.to("xpu"), b.to("xpu"), out, count, 3, 32)
    want = torch.zeros(32, 32)
    for i in range(count):
        want = [want + a[i].float() @ b.float(), want * 2, want][i % 3]
    assert torch.equal(out.cpu(), want)


@triton.jit
def keeping_kernel(x, out, n, unroll: tl.constexpr, keep: tl.constexpr):
    total = 0
    for i in tl.range(0, n, disable_licm=keep, loop_unroll_factor=unroll):
        total += tl.load(x + i)
    i = 0
    while tl.condition(i < n, disable_licm=keep):
        i += 1
    tl.store(out, total + 100 * i)


@pytest.mark.parametrize(("unroll", "loops"), [(1, 2), (2, 3)])
def test_loops_that_keep_their_invariants(unroll, loops):
    x = torch.arange(16, device="xpu", dtype=torch.int32)
    for keep in (True, False):
        out = torch.zeros(1, device="xpu", dtype=torch.int32)
        kernel = keeping_kernel[(1,)](x, out, 13, unroll, keep)
        assert out.item() == 78 + 1300
        check_text(kernel.asm["llir"], f"""
            CHECK-COUNT-{loops}: br {{{{.*}}}}!llvm.loop !
            CHECK-NOT: !llvm.loop !
            """ if keep else "CHECK-NOT: {{!llvm.loop !|llvm.licm.disable}}")
        marks = re.findall(r"^(!\d+) = distinct !\{\1, !\d+\}", kernel.asm["llir"], re.MULTILINE)
        assert len(marks) == keep * loops


@triton.jit
def flattened_kernel(out, rows, flatten: tl.constexpr):
    k = 0
    for i in tl.range(0, rows, flatten=flatten):
        first = 2 * i
        end = first + i + 1
        tl.assume(end > first)
        for j in tl.range(first, end):
            tl.store(out + k, 100 * i + j)
            k += 1


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("rows", [0, 2, 7])
def test_nested_loops_become_one_where_asked_for(rows, flatten):
    want = [100 * i + j for i in range(rows) for j in range(2 * i, 3 * i + 1)]
    out = torch.full((64,), -1, device="xpu", dtype=torch.int32)
    kernel = flattened_kernel[(1,)](out, rows, flatten)
    assert out[: len(want)].tolist() == want
    assert (out[len(want) :] == -1).all()
    loops = [op for op in stage_of(kernel.asm["ttgir"]).module.walk() if op.name == "scf.for"]
    assert any(loop.parent_op() in loops for loop in loops) == (not flatten)


@triton.jit
def keeping_dot_kernel(a, b, c, keep: tl.constexpr):
    rows = tl.make_tensor_descriptor(a, [32, 128], [128, 1], [32, 32])
    columns = tl.make_tensor_descriptor(b, [128, 32], [32, 1], [32, 32])
    acc = tl.zeros([32, 32], tl.float32)
    for k in tl.range(0, 128, 32, disable_licm=keep):
        acc = tl.dot(rows.load([0, k]), columns.load([k, 0]), acc)
    i = tl.arange(0, 32)
    tl.store(c + i[:, None] * 32 + i, acc)


def test_a_loop_of_dots_keeps_its_annotation():
    a, b = (torch.randn(s, device="xpu", dtype=torch.float16) for s in ((32, 128), (128, 32)))
    c = torch.empty(32, 32, device="xpu")
    kernel = keeping_dot_kernel[(1,)](a, b, c, True)
    torch.testing.assert_close(c.cpu(), a.cpu().float() @ b.cpu().float(), atol=1e-3, rtol=1e-3)
    for stage in ("ttgir", "xetile", "xegpu"):
        check_text(kernel.asm[stage], "CHECK: llvm.loop_annotation")
    check_text(kernel.asm["llir"], """
        CHECK: call {{.*}}dpas
        CHECK: br {{.*}}!llvm.loop !
        """)


@triton.jit
def nested_kernel(x, out, rows, columns, size: tl.constexpr):
    i = tl.arange(0, size)
    p = x
    total = tl.zeros((size,), tl.float32)
    biggest = tl.full((size,), -1.0, tl.float32)
    for _r in range(rows):
        for c in range(columns):
            v = tl.load(p + c * size + i)
            total, biggest = total + v, tl.maximum(biggest, v)
        p += columns * size
    tl.store(out + i, total)
    tl.store(out + size + i, biggest)


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (1, 1), (3, 2)])
def test_nested_and_empty_loops_carry_pointers_and_tuples(rows, columns):
    x = torch.rand(max(rows * columns, 1), 32)
    out = torch.empty(2, 32, device="xpu")
    nested_kernel[(1,)](x.to("xpu"), out, rows, columns, 32)
    used = x[: rows * columns]
    torch.testing.assert_close(out[0].cpu(), used.sum(0))
    biggest = used.max(0).values if rows * columns else torch.full((32,), -1.0)
    assert torch.equal(out[1].cpu(), biggest)


@triton.jit(noinline=True)
def scaled_sum(x, factor, size: tl.constexpr):
    if factor == 0:
        return factor
    return tl.sum(tl.load(x + tl.arange(0, size)), 0) * factor


@triton.jit
def calling_kernel(x, out, factor, size: tl.constexpr):
    total = 0
    for i in range(2):
        total += scaled_sum(x + i * size, factor, size)
    tl.store(out, total + scaled_sum(x, 1, size))


@pytest.mark.parametrize("factor", [0, 3])
def test_functions_with_early_returns_and_reductions(factor):
    x = torch.arange(256, dtype=torch.int32)
    out = torch.empty(1, dtype=torch.int32, device="xpu")
    calling_kernel[(1,)](x.to("xpu"), out, factor, 128)
    assert out.item() == int(x.sum()) * factor + int(x[:128].sum())


@triton.jit(noinline=True)
def square(z_ptr, size: tl.constexpr, addend, skip):
    if skip > 3:
        return
    at = tl.arange(0, size)[:, None] * size + tl.arange(0, size)[None, :]
    z = tl.load(z_ptr + at)
    tl.store(z_ptr + at, tl.dot(z, z) + addend)


@triton.jit
def squaring_kernel(z_ptr, skip, size: tl.constexpr):
    square(z_ptr, size, 1.0, skip)
    square(z_ptr, size, 2.0, 0)


@pytest.mark.covering
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("skip", [0, 4])
def test_functions_with_dots_use_the_matrix_unit(warps, skip):
    z = torch.eye(16, dtype=torch.float16)
    held = z.to("xpu")
    kernel = squaring_kernel[(1,)](held, skip, 16, num_warps=warps)
    once = z if skip else z @ z + 1
    assert torch.equal(held.cpu(), once @ once + 2)
    assert kernel.metadata.n_dpas > 0


@triton.jit(noinline=True)
def endless(n):
    if n == 0:
        return n
    return endless(n - 1)


def test_recursion_is_refused():
    @triton.jit
    def kernel(x, n):
        tl.store(x, endless(n))

    x = torch.zeros(1, dtype=torch.int32, device="xpu")
    with pytest.raises((UnsupportedError, triton.CompilationError)):
        kernel[(1,)](x, 3)


@triton.jit
def compare(a, b):
    if a < b:
        return -1
    elif a == b:
        return 0
    else:
        return 1


@triton.jit
def map_kernel(x, y, out, size: tl.constexpr):
    i = tl.arange(0, size)
    tl.store(out + i, tl.map_elementwise(compare, tl.load(x + i), tl.load(y + i)))


def test_map_elementwise_may_branch():
    x, y = torch.randint(0, 4, (2, 128), dtype=torch.int32)
    out = torch.empty(128, dtype=torch.int32, device="xpu")
    map_kernel[(1,)](x.to("xpu"), y.to("xpu"), out, 128)
    assert torch.equal(out.cpu(), torch.sign(x - y))


@triton.jit
def code_value(code):
    if code == 0:
        return 1.5
    if code == 1:
        return -2.0
    return 0.25


@triton.jit
def decode_kernel(codes, out, n):
    for i in range(n):
        packed = tl.load(codes + i)
        tl.store(out + 2 * i, code_value(packed >> 4))
        tl.store(out + 2 * i + 1, code_value(packed & 15))


def test_a_function_left_in_several_places_is_called_twice():
    codes = torch.tensor([0x01, 0x12, 0x20, 0x11], dtype=torch.uint8).to("xpu")
    out = torch.zeros(8, device="xpu")
    decode_kernel[(1,)](codes, out, 4)
    assert out.tolist() == [1.5, -2.0, -2.0, 0.25, 0.25, 1.5, -2.0, -2.0]
