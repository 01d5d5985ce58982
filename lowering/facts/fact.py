"""The lattice of facts: what holds for all elements of one integer, pointer or mask.

A fact has a range, and three numbers for each dimension, all powers of two:

    value                               range      contiguity  constancy  divisibility
    make_range(0, 64)                   0..63      64          1          2^30 (of 0, the first)
    splat(16 * n)                       any        1           64         16
    splat(16 * n) + make_range(0, 64)   any        16 (*)      1          16

(*) 64 in integers of mathematics; in those of 32 bits a run of 64 may pass the largest number,
but a run of 16 that begins at a multiple of 16 cannot.

The idea of the three numbers is that of Triton's axis analysis (`AxisInfo` in its Analysis folder).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

BIG = 1 << 30
"""The largest divisibility that is counted; that of 0."""
Range = tuple[int, int]


class Fact(NamedTuple):
    """What holds for all elements of a value of some bits; a scalar is a row of one element.

    `low`, `high`: each element, read as a signed number, lies between these, both included.
    `contiguity[d]`: in each aligned run of so many elements along dimension d, an element is the
    one before plus one.  Integers below 64 bits do so without a wrap in between.  For pointers,
    and modulo 2^64, "plus one" means one element of what they point to.
    `constancy[d]`: in each aligned run of so many elements, all are equal.
    `divisibility[d]`: what divides the first element of each run of `contiguity[d]` elements;
    for pointers, its address in bytes.
    """

    low: int
    high: int
    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]
    divisibility: tuple[int, ...]

    @property
    def range(self) -> Range:
        return self.low, self.high

    def every(self, dim: int) -> int:
        """What divides each element, as far as the runs along one dimension tell."""
        return self.divisibility[dim] if self.contiguity[dim] == 1 else 1

    @property
    def divisor(self) -> int:
        """What divides each element."""
        return max(map(self.every, range(len(self.contiguity))))

    def first(self, dim: int, run: int, unit: int = 1) -> int:
        """What divides the first element of each run after runs are cut to `run` elements.

        `unit` is the distance of neighbours: the bytes of an element for pointers.
        """
        if self.contiguity[dim] <= run:
            return self.divisibility[dim]
        return min(self.divisibility[dim], run * unit)

    def cut(self, runs: Iterable[int]) -> Fact:
        """The same with runs of at most so many elements along each dimension."""
        kept = tuple(map(min, self.contiguity, runs))
        divisibility = tuple(self.first(d, run) for d, run in enumerate(kept))
        return self._replace(contiguity=kept, divisibility=divisibility)

    def aligned(self, bits: int) -> Fact:
        """The same with runs that begin at multiples of their length.

        No such run of numbers of so many bits passes the largest one, or 0.
        """
        return self.cut(min(x, 1 << bits - 1) for x in self.divisibility)


def full(bits: int) -> Range:
    """All numbers of so many bits, as signed ones."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if bits else (0, 0)


def unknown(bits: int, rank: int) -> Fact:
    """The fact that holds for every value."""
    ones = (1,) * max(rank, 1)
    return Fact(*full(bits), ones, ones, ones)


def power_of_two_divisor(value: int) -> int:
    """The largest power of two that divides a number; BIG for 0."""
    return min(value & -value, BIG) if value else BIG


def signed(value: int, bits: int) -> int:
    """A number modulo 2^bits, as a signed one.

    >>> signed(200, 8)
    -56
    """
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def fitting(found: Range, bits: int) -> Range:
    """A range as it is; all numbers where a part of it has no room in so many bits."""
    low, high = full(bits)
    return found if low <= found[0] and found[1] <= high else (low, high)


def clamped(found: Range, bits: int) -> Range:
    """The part of a range that has room in so many bits."""
    low, high = full(bits)
    return max(low, min(found[0], high)), min(high, max(found[1], low))


def join(a: Fact, b: Fact, unit: int = 1) -> Fact:
    """What holds for both values, whose neighbours are `unit` apart."""
    contiguity = tuple(map(min, a.contiguity, b.contiguity))
    divisibility = tuple(
        min(a.first(d, run, unit), b.first(d, run, unit)) for d, run in enumerate(contiguity))
    return Fact(min(a.low, b.low), max(a.high, b.high), contiguity,
                tuple(map(min, a.constancy, b.constancy)), divisibility)


def rounded(fact: Fact) -> Fact:
    """The same with the ends of the range at multiples of what divides every element."""
    by = fact.divisor
    low, high = -(-fact.low // by) * by, fact.high // by * by
    return fact._replace(low=low, high=high) if by > 1 and low <= high else fact
