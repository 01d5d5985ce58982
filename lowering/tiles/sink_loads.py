"""Pass sink-loads: move loads to their uses if a block loads more than the registers can hold.

The loads of a tile are adjacent, which hides their latency best if all of them fit.  If they do not
(as K and V of attention), they are moved down to their first use, or to the conversion of their
layout.  Products that fill the registers are computed at their uses.

Operands that are combined with a loop's product may not all fit next to it.  Then they are loaded
message by message, and each is combined before the next one is loaded.

Values that are loaded before a loop for use in it may not fit next to its loop-carried values and
results.  Then they are loaded again in the loop.  The products of such a loop are grouped by
message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
    VectorType,
    f32,
)
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.type import get_element_type_or_self

from triton_xe.dialects import xe, xegpu
from triton_xe.dialects.arith_ext import TruncFOp
from triton_xe.dialects.elementwise import is_elementwise
from triton_xe.dialects.tt.memory import LoadOp
from triton_xe.dialects.tt.ops import SplatOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.hardware.block_2d import has_offsets
from triton_xe.hardware.register_file import (
    BUDGET,
    HALF_FILE,
    LARGE,
    MOST_BESIDE_TILES,
    MOST_CARRIED,
    most_in_loop,
)
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.values import element_bits
from triton_xe.lowering.facts.view import view_of
from triton_xe.lowering.layouts.casts import CASTS
from triton_xe.lowering.layouts.rematerialize import (
    changes_in_shared_memory,
    is_volatile,
    layout_of,
)
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import (
    all_of,
    below,
    detach,
    erase_dead,
    functions,
    is_pure,
    last_of,
    orders_memory,
)
from triton_xe.lowering.targeted_pass import TargetedPass

FREE = (arith.ConstantOp, SplatOp)
"""Operations whose tensors take no registers of lanes."""


@dataclass(frozen=True)
class SinkLoadsPass(TargetedPass):
    """Sink loads and products to their uses if registers do not suffice."""

    name: ClassVar = "sink-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        for function in functions(op):
            loops = {loop.body.block: _live_bytes(loop, target)
                     for loop in all_of(function, scf.ForOp)}
            products = [body for body in loops
                        if any(isinstance(op, xegpu.DpasOp) for op in body.ops)]
            for body in products:
                if loops[body] > _reload_threshold(body, target) * target.grf_bytes:
                    _reload_in_loop(body, target)
            erase_dead(function)
            # gathers that just fit stay, because their addresses would be live for longer
            fills = HALF_FILE * target.grf_bytes + (not target.has_block_2d)
            blocks = [b for o in below(function) for region in o.regions for b in region.blocks]
            for block in blocks:
                loaded = _loaded_bytes(block, target)
                if loaded >= fills:
                    _cast_by_fragment(block)
                    erase_dead(function)
                    _sink_loads(block, target)
                    if block in loops:
                        tight = loops[block] > most_in_loop(target) * target.grf_bytes
                        _group_by_message(block, target, HALF_FILE + (not tight))
                live = _carried_bytes(block, target) + loaded
                if block in products and live > BUDGET * target.grf_bytes:
                    _sink_exchanged_operands(block, target)
                _combine_by_message(block, target)
                _sink_fragments(block, target)
            for body in products:
                _warn_of_spills(body, target)


def _loaded_bytes(block: Block, target: Target) -> int:
    """Bytes that a block loads."""
    return sum(_bytes(op.results[0], target) for op in block.ops
               if type(op) in (xegpu.LoadNdOp, LoadOp))


def _warn_of_spills(body: Block, target: Target) -> None:
    """Add a remark if the temporaries of a loop hardly fit next to its loop-carried values."""
    carried, made = (size // target.grf_bytes for size in (
        _carried_bytes(body, target), _peak_temporary_bytes(body, target)))
    loop = body.parent_op()
    assert loop is not None
    if carried < MOST_CARRIED and carried + made > MOST_BESIDE_TILES:
        remark(loop, f"keeps {carried} registers and makes {made} at once, of at most {LARGE}: "
                     "it may spill; use smaller blocks or more warps")


def _live_bytes(loop: scf.ForOp, target: Target) -> int:
    """Bytes of a loop's carried values, of those loaded before it, and of its largest product."""
    return _bytes_across(loop, target) + _product_bytes(loop.body.block, target)


def _bytes_across(loop: scf.ForOp, target: Target) -> int:
    """Bytes of a loop's carried values, and of those loaded before it."""
    held = [*loop.iter_args, *(load.value for load in _preloaded(loop))]
    return sum(_bytes(value, target) for value in held)


def _reload_threshold(body: Block, target: Target) -> int:
    """Number of registers above which a loop reloads values that are loaded before it."""
    if max(_bytes_of_tiles(body, target).values(), default=0) * 2 > HALF_FILE * target.grf_bytes:
        return MOST_BESIDE_TILES
    return most_in_loop(target)


def _product_bytes(body: Block, target: Target) -> int:
    """Bytes of a loop's largest product that it does not carry.

    A quarter is added for values that are being converted.
    """
    made = (_bytes(op.tensor, target) for op in _temporary_products(body))
    return max(made, default=0) * 5 // 4


def _peak_temporary_bytes(body: Block, target: Target) -> int:
    """Bytes like `_product_bytes`, including other live values of the product's type.

    An example is the probabilities of attention's gradient, which are live together with the
    products that they are multiplied by.
    """
    made = [op for op in _temporary_products(body) if not all(map(_is_loaded, op.fragments))]
    if not made:
        return 0
    rank = {op: number for number, op in enumerate(body.ops)}
    spans: dict[Any, list[tuple[int, int]]] = {}
    for op in rank:
        for value in op.results:
            last = max((rank.get(use.operation, 0) for use in value.uses), default=0)
            spans.setdefault(value.type, []).append((rank[op], last))
    return max(
        _bytes(op.tensor, target)
        * (5 + 4 * sum(first < rank[op] < last for first, last in spans[op.tensor.type])) // 4
        for op in made)


def _is_loaded(fragment: SSAValue) -> bool:
    """True if a fragment is a piece of a loaded value."""
    op = fragment.owner
    return isinstance(op, xe.FragmentOp) and all(
        isinstance(v.owner, xegpu.LoadNdOp) for v in op.loads)


def _temporary_products(body: Block) -> list[xe.FromFragmentsOp]:
    """The products of a loop that it does not carry."""
    return [op for op in body.ops if type(op) is xe.FromFragmentsOp
            and all(use.operation is not body.last_op for use in op.tensor.uses)]


def _reload_in_loop(body: Block, target: Target) -> None:
    """Load values that are loaded before a loop again in each of its iterations.

    An example is Q of attention, next to the accumulator and the scores of a wide head.  If
    messages have immediate offsets, values are loaded again until the rest fits next to what the
    body loads at its start.  Without, as on Xe-HPC, addresses need registers too, and all values
    are loaded again.
    """
    loop = body.parent_op()
    assert isinstance(loop, scf.ForOp)
    loaded = _loaded_bytes(body, target)
    live = _bytes_across(loop, target) + _peak_temporary_bytes(body, target) + (
        loaded if loaded <= HALF_FILE * target.grf_bytes else 0)
    most = MOST_BESIDE_TILES * target.grf_bytes if has_offsets(target) else 0
    for load in _preloaded(loop):
        if live > most and not _is_overwritten(load, loop):
            _reload_at_start(load, body)
            live -= _bytes(load.value, target)


def _preloaded(loop: scf.ForOp) -> list[xegpu.LoadNdOp]:
    """The messages before a loop whose values are only operands of products in the loop."""
    found = dict.fromkeys(
        value.owner.loads[0].owner for op in loop.body.block.ops if type(op) is xegpu.DpasOp
        for value in op.operands if type(value.owner) is xe.FragmentOp)
    return [op for op in found if isinstance(op, xegpu.LoadNdOp) and op.parent is loop.parent
            and all(_is_piece(use.operation) for use in op.value.uses)]


def _reload_at_start(load: xegpu.LoadNdOp, body: Block) -> None:
    """Load a message again at the start of a loop's body, for its uses there."""
    again, at = load.clone(), InsertPoint.at_start(body)
    for use in list(load.value.uses):
        piece = use.operation.clone({load.value: again.value})
        Rewriter.insert_op(piece, at)
        use.operation.results[0].replace_uses_with_if(
            piece.results[0], lambda use: use.operation.parent is body)
    Rewriter.insert_op(again, InsertPoint.at_start(body))


def _is_overwritten(load: xegpu.LoadNdOp, loop: scf.ForOp) -> bool:
    """True if memory may change between a load and the end of a loop after it."""
    op: Operation | None = load.next_op
    while op is not None:
        if any(not inner.regions and orders_memory(inner) for inner in below(op)):
            return True
        op = None if op is loop else op.next_op
    return False


def _bytes(value: SSAValue, target: Target) -> int:
    """Bytes of a value in one subgroup."""
    kind: Any = value.type
    if type(kind) is TensorType:
        count = len(view_of(layout_of(kind)).registers)
    elif isinstance(kind, VectorType):
        count = prod(kind.get_shape())
    else:
        return 0
    return count * max(element_bits(kind.element_type), 8) // 8 * target.subgroup_size


def _sink_loads(block: Block, target: Target) -> None:
    """Move the loads of a block down, the last first."""
    ordering = {id(op) for op in block.ops if orders_memory(op)}
    for op in reversed(list(block.ops)):
        if isinstance(op, LoadOp):
            _sink_to_conversion(op, target, ordering)
        elif isinstance(op, xegpu.LoadNdOp | xe.FragmentOp | xe.RoundTf32Op):
            _move_to_user(op, _users(op), ordering)


def _cast_by_fragment(block: Block) -> None:
    """Cast operands of products one fragment at a time, so that each is loaded when it is needed.

        %t = cast (from_fragments %a, %b) ; to_fragment %t from 8
     -> to_fragment (cast (from_fragments %b, %b)) from 8

    Only the registers that are read are computed.
    """
    moving: set[Operation] = set()
    made: dict[tuple[SSAValue, int], SSAValue] = {}
    for op in [op for op in block.ops if type(op) is xe.ToFragmentOp]:
        source = _fragments_of_cast(op.tensor)
        if source is None or source.parent is not block:
            continue
        each, first = prod(_shape(source.fragments[0])), op.first.value.data
        number = first // each
        if (first + prod(_shape(op.fragment)) - 1) // each != number:
            continue
        if (op.tensor, number) not in made:
            copies = _cast_alone(op.tensor, source, number)
            for copy in copies:
                Rewriter.insert_op(copy, InsertPoint.before(op))
            made[op.tensor, number] = copies[-1].results[0]
            moving.update(copies)
        op.operands = [made[op.tensor, number]]
        moving.add(op)
    _sink_to_uses(block, moving)


def _fragments_of_cast(tensor: SSAValue) -> xe.FromFragmentsOp | None:
    """The operation that forms the tensor that a cast converts; None if there is none."""
    cast = tensor.owner
    if not isinstance(cast, Operation) or type(cast) not in CASTS:
        return None
    source = cast.operands[0].owner
    return source if isinstance(source, xe.FromFragmentsOp) else None


def _cast_alone(
    tensor: SSAValue, source: xe.FromFragmentsOp, number: int
) -> tuple[Operation, Operation]:
    """Copies of a cast and its source, for the fragment of this number in place of all."""
    assert isinstance(tensor.owner, Operation)
    alike = source.clone()
    alike.operands = [source.fragments[number]] * len(source.fragments)
    return alike, tensor.owner.clone({source.tensor: alike.tensor})


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()


def _sink_fragments(block: Block, target: Target) -> None:
    """Compute fragments, and elementwise operations on products, right before their uses.

        p = a * b; q = a * c; x = p + s; y = q + t  ->  p = a * b; x = p + s; q = a * c; y = q + t

    If registers do not suffice, this includes the products themselves.  On Xe-HPC, whose messages
    have no offsets, stored fragments that are rounded to half their size stay where they are.  They
    need no more registers than before, and overwriting registers that a message reads is expensive.
    """
    made: set[Operation] = {op for op in block.ops if isinstance(op, xe.ToFragmentOp) or (
        isinstance(op, xe.FragmentOp) and _is_stored(op))}
    if not has_offsets(target):
        made = {op for op in made if not (_is_stored(op) and _is_rounded(op))}
    sums = {op: _dpas_chain(op) for op in block.ops
            if type(op) is xegpu.DpasOp and not _is_accumulated(op)}
    by_sum = bool(sums) and _has_register_pressure(sums, block, target)
    for end, chain in sums.items():
        combined = _elementwise_chain(end)
        if combined and _users(combined[-1]) == {block.last_op}:
            detach(last := combined.pop())
            Rewriter.insert_op(last, InsertPoint.before(last_of(block)))
        made |= {*combined, *(chain if by_sum and block.last_op not in _users(end) else ())}
    _sink_to_uses(block, made)
    if by_sum:
        one = max(_bytes(op.results[0], target) for op in sums)
        room = MOST_BESIDE_TILES * target.grf_bytes - _carried_bytes(block, target) - one
        _reload_from_shared(block, target, room)


def _sink_to_uses(block: Block, ops: set[Operation]) -> None:
    """Move operations of `ops` before their first use, after those of `ops` that they need."""
    left = {op for op in ops if {user.parent for user in _users(op)} == {block}}
    for user in [op for op in block.ops if op not in left]:
        waiting = [(user, False)]
        while waiting:
            op, is_next = waiting.pop()
            if is_next:
                detach(op)
                Rewriter.insert_op(op, InsertPoint.before(user))
            elif op is user or op in left:
                left.discard(op)
                waiting += [(op, True)] * (op is not user)
                waiting += [(v.owner, False) for v in op.operands if v.owner in left]


def _is_stored(op: Operation) -> bool:
    return all(isinstance(user, xegpu.StoreNdOp) for user in _users(op))


def _is_rounded(op: Operation) -> bool:
    """True if a fragment is part of a tensor of fp32 that was rounded."""
    source = op.loads[0].owner if isinstance(op, xe.FragmentOp) else op
    rounded = source.tensor.owner if isinstance(source, xe.ToFragmentOp) else None
    return isinstance(rounded, TruncFOp) and get_element_type_or_self(rounded.input.type) == f32


def _group_by_message(block: Block, target: Target, least: int) -> None:
    """Group the products of each message's values, so that only one message is live.

    This is done if the messages of a tile fill half of `least` registers.
    """
    rank = {op: number for number, op in enumerate(block.ops)}
    filled = _bytes_of_tiles(block, target)
    for load in [op for op in rank if type(op) is xegpu.LoadNdOp]:
        if 2 * filled[_tile(load)] >= least * target.grf_bytes:
            _group_products(load, block, rank)


def _bytes_of_tiles(block: Block, target: Target) -> Counter[SSAValue]:
    """Bytes that the messages of each tile fill, by its descriptor."""
    filled = Counter[SSAValue]()
    for op in block.ops:
        if type(op) is xegpu.LoadNdOp:
            filled[_tile(op)] += _bytes(op.value, target)
    return filled


def _tile(load: xegpu.LoadNdOp) -> SSAValue:
    """The original descriptor of a message, before offsets were added."""
    desc: SSAValue = load.desc
    while isinstance(desc.owner, xegpu.UpdateNdOffsetOp):
        desc = desc.owner.desc
    return desc


def _group_products(load: xegpu.LoadNdOp, block: Block, rank: dict[Operation, int]) -> None:
    """Move each product of a message after the previous one, unless it needs a later value."""
    pieces = [use.operation for use in load.value.uses if _is_piece(use.operation)]
    products = sorted({use.operation for piece in pieces for use in piece.results[0].uses
                       if _multiplies(use, block)}, key=lambda op: rank[op])
    for last, product in pairwise(products):
        owners = [value.owner for value in product.operands]
        late = [op for op in owners if rank.get(op, -1) > rank[last]]
        if not all(op in pieces for op in late):
            return
        for op in (product, *late):
            detach(op)
            Rewriter.insert_op(op, InsertPoint.after(last))
            rank[op] = rank[last]


def _is_piece(op: Operation) -> bool:
    """True if an operation extracts an operand from one message's result."""
    return isinstance(op, xe.FragmentOp) and len(op.loads) == 1


def _multiplies(use: Use, block: Block) -> bool:
    """True if a value is used as the second factor of a product in a block."""
    op = use.operation
    return isinstance(op, xegpu.DpasOp) and use.index == 1 and op.parent is block


def _sink_to_conversion(load: LoadOp, target: Target, ordering: set[int]) -> None:
    """Move a load to the conversion of its layout, if that goes through shared local memory.

    There is a barrier between the load and the conversion's reads, so that later stores of other
    subgroups are still after the load.
    """
    users = {use.operation for use in load.result.uses}
    if is_volatile(load) or not isinstance(load.result.type, TensorType):
        return
    if all(changes_in_shared_memory(user, target) for user in users):
        _move_to_user(load, users, ordering)


def _carried_bytes(body: Block, target: Target) -> int:
    """Loop-carried bytes, without addresses."""
    return sum(_bytes(v, target) for v in body.args
               if not isinstance(get_element_type_or_self(v.type), PointerType))


def _sink_exchanged_operands(block: Block, target: Target) -> None:
    """Load operands that go through shared local memory one after another, not all at first.

    As in `_sink_to_conversion` there is a barrier after the loads.
    """
    for op in list(block.ops):
        if not changes_in_shared_memory(op, target):
            continue
        alone, between = _exclusive_producers(op)
        if not any(_is_load_barrier(o, target) for o in between):
            for inner in alone:
                detach(inner)
                Rewriter.insert_op(inner, InsertPoint.before(op))


def _is_load_barrier(op: Operation, target: Target) -> bool:
    """True if loads after an operation must not move before it.

    With eight lanes they do not move past reductions either.
    """
    if isinstance(op, LoadOp):
        return False
    return orders_memory(op) or (bool(op.regions) and not target.has_block_2d)


def _exclusive_producers(op: Operation) -> tuple[list[Operation], list[Operation]]:
    """Return the operations that only `op` needs, in order, and the others between them and it."""
    alone: dict[Operation, None] = {op: None}
    between: list[Operation] = []
    others: list[Operation] = []
    before = op.prev_op
    while before is not None:
        users = {use.operation for result in before.results for use in result.uses}
        may_move = (isinstance(before, LoadOp) and not is_volatile(before)) or (
            is_pure(before) and not before.regions)
        if may_move and users and users <= alone.keys():
            alone[before] = None
            between += others
            others = []
        else:
            others.append(before)
        before = before.prev_op
    return [*alone][:0:-1], between


def _has_register_pressure(sums: Iterable[xegpu.DpasOp], block: Block, target: Target) -> bool:
    """True if sums of products fill the registers, and computing them one by one would help."""
    factors = {value for op in block.ops if type(op) is xegpu.DpasOp for value in (op.a, op.b)}
    made = sum(_bytes(op.results[0], target) for op in sums)
    room = HALF_FILE * target.grf_bytes
    fits = made <= room or sum(_bytes(value, target) for value in factors) > room
    fits_again = made + _carried_bytes(block, target) <= BUDGET * target.grf_bytes
    return not (fits_again if fits != fits_again and _are_reloaded(factors, target) else fits)


def _elementwise_chain(end: xegpu.DpasOp) -> list[Operation]:
    """The elementwise operations on a sum of products, each on the result of the one before."""
    made: list[Operation] = []
    users = _users(end)
    while len(users) == 1 and is_elementwise(op := users.pop()) and op.parent is end.parent:
        made.append(op)
        users = _users(op)
    return made


def _reload_from_shared(block: Block, target: Target, room: int) -> None:
    """Read fragments again from shared local memory if registers do not suffice.

    Fragments with the nearest next use are kept in registers.
    """
    reads: dict[SSAValue, Operation] = {
        op.fragment: op for op in block.ops if isinstance(op, xe.ToFragmentOp)
        and _are_reloaded([op.fragment], target)
        and {user.parent for user in _users(op)} == {block}}
    rank = {op: number for number, op in enumerate(block.ops)}
    later = {value: sorted((rank[use.operation] for use in value.uses), reverse=True)
             for value in reads}
    kept: dict[SSAValue, SSAValue] = {}
    for user in rank:
        for value in [v for v in reversed(user.operands) if v in later]:
            later[value].pop()
            if value not in kept:
                again = reads[value].clone()
                Rewriter.insert_op(again, InsertPoint.before(user))
                kept[value] = again.results[0]
        user.operands = [kept.get(v, v) for v in user.operands]
        kept = {value: again for value, again in kept.items() if later[value]}
        while kept and sum(_bytes(value, target) for value in kept) > room:
            del kept[max(kept, key=lambda value: later[value][-1])]
    for op in reads.values():
        Rewriter.erase_op(op)


def _are_reloaded(factors: Iterable[SSAValue], target: Target) -> bool:
    """True if operands of products are loaded from shared local memory where these are computed."""
    sources = {_tensor_source(value.owner) for value in factors}
    return target.has_block_2d and all(
        op is not None and changes_in_shared_memory(op, target) for op in sources)


def _tensor_source(op: Operation | Block) -> Operation | None:
    """The operation whose tensor becomes fragments; None if there is none."""
    source = op.tensor.owner if isinstance(op, xe.ToFragmentOp) else None
    return source if isinstance(source, Operation) else None


def _combine_by_message(block: Block, target: Target) -> None:
    """Load operands of a loop's results message by message, if they do not all fit.

        load a; load b; add p, a; add q, b  ->  load a; add p, a; load b; add q, b
    """
    loops = [op for op in block.ops if type(op) is scf.ForOp]
    left = sum(_bytes(value, target) for loop in loops for value in loop.results if value.uses)
    if not left:
        return
    rank = {op: number for number, op in enumerate(block.ops)}
    combined = {op: sorted(made, key=rank.__getitem__) for op in rank
                if type(op) is xegpu.LoadNdOp and (made := _combinations(op))}
    read = sum(_bytes(load.value, target) for load in combined)
    if left + read <= BUDGET * target.grf_bytes:
        return
    moving = {op for load, made in combined.items() for op in (load, *made)}
    places = {load: _next_outside(made[-1], moving) for load, made in combined.items()}
    for load, at in places.items():
        if _can_sink(load, at):
            for op in (load, *combined[load]):
                detach(op)
                Rewriter.insert_op(op, InsertPoint.before(at))


def _combinations(load: xegpu.LoadNdOp) -> set[Operation]:
    """The pieces of a message, and the elementwise operations that use them; {} with other uses."""
    pieces = _users(load)
    made = {op for piece in pieces for op in _users(piece)}
    fits = all(map(_is_piece, pieces)) and all(
        is_elementwise(op) and op.parent is load.parent for op in made)
    return pieces | made if fits else set()


def _users(op: Operation) -> set[Operation]:
    return {use.operation for value in op.results for use in value.uses}


def _next_outside(op: Operation, others: set[Operation]) -> Operation:
    """The next operation that is not one of `others`."""
    following = op.next_op
    while following in others:
        following = following.next_op
    assert following is not None
    return following


def _can_sink(load: Operation, user: Operation) -> bool:
    """True if a load may move down to an operation of its block."""
    op: Operation | None = load.next_op
    while op is not None and op is not user and not op.regions and (
            isinstance(op, xegpu.LoadNdOp) or not orders_memory(op)):
        op = op.next_op
    return op is user


def _is_accumulated(op: xegpu.DpasOp) -> bool:
    """True if a product is only used as the accumulator of another one in its block."""
    if op.results[0].uses.get_length() != 1:
        return False
    (use,) = op.results[0].uses
    other = use.operation
    return isinstance(other, xegpu.DpasOp) and use.index == 2 and other.parent is op.parent


def _dpas_chain(op: xegpu.DpasOp) -> list[xegpu.DpasOp]:
    """The products of one accumulator, the last one first."""
    chain = [op]
    while (acc := chain[-1].acc) is not None:
        before = acc.owner
        if not isinstance(before, xegpu.DpasOp) or before.parent is not op.parent:
            break
        if not _is_accumulated(before):
            break
        chain.append(before)
    return chain


def _move_to_user(op: Operation, users: set[Operation], ordering: set[int]) -> None:
    """Move an operation down to its first user, or to the first operation that orders memory.

    `ordering` has the ids of the latter.
    """
    if any(user.parent is not op.parent for user in users) or not users:
        return
    uses, following = set(map(id, users)), op.next_op
    while following is not None and id(following) not in uses and id(following) not in ordering:
        following = following.next_op
    if following is not None:
        detach(op)
        Rewriter.insert_op(op, InsertPoint.before(following))
