"""Instructions that work element by element, and those that only move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from triton_xe import llvm as ir
from triton_xe.llvm import Instruction, Operand
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.runtime.simulator.analysis.shapes import gep_steps
from triton_xe.runtime.simulator.widen.host_function import known
from triton_xe.runtime.simulator.widen.parts import Shared
from triton_xe.runtime.simulator.widen.values import (
    Aggregate,
    Lazy,
    Moved,
    Pieces,
    Private,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    can_move,
    index_of,
    places,
    recast,
    selected,
)
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

_ALWAYS_SAFE = frozenset("fast nnan ninf nsz arcp contract afn reassoc".split())
_DIVISIONS = frozenset("sdiv udiv srem urem".split())


def define_base(w: Widener, i: Instruction, base: Operand) -> None:
    """Define a result that is uniform or tabled, given its base."""
    shape = w.result_shape(i)
    if shape.uniform or shape.table is None:
        w.define(i, Uniform(base, i.type))
    else:
        w.define(i, Tabled(None if shape.pure else base, shape.table, i.type))


def define_known(w: Widener, i: Instruction) -> bool:
    """Define a result that is known completely; False if it is not."""
    shape = w.result_shape(i)
    if i.result is None or not shape.pure or shape.table is None:
        return False
    if i.type.scalar.kind == "ptr":
        w.define(i, Tabled(None, shape.table, i.type))
    else:
        w.define(i, known(shape.table, i.type))
    return True


def operation(w: Widener, i: Instruction) -> None:
    """Widen a binary operation, comparison or fneg."""
    if w.result_shape(i).wide:
        if not _delayed(w, i):
            w.define_like(i, _computed(w, i, i.opcode, w.host_operands(i), i.flags))
        return
    exact = all(isinstance(w.value(o), Uniform) for o in i.operands)
    flags = tuple(f for f in i.flags if exact or f in _ALWAYS_SAFE)
    opcode = "add" if "disjoint" in i.flags and not exact else i.opcode
    bases = [w.base(o) for o in i.operands]
    base = _computed(w, i, opcode, bases, flags)
    if opcode == "add" and i.type.lanes > 1:
        _note_sum(w, base, *bases)
    define_base(w, i, base)


_CHEAP = frozenset("icmp and or xor add sub mul shl".split())
_DELAYED = 8
"""Largest number of operations that are recomputed at each use."""


def _delayed(w: Widener, i: Instruction) -> bool:
    """Define a result that is recomputed at each use; False if it is computed now.

    It must be cheap, and need no flat vector.  In a block that barriers cut, that includes results
    that LLVM would recompute after a barrier, except from vectors that it keeps live.
    """
    values, group = tuple(w.value(o) for o in i.operands), w.group(i)
    size = 1 + sum(v.size for v in values if isinstance(v, Lazy))
    small = i.opcode in _CHEAP and group == 1
    kinds = Uniform | Tabled | Lazy
    if i.result in w.b.here.inner:
        kinds |= Wide | Moved
    if (i.result in w.forms.roles or i.opcode in _DIVISIONS or size > _DELAYED
            or i.type.scalar.kind == "ptr"
            or not (small or i.result in w.b.here.inner)
            or not all(isinstance(v, kinds) for v in values)):
        return False
    w.define(i, Lazy(i, values, i.type, size, group))
    return True


def _note_sum(w: Widener, total: Operand, x: Operand, y: Operand) -> None:
    """Note a vector that is one number plus constants."""
    (one, terms), (other, more) = (
        w.b.sums.get(o.text) or (None, _integers(o)) for o in (x, y))
    if terms is None or more is None or (one is None and other is None):
        return
    number = one or other if one is None or other is None else w.b.add(one, other)
    assert number is not None
    w.b.sums[total.text] = number, tuple(a + b for a, b in zip(terms, more, strict=True))


def _integers(x: Operand) -> tuple[int, ...] | None:
    """The elements of a constant vector of integers."""
    if x.is_zero:
        return (0,) * x.type.lanes
    values = [e.integer_value() for e in x.elements]
    found = tuple(v for v in values if v is not None)
    return found if found and len(found) == len(values) else None


def _computed(
    w: Widener, i: Instruction, opcode: str, operands: list[Operand], flags: tuple[str, ...]
) -> Operand:
    """Apply `opcode` to host operands."""
    if opcode in _DIVISIONS:
        if operands[1].local is not None and i.type.scalar.bits <= 32 and w.result_shape(i).wide:
            return _divided(w, i, *operands)
        operands[1] = _safe_divisor(w, opcode, *operands)
    t = ir.with_elements(operands[0].type, i.type.scalar)
    return w.b.emit(Instruction(opcode, t, operands, flags=flags, extra=i.extra))


_ROUNDED_UP = 1 + 2.0**-50


def _divided(w: Widener, i: Instruction, x: Operand, divisor: Operand) -> Operand:
    """Quotient or remainder of vectors of up to 32 bits, in fp64; hosts do not divide these.

    A quotient that is not an integer is further from the next integer than fp64 rounds.  A divisor
    that is equal in all lanes is inverted once and rounded up.  Then multiples of it give at least
    their quotient, and other numbers stay below the next integer.
    """
    b, is_signed = w.b, i.opcode[0] == "s"
    to, back = ("sitofp", "fptosi") if is_signed else ("uitofp", "fptoui")
    same = w.value(i.operands[1])
    if isinstance(same, Uniform):
        one = b.select(b.icmp("eq", same.value, 0), ir.constant(same.type, 1), same.value)
        number = b.cast(to, one, ir.F64)
        inverse = b.binary("fmul", b.fdiv(ir.constant(number.type, 1.0), number),
                           ir.constant(number.type, _ROUNDED_UP))
        divisor, factor = (w.b.ordered(Uniform(each, each.type), w.group(i))
                           for each in (one, inverse))
        real = b.binary("fmul", b.cast(to, x, ir.F64), factor)
    else:
        divisor = _safe_divisor(w, i.opcode, x, divisor)
        real = b.fdiv(b.cast(to, x, ir.F64), b.cast(to, divisor, ir.F64))
    quotient = b.cast(back, real, x.type)
    if is_signed:
        # of the least number that is the one which does not fit
        quotient = b.select(b.icmp("eq", divisor, -1), b.sub(ir.zero(x.type), x), quotient)
    return quotient if i.opcode.endswith("div") else b.sub(x, b.mul(quotient, divisor))


def _safe_divisor(w: Widener, opcode: str, x: Operand, divisor: Operand) -> Operand:
    """The divisor, or 1 if the host would trap; a device gives an unspecified value there."""
    bad = w.b.icmp("eq", divisor, 0)
    if opcode[0] == "s":
        least = w.b.icmp("eq", x, -(1 << (x.type.scalar.bits - 1)))
        bad = w.b.or_(bad, w.b.and_(least, w.b.icmp("eq", divisor, -1)))
    return w.b.select(bad, ir.constant(divisor.type, 1), divisor)


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
    if define_known(w, i):
        return
    if not w.result_shape(i).wide:
        flags = i.flags if isinstance(value, Uniform) else ()
        define_base(w, i, w.b.cast(i.opcode, w.base(i.operands[0]), target, flags))
        return
    if i.opcode == "bitcast" and source.scalar.bits != target.scalar.bits:
        w.define(i, rebit(w, value, target))
        return
    if not (i.result in w.b.here.inner and _delayed(w, i)):
        w.define_like(i, w.b.cast(i.opcode, w.host_operands(i)[0], w.b.type_of(target), i.flags))


def _retyped(value: Value, t: ir.Type) -> Value:
    if isinstance(value, Uniform):
        return Uniform(value.value._replace(type=t), t)
    if isinstance(value, Tabled):
        return Tabled(value.base, value.table, t)
    assert isinstance(value, Wide)
    return Wide(value.value, t, value.group)


def rebit(w: Widener, value: Value, target: ir.Type) -> Value:
    """Reinterpret each work-item's bits as elements of another width."""
    source, s = value.type, w.lanes
    moved = w.b.moved(value) if can_move(target) else None
    if moved is not None:
        return recast(moved, target)
    x, wide, narrow = w.b.wide(value), source.scalar.bits, target.scalar.bits
    if wide > narrow:
        k = wide // narrow
        split = w.b.bitcast(x, ir.vector(source.lanes * s * k, target.scalar))
        mask = [
            (e * s + lane) * k + sub
            for e in range(source.lanes) for sub in range(k) for lane in range(s)
        ]
        return Wide(w.b.shuffle(split, None, mask), target)
    k = narrow // wide
    mask = [
        (e * k + sub) * s + lane
        for e in range(target.lanes) for lane in range(s) for sub in range(k)
    ]
    return Wide(w.b.bitcast(w.b.shuffle(x, None, mask), w.b.type_of(target)), target)


def select(w: Widener, i: Instruction) -> None:
    condition, a, b = i.operands
    chosen = w.value(condition)
    if not w.result_shape(i).wide:
        define_base(w, i, w.b.select(w.uniform(condition), w.base(a), w.base(b), i.flags))
        return
    if isinstance(w.value(a), Private) or isinstance(w.value(b), Private):
        w.fail("a private array is chosen at run time")
    if i.result in w.b.here.inner and _delayed(w, i):
        return
    group = w.group(i)
    if isinstance(chosen, Uniform) and condition.type.lanes == 1:
        mask = chosen.value
    else:
        mask = w.b.mask(chosen, i.type.lanes, group)
    x, y = (w.b.ordered(w.value(o), group) for o in (a, b))
    w.define_like(i, w.b.select(mask, x, y, i.flags))


def freeze(w: Widener, i: Instruction) -> None:
    value = w.value(i.operands[0])
    if isinstance(value, Wide | Lazy | Moved):
        group = w.group(i)
        value = Wide(w.b.freeze(w.b.ordered(value, group)), i.type, group)
    elif isinstance(value, Uniform):
        value = Uniform(w.b.freeze(value.value), i.type)
    w.define(i, value)


def getelementptr(w: Widener, i: Instruction) -> None:
    assert i.element is not None
    pointer = w.value(i.operands[0])
    if isinstance(pointer, Private):
        w.define(i, Private(pointer.array, pointer.offset + constant_offset(w, i), pointer.type))
        return
    values = [w.value(o) for o in i.operands]
    if not w.result_shape(i).wide:
        exact = all(isinstance(v, Uniform) for v in values)
        flags = tuple(f for f in i.flags if f != "inreg") if exact else ()
        bases = [w.base(o) for o in i.operands]
        made = w.b.gep(i.element, *bases, flags=flags)
        if w.shared is not None and bases[0].text in w.shared.offsets:
            _note_offset(w.shared, i, bases, made)
        define_base(w, i, made)
        return
    if any(o.type.lanes != 1 for o in i.operands):
        w.fail("a vector of pointers in one work-item")
    parts = [v.value if isinstance(v, Uniform) else w.b.wide(v) for v in values]
    w.define_wide(i, w.b.gep(i.element, *parts))


def _note_offset(shared: Shared, i: Instruction, bases: list[Operand], made: Operand) -> None:
    """Note the offset of a pointer in shared memory, if all of its summands are known."""
    total, scales = gep_steps(i)
    steps = [(bases[k].integer_value(), scale) for k, scale in scales]
    known = [(value, scale) for value, scale in steps if value is not None]
    if len(known) == len(steps):
        shared.offsets[made.text] = shared.offsets[bases[0].text] + total + sum(
            value * scale for value, scale in known)


def constant_offset(w: Widener, i: Instruction) -> int:
    """Bytes a getelementptr with constant indices adds."""
    total, scales = gep_steps(i)
    for k, scale in scales:
        shape = w.source.shape(i.operands[k])
        if not (shape.pure and shape.same_in_all_lanes and shape.table is not None):
            w.fail("a private array with an index that is not a constant")
        total += int(shape.table.flat[0]) * scale
    return total


def extractelement(w: Widener, i: Instruction) -> None:
    value = w.value(i.operands[0])
    index = i.operands[1].integer_value()
    if index is not None:
        if index >= value.type.lanes:
            w.define(i, Uniform(ir.poison(i.type), i.type))
            return
        w.define(i, w.b.element(value, index))
        return
    if not isinstance(w.value(i.operands[1]), Uniform):
        w.fail("an element index that differs between lanes")
    image = w.b.to_memory(value)
    row = ir.vector(w.lanes, i.type)
    where = w.b.gep(row, image, w.uniform(i.operands[1]))
    w.define_wide(i, w.b.load(row, where, align=8))


def insertelement(w: Widener, i: Instruction) -> None:
    vector, item, at = i.operands
    index = at.integer_value()
    if not w.result_shape(i).wide:
        define_base(w, i, w.b.insert(w.base(vector), w.base(item), w.uniform(at)))
        return
    if index is None:
        w.fail("an element is written at an index that is not a constant")
    if vector.is_undefined:
        parts: list[Value] = [Uniform(ir.poison(item.type), item.type)] * i.type.lanes
    else:
        parts = _lazy_parts(w, w.value(vector))
    parts[index] = w.value(item)
    moved = [p for p in parts if isinstance(p, Moved)]
    w.define(i, selected(moved, range(len(moved)), i.type) if len(moved) == len(parts)
             else Pieces(tuple(parts), i.type))


def _lazy_parts(w: Widener, value: Value) -> list[Value]:
    return list(value.parts) if isinstance(value, Pieces) else w.b.parts(value)


def shufflevector(w: Widener, i: Instruction) -> None:
    if not w.result_shape(i).wide:
        _shuffle_base(w, i)
        return
    left, right = (w.value(o) for o in i.operands)
    moved = _moved(w, i, left, right)
    if moved is not None:
        w.define(i, moved)
    elif isinstance(left, Pieces) or isinstance(right, Pieces):
        parts = _lazy_parts(w, left) + _lazy_parts(w, right)
        w.define_parts(i, [parts[max(0, k)] for k in i.indices])
    else:
        w.define(i, _taken_lazily(w, i, left) or _loaded(w, i, left) or _shuffled(w, i))


def _shuffle_base(w: Widener, i: Instruction) -> None:
    """Shuffle a vector that is uniform or tabled; note a number in all of its elements."""
    a, b = (w.base(o) for o in i.operands)
    made = w.b.shuffle(a, b, i.indices)
    insert = w.source.facts.maker(i.operands[0])
    if insert is not None and insert.opcode == "insertelement" and (
            set(i.indices) == {insert.operands[2].integer_value()}):
        w.b.sums[made.text] = w.base(insert.operands[1]), (0,) * len(i.indices)
    define_base(w, i, made)


def _taken_lazily(w: Widener, i: Instruction, value: Value) -> Value | None:
    """Elements of one operation that is recomputed at its uses; None for other values."""
    is_free = isinstance(value, Lazy) and max(i.indices) < value.type.lanes
    return _taken(w, value, i.indices) if is_free else None


def _loaded(w: Widener, i: Instruction, value: Value) -> Wide | None:
    """Consecutive elements of a slot, as one load; None for other values."""
    first, count = i.indices[0], len(i.indices)
    if not isinstance(value, Slot) or first + count > value.type.lanes or (
            list(i.indices) != list(range(first, first + count))):
        return None
    pointer = w.b.at(value.pointer, first * w.lanes * i.type.scalar.size)
    return Wide(w.b.load(w.b.type_of(i.type), pointer, align=8), i.type)


def _shuffled(w: Widener, i: Instruction) -> Wide:
    """A shuffle of two flat vectors."""
    s, n = w.lanes, i.operands[0].type.lanes
    group, own = shuffle_orders(i.indices, w.group(i), n)
    mask = [-1 if i.indices[e] < 0 else i.indices[e] // n * n * s + index_of(
                i.indices[e] % n, lane, s, group) for e, lane in places(i.type.lanes, s, own)]
    left, right = (w.b.ordered(w.value(o), group) for o in i.operands)
    return Wide(w.b.shuffle(left, right, mask), i.type, own)


def _moved(w: Widener, i: Instruction, left: Value, right: Value) -> Moved | None:
    """Elements of vectors in memory order, or that have been moved before."""
    values = [left, right] if max(i.indices) >= left.type.lanes else [left]
    if not any(isinstance(v, Moved) or (isinstance(v, Wide) and v.group > 1) for v in values):
        return None
    found = [v for v in map(w.b.moved, values) if v is not None]
    return selected(found, i.indices, i.type) if len(found) == len(values) else None


def _taken(w: Widener, value: Value, indices: Sequence[int]) -> Value | None:
    """Some elements of a vector that has no order yet; None for a flat vector."""
    if not isinstance(value, Uniform | Tabled | Lazy) or min(indices) < 0:
        return None
    t = ir.vector(len(indices), value.type.scalar)
    if isinstance(value, Lazy):
        operands = tuple(_taken(w, v, indices) for v in value.operands
                         if v.type.lanes == value.type.lanes)
        found = tuple(v for v in operands if v is not None)
        is_whole = len(found) == len(value.operands)
        return Lazy(value.instruction, found, t, value.size) if is_whole else None
    if isinstance(value, Uniform):
        return Uniform(w.b.shuffle(value.value, None, indices), t)
    rows = np.broadcast_to(value.table, (value.type.lanes, w.lanes))[list(indices)]
    if value.base is None:
        return Tabled(None, rows, t)
    base = w.b.shuffle(value.base, None, indices)
    if value.base.text in w.b.sums:
        number, terms = w.b.sums[value.base.text]
        w.b.sums[base.text] = number, tuple(terms[k] for k in indices)
    return Tabled(base, rows, t)


def shuffle_orders(indices: Sequence[int], group: int, count: int) -> tuple[int, int]:
    """Orders of the operands, of `count` elements, and of the result of a shuffle.

    A shuffle of every other element halves groups; one of whole groups keeps them.
    """
    if group == 1 or count % group:
        return 1, 1
    half = group // 2
    if list(indices) == list(range(indices[0], count, 2)) and len(indices) % half == 0:
        return group, half
    runs = [indices[k : k + group] for k in range(0, len(indices), group)]
    moved = all(run[0] % group == 0 and list(run) == list(range(run[0], run[0] + group))
                for run in runs)
    return (group, group) if moved and len(indices) % group == 0 else (1, 1)


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
        value = Aggregate(tuple(Uniform(ir.poison(f), f) for f in i.type.fields), i.type)
    if len(i.indices) != 1:
        w.fail("a nested struct")
    parts = list(value.parts)
    parts[i.indices[0]] = w.value(i.operands[1])
    w.define(i, Aggregate(tuple(parts), i.type))


def scalarise(
    w: Widener, i: Instruction, emit_lane: Callable[[list[Operand]], Operand]
) -> None:
    """Run one instruction lane by lane; `emit_lane(operands)` emits it and returns its result."""
    results = [
        emit_lane([w.b.lane(w.value(o), lane) for o in i.operands]) for lane in range(w.lanes)
    ]
    if i.result is not None:
        w.define(i, gather_lanes(w, results, i.type))


def gather_lanes(w: Widener, results: list[Operand], t: ir.Type) -> Value:
    """The wide value whose lanes are host scalars."""
    if t.kind == "struct":
        return Aggregate(tuple(
            gather_lanes(w, [w.b.extract_value(r, k) for r in results], field)
            for k, field in enumerate(t.fields)), t)
    if t.lanes != 1:
        w.fail("a vector result computed lane by lane")
    return Wide(w.b.pack(w.b.type_of(t), results), t)


def _unless_known(rule: Rule) -> Rule:
    """Wrap a rule so that completely known results need no code."""
    return lambda w, i: None if define_known(w, i) else rule(w, i)


RULES: dict[str, Rule] = {
    **dict.fromkeys((*BINARY, "icmp", "fcmp", "fneg"), _unless_known(operation)),
    **dict.fromkeys(CASTS, cast),
    "select": _unless_known(select),
    "freeze": freeze,
    "getelementptr": getelementptr,
    "extractelement": _unless_known(extractelement),
    "insertelement": _unless_known(insertelement),
    "shufflevector": _unless_known(shufflevector),
    "extractvalue": extractvalue,
    "insertvalue": insertvalue,
}
