"""Find how the vectors of XeGPU programs are distributed over lanes.

A whole vector is distributed over the lanes of its subgroup; a fragment belongs to one work-item.
The ops that use a value determine its kind, and the number of consecutive elements in a lane (its
unit): accesses through descriptors, and DPAS.  Elementwise ops and loops pass both on to their
other operands.  Ops like `xe.fragment` require fragments that are whole operands of an instruction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from xdsl.dialects import math as maths
from xdsl.dialects import vector
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects.arith_ext import Arith
from triton_xe.dialects.vector_ext import ShapeCastOp
from triton_xe.dialects.xe import OnFragmentsOp, RoundTf32Op
from triton_xe.dialects.xegpu.dpas import DpasMxOp, DpasOp
from triton_xe.dialects.xegpu.nd import LoadNdOp, StoreNdOp
from triton_xe.dialects.xegpu.scattered import (
    AtomicRmwOp,
    CreateTdescOp,
    LoadGatherOp,
    StoreScatterOp,
    UpdateOffsetOp,
)
from triton_xe.dialects.xegpu.types import TensorDescType, bit_width, vnni_factor
from triton_xe.errors import UnsupportedError
from triton_xe.hardware.dpas import ELEMENT_BITS
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.xegpu.mapping import Spread
from triton_xe.lowering.facts.values import passed_groups
from triton_xe.lowering.rewriting import below

_SAME_LAYOUT = frozenset({
    *Arith.operations, *maths.Math.operations, vector.FMAOp, vector.ExtractOp, vector.InsertOp,
    vector.BroadcastOp, ShapeCastOp, RoundTf32Op,
})
_PER_LANE: dict[type[Operation], str] = {
    LoadNdOp: "", StoreNdOp: "", CreateTdescOp: "offsets", UpdateOffsetOp: "offsets",
    LoadGatherOp: "mask", StoreScatterOp: "mask", AtomicRmwOp: "mask",
}
"""Accesses, and the operand with one entry per work-item."""


_EQUAL = Fraction(1)


class _Demand(NamedTuple):
    """Requirement of an op on a vector: `own`: that it is a fragment; its unit, None for any.

    `operand` fragments are operands of instructions, one LLVM value each.
    """

    value: SSAValue
    own: bool
    unit: int | None
    because: str
    operand: bool = False


class _Distribution(NamedTuple):
    """Distribution of a vector; `own` is true for a fragment, None while it is unknown."""

    own: bool | None = None
    unit: Fraction = Fraction(1)
    operand: bool = False


class Spreads:
    """Distribution of every vector of a function, computed once."""

    def __init__(self, function: Operation, lanes: int) -> None:
        self.lanes = lanes
        self._edges: dict[SSAValue, list[tuple[SSAValue, Fraction]]] = defaultdict(list)
        self._demands: dict[SSAValue, list[_Demand]] = defaultdict(list)
        for op in below(function):
            self._constrain(op)
        self._found: dict[SSAValue, _Distribution] = {}
        for value in self._demands:
            self._edges[value] += []
        for value in self._edges:
            if value not in self._found:
                self._solve(self._reached(value))

    def spread(self, value: SSAValue) -> Spread:
        """Distribution of the elements of a vector."""
        found = self._found.get(value, _Distribution())
        if found.own:
            return Spread(self.lanes, own=True)
        if found.unit.denominator != 1:
            raise UnsupportedError(
                f"{value.type}: less than an element of it would be in one lane; cast it where"
                " its elements are as small"
            )
        return Spread(self.lanes, int(found.unit))

    def is_operand(self, value: SSAValue) -> bool:
        """True if a vector is an operand of instructions, one LLVM value."""
        return self._found.get(value, _Distribution()).operand

    def _reached(self, start: SSAValue) -> dict[SSAValue, Fraction]:
        """The values of the same distribution, with their units relative to that of `start`."""
        found, waiting = {start: _EQUAL}, [start]
        while waiting:
            value = waiting.pop()
            for other, ratio in self._edges[value]:
                if other not in found:
                    found[other] = found[value] if ratio is _EQUAL else found[value] * ratio
                    waiting.append(other)
        return found

    def _solve(self, times: dict[SSAValue, Fraction]) -> None:
        """Find the unit that all demands on a group of values agree on."""
        mine = [d for value in times for d in self._demands.get(value, ())]
        for demand in mine:
            if demand.own != mine[0].own:
                raise UnsupportedError(
                    f"{demand.value.type}: {demand.because} needs a {_flavour(demand)},"
                    f" {mine[0].because} a {_flavour(mine[0])};"
                    " use descriptors and dpas of one flavour"
                )
        own = mine[0].own if mine else None
        if own:
            held = _Distribution(own, operand=any(d.operand for d in mine))
            self._found.update(dict.fromkeys(times, held))
            return
        units = [(Fraction(d.unit) / times[d.value], d) for d in mine if d.unit is not None]
        for unit, demand in units:
            if unit != units[0][0]:
                raise UnsupportedError(
                    f"{demand.value.type}: {demand.because} and {units[0][1].because} keep it"
                    " differently in the lanes; load or make it twice"
                )
        unit = units[0][0] if units else 1 / min(
            ratio * _share_of_a_byte(value) for value, ratio in times.items())
        for value, ratio in times.items():
            self._found[value] = _Distribution(own, unit * ratio)

    # -- requirements of ops -----------------------------------------------------------------------

    def _note_equal(self, values: Iterable[SSAValue], ratio: Fraction = _EQUAL) -> None:
        """Record that values have one distribution, later ones `ratio` times the first's unit."""
        vectors = [v for v in values if isinstance(v.type, VectorType)]
        for other in vectors[1:]:
            self._edges[vectors[0]].append((other, ratio))
            self._edges[other].append((vectors[0], ratio if ratio is _EQUAL else 1 / ratio))

    def _demand(self, value: SSAValue, own: bool, unit: int | None, because: str) -> None:
        if isinstance(value.type, VectorType):
            self._demands[value].append(_Demand(value, own, unit, because))

    def _constrain(self, op: Operation) -> None:
        """Record what an operation requires of its vectors."""
        if type(op) in _SAME_LAYOUT:
            self._note_equal([*op.operands, *op.results])
        elif isinstance(op, vector.BitcastOp):
            self._note_equal([op.source, op.result], Fraction(_bits(op.source), _bits(op.result)))
        elif isinstance(op, DpasOp | DpasMxOp):
            self._product(op)
        elif type(op) in _PER_LANE:
            self._access(op)
        elif isinstance(op, OnFragmentsOp):
            for value in op.instruction_operands:
                self._demands[value].append(_Demand(value, True, None, op.name, operand=True))
        else:
            for group in passed_groups(op):
                self._note_equal(group)

    def _product(self, op: DpasOp | DpasMxOp) -> None:
        """Demand the distribution that DPAS needs: C and result have the same, fragments all."""
        if isinstance(op, DpasMxOp) or op.sg_map_a is not None:
            self._note_equal((op.result, *op.operands))
            self._demand(op.result, True, None, op.name)
            return
        made = op.instruction
        self._note_equal((op.result, *op.operands[2:]))
        self._demand(op.result, False, 1, "C of xegpu.dpas")
        self._demand(op.a, False, made.a_element_bits // ELEMENT_BITS[made.a], "A of xegpu.dpas")
        kind = op.b.type
        assert isinstance(kind, VectorType)
        unit = vnni_factor(kind.element_type) if len(kind.get_shape()) == 3 else 1
        if ELEMENT_BITS[made.b] < 8:
            unit = 32 // ELEMENT_BITS[made.b]
        self._demand(op.b, False, unit, "B of xegpu.dpas")

    def _access(self, op: Operation) -> None:
        """Demand the distribution of the values, masks and offsets of a memory access."""
        values = (*op.operands, *op.results)
        desc = next(v.type for v in values if isinstance(v.type, TensorDescType))
        own, per_lane = desc.lane_map is not None, getattr(op, _PER_LANE[type(op)], None)
        for value in values:
            kind = value.type
            if not isinstance(kind, VectorType):
                continue
            if per_lane is not None and value is per_lane:
                mine = own and kind.get_shape() == (1,) and desc.get_shape()[0] != 1
                self._demand(value, mine, 1, op.name)
            else:
                self._demand(value, own, _unit(op, desc), op.name)


def _flavour(demand: _Demand) -> str:
    return "fragment" if demand.own else "whole vector"


def _unit(op: Operation, desc: TensorDescType) -> int | None:
    """Unit of an op's vector: a chunk, or 1 if chunks are transposed; None for blocks."""
    if not desc.scattered:
        return None
    transposed = isinstance(op, LoadGatherOp | StoreScatterOp) and op.transpose is not None
    return 1 if transposed else desc.chunk_size_per_lane


def _share_of_a_byte(value: SSAValue) -> Fraction:
    """Fraction of a byte that an element takes, for elements of 2 and 4 bits; otherwise 1."""
    bits = _bits(value) if isinstance(value.type, VectorType) else 8
    return Fraction(bits, 8) if bits in (2, 4) else Fraction(1)


def _bits(value: SSAValue) -> int:
    kind = value.type
    assert isinstance(kind, VectorType)
    element = kind.element_type
    return element.bitwidth if isinstance(element, IntegerType) else bit_width(element)


def spread_of(em: Emitter, value: SSAValue) -> Spread:
    """Distribution of the elements of a vector."""
    return em.analysis(Spreads).spread(value)


def is_operand(em: Emitter, value: SSAValue) -> bool:
    """True if a vector is an operand of instructions, which is bound as `FragmentValue`."""
    return em.analysis(Spreads).is_operand(value)
