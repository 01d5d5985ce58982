"""Blocks of any shape and type through chains of operations, loops and branches.

Numbers stay small and whole (`reference.py` tells what they must be): integers wrap, floats are
rounded down and clamped, so that every order of summation gives the same.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from .draw import Draw

INTEGERS = ("int32", "int32", "int64", "int16", "int8")
FLOATS = ("float32", "float16", "bfloat16")
REACH = 20000
"""Elements of memory that a load reaches over, from its begin."""
HELPERS = '''@triton.jit
def linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def best(a, i, b, j):
    take = (b > a) | ((b == a) & (j < i))
    return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def three(a, b, c, d, e, f):
    return a + d, b ^ e, tl.maximum(c, f)


@triton.jit
def last(a, b):
    return tl.where(b % 3 == 0, a, b)


@triton.jit
def either(a, b):
    return a | b


'''


@dataclass(frozen=True)
class Value:
    """A block that the kernel holds under a name."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Writer:
    """Writes a kernel, a statement after the other; what it made last is used first."""

    def __init__(self, draw: Draw, most: int) -> None:
        self.draw, self.most = draw, most
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.depth, self.count, self.stored = 1, 0, 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def put(self, text: str, shape: tuple[int, ...], dtype: str) -> Value:
        value = Value(self.name(), shape, dtype)
        self.line(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def shape(self) -> tuple[int, ...]:
        rank = self.draw.some(1, 1, 2, 2, 2, 3)
        while True:
            shape = tuple(self.draw.some(1, 2, 4, 8, 16, 16, 32, 32, 64, 128, 256, 512)
                          for _ in range(rank))
            if 1 < math.prod(shape) <= self.most:
                return shape

    def any(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value:
        """One of the last values of this kind; a loaded one where there is none."""
        found = [v for v in self.values if wanted(v)][-6:]
        return self.draw.choice(found) if found else self.load()

    # -- memory --------------------------------------------------------------------------------

    def offsets(self, shape: tuple[int, ...], pad: int = 0) -> tuple[str, int]:
        """Positions with the axes in any order, and how many elements they reach over."""
        order = list(range(len(shape)))
        if self.draw.yes(0.4):
            self.draw.shuffle(order)
        stride, terms = 1, []
        for axis in reversed(order):
            at = _along(axis, len(shape))
            terms.append(f"tl.arange(0, {shape[axis]}){at}" + (f" * {stride}" * (stride > 1)))
            stride = stride * shape[axis] + (pad if stride == 1 else 0)
        self.draw.shuffle(terms)
        return " + ".join(terms), stride

    def load(self, shape: tuple[int, ...] | None = None, dtype: str = "") -> Value:
        shape = shape or self.shape()
        at, size = self.offsets(shape, self.draw.some(0, 0, 1, 3, 8))
        if size > REACH:
            at, _ = self.offsets(shape)
        begin = self.draw.some("0", "pid * 16", "n", "pid * n", "7")
        mask = self.draw.some("", "", f", mask=({at}) < n * 8, other={self.draw.some(0, 5)}",
                              f", mask=({at}) % 3 != 1, other=1",
                              f", mask=tl.load(bits + ({at})), other=2")
        source = self.draw.some("x", "y")
        value = self.put(f"tl.load({source} + ({begin}) + ({at}){mask})", shape,
                         {"x": "int32", "y": "float32"}[source])
        return self.cast(value, dtype or self.draw.some(
            value.dtype, value.dtype, *(FLOATS if value.is_float else INTEGERS)))

    def store(self, value: Value) -> None:
        at, size = self.offsets(value.shape, self.draw.some(0, 0, 0, 2, 8))
        mask = self.draw.some("", "", f", mask=({at}) < n * 9", f", mask=({at}) % 5 != 2")
        target, kept = (("p", "float32") if value.is_float else
                        ("q", "int8") if value.dtype == "int1" else ("o", "int32"))
        self.line(f"tl.store({target} + {self.stored} + pid * SPAN + {at}, "
                  f"{value.name}.to(tl.{kept}){mask})")
        self.stored += size + self.draw.some(0, 1, 8)

    def through_memory(self) -> None:
        """Stored, and read again in another order by the same program."""
        value = self.any(lambda v: v.dtype == "int32")
        at, size = self.offsets(value.shape)
        self.line("tl.debug_barrier()")
        self.line(f"tl.store(s + pid * 16384 + {at}, {value.name})")
        self.line("tl.debug_barrier()")
        self.put(f"tl.load(s + pid * 16384 + {size - 1} - ({at}))", value.shape, "int32")

    # -- operations --------------------------------------------------------------------------------

    def cast(self, value: Value, dtype: str) -> Value:
        if value.dtype == dtype:
            return value
        name = value.name
        if value.is_float and dtype not in FLOATS:
            name = f"{name}.to(tl.int32)"
        return self.tame(self.put(f"{name}.to(tl.{dtype})", value.shape, dtype))

    def tame(self, value: Value) -> Value:
        if not value.is_float:
            return value
        return self.put(f"tl.clamp(tl.floor({value.name}.to(tl.float32)), -32.0, 32.0)"
                        f".to(tl.{value.dtype})", value.shape, value.dtype)

    def matching(self, value: Value) -> str:
        """A factor or summand of the same type: of the shape, of fewer axes, or a number."""
        mates = [(v, index) for v in self.values if v.dtype == value.dtype and v is not value
                 for index in _spread(v.shape, value.shape)][-4:]
        if not mates or self.draw.yes(0.15):
            return self.draw.some("3", "pid", "(n % 5)") if not value.is_float else "2.0"
        mate, index = self.draw.choice(mates)
        return mate.name + index

    def element_wise(self, value: Value | None = None) -> Value:
        value = value or self.any(lambda v: v.dtype != "int1")
        other = self.matching(value)
        name, dtype = value.name, value.dtype
        if value.is_float:
            text = self.draw.some(f"{name} + {other}", f"{name} * {other}", f"{other} - {name}",
                                  f"tl.maximum({name}, {other})",
                                  f"tl.where({name} > {other}, {name}, {name} * 0.5)")
        else:
            text = self.draw.some(
                f"{name} + {other}", f"{name} * {other}", f"{name} ^ {other}", f"{name} - {other}",
                f"tl.minimum({name}, {other})", f"tl.where({name} < {other}, {name}, {name} >> 1)",
                f"({name} & 63) // 3 + {other}", f"tl.where(({name} & 7) > 3, {other}, {name})",
                f"{name} | {other}", f"({name} & 127) % 11 - {other}",
                f"({name} & 95) // (pid + 3) - {other}", f"({name} & 127) % (pid + 5) + {other}")
        return self.tame(self.put(f"({text}).to(tl.{dtype})", value.shape, dtype))

    def truth(self) -> Value:
        """A block of bits, from a comparison or from others."""
        known = [v for v in self.values if v.dtype == "int1"]
        if known and self.draw.yes(0.4):
            bits = self.draw.choice(known[-3:])
            same = [v for v in known if v.shape == bits.shape]
            return self.put(self.draw.some(
                f"{bits.name} & {self.draw.choice(same).name}", f"~{bits.name}",
                f"{bits.name} ^ {self.draw.choice(same).name}"), bits.shape, "int1")
        value = self.any(lambda v: v.dtype != "int1")
        return self.put(f"{value.name} > {self.matching(value)}", value.shape, "int1")

    def choose(self) -> Value:
        bits = self.any(lambda v: v.dtype == "int1")
        if bits.dtype != "int1":
            bits = self.truth()
        mates = [v for v in self.values if v.shape == bits.shape and v.dtype != "int1"]
        if not mates:
            return self.put(f"{bits.name}.to(tl.int32)", bits.shape, "int32")
        a = self.draw.choice(mates[-3:])
        return self.put(f"tl.where({bits.name}, {a.name}, {self.matching(a)}).to(tl.{a.dtype})",
                        a.shape, a.dtype)

    def reshape(self, value: Value | None = None) -> Value:
        value = value or self.any()
        sizes = list(value.shape)
        draw = self.draw
        for _ in range(draw.randint(1, 3)):
            i = draw.randrange(len(sizes))
            if sizes[i] > 1 and len(sizes) < 4 and draw.yes(0.6):
                part = 1 << draw.randint(1, sizes[i].bit_length() - 1)
                sizes[i:i + 1] = [sizes[i] // part, part]
            elif len(sizes) > 1:
                i = min(i, len(sizes) - 2)
                sizes[i:i + 2] = [sizes[i] * sizes[i + 1]]
        return self.put(f"tl.reshape({value.name}, {_tuple(sizes)})", tuple(sizes), value.dtype)

    def permute(self) -> Value:
        value = self.any(lambda v: len(v.shape) > 1)
        order = list(range(len(value.shape)))
        self.draw.shuffle(order)
        shape = tuple(value.shape[d] for d in order)
        return self.put(f"tl.permute({value.name}, {_tuple(order)})", shape, value.dtype)

    def joined(self) -> Value:
        value = self.any(lambda v: v.size * 2 <= self.most and len(v.shape) < 4)
        if value.size * 2 > self.most or len(value.shape) > 3:
            return value
        mates = [v for v in self.values if v.shape == value.shape and v.dtype == value.dtype]
        other = self.draw.choice(mates)
        kind = self.draw.some("join", "interleave", "cat")
        shape = value.shape
        if kind == "join":
            return self.put(f"tl.join({value.name}, {other.name})", (*shape, 2), value.dtype)
        if kind == "interleave":
            return self.put(f"tl.interleave({value.name}, {other.name})",
                            (*shape[:-1], shape[-1] * 2), value.dtype)
        axis = self.draw.randrange(len(shape))
        wide = tuple(n * 2 if d == axis else n for d, n in enumerate(shape))
        return self.put(f"tl.cat({value.name}, {other.name}, can_reorder=False, dim={axis})",
                        wide, value.dtype)

    def halves(self) -> Value:
        value = self.any(lambda v: v.shape[-1] == 2 and len(v.shape) > 1)
        if value.shape[-1] != 2 or len(value.shape) < 2:
            return value
        names = self.name(), self.name()
        self.line(f"{names[0]}, {names[1]} = tl.split({value.name})")
        self.values += [Value(name, value.shape[:-1], value.dtype) for name in names]
        return self.values[-1]

    def fold(self) -> Value:
        """A reduction; of one axis or of all that are."""
        value = self.any(lambda v: len(v.shape) > 1)
        axis = self.draw.randrange(len(value.shape))
        keep = self.draw.yes(0.4) or len(value.shape) == 1
        shape = tuple(1 if d == axis else n for d, n in enumerate(value.shape)
                      if keep or d != axis)
        end = f"{axis}, keep_dims=True)" if keep else f"{axis})"
        name, dtype = value.name, value.dtype
        if dtype == "int1":
            return self.put(self.draw.some(f"tl.sum({name}.to(tl.int32), {end}",
                                           f"tl.max({name}.to(tl.int32), {end}"), shape, "int32")
        kind = self.draw.some("sum", "max", "min", "argmax", "argmin", "reduce", "xor", "all")
        if kind == "all":
            wide = "float32" if value.is_float else "int32"
            return self.put(f"{name} + tl.sum({name}.to(tl.{wide})).to(tl.{dtype})", value.shape,
                            dtype)
        if kind in ("max", "min"):
            return self.put(f"tl.{kind}({name}, {end}.to(tl.{dtype})", shape, dtype)
        if kind in ("argmax", "argmin"):
            return self.put(f"tl.{kind}({name}, {end}", shape, "int32")
        if kind == "sum" or value.is_float:
            wide = "float32" if value.is_float else dtype if dtype == "int64" else "int32"
            return self.tame(self.put(f"tl.sum({name}.to(tl.{wide}), {end}", shape, wide))
        if kind == "xor":
            return self.put(f"tl.xor_sum({name}, {end}.to(tl.{dtype})", shape, dtype)
        return self._several(value, axis, shape, end)

    def _several(self, value: Value, axis: int, shape: tuple[int, ...], end: str) -> Value:
        """A reduction of several values at once."""
        name, dtype = value.name, value.dtype
        places = (f"tl.broadcast_to(tl.arange(0, {value.shape[axis]})"
                  f"{_along(axis, len(value.shape))}, {_tuple(value.shape)})")
        end = end.replace(f"{axis}", f"{axis}, best", 1)
        if self.draw.yes():
            names = self.name(), self.name()
            self.line(f"{', '.join(names)} = tl.reduce(({name}, {places}), {end}")
            made = [Value(names[0], shape, dtype), Value(names[1], shape, "int32")]
        else:
            names = self.name(), self.name(), self.name()
            self.line(f"{', '.join(names)} = tl.reduce(({name}.to(tl.int32), {name}, "
                      f"{name}.to(tl.int64)), {end.replace('best', 'three')}")
            made = [Value(n, shape, d)
                    for n, d in zip(names, ("int32", dtype, "int64"), strict=True)]
        self.values += made
        return made[0]

    def scan(self) -> Value:
        value = self.any(lambda v: v.dtype != "int1")
        axis = self.draw.randrange(len(value.shape))
        name, shape, dtype = value.name, value.shape, value.dtype
        reverse = f", reverse={self.draw.yes()}"
        wide = "float32" if value.is_float else dtype if dtype == "int64" else "int32"
        if value.is_float or self.draw.yes(0.3):
            return self.tame(self.put(f"tl.cumsum({name}.to(tl.{wide}), {axis}{reverse})",
                                      shape, wide))
        if self.draw.yes(0.4):
            names = self.name(), self.name()
            self.line(f"{', '.join(names)} = tl.associative_scan(({name}, {name} ^ 5), {axis}, "
                      f"linear{reverse})")
            self.values += [Value(n, shape, dtype) for n in names]
            return self.values[-1]
        combine = self.draw.some("last", "either")
        return self.put(f"tl.associative_scan({name}, {axis}, {combine}{reverse})", shape, dtype)

    def ordered(self) -> Value:
        value = self.any(lambda v: v.dtype not in ("int1", "bfloat16") and v.shape[-1] > 1)
        name, shape, dtype = value.name, value.shape, value.dtype
        kind = self.draw.some("sort", "flip", "topk", "gather", "histogram")
        if kind == "sort" and dtype != "int1":
            return self.put(f"tl.sort({name}, descending={self.draw.yes()})", shape, dtype)
        if kind == "topk" and shape[-1] > 1 and dtype != "int1":
            k = 1 << self.draw.randint(0, shape[-1].bit_length() - 1)
            return self.put(f"tl.topk({name}, {k}).to(tl.{dtype})", (*shape[:-1], k), dtype)
        if kind == "flip":
            axis = self.draw.randrange(len(shape))
            return self.put(f"tl.flip({name}, {axis})", shape, dtype)
        if kind == "histogram" and not value.is_float and dtype != "int1":
            bins = self.draw.some(2, 16, 64, 128)
            return self.put(f"tl.histogram(tl.ravel({name}).to(tl.int32) & 127, {bins})", (bins,),
                            "int32")
        axis = self.draw.randrange(len(shape))
        fits = [v for v in self.values if v.dtype == "int32" and len(v.shape) == len(shape) and (
            v.shape[:axis], v.shape[axis + 1:]) == (shape[:axis], shape[axis + 1:])]
        index = self.draw.choice(fits[-4:]) if fits else self.load(shape, "int32")
        return self.put(f"tl.gather({name}, {index.name} & {shape[axis] - 1}, {axis})",
                        index.shape, dtype)

    def dot(self, square: bool = False) -> Value:
        value = self.any(lambda v: len(v.shape) in (2, 3) and min(v.shape[-2:]) >= 16
                         and v.dtype != "int1")
        if len(value.shape) not in (2, 3) or min(value.shape[-2:]) < 16 or value.dtype == "int1":
            value = self.load(tuple(self.draw.some(16, 32, 64) for _ in "mk"))
        *batch, m, k = value.shape
        n = k if square else self.draw.some(*(n for n in (16, 32, 64) if m * n <= 2048 or n == 16))
        other = self.load((*batch, n, k) if (turned := self.draw.yes()) else (*batch, k, n))
        whole = not value.is_float and k >= 32 and self.draw.yes()
        low = "int8" if whole else self.draw.some("float16", "bfloat16", "float32")
        a, b = (f"({v.name}.to(tl.int32) & 7).to(tl.{low})" for v in (value, other))
        if turned:
            b = f"tl.permute({b}, {_tuple([*range(len(batch)), len(batch) + 1, len(batch)])})"
        precise = ', input_precision="ieee"' if low == "float32" and self.draw.yes() else ""
        dtype = "int32" if whole else "float32"
        mates = [v for v in self.values if v.shape == (*batch, m, n) and v.dtype == dtype]
        acc = f", {self.draw.choice(mates).name}" if mates and self.draw.yes(0.6) else ""
        return self.tame(self.put(f"tl.dot({a}, {b}{acc}{precise})", (*batch, m, n), dtype))

    # -- control -----------------------------------------------------------------------------------

    def step(self) -> None:
        operation = self.draw.choices(
            [self.element_wise, self.truth, self.choose, self.reshape, self.permute, self.joined,
             self.halves, self.fold, self.scan, self.ordered, self.dot, self.load,
             self.through_memory],
            [6, 2, 2, 2, 3, 2, 2, 4, 3, 3, 2, 1, 0.6])[0]
        operation()

    def block(self) -> None:
        """A loop or a branch that gives a value back under its name."""
        carried = [self.any(lambda v: v.dtype != "int1") for _ in range(self.draw.randint(1, 2))]
        head = self.draw.some("for i{d} in range(n % 4):", "for i{d} in range(pid, 3):",
                              "if n % 2 == 0:", "if pid > 0:",
                              "while tl.sum({v}.to(tl.int32)) > c{d}:")
        if "while" in head:
            self.line(f"c{self.depth} = n")
        self.line(head.format(d=self.depth, v=carried[0].name))
        outside, self.depth = list(self.values), self.depth + 1
        for _ in range(self.draw.randint(1, 4)):
            self.step()
        if self.depth < 4 and self.draw.yes(0.3):
            self.block()
        for value in dict.fromkeys(carried):
            made = [v for v in self.values if v not in outside and v.size == value.size
                    and v.dtype != "int1"]
            if made:
                last = made[-1]
                text = (f"tl.reshape({last.name}.to(tl.int32), {_tuple(value.shape)})"
                        f".to(tl.{value.dtype})")
            else:
                text = self.element_wise(value).name
            self.line(f"{value.name} = {text}")
        if "while" in head:
            self.line(f"c{self.depth - 1} = c{self.depth - 1} * 2 + 1000000")
        self.depth -= 1
        self.values = outside


def _spread(shape: tuple[int, ...], over: tuple[int, ...]) -> list[str]:
    """By what indices a block of this shape can stand next to another."""
    if len(shape) == len(over):
        return [""] if all(a in (1, b) for a, b in zip(shape, over, strict=True)) else []
    if len(shape) > 1:
        return []
    return [_along(axis, len(over)) for axis, n in enumerate(over) if n == shape[0]]


def _along(axis: int, rank: int) -> str:
    return "" if rank == 1 else f"[{', '.join(':' if d == axis else 'None' for d in range(rank))}]"


def _tuple(sizes) -> str:
    return f"({', '.join(map(str, sizes))},)"


def program(draw: Draw) -> str:
    warps = draw.some(1, 2, 4, 4, 8, 16, 32)
    writer = Writer(draw, draw.some(64, 512, 2048, 4096))
    for _ in range(2):
        writer.load()
    for _ in range(draw.randint(4, 14)):
        writer.step()
        if draw.yes(0.15):
            writer.block()
    for value in dict.fromkeys([writer.values[-1], *draw.sample(writer.values, 2)]):
        writer.store(value)
    span = writer.stored + 64
    programs = draw.some(1, 1, 2, 3)
    body = "\n".join(["    pid = tl.program_id(0)", *writer.lines])
    return f"""from reference import compare

{HELPERS}@triton.jit
def kernel(x, y, bits, s, o, p, q, n, SPAN: tl.constexpr):
{body}


x = tensor(1, {REACH + 512}, torch.int32, offset={draw.some(0, 1, 4)}, low=-40, high=60)[0]
y = tensor(1, {REACH + 512}, torch.float32, offset={draw.some(0, 0, 3)}, low=-60, high=60)[0] * 4
bits = torch.rand({REACH + 512}) < 0.6
s = torch.zeros({programs} * 16384, dtype=torch.int32)
o, p, q = (torch.full(({programs} * {span} + 9000,), POISON, dtype=dtype)
           for dtype in (torch.int32, torch.float32, torch.int8))
compare(kernel, ({programs},), x, y, bits, s, o, p, q, {draw.some(1, 2, 5, 16, 33, 128)}, {span},
        num_warps={warps}, num_stages={draw.some(1, 2, 3)})
"""
