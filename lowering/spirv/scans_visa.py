"""vISA that scans the lanes of some registers (`triton_xe.lowering.emit.maths.lane_scans`).

A step combines the later half of each block of lanes with the last lane of the earlier half.  A
region of a register repeats that lane.  Floats have no such regions, so that integers are moved
first, and then combined.  The instructions take two registers.
"""

from __future__ import annotations

from typing import NamedTuple

from triton_xe.lowering.spirv.visa import function
from triton_xe.spirv import SCAN, WIDE

LANES = 16
_NEUTRAL = {"fadd": 0x80000000, "add": 0, "or": 0, "xor": 0, "and": 0xFFFFFFFF}
"""Bits of the neutral element.  The other operations combine two equal values to the same value."""
_KINDS = {"f": "F", "s": "D", "u": "UD"}
"""The type of the values by the first letter of a minimum's or maximum's name."""
_MASKS = (0xFFFEFFFE, 0xAAAAAAAA, 0xCCCCCCCC, 0xF0F0F0F0)
"""Lanes of two registers: all but the first ones, and those in the later halves of blocks."""


class Scan(NamedTuple):
    """A scan of some registers, by an operation of `WAVE_OPERATIONS`."""

    operation: str
    registers: int
    """1 or an even number."""

    @property
    def name(self) -> str:
        """The name of the function, after `WIDE`.

        >>> Scan("fadd", 4).name
        'scan_fadd_4.i32'
        """
        return f"{SCAN}{self.operation}_{self.registers}.i32"

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


def definition(symbol: str) -> str:
    """The definition of a function."""
    operation, count = symbol.removeprefix(WIDE + SCAN).split(".")[0].split("_")
    scan = Scan(operation, int(count))
    return function(symbol, f"<{scan.results} x i32>", ["i32"] * scan.registers,
                    body_of(scan))


def body_of(scan: Scan) -> str:
    """The vISA of a function."""
    every = [*_first_step(scan), *_step(scan, 2), *_step(scan, 3), *_last_step(scan),
             *_exclusive(scan)]
    masks = [step for step in range(len(_MASKS)) if any(f"(P{step})" in line for line in every)]
    size = min(2, scan.registers) * LANES
    return "".join(f"{line}\n" for line in (
        *_declared(scan), *(f".decl P{step} v_type=P num_elts={size}" for step in masks),
        *(f"setp (M1_NM, {size}) P{step} 0x{_MASKS[step] & (1 << size) - 1:x}:ud"
          for step in masks), *every))


def _declared(scan: Scan) -> list[str]:
    """Registers of results, arguments and moved values, each also as integers."""
    kind, whole = _visa(scan)[1], scan.results * LANES
    return [
        f".decl R v_type=G type={kind} num_elts={whole} alias=<$0,0>",
        f".decl I v_type=G type=UD num_elts={whole} alias=<$0,0>",
        f".decl T v_type=G type=UD num_elts={scan.registers * LANES} align=GRF",
        f".decl M v_type=G type={kind} num_elts={scan.registers * LANES} alias=<T,0>",
        *(f".decl {name}{r} v_type=G type={each} num_elts={LANES} alias=<${r + 1},0>"
          for r in range(scan.registers) for name, each in (("X", kind), ("W", "UD")))]


def _visa(scan: Scan) -> tuple[str, str]:
    """The opcode and the type of its operands."""
    if scan.operation[1:] in ("add", "min", "max"):
        return scan.operation[1:], _KINDS[scan.operation[0]]
    return scan.operation, "UD"


def _first_step(scan: Scan) -> list[str]:
    """Combine pairs of lanes, in one register at a time, because arguments are not adjacent.

    Without a neutral element, the first lane of a pair is combined with itself.
    """
    lines = []
    for r in range(scan.registers):
        moved = f"T({r},0)<1> W{r}(0,0)<2;2,0>"
        lines += [
            f"mov (M1_NM, {LANES}) {moved}" if scan.neutral is None else
            f"(P1) sel (M1_NM, {LANES}) {moved} 0x{scan.neutral:x}:ud",
            f"{_visa(scan)[0]} (M1_NM, {LANES}) R({scan.first + r},0)<1> M({r},0)<1;1,0>"
            f" X{r}(0,0)<1;1,0>"]
    return lines


def _step(scan: Scan, step: int) -> list[str]:
    """Combine the halves of blocks of `1 << step` lanes, in two registers at a time.

    The predicate is that of the move: a minimum or maximum cannot have one.
    """
    block, size, lines = 1 << step, min(2, scan.registers) * LANES, []
    for r in range(0, scan.registers, 2):
        at = scan.first + r
        lines += [
            f"(P{step}) sel (M1_NM, {size}) T({r},0)<1> I({at},{block // 2 - 1})<{block};{block},0>"
            f" {_otherwise(scan, at)}",
            f"{_visa(scan)[0]} (M1_NM, {size}) R({at},0)<1> M({r},0)<1;1,0> R({at},0)<1;1,0>"]
    return lines


def _otherwise(scan: Scan, register: int) -> str:
    """The source for lanes without an earlier value: the neutral element, or their own value."""
    return f"I({register},0)<1;1,0>" if scan.neutral is None else f"0x{scan.neutral:x}:ud"


def _last_step(scan: Scan) -> list[str]:
    """Combine the halves of registers; a single lane can also be repeated for floats."""
    half = LANES // 2
    return [f"{_visa(scan)[0]} (M1_NM, {half}) R({r},{half})<1> R({r},{half - 1})<0;1,0>"
            f" R({r},{half})<1;1,0>" for r in range(scan.first, scan.first + scan.registers)]


def _exclusive(scan: Scan) -> list[str]:
    """Move each register by a lane; the source begins in the last lane of the register before it.

    The last registers come first, so that this register is already written.
    """
    if scan.registers == 1:
        own = "I(2,0)<0;1,0>" if scan.neutral is None else f"0x{scan.neutral:x}:ud"
        return [f"mov (M1_NM, 1) I(1,{LANES - 1})<1> {own}",
                f"mov (M1_NM, {LANES}) I(0,0)<1> I(1,{LANES - 1})<1;1,0>"]
    return [f"(P0) sel (M1_NM, {LANES}) I({r},0)<1> I({scan.first + r - 1},{LANES - 1})<1;1,0>"
            f" {_otherwise(scan, scan.first + r)}" for r in reversed(range(scan.registers))]
