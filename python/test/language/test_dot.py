"""tl.dot of every type and of small, odd, transposed and batched blocks, against float64."""

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from python.test.filecheck import check_text
from python.test.gemm.pairwise import settings
from python.test.operations import operations


@triton.jit
def dot_kernel(
    a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
    OUT: tl.constexpr, TRANSPOSED: tl.constexpr,
):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    if TRANSPOSED:
        y = tl.load(b + n[:, None] * K + k[None, :]).T
    else:
        y = tl.load(b + k[:, None] * N + n[None, :])
    z = tl.dot(x, y, input_precision=PRECISION, out_dtype=OUT)
    tl.store(c + m[:, None] * N + n[None, :], z)


def random(shape, dtype):
    torch.manual_seed(0)
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape).to(dtype)
    return torch.randn(shape).to(dtype)


def multiply(dtype, shape=(32, 32, 32), precision=None, out=tl.float32, transposed=False, warps=4):
    """(largest error over the sum of magnitudes, compiled kernel)."""
    m, n, k = shape
    a, b = random((m, k), dtype), random((k, n), dtype)
    c = torch.empty(m, n, dtype=getattr(torch, OUT_NAMES[out]), device="xpu")
    stored = b.T.contiguous() if transposed else b
    kernel = dot_kernel[(1,)](
        a.to("xpu"), stored.to("xpu"), c, m, n, k, precision, out, transposed, num_warps=warps
    )
    return error(c, a, b), kernel


OUT_NAMES = {tl.float32: "float32", tl.float16: "float16", tl.int32: "int32",
             tl.float64: "float64"}


def error(c, a, b):
    wanted, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    return ((c.cpu().double() - wanted).abs() / size).max().item()


FLOAT_CASES = {
    "fp16": (torch.float16, None, 1e-6),
    "bf16": (torch.bfloat16, None, 1e-6),
    "fp8e5": (torch.float8_e5m2, None, 1e-6),
    "fp8e4nv": (torch.float8_e4m3fn, None, 1e-6),
    "tf32": (torch.float32, "tf32", 2e-3),
    "tf32x3": (torch.float32, "tf32x3", 1e-6),
    "bf16x3": (torch.float32, "bf16x3", 1e-4),
    "bf16x6": (torch.float32, "bf16x6", 1e-6),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize(*settings(
    name=tuple(FLOAT_CASES), transposed=(False, True), strength=1,
    in_turns=True))
def test_floats_use_the_matrix_unit(name, transposed):
    dtype, precision, bound = FLOAT_CASES[name]
    off, kernel = multiply(dtype, (32, 32, 64), precision, transposed=transposed)
    assert off < bound
    assert kernel.metadata.n_dpas > 0


@pytest.mark.parametrize("transposed", [False, True])
def test_integers_are_exact(transposed):
    off, kernel = multiply(torch.int8, (32, 32, 64), out=tl.int32, transposed=transposed)
    assert off == 0
    assert kernel.metadata.n_dpas > 0


@pytest.mark.parametrize(
    ("dtype", "precision", "out", "bound"),
    [(torch.float32, "ieee", tl.float32, 1e-6), (torch.float64, None, tl.float64, 1e-15)],
)
def test_exact_floats_are_multiplied_by_fma(dtype, precision, out, bound):
    off, kernel = multiply(dtype, (16, 16, 16), precision, out)
    assert off < bound
    assert kernel.metadata.n_dpas == 0


def test_half_accumulators():
    off, kernel = multiply(torch.float16, out=tl.float16)
    assert off < 2e-3
    assert kernel.metadata.n_dpas > 0


@pytest.mark.sample(8)
@pytest.mark.parametrize(*settings(
    name=("fp16", "bf16", "tf32", "tf32x3", "bf16x3"), warps=(1, 4),
    shape=((1, 16, 16), (4, 32, 16), (16, 8, 16), (1, 1, 32))))
def test_small_blocks(name, shape, warps):
    dtype, precision, bound = FLOAT_CASES[name]
    off, _ = multiply(dtype, shape, precision, warps=warps)
    assert off < bound


def test_infinities_and_nans_in_split_operands():
    a, b = torch.ones(16, 16), torch.eye(16)
    a[0, 0], a[1, 1], a[2, 2] = float("inf"), float("-inf"), float("nan")
    for precision in ("tf32x3", "bf16x3", "bf16x6"):
        c = torch.empty(16, 16, device="xpu")
        dot_kernel[(1,)](
            a.to("xpu"), b.abs().add(1).to("xpu"), c, 16, 16, 16, precision, tl.float32, False
        )
        wanted = a @ (b + 1)
        assert torch.equal(c.cpu().isnan(), wanted.isnan())
        assert torch.equal(c.cpu()[:2], wanted[:2])


def test_operands_of_tf32x3_are_rounded_once():
    """A large and a small part of each operand; the large part serves three products."""
    _, kernel = multiply(torch.float32, (32, 32, 64), "tf32x3", transposed=True)
    assert operations(kernel.asm["xetile"]).count("xe.round_tf32") == 4


@triton.jit
def batched_kernel(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    g = tl.arange(0, B)[:, None, None]
    m = tl.arange(0, M)[None, :, None]
    n = tl.arange(0, N)[None, None, :]
    k = tl.arange(0, K)
    x = tl.load(a + g * M * K + m * K + k[None, None, :])
    y = tl.load(b + g * N * K + k[None, :, None] * N + n)
    tl.store(c + g * M * N + m * N + n, tl.dot(x, y))


@pytest.mark.parametrize("shape", [(2, 16, 16, 16)])
def test_batches(shape):
    batch, m, n, k = shape
    a, b = random((batch, m, k), torch.float16), random((batch, k, n), torch.float16)
    c = torch.empty(batch, m, n, device="xpu")
    batched_kernel[(1,)](a.to("xpu"), b.to("xpu"), c, batch, m, n, k)
    assert error(c, a, b) < 1e-6


@triton.jit
def repeated_kernel(a, b, c, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    product = tl.dot(tl.load(a + at)[None], tl.load(b + at)[None])
    row = tl.arange(0, SIZE)[None, None, :]
    several = tl.broadcast_to(product, (4, SIZE, SIZE)) + tl.broadcast_to(row, (4, 1, SIZE))
    tl.store(c + tl.arange(0, 4)[:, None, None] * SIZE * SIZE + at[None], several)


def test_a_batch_of_one_is_repeated_to_several():
    a, b = (torch.randint(-4, 5, (16, 16)).half() for _ in range(2))
    c = torch.empty(4, 16, 16, device="xpu")
    repeated_kernel[(1,)](a.to("xpu"), b.to("xpu"), c, 16)
    assert torch.equal(c.cpu(), (a.float() @ b.float() + torch.arange(16)).expand(4, 16, 16))


@triton.jit
def two_dots_kernel(a, b, c, d, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    x = tl.load(a + at)
    y = tl.load(b + at)
    tl.store(c + at, tl.dot(x, y))
    exact = tl.dot(x.to(tl.float32), y.to(tl.float32), input_precision="ieee")
    tl.store(d + at, exact)


def test_a_dot_by_fma_leaves_the_others_to_the_matrix_unit():
    a, b = random((32, 32), torch.float16), random((32, 32), torch.float16)
    c, d = (torch.empty(32, 32, device="xpu") for _ in range(2))
    kernel = two_dots_kernel[(1,)](a.to("xpu"), b.to("xpu"), c, d, 32)
    assert kernel.metadata.n_dpas > 0
    assert any("FMA" in line for line in kernel.metadata.remarks)
    assert error(c, a, b) < 1e-6
    assert error(d, a, b) < 1e-6


@triton.jit
def chained_kernel(a, b, c, d, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    p = tl.dot(tl.load(a + at), tl.load(b + at)).to(tl.float16)
    tl.store(d + at, tl.dot(p, tl.load(c + at)))


def test_the_result_of_a_dot_stays_in_its_warp_for_the_next():
    a, b, c = (random((64, 64), torch.float16) for _ in range(3))
    d = torch.empty(64, 64, device="xpu")
    kernel = chained_kernel[(1,)](a.to("xpu"), b.to("xpu"), c.to("xpu"), d, 64, num_warps=4)
    assert error(d, (a.float() @ b.float()).half(), c) < 1e-3
    found = operations(kernel.asm["xetile"])
    assert found.count("xetile.tile_mma") == 2
    assert "ttg.convert_layout" in found  # from the first result to the second operand: registers
    check_text(kernel.asm["llir"], "CHECK-NOT: addrspace(3)")


@triton.jit
def halves_kernel(a_ptr, b_ptr, c_ptr, m, n, k, GAP: tl.constexpr, SIZE: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [SIZE, 32])
    b = tl.make_tensor_descriptor(b_ptr, [n, k], [k, 1], [SIZE, 32])
    c = tl.make_tensor_descriptor(c_ptr, [m, n + GAP], [n + GAP, 1], [SIZE, SIZE // 2])
    acc = tl.zeros((SIZE, SIZE), tl.float32)
    for i in range(0, k, 32):
        acc = tl.dot(a.load([0, i]), b.load([0, i]).T, acc)
    left, right = acc.reshape(SIZE, 2, SIZE // 2).permute(0, 2, 1).split()
    c.store([0, 0], left.to(tl.float16))
    c.store([0, SIZE // 2 + GAP], right.to(tl.float16))


@pytest.mark.covering
@pytest.mark.parametrize("gap", [0, 16])
@pytest.mark.parametrize(("m", "n"), [(64, 64), (50, 48)])
def test_halves_of_a_dot_stored_side_by_side_are_one_block_store(gap, m, n):
    a, b = torch.randn(m, 64, dtype=torch.float16), torch.randn(n, 64, dtype=torch.float16)
    c = torch.full((m, n + gap), 7.0, dtype=torch.float16)
    held = c.to("xpu")
    kernel = halves_kernel[(1,)](a.to("xpu"), b.to("xpu"), held, m, n, 64, gap, 64, num_warps=4)
    product = (a.float() @ b.float().T).half()
    c[:, :32] = product[:, :32]
    c[:, 32 + gap :] = product[:, 32:]
    assert torch.allclose(held.cpu(), c, atol=2e-2)
    joined = any("both halves" in remark for remark in kernel.metadata.remarks)
    assert joined == (gap == 0)


@pytest.mark.parametrize(
    ("dtype", "out", "by_dpas"), [("i8", "i32", True), ("fp16", "fp32", True),
                                  ("fp32", "fp32", False)],
)
def test_a_device_without_tf32_takes_the_wish_as_leave_to_round(dtype, out, by_dpas):
    types = {"a": f"*{dtype}", "b": f"*{dtype}", "c": f"*{out}"}
    constants = {"M": 32, "N": 32, "K": 32, "PRECISION": "tf32", "TRANSPOSED": False,
                 "OUT": {"i32": tl.int32, "fp32": tl.float32}[out]}
    made = triton.compile(ASTSource(dot_kernel, types, constants),
                          target=GPUTarget("xpu", "dg2", 8))
    assert (made.metadata.n_dpas > 0) == by_dpas
    assert any("FMA: dg2 has no tf32 DPAS" in x for x in made.metadata.remarks) != by_dpas


@triton.jit
def moving_base(a, b, c, K, FORM: tl.constexpr):
    i, k = tl.arange(0, 32), tl.arange(0, 16)
    total = tl.zeros((32, 32), tl.float32)
    flip = 0
    for start in range(0, K, 16):
        if FORM == "offset":
            x = tl.load(a + start + (i[:, None] * K + k[None, :]))
            y = tl.load(b + start * 32 + (k[:, None] * 32 + i[None, :]))
        elif FORM == "carried":
            x = tl.load(a + (i[:, None] * K + k[None, :]))
            y = tl.load(b + (k[:, None] * 32 + i[None, :]))
            a += 16
            b += 16 * 32
        else:
            x = tl.load(a + flip + (i[:, None] * K + k[None, :]))
            y = tl.load(b + flip * 32 + (k[:, None] * 32 + i[None, :]))
            flip = flip ^ 16
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * 32 + i[None, :], total)


@pytest.mark.parametrize("form", ["offset", "carried", "flipped"])
def test_operands_come_from_a_pointer_that_the_loop_makes(form):
    depth = 32 if form == "flipped" else 64
    a, b = random((32, depth), torch.float16), random((depth, 32), torch.float16)
    c = torch.empty(32, 32, device="xpu")
    kernel = moving_base[(1,)](a.to("xpu"), b.to("xpu"), c, depth, form)
    assert error(c, a, b) < 1e-6
    assert (kernel.metadata.n_block_loads > 0) == (form == "offset")


@triton.jit
def cast_operands(x, c, KIND: tl.constexpr, OUT: tl.constexpr):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    v = tl.load(x + (i[:, None] * 32 + k[None, :]))
    product = tl.dot(v.to(KIND), tl.trans(v).to(KIND), out_dtype=OUT)
    tl.store(c + i[:, None] * 16 + i[None, :], product)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("loaded", "multiplied"), [
    (torch.int64, tl.float16), (torch.float64, tl.bfloat16), (torch.int32, tl.int8),
    (torch.float32, tl.int8), (torch.int16, tl.int8), (torch.float32, tl.float8e5),
])
def test_operands_are_cast_from_types_that_no_block_load_brings_to_their_lanes(loaded, multiplied):
    x = torch.randint(-8, 8, (16, 32)).to(loaded)
    out = tl.int32 if multiplied == tl.int8 else tl.float32
    c = torch.empty(16, 16, dtype=getattr(torch, OUT_NAMES[out]), device="xpu")
    cast_operands[(1,)](x.to("xpu"), c, multiplied, out)
    assert error(c, x, x.T) == 0


@triton.jit
def columns_times_rows(x, c):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    v = tl.load(x + (i[:, None] * 32 + k[None, :])).to(tl.float32)
    tl.store(c + k[:, None] * 32 + k[None, :], tl.dot(tl.trans(v), v, input_precision="tf32"))


@pytest.mark.sample(4)
@pytest.mark.parametrize(*settings(
    warps=(8, 1), loaded=("int8", "int16", "float16", "float8_e5m2", "float32"), strength=1,
    in_turns=True))
def test_columns_of_narrow_types_are_operands_of_wide_ones(loaded, warps):
    x = torch.randint(-8, 8, (16, 32)).to(getattr(torch, loaded))
    c = torch.empty(32, 32, device="xpu")
    kernel = columns_times_rows[(1,)](x.to("xpu"), c, num_warps=warps)
    assert error(c, x.double().T, x) == 0
    assert kernel.metadata.n_dpas > 0
    is_rounded = "xe.round_tf32" in operations(kernel.asm["xetile"])
    assert is_rounded == (loaded in ("int16", "float32"))  # tf32 holds all of the others


@triton.jit
def marks_next_to_a_product(x, marks, out, n, s):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    v = tl.load(x + (i[:, None] * s + k[None, :]))
    product = tl.dot(v.to(tl.int8), tl.trans(v).to(tl.int8)).to(tl.float64).to(tl.int32)
    most = tl.max(product, 0).to(tl.uint16)
    marked = product.to(tl.int1)
    tl.store(marks + (i[None, :] * s + i[:, None] * 16), marked, mask=marked)
    for _ in range(0, n, 3):
        most = tl.cumsum(most, 0).to(tl.uint16)
    column = tl.load(x + (tl.arange(0, 1)[None, :] * s + i[:, None]))
    wide = column.to(tl.int32)
    at = n + tl.arange(0, 1)[None, :] * s + i[:, None]
    tl.store(marks + (n + tl.arange(0, 1)[None, :] + i[:, None]), wide.to(tl.int64).to(tl.int1))
    tl.store(out + at, tl.minimum(column.to(tl.float32), (wide * 7).to(tl.float32)))


def test_bools_are_stored_next_to_a_product():
    """Their pointers are cast to pointers to bytes, and have no size."""
    types = {"x": "*u64", "marks": "*i1", "out": "*fp32", "n": "i32", "s": "i32"}
    source = ASTSource(marks_next_to_a_product, types)
    made = triton.compile(source, target=GPUTarget("xpu", "bmg", 16), options={"num_warps": 8})
    assert made.metadata.n_dpas > 0


@triton.jit
def reused_kernel(a, b, c, o, p, n, W: tl.constexpr):
    i, j = tl.arange(0, 32), tl.arange(0, 64)
    y = tl.load(b + i[:, None] * 64 + j[None, :])
    x = tl.load(a + i[:, None] * 32 + i[None, :])
    z = tl.dot((x & 7).to(tl.int8), (y & 7).to(tl.int8))
    tl.store(o + i[:, None] * 64 + j[None, :], z)
    if n > W:
        w = tl.load(c + j[:, None] * 64 + j[None, :])
        tl.store(p + i[:, None] * 64 + j[None, :], tl.dot((y & 7).to(tl.float32), w))


def test_operands_of_32_loaded_values_are_taken_apart_and_used_again():
    a, b = torch.randint(0, 9, (32, 32)).int(), torch.randint(0, 9, (32, 64)).int()
    c = torch.randint(-3, 4, (64, 64)).float()
    o, p = torch.empty(32, 64, dtype=torch.int32, device="xpu"), torch.empty(32, 64, device="xpu")
    reused_kernel[(1,)](a.to("xpu"), b.to("xpu"), c.to("xpu"), o, p, 3, 1, num_warps=1)
    assert torch.equal(o.cpu(), (a & 7) @ (b & 7))
    assert torch.equal(p.cpu(), (b & 7).float() @ c)


@triton.jit
def delayed_kernel(a, b, c, K, N: tl.constexpr, STEP: tl.constexpr):
    """The product, and the sum before the last step, which is a number of its own."""
    i, s = tl.arange(0, N), tl.arange(0, STEP)
    total, before = tl.zeros((N, N), tl.float32), tl.zeros((N, N), tl.float32)
    for start in range(0, K, STEP):
        before = total
        x = tl.load(a + i[:, None] * K + (start + s)[None, :])
        y = tl.load(b + (start + s)[:, None] * N + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * N + i[None, :], before)
    tl.store(c + N * N + i[:, None] * N + i[None, :], total)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_accumulator_before_the_last_step_keeps_its_value(steps):
    n, step = 32, 32
    a, b = random((n, steps * step), torch.float16), random((steps * step, n), torch.float16)
    c = torch.empty(2, n, n, device="xpu")
    delayed_kernel[(1,)](a.to("xpu"), b.to("xpu"), c, steps * step, n, step)
    before, total = c.cpu()
    first = (steps - 1) * step
    torch.testing.assert_close(before, a[:, :first].float() @ b[:first].float(),
                               atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(total, a.float() @ b.float(), atol=1e-4, rtol=1e-4)
