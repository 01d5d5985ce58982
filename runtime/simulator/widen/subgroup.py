"""Widen shuffles, broadcasts, votes, reductions and scans over the lanes of a subgroup."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from triton_xe.intrinsics import find, genisa, spirv
from triton_xe.intrinsics.definitions import subgroup as definitions
from triton_xe.intrinsics.mangling import is_unsigned
from triton_xe.llvm.records import Instruction, Operand, constant, splat
from triton_xe.llvm.types import F32, I8, I32, Type, integer, vector
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.analysis.shapes import fold_binary
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.widen.values import Tabled, Uniform, Value, Wide, slice_mask
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def combine(w: Widener, op: str, a: Operand, b: Operand) -> Operand:
    """Emit `a op b` on host vectors."""
    if op in ("add", "mul", "or", "xor", "and", "fadd", "fmul"):
        return w.b.binary(op, a, b)
    if op in ("fmin", "fmax"):
        return extreme(w, f"{op[1:]}num", a, b)
    return w.b.intrinsic(op, a, b)


def extreme(w: Widener, name: str, a: Operand, b: Operand) -> Operand:
    """Emit minnum or maxnum; in functions with fp16, by comparisons.

    Otherwise LLVM narrows it to fp16 if operands were converted from fp16, which hosts compute
    element by element.
    """
    if a.type.scalar is not F32 or not w.source.has_half:
        return w.b.intrinsic(name, a, b)
    further = w.b.fcmp("ogt" if name == "maxnum" else "olt", b, a)
    return w.b.select(w.b.fcmp("uno", a, a), b, w.b.select(further, b, a))


def _identity(op: str, t: Type) -> Operand:
    """The neutral element."""
    return constant(t, {
        "fadd": -0.0, "fmul": 1.0, "fmin": math.inf, "fmax": -math.inf,
        "add": 0, "or": 0, "xor": 0, "umax": 0, "mul": 1, "and": -1, "umin": -1,
        "smin": (1 << (t.bits - 1)) - 1, "smax": -(1 << (t.bits - 1)),
    }[op])


def reduce_piece(w: Widener, piece: Value, op: str) -> Operand:
    """Reduce all lanes: each step combines lane l with lane l + half, and halves the width."""
    x, width = w.b.wide(piece), w.lanes
    while width > 1:
        half = width // 2
        low, high = (w.b.shuffle(x, None, slice_mask(k, half)) for k in (0, half))
        x = combine(w, op, low, high)
        width = half
    return w.b.extract(x, 0)


def reduce(w: Widener, i: Instruction, operand: Operand, op: str) -> None:
    w.define_scalars(i, [reduce_piece(w, p, op) for p in w.b.parts(w.value(operand))])


def butterfly(w: Widener, i: Instruction, operand: Operand, op: str, steps: list[int]) -> None:
    """Combine lanes l and l xor step, for each step; every lane gets its group's result."""
    parts = []
    for piece in w.b.parts(w.value(operand)):
        x = w.b.wide(piece)
        for step in steps:
            moved = w.b.shuffle(x, None, [lane ^ step for lane in range(w.lanes)])
            x = combine(w, op, x, moved)
        parts.append(Wide(x, piece.type))
    w.define_parts(i, parts)


def scan(w: Widener, i: Instruction, operand: Operand, op: str, inclusive: bool) -> None:
    """Combine lanes in the order of Intel's compiler: halves of blocks of 2, 4, 8, ... lanes.

    Lanes of the later half combine with the last lane of the earlier half; others keep their value.
    """
    s = w.lanes
    parts = []
    for piece in w.b.parts(w.value(operand)):
        x, step = w.b.wide(piece), 1
        while step < s:
            last = w.b.shuffle(x, None, [k & -2 * step | step - 1 for k in range(s)])
            later = combine(w, op, last, x)
            x = w.b.shuffle(later, x, [k if k & step else s + k for k in range(s)])
            step *= 2
        if not inclusive:
            neutral = splat(_identity(op, piece.type), s)
            x = w.b.shuffle(x, neutral, [k - 1 if k else s for k in range(s)])
        parts.append(Wide(x, piece.type))
    w.define_parts(i, parts)


def reduction(w: Widener, i: Instruction) -> None:
    """Widen a reduction or scan by its definition."""
    known, operand, op = find(i.callee), argument(i, "value"), _operation(w, i)
    form = known.definition
    if form is definitions.group_operation:
        form = _GROUP_FORMS[argument(i, "operation").integer_value() or spirv.REDUCE]
    if form is definitions.reduce:
        reduce(w, i, operand, op)
    elif form in (definitions.clustered, definitions.interleaved):
        size = argument(i, "size").integer_value() or 1
        first, last = (1, size) if form is definitions.clustered else (size, w.lanes)
        butterfly(w, i, operand, op, [first << k for k in range((last // first).bit_length() - 1)])
    elif known.has("inclusive"):
        scan(w, i, operand, op, bool(argument(i, "inclusive").integer_value()))
    else:
        scan(w, i, operand, op, form is definitions.scan)


_GROUP_FORMS: dict[int, Callable[..., object]] = {
    spirv.REDUCE: definitions.reduce, spirv.INCLUSIVE_SCAN: definitions.scan,
    spirv.EXCLUSIVE_SCAN: definitions.exclusive_scan,
    spirv.CLUSTERED_REDUCE: definitions.clustered,
}


def _operation(w: Widener, i: Instruction) -> str:
    """Operation that combines the lanes, in the words of LLVM's `atomicrmw`."""
    known = find(i.callee)
    if not known.is_builtin:
        code = argument(i, "operation").integer_value()
        if code is None or code >= len(genisa.WAVE_OPERATIONS):
            w.fail(f"unknown wave operation {code}")
        return genisa.WAVE_OPERATIONS[code]
    if known.combines not in ("add", "min", "max") or known.has("operation"):
        return known.combines
    kind = "f" if i.type.scalar.kind == "float" else "u" if is_unsigned(i.callee) else "s"
    return known.combines if known.combines == "add" and kind != "f" else kind + known.combines


# --- moves ----------------------------------------------------------------------------------------


def shuffle(w: Widener, i: Instruction, index: Value) -> None:
    """result[lane] = value[index[lane] mod S]; a constant index is one host shuffle."""
    value, s = w.value(argument(i, "value")), w.lanes
    if isinstance(value, Uniform):
        w.define(i, value)
    elif isinstance(index, Uniform):
        _broadcast_lane(w, i, value, index.value)
    elif isinstance(index, Tabled) and index.base is None:
        order = [int(k) % s for k in index.table[0]]
        w.define_parts(i, [
            Wide(w.b.shuffle(w.b.wide(p), None, order), p.type) for p in w.b.parts(value)])
    else:
        w.define_parts(i, [_dynamic(w, p, w.b.wide(index)) for p in w.b.parts(value)])


def _broadcast_lane(w: Widener, i: Instruction, value: Value, index: Operand) -> None:
    """Broadcast the value of one lane; its number is taken modulo the number of lanes."""
    known = index.integer_value()
    lane = w.b.and_(index, w.lanes - 1) if known is None else constant(
        index.type, known % w.lanes)
    results = [w.b.extract(w.b.wide(p), lane) for p in w.b.parts(value)]
    x = results[0] if i.type.lanes == 1 else w.b.pack(i.type, results)
    if w.result_shape(i).wide:
        w.define_wide(i, w.b.wide(Uniform(x, i.type)))
    else:
        w.define_uniform(i, x)


def _dynamic(w: Widener, piece: Value, index: Operand) -> Wide:
    """Shuffle by an index that is not constant, through a library function."""
    t, s, b = piece.type, w.lanes, w.b
    if index.type.scalar.bits != 32:
        index = b.cast("trunc" if index.type.scalar.bits > 32 else "zext", index, I32)
    to, back = {"ptr": ("ptrtoint", "inttoptr"), "float": ("bitcast", "bitcast")}.get(
        t.kind, ("zext", "trunc") if t.bits == 1 else ("", ""))
    word = vector(s, I8 if t.bits == 1 else integer(t.bits))
    x = w.b.wide(piece)
    moved = w.b.call(symbol("shuffle", word.scalar.bits, s), word,
                          [b.cast(to, x, word) if to else x, index])
    return Wide(b.cast(back, moved, vector(s, t)) if back else moved, t)


def shuffle_index(w: Widener, i: Instruction) -> None:
    shuffle(w, i, w.value(argument(i, "index")))


def clustered_broadcast(w: Widener, i: Instruction) -> None:
    size, index = (argument(i, name).integer_value() for name in ("size", "index"))
    assert size is not None
    assert index is not None
    table = np.arange(w.lanes, dtype=np.int64)[None, :] & -size | index
    shuffle(w, i, Tabled(None, table, I32))


def _relative(operation: str) -> Rule:
    """Rule for shuffles whose index is lane `operation` operand: xor, add (down), sub (up)."""

    def rule(w: Widener, i: Instruction) -> None:
        operand = argument(i, "index")
        lane = np.arange(w.lanes, dtype=np.int64)[None, :]
        amount = operand.integer_value()
        if amount is not None:
            table = fold_binary(operation, lane, np.full_like(lane, amount), I32)
            assert table is not None
            shuffle(w, i, Tabled(None, table & (w.lanes - 1), I32))
            return
        lanes = w.b.wide(Tabled(None, lane, I32))
        shuffle(w, i, Wide(w.b.binary(operation, lanes, w.wide_of(operand)), I32))

    return rule


def ballot(w: Widener, i: Instruction) -> None:
    bits = w.b.lane_bits(w.b.mask(w.value(argument(i, "value"))))
    w.define_uniform(i, w.b.zext(bits, i.type) if w.lanes < i.type.bits else bits)


def _vote(every: bool) -> Rule:
    """Rule for `all` (`every`) and `any`."""
    def rule(w: Widener, i: Instruction) -> None:
        x = w.wide_of(argument(i, "value"))
        if x.type.scalar.bits != 1:
            x = w.b.icmp("ne", x, 0)
        bits = w.b.lane_bits(x)
        result = w.b.icmp("eq", bits, -1) if every else w.b.icmp("ne", bits, 0)
        w.define_uniform(i, result if i.type.bits == 1 else w.b.zext(result, i.type))

    return rule


SUBGROUP_RULES: dict[Callable[..., object] | None, Rule] = {
    definitions.shuffle_index: shuffle_index,
    definitions.clustered_broadcast: clustered_broadcast,
    definitions.shuffle_xor: _relative("xor"),
    definitions.shuffle_up: _relative("sub"),
    definitions.shuffle_down: _relative("add"),
    definitions.reduce: reduction,
    definitions.scan: reduction,
    definitions.exclusive_scan: reduction,
    definitions.clustered: reduction,
    definitions.interleaved: reduction,
    definitions.group_operation: reduction,
    definitions.ballot: ballot,
    definitions.vote_any: _vote(False),
    definitions.vote_all: _vote(True),
}
