"""Registers of one work-item with its part of a tensor.

Registers are grouped into chunks of up to eight, each one LLVM vector, in the layout's register
order.  Chunks are written at their first use, so that index arithmetic is next to its use, which
keeps few registers live.  Chunks that a chunk depends on are written before it, without recursion,
so that code may be arbitrarily deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from triton_xe import llvm as ir
from triton_xe.lowering.emit.types import I16, I32, bits_of, vector_of
from triton_xe.lowering.emit.values import instruction_of
from triton_xe.lowering.emit.writer import Writer

CHUNK = 8
Part = tuple["Lazy", int]
"""A value that is written when it is first used."""
Needs = Callable[[int], Iterable[Part]]
Single = Callable[[int], Callable[[], ir.Operand] | None]
"""Writer of a chunk's single value, by chunk; None if its registers differ."""


class Lazy(Protocol):
    """Values that are written when they are first used, by their numbers."""

    def needs(self, index: int) -> Iterable[Part]:
        """Values that value `index` is computed from, in order."""

    def write(self, em: Writer, index: int) -> ir.Operand:
        """Write the value, unless it is visible already."""


def write_with_needs(em: Writer, lazy: Lazy, index: int) -> ir.Operand:
    """Write the values that a value depends on, then the value."""
    waiting = [] if em.knows((lazy, index)) else [(lazy, index, False)]
    while waiting:
        part, i, ready = waiting.pop()
        if ready:
            part.write(em, i)
        elif not em.knows((part, i)):
            waiting.append((part, i, True))
            waiting += [(*need, False) for need in reversed(list(part.needs(i)))]
    return lazy.write(em, index)


def _nothing(index: int) -> Iterable[Part]:
    return ()


def _different(index: int) -> None:
    return None


class Registers:
    """`count` registers of LLVM type `kind`; `make(i)` writes chunk i, of `width` registers.

    `needs(i)` are the parts of other registers that it reads.
    """

    location: int | None = None
    """Source location of instructions that are created late; None: that of the first use."""

    def __init__(
        self, count: int, kind: ir.Type, make: Callable[[int], ir.Operand], width: int = CHUNK,
        needs: Needs = _nothing, single: Single = _different,
    ) -> None:
        self.count = count
        self.kind = kind
        self.width = min(count, width)
        self._make = make
        self.needs = needs
        self.single = single

    @property
    def chunks(self) -> int:
        return self.count // self.width

    def chunk(self, em: Writer, index: int) -> ir.Operand:
        """Chunk `index` as one LLVM value."""
        return write_with_needs(em, self, index)

    def write(self, em: Writer, index: int) -> ir.Operand:
        if self.location is None:
            return em.remember((self, index), lambda: self._make(index))
        with em.b.from_location(self.location):
            return em.remember((self, index), lambda: self._make(index))

    def parts(self, *chunks: int) -> list[Part]:
        """The chunks as dependences of other values."""
        return [(self, i) for i in chunks]

    def parts_of(self, registers: Iterable[int]) -> list[Part]:
        """The chunks that these registers are in."""
        return self.parts(*dict.fromkeys(r // self.width for r in registers))

    def all_chunks(self, em: Writer) -> list[ir.Operand]:
        """Every chunk, written now."""
        return [self.chunk(em, i) for i in range(self.chunks)]

    def register(self, em: Writer, index: int) -> ir.Operand:
        """One register as a scalar."""
        if self.width == 1:
            return self.chunk(em, index)
        return em.remember(
            (self, "register", index),
            lambda: em.b.extract(
                self.chunk(em, index // self.width), index % self.width
            ),
        )

    def alone(self, em: Writer, index: int) -> ir.Operand:
        """One register as a scalar, computed without the others of its chunk if possible."""
        one = self.single(index // self.width)
        return self.register(em, index) if one is None else one()

    def slice(self, em: Writer, start: int, length: int) -> ir.Operand:
        """`length` registers from `start` as one LLVM value."""
        if length == 1:
            return self.register(em, start)
        if length == self.width and start % self.width == 0:
            return self.chunk(em, start // self.width)
        return join(em, self, list(range(start, start + length)))

    def words(self, em: Writer, start: int, length: int) -> ir.Operand:
        """`length` registers from `start` as 32-bit words, which they fill."""
        words = vector_of(I32, length * bits_of(self.kind) // 32)
        return em.b.bitcast(self.slice(em, start, length), words)

    def parts_of_words(self, start: int, length: int) -> list[Part]:
        """Parts that `words` reads."""
        return self.parts_of(range(start, start + length))


class Splat(Registers):
    """Registers that all equal one scalar, which is the same in every lane."""

    def __init__(self, count: int, scalar: ir.Operand) -> None:
        super().__init__(count, scalar.type, self._fill, single=lambda _: lambda: scalar)
        self.scalar = scalar
        self._em: Writer | None = None

    def _fill(self, index: int) -> ir.Operand:
        raise AssertionError("a splat is filled by chunk()")

    def write(self, em: Writer, index: int) -> ir.Operand:
        return em.splat(self.scalar, self.width)

    chunk = write

    def register(self, em: Writer, index: int) -> ir.Operand:
        return self.scalar

    def slice(self, em: Writer, start: int, length: int) -> ir.Operand:
        return em.splat(self.scalar, length)


NSW = ("nsw",)
"""The flag of LLVM's sums, differences and products that do not wrap around as signed numbers."""


class Picked(Registers):
    """Registers in another order: register r is register order[r] of a source."""

    def __init__(self, em: Writer, source: Registers, order: Sequence[int]) -> None:
        super().__init__(len(order), source.kind, lambda i: join(em, source, self.picked(i)),
                         needs=lambda i: source.parts_of(self.picked(i)), single=self._only)
        self.em, self.source, self.order = em, source, tuple(order)

    def picked(self, index: int) -> list[int]:
        """Numbers of the source's registers that are in chunk `index`."""
        return list(self.order[index * self.width : (index + 1) * self.width])

    def _only(self, index: int) -> Callable[[], ir.Operand] | None:
        first, *rest = self.picked(index)
        return None if any(r != first for r in rest) else (
            lambda: self.source.register(self.em, first))

    def alone(self, em: Writer, index: int) -> ir.Operand:
        return self.source.alone(em, self.order[index])


class InWords(Registers):
    """Registers of small elements, several of them in each register of `held`, in order."""

    def __init__(self, em: Writer, kind: ir.Type, held: Registers, per: int) -> None:
        super().__init__(per * held.count, kind, self._cut, per * held.width,
                         needs=lambda i: held.parts(i))
        self.em, self.held, self.per = em, held, per

    def _cut(self, index: int) -> ir.Operand:
        """One chunk of elements, taken from words."""
        return self.em.b.bitcast(
            self.held.chunk(self.em, index), vector_of(self.kind, self.width))

    def words(self, em: Writer, start: int, length: int) -> ir.Operand:
        if start % self.per or length % self.per:
            return super().words(em, start, length)
        return self.held.slice(em, start // self.per, length // self.per)

    def parts_of_words(self, start: int, length: int) -> list[Part]:
        if start % self.per or length % self.per:
            return super().parts_of_words(start, length)
        return self.held.parts_of_words(start // self.per, length // self.per)


class Halves(InWords):
    """Registers of a type of 16 bits, two of them in each register of `pairs`, in order."""

    def __init__(self, em: Writer, kind: ir.Type, pairs: Registers) -> None:
        super().__init__(em, kind, pairs, 2)
        self.pairs = pairs

    def _cut(self, index: int) -> ir.Operand:
        em = self.em
        if self.kind != I16:
            return super()._cut(index)
        first = index * self.pairs.width
        each = [self.pairs.register(em, first + i) for i in range(self.pairs.width)]
        parts = [part for word in each for part in (word, em.b.lshr(word, 16))]
        return em.pack(I16, [em.b.trunc(part, I16) for part in parts])

    def upper(self) -> Registers:
        """The registers as the upper halves of words that are zero below."""
        return Registers(self.count, I32, self._upper, self.width, self.needs)

    def _upper(self, index: int) -> ir.Operand:
        em, words, count = self.em, self.pairs.chunk(self.em, index), self.pairs.width
        low = em.b.shl(words, 16)
        high = em.b.and_(words, 0xffff0000)
        if count == 1:
            return em.pack(I32, [low, high])
        return em.shuffle(low, high, [half * count + i for i in range(count) for half in (0, 1)])


def eager(kind: ir.Type, chunks: Sequence[ir.Operand], width: int) -> Registers:
    """Registers whose chunks exist already."""
    held = list(chunks)
    return Registers(len(held) * width, kind, held.__getitem__, width)


def from_scalars(em: Writer, kind: ir.Type, scalars: Sequence[ir.Operand]) -> Registers:
    """Registers from one LLVM scalar each."""
    return _FromScalars(em, kind, scalars)


class _FromScalars(Registers):
    """Registers whose vectors are packed for each use."""

    def __init__(self, em: Writer, kind: ir.Type, scalars: Sequence[ir.Operand]) -> None:
        super().__init__(len(scalars), kind, lambda i: em.pack(
            kind, scalars[i * self.width : (i + 1) * self.width]))
        self.scalars = scalars

    def register(self, em: Writer, index: int) -> ir.Operand:
        return self.scalars[index]

    def slice(self, em: Writer, start: int, length: int) -> ir.Operand:
        if length >= self.width:
            return super().slice(em, start, length)
        return em.pack(self.kind, self.scalars[start : start + length])


def permuted(em: Writer, source: Registers, order: Sequence[int]) -> Registers:
    """Registers whose register r is register order[r] of the source."""
    if isinstance(source, Splat):
        return Splat(len(order), source.scalar)
    if list(order) == list(range(source.count)):
        return source
    return Picked(em, source, order)


def join(em: Writer, source: Registers, registers: list[int]) -> ir.Operand:
    """The named registers, in this order, as one LLVM value."""
    if len(registers) == 1:
        return source.register(em, registers[0])
    if len(set(registers)) == 1:
        return em.splat(source.register(em, registers[0]), len(registers))
    width = source.width
    homes = list(dict.fromkeys(r // width for r in registers))
    if len(homes) == 1:
        mask = [r % width for r in registers]
        chunk = source.chunk(em, homes[0])
        return chunk if mask == list(range(width)) else em.shuffle(chunk, chunk, mask)
    if len(homes) == 2 and width > 1:
        first, second = (source.chunk(em, h) for h in homes)
        mask = [r % width + (width if r // width == homes[1] else 0) for r in registers]
        return concatenated(em, [first, second]) if mask == list(range(2 * width)) else (
            em.shuffle(first, second, mask))
    return em.pack(source.kind, [source.register(em, r) for r in registers])


class Mapped(Registers):
    """An element-wise operation's results."""

    def __init__(
        self, em: Writer, kind: ir.Type, operands: Sequence[Registers],
        write: Callable[..., ir.Operand],
    ) -> None:
        super().__init__(
            operands[0].count, kind, lambda i: write(*(o.chunk(em, i) for o in operands)),
            needs=lambda i: [part for o in operands for part in o.parts(i)], single=self._single)
        self.em, self.operands = em, operands
        self.each = _Each(operands, write)
        self.is_single: dict[int, bool] = {}

    def _single(self, index: int) -> Callable[[], ir.Operand] | None:
        """How to compute the element alone, if that is possible for all operands."""
        waiting = [] if index in self.is_single else [self]
        while waiting:
            here = waiting[-1]
            unknown = [o for o in map(_mapped_by, here.operands)
                       if o is not None and index not in o.is_single]
            if not unknown:
                here.is_single[index] = all(o.single(index) for o in here.operands)
                waiting.pop()
            waiting += unknown
        if not self.is_single[index]:
            return None
        return partial(self.alone, self.em, index * self.width)

    def alone(self, em: Writer, index: int) -> ir.Operand:
        if em.knows((self, index // self.width)):
            return self.register(em, index)
        return write_with_needs(em, self.each, index)


def _mapped_by(held: Registers) -> Mapped | None:
    """The operation that determines if registers are equal; None if unknown."""
    return held if isinstance(held, Mapped) else None


class _Each:
    """Single registers of an element-wise operation."""

    def __init__(self, operands: Sequence[Registers], write: Callable[..., ir.Operand]) -> None:
        self.operands, self.make = operands, write

    def needs(self, index: int) -> list[Part]:
        return [(o.each, index) for o in map(_mapped_by, self.operands) if o is not None]

    def write(self, em: Writer, index: int) -> ir.Operand:
        return em.remember((self, index), lambda: self._written(em, index))

    def _written(self, em: Writer, index: int) -> ir.Operand:
        values = [o.alone(em, index) for o in self.operands]
        return em.remember((self.make, *values), lambda: self.make(*values))


def mapped(
    em: Writer, kind: ir.Type, operands: Sequence[Registers], write: Callable[..., ir.Operand]
) -> Registers:
    """An element-wise operation: `write` gets one value per operand, vector or scalar."""
    if all(isinstance(o, Splat) for o in operands):
        return Splat(operands[0].count, write(*(o.scalar for o in operands)))  # type: ignore[attr-defined]

    return Mapped(em, kind, [regrouped(em, o) for o in operands], write)


def _uncast(value: ir.Operand) -> ir.Operand | None:
    """The vector of larger elements that a vector was cast from."""
    cast = instruction_of(value, "bitcast")
    if cast is None:
        return None
    held = cast.operands[0]
    if held.type.kind != "vec" or value.type.kind != "vec":
        return None
    return held if held.type.count < value.type.count else None


def concatenated(em: Writer, pieces: list[Any]) -> ir.Operand:
    """Concatenate equal vectors, or scalars; vectors cast from larger elements before the cast."""
    larger = [_uncast(p) for p in pieces]
    if len(pieces) > 1 and None not in larger and len({h.type for h in larger}) == 1:  # type: ignore[union-attr]
        kind, count = pieces[0].type.scalar, pieces[0].type.count * len(pieces)
        return em.b.bitcast(concatenated(em, larger), vector_of(kind, count))
    while len(pieces) > 1:
        if pieces[0].type.kind == "vec" and len(pieces) % 2 == 0:
            count = pieces[0].type.count
            pieces = [em.shuffle(a, b, list(range(2 * count)))
                      for a, b in zip(pieces[::2], pieces[1::2], strict=True)]
        else:
            flat = [em.b.extract(p, i) for p in pieces for i in range(p.type.count)
                    ] if pieces[0].type.kind == "vec" else pieces
            pieces = [em.pack(flat[0].type, flat)]
    return pieces[0]


def regrouped(em: Writer, pieces: Registers, usual: int = CHUNK) -> Registers:
    """Regroup registers into chunks of the usual width."""
    width, size = min(pieces.count, usual), pieces.width

    def make(i: int) -> ir.Operand:
        first = i * width // size
        if size < width:
            return concatenated(em, [pieces.chunk(em, first + k) for k in range(width // size)])
        inside = i * width % size
        whole = pieces.chunk(em, first)
        return em.shuffle(whole, whole, list(range(inside, inside + width)))

    def needs(i: int) -> list[Part]:
        return pieces.parts_of(range(i * width, (i + 1) * width))

    return pieces if size == width else Registers(
        pieces.count, pieces.kind, make, width, needs=needs)
