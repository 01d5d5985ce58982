"""Symbols and signatures of library functions with several callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triton_xe.hardware.dpas import Dpas
from triton_xe.llvm import I1, I32, I64, PTR, VOID, integer, vector
from triton_xe.llvm.builder import Routine
from triton_xe.runtime.simulator.library.symbols import symbol

_GROUP = (("context", PTR), ("sg", I32))
TRAP = Routine(symbol("trap"), VOID, (
    ("error", PTR), ("code", I64), ("line", I32), *((f"n{k}", I64) for k in range(6))))
STOPPED = Routine(symbol("stopped"), VOID, (*_GROUP, ("line", I64)))
COLD = Routine(symbol("cold"), VOID, _GROUP)
FRAME = Routine(symbol("frame"), PTR, (*_GROUP, ("size", I64)))


def gather(bits: int, lanes: int) -> Routine:
    """A gather of elements with fewer bits than hosts gather."""
    word = vector(lanes, integer(bits))
    return Routine(symbol("gather", bits, lanes), word, (
        ("from", vector(lanes, PTR)), ("mask", vector(lanes, I1)), ("other", word)))


def scatter(bits: int, lanes: int) -> Routine:
    return Routine(symbol("scatter", bits, lanes), VOID, (
        ("to", vector(lanes, PTR)), ("mask", vector(lanes, I1)),
        ("value", vector(lanes, integer(bits)))))


@dataclass(frozen=True, order=True)
class Preparation:
    """Conversion of an operand of a DPAS to host memory: `rows` x `columns` elements.

    A becomes rows of fp32, or of i16; B rows of fp32, or of pairs of i16.
    """

    operand: Literal["a", "b"]
    element: str
    rows: int
    columns: int

    @property
    def symbol(self) -> str:
        return symbol(f"prepare_{self.operand}", self.element, self.rows, self.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared operand."""
        return self.rows * self.columns * (2 if self.element[0] in "su" else 4)


def preparations(shape: Dpas) -> tuple[Preparation, Preparation]:
    """Conversions of A and B for a DPAS."""
    return (Preparation("a", shape.a, shape.repeat_count, shape.k),
            Preparation("b", shape.b, shape.k, shape.execution_size))


def dpas_symbol(shape: Dpas, accumulator: str, steps: int, ahead: int = 0) -> str:
    """Symbol of `dpas.dpas` with the same parameters."""
    return symbol("dpas", "f32" if shape.is_float else "i16", accumulator, shape.repeat_count,
                  shape.k, shape.execution_size, steps, *([ahead] if ahead else []))


DPAS_UNROLLED = 4
"""Units of K (32 bits of A) per pass of a native DPAS, a compromise of speed and code size."""


def dpas_passes(shape: Dpas, steps: int) -> int:
    """Passes of a native DPAS of so many steps, each of which may prefetch some rows."""
    units = shape.k if shape.is_float else shape.k // 2
    return steps * (units // DPAS_UNROLLED)
