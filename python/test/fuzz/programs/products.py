"""Products: strides, masks, loops that begin at an argument or the program's number, epilogues."""

from dataclasses import dataclass

from .draw import TOLERANCE, Draw, kernel, masked, whole_rows

PARAMETERS = ("a, b, row, col, y, o, M, N, K, as0, as1, bs0, bs1, ys0, ys1, os0, os1, first, last, "
              "BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr")
INSIDE = "mask=(ms < M)[:, None] & (ns < N)[None, :]"


@dataclass(frozen=True)
class Loop:
    """From where to where a product sums, in elements of K: expressions of the kernel."""

    start: str
    end: str
    steps: bool

    @property
    def answer(self) -> list[str]:
        """Lines that sum the same; in blocks of rows where the start hangs on the program."""
        if "pm" not in self.start:
            return [f"v = A.double()[:, {self.start}:{self.end}] @ "
                    f"B.double()[{self.start}:{self.end}]"]
        return ["v = torch.zeros(M, N, dtype=torch.float64)",
                "for pm in range(triton.cdiv(M, BM)):",
                "    rows = slice(pm * BM, pm * BM + BM)",
                f"    ks = slice({self.start}, {self.end})",
                "    v[rows] = A.double()[rows, ks] @ B.double()[ks]"]


def program(draw: Draw) -> str:
    dtype = draw.some("float16", "float16", "bfloat16", "bfloat16", "float32", "int8")
    out = "int32" if dtype == "int8" else draw.some("float32", dtype, dtype)
    warps = draw.some(1, 2, 4, 4, 8)
    block_m, block_n = draw.some(16, 32, 64, 128), draw.some(16, 32, 64, 128)
    block_k = draw.some(32, 64) if dtype == "int8" else draw.some(16, 32, 64)
    while block_m * block_n > 4096 * warps:
        block_m //= 2
    even = draw.yes(0.35)
    m, n = draw.sizes(block_m, 2, even), draw.sizes(block_n, 2, even)
    k = block_k * draw.randint(1, 4) if even or draw.yes(0.4) else draw.randint(1, 4 * block_k)
    a_transposed, b_transposed = draw.yes(0.3), draw.yes(0.4)
    descriptors = draw.yes(0.25) and not a_transposed and not b_transposed
    loop = Loop(draw.some("0", "0", "0", "first * BK", "(pm % 2) * BK",
                          *(() if descriptors else ("first",))),
                "K" if descriptors else draw.some("K", "K", "K", "last"), draw.yes())
    first = draw.some(0, 3, 17, block_k) if loop.start == "first" else draw.some(0, 1, 2)
    whole = k % block_k == 0 and loop.start != "first" and loop.end == "K" and draw.yes(0.7)
    precision = draw.some("", ', input_precision="ieee"') if dtype == "float32" else ""
    multiply = _descriptors(loop, precision) if descriptors else _pointers(
        draw, loop, "" if whole else f"ks < {loop.end}", precision)
    epilogue, answers, out = _epilogue(draw, out)
    places = ((whole_rows(k, dtype), whole_rows(n, dtype)) if descriptors
              else (draw.place(), draw.place()))
    tolerance = 0 if out == "int32" else max(TOLERANCE[out], 1e-4)
    accumulator = "tl.int32" if dtype == "int8" else "tl.float32"
    lines = [*_programs(draw), "ms = pm * BM + tl.arange(0, BM)", "ns = pn * BN + tl.arange(0, BN)",
             f"acc = tl.zeros((BM, BN), {accumulator})", *multiply, *epilogue]
    answer = "\n".join([*loop.answer, *answers])
    return kernel(PARAMETERS, lines) + f"""
M, N, K, BM, BN, BK = {m}, {n}, {k}, {block_m}, {block_n}, {block_k}
first, last = {first}, {draw.randint(1, k)}
A = tensor(M, K, torch.{dtype}, {places[0]}, transposed={a_transposed})
B = tensor(K, N, torch.{dtype}, {places[1]}, transposed={b_transposed})
Y = tensor(M, N, torch.{dtype}, {draw.place()})
ROW = tensor(1, N, torch.{dtype}, {draw.vector_place()})[0]
COL = tensor(1, M, torch.{dtype}, {draw.vector_place()})[0]
a, b, y, row, col = map(moved, (A, B, Y, ROW, COL))
o = output(M, N, torch.{out}, {draw.place()}, transposed={draw.yes(0.15)})
grid = (triton.cdiv(M, BM) * triton.cdiv(N, BN),)
kernel[grid](a, b, row, col, y, o, M, N, K, *a.stride(), *b.stride(), *y.stride(), *o.stride(),
             first, last, BM, BN, BK, num_warps={warps}, num_stages={draw.some(1, 2, 3)})
{answer}
check(o, v, {tolerance})
"""


def _programs(draw: Draw) -> list[str]:
    """Which block is a program's: in rows, or in groups of two rows of blocks."""
    if draw.yes(0.7):
        return ["pid = tl.program_id(0)", "pm = pid // tl.cdiv(N, BN)", "pn = pid % tl.cdiv(N, BN)"]
    return ["pid = tl.program_id(0)", "width = 2 * tl.cdiv(N, BN)", "group = pid // width",
            "size = min(tl.cdiv(M, BM) - group * 2, 2)",
            "pm = group * 2 + (pid % width) % size", "pn = (pid % width) // size"]


def _descriptors(loop: Loop, precision: str) -> list[str]:
    return ["da = tl.make_tensor_descriptor(a, [M, K], [as0, 1], [BM, BK])",
            "db = tl.make_tensor_descriptor(b, [K, N], [bs0, 1], [BK, BN])",
            f"for k in range({loop.start}, {loop.end}, BK):",
            "    u, w = da.load([pm * BM, k]), db.load([k, pn * BN])",
            f"    acc = tl.dot(u, w, acc{precision})"]


def _pointers(draw: Draw, loop: Loop, bound: str, precision: str) -> list[str]:
    wraps = draw.yes()
    rows, columns = ("(ms % M)", "(ns % N)") if wraps else ("ms", "ns")
    of_a = masked(*([] if wraps else ["(ms < M)[:, None]"]),
                  *([f"({bound})[None, :]"] if bound else []))
    of_b = masked(*([] if wraps else ["(ns < N)[None, :]"]),
                  *([f"({bound})[:, None]"] if bound else []))
    a, b = (f"a + {rows}[:, None] * as0 + ks[None, :] * as1",
            f"b + ks[:, None] * bs0 + {columns}[None, :] * bs1")
    keys = "    ks = k + tl.arange(0, BK)"
    head = f"for k in range({loop.start}, {loop.end}, BK):"
    if not loop.steps:
        return [head, keys, f"    u = tl.load({a}{of_a})", f"    w = tl.load({b}{of_b})",
                f"    acc = tl.dot(u, w, acc{precision})"]
    return [f"ks = {loop.start} + tl.arange(0, BK)", f"pa = {a}", f"pb = {b}", head, keys,
            f"    acc = tl.dot(tl.load(pa{of_a}), tl.load(pb{of_b}), acc{precision})",
            "    pa += BK * as1", "    pb += BK * bs0"]


def _epilogue(draw: Draw, out: str) -> tuple[list[str], list[str], str]:
    """Lines behind the loop, of the answer, and the output's type."""
    lines, answers = [], []
    if draw.yes(0.35):
        lines.append("acc += tl.load(row + ns, mask=ns < N, other=0)[None, :].to(acc.dtype)")
        answers.append("v = v + ROW.double()[None, :]")
    if draw.yes(0.25):
        lines.append("acc += tl.load(col + ms, mask=ms < M, other=0)[:, None].to(acc.dtype)")
        answers.append("v = v + COL.double()[:, None]")
    if draw.yes(0.25):
        lines.append("u = tl.load(y + ms[:, None] * ys0 + ns[None, :] * ys1, "
                     f"{INSIDE}, other=0)")
        lines.append("acc += u.to(acc.dtype)")
        answers.append("v = v + Y.double()")
    if draw.yes(0.3):
        lines.append("acc = tl.maximum(acc, 0)")
        answers.append("v = v.clamp(min=0)")
    if draw.yes(0.15) and out != "int32":
        lines.append("acc = acc - tl.max(tl.where((ns < N)[None, :], acc, -1e9), 1)[:, None]")
        answers += ["top = [v[:, n:n + BN].max(1, keepdim=True).values for n in range(0, N, BN)]",
                    "v = v - torch.cat([t.expand(-1, BN) for t in top], 1)[:, :N]"]
    if draw.yes(0.12) and out != "int32":
        lines.append(f"tl.atomic_add(o + ms[:, None] * os0 + ns[None, :] * os1, acc, {INSIDE})")
        answers.append("v = v + POISON")
        return lines, answers, "float32"
    lines.append("tl.store(o + ms[:, None] * os0 + ns[None, :] * os1, "
                 f"acc.to(o.dtype.element_ty), {INSIDE})")
    return lines, answers, out
