"""Random programs over integers of few bits, and what they compute for every input.

A program is ttgir with operations on integers of 3 to 8 bits: scalars that it is given, ranges,
constants, shapes, arithmetic, casts, choices and loops.  `Runs` evaluates it with Python's integers
for all inputs at once, as each operation is defined: independent of the rules of the compiler.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.arith import IntegerOverflowFlag
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from python.test.lowering.module_text import attributes
from triton_xe.dialects import arith_ext
from triton_xe.dialects.tt import ops as tt
from triton_xe.lowering.facts.values import bits_of, constant_of, shape_of

Numbers = np.ndarray[Any, Any]
HEAD = """#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [1], \
order = [0]}>
#p = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 16], warpsPerCTA = [1, 1], \
order = [1, 0]}>
#c = #ttg.slice<{dim = 0, parent = #p}>
#r = #ttg.slice<{dim = 1, parent = #p}>
""" + attributes(warps=1) + """ {
"""
BINARY = ("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli",
          "shrsi", "shrui", "maxsi", "minsi", "maxui", "minui")
LIKELY = ("addi", "addi", "subi", "muli", "divsi", "remsi", "divui", "remui")
_RING = ("addi", "subi", "muli")
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


@dataclass(frozen=True)
class Typed:
    """A name in a program, its bits, shape and layout."""

    name: str
    bits: int
    shape: tuple[int, ...] = ()
    layout: str = "#b"

    @property
    def kind(self) -> str:
        shape = "".join(f"{size}x" for size in self.shape)
        return f"tensor<{shape}i{self.bits}, {self.layout}>" if shape else f"i{self.bits}"


@dataclass
class Writer:
    """Writes a random program line by line."""

    draw: random.Random
    lines: list[str] = field(default_factory=list)
    values: list[Typed] = field(default_factory=list)

    def new(self, text: str, bits: int, shape: tuple[int, ...] = (), layout: str = "#b") -> Typed:
        made = Typed(f"%v{len(self.lines)}", bits, shape, layout)
        self.lines.append(f"{made.name} = {text.replace('KIND', made.kind)}")
        self.values.append(made)
        return made

    def constant(self, bits: int, like: Typed | None = None) -> Typed:
        if self.draw.random() < 0.7:
            number = self.draw.choice([0, 1, 2, 4, 8, 3, -1, -4, 1 << bits - 1, 16])
        else:
            number = self.draw.randrange(-(1 << bits - 1), 1 << bits - 1)
        number = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        shape, layout = (like.shape, like.layout) if like else ((), "#b")
        text = f"dense<{number}>" if shape else str(number)
        return self.new(f"arith.constant {text} : KIND", bits, shape, layout)

    def like(self, value: Typed) -> Typed:
        """Another value of the same type."""
        same = [v for v in self.values if v.kind == value.kind]
        if self.draw.random() < 0.5:
            return self.draw.choice(same)
        scalars = [v for v in self.values if v.kind == f"i{value.bits}"]
        if value.shape and scalars and self.draw.random() < 0.6:
            source = self.draw.choice(scalars)
            return self.new(f"tt.splat {source.name} : {source.kind} -> KIND", value.bits,
                            value.shape, value.layout)
        return self.constant(value.bits, value)

    def step(self) -> None:
        """Write one operation."""
        value = self.draw.choice(self.values[-4:] if self.draw.random() < 0.7 else self.values)
        choice = self.draw.random()
        if choice < 0.62:
            self.binary(value)
        elif choice < 0.8:
            self.cast(value)
        elif choice < 0.9:
            self.choose(value)
        elif not value.shape:
            self.new(f"tt.splat {value.name} : {value.kind} -> KIND", value.bits, (8,))
        else:
            self.binary(value)

    def binary(self, value: Typed) -> None:
        other, name = self.like(value), self.draw.choice(LIKELY + BINARY)
        pair = (value, other) if self.draw.random() < 0.7 else (other, value)
        flag = name in _RING and self.draw.random() < 0.15
        self.new(f"arith.{name} {pair[0].name}, {pair[1].name}{' overflow<nsw>' * flag} : KIND",
                 value.bits, value.shape, value.layout)

    def cast(self, value: Typed) -> None:
        bits = self.draw.choice([b for b in (3, 4, 5, 6, 8) if b != value.bits])
        name = self.draw.choice(("extsi", "extui")) if bits > value.bits else "trunci"
        self.new(f"arith.{name} {value.name} : {value.kind} to KIND", bits, value.shape,
                 value.layout)

    def choose(self, value: Typed) -> None:
        other, predicate = self.like(value), self.draw.choice(PREDICATES)
        test = self.new(f"arith.cmpi {predicate}, {value.name}, {other.name} : {value.kind}", 1,
                        value.shape, value.layout)
        self.values.remove(test)
        one, two = self.like(value), self.like(value)
        kind = f"{test.kind}, {one.kind}" if value.shape else one.kind
        self.new(f"arith.select {test.name}, {one.name}, {two.name} : {kind}", value.bits,
                 value.shape, value.layout)

    def loop(self) -> None:
        """A loop that carries one value, through a few operations."""
        carried = self.draw.choice(self.values)
        scalars = [v for v in self.values if not v.shape]
        bits = self.draw.choice(scalars).bits
        bounds = [self.draw.choice([v for v in scalars if v.bits == bits])
                  if self.draw.random() < 0.3 else self.constant(bits) for _ in range(2)]
        step = self.new(f"arith.constant {self.draw.choice((1, 2, 3))} : KIND", bits)
        place = len(self.lines)
        name = f"%v{place}"
        head = (f"{name} = scf.for %i{place} = {bounds[0].name} to {bounds[1].name} step "
                f"{step.name} iter_args(%a{place} = {carried.name}) -> ({carried.kind}) "
                f": i{bits} {{")
        outside = list(self.values)
        self.lines.append(head)
        inner = Typed(f"%a{place}", carried.bits, carried.shape, carried.layout)
        self.values += [Typed(f"%i{place}", bits), inner]
        for _ in range(self.draw.choice((1, 2))):
            self.binary(inner if self.draw.random() < 0.7 else self.draw.choice(self.values))
        ends = [v for v in self.values if v.kind == carried.kind and v not in outside]
        self.lines.append(f"scf.yield {self.draw.choice(ends).name} : {carried.kind}\n}}")
        self.values = [*outside, Typed(name, carried.bits, carried.shape, carried.layout)]


def program(seed: int) -> str:
    """A random program of up to six operations beside its ranges, constants and casts."""
    draw = random.Random(seed)
    write = Writer(draw)
    kinds = [draw.choice((3, 4, 4, 5, 6)) for _ in range(draw.choice((1, 2)))]
    write.values += [Typed(f"%x{i}", bits) for i, bits in enumerate(kinds)]
    start = draw.choice((0, 0, 0, 8, 4, 3))
    row = write.new(f"tt.make_range {{start = {start} : i32, end = {start + 8} : i32}} : KIND", 32,
                    (8,))
    write.new(f"arith.trunci {row.name} : {row.kind} to KIND", draw.choice(kinds), (8,))
    if draw.random() < 0.25:
        _plane(write, kinds[0])
    write.values = [v for v in write.values if v.bits < 32]
    looped = draw.random() < 0.3
    for number in range(draw.randrange(2, 7)):
        if looped and number == 1:
            write.loop()
        write.step()
    arguments = ", ".join(
        f"%x{i}: i{bits}" + (" {tt.divisibility = 4 : i32}" if draw.random() < 0.2 else "")
        for i, bits in enumerate(kinds))
    body = "\n".join(write.lines)
    return f"{HEAD}tt.func public @f({arguments}) {{\n{body}\ntt.return\n}}\n}}\n"


def _plane(write: Writer, bits: int) -> None:
    """Rows and columns of a tensor of two dimensions."""
    parts = []
    for axis, (size, layout) in enumerate(((4, "#r"), (8, "#c"))):
        line = write.new(f"tt.make_range {{start = 0 : i32, end = {size} : i32}} : KIND", 32,
                         (size,), layout)
        small = write.new(f"arith.trunci {line.name} : {line.kind} to KIND", bits, (size,), layout)
        shape = (4, 1) if axis == 0 else (1, 8)
        wide = write.new(f"tt.expand_dims {small.name} {{axis = {1 - axis} : i32}} : {small.kind} "
                         "-> KIND", bits, shape, "#p")
        parts.append(write.new(f"tt.broadcast {wide.name} : {wide.kind} -> KIND", bits, (4, 8),
                               "#p"))
    by = write.constant(bits, parts[0])
    scaled = write.new(f"arith.muli {parts[0].name}, {by.name} : KIND", bits, (4, 8), "#p")
    write.new(f"arith.addi {scaled.name}, {parts[1].name} : KIND", bits, (4, 8), "#p")


# -- evaluation ------------------------------------------------------------------------------------


def signed(x: Numbers, bits: int) -> Numbers:
    half = 1 << bits - 1
    return (x + half) % (2 * half) - half


def _unsigned(x: Numbers, bits: int) -> Numbers:
    return x % (1 << bits)


def _cut(x: Numbers, y: Numbers) -> Numbers:
    made: Numbers = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
    return made


@dataclass
class Sample:
    """The numbers of a value at one time, for the inputs that get there."""

    numbers: Numbers
    active: Numbers
    passed: dict[Operation, int]


class Runs:
    """All runs of a program: a row for each input.

    `defined` says for which inputs no operation is undefined: a division by zero or one that
    overflows, a shift by all bits and more, a sum that is said not to wrap around and does.
    """

    def __init__(self, function: Operation) -> None:
        block = function.regions[0].blocks[0]
        sizes = [bits_of(x) for x in block.args]
        axes = [np.arange(-(1 << bits - 1), 1 << bits - 1) for bits in sizes]
        steps = [_stated(function, i) for i in range(len(sizes))]
        axes = [axis[axis % step == 0] for axis, step in zip(axes, steps, strict=True)]
        grids = [grid.ravel() for grid in np.meshgrid(*axes, indexing="ij")]
        self.count = len(grids[0])
        self.defined = np.ones(self.count, bool)
        self.samples: dict[SSAValue, list[Sample]] = {}
        self._now: dict[SSAValue, Numbers] = {}
        self._passed: dict[Operation, int] = {}
        everybody = np.ones(self.count, bool)
        for argument, numbers in zip(block.args, grids, strict=True):
            self._set(argument, numbers, everybody)
        self._run(block, everybody)

    def _set(self, value: SSAValue, numbers: Numbers, active: Numbers) -> None:
        self._now[value] = numbers
        self.samples.setdefault(value, []).append(Sample(numbers, active, dict(self._passed)))

    def _run(self, block: Block, active: Numbers) -> None:
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                self._loop(op, active)
            elif op.results:
                self._set(op.results[0], self._result(op, active), active)

    def _loop(self, loop: scf.ForOp, active: Numbers) -> None:
        low, high, step = (self._now[v] for v in loop.operands[:3])
        self._undefined(step <= 0, active)
        step = np.maximum(step, 1)
        block, (held,) = loop.body.block, (self._now[v] for v in loop.iter_args)
        at, number = low, 0
        while (inside := active & (at < high)).any():
            self._passed[loop] = number
            self._set(block.args[0], at, inside)
            self._set(block.args[1], held, inside)
            self._run(block, inside)
            assert block.last_op is not None
            new = self._now[block.last_op.operands[0]]
            held = np.where(inside.reshape(self.count, *(1,) * (held.ndim - 1)), new, held)
            at, number = at + step, number + 1
        self._passed.pop(loop, None)
        self._set(loop.results[0], held, active)

    def _undefined(self, where: Numbers, active: Numbers) -> None:
        self.defined &= ~(where.reshape(self.count, -1).any(1) & active)

    def _result(self, op: Operation, active: Numbers) -> Numbers:
        (result,), given = op.results, [self._now[v] for v in op.operands]
        bits, shape = bits_of(result), shape_of(result)
        constant = constant_of(result)
        if constant is not None:
            return np.full((self.count, *shape), signed(np.array(constant), bits))
        match op:
            case tt.MakeRangeOp():
                row = np.arange(op.start.value.data, op.end.value.data)
                return np.broadcast_to(row, (self.count, *shape))
            case tt.SplatOp():
                return np.broadcast_to(
                    given[0].reshape(self.count, *(1,) * len(shape)), (self.count, *shape))
            case tt.ExpandDimsOp():
                return np.expand_dims(given[0], op.axis.value.data + 1)
            case tt.BroadcastOp():
                return np.broadcast_to(given[0], (self.count, *shape))
            case arith_ext.ExtSIOp():
                return given[0]
            case arith_ext.ExtUIOp():
                return _unsigned(given[0], bits_of(op.operands[0]))
            case arith_ext.TruncIOp():
                return signed(given[0], bits)
            case arith_ext.CmpiOp():
                return -_compare(op.comparison, *given, bits_of(op.operands[0])).astype(np.int64)
            case arith_ext.SelectOp():
                return np.where(given[0] != 0, given[1], given[2])
        return self._binary(op, *given, bits, active)

    def _binary(
        self, op: Operation, x: Numbers, y: Numbers, bits: int, active: Numbers
    ) -> Numbers:
        name = op.name.removeprefix("arith.")
        if name in ("divsi", "remsi", "divui", "remui"):
            least = -(1 << bits - 1)
            overflows = (x == least) & (y == -1) & (name[-2] == "s")
            self._undefined((y == 0) | overflows, active)
            y = np.where(y == 0, 1, y)
        if name in ("shli", "shrsi", "shrui"):
            self._undefined((y < 0) | (y >= bits), active)
            y = np.clip(y, 0, bits - 1)
        if name in ("divui", "remui", "shrui", "maxui", "minui"):
            x, y = _unsigned(x, bits), _unsigned(y, bits)
        made = signed(_COMPUTE[name](x, y), bits)
        if IntegerOverflowFlag.NSW in getattr(op.properties.get("overflowFlags"), "data", ()):
            self._undefined(made != _COMPUTE[name](x, y), active)
        return made


_COMPUTE: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "andi": np.bitwise_and,
    "ori": np.bitwise_or, "xori": np.bitwise_xor, "shli": np.left_shift,
    "shrsi": np.right_shift, "shrui": np.right_shift, "maxsi": np.maximum, "minsi": np.minimum,
    "maxui": np.maximum, "minui": np.minimum, "divsi": _cut, "divui": np.floor_divide,
    "remsi": lambda x, y: x - _cut(x, y) * y, "remui": np.remainder,
}


def _compare(predicate: str, x: Numbers, y: Numbers, bits: int) -> Numbers:
    if predicate[0] == "u":
        x, y = _unsigned(x, bits), _unsigned(y, bits)
    order = predicate[-2:]
    made: Numbers = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                     "gt": np.greater, "ge": np.greater_equal}[order](x, y)
    return made


def _stated(function: Operation, place: int) -> int:
    held = function.arg_attrs  # type: ignore[attr-defined]
    found = None if held is None else held.data[place].data.get("tt.divisibility")
    return found.value.data if isinstance(found, IntegerAttr) else 1
