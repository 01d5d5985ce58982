"""Lowering of control flow: all of it is the same for every lane of a work-group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from xdsl.dialects import cf, gpu, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from triton_xe.dialects import llvm_ext, ttg
from triton_xe.dialects.llvm_ext import keeps_invariants
from triton_xe.dialects.tt.structure import ReturnOp
from triton_xe.intrinsics import llvm
from triton_xe.lowering.emit.emitter import Emitter, flatten, lowers
from triton_xe.lowering.emit.tensors.exchange import barrier
from triton_xe.lowering.emit.types import I32, bits_of
from triton_xe.lowering.surfaces.affine import constant_of
from triton_xe.lowering.surfaces.raise_surfaces import RUNS, VERSIONS
from triton_xe.spirv import FALLBACK_NODE


class LoopId(ir.MDValue):
    """Metadata node of one loop: its first element is the node itself."""

    def __init__(self, module: ir.Module, *properties: str) -> None:
        named = [module.add_metadata([ir.MetaDataString(module, name)]) for name in properties]
        super().__init__(module, (), name=str(len(module.metadata)))
        self.operands = (self, *named)

    def descr(self, buf: list[str]) -> None:
        buf += ["distinct "]
        super().descr(buf)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _annotate(em: Emitter, op: Operation, branch: ir.Instruction) -> None:
    """Tell LLVM what the author wants of a loop; `branch` goes back to its begin."""
    if keeps_invariants(op):
        branch.set_metadata("llvm.loop", LoopId(em.state.llvm, "llvm.licm.disable"))


Parts = list[ir.Value]
Rebuild = Callable[[Parts], Any]


def yielded(op: Operation) -> Operation:
    """The terminator of the last region of a structured operation."""
    last = op.regions[-1].block.last_op
    assert last is not None
    return last


@lowers(scf.ForOp)
def lower_for(em: Emitter, op: scf.ForOp) -> None:
    """A bottom-tested loop; a test before it unless it is known to run."""
    low, high, step = (em.scalar(v) for v in op.operands[:3])
    starts = [flatten(em, em.get(v)) for v in op.operands[3:]]
    body_args = op.regions[0].block.args
    before = em.b.block
    body = em.function.append_basic_block("loop")
    after = em.function.append_basic_block("after")
    if op.attributes.get(RUNS) is None:
        em.b.cbranch(em.b.icmp_signed("<", low, high), body, after)
    else:
        em.b.branch(body)
    em.b.position_at_end(body)
    counter = em.b.phi(low.type)
    counter.add_incoming(low, before)
    phis = [_phis(em, parts, before) for parts, _ in starts]
    em.bind(body_args[0], counter)
    for arg, (_, rebuild), held in zip(body_args[1:], starts, phis, strict=True):
        em.bind(arg, rebuild(held))
    outer = em.enter()
    em.loop_depth += 1
    for inner in op.regions[0].block.ops:
        if inner.name != "scf.yield":
            em.operation(inner)
    ends = [flatten(em, em.get(v)) for v in yielded(op).operands]
    _note_carried(em, [part for parts, _ in ends for part in parts])
    em.loop_depth -= 1
    em.leave(outer)
    latch = em.b.block
    walker = None
    if op.attributes.get(RUNS) is not None and not body_args[0].uses.get_length():
        walker = _walker(phis, ends)
    if walker is not None:
        following, start, by = walker
        end = _last_position(before, start, by, _trips(before, op, low, high, step))
        back = em.b.cbranch(em.b.icmp_unsigned("!=", following, end), body, after)
        body.instructions.remove(counter)
    else:
        following = em.b.add(counter, step)
        back = em.b.cbranch(em.b.icmp_signed("<", following, high), body, after)
        counter.add_incoming(following, latch)
    _annotate(em, op, back)
    for held, (parts, _) in zip(phis, ends, strict=True):
        for phi, part in zip(held, parts, strict=True):
            phi.add_incoming(part, latch)
    em.b.position_at_end(after)
    for result, (first, _), (parts, rebuild) in zip(op.results, starts, ends, strict=True):
        if op.attributes.get(RUNS) is not None:
            em.bind(result, rebuild(parts))
            continue
        merged = []
        for early, late in zip(first, parts, strict=True):
            phi = em.b.phi(early.type)
            phi.add_incoming(early, before)
            phi.add_incoming(late, latch)
            merged.append(phi)
        em.bind(result, rebuild(merged))


def _note_carried(em: Emitter, parts: list[ir.Value]) -> None:
    """Keep the size of the largest set of loop-carried vectors: it decides the register file."""
    lanes = em.state.lanes
    total = sum(
        part.type.count * bits_of(part.type.element) * lanes // 8
        for part in parts if isinstance(part.type, ir.VectorType)
    )
    em.state.facts["carried_bytes"] = max(em.state.facts.get("carried_bytes", 0), total)



def _walker(
    phis: list[list[Any]], ends: list[tuple[Parts, Any]]
) -> tuple[ir.Value, ir.Value, ir.Constant] | None:
    """A carried i32 that grows by a constant: (its next value, its start, the constant).

    A loop that nothing else counts can end where this value does, which saves the counter.
    """
    for held, (parts, _) in zip(phis, ends, strict=True):
        for phi, part in zip(held, parts, strict=True):
            if getattr(part, "opname", "") != "add" or part.type != I32:
                continue
            left, right = part.operands
            if left is phi and isinstance(right, ir.Constant) and int(right.constant) > 0:
                return part, phi.incomings[0][0], right
    return None


def _trips(
    before: ir.Block, op: Operation, low: ir.Value, high: ir.Value, step: ir.Value
) -> ir.Value:
    """How often a loop that runs at least once runs, written before it."""
    if constant_of(op.operands[0]) == 0 and constant_of(op.operands[2]) == 1:
        return high
    builder = ir.IRBuilder(before)
    builder.position_before(before.terminator)
    span = builder.sub(builder.add(builder.sub(high, low), step), ir.Constant(step.type, 1))
    return builder.udiv(span, step)


def _last_position(
    before: ir.Block, start: ir.Value, by: ir.Constant, count: ir.Value
) -> ir.Value:
    """start + by * count, written before the loop; coordinates are below 2^24 there."""
    builder = ir.IRBuilder(before)
    builder.position_before(before.terminator)
    narrow = count if count.type == I32 else builder.trunc(count, I32)
    return builder.add(start, builder.mul(narrow, by))


def _phis(em: Emitter, parts: list[ir.Value], before: ir.Block) -> list[Any]:
    made = []
    for part in parts:
        phi = em.b.phi(part.type)
        phi.add_incoming(part, before)
        made.append(phi)
    return made


@lowers(scf.IfOp)
def lower_if(em: Emitter, op: scf.IfOp) -> None:
    """Two sides and, where there are results, phis after them."""
    then_block, after = (em.function.append_basic_block(n) for n in ("then", "after"))
    has_else = bool(op.regions[1].blocks) and bool(list(op.regions[1].block.ops))
    else_block = em.function.append_basic_block("else") if has_else else after
    condition, inverted = _condition(em, op.operands[0])
    targets = (else_block, then_block) if inverted else (then_block, else_block)
    branch = em.b.cbranch(condition, *targets)
    if VERSIONS in op.attributes:
        node = em.state.llvm.add_metadata([I32(targets.index(else_block))])
        branch.set_metadata(FALLBACK_NODE, node)
    sides = []
    for region, block in zip(op.regions, (then_block, else_block), strict=True):
        if block is after:
            continue
        em.b.position_at_end(block)
        outer = em.enter()
        for inner in region.block.ops:
            if inner.name != "scf.yield":
                em.operation(inner)
        last = region.block.last_op
        results = [] if last is None or last.name != "scf.yield" else last.operands
        ends = [flatten(em, em.get(v)) for v in results]
        em.leave(outer)
        sides.append((em.b.block, ends))
        em.b.branch(after)
    em.b.position_at_end(after)
    for index, result in enumerate(op.results):
        (first_block, first), (second_block, second) = (
            (block, ends[index]) for block, ends in sides
        )
        merged = []
        for left, right in zip(first[0], second[0], strict=True):
            phi = em.b.phi(left.type)
            phi.add_incoming(left, first_block)
            phi.add_incoming(right, second_block)
            merged.append(phi)
        em.bind(result, first[1](merged))


def _condition(em: Emitter, value: SSAValue) -> tuple[ir.Value, bool]:
    """The bit to branch on, and whether it says the opposite: `xor %x, true` is not computed."""
    op = value.owner
    if isinstance(op, Operation) and op.name == "arith.xori" and constant_of(op.operands[1]) in (
        1, -1,
    ):
        return em.scalar(op.operands[0]), True
    return em.scalar(value), False


@lowers(scf.WhileOp)
def lower_while(em: Emitter, op: scf.WhileOp) -> None:
    """The before region decides, the after region is the body."""
    before_region, after_region = op.regions
    starts = [flatten(em, em.get(v)) for v in op.operands]
    came_from = em.b.block
    head = em.function.append_basic_block("while")
    body = em.function.append_basic_block("body")
    done = em.function.append_basic_block("done")
    em.b.branch(head)
    em.b.position_at_end(head)
    phis = [_phis(em, parts, came_from) for parts, _ in starts]
    for arg, (_, rebuild), held in zip(before_region.block.args, starts, phis, strict=True):
        em.bind(arg, rebuild(held))
    em.loop_depth += 1
    head_scope = em.enter()
    condition = None
    for inner in before_region.block.ops:
        if inner.name == "scf.condition":
            condition = inner
        else:
            em.operation(inner)
    assert condition is not None
    passed = [flatten(em, em.get(v)) for v in condition.operands[1:]]
    em.b.cbranch(em.scalar(condition.operands[0]), body, done)
    em.b.position_at_end(body)
    for arg, (parts, rebuild) in zip(after_region.block.args, passed, strict=True):
        em.bind(arg, rebuild(parts))
    body_scope = em.enter()
    for inner in after_region.block.ops:
        if inner.name != "scf.yield":
            em.operation(inner)
    ends = [flatten(em, em.get(v)) for v in yielded(op).operands]
    em.leave(body_scope)
    latch = em.b.block
    _annotate(em, op, em.b.branch(head))
    for held, (parts, _) in zip(phis, ends, strict=True):
        for phi, part in zip(held, parts, strict=True):
            phi.add_incoming(part, latch)
    em.leave(head_scope)
    em.loop_depth -= 1
    em.b.position_at_end(done)
    for result, (parts, rebuild) in zip(op.results, passed, strict=True):
        em.bind(result, rebuild(parts))


@dataclass
class Frame:
    """A function that is being written; `returns` are the places that leave it, with values."""

    name: str
    returns: list[tuple[ir.Block, list[tuple[Parts, Rebuild]]]] = field(default_factory=list)

    def results(self, em: Emitter) -> list[Any]:
        """Go on after the function: its results where all its returns meet."""
        if len(self.returns) == 1:
            block, values = self.returns[0]
            em.b.position_at_end(block)
            return [rebuild(parts) for parts, rebuild in values]
        after = em.function.append_basic_block("returned")
        for block, _ in self.returns:
            ir.IRBuilder(block).branch(after)
        em.b.position_at_end(after)
        out = []
        for index, (first, rebuild) in enumerate(self.returns[0][1]):
            merged = [em.b.phi(part.type) for part in first]
            for block, values in self.returns:
                for phi, part in zip(merged, values[index][0], strict=True):
                    phi.add_incoming(part, block)
            out.append(rebuild(merged))
        return out


def write_body(em: Emitter, region: Region) -> None:
    """Write the body of a kernel."""
    frame = Frame("kernel")
    em.frames.append(frame)
    write_blocks(em, region)
    em.frames.pop()
    frame.results(em)
    em.b.ret_void()


def write_blocks(em: Emitter, region: Region) -> None:
    """Write the blocks of a function; one with several is left early somewhere."""
    blocks = list(region.blocks)
    if len(blocks) == 1:
        em.block(blocks[0])
        return
    for arg in (arg for block in blocks for arg in block.args):
        em.joins.pop(arg, None)  # of an earlier call of the same function
    places = {b: em.function.append_basic_block("block") for b in blocks[1:]}
    em.targets.update(places)
    for block in _in_order(blocks[0]):
        if block is not blocks[0]:
            em.b.position_at_end(places[block])
        outer = em.enter()
        em.block(block)
        em.leave(outer)


def _in_order(entry: Block) -> list[Block]:
    """The blocks that are reached, each after all that lead to it (there are no loops)."""
    seen: set[Block] = set()
    order: list[Block] = []

    def visit(block: Block) -> None:
        seen.add(block)
        last = block.last_op
        for following in () if last is None else last.successors:
            if following not in seen:
                visit(following)
        order.append(block)

    visit(entry)
    return order[::-1]


def _enter_block(em: Emitter, block: Block, values: Sequence[Any]) -> None:
    """Hand bound values to the arguments of a block that the current place leads to."""
    target = em.targets[block]
    for arg, value in zip(block.args, values, strict=True):
        parts, rebuild = flatten(em, value)
        phis = em.joins.get(arg)
        if phis is None:
            builder = ir.IRBuilder(target)
            phis = em.joins[arg] = [builder.phi(part.type) for part in parts]
            em.bind(arg, rebuild(phis))
        for phi, part in zip(phis, parts, strict=True):
            phi.add_incoming(part, em.b.block)


@lowers(cf.BranchOp)
def lower_branch(em: Emitter, op: cf.BranchOp) -> None:
    (target,) = op.successors
    _enter_block(em, target, [em.get(v) for v in op.operands])
    em.b.branch(em.targets[target])


@lowers(cf.ConditionalBranchOp)
def lower_conditional_branch(em: Emitter, op: cf.ConditionalBranchOp) -> None:
    condition = em.scalar(op.operands[0])
    then, other = op.successors
    count = len(then.args)
    held = [em.get(v) for v in op.operands[1:]]
    sides = (held[:count], held[count:])
    if then is other:
        _enter_block(em, then, [_chosen(em, condition, a, b) for a, b in zip(*sides, strict=True)])
        em.b.branch(em.targets[then])
        return
    _enter_block(em, then, sides[0])
    _enter_block(em, other, sides[1])
    em.b.cbranch(condition, em.targets[then], em.targets[other])


def _chosen(em: Emitter, condition: ir.Value, a: Any, b: Any) -> Any:
    """The value of the side that is taken."""
    (first, rebuild), (second, _) = flatten(em, a), flatten(em, b)
    return rebuild([em.b.select(condition, x, y) for x, y in zip(first, second, strict=True)])


@lowers(ReturnOp)
def lower_return(em: Emitter, op: ReturnOp) -> None:
    """Leave the function that is being written."""
    values = [flatten(em, em.get(v)) for v in op.operands]
    em.frames[-1].returns.append((em.b.block, values))


@lowers(llvm_ext.AssumeOp)
def lower_assume(em: Emitter, op: llvm_ext.AssumeOp) -> None:
    """A fact that the program states; the analyses have read it, the compiler gets it as well."""
    held = em.get(op.operands[0])
    if isinstance(held, ir.Value):
        em.call(llvm.ASSUME, [held])


@lowers(ttg.BarrierOp, gpu.BarrierOp)
def lower_barrier(em: Emitter, op: Operation) -> None:
    """All subgroups of the work-group meet; memory written before is visible after."""
    if em.state.num_warps > 1:
        barrier(em, global_memory=True)
