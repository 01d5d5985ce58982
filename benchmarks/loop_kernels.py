"""Kernels of the kinds that users run, for `benchmarks.loops`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm(
    a_ptr, b_ptr, c_ptr, add_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EPILOGUE: tl.constexpr = "", CONVERT: tl.constexpr = "", SPLIT_K: tl.constexpr = 1,
):
    """One tile of C; operands may be converted, and C may be added to a matrix or to memory.

    With `EPILOGUE="halves"` it is stored half by half, as Triton's persistent tutorial does.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
    acc_type: tl.constexpr = tl.int32 if a_ptr.dtype.element_ty == tl.int8 else tl.float32
    acc = tl.zeros((BLOCK_M, BLOCK_N), acc_type)
    for left in range(K, 0, -BLOCK_K * SPLIT_K):
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        if CONVERT == "both":
            a, b = a.to(tl.float16), b.to(tl.float16)
        elif CONVERT == "b":
            b = b.to(a.dtype)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * SPLIT_K * stride_ak
        b_ptrs += BLOCK_K * SPLIT_K * stride_bk
    at = rows[:, None] * stride_cm + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    if EPILOGUE == "atomic":
        tl.atomic_add(c_ptr + at, acc, mask=inside)
        return
    if EPILOGUE == "halves":
        low, high = tl.split(tl.permute(tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N // 2)
        store_columns(low, c_ptr, rows, columns, M, N, stride_cm)
        store_columns(high, c_ptr, rows, columns + BLOCK_N // 2, M, N, stride_cm)
        return
    if EPILOGUE == "add":
        acc = acc + tl.load(add_ptr + at, mask=inside).to(acc_type)
    tl.store(c_ptr + at, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def store_columns(x, c_ptr, rows, columns, M, N, stride):
    """Store some columns of a tile."""
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    at = rows[:, None] * stride + columns[None, :]
    tl.store(c_ptr + at, x.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def packed_gemm(
    a_ptr, b_ptr, scales_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """4-bit weights, eight to a 32-bit word along N, with a scale per group of K (AWQ)."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] // 8
    shift = (columns % 8) * 4
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs)
        packed = tl.load(b_ptrs)
        scales = tl.load(scales_ptr + start // group * N + columns)
        b = (((packed >> shift[None, :]) & 15) - 8).to(tl.float16) * scales[None, :]
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def packed_pairs_gemm(
    a_ptr, b_ptr, zeros_ptr, scales_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_bn,
    stride_zk, stride_zn, stride_sk, stride_sn, stride_cm, group,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """4-bit weights, two to a byte along K, with a scale and a zero point per `group` of K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + (k[:, None] // 2) * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=rows[:, None] < M, other=0.0)
        b = (tl.load(b_ptrs) >> ((k[:, None] % 2) * 4)) & 15
        at = (k[:, None] + BLOCK_K * step) // group
        zeros = tl.load(zeros_ptr + at * stride_zk + columns[None, :] // 2 * stride_zn)
        zeros = (zeros >> ((columns[None, :] % 2) * 4)) & 15
        scales = tl.load(scales_ptr + at * stride_sk + columns[None, :] * stride_sn)
        b = (b.to(tl.float32) - zeros.to(tl.float32)) * scales.to(tl.float32)
        acc = tl.dot(a, b.to(tl.float16), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K // 2 * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def block_scaled_gemm(
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_sa, stride_sb,
    stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):
    """fp8, with scales of the rows of A and of square blocks of B for each step along K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k, held_rows, held_columns = tl.arange(0, BLOCK_K), rows % M, columns % N
    a_ptrs = a_ptr + held_rows[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + held_columns[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        a = tl.load(a_ptrs, mask=k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < left, other=0.0)
        at = step * BLOCK_K // GROUP
        sa = tl.load(sa_ptr + held_rows * stride_sa + at)
        sb = tl.load(sb_ptr + at * stride_sb + held_columns // GROUP)
        acc += tl.dot(a, b) * sa[:, None] * sb[None, :]
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def attention_backward(
    q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, log_ptr, delta_ptr, length, stride_n, scale,
    DEPTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):
    """Gradients of BLOCK_N keys and values."""
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, DEPTH)
    at = columns[:, None] * stride_n + depth[None, :]
    k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
    dk = tl.zeros((BLOCK_N, DEPTH), tl.float32)
    dv = tl.zeros((BLOCK_N, DEPTH), tl.float32)
    rows = tl.arange(0, BLOCK_M)
    q_ptrs = q_ptr + rows[None, :] * stride_n + depth[:, None]
    do_ptrs = do_ptr + rows[:, None] * stride_n + depth[None, :]
    for start in range(0, length, BLOCK_M):
        q_t = tl.load(q_ptrs)
        log = tl.load(log_ptr + start + rows)
        p = tl.exp2(tl.dot(k, q_t) - log[None, :])
        do = tl.load(do_ptrs)
        dv += tl.dot(p.to(do.dtype), do)
        dp = tl.dot(v, tl.trans(do))
        ds = p * (dp - tl.load(delta_ptr + start + rows)[None, :])
        dk += tl.dot(ds.to(do.dtype), tl.trans(q_t))
        q_ptrs += BLOCK_M * stride_n
        do_ptrs += BLOCK_M * stride_n
    tl.store(dv_ptr + at, dv.to(tl.float16))
    tl.store(dk_ptr + at, (dk * scale).to(tl.float16))


@triton.jit
def masked_attention(
    q_ptr, k_ptr, v_ptr, bias_ptr, o_ptr, length, stride_m, stride_b, stride_h, stride_bh, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    """Attention of a head of a batch with a matrix added to the scores, rows and columns masked."""
    i, j = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    depth, at = tl.arange(0, DEPTH), tl.program_id(1) * stride_h
    q_ptrs = q_ptr + at + i[:, None] * stride_m + depth[None, :]
    k_ptrs = k_ptr + at + j[:, None] * stride_m + depth[None, :]
    v_ptrs = v_ptr + at + j[:, None] * stride_m + depth[None, :]
    bias_ptrs = bias_ptr + tl.program_id(1) * stride_bh + i[:, None] * stride_b + j[None, :]
    q = tl.load(q_ptrs, mask=i[:, None] < length, other=0.0)
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total, out = tl.zeros((BLOCK_M,), tl.float32), tl.zeros((BLOCK_M, DEPTH), tl.float32)
    for n in range(0, length, BLOCK_N):
        inside = (n + j < length)[None, :]
        k = tl.load(k_ptrs + n * stride_m, mask=(n + j < length)[:, None], other=0.0)
        bias = tl.load(bias_ptrs + n, mask=(i[:, None] < length) & inside, other=0.0)
        s = tl.where(inside, tl.dot(q, k.T) * scale + bias.to(tl.float32), float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p, less = tl.exp(s - higher[:, None]), tl.exp(top - higher)
        v = tl.load(v_ptrs + n * stride_m, mask=(n + j < length)[:, None], other=0.0)
        total, top = total * less + tl.sum(p, 1), higher
        out = tl.dot(p.to(v.dtype), v, out * less[:, None])
    o_ptrs = o_ptr + at + i[:, None] * stride_m + depth[None, :]
    tl.store(o_ptrs, (out / total[:, None]).to(v_ptr.dtype.element_ty), mask=i[:, None] < length)


@triton.jit
def windowed_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, length, stride_m, stride_h, window, scale, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr,
):
    """Causal attention to the last `window` positions; GROUP heads share keys and values."""
    first = tl.program_id(0) * BLOCK_M
    i, j, depth = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DEPTH)
    at, shared = tl.program_id(1) * stride_h, tl.program_id(1) // GROUP * stride_h
    q = tl.load(q_ptr + at + i[:, None] * stride_m + depth[None, :], mask=i[:, None] < length,
                other=0.0)
    low = max(0, (first - window) // BLOCK_N * BLOCK_N)
    k_ptrs = k_ptr + shared + j[None, :] * stride_m + depth[:, None] + low * stride_m
    v_ptrs = v_ptr + shared + j[:, None] * stride_m + depth[None, :] + low * stride_m
    top = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total, out = tl.zeros((BLOCK_M,), tl.float32), tl.zeros((BLOCK_M, DEPTH), tl.float32)
    for n in range(low, min(first + BLOCK_M, length), BLOCK_N):
        column = n + j
        k = tl.load(k_ptrs, mask=column[None, :] < length, other=0.0)
        seen = (i[:, None] >= column[None, :]) & (i[:, None] - column[None, :] < window)
        s = tl.where(seen & (column[None, :] < length), tl.dot(q, k) * scale, -1.0e6)
        higher = tl.maximum(top, tl.max(s, 1))
        p, less = tl.exp2(s - higher[:, None]), tl.exp2(top - higher)
        v = tl.load(v_ptrs, mask=column[:, None] < length, other=0.0)
        total, top = total * less + tl.sum(p, 1), higher
        out = tl.dot(p.to(v.dtype), v, out * less[:, None])
        k_ptrs += BLOCK_N * stride_m
        v_ptrs += BLOCK_N * stride_m
    o_ptrs = o_ptr + at + i[:, None] * stride_m + depth[None, :]
    tl.store(o_ptrs, (out / total[:, None]).to(v_ptr.dtype.element_ty), mask=i[:, None] < length)


@triton.jit
def softmax(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    x = tl.load(x_ptr + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + at, (e / tl.sum(e, 0)).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, stride, n, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * stride + i, i < n
    x = tl.load(x_ptr + at, mask=inside, other=0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / n + eps)
    w = tl.load(w_ptr + i, mask=inside, other=0).to(tl.float32)
    tl.store(y_ptr + at, (y * w).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def swiglu_gradient(y_ptr, a_ptr, b_ptr, stride, n: tl.constexpr, BLOCK: tl.constexpr):
    """Gradient of `silu(a) * b`, written over `a` and `b`, as in Liger."""
    i = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * stride + i, i < n
    y = tl.load(y_ptr + at, mask=inside, other=0)
    a = tl.load(a_ptr + at, mask=inside, other=0).to(tl.float32)
    b = tl.load(b_ptr + at, mask=inside, other=0)
    s = tl.sigmoid(a)
    silu = a * s
    tl.store(a_ptr + at, y * (silu * (1 - s) + s) * b, mask=inside)
    tl.store(b_ptr + at, y * silu, mask=inside)


@triton.jit
def rotary(
    q_ptr, k_ptr, cos_ptr, sin_ptr, stride_q, stride_k, stride_c, stride_s, length, batches,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, DEPTH: tl.constexpr,
):
    """Rotary embeddings of each head of Q and K, in place; one token per program (Liger)."""
    token = tl.program_id(0).to(tl.int64)
    batch, position = token // length, token % length
    i = tl.arange(0, DEPTH // 2)
    cos_ptr += tl.where(batches == 1, position * stride_c, (batch * length + position) * stride_c)
    sin_ptr += tl.where(batches == 1, position * stride_s, (batch * length + position) * stride_s)
    cos, sin = tl.load(cos_ptr + i), tl.load(sin_ptr + i)
    q_ptrs = q_ptr + token * stride_q + tl.arange(0, HEADS)[:, None] * DEPTH + i[None, :]
    k_ptrs = k_ptr + token * stride_k + tl.arange(0, GROUPS)[:, None] * DEPTH + i[None, :]
    q, k = tl.load(q_ptrs), tl.load(k_ptrs)
    far_q, far_k = tl.load(q_ptrs + DEPTH // 2), tl.load(k_ptrs + DEPTH // 2)
    tl.store(q_ptrs, q * cos - far_q * sin)
    tl.store(q_ptrs + DEPTH // 2, far_q * cos + q * sin)
    tl.store(k_ptrs, k * cos - far_k * sin)
    tl.store(k_ptrs + DEPTH // 2, far_k * cos + k * sin)


@triton.jit
def layer_norm(x_ptr, y_ptr, w_ptr, b_ptr, stride, n, eps, BLOCK: tl.constexpr):
    """Rows longer than a block, in three loops (tutorial 05)."""
    x_ptr += tl.program_id(0) * stride
    y_ptr += tl.program_id(0) * stride
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, 0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        x = tl.where(i < n, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        w, b = tl.load(w_ptr + i, mask=i < n), tl.load(b_ptr + i, mask=i < n)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + i, ((x - mean) * rstd * w + b).to(y_ptr.dtype.element_ty), mask=i < n)


@triton.jit
def layer_norm_row(x_ptr, y_ptr, w_ptr, b_ptr, stride, eps, n, BLOCK: tl.constexpr):
    """Rows that stay in registers."""
    i = tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + tl.program_id(0) * stride + i, mask=inside, other=0.0).to(tl.float32)
    x = tl.where(inside, x - tl.sum(x, 0) / n, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x, 0) / n + eps)
    w, b = tl.load(w_ptr + i, mask=inside), tl.load(b_ptr + i, mask=inside)
    y = (x * rstd * w + b).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + tl.program_id(0) * stride + i, y, mask=inside)


@triton.jit
def layer_norm_gradient(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, lock_ptr, stride, n,
    GROUP: tl.constexpr, BLOCK: tl.constexpr,
):
    """The gradient of a row that stays in registers (`_layer_norm_bwd_dx` of tutorial 05)."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    inside, group = i < n, row % GROUP
    lock, count = lock_ptr + group, lock_ptr + group + GROUP
    dw_ptrs, db_ptrs = dw_ptr + group * n + i, db_ptr + group * n + i
    x = tl.load(x_ptr + row * stride + i, mask=inside, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + i, mask=inside, other=0).to(tl.float32)
    w = tl.load(w_ptr + i, mask=inside).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    normal = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = tl.where(inside, w * dy, 0.0)
    c1, c2 = tl.sum(normal * wdy, axis=0) / n, tl.sum(wdy, axis=0) / n
    tl.store(dx_ptr + row * stride + i, (wdy - (normal * c1 + c2)) * rstd, mask=inside)
    dw, db = dy * normal, dy
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        dw += tl.load(dw_ptrs, mask=inside)
        db += tl.load(db_ptrs, mask=inside)
    tl.store(dw_ptrs, dw, mask=inside)
    tl.store(db_ptrs, db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def softmax_gradient(dy_ptr, y_ptr, dx_ptr, stride, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * stride + i, i < n
    dy = tl.load(dy_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(dx_ptr + at, y * (dy - tl.sum(dy * y, axis=0)), mask=inside)


@triton.jit
def cross_entropy_gradient(x_ptr, top, total, stride, n, count, label, BLOCK: tl.constexpr):
    """The loop of Liger's kernel that overwrites the logits by their gradient."""
    x_ptr += tl.program_id(0) * stride
    m, d = tl.load(top + tl.program_id(0)), tl.load(total + tl.program_id(0))
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=float("-inf")).to(tl.float32)
        x = tl.exp(x - m) / d
        x = tl.where(i != label, x, x - 1.0) / count
        tl.store(x_ptr + i, x, mask=i < n)


@triton.jit
def cross_entropy(x_ptr, y_ptr, loss_ptr, stride, n, BLOCK: tl.constexpr):
    """The loop of Liger's kernel that reads the logits; it reduces without an axis."""
    x_ptr += tl.program_id(0) * stride
    label = tl.load(x_ptr + tl.load(y_ptr + tl.program_id(0))).to(tl.float32)
    m, d = float("-inf"), 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - higher) + tl.sum(tl.exp(x - higher))
        m = higher
    tl.store(loss_ptr + tl.program_id(0), tl.log(d) + m - label)


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + i, tl.load(x_ptr + i, mask=i < n) + tl.load(y_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def descriptor_copy(
    x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TRANSPOSE: tl.constexpr
):
    """A block of a matrix, copied or transposed by descriptors."""
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).load([i, j])
    if TRANSPOSE:
        tl.make_tensor_descriptor(y_ptr, [N, M], [M, 1], [BLOCK_N, BLOCK_M]).store([j, i], x.T)
    else:
        tl.make_tensor_descriptor(y_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N]).store([i, j], x)


@triton.jit
def scaled_gemm(
    a_ptr, b_ptr, c_ptr, sa_ptr, sb_ptr, K, stride_am, stride_bk, stride_cm, stride_s,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, KIND: tl.constexpr,
):
    """`tl.dot_scaled` of two operands with a scale per 32 elements of K."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    PACKED: tl.constexpr = BLOCK_K // 2 if KIND == "e2m1" else BLOCK_K
    k, s = tl.arange(0, PACKED), tl.arange(0, BLOCK_K // 32)
    a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :]
    b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :]
    sa_ptrs = sa_ptr + rows[:, None] * stride_s + s[None, :]
    sb_ptrs = sb_ptr + columns[:, None] * stride_s + s[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot_scaled(tl.load(a_ptrs), tl.load(sa_ptrs), KIND,
                            tl.load(b_ptrs), tl.load(sb_ptrs), KIND, acc)
        a_ptrs += PACKED
        b_ptrs += PACKED * stride_bk
        sa_ptrs += BLOCK_K // 32
        sb_ptrs += BLOCK_K // 32
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :], acc.to(tl.float16))


@triton.jit
def row_sum(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    """Sums of rows that are longer than a block."""
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        at = tl.program_id(0) * stride + i
        acc += tl.load(x_ptr + at, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + tl.program_id(0), tl.sum(acc, 0).to(y_ptr.dtype.element_ty))


@triton.jit
def row_argmax(x_ptr, y_ptr, stride, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + i, mask=i < n, other=-float("inf"))
    tl.store(y_ptr + tl.program_id(0), tl.argmax(x, 0))


@triton.jit
def prefix_sum(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.cumsum(tl.load(x_ptr + at), 0))


@triton.jit
def prefix_sum_of_rows(x_ptr, y_ptr, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * stride + tl.arange(0, BLOCK)[None, :]
    tl.store(y_ptr + at, tl.cumsum(tl.load(x_ptr + at), 1))


@triton.jit
def prefix_sum_of_columns(x_ptr, y_ptr, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * stride + (
        tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :])
    tl.store(y_ptr + at, tl.cumsum(tl.load(x_ptr + at), 0))


@triton.jit
def _linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrence(a_ptr, b_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    """A linear recurrence, as in state space models."""
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    _, y = tl.associative_scan((tl.load(a_ptr + at), tl.load(b_ptr + at)), 0, _linear)
    tl.store(y_ptr + at, y)


@triton.jit
def sort_rows(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.sort(tl.load(x_ptr + at)))


@triton.jit
def dropout(x_ptr, y_ptr, n, probability, seed, BLOCK: tl.constexpr):
    """Dropout, as in tutorial 04."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    keep = tl.rand(seed, i) > probability
    tl.store(y_ptr + i, tl.where(keep, x / (1 - probability), 0.0), mask=i < n)


@triton.jit
def moe_gemm(
    a_ptr, b_ptr, c_ptr, token_ptr, expert_ptr, N, K, stride_am, stride_be, stride_bn, stride_cm,
    tokens, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Product of tokens, sorted by expert, and the weights of each expert."""
    place = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    token = tl.load(token_ptr + place)
    inside = (token < tokens)[:, None]
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + token[:, None] * stride_am + k[None, :]
    expert = tl.load(expert_ptr + tl.program_id(0))
    b_ptrs = b_ptr + expert * stride_be + k[:, None] + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=inside & (k[None, :] < K - start), other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - start, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + token[:, None] * stride_cm + columns[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside & (columns[None, :] < N))


@triton.jit
def inductor_pointwise(x_ptr, w_ptr, b_ptr, y_ptr, xnumel, XBLOCK: tl.constexpr):
    """Inductor's code for `gelu(x * w + b)` over rows of 768."""
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2, x0 = xindex, (xindex % 768)
    tmp0 = tl.load(x_ptr + (x2), xmask)
    tmp1 = tl.load(w_ptr + (x0), xmask, eviction_policy="evict_last")
    tmp3 = tl.load(b_ptr + (x0), xmask, eviction_policy="evict_last")
    tmp4 = tmp0 * tmp1 + tmp3
    tmp7 = tmp4 * tl.full([1], 0.7071067811865476, tl.float32)
    tmp10 = tl.erf(tmp7) + tl.full([1], 1.0, tl.float32)
    tl.store(y_ptr + (x2), tmp4 * tl.full([1], 0.5, tl.float32) * tmp10, xmask)


@triton.jit
def inductor_reduction(
    x_ptr, w_ptr, b_ptr, y_ptr, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr
):
    """Inductor's code for a persistent layer norm over rows of 768."""
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    x0, r0_1 = xindex, r0_index
    tmp0 = tl.load(x_ptr + (r0_1 + 768 * x0), r0_mask & xmask, other=0.0).to(tl.float32)
    tmp24 = tl.load(w_ptr + (r0_1), r0_mask, eviction_policy="evict_last", other=0.0)
    tmp26 = tl.load(b_ptr + (r0_1), r0_mask, eviction_policy="evict_last", other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, 0)
    tmp8 = tl.sum(tmp3, 1)[:, None] / 768.0
    tmp10 = tmp1 - tmp8
    tmp13 = tl.where(r0_mask & xmask, tmp10 * tmp10, 0)
    tmp21 = tl.rsqrt(tl.sum(tmp13, 1)[:, None] / 768.0 + 1e-05)
    tmp27 = (tmp0 - tmp8) * tmp21 * tmp24 + tmp26
    tl.store(y_ptr + (r0_1 + 768 * x0), tmp27, r0_mask & xmask)


@triton.jit
def inductor_conv2d(
    x_ptr, w_ptr, y_ptr, batch, in_h, in_w, in_c, out_c, out_h, out_w,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Inductor's template `convolution2d` for 3x3 kernels, channels last, and dynamic shapes."""
    nhw = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    idx_y_w = nhw % out_w
    nh = nhw // out_w
    idx_y_h = nh % out_h
    idx_n = nh // out_h
    idx_y_c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_base = x_ptr + (idx_n * (in_h * in_w * in_c))[:, None]
    w_base = w_ptr + (idx_y_c * (9 * in_c))[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    BLOCK_K_COUNT = (in_c + BLOCK_K - 1) // BLOCK_K
    for ijk in range(9 * BLOCK_K_COUNT):
        k = (ijk % BLOCK_K_COUNT) * BLOCK_K
        ij = ijk // BLOCK_K_COUNT
        i = ij // 3
        j = ij % 3
        idx_x_h = i - 1 + idx_y_h
        idx_x_w = j - 1 + idx_y_w
        idx_x_c = tl.arange(0, BLOCK_K) + k
        x_ptrs = x_base + ((idx_x_h * (in_w * in_c))[:, None] + (idx_x_w * in_c)[:, None]
                           + idx_x_c[None, :])
        mask_x = ((idx_n < batch)[:, None] & (idx_x_h >= 0)[:, None] & (idx_x_h < in_h)[:, None]
                  & (idx_x_w >= 0)[:, None] & (idx_x_w < in_w)[:, None]
                  & (idx_x_c < in_c)[None, :])
        matrix_x = tl.load(x_ptrs, mask=mask_x, other=0.0)
        w_ptrs = w_base + (idx_x_c[:, None] + (i * (3 * in_c)) + (j * in_c))
        mask_w = (idx_x_c[:, None] < in_c) & (idx_y_c[None, :] < out_c)
        matrix_w = tl.load(w_ptrs, mask=mask_w, other=0.0)
        acc += tl.dot(matrix_x, matrix_w)
    mask = ((idx_n < batch)[:, None] & (idx_y_h < out_h)[:, None] & (idx_y_w < out_w)[:, None]
            & (idx_y_c < out_c)[None, :])
    at = ((idx_n * out_h + idx_y_h) * out_w + idx_y_w)[:, None] * out_c + idx_y_c[None, :]
    tl.store(y_ptr + at, acc, mask)


@triton.jit
def grouped_gemm(
    a_ptr, b_ptr, c_ptr, size_ptr, groups,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """Products of several sizes by a fixed number of programs, with descriptors (tutorial 08)."""
    tile, end = tl.program_id(0), 0
    for group in range(groups):
        M = tl.load(size_ptr + group * 3)
        N = tl.load(size_ptr + group * 3 + 1)
        K = tl.load(size_ptr + group * 3 + 2)
        across = tl.cdiv(N, BLOCK_N)
        first, end = end, end + tl.cdiv(M, BLOCK_M) * across
        if tile < end:
            a = tl.make_tensor_descriptor(
                tl.load(a_ptr + group).to(tl.pointer_type(tl.float16)), [M, K], [K, 1],
                [BLOCK_M, BLOCK_K])
            b = tl.make_tensor_descriptor(
                tl.load(b_ptr + group).to(tl.pointer_type(tl.float16)), [N, K], [K, 1],
                [BLOCK_N, BLOCK_K])
            c = tl.make_tensor_descriptor(
                tl.load(c_ptr + group).to(tl.pointer_type(tl.float16)), [M, N], [N, 1],
                [BLOCK_M, BLOCK_N])
            while tile < end:
                row = (tile - first) // across * BLOCK_M
                column = (tile - first) % across * BLOCK_N
                acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
                for k in range(0, tl.cdiv(K, BLOCK_K)):
                    acc = tl.dot(a.load([row, k * BLOCK_K]), b.load([column, k * BLOCK_K]).T, acc)
                c.store([row, column], acc.to(tl.float16))
                tile += tl.num_programs(0)


@triton.jit
def gemv(a_ptr, x_ptr, y_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Product of some rows of a matrix and a vector, summed in each pass of the loop."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS,), tl.float32)
    for k in range(0, N, BLOCK):
        columns = k + tl.arange(0, BLOCK)
        inside = columns < N
        a = tl.load(a_ptr + rows[:, None] * N + columns[None, :],
                    mask=(rows[:, None] < M) & inside[None, :], other=0.0)
        x = tl.load(x_ptr + columns, mask=inside, other=0.0)
        acc += tl.sum(a.to(tl.float32) * x.to(tl.float32)[None, :], 1)
    tl.store(y_ptr + rows, acc.to(tl.float16), mask=rows < M)


@triton.jit
def softmax_of_rows(x_ptr, y_ptr, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Softmax of several whole rows."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * stride + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + at)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(y_ptr + at, e / tl.sum(e, 1)[:, None])


@triton.jit
def gemm_ieee(
    a_ptr, b_ptr, c_ptr, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """A product of fp32 that is rounded after each step, so without the matrix unit."""
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    columns = (tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows * stride_a + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * stride_b + columns)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows * stride_c + columns, acc)
