"""Lowering of atomics: one access per element and lane, by `lane_atomics`.

Orderings are explicit fences around accesses that have none, because fences of LLVM's own are lost
on the way to the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.tt import memory as tt
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics import spirv
from triton_xe.lowering.emit import lane_atomics
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.lane_atomics import SCOPES
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.exchange import Exchange, barrier, element_bytes, through_slm
from triton_xe.lowering.emit.tensors.memory import first_lane, owns_copy
from triton_xe.lowering.emit.tensors.registers import Registers, Splat, from_scalars
from triton_xe.lowering.emit.tensors.shuffle import shuffle_index, uniform
from triton_xe.lowering.emit.types import I1, I64, bits_of, is_bf16, number, scalar_type
from triton_xe.lowering.facts.accesses import needed_mask
from triton_xe.lowering.facts.view import View

_GLOBAL_MEMORY = 512
_ACQUIRE, _RELEASE = 2, 4

Access = Callable[[ir.Operand, Sequence[ir.Operand], ir.Operand], Any]
"""Writer of one access from its address, values, and participation flag; returns the old value."""


def fence(em: Emitter, op: tt.AtomicOp, *, before: bool) -> None:
    """Write the fence that the op's ordering requires before or after it."""
    sem, scope = _keyword(op, "sem"), _keyword(op, "scope")
    wanted = _RELEASE if before else _ACQUIRE
    if sem == "relaxed" or sem == ("acquire" if before else "release"):
        return
    em.call(spirv.MEMORY_BARRIER, [number(SCOPES[scope][1]), number(wanted | _GLOBAL_MEMORY)])


def gpu_barrier(em: Emitter) -> None:
    """Write a barrier that makes global memory of the other subgroups visible."""
    if em.state.num_warps > 1:
        barrier(em, global_memory=True)


def run(
    em: Emitter, op: tt.AtomicOp, pointer: SSAValue, operands: Sequence[SSAValue],
    mask: SSAValue | None, access: Access, used: bool = True,
) -> None:
    """Write the accesses of an atomic operation, and bind its result, if it has one.

    With `used`, and if the result has uses, all lanes and warps with copies get it.
    """
    mask = needed_mask(mask)
    if isinstance(pointer.type, TensorType):
        _tensor(em, op, pointer, operands, mask, access, used)
    else:
        _scalar(em, op, pointer, operands, mask, access, used)


def _tensor(
    em: Emitter, op: tt.AtomicOp, pointer: SSAValue, operands: Sequence[SSAValue],
    mask: SSAValue | None, access: Access, used: bool = True,
) -> None:
    """Emit one atomic per register; one of several lanes with copies of an element does it."""
    view = em.view(pointer)
    addresses = em.registers(pointer)
    values = [em.registers(v) for v in operands]
    conditions = None if mask is None else em.registers(mask)
    once = owns_copy(em, view)
    old = []
    fence(em, op, before=True)
    for r in range(len(view.registers)):
        active = ir.constant(I1, 1) if conditions is None else conditions.register(em, r)
        if once is not None:
            active = once if conditions is None else em.b.and_(active, once)
        old.append(access(addresses.register(em, r), [v.register(em, r) for v in values], active))
    fence(em, op, before=False)
    if op.results and used and op.results[0].uses.get_length():
        em.bind(op.results[0], shared_copies(em, view, old))
    elif op.results:
        em.bind(op.results[0], from_scalars(em, old[0].type, old))


def shared_copies(em: Emitter, view: View, scalars: Sequence[ir.Operand]) -> Registers:
    """Registers in which lanes and warps with copies have the result of the first of them."""
    held = list(scalars)
    kind = held[0].type
    if view.lane_free:
        first = em.b.and_(em.lane_id(), ~view.lane_free & 0xFFFFFFFF)
        held = [shuffle_index(em, x, first) for x in held]
    if view.warp_free and em.state.num_warps > 1:
        per_warp = em.state.lanes * len(held)
        owner = em.b.and_(em.warp_id(), ~view.warp_free & 0xFFFFFFFF)
        mine, theirs = (
            em.b.add(em.b.mul(warp, per_warp), em.lane_id())
            for warp in (em.warp_id(), owner)
        )
        read = through_slm(em, [kind], per_warp * em.state.num_warps, (
            (em.b.add(mine, r * em.state.lanes), [x]) for r, x in enumerate(held)))
        held = [
            read(em.b.add(theirs, r * em.state.lanes))[0] for r in range(len(held))
        ]
    return from_scalars(em, kind, held)


def _scalar(
    em: Emitter, op: tt.AtomicOp, pointer: SSAValue, operands: Sequence[SSAValue],
    mask: SSAValue | None, access: Access, used: bool = True,
) -> None:
    """Execute once per work-group, in lane 0 of warp 0, and pass the result to all lanes."""
    sem = _keyword(op, "sem")
    if sem in ("release", "acq_rel"):
        gpu_barrier(em)
    fence(em, op, before=True)
    active = first_lane(em)
    if mask is not None:
        active = em.b.and_(active, em.scalar(mask))
    address = em.address(em.scalar(pointer))
    old = access(address, [em.scalar(v) for v in operands], active)
    fence(em, op, before=False)
    if op.results and used and op.results[0].uses.get_length():
        em.bind(op.results[0], from_first_lane(em, old))
    else:
        if op.results:
            em.bind(op.results[0], old)
        if sem in ("acquire", "acq_rel"):
            gpu_barrier(em)


def from_first_lane(em: Emitter, value: ir.Operand) -> ir.Operand:
    """The value of lane 0 of warp 0, in every lane; each warp has an address to write to."""
    value = uniform(em, value)
    if em.state.num_warps == 1:
        return value
    exchange = Exchange(em, em.state.num_warps * element_bytes(value.type))
    exchange.write(em.warp_id(), value)
    exchange.wait_for_writes()
    return uniform(em, exchange.read(number(0), value.type))


def _keyword(op: tt.AtomicOp, name: str) -> str:
    held = op.properties[name]
    assert isinstance(held, StringAttr)
    return held.data


def _as_integer(em: Emitter, value: ir.Operand) -> ir.Operand:
    """The bits of a number, or the address of a pointer, as an integer."""
    pointer = value.type.kind == "ptr"
    return em.address(value) if pointer else Term(em, value).bits.value


def _from_integer(em: Emitter, value: ir.Operand, kind: ir.Type) -> ir.Operand:
    """An integer's bits as a value of a type."""
    return Term(em, value).bitcast(kind).value


# -- the operations --------------------------------------------------------------------------------


@lowers(tt.AtomicRMWOp)
def lower_atomic_rmw(em: Emitter, op: tt.AtomicRMWOp) -> None:
    kind, scope = _keyword(op, "atomic_rmw_op"), _keyword(op, "scope")
    held, bf16 = scalar_type(op.val.type), is_bf16(op.val.type)
    if held == I1:
        raise UnsupportedError("atomic operations on i1 elements")

    def access(address: ir.Operand, values: Sequence[ir.Operand], active: ir.Operand) -> ir.Operand:
        pointer = values[0].type.kind == "ptr"
        given = em.address(values[0]) if pointer else values[0]
        return lane_atomics.rmw(em, kind, address, given, active, scope,
                                bf16=bf16 and kind == "fadd")

    run(em, op, op.ptr, [op.val], op.mask, access)


@lowers(tt.AtomicCASOp)
def lower_atomic_cas(em: Emitter, op: tt.AtomicCASOp) -> None:
    def access(address: ir.Operand, values: Sequence[ir.Operand], active: ir.Operand) -> ir.Operand:
        expected, wanted = (_as_integer(em, v) for v in values)
        old = lane_atomics.compare_and_exchange(
            em, address, expected, wanted, active, _keyword(op, "scope"))
        return _from_integer(em, old, scalar_type(op.val.type))

    run(em, op, op.ptr, [op.cmp, op.val], None, access)


@lowers(tt.AtomicLoadOp)
def lower_atomic_load(em: Emitter, op: tt.AtomicLoadOp) -> None:
    held = scalar_type(op.result.type)

    def access(address: ir.Operand, values: Sequence[ir.Operand], active: ir.Operand) -> ir.Operand:
        word = ir.integer(bits_of(held))
        loaded = lane_atomics.load(em, word, address, active, _keyword(op, "scope"))
        return _from_integer(em, loaded, held)

    run(em, op, op.ptr, [], op.mask, access)


@lowers(tt.AtomicStoreOp)
def lower_atomic_store(em: Emitter, op: tt.AtomicStoreOp) -> None:
    """Lower to an atomic exchange whose result is unused."""

    def access(address: ir.Operand, values: Sequence[ir.Operand], active: ir.Operand) -> ir.Operand:
        return lane_atomics.rmw(em, "exch", address, _as_integer(em, values[0]), active,
                                _keyword(op, "scope"), name="store")

    run(em, op, op.ptr, [op.value], op.mask, access)


@lowers(tt.AtomicPollOp)
def lower_atomic_poll(em: Emitter, op: tt.AtomicPollOp) -> None:
    limited = op.timeout is not None
    timeout = ir.constant(I64, -1) if op.timeout is None else em.scalar(op.timeout)

    def access(address: ir.Operand, values: Sequence[ir.Operand], active: ir.Operand) -> ir.Operand:
        return lane_atomics.poll(em, address, values[0], timeout, active, _keyword(op, "scope"))

    run(em, op, op.ptr, [op.expected], None, access, used=limited)
    if limited:
        return
    met = Splat(len(em.view(op.result).registers), ir.constant(I1, 1)) if isinstance(
        op.result.type, TensorType) else ir.constant(I1, 1)
    em.bind(op.result, met)
    if _keyword(op, "sem") == "relaxed" or isinstance(met, Splat):
        gpu_barrier(em)
