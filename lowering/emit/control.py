"""Lowering of control flow, which is uniform over all lanes of a work-group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xdsl.dialects import cf, scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.type import get_element_type_or_self

from triton_xe import llvm as ir
from triton_xe.dialects import llvm_ext, ttg
from triton_xe.dialects.llvm_ext import keeps_invariants
from triton_xe.dialects.tt.structure import ReturnOp
from triton_xe.dialects.tt.types import PointerType
from triton_xe.dialects.xe import ROLLED, RUNS, VERSIONS
from triton_xe.intrinsics import llvm
from triton_xe.lowering.emit.emitter import Emitter, flatten, lowers
from triton_xe.lowering.emit.tensors.exchange import barrier
from triton_xe.lowering.emit.xegpu.payloads import Payload
from triton_xe.spirv import ADDED_NODE, ROLLED_LABEL

Parts = list[ir.Operand]
Rebuild = Callable[[Parts], Any]
Flat = tuple[Parts, Rebuild]
"""A bound value as LLVM values, and a function that rebuilds it from other such values."""


def _flat(em: Emitter, values: Iterable[SSAValue]) -> list[Flat]:
    """Flatten values that a branch passes on."""
    return [flatten(em, em.get(v)) for v in values]


def _merged(em: Emitter, sides: Sequence[tuple[ir.Block, Sequence[Flat]]]) -> list[Any]:
    """Merge values that come from several blocks by phis."""
    if len(sides) == 1:
        return [rebuild(parts) for parts, rebuild in sides[0][1]]
    out = []
    for index, (first, rebuild) in enumerate(sides[0][1]):
        phis: Parts = []
        for place, part in enumerate(first):
            incoming = [(flats[index][0][place], block) for block, flats in sides]
            phis.append(em.b.merged(part.type, *incoming))
        out.append(rebuild(phis))
    return out


def _carried(
    em: Emitter, args: Iterable[SSAValue], starts: Sequence[Flat], before: ir.Block
) -> list[list[Any]]:
    """Bind loop-carried values to phis."""
    held: list[list[Any]] = [
        [em.b.merged(part.type, (part, before)) for part in parts] for parts, _ in starts]
    for arg, (_, rebuild), phis in zip(args, starts, held, strict=True):
        em.bind(arg, rebuild(phis))
    return held


def _close(em: Emitter, held: list[list[Any]], ends: Sequence[Flat], latch: ir.Block) -> None:
    """Add the values of the back edge to the phis of a loop."""
    for phis, (parts, _) in zip(held, ends, strict=True):
        for phi, part in zip(phis, parts, strict=True):
            em.b.join(phi, part, latch)


def _straight(em: Emitter, block: Block) -> Operation:
    """Write the operations before a block's terminator, and return the terminator."""
    last = block.last_op
    assert isinstance(last, scf.YieldOp | scf.ConditionOp)
    for op in block.ops:
        if op is not last:
            em.operation(op)
    return last


@lowers(scf.ForOp)
def lower_for(em: Emitter, op: scf.ForOp) -> None:
    """Write a bottom-tested loop, after a test unless it is known to run.

    Initial values are written after the test.  Those of results are written before it too, because
    they are the results if the loop does not run.
    """
    low, high, step = (em.scalar(v) for v in (op.lb, op.ub, op.step))
    used = [n for n, result in enumerate(op.results) if result.first_use is not None]
    runs = RUNS.of(op)
    name = ROLLED_LABEL if ROLLED.of(op) else "loop"
    names = [name, "after"] if runs else ["start", name, "after"]
    *start, body, after = map(em.b.append_block, names)
    sides: list[tuple[ir.Block, list[Flat]]] = []
    if start:
        sides.append((em.b.block, _flat(em, [op.iter_args[n] for n in used])))
        em.b.branch_if(em.b.icmp("slt", low, high), start[0], after)
        em.b.at_end(start[0])
    entered = em.enter()
    starts = _flat(em, op.iter_args)
    before = em.b.block
    em.b.branch(body)
    em.b.at_end(body)
    counter = em.b.merged(low.type, (low, before))
    phis = _carried(em, op.body.block.args[1:], starts, before)
    em.loop_depth += 1
    em.bind(op.body.block.args[0], counter)
    inside = em.enter()
    for held in map(em.get, op.body.block.args[1:]):
        if isinstance(held, Payload):
            held.advance(em)
    ends = _flat(em, _straight(em, op.body.block).operands)
    em.leave(inside)
    _note_carried(em, op.body.block.args[1:], ends)
    em.loop_depth -= 1
    latch = em.b.block
    following = em.b.add(counter, step)
    em.b.join(counter, following, latch)
    back = em.b.branch_if(em.b.icmp("slt", following, high), body, after)
    back.keeps_invariants = keeps_invariants(op)
    _close(em, phis, ends, latch)
    em.leave(entered)
    em.b.at_end(after)
    sides.append((latch, [ends[n] for n in used]))
    for n, value in zip(used, _merged(em, sides), strict=True):
        em.bind(op.results[n], value)


def _note_carried(em: Emitter, values: Iterable[SSAValue], ends: Iterable[Flat]) -> None:
    """Note the size of a set of loop-carried vectors, and of those that are not addresses.

    Of addresses that differ by known numbers, Intel's compiler carries one.
    """
    sizes = [sum(map(partial(_vector_bytes, em), parts)) for parts, _ in ends]
    kept = [size for value, size in zip(values, sizes, strict=True) if not _are_addresses(value)]
    em.state.carried_bytes = max(em.state.carried_bytes, sum(sizes))
    em.state.kept_bytes = max(em.state.kept_bytes, sum(kept))


def _vector_bytes(em: Emitter, part: ir.Operand) -> int:
    """Bytes of a vector in a subgroup's registers; 0 for scalars."""
    kind = part.type
    return kind.count * kind.scalar.bits * em.state.lanes // 8 if kind.kind == "vec" else 0


def _are_addresses(value: SSAValue) -> bool:
    return isinstance(get_element_type_or_self(value.type), PointerType)


@lowers(scf.IfOp)
def lower_if(em: Emitter, op: scf.IfOp) -> None:
    """Write both sides and, if there are results, phis after them."""
    then_block, after = (em.b.append_block(n) for n in ("then", "after"))
    other = op.false_region
    has_else = bool(other.blocks) and other.block.first_op is not None
    else_block = em.b.append_block("else") if has_else else after
    branch = em.b.branch_if(em.scalar(op.cond), then_block, else_block)
    if VERSIONS.of(op):
        branch.fallback = else_block.label
    sides = []
    for region, block in ((op.true_region, then_block), (other, else_block)):
        if block is after:
            continue
        em.b.at_end(block)
        outer = em.enter()
        ends = _flat(em, _straight(em, region.block).operands)
        em.leave(outer)
        sides.append((em.b.block, ends))
        em.b.branch(after)
    em.b.at_end(after)
    if op.results:
        for result, value in zip(op.results, _merged(em, sides), strict=True):
            em.bind(result, value)


@lowers(scf.WhileOp)
def lower_while(em: Emitter, op: scf.WhileOp) -> None:
    """Write a loop: the before region decides, the after region is the body."""
    starts, came_from = _flat(em, op.arguments), em.b.block
    head, body, done = (
        em.b.append_block(name) for name in ("while", "body", "done"))
    em.b.branch(head)
    em.b.at_end(head)
    phis = _carried(em, op.before_region.block.args, starts, came_from)
    em.loop_depth += 1
    head_scope = em.enter()
    condition = _straight(em, op.before_region.block)
    assert isinstance(condition, scf.ConditionOp)
    passed = _flat(em, condition.args)
    em.b.branch_if(em.scalar(condition.condition), body, done)
    em.b.at_end(body)
    for arg, (parts, rebuild) in zip(op.after_region.block.args, passed, strict=True):
        em.bind(arg, rebuild(parts))
    body_scope = em.enter()
    ends = _flat(em, _straight(em, op.after_region.block).operands)
    em.leave(body_scope)
    latch = em.b.block
    em.b.branch(head).keeps_invariants = keeps_invariants(op)
    _close(em, phis, ends, latch)
    em.leave(head_scope)
    em.loop_depth -= 1
    em.b.at_end(done)
    for result, (parts, rebuild) in zip(op.results, passed, strict=True):
        em.bind(result, rebuild(parts))


@dataclass
class Frame:
    """A function that is being written; `returns` are its exit blocks with their values."""

    name: str
    returns: list[tuple[ir.Block, Sequence[Flat]]] = field(default_factory=list)

    def results(self, em: Emitter) -> list[Any]:
        """Continue after the function; return its results, merged over all returns."""
        after = self.returns[0][0]
        if len(self.returns) > 1:
            after = em.b.append_block("returned")
            for block, _ in self.returns:
                em.b.at_end(block)
                em.b.branch(after)
        em.b.at_end(after)
        return _merged(em, self.returns)


def write_body(em: Emitter, region: Region) -> None:
    """Write the body of a kernel."""
    frame = Frame("kernel")
    em.frames.append(frame)
    write_blocks(em, region)
    em.frames.pop()
    frame.results(em)
    em.b.ret()


def write_blocks(em: Emitter, region: Region) -> None:
    """Write the blocks of a function; one with several blocks returns early in some."""
    blocks = list(region.blocks)
    if len(blocks) == 1:
        em.block(blocks[0])
        return
    for arg in (arg for block in blocks for arg in block.args):
        em.joins.pop(arg, None)  # of an earlier call of the same function
    places = {b: em.b.append_block("block") for b in blocks[1:]}
    em.targets.update(places)
    for block in _in_order(blocks[0]):
        if block is not blocks[0]:
            em.b.at_end(places[block])
        outer = em.enter()
        em.block(block)
        em.leave(outer)


def _in_order(entry: Block) -> list[Block]:
    """The reachable blocks, each after its predecessors (there are no loops)."""
    seen: set[Block] = {entry}
    order: list[Block] = []
    path = [(entry, iter(_following(entry)))]
    while path:
        further = next((b for b in path[-1][1] if b not in seen), None)
        if further is None:
            order.append(path.pop()[0])
        else:
            seen.add(further)
            path.append((further, iter(_following(further))))
    return order[::-1]


def _following(block: Block) -> Sequence[Block]:
    return () if block.last_op is None else block.last_op.successors


def _enter_block(em: Emitter, block: Block, values: Sequence[Any]) -> None:
    """Pass bound values to the arguments of a block, from the block that is being written."""
    target = em.targets[block]
    for arg, value in zip(block.args, values, strict=True):
        parts, rebuild = flatten(em, value)
        phis = em.joins.get(arg)
        if phis is None:
            here = em.b.block
            em.b.at_end(target)
            phis = em.joins[arg] = [em.b.merged(part.type) for part in parts]
            em.b.at_end(here)
            em.bind(arg, rebuild(phis))
        for phi, part in zip(phis, parts, strict=True):
            em.b.join(phi, part, em.b.block)


@lowers(cf.BranchOp)
def lower_branch(em: Emitter, op: cf.BranchOp) -> None:
    _enter_block(em, op.successor, [em.get(v) for v in op.arguments])
    em.b.branch(em.targets[op.successor])


@lowers(cf.ConditionalBranchOp)
def lower_conditional_branch(em: Emitter, op: cf.ConditionalBranchOp) -> None:
    condition, then, other = em.scalar(op.cond), op.then_block, op.else_block
    sides = [[em.get(v) for v in side] for side in (op.then_arguments, op.else_arguments)]
    if then is other:
        _enter_block(em, then, [_chosen(em, condition, a, b) for a, b in zip(*sides, strict=True)])
        em.b.branch(em.targets[then])
        return
    _enter_block(em, then, sides[0])
    _enter_block(em, other, sides[1])
    em.b.branch_if(condition, em.targets[then], em.targets[other])


def _chosen(em: Emitter, condition: ir.Operand, a: Any, b: Any) -> Any:
    """Select the value of the side that is taken."""
    (first, rebuild), (second, _) = flatten(em, a), flatten(em, b)
    return rebuild([em.b.select(condition, x, y) for x, y in zip(first, second, strict=True)])


@lowers(ReturnOp)
def lower_return(em: Emitter, op: ReturnOp) -> None:
    """Leave the function that is being written."""
    em.frames[-1].returns.append((em.b.block, _flat(em, op.arguments)))


@lowers(llvm_ext.AssumeOp)
def lower_assume(em: Emitter, op: llvm_ext.AssumeOp) -> None:
    """Pass a fact that the program states on to the compiler; the analyses have read it already."""
    held = em.get(op.condition)
    if isinstance(held, ir.Operand):
        em.call(llvm.ASSUME, [held])


@lowers(ttg.BarrierOp)
def lower_barrier(em: Emitter, op: ttg.BarrierOp) -> None:
    """Synchronise all subgroups of the work-group; memory written before is visible after.

    With one subgroup only the compilers need it: they see a single lane's accesses to buffers.
    """
    if em.state.num_warps > 1 or em.state.slm_kept:
        with em.b.added(ADDED_NODE in op.attributes):
            barrier(em, global_memory=op.spaces.data != "local")
