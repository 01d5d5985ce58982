"""Shuffles, broadcasts, votes, reductions and scans over the lanes of a subgroup."""

from __future__ import annotations

from collections.abc import Callable

from triton_xe.intrinsics import find, genisa, spirv
from triton_xe.intrinsics.definitions import subgroup as definitions
from triton_xe.intrinsics.mangling import builtin_name
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.ir import Instruction, Operand, Type
from triton_xe.runtime.simulator.widen.values import Uniform, Value, Wide, mask_text
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def combine(w: Widener, op: str, vector: str, a: str, b: str) -> str:
    """`a op b` on host vectors of type `vector`."""
    if op in ("add", "mul", "or", "xor", "and", "fadd", "fmul"):
        return w.emit(f"{op} {vector} {a}, {b}")
    name = {"fmin": "minnum", "fmax": "maxnum"}.get(op, op)
    count, element = vector.strip("<>").split(" x ")
    suffix = {"float": "f32", "half": "f16", "double": "f64"}.get(element, element)
    full = f"llvm.{name}.v{count}{suffix}"
    return w.intrinsic(f"{vector} @{full}({vector}, {vector})",
                       f"{vector} @{full}({vector} {a}, {vector} {b})")


def identity(op: str, t: Type) -> str:
    """The neutral element."""
    bits = t.bits
    if t.kind == "float":
        infinity = {16: "0xH7C00", 32: "0x7FF0000000000000", 64: "0x7FF0000000000000"}[bits]
        negative = {16: "0xHFC00", 32: "0xFFF0000000000000", 64: "0xFFF0000000000000"}[bits]
        return {"fadd": "-0.0", "fmul": "1.0", "fmin": infinity, "fmax": negative}[op]
    return str({
        "add": 0, "or": 0, "xor": 0, "umax": 0, "mul": 1, "and": -1, "umin": -1,
        "smin": (1 << (bits - 1)) - 1, "smax": -(1 << (bits - 1)),
    }[op])


def _permuted(w: Widener, text: str, t: Type, order: tuple[int, ...]) -> str:
    flat = f"<{w.lanes} x {t.text}>"
    return w.emit(f"shufflevector {flat} {text}, {flat} poison, {mask_text(order)}")


def reduce_piece(w: Widener, piece: Value, op: str) -> str:
    """All lanes reduced, pairing lane l with l + half at each step."""
    t, width = piece.type, w.lanes
    text = w.wide(piece)
    while width > 1:
        half = width // 2
        whole, part = f"<{width} x {t.text}>", f"<{half} x {t.text}>"
        low = w.emit(f"shufflevector {whole} {text}, {whole} poison, "
                     f"{mask_text(tuple(range(half)))}")
        high = w.emit(f"shufflevector {whole} {text}, {whole} poison, "
                      f"{mask_text(tuple(range(half, width)))}")
        text = combine(w, op, part, low, high)
        width = half
    return w.emit(f"extractelement <1 x {t.text}> {text}, i32 0")


def reduce(w: Widener, i: Instruction, operand: Operand, op: str) -> None:
    value = w.value(operand)
    results = [reduce_piece(w, p, op) for p in w.parts(value)]
    if i.type.lanes == 1:
        w.define(i, Uniform(results[0], i.type))
        return
    text = "poison"
    for k, r in enumerate(results):
        text = w.emit(f"insertelement {i.type.text} {text}, {i.type.scalar.text} {r}, i32 {k}")
    w.define(i, Uniform(text, i.type))


def butterfly(w: Widener, i: Instruction, operand: Operand, op: str, steps: list[int]) -> None:
    """Combine lanes l and l xor step, for each step; every lane gets its group's result."""
    flat_type = f"<{w.lanes} x {i.type.scalar.text}>"
    parts = []
    for piece in w.parts(w.value(operand)):
        text = w.wide(piece)
        for step in steps:
            order = tuple(lane ^ step for lane in range(w.lanes))
            text = combine(w, op, flat_type, text, _permuted(w, text, piece.type, order))
        parts.append(Wide(text, piece.type))
    _define_parts(w, i, parts)


def _define_parts(w: Widener, i: Instruction, parts: list[Wide]) -> None:
    from triton_xe.runtime.simulator.widen.values import Pieces

    w.define(i, parts[0] if i.type.lanes == 1 else Pieces(tuple(parts), i.type))


def scan(w: Widener, i: Instruction, operand: Operand, op: str, inclusive: bool) -> None:
    s = w.lanes
    parts = []
    for piece in w.parts(w.value(operand)):
        t = piece.type
        flat = f"<{s} x {t.text}>"
        neutral = f"splat ({t.text} {identity(op, t)})"

        def shifted(text: str, step: int, flat: str = flat, neutral: str = neutral) -> str:
            order = tuple(s + k if k < step else k - step for k in range(s))
            return w.emit(f"shufflevector {flat} {text}, {flat} {neutral}, {mask_text(order)}")

        text, step = w.wide(piece), 1
        while step < s:
            text = combine(w, op, flat, shifted(text, step), text)
            step *= 2
        parts.append(Wide(text if inclusive else shifted(text, 1), t))
    _define_parts(w, i, parts)


def reduction(w: Widener, i: Instruction) -> None:
    """Any reduction or scan of the table."""
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
    """What the lanes are combined with, in the words of LLVM's `atomicrmw`."""
    known = find(i.callee)
    if not known.is_builtin:
        code = argument(i, "operation").integer_value()
        if code is None or code >= len(genisa.WAVE_OPERATIONS):
            w.fail(f"unknown wave operation {code}")
        return genisa.WAVE_OPERATIONS[code]
    if known.combines not in ("add", "min", "max") or known.has("operation"):
        return known.combines
    letter = (builtin_name(i.callee) or ("", "i"))[1][0]
    kind = "f" if letter in "fdD" else "u" if letter in "jmth" else "s"
    return known.combines if known.combines == "add" and kind != "f" else kind + known.combines


# --- moves ----------------------------------------------------------------------------------------


def shuffle(w: Widener, i: Instruction, index: Value) -> None:
    """result[lane] = value[index[lane] mod S]; a constant index is one host shuffle."""
    from triton_xe.runtime.simulator.widen.values import Pieces, Tabled

    value, s = w.value(argument(i, "value")), w.lanes
    if isinstance(value, Uniform):
        w.define(i, value)
        return
    if isinstance(index, Uniform):
        _broadcast_lane(w, i, value, index)
        return
    parts: list[Value] = []
    if isinstance(index, Tabled) and index.base is None:
        order = tuple(int(k) % s for k in index.table[0])
        parts = [Wide(_permuted(w, w.wide(p), p.type, order), p.type) for p in w.parts(value)]
    else:
        parts = [_dynamic(w, p, w.wide(index), index.type) for p in w.parts(value)]
    w.define(i, parts[0] if i.type.lanes == 1 else Pieces(tuple(parts), i.type))


def _broadcast_lane(w: Widener, i: Instruction, value: Value, index: Uniform) -> None:
    s, t = w.lanes, index.type.text
    lane = w.emit(f"and {t} {index.text}, {s - 1}") if index.text.startswith("%") else str(
        int(index.text) % s
    )
    results = [
        w.emit(f"extractelement <{s} x {p.type.text}> {w.wide(p)}, {t} {lane}")
        for p in w.parts(value)
    ]
    text = results[0]
    if i.type.lanes > 1:
        text = "poison"
        for k, r in enumerate(results):
            text = w.emit(
                f"insertelement {i.type.text} {text}, {i.type.scalar.text} {r}, i32 {k}"
            )
    if w.result_shape(i).wide:
        w.define(i, Wide(w.broadcast(Uniform(text, i.type)), i.type))
    else:
        w.define(i, Uniform(text, i.type))


def _dynamic(w: Widener, piece: Value, index: str, index_type: Type) -> Wide:
    """Through a library function, as an indirect register move."""
    t, s = piece.type, w.lanes
    if index_type.bits != 32:
        op = "trunc" if index_type.bits > 32 else "zext"
        index = w.emit(f"{op} <{s} x {index_type.text}> {index} to <{s} x i32>")
    word = f"i{t.bits if t.kind != 'ptr' else 64}"
    text = w.wide(piece)
    if t.bits == 1:
        text, word = w.emit(f"zext <{s} x i1> {text} to <{s} x i8>"), "i8"
    elif t.kind == "float":
        text = w.emit(f"bitcast <{s} x {t.text}> {text} to <{s} x {word}>")
    elif t.kind == "ptr":
        text = w.emit(f"ptrtoint <{s} x ptr> {text} to <{s} x i64>")
    moved = w.call_helper(f"xe_shuffle_{word}_{s}", f"<{s} x {word}>",
                          [f"<{s} x {word}> {text}", f"<{s} x i32> {index}"])
    if t.bits == 1:
        moved = w.emit(f"trunc <{s} x i8> {moved} to <{s} x i1>")
    elif t.kind == "float":
        moved = w.emit(f"bitcast <{s} x {word}> {moved} to <{s} x {t.text}>")
    elif t.kind == "ptr":
        moved = w.emit(f"inttoptr <{s} x i64> {moved} to <{s} x ptr>")
    return Wide(moved, t)


def shuffle_index(w: Widener, i: Instruction) -> None:
    shuffle(w, i, w.value(argument(i, "index")))


def _relative(operation: str) -> Rule:
    """Index = lane `operation` operand: xor, add (down, rotate), sub (up)."""

    def rule(w: Widener, i: Instruction) -> None:
        import numpy as np

        from triton_xe.runtime.simulator.analysis.shapes import fold_binary
        from triton_xe.runtime.simulator.ir import I32
        from triton_xe.runtime.simulator.widen.values import Tabled

        operand = argument(i, "index")
        lane = np.arange(w.lanes, dtype=np.int64)[None, :]
        amount = operand.integer_value()
        if amount is not None:
            table = fold_binary(operation, lane, np.full_like(lane, amount), I32)
            assert table is not None
            shuffle(w, i, Tabled(None, table & (w.lanes - 1), I32))
            return
        lanes = w.wide(Tabled(None, lane, I32))
        index = w.emit(f"{operation} <{w.lanes} x i32> {lanes}, {w.wide_of(operand)}")
        shuffle(w, i, Wide(index, I32))

    return rule


def ballot(w: Widener, i: Instruction) -> None:
    s = w.lanes
    mask = w.mask(w.value(argument(i, "value")))
    bits = w.emit(f"bitcast <{s} x i1> {mask} to i{s}")
    if s < i.type.bits:
        bits = w.emit(f"zext i{s} {bits} to {i.type.text}")
    w.define(i, Uniform(bits, i.type))


def _vote(every: bool) -> Rule:
    def rule(w: Widener, i: Instruction) -> None:
        operand = argument(i, "value")
        text, s = w.wide_of(operand), w.lanes
        if operand.type.bits != 1:
            flat = f"<{s} x {operand.type.text}>"
            text = w.emit(f"icmp ne {flat} {text}, zeroinitializer")
        bits = w.emit(f"bitcast <{s} x i1> {text} to i{s}")
        result = w.emit(f"icmp {'eq' if every else 'ne'} i{s} {bits}, {-1 if every else 0}")
        if i.type.bits != 1:
            result = w.emit(f"zext i1 {result} to {i.type.text}")
        w.define(i, Uniform(result, i.type))

    return rule


SUBGROUP_RULES: dict[Callable[..., object] | None, Rule] = {
    definitions.shuffle_index: shuffle_index,
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
