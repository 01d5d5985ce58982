"""Calls: ids, memory builtins, barriers, functions of the module."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, definitions, find
from triton_xe.intrinsics.definitions import block_1d, ids
from triton_xe.llvm.records import Function, Instruction, Operand, constant, zero
from triton_xe.llvm.types import I1, I8, I64, VOID, Type, struct
from triton_xe.runtime.simulator.analysis.calls import is_barrier, is_lane_helper
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.sanitizer.definedness_rules import RULES as SHADOW_RULES
from triton_xe.runtime.simulator.sanitizer.instrument import (
    after_barrier,
    checking,
    fence,
    guarded,
    guarded_range,
    local_scope,
    note_site,
    synchronises,
)
from triton_xe.runtime.simulator.sanitizer.state import READS, WRITES, Kind
from triton_xe.runtime.simulator.trace.messages import traced_call
from triton_xe.runtime.simulator.widen.accesses import lane_major, load_value, store_value
from triton_xe.runtime.simulator.widen.elementwise import define_known, scalarise
from triton_xe.runtime.simulator.widen.host_function import CTX, SG
from triton_xe.runtime.simulator.widen.lane_atomics import LaneAtomic, lane_atomic, record, tried
from triton_xe.runtime.simulator.widen.lane_helpers import (
    host_name,
    in_memory,
    lane_helper,
    lane_loop,
    lane_loop_name,
    result_fields,
    returned,
)
from triton_xe.runtime.simulator.widen.maths import CONVERSION_RULES, math_call
from triton_xe.runtime.simulator.widen.matrix import BLOCK_RULES, dpas, scaled_dpas
from triton_xe.runtime.simulator.widen.subgroup import SUBGROUP_RULES
from triton_xe.runtime.simulator.widen.turns import suspend
from triton_xe.runtime.simulator.widen.values import Aggregate, Tabled, Uniform, Value, Wide
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

PASSED = ".passed"
"""Suffix of lane helpers without checks, in a checked launch."""


def call(w: Widener, i: Instruction) -> None:
    """Widen a call: of a helper, a function of the module, or an intrinsic by its definition."""
    callee, known = i.callee, find(i.callee)
    if callee == ir.ASSEMBLY:
        w.fail("inline vISA assembly cannot run on the simulator; run this kernel on a GPU "
               "(TRITON_XE_DEVICE=gpu), or write it with Triton's operations")
    own = SHADOW_RULES.get(callee)
    if own is not None:
        own(w, i)
        return
    traced_call(w, i, barrier=is_barrier(i))
    target = w.kernel.functions.get(callee)
    if target is not None:
        (lane_call if is_lane_helper(target.name) else function_call)(w, i, target)
        return
    if known.family not in _CHECKED and not known.available(w.kernel.target):
        w.refuse(i, f"{w.kernel.target.name} has no {known.name}")
    if is_barrier(i):
        barrier(w, i)
        return
    if known.family is Family.FENCE:
        w.b.fence()
        fence(w, i)
    if known.family in _DONE or define_known(w, i):
        return
    if known.definition in _RULES:
        _RULES[known.definition](w, i)
    elif not math_call(w, i):
        w.fail(f"unknown function {callee}")


_CHECKED = (Family.BLOCK_2D, Family.PAYLOAD, Family.DPAS)
"""Families with error messages of their own."""
_DONE = (Family.BARRIER, Family.FENCE, Family.HINT)
"""Families of calls that need no host code.

That includes signals of named barriers: subgroups take the same path through a kernel, so that
waiting for all of them is enough.
"""


# --- ids ------------------------------------------------------------------------------------------


def _context_word(first: Context, otherwise: int) -> Rule:
    """Word of the context for an axis; `otherwise` for an axis that a grid lacks."""

    def rule(w: Widener, i: Instruction) -> None:
        d = i.operands[0].integer_value()
        if d is None:
            w.fail("a grid dimension that is not constant")
        x = w.b.load(I64, w.b.at(CTX, first.offset + 8 * d)) if d < 3 else constant(I64, otherwise)
        x = x if i.type.bits == 64 else w.b.trunc(x, i.type)
        if first is Context.GROUP_ID:
            w.b.program_ids[x.text] = d
        w.define_uniform(i, x)

    return rule


def _local_id(w: Widener, i: Instruction) -> None:
    if i.operands[0].integer_value() != 0:
        w.define_uniform(i, constant(i.type, 0))
        return
    base = w.b.mul(w.b.zext(w.source.sg, I64) if i.type.bits == 64 else w.source.sg, w.lanes)
    w.define(i, Tabled(base, np.arange(w.lanes, dtype=np.int64)[None, :], i.type))


def _constant(value: Callable[[Widener, int], int]) -> Rule:
    """Rule for ids and sizes that are equal in all programs."""
    def rule(w: Widener, i: Instruction) -> None:
        d = i.operands[0].integer_value() if i.operands else 0
        w.define_uniform(i, constant(i.type, value(w, d or 0)))

    return rule


# --- memory builtins ------------------------------------------------------------------------------


def predicated_load(w: Widener, i: Instruction) -> None:
    align = i.operands[1].integer_value() or 0
    i = guarded(w, i, 0, i.type, w.value(i.operands[2]), 0, align)
    address, _, mask, fallback = i.operands
    undefined = i.unfilled or fallback.is_undefined
    kept: Value = Uniform(zero(i.type), i.type) if undefined else w.value(fallback)
    w.define(i, load_value(w, w.value(address), i.type, w.value(mask), kept, address))


def predicated_store(w: Widener, i: Instruction) -> None:
    align = i.operands[2].integer_value() or 0
    i = guarded(w, i, 0, i.operands[1].type, w.value(i.operands[3]), Kind.WRITE, align)
    address, value, _, mask = i.operands
    store_value(w, w.value(address), w.value(value), w.value(mask), address)


def block_read_1d(w: Widener, i: Instruction) -> None:
    address = guarded_range(w, i, 0, i.type.size * w.lanes, 0, 4)
    w.define_wide(i, w.b.load(w.b.type_of(i.type), address, align=4))


def block_write_1d(w: Widener, i: Instruction) -> None:
    value = i.operands[1]
    address = guarded_range(w, i, 0, value.type.size * w.lanes, Kind.WRITE, 16)
    w.b.store(w.wide_of(value), address, align=4)


def atomic_load(w: Widener, i: Instruction) -> None:
    t = i.type
    i = guarded(w, i, 0, t, None, Kind.ATOMIC | Kind.NEEDS | local_scope(i))

    def lane(p: list[Operand]) -> Operand:
        synchronises(w, i, p[0], READS)
        return w.b.load(t, p[0], ordering="seq_cst", align=t.size)

    scalarise(w, i, lane)


def atomic_store(w: Widener, i: Instruction) -> None:
    t = i.operands[3].type
    i = guarded(w, i, 0, t, None, Kind.WRITE | Kind.ATOMIC | local_scope(i))
    for lane in range(w.lanes):
        pointer, value = (w.b.lane(w.value(i.operands[k]), lane) for k in (0, 3))
        synchronises(w, i, pointer, WRITES)
        w.b.store(value, pointer, ordering="seq_cst", align=t.size)


def cycle_counter(w: Widener, i: Instruction) -> None:
    w.define_uniform(i, w.b.call("llvm.readcyclecounter", I64))


# --- barriers -------------------------------------------------------------------------------------


def barrier(w: Widener, i: Instruction) -> None:
    """Suspend this subgroup; it resumes when all others have arrived (see `pipeline`)."""
    steps = w.kernel.schedule.in_step
    if steps is not None and steps.in_loops:
        steps.meetings.add(w.b.continue_in_new_block())
        return
    suspend(w, i)
    after_barrier(w, i)


# --- functions of the module ----------------------------------------------------------------------


def host_type(w: Widener, t: Type, uniform: bool) -> Type:
    if t.kind == "struct":
        return struct(tuple(host_type(w, f, uniform) for f in t.fields))
    return t if uniform or t is VOID else w.b.type_of(t)


def function_call(w: Widener, i: Instruction, target: Function) -> None:
    """Call a widened function; arguments that are equal in all lanes are passed as scalars."""
    shapes = w.kernel.shapes.arguments[target.name]
    arguments = [
        w.uniform(o) if shape is not None and shape.uniform else w.wide_of(o)
        for o, shape in zip(i.operands, shapes, strict=True)
    ]
    returned = w.kernel.shapes.returns[target.name]
    uniform = returned is not None and returned.uniform
    x = w.b.call(host_name(target), host_type(w, i.type, uniform), [CTX, SG, *arguments])
    if i.result is not None:
        w.define(i, _received(w, x, i.type, uniform))


def _received(w: Widener, x: Operand, t: Type, uniform: bool) -> Value:
    """Host values of a function's result, which is uniform or wide."""
    if t.kind != "struct":
        return Uniform(x, t) if uniform else Wide(x, t)
    return Aggregate(tuple(
        _received(w, w.b.extract_value(x, k), field, uniform)
        for k, field in enumerate(t.fields)), t)


def lane_call(w: Widener, i: Instruction, target: Function) -> None:
    """Call a divergent helper for each lane, in a loop."""
    fields = result_fields(i.type)
    arguments = [CTX, SG, *(_lane_operand(w, o) for o in i.operands)]
    note_site(w, i)
    _define(w, lane_loop_name(target), lambda: lane_loop(target, w.lanes))
    atomic = lane_atomic(target) if checking(w) else None
    result = returned([w.b.type_of(in_memory(t)) for t in fields])
    if atomic is None:
        x = w.b.call(lane_loop_name(target), result, arguments)
    else:
        x = _checked_atomic(w, i, target, atomic, result, arguments)
    if i.result is None:
        return
    xs = [x] if len(fields) == 1 else [w.b.extract_value(x, k) for k in range(len(fields))]
    parts = [_lane_result(w, x, t) for x, t in zip(xs, fields, strict=True)]
    w.define(i, Aggregate(tuple(parts), i.type) if i.type.kind == "struct" else parts[0])


def _lane_operand(w: Widener, operand: Operand) -> Operand:
    """All lanes of an operand, one lane after another; flags as bytes."""
    x = w.b.wide(w.value(operand))
    return w.b.zext(x, I8) if operand.type is I1 else lane_major(w, x, operand.type, True)


def _define(w: Widener, name: str, make: Callable[[], Function]) -> None:
    """Define a function for the kernel, at its first call."""
    if name not in w.kernel.host.definitions:
        w.kernel.host.definitions[name] = make()


def _checked_atomic(
    w: Widener, i: Instruction, target: Function, atomic: LaneAtomic, result: Type,
    arguments: list[Operand],
) -> Operand:
    """Call a helper without checks if one check of all lanes finds no fault; else lane by lane."""
    plan, turns = w.kernel.plan, w.kernel.schedule.turns
    assert plan is not None
    noted = plan.releases and atomic.swaps
    _define(w, host_name(target, PASSED), lambda: lane_helper(
        target, noted=noted, suffix=PASSED, counted=bool(turns)))
    _define(w, lane_loop_name(target, PASSED), lambda: lane_loop(target, w.lanes, PASSED))
    good = tried(w, i, atomic)
    x = w.b.call(lane_loop_name(target, PASSED), result, [*arguments, good])
    record(w, i, atomic, good)
    return x


def _lane_result(w: Widener, x: Operand, t: Type) -> Value:
    return Wide(w.b.trunc(x, I1) if t is I1 else lane_major(w, x, t, False), t)


_RULES: dict[Callable[..., object] | None, Rule] = {
    ids.get_group_id: _context_word(Context.GROUP_ID, 0),
    ids.get_num_groups: _context_word(Context.GROUPS, 1),
    ids.get_sub_group_id: lambda w, i: w.define_uniform(i, w.source.sg),
    ids.get_local_id: _local_id,
    ids.get_local_size: _constant(lambda w, d: w.kernel.sizes.work_group[d] if d < 3 else 1),
    ids.get_sub_group_size: _constant(lambda w, _: w.lanes),
    ids.get_num_sub_groups: _constant(lambda w, _: w.kernel.sizes.sub_groups),
    ids.get_work_dim: _constant(lambda w, _: 3),
    time.perf_counter_ns: cycle_counter,
    block_1d.block_read: block_read_1d,
    block_1d.block_write: block_write_1d,
    definitions.dpas.dpas: dpas,
    definitions.dpas.scaled_dpas: scaled_dpas,
    definitions.memory.masked_load: predicated_load,
    definitions.memory.masked_store: predicated_store,
    definitions.memory.atomic_load: atomic_load,
    definitions.memory.atomic_store: atomic_store,
    **CONVERSION_RULES,
    **BLOCK_RULES,
    **SUBGROUP_RULES,
}
"""Rules of calls, by the readable definition that each must agree with."""
