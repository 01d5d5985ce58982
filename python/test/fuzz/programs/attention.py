"""Attention: causal, windows, keys from some number on, lengths that no block divides, biases."""

from .draw import Draw, kernel

PARAMETERS = ("q, k, v, bias, o, M, N, W, scale, qs0, qs1, ks0, ks1, vs0, vs1, os0, os1, "
              "BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr")
FIRST = {"full": "0", "causal": "0", "window": "tl.maximum(pm * BM - W, 0) // BN * BN",
         "from": "W // BN * BN"}
SEEN = {"full": "", "causal": " & (ns[None, :] <= ms[:, None])",
        "window": " & (ns[None, :] <= ms[:, None]) & (ns[None, :] >= ms[:, None] - W)",
        "from": " & (ns >= W)[None, :]"}
ANSWER = {"full": "(j >= 0).expand(M, N)", "causal": "i >= j", "window": "(i >= j) & (j >= i - W)",
          "from": "(j >= W).expand(M, N)"}


def softmax_begins(rows: str) -> list[str]:
    """Nothing seen yet, of so many rows."""
    return [f"top = tl.full(({rows},), -1e30, tl.float32)",
            f"total = tl.zeros(({rows},), tl.float32)",
            f"acc = tl.zeros(({rows}, D), tl.float32)"]


def softmax_step(seen: str, values: str, *, drop: bool) -> list[str]:
    """One step of the softmax of scores `s`, of which those `seen` count, and the sum of values."""
    return [f"s = tl.where({seen}, s, -1e30)", "new = tl.maximum(top, tl.max(s, 1))",
            "p = tl.exp(s - new[:, None])", *([f"p = tl.where({seen}, p, 0)"] if drop else []),
            "keep = tl.exp(top - new)", "total = total * keep + tl.sum(p, 1)",
            f"acc = tl.dot(p.to({values}.dtype), {values}, acc * keep[:, None])", "top = new"]


def program(draw: Draw) -> str:
    dtype = draw.some("float16", "bfloat16")
    block_m, block_n = draw.some(16, 32, 64, 128), draw.some(16, 32, 64)
    dim = draw.some(16, 32, 64, 128)
    warps = draw.some(1, 2, 4, 8)
    while block_m * dim > 4096 * warps:
        block_m //= 2
    kind = draw.choice(list(FIRST))
    n = draw.randint(1, 4 * block_n + 9)
    m = n if kind in ("causal", "window") else draw.randint(1, 3 * block_m)
    window = draw.randint(0, n - 1) if kind == "from" else draw.randint(1, 40)
    end = "tl.minimum(N, pm * BM + BM)" if kind in ("causal", "window") else "N"
    keys, turned = draw.some(
        ("k + ns[:, None] * ks0 + ds[None, :] * ks1, mask=(ns < N)[:, None]", "tl.trans(kk)"),
        ("k + ds[:, None] * ks1 + ns[None, :] * ks0, mask=(ns < N)[None, :]", "kk"))
    bias = draw.yes(0.25)
    step = ["ns = n + tl.arange(0, BN)", f"kk = tl.load({keys}, other=0)",
            f"s = tl.dot(qq, {turned}) * scale",
            *(["s += tl.load(bias + ns, mask=ns < N, other=0)[None, :]"] if bias else []),
            "vv = tl.load(v + ns[:, None] * vs0 + ds[None, :] * vs1, mask=(ns < N)[:, None], "
            "other=0)",
            *softmax_step("(ns < N)[None, :]" + SEEN[kind], "vv",
                          drop=kind == "window" or draw.yes())]
    lines = ["pm = tl.program_id(0)", "ms, ds = pm * BM + tl.arange(0, BM), tl.arange(0, D)",
             "qq = tl.load(q + ms[:, None] * qs0 + ds[None, :] * qs1, mask=(ms < M)[:, None], "
             "other=0)",
             *softmax_begins("BM"),
             f"for n in range({FIRST[kind]}, {end}, BN):", *("    " + line for line in step),
             "acc = acc / total[:, None]",
             "tl.store(o + ms[:, None] * os0 + ds[None, :] * os1, acc.to(o.dtype.element_ty), "
             "mask=(ms < M)[:, None])"]
    return kernel(PARAMETERS, lines) + f"""
M, N, D, BM, BN, W = {m}, {n}, {dim}, {block_m}, {block_n}, {window}
Q = tensor(M, D, torch.{dtype}, {draw.place()})
K = tensor(N, D, torch.{dtype}, {draw.place()}, transposed={draw.yes(0.2)})
V = tensor(N, D, torch.{dtype}, {draw.place()}, transposed={draw.yes(0.1)})
BIAS = tensor(1, N, torch.{draw.some(dtype, "float32")}, {draw.vector_place()})[0]
q, k, v, bias = map(moved, (Q, K, V, BIAS))
o = output(M, D, torch.{dtype}, {draw.place()})
kernel[(triton.cdiv(M, BM),)](q, k, v, bias, o, M, N, W, 0.25, *q.stride(), *k.stride(),
    *v.stride(), *o.stride(), BM, BN, D, num_warps={warps}, num_stages={draw.some(1, 2, 3)})
i, j = torch.arange(M)[:, None], torch.arange(N)[None, :]
s = Q.double() @ K.double().T * 0.25{" + BIAS.double()" if bias else ""}
s = torch.where({ANSWER[kind]}, s, float("-inf"))
check(o, s.softmax(1) @ V.double(), {1.6e-2 if dtype == "bfloat16" else 3e-3})
"""
