"""Rules that take layout conversions next to dots away, or to where they cost nothing.

A conversion from a DPAS layout (or from a slice of one) moves down, through element-wise
operations, reductions, broadcasts and what loops carry, until it meets its opposite or a store.
A conversion to an operand's layout moves up, through casts, into block loads.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects.layouts import layout_attr
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.dialects.xe import BlockLoadOp
from triton_xe.layout import DpasEncoding, SliceEncoding, to_linear_layout
from triton_xe.lowering.layouts.rematerialize import (
    converted,
    is_cheap,
    rematerialize,
    replace_converted,
    slice_of,
    with_encoding,
)
from triton_xe.lowering.rewriting import detach, erase_dead, placed, retyped
from triton_xe.lowering.surfaces.affine import attribute, shape_of

_ELEMENTWISE = ("arith.", "math.")
CASTS = frozenset(
    {"arith.truncf", "arith.extf", "tt.fp_to_fp", "arith.sitofp", "arith.uitofp", "arith.extsi",
     "arith.trunci", "arith.extui", "arith.bitcast", "tt.bitcast", "xe.round_tf32"}
)
_MORE_ELEMENTWISE = frozenset(
    {"tt.clampf", "tt.precise_sqrt", "tt.precise_divf", "tt.mulhiui", "tt.extern_elementwise"}
)
Rule = Callable[[Operation], bool]
ROUNDS = 200


def propagate(function: Operation) -> int:
    """Apply the rules to conversions until none changes anything; the number of rounds taken."""
    rules: tuple[Rule, ...] = (
        fold_conversions, into_constant, into_block_load, through_cast, through_shape,
        reload, out_of_loop, out_of_if, through_elementwise, through_reduction, under_shape,
        into_block_store, into_scatter,
    )
    erase_dead(function)
    rounds = 0
    changed = True
    while changed and rounds < ROUNDS:
        rounds, changed = rounds + 1, False
        for op in [o for o in function.walk() if o.name == "ttg.convert_layout"]:
            if op.parent is None or not op.results[0].uses.get_length():
                continue
            changed |= any(rule(op) for rule in rules)
    erase_dead(function)
    for op in [o for o in function.walk() if o.name == "ttg.convert_layout"]:
        into_branch(op)
    return rounds


def same_layout(left: Attribute, right: Attribute) -> bool:
    """Whether two tensor types place their elements alike, whatever the spelling."""
    if left == right:
        return True
    assert isinstance(left, TensorType)
    assert isinstance(right, TensorType)
    shape = tuple(left.get_shape())
    layouts = [to_linear_layout(t.encoding.encoding, shape) for t in (left, right)]  # type: ignore[attr-defined]
    return layouts[0] == layouts[1]


def is_dpas(kind: Attribute) -> bool:
    """Whether a tensor has the layout of a DPAS result, or of a slice of one."""
    if not isinstance(kind, TensorType):
        return False
    encoding = kind.encoding.encoding  # type: ignore[attr-defined]
    while isinstance(encoding, SliceEncoding):
        encoding = encoding.parent
    return isinstance(encoding, DpasEncoding)


def fold_conversions(op: Operation) -> bool:
    """cvt(cvt x) -> cvt x ; cvt x -> x where the types are the same."""
    inner = op.operands[0].owner
    if isinstance(inner, Operation) and inner.name == "ttg.convert_layout":
        op.operands[0] = inner.operands[0]
        return True
    if op.operands[0].type == op.results[0].type:
        op.results[0].replace_all_uses_with(op.operands[0])
        return True
    return False


def into_constant(op: Operation) -> bool:
    """cvt(constant) -> constant, and the same for all that is computed from scalars alone."""
    if not is_cheap(op.operands[0]):
        return False
    new = rematerialize(op.operands[0], _encoding(op.results[0]), {})
    op.results[0].replace_all_uses_with(new)
    return True


def _encoding(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.encoding


def into_block_load(op: Operation) -> bool:
    """cvt(block_load) -> block_load ; cvt(trans(block_load)) -> block_load transposed."""
    inner = op.operands[0].owner
    if not isinstance(inner, Operation):
        return False
    swapped = inner.name == "tt.trans"
    load = inner.operands[0].owner if swapped else inner
    if not isinstance(load, Operation) or load.name != "xe.block_load":
        return False
    transposed = (load.properties.get("transposed") is not None) != swapped
    new = BlockLoadOp(load.operands[0], op.results[0].type, transposed)
    placed(load, new)
    Rewriter.insert_op(new, InsertPoint.after(load))
    op.results[0].replace_all_uses_with(new.results[0])
    return True


def through_cast(op: Operation) -> bool:
    """cvt(cast x) -> cast(cvt x), towards a block load."""
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.name not in CASTS:
        return False
    if not _from_block_load(inner.operands[0]):
        return False
    encoding = _encoding(op.results[0])
    before = converted(inner.operands[0], encoding, InsertPoint.before(inner))
    copy = with_encoding(inner, encoding, InsertPoint.after(inner), [before])
    op.results[0].replace_all_uses_with(copy.results[0])
    return True


def _from_block_load(value: SSAValue) -> bool:
    op = value.owner
    while isinstance(op, Operation) and (op.name in CASTS or op.name == "tt.trans"):
        op = op.operands[0].owner
    return isinstance(op, Operation) and op.name == "xe.block_load"


def through_shape(op: Operation) -> bool:
    """cvt(broadcast x) -> broadcast(cvt x) ; cvt(expand_dims x) -> expand_dims(cvt x)."""
    if not is_dpas(op.results[0].type):
        return False
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.name not in ("tt.broadcast", "tt.expand_dims"):
        return False
    encoding = _encoding(op.results[0])
    source = encoding if inner.name == "tt.broadcast" else slice_of(inner, encoding)
    before = converted(inner.operands[0], source, InsertPoint.before(inner))
    copy = with_encoding(inner, encoding, InsertPoint.after(inner), [before])
    op.results[0].replace_all_uses_with(copy.results[0])
    return True


def reload(op: Operation) -> bool:
    """cvt(load p) -> load p' for a row or column of values: cheaper than an exchange."""
    load = op.operands[0].owner
    if not isinstance(load, Operation) or load.name != "tt.load":
        return False
    if not is_dpas(op.results[0].type) or len(shape_of(op.results[0])) != 1:
        return False
    if attribute(load, "isVolatile") is not None and attribute(load, "isVolatile").value.data:
        return False
    if not all(is_cheap(v) for v in load.operands):
        return False
    encoding, made = _encoding(op.results[0]), dict[tuple[SSAValue, Attribute], SSAValue]()
    operands = [rematerialize(v, encoding, made) for v in load.operands]
    copy = with_encoding(load, encoding, InsertPoint.after(load), operands)
    op.results[0].replace_all_uses_with(copy.results[0])
    return True


def out_of_loop(op: Operation) -> bool:
    """for (%c) { ... ; yield (cvt %x) } -> for (cvt %c) { cvt back ; ... ; yield %x }."""
    if not is_dpas(op.operands[0].type):
        return False
    for use in list(op.results[0].uses):
        last, loop = use.operation, use.operation.parent_op()
        if last.name == "scf.yield" and loop is not None and loop.name == "scf.for":
            _carry(loop, use.index, _encoding(op.operands[0]))
            return True
    return False


def _carry(loop: Operation, index: int, encoding: Attribute) -> None:
    """Carry value `index` of a loop in another layout; its users see the old one."""
    body = loop.regions[0].block
    last = body.last_op
    assert last is not None
    old = loop.results[index].type
    at = 3 + index
    loop.operands[at] = converted(loop.operands[at], encoding, InsertPoint.before(loop))
    last.operands[index] = converted(last.operands[index], encoding, InsertPoint.before(last))
    first = body.first_op
    assert first is not None
    _retype(body.args[index + 1], encoding, old, InsertPoint.before(first))
    _retype(loop.results[index], encoding, old, InsertPoint.after(loop))


def _retype(value: SSAValue, encoding: Attribute, old: Attribute, at: InsertPoint) -> None:
    new = Rewriter.replace_value_with_new_type(value, retyped(old, encoding))
    back = ConvertLayoutOp(operands=[new], result_types=[old])
    new.replace_all_uses_with(back.results[0])
    back.operands[0] = new
    Rewriter.insert_op(back, at)


def out_of_if(op: Operation) -> bool:
    """if { yield (cvt %x) } else { yield (cvt %y) } -> cvt(if { yield %x } else { yield %y })."""
    kind = op.operands[0].type
    if not is_dpas(kind):
        return False
    for use in list(op.results[0].uses):
        choice = use.operation.parent_op()
        if use.operation.name != "scf.yield" or choice is None or choice.name != "scf.if":
            continue
        encoding = _encoding(op.operands[0])
        yields = [r.block.last_op for r in choice.regions]
        if not all(y is not None and _is_free(y.operands[use.index], encoding) for y in yields):
            continue
        for last in yields:
            assert last is not None
            last.operands[use.index] = converted(
                last.operands[use.index], encoding, InsertPoint.before(last)
            )
        result = choice.results[use.index]
        _retype(result, encoding, result.type, InsertPoint.after(choice))
        return True
    return False


def _is_free(value: SSAValue, encoding: Attribute) -> bool:
    """Whether a value is had in a layout without moving data."""
    assert isinstance(value.type, TensorType)
    if value.type.encoding == encoding or is_cheap(value):
        return True
    op = value.owner
    if not isinstance(op, Operation) or op.name != "ttg.convert_layout":
        return False
    return same_layout(op.operands[0].type, retyped(value.type, encoding))


def is_elementwise(op: Operation) -> bool:
    named = op.name.startswith(_ELEMENTWISE) or op.name in CASTS or op.name in _MORE_ELEMENTWISE
    return named and len(op.results) == 1 and not op.regions


def _through(
    op: Operation, copied: Callable[[Operation, SSAValue, Attribute], Operation | None]
) -> bool:
    """Let one user of a conversion work on the converted value x itself, which has a DPAS layout.

    `copied` makes the user's copy from (user, x, layout of x), or says None for users it leaves.
    """
    source = op.operands[0]
    if not is_dpas(source.type):
        return False
    for use in op.results[0].uses:
        copy = copied(use.operation, source, _encoding(source))
        if copy is not None:
            replace_converted(use.operation, copy)
            return True
    return False


def through_elementwise(op: Operation) -> bool:
    """f(cvt x, y) -> cvt(f(x, cvt y)) when x has a DPAS layout.

    Where y has another DPAS layout, its conversion would come back by the same rule.
    """
    return _through(op, _elementwise)


def _elementwise(user: Operation, source: SSAValue, encoding: Attribute) -> Operation | None:
    if not is_elementwise(user):
        return None
    if is_dpas(user.results[0].type):
        others = [v for v in user.operands if shape_of(v)]
        if not all(_is_free(v, encoding) for v in others):
            return None
    at = InsertPoint.before(user)
    operands = [converted(v, encoding, at) if shape_of(v) else v for v in user.operands]
    return with_encoding(user, encoding, at, operands)


def through_reduction(op: Operation) -> bool:
    """reduce(cvt x) -> cvt(reduce x) when x has a DPAS layout."""
    return _through(op, _reduction)


def _reduction(user: Operation, source: SSAValue, encoding: Attribute) -> Operation | None:
    if user.name != "tt.reduce" or not shape_of(user.results[0]):
        return None
    at = InsertPoint.before(user)
    operands = [converted(v, encoding, at) for v in user.operands]
    axis = attribute(user, "axis").value.data
    sliced = layout_attr(SliceEncoding(axis, encoding.encoding))  # type: ignore[attr-defined]
    return with_encoding(user, sliced, at, operands)


def under_shape(op: Operation) -> bool:
    """broadcast(cvt x) -> cvt(broadcast x) ; expand_dims(cvt x) -> cvt(expand_dims x).

    Between two DPAS layouts `through_shape` says the opposite, and converts fewer values.
    """
    return not is_dpas(op.results[0].type) and _through(op, _shape_change)


def _shape_change(user: Operation, source: SSAValue, encoding: Attribute) -> Operation | None:
    if user.name == "tt.broadcast":
        outer = encoding
    elif user.name == "tt.expand_dims" and _fits(user, encoding):
        outer = layout_attr(encoding.encoding.parent)  # type: ignore[attr-defined]
    else:
        return None
    return with_encoding(user, outer, InsertPoint.before(user), [source])


def _fits(expand: Operation, encoding: Attribute) -> bool:
    """Whether a slice lacks the dim that a tt.expand_dims adds."""
    held = encoding.encoding  # type: ignore[attr-defined]
    return isinstance(held, SliceEncoding) and held.dim == attribute(expand, "axis").value.data


def into_branch(op: Operation) -> bool:
    """cvt x ; if { ... use } -> if { ... cvt x ; use } where only one side uses it."""
    block = op.parent
    assert block is not None
    moved = False
    while True:
        users = [use.operation for use in op.results[0].uses]
        here = {block.find_ancestor_op_in_block(user) for user in users}
        if len(here) != 1:
            return moved
        (choice,) = here
        if choice is None or choice.name != "scf.if":
            return moved
        sides = [r.block for r in choice.regions if r.blocks]
        inside = [
            [s.find_ancestor_op_in_block(u) for u in users] for s in sides
        ]
        held = [i for i, found in enumerate(inside) if all(found)]
        if not held:
            return moved
        block = sides[held[0]]
        places = {op: i for i, op in enumerate(block.ops)}
        first = min((u for u in inside[held[0]] if u is not None), key=places.__getitem__)
        detach(op)
        Rewriter.insert_op(op, InsertPoint.before(first))
        moved = True


def into_block_store(op: Operation) -> bool:
    """block_store(cvt x) -> block_store(x)."""
    kind = op.operands[0].type
    if not is_dpas(kind) or len(shape_of(op.operands[0])) != 2:
        return False
    changed = False
    for use in list(op.results[0].uses):
        if use.operation.name == "xe.block_store":
            use.operation.operands[use.index] = op.operands[0]
            changed = True
    return changed


def into_scatter(op: Operation) -> bool:
    """store p, (cvt x), m -> store p', x, m' with addresses and mask made anew in x's layout."""
    source = op.operands[0]
    if not is_dpas(source.type) or len(shape_of(source)) < 2:
        return False
    changed = False
    for use in list(op.results[0].uses):
        store = use.operation
        if store.name != "tt.store" or use.index != 1:
            continue
        if not all(is_cheap(v) for i, v in enumerate(store.operands) if i != 1):
            continue
        made: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        encoding = _encoding(source)
        store.operands = [
            source if i == 1 else rematerialize(v, encoding, made)
            for i, v in enumerate(store.operands)
        ]
        changed = True
    return changed


__all__ = ["propagate", "same_layout"]
