"""Element-wise on tiles: rows, columns, conversions, transposed tensors, descriptors, in place."""

from .draw import FLOATS, TOLERANCE, Draw, kernel, whole_rows

PARAMETERS = ("x, y, row, col, o, M, N, xs0, xs1, ys0, ys1, os0, os1, first, "
              "BM: tl.constexpr, BN: tl.constexpr")


def program(draw: Draw) -> str:
    dtype = draw.some(*FLOATS, "int8", "uint8", "int32")
    floats = dtype in FLOATS
    out = draw.some(dtype, dtype, *FLOATS) if floats else dtype
    block_m, block_n = draw.some(1, 8, 16, 32, 64), draw.some(16, 32, 64, 128, 256)
    block_n = 64 if block_m * block_n > 8192 else block_n
    even = draw.yes(0.4)
    m, n = draw.sizes(block_m, 3, even), draw.sizes(block_n, 2, even)
    mask = "" if even and draw.yes(0.7) else ", mask=inside"
    descriptors = draw.yes(0.3)
    in_place = not descriptors and out == dtype and draw.yes(0.15)
    in_loop = draw.yes(0.25)
    lines, answers = _operations(draw, floats, mask)
    if descriptors:
        load, store = "v = x.load([pm * BM, pn * BN])", "o.store([pm * BM, pn * BN], v.to(o.dtype))"
        x_place = whole_rows(n, dtype)
        o_place = whole_rows(n, out)
    else:
        load, store = _pointers(draw, mask)
        x_place = f"{draw.place()}, transposed={draw.yes(0.2)}"
        o_place = f"{draw.place()}, transposed={draw.yes(0.2)}"
    body = ["ns = pn * BN + tl.arange(0, BN)", "inside = (ms < M)[:, None] & (ns < N)[None, :]",
            load, *lines, store]
    head = ["x = tl.make_tensor_descriptor(x, [M, N], [xs0, 1], [BM, BN])",
            "o = tl.make_tensor_descriptor(o, [M, N], [os0, 1], [BM, BN])"] if descriptors else []
    head += ["pm = tl.program_id(0)", "ms = pm * BM + tl.arange(0, BM)"]
    if in_loop:
        body = ["for pn in range(first, tl.cdiv(N, BN)):", *("    " + line for line in body)]
    else:
        body = ["pn = tl.program_id(1)", *body]
    some = "low=-4, high=5" if floats else "low=0, high=7"
    vector = draw.choice(FLOATS) if floats else dtype
    answer = "\n".join(answers)
    tolerance = max(TOLERANCE[dtype], TOLERANCE[out]) if floats else 0
    return kernel(PARAMETERS, [*head, *body]) + f"""
M, N, BM, BN = {m}, {n}, {block_m}, {block_n}
X = tensor(M, N, torch.{dtype}, {x_place}, {some})
Y = tensor(M, N, torch.{dtype}, {draw.place()}, transposed={draw.yes(0.2)}, {some})
ROW = tensor(1, N, torch.{vector}, {draw.vector_place()}, {some})[0]
COL = tensor(1, M, torch.{vector}, {draw.vector_place()}, {some})[0]
x, y, row, col = map(moved, (X, Y, ROW, COL))
o = output(M, N, torch.{out}, {o_place})
{"x = o.copy_(x)" if in_place else ""}
grid = triton.cdiv(M, BM), {"1" if in_loop else "triton.cdiv(N, BN)"}
kernel[grid](x, y, row, col, o, M, N, *x.stride(), *y.stride(), *o.stride(), 0, BM, BN,
             num_warps={draw.some(1, 2, 4, 8)})
v = X.double()
{answer}
check(o, {"v" if floats else f"v.to(torch.{dtype})"}, {tolerance})
"""


def _operations(draw: Draw, floats: bool, mask: str) -> tuple[list[str], list[str]]:
    """Lines of the kernel on `v`, and of the answer."""
    other = ", other=0" if mask else ""
    lines = ["v = v.to(tl.float32)"] if floats and draw.yes(0.4) else []
    answers = []
    if draw.yes(0.45):
        operation = draw.some("+", "*", "-") if floats else "+"
        lines.append(f"r = tl.load(row + ns{', mask=ns < N, other=0' if mask else ''})")
        lines.append(f"v = v {operation} r[None, :]")
        answers.append(f"v = v {operation} ROW.double()[None, :]")
    if draw.yes(0.4):
        lines.append(f"c = tl.load(col + ms{', mask=ms < M, other=0' if mask else ''})")
        lines.append("v = v + c[:, None]")
        answers.append("v = v + COL.double()[:, None]")
    if draw.yes(0.3):
        lines.append(f"u = tl.load(y + ms[:, None] * ys0 + ns[None, :] * ys1{mask}{other})")
        lines.append("v = v + u")
        answers.append("v = v + Y.double()")
    if floats and draw.yes(0.3):
        lines.append("v = tl.where(v > 0, v, v * 0.5)")
        answers.append("v = torch.where(v > 0, v, v * 0.5)")
    if draw.yes(0.2):
        lines.append("v = tl.maximum(v, 1)")
        answers.append("v = v.clamp(min=1)")
    return lines, answers


def _pointers(draw: Draw, mask: str) -> tuple[str, str]:
    rows = draw.some("ms", "ms", "ms", "ms", "ms", "(ms % M)")
    other = ", other=0" if mask and draw.yes(0.3) else ""
    load = f"v = tl.load(x + {rows}[:, None] * xs0 + ns[None, :] * xs1{mask}{other})"
    if draw.yes(0.15):
        transposed = mask.replace("inside", "tl.trans(inside)")
        return load, ("tl.store(o + ns[:, None] * os1 + ms[None, :] * os0, "
                      f"tl.trans(v).to(o.dtype.element_ty){transposed})")
    return load, ("tl.store(o + ms[:, None] * os0 + ns[None, :] * os1, "
                  f"v.to(o.dtype.element_ty){mask})")
