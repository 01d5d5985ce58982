"""Shuffles, broadcasts, votes, reductions and scans over the lanes of a subgroup."""

from __future__ import annotations

import re

from triton_xe.runtime.simulator.ir import Instruction, Operand, Type
from triton_xe.runtime.simulator.widen.values import Uniform, Value, Wide, mask_text
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

GENX = "llvm.genx.GenISA."
# IGC's WaveOps
_WAVE_CODES = dict(enumerate(
    ("add", "mul", "umin", "umax", "smin", "smax", "or", "xor", "and", "fadd", "fmul",
     "fmin", "fmax")
))


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


def _op(w: Widener, operand: Operand) -> str:
    code = operand.integer_value()
    if code not in _WAVE_CODES:
        w.fail(f"unknown wave operation {code}")
    return _WAVE_CODES[code]


def wave_all(w: Widener, i: Instruction) -> None:
    reduce(w, i, i.operands[0], _op(w, i.operands[1]))


def wave_prefix(w: Widener, i: Instruction) -> None:
    inclusive = bool(i.operands[2].integer_value())
    scan(w, i, i.operands[0], _op(w, i.operands[1]), inclusive)


def _steps(first: int, last: int) -> list[int]:
    found = []
    while first < last:
        found.append(first)
        first *= 2
    return found


def wave_clustered(w: Widener, i: Instruction) -> None:
    size = i.operands[2].integer_value() or 0
    butterfly(w, i, i.operands[0], _op(w, i.operands[1]), _steps(1, size))


def wave_interleave(w: Widener, i: Instruction) -> None:
    size = i.operands[2].integer_value() or 0
    butterfly(w, i, i.operands[0], _op(w, i.operands[1]), _steps(size, w.lanes))


_GROUP = re.compile(r"_Z\d+__spirv_Group(NonUniform)?([FISU])(Add|Mul|Min|Max)")
_REDUCE = re.compile(r"_Z\d+sub_group_(reduce|scan_inclusive|scan_exclusive)_(add|min|max)(\w)")


def spirv_group(w: Widener, i: Instruction) -> None:
    found = _GROUP.match(i.callee)
    if found is None:
        w.fail(f"unknown function {i.callee}")
    kind, action = found.group(2), found.group(3).lower()
    op = ("f" if kind == "F" else "") + action if action in ("add", "mul") else (
        kind.lower().replace("i", "s") + action
    )
    operation = i.operands[1].integer_value()
    if operation == 3:
        butterfly(w, i, i.operands[2], op, _steps(1, i.operands[3].integer_value() or 1))
    elif operation == 0:
        reduce(w, i, i.operands[2], op)
    else:
        scan(w, i, i.operands[2], op, operation == 1)


def sub_group_reduce(w: Widener, i: Instruction) -> None:
    found = _REDUCE.match(i.callee)
    if found is None:
        w.fail(f"unknown function {i.callee}")
    letter, action = found.group(3), found.group(2)
    kind = "f" if letter in "fdDh" else "u" if letter in "jmth" else "s"
    op = action if action == "add" and kind != "f" else kind + action
    if found.group(1) == "reduce":
        reduce(w, i, i.operands[0], op)
    else:
        scan(w, i, i.operands[0], op, "inclusive" in found.group(1))


# --- moves ----------------------------------------------------------------------------------------


def shuffle(w: Widener, i: Instruction, index: Value) -> None:
    """result[lane] = value[index[lane] mod S]; a constant index is one host shuffle."""
    from triton_xe.runtime.simulator.widen.values import Pieces, Tabled

    value, s = w.value(i.operands[_value_position(i)]), w.lanes
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


def _value_position(i: Instruction) -> int:
    return 1 if "__spirv_Group" in i.callee else 0


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
    shuffle(w, i, w.value(i.operands[_value_position(i) + 1]))


def _relative(operation: str) -> Rule:
    """Index = lane `operation` operand: xor, add (down, rotate), sub (up)."""

    def rule(w: Widener, i: Instruction) -> None:
        import numpy as np

        from triton_xe.runtime.simulator.analysis.shapes import fold_binary
        from triton_xe.runtime.simulator.ir import I32
        from triton_xe.runtime.simulator.widen.values import Tabled

        operand = i.operands[_value_position(i) + 1]
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
    bits = w.emit(f"bitcast <{s} x i1> {w.mask(w.value(i.operands[0]))} to i{s}")
    if s < i.type.bits:
        bits = w.emit(f"zext i{s} {bits} to {i.type.text}")
    w.define(i, Uniform(bits, i.type))


def _vote(every: bool) -> Rule:
    def rule(w: Widener, i: Instruction) -> None:
        operand = i.operands[-1]
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


SUBGROUP_RULES: tuple[tuple[str, Rule], ...] = (
    (GENX + "WaveShuffleIndex", shuffle_index),
    (GENX + "simdShuffleXor", _relative("xor")),
    (GENX + "WaveAll", wave_all),
    (GENX + "WavePrefix", wave_prefix),
    (GENX + "WaveClustered", wave_clustered),
    (GENX + "WaveInterleave", wave_interleave),
    (GENX + "WaveBallot", ballot),
    ("_Z21sub_group_shuffle_xor", _relative("xor")),
    ("_Z22sub_group_shuffle_down", _relative("add")),
    ("_Z20sub_group_shuffle_up", _relative("sub")),
    ("_Z16sub_group_rotate", _relative("add")),
    ("_Z17sub_group_shuffle", shuffle_index),
    ("_Z19sub_group_broadcast", shuffle_index),
    ("_Z22__spirv_GroupBroadcast", shuffle_index),
    ("_Z33__spirv_GroupNonUniformShuffleXor", _relative("xor")),
    ("_Z32__spirv_GroupNonUniformShuffleUp", _relative("sub")),
    ("_Z34__spirv_GroupNonUniformShuffleDown", _relative("add")),
    ("_Z32__spirv_GroupNonUniformRotateKHR", _relative("add")),
    ("_Z30__spirv_GroupNonUniformShuffle", shuffle_index),
    ("_Z29__spirv_GroupNonUniformBallot", ballot),
    ("_Z13sub_group_any", _vote(False)),
    ("_Z13sub_group_all", _vote(True)),
    ("_Z16__spirv_GroupAny", _vote(False)),
    ("_Z16__spirv_GroupAll", _vote(True)),
    ("_Z20sub_group_reduce_", sub_group_reduce),
    ("_Z28sub_group_scan_", sub_group_reduce),
    ("_Z17__spirv_Group", spirv_group),
    ("_Z27__spirv_GroupNonUniform", spirv_group),
)
