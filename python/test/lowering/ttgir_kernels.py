"""Small kernels that between them make libtriton print every op it has for an xpu target.

Each is registered with the types of its arguments, its constants, and options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import triton
import triton.language as tl


@dataclass(frozen=True)
class Case:
    """A kernel, how to specialise it, and the ops its ttgir must contain."""

    fn: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    ops: tuple[str, ...]
    aligned: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.fn.__name__)


CASES: list[Case] = []


def case(
    signature: str,
    ops: str,
    /,
    *,
    aligned: tuple[int, ...] = (),
    options: Any = None,
    **constants: Any,
) -> Callable[[Any], Any]:
    """Register a kernel; `signature` is the types of its runtime arguments, in order."""

    def register(fn: Any) -> Any:
        runtime = [name for name in fn.arg_names if name not in constants]
        types = dict(zip(runtime, signature.split(), strict=True))
        CASES.append(Case(fn, types, constants, tuple(ops.split()), aligned, options or {}))
        return fn

    return register


@case(
    "*fp32 *fp32 *fp32 i32",
    "tt.load tt.store tt.addptr tt.splat tt.make_range arith.cmpi",
    aligned=(0, 1, 2, 3),
    N=1024,
)
@triton.jit
def vector_add(x, y, out, n, N: tl.constexpr):
    offsets = tl.program_id(0) * N + tl.arange(0, N)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask, 0.0), mask)


@case(
    "*fp16 *fp16 *fp16 i32 i32 i32 i32 i32 i32",
    "tt.dot scf.for ttg.convert_layout tt.broadcast tt.expand_dims arith.truncf arith.select",
    aligned=(0, 1, 2, 3, 4, 5),
    BM=64,
    BN=64,
    BK=32,
    GROUP=8,
)
@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    pid_m = group * GROUP + (pid % (GROUP * tiles_n)) % rows
    pid_n = (pid % (GROUP * tiles_n)) // rows
    offs_m = (pid_m * BM + tl.arange(0, BM)) % M
    offs_n = (pid_n * BN + tl.arange(0, BN)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a + offs_m[:, None] * stride_am + offs_k[None, :]
    b_ptrs = b + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a_tile = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b_tile = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
        a_ptrs += BK
        b_ptrs += BK * stride_bk
    acc = tl.where(acc >= 0, acc, 0.01 * acc)
    rows_m = pid_m * BM + tl.arange(0, BM)
    cols_n = pid_n * BN + tl.arange(0, BN)
    mask = (rows_m[:, None] < M) & (cols_n[None, :] < N)
    tl.store(c + stride_cm * rows_m[:, None] + cols_n[None, :], acc.to(tl.float16), mask)


@case(
    "*fp32 *i32 *i64 *fp16 *bf16 *i8 *u8 *fp64",
    "arith.sitofp arith.uitofp arith.fptosi arith.fptoui arith.extsi arith.extui arith.trunci "
    "arith.extf arith.truncf tt.bitcast tt.ptr_to_int tt.int_to_ptr",
    N=128,
)
@triton.jit
def casts(f, i, q, h, b, c, u, d, N: tl.constexpr):
    offs = tl.arange(0, N)
    x = tl.load(f + offs)
    n = tl.load(i + offs)
    tl.store(q + offs, n.to(tl.int64) + tl.load(u + offs).to(tl.int64))
    tl.store(h + offs, x.to(tl.float16) + n.to(tl.float16) + tl.load(u + offs).to(tl.float16))
    tl.store(b + offs, x.to(tl.bfloat16))
    tl.store(c + offs, n.to(tl.int8) + x.to(tl.int8))
    tl.store(u + offs, x.to(tl.uint8))
    tl.store(d + offs, x.to(tl.float64))
    tl.store(i + offs, x.to(tl.int32, bitcast=True) + (n > 3).to(tl.int32))
    address = f.to(tl.int64, bitcast=True) + 16
    tl.store(address.to(tl.pointer_type(tl.float32), bitcast=True), 1.0)
    tl.store(tl.load(q).to(tl.pointer_type(tl.float32)), f.to(tl.int64).to(tl.float32))
    tl.store(f.to(tl.pointer_type(tl.int32)) + offs, n)


@case("*fp8e5 *fp8e4nv *fp32 *fp16", "tt.fp_to_fp", N=128)
@triton.jit
def fp8_casts(e5, e4, f, h, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(f + offs, tl.load(e5 + offs).to(tl.float32) + tl.load(e4 + offs).to(tl.float32))
    tl.store(e5 + offs, tl.load(f + offs).to(tl.float8e5))
    tl.store(e4 + offs, tl.load(h + offs).to(tl.float8e4nv))
    tl.store(h + offs, tl.load(f + offs).to(tl.float16, fp_downcast_rounding="rtz"))


@case(
    "*fp32 *fp32",
    "math.exp math.exp2 math.log math.log2 math.sin math.cos math.sqrt math.rsqrt math.absf "
    "math.floor math.ceil math.erf math.fma tt.precise_sqrt tt.precise_divf tt.clampf "
    "arith.divf arith.maximumf arith.minimumf arith.maxnumf arith.remf",
    N=128,
)
@triton.jit
def float_math(x, out, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.load(x + offs)
    r = tl.exp(v) + tl.exp2(v) + tl.log(v) + tl.log2(v) + tl.sin(v) + tl.cos(v)
    r += tl.sqrt(v) + tl.rsqrt(v) + tl.abs(v) + tl.floor(v) + tl.ceil(v) + tl.erf(v)
    r += tl.fma(v, r, v) + tl.sqrt_rn(v) + tl.div_rn(v, r) + tl.clamp(v, 0.0, 1.0) + v / r - (-v)
    r += tl.clamp(v, -r, r, propagate_nan=tl.PropagateNan.ALL)
    r += tl.maximum(v, r, propagate_nan=tl.PropagateNan.ALL)
    r += tl.minimum(v, r, propagate_nan=tl.PropagateNan.ALL) + tl.maximum(v, 3.0)
    tl.store(out + offs, tl.where(v == r, r, r % v))


@case(
    "*i32 *u32 *i1",
    "arith.divsi arith.remsi arith.divui arith.remui arith.shli arith.shrsi arith.shrui "
    "arith.andi arith.ori arith.xori arith.minsi arith.maxsi arith.minui arith.maxui tt.mulhiui "
    "math.absi",
    N=128,
)
@triton.jit
def integer_math(x, u, flags, N: tl.constexpr):
    offs = tl.arange(0, N)
    a = tl.load(x + offs)
    b = tl.load(u + offs)
    c = a // 7 + a % 5 + (a << 2) + (a >> 3) + (a & 12) + (a | 3) + (a ^ a * 5)
    c += tl.minimum(a, c) + tl.maximum(a, c) + tl.abs(a) + ~a
    d = b // 7 + b % 5 + (b >> 3) + tl.minimum(b, 9) + tl.maximum(b, 3) + tl.umulhi(b, b)
    tl.store(x + offs, c)
    tl.store(u + offs, d)
    tl.store(flags + offs, (a < c) & (b >= d) | (a != 4) & (b == 3) ^ True)


@case("*fp32 *fp32 *i32", "tt.reduce tt.reduce.return tt.unsplat", M=32, N=64)
@triton.jit
def reductions(x, out, index, M: tl.constexpr, N: tl.constexpr):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + rows[:, None] * N + cols[None, :])
    tl.store(out + rows, tl.sum(v, axis=1) + tl.max(v, 1) + tl.xor_sum(v.to(tl.int32), 1))
    tl.store(index + rows, tl.argmax(v, axis=1) + tl.argmin(v, axis=1, tie_break_left=False))
    tl.store(out + cols, tl.min(v, 0))
    tl.store(out, tl.sum(v))
    tl.store(index, tl.sum(v, keep_dims=True).reshape([1]).item().to(tl.int32))


@triton.jit
def linear_step(a0, b0, a1, b1):
    return a0 * a1, a1 * b0 + b1


@case("*fp32 *fp32", "tt.scan tt.scan.return", M=32, N=64)
@triton.jit
def scans(x, out, M: tl.constexpr, N: tl.constexpr):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    offs = rows[:, None] * N + cols[None, :]
    v = tl.load(x + offs)
    a, b = tl.associative_scan((v, v * 2), 1, linear_step)
    tl.store(out + offs, tl.cumsum(v, 1) + tl.cumprod(v, 0, reverse=True) + a + b)


@case("*fp32 *i32 *i64 *fp16", "tt.atomic_rmw tt.atomic_cas", N=64)
@triton.jit
def atomics(f, i, q, h, N: tl.constexpr):
    offs = tl.arange(0, N)
    mask = offs < 40
    v = tl.load(i + offs)
    old = tl.atomic_add(f + offs, 1.0, mask)
    old += tl.atomic_max(f + offs, old) + tl.atomic_xchg(f + offs, old, sem="release")
    w = tl.atomic_add(i + offs, v, mask, sem="relaxed", scope="cta")
    w += tl.atomic_and(i + offs, v) + tl.atomic_or(i + offs, v) + tl.atomic_xor(i + offs, v)
    w += tl.atomic_min(i + offs, v, scope="sys") + tl.atomic_cas(i + offs, v, w)
    tl.atomic_add(q, 1)
    tl.atomic_cas(i, 0, 1)
    tl.atomic_add(h + offs, old.to(tl.float16))
    tl.store(i + offs, w)


@case(
    "*fp16 *fp16 *fp32 i32 i32 i32",
    "tt.make_tensor_descriptor tt.descriptor_load tt.descriptor_store tt.descriptor_reduce "
    "tt.dot tt.trans",
    options={"descriptors": True},
    M=64,
    N=64,
    K=32,
)
@triton.jit
def descriptors(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    b_desc = tl.make_tensor_descriptor(b, [n, k], [k, 1], [N, K], padding_option="nan")
    c_desc = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, col = tl.program_id(0) * M, tl.program_id(1) * N
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, k, K):
        acc = tl.dot(a_desc.load([row, i]), b_desc.load([col, i]).T, acc)
    c_desc.store([row, col], acc)
    c_desc.atomic_add([row, col], acc)
    c_desc.atomic_add([row, col], acc * 2)


@case(
    "*fp16 *i32 i32 i32",
    "tt.descriptor_gather tt.descriptor_scatter",
    options={"descriptors": True},
    M=32,
    N=64,
)
@triton.jit
def gather_rows(a, rows, m, n, M: tl.constexpr, N: tl.constexpr):
    desc = tl.make_tensor_descriptor(a, [m, n], [n, 1], [1, N])
    index = tl.load(rows + tl.arange(0, M))
    desc.scatter(desc.gather(index, 0) + 1, index, 16)


@case(
    "tensordesc<fp16[64,32]> *fp16",
    "tt.descriptor_load",
    options={"descriptors": True},
    M=64,
    N=32,
)
@triton.jit
def host_descriptor(desc, out, M: tl.constexpr, N: tl.constexpr):
    offs = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + offs, desc.load([0, 0]))


@case("*fp32 i32 i32", "scf.while scf.condition scf.if scf.yield scf.for", N=64)
@triton.jit
def control_flow(x, n, limit, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.load(x + offs)
    i = 0
    while i < n:
        v += 1.0
        if i > limit:
            v *= 2.0
            i += 3
        elif i == 5:
            i += 2
        else:
            i += 1
    for j in range(n, 0, -1):
        for k in range(j):
            v += k
    if n > 7:
        tl.store(x + offs, v)


@case("*fp32 i32", "scf.for", N=64)
@triton.jit
def loop_attributes(x, n, N: tl.constexpr):
    offs = tl.arange(0, N)
    acc = tl.zeros((N,), tl.float32)
    for i in tl.range(0, n, 1, num_stages=3, disallow_acc_multi_buffer=True, flatten=True):
        acc += tl.load(x + i * N + offs)
    for i in tl.static_range(2):
        acc += i
    tl.store(x + offs, acc)


@triton.jit(noinline=True)
def polynomial(x, n):
    return x * x + n, n + 1


@triton.jit(noinline=True)
def nothing(x):
    tl.store(x, 1.0)


@case("*fp32 i32", "tt.call tt.func", N=64)
@triton.jit
def calls(x, n, N: tl.constexpr):
    offs = tl.arange(0, N)
    v, m = polynomial(tl.load(x), n)
    nothing(x)
    tl.store(x + offs, v + m)


@case("*fp32 i32", "cf.cond_br", N=64)
@triton.jit
def early_return(x, n, N: tl.constexpr):
    if n < 3:
        return
    offs = tl.arange(0, N)
    if n > 10:
        tl.store(x + offs, 1.0)
        return
    tl.store(x + offs, 2.0)


@case("*fp32 i32", "tt.print tt.assert", N=64, options={"debug": True})
@triton.jit
def messages(x, n, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.load(x + offs)
    tl.device_print('value\n"quoted"', v, n)
    tl.device_print("hex", n, hex=True)
    tl.device_print("bare")
    tl.device_assert(v > 0, "positive")
    tl.device_assert(n > 0)


@case(
    "*fp32 *fp32",
    "tt.join tt.split tt.reshape tt.trans tt.cat tt.gather tt.histogram tt.expand_dims",
    N=64,
)
@triton.jit
def shapes(x, out, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.load(x + offs)
    j = tl.join(v, v + 1)
    a, b = tl.split(j.trans().reshape([N, 2]))
    tl.store(out + tl.arange(0, 2 * N), tl.cat(a, b, can_reorder=True))
    tl.store(out + offs, tl.gather(a, (N - 1 - offs).to(tl.int32), 0))
    r = tl.reshape(v, [8, N // 8], can_reorder=True)
    tl.store(out + tl.arange(0, 8)[:, None] + tl.arange(0, N // 8)[None, :], r)
    tl.store(out + tl.arange(0, 16), tl.histogram(offs, 16).to(tl.float32))
    tl.store(out + tl.arange(0, 16), tl.histogram(offs, 16, mask=v > 0).to(tl.float32))


@case("*fp32 *i32", "tt.reshape", N=16)
@triton.jit
def sorts(x, i, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(x + offs, tl.sort(tl.load(x + offs), descending=True))
    tl.store(i + tl.arange(0, 4), tl.topk(tl.load(i + offs), 4))
    tl.store(i + offs, tl.flip(tl.load(i + offs)))


@case("*fp32 *i32", "tt.elementwise_inline_asm", N=64)
@triton.jit
def inline_asm(x, i, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.inline_asm_elementwise(
        "mov (M1, 16) $0(0, 0)<1> $1(0, 0)<1;1,0>",
        "=r,r",
        [tl.load(i + offs)],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )
    a, b = tl.inline_asm_elementwise(
        "{ foo $0, $2; }", "=r,=r,r", [v], dtype=(tl.int32, tl.float32), is_pure=False, pack=2
    )
    tl.store(i + offs, a)
    tl.store(x + offs, b)


@triton.jit
def clipped_add(a, b):
    if a > b:
        return a - b, a
    return b, a + 1


@case("*i32", "tt.map_elementwise tt.map_elementwise.return", N=64)
@triton.jit
def mapped(x, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.load(x + offs)
    a, b = tl.map_elementwise(clipped_add, v, offs)
    tl.store(x + offs, a + b)


@case("*fp16 *fp16 *fp32", "tt.load tt.store", N=256)
@triton.jit
def cache_hints(x, y, out, N: tl.constexpr):
    offs = tl.arange(0, N)
    a = tl.load(x + offs, cache_modifier=".ca", eviction_policy="evict_last")
    b = tl.load(y + offs, cache_modifier=".cg", volatile=True)
    tl.store(out + offs, a + b, cache_modifier=".wt", eviction_policy="evict_first")


@case("*u8 *u8 *fp32 *u8 *u8", "tt.dot_scaled", M=32, N=32, K=64)
@triton.jit
def scaled_dot(a, b, c, sa, sb, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    s = tl.arange(0, K // 32)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    x_scale = tl.load(sa + m[:, None] * 2 + s[None, :])
    y_scale = tl.load(sb + n[:, None] * 2 + s[None, :])
    acc = tl.dot_scaled(x, x_scale, "e4m3", y, y_scale, "e5m2")
    acc = tl.dot_scaled(x, x_scale, "e4m3", y, None, "e5m2", acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@case("*fp32 *fp32 *i8 *i8 *i32", "tt.dot", M=32, K=32)
@triton.jit
def dot_kinds(a, b, p, q, c, M: tl.constexpr, K: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, K)
    offs = m[:, None] * K + k[None, :]
    x, y = tl.load(a + offs), tl.load(b + offs)
    r = tl.dot(x, y, input_precision="ieee") + tl.dot(x, y, input_precision="tf32x3")
    r += tl.dot(x, y, input_precision="bf16x3") + tl.dot(x, y)
    tl.store(a + offs, r)
    tl.store(c + offs, tl.dot(tl.load(p + offs), tl.load(q + offs), out_dtype=tl.int32))


@case("*fp32 i32", "scf.while scf.if", N=64)
@triton.jit
def undefined_values(x, n, N: tl.constexpr):
    v = 0.0
    while n > 0:
        if n == 17:
            v = tl.load(x + n)
            n = 0
        else:
            v += 1.0
            n -= 1
    tl.store(x, v)


@case("*i64 i32", "tt.get_num_programs tt.get_program_id", N=16)
@triton.jit
def programs(x, n, N: tl.constexpr):
    total = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    tl.store(x + tl.program_id(0) + tl.program_id(1) + tl.program_id(2), total)
    tl.debug_barrier()
    tl.store(x + tl.arange(0, N), tl.full((N,), 1 << 40, tl.int64) - tl.arange(0, N))


@case("*fp32 *i32 u32", "tt.mulhiui math.log", N=64)
@triton.jit
def random_numbers(x, i, seed, N: tl.constexpr):
    offs = tl.arange(0, N)
    tl.store(x + offs, tl.rand(seed, offs) + tl.randn(seed, offs))
    tl.store(i + offs, tl.randint(seed, offs))


@case("*fp32 *i1", "arith.constant", N=64)
@triton.jit
def constants(x, flags, N: tl.constexpr):
    offs = tl.arange(0, N)
    v = tl.load(x + offs)
    tl.store(x + offs, tl.where(v > float("inf"), float("nan"), v + float("-inf")))
    tl.store(flags + offs, tl.full((N,), True, tl.int1))
    tl.store(flags, False)
    tl.store(x, -1.5e-30)
