"""Check atomics of lane helpers for all lanes of a subgroup at once.

If one check of all lanes finds no fault, the lanes run a helper without checks, and their accesses
are recorded afterwards, in one call.  Otherwise each lane is checked on its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Function, Instruction, Operand
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.instrument import (
    is_atomic_helper,
    local_scope,
    needs,
    order_of,
    site,
    state_word,
)
from triton_xe.runtime.simulator.sanitizer.state import READS, WRITES, Kind, Order, Word
from triton_xe.runtime.simulator.widen.host_function import CTX, SG
from triton_xe.runtime.simulator.widen.lane_helpers import helper_effects
from triton_xe.runtime.simulator.widen.widener import Widener

_RELEASES = Order.RELEASE | Order.BOTH | Order.SEQUENTIAL


@dataclass(frozen=True)
class LaneAtomic:
    """Effect of a helper in each active lane, at the address that is its first argument."""

    size: int
    kind: int
    does: int
    """`READS` and `WRITES`; for a compare-and-swap, those of a successful one."""
    swaps: bool


def lane_atomic(helper: Function) -> LaneAtomic | None:
    """The atomic of a helper; None if it has other effects, or a memory order of its own."""
    accesses = [i for i in helper.instructions() if i.opcode in ir.ACCESSES]
    atomics = [i for i in accesses if i.opcode in ir.ATOMICS]
    if not is_atomic_helper(helper.name) or not atomics:
        return None
    if not _in_active_lanes(helper) or any(i.opcode == "call" for i in helper.instructions()):
        return None
    swaps = any(i.opcode == "cmpxchg" for i in atomics)
    pointers = {i.operands[0].local for i in accesses}
    scopes = {local_scope(i) for i in atomics}
    sizes = {(i.type if i.opcode in ("load", "atomicrmw") else i.operands[1].type).size
             for i in accesses}
    plain = [i for i in accesses if i.opcode == "store" or (i.opcode == "load" and not swaps)]
    same = len(pointers) == len(scopes) == len(sizes) == 1
    if plain or not same or any(order_of(i) for i in atomics):
        return None
    does = helper_effects(helper)
    kind = Kind.ATOMIC | scopes.pop() | (Kind.WRITE if does & WRITES else 0)
    kind |= max(map(needs, atomics))
    return LaneAtomic(sizes.pop(), kind, does, swaps)


def _in_active_lanes(helper: Function) -> bool:
    """True if exactly the lanes whose last argument is true access their first argument."""
    names, types = zip(*helper.parameters, strict=True)
    entry, *rest = helper.blocks
    branch = entry.instructions[-1]
    if types[0] != ir.I64 or types[-1] != ir.I1 or branch.opcode != "br" or not branch.operands:
        return False
    if branch.operands[0].local != names[-1]:
        return False
    found = {b.label: [i for i in b.instructions if i.opcode in ir.ACCESSES] for b in rest}
    active, idle = branch.labels
    casts = {i.result for i in helper.instructions()
             if i.opcode == "inttoptr" and i.operands[0].local == names[0]}
    addresses = {i.operands[0].local for accesses in found.values() for i in accesses}
    direct = all(i.opcode not in ir.ACCESSES for i in entry.instructions) and addresses <= casts
    return direct and bool(found.get(active)) and not found.get(idle)


def tried(w: Widener, i: Instruction, atomic: LaneAtomic) -> Operand:
    """True if no lane of a helper's call has a fault; then the accesses are recorded."""
    plan, s = w.kernel.plan, w.lanes
    assert plan is not None
    entry = plan.entry(w.source.function, i.operands[0], reads=True)
    addresses, lanes = w.wide_of(i.operands[0]), w.wide_of(i.operands[-1])
    if atomic.swaps and plan.releases:
        w.b.store(ir.zero(ir.vector(s, ir.I8)), state_word(w, Word.DID))
    kind = atomic.kind | atomic.size << 8
    return w.b.invoke(checks.try_lanes(s, atomic.size, kind), *site(w, i), entry, addresses,
                      atomic.size, kind, lanes)


def record(w: Widener, i: Instruction, atomic: LaneAtomic, good: Operand) -> None:
    """Record the accesses of a call of a helper without checks."""
    plan = w.kernel.plan
    assert plan is not None
    if not plan.releases or atomic.kind & Kind.LOCAL:
        return
    lanes = w.b.select(good, w.wide_of(i.operands[-1]), 0)
    did = 0 if atomic.swaps and atomic.does == READS | WRITES else atomic.does
    w.b.invoke(checks.sync_lanes(w.lanes), CTX, SG, w.wide_of(i.operands[0]), lanes, did)


def releases(function: Function) -> bool:
    """True if a function can release anything to other work-groups."""
    return any(_releases(i) for i in function.instructions())


def _releases(i: Instruction) -> bool:
    """True for atomics and fences with release semantics, or with unknown ones."""
    if i.opcode in ir.ATOMICS:
        return bool(order_of(i) & _RELEASES)
    known = find(i.callee)
    if i.opcode != "call" or known.family not in (Family.FENCE, Family.ATOMIC):
        return False
    semantics = argument(i, "semantics").integer_value() if known.has("semantics") else None
    return semantics is None or bool(semantics & _RELEASES)

