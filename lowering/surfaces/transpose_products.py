"""Rule transpose-products: transpose products whose rows of A are gathered.

    %d = tt.dot %a, %b, %c  ->  %d' = tt.dot (trans %b), (trans %a), (trans %c)

Each lane can load its column of operand B from any address (`gather-operands`).  Rows of operand A
that are gathered go through shared local memory, with two barriers in each iteration of a loop.
Therefore, if B is stored transposed in memory, the product is transposed: B's blocks are then
loaded as operand A by 2D messages.  The operations that compute addresses and stored values are
cloned for the transposed layout, down to rows, so that nothing moves between lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import (
    AddPtrOp,
    BroadcastOp,
    DotOp,
    ExpandDimsOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.memory import COLUMN_BYTES
from triton_xe.layout import BlockedEncoding, DotOperandEncoding, SliceEncoding
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import (
    Carried,
    Unknown,
    carried,
    element_of,
    pointee_bytes,
    shape_of,
)
from triton_xe.lowering.family import Scope
from triton_xe.lowering.layouts.dpas_choice import instruction_of
from triton_xe.lowering.layouts.gather_operands import FEWEST_BYTES
from triton_xe.lowering.layouts.rematerialize import before_conversions, converted, is_volatile
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import (
    all_of,
    carry_more,
    last_of,
    locate,
    put,
)

_STEPS = (AddPtrOp, BroadcastOp, SplatOp, LoadOp)


def transpose_products(function: FuncOp, scope: Scope) -> None:
    """Transpose products whose rows of A are gathered."""
    dots = all_of(function, DotOp)
    if not dots or not all(is_better_swapped(dot, scope) for dot in dots):
        return
    swapped = _Transposed()
    for dot in dots:
        swapped.product(dot)
    for store in all_of(function, StoreOp):
        swapped.store(store)
    swapped.finish()


def is_better_swapped(dot: DotOp, scope: Scope) -> bool:
    """True if rows of A are gathered, and B is loaded as blocks that are stored by columns."""
    if not isinstance(encoding_of(dot.d.type), BlockedEncoding) or len(shape_of(dot.d)) != 2:
        return False
    if not isinstance(dot.parent_op(), scf.ForOp) or isinstance(
            instruction_of(dot, scope.target), str):
        return False
    a, b = (before_conversions(side).owner for side in (dot.a, dot.b))
    if not isinstance(a, LoadOp) or not isinstance(b, LoadOp) or not all(map(_is_alone, (a, b))):
        return False
    if _first_dim(a) != 1 or _first_dim(b) != 0:
        return False
    if shape_of(dot.d)[0] < scope.target.dpas_execution_size or (
            element_of(dot.a) != element_of(dot.b)):
        return False
    if _is_affine(a, scope.affine) or not _is_affine(b, scope.affine):
        return False
    return _is_contiguous_along(a, 1, scope.facts) and _is_contiguous_along(b, 0, scope.facts)


def _is_alone(load: LoadOp) -> bool:
    return not is_volatile(load) and load.result.has_one_use() and isinstance(
        encoding_of(load.result.type), BlockedEncoding)


def _first_dim(load: LoadOp) -> int | None:
    """The first dimension of a blocked layout: the contiguous one of coalesced accesses."""
    held = encoding_of(load.result.type)
    return held.order[0] if isinstance(held, BlockedEncoding) else None


def _is_contiguous_along(load: LoadOp, dim: int, facts: Facts) -> bool:
    """True if a column of operand B is contiguous along a dimension, under a single mask."""
    if pointee_bytes(load.ptr) < FEWEST_BYTES:
        return False
    count = COLUMN_BYTES // pointee_bytes(load.ptr)
    masked = count if load.mask is None else facts.of(load.mask).constancy[dim]
    return min(facts.of(load.ptr).contiguity[dim], masked) >= count


def _is_affine(load: LoadOp, affine: Affine) -> bool:
    try:
        affine.index(load.ptr)
    except Unknown:
        return False
    return True


def transposed_type(kind: Attribute) -> TensorType[Any] | None:
    """Return the type of a matrix's transpose in a blocked layout; None for other types."""
    if not isinstance(kind, TensorType) or len(kind.get_shape()) != 2:
        return None
    held = encoding_of(kind)
    if not isinstance(held, BlockedEncoding) or held.cga_layout:
        return None
    made = replace(
        held, size_per_thread=held.size_per_thread[::-1],
        threads_per_warp=held.threads_per_warp[::-1], warps_per_cta=held.warps_per_cta[::-1],
        order=tuple(1 - d for d in held.order))
    return TensorType(kind.element_type, kind.get_shape()[::-1], layout_attr(made))


def _blocked(kind: TensorType[Any]) -> BlockedEncoding:
    held = encoding_of(kind)
    assert isinstance(held, BlockedEncoding)
    return held


def _is_step(value: SSAValue) -> bool:
    """True if the transpose of a tensor is the same operation on transposed operands."""
    op = value.owner
    if isinstance(op, LoadOp):
        return _is_alone(op)
    return isinstance(op, Operation) and (isinstance(op, _STEPS) or is_elementwise(op))


@dataclass
class _Transposed:
    """Writer of transposed copies of values, each next to the original."""

    made: dict[SSAValue, SSAValue] = field(default_factory=dict)
    carried: dict[tuple[Block, int], int] = field(default_factory=dict)
    """Index of a loop-carried value -> index of its transpose."""
    waiting: list[tuple[Block, int]] = field(default_factory=list)
    """Loop-carried transposes whose `scf.yield` operand is still to be written."""

    def product(self, dot: DotOp) -> None:
        """Create the transposed product: `a @ b  ->  trans(trans(b) @ trans(a))`."""
        kind = transposed_type(dot.d.type)
        assert kind is not None
        sides = []
        for index, side in enumerate((dot.b, dot.a)):
            source = self.value(before_conversions(side))
            held = layout_attr(DotOperandEncoding(index, _blocked(kind)))
            sides.append(converted(source, held, InsertPoint.before(dot)))
        swapped = DotOp.create(
            operands=[*sides, self.value(dot.c)], result_types=[kind],
            properties=dict(dot.properties), attributes=dict(dot.attributes))
        locate(dot, swapped)
        swapped.swapped = UnitAttr()
        Rewriter.insert_op(swapped, InsertPoint.before(dot))
        remark(swapped, "computed transposed: rows of A are gathered")
        self.made[dot.d] = swapped.d
        self._yield()

    def store(self, store: StoreOp) -> None:
        """Store the transpose of values that are computed from products."""
        if self._reaches(store.value) and all(
                transposed_type(v.type) is not None for v in store.operands):
            store.operands = [self.value(v) for v in store.operands]
            self._yield()

    def finish(self) -> None:
        """Replace other uses of the untransposed values by the transposes, transposed back."""
        for (body, index), place in self.carried.items():
            loop = body.parent_op()
            assert isinstance(loop, scf.ForOp)
            assert body.first_op is not None
            old, new = loop.results[index], loop.results[place]
            _replace(old, new, InsertPoint.after(loop))
            _replace(body.args[index + 1], body.args[place + 1],
                     InsertPoint.before(body.first_op))

    def _reaches(self, value: SSAValue) -> bool:
        """True if a value is computed from a product's result, element by element."""
        op = value.owner
        if value in self.made or (isinstance(op, scf.ForOp) and (
                op.body.block, op.results.index(value)) in self.carried):
            return True
        steps = isinstance(op, ConvertLayoutOp) or (
            isinstance(op, Operation) and is_elementwise(op))
        return steps and any(map(self._reaches, op.operands))  # type: ignore[union-attr]

    def value(self, value: SSAValue) -> SSAValue:
        """The transposed value, created once."""
        op = value.owner
        if isinstance(op, scf.ForOp):
            place = self.carried.get((op.body.block, op.results.index(value)))
            if place is not None:
                return op.results[place]
        if value not in self.made:
            self.made[value] = self._recompute_transposed(value)
        return self.made[value]

    def _recompute_transposed(self, value: SSAValue) -> SSAValue:
        """Compute the transposed value from the transposed operands of its operation."""
        op, kind = value.owner, transposed_type(value.type)
        if not isinstance(value.type, TensorType):
            return value
        assert kind is not None
        if (held := carried(value)) is not None:
            return self._carry(value, held)
        if isinstance(op, TransOp):
            return converted(op.src, kind.encoding, InsertPoint.after(op))
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr) and (
                op.value.is_splat()):
            made: Operation = arith.ConstantOp(DenseIntOrFPElementsAttr(kind, op.value.data), kind)
            return _put(op, made)
        if isinstance(op, ExpandDimsOp):
            return self._expanded(op, kind)
        if isinstance(op, ConvertLayoutOp) and transposed_type(op.src.type) is not None:
            return converted(self.value(op.src), kind.encoding, InsertPoint.after(op))
        if _is_step(value):
            assert isinstance(op, Operation)
            operands = [self.value(v) for v in op.operands]
            return _put(op, type(op).create(
                operands=operands, result_types=[kind], properties=dict(op.properties),
                attributes=dict(op.attributes)))
        return _trans(value, kind)

    def _expanded(self, op: ExpandDimsOp, kind: TensorType[Any]) -> SSAValue:
        axis = 1 - op.axis.value.data
        row = layout_attr(SliceEncoding(axis, _blocked(kind)))
        source = converted(op.src, row, InsertPoint.before(op))
        made = ExpandDimsOp.create(
            operands=[source], result_types=[kind],
            properties={**op.properties, "axis": IntegerAttr(axis, i32)})
        return _put(op, made)

    def _carry(self, value: SSAValue, held: Carried) -> SSAValue:
        """Carry the transpose of a loop-carried value through the loop as well."""
        body = held.loop.body.block
        again = carry_more(body, self.value(held.start))
        self.made[value] = again
        self.carried[body, held.index] = again.index - 1
        self.waiting.append((body, held.index))
        return again

    def _yield(self) -> None:
        """Write the `scf.yield` operands of the carried transposes."""
        while self.waiting:
            body, index = self.waiting.pop()
            last = last_of(body)
            last.operands[self.carried[body, index]] = self.value(last.operands[index])


def _put(old: Operation, new: Operation) -> SSAValue:
    locate(old, new)
    return put(new, InsertPoint.after(old))


def _trans(value: SSAValue, kind: TensorType[Any]) -> SSAValue:
    """Transpose a value, after its operation or at the start of its block."""
    op = value.owner
    made = TransOp.create(
        operands=[value], result_types=[kind],
        properties={"order": DenseArrayBase.from_list(i32, [1, 0])})
    if isinstance(op, Operation):
        return _put(op, made)
    assert op.first_op is not None
    Rewriter.insert_op(made, InsertPoint.before(op.first_op))
    return made.result


def _replace(old: SSAValue, new: SSAValue, at: InsertPoint) -> None:
    """Replace the uses of a matrix by its transpose, transposed back."""
    if old.first_use is None:
        return
    back = TransOp.create(
        operands=[new], result_types=[old.type],
        properties={"order": DenseArrayBase.from_list(i32, [1, 0])})
    old.replace_all_uses_with(back.result)
    Rewriter.insert_op(back, at)
