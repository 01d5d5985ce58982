"""Accesses to global and shared memory, each lane at its own address.

Addresses that step by the element size from lane to lane become plain vector accesses, masked
ones `llvm.masked.load/store`; all others gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.ir import VOID, Operand, Type, constant, vector, zero
from triton_xe.runtime.simulator.library.names import symbol
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.ahead import ask_ahead
from triton_xe.runtime.simulator.widen.values import Pieces, Uniform, Value, Wide, contiguous_start
from triton_xe.runtime.simulator.widen.widener import Widener


def lane_major(w: Widener, x: Operand, t: Type, to_lanes: bool) -> Operand:
    """Transpose between element-major (registers) and lane-major (memory) order."""
    n, s = t.lanes, w.lanes
    if n == 1:
        return x
    if to_lanes:
        return w.b.shuffle(x, None, [e * s + lane for lane in range(s) for e in range(n)])
    return w.b.shuffle(x, None, [lane * n + e for e in range(n) for lane in range(s)])


def load_value(
    w: Widener, pointer: Value, t: Type, mask: Value | None, fallback: Value | None,
    address: Operand | None = None,
) -> Value:
    """Load a `t` per lane; lanes whose mask is false keep `fallback`.

    `address` is the pointer in the kernel, where reading ahead may pay.
    """
    if isinstance(pointer, Uniform):
        return _uniform_load(w, pointer, t, mask, fallback)
    start = contiguous_start(pointer, t.size)
    if start is not None:
        where = w.at(*start)
        if address is not None:
            ask_ahead(w, address, t, where, write=False)
        return _contiguous_load(w, where, t, mask, fallback)
    addresses = w.wide(pointer)
    if t.lanes == 1:
        return Wide(_gather(w, addresses, t, mask, fallback), t)
    parts = []
    for e in range(t.lanes):
        moved = w.at(addresses, e * t.scalar.size)
        other = w.element(fallback, e) if fallback is not None else None
        parts.append(Wide(_gather(w, moved, t.scalar, mask, other), t.scalar))
    return Pieces(tuple(parts), t)


def _uniform_load(
    w: Widener, pointer: Uniform, t: Type, mask: Value | None, fallback: Value | None
) -> Value:
    align = t.scalar.size
    if mask is None:
        return Uniform(w.b.load(t, pointer.value, align=align), t)
    x = w.b.load(t, _guarded_pointer(w, pointer.value, mask, t), align=align)
    assert fallback is not None
    if isinstance(mask, Uniform) and isinstance(fallback, Uniform):
        return Uniform(w.b.select(mask.value, x, fallback.value), t)
    lanes = w.mask(mask, t.lanes)
    return Wide(w.b.select(lanes, w.broadcast(Uniform(x, t)), w.wide(fallback)), t)


def _guarded_pointer(w: Widener, pointer: Operand, mask: Value, t: Type) -> Operand:
    """The pointer if any lane is active, else a private scratch."""
    active = mask.value if isinstance(mask, Uniform) else w.any_lane(w.mask(mask))
    return w.b.select(active, pointer, w.temporary(max(64, t.size)))


def _contiguous_load(
    w: Widener, pointer: Operand, t: Type, mask: Value | None, fallback: Value | None
) -> Value:
    if t.scalar.size == 2 and t.scalar.kind == "float" and mask is not None:
        # hosts without half arithmetic have no masked accesses of it
        words = _retype(w, fallback, ir.I16) if fallback is not None else None
        return _retype(
            w, _contiguous_load(w, pointer, ir.like(t.lanes, ir.I16), mask, words), t.scalar
        )
    n = t.lanes
    flat, align = w.type_of(t), t.scalar.size

    def whole() -> Operand:
        return w.b.load(flat, pointer, align=align)

    if mask is None:
        return Wide(whole(), t, n)
    assert fallback is not None
    other, lanes = w.ordered(fallback, n), w.mask(mask)

    def some() -> Operand:
        return w.b.call(f"llvm.masked.load.{flat.mangled}.p0", flat,
                        [pointer, w.repeat(lanes, n, n), other], aligns=(align, 0, 0))

    return Wide(_as_masked(w, lanes, whole, some, flat), t, n)


def _as_masked(
    w: Widener, lanes: Operand, whole: Callable[[], Operand], some: Callable[[], Operand],
    result: Type,
) -> Operand:
    """A masked access of type `result`; `whole` where all lanes are active, if masks cost much.

    Hosts without mask registers move masks as bytes or words, which takes longer than the access.
    """
    if host_cpu().vector_bytes == 64:
        return some()
    every = w.b.icmp("eq", w.lane_bits(lanes), -1)
    labels = w.b.label(), w.b.label()
    end, found = w.b.label(), []
    w.b.cond_br(every, *labels)
    for label, access in zip(labels, (whole, some), strict=True):
        w.b.start(label)
        found.append((access(), label))
        w.b.br(end)
    w.b.start(end)
    return w.b.phi(result, *found).value if result is not VOID else Operand(VOID, "void")


def _retype(w: Widener, value: Value, scalar: Type) -> Value:
    """The same bits as elements of another type of that size."""
    t = ir.like(value.type.lanes, scalar)
    if isinstance(value, Uniform) and value.value.is_zero:
        return Uniform(zero(t), t)
    (x, group), target = w.as_is(value), w.type_of(t)
    if x.is_undefined or x.is_zero:
        return Wide(Operand(target, x.text), t, group)
    return Wide(w.b.bitcast(x, target), t, group)


def _gather(
    w: Widener, addresses: Operand, t: Type, mask: Value | None, fallback: Value | None
) -> Operand:
    s = w.lanes
    flat = vector(s, t)
    lanes = constant(vector(s, ir.I1), 1) if mask is None else w.mask(mask)
    other = zero(flat) if fallback is None else w.wide(fallback)
    if t.size < 4 and t.kind != "ptr":
        word = vector(s, ir.integer(t.size * 8))
        other = zero(word) if other.text == "zeroinitializer" else w.b.bitcast(other, word)
        x = w.b.call(symbol("gather", word.scalar.bits, s), word, [addresses, lanes, other])
        return w.b.bitcast(x, flat)
    return w.b.call(f"llvm.masked.gather.{flat.mangled}.v{s}p0", flat, [addresses, lanes, other],
                    aligns=(t.size, 0, 0))


def _scatter(w: Widener, addresses: Operand, value: Operand, mask: Value | None) -> None:
    s, t = w.lanes, value.type.scalar
    lanes = constant(vector(s, ir.I1), 1) if mask is None else w.mask(mask)
    if t.size < 4 and t.kind != "ptr":
        word = vector(s, ir.integer(t.size * 8))
        w.b.call(symbol("scatter", word.scalar.bits, s), VOID,
                      [addresses, lanes, w.b.bitcast(value, word)])
        return
    w.b.call(f"llvm.masked.scatter.{value.type.mangled}.v{s}p0", VOID, [value, addresses, lanes],
             aligns=(0, t.size, 0))


def store_value(
    w: Widener, pointer: Value, value: Value, mask: Value | None, address: Operand | None = None
) -> None:
    """Store each lane's value; of lanes at one address the last one stays."""
    t = value.type
    if isinstance(pointer, Uniform):
        _uniform_store(w, pointer, value, mask)
        return
    start = contiguous_start(pointer, t.size)
    if start is not None and t.scalar.size == 2 and t.scalar.kind == "float" and mask is not None:
        store_value(w, pointer, _retype(w, value, ir.I16), mask, address)
        return
    if start is None:
        _scattered_store(w, w.wide(pointer), value, mask)
        return
    n, align, x = t.lanes, t.scalar.size, w.ordered(value, t.lanes)
    where = w.at(*start)
    if address is not None:
        ask_ahead(w, address, t, where, write=True)

    def whole() -> Operand:
        w.b.store(x, where, align=align)
        return x

    if mask is None:
        whole()
        return
    lanes = w.mask(mask)

    def some() -> Operand:
        return w.b.call(f"llvm.masked.store.{x.type.mangled}.p0", VOID,
                        [x, where, w.repeat(lanes, n, n)], aligns=(0, align, 0))

    _as_masked(w, lanes, whole, some, VOID)


def _uniform_store(w: Widener, pointer: Uniform, value: Value, mask: Value | None) -> None:
    t, align = value.type, value.type.scalar.size
    if mask is None:
        w.b.store(w.lane(value, w.lanes - 1), pointer.value, align=align)
        return
    if isinstance(value, Uniform) or isinstance(mask, Uniform):
        safe = _guarded_pointer(w, pointer.value, mask, t)
        w.b.store(w.lane(value, w.lanes - 1), safe, align=align)
        return
    _scattered_store(w, w.broadcast(pointer), value, mask)


def _scattered_store(w: Widener, addresses: Operand, value: Value, mask: Value | None) -> None:
    t = value.type
    for e in range(t.lanes):
        moved = w.at(addresses, e * t.scalar.size)
        _scatter(w, moved, w.wide(w.element(value, e)), mask)
