"""Translate the LLVM module of a kernel to the host module that runs one subgroup of it.

Signature of a host kernel: `(ptr args, ptr ctx, i32 sg)`; `args` has the kernel arguments in slots
of 8 bytes, `ctx` is the work-group (`CONTEXT_*` offsets), `sg` the number of the subgroup.  A
kernel with a barrier, or with interleaved programs, is a coroutine: it returns a handle that is
resumed at each point where it yielded to others (see `turns`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from triton_xe import llvm as ir
from triton_xe.errors import DeviceError, LegalityError, SimulatorTrap
from triton_xe.hardware.target import Target
from triton_xe.llvm.printer import print_module
from triton_xe.llvm.records import Function, undefined_calls
from triton_xe.llvm.types import I32, I64
from triton_xe.runtime.simulator.analysis.calls import is_barrier, is_lane_helper
from triton_xe.runtime.simulator.analysis.guards import part_of
from triton_xe.runtime.simulator.analysis.in_place import stores_in_place
from triton_xe.runtime.simulator.analysis.in_step import runs_in_loops, shared_values
from triton_xe.runtime.simulator.analysis.observers import observers
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis
from triton_xe.runtime.simulator.analysis.waits import after_waits, takes, waits
from triton_xe.runtime.simulator.host_kernel import ENTRY, HostKernel, Part
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.pieces.once_per_shape import is_large, once_per_shape
from triton_xe.runtime.simulator.rewrites.across_barriers import kept_across_barriers
from triton_xe.runtime.simulator.rewrites.element_accesses import is_joined, joined_accesses
from triton_xe.runtime.simulator.rewrites.flags_in_memory import flags_in_memory
from triton_xe.runtime.simulator.rewrites.grouped_accesses import Groups, grouped_accesses
from triton_xe.runtime.simulator.rewrites.inline_helpers import inline_helpers
from triton_xe.runtime.simulator.rewrites.known_arguments import for_arguments
from triton_xe.runtime.simulator.rewrites.late_loads import late_loads
from triton_xe.runtime.simulator.rewrites.loops_over_subgroups import looped
from triton_xe.runtime.simulator.rewrites.merge_halves import merge_halves
from triton_xe.runtime.simulator.rewrites.neighbours import whole_vectors
from triton_xe.runtime.simulator.rewrites.pinned_results import pinned_results
from triton_xe.runtime.simulator.rewrites.polls import loops_for_polls
from triton_xe.runtime.simulator.rewrites.scalar_extracts import scalar_extracts
from triton_xe.runtime.simulator.rewrites.split_vectors import split_vectors
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.sanitizer.definedness import instrument, is_masked_atomic
from triton_xe.runtime.simulator.sanitizer.instrument import is_atomic_helper
from triton_xe.runtime.simulator.sanitizer.plan import Instrumentation
from triton_xe.runtime.simulator.sanitizer.state import MOST_BYTES, SYNC
from triton_xe.runtime.simulator.widen.function import STOP_LABEL, FunctionWriter
from triton_xe.runtime.simulator.widen.lane_atomics import releases
from triton_xe.runtime.simulator.widen.lane_helpers import lane_helper
from triton_xe.runtime.simulator.widen.values import Uniform, Value
from triton_xe.runtime.simulator.widen.widener import SG, ModuleContext

MOST, MOST_WAITING = 1 << 62, 256
"""Programs that begin at once if there is room: if they take items; if they wait in rounds."""
_ARGUMENT_NAMES = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "i16"}


def find_kernel(module: ir.Module, name: str) -> Function:
    """The kernel of that name; `DeviceError` if the module has none."""
    found = next((k for k in module.kernels() if k.name == name), None)
    if found is None:
        names = ", ".join(k.name for k in module.kernels()) or "none"
        raise DeviceError(f"no kernel {name!r} in this module; it has: {names}")
    return found


def argument_types(kernel: Function) -> tuple[str, ...]:
    """Types of the kernel's parameters, named as in `runtime.device.Kernel`."""
    return tuple("ptr" if t.kind == "ptr" else _ARGUMENT_NAMES.get(t.name, t.name)
                 for _, t in kernel.parameters)


def translate(
    module: ir.Module, kernel_name: str, target: Target, *, part: Part = Part.WHOLE,
    sanitizer: Instrumentation | None = None, shuffled: bool = False, in_step: bool = False,
    arguments: Sequence[int] = (),
) -> HostKernel:
    """The host module of one kernel; `SimulatorTrap` for errors that a device would not report.

    A kernel that runs in step has a version for these `arguments`, of which integers count.

    `part` is compiled (see `guards`), or the whole kernel if nothing can be left out.  The whole is
    also compiled if other programs may wait for the part that would be left out.
    """
    whole = find_kernel(module, kernel_name)
    is_traced = sanitizer is not None and sanitizer.trace
    if not is_traced:
        whole = loops_for_polls(whole)
    is_checked = sanitizer is not None and not is_traced
    takes_items = is_checked and bool(takes(whole, module.functions))
    together = shuffled or takes_items or bool(waits(whole, module.functions))
    left_out = None if together else part_of(whole, part)
    kernel = left_out or whole
    ready = _for_speed if sanitizer is None else _as_it_is
    functions = {
        name: f if is_lane_helper(name) else scalar_extracts(ready(f))
        for name, f in _reachable({**module.functions, kernel.name: kernel}, kernel).items()
    }
    given = functions
    if sanitizer is not None and is_checked:
        sanitizer.releases = any(map(releases, functions.values()))
        functions = {
            name: f if is_lane_helper(name) else whole_vectors(joined_accesses(f, most=MOST_BYTES))
            for name, f in _with_shadows(functions, sanitizer).items()
        }
    grouped: Groups = {}
    for name, function in functions.items() if is_checked and not together else ():
        if not is_lane_helper(name):
            functions[name], groups = grouped_accesses(function)
            grouped |= groups
    module = ir.Module(functions, module.globals, module.metadata)
    lanes, work_group = sizes(module, kernel, target)
    context = ModuleContext(module, target, lanes, ShapeAnalysis(module, lanes))
    context.sanitizer, context.grouped = sanitizer, grouped
    for origin in sanitizer.undefined.origins if sanitizer is not None else ():
        context.locations[origin.line] = module.location(origin.line, origin.debug)
    context.shuffled = shuffled
    if together and not is_traced:
        context.waits = waits(functions[kernel.name], functions)
    if takes_items and not shuffled:
        context.takes = takes(functions[kernel.name], functions)
    if is_checked and together and not shuffled:
        context.after_waits = after_waits(functions[kernel.name], functions)
    if is_checked and not context.takes_turns:
        for function in functions.values():
            context.in_place |= stores_in_place(function)
    context.work_group = work_group
    context.sub_groups = -(-math.prod(work_group) // lanes)
    if sanitizer is not None and not sanitizer.trace and context.sub_groups > 1:
        seen = observers(given[kernel.name], context.sub_groups)
        sanitizer.observers[kernel.name] = _with_joined(
            functions[kernel.name], seen, (1 << context.sub_groups) - 1)
    check_slm(module, kernel_name, target)
    context.slm_offsets, context.slm_bytes = slm_places(module)
    context.barriers = {name for name, f in functions.items()
                        if any(map(is_barrier, f.instructions()))}
    if in_step:
        context.shared = shared_values(
            functions[kernel.name], functions, context.sub_groups, lanes)
        if context.shared is None and runs_in_loops(
                functions[kernel.name], functions, context.sub_groups, lanes):
            context.meetings = set()
        if context.shared is not None or context.meetings is not None:
            context.barriers = set()
    for name in sorted(context.barriers - {kernel.name}):
        raise SimulatorTrap(f"function {name} contains a barrier; only kernels may")
    writers = {name: FunctionWriter(context, f) for name, f in functions.items()
               if not is_lane_helper(name)}
    bodies = [
        writers[name].written() if name in writers else _lane_helper(context, f)
        for name, f in functions.items()
    ]
    costs = HostCosts.of(host_cpu(), list(context.definitions.values()))
    large = {f.name for f in bodies if is_large(f, costs)}
    if (kernel.name in context.barriers or context.takes_turns) and ENTRY not in large:
        bodies = [kept_across_barriers(f) if f.name == ENTRY else f for f in bodies]
    is_in_step = context.shared is not None or context.meetings is not None
    if is_in_step and arguments:
        values = _integers(kernel, arguments, writers[kernel.name].w.values)
        each = 1 if context.meetings is None else context.sub_groups
        bodies = [made for f in bodies for made in (
            for_arguments(f, values, sg=SG.text, sub_groups=each) if f.name == ENTRY else [f])]
    for met in (context.meetings,) if context.meetings else ():
        bodies = [looped(f, met, context.sub_groups, sg=SG.text, stopped=STOP_LABEL)
                  if any(b.label in met for b in f.blocks) else f for f in bodies]
    tables = writers[kernel.name].w.arrays.tables
    if sanitizer is None:
        bodies = [f if f.name in large else pinned_results(f, STOP_LABEL, host_cpu())
                  for f in bodies]
    constants: list[ir.Global] = []
    for f in [f for f in bodies if f.name in large]:
        separated, own = once_per_shape(f, costs)
        bodies[bodies.index(f):bodies.index(f) + 1] = separated
        constants += own
    made = [flags_in_memory(f) for f in (*context.definitions.values(), *bodies)]
    helpers = {name for name in undefined_calls(made) if not name.startswith("llvm.")}
    return HostKernel(kernel_name, print_module(made, [*_globals(module), *constants]),
                      argument_types(kernel),
                      tuple(sorted(helpers)), lanes, work_group,
                      context.slm_bytes if writers[kernel.name].needs_shared_memory else 0,
                      kernel.name in context.barriers,
                      context.takes_turns, _most_eager(context), left_out is None,
                      context.locations, sanitizer, is_in_step, tables.head_bytes,
                      tables.nbytes, bool(large))


def _integers(
    kernel: Function, arguments: Sequence[int], values: Mapping[str, Value]
) -> dict[str, int]:
    """Arguments that are integers, by the name of the host's value, as signed numbers."""
    found = {}
    for (name, t), given in zip(kernel.parameters, arguments, strict=False):
        value = values[name]
        if t in (I32, I64) and isinstance(value, Uniform):
            half = 1 << t.bits - 1
            found[value.value.text] = (given + half) % (2 * half) - half
    return found


def _most_eager(context: ModuleContext) -> int:
    return MOST if context.takes else MOST_WAITING if context.after_waits else 0


def _for_speed(function: Function) -> Function:
    return late_loads(whole_vectors(split_vectors(joined_accesses(merge_halves(function)))))


def _as_it_is(function: Function) -> Function:
    return function


def _lane_helper(context: ModuleContext, function: Function) -> Function:
    plan = context.sanitizer
    checked = plan is not None and not plan.trace
    made = lane_helper(function, checked=checked, releases=plan is not None and plan.releases,
                       counted=context.takes_turns)
    if plan is not None and checked:
        writes = any(i.opcode in ("store", "atomicrmw", "cmpxchg") for i in function.instructions())
        plan.writes_anywhere |= writes and not is_atomic_helper(function.name)
        plan.synchronises |= any(i.callee == SYNC.symbol for i in made.instructions())
    return made


def _with_shadows(functions: dict[str, Function], plan: Instrumentation) -> dict[str, Function]:
    """The functions with shadow values, which track undefined results of masked loads."""
    found = dict(functions)
    for name, function in functions.items():
        if not is_lane_helper(name):
            if plan.undefined.suspects or any(map(_begins, function.instructions())):
                function = inline_helpers(function, functions)
            found[name] = instrument(
                function, plan.undefined, helpers=functions, entry=partial(plan.entry, function))
    return found


def _with_joined(function: Function, seen: dict[str, int], every: int) -> dict[str, int]:
    """Observers of loads, including merged ones, which have those of all their elements."""
    wholes = {i.result: 0 for i in function.instructions() if i.result and is_joined(i)}
    for i in function.instructions():
        for name in i.locals():
            if name in wholes:
                taken = i.opcode == "extractelement" and i.result in seen
                wholes[name] |= seen[str(i.result)] if taken else every
    return {**seen, **wholes}


def _begins(i: ir.Instruction) -> bool:
    """True if an instruction may produce undefined values."""
    return (i.unfilled or bool(i.defines) or i.opcode in ("fptosi", "fptoui")
            or is_masked_atomic(i))


def _reachable(functions: dict[str, Function], kernel: Function) -> dict[str, Function]:
    """The functions that a kernel calls, directly or not, in module order."""
    keep, todo = set(), [kernel.name]
    while todo:
        name = todo.pop()
        if name not in keep:
            keep.add(name)
            todo += [i.callee for i in functions[name].instructions() if i.callee in functions]
    return {name: f for name, f in functions.items() if name in keep}


def sizes(
    module: ir.Module, kernel: Function, target: Target
) -> tuple[int, tuple[int, int, int]]:
    """Lanes of a subgroup, and sizes of the work-group."""
    lanes, *_ = module.metadata_integers(kernel, "intel_reqd_sub_group_size") or (32,)
    name = kernel.name
    if lanes not in target.subgroup_sizes:
        raise LegalityError(
            f"kernel {name}: {target.name} has no subgroups of {lanes} lanes, only of "
            f"{', '.join(map(str, target.subgroup_sizes))}"
        )
    group = module.metadata_integers(kernel, "reqd_work_group_size")
    if len(group) != 3:
        raise DeviceError(f"kernel {name} has no reqd_work_group_size metadata")
    total = math.prod(group)
    if total > target.max_work_group_size:
        raise LegalityError(
            f"kernel {name}: a work-group of {total} work-items is over the limit of "
            f"{target.max_work_group_size} on {target.name}; use fewer warps"
        )
    if group[1:] != (1, 1) or total % lanes:
        raise LegalityError(
            f"kernel {name}: the simulator runs one-dimensional work-groups of whole subgroups"
        )
    return lanes, (group[0], group[1], group[2])


def check_slm(module: ir.Module, name: str, target: Target) -> None:
    """Refuse more shared local memory than a work-group can have."""
    _, nbytes = slm_places(module)
    if nbytes > target.max_slm_bytes:
        raise LegalityError(
            f"kernel {name}: {nbytes} bytes of shared local memory are over the limit of "
            f"{target.max_slm_bytes} on {target.name}"
        )


def slm_places(module: ir.Module) -> tuple[dict[str, int], int]:
    """Offsets of the variables in shared local memory, and the bytes of all."""
    places, end = {}, 0
    for variable in module.globals.values():
        if variable.space == 3:
            places[variable.name] = -(-end // 64) * 64
            end = places[variable.name] + variable.type.size
    return places, end


def _globals(module: ir.Module) -> list[ir.Global]:
    return [g for g in module.globals.values()
            if g.space != 3 and not g.name.startswith("@llvm.")]
