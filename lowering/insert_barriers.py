"""Pass insert-barriers: order accesses of different warps to the same memory.

    tt.store %p ; tt.load %q             ->  tt.store %p ; ttg.barrier ; tt.load %q
    tt.load %p : copied in several warps ; tt.store %q
                                         ->  tt.load %p ; ttg.barrier ; tt.store %q

In Triton, a program loads what it stored before, whichever warp stored it.  The storing warp may be
another one for three reasons.  The accesses have different layouts or coordinates, warps share
operands of a dot, or one warp stores scalars and copies that all warps load.  Therefore a barrier
is inserted between

- a store and the next load that may alias it,
- a plain store and the next atomic that may alias it,
- a load of copies and the next store that may alias it,
- a load at other addresses, such as `i ^ 1`, and the next store to the same argument,
- a store by one warp, of a scalar or copies, and the next store by all that may alias it,
- a store by all warps and the next store by one that may alias it.

That includes accesses around loops and calls; all control flow is uniform.  No barrier is needed if
a load uses the same SSA value for its addresses as the store.  Each lane then loads its own
elements.  After a store, this holds outside of loops, and in loops whose iterations access disjoint
blocks.  After a load, it holds in all loops, because a later iteration that may store what this one
loads has a barrier before its load.

A barrier before a loop or an `if` is preferred to one in it.  It is removed if those that other
accesses need there are sufficient.

Buffers in shared local memory are identified by their allocations.  Between accesses of lanes to
one of them, if one is a store, the barrier orders shared memory alone.  A program of one warp needs
it too, because compilers see a single lane's accesses.

The pass runs after every pass that alters a layout, for any number of lanes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import arith_ext, ttg
from triton_xe.dialects.layouts import DpasAttr
from triton_xe.dialects.tt import memory, ops
from triton_xe.dialects.tt.structure import CallOp, FuncOp
from triton_xe.dialects.ttg import BarrierOp, ConvertLayoutOp, MemDescType
from triton_xe.dialects.xe import (
    AdvanceOp,
    BarrierArriveOp,
    BarrierWaitOp,
    BlockLoadOp,
    BlockStoreOp,
    CursorOp,
    ScaledDotOp,
)
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import carried, constant_of
from triton_xe.lowering.layouts.rematerialize import layout_of
from triton_xe.lowering.module_facts import module_of, module_warps, options_of
from triton_xe.lowering.rewriting import all_of, below, detach, functions
from triton_xe.spirv import ADDED_NODE

Address = Callable[[Any], SSAValue | None]
_POINTER: Address = attrgetter("ptr")
_CURSOR: Address = attrgetter("cursor")
Addresses = dict[type[Operation], Address]
_LOADS: Addresses = {memory.LoadOp: _POINTER, BlockLoadOp: _CURSOR}
_UPDATED: Addresses = {memory.AtomicRMWOp: _POINTER, memory.AtomicCASOp: _POINTER}
_STORED_PLAINLY: Addresses = {
    memory.StoreOp: _POINTER, memory.AtomicStoreOp: _POINTER, BlockStoreOp: _CURSOR,
}
_STORED = _STORED_PLAINLY | _UPDATED
_LOADED: Addresses = {**_LOADS, memory.AtomicLoadOp: _POINTER, memory.AtomicPollOp: _POINTER}
_ORDERED = (_STORED.keys() | _LOADED.keys()) - _LOADS.keys()
"""Operations that wait for all warps if dots share operands."""
_BUFFER: Address = attrgetter("dst")
_BUFFER_WRITES: Addresses = {
    ttg.LocalStoreOp: _BUFFER, ttg.LocalScatterOp: _BUFFER, ttg.LocalAtomicScatterRMWOp: _BUFFER,
    ttg.LocalAllocOp: lambda op: None if op.src is None else op.result,
}
_BUFFER_READS: Addresses = {
    ttg.LocalLoadOp: attrgetter("src"), ttg.LocalGatherOp: attrgetter("src"),
    ttg.LocalAtomicScatterRMWOp: _BUFFER,
}
_ACCESSES = frozenset[type[Operation]](
    (*_STORED, *_LOADED, *_BUFFER_WRITES, *_BUFFER_READS, CallOp))
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp)
_DERIVED: frozenset[type[Operation]] = frozenset((
    ops.AddPtrOp, ops.SplatOp, ops.BroadcastOp, ops.ExpandDimsOp, ops.BitcastOp, ops.ReshapeOp,
    ops.TransOp, ConvertLayoutOp, CursorOp, AdvanceOp, ttg.MemDescIndexOp, ttg.MemDescTransOp,
    ttg.MemDescReshapeOp, ttg.MemDescReinterpretOp, ttg.MemDescSubsliceOp,
))
"""Operations whose first operand is the address that they compute another one from."""
_SUMS = (
    ops.AddPtrOp, arith.AddiOp, arith_ext.ExtSIOp, ops.SplatOp, ops.BroadcastOp, ops.ExpandDimsOp,
)
Bases = frozenset[tuple[SSAValue | None, SSAValue | None]]
"""Accesses since the last barrier: the base (None if unknown), and the addresses if each lane
accesses its own elements with them."""
NOTHING: Bases = frozenset()
Accessed = Callable[[Operation], SSAValue | None]
"""The pointer, tensor of pointers, surface or buffer that an operation accesses; None if it does
not.
"""


def _accesses(table: Addresses) -> Accessed:
    """The function that finds the addresses of a table's operations."""
    def address(op: Operation) -> SSAValue | None:
        found = table.get(type(op))
        return None if found is None else found(op)

    return address


_stored_address, _loaded_address = _accesses(_STORED), _accesses(_LOADED)
_plain_store_address, _atomic_address, _written_buffer, _read_buffer = map(
    _accesses, (_STORED_PLAINLY, _UPDATED, _BUFFER_WRITES, _BUFFER_READS))


@dataclass(frozen=True)
class InsertBarriersPass(ModulePass):
    """Insert barriers between accesses of different warps to the same memory."""

    name: ClassVar = "insert-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        one_warp = module_warps(op) == 1
        if all_of(op, ttg.LocalAllocOp):
            for function, order in product(functions(op), SHARED_ORDERS):
                _Walk(order).function(function)
        for function in () if one_warp else functions(op):
            found = below(function)
            if any(map(_is_shared, found)):
                _wait_before_stores(function)
            accesses = [op for op in found if type(op) in _ACCESSES]
            orders = [order for order in ORDERS if _concerns(order, accesses)]
            if all_of(function, *_UPDATED):
                orders.append(Order(_plain_store_address, _atomic_address))
            walks = [_Walk(order) for order in orders]
            for walk in walks:
                walk.function(function)
            early = [each for walk in walks for each in walk.early]
            if any(type(inner) is ttg.LocalAllocOp for inner in found):
                orders += SHARED_ORDERS
            for barrier in early:
                _drop_if_unneeded(barrier, orders, function)


def _drop_if_unneeded(barrier: BarrierOp, orders: Sequence[Order], function: Operation) -> None:
    """Remove a barrier if the others already order all accesses."""
    block, following = barrier.parent, barrier.next_op
    assert block is not None
    assert following is not None
    detach(barrier)
    try:
        for order in orders:
            _Check(order).function(function)
    except _UnorderedError:
        block.insert_op_before(barrier, following)


def _is_shared(op: Operation) -> bool:
    """True if warps load elements that other warps store: dot operands, transposed tensors."""
    if type(op) is BlockLoadOp:
        return op.transposed is not None
    return isinstance(op, ops.DotOp | ScaledDotOp) and isinstance(op.d.type.encoding, DpasAttr)


def _concerns(order: Order, accesses: Sequence[Operation]) -> bool:
    """True if a function may have accesses of both kinds."""
    return any(type(op) is CallOp for op in accesses) or (
        any(map(order.earlier, accesses)) and any(map(order.later, accesses)))


def _wait_before_stores(function: Operation) -> None:
    """Make all warps finish loading before any of them stores.

    Warps share parts of operands, so that a store of one warp to an operand's memory could be read
    by the later load of another.
    """
    for op in below(function):
        if type(op) not in _ORDERED:
            continue
        before = op.prev_op
        while before is not None and not before.regions and not isinstance(before, BarrierOp):
            before = None if type(before) in _LOADS else before.prev_op
        if not isinstance(before, BarrierOp):
            _barrier(op, ORDERS[0].spaces)


def _loaded_by_several(op: Operation) -> SSAValue | None:
    """The address of a load whose elements several warps load; None for others."""
    several = type(op) in _LOADS and (_is_before_stores(op) or _has_copies(op.results[0]))
    return _loaded_address(op) if several else None


def _stored_by_one(op: Operation) -> SSAValue | None:
    """The address of a store of a scalar or of copies, which one warp does; None for others."""
    return op.ptr if isinstance(op, memory.StoreOp) and _has_copies(op.value) else None


def _stored_by_all(op: Operation) -> SSAValue | None:
    """The address of a store of elements that are spread over all warps; None for others."""
    if isinstance(op, memory.StoreOp) and _has_copies(op.value):
        return None
    return _plain_store_address(op)


def _loaded_by_one(op: Operation) -> SSAValue | None:
    """The address of a load from an argument, each element by one warp; None for others."""
    if not isinstance(op, memory.LoadOp) or _loaded_by_several(op) is not None:
        return None
    return op.ptr if base_of(op.ptr) is not None else None


def _is_before_stores(op: Operation) -> bool:
    return isinstance(op, memory.LoadOp) and op.before_stores is not None


def _has_copies(value: SSAValue) -> bool:
    """True if several warps have the same element; every warp has a scalar."""
    if not isinstance(value.type, TensorType):
        return True
    return bool(layout_of(value.type).free_variable_masks().get("warp", 0))


@dataclass(frozen=True)
class Order:
    """Accesses of one kind that must be over before those of another begin."""

    earlier: Accessed
    later: Accessed
    spaces: tuple[str, ...] = ("global_read", "global_write")

    def is_kept_by(self, barrier: BarrierOp) -> bool:
        """True if a barrier orders these accesses; any barrier orders shared memory."""
        return self.spaces == SHARED or barrier.spaces.data != "local"


ORDERS = (
    Order(_stored_address, _loaded_address),
    Order(_stored_address, _loaded_by_several),
    Order(_loaded_by_several, _stored_address),
    Order(_loaded_by_one, _stored_address),
    Order(_stored_by_all, _stored_by_one),
    Order(_stored_by_one, _stored_by_all),
)
SHARED = ("local",)
SHARED_ORDERS = (
    Order(_written_buffer, _read_buffer, SHARED), Order(_read_buffer, _written_buffer, SHARED),
    Order(_written_buffer, _written_buffer, SHARED),
)


class _Walk:
    """Walk of one order through a function, which inserts the barriers that it needs.

    Loops are walked twice, because an iteration's accesses precede those of the next one.  A loop's
    result is cached if no barrier was inserted into it, by the accesses that were pending before
    it.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.early: list[BarrierOp] = []
        """Barriers before operations with regions, in which others may make them redundant."""
        self._inserted: Counter[Operation] = Counter()
        self._left: dict[tuple[Operation, Bases], tuple[int, Bases]] = {}

    def function(self, function: Operation) -> None:
        """Propagate pending accesses along every path through the blocks."""
        entry = function.regions[0].blocks[0]
        incoming, waiting = {entry: NOTHING}, [entry]
        while waiting:
            block = waiting.pop()
            leaving = self.block(block, incoming[block])
            last = block.last_op
            for following in () if last is None else last.successors:
                known = incoming.get(following)
                if known is None or not leaving <= known:
                    incoming[following] = leaving | (known or NOTHING)
                    waiting.append(following)

    def block(self, block: Block, pending: Bases) -> Bases:
        """Walk a block; `pending` are the accesses that no barrier has ordered yet."""
        for op in list(block.ops):
            if type(op) is BarrierOp:
                pending = NOTHING if self.order.is_kept_by(op) else pending
            elif type(op) is BarrierWaitOp:
                pending = pending if self.since_arrival(op) else NOTHING
            elif type(op) in _CONTROL:
                pending = self.control(op, pending)
            elif type(op) in _ACCESSES:
                pending = self.access(op, pending)
        return pending

    def since_arrival(self, wait: BarrierWaitOp) -> bool:
        """True if a memory access is between arrive and wait of a split barrier."""
        op = wait.prev_op
        while not isinstance(op, BarrierArriveOp) or op.number != wait.number:
            assert op is not None, "a wait has its arrival in its block"
            if any(type(inner) is CallOp or self.order.earlier(inner) for inner in below(op)):
                return True
            op = op.prev_op
        return False

    def control(self, op: Operation, pending: Bases) -> Bases:
        """Walk through the regions of an if, or twice through those of a loop."""
        before, left = self._left.get((op, pending), (-1, NOTHING))
        if before != self._inserted[op]:
            before = self._inserted[op]
            left = self._regions(op, pending)
            self._left[op, pending] = before, left
        return left

    def _regions(self, op: Operation, pending: Bases) -> Bases:
        """Walk through the regions; a barrier before a loop is preferred to one in it."""
        pending = self.before_regions(op, pending)
        if isinstance(op, scf.IfOp):
            sides = [self.block(b, pending) for region in op.regions for b in region.blocks]
            return pending.union(*sides)
        ended = pending
        for _ in range(2):
            for region in op.regions:
                for block in region.blocks:
                    ended = self.block(block, ended | pending)
        return ended | pending

    def before_regions(self, op: Operation, pending: Bases) -> Bases:
        """Insert a barrier before an operation if an access in its regions needs one."""
        if any(may_alias(inner, pending, self.order) for inner in below(op)):
            pending = self.barrier(op)
            barrier = op.prev_op
            assert isinstance(barrier, BarrierOp)
            self.early.append(barrier)
        return pending

    def access(self, op: Operation, pending: Bases) -> Bases:
        """Add the access of an operation, after a barrier if it may alias an earlier one."""
        order = self.order
        if may_alias(op, pending, order):
            pending = self.barrier(op)
        if type(op) is CallOp:
            return pending | {(None, None)}
        address = order.earlier(op)
        if address is None:
            return pending
        comes_back = isinstance(op, memory.StoreOp) and order.later in (
            _loaded_address, _atomic_address)
        keeps = order.earlier is _loaded_by_one or (
            comes_back and (_is_fixed(address) or is_of_one_pass(address)))
        own = address if keeps else None
        base = None if _is_before_stores(op) else base_of(address)
        return pending | {(base, own)}

    def barrier(self, op: Operation) -> Bases:
        """Insert a barrier before an operation; afterwards no access is pending."""
        _barrier(op, self.order.spaces)
        outer = op.parent_op()
        while outer is not None:
            self._inserted[outer] += 1
            outer = outer.parent_op()
        return NOTHING


class _UnorderedError(Exception):
    """No barrier orders two accesses."""


class _Check(_Walk):
    """Walk that inserts nothing, and raises `_UnorderedError` where a barrier is missing."""

    def before_regions(self, op: Operation, pending: Bases) -> Bases:
        return pending

    def barrier(self, op: Operation) -> Bases:
        raise _UnorderedError


def base_of(value: SSAValue) -> SSAValue | None:
    """The function argument or buffer that an address is computed from; None for others."""
    seen: set[SSAValue] = set()
    while value not in seen:
        seen.add(value)
        if type(value) is OpResult:
            made = value.op
            if type(made) is ttg.LocalAllocOp:
                return value
            if type(made) not in _DERIVED:
                return None
            value = made.operands[0]
            continue
        owner = value.owner
        parent = owner.parent_op()
        if isinstance(parent, FuncOp):
            known = owner is parent.body.blocks[0] and not isinstance(value.type, MemDescType)
            return value if known else None
        start = _start(value)
        if start is None:
            return None
        value = start
    return None


def _start(value: SSAValue) -> SSAValue | None:
    """Initial value of a counted loop's argument, if the loop only moves it."""
    held = carried(value)
    following = value if held is None else held.end
    while following is not value:
        if type(following) is not OpResult or type(following.op) not in _DERIVED:
            return None
        following = following.op.operands[0]
    return None if held is None else held.start


def _is_fixed(address: SSAValue) -> bool:
    """True if no loop recomputes a value, so that it is the same at all uses."""
    block = address.owner if isinstance(address.owner, Block) else address.owner.parent
    return block is not None and isinstance(block.parent_op(), FuncOp)


def is_of_one_pass(address: SSAValue) -> bool:
    """True if an address differs between all iterations of an outermost loop.

    That holds if the address is the loop counter, plus loop-invariant values, plus numbers whose
    spread is below the step.  The counter must start at 0 or above, so that its 32 bits do not
    wrap.
    """
    loop = address.owner if isinstance(address.owner, Block) else address.owner.parent_op()
    if not isinstance(loop, scf.ForOp) or not isinstance(loop.parent_op(), FuncOp):
        return False
    step, first = constant_of(loop.step), constant_of(loop.lb)
    parts = _summands(address)
    counter = loop.body.block.args[0]
    if step is None or first is None or first < 0 or parts.count(counter) != 1:
        return False
    spread = 0
    for part in parts:
        if part is not counter:
            owner = part.owner if isinstance(part.owner, Operation) else part.owner.parent_op()
            if owner is None or loop.is_ancestor(owner):
                return False
            is_tensor = isinstance(part.type, TensorType)
            low, high = Facts(trusting=False).range(part) if is_tensor else (0, 0)
            spread += high - low
    return spread < step


def _summands(address: SSAValue) -> list[SSAValue]:
    """Addends of an address; splats are listed as their scalars."""
    found, waiting = [], [address]
    while waiting:
        value = waiting.pop()
        if isinstance(value.owner, _SUMS):
            waiting += value.owner.operands
        else:
            found.append(value)
    return found


def may_alias(op: Operation, pending: Bases, order: Order) -> bool:
    """True if an operation may access one of the bases."""
    if not pending:
        return False
    if type(op) is CallOp:
        return True
    address = order.later(op)
    if address is None:
        return False
    base = base_of(address)
    others = {found for found, own in pending if own is not address}
    return bool(others) and (base is None or base in others or None in others)


def _barrier(op: Operation, spaces: tuple[str, ...]) -> None:
    made = BarrierOp(*spaces)
    if "local" not in spaces and options_of(module_of(op)).tests_promises:
        made.attributes[ADDED_NODE] = UnitAttr()
    Rewriter.insert_op(made, InsertPoint.before(op))
