"""Conditions that a launch must satisfy to run the fast version of a kernel.

The fast version may assume facts about its arguments and its grid: alignment, pitches, sizes.  The
assumptions are a table of steps that the runtime evaluates before each launch.  If one is false, it
launches the general version of the kernel instead.

A step computes a signed integer of `bits` bits, as the kernel does, but exactly.  A launch fails
the conditions if a step's exact value may be outside of `bits` bits, or a divisor is not positive.
Unsigned operations are expressed by applying `rest` to their operands.

Evaluation computes, for each step, the range of its values over all programs of the launch, and a
power of two that divides them all.  Both are exact for arguments, and conservative for values that
differ between programs.

    >>> table = Table()
    >>> size, tile = table.step("argument", 1), table.step("program", 0)
    >>> last = table.step("multiply", tile, table.constant(128))
    >>> table.require("at_least", size, last, what="tiles begin inside")
    >>> table.failing([0, 256], (2, 1, 1)), table.failing([0, 256], (4, 1, 1))
    ('', 'tiles begin inside')

`launch.c` evaluates the same table, packed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ALIGNMENT = 64
"""Bytes: a step of the kind `address` is the remainder of an address by this number."""
MANY_ZEROS = 62
WIDTHS = (8, 16, 32, 64)
MOST_ARGUMENTS = 256
OPS = (
    "constant", "argument", "address", "program", "programs", "add", "subtract", "multiply",
    "divide", "remainder", "minimum", "maximum", "either", "span", "rest", "at_least",
    "multiple",
)
"""Operations of steps; the index in this list is the operation's number in a packed table.

`constant`: the number `a`.  `argument`, `address`: parameter `a`, as a number or as its address
modulo ALIGNMENT.  `program`, `programs`: the program id and the number of programs along axis `a`.
`divide` and `remainder` round toward zero.  `either`: one of the two operands.  `span`: the values
from step `a` (inclusive) to step `b` (exclusive).  `rest`: step `a` modulo 2**b, not negative,
which is an integer of b bits read as unsigned.  The last two are conditions: step `a` is at least
step `b`, step `a` is a multiple of 2**b.
"""
_INPUTS = ("constant", "argument", "address", "program", "programs")
_CONDITIONS = ("at_least", "multiple")
_SMALL = ("rest", "multiple")
"""Operations whose `b` is a number of bits."""
_PACKED = struct.Struct("<qHBBxxxx")


class Step(NamedTuple):
    """One step: `a` and `b` are earlier steps or numbers; the result has `bits` bits."""

    op: str
    a: int = 0
    b: int = 0
    bits: int = 64


class Range(NamedTuple):
    """Integers from `low` to `high`, all multiples of 2**zeros."""

    low: int
    high: int
    zeros: int


class Unsafe(Exception):
    """A step may overflow, or its divisor may be zero or negative."""


@dataclass
class Table:
    """Steps in order, and the meaning of each condition by the number of its step."""

    steps: list[Step] = field(default_factory=list)
    meanings: dict[int, str] = field(default_factory=dict)
    _known: dict[Step, int] = field(default_factory=dict, repr=False)

    def step(self, op: str, a: int = 0, b: int = 0, bits: int = 64) -> int:
        """Return the number of a step; equal steps are stored once."""
        made, following = Step(op, a, b, bits), len(self.steps)
        number = self._known.setdefault(made, following)
        if number == following:
            self.steps.append(made)
        return number

    def __contains__(self, step: Step) -> bool:
        return step in self._known

    def shorten(self, length: int) -> None:
        """Drop all steps from number `length` on, which no condition needs."""
        for step in self.steps[length:]:
            del self._known[step]
        del self.steps[length:]
        self.meanings = {n: what for n, what in self.meanings.items() if n < length}

    def constant(self, value: int) -> int:
        return self.step("constant", value)

    def require(self, op: str, a: int, b: int = 0, *, what: str) -> None:
        """Add a condition; `what` describes it."""
        self.meanings.setdefault(self.step(op, a, b), what)

    def failing(self, arguments: Sequence[int], grid: Sequence[int]) -> str:
        """Describe the first condition that a launch does not satisfy; "" if it satisfies all."""
        ranges: list[Range] = []
        if 0 in grid:
            return ""
        for number, step in enumerate(self.steps):
            try:
                ranges.append(range_of(step, ranges, arguments, grid))
            except Unsafe:
                return self.needed_by(number)
            if step.op in _CONDITIONS and not ranges[-1].low:
                return self.meanings[number]
        return ""

    def needed_by(self, number: int) -> str:
        """Return the meaning of the first condition from step `number` on."""
        return next(what for at, what in sorted(self.meanings.items()) if at >= number)

    def packed(self) -> bytes:
        """Pack the table for `launch.c`: `a`, `b`, the op's number and the bits of each step."""
        return b"".join(_PACKED.pack(s.a, s.b, OPS.index(s.op), s.bits) for s in self.steps)

    def text(self) -> str:
        """Format the table, a line per step; `read` is the inverse."""
        return "\n".join(
            f"{s.op} {s.a} {s.b} {s.bits} {self.meanings.get(n, '')}".rstrip()
            for n, s in enumerate(self.steps)
        )

    @staticmethod
    def read(text: str) -> Table:
        """Parse a table; `ValueError` if it is damaged."""
        table = Table()
        for number, line in enumerate(text.splitlines()):
            op, a, b, bits, *what = line.split(" ", 4)
            made = Step(op, int(a), int(b), int(bits))
            if made in table or not _is_sound(made, number):
                raise ValueError(f"line {number + 1} of a table of conditions: {line!r}")
            table.steps.append(made)
            table._known[made] = number
            if op in _CONDITIONS:
                table.meanings[number] = " ".join(what)
        return table


def _is_sound(step: Step, number: int) -> bool:
    """True if a step is valid, and its operands come before it."""
    op, a, b, bits = step
    if op not in OPS or bits not in WIDTHS:
        return False
    if op in _INPUTS:
        return op == "constant" or 0 <= a < (3 if op.startswith("program") else MOST_ARGUMENTS)
    return 0 <= a < number and 0 <= b < (MANY_ZEROS if op in _SMALL else number)


def range_of(
    step: Step, ranges: Sequence[Range], arguments: Sequence[int], grid: Sequence[int]
) -> Range:
    """Range of the result of a step, from the ranges of the steps before it."""
    op, a, b, _ = step
    if op in _INPUTS:
        return _input(step, arguments, grid)
    left = ranges[a]
    if op == "at_least":
        return _exact(int(left.low >= ranges[b].high))
    if op == "multiple":
        return _exact(int(left.zeros >= b))
    found = _remainder_range(left, b) if op == "rest" else _computed(step, left, ranges[b])
    return _exact(found.low) if found.low == found.high else found


def _input(step: Step, arguments: Sequence[int], grid: Sequence[int]) -> Range:
    match step.op:
        case "program":
            return Range(0, grid[step.a] - 1, 0) if grid[step.a] > 1 else _exact(0)
        case "programs":
            return _exact(grid[step.a])
        case "argument":
            end = 1 << step.bits - 1
            return _exact((arguments[step.a] + end) % (2 * end) - end)
        case "address":
            return _exact(arguments[step.a] % ALIGNMENT)
    return _exact(step.a)


def _exact(value: int) -> Range:
    zeros = (value & -value).bit_length() - 1
    return Range(value, value, min(zeros, MANY_ZEROS) if value else MANY_ZEROS)


def _remainder_range(left: Range, power: int) -> Range:
    zeros, size = min(left.zeros, power), 1 << power
    if left.low >> power == left.high >> power:
        return Range(left.low % size, left.high % size, zeros)
    return Range(0, size - (1 << zeros), zeros)


def _computed(step: Step, x: Range, y: Range) -> Range:
    op, end = step.op, 1 << step.bits - 1
    if op in ("divide", "remainder") and y.low < 1:
        raise Unsafe
    zeros = {"multiply": min(x.zeros + y.zeros, MANY_ZEROS), "divide": 0, "span": 0}
    found = _remainder(x, y) if op == "remainder" else Range(
        *RANGE_RULES[op](x, y), zeros.get(op, min(x.zeros, y.zeros)))
    if found.low < -end or found.high >= end:
        raise Unsafe
    return found


def _remainder(x: Range, y: Range) -> Range:
    if x.low == x.high and y.low == y.high:
        return _exact(x.low - _divide(x.low, y.low) * y.low)
    if -y.low < x.low and x.high < y.low:
        return x
    zeros = min(x.zeros, y.zeros)
    most = y.high - (1 << zeros)
    return Range(max(min(x.low, 0), -most), min(max(x.high, 0), most), zeros)


def _divide(x: int, y: int) -> int:
    """The quotient by a positive number, rounded towards zero."""
    return x // y if x >= 0 else -(-x // y)


def corners(compute: Callable[[int, int], int], x: Any, y: Any) -> Ends:
    """Range of a function that is monotonic in both operands."""
    (a, b), (c, d) = x[:2], y[:2]
    ends = compute(a, c), compute(a, d), compute(b, c), compute(b, d)
    return min(ends), max(ends)


Ends = tuple[int, int]
RANGE_RULES: dict[str, Callable[[Any, Any], Ends]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "multiply": lambda x, y: corners(int.__mul__, x, y),
    "divide": lambda x, y: corners(_divide, x, y),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "either": lambda x, y: (min(x[0], y[0]), max(x[1], y[1])),
    "span": lambda x, y: (x[0], max(x[1], y[1] - 1)),
}
"""Operation -> function from the ranges of its operands to the exact range of its result."""
