"""Rules for loads, stores, private arrays, atomics."""

from __future__ import annotations

import numpy as np

from triton_xe import llvm as ir
from triton_xe.llvm import Instruction, Operand, Type, constant
from triton_xe.runtime.simulator.analysis.calls import is_dpas
from triton_xe.runtime.simulator.analysis.shapes import Table
from triton_xe.runtime.simulator.analysis.shared_image import STEP
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
from triton_xe.runtime.simulator.widen.parts import Shared
from triton_xe.runtime.simulator.widen.turns import count_atomic
from triton_xe.runtime.simulator.widen.values import (
    Moved,
    Private,
    PrivateArray,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    can_move,
    used,
)
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

SHARED = 3
"""Address space of shared local memory."""


def alloca(w: Widener, i: Instruction) -> None:
    """Allocate host memory for a private array."""
    assert i.element is not None
    assert i.result is not None
    memory = w.b.temporary(i.element.size * w.lanes)
    granule = w.forms.granules.get(i.result, i.element.scalar.size)
    w.values[i.result] = Private(PrivateArray(memory, granule), 0, i.type)


def _private_address(w: Widener, pointer: Private) -> Operand:
    """Host address of all lanes' elements at a position of a private array."""
    if pointer.offset % pointer.array.granule:
        w.fail("a misaligned access to a private array")
    return w.b.at(pointer.array.memory, pointer.offset * w.lanes)


def load(w: Widener, i: Instruction) -> None:
    # a volatile load may read what others write at the same time
    kind = Kind.ATOMIC if "volatile" in i.flags else 0
    i = guarded(w, i, 0, i.type, None, kind, i.align)
    pointer = w.value(i.operands[0])
    if isinstance(pointer, Private):
        _private_load(w, i, pointer)
    elif i.type.scalar is ir.I1:
        w.fail("a load of i1")
    else:
        shared = w.shared if i.operands[0].type.space == SHARED else None
        found = _followed(w, shared, pointer, i.type) if shared is not None else None
        if found is None:
            found = load_value(w, pointer, i.type, None, None, i.operands[0])
        w.define(i, found)


def _private_load(w: Widener, i: Instruction, pointer: Private) -> None:
    """Load from a private array, in the size of the array's elements."""
    assert i.result is not None
    address, granule, t = _private_address(w, pointer), pointer.array.granule, i.type
    if t.scalar.size == granule:
        if i.result in w.forms.roles and _only_roles(w, i.result):
            w.define(i, Slot(address, t))
            w.values.pop(i.result)
            return
        w.define_wide(i, w.b.load(w.b.type_of(t), address, align=8))
        return
    narrow = ir.vector_or_scalar(t.lanes * (t.scalar.size // granule), ir.integer(granule * 8))
    w.define(i, rebit(w, Wide(w.b.load(w.b.type_of(narrow), address, align=8), narrow), t))


def _only_roles(w: Widener, name: str) -> bool:
    """True if a value is used only as a prepared matrix operand."""
    uses = w.source.facts.users.get(name, [])
    return all(is_dpas(u) and u.operands[0].local != name for u in uses)


def store(w: Widener, i: Instruction) -> None:
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
        block, first = w.b.block, len(w.b.block.instructions)
        store_value(w, pointer, value, None, address)
        if w.shared is not None and address.type.space == SHARED:
            w.shared.stores += [x for x in block.instructions[first:] if x.type is ir.VOID]
            _follow(w, w.shared, pointer, value)


def _private_store(w: Widener, value: Value, pointer: Private) -> None:
    """Store to a private array, in the size of the array's elements."""
    address = _private_address(w, pointer)
    t, granule = value.type, pointer.array.granule
    if t.scalar.size != granule:
        value = rebit(w, value, ir.vector_or_scalar(t.size // granule, ir.integer(granule * 8)))
    w.b.store_image(value, address)


# --- shared memory that is followed -----------------------------------------------------------


def _addresses(
    w: Widener, shared: Shared, pointer: Value, count: int, size: int
) -> Table | None:
    """Addresses of `count` pieces of each lane in shared memory; of one lane if all are equal."""
    base = pointer.value if isinstance(pointer, Uniform) else (
        pointer.base if isinstance(pointer, Tabled) else None)
    if base is None or base.text not in shared.offsets:
        return None
    rows = pointer.table if isinstance(pointer, Tabled) else np.zeros((1, 1), np.int64)
    return shared.offsets[base.text] + rows[:1] + size * np.arange(count)[:, None]


def _follow(w: Widener, shared: Shared, pointer: Value, value: Value) -> None:
    """Record in the image of shared memory what a store leaves there."""
    t = value.type
    size, sources, places = t.scalar.size, list[Operand](), np.full((t.lanes, w.lanes), -1)
    if isinstance(pointer, Uniform):
        places = places[:, :1]
        if isinstance(value, Uniform) and can_move(t) and not value.value.is_undefined:
            sources, places = [w.b.made_here(value.value)], np.arange(t.lanes)[:, None]
    elif can_move(t):
        known = Wide(w.b.ordered(value, t.lanes), t, t.lanes) if isinstance(
            value, Uniform | Tabled) else value
        moved = w.b.moved(known)
        if moved is not None:
            size, sources = moved.size, list(moved.sources)
            places = _spaced_positions(moved)
    addresses = _addresses(w, shared, pointer, len(places), size)
    if addresses is None:
        shared.image.forget()
    else:
        shared.image.store(addresses, size, sources, places)


def _spaced_positions(value: Moved) -> Table:
    """Positions of a moved value's elements, in the form of `SharedImage`."""
    starts = np.cumsum([0, *map(value.piece_count, value.sources)])
    which = np.searchsorted(starts, value.places, "right") - 1
    return np.where(value.places < 0, -1,
                    which * STEP + value.places - starts[np.maximum(which, 0)])


def _followed(w: Widener, shared: Shared, pointer: Value, t: Type) -> Value | None:
    """The loaded value, if the contents of shared memory are known; else None."""
    found, size = None, t.scalar.size
    while can_move(t) and found is None and size:
        addresses = _addresses(w, shared, pointer, t.size // size, size)
        found = shared.image.load(addresses, size) if addresses is not None else None
        size //= 2 if found is None else 1
    value = None
    if found is not None:
        sources, places = found
        value = (_same_in_lanes if isinstance(pointer, Uniform) else _permutation)(
            w, sources, places, size, t)
    shared.is_read |= value is None
    return value


def _same_in_lanes(
    w: Widener, sources: list[Operand], places: Table, size: int, t: Type
) -> Value | None:
    """The value as scalars, from elements that are equal in all lanes; None if sizes differ."""
    if size != t.scalar.size or any(x.type.scalar.size != size for x in sources):
        return None
    elements = []
    for place in map(int, places[:, 0]):
        x = sources[place // STEP]
        one = w.b.extract(x, place % STEP) if x.type.kind == "vec" else x
        elements.append(w.b.bitcast(one, t.scalar))
    return Uniform(elements[0] if t.lanes == 1 else w.b.pack(t, elements), t)


def _permutation(
    w: Widener, sources: list[Operand], places: Table, size: int, t: Type
) -> Value | None:
    """The value as a permutation of known elements; None if their sizes differ."""
    scalars = [x for x in sources if x.type.kind != "vec"]
    if scalars and (len(scalars) < len(sources) or any(x.type.size != size for x in scalars)):
        return None
    if scalars:
        word = ir.integer(8 * size)
        all_scalars = w.b.pack(ir.vector(len(scalars), word),
                               [w.b.bitcast(x, word) for x in scalars])
        return used(Moved((all_scalars,), places // STEP, size, t))
    starts = np.cumsum([0, *(x.type.size // size for x in sources)])
    return used(Moved(tuple(sources), starts[places // STEP] + places % STEP, size, t))


# --- atomics on the lanes of a subgroup -------------------------------------------------------


def _count(w: Widener, i: Instruction, address: Operand, result: Operand) -> None:
    """Count an atomic that changed memory, if programs take turns."""
    if w.kernel.schedule.turns:
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
