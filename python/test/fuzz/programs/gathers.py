"""Rows by an index: embeddings, scatters, pages of keys, products of experts."""

from .attention import softmax_begins, softmax_step
from .draw import FLOATS, TOLERANCE, Draw, kernel, masked


def program(draw: Draw) -> str:
    return draw.some(_rows, _pages, _pages, _experts, _experts)(draw)


def _rows(draw: Draw) -> str:
    """Rows from where an index says, or to there."""
    dtype = draw.choice(FLOATS)
    scatter = draw.yes()
    source, target = ("ms", "at") if scatter else ("at", "ms")
    lines = [
        "ms = tl.program_id(0) * BM + tl.arange(0, BM)",
        "ns = tl.program_id(1) * BN + tl.arange(0, BN)",
        "inside = (ms < M)[:, None] & (ns < N)[None, :]",
        "at = tl.load(index + ms, mask=ms < M, other=0)",
        f"v = tl.load(x + {source}[:, None] * xs0 + ns[None, :] * xs1, mask=inside, other=0)",
        f"tl.store(o + {target}[:, None] * os0 + ns[None, :] * os1, v, mask=inside)",
    ]
    x, o = ("M, N", "T, N") if scatter else ("T, N", "M, N")
    answer = ("torch.full((T, N), float(POISON), dtype=torch.float64).index_copy(0, I, X.double())"
              if scatter else "X.double()[I]")
    parameters = "x, index, o, M, N, xs0, xs1, os0, os1, BM: tl.constexpr, BN: tl.constexpr"
    return kernel(parameters, lines) + f"""
M, N, T = {draw.randint(1, 70)}, {draw.randint(1, 150)}, {draw.randint(70, 100)}
BM, BN = {draw.some(1, 4, 16, 32)}, {draw.some(16, 64, 128)}
X = tensor({x}, torch.{dtype}, {draw.place()}, transposed={draw.yes(0.1)})
I = torch.randperm(T)[:M]
x, index = moved(X), I.to(torch.{draw.some("int32", "int64")}).to("xpu")
o = output({o}, torch.{dtype}, {draw.place()})
kernel[triton.cdiv(M, BM), triton.cdiv(N, BN)](
    x, index, o, M, N, *x.stride(), *o.stride(), BM, BN, num_warps={draw.some(1, 2, 4)})
check(o, {answer}, 0)
"""


def _pages(draw: Draw) -> str:
    """One token's attention to keys that lie in pages."""
    dtype = draw.some("float16", "bfloat16")
    step = [
        "ns = n + tl.arange(0, BN)",
        "page = tl.load(table + ns // PAGE, mask=ns < N, other=0)"
        + draw.some("", ".to(tl.int64)"),
        "at = page * stride + (ns % PAGE) * D",
        "kk = tl.load(cache + at[:, None] + ds[None, :], mask=(ns < N)[:, None], other=0)",
        "s = tl.dot(qq, tl.trans(kk)) * scale",
        *softmax_step("(ns < N)[None, :]", "kk", drop=draw.yes()),
    ]
    lines = [
        "hs, ds = tl.arange(0, 16), tl.arange(0, D)",
        "qq = tl.load(q + hs[:, None] * D + ds[None, :], mask=(hs < H)[:, None], other=0)",
        *softmax_begins("16"),
        "for n in range(0, N, BN):", *("    " + line for line in step),
        "acc = (acc / total[:, None]).to(o.dtype.element_ty)",
        "tl.store(o + hs[:, None] * D + ds[None, :], acc, mask=(hs < H)[:, None])",
    ]
    parameters = ("q, cache, table, o, N, scale, stride, PAGE: tl.constexpr, BN: tl.constexpr, "
                  "D: tl.constexpr, H: tl.constexpr")
    place = f"pad={draw.some(0, 0, 64, 8, 3)}, offset={draw.some(0, 0, 8, 1)}"
    return kernel(parameters, lines) + f"""
N, PAGE, D, H = {draw.randint(1, 200)}, {draw.some(8, 16, 32, 64)}, {draw.some(32, 64, 128)}, \
{draw.some(1, 4, 8)}
BN = {draw.some(16, 32, 64)}
P = triton.cdiv(N, PAGE)
Q = tensor(H, D, torch.{dtype})
C = tensor(P + 3, PAGE * D, torch.{dtype}, {place})
I = torch.randperm(P + 3)[:P]
q, cache, table = moved(Q), moved(C), I.to(torch.{draw.some("int32", "int64")}).to("xpu")
o = output(H, D, torch.{dtype})
kernel[(1,)](q, cache, table, o, N, 0.25, cache.stride(0), PAGE, BN, D, H,
             num_warps={draw.some(1, 2, 4, 8)}, num_stages={draw.some(1, 2, 3)})
K = C.double()[I].reshape(P * PAGE, D)[:N]
check(o, (Q.double() @ K.T * 0.25).softmax(1) @ K, {1.6e-2 if dtype == "bfloat16" else 3e-3})
"""


def _experts(draw: Draw) -> str:
    """Products of tokens, sorted by expert and filled up to blocks, with their expert's weights."""
    dtype = draw.choice(FLOATS)
    block_n, block_k = draw.some(16, 32, 64, 128), draw.some(16, 32, 64)
    even = draw.yes()
    n, k = draw.sizes(block_n, 2, even), draw.sizes(block_k, 3, even)
    edge = "" if even else "(ks < K)[None, :]"
    weights = masked(*([] if even else ["(ks < K)[:, None]", "(ns < N)[None, :]"]))
    precision = ', input_precision="ieee"' if dtype == "float32" else ""
    lines = [
        "pm, pn = tl.program_id(0), tl.program_id(1)",
        "ns = pn * BN + tl.arange(0, BN)",
        "token = tl.load(order + pm * BM + tl.arange(0, BM))",
        "good = token < M",
        f"e = tl.load(expert + pm){draw.some('', '.to(tl.int64)')}",
        "acc = tl.zeros((BM, BN), tl.float32)",
        "for k in range(0, K, BK):",
        "    ks = k + tl.arange(0, BK)",
        "    u = tl.load(a + (token // TOP)[:, None] * as0 + ks[None, :] * as1"
        + masked("good[:, None]", *([edge] if edge else [])) + ")",
        f"    w = tl.load(b + e * be + ks[:, None] * bs0 + ns[None, :] * bs1{weights})",
        f"    acc = tl.dot(u, w, acc{precision})",
        "tl.store(o + token[:, None] * os0 + ns[None, :] * os1, acc.to(o.dtype.element_ty), "
        "mask=good[:, None] & (ns < N)[None, :])",
    ]
    parameters = ("a, b, order, expert, o, M, N, K, TOP, as0, as1, be, bs0, bs1, os0, os1, "
                  "BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr")
    shape, strides, view = draw.some(
        ("E * N, K", "N * b.stride(0), b.stride(1), b.stride(0)", "view(E, N, K).transpose(1, 2)"),
        ("E * K, N", "K * b.stride(0), b.stride(0), b.stride(1)", "view(E, K, N)"))
    return kernel(parameters, lines) + f"""
T, TOP, E, N, K = {draw.randint(1, 60)}, {draw.some(1, 2, 4)}, {draw.some(2, 4)}, {n}, {k}
BM, BN, BK = {draw.some(16, 32, 64)}, {block_n}, {block_k}
M = T * TOP
A = tensor(T, K, torch.{dtype}, {draw.place()})
B = tensor({shape}, torch.{dtype}, {draw.place()})
chosen = torch.randint(0, E, (M,))
tokens = [(chosen == e).nonzero()[:, 0].tolist() for e in range(E)]
tokens = [t + [M] * (-len(t) % BM) for t in tokens]
order = torch.tensor(sum(tokens, []), dtype=torch.int32).to("xpu")
expert = torch.tensor([e for e, t in enumerate(tokens) for _ in range(len(t) // BM)],
                      dtype=torch.int32).to("xpu")
a, b = moved(A), moved(B)
o = output(M, N, torch.{dtype}, {draw.place()})
kernel[len(expert), triton.cdiv(N, BN)](
    a, b, order, expert, o, M, N, K, TOP, *a.stride(), {strides}, *o.stride(), BM, BN, BK,
    num_warps={draw.some(1, 2, 4, 8)}, num_stages={draw.some(1, 2, 3)})
W = B.double().{view}
v = torch.stack([A.double()[t // TOP] @ W[chosen[t]] for t in range(M)])
check(o, v, {max(TOLERANCE[dtype], 1e-4)})
"""
