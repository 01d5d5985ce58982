"""What is known of the elements of a tensor along each dimension, for vector accesses.

For an integer or pointer tensor, per dimension: `contiguity` elements in a row that count up by
one (for pointers: by one element), `constancy` elements in a row that are equal; `divisibility` of
the first element of each such run (in units; bytes for pointers).  All are powers of two.

The lattice is that of Triton's axis analysis; see `AxisInfo` in its Analysis folder for the idea.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from triton_xe.dialects.arith_ext import (
    CmpiOp,
    ExtSIOp,
    ExtUIOp,
    IndexCastOp,
    SelectOp,
    TruncIOp,
)
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BitcastOp,
    BroadcastOp,
    ExpandDimsOp,
    IntToPtrOp,
    MakeRangeOp,
    PtrToIntOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.values import (
    Carried,
    Reshape,
    Unknown,
    carried,
    constant_of,
    declared_multiple,
    dimension_map,
    pointee_bytes,
    shape_of,
    states_facts,
)
from triton_xe.lowering.facts.walks import operands_first, operands_of

Quotient = arith.DivSIOp | arith.DivUIOp | arith.RemSIOp | arith.RemUIOp

BIG = 1 << 30
_FOLLOWED = operands_of(
    SplatOp, ExtSIOp, ExtUIOp, IndexCastOp, TruncIOp, ConvertLayoutOp, BitcastOp, IntToPtrOp,
    PtrToIntOp, ExpandDimsOp, BroadcastOp, ReshapeOp, TransOp, AddPtrOp, arith.AddiOp, arith.SubiOp,
    arith.MuliOp, arith.ShLIOp, CmpiOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.MaxSIOp,
    arith.MinSIOp, SelectOp, arith.RemSIOp, arith.RemUIOp, arith.DivSIOp, arith.DivUIOp,
)
"""From whose operands the facts of a result come."""


@dataclass(frozen=True)
class AxisInfo:
    """Per dimension: contiguity, constancy, and divisibility of the run's first element."""

    contiguity: tuple[int, ...]
    constancy: tuple[int, ...]
    divisibility: tuple[int, ...]

    @staticmethod
    def unknown(rank: int) -> AxisInfo:
        ones = (1,) * max(rank, 1)
        return AxisInfo(ones, ones, ones)


def power_of_two_divisor(value: int) -> int:
    """The largest power of two that divides `value` (BIG for 0)."""
    return BIG if value == 0 else value & -value


class AxisAnalysis:
    """Axis facts of the values of one function; answers are remembered.

    With `trusting`, what the program states counts as a fact.
    """

    def __init__(self, *, trusting: bool = True) -> None:
        self._known: dict[SSAValue, AxisInfo] = {}
        self.trusting = trusting

    def info(self, value: SSAValue) -> AxisInfo:
        for needed in operands_first(value, self._known, _FOLLOWED):
            self._known[needed] = AxisInfo.unknown(len(shape_of(needed)))
            self._known[needed] = self._hinted(needed, self._info(needed))
        return self._known[value]

    def _hinted(self, value: SSAValue, info: AxisInfo) -> AxisInfo:
        """Facts that the program states itself (tl.multiple_of and its kin)."""
        op = value.owner
        if not isinstance(op, Operation) or not self.trusting or not states_facts(op):
            return info
        fields = []
        for name, have in (
            ("tt.contiguity", info.contiguity),
            ("tt.constancy", info.constancy),
            ("tt.divisibility", info.divisibility),
        ):
            held = op.attributes.get(name)
            stated = [int(v) for v in getattr(held, "get_values", tuple)()]
            if len(stated) == len(have):
                have = tuple(max(a, b) for a, b in zip(have, stated, strict=True))
            fields.append(have)
        return AxisInfo(*fields)

    def _info(self, value: SSAValue) -> AxisInfo:
        shape = shape_of(value)
        constant = constant_of(value)
        if constant is not None:
            divides = power_of_two_divisor(constant)
            ones = (1,) * max(len(shape), 1)
            return AxisInfo(ones, shape or (1,), (divides,) * len(ones))
        match value.owner:
            case Block():
                return self._block_argument(value)
            case MakeRangeOp(start=start):
                return AxisInfo(shape, (1,), (power_of_two_divisor(start.value.data),))
            case SplatOp(src=source):
                scalar = self.info(source)
                return AxisInfo((1,) * len(shape), shape, (scalar.divisibility[0],) * len(shape))
            case (ExtSIOp(input=source) | ExtUIOp(input=source) | IndexCastOp(input=source)
                  | TruncIOp(input=source)):
                return self.info(source)
            case (ConvertLayoutOp(src=source) | BitcastOp(src=source) | IntToPtrOp(src=source)
                  | PtrToIntOp(src=source)):
                return self.info(source)
            case ExpandDimsOp() | BroadcastOp() | ReshapeOp() | TransOp() as op:
                return self._reshaped(op, shape)
            case AddPtrOp(ptr=left, offset=right):
                return self._sum(left, right, shape, scale=pointee_bytes(value))
            case arith.AddiOp(lhs=left, rhs=right):
                return self._sum(left, right, shape)
            case arith.SubiOp(lhs=left, rhs=right):
                return self._sum(left, right, shape, subtracts=True)
            case arith.MuliOp() as op:
                return self._product(op, shape)
            case arith.ShLIOp(lhs=left, rhs=right) if (bits := constant_of(right)) is not None:
                return _scaled(self.info(left), 1 << bits)
            case CmpiOp() as op:
                return self._comparison(op, shape)
            case (arith.AndIOp() | arith.OrIOp() | arith.XOrIOp() | arith.MaxSIOp()
                  | arith.MinSIOp() | SelectOp()) as op:
                return self._pointwise(op, shape)
            case arith.RemSIOp() | arith.RemUIOp() as op:
                return self._division(op, shape, remainder=True)
            case arith.DivSIOp() | arith.DivUIOp() as op:
                return self._division(op, shape, remainder=False)
        return AxisInfo.unknown(len(shape))

    def _block_argument(self, value: SSAValue) -> AxisInfo:
        found = carried(value)
        if found is not None:
            return self._carried(value, found)
        parent = value.owner.parent_op()
        if isinstance(parent, FuncOp):
            return AxisInfo((1,), (1,), (power_of_two_divisor(declared_multiple(value)),))
        if not isinstance(parent, scf.ForOp):
            return AxisInfo.unknown(len(shape_of(value)))
        low, step = self.info(parent.lb), self.info(parent.step)
        return AxisInfo((1,), (1,), (min(low.divisibility[0], step.divisibility[0]),))

    def _carried(self, value: SSAValue, found: Carried) -> AxisInfo:
        """Start from what holds before the loop, weaken by one turn of it until stable."""
        guess, before = self.info(found.start), self._known[value]
        for _ in range(4):
            certain = len(self._known)
            self._known[value] = guess
            after = self.info(found.end)
            while len(self._known) > certain:  # what was found with the guess
                self._known.popitem()
            self._known[value] = before
            weaker = _meet(guess, after)
            if weaker == guess:
                return guess
            guess = weaker
        return AxisInfo.unknown(len(shape_of(value)))

    def _reshaped(self, op: Reshape, shape: tuple[int, ...]) -> AxisInfo:
        source = self.info(op.src)
        try:
            dims = dimension_map(op)
        except Unknown:
            return AxisInfo.unknown(len(shape))
        spread = min(_every(source, d) for d in range(len(source.divisibility)))

        def pick(values: tuple[int, ...], missing: tuple[int, ...] | int) -> tuple[int, ...]:
            out = []
            for d, s in enumerate(dims):
                absent = missing if isinstance(missing, int) else missing[d]
                out.append(absent if s is None else values[s])
            return tuple(out)

        return AxisInfo(
            pick(source.contiguity, 1),
            pick(source.constancy, shape),
            pick(source.divisibility, spread),
        )

    def _sum(
        self, left: SSAValue, right: SSAValue, shape: tuple[int, ...], *,
        scale: int = 1, subtracts: bool = False,
    ) -> AxisInfo:
        """left + scale * right; of a difference only the left side makes runs."""
        a, b = self.info(left), self.info(right)
        rank = max(len(shape), 1)
        contiguity, constancy, divisibility = [], [], []
        for d in range(rank):
            best = min(a.contiguity[d], b.constancy[d])
            if not subtracts:
                best = max(best, min(a.constancy[d], b.contiguity[d]))
            contiguity.append(max(best, 1))
            constancy.append(min(a.constancy[d], b.constancy[d]))
            run = contiguity[-1]
            mine = _cut(a, d, run) * (scale if a.contiguity[d] > run else 1)
            divisibility.append(min(mine, _cut(b, d, run) * scale, BIG))
        return AxisInfo(tuple(contiguity), tuple(constancy), tuple(divisibility))

    def _product(self, op: arith.MuliOp, shape: tuple[int, ...]) -> AxisInfo:
        a, b = self.info(op.lhs), self.info(op.rhs)
        for one, other in ((a, op.rhs), (b, op.lhs)):
            if constant_of(other) == 1:
                return one
        rank = max(len(shape), 1)
        return AxisInfo(
            (1,) * rank,
            tuple(min(a.constancy[d], b.constancy[d]) for d in range(rank)),
            tuple(min(_every(a, d) * _every(b, d), BIG) for d in range(rank)),
        )

    def _comparison(self, op: CmpiOp, shape: tuple[int, ...]) -> AxisInfo:
        a, b = self.info(op.lhs), self.info(op.rhs)
        rank = max(len(shape), 1)
        constancy = []
        for d in range(rank):
            run = min(a.constancy[d], b.constancy[d])
            # range < bound: equal inside aligned runs as long as the bound is aligned as well
            if op.comparison[1:] in ("lt", "ge") and b.constancy[d] >= a.contiguity[d]:
                run = max(run, min(a.contiguity[d], a.divisibility[d], b.divisibility[d]))
            if op.comparison[1:] in ("le", "gt") and a.constancy[d] >= b.contiguity[d]:
                run = max(run, min(b.contiguity[d], a.divisibility[d], b.divisibility[d]))
            constancy.append(run)
        ones = (1,) * rank
        return AxisInfo(ones, tuple(constancy), ones)

    def _pointwise(self, op: Operation, shape: tuple[int, ...]) -> AxisInfo:
        rank = max(len(shape), 1)
        infos = [self.info(v) for v in op.operands]
        constancy = tuple(
            min(i.constancy[d] if len(i.constancy) > d else BIG for i in infos) for d in range(rank)
        )
        chosen = infos[1:] if isinstance(op, SelectOp) else infos
        most = max if isinstance(op, arith.AndIOp) else min
        divisibility = tuple(
            most(i.divisibility[d] for i in chosen)
            if all(len(i.contiguity) > d and i.contiguity[d] == 1 for i in chosen) else 1
            for d in range(rank)
        )
        return AxisInfo((1,) * rank, constancy, divisibility)

    def _division(self, op: Quotient, shape: tuple[int, ...], *, remainder: bool) -> AxisInfo:
        a, b = self.info(op.lhs), self.info(op.rhs)
        rank = max(len(shape), 1)
        contiguity, constancy, divisibility = [], [], []
        for d in range(rank):
            same = b.constancy[d] >= shape[d] if shape else True
            run = min(a.contiguity[d], a.divisibility[d], b.divisibility[d]) if same else 1
            contiguity.append(max(run, 1) if remainder else 1)
            equal = min(a.constancy[d], b.constancy[d])
            constancy.append(equal if remainder else max(equal, run))
            divisibility.append(min(a.divisibility[d], b.divisibility[d]) if remainder else 1)
        return AxisInfo(tuple(contiguity), tuple(constancy), tuple(divisibility))


def _every(info: AxisInfo, d: int) -> int:
    """What divides every element, not only the first of each run."""
    return info.divisibility[d] if info.contiguity[d] == 1 else 1


def _cut(info: AxisInfo, d: int, run: int) -> int:
    """Divisibility of the first element of runs that are cut to length `run`."""
    if info.contiguity[d] <= run:
        return info.divisibility[d]
    return min(info.divisibility[d], run)


def _meet(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    def least(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(min(p, q) for p, q in zip(x, y, strict=True))

    return AxisInfo(
        least(a.contiguity, b.contiguity),
        least(a.constancy, b.constancy),
        least(a.divisibility, b.divisibility),
    )


def _scaled(info: AxisInfo, by: int) -> AxisInfo:
    rank = len(info.contiguity)
    divisibility = tuple(
        min(_every(info, d) * power_of_two_divisor(by), BIG) for d in range(rank)
    )
    return AxisInfo((1,) * rank, info.constancy, divisibility)
