"""Random kernels as Python source: any types, shapes, control flow and operations that belong
together.  A kernel is drawn from its seed alone.
"""

import random
from dataclasses import dataclass

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SMALL_FLOATS = ("float8e5", "float8e4nv")
DTYPES = ("int1", *INTEGERS, *FLOATS, *SMALL_FLOATS)
SIGNATURE = {
    "int1": "i1", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8e5": "fp8e5", "float8e4nv": "fp8e4nv",
    **{name: name.replace("uint", "u").replace("int", "i") for name in INTEGERS},
}
BITS = {"int1": 8, "bfloat16": 16, "float8e5": 8, "float8e4nv": 8,
        **{n: int("".join(filter(str.isdigit, n))) for n in (*INTEGERS, *FLOATS) if n[-1].isdigit()
           and n != "bfloat16"}}
HEAD = """import triton
import triton.language as tl


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def pair_add(a, b, c, d):
    return a + c, b ^ d


@triton.jit(noinline=True)
def apart(a, b):
    if b > 3:
        a = a + b
    return a * 2
"""


@dataclass(frozen=True)
class Kernel:
    """`source` defines `kernel`; the rest is how to compile it."""

    source: str
    signature: dict[str, str]
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class Value:
    """A variable of the kernel; `shape` is () for a scalar."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        return self.dtype in INTEGERS


class Writer:
    """Writes one kernel, a statement after the other."""

    def __init__(self, rng: random.Random, doubles: bool = True) -> None:
        self.rng = rng
        self.dtypes = DTYPES if doubles else tuple(d for d in DTYPES if d != "float64")
        self.lines: list[str] = []
        self.indent = 1
        self.pool: list[Value] = []
        self.count = 0
        self.pointers = {f"p{i}": rng.choice(self.dtypes) for i in range(4)} | {"out": "float32"}
        self.shapes = self._some_shapes()

    def _some_shapes(self) -> list[tuple[int, ...]]:
        a, b, c = (self.rng.choice((1, 2, 4, 8, 16, 32, 64)) for _ in range(3))
        flat = self.rng.choice((16, 32, 64, 128, 256, 512, 1024, 2048, 4096))
        return [(flat,), (a, b), (b, a), (a * b,), (16, 32), (32, 16), (a, 4, c // 4 or 1)]

    # -- values --------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def new(self, dtype: str, shape: tuple[int, ...], text: str) -> Value:
        value = Value(f"v{self.count}", dtype, shape)
        self.count += 1
        self.line(f"{value.name} = {text}")
        self.pool.append(value)
        return value

    def any(self, *, dtypes=None, shape=None) -> Value | None:
        found = [v for v in self.pool if (dtypes is None or v.dtype in dtypes)
                 and (shape is None or v.shape == shape)]
        return self.rng.choice(found[-8:]) if found else None

    def tensor(self, dtypes=None, rank=None) -> Value | None:
        found = [v for v in self.pool if v.shape and (dtypes is None or v.dtype in dtypes)
                 and (rank is None or len(v.shape) == rank)]
        return self.rng.choice(found[-8:]) if found else None

    def cast(self, value: Value, dtype: str) -> Value:
        """The value as `dtype`; fp8 types are reached from fp32 and left to it."""
        if value.dtype == dtype:
            return value
        if dtype in SMALL_FLOATS and value.dtype != "float32":
            value = self.cast(value, "float32")
        if value.dtype in SMALL_FLOATS and dtype != "float32":
            value = self.cast(value, "float32")
        return self.new(dtype, value.shape, f"{value.name}.to(tl.{dtype})")

    def mate(self, value: Value) -> Value:
        """Another value of the same type, or the value itself."""
        other = self.any(shape=value.shape)
        return self.cast(other, value.dtype) if other else value

    def offsets(self, shape: tuple[int, ...]) -> str:
        """Offsets of a tensor of this shape: a walk with strides, or values from memory."""
        rank, terms, stride = len(shape), [], 1
        for axis in reversed(range(rank)):
            at = "".join(", :" if d == axis else ", None" for d in range(rank))[2:]
            spread = f"[{at}]" if rank > 1 else ""
            terms.append(f"tl.arange(0, {shape[axis]}){spread} * {self.rng.choice((stride, 's'))}")
            stride *= shape[axis]
        index = self.any(dtypes=("int32", "int64"), shape=shape)
        if index and self.rng.random() < 0.2:
            return index.name
        return " + ".join([self.rng.choice(("n", "tl.program_id(0) * 64", "0")), *terms])

    def mask(self, shape: tuple[int, ...]) -> str:
        held = self.any(dtypes=("int1",), shape=shape)
        return f"mask={held.name}" if held and self.rng.random() < 0.5 else ""

    # -- statements ----------------------------------------------------------------------------

    def load(self) -> None:
        pointer, dtype = self.rng.choice(list(self.pointers.items()))
        shape = self.rng.choice([*self.shapes, ()])
        if not shape:
            self.new(dtype, (), f"tl.load({pointer} + {self.rng.choice(('n', 3))})")
            return
        mask = self.mask(shape)
        if mask and self.rng.random() < 0.5 and dtype not in SMALL_FLOATS:
            mask += ", other=0"
        address = f"{pointer} + ({self.offsets(shape)})"
        self.new(dtype, shape, f"tl.load({address}{', ' if mask else ''}{mask})")

    def store(self) -> None:
        value = self.tensor()
        if value is None:
            return
        pointer, dtype = self.rng.choice(list(self.pointers.items()))
        value = self.cast(value, dtype)
        mask = self.mask(value.shape)
        self.line(f"tl.store({pointer} + ({self.offsets(value.shape)}), {value.name}"
                  f"{', ' if mask else ''}{mask})")

    def change_type(self) -> None:
        value = self.any()
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            value = self.cast(value, self.rng.choice(self.dtypes))

    def bits(self) -> None:
        value = self.any(dtypes=(*INTEGERS, *FLOATS))
        if value:
            into = [d for d in self.dtypes if BITS[d] == BITS[value.dtype] and d != "int1"]
            dtype = self.rng.choice(into)
            self.new(dtype, value.shape, f"{value.name}.to(tl.{dtype}, bitcast=True)")

    def arithmetic(self) -> None:
        value = self.any(dtypes=(*INTEGERS, *FLOATS))
        if value is None:
            return
        other = self.mate(value)
        signs = ["+", "-", "*"] + (["/"] if value.is_float else ["&", "|", "^", "//", "%"])
        constant = str(self.rng.choice((1, 2, 3, 5, 7, 100)))
        right = self.rng.choice((other.name, other.name, constant))
        if value.is_integer and self.rng.random() < 0.2:
            right = str(self.rng.randrange(BITS[value.dtype]))
            signs = ["<<", ">>"]
        made = self.new(value.dtype, value.shape, f"{value.name} {self.rng.choice(signs)} {right}")
        if value.dtype in ("float16", "bfloat16"):  # quotients of these are float32
            self.pool[-1:] = []
            self.pool.append(self.new(value.dtype, value.shape, f"{made.name}.to(tl.{made.dtype})"))

    def logic(self) -> None:
        value = self.any(dtypes=("int1",))
        if value:
            other = self.mate(value)
            sign = self.rng.choice(("&", "|", "^"))
            self.new("int1", value.shape, f"{value.name} {sign} {other.name}")

    def compare(self) -> None:
        value = self.any(dtypes=(*INTEGERS, *FLOATS))
        if value:
            right = self.rng.choice((self.mate(value).name, "3"))
            sign = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
            self.new("int1", value.shape, f"{value.name} {sign} {right}")

    def select(self) -> None:
        test = self.tensor(("int1",))
        value = test and self.any(dtypes=(*INTEGERS, *FLOATS), shape=test.shape)
        if value:
            right = self.rng.choice((self.mate(value).name, self.mate(value).name, "1"))
            made = self.new(value.dtype, value.shape,
                            f"tl.where({test.name}, {value.name}, {right}).to(tl.{value.dtype})")
            assert made.shape

    def function(self) -> None:
        value = self.any(dtypes=("float32", "float64"))
        if value:
            name = self.rng.choice(("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt",
                                    "erf", "floor", "ceil", "abs", "sqrt_rn"))
            if name == "sqrt_rn":
                value = self.cast(value, "float32")
            self.new(value.dtype, value.shape, f"tl.{name}({value.name})")

    def two_to_one(self) -> None:
        value = self.any(dtypes=(*FLOATS, *INTEGERS))
        if value is None:
            return
        other = self.mate(value)
        name = self.rng.choice(("maximum", "minimum", "fma", "abs", "cdiv", "umulhi", "clamp"))
        a, b = value.name, other.name
        if name == "fma" and value.is_float:
            self.new(value.dtype, value.shape, f"tl.fma({a}, {b}, {a})")
        elif name == "clamp" and value.is_float:
            self.new(value.dtype, value.shape,
                     f"tl.clamp({a}.to(tl.float32), -1.0, 1.0).to(tl.{value.dtype})")
        elif name == "umulhi" and value.dtype in ("int32", "uint32", "int64", "uint64"):
            self.new(value.dtype, value.shape, f"tl.umulhi({a}, {b}).to(tl.{value.dtype})")
        elif name == "abs":
            self.new(value.dtype, value.shape, f"tl.abs({a})")
        elif name in ("maximum", "minimum") and value.dtype != "bfloat16":
            self.new(value.dtype, value.shape, f"tl.{name}({a}, {b}).to(tl.{value.dtype})")

    def reduce(self) -> None:
        value = self.tensor((*INTEGERS, *FLOATS))
        if value is None:
            return
        axis = self.rng.randrange(len(value.shape))
        shape = value.shape[:axis] + value.shape[axis + 1:]
        name = self.rng.choice(("sum", "max", "min", "argmax", "xor_sum", "add", "larger"))
        dtype = value.dtype
        if name in ("add", "larger"):
            text = f"tl.reduce({value.name}, {axis}, {name})"
        elif name == "xor_sum" and not value.is_integer:
            return
        elif name == "argmax":
            text, dtype = f"tl.argmax({value.name}, {axis})", "int32"
        else:
            text = f"tl.{name}({value.name}, {axis}).to(tl.{dtype})"
        self.new(dtype, shape, text)

    def scan(self) -> None:
        value = self.tensor((*INTEGERS, "float32"))
        if value is None:
            return
        axis, reverse = self.rng.randrange(len(value.shape)), self.rng.choice((True, False))
        name = self.rng.choice(("cumsum", "add", "larger"))
        if name == "cumsum":
            text = f"tl.cumsum({value.name}, {axis}, reverse={reverse}).to(tl.{value.dtype})"
        else:
            text = f"tl.associative_scan({value.name}, {axis}, {name}, reverse={reverse})"
        self.new(value.dtype, value.shape, text)

    def reshape(self) -> None:
        value = self.tensor()
        if value is None:
            return
        shape = list(value.shape)
        size = 1
        for length in shape:
            size *= length
        how = self.rng.choice(("trans", "flat", "matrix", "halves", "join", "flip"))
        if how == "trans" and len(shape) == 2:
            self.new(value.dtype, (shape[1], shape[0]), f"tl.trans({value.name})")
        elif how == "flat":
            self.new(value.dtype, (size,), f"tl.reshape({value.name}, ({size},))")
        elif how == "matrix" and size >= 8:
            to = (size // 4, 4) if self.rng.random() < 0.5 else (2, size // 2)
            self.new(value.dtype, to, f"tl.reshape({value.name}, {to})")
        elif how == "halves" and shape[-1] == 2:
            name = f"v{self.count}"
            self.count += 2
            self.line(f"{name}, {name}b = tl.split({value.name})")
            self.pool.append(Value(name, value.dtype, tuple(shape[:-1])))
        elif how == "join" and size <= 2048 and len(shape) < 4:
            self.new(value.dtype, (*shape, 2), f"tl.join({value.name}, {self.mate(value).name})")
        elif how == "flip" and value.dtype in (*INTEGERS, "float32"):
            self.new(value.dtype, value.shape, f"tl.flip({value.name}, {len(shape) - 1})")

    def spread(self) -> None:
        value = self.tensor(rank=1)
        other = self.tensor((*INTEGERS, *FLOATS), rank=1)
        if value is None or other is None or value.shape[0] * other.shape[0] > 4096:
            return
        a, b = value.shape[0], other.shape[0]
        value = self.cast(value, other.dtype)
        self.new(other.dtype, (a, b), f"({value.name}[:, None] + {other.name}[None, :])"
                 f".to(tl.{other.dtype})")

    def dot(self) -> None:
        """A matrix product of tiles as they come, their types made to fit."""
        left = self.tensor(rank=2)
        if left is None or min(left.shape) < 16 or left.shape[0] * left.shape[1] > 2048:
            return
        right = self.any(shape=(left.shape[1], left.shape[0])) or left
        if right is left:
            right = self.new(left.dtype, (left.shape[1], left.shape[0]), f"tl.trans({left.name})")
        if left.shape[1] < 32:
            dtype = self.rng.choice(("float16", "bfloat16", "float32"))
        else:
            dtype = self.rng.choice(("float16", "bfloat16", "float32", "int8", *SMALL_FLOATS))
        a, b = self.cast(left, dtype), self.cast(right, dtype)
        self.new("int32" if dtype == "int8" else "float32", (a.shape[0],) * 2,
                 f"tl.dot({a.name}, {b.name})")

    def gather(self) -> None:
        value = self.tensor((*INTEGERS, *FLOATS), rank=1)
        if value:
            index = self.any(dtypes=("int32",), shape=value.shape)
            if index:
                self.new(value.dtype, value.shape,
                         f"tl.gather({value.name}, {index.name} & {value.shape[0] - 1}, 0)")

    def histogram(self) -> None:
        value = self.tensor(("int32",), rank=1)
        if value:
            self.new("int32", (64,), f"tl.histogram({value.name} & 63, 64)")

    def sort(self) -> None:
        value = self.tensor(("int32", "float32", "int16"), rank=1)
        if value and 2 <= value.shape[0] <= 128:
            self.new(value.dtype, value.shape, f"tl.sort({value.name})")

    def atomic(self) -> None:
        value = self.tensor(("int32", "float32", "uint32"))
        pointer = value and next((p for p, d in self.pointers.items() if d == value.dtype), None)
        if pointer:
            names = ("add", "max", "xchg", *(("and", "xor") if value.is_integer else ()))
            name = self.rng.choice(names)
            mask = self.mask(value.shape)
            self.new(value.dtype, value.shape, f"tl.atomic_{name}({pointer} + "
                     f"({self.offsets(value.shape)}), {value.name}{', ' if mask else ''}{mask})")

    def random_numbers(self) -> None:
        value = self.tensor(("int32",))
        if value:
            self.new("float32", value.shape, f"tl.rand(17, {value.name})")

    def call(self) -> None:
        value = self.any(dtypes=("int32", "float32"), shape=())
        if value:
            self.new(value.dtype, (), f"apart({value.name}, {self.rng.choice((2, 5))})"
                     f".to(tl.{value.dtype})")

    def block(self, statements: int) -> None:
        """Statements of a region; their values end with it."""
        self.indent += 1
        held, before = list(self.pool), len(self.lines)
        for _ in range(statements):
            self.statement()
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1
        self.made, self.pool = [v for v in self.pool if v not in held], held

    def control(self) -> None:
        """A loop or a branch that carries some values."""
        if self.indent > 3:
            return
        carried = [v for v in {self.any(), self.any()} if v.dtype not in SMALL_FLOATS]
        for value in carried:  # a fresh variable, so that nothing else sees its type change
            self.new(value.dtype, value.shape, value.name)
        names = self.pool[len(self.pool) - len(carried):] if carried else []
        self.line(self.rng.choice((
            "for j in range(n):", "for j in range(0, n, 3):", "for j in tl.static_range(3):",
            "for j in tl.range(0, 5, num_stages=3):", "if n > 3:", "if s * 2 < n:",
            "while n < s:",
        )))
        is_while = self.lines[-1].endswith("while n < s:")
        self.block(self.rng.choice((1, 2, 4)))
        self.indent += 1
        for value in names:
            source = next((v for v in reversed(self.made)
                           if v.shape == value.shape and v.dtype not in SMALL_FLOATS), value)
            self.line(f"{value.name} = {source.name}.to(tl.{value.dtype})")
        if is_while:
            self.line("n = n * 2 + 1")
        self.indent -= 1

    def statement(self) -> None:
        weights = {
            self.load: 4, self.store: 2, self.change_type: 5, self.bits: 1, self.arithmetic: 8,
            self.logic: 1, self.compare: 3, self.select: 3, self.function: 2, self.two_to_one: 3,
            self.reduce: 3, self.scan: 1, self.reshape: 3, self.spread: 2, self.dot: 2,
            self.gather: 1, self.histogram: 0.3, self.sort: 0.2, self.atomic: 1,
            self.random_numbers: 0.3, self.call: 0.5, self.control: 2,
        }
        self.rng.choices(list(weights), list(weights.values()))[0]()


def kernel(seed: str, *, doubles: bool = True) -> Kernel:
    """The kernel of a seed."""
    rng = random.Random(seed)
    writer = Writer(rng, doubles)
    writer.new("int32", (), "n + 0")
    writer.new("float32", (), "f + 0")
    for _ in range(3):
        writer.load()
    for _ in range(rng.choice((3, 8, 15, 30))):
        writer.statement()
    for value in writer.pool[-3:]:
        if value.shape:
            pointer = writer.cast(value, "float32")
            writer.line(f"tl.store(out + ({writer.offsets(value.shape)}), {pointer.name})")
    arguments = [*writer.pointers, "n", "s", "f"]
    source = "\n".join([HEAD, "", "@triton.jit", f"def kernel({', '.join(arguments)}):",
                        *writer.lines, ""])
    signature = {p: f"*{SIGNATURE[d]}" for p, d in writer.pointers.items()}
    return Kernel(source, {**signature, "n": "i32", "s": "i32", "f": "fp32"},
                  rng.choice((1, 2, 4, 4, 8, 16)), rng.choice((1, 2, 3)))


def cast_chains(seed: str, count: int, lanes_hold: int, length: int = 3) -> Kernel:
    """A kernel of random chains of casts, `lanes_hold` elements per lane."""
    rng = random.Random(seed)
    return _chains([[rng.choice(DTYPES) for _ in range(rng.randint(2, length + 1))]
                    for _ in range(count)], lanes_hold)


def all_cast_chains(first: str, second: str, lanes_hold: int) -> Kernel:
    """A kernel of all chains of three casts that begin with these two types."""
    return _chains([[first, second, a, b] for a in DTYPES for b in DTYPES], lanes_hold)


def _chains(chains: list[list[str]], lanes_hold: int) -> Kernel:
    writer = Writer(random.Random(0))
    starts = {d: Value(f"x{i}", d, (16 * lanes_hold,)) for i, d in enumerate(DTYPES)}
    lines = [f"i = tl.arange(0, {16 * lanes_hold})"]
    used = list(dict.fromkeys(chain[0] for chain in chains))
    for dtype in used:
        writer.line(f"{starts[dtype].name} = tl.load(p{DTYPES.index(dtype)} + i)")
    for chain in chains:
        value = starts[chain[0]]
        for dtype in chain[1:]:
            value = writer.cast(value, dtype)
        writer.line(f"tl.store(out + i, ({value.name} == 0).to(tl.int8))"
                    if value.dtype not in SMALL_FLOATS else
                    f"tl.store(out + i, {value.name}.to(tl.int8, bitcast=True))")
    parameters = {f"p{i}": f"*{SIGNATURE[d]}" for i, d in enumerate(DTYPES)} | {"out": "*i8"}
    source = "\n".join([HEAD, "", "@triton.jit", f"def kernel({', '.join(parameters)}):",
                        *(f"    {line}" for line in lines), *writer.lines, ""])
    return Kernel(source, parameters, 1, 2)
