"""Instructions that work element by element, and those that only move elements."""

from __future__ import annotations

from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.shapes import Shape, gep_scales
from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.widen.values import (
    Aggregate,
    Pieces,
    Private,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    constant_vector,
    mask_text,
    wide_type,
)
from triton_xe.runtime.simulator.widen.widener import Rule, Widener, known

_ALWAYS_SAFE = frozenset("fast nnan ninf nsz arcp contract afn reassoc".split())
_DIVISIONS = frozenset("sdiv udiv srem urem".split())


def settle(w: Widener, i: Instruction, shape: Shape, base: str | None) -> None:
    """Define a result that is uniform or tabled, given its base."""
    if shape.uniform or shape.table is None:
        assert base is not None
        w.define(i, Uniform(base, i.type))
    else:
        w.define(i, Tabled(None if shape.pure else base, shape.table, i.type))


def settle_pure(w: Widener, i: Instruction, shape: Shape) -> bool:
    """Define a result that is known completely; false when it is not."""
    if not shape.pure or shape.table is None:
        return False
    if i.type.kind == "ptr" or i.type.scalar.kind == "ptr":
        w.define(i, Tabled(None, shape.table, i.type))
    else:
        w.define(i, known(shape.table, i.type))
    return True


def operation(w: Widener, i: Instruction) -> None:
    """Binary operations, comparisons, fneg."""
    shape = w.result_shape(i)
    if settle_pure(w, i, shape):
        return
    t = i.operands[0].type
    head = i.opcode if i.opcode not in ("icmp", "fcmp") else f"{i.opcode} {i.extra}"
    if not shape.wide:
        values = [w.value(o) for o in i.operands]
        exact = all(isinstance(v, Uniform) for v in values)
        flags = " ".join(f for f in i.flags if exact or f in _ALWAYS_SAFE)
        if "disjoint" in i.flags and not exact:
            head = "add"
        if i.opcode in ("icmp", "fcmp"):
            head = f"{i.opcode} {flags} {i.extra}" if flags else head
        elif flags:
            head = f"{head} {flags}"
        bases = [w.base(o) for o in i.operands]
        if i.opcode in _DIVISIONS:
            bases[1] = _safe_divisor(w, i.opcode, t.scalar, t.lanes, *bases)
        settle(w, i, shape, w.emit(f"{head} {t.text} {', '.join(bases)}"))
        return
    flags = " ".join(i.flags)
    if i.opcode in ("icmp", "fcmp"):
        head = f"{i.opcode} {flags} {i.extra}" if flags else head
    elif flags:
        head = f"{head} {flags}"
    flat, operands = wide_type(t, w.lanes), [w.wide_of(o) for o in i.operands]
    if i.opcode in _DIVISIONS:
        operands[1] = _safe_divisor(w, i.opcode, t.scalar, t.lanes * w.lanes,
                                     *operands)
    w.define(i, Wide(w.emit(f"{head} {flat} {', '.join(operands)}"), i.type))


def _safe_divisor(w: Widener, opcode: str, t: ir.Type, count: int, a: str, b: str) -> str:
    """The divisor, or one where the host would trap and a device gives some value."""
    kind, vector = t.text, count > 1
    flat, mask = (f"<{count} x {x}>" if vector else x for x in (kind, "i1"))

    def equal(x: str, value: int) -> str:
        return w.emit(f"icmp eq {flat} {x}, {f'splat ({kind} {value})' if vector else value}")

    bad = equal(b, 0)
    if opcode[0] == "s":
        overflows = w.emit(f"and {mask} {equal(a, -(1 << (t.bits - 1)))}, {equal(b, -1)}")
        bad = w.emit(f"or {mask} {bad}, {overflows}")
    return w.emit(f"select {mask} {bad}, {flat} {f'splat ({kind} 1)' if vector else 1}, {flat} {b}")


def cast(w: Widener, i: Instruction) -> None:
    source, target = i.operands[0].type, i.type
    value = w.value(i.operands[0])
    if isinstance(value, Private):
        if i.opcode not in ("addrspacecast", "bitcast"):
            w.fail("the address of a private array is used as a number")
        w.define(i, value)
        return
    if i.opcode == "addrspacecast" or (i.opcode == "bitcast" and source.kind == "ptr"):
        w.define(i, _retyped(value, target))
        return
    shape = w.result_shape(i)
    if settle_pure(w, i, shape):
        return
    if not shape.wide:
        flags = " ".join(i.flags) + " " if i.flags and isinstance(value, Uniform) else ""
        base = w.base(i.operands[0])
        settle(w, i, shape, w.emit(f"{i.opcode} {flags}{source.text} {base} to {target.text}"))
        return
    if i.opcode == "bitcast" and source.scalar.bits != target.scalar.bits:
        w.define(i, rebit(w, value, target))
        return
    flags = " ".join(i.flags) + " " if i.flags else ""
    text = w.emit(
        f"{i.opcode} {flags}{wide_type(source, w.lanes)} {w.wide(value)} to "
        f"{wide_type(target, w.lanes)}"
    )
    w.define(i, Wide(text, target))


def _retyped(value: Value, t: ir.Type) -> Value:
    if isinstance(value, Uniform):
        return Uniform(value.text, t)
    if isinstance(value, Tabled):
        return Tabled(value.base, value.table, t)
    assert isinstance(value, Wide)
    return Wide(value.text, t)


def rebit(w: Widener, value: Value, target: ir.Type) -> Value:
    """Reinterpret each work-item's bits as elements of another width."""
    source, s = value.type, w.lanes
    text = w.wide(value)
    wide, narrow = source.scalar.bits, target.scalar.bits
    if wide > narrow:
        k = wide // narrow
        flat = f"<{source.lanes * s * k} x {target.scalar.text}>"
        split = w.emit(f"bitcast {wide_type(source, s)} {text} to {flat}")
        mask = tuple(
            (e * s + lane) * k + sub
            for e in range(source.lanes) for sub in range(k) for lane in range(s)
        )
        return Wide(
            w.emit(f"shufflevector {flat} {split}, {flat} poison, {mask_text(mask)}"), target
        )
    k = narrow // wide
    mask = tuple(
        (e * k + sub) * s + lane
        for e in range(target.lanes) for lane in range(s) for sub in range(k)
    )
    flat = wide_type(source, s)
    mixed = w.emit(f"shufflevector {flat} {text}, {flat} poison, {mask_text(mask)}")
    return Wide(w.emit(f"bitcast {flat} {mixed} to {wide_type(target, s)}"), target)


def select(w: Widener, i: Instruction) -> None:
    shape = w.result_shape(i)
    if settle_pure(w, i, shape):
        return
    condition, a, b = i.operands
    t = i.type
    chosen = w.value(condition)
    flags = " ".join(i.flags) + " " if i.flags else ""
    if not shape.wide:
        head = f"select {flags}{condition.type.text} {w.uniform(condition)}"
        parts = f"{t.text} {w.base(a)}, {t.text} {w.base(b)}"
        settle(w, i, shape, w.emit(f"{head}, {parts}"))
        return
    if isinstance(w.value(a), Private) or isinstance(w.value(b), Private):
        w.fail("a private array is chosen at run time")
    flat = wide_type(t, w.lanes)
    if isinstance(chosen, Uniform) and condition.type.lanes == 1:
        mask = f"i1 {chosen.text}"
    else:
        mask = f"<{t.lanes * w.lanes} x i1> {w.mask(chosen, t.lanes)}"
    text = w.emit(f"select {flags}{mask}, {flat} {w.wide_of(a)}, {flat} {w.wide_of(b)}")
    w.define(i, Wide(text, t))


def freeze(w: Widener, i: Instruction) -> None:
    value = w.value(i.operands[0])
    if isinstance(value, Wide):
        flat = wide_type(i.type, w.lanes)
        value = Wide(w.emit(f"freeze {flat} {value.text}"), i.type)
    elif isinstance(value, Uniform):
        value = Uniform(w.emit(f"freeze {i.type.text} {value.text}"), i.type)
    w.define(i, value)


def getelementptr(w: Widener, i: Instruction) -> None:
    assert i.element is not None
    pointer = w.value(i.operands[0])
    if isinstance(pointer, Private):
        w.define(i, Private(pointer.array, pointer.offset + constant_offset(w, i), pointer.type))
        return
    shape = w.result_shape(i)
    if not shape.wide:
        rest = ", ".join(f"{o.type.text} {w.base(o)}" for o in i.operands)
        exact = all(isinstance(w.value(o), Uniform) for o in i.operands)
        flags = " ".join(f for f in i.flags if f != "inreg") + " " if i.flags and exact else ""
        settle(w, i, shape, w.emit(f"getelementptr {flags}{i.element.text}, {rest}"))
        return
    if any(o.type.lanes != 1 for o in i.operands):
        w.fail("a vector of pointers in one work-item")
    parts = []
    for o in i.operands:
        value = w.value(o)
        if isinstance(value, Uniform):
            parts.append(f"{o.type.text} {value.text}")
        else:
            parts.append(f"{wide_type(o.type, w.lanes)} {w.wide(value)}")
    w.define(i, Wide(w.emit(f"getelementptr {i.element.text}, {', '.join(parts)}"), i.type))


def constant_offset(w: Widener, i: Instruction) -> int:
    """Bytes a getelementptr with constant indices adds."""
    from triton_xe.runtime.simulator.analysis.shapes import gep_constant

    total = gep_constant(i)
    for k, scale in gep_scales(i):
        shape = w.shape(i.operands[k])
        if not (shape.pure and shape.same_in_all_lanes and shape.table is not None):
            w.fail("a private array with an index that is not a constant")
        total += int(shape.table.flat[0]) * scale
    return total


def extractelement(w: Widener, i: Instruction) -> None:
    shape = w.result_shape(i)
    if settle_pure(w, i, shape):
        return
    value = w.value(i.operands[0])
    index = i.operands[1].integer_value()
    if index is not None:
        if index >= value.type.lanes:
            w.define(i, Uniform("poison", i.type))
            return
        w.define(i, w.element(value, index))
        return
    if not isinstance(w.value(i.operands[1]), Uniform):
        w.fail("an element index that differs between lanes")
    image = w.to_memory(value)
    t, s = i.type, w.lanes
    k = w.uniform(i.operands[1])
    where = w.emit(f"getelementptr <{s} x {t.text}>, ptr {image}, "
                   f"{i.operands[1].type.text} {k}")
    w.define(i, Wide(w.emit(f"load <{s} x {t.text}>, ptr {where}, align 8"), t))


def insertelement(w: Widener, i: Instruction) -> None:
    shape = w.result_shape(i)
    if settle_pure(w, i, shape):
        return
    vector, item, at = i.operands
    index = at.integer_value()
    if not shape.wide:
        k = w.uniform(at)
        base = w.emit(f"insertelement {i.type.text} {w.base(vector)}, "
                      f"{item.type.text} {w.base(item)}, {at.type.text} {k}")
        settle(w, i, shape, base)
        return
    if index is None:
        w.fail("an element is written at an index that is not a constant")
    if vector.is_undefined:
        parts: list[Value] = [Uniform("poison", item.type)] * i.type.lanes
    else:
        parts = _lazy_parts(w, w.value(vector))
    parts[index] = w.value(item)
    w.define(i, Pieces(tuple(parts), i.type))


def _lazy_parts(w: Widener, value: Value) -> list[Value]:
    return list(value.parts) if isinstance(value, Pieces) else w.parts(value)


def shufflevector(w: Widener, i: Instruction) -> None:
    shape = w.result_shape(i)
    if settle_pure(w, i, shape):
        return
    a, b = i.operands
    s, n = w.lanes, a.type.lanes
    mask = mask_text(i.indices)
    if not shape.wide:
        t = a.type.text
        settle(w, i, shape, w.emit(f"shufflevector {t} {w.base(a)}, {t} {w.base(b)}, {mask}"))
        return
    left, right = w.value(a), w.value(b)
    if isinstance(left, Pieces) or isinstance(right, Pieces):
        parts = _lazy_parts(w, left) + _lazy_parts(w, right)
        chosen = tuple(parts[max(0, k)] for k in i.indices)
        w.define(i, chosen[0] if len(chosen) == 1 and i.type.lanes == 1
                 else Pieces(chosen, i.type))
        return
    first = i.indices[0]
    if isinstance(left, Slot) and list(i.indices) == list(range(first, first + len(i.indices))):
        if first + len(i.indices) <= n:
            pointer = w.at(left.pointer, first * s * i.type.scalar.size)
            flat = wide_type(i.type, s)
            w.define(i, Wide(w.emit(f"load {flat}, ptr {pointer}, align 8"), i.type))
            return
    wide_mask = tuple(-1 if k < 0 else k * s + lane for k in i.indices for lane in range(s))
    flat = wide_type(a.type, s)
    text = w.emit(f"shufflevector {flat} {w.wide(left)}, {flat} {w.wide(right)}, "
                  f"{mask_text(wide_mask)}")
    w.define(i, Wide(text, i.type))


def extractvalue(w: Widener, i: Instruction) -> None:
    value = w.value(i.operands[0])
    for k in i.indices:
        if not isinstance(value, Aggregate):
            w.fail("a field of something that is not a struct")
        value = value.parts[k]
    w.define(i, value)


def insertvalue(w: Widener, i: Instruction) -> None:
    value = w.value(i.operands[0])
    if not isinstance(value, Aggregate):
        value = Aggregate(tuple(Uniform("poison", f) for f in i.type.fields), i.type)
    if len(i.indices) != 1:
        w.fail("a nested struct")
    parts = list(value.parts)
    parts[i.indices[0]] = w.value(i.operands[1])
    w.define(i, Aggregate(tuple(parts), i.type))


def scalarise(w: Widener, i: Instruction, emit_lane: object) -> None:
    """Run one instruction lane by lane; `emit_lane(texts)` emits it and returns its result."""
    assert callable(emit_lane)
    results = [
        emit_lane([w.lane(w.value(o), lane) for o in i.operands]) for lane in range(w.lanes)
    ]
    if i.result is not None:
        w.define(i, gather_lanes(w, results, i.type))


def gather_lanes(w: Widener, results: list[str], t: ir.Type) -> Value:
    """The wide value whose lanes are host scalars."""
    if t.kind == "struct":
        fields: list[Value] = []
        for k, field in enumerate(t.fields):
            column = [w.emit(f"extractvalue {t.text} {r}, {k}") for r in results]
            fields.append(gather_lanes(w, column, field))
        return Aggregate(tuple(fields), t)
    if t.lanes != 1:
        w.fail("a vector result computed lane by lane")
    flat = wide_type(t, w.lanes)
    text = "poison"
    for lane, r in enumerate(results):
        text = w.emit(f"insertelement {flat} {text}, {t.text} {r}, i32 {lane}")
    return Wide(text, t)


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem "
        "icmp fcmp fneg".split(),
        operation,
    ),
    **dict.fromkeys(
        "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr bitcast "
        "addrspacecast".split(),
        cast,
    ),
    "select": select,
    "freeze": freeze,
    "getelementptr": getelementptr,
    "extractelement": extractelement,
    "insertelement": insertelement,
    "shufflevector": shufflevector,
    "extractvalue": extractvalue,
    "insertvalue": insertvalue,
}

__all__ = ["RULES", "constant_vector", "gather_lanes", "scalarise"]
