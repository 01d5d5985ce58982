"""From the LLVM module of a kernel to the host module that runs one subgroup of it.

`PIPELINE` lists the passes.  Those before `widen` rewrite the functions of the kernel, those after
it the host functions.  Their modules begin with their rewrites, as `before -> after`.

Signature of a host kernel: `(ptr args, ptr ctx, i32 sg)`.  `args` has the kernel arguments in slots
of 8 bytes, `ctx` is the work-group (`Context`), `sg` the number of the subgroup.  A kernel with a
barrier, or with interleaved programs, is a coroutine.  It returns a handle that is resumed at each
point where it yielded to others (see `turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from triton_xe import llvm as ir
from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.block_2d import alignment
from triton_xe.hardware.target import Target
from triton_xe.llvm.printer import print_module
from triton_xe.llvm.records import Function, undefined_calls
from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import I32, I64
from triton_xe.runtime.simulator.analysis.calls import is_barrier
from triton_xe.runtime.simulator.analysis.guards import part_of
from triton_xe.runtime.simulator.analysis.in_step import in_step
from triton_xe.runtime.simulator.analysis.kernel_sizes import (
    argument_types,
    check_slm,
    find_kernel,
)
from triton_xe.runtime.simulator.analysis.observers import observers
from triton_xe.runtime.simulator.analysis.waits import after_waits, takes, waits
from triton_xe.runtime.simulator.host_kernel import ENTRY, WHOLE, Form, HostKernel, Part, Purpose
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.pieces.once_per_shape import is_large, once_per_shape
from triton_xe.runtime.simulator.rewrites.across_barriers import frozen_across_barriers
from triton_xe.runtime.simulator.rewrites.element_accesses import is_joined, joined_accesses
from triton_xe.runtime.simulator.rewrites.equal_casts import equal_casts
from triton_xe.runtime.simulator.rewrites.flags_in_memory import flags_in_memory
from triton_xe.runtime.simulator.rewrites.hidden_addresses import hidden_addresses
from triton_xe.runtime.simulator.rewrites.idle_subgroups import without_idle_subgroups
from triton_xe.runtime.simulator.rewrites.inline_helpers import inline_helpers
from triton_xe.runtime.simulator.rewrites.inside_bounds import inside_bounds
from triton_xe.runtime.simulator.rewrites.inside_loops import inside_loops
from triton_xe.runtime.simulator.rewrites.known_arguments import for_arguments
from triton_xe.runtime.simulator.rewrites.late_loads import late_loads
from triton_xe.runtime.simulator.rewrites.loops_over_subgroups import loops_over_subgroups
from triton_xe.runtime.simulator.rewrites.merge_halves import merge_halves
from triton_xe.runtime.simulator.rewrites.neighbours import whole_vectors
from triton_xe.runtime.simulator.rewrites.pinned_results import pinned_results, without_pins
from triton_xe.runtime.simulator.rewrites.polls import loops_for_polls
from triton_xe.runtime.simulator.rewrites.scalar_extracts import scalar_extracts
from triton_xe.runtime.simulator.rewrites.separate_loops import separate_loops
from triton_xe.runtime.simulator.rewrites.split_vectors import split_vectors
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.sanitizer.batches import in_batches
from triton_xe.runtime.simulator.sanitizer.definedness import instrument, is_masked_atomic
from triton_xe.runtime.simulator.sanitizer.instrument import is_atomic_helper
from triton_xe.runtime.simulator.sanitizer.state import MOST_BYTES, SYNC
from triton_xe.runtime.simulator.translation import Kernel, Schedule, Turns
from triton_xe.runtime.simulator.widen.function import STOP_LABEL, FunctionWriter
from triton_xe.runtime.simulator.widen.host_function import SG
from triton_xe.runtime.simulator.widen.lane_atomics import releases
from triton_xe.runtime.simulator.widen.lane_helpers import lane_helper
from triton_xe.runtime.simulator.widen.values import Uniform, Value

# --- passes on a kernel ---------------------------------------------------------------------------


def each_body(rule: Callable[[Function], Function]) -> Callable[[Kernel], None]:
    """A pass that rewrites each function that is widened."""

    def rewrite(kernel: Kernel) -> None:
        kernel.functions.update({name: rule(f) for name, f in kernel.bodies.items()})

    return rewrite


def poll_in_loops(kernel: Kernel) -> None:
    """Inline polls as loops of the kernel, in which other programs can have their turn."""
    kernel.functions[kernel.name] = loops_for_polls(kernel.entry)


def find_interleaving(kernel: Kernel) -> None:
    """Find out if programs wait for others, or take items of a queue."""
    entry, functions = kernel.entry, kernel.functions
    kernel.takes_items = kernel.form.purpose is Purpose.CHECK and bool(takes(entry, functions))
    kernel.is_interleaved = (
        kernel.form.is_shuffled or kernel.takes_items or bool(waits(entry, functions)))


def leave_out_fallbacks(kernel: Kernel) -> None:
    """Drop the blocks that `Form.part` leaves out, unless other programs may wait for them."""
    left = None if kernel.is_interleaved else part_of(kernel.entry, kernel.form.part)
    if left is not None:
        kernel.functions[kernel.name], kernel.is_whole = left, False


def leave_out_masks(kernel: Kernel) -> None:
    """Drop masks that hold in most programs; the other programs run in the whole kernel."""
    if kernel.form.part is Part.COMMON and kernel.is_whole and not kernel.is_interleaved:
        left = inside_bounds(kernel.entry, kernel.sizes)
        if left is not None:
            kernel.functions[kernel.name], kernel.is_whole = left, False


def leave_out_idle_subgroups(kernel: Kernel) -> None:
    """Let subgroups that store nothing end at once."""
    if not kernel.is_interleaved:
        kernel.functions[kernel.name] = without_idle_subgroups(kernel.entry)


def leave_out_masks_in_loops(kernel: Kernel) -> None:
    """Write loops with and without masks, for hosts on which masks take long.

    A kernel with barriers is compiled once more, in step, if it runs for long.  Only that form has
    such loops.  Kernels that wait keep their loops, so that the waits are found.
    """
    together = any(map(is_barrier, kernel.entry.instructions()))
    is_last = kernel.form.in_step or not together
    if is_last and not (kernel.is_interleaved or host_cpu().has_mask_registers):
        kernel.functions[kernel.name] = inside_loops(
            kernel.entry, kernel.sizes, together=together)


def separate_accumulators(kernel: Kernel) -> None:
    """Write loops once for each part of their accumulators that fits into half of the registers.

    The other half is for loaded values and masks.
    """
    if not kernel.is_interleaved:
        host = host_cpu()
        most = host.vector_bytes * host.vector_registers // 2 // kernel.sizes.lanes
        kernel.functions[kernel.name] = separate_loops(kernel.entry, most)


def drop_unreachable(kernel: Kernel) -> None:
    """Drop functions that the kernel does not call."""
    functions = kernel.functions
    keep = reached([kernel.name], lambda name: [
        i.callee for i in functions[name].instructions() if i.callee in functions])
    kernel.module.functions = {name: f for name, f in functions.items() if name in keep}


def find_observers(kernel: Kernel) -> None:
    """Find the subgroups that observe each value, and if the kernel's atomics release."""
    assert kernel.plan is not None
    kernel.plan.releases = any(map(releases, kernel.functions.values()))
    if kernel.sizes.sub_groups > 1:
        kernel.plan.observers[kernel.name] = observers(kernel.entry, kernel.sizes.sub_groups)


def track_undefined(kernel: Kernel) -> None:
    """Add shadow values, which track undefined results of masked loads and other operations."""
    plan, functions = kernel.plan, dict(kernel.functions)
    assert plan is not None
    for name, function in kernel.bodies.items():
        if plan.undefined.suspects or any(map(_may_be_undefined, function.instructions())):
            function = inline_helpers(function, functions)
        kernel.functions[name] = instrument(
            function, plan.undefined, helpers=functions, entry=partial(plan.entry, function))


def _may_be_undefined(i: ir.Instruction) -> bool:
    """True if an instruction may produce undefined values."""
    return (i.unfilled or bool(i.defines) or i.opcode in ("fptosi", "fptoui")
            or is_masked_atomic(i))


def observe_joined(kernel: Kernel) -> None:
    """Give merged loads the observers of all their elements."""
    assert kernel.plan is not None
    seen = kernel.plan.observers.get(kernel.name)
    if seen is None:
        return
    every = (1 << kernel.sizes.sub_groups) - 1
    wholes = {i.result: 0 for i in kernel.entry.instructions() if i.result and is_joined(i)}
    for i in kernel.entry.instructions():
        for name in i.locals():
            if name in wholes:
                taken = i.opcode == "extractelement" and i.result in seen
                wholes[name] |= seen[str(i.result)] if taken else every
    kernel.plan.observers[kernel.name] = {**seen, **wholes}


def find_batches(kernel: Kernel) -> None:
    """Find accesses of one tensor, with the operands of each batch before its first access."""
    assert kernel.plan is not None
    for name, function in kernel.bodies.items():
        kernel.functions[name], found = in_batches(function)
        kernel.plan.batches.update(found)


# --- widening -------------------------------------------------------------------------------------


def schedule_subgroups(kernel: Kernel) -> None:
    """Decide how the subgroups run: each on its own, in step, or in turns with other programs."""
    functions, entry, form = kernel.functions, kernel.entry, kernel.form
    check_slm(kernel.module, kernel.name, kernel.target)
    barriers = {name for name, f in functions.items() if any(map(is_barrier, f.instructions()))}
    for name in sorted(barriers - {kernel.name}):
        raise SimulatorTrap(f"function {name} contains a barrier; only kernels may")
    steps = (in_step(entry, functions, kernel.sizes.sub_groups, kernel.sizes.lanes)
             if form.in_step else None)
    in_order = kernel.is_interleaved and not form.is_shuffled
    turns = Turns(
        form.is_shuffled,
        waits(entry, functions) if kernel.is_interleaved and form.purpose in RUN | CHECK else {},
        takes(entry, functions) if in_order and kernel.takes_items else frozenset(),
        after_waits(entry, functions) if in_order and form.purpose in CHECK else frozenset())
    kernel.schedule = Schedule(turns, steps, bool(barriers) and steps is None)


def widen(kernel: Kernel) -> None:
    """Write the host functions, which run all lanes of a subgroup at once."""
    host = kernel.host
    for origin in kernel.plan.undefined.origins if kernel.plan is not None else ():
        host.locations[origin.line] = kernel.module.location(origin.line, origin.debug)
    writers = {name: FunctionWriter(kernel, f) for name, f in kernel.bodies.items()}
    host.functions = [writers[name].write() if name in writers else _lane_helper(kernel, f)
                      for name, f in kernel.functions.items()]
    entry = writers[kernel.name]
    host.integers = _integers(kernel, entry.w.values)
    host.slm_bytes = kernel.slm.nbytes if entry.needs_shared_memory else 0


def _integers(kernel: Kernel, values: Mapping[str, Value]) -> dict[str, int]:
    """Arguments that are integers, by the name of the host's value, as signed numbers."""
    found = {}
    for (name, t), given in zip(kernel.entry.parameters, kernel.form.arguments, strict=False):
        value = values[name]
        if t in (I32, I64) and isinstance(value, Uniform):
            half = 1 << t.bits - 1
            found[value.value.text] = (given + half) % (2 * half) - half
    return found


def _lane_helper(kernel: Kernel, function: Function) -> Function:
    """The host version of a helper, which runs lane by lane; note the memory that it accesses."""
    plan, checked = kernel.plan, kernel.form.purpose is Purpose.CHECK
    made = lane_helper(function, checked=checked, releases=plan is not None and plan.releases,
                       counted=bool(kernel.schedule.turns))
    if plan is not None and checked:
        writes = any(i.opcode in ("store", "atomicrmw", "cmpxchg") for i in function.instructions())
        plan.writes_anywhere |= writes and not is_atomic_helper(function.name)
        plan.synchronises |= any(i.callee == SYNC.symbol for i in made.instructions())
    return made


# --- passes on host functions ---------------------------------------------------------------------


def find_large(kernel: Kernel) -> None:
    """Find the functions that are split into pieces, unless they run for long: in step."""
    host = kernel.host
    host.costs = HostCosts.for_host(host_cpu(), list(host.definitions.values()))
    if kernel.schedule.in_step is None:
        host.large = frozenset(f.name for f in host.functions if is_large(f, host.costs))


def keep_across_barriers(kernel: Kernel) -> None:
    """Keep LLVM from recomputing vectors after each barrier."""
    if kernel.schedule.is_coroutine and ENTRY not in kernel.host.large:
        kernel.host.rewrite(lambda f: [frozen_across_barriers(f) if f.name == ENTRY else f])


def specialize_arguments(kernel: Kernel) -> None:
    """Add a version for the arguments of an earlier launch to a kernel that runs in step."""
    steps, given = kernel.schedule.in_step, kernel.host.integers
    if steps is not None and given:
        each = kernel.sizes.sub_groups if steps.in_loops else 1
        kernel.host.rewrite(lambda f: for_arguments(f, given, sg=SG.text, sub_groups=each)
                            if f.name == ENTRY else [f])


def loop_over_subgroups(kernel: Kernel) -> None:
    """Run the code between two barriers in a loop over the subgroups."""
    steps = kernel.schedule.in_step
    meetings = set() if steps is None else steps.meetings
    if meetings:
        kernel.host.rewrite(lambda f: [
            loops_over_subgroups(
                f, meetings, kernel.sizes.sub_groups, sg=SG.text, stopped=STOP_LABEL)
            if any(b.label in meetings for b in f.blocks) else f])


def pin_results(kernel: Kernel) -> None:
    """Prevent LLVM from moving arithmetic past the cuts of a block."""
    kernel.host.rewrite(lambda f: [
        f if f.name in kernel.host.large else pinned_results(f, STOP_LABEL, host_cpu())])


def split_large(kernel: Kernel) -> None:
    """Split large functions, so that LLVM compiles each shape of their vector work once."""
    host = kernel.host

    def split(f: Function) -> list[Function]:
        if f.name not in host.large:
            return [f]
        functions, constants = once_per_shape(without_pins(f), host.costs)
        host.constants += constants
        return functions

    host.rewrite(split)


def suit_llvm(kernel: Kernel) -> None:
    """Write what LLVM's code generators misunderstand in forms that they do not."""
    host = kernel.host
    host.functions = [hidden_addresses(flags_in_memory(f), host_cpu())
                      for f in (*host.definitions.values(), *host.functions)]


# --- translation ----------------------------------------------------------------------------------


ALL, RUN, CHECK = frozenset(Purpose), frozenset({Purpose.RUN}), frozenset({Purpose.CHECK})
PIPELINE: tuple[tuple[frozenset[Purpose], Callable[[Kernel], None]], ...] = (
    (RUN | CHECK, poll_in_loops),
    (ALL, find_interleaving),
    (ALL, leave_out_fallbacks),
    (RUN, leave_out_masks),
    (RUN, leave_out_idle_subgroups),
    (RUN, separate_accumulators),
    (RUN, leave_out_masks_in_loops),
    (ALL, drop_unreachable),
    (RUN, each_body(equal_casts)),
    (RUN, each_body(merge_halves)),
    (RUN, each_body(joined_accesses)),
    (RUN, each_body(split_vectors)),
    (RUN, each_body(whole_vectors)),
    (RUN, each_body(late_loads)),
    (ALL, each_body(scalar_extracts)),
    (CHECK, find_observers),
    (CHECK, track_undefined),
    (CHECK, each_body(partial(joined_accesses, most=MOST_BYTES))),
    (CHECK, each_body(whole_vectors)),
    (CHECK, observe_joined),
    (CHECK, find_batches),
    (ALL, schedule_subgroups),
    (ALL, widen),
    (ALL, find_large),
    (ALL, keep_across_barriers),
    (RUN, specialize_arguments),
    (RUN, loop_over_subgroups),
    (RUN, pin_results),
    (ALL, split_large),
    (ALL, suit_llvm),
)
"""The passes, in order, and the launches for which each runs."""


def translate(module: ir.Module, name: str, target: Target, form: Form = WHOLE) -> HostKernel:
    """The host module of one kernel; `SimulatorTrap` for errors that a device would not report."""
    find_kernel(module, name)
    own = ir.Module(dict(module.functions), module.globals, module.metadata)
    kernel = Kernel(own, name, target, form)
    for launches, change in PIPELINE:
        if form.purpose in launches:
            change(kernel)
    host, schedule = kernel.host, kernel.schedule
    helpers = {x for x in undefined_calls(host.functions) if not x.startswith("llvm.")}
    constants = [g for g in own.globals.values()
                 if g.space != 3 and not g.name.startswith("@llvm.")]
    return HostKernel(
        name, print_module(host.functions, [*constants, *host.constants]),
        argument_types(kernel.entry), tuple(sorted(helpers)),
        lanes=kernel.sizes.lanes, work_group=kernel.sizes.work_group, slm_bytes=host.slm_bytes,
        has_barrier=schedule.has_barrier, takes_turns=bool(schedule.turns),
        most_eager=schedule.most_eager, is_whole=kernel.is_whole, locations=host.locations,
        aligned=alignment(target), sanitizer=form.plan, in_step=schedule.in_step is not None,
        in_pieces=bool(host.large))
