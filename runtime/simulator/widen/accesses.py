"""Accesses to global and shared memory, each lane at its own address.

Addresses with a step of the element size from lane to lane become plain vector accesses, masked
ones `llvm.masked.load/store`.  If lanes are known to be adjacent in runs, over all lanes or in
groups (`analysis.lane_groups`), each run is one access.  Lanes with more than one element are
accessed one by one.  Other accesses are gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub

from triton_xe import llvm as ir
from triton_xe.llvm import VOID, Operand, Type, constant, vector, zero
from triton_xe.runtime.simulator.library import lanes as library
from triton_xe.runtime.simulator.library import names
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.prefetch import prefetch_next
from triton_xe.runtime.simulator.widen.values import (
    Moved,
    Pieces,
    Runs,
    Uniform,
    Value,
    Wide,
    contiguous_start,
    recast,
    runs_of,
)
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

    `address` is the pointer in the kernel if prefetching may pay, else None.
    """
    if isinstance(pointer, Uniform) and (mask is None or mask.type.lanes == 1):
        return _uniform_load(w, pointer, t, mask, fallback)
    start = contiguous_start(pointer, t.size)
    if start is not None:
        where = w.b.at(*start)
        if address is not None:
            prefetch_next(w, where, [(0, t.size * w.lanes)], write=False)
        return _contiguous_load(w, where, t, mask, fallback)
    parts_of_memory = _runs_loaded(w, pointer, t, mask, fallback, address)
    if parts_of_memory is not None:
        return parts_of_memory
    if mask is not None and mask.type.lanes > 1:
        return _elements_loaded(w, pointer, t, mask, fallback)
    addresses = w.b.wide(pointer)
    if t.lanes == 1:
        return Wide(_gather(w, addresses, t, mask, fallback), t)
    parts = []
    for e in range(t.lanes):
        moved = w.b.at(addresses, e * t.scalar.size)
        other = w.b.element(fallback, e) if fallback is not None else None
        parts.append(Wide(_gather(w, moved, t.scalar, mask, other), t.scalar))
    return Pieces(tuple(parts), t)


def _elements(w: Widener, pointer: Value, t: Type) -> list[Value]:
    """Addresses of the elements of each lane, for elements with different masks."""
    if isinstance(pointer, Uniform):
        return [Uniform(w.b.at(pointer.value, e * t.scalar.size), pointer.type)
                for e in range(t.lanes)]
    addresses = w.b.wide(pointer)
    return [Wide(w.b.at(addresses, e * t.scalar.size), pointer.type) for e in range(t.lanes)]


def _elements_loaded(
    w: Widener, pointer: Value, t: Type, mask: Value, fallback: Value | None
) -> Value:
    assert fallback is not None
    return Pieces(tuple(
        load_value(w, p, t.scalar, w.b.element(mask, e), w.b.element(fallback, e))
        for e, p in enumerate(_elements(w, pointer, t))), t)


def _has_gathers(t: Type) -> bool:
    """True if hosts gather and scatter lanes of this type by single instructions."""
    return t.lanes == 1 and t.size >= 4


@dataclass(frozen=True)
class _Parts:
    """Memory that lanes access in parts of `count` lanes; `places`: each lane's position."""

    starts: list[Operand]
    count: int
    places: tuple[int, ...]
    number: int
    at: tuple[Operand, ...] = ()
    """Instead of `starts`: a vector of them, or the first and the bytes from one to the next."""

    @property
    def lanes(self) -> list[list[int]]:
        """Lanes of each part, if no two have the same position."""
        order = sorted(range(len(self.places)), key=self.places.__getitem__)
        return [order[k : k + self.count] for k in range(0, len(order), self.count)]


_LEAST_BYTES = 16
"""Smallest group of lanes in bytes, if the host also has gathers and scatters."""


def _parts_of(
    w: Widener, pointer: Value, t: Type, address: Operand | None, *, write: bool, masked: bool
) -> _Parts | None:
    """Runs of lanes whose addresses are known relative to a base, or groups with a base each."""
    runs = runs_of(pointer, t.size)
    if runs is not None and (runs.is_unique or not (write or masked)):
        if runs.count * t.lanes == 1 and (_has_gathers(t) or masked):
            return None
        if address is not None:
            prefetch_next(w, runs.base, [
                (start, runs.count * t.size) for start in runs.starts], write=write)
        return _parts_in_runs(w, runs, masked=masked)
    if address is None or not isinstance(pointer, Wide):
        return None
    count = w.source.lane_groups.count(address, t.size)
    if count == 1 or (_has_gathers(t) and count * t.size < _LEAST_BYTES):
        return None
    return _parts_at(w, pointer.value, count, masked)


def _parts_in_runs(w: Widener, runs: Runs, *, masked: bool) -> _Parts:
    """Parts at known distances from a base; lanes with equal distances are accessed by one call."""
    number, steps = len(runs.starts), set(map(sub, runs.starts[1:], runs.starts))
    if masked or runs.count > 1 or len(steps) != 1 or number & (number - 1):
        starts = [w.b.at(runs.base, start) for start in runs.starts]
        return _Parts(starts, runs.count, runs.places, number)
    spaced = w.b.at(runs.base, runs.starts[0]), constant(ir.I64, *steps)
    return _Parts([], runs.count, runs.places, number, spaced)


def _parts_at(w: Widener, addresses: Operand, count: int, masked: bool) -> _Parts:
    """Parts of `count` lanes at the address of the first."""
    first, places = range(0, w.lanes, count), tuple(range(w.lanes))
    if masked:
        starts = [w.b.extract(addresses, lane) for lane in first]
        return _Parts(starts, count, places, len(first))
    chosen = addresses if count == 1 else w.b.shuffle(addresses, None, first)
    return _Parts([], count, places, len(first), (chosen,))


def _runs_loaded(
    w: Widener, pointer: Value, t: Type, mask: Value | None, fallback: Value | None,
    address: Operand | None,
) -> Value | None:
    """Load each run of lanes, or each lane, at once; None if a gather is better.

    There are no vectors of one element, because LLVM has errors with them.
    """
    parts = _parts_of(w, pointer, t, address, write=False, masked=mask is not None)
    if parts is None:
        if mask is not None or _has_gathers(t):
            return None
        parts = _parts_at(w, w.b.wide(pointer), 1, masked=False)
    n, width = t.lanes, parts.count * t.lanes
    scalar = _maskable(t.scalar) if mask is not None else t.scalar
    flat, align = vector(width, scalar), scalar.size
    if parts.at:
        made = library.load_parts(scalar, width, parts.number, spaced=len(parts.at) > 1)
        return Wide(_of_lanes(w, _inlined(w, made, *parts.at), parts.places, n), t, n)
    if width == 1:
        each = [w.b.load(scalar, start, align=align) for start in parts.starts]
        return Wide(w.b.pack(w.b.type_of(t), [each[place] for place in parts.places]), t)
    if mask is None:
        found = [w.b.load(flat, start, align=align) for start in parts.starts]
    else:
        assert fallback is not None
        kept = w.b.ordered(_retype(w, fallback, scalar), n)
        inside = _for_elements(w, mask, _lanes(w, mask), n)
        found = [
            w.b.call(f"llvm.masked.load.{flat.mangled}.p0", flat,
                     [start, _of_lanes(w, inside, own, n), _of_lanes(w, kept, own, n)],
                     aligns=(align, 0, 0))
            for start, own in zip(parts.starts, parts.lanes, strict=True)]
    x = _of_lanes(w, w.b.joined(found, scalar, width), parts.places, n)
    whole = Wide(x, ir.vector_or_scalar(n, scalar), n)
    return whole if scalar is t.scalar else _retype(w, whole, t.scalar)


def _inlined(w: Widener, function: ir.Function, *arguments: Operand) -> Operand:
    """Call a function that is inlined, or called where host functions are in pieces."""
    w.kernel.host.definitions[function.name] = function
    return w.b.call(function.name, function.result, arguments)


def _of_lanes(w: Widener, x: Operand, lanes: Sequence[int], count: int) -> Operand:
    """Some lanes of a flat vector in memory order, of `count` elements each."""
    if tuple(lanes) == tuple(range(w.lanes)):
        return x
    return w.b.shuffle(x, None, [lane * count + e for lane in lanes for e in range(count)])


def _maskable(t: Type) -> Type:
    """Type of the same bits for masked accesses, because some hosts have none of fp16."""
    return ir.I16 if t.size == 2 and t.kind == "float" else t


def _runs_stored(
    w: Widener, pointer: Value, value: Value, mask: Value | None, address: Operand | None
) -> bool:
    """Store each run of lanes, or each lane, at once; False if a scatter is better."""
    t = value.type
    n, parts = t.lanes, _parts_of(w, pointer, t, address, write=True, masked=mask is not None)
    if parts is None:
        if mask is not None or _has_gathers(t):
            return False
        parts = _parts_at(w, w.b.wide(pointer), 1, masked=False)
    scalar = _maskable(t.scalar) if mask is not None else t.scalar
    x = w.b.ordered(value if mask is None else _retype(w, value, scalar), n)
    inside = None if mask is None else _for_elements(w, mask, _lanes(w, mask), n)
    if parts.at:
        made = library.store_parts(scalar, n * parts.count, parts.number, spaced=len(parts.at) > 1)
        in_order = [lane for own in parts.lanes for lane in own]
        _inlined(w, made, *parts.at, _of_lanes(w, x, in_order, n))
        return True
    for start, own in zip(parts.starts, parts.lanes, strict=True):
        part = _of_lanes(w, x, own, n) if n * len(own) > 1 else w.b.extract(x, own[0])
        if inside is None:
            w.b.store(part, start, align=scalar.size)
        else:
            _masked_store(w, part, start, _of_lanes(w, inside, own, n))
    return True


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
    lanes = w.b.mask(mask, t.lanes)
    return Wide(w.b.select(lanes, w.b.wide(Uniform(x, t)), w.b.wide(fallback)), t)


def _guarded_pointer(w: Widener, pointer: Operand, mask: Value, t: Type) -> Operand:
    """The pointer if any lane is active, else a private scratch address."""
    active = mask.value if isinstance(mask, Uniform) else w.b.any_lane(w.b.mask(mask))
    return w.b.select(active, pointer, w.b.temporary(max(64, t.size)))


def _contiguous_load(
    w: Widener, pointer: Operand, t: Type, mask: Value | None, fallback: Value | None
) -> Value:
    if t.scalar.size == 2 and t.scalar.kind == "float" and mask is not None:
        # hosts without half arithmetic have no masked accesses of it
        words = _retype(w, fallback, ir.I16) if fallback is not None else None
        halves = ir.vector_or_scalar(t.lanes, ir.I16)
        return _retype(w, _contiguous_load(w, pointer, halves, mask, words), t.scalar)
    n, flat = t.lanes, w.b.type_of(t)
    if mask is None:
        return Wide(w.b.load(flat, pointer, align=t.scalar.size), t, n)
    assert fallback is not None
    other, lanes = w.b.ordered(fallback, n), _lanes(w, mask)
    if _tests_masks(w):
        made = library.masked_access(flat, lanes.type.count, is_load=True)
        x = _inlined(w, made, pointer, w.b.lane_bits(lanes), other)
    else:
        x = w.b.call(f"llvm.masked.load.{flat.mangled}.p0", flat,
                     [pointer, _for_elements(w, mask, lanes, n), other],
                     aligns=(t.scalar.size, 0, 0))
    return Wide(x, t, n)


def _tests_masks(w: Widener) -> bool:
    """True if a masked access first tests if all lanes are active, because masks are slow."""
    return not (host_cpu().has_mask_registers or (w.current is not None and w.current.partial))


def _lanes(w: Widener, mask: Value) -> Operand:
    """A mask of lanes, or of each element of lanes in memory order."""
    return w.b.mask(mask, mask.type.lanes, mask.type.lanes)


def _for_elements(w: Widener, mask: Value, lanes: Operand, count: int) -> Operand:
    """A mask of lanes for each element, in memory order.

    On a host with mask registers, comparing the numbers again is faster than spreading the bits.
    """
    if lanes.type.count == count * w.lanes:
        return lanes
    again = w.b.repeated(mask, count) if host_cpu().has_mask_registers else None
    return w.b.repeat(lanes, count, count) if again is None else w.b.ordered(again, count)


def _retype(w: Widener, value: Value, scalar: Type) -> Value:
    """Reinterpret the bits as elements of another type of that size."""
    t = ir.vector_or_scalar(value.type.lanes, scalar)
    if isinstance(value, Uniform) and value.value.is_zero:
        return Uniform(zero(t), t)
    if isinstance(value, Moved):
        return recast(value, t)
    (x, group), target = w.b.as_is(value), w.b.type_of(t)
    if x.is_undefined or x.is_zero:
        return Wide(Operand(target, x.text), t, group)
    return Wide(w.b.bitcast(x, target), t, group)


def _gather(
    w: Widener, addresses: Operand, t: Type, mask: Value | None, fallback: Value | None
) -> Operand:
    s = w.lanes
    flat = vector(s, t)
    lanes = constant(vector(s, ir.I1), 1) if mask is None else w.b.mask(mask)
    other = zero(flat) if fallback is None else w.b.wide(fallback)
    if t.size < 4 and t.kind != "ptr":
        word = vector(s, ir.integer(t.size * 8))
        other = zero(word) if other.text == "zeroinitializer" else w.b.bitcast(other, word)
        x = w.b.invoke(names.gather(word.scalar.bits, s), addresses, lanes, other)
        return w.b.bitcast(x, flat)
    return w.b.call(f"llvm.masked.gather.{flat.mangled}.v{s}p0", flat, [addresses, lanes, other],
                    aligns=(t.size, 0, 0))


def _scatter(w: Widener, addresses: Operand, value: Operand, mask: Value | None) -> None:
    s, t = w.lanes, value.type.scalar
    lanes = constant(vector(s, ir.I1), 1) if mask is None else w.b.mask(mask)
    if t.size < 4 and t.kind != "ptr":
        word = vector(s, ir.integer(t.size * 8))
        w.b.invoke(names.scatter(word.scalar.bits, s), addresses, lanes, w.b.bitcast(value, word))
        return
    w.b.call(f"llvm.masked.scatter.{value.type.mangled}.v{s}p0", VOID, [value, addresses, lanes],
             aligns=(0, t.size, 0))


def store_value(
    w: Widener, pointer: Value, value: Value, mask: Value | None, address: Operand | None = None
) -> None:
    """Store each lane's value; if lanes have one address, the last one's remains."""
    t = value.type
    if isinstance(pointer, Uniform) and (mask is None or mask.type.lanes == 1):
        _uniform_store(w, pointer, value, mask)
        return
    start = contiguous_start(pointer, t.size)
    if start is not None and t.scalar.size == 2 and t.scalar.kind == "float" and mask is not None:
        store_value(w, pointer, _retype(w, value, ir.I16), mask, address)
        return
    if start is None:
        if _runs_stored(w, pointer, value, mask, address):
            return
        if mask is None or mask.type.lanes == 1:
            _scattered_store(w, w.b.wide(pointer), value, mask)
            return
        for e, p in enumerate(_elements(w, pointer, t)):
            store_value(w, p, w.b.element(value, e), w.b.element(mask, e))
        return
    n, align, x = t.lanes, t.scalar.size, w.b.ordered(value, t.lanes)
    where = w.b.at(*start)
    if address is not None:
        prefetch_next(w, where, [(0, t.size * w.lanes)], write=True)
    if mask is None:
        w.b.store(x, where, align=align)
        return
    lanes = _lanes(w, mask)
    if _tests_masks(w):
        made = library.masked_access(x.type, lanes.type.count, is_load=False)
        _inlined(w, made, where, w.b.lane_bits(lanes), x)
    else:
        _masked_store(w, x, where, _for_elements(w, mask, lanes, n))


def _masked_store(w: Widener, x: Operand, where: Operand, mask: Operand) -> None:
    """Store the elements of a vector whose mask is true."""
    scalar = x.type.scalar
    if host_cpu().has_mask_registers and scalar.kind == "int" and scalar.bits < 64:
        _inlined(w, library.store_where(x.type), where, w.b.lane_bits(mask), x)
    else:
        w.b.call(f"llvm.masked.store.{x.type.mangled}.p0", VOID, [x, where, mask],
                 aligns=(0, scalar.size, 0))


def _uniform_store(w: Widener, pointer: Uniform, value: Value, mask: Value | None) -> None:
    t, align = value.type, value.type.scalar.size
    if mask is None:
        w.b.store(w.b.lane(value, w.lanes - 1), pointer.value, align=align)
        return
    if isinstance(value, Uniform) or isinstance(mask, Uniform):
        safe = _guarded_pointer(w, pointer.value, mask, t)
        w.b.store(w.b.lane(value, w.lanes - 1), safe, align=align)
        return
    _scattered_store(w, w.b.wide(pointer), value, mask)


def _scattered_store(w: Widener, addresses: Operand, value: Value, mask: Value | None) -> None:
    t = value.type
    for e in range(t.lanes):
        moved = w.b.at(addresses, e * t.scalar.size)
        _scatter(w, moved, w.b.wide(w.b.element(value, e)), mask)
