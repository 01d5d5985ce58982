"""Products with scales of blocks: mxfp8 and mxfp4, their tails, operands from either side."""

from .draw import Draw, kernel

PARAMETERS = ("a, sa, b, sb, o, M, N, K, "
              "BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr")
ELEMENTS = {"e2m1": "uint8", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
            "fp16": "float16", "bf16": "bfloat16"}


def program(draw: Draw) -> str:
    first = draw.choice(list(ELEMENTS))
    second = draw.some("e2m1", "e4m3", "e5m2")
    block_m, block_n = draw.some(16, 32, 64, 128), draw.some(16, 32, 64, 128)
    block_k = draw.some(32, 64, 128)
    warps = draw.some(1, 2, 4, 4, 8)
    while block_m * block_n > 4096 * warps:
        block_m //= 2
    even = draw.yes(0.5)
    m, n = draw.sizes(block_m, 2, even), draw.sizes(block_n, 2, even)
    k = block_k * draw.randint(1, 3) if even else 32 * draw.randint(1, 8)
    pa, pb = (2 if kind == "e2m1" else 1 for kind in (first, second))
    scaled = first not in ("fp16", "bf16"), second not in ("fp16", "bf16")
    lines = ["pm, pn = tl.program_id(0), tl.program_id(1)",
             "ms, ns = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN)",
             "acc = tl.zeros((BM, BN), tl.float32)", "for k in range(0, K, BK):",
             f"    ka = k // {pa} + tl.arange(0, BK // {pa})",
             f"    kb = k // {pb} + tl.arange(0, BK // {pb})",
             "    kk = k // 32 + tl.arange(0, BK // 32)",
             f"    u = tl.load(a + ms[:, None] * (K // {pa}) + ka[None, :], mask=(ms < M)[:, None]"
             f" & (ka < K // {pa})[None, :], other=0.0)"]
    if draw.yes():
        lines.append(f"    w = tl.load(b + kb[:, None] + ns[None, :] * (K // {pb}), mask=(ns < N)"
                     f"[None, :] & (kb < K // {pb})[:, None], other=0.0)")
    else:
        lines.append(f"    w = tl.trans(tl.load(b + kb[None, :] + ns[:, None] * (K // {pb}), mask="
                     f"(ns < N)[:, None] & (kb < K // {pb})[None, :], other=0.0))")
    for there, name, rows, count in ((scaled[0], "sa", "ms", "M"), (scaled[1], "sb", "ns", "N")):
        if there:
            lines.append(f"    x{name} = tl.load({name} + {rows}[:, None] * (K // 32) + "
                         f"kk[None, :], mask=({rows} < {count})[:, None] "
                         f"& (kk < K // 32)[None, :], other=127)")
    lines += [f"    acc = tl.dot_scaled(u, {'xsa' if scaled[0] else 'None'}, \"{first}\", w, "
              f"{'xsb' if scaled[1] else 'None'}, \"{second}\", acc)",
              "tl.store(o + ms[:, None] * N + ns[None, :], acc, mask=(ms < M)[:, None] & "
              "(ns < N)[None, :])"]
    made = {name: (f"torch.randint(0, 256, ({rows}, K // 2), dtype=torch.uint8)" if kind == "e2m1"
                   else f"tensor({rows}, K, torch.float32, low=-8, high=9).contiguous()"
                        f".to(torch.{ELEMENTS[kind]})")
            for name, kind, rows in (("A", first, "M"), ("B", second, "N"))}
    return "from reference import compare\n\n\n" + kernel(PARAMETERS, lines) + f"""
M, N, K, BM, BN, BK = {m}, {n}, {k}, {block_m}, {block_n}, {block_k}
A = {made["A"]}
B = {made["B"]}
SA, SB = (torch.randint({draw.some(120, 126)}, 130, (s, K // 32), dtype=torch.uint8)
          for s in (M, N))
O = torch.full((M * N + 99,), float(POISON))
compare(kernel, (triton.cdiv(M, BM), triton.cdiv(N, BN)), A, SA, B, SB, O, M, N, K, BM, BN, BK,
        tolerance=1e-4, num_warps={warps}, num_stages={draw.some(1, 2, 3)})
"""
