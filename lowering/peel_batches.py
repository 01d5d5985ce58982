"""Batch dimensions of dots are peeled, so that products are those of matrices.

A tensor becomes a list of its parts, one per index of the first dimension; a range becomes numbers:

    %x = tt.load %p : BxMxK         -> %x0 = tt.load %p0 : MxK, %x1 = tt.load %p1 : MxK, ...
    tt.dot %x, %y, %c : BxMxN       -> tt.dot %x0, %y0, %c0 : MxN, ...

Only a product of matrices is computed from 2D block messages.  This happens before tensors have
layouts.  Batches of one are reshaped before and after operations that are not known here.  If there
are several, a function with such an operation keeps its batches.  It also keeps them if a matrix is
too small for all warps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.text.writer import write_module
from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BroadcastOp,
    DotOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.tt.structure import ReduceOp
from triton_xe.hardware.dpas import SYSTOLIC_DEPTH
from triton_xe.lowering.facts.values import passed_groups, shape_of
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.rewriting import (
    all_of,
    below,
    functions,
    is_unused,
    locate,
    put,
    values_below,
)

MOST_BATCHES = 8
"""Largest number of batches to split, because code grows with it."""
TILE = SYSTOLIC_DEPTH * 16
"""Elements of the result of one DPAS."""
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp)
_COPIED = (AddPtrOp, BroadcastOp, ExpandDimsOp, MakeRangeOp, SplatOp, arith.ConstantOp)
"""Operations that may be repeated for the parts while other uses keep the original."""


def without_batches(ttir: str, warps: int) -> str | None:
    """The text of a module whose products of batches are those of matrices; None if unchanged."""
    module = import_ttgir(ttir)
    changed = [split_batches(function, warps) for function in functions(module)]
    return write_module(module, locations=True) if any(changed) else None


def _peeled(kind: Attribute) -> Any:
    """The type without its first dimension; that of an element if there is no other."""
    assert isinstance(kind, TensorType)
    shape = kind.get_shape()[1:]
    return TensorType(kind.element_type, shape) if shape else kind.element_type


def _numbered(op: Operation) -> dict[str, Attribute]:
    """The properties of an operation, with the numbers that dimensions have without the first."""
    if isinstance(op, TransOp):
        order = [int(d) - 1 for d in op.order.get_values()[1:]]
        return op.properties | {"order": DenseArrayBase.from_list(i32, order)}
    if isinstance(op, (ReduceOp, ExpandDimsOp)):
        return op.properties | {"axis": IntegerAttr(op.axis.value.data - 1, i32)}
    return dict(op.properties)


def split_batches(function: Operation, warps: int) -> bool:
    """Split the batches of a function; False, and nothing changed, if that is not possible."""
    shapes = [s for dot in all_of(function, DotOp) if len(s := shape_of(dot.d)) == 3]
    batches = {s[0] for s in shapes}
    if 1 in batches:
        return _split(function, 1)
    if len(batches) != 1 or max(batches) > MOST_BATCHES:
        return False
    if any(s[1] * s[2] < TILE * warps for s in shapes):
        return False
    return _split(function, max(batches))


def _split(function: Operation, batches: int) -> bool:
    split = _Values(batches, function)
    if not split.find():
        return False
    _Parts(split).write(function)
    return True


def _is_copied(op: Operation) -> bool:
    """True if parts may be computed while other uses keep the whole tensor."""
    return isinstance(op, _COPIED) or is_elementwise(op)


def _sources(op: Operation) -> list[SSAValue] | None:
    """Tensors whose parts an operation needs for the parts of its results; None if not known.

    The part of a batch of one needs none: it is the result of an operation with another shape.
    """
    tensors = [v for v in op.operands if isinstance(v.type, TensorType)]
    match op:
        case SplatOp() | MakeRangeOp():
            return []
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held) if held.is_splat():
            return []
        case ExpandDimsOp():
            return tensors if op.axis.value.data else []
        case TransOp() if op.order.get_values()[0] == 0:
            return tensors
        case ReduceOp() if op.axis.value.data:
            return tensors
        case DotOp() if len(shape_of(op.d)) == 3:
            return tensors
        case BroadcastOp() | AddPtrOp() | LoadOp() | StoreOp() | AtomicRMWOp() | AtomicCASOp():
            return tensors
    if is_elementwise(op) and tensors:
        return tensors
    shapes = [shape_of(result) for result in op.results]
    return [] if shapes and all(len(s) > 1 and s[0] == 1 for s in shapes) else None


class _Values:
    """The tensors to split: those of three dimensions, and what their parts are computed from.

    `whole` are the operations that are not split, and get a batch of one back.
    """

    def __init__(self, batches: int, function: Operation) -> None:
        self.sizes = (1, batches)
        self.split: dict[SSAValue, None] = {}
        self.whole: set[Operation] = set()
        self._passed: dict[SSAValue, list[SSAValue]] = {}
        for group in (list(group) for op in below(function) for group in passed_groups(op)):
            for value in group:
                self._passed.setdefault(value, []).extend(group)
        self._waiting = [
            v for v in values_below(function) if len(shape_of(v)) == 3 and self._fits(v)]
        self.split |= dict.fromkeys(self._waiting)

    def find(self) -> bool:
        """Find the tensors that are split; False if one of their operations cannot be."""
        while self._waiting:
            if not self._follow(self._waiting.pop()):
                return False
        return True

    def _fits(self, value: SSAValue) -> bool:
        shape = shape_of(value)
        return 0 < len(shape) <= 3 and shape[0] in self.sizes

    def _add(self, *values: SSAValue) -> None:
        self._waiting += [v for v in values if v not in self.split]
        self.split |= dict.fromkeys(values)

    def _follow(self, value: SSAValue) -> bool:
        """True if a value, and all values connected with it, can be peeled; note these."""
        if not self._fits(value):
            return False
        shape, maker = shape_of(value), value.owner
        if not isinstance(maker, Block) and not isinstance(maker, _CONTROL):
            needed = _sources(maker)
            if needed is None or (len(shape) == 1 and not _has_scalar_form(maker)):
                return False
            self._add(*needed, *maker.results)
            if len(shape) < 3 and _is_copied(maker):
                return True
        elif value not in self._passed:
            return False
        self._add(*self._passed.get(value, ()))
        return self._add_users(value)

    def _add_users(self, value: SSAValue) -> bool:
        """Add what all users of a value have; False if one cannot be split."""
        for op in (use.operation for use in value.uses):
            if isinstance(op, (*_CONTROL, scf.YieldOp, scf.ConditionOp)):
                continue
            needed = _sources(op)
            if needed is not None and value in needed and all(map(self._fits, op.results)):
                self._add(*needed, *op.results)
            elif shape_of(value)[0] == 1:
                self.whole.add(op)
            else:
                return False
        return True


def _has_scalar_form(op: Operation) -> bool:
    """True if the part of a tensor of one dimension, a scalar, has the same operation."""
    return isinstance(op, (AddPtrOp, LoadOp, MakeRangeOp, SplatOp, ReduceOp, BroadcastOp)) or (
        is_elementwise(op))


def _drops_batch(op: Operation) -> bool:
    """True if the result of an operation on a batch of one is its part."""
    if not isinstance(op, (ReduceOp, ReshapeOp)) or len(op.operands) > 1:
        return False
    return bool(op.results[0].type == _peeled(op.operands[0].type))


class _Parts:
    """Writes the parts of split tensors, in the order of the function."""

    def __init__(self, values: _Values) -> None:
        self._split, self._whole = values.split, values.whole
        self._parts: dict[SSAValue, list[SSAValue]] = {}
        self._replaced: list[Operation] = []

    def write(self, function: Operation) -> None:
        """Write each split operation once per batch."""
        before = below(function)
        for op in before:
            if op in self._whole and self._give_back(op):
                continue
            if isinstance(op, _CONTROL):
                self._pass_on(op)
            elif isinstance(op, (scf.YieldOp, scf.ConditionOp)):
                op.operands = self._expanded(op.operands)
            elif self._is_split(op):
                for result, parts in zip(op.results, self._parts_of(op), strict=True):
                    self._parts[result] = parts
        split = [op for op in before if op in self._replaced or self._is_split(op)]
        for op in reversed(split):
            if is_unused(op):
                Rewriter.erase_op(op)
        for value in self._split:
            if isinstance(value, BlockArgument):
                value.block.erase_arg(value)

    def _is_split(self, op: Operation) -> bool:
        """True if the results of an operation, or the operands of a store, are split."""
        values = op.results or (op.operands if isinstance(op, StoreOp) else ())
        return any(v in self._split for v in values)

    def _expanded(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        """Replace split values by their parts."""
        return [part for v in values for part in (self._parts[v] if v in self._split else [v])]

    def _give_back(self, op: Operation) -> bool:
        """Give an operation a batch of one as its operand; True if it is replaced by the part."""
        for index, value in enumerate(op.operands):
            if value not in self._split or shape_of(value)[0] != 1:
                continue
            (part,) = self._parts[value]
            if _drops_batch(op) and not self._is_split(op):
                Rewriter.replace_op(op, [], [part])
                return True
            op.operands[index] = self._batch_of(op, part, value.type)
        return False

    def _batch_of(self, op: Operation, part: SSAValue, kind: Attribute) -> SSAValue:
        """The batch of one that has a part."""
        at = InsertPoint.before(op)
        if not isinstance(part.type, TensorType):
            return self._put(op, SplatOp.build(operands=[part], result_types=[kind]), at)
        axis = {"axis": IntegerAttr(0, i32)}
        return self._put(op, ExpandDimsOp.build(
            operands=[part], result_types=[kind], properties=axis), at)

    def _pass_on(self, op: Operation) -> None:
        """Replace a loop or branch by one that passes the parts on.

        Its blocks keep the arguments for whole tensors until they are unused.
        """
        arguments = [arg for region in op.regions for block in region.blocks
                     for arg in block.args if arg in self._split]
        if not arguments and not self._is_split(op):
            return
        self._replaced.append(op)
        for arg in arguments:
            kind, count = _peeled(arg.type), shape_of(arg)[0]
            self._parts[arg] = [arg.block.insert_arg(kind, arg.index + 1 + i) for i in range(count)]
        kinds = [[_peeled(r.type)] * shape_of(r)[0] if r in self._split else [r.type]
                 for r in op.results]
        made = type(op).create(
            operands=self._expanded(op.operands), result_types=[k for each in kinds for k in each],
            properties=dict(op.properties), attributes=dict(op.attributes),
            regions=[op.detach_region(region) for region in list(op.regions)])
        locate(op, made)
        Rewriter.insert_op(made, InsertPoint.before(op))
        results = iter(made.results)
        for result, each in zip(op.results, kinds, strict=True):
            parts: list[SSAValue] = [next(results) for _ in each]
            if result in self._split:
                self._parts[result] = parts
            else:
                result.replace_all_uses_with(*parts)

    def _parts_of(self, op: Operation) -> list[list[SSAValue]]:
        """The parts of each result of an operation, or of a store."""
        at = InsertPoint.before(op)
        count = self._count(op)
        match op:
            case ExpandDimsOp() if op.axis.value.data == 0:
                return [[op.src]]
            case MakeRangeOp():
                first = op.start.value.data
                return [[self._put(op, arith.ConstantOp(IntegerAttr(first + i, i32)), at)
                         for i in range(count)]]
            case arith.ConstantOp():
                return [[self._constant(op, at)] * count]
            case SplatOp():
                return [[self._spread(op, op.src, op.result, at)] * count]
            case BroadcastOp() | ExpandDimsOp():
                held = [self._stretched(op, part, at) for part in self._parts[op.src]]
                return [held * (count // len(held))]
        if not _sources(op):
            return [[self._reshaped(op, result)] for result in op.results]
        made = [self._cloned(op, i) for i in range(count)]
        for each in made:
            locate(op, each)
            Rewriter.insert_op(each, at)
        return [[each.results[k] for each in made] for k in range(len(op.results))]

    def _count(self, op: Operation) -> int:
        """Number of parts of an operation's results, or of what it stores."""
        return shape_of((op.results or op.operands)[0])[0]

    def _put(self, op: Operation, new: Operation, at: InsertPoint) -> SSAValue:
        locate(op, new)
        return put(new, at)

    def _reshaped(self, op: Operation, whole: SSAValue) -> SSAValue:
        """The part of a batch of one, with the elements of the whole tensor."""
        return self._put(op, ReshapeOp.build(
            operands=[whole], result_types=[_peeled(whole.type)]), InsertPoint.after(op))

    def _constant(self, op: arith.ConstantOp, at: InsertPoint) -> SSAValue:
        held, kind = op.value, _peeled(op.result.type)
        assert isinstance(held, DenseIntOrFPElementsAttr)
        value = (DenseIntOrFPElementsAttr(kind, held.data) if isinstance(kind, TensorType)
                 else next(iter(held.get_attrs())))
        return self._put(op, arith.ConstantOp.create(
            result_types=[kind], properties={"value": value}), at)

    def _spread(
        self, op: Operation, scalar: SSAValue, whole: SSAValue, at: InsertPoint
    ) -> SSAValue:
        """A scalar as a part of a tensor."""
        kind = _peeled(whole.type)
        if not isinstance(kind, TensorType):
            return scalar
        return self._put(op, SplatOp.build(operands=[scalar], result_types=[kind]), at)

    def _stretched(
        self, op: BroadcastOp | ExpandDimsOp, part: SSAValue, at: InsertPoint
    ) -> SSAValue:
        """A part with more elements, or another dimension; a splat is one of its scalar."""
        kind = _peeled(op.result.type)
        if part.type == kind:
            return part
        if isinstance(part.owner, SplatOp):
            return self._spread(op, part.owner.src, op.result, at)
        if not isinstance(part.type, TensorType):
            return self._spread(op, part, op.result, at)
        return self._put(op, type(op).build(
            operands=[part], result_types=[kind], properties=_numbered(op)), at)

    def _cloned(self, op: Operation, index: int) -> Operation:
        """The operation on part `index` of its tensors."""
        operands = [self._parts[v][index] if v in self._split else v for v in op.operands]
        return type(op).create(
            operands=operands, result_types=[_peeled(r.type) for r in op.results],
            properties=_numbered(op), attributes=dict(op.attributes),
            regions=[r.clone() for r in op.regions])
