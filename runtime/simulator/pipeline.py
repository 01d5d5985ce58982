"""From the LLVM module of a kernel to the host module that runs one subgroup of it.

    kernel --KERNEL_PASSES--> kernel --widened--> host functions --HOST_PASSES--> host functions

The modules of the passes begin with their rewrites, as `before -> after`.

Signature of a host kernel: `(ptr args, ptr ctx, i32 sg)`.  `args` has the kernel arguments in slots
of 8 bytes, `ctx` is the work-group (`Context`), `sg` the number of the subgroup.  A kernel with a
barrier, or with interleaved programs, is a coroutine.  It returns a handle that is resumed at each
point where it yielded to others (see `turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from triton_xe import llvm as ir
from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.block_2d import alignment
from triton_xe.hardware.target import Target
from triton_xe.llvm.printer import print_module
from triton_xe.llvm.records import Function, undefined_calls
from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import I32, I64
from triton_xe.runtime.simulator.analysis.calls import is_barrier, is_lane_helper
from triton_xe.runtime.simulator.analysis.guards import part_of
from triton_xe.runtime.simulator.analysis.in_place import stores_in_place
from triton_xe.runtime.simulator.analysis.in_step import in_step
from triton_xe.runtime.simulator.analysis.kernel_sizes import (
    SharedMemory,
    Sizes,
    argument_types,
    check_slm,
    find_kernel,
    sizes,
)
from triton_xe.runtime.simulator.analysis.observers import observers
from triton_xe.runtime.simulator.analysis.shapes import ShapeAnalysis
from triton_xe.runtime.simulator.analysis.waits import after_waits, takes, waits
from triton_xe.runtime.simulator.host_kernel import ENTRY, HostKernel, Part, Purpose
from triton_xe.runtime.simulator.pieces.costs import HostCosts
from triton_xe.runtime.simulator.pieces.once_per_shape import is_large, once_per_shape
from triton_xe.runtime.simulator.rewrites.across_barriers import store_across_barriers
from triton_xe.runtime.simulator.rewrites.element_accesses import is_joined, joined_accesses
from triton_xe.runtime.simulator.rewrites.flags_in_memory import flags_in_memory
from triton_xe.runtime.simulator.rewrites.grouped_accesses import Groups, grouped_accesses
from triton_xe.runtime.simulator.rewrites.inline_helpers import inline_helpers
from triton_xe.runtime.simulator.rewrites.known_arguments import for_arguments
from triton_xe.runtime.simulator.rewrites.late_loads import late_loads
from triton_xe.runtime.simulator.rewrites.loops_over_subgroups import loops_over_subgroups
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
from triton_xe.runtime.simulator.widen.widener import SG, CheckedAtOnce, ModuleContext, Turns

MOST, MOST_WAITING = 1 << 62, 256
"""Programs that begin at once if there is room: if they take items; if they wait in rounds."""


@dataclass
class Kernel:
    """A kernel and the functions that it calls, before widening; passes change it in place."""

    module: ir.Module
    name: str
    target: Target
    part: Part
    plan: Instrumentation | None
    """Plan of the checks or the trace."""
    is_shuffled: bool
    is_whole: bool = True
    """True if no part was left out."""
    takes_items: bool = False
    """True if checked programs may take items of a queue in any order."""
    is_interleaved: bool = False
    """True if programs wait for others, take items, or are shuffled."""
    grouped: Groups = field(default_factory=dict)

    @property
    def what(self) -> Purpose:
        if self.plan is None:
            return Purpose.RUN
        return Purpose.TRACE if self.plan.trace else Purpose.CHECK

    @property
    def functions(self) -> dict[str, Function]:
        return self.module.functions

    @property
    def entry(self) -> Function:
        return self.functions[self.name]

    @property
    def bodies(self) -> dict[str, Function]:
        """The functions that are widened; others run lane by lane."""
        return {name: f for name, f in self.functions.items() if not is_lane_helper(name)}

    @cached_property
    def sizes(self) -> Sizes:
        return sizes(self.module, self.entry, self.target)


@dataclass
class HostModule:
    """The host functions of a kernel, after widening; passes change it in place."""

    kernel: Kernel
    context: ModuleContext
    arguments: Mapping[str, int]
    """Integers for which an in-step kernel has a version, by the name of their loads."""
    functions: list[Function]
    constants: list[ir.Global] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.costs = HostCosts.for_host(host_cpu(), list(self.context.definitions.values()))
        self.large = {f.name for f in self.functions if is_large(f, self.costs)}
        """Functions that are split into pieces."""

    def rewrite(self, rule: Callable[[Function], Sequence[Function]]) -> None:
        """Replace each function by those that a rule returns."""
        self.functions = [made for f in self.functions for made in rule(f)]


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
    kernel.takes_items = kernel.what is Purpose.CHECK and bool(takes(entry, functions))
    kernel.is_interleaved = (
        kernel.is_shuffled or kernel.takes_items or bool(waits(entry, functions)))


def leave_out_fallbacks(kernel: Kernel) -> None:
    """Leave out what the part to compile does not have, unless other programs may wait for it."""
    left = None if kernel.is_interleaved else part_of(kernel.entry, kernel.part)
    if left is not None:
        kernel.functions[kernel.name], kernel.is_whole = left, False


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
        if plan.undefined.suspects or any(map(_begins, function.instructions())):
            function = inline_helpers(function, functions)
        kernel.functions[name] = instrument(
            function, plan.undefined, helpers=functions, entry=partial(plan.entry, function))


def _begins(i: ir.Instruction) -> bool:
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


def group_accesses(kernel: Kernel) -> None:
    """Compute the operands of a tensor operation's accesses first: they are checked at once."""
    for name, function in () if kernel.is_interleaved else kernel.bodies.items():
        kernel.functions[name], groups = grouped_accesses(function)
        kernel.grouped |= groups


ALL, RUN, CHECK = frozenset(Purpose), frozenset({Purpose.RUN}), frozenset({Purpose.CHECK})
KERNEL_PASSES: tuple[tuple[frozenset[Purpose], Callable[[Kernel], None]], ...] = (
    (RUN | CHECK, poll_in_loops),
    (ALL, find_interleaving),
    (ALL, leave_out_fallbacks),
    (ALL, drop_unreachable),
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
    (CHECK, group_accesses),
)
"""Passes before widening, in order, and the launches for which each runs."""


# --- passes on host functions ---------------------------------------------------------------------


def keep_across_barriers(host: HostModule) -> None:
    """Store vectors that are live across a barrier in the frame of their subgroup."""
    if host.context.is_coroutine and ENTRY not in host.large:
        host.rewrite(lambda f: [store_across_barriers(f) if f.name == ENTRY else f])


def specialize_arguments(host: HostModule) -> None:
    """Add a version for the arguments of an earlier launch to a kernel that runs in step."""
    steps = host.context.in_step
    if steps is not None and host.arguments:
        each = host.context.sizes.sub_groups if steps.in_loops else 1
        host.rewrite(lambda f: for_arguments(f, host.arguments, sg=SG.text, sub_groups=each)
                     if f.name == ENTRY else [f])


def loop_over_subgroups(host: HostModule) -> None:
    """Run the code between two barriers in a loop over the subgroups."""
    meetings = set() if host.context.in_step is None else host.context.in_step.meetings
    if meetings:
        host.rewrite(lambda f: [
            loops_over_subgroups(
                f, meetings, host.context.sizes.sub_groups, sg=SG.text, stopped=STOP_LABEL)
            if any(b.label in meetings for b in f.blocks) else f])


def pin_results(host: HostModule) -> None:
    """Prevent LLVM from moving arithmetic past the cuts of a block."""
    host.rewrite(lambda f: [
        f if f.name in host.large else pinned_results(f, STOP_LABEL, host_cpu())])


def split_large(host: HostModule) -> None:
    """Split large functions, so that LLVM compiles each shape of their vector work once."""

    def split(f: Function) -> list[Function]:
        if f.name not in host.large:
            return [f]
        functions, constants = once_per_shape(f, host.costs)
        host.constants += constants
        return functions

    host.rewrite(split)


def store_flags_as_bytes(host: HostModule) -> None:
    """Store vectors of flags as bytes."""
    host.functions = [
        flags_in_memory(f) for f in (*host.context.definitions.values(), *host.functions)]


HOST_PASSES: tuple[tuple[frozenset[Purpose], Callable[[HostModule], None]], ...] = (
    (ALL, keep_across_barriers),
    (RUN, specialize_arguments),
    (RUN, loop_over_subgroups),
    (RUN, pin_results),
    (ALL, split_large),
    (ALL, store_flags_as_bytes),
)
"""Passes after widening, in order, and the launches for which each runs."""


# --- translation ----------------------------------------------------------------------------------


def translate(
    module: ir.Module, name: str, target: Target, *, part: Part = Part.WHOLE,
    sanitizer: Instrumentation | None = None, shuffled: bool = False, runs_in_step: bool = False,
    arguments: Sequence[int] = (),
) -> HostKernel:
    """The host module of one kernel; `SimulatorTrap` for errors that a device would not report.

    A kernel that runs in step has a version for these `arguments`, of which integers count.

    `part` is compiled (see `guards`), or the whole kernel if nothing can be left out.  The whole is
    also compiled if other programs may wait for the part that would be left out.
    """
    find_kernel(module, name)
    own = ir.Module(dict(module.functions), module.globals, module.metadata)
    kernel = Kernel(own, name, target, part, sanitizer, shuffled)
    for launches, change in KERNEL_PASSES:
        if kernel.what in launches:
            change(kernel)
    context = analysed(kernel, runs_in_step=runs_in_step)
    host, entry = widened(kernel, context, arguments)
    for launches, improve in HOST_PASSES:
        if kernel.what in launches:
            improve(host)
    helpers = {x for x in undefined_calls(host.functions) if not x.startswith("llvm.")}
    constants = [g for g in own.globals.values()
                 if g.space != 3 and not g.name.startswith("@llvm.")]
    return HostKernel(
        name, print_module(host.functions, [*constants, *host.constants]),
        argument_types(kernel.entry), tuple(sorted(helpers)),
        lanes=kernel.sizes.lanes, work_group=kernel.sizes.work_group,
        slm_bytes=context.slm.nbytes if entry.needs_shared_memory else 0,
        has_barrier=context.has_barrier, takes_turns=bool(context.turns),
        most_eager=_most_eager(context.turns),
        is_whole=kernel.is_whole, locations=context.locations,
        aligned=alignment(kernel.target), sanitizer=sanitizer,
        in_step=context.in_step is not None, tile_heads=entry.w.arrays.tables.head_bytes,
        tile_bytes=entry.w.arrays.tables.nbytes, in_pieces=bool(host.large))


def _most_eager(turns: Turns) -> int:
    """Number of programs that may begin at once, if there is room."""
    return MOST if turns.takes else MOST_WAITING if turns.after_waits else 0


def analysed(kernel: Kernel, *, runs_in_step: bool) -> ModuleContext:
    """Facts about a kernel that widening needs."""
    module, functions, entry, plan = kernel.module, kernel.functions, kernel.entry, kernel.plan
    check_slm(module, kernel.name, kernel.target)
    barriers = {name for name, f in functions.items() if any(map(is_barrier, f.instructions()))}
    steps = (in_step(entry, functions, kernel.sizes.sub_groups, kernel.sizes.lanes)
             if runs_in_step else None)
    for name in sorted(barriers - {kernel.name}):
        raise SimulatorTrap(f"function {name} contains a barrier; only kernels may")
    turns = Turns(
        kernel.is_shuffled,
        waits(entry, functions) if kernel.is_interleaved and kernel.what in RUN | CHECK else {},
        takes(entry, functions) if kernel.takes_items and not kernel.is_shuffled else frozenset(),
        after_waits(entry, functions) if (kernel.what is Purpose.CHECK and kernel.is_interleaved
                                          and not kernel.is_shuffled) else frozenset())
    in_place = {} if turns or kernel.what not in CHECK else {
        load: store for f in functions.values() for load, store in stores_in_place(f).items()}
    context = ModuleContext(
        module, kernel.target, kernel.sizes, ShapeAnalysis(module, kernel.sizes.lanes),
        SharedMemory.place(module), plan, turns, CheckedAtOnce(kernel.grouped, in_place), steps,
        bool(barriers) and steps is None)
    for origin in plan.undefined.origins if plan is not None else ():
        context.locations[origin.line] = module.location(origin.line, origin.debug)
    return context


def widened(
    kernel: Kernel, context: ModuleContext, arguments: Sequence[int]
) -> tuple[HostModule, FunctionWriter]:
    """The host functions of a kernel, and the writer of its entry."""
    writers = {name: FunctionWriter(context, f) for name, f in kernel.bodies.items()}
    functions = [writers[name].write() if name in writers else _lane_helper(context, f)
                 for name, f in kernel.functions.items()]
    entry = writers[kernel.name]
    values = _integers(kernel.entry, arguments, entry.w.values)
    return HostModule(kernel, context, values, functions), entry


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


def _lane_helper(context: ModuleContext, function: Function) -> Function:
    """The host version of a helper, which runs lane by lane; note the memory that it accesses."""
    plan = context.sanitizer
    checked = plan is not None and not plan.trace
    made = lane_helper(function, checked=checked, releases=plan is not None and plan.releases,
                       counted=bool(context.turns))
    if plan is not None and checked:
        writes = any(i.opcode in ("store", "atomicrmw", "cmpxchg") for i in function.instructions())
        plan.writes_anywhere |= writes and not is_atomic_helper(function.name)
        plan.synchronises |= any(i.callee == SYNC.symbol for i in made.instructions())
    return made
