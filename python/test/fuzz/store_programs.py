"""Programs of stores: their text for Triton, and an interpreter of the bytes they may leave."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

TYPES = {"int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32,
         "int64": np.int64}
HEAD = """import triton
import triton.language as tl

"""


# --- the interpreter ------------------------------------------------------------------------------


class Bytes:
    """The bytes of an array after one program, and for each all values that it may have.

    A store replaces what is ordered before it: what was there at the last barrier, and what the
    same statement stored for the same element.  Other stores leave either value.
    """

    def __init__(self, initial: np.ndarray) -> None:
        self.now = initial.copy()
        self.writer, self.phase = (np.full(len(initial), -1, np.int64) for _ in range(2))
        self.others: dict[int, set[int] | None] = {}
        """Bytes that may have several values; None: any."""

    def store(self, at: np.ndarray, values: np.ndarray, known: np.ndarray, writer: np.ndarray,
              phase: int) -> None:
        """Store bytes at flat positions; `writer` numbers the statement and its element."""
        several = np.isin(at, list(self.others))
        unordered = (self.phase[at] == phase) & ((self.writer[at] != writer) | several)
        twice = np.zeros(len(self.now), np.int64)
        np.add.at(twice, at, 1)
        odd = unordered | (twice[at] > 1) | ~known
        fresh: dict[int, set[int] | None] = {}
        for k in np.flatnonzero(odd).tolist():
            place = int(at[k])
            if place not in fresh:
                fresh[place] = self.may_be(place) if unordered[k] else set()
            before = fresh[place]
            fresh[place] = before | {int(values[k])} if known[k] and before is not None else None
        for place in at[several].tolist():
            self.others.pop(place, None)
        self.others |= fresh
        self.now[at], self.writer[at], self.phase[at] = values, writer, phase

    def may_be(self, place: int) -> set[int] | None:
        return self.others.get(place, {int(self.now[place])})


def wrong_places(found: np.ndarray, initial: np.ndarray, programs: list[Bytes]) -> list[int]:
    """Positions of bytes that no order of the programs' stores leaves."""
    written = np.array([p.phase >= 0 for p in programs])
    right = ~written.any(0) & (found == initial)
    for p, own in zip(programs, written, strict=True):
        right |= own & (found == p.now)
    return [k for k in np.flatnonzero(~right).tolist()
            if not any(p.may_be(k) is None or int(found[k]) in (p.may_be(k) or ())
                       for p, own in zip(programs, written, strict=True) if own[k])]


@dataclass
class Machine:
    """Memory, arguments and variables while a program runs."""

    memory: dict[str, Bytes]
    arguments: dict[str, int]
    program: int = 0
    phase: int = 0
    variables: dict[str, Block] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, x: int | str) -> int:
        return x if isinstance(x, int) else self.numbers.get(x, self.arguments.get(x, 0))


@dataclass(frozen=True)
class Block:
    """Numbers of a block, and which of them are known."""

    values: np.ndarray
    known: np.ndarray


def wrapped(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "int1":
        return (values != 0).astype(np.int64)
    return values.astype(TYPES[dtype]).astype(np.int64)


# --- programs -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Index:
    """`sum of ranges * strides + start + program_id * step + k * turn`: literals or arguments."""

    shape: tuple[int, ...]
    strides: tuple[int | str, ...]
    start: int | str
    step: int | str
    turn: int | str = 0

    def text(self) -> str:
        terms = [_range(self.shape, d) + ("" if s == 1 else f" * {s}")
                 for d, s in enumerate(self.strides)]
        terms += [f"{self.start}", f"pid * {self.step}"]
        return " + ".join(terms + ([f"k * {self.turn}"] if self.turn != 0 else []))

    def run(self, m: Machine) -> np.ndarray:
        at = np.full(self.shape, m.number(self.start) + m.program * m.number(self.step)
                     + m.number("k") * m.number(self.turn), np.int64)
        for grid, stride in zip(np.indices(self.shape), self.strides, strict=True):
            at = at + grid * m.number(stride)
        return at


def _range(shape: tuple[int, ...], d: int) -> str:
    spread = ", ".join(":" if e == d else "None" for e in range(len(shape)))
    return f"tl.arange(0, {shape[d]})[{spread}]"


@dataclass(frozen=True)
class Mask:
    """Bounds of axes, a bit of a variable, or a condition on an argument; all hold."""

    shape: tuple[int, ...]
    bounds: tuple[tuple[int, int | str], ...] = ()
    data: str = ""
    above: str = ""

    def text(self) -> str:
        parts = [f"({_range(self.shape, d)} < {n})" for d, n in self.bounds]
        parts += [f"(({self.data}.to(tl.int32) & 1) == 0)"] if self.data else []
        parts += [f"({self.above} > 2)"] if self.above else []
        return " & ".join(parts)

    def run(self, m: Machine) -> Block:
        inside, known = np.ones(self.shape, bool), np.ones(self.shape, bool)
        grids = np.indices(self.shape)
        for d, n in self.bounds:
            inside &= grids[d] < m.number(n)
        if self.data:
            inside &= m.variables[self.data].values & 1 == 0
            known = m.variables[self.data].known
        if self.above:
            inside &= m.number(self.above) > 2
        return Block(inside, known)


@dataclass(frozen=True)
class Place:
    """An array, its elements taken for `dtype`."""

    array: str
    dtype: str
    cast: bool = False

    def text(self) -> str:
        return f"{self.array}.to(tl.pointer_type(tl.{self.dtype}))" if self.cast else self.array

    @property
    def size(self) -> int:
        return np.dtype(TYPES[self.dtype]).itemsize

    def bytes_at(self, elements: np.ndarray) -> np.ndarray:
        return elements.reshape(-1, 1) * self.size + np.arange(self.size)


@dataclass(frozen=True)
class Load:
    name: str
    place: Place
    index: Index
    mask: Mask | None
    other: int

    def lines(self) -> Iterator[str]:
        under = "" if self.mask is None else f", mask={self.mask.text()}, other={self.other}"
        yield f"{self.name} = tl.load({self.place.text()} + {self.index.text()}{under})"

    def run(self, m: Machine) -> None:
        inside = Block(np.ones(self.index.shape, bool), np.ones(self.index.shape, bool))
        inside = inside if self.mask is None else self.mask.run(m)
        at = np.where(inside.values, self.index.run(m), 0)
        memory = m.memory[self.place.array]
        where = self.place.bytes_at(at)
        raw = np.ascontiguousarray(memory.now[where]).view(TYPES[self.place.dtype])
        values = raw.reshape(self.index.shape).astype(np.int64)
        unsure = np.isin(where, list(memory.others)).any(1).reshape(self.index.shape)
        other = wrapped(np.array(self.other), self.place.dtype)
        m.variables[self.name] = Block(
            np.where(inside.values, values, other), inside.known & ~(unsure & inside.values))


@dataclass(frozen=True)
class Made:
    """A variable made of another one, by text and by what numpy makes of it."""

    name: str
    text: str
    make: Callable[[Machine], Block]

    def lines(self) -> Iterator[str]:
        yield f"{self.name} = {self.text}"

    def run(self, m: Machine) -> None:
        m.variables[self.name] = self.make(m)


@dataclass(frozen=True)
class Store:
    number: int
    value: str
    place: Place
    index: Index
    mask: Mask | None

    def lines(self) -> Iterator[str]:
        under = "" if self.mask is None else f", mask={self.mask.text()}"
        value = f"{self.value}.to(tl.{self.place.dtype})"
        yield f"tl.store({self.place.text()} + {self.index.text()}, {value}{under})"

    def run(self, m: Machine) -> None:
        inside = Block(np.ones(self.index.shape, bool), np.ones(self.index.shape, bool))
        inside = inside if self.mask is None else self.mask.run(m)
        _store(m, self, self.index.run(m), inside)


def _store(m: Machine, to: Store | Box, at: np.ndarray, inside: Block) -> None:
    """Store a block; an element whose mask is not known leaves any value."""
    value = m.variables[to.value]
    taken = (inside.values | ~inside.known).reshape(-1)
    raw = wrapped(value.values, to.place.dtype).astype(TYPES[to.place.dtype]).reshape(-1)
    writer = to.number * 8192 + np.arange(at.size)
    m.memory[to.place.array].store(
        to.place.bytes_at(at)[taken].reshape(-1),
        np.ascontiguousarray(raw[taken]).view(np.uint8),
        np.repeat((value.known & inside.known).reshape(-1)[taken], to.place.size),
        np.repeat(writer[taken], to.place.size), m.phase)


@dataclass(frozen=True)
class Box:
    """A store by a descriptor; rows and columns outside of its shape are not stored."""

    number: int
    value: str
    place: Place
    block: tuple[int, int]
    pitch: int | str
    start: int
    step: int
    height: str
    width: str
    row: str
    column: str

    def lines(self) -> Iterator[str]:
        yield (f"d{self.number} = tl.make_tensor_descriptor({self.place.text()} + {self.start} + "
               f"pid * {self.step}, shape=[{self.height}, {self.width}], strides=[{self.pitch}, 1],"
               f" block_shape=[{self.block[0]}, {self.block[1]}])")
        yield (f"d{self.number}.store([{self.row}, {self.column}], "
               f"{self.value}.to(tl.{self.place.dtype}))")

    def run(self, m: Machine) -> None:
        rows, columns = np.indices(self.block)
        rows, columns = rows + m.number(self.row), columns + m.number(self.column)
        inside = (rows < m.number(self.height)) & (columns < m.number(self.width))
        at = self.start + m.program * self.step + rows * m.number(self.pitch) + columns
        _store(m, self, at, Block(inside, np.ones(self.block, bool)))


@dataclass(frozen=True)
class Call:
    """A function, not inlined, that loads a block and stores it."""

    name: str
    load: Load
    store: Store

    def arguments(self) -> list[str]:
        numbers = [x for i in (self.load.index, self.store.index)
                   for x in (*i.strides, i.start, i.step, i.turn)]
        for mask in filter(None, (self.load.mask, self.store.mask)):
            numbers += [*(n for _, n in mask.bounds), mask.above]
        arrays = self.load.place.array, self.store.place.array
        return list(dict.fromkeys(
            [*arrays, "pid", "k", *(n for n in numbers if isinstance(n, str) and n)]))

    def lines(self) -> Iterator[str]:
        yield f"{self.name}({', '.join(self.arguments())})"

    def function(self) -> str:
        lines = "".join(f"    {x}\n" for s in (self.load, self.store) for x in s.lines())
        return (f"@triton.jit(noinline=True)\n"
                f"def {self.name}({', '.join(self.arguments())}):\n{lines}\n\n")

    def run(self, m: Machine) -> None:
        self.load.run(m)
        self.store.run(m)


@dataclass(frozen=True)
class Barrier:
    def lines(self) -> Iterator[str]:
        yield "tl.debug_barrier()"

    def run(self, m: Machine) -> None:
        m.phase += 1


@dataclass(frozen=True)
class If:
    above: str
    then: list[Any]
    otherwise: list[Any]

    def lines(self) -> Iterator[str]:
        yield f"if {self.above} > 2:"
        yield from _indented(self.then)
        if self.otherwise:
            yield "else:"
            yield from _indented(self.otherwise)

    def run(self, m: Machine) -> None:
        for x in self.then if m.number(self.above) > 2 else self.otherwise:
            x.run(m)


@dataclass(frozen=True)
class Loop:
    """`for` or `while` over `k`, which is 0 elsewhere."""

    count: str
    body: list[Any]
    word: str

    def lines(self) -> Iterator[str]:
        if self.word == "for":
            yield f"for k in range({self.count}):"
            yield from _indented(self.body)
        else:
            yield f"while k < {self.count}:"
            yield from _indented(self.body)
            yield "    k += 1"
        yield "k = 0"

    def run(self, m: Machine) -> None:
        for k in range(m.number(self.count)):
            m.numbers["k"] = k
            for x in self.body:
                x.run(m)
        m.numbers["k"] = 0


def _indented(body: list[Any]) -> Iterator[str]:
    for x in body:
        yield from (f"    {line}" for line in x.lines())


@dataclass(frozen=True)
class Program:
    body: list[Any]
    arrays: dict[str, str]
    draws: list[Callable[[random.Random], dict[str, int]]]
    grid: int
    warps: int
    whole: bool
    """All arrays begin at multiples of 64 bytes."""

    def arguments(self, rng: random.Random) -> dict[str, int]:
        return {name: x for draw in self.draws for name, x in draw(rng).items()}

    def text(self) -> str:
        names = [*self.arrays, *self.arguments(random.Random(0))]
        helpers = "".join(s.function() for s in everything(self.body) if isinstance(s, Call))
        lines = ["pid = tl.program_id(0)", "k = 0", *(x for s in self.body for x in s.lines())]
        return (f"{HEAD}\n{helpers}@triton.jit(do_not_specialize={names!r}, "
                f"do_not_specialize_on_alignment={names!r})\ndef kernel({', '.join(names)}):\n"
                + "".join(f"    {line}\n" for line in lines))

    def run(self, memory: dict[str, np.ndarray], arguments: dict[str, int]) -> list[Machine]:
        """What each program leaves, were it alone."""
        machines = [Machine({name: Bytes(array.view(np.uint8)) for name, array in memory.items()},
                            arguments, program) for program in range(self.grid)]
        for m in machines:
            for x in self.body:
                x.run(m)
        return machines


def everything(body: list[Any]) -> Iterator[Any]:
    for x in body:
        yield x
        for part in ("then", "otherwise", "body"):
            yield from everything(getattr(x, part, []))
        if isinstance(x, Call):
            yield x.store
