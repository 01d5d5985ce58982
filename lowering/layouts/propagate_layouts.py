"""Eliminate layout conversions next to dots, or move them to where they cost nothing.

A conversion from a DPAS layout (or from a slice of one) moves down until it reaches its inverse or
a block store.  It moves through elementwise operations, reductions, branches and loop-carried
values.
A conversion to an operand's layout moves up, through casts, into block loads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.layouts import encoding_of, layout_attr
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import (
    BroadcastOp,
    ExpandDimsOp,
    TransOp,
)
from triton_xe.dialects.tt.structure import ReduceOp, ScanOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import BlockLoadOp, BlockStoreOp
from triton_xe.dialects.xegpu.types import bit_width
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding, LinearEncoding, SliceEncoding
from triton_xe.lowering.facts.values import shape_of
from triton_xe.lowering.layouts.at_operand import at_operand
from triton_xe.lowering.layouts.casts import CASTS
from triton_xe.lowering.layouts.rematerialize import (
    before_conversions,
    converted,
    is_cheap,
    is_volatile,
    layout_attr_of,
    layout_of,
    rematerialize,
    replace_converted,
    slice_of,
    with_encoding,
)
from triton_xe.lowering.rewriting import (
    all_of,
    erase_dead,
    is_unused,
    last_of,
    locate,
    retyped,
)
from triton_xe.plan import Refusal, SurfaceFacts, plan_block_load
from triton_xe.plan.model import BlockPlan

Rule = Callable[[ConvertLayoutOp], bool]
ROUNDS = 200


def propagate(function: Operation, target: Target) -> int:
    """Apply the rules to conversions until a fixed point; return the number of rounds."""
    rules: tuple[Rule, ...] = (
        fold_conversions, into_constant, partial(into_block_load, target=target), through_cast,
        through_shape,
        reload, load_at_operand, out_of_loop, out_of_while, out_of_branches, through_elementwise,
        through_reduction, through_scan, into_block_store,
    )
    erase_dead(function)
    rounds = 0
    changed = True
    while changed and rounds < ROUNDS:
        rounds, changed = rounds + 1, False
        for op in all_of(function, ConvertLayoutOp):
            if op.parent is not None and not is_unused(op):
                changed |= any(rule(op) for rule in rules)
    erase_dead(function)
    return rounds


def is_dpas(kind: Attribute) -> bool:
    """True if a tensor has the layout of a DPAS result, or of a slice of one."""
    if type(kind) is not TensorType:
        return False
    encoding = encoding_of(kind)
    while isinstance(encoding, SliceEncoding):
        encoding = encoding.parent
    return isinstance(encoding, DpasEncoding)


def is_block(kind: Attribute) -> bool:
    """True if a tensor has the layout of a DPAS result or operand, which block loads support."""
    held = encoding_of(kind)
    return isinstance(held.parent if isinstance(held, DotOperandEncoding) else held, DpasEncoding)


def is_words(kind: Attribute) -> bool:
    """True if a layout is a linear layout, as that of words from which bit fields are extracted."""
    return isinstance(encoding_of(kind), LinearEncoding)


def fold_conversions(op: ConvertLayoutOp) -> bool:
    """cvt(cvt x) -> cvt x ; cvt x -> x where the types are the same."""
    inner = op.src.owner
    if type(inner) is ConvertLayoutOp:
        op.operands[0] = inner.src
        return True
    return op.src.type == op.result.type and _replaced(op, op.src)


def _replaced(op: ConvertLayoutOp, value: SSAValue) -> bool:
    """Replace a conversion's result by a value; return True, because the rule applied."""
    op.result.replace_all_uses_with(value)
    return True


def into_constant(op: ConvertLayoutOp) -> bool:
    """cvt(constant) -> constant; also for values that are computed from scalars alone."""
    return is_cheap(op.src) and _replaced(op, rematerialize(op.src, layout_attr_of(op.result), {}))


def into_block_load(op: ConvertLayoutOp, target: Target) -> bool:
    """cvt(block_load) -> block_load ; cvt(trans(block_load)) -> block_load transposed.

    The rule does not apply if no message has the layout, such as 16-bit columns, one per lane, for
    a tf32 operand.
    """
    inner = op.src.owner
    swapped = type(inner) is TransOp
    load = inner.src.owner if isinstance(inner, TransOp) else inner
    if not isinstance(load, BlockLoadOp) or not (
            is_block(op.result.type) or is_words(op.result.type)):
        return False
    transposed = (load.transposed is not None) != swapped
    if not brings(target, op.result.type, transposed):
        return False
    new = BlockLoadOp(cursor=load.cursor, value_type=op.result.type, transposed=transposed)
    locate(load, new)
    Rewriter.insert_op(new, InsertPoint.after(load))
    return _replaced(op, new.value)


def brings(target: Target, kind: Attribute, transposed: bool) -> bool:
    """True if block loads (or gathers on a device without them) can load a tensor in its layout."""
    return not target.has_block_2d or not isinstance(
        messages_of(target, kind, transposed), Refusal)


def messages_of(target: Target, kind: Attribute, transposed: bool) -> BlockPlan | Refusal:
    """The messages that load a tensor in its layout, or why none do."""
    facts = SurfaceFacts(contiguous_dim=0 if transposed else 1)
    bits = bit_width(kind.element_type)  # type: ignore[attr-defined]
    return plan_block_load(layout_of(kind), facts, bits, target, same_width=True)


def through_cast(op: ConvertLayoutOp) -> bool:
    """cvt(cast x) -> cast(cvt x), towards a block load.

    The rule does not apply to bytes that were extracted from wider elements.  Their layout has two
    adjacent bytes in a lane, which no block load of larger elements delivers.
    """
    inner = op.src.owner
    if not isinstance(inner, Operation) or type(inner) not in CASTS:
        return False
    if not _from_block_load(inner.operands[0]):
        return False
    cast, source = (bit_width(v.type.element_type) for v in (op.src, inner.operands[0]))  # type: ignore[attr-defined]
    if cast < min(16, source):
        return False
    encoding = layout_attr_of(op.result)
    return _convert_before(op, inner, encoding, encoding)


def _convert_before(
    op: ConvertLayoutOp, inner: Operation, source: Attribute, encoding: Attribute
) -> bool:
    """cvt(f x) -> f(cvt x), x in layout `source`."""
    before = converted(inner.operands[0], source, InsertPoint.before(inner))
    copy = with_encoding(inner, encoding, InsertPoint.after(inner), [before])
    return _replaced(op, copy.results[0])


def _from_block_load(value: SSAValue) -> bool:
    op = value.owner
    while isinstance(op, Operation) and type(op) in (*CASTS, TransOp):
        op = op.operands[0].owner
    return type(op) is BlockLoadOp


def through_shape(op: ConvertLayoutOp) -> bool:
    """cvt(broadcast x) -> broadcast(cvt x) ; cvt(expand_dims x) -> expand_dims(cvt x)."""
    inner, encoding = op.src.owner, layout_attr_of(op.result)
    if not is_dpas(op.result.type) or not isinstance(inner, BroadcastOp | ExpandDimsOp):
        return False
    source = encoding if isinstance(inner, BroadcastOp) else slice_of(inner, encoding)
    return _convert_before(op, inner, source, encoding)


def reload(op: ConvertLayoutOp) -> bool:
    """cvt(load p) -> load p' if that is cheaper than an exchange.

    It is for rows and columns of values, and for matrices without other uses.
    """
    load = op.src.owner
    if not isinstance(load, LoadOp) or is_volatile(load) or not is_dpas(op.result.type):
        return False
    if len(shape_of(op.result)) != 1 and not op.src.has_one_use():
        return False
    if not all(is_cheap(v) for v in load.operands):
        return False
    encoding, made = layout_attr_of(op.result), dict[tuple[SSAValue, Attribute], SSAValue]()
    operands = [rematerialize(v, encoding, made) for v in load.operands]
    return _replaced(
        op, with_encoding(load, encoding, InsertPoint.after(load), operands).results[0])


def load_at_operand(op: ConvertLayoutOp) -> bool:
    """cvt(f(load p)) -> f(load p') for an operand of a dot that is computed from loads."""
    value = at_operand(op)
    return value is not None and _replaced(op, value)


def out_of_loop(op: ConvertLayoutOp) -> bool:
    """for (%c) { ... ; yield (cvt %x) } -> for (cvt %c) { cvt back ; ... ; yield %x }."""
    if not is_dpas(op.src.type):
        return False
    for use in list(op.result.uses):
        last, loop = use.operation, use.operation.parent_op()
        if isinstance(last, scf.YieldOp) and isinstance(loop, scf.ForOp):
            _carry(loop, use.index, layout_attr_of(op.src))
            return True
    return False


def out_of_while(op: ConvertLayoutOp) -> bool:
    """Do the same for values that a while loop yields, or passes from its test to its body."""
    if not is_dpas(op.src.type) or is_dpas(op.result.type):
        return False
    encoding, old = layout_attr_of(op.src), op.result.type
    for use in list(op.result.uses):
        last, loop = use.operation, use.operation.parent_op()
        if not isinstance(last, scf.YieldOp | scf.ConditionOp) or not isinstance(loop, scf.WhileOp):
            continue
        before, after = loop.before_region.block, loop.after_region.block
        last.operands[use.index] = op.src
        if isinstance(last, scf.ConditionOp):
            index = use.index - 1
            _retype_argument(after, index, encoding, old)
            _retype(loop.results[index], encoding, old, InsertPoint.after(loop))
        else:
            _convert_operand(loop, use.index, encoding)
            _retype_argument(before, use.index, encoding, old)
        return True
    return False


def out_of_branches(op: ConvertLayoutOp) -> bool:
    """if { yield (cvt %x) } else { yield (cvt %y) } -> cvt (if { yield %x } else { yield %y }).

    Constants and other cheap values are converted.  So are values that a loop carries if the branch
    decides what it carries next, because `out_of_loop` and `out_of_while` change the layout of
    these, too.
    """
    if not is_dpas(op.src.type) or is_dpas(op.result.type):
        return False
    encoding, old = layout_attr_of(op.src), op.result.type
    for use in list(op.result.uses):
        last, branch = use.operation, use.operation.parent_op()
        if not isinstance(last, scf.YieldOp) or not isinstance(branch, scf.IfOp):
            continue
        ends, result = [last_of(r.block) for r in branch.regions], branch.results[use.index]
        values = [before_conversions(end.operands[use.index]) for end in ends]
        if all(_is_free(v, encoding) or _is_carried_on(v, result) for v in values):
            for end, value in zip(ends, values, strict=True):
                end.operands[use.index] = converted(value, encoding, InsertPoint.before(end))
            _retype(result, encoding, old, InsertPoint.after(branch))
            return True
    return False


def _is_carried_on(value: SSAValue, result: SSAValue) -> bool:
    """True if a loop carries `value` into a branch, and its next iteration the branch's result."""
    waiting = [result] if isinstance(value.owner, Block) else []
    while waiting:
        for use in waiting.pop().uses:
            last, outer = use.operation, use.operation.parent_op()
            if isinstance(last, scf.YieldOp) and last.parent is value.owner:
                return True
            if isinstance(last, scf.YieldOp) and isinstance(outer, scf.IfOp):
                waiting.append(outer.results[use.index])
    return False


def _retype_argument(block: Block, index: int, encoding: Attribute, old: Attribute) -> None:
    assert block.first_op is not None
    _retype(block.args[index], encoding, old, InsertPoint.before(block.first_op))


def _convert_operand(op: Operation, index: int, encoding: Attribute) -> None:
    op.operands[index] = converted(op.operands[index], encoding, InsertPoint.before(op))


def _carry(loop: scf.ForOp, index: int, encoding: Attribute) -> None:
    """Carry value `index` of a loop in another layout; convert it to the old one for its users."""
    body = loop.body.block
    old = loop.results[index].type
    _convert_operand(loop, 3 + index, encoding)
    _convert_operand(last_of(body), index, encoding)
    _retype_argument(body, index + 1, encoding, old)
    _retype(loop.results[index], encoding, old, InsertPoint.after(loop))


def _retype(value: SSAValue, encoding: Attribute, old: Attribute, at: InsertPoint) -> None:
    """Change the layout of a value, and convert it to the old one for its users."""
    new = Rewriter.replace_value_with_new_type(value, retyped(old, encoding))
    back = ConvertLayoutOp(operands=[new], result_types=[old])
    new.replace_all_uses_with(back.results[0])
    back.operands[0] = new
    Rewriter.insert_op(back, at)


def _is_free(value: SSAValue, encoding: Attribute) -> bool:
    """True if a value is available in a layout without moving data."""
    return layout_attr_of(value) == encoding or is_cheap(value)


def _move_past_user(
    op: ConvertLayoutOp, copied: Callable[[Operation, SSAValue, Attribute], Operation | None]
) -> bool:
    """Move one user of a conversion before it, to the unconverted value x of DPAS layout.

    `copied` creates the user's copy from (user, x, layout of x), or returns None if it does not
    apply.
    """
    if not is_dpas(op.src.type):
        return False
    for use in op.result.uses:
        copy = copied(use.operation, op.src, layout_attr_of(op.src))
        if copy is not None:
            replace_converted(use.operation, copy)
            return True
    return False


def through_elementwise(op: ConvertLayoutOp) -> bool:
    """f(cvt x, y) -> cvt(f(x, cvt y)) if x has a DPAS layout.

    If y has another DPAS layout, the rule does not apply, because the same rule would move its
    conversion back.
    """
    return _move_past_user(op, _elementwise)


def _elementwise(user: Operation, source: SSAValue, encoding: Attribute) -> Operation | None:
    """op(convert x, y)  ->  op(x, convert y)"""
    if not is_elementwise(user):
        return None
    if is_dpas(user.results[0].type):
        others = [v for v in user.operands if shape_of(v)]
        if not all(_is_free(v, encoding) for v in others):
            return None
    at = InsertPoint.before(user)
    operands = [converted(v, encoding, at) if shape_of(v) else v for v in user.operands]
    return with_encoding(user, encoding, at, operands)


def through_reduction(op: ConvertLayoutOp) -> bool:
    """reduce(cvt x) -> cvt(reduce x) if x has a DPAS layout."""
    return _move_past_user(op, _reduction)


def _reduction(user: Operation, source: SSAValue, encoding: Attribute) -> Operation | None:
    if not isinstance(user, ReduceOp) or not shape_of(user.results[0]):
        return None
    at = InsertPoint.before(user)
    operands = [converted(v, encoding, at) for v in user.srcs]
    axis = user.axis.value.data
    sliced = layout_attr(SliceEncoding(axis, encoding.encoding))  # type: ignore[attr-defined]
    return with_encoding(user, sliced, at, operands)


def through_scan(op: ConvertLayoutOp) -> bool:
    """scan(cvt x) -> cvt(scan x) if a lane has whole rows or columns of x."""
    return _move_past_user(op, _scan)


def _scan(user: Operation, source: SSAValue, encoding: Attribute) -> Operation | None:
    if not isinstance(user, ScanOp):
        return None
    axis = user.axis.value.data
    if any(base[axis] for part, bases in layout_of(source.type).bases.items()
           if part != "register" for base in bases):
        return None
    at = InsertPoint.before(user)
    return with_encoding(user, encoding, at, [converted(v, encoding, at) for v in user.srcs])


def into_block_store(op: ConvertLayoutOp) -> bool:
    """block_store(cvt x) -> block_store(x)."""
    if not is_dpas(op.src.type) or len(shape_of(op.src)) != 2:
        return False
    stores = [use for use in op.result.uses if isinstance(use.operation, BlockStoreOp)]
    for use in stores:
        use.operation.operands[use.index] = op.src
    return bool(stores)
