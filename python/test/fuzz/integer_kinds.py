"""The kinds of random kernels of integers: what the integers are used for.

A program is the text of a Python file that compares all launches, drawn from its seed alone.
"""

import math

import numpy as np
from integer_kernels import SPAN, TYPES, Draw, Kernel, Redraw, finished, text_of
from integer_language import Block

DATA = {"int8": 2, "int16": 2, "int32": 2, "float16": 4, "float32": 3}


def _begin(k: Kernel, **sizes):
    """Arguments of every kind: data `x`, output `o`, indices `t`; lines for scalars."""
    dtype = k.draw.choice(TYPES)
    k.array("index", 256, dtype, -60 if dtype[0] == "i" else 0, 100)
    for _ in range(k.draw.randint(1, 3)):
        k.scalar()
    for name, value in sizes.items():
        k.constant(name, value)
    k.begin()
    if k.programs > 1 or k.draw.yes(0.2):
        k.must("pid = tl.program_id(0)")
        k.scalars.append("pid")
    if k.grid[1] > 1:
        k.must("row = tl.program_id(1)")
        k.scalars.append("row")
    if not k.plain and k.draw.yes(0.4):
        k.compute_scalar()
    k.claim(0.5 * k.sanitize)


def _axis(k: Kernel, axis, name, size):
    """Names along an axis."""
    start = 0 if k.plain else k.draw.some(0, 0, 0, 1, 16, 24)
    k.must(f"{name} = tl.arange({start}, {start} + {size})" if start
           else f"{name} = tl.arange(0, {size})")
    k.blocks[axis] = [name]
    if k.draw.yes(0.15):
        loaded = k.name()
        if k.line(f"{loaded} = tl.load(index + tl.arange(0, {size}))"):
            k.blocks[axis].append(loaded)


def _mask(k: Kernel, axis, share=0.5):
    return f", mask={k.condition(axis)}, other={k.draw.some(0, 5)}" if k.draw.yes(share) else ""


def _own(k: Kernel, n):
    return f"o + {_first(k, n)}tl.arange(0, {n})"


def _first(k: Kernel, n):
    """The place of a program's first element among outputs of `n` for each; a sum to go on."""
    if k.grid[1] > 1:
        order = ("(row * tl.num_programs(0) + pid)", f"(pid * {k.grid[1]} + row)")
        return f"{k.draw.choice(order)} * {n} + "
    return f"tl.program_id(0) * {n} + " if k.programs > 1 else ""


def loads(k: Kernel):
    n = k.draw.some(16, 32, 64, 64, 128, 256) * k.warps
    dtype = k.draw.weighted(DATA)
    k.array("x", SPAN, dtype)
    k.array("o", n * k.programs, dtype, 77, 78)
    _begin(k, N=n)
    _axis(k, 0, "i", "N")
    k.compute(0)
    for _ in range(10):
        mask = _mask(k, 0)
        try:
            texts = k.bounded(k.expression(0))
            texts.insert(1, f"tl.where({k.condition(0)}, {texts[0]}, i)")
            sign = k.draw.some("+", "+", "+", "-")
            lines = [f"r = tl.load(x + off {sign} {e}{mask})" for e in texts]
            lines.insert(k.draw.some(0, 1, 1, 1), f"r = tl.load(x + off + {texts[0]}, "
                            f"mask={texts[0]} {k.draw.some('< 0', '>= 0', '!= 0')}, other=7)")
            if k.draw.yes(0.15):
                pointers = f"x + off + {texts[0]}, x + off + {k.draw.some('i', k.expression(0))}"
                lines.insert(0, f"r = tl.load(tl.where({k.condition(0)}, {pointers}){mask})")
            k.first(lines)
            k.line(k.in_branch(f"r = tl.load(x + off + {k.expression(0)})"))
            break
        except Redraw:
            continue
    else:
        raise Redraw
    k.must(k.in_branch(f"tl.store({_own(k, 'N')}, r)"))


def stores(k: Kernel):
    n = k.draw.some(16, 32, 64, 128) * k.warps
    dtype = k.draw.weighted(DATA)
    k.array("x", SPAN, dtype, 77, 78)
    _begin(k, N=n)
    _axis(k, 0, "i", "N")
    k.compute(0)
    value = k.draw.some("i", k.atom(0), k.expression(0))
    value = f"({value}).to(tl.int8)"
    for r in range(30):
        mask = f", mask={k.condition(0)}" if k.draw.yes() else ""
        index = k.expression(0, k.draw.randint(1, 2)) if r < 20 else "i"
        kept = k.lines[:], k.launches[:]
        other = f"tl.store(x + off + {k.expression(0)}, {value})" if k.draw.yes() else None
        if k.line(k.in_branch(f"tl.store(x + off + {index}, {value}{mask})", other)):
            if k.finishes():
                return
            k.lines, k.launches = kept
    raise Redraw


def tiles(k: Kernel):
    m, n = k.draw.some(4, 8, 16, 32, 64), k.draw.some(8, 16, 32, 64)
    dtype = k.draw.weighted(DATA)
    k.array("x", SPAN, dtype)
    k.array("o", m * n * k.programs, dtype, 77, 78)
    _begin(k, M=m, N=n, S=k.draw.some(n, n, 64, 65, 3, 1, 128, -n, -64, -3))
    _axis(k, 0, "r", "M")
    _axis(k, 1, "c", "N")
    k.compute(0, k.draw.randint(0, 2))
    k.compute(1, k.draw.randint(0, 1))
    k.must("u = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]")
    for _ in range(10):
        row = k.expression(0, 1) if k.draw.yes() else k.atom(0)
        column = k.expression(1, 1) if k.draw.yes(0.4) else k.atom(1)
        row, column = k.bounded(row)[k.draw.some(0, 0, 1)], k.bounded(column)[k.draw.some(0, 0, 1)]
        if not k.line(f"at = ({row})[:, None] * {k.draw.some('S', 'S', *k.scalars)} "
                      f"+ ({column})[None, :]"):
            continue
        k.blocks[2] = ["at"]
        k.compute(2, k.draw.weighted({0: 3, 1: 1}))
        masks = [f"({k.condition(0)})[:, None]"] * k.draw.yes() \
            + [f"({k.condition(1)})[None, :]"] * k.draw.yes(0.4) + [k.condition(2)] * k.draw.yes(.1)
        mask = f", mask={' & '.join(masks)}, other=5" if masks else ""
        try:
            k.first([f"v = tl.load(x + off + {e}{mask})" for e in k.bounded(k.atom(2))])
            break
        except Redraw:
            continue
    else:
        raise Redraw
    pid = _first(k, "(M * N)")
    k.must(f"tl.store(o + {pid}u, v)")


def dots(k: Kernel):
    """Rows, columns and masks of both operands of a dot, perhaps over a loop."""
    dtype = k.draw.weighted({"float16": 4, "int8": 1})
    m, n, kk = k.draw.some(16, 32, 64), k.draw.some(16, 32, 64), k.draw.some(32, 64)
    out = "int32" if dtype == "int8" else "float32"
    k.array("x", SPAN, dtype, -4, 5)
    k.array("w", 2 * kk * n, dtype, -4, 5)
    k.array("o", m * n * k.programs, out, 77, 78)
    _begin(k, M=m, N=n, K=kk, S=k.draw.some(kk, kk, 64, 72, 16, -kk, -72))
    _axis(k, 0, "r", "M")
    _axis(k, 1, "c", "K")
    k.compute(0)
    k.compute(1, k.draw.weighted({0: 3, 1: 1}))
    for _ in range(10):
        row, column = k.atom(0), k.draw.some("c", k.atom(1))
        row = k.bounded(row)[k.draw.some(0, 0, 1, 2)]
        wide = ".to(tl.int64)" if k.draw.yes(0.2) else ""
        masks = [f"({k.condition(0)})[:, None]"] * k.draw.yes() \
            + [f"({k.condition(1)})[None, :]"] * k.draw.yes(0.4)
        mask = f", mask={' & '.join(masks)}, other=0" if masks else ""
        if k.line(f"a = tl.load(x + off + {row}[:, None]{wide} * S + {column}[None, :]{mask})"):
            break
    else:
        raise Redraw
    masks = [f"({k.condition(1)})[:, None]"] if k.draw.yes(0.3) else []
    mask = f", mask={' & '.join(masks)}, other=0" if masks else ""
    k.must("n = tl.arange(0, N)")
    k.blocks[3] = ["n"]
    columns = [f"({e})[None, :]" for e in k.bounded(k.expression(3))] if k.draw.yes(0.3) else []
    k.first([f"b = tl.load(w + tl.arange(0, K)[:, None] * N + {e}{mask})"
             for e in [*columns, "n[None, :]"]])
    k.must("d = tl.dot(a, b)")
    if k.draw.yes(0.2):
        k.line(f"d = tl.where(({k.condition(0)})[:, None], d, 0)")
    pid = _first(k, "(M * N)")
    k.must(f"tl.store(o + {pid}tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], d)")


def groups(k: Kernel):
    """A dot with dequantised weights: scales by groups of rows, weights packed in integers."""
    draw = k.draw
    m, n, kk = draw.some(16, 32), draw.some(16, 32, 64), draw.some(16, 32, 64)
    packed = draw.some(0, 0, 2, 8)
    k.array("w", 4 * kk * n, "int8", -4, 5)
    k.array("q", 4 * kk * n, draw.some("uint8", "int8") if packed == 2 else "int32",
            0, 100 if packed == 2 else 2**31 - 1)
    k.array("a", m * kk * 4, "float16", -3, 4)
    k.array("x", SPAN, "float16", 1, 4)
    k.array("o", m * n * k.programs, "float32", 77, 78)
    _begin(k, M=m, N=n, K=kk, G=draw.some(8, 16, 32, 64, 128, 12))
    steps = draw.weighted({1: 2, 2: 1, 3: 1})
    _axis(k, 1, "k", "K")
    first = draw.some("0", k.one(), k.one())
    k.must("acc = tl.zeros((M, N), tl.float32)")
    loop = steps > 1 or draw.yes(0.3)
    if loop:
        k.must(f"first = {first} + tl.program_id(0) * 0", "k0 = first")
        k.lines.append(f"for k0 in range(first, first + {steps} * K, K):")
        k.indent = "    "
    else:
        k.must(f"k0 = {first} + tl.program_id(0) * 0")
    k.must("ks = k0 + k")
    k.blocks[1].append("ks")
    divisor = draw.some("G", "G", *k.scalars)
    if not k.tries(lambda: "g = " + draw.some(
            f"ks // {divisor}", f"(k0 + k) // {divisor}", f"(ks + {k.one()}) // {divisor}",
            f"tl.cdiv(ks, {divisor})", f"ks % {divisor}", f"ks >> {draw.randint(2, 6)}",
            f"({k.expression(1, 1)}) // {divisor}", k.expression(1),
            f"ks.to(tl.{draw.choice(TYPES)}).to(tl.{draw.choice(TYPES)}) // {divisor}")):
        raise Redraw
    wide = draw.some("", "", ".to(tl.int64)")
    k.first([f"s = tl.load(x + off + {e}[:, None]{wide} * N + tl.arange(0, N)[None, :])"
             for e in k.bounded("g")])
    at = "tl.arange(0, N)[None, :]"
    row = draw.some("k", f"(k % {kk})") if k.value("k").values.min() == 0 else f"(k % {kk})"
    if packed:
        k.must(f"b = tl.load(q + ({row} // {packed})[:, None] * N + {at})",
               f"b = ((b >> (({row} % {packed}) * 4)[:, None]) & 15) - 8")
    else:
        k.must(f"b = tl.load(w + {row}[:, None] * N + {at})")
    mask = draw.some("", f", mask=({k.condition(1)})[None, :], other=0")
    k.must(f"u = tl.load(a + tl.arange(0, M)[:, None] * K + {row}[None, :]{mask})")
    if draw.yes(0.2):
        k.line(f"s = tl.where(({k.condition(1)})[:, None], s, 0)")
    k.must("acc = tl.dot(u, b.to(tl.float16) * s, acc)")
    k.indent = ""
    pid = _first(k, "(M * N)")
    k.must(f"tl.store(o + {pid}tl.arange(0, M)[:, None] * N + {at}, acc)")


def loops(k: Kernel):
    """Bounds of any type, offsets or pointers carried from step to step."""
    draw = k.draw
    n = draw.some(16, 32, 64) * k.warps
    dtype = draw.weighted({"int32": 2, "int8": 1, "float16": 1})
    k.array("x", SPAN, dtype, -8, 8)
    k.array("o", n * k.programs, dtype, 77, 78)
    _begin(k, N=n)
    _axis(k, 0, "i", "N")
    k.compute(0, draw.randint(0, 1))
    k.must(f"acc = tl.zeros((N,), tl.{dtype})")
    k.first([f"at = {e}" for e in k.bounded(k.expression(0, 1))])
    pointer = draw.yes(0.4)
    if pointer:
        k.must("p = x + off + at")
    low, step = draw.some("0", k.one(), k.one()), draw.some("1", "1", "2", "3", "16", k.one())
    if not k.tries(lambda: f"low = {draw.some(low, k.one())} + tl.program_id(0) * 0"):
        raise Redraw
    bounds = [f"low, low + {draw.randint(1, 5)} * {step}, {step}",
              f"low + {draw.randint(1, 9)}, low, {draw.some('-1', '-2', '-3', '-16')}",
              f"low, {k.one()}, {step}", f"0, {k.one()} & 7", f"{k.one()}", f"low, {k.one()}",
              f"low, (low + {k.one()}).to(tl.{draw.choice(TYPES)}), {step}",
              f"({k.one()} * low).to(tl.{draw.choice(TYPES)}), {k.one()}, {step}"]
    draw.shuffle(bounds)
    for bound in bounds:
        if _loop_values(k, bound):
            break
    else:
        raise Redraw
    counted = draw.yes(0.8)
    if counted:
        k.lines.append(f"for k in {_range(k, bound)}:")
    else:
        k.must("n = tl.program_id(0) * 0", "k = low")
        k.lines.append(f"while (k < {k.one()}) & (n < 6):")
    k.indent = "    "
    k.scalars.append("k")
    k.blocks[0].append("at")
    inner = draw.some("2", "0, 5, 2", "k, k + 2", "3, 0, -2", "0, k & 3, 2", f"0, {k.one()} & 3")
    if counted and draw.yes(0.25) and _loop_values(k, inner, "j"):
        k.lines.append(f"    for j in {_range(k, inner)}:")
        k.indent = "        "
        k.scalars.append("j")
    k.compute(0, draw.randint(0, 1))
    index = k.expression(0, 1) if draw.yes() else f"at + {draw.some('k', k.one())}"
    where = "p" if pointer else f"x + off + {index}"
    k.must(k.in_branch(f"acc += tl.load({where}{_mask(k, 0)}){draw.some('', '.to(acc.dtype)')}"))
    kind = k.value("at").dtype.name
    step = draw.some(k.one(), k.one(), "k")
    if pointer and not k.line(f"p {draw.some('+=', '+=', '-=')} {step}"):
        raise Redraw
    elif not pointer and draw.yes(0.7):
        changed = draw.some(f"(at + {step})", k.step("at", 0))
        k.line(f"at = {changed}.to(tl.{kind})")
    if not counted:
        k.must(f"k = (k + {step}).to(k.dtype)", "n += 1")
    k.indent = ""
    k.must(f"tl.store({_own(k, 'N')}, acc)")


def _range(k: Kernel, bound):
    """A loop's head.  Triton flattens with products of 32 bits, which wrap if bounds are far."""
    near = bound.startswith("low + ") or bound.endswith("& 7")
    return k.draw.weighted({f"range({bound})": 3, f"tl.range({bound})": 1,
                            f"tl.range({bound}, num_stages=3)": 1,
                            f"tl.range({bound}, flatten=True)": 2 * near})


def _loop_values(k: Kernel, bound, name="k"):
    """True if the loop runs a few steps at least once: the name has its first value then."""
    done = k.line(f"steps = [*range({bound})]")
    if not done:
        return False
    k.lines.pop()
    counts = [len(n["steps"]) for launch in k.launches for n in launch.names]
    if not 0 < max(counts) < 12:
        return False
    some = next(n["steps"][0] for launch in k.launches for n in launch.names if n["steps"])
    for launch in k.launches:
        for names in launch.names:
            steps = names.pop("steps")
            names[name] = steps[0] if steps else Block(np.zeros_like(some.values))
    return True


def descriptors(k: Kernel):
    """Blocks of a tensor at offsets of any sign: loaded at once or on a walk, by rows, stored."""
    draw = k.draw
    use = draw.weighted({"load": 3, "walk": 2, "gather": 1, "store": 1, "atomic": 2})
    rank = 2 if use == "gather" else draw.weighted({1: 1, 2: 3, 3: 1})
    dtype = draw.weighted(DATA | {"uint32": 1} if use != "atomic" else
                          {"int32": 2, "uint32": 2, "int64": 1})
    size = [draw.some(2, 4), draw.some(8, 16, 32), draw.some(16, 32, 64)][-rank:]
    size[-1] = max(size[-1], 32 * (use == "gather"))
    pitch = draw.some(32, 64, 96, 128)
    length = [draw.randint(1, 6), draw.randint(4, 40), draw.some(pitch, pitch - 5)][-rank:]
    strides = [*np.cumprod([1, pitch, *length[-2:0:-1]][:rank]).tolist()][::-1]
    k.array("x", length[0] * strides[0] + pitch, dtype)
    changes = use in ("store", "atomic")
    k.array("o", 16 if changes else math.prod(size) * k.programs, dtype, 77, 78)
    for launch in k.launches:
        launch.seeds["x"] = (*launch.seeds["x"][:5], 0)
    for axis, count in enumerate(length):
        k.constant(f"length{axis}", count)
    _begin(k, N=math.prod(size))
    lengths, block = ", ".join(f"length{a}" for a in range(rank)), size
    if use == "gather":
        block = [1, size[1]]
    k.must(f"d = tl.make_tensor_descriptor(x, [{lengths}], {strides}, {block})")
    for _ in range(draw.randint(0, 2)):
        k.compute_scalar()
    value = f"tl.reshape(tl.arange(0, N) * {draw.choice([1, 3, -7])}, {size}).to(tl.{dtype})"
    for _ in range(20):
        kept = k.lines[:], k.launches[:]
        if _uses_descriptor(k, use, rank, size, value) and (not changes or k.finishes()):
            break
        k.lines, k.launches = kept
    else:
        raise Redraw
    if not changes:
        k.must(f"tl.store({_own(k, 'N')}, tl.reshape(v, (N,)))")


def _uses_descriptor(k: Kernel, use, rank, size, value):
    draw = k.draw
    offsets = [_offset(k) for _ in range(rank)]
    if use == "gather":
        k.blocks[0] = [f"tl.arange(0, {size[0]})"]
        rows = f"({k.expression(0)}).to(tl.{draw.some('int16', 'int32')})"
        return k.line(f"v = d.gather({rows}, {offsets[1]})")
    if use == "atomic":
        names = ["max", "min", "and", "or", "xor", *2 * ["add"] * ("int64" not in value)]
        name = draw.choice(names)
        return k.line(f"d.atomic_{name}([{', '.join(offsets)}], {value})")
    if use == "store":
        return k.line(f"d.store([{', '.join(offsets)}], {value})")
    if use == "load":
        return k.line(f"v = d.load([{', '.join(offsets)}])")
    names = [f"p{axis}" for axis in range(rank)]
    lines = [f"{n} = ({o} + tl.program_id(0) * 0).to(tl.int32)"
             for n, o in zip(names, offsets, strict=True)]
    if not all(k.line(x) for x in [*lines, f"v = tl.zeros({size}, x.dtype.element_ty)"]):
        return False
    steps = draw.some("2", "3", "(pid & 3)" if k.programs > 1 else "4")
    k.lines.append(f"for _ in range({steps}):")
    k.indent = "    "
    steps = [f"{n} = ({n} {draw.some('+', '+', '-')} {k.one()}).to(tl.int32)" for n in names]
    done = all(k.line(x) for x in [f"v += d.load([{', '.join(names)}])", *steps])
    k.indent = ""
    return done


def _offset(k: Kernel):
    k.blocks[-1] = k.scalars
    text = k.draw.some("0", "-3", *(k.expression(-1) for _ in range(6)))
    k.blocks[-1] = []
    if text in ("0", "-3"):
        return text
    return f"({k.draw.choice([text, *k.bounded(text)])}).to(tl.int32)"


def claims(k: Kernel):
    """Claims of a kernel about its values; under the checks they may be false in a launch.

    MLIR drops what is said of a sum, if it folds the sum.
    """
    draw = k.draw
    n = draw.some(16, 64, 128, 256) * k.warps
    dtype = draw.weighted(DATA)
    k.array("x", SPAN, dtype)
    k.array("o", n * k.programs, dtype, 77, 78)
    _begin(k, N=n)
    _axis(k, 0, "i", "N")
    k.compute(0, draw.randint(0, 1))
    k.compute_scalar()
    what = draw.some("multiple_of", "multiple_of", "max_contiguous", "max_constancy")
    count = draw.some(2, 4, 8, 16)
    false = k.sanitize and draw.yes(0.7)
    mask = ""
    if of_number := what == "multiple_of" and draw.yes():
        at = f"{k.draw.choice(k.scalars)} {draw.some('//', '%')} {draw.some(3, 7, 12, 24, 100, -7)}"
    else:
        at = k.draw.some(k.draw.choice(k.bounded(k.expression(0))), f"{k.one()} % 64 + i")
    if what == "max_constancy" and draw.yes(0.7):
        at, mask = k.condition(0), ", mask=c, other=3"
    for _ in range(1 if false else 10):
        if false and k.line(f"c = {at}"):
            value = k.value("c")
            if not isinstance(value, Block) or not (of_number or value.shape):
                raise Redraw
            k.lines[-1] = f"c = tl.{what}({at}, {count})"
        elif not k.line(f"c = tl.{what}({at}, {count})"):
            continue
        break
    else:
        raise Redraw
    index = "i" if mask else "(c % 64) + i" if of_number else "c"
    k.must(f"r = tl.load(x + off + {index}{mask})", f"tl.store({_own(k, 'N')}, r)")


def cubes(k: Kernel):
    """Indices of two to four axes, which are permuted, reshaped, joined, reduced and scanned."""
    draw = k.draw
    a, b, c = draw.some(2, 4, 8), draw.some(2, 4, 8), draw.some(4, 8, 16)
    dtype = draw.weighted(DATA)
    k.array("x", SPAN, dtype)
    k.array("o", 4 * a * b * c * k.programs, dtype, 77, 78)
    _begin(k, A=a, B=b, C=c, S=draw.some(b * c, b * c, 64, 1, 3, -b * c), T=draw.some(c, c, 16, 5))
    for axis, name, size in ((0, "p", "A"), (1, "q", "B"), (3, "r", "C")):
        _axis(k, axis, name, size)
        k.compute(axis, draw.randint(0, 1))
    k.first([f"at = {p}[:, None, None] * S + {q}[None, :, None] * T + {r}[None, None, :]"
             for p, q, r in zip(*(k.bounded(k.atom(axis)) for axis in (0, 1, 3)), strict=True)])
    k.blocks[2] = ["at"]
    for _ in range(draw.randint(1, 4)):
        k.tries(lambda: _reshaped(draw, k.value("at").shape), 5)
    k.compute(2, draw.randint(0, 1))
    mask = _mask(k, 2)
    if not k.tries(lambda: f"v = tl.load(x + off + {draw.choice(k.bounded(k.atom(2)))}"
                           f"{draw.some(mask, '')})"):
        raise Redraw
    size = math.prod(k.value("v").shape)
    k.must(f"tl.store({_own(k, str(size))}, tl.reshape(v, ({size},)))")


def _reshaped(draw, shape):
    """A line that gives `at` other elements or another shape."""
    rank = len(shape)
    axis, order = draw.randrange(rank), draw.sample(range(rank), rank)
    size, first = math.prod(shape), 1 << draw.randint(0, 2)
    g = draw.some("max", "min", "sum", "argmax", "xor_sum", "reduce_or")
    texts = [f"tl.permute(at, {tuple(order)})", f"tl.reshape(at, ({first}, {size // first}))",
             f"tl.reshape(at, (2, {size // (2 * first)}, {first}))", f"tl.reshape(at, ({size},))",
             f"tl.flip(at, {axis})", f"tl.cumsum(at, {axis})", "tl.sort(at)",
             f"tl.gather(at, at & {shape[axis] - 1}, {axis})",
             f"at - tl.expand_dims(tl.{g}(at, {axis}), {axis})",
             f"tl.associative_scan(at, {axis}, tl.standard._elementwise_max)"]
    if rank > 1:
        texts += ["tl.trans(at)", f"tl.{g}(at, {axis})", f"tl.{g}(at, {rank - 1})"]
    if shape[-1] == 2 and rank > 1:
        return draw.some("at, _ = tl.split(at)", "_, at = tl.split(at)")
    if size < 512:
        texts += [f"tl.join(at, at {draw.some('+ 1', '* 3', '// 2')})", "tl.interleave(at, at % 7)"]
    return f"at = {draw.choice(texts)}"


def atomics(k: Kernel):
    """Atomic operations at computed addresses, and what they return where that is defined."""
    draw = k.draw
    dtype = draw.weighted({"int32": 4, "uint32": 2, "int64": 2, "uint64": 1, "float32": 2})
    names = ["add", "max", "min", "xchg"]
    names += [] if dtype == "float32" else ["add", "and", "or", "xor", "cas"]
    n = draw.some(16, 32, 64, 128) * k.warps
    k.array("x", SPAN, dtype, -4 if dtype[0] != "u" else 0, 5)
    k.array("o", n * k.programs, dtype, 77, 78)
    _begin(k, N=n)
    _axis(k, 0, "i", "N")
    k.compute(0)
    for r in range(30):
        kept = k.lines[:], k.launches[:]
        name, index = draw.choice(names), k.expression(0, draw.randint(1, 2)) if r < 20 else "i"
        value = f"({draw.some('i', k.atom(0), k.expression(0))}).to(tl.int8).to(tl.{dtype})"
        lines = _atomic(k, name, f"x + off + {draw.choice(k.bounded(index))}", value, dtype)
        if all(k.line(line) for line in lines) and k.finishes():
            return
        k.lines, k.launches = kept
    raise Redraw


def _atomic(k: Kernel, name, at, value, dtype):
    draw = k.draw
    if name == "cas":
        some = f"tl.zeros((N,), tl.{dtype})"
        call = f"tl.atomic_cas({at}, {some} + {draw.some('1', k.number())}, {some} + {value})"
        return [call] if draw.yes(0.3) else [f"r = {call}", f"tl.store({_own(k, 'N')}, r)"]
    mask = f"({k.condition(0)}) & (i >= 0)" if draw.yes(0.7) else "i >= 0"
    call = f"tl.atomic_{name}({at}, {value}, mask=m)"
    returned = [f"r = tl.where(m, {call}, 7)", f"tl.store({_own(k, 'N')}, r)"]
    return [f"m = {mask}", *([k.in_branch(call)] if draw.yes(0.4) else returned)]


KINDS = {"loads": loads, "stores": stores, "tiles": tiles, "dots": dots, "groups": groups,
         "loops": loops, "descriptors": descriptors, "atomics": atomics, "cubes": cubes,
         "claims": claims}


def program(kind: str, seed: str, sanitize: bool = False) -> str:
    """The program of this kind that belongs to the seed."""
    draw = Draw(f"{kind} {seed}")
    for _ in range(100):
        kernel = Kernel(draw, sanitize)
        try:
            KINDS[kind](kernel)
        except Redraw:
            continue
        kernel.launches = finished(kernel)
        if kernel.launches:
            return text_of(kernel, sanitize)
    raise RuntimeError(f"no kernel of {kind} for {seed}")
