"""Products whose operands are made: transposed, joined, widened, dequantised, broadcast, gathered.

Their loops count up, or wait for a loaded length; behind them come residuals, statistics of rows,
halves that gate each other, and second products.
"""

from .draw import Draw, kernel

PARAMETERS = ("a, b, c, row, col, length, o, M, N, K, as0, as1, bs0, bs1, os0, os1, zero, "
              "BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BD: tl.constexpr")


def _operand(draw: Draw, low: str, first: bool) -> tuple[list[str], str]:
    """Lines that make `u` or `w` of one step, and its tensor's type."""
    name, base, s0, s1 = ("u", "a", "as0", "as1") if first else ("w", "b", "bs0", "bs1")
    rows, cols, across, along = (("ms", "ks", "M", "K") if first else ("ks", "ns", "K", "N"))
    sizes = "BM, BK" if first else "BK, BN"
    mask = f"({rows} < {across})[:, None] & ({cols} < {along})[None, :]"
    at = f"{base} + {rows}[:, None] * {s0} + {cols}[None, :] * {s1}"
    turned = f"{base} + {cols}[:, None] * {s1} + {rows}[None, :] * {s0}"
    edge = f"({cols} < {along})[:, None] & ({rows} < {across})[None, :]"
    kind = draw.some("plain", "turned", "whole", "dequantised", "nibbles", "joined", "deep",
                     "broadcast", "where", "fp8", "row scale", "gathered")
    load = f"{name} = tl.load({at}, mask={mask}, other=0)"
    if kind == "turned":
        return [f"{name} = tl.trans(tl.load({turned}, mask={edge}, other=0))"], low
    if kind == "whole":
        return [f"{name} = tl.load({at}, mask={mask}, other=0).to(tl.float32)",
                f"{name} = (tl.maximum({name}, -1) * 2).to(tl.{low})"], low
    if kind == "dequantised":
        scale = "tl.load(row + ns, mask=ns < N, other=0)[None, :]" if not first else (
            "tl.load(col + ms, mask=ms < M, other=0)[:, None]")
        return [load, f"{name} = (({name}.to(tl.int32) - zero).to(tl.float32) * {scale})"
                f".to(tl.{low})", f"{name} = tl.where({mask}, {name}, 0)"], "int8"
    if kind == "nibbles":
        shift = "((ks % 2) * 4)" + ("[None, :]" if first else "[:, None]")
        return [load, f"{name} = ((({name}.to(tl.int32) & 255) >> {shift}) & 15) - 8",
                f"{name} = tl.where({mask}, {name}.to(tl.{low}), 0)"], "int8"
    if kind == "joined":
        return [load, f"{name} = tl.reshape(tl.join({name}, {name} * 2), ({sizes}, 2))",
                f"x, y = tl.split({name})",
                f"{name} = {draw.some('x + y', 'tl.where(x > 0, y, x)', 'y')}"], low
    if kind == "deep":
        r, c = sizes.split(", ")
        return [load, f"{name} = tl.reshape({name}, ({r}, {c} // 8, 8))",
                f"{name} = tl.permute({name}, (0, 2, 1))",
                f"{name} = tl.permute({name} + {name}, (0, 2, 1))",
                f"{name} = tl.reshape({name}, ({sizes}))"], low
    if kind == "broadcast":
        vector = "tl.load(row + ks % N)" if draw.yes() else "tl.load(col + ks % M)"
        index = "[None, :]" if first else "[:, None]"
        return [f"{name} = tl.where({mask}, tl.broadcast_to({vector}{index}, ({sizes})), 0)"
                f".to(tl.{low})"], low
    if kind == "where":
        wrapped = (f"{base} + ({rows} % {across})[:, None] * {s0} "
                   f"+ ({cols} % {along})[None, :] * {s1}")
        return [f"{name} = tl.load({wrapped})", f"{name} = tl.where({mask}, {name}, 0)"], low
    if kind == "fp8":
        kept = draw.some("float8_e4m3fn", "float8_e5m2")
        return [load.replace("other=0", "other=0.0"), f"{name} = {name}.to(tl.{low})"], kept
    if kind == "row scale":
        index = "[None, :]" if first else "[:, None]"
        return [load, f"{name} = ({name} * tl.where(ks % 3 == 0, 2, 1){index}).to(tl.{low})"
                ], low
    if kind == "gathered":
        other = f"(({rows} * 5) % {across})" if not first else f"(({rows} * 3) % {across})"
        return [f"{name} = tl.load({base} + {other}[:, None] * {s0} + {cols}[None, :] * {s1}, "
                f"mask={mask}, other=0)"], low
    return [load], low


def _loop(draw: Draw, step: list[str]) -> list[str]:
    kind = draw.some("for", "for", "while", "length", "twice", "static")
    body = ["ks = k + tl.arange(0, BK)", *step]
    if kind == "while":
        return ["end = tl.load(length + pm)", "k = 0", "while k < tl.minimum(end, K):",
                *("    " + line for line in [*body, "k += BK"])]
    if kind == "length":
        return ["end = tl.load(length + pm)", "for k in range(0, tl.minimum(end, K), BK):",
                *("    " + line for line in body)]
    if kind == "twice":
        return ["for turn in range(2):", "    for k in range(turn * BK, K, 2 * BK):",
                *("        " + line for line in body)]
    if kind == "static":
        return ["for i in tl.static_range(3):", "    k = i * BK",
                *("    " + line for line in body)]
    return ["for k in range(0, K, BK):", *("    " + line for line in body)]


def _behind(draw: Draw) -> list[str]:
    """Lines behind the loop, the last of which store."""
    lines = []
    inside = "mask=(ms < M)[:, None] & (ns < N)[None, :]"
    store = ("tl.store(o + ms[:, None] * os0 + ns[None, :] * os1, "
             f"acc.to(o.dtype.element_ty), {inside})")
    kind = draw.some("plain", "bias", "statistics", "gate", "second", "second", "turned", "wide")
    if kind == "bias":
        lines += ["acc += tl.load(row + ns, mask=ns < N, other=0).to(tl.float32)[None, :]",
                  f"acc += tl.load(o + ms[:, None] * os0 + ns[None, :] * os1, {inside}, other=0)"]
    if kind == "statistics":
        lines += ["acc = tl.where((ns < N)[None, :], acc, 0)",
                  "acc -= tl.max(tl.abs(acc), 1)[:, None]", "acc += tl.sum(acc, 0)[None, :]"]
        if draw.yes():
            lines.append("acc += tl.argmax(acc, 1)[:, None].to(tl.float32)")
    if kind == "gate":
        lines += [draw.some("x, y = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), "
                            "(0, 2, 1)))", "x, y = tl.split(tl.reshape(acc, (BM, BN // 2, 2)))"),
                  "acc = tl.maximum(x, 0) * 2 + y",
                  "hs = pn * (BN // 2) + tl.arange(0, BN // 2)",
                  "tl.store(o + ms[:, None] * os0 + hs[None, :] * os1, acc.to(o.dtype.element_ty), "
                  "mask=(ms < M)[:, None] & (hs < N)[None, :])"]
        return lines
    if kind == "second":
        lines += ["ds = tl.arange(0, BD)",
                  "acc = tl.where((ns < N)[None, :], acc, 0)",
                  "small = tl.minimum(tl.maximum(tl.floor(acc), -4), 4).to(tl.float16)",
                  "z = tl.load(c + tl.arange(0, BN)[:, None] * BD + ds[None, :])"]
        if draw.yes(0.3):
            lines += ["small = tl.trans(tl.dot(tl.trans(z), tl.trans(small)))"]
        else:
            lines += ["small = tl.dot(small, z)"]
        lines += ["tl.store(o + ms[:, None] * os0 + (pn * BD + ds)[None, :] * os1, "
                  "small.to(o.dtype.element_ty), mask=(ms < M)[:, None])"]
        return lines
    if kind == "turned":
        return ["acc = tl.trans(acc)", "acc += tl.cumsum(tl.where((ns < N)[:, None], 1.0, acc * 0),"
                " 0)", store.replace("ms[:, None]", "ms[None, :]").replace(
                    "ns[None, :]", "ns[:, None]").replace("(ms < M)[:, None]", "(ms < M)[None, :]")
                .replace("(ns < N)[None, :]", "(ns < N)[:, None]")]
    if kind == "wide":
        lines += ["acc = tl.reshape(tl.join(acc, acc + 1), (BM, BN * 2))",
                  "acc = tl.sum(tl.reshape(acc, (BM, BN, 2)), 2)"]
    return [*lines, store]


def program(draw: Draw) -> str:
    low = draw.some("float16", "float16", "bfloat16", "float32")
    warps = draw.some(1, 2, 4, 4, 8, 16)
    block_m, block_n = draw.some(16, 16, 32, 64, 128), draw.some(16, 32, 64, 128)
    while block_m * block_n > 4096 * warps:
        block_m //= 2
    block_k, deep = draw.some(16, 32, 64), draw.some(16, 32, 64)
    even = draw.yes(0.3)
    m, n = draw.sizes(block_m, 2, even), draw.sizes(block_n, 2, even)
    k = block_k * draw.randint(1, 3) if even or draw.yes(0.3) else draw.randint(1, 3 * block_k)
    u, kind_a = _operand(draw, low, True)
    w, kind_b = _operand(draw, low, False)
    precision = ', input_precision="ieee"' if low == "float32" and draw.yes() else ""
    low_mixed = f"u.to(tl.{low}), w.to(tl.{low})"
    step = [*u, *w, f"acc = tl.dot({low_mixed}, acc{precision})"]
    if draw.yes(0.15):
        step.append("acc = tl.where(acc > 512, 0, acc)")
    lines = ["pm, pn = tl.program_id(0), tl.program_id(1)",
             "ms, ns = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)",
             "acc = tl.zeros((BM, BN), tl.float32)", *_loop(draw, step), *_behind(draw)]
    if draw.yes(0.15):
        lines[1:1] = ["if pm == 1:", "    return"]
    out = draw.some("float32", "float32", "float16")
    return "from reference import compare\n\n\n" + kernel(PARAMETERS, lines) + f"""
M, N, K, BM, BN, BK, BD = {m}, {n}, {k}, {block_m}, {block_n}, {block_k}, {deep}
def made(rows, columns, dtype, **place):
    if dtype.itemsize > 1 or dtype == torch.int8:
        return tensor(rows, columns, dtype, low=-2, high=3, **place)
    t = tensor(rows, columns, torch.float32, low=-8, high=9, **place)
    return t._base.to(dtype).as_strided(t.shape, t.stride(), t.storage_offset())
A = made(M, K, torch.{kind_a}, {draw.place()}, transposed={draw.yes(0.3)})
B = made(K, N, torch.{kind_b}, {draw.place()}, transposed={draw.yes(0.4)})
C = tensor(BN, BD, torch.float16)
ROW = tensor(1, N, torch.{low}, {draw.vector_place()})[0]
COL = tensor(1, M, torch.{low}, {draw.vector_place()})[0]
LENGTH = torch.randint(0, K + 9, (9,), dtype=torch.int32)
O = tensor(M, max(N, triton.cdiv(N, BN) * BD), torch.{out}, {draw.place()},
           transposed={draw.yes(0.15)})
grid = triton.cdiv(M, BM), triton.cdiv(N, BN)
compare(kernel, grid, A, B, C, ROW, COL, LENGTH, O, M, N, K, *A.stride(), *B.stride(), *O.stride(),
        {draw.some(0, 3, 8)}, BM, BN, BK, BD, tolerance={2e-3 if out == "float16" else 1e-4},
        num_warps={warps}, num_stages={draw.some(1, 2, 3, 4)})
"""
