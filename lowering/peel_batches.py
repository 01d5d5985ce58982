"""Batch dimensions of dots are peeled, so that products are those of matrices.

A tensor with a batch of one loses that dimension:

    %x = tt.expand_dims %m {axis = 0}   : MxK -> 1xMxK         %m itself
    %y = tt.load %p                     : 1xKxN             -> tt.load %p    : KxN
    tt.dot %x, %y, %c                   : 1xMxN                tt.dot %m, %y : MxN

A tensor with a few batches becomes a list of its parts, one per index of the first dimension; a
range becomes numbers:

    %x = tt.load %p : BxMxK         -> %x0 = tt.load %p0 : MxK, %x1 = tt.load %p1 : MxK, ...
    tt.dot %x, %y, %c : BxMxN       -> tt.dot %x0, %y0, %c0 : MxN, ...

Only a product of matrices is computed from 2D block messages.  This happens before tensors have
layouts.  A function keeps its batches if one of its operations on them is not known here.  It also
keeps them if a matrix of several is too small for all warps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.text.writer import write_module
from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BitcastOp,
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
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.import_ttgir import import_ttgir
from triton_xe.lowering.rewriting import all_of, functions, locate, put, retype, values_below

MOST_BATCHES = 8
"""Largest number of batches to split, because code grows with it."""
TILE = SYSTOLIC_DEPTH * 16
"""Elements of the result of one DPAS."""
_RETYPED = (
    AddPtrOp, AtomicCASOp, AtomicRMWOp, BitcastOp, BroadcastOp, DotOp, LoadOp, SplatOp, StoreOp,
    scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp,
)
"""Operations that stay what they are when the shapes of their operands and results change."""
_MOVED = (ExpandDimsOp, ReshapeOp, TransOp, ReduceOp)
_COPIED = (AddPtrOp, BroadcastOp, ExpandDimsOp, MakeRangeOp, SplatOp, arith.ConstantOp)
"""Operations that may be repeated for the parts while other uses keep the original."""
_ELEMENTWISE = ("arith.", "math.")


def without_batches(ttir: str, warps: int) -> str | None:
    """The text of a module whose products of batches are those of matrices; None if unchanged."""
    module = import_ttgir(ttir)
    changed = [drop_unit_batches(function) or split_batches(function, warps)
               for function in functions(module)]
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


# -- a batch of one --------------------------------------------------------------------------------


def drop_unit_batches(function: Operation) -> bool:
    """Drop the batches of a function; False, and nothing changed, if that is not possible."""
    batches = [v for v in values_below(function) if _is_batch(v)]
    dots = all_of(function, DotOp)
    if not any(_is_batch(dot.d) for dot in dots) or not all(map(_is_known, _users(batches))):
        return False
    moved = [op for op in all_of(function, *_MOVED, BroadcastOp) if _changes_batch(op)]
    for value in batches:
        retype(value, _peeled(value.type))
    for op in moved:
        _move(op)
    return True


def _is_batch(value: SSAValue) -> bool:
    shape = shape_of(value)
    return len(shape) == 3 and shape[0] == 1


def _changes_batch(op: Operation) -> bool:
    """True for an operation that moves the elements of a batch, or repeats it to several."""
    if isinstance(op, BroadcastOp):
        return _is_batch(op.src) and not _is_batch(op.results[0])
    return any(map(_is_batch, (*op.operands, *op.results)))


def _users(values: Sequence[SSAValue]) -> Iterator[Operation]:
    """The operations that make or use values; of an argument the operation with its block."""
    for value in values:
        maker = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
        assert maker is not None
        yield maker
        for use in value.uses:
            yield use.operation


def _is_known(op: Operation) -> bool:
    """True for operations that can be peeled."""
    if any(len(shape_of(v)) > 3 for v in (*op.operands, *op.results)):
        return False
    if isinstance(op, TransOp):
        return int(op.order.get_values()[0]) == 0
    if isinstance(op, ReduceOp):
        return len(op.operands) == 1
    return isinstance(op, (*_RETYPED, *_MOVED)) or op.name.startswith(
        (*_ELEMENTWISE, "tt.fp_to_fp", "tt.precise_", "tt.clampf"))


def _move(op: Operation) -> None:
    """Make an operation that moves elements fit its operand and result, as they are now."""
    (source,), (result,) = op.operands, op.results
    if isinstance(op, TransOp):
        op.properties.update(_numbered(op))
    elif isinstance(op, ReduceOp):
        _move_reduction(op)
    elif isinstance(op, BroadcastOp):
        op.operands[0] = _batch_of(op, source, InsertPoint.before(op))
    elif shape_of(source) == shape_of(result):
        Rewriter.replace_op(op, [], [source])
    else:
        _replace(op, _reshaped(source, result.type))


def _move_reduction(op: ReduceOp) -> None:
    """Peel a reduction: one along the batch is its operand; others get the batch back after it."""
    (result,) = op.results
    if op.axis.value.data == 0:
        Rewriter.replace_op(op, [], [op.operands[0]])
        return
    op.properties.update(_numbered(op))
    retype(result, _peeled(result.type))
    (result,), users = op.results, list(op.results[0].uses)
    whole = _batch_of(op, result, InsertPoint.after(op))
    for use in users:
        use.operation.operands[use.index] = whole


def _batch_of(op: Operation, value: SSAValue, at: InsertPoint) -> SSAValue:
    """The tensor as a batch of one again, for an operation that needs it."""
    assert isinstance(value.type, TensorType)
    made = ExpandDimsOp.build(
        operands=[value], properties={"axis": IntegerAttr(0, i32)},
        result_types=[TensorType(value.type.element_type, (1, *shape_of(value)))])
    locate(op, made)
    Rewriter.insert_op(made, at)
    return made.results[0]


def _reshaped(source: SSAValue, kind: Attribute) -> Operation:
    """1xK as Kx1, from K where that is known; any other shape by a reshape."""
    row = source.owner
    assert isinstance(kind, TensorType)
    if isinstance(row, ExpandDimsOp) and row.axis.value.data == 0 and (
            kind.get_shape() == (*shape_of(row.src), 1)):
        return ExpandDimsOp.build(operands=[row.src], result_types=[kind],
                                  properties={"axis": IntegerAttr(len(shape_of(row.src)), i32)})
    return ReshapeOp.build(operands=[source], result_types=[kind])


def _replace(op: Operation, new: Operation) -> None:
    locate(op, new)
    Rewriter.replace_op(op, new)


# -- several batches -------------------------------------------------------------------------------


def split_batches(function: Operation, warps: int) -> bool:
    """Split the batches of a function; False, and nothing changed, if that is not possible."""
    shapes = [s for dot in all_of(function, DotOp) if len(s := shape_of(dot.d)) == 3]
    batches = {s[0] for s in shapes}
    if len(batches) != 1 or not 1 < max(batches) <= MOST_BATCHES:
        return False
    if any(s[1] * s[2] < TILE * warps for s in shapes):
        return False
    split = _Values(max(batches))
    if not split.find(function):
        return False
    _Parts(split).write(function)
    return True


def _is_copied(op: Operation) -> bool:
    """True if parts may be computed while other uses keep the whole tensor."""
    return isinstance(op, _COPIED) or op.name.startswith(_ELEMENTWISE)


def _sources(op: Operation) -> list[SSAValue] | None:
    """Tensors whose parts an operation needs for the parts of its results; None if not known."""
    tensors = [v for v in op.operands if isinstance(v.type, TensorType)]
    match op:
        case arith.ConstantOp():
            held = op.value
            return [] if isinstance(held, DenseIntOrFPElementsAttr) and held.is_splat() else None
        case SplatOp() | MakeRangeOp():
            return []
        case ExpandDimsOp():
            return tensors if op.axis.value.data else []
        case TransOp():
            return tensors if op.order.get_values()[0] == 0 else None
        case ReduceOp():
            return tensors if op.axis.value.data else None
        case DotOp():
            return tensors if len(shape_of(op.d)) == 3 else None
        case BroadcastOp() | AddPtrOp() | LoadOp() | StoreOp():
            return tensors
    return tensors if op.name.startswith(_ELEMENTWISE) and not op.regions else None


class _Values:
    """The tensors to split: those of three dimensions, and what their parts are computed from."""

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.split: dict[SSAValue, None] = {}
        self._waiting: list[SSAValue] = []

    def find(self, function: Operation) -> bool:
        """Find the tensors that are split; False if one of their operations cannot be."""
        for value in values_below(function):
            if len(shape_of(value)) >= 3:
                self._add(value)
        while self._waiting:
            if not self._follow(self._waiting.pop()):
                return False
        return True

    def _add(self, *values: SSAValue) -> None:
        self._waiting += [v for v in values if v not in self.split]
        self.split |= dict.fromkeys(values)

    def _follow(self, value: SSAValue) -> bool:
        """True if a value, and all values connected with it, can be peeled; note these."""
        shape, maker = shape_of(value), value.owner
        if not 0 < len(shape) <= 3 or shape[0] not in (1, self.batches):
            return False
        if isinstance(value, BlockArgument):
            loop = value.block.parent_op()
            if not isinstance(loop, scf.ForOp):
                return False
            self._add_carried(loop, value.index - 1)
            return self._add_users(value)
        assert isinstance(value, OpResult)
        if isinstance(maker, scf.ForOp):
            self._add_carried(maker, value.index)
            return self._add_users(value)
        assert isinstance(maker, Operation)
        needed = _sources(maker)
        if needed is None or (len(shape) == 1 and not _has_scalar_form(maker)):
            return False
        self._add(*needed, *maker.results)
        return (len(shape) < 3 and _is_copied(maker)) or self._add_users(value)

    def _add_carried(self, loop: scf.ForOp, index: int) -> None:
        """Add a value that a loop carries, in all its forms."""
        last = loop.body.block.last_op
        assert isinstance(last, scf.YieldOp)
        self._add(loop.iter_args[index], loop.body.block.args[index + 1],
                  last.arguments[index], loop.results[index])

    def _add_users(self, value: SSAValue) -> bool:
        """Add what all users of a value have; False if one cannot be split."""
        for use in value.uses:
            op = use.operation
            if isinstance(op, scf.ForOp):
                self._add_carried(op, use.index - 3)
            elif isinstance(op, scf.YieldOp) and isinstance(loop := op.parent_op(), scf.ForOp):
                self._add_carried(loop, use.index)
            else:
                needed = _sources(op)
                if needed is None or value not in needed:
                    return False
                self._add(*needed, *op.results)
        return True


def _has_scalar_form(op: Operation) -> bool:
    """True if the part of a tensor of one dimension, a scalar, has the same operation."""
    return isinstance(op, (AddPtrOp, LoadOp, MakeRangeOp, SplatOp, ReduceOp, BroadcastOp)) or (
        op.name.startswith("arith."))


class _Parts:
    """Writes the parts of split tensors, in the order of the function."""

    def __init__(self, values: _Values) -> None:
        self._split = values.split
        self._parts: dict[SSAValue, list[SSAValue]] = {}

    def write(self, function: Operation) -> None:
        """Write each split operation once per batch."""
        before = list(function.walk())
        for op in before:
            if isinstance(op, scf.ForOp):
                self._loop(op)
            elif isinstance(op, scf.YieldOp) and isinstance(op.parent_op(), scf.ForOp):
                op.operands = self._expanded(op.operands)
            elif self._is_split(op):
                for result, parts in zip(op.results, self._parts_of(op), strict=True):
                    self._parts[result] = parts
        for op in reversed(before):
            if self._is_split(op) and not any(r.uses.get_length() for r in op.results):
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

    def _loop(self, loop: scf.ForOp) -> None:
        """Replace a loop by one that carries the parts.

        Its block keeps the arguments for whole tensors until they are unused.
        """
        block = loop.body.block
        for arg in list(block.args[1:]):
            if arg in self._split:
                kind, count = _peeled(arg.type), shape_of(arg)[0]
                self._parts[arg] = [block.insert_arg(kind, arg.index + 1 + i) for i in range(count)]
        made = scf.ForOp(loop.lb, loop.ub, loop.step, self._expanded(loop.iter_args),
                         loop.detach_region(0))
        made.attributes |= loop.attributes
        locate(loop, made)
        put(made, InsertPoint.before(loop))
        results = iter(made.results)
        for result in loop.results:
            if result in self._split:
                self._parts[result] = [next(results) for _ in range(shape_of(result)[0])]
            else:
                result.replace_all_uses_with(next(results))

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
