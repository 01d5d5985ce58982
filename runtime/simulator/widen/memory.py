"""Loads, stores, private arrays, atomics.

Addresses that step by the element size from lane to lane become plain vector accesses, masked
ones `llvm.masked.load/store`; all others gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import is_dpas
from triton_xe.runtime.simulator.ir import Instruction, Type
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.sanitizer.instrument import (
    checking,
    guarded,
    local_scope,
    synchronises,
)
from triton_xe.runtime.simulator.sanitizer.records import READS, WRITES
from triton_xe.runtime.simulator.sanitizer.state import Kind
from triton_xe.runtime.simulator.widen.elementwise import rebit, scalarise
from triton_xe.runtime.simulator.widen.values import (
    Pieces,
    Private,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    mask_text,
    wide_type,
)
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def alloca(w: Widener, i: Instruction) -> None:
    assert i.element is not None
    assert i.result is not None
    array = w.temporary(i.element.size * w.lanes)
    if i.result in w.direct_kinds:
        w.direct[array] = w.temporary(2 * i.element.size * w.lanes)
    w.arrays[i.result] = array
    w.granules[array] = w.granules.get(i.result, i.element.scalar.size)
    w.values[i.result] = Private(array, 0, i.type)


def private_address(w: Widener, pointer: Private) -> str:
    granule = w.granules[pointer.array]
    if pointer.offset % granule:
        w.fail("a misaligned access to a private array")
    return w.at(pointer.array, pointer.offset * w.lanes)


def load(w: Widener, i: Instruction) -> None:
    i = guarded(w, i, 0, i.type, None, 0, i.align)
    pointer = w.value(i.operands[0])
    if isinstance(pointer, Private):
        private_load(w, i, pointer)
    elif i.type.scalar == ir.I1:
        w.fail("a load of i1")
    else:
        w.define(i, load_value(w, pointer, i.type, None, None))


def private_load(w: Widener, i: Instruction, pointer: Private) -> None:
    assert i.result is not None
    if pointer.array in w.direct:
        (role,) = w.roles[i.result]
        w.prepared[i.result, role] = w.at(
            w.direct[pointer.array], 2 * pointer.offset * w.lanes
        )
        return
    address = private_address(w, pointer)
    granule = w.granules[pointer.array]
    t = i.type
    if t.scalar.size == granule:
        if i.result in w.roles and only_roles(w, i.result):
            w.define(i, Slot(address, t))
            w.values.pop(i.result)
            return
        text = w.emit(f"load {wide_type(t, w.lanes)}, ptr {address}, align 8")
        w.define(i, Wide(text, t))
        return
    k = t.scalar.size // granule
    narrow = ir.like(t.lanes * k, ir.integer(granule * 8))
    text = w.emit(f"load {wide_type(narrow, w.lanes)}, ptr {address}, align 8")
    w.define(i, rebit(w, Wide(text, narrow), t))


def only_roles(w: Widener, name: str) -> bool:
    """Whether a value is used only as a prepared matrix operand."""
    return all(
        is_dpas(u) and u.operands[0].local != name
        for u in w.uses.get(name, [])
    )


def store(w: Widener, i: Instruction) -> None:
    if id(i) in w.skipped:
        return
    i = guarded(w, i, 1, i.operands[0].type, None, Kind.WRITE, i.align)
    item, address = i.operands
    pointer = w.value(address)
    value = w.value(item)
    if isinstance(value, Private):
        w.fail("the address of a private array is stored")
    if isinstance(pointer, Private):
        private_store(w, value, pointer)
    elif item.type.scalar == ir.I1:
        w.fail("a store of i1")
    else:
        store_value(w, pointer, value, None)


def private_store(w: Widener, value: Value, pointer: Private) -> None:
    address = private_address(w, pointer)
    granule = w.granules[pointer.array]
    t = value.type
    if t.scalar.size != granule:
        narrow = ir.like(t.size // granule, ir.integer(granule * 8))
        value = rebit(w, value, narrow)
    w.store_image(value, address)


# --- global and shared memory ---------------------------------------------------------------


def contiguous_start(pointer: Value, nbytes: int) -> tuple[str, int] | None:
    """(base, byte offset) when lane l is at `start + l * nbytes`."""
    if not isinstance(pointer, Tabled) or pointer.base is None:
        return None
    row = np.broadcast_to(pointer.table, (1, pointer.table.shape[1]))[0]
    if (np.diff(row) == nbytes).all():
        return pointer.base, int(row[0])
    return None


def lane_major(w: Widener, text: str, t: Type, to_lanes: bool) -> str:
    """Transpose between element-major (registers) and lane-major (memory) order."""
    n, s = t.lanes, w.lanes
    if n == 1:
        return text
    flat = wide_type(t, s)
    if to_lanes:
        mask = tuple(e * s + lane for lane in range(s) for e in range(n))
    else:
        mask = tuple(lane * n + e for e in range(n) for lane in range(s))
    return w.emit(f"shufflevector {flat} {text}, {flat} poison, {mask_text(mask)}")


def _memory_mask(w: Widener, text: str, t: Type) -> str:
    """The mask of the lanes in memory order."""
    n, s = t.lanes, w.lanes
    if n == 1 or text.startswith("splat"):
        return text
    spread = tuple(lane for lane in range(s) for _ in range(n))
    return w.emit(
        f"shufflevector <{s} x i1> {text}, <{s} x i1> poison, {mask_text(spread)}"
    )


def load_value(
    w: Widener, pointer: Value, t: Type, mask: Value | None, fallback: Value | None
) -> Value:
    """Load a `t` per lane; lanes whose mask is false keep `fallback`."""
    if isinstance(pointer, Uniform):
        return _uniform_load(w, pointer, t, mask, fallback)
    start = contiguous_start(pointer, t.size)
    if start is not None:
        return _contiguous_load(w, w.at(*start), t, mask, fallback)
    addresses = w.wide(pointer)
    if t.lanes == 1:
        return Wide(_gather(w, addresses, t, mask, fallback), t)
    parts = []
    for e in range(t.lanes):
        moved = addresses if e == 0 else w.emit(
            f"getelementptr i8, <{w.lanes} x ptr> {addresses}, i64 {e * t.scalar.size}"
        )
        other = w.element(fallback, e) if fallback is not None else None
        parts.append(Wide(_gather(w, moved, t.scalar, mask, other), t.scalar))
    return Pieces(tuple(parts), t)


def _uniform_load(
    w: Widener, pointer: Uniform, t: Type, mask: Value | None, fallback: Value | None
) -> Value:
    align = t.scalar.size
    if mask is None:
        return Uniform(w.emit(f"load {t.text}, ptr {pointer.text}, align {align}"), t)
    safe = guarded_pointer(w, pointer.text, mask, t)
    text = w.emit(f"load {t.text}, ptr {safe}, align {align}")
    assert fallback is not None
    if isinstance(mask, Uniform) and isinstance(fallback, Uniform):
        return Uniform(
            w.emit(f"select i1 {mask.text}, {t.text} {text}, {t.text} {fallback.text}"), t
        )
    flat = wide_type(t, w.lanes)
    lanes = w.mask(mask, t.lanes)
    wide = w.emit(f"select <{t.lanes * w.lanes} x i1> {lanes}, {flat} "
                  f"{w.broadcast(Uniform(text, t))}, {flat} {w.wide(fallback)}")
    return Wide(wide, t)


def guarded_pointer(w: Widener, pointer: str, mask: Value, t: Type) -> str:
    """The pointer if any lane is active, else a private scratch."""
    active = mask.text if isinstance(mask, Uniform) else any_lane(w, w.mask(mask))
    scratch = w.temporary(max(64, t.size))
    return w.emit(f"select i1 {active}, ptr {pointer}, ptr {scratch}")


def any_lane(w: Widener, mask: str) -> str:
    bits = w.emit(f"bitcast <{w.lanes} x i1> {mask} to i{w.lanes}")
    return w.emit(f"icmp ne i{w.lanes} {bits}, 0")


def _contiguous_load(
    w: Widener, pointer: str, t: Type, mask: Value | None, fallback: Value | None
) -> Value:
    if t.scalar.size == 2 and t.scalar.kind == "float" and mask is not None:
        # hosts without half arithmetic have no masked accesses of it
        words = _retype(w, fallback, ir.I16) if fallback is not None else None
        return _retype(
            w, _contiguous_load(w, pointer, ir.like(t.lanes, ir.I16), mask, words), t.scalar
        )
    flat, align = wide_type(t, w.lanes), t.scalar.size

    def whole() -> str:
        return w.emit(f"load {flat}, ptr {pointer}, align {align}")

    if mask is None:
        return Wide(lane_major(w, whole(), t, False), t)
    assert fallback is not None
    other = w.wide(fallback)
    if t.lanes > 1 and not other.startswith(("zeroinitializer", "splat", "undef", "poison")):
        other = lane_major(w, other, t, True)
    count, lanes = t.lanes * w.lanes, w.mask(mask)

    def some() -> str:
        name = f"llvm.masked.load.v{count}{mangle(t.scalar)}.p0"
        return w.intrinsic(
            f"{flat} @{name}(ptr, <{count} x i1>, {flat})",
            f"{flat} @{name}(ptr align {align} {pointer}, <{count} x i1> "
            f"{_memory_mask(w, lanes, t)}, {flat} {other})",
        )

    return Wide(lane_major(w, _as_masked(w, lanes, whole, some, flat), t, False), t)


def _as_masked(
    w: Widener, lanes: str, whole: Callable[[], str], some: Callable[[], str], result: str = ""
) -> str:
    """A masked access of type `result`; `whole` where all lanes are active, if masks cost much.

    Hosts without mask registers move masks as bytes or words, which takes longer than the access.
    """
    if host_cpu().vector_bytes == 64:
        return some()
    bits = w.emit(f"bitcast <{w.lanes} x i1> {lanes} to i{w.lanes}")
    every = w.emit(f"icmp eq i{w.lanes} {bits}, -1")
    labels = w.label(), w.label()
    end, found = w.label(), []
    w.do(f"br i1 {every}, label %{labels[0]}, label %{labels[1]}")
    for label, access in zip(labels, (whole, some), strict=True):
        w.start_block(label)
        found.append(f"[{access()}, %{label}]")
        w.do(f"br label %{end}")
    w.start_block(end)
    return w.emit(f"phi {result} {', '.join(found)}") if result else ""


def _retype(w: Widener, value: Value, scalar: Type) -> Value:
    """The same bits as elements of another type of that size."""
    t = ir.like(value.type.lanes, scalar)
    if isinstance(value, Uniform) and value.text in ("0", "0xH0000", "zeroinitializer"):
        return Uniform("zeroinitializer" if t.lanes > 1 else "0", t)
    text = w.wide(value)
    if text.startswith(("zeroinitializer", "undef", "poison")):
        return Wide(text, t)
    source, target = wide_type(value.type, w.lanes), wide_type(t, w.lanes)
    return Wide(w.emit(f"bitcast {source} {text} to {target}"), t)


def mangle(t: Type) -> str:
    """The suffix LLVM gives overloaded intrinsics."""
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}.get(
        t.name, "p0" if t.kind == "ptr" else t.name
    )


def _gather(
    w: Widener, addresses: str, t: Type, mask: Value | None, fallback: Value | None
) -> str:
    s = w.lanes
    lanes = "splat (i1 true)" if mask is None else w.mask(mask)
    other = "zeroinitializer" if fallback is None else w.wide(fallback)
    flat = f"<{s} x {t.text}>"
    if t.size < 4 and t.kind != "ptr":
        bits = f"i{t.size * 8}"
        word = f"<{s} x {bits}>"
        if t.name != bits:
            other = other if other == "zeroinitializer" else w.emit(
                f"bitcast {flat} {other} to {word}"
            )
        text = w.call_helper(
            f"xe_gather_{bits}_{s}", word,
            [f"<{s} x ptr> {addresses}", f"<{s} x i1> {lanes}", f"{word} {other}"],
        )
        return text if t.name == bits else w.emit(f"bitcast {word} {text} to {flat}")
    name = f"llvm.masked.gather.v{s}{mangle(t)}.v{s}p0"
    return w.intrinsic(
        f"{flat} @{name}(<{s} x ptr>, <{s} x i1>, {flat})",
        f"{flat} @{name}(<{s} x ptr> align {t.size} {addresses}, <{s} x i1> {lanes}, "
        f"{flat} {other})",
    )


def _scatter(w: Widener, addresses: str, value: str, t: Type, mask: Value | None) -> None:
    s = w.lanes
    lanes = "splat (i1 true)" if mask is None else w.mask(mask)
    flat = f"<{s} x {t.text}>"
    if t.size < 4 and t.kind != "ptr":
        bits = f"i{t.size * 8}"
        word = f"<{s} x {bits}>"
        if t.name != bits:
            value = w.emit(f"bitcast {flat} {value} to {word}")
        w.call_helper(
            f"xe_scatter_{bits}_{s}", "void",
            [f"<{s} x ptr> {addresses}", f"<{s} x i1> {lanes}", f"{word} {value}"],
        )
        return
    name = f"llvm.masked.scatter.v{s}{mangle(t)}.v{s}p0"
    signature = f"void @{name}({flat}, <{s} x ptr>, <{s} x i1>)"
    w.context.declarations[signature] = f"declare {signature}"
    w.do(f"call void @{name}({flat} {value}, <{s} x ptr> align {t.size} {addresses}, "
         f"<{s} x i1> {lanes})")


def store_value(w: Widener, pointer: Value, value: Value, mask: Value | None) -> None:
    """Store each lane's value; of lanes at one address the last one stays."""
    t, s = value.type, w.lanes
    if isinstance(pointer, Uniform):
        _uniform_store(w, pointer, value, mask)
        return
    start = contiguous_start(pointer, t.size)
    if start is not None and t.scalar.size == 2 and t.scalar.kind == "float" and mask is not None:
        store_value(w, pointer, _retype(w, value, ir.I16), mask)
        return
    if start is None:
        _scattered_store(w, w.wide(pointer), value, mask)
        return
    flat, count, align = wide_type(t, s), t.lanes * s, t.scalar.size
    text = w.wide(value)
    if not (isinstance(value, Uniform) and text.startswith(("splat", "zeroinit"))):
        text = lane_major(w, text, t, True)
    where = w.at(*start)

    def whole() -> str:
        w.do(f"store {flat} {text}, ptr {where}, align {align}")
        return ""

    if mask is None:
        whole()
        return
    lanes = w.mask(mask)

    def some() -> str:
        name = f"llvm.masked.store.v{count}{mangle(t.scalar)}.p0"
        signature = f"void @{name}({flat}, ptr, <{count} x i1>)"
        w.context.declarations[signature] = f"declare {signature}"
        w.do(f"call void @{name}({flat} {text}, ptr align {align} {where}, "
             f"<{count} x i1> {_memory_mask(w, lanes, t)})")
        return ""

    _as_masked(w, lanes, whole, some)


def _uniform_store(w: Widener, pointer: Uniform, value: Value, mask: Value | None) -> None:
    t, s = value.type, w.lanes
    align = t.scalar.size
    if mask is None:
        w.do(f"store {t.text} {w.lane(value, s - 1)}, ptr {pointer.text}, align {align}")
        return
    if isinstance(value, Uniform) or isinstance(mask, Uniform):
        safe = guarded_pointer(w, pointer.text, mask, t)
        w.do(f"store {t.text} {w.lane(value, s - 1)}, ptr {safe}, align {align}")
        return
    _scattered_store(w, w.broadcast(pointer), value, mask)


def _scattered_store(w: Widener, addresses: str, value: Value, mask: Value | None) -> None:
    t = value.type
    for e in range(t.lanes):
        moved = addresses if e == 0 else w.emit(
            f"getelementptr i8, <{w.lanes} x ptr> {addresses}, i64 {e * t.scalar.size}"
        )
        _scatter(w, moved, w.wide(w.element(value, e)), t.scalar, mask)


# --- atomics on the lanes of a subgroup -------------------------------------------------------


def atomicrmw(w: Widener, i: Instruction) -> None:
    t = i.type.text
    i = guarded(w, i, 0, i.type, None, Kind.WRITE | Kind.ATOMIC | local_scope(i))

    def lane(p: list[str]) -> str:
        old = w.emit(f"atomicrmw {i.extra} ptr {p[0]}, {t} {p[1]} seq_cst, align {i.type.size}")
        synchronises(w, i, p[0], READS | WRITES)
        return old

    scalarise(w, i, lane)


def cmpxchg(w: Widener, i: Instruction) -> None:
    t = i.operands[1].type
    i = guarded(w, i, 0, t, None, Kind.WRITE | Kind.ATOMIC | local_scope(i))

    def lane(p: list[str]) -> str:
        pair = w.emit(f"cmpxchg ptr {p[0]}, {t.text} {p[1]}, {t.text} {p[2]} seq_cst seq_cst, "
                      f"align {t.size}")
        if checking(w):
            met = w.emit(f"extractvalue {{ {t.text}, i1 }} {pair}, 1")
            what = w.emit(f"select i1 {met}, i32 {READS | WRITES}, i32 {READS}")
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

__all__ = ["RULES", "load_value", "store_value"]
