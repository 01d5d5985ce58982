"""Compute an operand of a dot from loads in the layout of the matrix unit.

    %w = tt.load %p ; %b = f(%w, ...) ; cvt %b -> #dot_op
 -> %w' = tt.load %p' : #dot_op ; f(%w', ...) : #dot_op

This is for weights of few bits, which are unpacked and scaled before the dot.  Nothing is exchanged
through shared local memory, and elements that several rows or columns share are loaded once.
Pointers and indices that a loop only moves become a scalar that it carries.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.arith_ext import ExtSIOp
from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import AddPtrOp, BroadcastOp, DotOp, ExpandDimsOp, SplatOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import BlockLoadOp, RepeatOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.hardware.register_file import HALF_FILE
from triton_xe.hardware.target import Target
from triton_xe.layout import BlockedEncoding, DotOperandEncoding, DpasEncoding
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import Carried, carried, constant_of, pointee_bytes, shape_of
from triton_xe.lowering.layouts.casts import CASTS
from triton_xe.lowering.layouts.rematerialize import (
    Rematerializer,
    converted,
    is_cheap,
    is_volatile,
    layout_attr_of,
    layout_of,
    slice_of,
    with_encoding,
)
from triton_xe.lowering.layouts.repeats import (
    TIMES,
    Runs,
    element_sources,
    joined,
    repeats_of,
    shrunk,
    shrunk_type,
    words_layout,
)
from triton_xe.lowering.layouts.sums_of_bits import summed, sums_of_bits
from triton_xe.lowering.rewriting import (
    all_of,
    extend_for,
    last_of,
    locate,
    put,
    retyped,
    yield_more,
)
from triton_xe.plan.operand import takes_words

MOST_COPIES = 4
"""Warps that may unpack the same weights redundantly: cheaper than a barrier and an exchange."""
_PACKING = (arith.DivSIOp, arith.DivUIOp, arith.ShRSIOp, arith.ShRUIOp)


def at_operand(op: ConvertLayoutOp) -> SSAValue | None:
    """Recompute the source of a conversion to a dot operand in the operand's layout.

    None if that does not pay.  It pays if some load is element by element, because 2D blocks load
    into any layout.  At most `MOST_COPIES` warps, or as many as before, may repeat the same work.
    """
    encoding = layout_attr_of(op.result)
    held = encoding.encoding
    if not isinstance(held, DotOperandEncoding) or not isinstance(held.parent, DpasEncoding):
        return None
    if len(shape_of(op.src)) != 2 or copies_of(op.result.type) > max(
            MOST_COPIES, copies_of(op.src.type)):
        return None
    steps = _steps(op.src)
    if steps is None or not any(map(_is_load, steps)):
        return None
    return _OperandRematerializer().value(op.src, encoding)


def loaded_as(value: SSAValue, encoding: Attribute) -> SSAValue:
    """Load a value in another layout; return the value itself if that is impossible."""
    load = value.owner
    if not isinstance(load, LoadOp) or not _has_addresses(load):
        return value
    return _OperandRematerializer().value(value, encoding)


def load_rows_in_pairs(function: Operation, target: Target) -> None:
    """Load two rows of B per lane if B goes through shared memory as words of two rows."""
    for op in all_of(function, ConvertLayoutOp):
        encoding, loop = _two_rows(op), op.parent_op()
        if encoding is not None and op.src.has_one_use() and isinstance(
                loop, scf.ForOp) and takes_words(target, _sum_bytes(loop, target)):
            op.operands[0] = loaded_as(op.src, layout_attr(encoding))


def _sum_bytes(loop: scf.ForOp, target: Target) -> int:
    """Register bytes in a subgroup of the sums that a loop carries or starts."""
    sums = [v for v in loop.iter_args if isinstance(v.type, TensorType) and isinstance(
        encoding_of(v.type), DpasEncoding)]
    sums += [op.d for op in loop.body.block.ops
             if isinstance(op, DotOp) and not isinstance(op.c, BlockArgument)]
    return 4 * target.subgroup_size * sum(layout_of(v.type).in_dims["register"] for v in sums)


def _two_rows(op: ConvertLayoutOp) -> BlockedEncoding | None:
    """Layout of B with two rows in a lane; None for a B that has them, and for other operands."""
    want, have = encoding_of(op.result.type), encoding_of(op.src.type)
    if not isinstance(want, DotOperandEncoding) or want.op_idx != 1 or not isinstance(
            want.parent, DpasEncoding):
        return None
    if not isinstance(have, BlockedEncoding) or len(have.order) != 2 or bit_width(
            op.src.type.element_type) != 16:  # type: ignore[attr-defined]
        return None
    (rows, columns), (lanes, _), (warps, _) = (
        have.size_per_thread, have.threads_per_warp, have.warps_per_cta)
    if rows != 1 or 2 * lanes * warps > shape_of(op.src)[0]:
        return None
    return replace(have, size_per_thread=(2, columns))


def rebuild_pointers(function: Operation) -> None:
    """Carry scalars through loops whose tensors of pointers fill half of the registers.

    The offsets that are added to the scalars are loop-invariant, and half as large.  A pointer of
    each lane takes two registers.
    """
    facts = Facts(trusting=False)
    for loop in all_of(function, scf.ForOp):
        loads = [load for pointer in loop.body.block.args[1:] for load in _only_loads(pointer)]
        if 2 * sum(_addresses(p, facts) for p in {load.ptr for load in loads}) >= HALF_FILE:
            again = _OperandRematerializer()
            for load in loads:
                again.in_place(load)


def _only_loads(pointer: SSAValue) -> list[LoadOp]:
    """Loads through a loop-carried tensor of pointers; [] if it has other uses."""
    if not isinstance(pointer.type, TensorType) or not isinstance(
            pointer.type.element_type, PointerType):
        return []
    found = carried_pointer(pointer)
    if found is None or found[0].loop.results[found[0].index].first_use is not None:
        return []
    first, moved = found[0].start, found[0].end.owner
    users = [use.operation for use in pointer.uses if use.operation is not moved]
    loads = [user for user in users if isinstance(user, LoadOp) and user.ptr is pointer]
    alone = len(loads) == len(users) and all(r.has_one_use() for r in moved.results)  # type: ignore[union-attr]
    return loads if alone and is_cheap(first) and _has_base(first) else []


def _addresses(pointers: SSAValue, facts: Facts) -> int:
    """Number of addresses that a lane needs: one for each message that is known to be aligned."""
    info, size = facts.of(pointers), pointee_bytes(pointers)
    run = max(min(run, max(divisor // size, 1))
              for run, divisor in zip(info.contiguity, info.divisibility, strict=True))
    held = layout_of(pointers.type).in_dims["register"]
    return max(held // min(run, max(MAX_LANE_BYTES // size, 1)), 1)


def is_unpacked(value: SSAValue) -> bool:
    """True if an operand of a dot is computed from elements loaded one by one."""
    steps = _steps(value) or [] if len(shape_of(value)) == 2 else []
    loads = [v for v in steps if _is_load(v) and 1 not in shape_of(v)]
    return bool(loads) and any(
        is_elementwise(v.owner) and type(v.owner) not in CASTS for v in steps)  # type: ignore[arg-type]


def copies_of(kind: Attribute) -> int:
    """Number of warps that have the same element of a tensor."""
    masks = layout_of(kind).free_variable_masks().get("warp", 0)
    return 1 << masks.bit_count()


def _steps(value: SSAValue) -> list[SSAValue] | None:
    """Values from the loads to a value, which it is computed from.

    None if one of them cannot be recomputed.
    """
    work, seen = [value], dict[SSAValue, None]()
    while work:
        here = work.pop()
        op = here.owner
        if here in seen or not isinstance(here.type, TensorType) or _is_regular(here):
            continue
        seen[here] = None
        if isinstance(op, Block):
            return None
        if isinstance(op, LoadOp):
            if not _may_load_again(op):
                return None
        elif (sources := element_sources(here)) is not None:
            work += sources
        elif not isinstance(op, BlockLoadOp):
            return None
    return list(seen)


def _is_load(value: SSAValue) -> bool:
    """True for a load of elements one by one, and for a block load that was such a load."""
    op = value.owner
    return isinstance(op, LoadOp) or (isinstance(op, BlockLoadOp) and op.unpacked is not None)


def _may_load_again(load: LoadOp) -> bool:
    """True if a load in another layout needs no more messages, each at least as wide."""
    if not _has_addresses(load):
        return False
    if len(shape_of(load.result)) < 2 or 1 in shape_of(load.result):
        return True
    if all(isinstance(use.operation, RepeatOp) for use in load.result.uses):
        return True
    is_word = bit_width(load.result.type.element_type) >= 32  # type: ignore[attr-defined]
    return is_word or _is_packed(initial(load.ptr))


def _has_addresses(load: LoadOp) -> bool:
    """True if the pointers and mask of a load can be recomputed in any layout."""
    if is_volatile(load) or not all(_is_regular(v) for v in load.operands[1:]):
        return False
    pointer = initial(load.ptr)
    return is_cheap(pointer) and (pointer is load.ptr or _has_base(pointer))


def _is_packed(pointer: SSAValue) -> bool:
    """True if several elements share an address, because its index is a quotient."""
    work, seen = [pointer], set[SSAValue]()
    while work:
        value = work.pop()
        if value in seen or isinstance(value.owner, Block) or not shape_of(value):
            continue
        seen.add(value)
        if isinstance(value.owner, _PACKING):
            return True
        work += value.owner.operands
    return False


def _is_regular(value: SSAValue) -> bool:
    """True if a tensor is computed from scalars, constants, and numbers that a loop counts up."""
    if not isinstance(value.type, TensorType) or is_cheap(value) or sums_of_bits(value):
        return True
    op = value.owner
    if isinstance(op, Block):
        found = carried_pointer(value)
        return found is not None and is_cheap(found[0].start) and (
            isinstance(value.type.element_type, IntegerType))
    known = isinstance(op, ConvertLayoutOp | BroadcastOp | ExpandDimsOp) or is_elementwise(op)
    return known and all(map(_is_regular, op.operands))


def carried_pointer(pointer: SSAValue) -> tuple[Carried, SSAValue | int] | None:
    """How a loop carries a tensor, and the step that it adds to all elements."""
    held = carried(pointer)
    if held is None:
        return None
    moved = held.end.owner
    if not isinstance(moved, AddPtrOp | arith.AddiOp) or moved.operands[0] is not pointer:
        return None
    step = moved.operands[1]
    known = step.owner.src if isinstance(step.owner, SplatOp) else constant_of(step)
    return None if known is None else (held, known)


def initial(pointer: SSAValue) -> SSAValue:
    """The initial value of a tensor that a loop moves, or the tensor itself."""
    return pointer if (found := carried_pointer(pointer)) is None else found[0].start


def _has_base(pointers: SSAValue) -> bool:
    """True if a tensor of pointers has one scalar base."""
    return isinstance(_base(pointers).type, PointerType)


def _base(pointers: SSAValue) -> SSAValue:
    """The scalar base of a tensor of pointers; a tensor if that has none."""
    while isinstance(pointers.type, TensorType):
        op = pointers.owner
        if not isinstance(op, AddPtrOp | BroadcastOp | ExpandDimsOp | SplatOp | ConvertLayoutOp):
            break
        pointers = op.operands[0]
    return pointers


@dataclass
class _OperandRematerializer(Rematerializer):
    """Recomputes values in the layout of an operand.

    `gone` has the base of loop-carried pointers, and the sum of the steps so far of numbers.
    `shrunk` has masks with one element for each run of equal elements.
    """
    gone: dict[SSAValue, SSAValue] = field(default_factory=dict)
    shrunk: dict[tuple[SSAValue, Runs], SSAValue] = field(default_factory=dict)

    def in_place(self, load: LoadOp) -> None:
        """Recompute the pointers of a load."""
        encoding = layout_attr_of(load.result)
        operands = [self._pointers(load, encoding), *load.operands[1:]]
        made = with_encoding(load, encoding, InsertPoint.before(load), operands)
        load.result.replace_all_uses_with(made.results[0])
        Rewriter.erase_op(load)

    def recompute(self, value: SSAValue, encoding: Attribute) -> SSAValue:
        op = value.owner
        if isinstance(op, Block):
            return self._counted(value, encoding)
        if sums_of_bits(value):
            return summed(value, encoding, InsertPoint.after(op))
        at, few = InsertPoint.after(op), joined(value)
        if isinstance(op, ConvertLayoutOp):
            return super().recompute(value, encoding)
        if few is not None:
            return self._times(value, few, encoding, at)
        if isinstance(op, BlockLoadOp):
            return converted(value, encoding, at)
        if isinstance(op, RepeatOp):
            return self._repeat(op, encoding, at)
        runs = repeats_of(op) if isinstance(op, LoadOp) else None
        if isinstance(op, LoadOp) and runs is not None:
            return self._repeated(op, encoding, runs)
        if not isinstance(op, LoadOp):
            return super().recompute(value, encoding)
        operands = [self._pointers(op, encoding),
                    *(self.value(v, encoding) for v in op.operands[1:])]
        return with_encoding(op, encoding, at, operands).results[0]

    def _counted(self, value: SSAValue, encoding: Attribute) -> SSAValue:
        """Recompute numbers that a loop counts up: initial values plus the sum of steps so far."""
        found = carried_pointer(value)
        assert found is not None
        assert isinstance(value.type, TensorType)
        held, step = found
        first, body = self.value(held.start, encoding), held.loop.body.block
        if value not in self.gone:
            self.gone[value] = _sum_of_steps(held.loop, step, value.type.element_type)
        assert body.first_op is not None
        at = InsertPoint.before(body.first_op)
        by = put(SplatOp(operands=[self.gone[value]], result_types=[first.type]), at)
        return put(arith.AddiOp(first, by), at)

    def _times(
        self, value: SSAValue, few: SSAValue, encoding: Attribute, at: InsertPoint
    ) -> SSAValue:
        """Recompute a tensor whose runs of eight elements along the last dimension are equal."""
        kind, runs = retyped(value.type, encoding), Runs(len(shape_of(value)) - 1, TIMES[32])
        words = layout_attr(words_layout(layout_of(kind), runs))
        return put(RepeatOp(source=self.value(few, words), axis=runs.axis, times=runs.times,
                             result_type=kind), at)

    def _repeat(self, op: RepeatOp, encoding: Attribute, at: InsertPoint) -> SSAValue:
        """Recompute elements that are repeated, from their source."""
        runs = Runs(op.axis.value.data, op.times.value.data)
        kind = retyped(op.result.type, encoding)
        words = layout_attr(words_layout(layout_of(kind), runs))
        repeated = RepeatOp(source=self.value(op.source, words), axis=runs.axis, times=runs.times,
                            result_type=kind)
        locate(op, repeated)
        return put(repeated, at)

    def _repeated(self, load: LoadOp, encoding: Attribute, runs: Runs) -> SSAValue:
        """Load a tensor with runs of equal elements: one of each run, then repeat them."""
        kind = retyped(load.result.type, encoding)
        is_row = runs.times == shape_of(load.result)[runs.axis]
        words = encoding if is_row else layout_attr(words_layout(layout_of(kind), runs))
        few = retyped(shrunk_type(kind, runs), words)
        mask = [self.value(shrunk(v, runs, self.shrunk), words) for v in load.operands[1:]]
        loaded = LoadOp.create(
            operands=[self._pointers(load, words, runs), *mask], result_types=[few],
            properties=dict(load.properties), attributes=dict(load.attributes))
        repeated = BroadcastOp(operands=[loaded.result], result_types=[kind]) if is_row else (
            RepeatOp(source=loaded.result, axis=runs.axis, times=runs.times, result_type=kind))
        for op in (loaded, repeated):
            locate(load, op)
            Rewriter.insert_op(op, InsertPoint.before(load))
        return repeated.result

    def _pointers(self, load: LoadOp, encoding: Attribute, runs: Runs | None = None) -> SSAValue:
        """Recompute the pointers of a load; with `runs`, only the first pointer of each run.

        Loop-carried pointers become initial pointers plus a scalar that the loop carries.
        """
        found = carried_pointer(load.ptr)
        first = initial(load.ptr)
        few = first if runs is None else shrunk(first, runs, self.shrunk)
        if found is None:
            return self.value(few, encoding)
        if load.ptr not in self.gone:
            self.gone[load.ptr] = _carried_base(found[0].loop, _base(first), found[1])
        return self._make_pointers(few, self.gone[load.ptr], encoding, InsertPoint.before(load))

    def _make_pointers(
        self, value: SSAValue, base: SSAValue, encoding: Attribute, at: InsertPoint
    ) -> SSAValue:
        """Recompute pointers in a layout, from another base."""
        if not isinstance(value.type, TensorType):
            return base
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, ConvertLayoutOp):
            return self._make_pointers(op.src, base, encoding, at)
        inner = slice_of(op, encoding) if isinstance(op, ExpandDimsOp) else encoding
        first = self._make_pointers(op.operands[0], base, inner, at)
        others = [self.value(v, inner) for v in op.operands[1:]]
        return with_encoding(op, encoding, at, [first, *others]).results[0]


def _carried_base(loop: scf.ForOp, base: SSAValue, step: SSAValue | int) -> SSAValue:
    """Let a loop carry a pointer that each iteration advances by a number of elements; return it.
    """
    if isinstance(step, int):
        step = put(arith.ConstantOp(IntegerAttr(step, i64)), InsertPoint.before(loop))
    loop, (moved,) = extend_for(loop, [base])
    end = InsertPoint.before(last_of(loop.body.block))
    yield_more(loop, [put(AddPtrOp(operands=[moved, step], result_types=[base.type]), end)])
    return moved


def _sum_of_steps(loop: scf.ForOp, step: SSAValue | int, kind: Attribute) -> SSAValue:
    """Let a loop carry the sum of its steps so far, as an integer of type `kind`; return it."""
    assert isinstance(kind, IntegerType)
    before, body = InsertPoint.before(loop), loop.body.block
    zero = put(arith.ConstantOp(IntegerAttr(0, kind)), before)
    if isinstance(step, int):
        step = put(arith.ConstantOp(IntegerAttr(step, kind)), before)
    loop, (gone,) = extend_for(loop, [zero])
    end = InsertPoint.before(last_of(body))
    wide = step if step.type == kind else put(ExtSIOp(step, kind), end)
    yield_more(loop, [put(arith.AddiOp(gone, wide), end)])
    return gone
