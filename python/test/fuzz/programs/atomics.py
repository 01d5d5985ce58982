"""Atomics under masks, what they return, in loops, of all types and orders."""

from .draw import Draw, kernel

TYPES = {"add": ("int32", "int64", "float32", "float16", "bfloat16"),
         "max": ("int32", "int64", "float32"), "min": ("int32", "int64", "float32"),
         "and": ("int32", "int64"), "or": ("int32", "int64"), "xor": ("int32", "int64"),
         "xchg": ("int32", "int64", "float32"), "cas": ("int32", "int64")}


def program(draw: Draw) -> str:
    operation = draw.choice(list(TYPES))
    dtype = draw.choice(TYPES[operation])
    block = draw.some(1, 2, 8, 16, 32, 64, 256, 512, 1024)
    wide = draw.some(1, 1, 2, 4) if block <= 256 else 1
    returned = operation in ("xchg", "cas") or draw.yes()
    one_each = returned
    order = draw.some("", *(f', sem="{s}"' for s in ("relaxed", "acquire", "release", "acq_rel")))
    scope = draw.some("", ', scope="gpu"', ', scope="cta"') if order else ""
    lines = ["pid = tl.program_id(0)"]
    if wide > 1:
        lines += [f"i, j = tl.arange(0, BLOCK), tl.arange(0, {wide})",
                  f"at = (pid * BLOCK + i)[:, None] * {wide} + j[None, :]"]
    else:
        lines += ["at = pid * BLOCK + tl.arange(0, BLOCK)"]
    if draw.yes(0.3):
        lines.append(f"at = (at ^ {draw.some(1, 3)})")
    place = "at" if one_each else draw.some(
        "at", "at // 2", "at % 7", "at * 0 + 3", "(at * 3) % 64")
    mask = draw.some("", "at < n", "at % 3 != 1", "(at & n) == 0", "tl.load(bits + at)")
    if place == "at" and mask == "":
        mask = "at < 4000"
    given = f", mask={mask}" if mask and operation != "cas" else ""
    value = draw.some("tl.load(x + at)", "tl.load(x + at)", "at.to(o.dtype.element_ty)"
                      if dtype not in ("float16", "bfloat16") else "tl.load(x + at)")
    lines.append(f"v = {value}")
    call = (f"tl.atomic_cas(o + {place}, tl.load(y + at), v{order}{scope})" if operation == "cas"
            else f"tl.atomic_{operation}(o + {place}, v{given}{order}{scope})")
    body = [("r = " if returned else "") + call]
    if returned:
        chosen = f"tl.where({mask}, r, 0)" if given else "r"
        body.append(f"t += {chosen}.to(tl.float32)")
        lines.append("t = (at * 0).to(tl.float32)")
    if draw.yes(0.5):
        loop = draw.some("for i in range(n % 4):", "for i in range(3):", "if n > 5:")
        if one_each and "for" in loop:
            body.append("tl.debug_barrier()")
        lines += [loop, *("    " + line for line in body)]
    else:
        lines += body
    if returned:
        lines.append("tl.store(p + at, t)")
    if dtype in ("float16", "bfloat16", "float32"):
        low, high = -3, 4
    else:
        low, high = -100, 100
    quarter = " * 0.25" if dtype == "float32" else ""
    size = f"SIZE + {draw.some(0, 1, 4)}"
    some = 2 if operation == "cas" else 5
    tolerance = 1e-2 if dtype in ("float16", "bfloat16") else 0
    return "from reference import compare\n\n\n" + kernel(
        "x, y, bits, o, p, n, BLOCK: tl.constexpr", lines) + f"""
SIZE = 4096 + 64
x = (torch.randint({low}, {high}, (SIZE,)){quarter}).to(torch.{dtype})
y = torch.randint(0, 2, (SIZE,)).to(torch.{dtype})
bits = torch.rand(SIZE) < 0.5
o = torch.randint(0, {some}, ({size},)).to(torch.{dtype})[{draw.some(0, 0, 1, 3)}:]
p = torch.full((SIZE,), float(POISON))
compare(kernel, ({draw.some(1, 2, 3)},), x, y, bits, o, p, {draw.some(2, 7, 100, 321)}, {block},
        tolerance={tolerance}, num_warps={draw.some(1, 2, 4, 4, 8, 32)})
"""
