"""Rows: norms, softmax, sums, scans, sorts; one row or several, at once or in a loop."""

from dataclasses import dataclass

from .draw import FLOATS, TOLERANCE, Draw, kernel

PARAMETERS = ("x, weight, o, M, N, xs0, xs1, os0, os1, BM: tl.constexpr, BN: tl.constexpr")
INSIDE = "mask=(ms < M)[:, None] & (ns < N)[None, :]"
WEIGHT = "w = tl.load(weight + ns, mask=ns < N, other=0)[None, :]"
SCALE = "r = tl.rsqrt(tl.sum(v * v, 1) / N + 1e-5)"
NORM = "({x}) / (({x}).pow(2).mean(1, keepdim=True) + 1e-5).sqrt() * W[None, :]"


@dataclass(frozen=True)
class Kind:
    """Lines of a kernel, the answer in torch; `shape` of the output and programs along it."""

    lines: tuple[str, ...]
    answer: str
    shape: str = "M, N"
    widest: int = 3000


def _load(other: str = "0") -> str:
    return (f"v = tl.load(x + ms[:, None] * xs0 + ns[None, :] * xs1, {INSIDE}, other={other})"
            ".to(tl.float32)")


def _store(value: str) -> str:
    return (f"tl.store(o + ms[:, None] * os0 + ns[None, :] * os1, ({value}).to(o.dtype.element_ty)"
            f", {INSIDE})")


def _store_rows(value: str) -> str:
    return f"tl.store(o + ms * os0, ({value}).to(o.dtype.element_ty), mask=ms < M)"


MINUS = 'float("-inf")'
KINDS = {
    "RMS norm": Kind((_load(), WEIGHT, SCALE, _store("v * r[:, None] * w")), NORM.format(x="X")),
    "add and RMS norm": Kind(
        (_load(), f"v += tl.load(o + ms[:, None] * os0 + ns[None, :] * os1, {INSIDE}, other=0)",
         WEIGHT, SCALE, _store("v * r[:, None] * w")), NORM.format(x="X + POISON")),
    "layer norm": Kind(
        (_load(), WEIGHT, "mean = tl.sum(v, 1) / N",
         "v = tl.where((ns < N)[None, :], v - mean[:, None], 0)", SCALE,
         _store("v * r[:, None] * w")),
        "torch.nn.functional.layer_norm(X, (N,), eps=1e-5) * W[None, :]"),
    "softmax": Kind(
        (_load(MINUS), "v = tl.where((ms < M)[:, None], v, 0)",
         "e = tl.exp(v - tl.max(v, 1)[:, None])", _store("e / tl.sum(e, 1)[:, None]")),
        "X.softmax(1)"),
    "sums": Kind((_load(), _store_rows("tl.sum(v, 1)")), "X.sum(1)[:, None]", "M, 1"),
    "log of sums": Kind((_load(MINUS), "v = tl.where((ms < M)[:, None], v, 0)",
                         _store_rows("tl.log(tl.sum(tl.exp(v), 1))")),
                        "X.logsumexp(1)[:, None]", "M, 1"),
    "first largest": Kind(
        (_load(MINUS), _store_rows("tl.argmax(v, 1)")),
        "torch.tensor([[r.index(max(r))] for r in X.tolist()])", "M, 1", 250),
    "scan": Kind((_load(), _store("tl.cumsum(v, 1)")), "X.cumsum(1)"),
    "scan from the end": Kind((_load(), _store("tl.cumsum(v, 1, reverse=True)")),
                              "X.flip(1).cumsum(1).flip(1)"),
    "sort": Kind((_load('float("inf")'), _store("tl.sort(v, 1)")), "X.sort(1).values", "M, N", 256),
    "RMS norm in a loop": Kind(
        ("t = tl.zeros((BM, BN), tl.float32)", "for n in range(0, N, BN):",
         "    ns = n + tl.arange(0, BN)", f"    {_load()}", "    t += v * v",
         "r = tl.rsqrt(tl.sum(t, 1) / N + 1e-5)", "for n in range(0, N, BN):",
         "    ns = n + tl.arange(0, BN)", f"    {_load()}", f"    {WEIGHT}",
         "    " + _store("v * r[:, None] * w")), NORM.format(x="X")),
    "sums of columns": Kind(
        ("t = tl.zeros((BN,), tl.float32)", "for m in range(0, M, BM):",
         "    ms = m + tl.arange(0, BM)", f"    {_load()}", "    t += tl.sum(v, 0)",
         "tl.store(o + ns * os0, t.to(o.dtype.element_ty), mask=ns < N)"),
        "X.sum(0)[:, None]", "N, 1"),
}


def program(draw: Draw) -> str:
    dtype, out = draw.choice(FLOATS), draw.choice(FLOATS)
    name = draw.choice(list(KINDS))
    kind = KINDS[name]
    n = draw.some(draw.randint(1, min(300, kind.widest)), draw.randint(1, kind.widest),
                  *(w for w in (64, 256, 1024) if w <= kind.widest))
    block = draw.some(64, 128, 256) if "loop" in name else 1 << (n - 1).bit_length()
    rows = draw.some(1, 1, 2, 4) if block <= 2048 else 1
    lines = ("ms = tl.program_id(0) * BM + tl.arange(0, BM)", "ns = tl.arange(0, BN)", *kind.lines)
    programs = "1" if kind.shape == "N, 1" else "triton.cdiv(M, BM)"
    return f"# {name}\n" + kernel(PARAMETERS, lines) + f"""
M, N, BM, BN = {draw.randint(1, 9)}, {n}, {rows}, {block}
X = tensor(M, N, torch.{dtype}, {draw.place()}, transposed={draw.yes(0.1)})
W = tensor(1, N, torch.{draw.choice(FLOATS)}, {draw.vector_place()})[0]
x, weight = moved(X), moved(W)
o = output({kind.shape}, torch.{out}, {draw.place()})
X, W = X.double(), W.double()
kernel[({programs},)](x, weight, o, M, N, *x.stride(), *o.stride(), BM, BN,
                      num_warps={draw.some(1, 2, 4, 8)})
check(o, {kind.answer}, {max(TOLERANCE[out], 4e-5)})
"""
