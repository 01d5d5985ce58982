"""Fragments: operands of matrix instructions, one LLVM value each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.xe import FragmentOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths.conversions import constant
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.types import bits_of, scalar_type, vector_of
from triton_xe.lowering.emit.values import instruction_of

MAX_VECTOR = 16
"""Largest number of elements of a vector of OpenCL."""
BY_ROWS = tuple((2 * (i // 4) + i % 2, i % 4 // 2) for i in range(8))
"""Element and part of each row in two adjacent registers; each half of their words is a row."""

BY_BYTES = tuple((i % 2, i // 2) for i in range(16))
"""Element and part of each row in two halves of a register; each byte of a lane is a row."""


class FragmentValue:
    """A fragment as one LLVM value: `<elements x integer>`, or of the accumulator's type."""

    def __init__(self, value: ir.Operand) -> None:
        self._value = value

    @property
    def value(self) -> ir.Operand:
        """The LLVM value, at the current position."""
        return self._value

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        return [self.value], lambda parts: FragmentValue(parts[0])


class FragmentPieces(FragmentValue):
    """A fragment of more values than a vector may have, which tensors read in pieces."""

    def __init__(self, pieces: Sequence[ir.Operand]) -> None:
        self.pieces = pieces

    @property
    def value(self) -> ir.Operand:
        raise UnsupportedError(
            f"a fragment of more than {MAX_VECTOR} values that is not split")


def fragment_elements(em: Emitter, held: FragmentValue, kind: Attribute) -> ir.Operand:
    """A fragment as one vector with an element for each value."""
    assert isinstance(kind, VectorType)
    elements, parts = kind.get_shape()
    if elements * parts > MAX_VECTOR:
        raise UnsupportedError(
            f"arithmetic on fragments {kind} of more than {MAX_VECTOR} values; use larger elements"
        )
    flat = vector_of(scalar_type(kind.element_type), elements * parts)
    return held.value if held.value.type == flat else em.b.bitcast(held.value, flat)


def fragment_value(em: Emitter, flat: ir.Operand, kind: Attribute) -> FragmentValue:
    """The inverse of `fragment_elements`."""
    assert isinstance(kind, VectorType)
    elements, parts = kind.get_shape()
    if parts == 1:
        return FragmentValue(flat)
    unit = ir.integer(parts * bits_of(scalar_type(kind.element_type)))
    into = vector_of(unit, elements)
    cast = instruction_of(flat, "bitcast")
    made_of = flat if cast is None else cast.operands[0]
    return FragmentValue(made_of if made_of.type is into else em.b.bitcast(flat, into))


def fragment_constant(em: Emitter, kind: Any, value: Any) -> FragmentValue:
    """A constant fragment: every element the same, values packed as the fragment's type says."""
    elements, parts = kind.get_shape()
    one = constant(kind.element_type, value)
    if parts > 1:
        bits = bits_of(one.type)
        held = one.integer_value() or 0
        if one.type.kind != "int" and value != 0:
            raise UnsupportedError(f"a constant operand of DPAS that is not zero: {value}")
        one = ir.constant(ir.integer(bits * parts), sum(held << (bits * p) for p in range(parts)))
    return FragmentValue(em.splat(one, elements))


def triples(fragment: FragmentOp) -> list[tuple[int, ...]]:
    """Load, element and part of each value of a fragment."""
    flat = fragment.sources.data
    return [flat[i : i + 3] for i in range(0, len(flat), 3)]


def composed(fragment: FragmentOp) -> tuple[list[SSAValue], list[tuple[int, ...]]]:
    """The loads that a fragment reads, through fragments that it reads from, and its triples."""
    loads: dict[SSAValue, int] = {}
    found: list[tuple[int, ...]] = []
    for load, element, part in triples(fragment):
        value: SSAValue = fragment.loads[load]
        while isinstance(op := value.owner, FragmentOp):
            at = element * value.type.get_shape()[1] + part  # type: ignore[attr-defined]
            load, element, part = triples(op)[at]
            value = op.loads[load]
        found.append((loads.setdefault(value, len(loads)), element, part))
    return list(loads), found


def follow(sources: Sequence[tuple[int, ...]], order: Sequence[tuple[int, int]]) -> bool:
    """True if values are one load's elements and parts in this order, from some element on."""
    load, first, _ = sources[0]
    return list(sources) == [(load, first + element, part) for element, part in order]


def as_integers(em: Emitter, value: ir.Operand) -> ir.Operand:
    """Float elements as integers of the same size."""
    return Term(em, value).bits.value
