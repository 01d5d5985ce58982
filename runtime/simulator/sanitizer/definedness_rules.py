"""The instructions that `definedness` adds: shadows of DPAS and of shared memory, checks."""

from __future__ import annotations

from dataclasses import replace

from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.definedness import BLOCK, DPAS, ORIGIN, SLM, USE
from triton_xe.runtime.simulator.sanitizer.state import Word, origin_words, slm_shadow_bytes
from triton_xe.runtime.simulator.widen.matrix import block_arguments
from triton_xe.runtime.simulator.widen.values import Uniform, Wide, mask_text, wide_type
from triton_xe.runtime.simulator.widen.widener import Rule, Widener


def _state_word(w: Widener, word: Word) -> str:
    state = w.emit(f"load ptr, ptr {w.at('%ctx', 8 * checks.STATE_WORD)}")
    return w.emit(f"load i64, ptr {w.at(state, 8 * word)}")


def slm_shadow(w: Widener, i: Instruction) -> None:
    """Where the shadow of a place in shared memory is; a place outside wraps around."""
    pointer = w.value(i.operands[0])
    uniform = isinstance(pointer, Uniform)
    text = pointer.text if isinstance(pointer, Uniform) else w.wide(pointer)
    t, p = ("i64", "ptr") if uniform else (f"<{w.lanes} x i64>", f"<{w.lanes} x ptr>")

    def spread(name: str) -> str:
        return name if uniform else w.broadcast(Uniform(name, ir.I64))

    start = spread(w.emit("ptrtoint ptr %slm to i64"))
    most = slm_shadow_bytes(w.context.slm_bytes) - 1
    offset = w.emit(f"sub {t} {w.emit(f'ptrtoint {p} {text} to {t}')}, {start}")
    inside = w.emit(f"and {t} {offset}, {spread(str(most))}")
    moved = w.emit(f"add {t} {inside}, {spread(_state_word(w, Word.SLM_SHADOW))}")
    name = w.emit(f"inttoptr {t} {moved} to {p}")
    w.define(i, Uniform(name, i.type) if uniform else Wide(name, i.type))


def _lane_bits(w: Widener, flat: str, elements: int) -> str:
    """`<elements*S x i1>`, over the elements: an i64 with a bit per lane."""
    s = w.lanes
    parts = [flat] if elements == 1 else [
        w.emit(f"shufflevector <{elements * s} x i1> {flat}, <{elements * s} x i1> poison, "
               f"{mask_text(tuple(range(e * s, e * s + s)))}")
        for e in range(elements)
    ]
    total = parts[0]
    for part in parts[1:]:
        total = w.emit(f"or <{s} x i1> {total}, {part}")
    return w.emit(f"zext i{s} {w.emit(f'bitcast <{s} x i1> {total} to i{s}')} to i64")


def _report(w: Widener, i: Instruction, bad: str) -> None:
    w.note_place(i)
    w.call_helper(checks.UNDEFINED, "void", [
        "ptr %ctx", "i32 %sg", f"i32 {i.line}", f"i64 {bad}", f"i64 {i.extra}"])


def use(w: Widener, i: Instruction) -> None:
    """Undefined bits must not be acted on, in lanes that take part."""
    shadow = i.operands[0]
    flat = wide_type(shadow.type, w.lanes)
    odd = w.wide_of(shadow)
    if shadow.type.scalar != ir.I1:
        odd = w.emit(f"icmp ne {flat} {odd}, zeroinitializer")
    bad = _lane_bits(w, odd, shadow.type.lanes)
    if len(i.operands) > 1:
        active = _lane_bits(w, w.mask(w.value(i.operands[1])), 1)
        bad = w.emit(f"and i64 {bad}, {active}")
    _report(w, i, bad)


def origin(w: Widener, i: Instruction) -> None:
    """Note where a masked load would have read, in the lanes that it leaves undefined."""
    s = w.lanes
    pointer, mask = (w.value(o) for o in i.operands)
    words = origin_words(s)
    row = w.emit(f"add i64 {w.emit('zext i32 %sg to i64')}, "
                 f"{int(i.extra) * w.context.sub_groups}")
    place = w.emit(f"mul i64 {row}, {8 * words}")
    base = w.emit(f"add i64 {place}, {_state_word(w, Word.ORIGINS)}")
    at = w.emit(f"inttoptr i64 {base} to ptr")
    number = w.emit(f"load i64, ptr {w.at('%ctx', 8 * checks.GROUP_WORD)}")
    group = w.emit(f"add i64 {number}, 1")
    here = w.emit(f"icmp eq i64 {w.emit(f'load i64, ptr {at}')}, {group}")
    w.do(f"store i64 {group}, ptr {at}")
    flat = f"<{s} x i64>"
    lanes = w.at(at, 64)
    old = w.emit(f"select i1 {here}, {flat} {w.emit(f'load {flat}, ptr {lanes}, align 64')}, "
                 f"{flat} zeroinitializer")
    address = w.emit(f"ptrtoint <{s} x ptr> {w.wide(pointer)} to {flat}")
    noted = w.emit(f"select <{s} x i1> {w.mask(mask)}, {flat} {old}, {flat} {address}")
    w.do(f"store {flat} {noted}, ptr {lanes}, align 64")


def dpas_shadow(w: Widener, i: Instruction) -> None:
    """Row m of A, and column n of B in lane n, make element m of lane n undefined."""
    s, rows = w.lanes, i.type.lanes
    accumulator, a, b = i.operands[:3]
    size = a.type.size * s
    repeat = i.operands[6].integer_value() or 1
    row_bytes = size // max(repeat, 1)
    cut = f"<{repeat} x i{8 * row_bytes}>"
    whole = w.emit(f"bitcast {wide_type(a.type, s)} {w.wide_of(a)} to {cut}")
    odd_rows = w.emit(f"icmp ne {cut} {whole}, zeroinitializer")
    spread = tuple(m for m in range(rows) for _ in range(s))
    total = w.emit(f"shufflevector <{repeat} x i1> {odd_rows}, <{repeat} x i1> poison, "
                   f"{mask_text(spread)}")
    columns = [w.wide(p) for p in w.parts(w.value(b))]
    word = f"<{s} x {b.type.scalar.text}>"
    column = columns[0]
    for other in columns[1:]:
        column = w.emit(f"or {word} {column}, {other}")
    odd = w.repeat(w.emit(f"icmp ne {word} {column}, zeroinitializer"), "i1", rows)
    total = w.emit(f"or <{rows * s} x i1> {total}, {odd}")
    flat = wide_type(i.type, s)
    before = w.emit(f"icmp ne {flat} {w.wide_of(accumulator)}, zeroinitializer")
    total = w.emit(f"or <{rows * s} x i1> {total}, {before}")
    w.define(i, Wide(w.emit(f"sext <{rows * s} x i1> {total} to {flat}"), i.type))


def block_store(w: Widener, i: Instruction) -> None:
    """Only the part of a 2D block inside its surface is stored."""
    a = block_arguments(w, replace(i, callee=i.attributes))
    _, width, height, _, x, y = a.surface
    shadow = i.operands[-1]
    count = a.tile_width * a.tile_height
    image, flat = wide_type(shadow.type, w.lanes), f"<{count} x i{a.bits}>"
    cells = w.emit(f"bitcast {image} {w.wide_of(shadow)} to {flat}")
    inside = "splat (i1 true)"
    for start, last, unit, steps in (
        (x, width, a.bits // 8, [k % a.tile_width for k in range(count)]),
        (y, height, 1, [k // a.tile_width for k in range(count)]),
    ):
        wide = f"<{count} x i32>"
        first = w.emit(f"insertelement {wide} poison, i32 {start}, i32 0")
        first = w.emit(f"shufflevector {wide} {first}, {wide} poison, {wide} zeroinitializer")
        items = ", ".join(f"i32 {k}" for k in steps)
        place = w.emit(f"mul {wide} {w.emit(f'add {wide} {first}, <{items}>')}, splat (i32 {unit})")
        end = w.emit(f"insertelement {wide} poison, i32 {last}, i32 0")
        end = w.emit(f"shufflevector {wide} {end}, {wide} poison, {wide} zeroinitializer")
        fits = w.emit(f"icmp ule {wide} {place}, {end}")
        inside = w.emit(f"and <{count} x i1> {inside}, {fits}")
    kept = w.emit(f"select <{count} x i1> {inside}, {flat} {cells}, {flat} zeroinitializer")
    stored = w.emit(f"bitcast {flat} {kept} to {image}")
    odd = w.emit(f"icmp ne {image} {stored}, zeroinitializer")
    _report(w, i, _lane_bits(w, odd, shadow.type.lanes))


RULES: dict[str, Rule] = {
    SLM: slm_shadow,
    USE: use,
    ORIGIN: origin,
    DPAS: dpas_shadow,
    BLOCK: block_store,
}

__all__ = ["RULES"]
