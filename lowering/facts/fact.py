"""The lattice of facts: properties of all elements of one integer, pointer or mask.

A fact has a range, and three numbers for each dimension, all powers of two:

    value                               range      contiguity  constancy  divisibility
    make_range(0, 64)                   0..63      64          1          2^30 (of 0, the first)
    splat(16 * n)                       any        1           64         16
    splat(16 * n) + make_range(0, 64)   any        16 (*)      1          16

(*) 64 in exact integers.  With 32 bits a run of 64 may wrap around, but a run of 16 that begins at
a multiple of 16 cannot.

The idea of the three numbers is that of Triton's axis analysis (`AxisInfo` in its Analysis folder).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import repeat
from typing import NamedTuple

BIG = 1 << 30
"""Largest divisibility that is tracked; also that of 0."""
Range = tuple[int, int]


class Fact(NamedTuple):
    """Properties of all elements of a value of some bits; a scalar is a row of one element.

    `low`, `high`: bounds of each element as a signed number, both included.  `contiguity[d]`: in
    each aligned run of so many elements along dimension d, each element is the previous one plus
    one.  Integers below 64 bits do not wrap inside a run.  For pointers, and modulo 2^64, "plus
    one" is one element of the type that they point to.  `constancy[d]`: in each aligned run of so
    many elements, all are equal.  `divisibility[d]`: a divisor of the first element of each run of
    `contiguity[d]` elements; for pointers, of its address in bytes.
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
        """Divisor of every element, as far as the runs along one dimension show."""
        return self.divisibility[dim] if self.contiguity[dim] == 1 else 1

    @property
    def divisor(self) -> int:
        """Divisor of every element."""
        found = 1
        for run, divides in zip(self.contiguity, self.divisibility, strict=True):
            if run == 1 and divides > found:
                found = divides
        return found

    def firsts(self, runs: Iterable[int], unit: int = 1) -> list[int]:
        """Divisors, along each dim, of the first elements if runs are shortened to `runs`.

        `unit` is the distance of neighbours: the bytes of an element for pointers.
        """
        return [divides if whole <= run or divides <= run * unit else run * unit
                for whole, divides, run in zip(
                    self.contiguity, self.divisibility, runs, strict=True)]

    def aligned(self, bits: int) -> Fact:
        """Shorten runs until they begin at multiples of their length.

        Then no run of numbers of `bits` bits wraps around.
        """
        runs = tuple(map(min, self.contiguity, self.divisibility, repeat(1 << bits - 1)))
        return self._replace(contiguity=runs, divisibility=tuple(self.firsts(runs)))


@cache
def full(bits: int) -> Range:
    """Range of all signed numbers of so many bits."""
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if bits else (0, 0)


def unknown(bits: int, rank: int) -> Fact:
    """The fact that is true of every value of so many bits."""
    ones = (1,) * (rank or 1)
    return Fact(*full(bits), ones, ones, ones)


def power_of_two_divisor(value: int) -> int:
    """The largest power of two that divides a number; BIG for 0."""
    return min(value & -value, BIG) if value else BIG


def signed(value: int, bits: int) -> int:
    """Reduce a number modulo 2^bits to a signed one.

    >>> signed(200, 8)
    -56
    """
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def fitting(found: Range, bits: int) -> Range:
    """The range if it fits so many bits, otherwise the range of all numbers."""
    low, high = full(bits)
    return found if low <= found[0] and found[1] <= high else (low, high)


def clamped(found: Range, bits: int) -> Range:
    """Clamp the ends of a range to `bits` bits."""
    low, high = full(bits)
    return max(low, min(found[0], high)), min(high, max(found[1], low))


def join(a: Fact, b: Fact, unit: int = 1) -> Fact:
    """Fact that is true of both values (the join of the lattice); neighbours differ by `unit`."""
    contiguity = tuple(map(min, a.contiguity, b.contiguity))
    divisibility = tuple(map(min, a.firsts(contiguity, unit), b.firsts(contiguity, unit)))
    return Fact(min(a.low, b.low), max(a.high, b.high), contiguity,
                tuple(map(min, a.constancy, b.constancy)), divisibility)


def rounded(fact: Fact) -> Fact:
    """Shrink the range to multiples of the fact's divisor."""
    by = fact.divisor
    if by == 1 or not (fact.low % by or fact.high % by):
        return fact
    low, high = -(-fact.low // by) * by, fact.high // by * by
    return fact._replace(low=low, high=high) if low <= high else fact
