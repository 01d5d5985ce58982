"""Gluon's Intel operations on the simulated device: products by DPAS, 2D blocks, barriers."""

import re

import numpy as np
import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language import intel

from examples.gluon_matmul import MATRIX, gluon_matmul, gluon_matmul_kernel
from python.test.operations import instructions, operations
from triton_xe.errors import UnsupportedError, XeError
from triton_xe.layout import DotOperandEncoding, to_linear_layout

DTYPES = {torch.float16: 2, torch.bfloat16: 2, torch.int8: 4, torch.float32: 1}


def random(*shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, dtype=dtype)
    return torch.randn(shape).to(dtype)


@gluon.jit
def product(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    MATRIX: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, BLOCK_K: gl.constexpr,
):
    """With a bias whose pointers have a slice of the result's layout; A and B maybe transposed."""
    layout: gl.constexpr = MATRIX.result([BLOCK_M, BLOCK_N])
    a = intel.surface(a_ptr, [M, K], [stride_am, stride_ak])
    b = intel.surface(b_ptr, [K, N], [stride_bk, stride_bn])
    row, column = gl.program_id(0) * BLOCK_M, gl.program_id(1) * BLOCK_N
    total = gl.zeros([BLOCK_M, BLOCK_N], c_ptr.dtype.element_ty, layout)
    k = 0
    while k < K:
        left = intel.load_2d(a, [row, k], [BLOCK_M, BLOCK_K], MATRIX.operand(0, [BLOCK_M, BLOCK_K]))
        right = intel.load_2d(
            b, [k, column], [BLOCK_K, BLOCK_N], MATRIX.operand(1, [BLOCK_K, BLOCK_N]))
        total = intel.dpas(left, right, total)
        k += BLOCK_K
    columns = column + gl.arange(0, BLOCK_N, gl.SliceLayout(0, layout))
    bias = gl.load(bias_ptr + columns, columns < N, other=0).to(total.dtype)
    total = gl.maximum(total + bias[None, :], 0)
    intel.store_2d(intel.surface(c_ptr, [M, N], [N, 1]), [row, column], total)


WHOLE = (32, 32, 64), (32, 32, 32), (2, 2), (2, 1), ""
CUT = (38, 50, 45), (16, 32, 32), (2, 1), (1, 2), ""
TRANSPOSED = (32, 64, 64), (32, 32, 32), (2, 1), (2, 2), "ab"


@pytest.mark.sample(3)
@pytest.mark.parametrize(("dtype", "sizes", "blocks", "warps", "cluster", "transposed"), [
    (torch.float16, *CUT), (torch.float16, *TRANSPOSED), (torch.bfloat16, *WHOLE),
    (torch.int8, *CUT), (torch.int8, *TRANSPOSED), (torch.float32, *WHOLE)])
def test_products(dtype, sizes, blocks, warps, cluster, transposed):
    """Also of matrices that messages cannot address, and of transposed ones."""
    m, n, k = sizes
    a, b, bias = random(m, k, dtype=dtype), random(k, n, dtype=dtype), random(n, dtype=dtype)
    acc = torch.int32 if dtype == torch.int8 else torch.float32
    c = torch.empty(m, n, dtype=acc, device="xpu")
    on = [x.to("xpu") for x in (a, b)]
    if transposed:
        on = [x.T.contiguous().T for x in on]
    matrix = intel.DPAS(warps, cluster, DTYPES[dtype])
    product[(-(-m // blocks[0]), -(-n // blocks[1]))](
        *on, bias.to("xpu"), c, m, n, k, *on[0].stride(), *on[1].stride(), matrix, *blocks,
        num_warps=warps[0] * warps[1])
    expected = (a.double() @ b.double() + bias.double()).clamp(min=0)
    tolerance = 0 if dtype == torch.int8 else 0.1 if dtype == torch.float32 else 1e-3
    assert torch.allclose(c.cpu().double(), expected, atol=tolerance, rtol=1e-4)


def test_the_example_does_what_it_says():
    a, b = random(512, 256, dtype=torch.float16), random(256, 256, dtype=torch.float16)
    c, kernel = gluon_matmul(a.to("xpu"), b.to("xpu"))
    assert torch.allclose(c.cpu().double(), a.double() @ b.double(), atol=0.1)
    assert (kernel.metadata.n_dpas, kernel.metadata.n_block_loads) == (64, 6)
    found = operations(kernel.asm["xetile"])
    assert found.count("xetile.prefetch_tile") == 2 * 2 + 4  # before the loop, and in it
    assert not {"ttg.convert_layout", "tt.load"} & {*found}


@pytest.mark.parametrize("matrix", [MATRIX, intel.DPAS((2, 2), (1, 2), 4), intel.DPAS(
    (1, 4), (2, 1), 1, repeat_count=4)])
def test_layouts_are_those_of_the_compiler(matrix):
    encoding = matrix.encoding
    rows, columns = (r * w * c for r, w, c in zip(
        (matrix.repeat_count, 16), matrix.warps_per_cta, matrix.rep_cluster, strict=True))
    for shape, index in (((rows, columns), 2), ((rows, 64), 0), ((64, columns), 1)):
        made = matrix.result(shape) if index == 2 else matrix.operand(index, shape)
        wanted = to_linear_layout(encoding if index == 2 else DotOperandEncoding(
            index, encoding, encoding.expected_k_width(index)), shape).bases
        for bases, name in ((made.reg_bases, "register"), (made.lane_bases, "lane"),
                            (made.warp_bases, "warp")):
            assert tuple(map(tuple, bases)) == wanted[name]


@gluon.jit
def copied(p, out, M, N, layout: gl.constexpr):
    x = intel.load_2d(intel.surface(p, [M, N], [N, 1]), [-8, 16], [32, 32], layout)
    intel.prefetch_2d(intel.surface(p, [M, N], [N, 1]), [0, 0], [32, 32])
    row = gl.arange(0, 32, gl.SliceLayout(1, layout))
    x += row[:, None]
    intel.store_2d(intel.surface(out, [M, N], [N, 1]), [8, -16], x)


@pytest.mark.parametrize("size", [64, 33])
def test_blocks_in_layouts_of_the_program(size):
    """Beyond all edges; where messages cannot address a matrix, without them."""
    x = torch.randint(0, 1000, (40, size), dtype=torch.int32)
    out = torch.full((40, size), -1, dtype=torch.int32, device="xpu")
    layout = gl.BlockedLayout([1, 2], [2, 8], [2, 2], [1, 0])
    copied[(1,)](x.to("xpu"), out, 40, size, layout, num_warps=4)
    padded = np.zeros((96, 128), np.int32)
    padded[32:72, 32 : 32 + size] = x.numpy()
    block = padded[24:56, 48:80] + np.arange(32)[:, None]
    expected = np.full((96, 128), -1, np.int32)
    expected[40:72, 16:48] = block
    assert (out.cpu().numpy() == expected[32:72, 32 : 32 + size]).all()


@gluon.jit
def narrowed(a_ptr, b_ptr, c_ptr, MATRIX: gl.constexpr):
    """A product of bytes, of which A is loaded as floats."""
    a, b = intel.surface(a_ptr, [24, 40], [40, 1]), intel.surface(b_ptr, [40, 64], [64, 1])
    left = intel.load_2d(a, [0, 0], [32, 64], MATRIX.operand(0, [32, 64]))
    right = intel.load_2d(b, [0, 0], [64, 64], MATRIX.operand(1, [64, 64]))
    total = gl.zeros([32, 64], gl.int32, MATRIX.result([32, 64]))
    total = intel.dpas(left.to(gl.int8), right, total)
    intel.store_2d(intel.surface(c_ptr, [24, 64], [64, 1]), [0, 0], total)


@gluon.jit
def narrow(x_ptr, out_ptr, layout: gl.constexpr):
    x, out = intel.surface(x_ptr, [64, 64], [64, 1]), intel.surface(out_ptr, [64, 64], [64, 1])
    intel.prefetch_2d(x, [0, 0], [32, 8])
    intel.store_2d(out, [0, 0], intel.load_2d(x, [0, 0], [32, 8], layout))


def test_blocks_that_no_message_brings_in_their_layout_are_gathered():
    """A remark says why, at the line of the load; prefetches are messages in any case."""
    a, b = torch.randint(-8, 8, (24, 40)).float(), random(40, 64, dtype=torch.int8)
    c = torch.empty(24, 64, dtype=torch.int32, device="xpu")
    product = narrowed[(1,)](
        a.to("xpu"), b.to("xpu"), c, intel.DPAS((2, 1), (2, 4), 4), num_warps=2)
    assert torch.equal(c.cpu(), a.int() @ b.int())
    x, out = random(64, 64, dtype=torch.int8), torch.zeros(64, 64, dtype=torch.int8, device="xpu")
    copy = narrow[(1,)](x.to("xpu"), out, gl.BlockedLayout([1, 2], [4, 4], [4, 1], [1, 0]))
    assert torch.equal(out.cpu()[:32, :8], x[:32, :8])
    assert out.cpu().count_nonzero() == x[:32, :8].count_nonzero()
    assert operations(copy.asm["xetile"]).count("xetile.prefetch_tile") == 1
    for kernel, why in ((product, r"no 32-bit 2D block load of bmg .*; lanes must run along a row"),
                        (copy, "several lanes hold the same element")):
        (said,) = (remark for remark in kernel.metadata.remarks if "a gather" in remark)
        assert re.match(rf"tt.load \(test_intel_operations.py:\d+\): stays a gather: {why}", said)


def compiled(kernel, device, constants, lanes=16, pointer="*fp16", **options):
    types = {n: "constexpr" if n in constants else pointer if n.endswith("_ptr") else "i32"
             for n in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]]
               for i, n in enumerate(kernel.arg_names) if types[n] != "constexpr"}
    return triton.compile(GluonASTSource(kernel, types, constants, aligned),
                          target=GPUTarget("xpu", device, lanes), options=options)


BLOCKS = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "AHEAD": 1, "STEPS": 1}


@pytest.mark.parametrize(("device", "lanes"), [("pvc", 16), ("dg2", 8)])
def test_other_devices(device, lanes):
    """Also those without 2D messages, whose DPAS is 8 wide: there blocks are gathered."""
    matrix = intel.DPAS((2, 2), (4, 2 if lanes == 16 else 4), 2, execution_size=lanes)
    made = compiled(gluon_matmul_kernel, device, {"MATRIX": matrix, **BLOCKS}, lanes, num_warps=4)
    assert made.metadata.n_dpas == 16 * 16 // lanes
    assert bool(made.metadata.n_block_loads) == (device == "pvc")


@pytest.mark.parametrize(("matrix", "pointer", "why"), [
    (intel.DPAS((2, 2), (4, 2), 4), "*fp16", "the layout is #xe.dpas"),
    (intel.DPAS((2, 2), (4, 2), 2, execution_size=8), "*fp16", "C must be 64x32"),
    (intel.DPAS((2, 2), (4, 2), 2), "*fp64", "DPAS"),
])
def test_products_that_the_device_has_not_are_refused(matrix, pointer, why):
    with pytest.raises((UnsupportedError, CompilationError, RuntimeError), match=why):
        compiled(gluon_matmul_kernel, "bmg", {"MATRIX": matrix, **BLOCKS}, pointer=pointer,
                 num_warps=4)


@gluon.jit
def mixed(a_ptr, b_ptr, c_ptr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr):
    left = gl.zeros([64, 32], gl.float16, A)
    right = gl.zeros([32, 64], gl.float16, B)
    intel.dpas(left, right, gl.zeros([64, 64], gl.float32, C))


def test_operands_in_other_layouts_are_refused():
    one, other = intel.DPAS((2, 2), (4, 2)), intel.DPAS((1, 4), (8, 1))
    a, b, c = one.operand(0, [64, 32]), one.operand(1, [32, 64]), one.result([64, 64])
    for layouts, why in (((a, other.operand(1, [32, 64]), c), "one DPAS"), ((a, b, a), "result"),
                         ((gl.BlockedLayout([1, 1], [1, 16], [4, 1], [1, 0]), b, c), "operand")):
        with pytest.raises(CompilationError, match=re.compile(why)):
            compiled(mixed, "bmg", dict(zip("ABC", layouts, strict=True)), num_warps=4)


@pytest.mark.parametrize("shape", [(128, 64), (64, 32)])
def test_a_result_that_warps_do_not_share_as_rectangles_is_refused(shape):
    with pytest.raises(ValueError, match="must be 64x64"):
        intel.DPAS((2, 2), (4, 2)).result(shape)


@gluon.jit
def neighbours(p, out, KIND: gl.constexpr):
    """What the next warp wrote, by way of memory."""
    layout: gl.constexpr = gl.BlockedLayout([1], [16], [4], [0])
    at = gl.arange(0, 64, layout)
    for _ in range(3):
        x = gl.load(p + at)
        gl.store(out + at, x + 1)
        intel.barrier_arrive()
        if KIND == "moved":
            x = gl.convert_layout(x, gl.BlockedLayout([2], [16], [4], [0]))
            x = gl.convert_layout(x, layout)
        if KIND != "twice":
            intel.barrier_wait()
        gl.store(p + at, gl.load(out + (at + 16) % 64) + x)
        gl.barrier()


def test_split_barriers():
    x = torch.arange(64, dtype=torch.int32)
    p, out = x.to("xpu"), torch.zeros(64, dtype=torch.int32, device="xpu")
    kernel = neighbours[(1,)](p, out, "", num_warps=4)
    for _ in range(3):
        x = x + (x + 1).roll(-16)
    assert torch.equal(p.cpu(), x)
    barriers = [name for name in instructions(kernel.asm["llir"]) if "ControlBarrier" in name]
    assert barriers == [
        f"__spirv_ControlBarrier{kind}" for kind in ("ArriveINTEL", "WaitINTEL", "")]


@pytest.mark.parametrize(("kind", "why"), [("moved", "between"), ("twice", "without")])
def test_halves_of_barriers_that_do_not_match_are_refused(kind, why):
    out = torch.zeros(64, dtype=torch.int32, device="xpu")
    with pytest.raises(UnsupportedError, match=why):
        neighbours[(1,)](out, out, kind, num_warps=4)


@gluon.jit
def two_barriers(p_ptr, out_ptr, NUMBER: gl.constexpr, LANES: gl.constexpr):
    """What the next warp wrote, with a barrier of all between the halves of a named one."""
    layout: gl.constexpr = gl.BlockedLayout([1], [LANES], [4], [0])
    at = gl.arange(0, 64, layout)
    gl.store(out_ptr + at, gl.load(p_ptr + at) + 1)
    intel.barrier_arrive(NUMBER)
    x = gl.convert_layout(gl.load(p_ptr + 64 + at), gl.BlockedLayout([2], [LANES], [4], [0]))
    x = gl.convert_layout(x, layout)
    intel.barrier_wait(NUMBER)
    gl.store(p_ptr + at, gl.load(out_ptr + (at + 16) % 64) + x)


def test_named_barriers():
    x = torch.arange(128, dtype=torch.int32)
    p, out = x.to("xpu"), torch.zeros(64, dtype=torch.int32, device="xpu")
    kernel = two_barriers[(1,)](p, out, 3, 16, num_warps=4)
    assert torch.equal(p.cpu()[:64], (x[:64] + 1).roll(-16) + x[64:])
    assert "GenISA.threadgroupnamedbarriers.signal" in instructions(kernel.asm["llir"])


def test_named_barriers_that_a_device_has_not_are_refused():
    with pytest.raises(XeError, match="dg2 has no"):
        compiled(two_barriers, "dg2", {"NUMBER": 3, "LANES": 8}, 8, pointer="*i32", num_warps=4)
    with pytest.raises(CompilationError, match="1 to 31"):
        compiled(two_barriers, "bmg", {"NUMBER": 32, "LANES": 16}, pointer="*i32", num_warps=4)


@gluon.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, N, SCORES: gl.constexpr, OUT: gl.constexpr):
    """Attention of 64 rows, depth 64: products whose results are operands, reductions by rows."""
    rows: gl.constexpr = gl.SliceLayout(1, SCORES.result([64, 32]))
    out_rows: gl.constexpr = gl.SliceLayout(1, OUT.result([64, 64]))
    k, v = intel.surface(k_ptr, [64, N], [1, 64]), intel.surface(v_ptr, [N, 64], [64, 1])
    q = intel.load_2d(
        intel.surface(q_ptr, [64, 64], [64, 1]), [0, 0], [64, 64], SCORES.operand(0, [64, 64]))
    top = gl.full([64], -1e30, gl.float32, rows)
    total = gl.zeros([64], gl.float32, rows)
    acc = gl.zeros([64, 64], gl.float32, OUT.result([64, 64]))
    for at in range(0, N, 32):
        keys = intel.load_2d(k, [0, at], [64, 32], SCORES.operand(1, [64, 32]))
        s = intel.dpas(q, keys, gl.zeros([64, 32], gl.float32, SCORES.result([64, 32])))
        higher = gl.maximum(top, gl.max(s, 1))
        p = gl.exp(s - higher[:, None])
        scale = gl.exp(top - higher)
        total = total * scale + gl.sum(p, 1)
        acc = acc * gl.convert_layout(scale, out_rows)[:, None]
        p = gl.convert_layout(p.to(gl.float16), OUT.operand(0, [64, 32]))
        values = intel.load_2d(v, [at, 0], [32, 64], OUT.operand(1, [32, 64]))
        acc = intel.dpas(p, values, acc)
        top = higher
    out = acc / gl.convert_layout(total, out_rows)[:, None]
    intel.store_2d(intel.surface(o_ptr, [64, 64], [64, 1]), [0, 0], out)


def test_attention():
    q, k, v = (random(n, 64, dtype=torch.float16) for n in (64, 96, 96))
    out = torch.empty(64, 64, device="xpu")
    kernel = attend[(1,)](q.to("xpu"), k.to("xpu"), v.to("xpu"), out, 96,
                          intel.DPAS([4, 1], [2, 2]), intel.DPAS([4, 1], [2, 4]), num_warps=4)
    expected = (q.double() @ k.double().T).softmax(1) @ v.double()
    assert torch.allclose(out.cpu().double(), expected, atol=5e-3)
    assert kernel.metadata.n_block_loads > 0
