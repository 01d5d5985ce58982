"""Exchange values between the subgroups of a work-group through shared local memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError, out_of_resources
from triton_xe.intrinsics import genisa, spirv
from triton_xe.lowering.allocate_slm import Barrier, SlmPlan, Touch
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.links import row_of
from triton_xe.lowering.emit.types import I1, I8, SLM, SLM_POINTER, bits_of, number, vector_of

WORK_GROUP = 2
SLM_SEMANTICS, GLOBAL_SEMANTICS = 272, 528
ALL_SEMANTICS = SLM_SEMANTICS | GLOBAL_SEMANTICS
"""Acquire and release of work-group memory, of global memory, or of both."""


def barrier(em: Emitter, *, global_memory: bool = False) -> None:
    """Synchronise all subgroups of the work-group; memory written before is visible after."""
    _call_barrier(em, ALL_SEMANTICS if global_memory else SLM_SEMANTICS)
    plan_of(em).note(em.b.block, Barrier())


def _call_barrier(em: Emitter, semantics: int) -> ir.Instruction:
    if em.has_arrived:
        raise UnsupportedError(
            "a barrier, or values that move between warps, between barrier_arrive and its wait; "
            "a work-group has one barrier: wait before"
        )
    arguments = map(number, (WORK_GROUP, WORK_GROUP, semantics))
    return em.b.append(em.state.call(spirv.CONTROL_BARRIER, list(arguments)))


def plan_of(em: Emitter) -> SlmPlan:
    """The plan of the kernel being written."""
    plan: SlmPlan = em.state.slm_plan
    return plan


def element_bytes(kind: ir.Type) -> int:
    """Bytes of one element in SLM; an i1 takes one."""
    return max(bits_of(kind) // 8, 1)


class Exchange:
    """A region of SLM for one exchange: write, `meet`, read.

    A barrier before the writes ensures that the region is free; `place_regions` removes it if the
    region is free anyway.  With one subgroup, only memory order matters.
    """

    def __init__(self, em: Emitter, nbytes: int) -> None:
        limit = em.target.max_slm_bytes
        if nbytes > limit:
            out_of_resources(nbytes, limit, "shared memory")
        self.em = em
        self.region = plan_of(em).region(nbytes, em.b.block)
        free = _call_barrier(em, SLM_SEMANTICS)
        plan_of(em).note(em.b.block, Touch(self.region, free))
        at_zero = ir.Instruction("getelementptr", SLM_POINTER, [_memory(em), number(0)], element=I8)
        self.base = em.b.emit(at_zero)
        em.state.slm_bases.append((at_zero, self.region))

    def keep(self, *, is_open: bool) -> None:
        """Keep the region until it is not open any more."""
        self.region.open_until = inf if is_open else plan_of(self.em).count

    def pointer(self, place: ir.Operand, size: int, offset: int = 0) -> ir.Operand:
        """The address of element `place` of those of `size` bytes that begin at byte `offset`."""
        at = self.em.b.mul(place, size) if size > 1 else place
        at = self.em.b.add(at, offset) if offset else at
        return self.em.b.gep(I8, self.base, at)

    def write(self, place: ir.Operand, value: ir.Operand, offset: int = 0) -> None:
        """Store a scalar at element `place` of the part that begins at byte `offset`."""
        size = element_bytes(value.type)
        self.write_at(self.pointer(place, size, offset), value, size)

    def write_at(self, pointer: ir.Operand, value: ir.Operand, align: int) -> None:
        """Store a scalar or a vector."""
        write_vector(self.em, pointer, value, align)

    def wait_for_writes(self) -> None:
        """Wait until all subgroups have written."""
        barrier(self.em)
        self._reads()

    def wait_before_reads(self) -> None:
        """Wait before the reads; the barrier of an earlier exchange may be enough."""
        plan, block = plan_of(self.em), self.em.b.block
        plan.note(block, Touch(self.region, ends=True))
        plan.note(block, Barrier(_call_barrier(self.em, SLM_SEMANTICS)))

    def _reads(self) -> None:
        """Note for the plan that the region is read here."""
        plan_of(self.em).note(self.em.b.block, Touch(self.region, reads=True))

    def read(self, place: ir.Operand, kind: ir.Type, offset: int = 0) -> ir.Operand:
        """Load a scalar from element `place`."""
        size = element_bytes(kind)
        return self.read_at(self.pointer(place, size, offset), kind, 1, size)

    def read_at(self, pointer: ir.Operand, kind: ir.Type, count: int, align: int) -> ir.Operand:
        """Load `count` elements."""
        self._reads()
        return read_vector(self.em, pointer, kind, count, align)

    def read_block(self, place: ir.Operand, kind: ir.Type, size: int) -> ir.Operand:
        """Load a vector for each lane, a row per register, from an address that all lanes share.

        The address is that of element `place`, with elements of `size` bytes.
        """
        self._reads()
        pointer = self.pointer(place, size)
        return self.em.call(genisa.SIMD_BLOCK_READ, [pointer], kind)


def write_block(em: Emitter, pointer: ir.Operand, value: ir.Operand) -> None:
    """Store a vector of each lane, a row per register, from an address that they share."""
    em.call(genisa.SIMD_BLOCK_WRITE, [pointer, value])


def write_vector(em: Emitter, pointer: ir.Operand, value: ir.Operand, align: int) -> None:
    """Store a scalar or a vector to shared local memory; an i1 takes a byte."""
    if value.type.scalar is I1:
        value = em.b.zext(value, I8)
    em.b.store(value, pointer, align=align)


def read_vector(
    em: Emitter, pointer: ir.Operand, kind: ir.Type, count: int, align: int
) -> ir.Operand:
    """Load `count` elements that `write_vector` stored."""
    held = vector_of(I8 if kind == I1 else kind, count)
    value = em.b.load(held, pointer, align=align)
    if kind != I1:
        return value
    return em.b.icmp("ne", value, ir.zero(held))


def kept_region(em: Emitter, nbytes: int = 0) -> ir.Operand:
    """Memory at the start of SLM that the program manages itself; exchanges use the memory after
    it.
    """
    em.state.slm_kept = max(em.state.slm_kept, nbytes + -nbytes % 64)
    return _memory(em)


def _memory(em: Emitter) -> ir.Operand:
    """The module's shared local memory as one global variable, created when first used."""
    state = em.state
    if state.slm is None:
        state.slm = ir.Global("@slm", ir.array(0, I8), SLM, "undef", False, 64)
        state.llvm.globals[state.slm.name] = state.slm
    return state.slm.address


def place_regions(em: Emitter) -> None:
    """Place the regions of a finished kernel and drop the barriers that it does not need."""
    plan = plan_of(em)
    kept = em.state.slm_kept
    em.state.slm_bytes = max(em.state.slm_bytes, kept + plan.assign_offsets())
    if em.state.slm_bytes > em.target.max_slm_bytes:
        out_of_resources(em.state.slm_bytes, em.target.max_slm_bytes, "shared memory")
    for base, region in em.state.slm_bases:
        base.operands[1] = number(kept + region.offset)
    blocks = em.function.blocks
    labels = {b.label: b for b in blocks}
    following = {b: [labels[label] for label in b.successors] for b in blocks if b.instructions}
    dropped = set(plan.removable_barriers(em.entry, following))
    for block in blocks:
        block.instructions[:] = [i for i in block.instructions if i not in dropped]
    if em.state.slm is None:
        _order_global_memory_alone(blocks)


def _order_global_memory_alone(blocks: Iterable[ir.Block]) -> None:
    """Remove the SLM fence from the barriers of a kernel without shared memory."""
    for call in (i for block in blocks for i in block.instructions):
        if row_of(call) is spirv.CONTROL_BARRIER and (
                call.operands[-1].integer_value() == ALL_SEMANTICS):
            call.operands[-1] = number(GLOBAL_SEMANTICS)


def through_slm(
    em: Emitter, kinds: Sequence[ir.Type], count: int,
    writes: Iterable[tuple[ir.Operand, Sequence[ir.Operand]]],
) -> Callable[[ir.Operand], list[ir.Operand]]:
    """Write tuples of scalars of `kinds` to positions below `count`, and synchronise.

    Return a function that reads the tuple at a position.
    """
    offsets, total = [], 0
    for kind in kinds:
        total += -total % element_bytes(kind)
        offsets.append(total)
        total += element_bytes(kind) * count
    exchange = Exchange(em, total)
    for position, values in writes:
        for value, offset in zip(values, offsets, strict=True):
            exchange.write(position, value, offset)
    exchange.wait_for_writes()
    return lambda position: [
        exchange.read(position, kind, offset) for kind, offset in zip(kinds, offsets, strict=True)
    ]
