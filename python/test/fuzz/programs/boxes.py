"""Descriptors: boxes that begin before a tensor or end behind it, gathers, scatters, sums."""

from .draw import SIZE, Draw, kernel

PARAMETERS = "x, o, w, rows, M, N, xs0, os0, first, " + ", ".join(
    f"{n}: tl.constexpr" for n in ("BM", "BN"))


def program(draw: Draw) -> str:
    dtype = draw.some("float16", "bfloat16", "float32", "int8", "int32")
    pad = 16 // SIZE[dtype]
    floats = "float" in dtype
    block_n = draw.some(*(n for n in (8, 16, 32, 64, 128) if n * SIZE[dtype] >= 16))
    block_m = draw.some(1, 2, 8, 8, 16, 32, 64)
    m, n = draw.randint(1, 2 * block_m + 9), draw.randint(1, 2 * block_n + 9)
    padding = ', padding_option="nan"' if floats and draw.yes(0.3) else ""
    lines = ["pm, pn = tl.program_id(0), tl.program_id(1)",
             f"dx = tl.make_tensor_descriptor(x, [M, N], [xs0, 1], [BM, BN]{padding})",
             "do = tl.make_tensor_descriptor(o, [M, N], [os0, 1], [BM, BN])"]
    kind = draw.some("move", "move", "loop", "turned", "deep", "gather", "scatter", "add", "dot")
    at = (f"[pm * BM + {draw.some('0', 'first', '-first')}, "
          f"pn * BN + {draw.some('0', '0', 'first', '-first')}]")
    grid = "triton.cdiv(M, BM), triton.cdiv(N, BN)"
    if kind == "add" and dtype in ("int8", "bfloat16"):
        kind = "move"
    if kind == "dot" and (not floats or block_m < 8 or block_n < 16):
        kind = "turned"
    if kind in ("gather", "scatter"):
        block_m, block_n = max(8, block_m), max(32 // SIZE[dtype], block_n)  # Triton asks for it
        one = lines[1].replace("[BM, BN]", "[1, BN]")
        lines[1:] = ([one, "at = tl.load(rows + pm * BM + tl.arange(0, BM))",
                      f"v = dx.gather(at, pn * BN + {draw.some('0', 'first')})",
                      "ms, ns = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)",
                      "tl.store(o + ms[:, None] * os0 + ns[None, :], v, mask=(ms < M)[:, None] & "
                      "(ns < N)[None, :])"]
                     if kind == "gather" else
                     ["do = tl.make_tensor_descriptor(o, [M, N], [os0, 1], [1, BN])",
                      "ms, ns = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)",
                      "v = tl.load(x + (ms % M)[:, None] * xs0 + (ns % N)[None, :])",
                      "do.scatter(v + 1, tl.load(rows + ms), pn * BN + first)"])
    elif kind == "move":
        lines += [f"v = dx.load({at})", "do.store([pm * BM, pn * BN], v + v)"]
    elif kind == "loop":
        grid = "triton.cdiv(M, BM), 1"
        lines += ["t = tl.zeros((BM, BN), tl.float32)",
                  f"for k in range({draw.some('0', '-BN', 'first')}, N, BN):",
                  "    v = dx.load([pm * BM, k])", "    t += v.to(tl.float32)",
                  "    do.store([pm * BM, k], t.to(do.dtype))"]
    elif kind == "turned":
        lines += [f"v = tl.trans(dx.load({at}))", "v = v + tl.sum(v, 1).to(v.dtype)[:, None]"
                  if not padding else "v = v + v",
                  "do.store([pm * BM, pn * BN], tl.trans(v))"]
    elif kind == "deep":
        lines[1:] = ["d3 = tl.make_tensor_descriptor(x, [2, M, N], [xs0 * M, xs0, 1], [2, BM, BN])",
                     f"v = d3.load([{draw.some('0', '1', '-1')}, pm * BM - first, pn * BN])",
                     "do = tl.make_tensor_descriptor(o, [M, N], [os0, 1], [BM, BN])",
                     "a = tl.sum(v.to(tl.float32), 0)",
                     "do.store([pm * BM, pn * BN], a.to(do.dtype))"]
    elif kind == "add":
        lines += [f"v = dx.load({at})" if not padding else "v = dx.load([0, 0]) * 0 + 1",
                  "do.atomic_add([pm * BM - first, pn * BN], v)"]
        lines[1] = lines[1].replace(padding, "")
    else:
        lines += [f"v = dx.load({at})", "v = tl.where(v == v, v, 0)",
                  "z = tl.load(w + tl.arange(0, BN)[:, None] * BN + tl.arange(0, BN)[None, :])",
                  'r = tl.dot(v, z.to(v.dtype), input_precision="ieee")',
                  "do.store([pm * BM, pn * BN], r.to(do.dtype))"]
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(dtype, 0)
    x_place = f"pad=-N % {pad} + {draw.some(0, 0, pad)}, offset={draw.some(0, 0, pad, 4 * pad)}"
    o_place = f"pad=-N % {pad} + {draw.some(0, pad)}, offset={draw.some(0, pad)}"
    first = draw.some(1, 3, 8, 16)
    return "from reference import compare\n\n\n" + kernel(PARAMETERS, lines) + f"""
M, N, BM, BN = {m}, {n}, {block_m}, {block_n}
X = tensor(2 * M, N, torch.{dtype}, {x_place})
O = tensor(M, N, torch.{dtype}, {o_place})
W = tensor(BN, BN, torch.float16)
ROWS = torch.randperm(M + 400)[:400].to(torch.int32) - {draw.some(0, 0, 9)}
compare(kernel, ({grid}), X, O, W, ROWS, M, N, X.stride(0), O.stride(0), {first}, BM, BN,
        tolerance={tolerance}, num_warps={draw.some(1, 2, 4, 8, 16)},
        num_stages={draw.some(1, 2, 3)})
"""
