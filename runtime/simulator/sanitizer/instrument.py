"""Instrumentation of the sanitizer: a check before every access, an access only where it passed.

A refused access goes to a scratch page, and the launch stops after the work-group: the kernel
itself needs no way out.  The checks are in `library_sanitizer`, the launch's side in `shadow`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from triton_xe.intrinsics import Family, find
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.analysis.provenance import NOWHERE, Roots, pointer_roots
from triton_xe.runtime.simulator.ir import Function, Instruction, Operand, Type
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.definedness import Undefined
from triton_xe.runtime.simulator.sanitizer.records import READS, WRITES
from triton_xe.runtime.simulator.sanitizer.state import Kind, Order, Word
from triton_xe.runtime.simulator.trace.messages import traced_access
from triton_xe.runtime.simulator.widen.values import Tabled, Uniform, Value, Wide, wide_type

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.trace.tracing import Site
    from triton_xe.runtime.simulator.widen.matrix import BlockArguments
    from triton_xe.runtime.simulator.widen.widener import Widener

SEARCHED = -1
ATOMIC_HELPER = "__xe_lane_atomic_"
"""Name of the helpers whose first operand is the address of an atomic."""
DEVICE_SCOPE, WORK_GROUP_SCOPE = 1, 2
"""Of SPIR-V; lower ones are wider."""


@dataclass
class Instrumentation:
    """What the checks of one kernel need to know, and what its launches must."""

    finite: bool = False
    """Also report the first infinity or NaN."""
    trace: bool = False
    """Note the messages instead of checking them; see `tracing`."""
    sites: dict[int, Site] = field(default_factory=dict)
    """What was noted, by line of the LLVM module."""
    roots: dict[str, dict[str, Roots]] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    """Arguments whose blocks the kernel may write."""
    writes_anywhere: bool = False
    releases: bool = True
    """Whether any fence or atomic of the kernel releases; else its atomics order nothing."""
    synchronises: bool = False
    """Whether the kernel has atomics on global memory, and releases."""
    undefined: Undefined = field(default_factory=Undefined)

    def entry(self, function: Function, pointer: Operand) -> int:
        """The one argument an address comes from, or `SEARCHED`."""
        known = self.roots.setdefault(function.name, {})
        if not known:
            known.update(pointer_roots(function))
        roots = known.get(pointer.local or "", NOWHERE)
        return next(iter(roots)) if len(roots) == 1 else SEARCHED

    def note_write(self, function: Function, pointer: Operand) -> None:
        roots = self.roots.get(function.name, {}).get(pointer.local or "", NOWHERE)
        self.written |= roots
        self.writes_anywhere |= not roots


def checking(w: Widener) -> bool:
    return w.context.sanitizer is not None and not w.context.sanitizer.trace


def guarded(
    w: Widener, i: Instruction, position: int, t: Type, mask: Value | None, kind: int,
    align: int = 0,
) -> Instruction:
    """The instruction with its address replaced by one that is safe; itself when not sanitizing."""
    plan = w.context.sanitizer
    operand = i.operands[position]
    if plan is None or operand.type.space == 0:
        return i
    pointer = w.value(operand)
    if plan.trace:
        traced_access(w, i, pointer, operand.type.space == 3, t, mask, kind)
        return i
    if operand.type.space == 3:
        kind, entry = kind | Kind.SLM, SEARCHED
    else:
        entry = plan.entry(w.function, operand)
        if isinstance(pointer, Uniform) and kind == 0:
            kind = Kind.SCALAR
        if kind & Kind.WRITE:
            plan.note_write(w.function, operand)
    w.note_place(i)
    text = str(kind | (align or t.scalar.size) << 8)
    if operand.type.space == 3 and kind & Kind.WRITE and not kind & Kind.ATOMIC and position:
        text = _with_same(w, text, pointer, w.value(i.operands[0]), mask)
    safe = _checked(w, i, pointer, entry, t, mask, text)
    name = f"%xe.safe{w.count}"
    w.count += 1
    w.values[name] = safe
    operands = list(i.operands)
    operands[position] = Operand(operand.type, name)
    return replace(i, operands=operands)


def _head(w: Widener, line: int) -> list[str]:
    return ["ptr %ctx", "i32 %sg", f"i32 {line}"]


def scratch(w: Widener) -> str:
    """A page where refused accesses go."""
    state = w.emit(f"load ptr, ptr {w.at('%ctx', 8 * checks.STATE_WORD)}")
    return w.emit(f"load ptr, ptr {w.at(state, 8 * Word.SCRATCH)}")


def _with_same(w: Widener, kind: str, pointer: Value, value: Value, mask: Value | None) -> str:
    """The kind of a store to shared memory, told when it changes nothing there."""
    t = value.type
    if w.context.slm_bytes < t.size or t.scalar.bits == 1:
        return kind
    if isinstance(pointer, Uniform):
        same = _same_for_all(w, pointer, value)
    else:
        same = _same_in_lanes(w, pointer, value, mask)
    return w.emit(f"select i1 {same}, i64 {int(kind) | Kind.SAME}, i64 {kind}")


def _same_for_all(w: Widener, pointer: Uniform, value: Value) -> str:
    """Whether one place holds what the last lane will store there."""
    t = value.type
    start = w.emit("ptrtoint ptr %slm to i64")
    offset = w.emit(f"sub i64 {w.emit(f'ptrtoint ptr {pointer.text} to i64')}, {start}")
    inside = w.emit(f"icmp ule i64 {offset}, {w.context.slm_bytes - t.size}")
    near = w.emit(f"select i1 {inside}, ptr {pointer.text}, ptr {scratch(w)}")
    word = f"i{8 * t.size}"
    old = w.emit(f"load {word}, ptr {near}, align 1")
    opcode = "ptrtoint" if t.kind == "ptr" else "bitcast"
    new = w.emit(f"{opcode} {t.text} {w.lane(value, w.lanes - 1)} to {word}")
    return w.emit(f"icmp eq {word} {old}, {new}")


def _same_in_lanes(w: Widener, pointer: Value, value: Value, mask: Value | None) -> str:
    """Whether the places of all active lanes hold what the lanes will store there."""
    from triton_xe.runtime.simulator.widen.memory import load_value

    t, s = value.type, w.lanes
    whole = ir.like(t.lanes, ir.integer(t.scalar.size * 8))
    start = w.broadcast(Uniform(w.emit("ptrtoint ptr %slm to i64"), ir.I64))
    wide, flat, count = w.wide(pointer), wide_type(whole, s), whole.lanes * s
    places = w.emit(f"ptrtoint <{s} x ptr> {wide} to <{s} x i64>")
    offsets = w.emit(f"sub <{s} x i64> {places}, {start}")
    most = w.context.slm_bytes - t.size
    fits = w.emit(f"icmp ule <{s} x i64> {offsets}, splat (i64 {most})")
    spread = w.broadcast(Uniform(scratch(w), pointer.type))
    near = w.emit(f"select <{s} x i1> {fits}, <{s} x ptr> {wide}, <{s} x ptr> {spread}")
    old, new = w.wide(load_value(w, Wide(near, pointer.type), whole, None, None)), w.wide(value)
    if whole.text != t.text:
        opcode = "ptrtoint" if t.scalar.kind == "ptr" else "bitcast"
        new = w.emit(f"{opcode} {wide_type(t, s)} {new} to {flat}")
    same = w.emit(f"icmp eq {flat} {old}, {new}")
    if mask is not None:
        idle = w.emit(f"xor <{s} x i1> {w.mask(mask)}, splat (i1 true)")
        idle = w.repeat(idle, "i1", whole.lanes) if whole.lanes > 1 else idle
        same = w.emit(f"or <{count} x i1> {same}, {idle}")
    return w.emit(f"icmp eq i{count} {w.emit(f'bitcast <{count} x i1> {same} to i{count}')}, -1")


def _checked(
    w: Widener, i: Instruction, pointer: Value, entry: int, t: Type, mask: Value | None, kind: str
) -> Value:
    if isinstance(pointer, Uniform):
        active = "true"
        if isinstance(mask, Uniform):
            active = mask.text
        elif mask is not None:
            from triton_xe.runtime.simulator.widen.memory import any_lane

            active = any_lane(w, w.mask(mask))
        address = w.emit(f"ptrtoint ptr {pointer.text} to i64")
        fine = check_one(w, i.line, entry, address, t.size, kind, active)
        return Uniform(w.emit(f"select i1 {fine}, ptr {pointer.text}, ptr {scratch(w)}"),
                       pointer.type)
    s = w.lanes
    lanes = "splat (i1 true)" if mask is None else w.mask(mask)
    wide = w.wide(pointer)
    addresses = w.emit(f"ptrtoint <{s} x ptr> {wide} to <{s} x i64>")
    fine = w.call_helper(checks.check_lanes_name(s), "i1", [
        *_head(w, i.line), f"i64 {entry}", f"<{s} x i64> {addresses}", f"i64 {t.size}",
        f"i64 {kind}", f"<{s} x i1> {lanes}"])
    from triton_xe.runtime.simulator.widen.memory import contiguous_start

    start = contiguous_start(pointer, t.size)
    if start is not None:
        base = w.emit(f"select i1 {fine}, ptr {w.at(*start)}, ptr {scratch(w)}")
        row = np.arange(s, dtype=np.int64)[None, :] * t.size
        return Tabled(base, row, pointer.type)
    spread = w.broadcast(Uniform(scratch(w), pointer.type))
    return Wide(w.emit(f"select i1 {fine}, <{s} x ptr> {wide}, <{s} x ptr> {spread}"),
                pointer.type)


def check_one(
    w: Widener, line: int, entry: int, address: str, nbytes: int, kind: str, active: str = "true"
) -> str:
    return w.call_helper(checks.CHECK_ONE, "i1", [
        *_head(w, line), "i32 -1", f"i64 {entry}", f"i64 {address}", f"i64 {nbytes}",
        f"i64 {kind}", f"i1 {active}"])


def guarded_range(
    w: Widener, i: Instruction, position: int, nbytes: int, kind: int, align: int
) -> str:
    """The uniform address of a block of bytes, made safe."""
    block = ir.vector(nbytes, ir.I8)
    return w.uniform(guarded(w, i, position, block, None, kind, align).operands[position])


def guarded_surface(
    w: Widener, i: Instruction, arguments: BlockArguments, kind: int
) -> BlockArguments:
    """The same 2D block, moved out of its surface where it would touch foreign memory."""
    plan = w.context.sanitizer
    if plan is None:
        return arguments
    base, w1, h1, p1, x, y = arguments.surface
    if plan.trace:
        return arguments
    entry = plan.entry(w.function, i.operands[0])
    if kind & Kind.WRITE:
        plan.note_write(w.function, i.operands[0])
    element = arguments.bits // 8
    row_bytes = element * arguments.tile_width * arguments.blocks
    fine = w.call_helper(checks.CHECK_BLOCK, "i1", [
        *_head(w, i.line), f"i64 {entry}", f"i64 {base}", f"i32 {w1}", f"i32 {h1}", f"i32 {p1}",
        f"i32 {x}", f"i32 {y}", f"i64 {row_bytes}", f"i64 {arguments.tile_height}",
        f"i64 {element}", f"i64 {kind | 1 << 8}"])
    state = w.emit(f"load ptr, ptr {w.at('%ctx', 8 * checks.STATE_WORD)}")
    at = w.at(state, 8 * Word.SUBGROUP)
    clean = w.emit(f"icmp eq i64 {w.emit(f'load i64, ptr {w.error_pointer()}')}, 0")
    first = w.emit(f"load i64, ptr {at}")
    warp = w.emit(f"select i1 {clean}, i64 {w.emit('zext i32 %sg to i64')}, i64 {first}")
    w.do(f"store i64 {warp}, ptr {at}")
    moved = w.emit(f"select i1 {fine}, i32 {y}, i32 -1000000")
    return replace(arguments, surface=(base, w1, h1, p1, x, moved))


def fence(w: Widener, i: Instruction) -> None:
    """A fence of the kernel; one whose semantics are not known has all."""
    if checking(w):
        scope, semantics = (_integer(i, name) for name in ("scope", "semantics"))
        if semantics is None:
            scope, semantics = None, int(Order.FULL)
        told = DEVICE_SCOPE if scope is None else scope
        w.call_helper(checks.FENCE, "void", [
            "ptr %ctx", "i32 %sg", f"i32 {told}", f"i32 {semantics}"])


def _integer(i: Instruction, name: str) -> int | None:
    """The value of a constant argument; None where the callee has no such argument, too."""
    return argument(i, name).integer_value() if find(i.callee).has(name) else None


def note_site(w: Widener, i: Instruction) -> None:
    """The instruction that calls a lane helper, for the reports of accesses in it."""
    if checking(w):
        w.note_place(i)
        state = w.emit(f"load ptr, ptr {w.at('%ctx', 8 * checks.STATE_WORD)}")
        w.do(f"store i32 {i.line}, ptr {w.at(state, 8 * Word.SITE)}")
        w.do(f"store i64 {_lane_entry(w, i)}, ptr {w.at(state, 8 * Word.ENTRY)}")


def _lane_entry(w: Widener, i: Instruction) -> int:
    """The argument that the address of an atomic comes from, as `Instrumentation.entry`."""
    plan = w.context.sanitizer
    if plan is None or not i.callee.startswith(ATOMIC_HELPER):
        return SEARCHED
    entry = plan.entry(w.function, i.operands[0])
    plan.note_write(w.function, i.operands[0])
    return entry


def after_barrier(w: Widener, i: Instruction) -> None:
    """A barrier orders the memory its semantics name, and what was fenced before it."""
    if not checking(w):
        return
    flags = _integer(i, "flags") or 0
    semantics = _integer(i, "semantics") or (256 * (flags & 1) | 512 * (flags >> 1 & 1))
    w.call_helper(checks.BARRIER, "void", ["ptr %ctx", "i32 %sg", f"i32 {semantics}"])


def synchronises(w: Widener, i: Instruction, pointer: str, what: int | str) -> None:
    """An atomic of one lane; the builtins have scope and semantics as second and third operand.

    `what` are bits of `library_sanitizer_sync`: whether it reads and writes.
    """
    plan = w.context.sanitizer
    if plan is None or plan.trace or i.operands[0].type.space == 3 or local_scope(i):
        return
    if not plan.releases:
        return
    plan.synchronises = True
    told = _integer(i, "semantics")
    semantics = order_of(i) if told is None else told
    address = w.emit(f"ptrtoint ptr {pointer} to i64")
    w.call_helper(checks.SYNC, "void", [
        "ptr %ctx", "i32 %sg", f"i32 {semantics}", f"i64 {address}", f"i32 {what}"])


def local_scope(i: Instruction) -> int:
    """`Kind.LOCAL` for an atomic whose scope is a work-group, or less; else 0."""
    if find(i.callee).family is Family.ATOMIC:
        scope = _integer(i, "scope")
        return Kind.LOCAL if scope is not None and scope >= WORK_GROUP_SCOPE else 0
    return Kind.LOCAL if i.scope in ("workgroup", "subgroup", "singlethread") else 0


def order_of(i: Instruction) -> int:
    """What the orderings of an atomic instruction mean."""
    return _ORDERS.get(i.orderings[0], 0) if i.orderings else 0


_ORDERS = {"acquire": Order.ACQUIRE, "release": Order.RELEASE, "acq_rel": Order.BOTH,
           "seq_cst": Order.SEQUENTIAL}


# --- infinities and NaN ---------------------------------------------------------------------------

_MAKES = (Family.MATHS, Family.CONVERSION, Family.REDUCTION, Family.DPAS)
_MAKES_NUMBERS = frozenset("fadd fsub fmul fdiv frem fptrunc sitofp uitofp".split())


def finite_result(w: Widener, i: Instruction) -> None:
    """Report a result that is not finite although all operands are."""
    plan = w.context.sanitizer
    if plan is None or not plan.finite or i.result is None or i.type.scalar.kind != "float":
        return
    known = find(i.callee)
    made = i.opcode in _MAKES_NUMBERS or (
        i.opcode == "call" and (not known.known or known.family in _MAKES)
    )
    if not made:
        return
    bad = _not_finite(w, w.value(_as_operand(i)))
    for operand in i.operands:
        if operand.type.scalar.kind == "float" and not operand.is_undefined:
            good = w.emit(f"xor i64 {_not_finite(w, w.value(operand))}, -1")
            bad = w.emit(f"and i64 {bad}, {good}")
    w.note_place(i)
    w.call_helper(checks.NON_FINITE, "void", [*_head(w, i.line), f"i64 {bad}"])


def _as_operand(i: Instruction) -> Operand:
    return i.value


def _not_finite(w: Widener, value: Value) -> str:
    """A bit per lane, over all elements."""
    t, s = value.type, w.lanes
    flat = wide_type(t, s)
    wide = w.wide(value)
    less = w.emit(f"fsub {flat} {wide}, {wide}")
    odd = w.emit(f"fcmp uno {flat} {less}, zeroinitializer")
    bits = w.emit(f"bitcast <{t.lanes * s} x i1> {odd} to i{t.lanes * s}")
    total = bits
    for e in range(1, t.lanes):
        part = w.emit(f"lshr i{t.lanes * s} {bits}, {e * s}")
        total = w.emit(f"or i{t.lanes * s} {total}, {part}")
    lanes = total if t.lanes == 1 else w.emit(f"trunc i{t.lanes * s} {total} to i{s}")
    return w.emit(f"zext i{s} {lanes} to i64")


# --- helper functions that run lane by lane, as text ----------------------------------------------

LANE_DECLARATIONS = {
    checks.CHECK_ONE: f"declare i1 @{checks.CHECK_ONE}(ptr, i32, i32, i32, i64, i64, i64, i64, i1)",
    checks.SYNC: f"declare void @{checks.SYNC}(ptr, i32, i32, i64, i32)",
    checks.FENCE: f"declare void @{checks.FENCE}(ptr, i32, i32, i32)",
}
_ACCESS = re.compile(
    r"^(?P<head>\s*(?:(?P<result>%\S+) = )?)(?P<op>load|store|atomicrmw|cmpxchg)(?P<rest> .*)$")
_POINTER = re.compile(r"ptr (%\"[^\"]*\"|%[-\w.$]+)")


def helper_does(helper: Function) -> int:
    """What the read-modify-writes of a lane helper do."""
    return next((bits for start, bits in _ONLY.items() if helper.name.startswith(start)),
                READS | WRITES)


def lane_text(function: Function, body: str, *, releases: bool = True) -> str:
    """The body of a lane helper with checks before its accesses to global memory.

    The load before a loop of compare-and-swap may be stale, the loop sees to that: it is atomic.
    Where nothing `releases`, there is nothing to tell of what the atomics did.
    """
    only = helper_does(function)
    spaces = {i.line: i for i in function.instructions()}
    loops = any(i.opcode == "cmpxchg" for i in spaces.values())
    accesses = iter(sorted(
        line for line, i in spaces.items()
        if i.opcode in ("load", "store", "atomicrmw", "cmpxchg")))
    lines: list[str] = []
    for text in body.split("\n"):
        found = _ACCESS.match(text)
        if found is not None and found["rest"].startswith(" atomic"):
            number = len(lines)
            lines += _lane_check(text, *_atomic_load(text), number)
            order = int(text.split(";")[1])
            if releases:
                lines.append(_lane_sync(f"%xe.a{number}", order, str(READS)))
            continue
        if found is None:
            lines.append(text)
            if "fence seq_cst" in text:
                scope, semantics = text.split(";")[1].split()
                lines.append(f"  call void @{checks.FENCE}(ptr %ctx, i32 %sg, i32 {scope}, "
                             f"i32 {semantics})")
            continue
        access = spaces[next(accesses)]
        lines += _lane_access(access, text, found, loops, only)
        if releases:
            lines += _lane_told(access, found, only)
    return "\n".join(lines)


def _atomic_load(text: str) -> tuple[str, Type, int]:
    found = _POINTER.search(text)
    assert found is not None
    return found[1], ir.I64 if " i64," in text else ir.I32, Kind.ATOMIC


_ONLY = {f"{ATOMIC_HELPER}{name}_": bits
         for name, bits in (("load", READS), ("poll", READS), ("store", WRITES))}
"""Helpers whose read-modify-writes stand for less: devices have no other atomics."""


def _lane_access(
    i: Instruction, text: str, found: re.Match[str], loops: bool, only: int
) -> list[str]:
    operand = i.operands[1 if i.opcode == "store" else 0]
    t = i.type if i.opcode == "load" else i.operands[0 if i.opcode == "store" else 1].type
    kind = {"load": Kind.ATOMIC if loops else 0, "store": Kind.WRITE}.get(
        i.opcode, Kind.ATOMIC | local_scope(i) | (Kind.WRITE if only & WRITES else 0))
    if operand.type.space not in (1, 3) or operand.local is None:
        return [text]
    if operand.type.space == 3:
        kind |= Kind.SLM
    return _lane_check(text, operand.local, t, kind, i.line)


def _lane_told(i: Instruction, found: re.Match[str], only: int) -> list[str]:
    """Tell what an atomic of a lane helper, just done, read and wrote."""
    if i.opcode not in ("atomicrmw", "cmpxchg") or i.operands[0].type.space != 1 or local_scope(i):
        return []
    if i.opcode == "atomicrmw":
        return [_lane_sync(f"%xe.a{i.line}", order_of(i), str(only))]
    pair, what, t = found["result"], f"%xe.what{i.line}", i.operands[1].type
    return [
        f"  %xe.met{i.line} = extractvalue {{ {t.text}, i1 }} {pair}, 1",
        f"  {what} = select i1 %xe.met{i.line}, i32 {only}, i32 {only & READS}",
        _lane_sync(f"%xe.a{i.line}", order_of(i), what),
    ]


def _lane_sync(address: str, order: int, what: str) -> str:
    return (f"  call void @{checks.SYNC}(ptr %ctx, i32 %sg, i32 {order}, i64 {address}, "
            f"i32 {what})")


def _lane_check(text: str, name: str, t: Type, kind: int, n: int) -> list[str]:
    made = [
        f"  %xe.a{n} = ptrtoint ptr {name} to i64",
        f"  %xe.w{n} = getelementptr i8, ptr %ctx, i64 {8 * checks.STATE_WORD}",
        f"  %xe.s{n} = load ptr, ptr %xe.w{n}",
        f"  %xe.l{n} = getelementptr i64, ptr %xe.s{n}, i64 {int(Word.SITE)}",
        f"  %xe.n{n} = load i32, ptr %xe.l{n}",
        f"  %xe.f{n} = getelementptr i64, ptr %xe.s{n}, i64 {int(Word.ENTRY)}",
        f"  %xe.e{n} = load i64, ptr %xe.f{n}",
        f"  %xe.ok{n} = call i1 @{checks.CHECK_ONE}(ptr %ctx, i32 %sg, i32 %xe.n{n}, i32 %lane, "
        f"i64 %xe.e{n}, i64 %xe.a{n}, i64 {t.size}, i64 {kind | t.scalar.size << 8}, i1 true)",
        f"  %xe.p{n} = getelementptr ptr, ptr %xe.s{n}, i64 {int(Word.SCRATCH)}",
        f"  %xe.z{n} = load ptr, ptr %xe.p{n}",
        f"  %xe.q{n} = select i1 %xe.ok{n}, ptr {name}, ptr %xe.z{n}",
    ]
    position = text.rindex(f"ptr {name}")
    made.append(text[:position] + f"ptr %xe.q{n}" + text[position + 4 + len(name):])
    return made
