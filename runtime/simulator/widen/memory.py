"""Rules for loads, stores, private arrays, atomics."""

from __future__ import annotations

from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import is_dpas
from triton_xe.runtime.simulator.ir import Instruction, Operand, constant
from triton_xe.runtime.simulator.sanitizer.instrument import (
    checking,
    guarded,
    local_scope,
    needs,
    synchronises,
)
from triton_xe.runtime.simulator.sanitizer.state import READS, WRITES, Kind
from triton_xe.runtime.simulator.widen.accesses import load_value, store_value
from triton_xe.runtime.simulator.widen.elementwise import rebit, scalarise
from triton_xe.runtime.simulator.widen.turns import count_atomic
from triton_xe.runtime.simulator.widen.values import Private, Slot, Value, Wide
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def alloca(w: Widener, i: Instruction) -> None:
    assert i.element is not None
    assert i.result is not None
    a = w.arrays
    array = w.temporary(i.element.size * w.lanes)
    if i.result in a.direct_kinds:
        a.direct[array] = w.temporary(2 * i.element.size * w.lanes)
    a.memory[i.result] = array
    a.host_granules[array] = a.granules.get(i.result, i.element.scalar.size)
    w.values[i.result] = Private(array, 0, i.type)


def _private_address(w: Widener, pointer: Private) -> Operand:
    if pointer.offset % w.arrays.host_granules[pointer.array]:
        w.fail("a misaligned access to a private array")
    return w.at(pointer.array, pointer.offset * w.lanes)


def load(w: Widener, i: Instruction) -> None:
    # others may write meanwhile what is read as it is at that time
    kind = Kind.ATOMIC if "volatile" in i.flags else 0
    i = guarded(w, i, 0, i.type, None, kind, i.align)
    pointer = w.value(i.operands[0])
    if isinstance(pointer, Private):
        _private_load(w, i, pointer)
    elif i.type.scalar is ir.I1:
        w.fail("a load of i1")
    else:
        w.define(i, load_value(w, pointer, i.type, None, None, i.operands[0]))


def _private_load(w: Widener, i: Instruction, pointer: Private) -> None:
    assert i.result is not None
    prepared = w.arrays.direct.get(pointer.array)
    if prepared is not None:
        (role,) = w.matrices.roles[i.result]
        w.matrices.prepared[i.result, role] = w.at(prepared, 2 * pointer.offset * w.lanes)
        return
    address = _private_address(w, pointer)
    granule = w.arrays.host_granules[pointer.array]
    t = i.type
    if t.scalar.size == granule:
        if i.result in w.matrices.roles and _only_roles(w, i.result):
            w.define(i, Slot(address, t))
            w.values.pop(i.result)
            return
        w.define_wide(i, w.b.load(w.type_of(t), address, align=8))
        return
    narrow = ir.like(t.lanes * (t.scalar.size // granule), ir.integer(granule * 8))
    w.define(i, rebit(w, Wide(w.b.load(w.type_of(narrow), address, align=8), narrow), t))


def _only_roles(w: Widener, name: str) -> bool:
    """Whether a value is used only as a prepared matrix operand."""
    return all(is_dpas(u) and u.operands[0].local != name for u in w.uses.get(name, []))


def store(w: Widener, i: Instruction) -> None:
    if i in w.skipped:
        return
    i = guarded(w, i, 1, i.operands[0].type, None, Kind.WRITE, i.align)
    item, address = i.operands
    pointer = w.value(address)
    value = w.value(item)
    if isinstance(value, Private):
        w.fail("the address of a private array is stored")
    if isinstance(pointer, Private):
        _private_store(w, value, pointer)
    elif item.type.scalar is ir.I1:
        w.fail("a store of i1")
    else:
        store_value(w, pointer, value, None, address)


def _private_store(w: Widener, value: Value, pointer: Private) -> None:
    address = _private_address(w, pointer)
    granule = w.arrays.host_granules[pointer.array]
    t = value.type
    if t.scalar.size != granule:
        value = rebit(w, value, ir.like(t.size // granule, ir.integer(granule * 8)))
    w.store_image(value, address)


# --- atomics on the lanes of a subgroup -------------------------------------------------------


def _count(w: Widener, i: Instruction, address: Operand, result: Operand) -> None:
    if w.context.takes_turns:
        count_atomic(w.b, i, address, result)


def atomicrmw(w: Widener, i: Instruction) -> None:
    i = guarded(w, i, 0, i.type, None, Kind.WRITE | Kind.ATOMIC | local_scope(i) | needs(i))

    def lane(p: list[Operand]) -> Operand:
        old = w.b.atomicrmw(i.extra, p[0], p[1], align=i.type.size)
        _count(w, i, p[0], old)
        synchronises(w, i, p[0], READS | WRITES)
        return old

    scalarise(w, i, lane)


def cmpxchg(w: Widener, i: Instruction) -> None:
    t = i.operands[1].type
    i = guarded(w, i, 0, t, None, Kind.WRITE | Kind.ATOMIC | local_scope(i) | needs(i))

    def lane(p: list[Operand]) -> Operand:
        pair = w.b.cmpxchg(p[0], p[1], p[2], align=t.size)
        _count(w, i, p[0], pair)
        if checking(w):
            met = w.b.extract_value(pair, 1)
            what = w.b.select(met, constant(ir.I32, READS | WRITES), READS)
            synchronises(w, i, p[0], what)
        return pair

    scalarise(w, i, lane)


RULES: dict[str, Rule] = {
    "alloca": alloca,
    "load": load,
    "store": store,
    "atomicrmw": atomicrmw,
    "cmpxchg": cmpxchg,
}
