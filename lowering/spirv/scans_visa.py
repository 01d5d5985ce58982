"""vISA that scans registers, or their lanes (`triton_xe.lowering.emit.maths.lane_scans`).

Registers are combined in sequence.  Intel's compiler would move each result to the registers of a
message, because it has two uses.  A function leaves it in those of its argument.

A step combines the later half of each block of lanes with the last lane of the earlier half.  A
region of a register repeats that lane.  Floats have no such regions, so that their bits are moved
first, and then combined.  Integers are combined at once if the instruction may have a predicate,
which those of minimum and maximum may not.  The instructions take two registers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from triton_xe.lowering.spirv.visa import function
from triton_xe.spirv import AFTER, PREVIOUS, RUN, SCAN, WIDE

LANES = 16
_NEUTRAL = {"fadd": 0x80000000, "add": 0, "or": 0, "xor": 0, "and": 0xFFFFFFFF}
"""Bits of the neutral element.  The other operations combine two equal values to the same value."""
_KINDS = {"f": "F", "s": "D", "u": "UD"}
"""The type of the values by the first letter of a minimum's or maximum's name."""
_LATER = {2: 0xAAAAAAAA, 4: 0xCCCCCCCC, 8: 0xF0F0F0F0}
"""Lanes of two registers that are in the later halves of blocks, by the length of a block."""
_NOT_FIRST = {4: 0xEEEEEEEE, 8: 0xFEFEFEFE, 16: 0xFFFEFFFE}
"""Lanes of two registers that are not the first of a block."""


class Scan(NamedTuple):
    """A scan of blocks of lanes of some registers, by an operation of `WAVE_OPERATIONS`."""

    operation: str
    registers: int
    """1 or an even number."""
    lanes: int = LANES
    """Lanes of a block: a power of two from 4 on."""
    width: int = 1
    """Registers of each argument."""
    place: int = 0
    """The one that is scanned."""

    @property
    def name(self) -> str:
        """The name of the function, after `WIDE`.

        >>> Scan("fadd", 4).name
        'scan_fadd_4_16_1_0.i32'
        """
        return SCAN + "_".join(map(str, self)) + ".i32"

    @property
    def neutral(self) -> int | None:
        """Bits of the neutral element, if the operation has one."""
        return _NEUTRAL.get(self.operation)

    @property
    def first(self) -> int:
        """The first register of the inclusive prefixes in the result.

        The exclusive ones begin at 0.  A single one is followed by an unused register.
        """
        return max(2, self.registers)

    @property
    def results(self) -> int:
        """Registers of the result."""
        return 2 * self.first


class Run(NamedTuple):
    """A scan of consecutive registers of each lane by an operation of `WAVE_OPERATIONS`."""

    operation: str
    registers: int
    kind: str
    """`float` or `i32`."""
    reverse: bool
    continued: bool
    """True if a second argument comes before the first register."""

    @property
    def name(self) -> str:
        """The name of the function, after `WIDE`.

        >>> Run("fadd", 8, "float", reverse=True, continued=False).name
        'run_fadd_8_down_whole.float'
        """
        return "_".join((f"{RUN}{self.operation}", str(self.registers), _WAYS[self.reverse],
                         f"{_PARTS[self.continued]}.{self.kind}"))


_WAYS, _PARTS = ("up", "down"), ("whole", "continued")


def run_definition(symbol: str) -> str:
    """The definition of a function that scans registers."""
    name, kind = symbol.removeprefix(WIDE + RUN).split(".")
    operation, registers, way, part = name.split("_")
    run = Run(operation, int(registers), kind, way == "down", part == "continued")
    vector = f"<{registers} x {kind}>"
    return function(symbol, vector, [vector, kind][: 1 + run.continued], run_body(run))


def run_body(run: Run) -> str:
    """The vISA of a function, whose first argument is in the registers of the result."""
    opcode, kind = _visa(run.operation)
    places = [f"R({r},0)" for r in range(run.registers)][:: -1 if run.reverse else 1]
    return "".join(f"{line}\n" for line in (
        f".decl R v_type=G type={kind} num_elts={run.registers * LANES} alias=<$0,0>",
        f".decl C v_type=G type={kind} num_elts={LANES} alias=<$2,0>" if run.continued else "",
        *(f"{opcode} (M1_NM, {LANES}) {place}<1> {before}<1;1,0> {place}<1;1,0>"
          for before, place in pairwise([*["C(0,0)"] * run.continued, *places]))) if line)


def after_definition(symbol: str) -> str:
    """The definition of a function that combines one register of integers with each of several."""
    operation, count = symbol.removeprefix(WIDE + AFTER).split(".")[0].split("_")
    (opcode, kind), vector = _visa(operation), _vector(int(count))
    registers = zip("RXP", (int(count), int(count), 1), strict=True)
    return function(symbol, vector, [vector, "i32"], "".join(f"{line}\n" for line in (
        *(f".decl {name} v_type=G type={kind} num_elts={size * LANES} alias=<${n},0>"
          for n, (name, size) in enumerate(registers)),
        *(f"{opcode} (M1_NM, {2 * LANES}) R({r},0)<1> P(0,0)<0;{LANES},1> X({r},0)<1;1,0>"
          for r in range(0, int(count), 2)))))


def previous_definition(symbol: str) -> str:
    """The definition of a function that moves registers to the next lane.

    Each move also writes the first lane of the next register.
    """
    count, kind = symbol.removeprefix(WIDE + PREVIOUS).split(".")
    visa, registers = {"i16": "UW", "i32": "UD"}[kind], range(int(count))
    return function(
        symbol, f"<{2 * int(count)} x {kind}>", [kind] * int(count), "".join(
            f"{line}\n" for line in (
                f".decl R v_type=G type={visa} num_elts={2 * int(count) * LANES} alias=<$0,0>",
                *(f".decl X{r} v_type=G type={visa} num_elts={LANES} alias=<${r + 1},0>"
                  for r in registers),
                "mov (M1_NM, 1) R(0,0)<1> X0(0,0)<0;1,0>",
                *(f"mov (M1_NM, {LANES}) {_at(visa, LANES * r + 1)}<1> X{r}(0,0)<1;1,0>"
                  for r in registers))))


def _at(visa: str, element: int) -> str:
    """An element of `R`, by its register of 64 bytes and its position there."""
    return "R({},{})".format(*divmod(element, 32 if visa == "UW" else 16))


def _vector(count: int) -> str:
    return "i32" if count == 1 else f"<{count} x i32>"


def definition(symbol: str) -> str:
    """The definition of a function that scans lanes."""
    operation, *numbers = symbol.removeprefix(WIDE + SCAN).split(".")[0].split("_")
    scan = Scan(operation, *map(int, numbers))
    return function(symbol, f"<{scan.results} x i32>", [_vector(scan.width)] * scan.registers,
                    body_of(scan))


def body_of(scan: Scan) -> str:
    """The vISA of a function."""
    every = [*_first_step(scan)]
    for block in _LATER:
        if 2 < block <= scan.lanes:
            every += _step(scan, block)
    if scan.lanes == LANES:
        every += _last_step(scan)
    every += _exclusive(scan)
    size = min(2, scan.registers) * LANES
    masks = {"P0": _NOT_FIRST[scan.lanes], **{_predicate(n): mask for n, mask in _LATER.items()}}
    used = {name: mask & (1 << size) - 1 for name, mask in masks.items()
            if any(f"({name})" in line for line in every)}
    return "".join(f"{line}\n" for line in (
        *_declared(scan), *(f".decl {name} v_type=P num_elts={size}" for name in used),
        *(f"setp (M1_NM, {size}) {name} 0x{mask:x}:ud" for name, mask in used.items()), *every))


def _predicate(block: int) -> str:
    """The predicate of lanes in the later halves of blocks."""
    return f"P{block}"


def _declared(scan: Scan) -> list[str]:
    """Registers of results, arguments and moved values, each also as integers."""
    kind, whole = _visa(scan.operation)[1], scan.results * LANES
    result, argument = _bits(scan)
    declared = [
        ("R", kind, whole, "alias=<$0,0>"), (result, "UD", whole, "alias=<$0,0>"),
        ("T", "UD", scan.registers * LANES, "align=GRF"),
        ("M", kind, scan.registers * LANES, "alias=<T,0>"),
        *((f"{name}{r}", each, LANES, f"alias=<${r + 1},{64 * scan.place}>")
          for r in range(scan.registers)
          for name, each in (("X", kind), (argument, "UD")))]
    return [f".decl {name} v_type=G type={each} num_elts={count} {place}"
            for name, each, count, place in dict.fromkeys(declared)]


def _bits(scan: Scan) -> tuple[str, str]:
    """Names of the result and of arguments as integers: their own ones if they are."""
    return ("R", "X") if _visa(scan.operation)[1] == "UD" else ("I", "W")


def _visa(operation: str) -> tuple[str, str]:
    """The opcode and the type of its operands."""
    if operation[1:] in ("add", "min", "max"):
        return operation[1:], _KINDS[operation[0]]
    return operation, "UD"


def _first_step(scan: Scan) -> list[str]:
    """Combine pairs of lanes, in one register at a time, because arguments are not adjacent.

    Without a neutral element, the first lane of a pair is combined with itself.
    """
    lines, first = [], _predicate(2)
    for r in range(scan.registers):
        at, moved = scan.first + r, f"T({r},0)<1> {_bits(scan)[1]}{r}(0,0)<2;2,0>"
        if _has_predicate(scan):
            lines += [f"mov (M1_NM, {LANES}) R({at},0)<1> X{r}(0,0)<1;1,0>",
                      f"({first}) {_visa(scan.operation)[0]} (M1_NM, {LANES}) R({at},0)<1>"
                      f" X{r}(0,0)<2;2,0> X{r}(0,0)<1;1,0>"]
            continue
        lines += [
            f"mov (M1_NM, {LANES}) {moved}" if scan.neutral is None else
            f"({first}) sel (M1_NM, {LANES}) {moved} 0x{scan.neutral:x}:ud",
            f"{_visa(scan.operation)[0]} (M1_NM, {LANES}) R({at},0)<1> M({r},0)<1;1,0>"
            f" X{r}(0,0)<1;1,0>"]
    return lines


def _has_predicate(scan: Scan) -> bool:
    """True for integers whose combining instruction may have a predicate."""
    return scan.operation in ("add", "and", "or", "xor")


def _step(scan: Scan, block: int) -> list[str]:
    """Combine the halves of blocks of lanes, in two registers at a time."""
    size, lines, name = min(2, scan.registers) * LANES, [], _visa(scan.operation)[0]
    predicate = _predicate(block)
    for r in range(0, scan.registers, 2):
        at = scan.first + r
        last = f"{_bits(scan)[0]}({at},{block // 2 - 1})<{block};{block},0>"
        if _has_predicate(scan):
            lines.append(f"({predicate}) {name} (M1_NM, {size}) R({at},0)<1> {last}"
                         f" R({at},0)<1;1,0>")
            continue
        lines += [
            f"({predicate}) sel (M1_NM, {size}) T({r},0)<1> {last} {_otherwise(scan, at)}",
            f"{name} (M1_NM, {size}) R({at},0)<1> M({r},0)<1;1,0> R({at},0)<1;1,0>"]
    return lines


def _otherwise(scan: Scan, register: int) -> str:
    """The source for lanes without an earlier value: the neutral element, or their own value."""
    return (f"{_bits(scan)[0]}({register},0)<1;1,0>" if scan.neutral is None
            else f"0x{scan.neutral:x}:ud")


def _last_step(scan: Scan) -> list[str]:
    """Combine the halves of registers; a single lane can also be repeated for floats."""
    half = LANES // 2
    return [f"{_visa(scan.operation)[0]} (M1_NM, {half}) R({r},{half})<1> R({r},{half - 1})<0;1,0>"
            f" R({r},{half})<1;1,0>" for r in range(scan.first, scan.first + scan.registers)]


def _exclusive(scan: Scan) -> list[str]:
    """Move each register by a lane; the source begins in the last lane of the register before it.

    The last registers come first, so that this register is already written.
    """
    bits, lines = _bits(scan)[0], []
    if scan.registers == 1:
        own = f"{bits}(2,0)<0;1,0>" if scan.neutral is None else f"0x{scan.neutral:x}:ud"
        lines = [f"mov (M1_NM, 1) {bits}(1,{LANES - 1})<1> {own}"]
        if scan.lanes == LANES:
            return [*lines, f"mov (M1_NM, {LANES}) {bits}(0,0)<1> {bits}(1,{LANES - 1})<1;1,0>"]
    return [*lines, *(
        f"(P0) sel (M1_NM, {LANES}) {bits}({r},0)<1>"
        f" {bits}({scan.first + r - 1},{LANES - 1})<1;1,0>"
        f" {_otherwise(scan, scan.first + r)}" for r in reversed(range(scan.registers)))]
