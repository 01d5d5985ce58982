"""Calls: ids, shuffles, reductions, conversions, barriers, functions of the module."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from triton_xe.intrinsics import Family, definitions, find
from triton_xe.intrinsics.definitions import block_1d, ids
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import is_barrier, is_lane_helper
from triton_xe.runtime.simulator.ir import Function, Instruction, Type
from triton_xe.runtime.simulator.sanitizer.definedness_rules import RULES as SHADOW_RULES
from triton_xe.runtime.simulator.sanitizer.instrument import (
    after_barrier,
    checking,
    fence,
    guarded,
    guarded_range,
    lane_text,
    local_scope,
    note_site,
    synchronises,
)
from triton_xe.runtime.simulator.sanitizer.records import READS, WRITES
from triton_xe.runtime.simulator.sanitizer.state import Kind
from triton_xe.runtime.simulator.trace.messages import traced_call
from triton_xe.runtime.simulator.widen.conversions import conversion
from triton_xe.runtime.simulator.widen.elementwise import gather_lanes, scalarise
from triton_xe.runtime.simulator.widen.lane_atomics import (
    LaneAtomic,
    lane_atomic,
    tell,
    told_text,
    tried,
)
from triton_xe.runtime.simulator.widen.lane_loops import stoppable
from triton_xe.runtime.simulator.widen.maths import CONVERSION_RULES, math_call
from triton_xe.runtime.simulator.widen.matrix import BLOCK_RULES, dpas
from triton_xe.runtime.simulator.widen.memory import load_value, store_value
from triton_xe.runtime.simulator.widen.subgroup import SUBGROUP_RULES
from triton_xe.runtime.simulator.widen.values import Aggregate, Uniform, Value, Wide, wide_type
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

PASSED = ".passed"
"""Ends the names of lane helpers without checks, in a launch that has them."""

def call(w: Widener, i: Instruction) -> None:
    callee = i.callee
    if callee == ir.ASSEMBLY:
        w.fail("inline vISA assembly cannot run on the simulator; run this kernel on a GPU "
               "(TRITON_XE_DEVICE=gpu), or write it with Triton's operations")
    own = SHADOW_RULES.get(callee)
    if own is not None:
        own(w, i)
        return
    traced_call(w, i, barrier=is_barrier(i))
    target = w.context.find(callee)
    if target is not None:
        if is_lane_helper(target.name):
            lane_call(w, i, target)
        else:
            function_call(w, i, target)
        return
    if is_barrier(i):
        barrier(w, i)
        return
    known = find(callee)
    if known.family is Family.FENCE:
        w.do("fence seq_cst")
        fence(w, i)
    if known.family in _DONE:
        return
    shape = w.result_shape(i)
    if i.result is not None and shape.pure and shape.table is not None:
        from triton_xe.runtime.simulator.widen.elementwise import settle_pure

        settle_pure(w, i, shape)
        return
    if known.definition in _RULES:
        _RULES[known.definition](w, i)
    elif not math_call(w, i):
        w.fail(f"unknown function {callee}")


_DONE = (Family.BARRIER, Family.FENCE, Family.HINT)
"""Nothing else is to be done, also where a named barrier is signalled: subgroups run the same way
through a kernel, so waiting for all of them waits for enough."""


# --- ids ------------------------------------------------------------------------------------------


def _context_word(offset: int) -> Rule:
    def rule(w: Widener, i: Instruction) -> None:
        d = i.operands[0].integer_value()
        if d is None:
            w.fail("a grid dimension that is not constant")
        text = "0" if offset == 0 else "1"
        if d < 3:
            text = w.emit(f"load i64, ptr {w.at('%ctx', offset + 8 * d)}")
        w.define(i, _resized(w, text, i.type))

    return rule


def _resized(w: Widener, text: str, t: Type) -> Uniform:
    return Uniform(text if t.bits == 64 else w.emit(f"trunc i64 {text} to {t.text}"), t)


def _sub_group_id(w: Widener, i: Instruction) -> None:
    w.define(i, Uniform("%sg", i.type))


def _local_id(w: Widener, i: Instruction) -> None:
    import numpy as np

    from triton_xe.runtime.simulator.widen.values import Tabled

    if i.operands[0].integer_value() != 0:
        w.define(i, Uniform("0", i.type))
        return
    wide = w.emit("zext i32 %sg to i64") if i.type.bits == 64 else "%sg"
    base = w.emit(f"mul {i.type.text} {wide}, {w.lanes}")
    w.define(i, Tabled(base, np.arange(w.lanes, dtype=np.int64)[None, :], i.type))


def _constant(value: Callable[[Widener, int], int]) -> Rule:
    def rule(w: Widener, i: Instruction) -> None:
        d = i.operands[0].integer_value() if i.operands else 0
        w.define(i, Uniform(str(value(w, d or 0)), i.type))

    return rule


def _work_size(w: Widener, d: int) -> int:
    return w.context.work_group[d] if d < 3 else 1


# --- memory builtins ------------------------------------------------------------------------------


def predicated_load(w: Widener, i: Instruction) -> None:
    align = i.operands[1].integer_value() or 0
    i = guarded(w, i, 0, i.type, w.value(i.operands[2]), 0, align)
    address, _, mask, fallback = i.operands
    other = Uniform("zeroinitializer" if i.type.lanes > 1 else _zero(i.type), i.type)
    kept: Value = other if fallback.is_undefined else w.value(fallback)
    w.define(i, load_value(w, w.value(address), i.type, w.value(mask), kept))


def _zero(t: Type) -> str:
    return {"float": "0.0", "ptr": "null"}.get(t.kind, "0")


def predicated_store(w: Widener, i: Instruction) -> None:
    align = i.operands[2].integer_value() or 0
    i = guarded(w, i, 0, i.operands[1].type, w.value(i.operands[3]), Kind.WRITE, align)
    address, value, _, mask = i.operands
    store_value(w, w.value(address), w.value(value), w.value(mask))


def block_read_1d(w: Widener, i: Instruction) -> None:
    flat = wide_type(i.type, w.lanes)
    address = guarded_range(w, i, 0, i.type.size * w.lanes, 0, 4)
    w.define(i, Wide(w.emit(f"load {flat}, ptr {address}, align 4"), i.type))


def block_write_1d(w: Widener, i: Instruction) -> None:
    value = i.operands[1]
    flat = wide_type(value.type, w.lanes)
    address = guarded_range(w, i, 0, value.type.size * w.lanes, Kind.WRITE, 16)
    w.do(f"store {flat} {w.wide_of(value)}, ptr {address}, align 4")


def atomic_load(w: Widener, i: Instruction) -> None:
    t = i.type
    i = guarded(w, i, 0, t, None, Kind.ATOMIC | local_scope(i))

    def lane(p: list[str]) -> str:
        synchronises(w, i, p[0], READS)
        return w.emit(f"load atomic {t.text}, ptr {p[0]} seq_cst, align {t.size}")

    scalarise(w, i, lane)


def atomic_store(w: Widener, i: Instruction) -> None:
    t = i.operands[3].type
    i = guarded(w, i, 0, t, None, Kind.WRITE | Kind.ATOMIC | local_scope(i))
    for lane in range(w.lanes):
        pointer = w.lane(w.value(i.operands[0]), lane)
        value = w.lane(w.value(i.operands[3]), lane)
        synchronises(w, i, pointer, WRITES)
        w.do(f"store atomic {t.text} {value}, ptr {pointer} seq_cst, align {t.size}")


def cycle_counter(w: Widener, i: Instruction) -> None:
    w.define(i, Uniform(w.intrinsic("i64 @llvm.readcyclecounter()",
                                    "i64 @llvm.readcyclecounter()"), i.type))


# --- barriers -------------------------------------------------------------------------------------


def barrier(w: Widener, i: Instruction) -> None:
    """Suspend this subgroup; it resumes when all others have arrived (see `host.py`)."""
    w.note_place(i)
    sites = w.emit("load ptr, ptr %barrier_sites_at")
    slot = w.emit(f"getelementptr i32, ptr {sites}, i32 %sg")
    w.do(f"store i32 {i.line}, ptr {slot}")
    w.context.declarations["coro.suspend"] = "declare i8 @llvm.coro.suspend(token, i1)"
    after = w.label()
    state = w.emit("call i8 @llvm.coro.suspend(token none, i1 false)")
    w.do(f"switch i8 {state}, label %coro.leave [i8 0, label %{after} "
         "i8 1, label %coro.cleanup]")
    w.start_block(after)
    after_barrier(w, i)


# --- functions of the module ----------------------------------------------------------------------


def host_name(function: Function, suffix: str = "") -> str:
    return '@"xe.' + function.name + suffix + '"'


def host_type(w: Widener, t: Type, uniform: bool) -> str:
    if t.kind == "struct":
        return "{ " + ", ".join(host_type(w, f, uniform) for f in t.fields) + " }"
    return t.text if uniform or t.kind == "void" else wide_type(t, w.lanes)


def function_call(w: Widener, i: Instruction, target: Function) -> None:
    if target.name in w.context.barriers:
        w.fail(f"{target.name} contains a barrier, which only a kernel may")
    shapes = w.context.shapes.arguments[target.name]
    arguments = ["ptr %ctx", "i32 %sg"]
    for operand, shape in zip(i.operands, shapes, strict=True):
        if shape is not None and shape.uniform:
            arguments.append(f"{operand.type.text} {w.uniform(operand)}")
        else:
            arguments.append(f"{wide_type(operand.type, w.lanes)} {w.wide_of(operand)}")
    returned = w.context.shapes.returns[target.name]
    uniform = returned is not None and returned.uniform
    t = host_type(w, i.type, uniform)
    text = f"call {t} {host_name(target)}({', '.join(arguments)})"
    if i.result is None:
        w.do(text)
        return
    name = w.emit(text)
    w.define(i, _received(w, name, i.type, t, uniform))


def _received(w: Widener, name: str, t: Type, host: str, uniform: bool) -> Value:
    if t.kind != "struct":
        return Uniform(name, t) if uniform else Wide(name, t)
    parts = []
    for k, field in enumerate(t.fields):
        part = w.emit(f"extractvalue {host} {name}, {k}")
        parts.append(_received(w, part, field, host_type(w, field, uniform), uniform))
    return Aggregate(tuple(parts), t)


def lane_call(w: Widener, i: Instruction, target: Function) -> None:
    """Call a divergent helper for each lane, in a loop, through memory."""
    s = w.lanes
    arguments = ["ptr %ctx", "i32 %sg"]
    for operand in i.operands:
        value = w.value(operand)
        flat = wide_type(operand.type, s)
        text = w.wide(value)
        if operand.type == ir.I1:
            text = w.emit(f"zext <{s} x i1> {text} to <{s} x i8>")
            flat = f"<{s} x i8>"
        elif operand.type.lanes > 1:
            from triton_xe.runtime.simulator.widen.memory import lane_major

            text = lane_major(w, text, operand.type, True)
        pointer = w.temporary(max(operand.type.size, 1) * s)
        w.do(f"store {flat} {text}, ptr {pointer}, align 64")
        arguments.append(f"ptr {pointer}")
    fields = _result_fields(i.type)
    results = [w.temporary(f.size * s) for f in fields]
    arguments += [f"ptr {r}" for r in results]
    note_site(w, i)
    w.context.definitions[target.name + ".lanes"] = lane_loop(target, s)
    atomic = lane_atomic(target) if checking(w) else None
    if atomic is None:
        w.do(f"call void {lane_loop_name(target)}({', '.join(arguments)})")
    else:
        _checked_atomic(w, i, target, atomic, ", ".join(arguments))
    if i.result is None:
        return
    parts = [_lane_result(w, p, f) for p, f in zip(results, fields, strict=True)]
    w.define(i, Aggregate(tuple(parts), i.type) if i.type.kind == "struct" else parts[0])


def _checked_atomic(
    w: Widener, i: Instruction, target: Function, atomic: LaneAtomic, arguments: str
) -> None:
    """Without checks lane by lane where that of all lanes finds nothing."""
    plan = w.context.sanitizer
    assert plan is not None
    told = plan.releases and atomic.swaps
    definitions, name = w.context.definitions, target.name + PASSED
    definitions[name] = lane_helper_text(target, told=told, suffix=PASSED)
    definitions[name + ".lanes"] = lane_loop(target, w.lanes, PASSED)
    good = tried(w, i, atomic)
    loops = (lane_loop_name(target, PASSED), lane_loop_name(target))
    loop = w.emit(f"select i1 {good}, ptr {loops[0]}, ptr {loops[1]}")
    w.do(f"call void {loop}({arguments})")
    tell(w, i, atomic, good)


def _result_fields(t: Type) -> tuple[Type, ...]:
    return () if t.kind == "void" else t.fields if t.kind == "struct" else (t,)


def _lane_result(w: Widener, pointer: str, t: Type) -> Value:
    s = w.lanes
    if t == ir.I1:
        bits = w.emit(f"load <{s} x i8>, ptr {pointer}, align 64")
        return Wide(w.emit(f"trunc <{s} x i8> {bits} to <{s} x i1>"), t)
    from triton_xe.runtime.simulator.widen.memory import lane_major

    text = w.emit(f"load {wide_type(t, s)}, ptr {pointer}, align 64")
    return Wide(lane_major(w, text, t, False), t)


def lane_loop_name(target: Function, suffix: str = "") -> str:
    return '@"xe.lanes.' + target.name + suffix + '"'


def lane_loop(target: Function, lanes: int, suffix: str = "") -> str:
    """A host function that calls a scalar helper once per lane, in lane order."""
    types = [t for _, t in target.parameters]
    fields = _result_fields(target.result)
    names = [f"ptr %a{k}" for k in range(len(types))] + [f"ptr %r{k}" for k in range(len(fields))]
    body, arguments = [], ["ptr %ctx", "i32 %sg", "i32 %lane"]
    for k, t in enumerate(types):
        memory = "i8" if t == ir.I1 else t.text
        at = f"getelementptr {memory}, ptr %a{k}, i32 %lane"
        if t.lanes > 1:
            at = f"getelementptr [{t.size} x i8], ptr %a{k}, i32 %lane"
        body += [f"%p{k} = {at}", f"%l{k} = load {memory}, ptr %p{k}, align {t.scalar.size}"]
        if t == ir.I1:
            body.append(f"%x{k} = trunc i8 %l{k} to i1")
        arguments.append(f"{t.text} %{'x' if t == ir.I1 else 'l'}{k}")
    invoke = f"call {target.result.text} {host_name(target, suffix)}({', '.join(arguments)})"
    body.append(invoke if not fields else f"%result = {invoke}")
    for k, t in enumerate(fields):
        source = "%result"
        if target.result.kind == "struct":
            source = f"%f{k}"
            body.append(f"%f{k} = extractvalue {target.result.text} %result, {k}")
        memory = t.text
        if t == ir.I1:
            body.append(f"%z{k} = zext i1 {source} to i8")
            source, memory = f"%z{k}", "i8"
        unit = f"[{t.size} x i8]" if t.lanes > 1 else memory
        body += [f"%q{k} = getelementptr {unit}, ptr %r{k}, i32 %lane",
                 f"store {memory} {source}, ptr %q{k}, align {t.scalar.size}"]
    lines = "\n  ".join(body)
    name = lane_loop_name(target, suffix)
    return (
        f"define internal void {name}(ptr %ctx, i32 %sg, {', '.join(names)}) "
        f"noinline {{\nentry:\n  br label %loop\nloop:\n"
        f"  %lane = phi i32 [0, %entry], [%next, %loop]\n  {lines}\n"
        f"  %next = add i32 %lane, 1\n  %more = icmp ult i32 %next, {lanes}\n"
        f"  br i1 %more, label %loop, label %done\ndone:\n  ret void\n}}"
    ).replace("i32 %sg, ) ", "i32 %sg) ")


_SPACES = re.compile(r" addrspace\(\d+\)")
_SCOPE = re.compile(r' syncscope\("[^"]*"\)')


def lane_helper_text(
    function: Function, *, sanitized: bool = False, releases: bool = True, told: bool = False,
    suffix: str = "",
) -> str:
    """The scalar helper as a host function: plain pointers, ids as arguments.

    `told`: without checks, but it notes what it did.
    """
    text = _SCOPE.sub("", _SPACES.sub("", function.text))
    head, body = text.split("\n", 1)
    start = head.index("(")
    head = ("define internal " + _result_text(function) + " " + host_name(function, suffix)
            + "(ptr %ctx, i32 %sg, i32 %lane"
            + (", " if function.parameters else "") + ", ".join(
                f"{t.text} {name}" for name, t in function.parameters) + ") {")
    assert start > 0
    body = re.sub(r", ![\w.]+ ![\w]+", "", body)
    body = body.replace("spir_func ", "")
    body = re.sub(r"call i32 @_Z22get_sub_group_local_idv?\(\)", "add i32 %lane, 0", body)
    body = re.sub(r"call i32 @_Z16get_sub_group_idv\(\)", "add i32 %sg, 0", body)
    body = re.sub(
        r"call (i32|i64) @_Z18__spirv_AtomicLoadPU3AS1\w+\(ptr (%[\w.]+|%\"[^\"]*\"),[^)]*?(\d+)\)",
        r"load atomic \1, ptr \2 seq_cst, align 4 ; \3", body,
    )
    body = re.sub(
        r"(?m)^\s*(?:tail )?call void @_Z21__spirv_MemoryBarrierjj\(.*?(\d+),.* (\d+)\).*$",
        r"  fence seq_cst ; \1 \2", body)
    if sanitized:
        body = lane_text(function, body, releases=releases)
    elif told:
        body = told_text(body)
    return head + "\n" + stoppable(function, body, checked=sanitized or bool(suffix))


def _result_text(function: Function) -> str:
    return function.result.text


_RULES: dict[Callable[..., object] | None, Rule] = {
    ids.get_group_id: _context_word(0),
    ids.get_num_groups: _context_word(24),
    ids.get_sub_group_id: _sub_group_id,
    ids.get_local_id: _local_id,
    ids.get_local_size: _constant(_work_size),
    ids.get_sub_group_size: _constant(lambda w, _: w.lanes),
    ids.get_num_sub_groups: _constant(lambda w, _: w.context.sub_groups),
    ids.get_work_dim: _constant(lambda w, _: 3),
    time.perf_counter_ns: cycle_counter,
    block_1d.block_read: block_read_1d,
    block_1d.block_write: block_write_1d,
    definitions.dpas.dpas: dpas,
    definitions.memory.masked_load: predicated_load,
    definitions.memory.masked_store: predicated_store,
    definitions.memory.atomic_load: atomic_load,
    definitions.memory.atomic_store: atomic_store,
    definitions.maths.convert: conversion,
    **CONVERSION_RULES,
    **BLOCK_RULES,
    **SUBGROUP_RULES,
}
"""What runs, by the readable definition that it has to agree with."""

__all__ = ["call", "gather_lanes", "host_name", "is_barrier", "lane_helper_text"]
