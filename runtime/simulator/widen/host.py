"""From the LLVM module of a kernel to the host module that runs one subgroup of it.

Signature of a host kernel: `(ptr args, ptr ctx, i32 sg)`; `args` holds the kernel arguments in
slots of 8 bytes, `ctx` the work-group (`CONTEXT_*` offsets), `sg` the subgroup in it.  A kernel
with a barrier is a coroutine: it returns a handle that is resumed after each barrier.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from triton_xe.errors import DeviceError, LegalityError, SimulatorTrap
from triton_xe.hardware.target import Target
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.calls import is_dpas, is_lane_helper
from triton_xe.runtime.simulator.analysis.guards import Part, part_of
from triton_xe.runtime.simulator.analysis.private_arrays import find_granules, private_pointers
from triton_xe.runtime.simulator.analysis.shapes import Shape, ShapeAnalysis
from triton_xe.runtime.simulator.analysis.tile_tables import tile_tables, tiles_offset
from triton_xe.runtime.simulator.ir import Block, Function, Instruction
from triton_xe.runtime.simulator.sanitizer.definedness import instrument
from triton_xe.runtime.simulator.sanitizer.instrument import (
    ATOMIC_HELPER,
    LANE_DECLARATIONS,
    Instrumentation,
    finite_result,
)
from triton_xe.runtime.simulator.sanitizer.state import CHECK_ONE, FENCE, STOPPED, SYNC
from triton_xe.runtime.simulator.widen import calls, elementwise, memory
from triton_xe.runtime.simulator.widen.direct import direct_arrays
from triton_xe.runtime.simulator.widen.dpas_groups import group_dpas
from triton_xe.runtime.simulator.widen.inline_helpers import inline_helpers
from triton_xe.runtime.simulator.widen.lane_atomics import releases
from triton_xe.runtime.simulator.widen.lane_loops import loop_ends
from triton_xe.runtime.simulator.widen.matrix import assign_slots, operand_roles
from triton_xe.runtime.simulator.widen.scalar_extracts import scalar_extracts
from triton_xe.runtime.simulator.widen.values import (
    Aggregate,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    wide_type,
)
from triton_xe.runtime.simulator.widen.widener import (
    HostBlock,
    ModuleContext,
    Rule,
    Widener,
    known,
)

CONTEXT_SLM = 48
CONTEXT_ERROR = 56
CONTEXT_SITES = 64
ENTRY = "xe_kernel"
LONG_BLOCK = 400
"""Lines after which a block is cut: LLVM's work on one block grows with the square of its length
(its x86 target compares each constant vector with all others that the block loads)."""

_ARGUMENT_NAMES = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "i16"}


@dataclass(frozen=True)
class HostKernel:
    """The text of a host module and what a launch needs to know of its kernel."""

    name: str
    text: str
    argument_types: tuple[str, ...]
    helpers: tuple[str, ...]
    lanes: int
    work_group: tuple[int, int, int]
    slm_bytes: int
    has_barrier: bool
    is_whole: bool
    """Nothing was left out."""
    places: Mapping[int, str]
    """Where the instructions are that may trap, by line of the LLVM module."""
    sanitizer: Instrumentation | None = None
    tile_heads: int = 0
    """Bytes of the tables for prepared tiles, zero when a launch begins (see `tile_tables`)."""
    tile_bytes: int = 0

    @cached_property
    def sub_groups(self) -> int:
        return -(-math.prod(self.work_group) // self.lanes)


def find_kernel(module: ir.Module, name: str) -> Function:
    """The kernel of that name; `DeviceError` where the module has none."""
    found = next((k for k in module.kernels() if k.name == name), None)
    if found is None:
        names = ", ".join(k.name for k in module.kernels()) or "none"
        raise DeviceError(f"no kernel {name!r} in this module; it has: {names}")
    return found


def translate(
    module: ir.Module, kernel_name: str, target: Target, *, part: Part = Part.WHOLE,
    sanitizer: Instrumentation | None = None,
) -> HostKernel:
    """The host module of one kernel; `SimulatorTrap` for what the device would do wrongly.

    Of the parts of a kernel (see `guards`) it has the whole where nothing can be left out.
    """
    kernel = find_kernel(module, kernel_name)
    partial_kernel = part_of(kernel, part)
    module = ir.Module(dict(module.functions), module.globals, module.metadata)
    kernel = partial_kernel or kernel
    module.functions[kernel.name] = kernel
    _keep_reachable(module, kernel)
    module.functions = {
        name: f if is_lane_helper(name) else scalar_extracts(f)
        for name, f in module.functions.items()
    }
    kernel = module.functions[kernel.name]
    if sanitizer is not None and not sanitizer.trace:
        sanitizer.releases = any(map(releases, module.functions.values()))
        _add_shadows(module, sanitizer)
        kernel = module.functions[kernel.name]
    lanes, work_group = _sizes(module, kernel, target)
    context = ModuleContext(module, target, lanes, ShapeAnalysis(module, lanes))
    context.sanitizer = sanitizer
    context.work_group = work_group
    context.sub_groups = -(-math.prod(work_group) // lanes)
    _place_slm(context, kernel_name)
    context.barriers = {
        f.name for f in module.functions.values() if any(map(calls.is_barrier, f.instructions()))
    }
    for name in sorted(context.barriers - {kernel.name}):
        raise SimulatorTrap(f"function {name} contains a barrier; only kernels may")
    writers = {f.name: _FunctionWriter(context, f) for f in module.functions.values()
               if not is_lane_helper(f.name)}
    bodies = [
        writers[f.name].text() if f.name in writers else _lane_helper(context, f)
        for f in module.functions.values()
    ]
    tables = writers[kernel.name].w.tables
    text = "\n\n".join([
        *_globals(module), *sorted(set(context.declarations.values())),
        *context.definitions.values(), *bodies,
    ])
    types = tuple(
        "ptr" if t.kind == "ptr" else _ARGUMENT_NAMES.get(t.name, t.name)
        for _, t in kernel.parameters
    )
    return HostKernel(kernel_name, text, types, tuple(sorted(context.helpers)), lanes, work_group,
                      context.slm_bytes, kernel.name in context.barriers, partial_kernel is None,
                      context.places, sanitizer, tables.head_bytes, tables.nbytes)


def _lane_helper(context: ModuleContext, function: Function) -> str:
    checked = context.sanitizer is not None and not context.sanitizer.trace
    released = context.sanitizer is not None and context.sanitizer.releases
    text = calls.lane_helper_text(function, sanitized=checked, releases=released)
    if loop_ends(function):
        context.helpers.add(STOPPED)
        context.declarations[STOPPED] = f"declare void @{STOPPED}(ptr, i32, i64) nounwind"
    if context.sanitizer is not None and checked:
        for name in (CHECK_ONE, SYNC, FENCE):
            context.helpers.add(name)
            context.declarations[name] = LANE_DECLARATIONS[name]
        writes = any(i.opcode in ("store", "atomicrmw", "cmpxchg") for i in function.instructions())
        known = function.name.startswith(ATOMIC_HELPER)
        context.sanitizer.writes_anywhere |= writes and not known
        context.sanitizer.synchronises |= bool(re.search(rf"call void @{SYNC}\b", text))
    return text


def _add_shadows(module: ir.Module, plan: Instrumentation) -> None:
    """Let the functions compute which of their values masked loads leave undefined."""
    helpers = dict(module.functions)
    for name, function in module.functions.items():
        if not is_lane_helper(name):
            if any(i.unfilled for i in function.instructions()):
                function = inline_helpers(function, helpers)
            module.functions[name] = instrument(
                function, plan.undefined, helpers=helpers, entry=partial(plan.entry, function))


def _keep_reachable(module: ir.Module, kernel: Function) -> None:
    by_name = module.functions
    keep, todo = set(), [kernel]
    while todo:
        function = todo.pop()
        if function.name in keep:
            continue
        keep.add(function.name)
        todo += [by_name[i.callee] for i in function.instructions()
                 if i.opcode == "call" and i.callee in by_name]
    module.functions = {n: f for n, f in module.functions.items() if n in keep}


def _sizes(
    module: ir.Module, kernel: Function, target: Target
) -> tuple[int, tuple[int, int, int]]:
    sub_group = module.metadata_integers(kernel, "intel_reqd_sub_group_size")
    numbers = [n for n in sub_group if n != 32 or sub_group.count(32) > 1] or [32]
    words = module.metadata.get(kernel.metadata.get("intel_reqd_sub_group_size", -1), "")
    lanes = int(words.split("i32")[1].strip(" }")) if "i32" in words else numbers[0]
    name = kernel.name
    if lanes not in target.subgroup_sizes:
        raise LegalityError(
            f"kernel {name}: {target.name} has no subgroups of {lanes} lanes, only of "
            f"{', '.join(map(str, target.subgroup_sizes))}"
        )
    words = module.metadata.get(kernel.metadata.get("reqd_work_group_size", -1), "")
    sizes = [int(p.strip(" },")) for p in words.split("i32")[1:]]
    if len(sizes) != 3:
        raise DeviceError(f"kernel {name} has no reqd_work_group_size metadata")
    total = math.prod(sizes)
    if total > target.max_work_group_size:
        raise LegalityError(
            f"kernel {name}: a work-group of {total} work-items is over the limit of "
            f"{target.max_work_group_size} on {target.name}; use fewer warps"
        )
    if sizes[1:] != [1, 1] or total % lanes:
        raise LegalityError(
            f"kernel {name}: the simulator runs one-dimensional work-groups of whole subgroups"
        )
    return lanes, (sizes[0], sizes[1], sizes[2])


def _place_slm(context: ModuleContext, name: str) -> None:
    offset = 0
    for variable in context.module.globals.values():
        if variable.space == 3:
            offset = -(-offset // 64) * 64
            context.slm_offsets[variable.name] = offset
            offset += variable.type.size
    limit = context.target.max_slm_bytes
    if offset > limit:
        raise LegalityError(
            f"kernel {name}: {offset} bytes of shared local memory are over the limit of {limit} "
            f"on {context.target.name}"
        )
    context.slm_bytes = offset


def _globals(module: ir.Module) -> list[str]:
    return [
        f"{g.name} = internal {'constant' if g.is_constant else 'global'} {g.type.text} "
        f"{g.initializer if g.initializer != 'external' else 'undef'}"
        for g in module.globals.values() if g.space != 3 and not g.name.startswith("@llvm.")
    ]


class _FunctionWriter:
    """One widened function as text."""

    def __init__(self, context: ModuleContext, function: Function) -> None:
        self.context = context
        self.function = function
        self.is_coroutine = function.name in context.barriers
        self.w = Widener(context, function, RULES)
        self.w.private_pointers = private_pointers(function)
        self.w.granules = find_granules(function, self.w.private_pointers)
        self.w.roles = operand_roles(function, context.target)
        self.w.direct_kinds = direct_arrays(
            function, self.w.private_pointers, self.w.roles, self.w.uses, context.lanes
        )
        if context.sanitizer is None:
            self.w.tables = tile_tables(function, self.w.private_pointers, self.w.direct_kinds,
                                        self.w.uses, context.lanes)
        self.by_label = {b.label: b for b in function.blocks}
        self.order = self._reverse_postorder()
        self.source = self.order[0]
        self.stops = False
        self.casts: dict[tuple[str, str, str], str] = {}
        """First result of each bitcast: block, operand, type."""

    def _reverse_postorder(self) -> list[Block]:
        seen: set[str] = set()
        order: list[Block] = []
        stack: list[tuple[Block, int]] = [(self.function.blocks[0], 0)]
        seen.add(self.function.blocks[0].label)
        while stack:
            block, k = stack.pop()
            if k < len(block.successors):
                stack.append((block, k + 1))
                following = block.successors[k]
                if following not in seen:
                    seen.add(following)
                    stack.append((self.by_label[following], 0))
            else:
                order.append(block)
        return order[::-1]

    def text(self) -> str:
        w = self.w
        assign_slots(w)
        w.block = HostBlock("entry", exit="entry")
        self._parameters()
        labels = {b.label: f"s{k}" for k, b in enumerate(self.order)}
        self.labels = labels
        for block in self.order:
            self._block(block)
        self._finish_phis()
        lines = [self._header(), "entry:", *self._prologue()]
        lines += [f"  {x}" for x in w.entry]
        lines += [f"  {x}" for x in self.entry_lines]
        lines.append(f"  br label %{labels[self.order[0].label]}")
        for block in self.order:
            host = w.blocks[block.label]
            lines.append(f"{host.label}:")
            lines += [x if x.endswith(":") else f"  {x}" for x in host.lines]
            lines.append(f"  {host.terminator}")
        if self.stops:
            lines += ["xe.stopped:", f"  {self._stopped()}"]
        lines += self._epilogue()
        lines.append("}")
        return "\n".join(lines)

    def _header(self) -> str:
        attributes = 'nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512"'
        if self.function.is_kernel:
            result = "ptr" if self.is_coroutine else "void"
            extra = " presplitcoroutine" if self.is_coroutine else ""
            return (f"define {result} @{ENTRY}(ptr noalias %args, ptr noalias %ctx, i32 %sg) "
                    f"{attributes}{extra} {{")
        shapes = self.context.shapes.arguments[self.function.name]
        parameters = ["ptr %ctx", "i32 %sg"]
        for k, ((_, t), shape) in enumerate(zip(self.function.parameters, shapes, strict=True)):
            uniform = shape is not None and shape.uniform
            parameters.append(f"{t.text if uniform else wide_type(t, self.w.lanes)} %p{k}")
        returned = self.context.shapes.returns[self.function.name]
        uniform = returned is not None and returned.uniform
        result = calls.host_type(self.w, self.function.result, uniform)
        name = calls.host_name(self.function)
        return f"define internal {result} {name}({', '.join(parameters)}) {attributes} {{"

    def _prologue(self) -> list[str]:
        lines = []
        if self.is_coroutine:
            lines += [
                "  %id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)",
                "  %frame.size = call i64 @llvm.coro.size.i64()",
                "  %frame = call ptr @xe_frame(ptr %ctx, i32 %sg, i64 %frame.size)",
                "  %handle = call ptr @llvm.coro.begin(token %id, ptr %frame)",
            ]
            self.context.declarations["coro"] = (
                "declare token @llvm.coro.id(i32, ptr, ptr, ptr)\n"
                "declare i64 @llvm.coro.size.i64()\n"
                "declare ptr @llvm.coro.begin(token, ptr)\n"
                "declare void @llvm.coro.end(ptr, i1, token)\n"
                "declare ptr @xe_frame(ptr, i32, i64)"
            )
            self.context.helpers.add("xe_frame")
            self.context.declarations["coro.suspend"] = "declare i8 @llvm.coro.suspend(token, i1)"
        lines += [
            f"  %slm.at = getelementptr i8, ptr %ctx, i64 {CONTEXT_SLM}",
            "  %slm = load ptr, ptr %slm.at",
            f"  %tiles = getelementptr i8, ptr %slm, i64 {tiles_offset(self.context.slm_bytes)}",
            f"  %err.at = getelementptr i8, ptr %ctx, i64 {CONTEXT_ERROR}",
            "  %err = load ptr, ptr %err.at",
            f"  %barrier_sites_at = getelementptr i8, ptr %ctx, i64 {CONTEXT_SITES}",
        ]
        return lines

    def _stopped(self) -> str:
        if self.function.is_kernel:
            return "br label %coro.final" if self.is_coroutine else "ret void"
        returned = self.context.shapes.returns[self.function.name]
        uniform = returned is not None and returned.uniform
        t = calls.host_type(self.w, self.function.result, uniform)
        return "ret void" if t == "void" else f"ret {t} zeroinitializer"

    def _epilogue(self) -> list[str]:
        if not self.is_coroutine:
            return []
        return [
            "coro.final:",
            "  %last = call i8 @llvm.coro.suspend(token none, i1 true)",
            "  switch i8 %last, label %coro.leave [i8 0, label %coro.trap "
            "i8 1, label %coro.cleanup]",
            "coro.trap:",
            "  unreachable",
            "coro.cleanup:",
            "  br label %coro.leave",
            "coro.leave:",
            "  call void @llvm.coro.end(ptr %handle, i1 false, token none)",
            "  ret ptr %handle",
        ]

    def _parameters(self) -> None:
        w = self.w
        shapes = self.context.shapes.arguments[self.function.name]
        for k, ((name, t), shape) in enumerate(
            zip(self.function.parameters, shapes, strict=True)
        ):
            if self.function.is_kernel:
                pointer = w.at("%args", 8 * k)
                if t == ir.I1:
                    byte = w.emit(f"load i8, ptr {pointer}, align 8")
                    w.values[name] = Uniform(w.emit(f"trunc i8 {byte} to i1"), t)
                else:
                    w.values[name] = Uniform(w.emit(f"load {t.text}, ptr {pointer}, align 8"), t)
            elif shape is not None and shape.uniform:
                w.values[name] = Uniform(f"%p{k}", t)
            else:
                w.values[name] = Wide(f"%p{k}", t)
        self.entry_lines = list(w.block.lines)

    def _block(self, block: Block) -> None:
        w = self.w
        self.source = block
        w.block = HostBlock(self.labels[block.label], exit=self.labels[block.label])
        w.blocks[block.label] = w.block
        w.in_loop = any(map(is_dpas, block.instructions)) and self._repeats(block)
        waiting: list[tuple[Instruction, Value]] = []
        begun = 0
        for i in block.instructions:
            w.current = i
            if len(w.block.lines) - begun > LONG_BLOCK:
                self._stop_when_told()
                begun = len(w.block.lines)
            if i.opcode == "phi":
                waiting.append(self._phi(i))
                continue
            if waiting:
                self._define_phis(waiting)
                waiting = []
            self._instruction(i)
        w.current = None
        group_dpas(w)

    def _repeats(self, block: Block) -> bool:
        """Whether control can come back to a block."""
        seen: set[str] = set()
        todo = list(block.successors)
        while todo:
            label = todo.pop()
            if label not in seen:
                seen.add(label)
                todo += self.by_label[label].successors
        return block.label in seen

    def _define_phis(self, waiting: list[tuple[Instruction, Value]]) -> None:
        for i, value in waiting:
            self.w.define(i, value)

    def _phi(self, i: Instruction) -> tuple[Instruction, Value]:
        w = self.w
        assert i.result is not None
        shape = w.result_shape(i)
        value: Value
        if i.result in w.slots:
            value = Slot(w.slots[i.result], i.type)
        elif shape.pure and shape.table is not None and i.type.scalar.kind != "ptr":
            value = known(shape.table, i.type)
        elif i.type.kind == "struct":
            w.fail("a phi of a struct")
        else:
            name = w.name()
            w.phis.append((i, name, shape))
            w.do(f"PHI {name}")
            if shape.wide:
                value = Wide(name, i.type)
            elif shape.uniform or shape.table is None:
                value = Uniform(name, i.type)
            else:
                value = Tabled(name, shape.table, i.type)
        w.values[i.result] = value
        return i, value

    def _instruction(self, i: Instruction) -> None:
        w = self.w
        if i.opcode in ("br", "switch"):
            w.block.terminator = self._branch(i)
        elif i.opcode == "ret":
            w.block.terminator = self._return(i)
        elif i.opcode == "unreachable":
            w.block.terminator = "unreachable"
        elif i.opcode == "cold":
            w.call_helper("xe_cold", "void", ["ptr %ctx", "i32 %sg"])
            w.block.terminator = self._return(i)
        elif i.opcode == "call":
            calls.call(w, i)
            finite_result(w, i)
        else:
            rule = RULES.get(i.opcode)
            if rule is None:
                w.fail(f"unknown instruction {i.opcode}")
            if i.opcode == "bitcast" and self._known_cast(i):
                return
            rule(w, i)
            finite_result(w, i)

    def _known_cast(self, i: Instruction) -> bool:
        """Whether this block made the same cast before, with all that is needed of it."""
        w = self.w
        assert i.result is not None
        key = (self.source.label, i.operands[0].text, i.type.text)
        first = self.casts.setdefault(key, i.result)
        roles = w.roles.get(i.result, set())
        if first == i.result or first not in w.values or not all(
            (first, role) in w.prepared for role in roles
        ):
            return False
        w.values[i.result] = w.values[first]
        for role in roles:
            w.prepared[i.result, role] = w.prepared[first, role]
        return True

    def _branch(self, i: Instruction) -> str:
        if self._goes_back(i):
            self._stop_when_told(i)
        labels = [f"label %{self.labels[x]}" for x in i.labels]
        if not i.operands:
            return f"br {labels[0]}"
        value = self.w.value(i.operands[0])
        if not isinstance(value, Uniform):
            self.w.fail("a branch on a condition that differs between lanes")
        if i.opcode == "br":
            return f"br i1 {value.text}, {', '.join(labels)}"
        t = i.operands[0].type.text
        cases = " ".join(
            f"{t} {o.text}, {label}"
            for o, label in zip(i.operands[1:], labels[1:], strict=True)
        )
        return f"switch {t} {value.text}, {labels[0]} [{cases}]"

    def _goes_back(self, i: Instruction) -> bool:
        number = {b.label: k for k, b in enumerate(self.order)}
        return any(number[x] <= number[self.source.label] for x in i.labels)

    def _stop_when_told(self, back: Instruction | None = None) -> None:
        """Leave a long block, or a loop at `back`, once the launch has failed or is to end."""
        w = self.w
        code = w.emit("load volatile i64, ptr %err")
        bad = w.emit(f"icmp ne i64 {code}, 0")
        after, left = w.label(), w.label() if back is not None else "xe.stopped"
        w.do(f"br i1 {bad}, label %{left}, label %{after}")
        if back is not None:
            w.note_place(back)
            w.start_block(left)
            w.call_helper(STOPPED, "void", ["ptr %ctx", "i32 %sg", f"i64 {back.line}"])
            w.do("br label %xe.stopped")
        w.start_block(after)
        self.stops = True

    def _return(self, i: Instruction) -> str:
        w = self.w
        if self.function.is_kernel:
            return "br label %coro.final" if self.is_coroutine else "ret void"
        if not i.operands:
            return "ret void"
        returned = self.context.shapes.returns[self.function.name]
        uniform = returned is not None and returned.uniform
        t = calls.host_type(w, i.operands[0].type, uniform)
        return f"ret {t} {self._packed(w.value(i.operands[0]), uniform)}"

    def _packed(self, value: Value, uniform: bool) -> str:
        w = self.w
        if not isinstance(value, Aggregate):
            if uniform:
                assert isinstance(value, Uniform)
                return value.text
            return w.wide(value)
        t = calls.host_type(w, value.type, uniform)
        text = "poison"
        for k, part in enumerate(value.parts):
            field = calls.host_type(w, part.type, uniform)
            inner = self._packed(part, uniform)
            text = w.emit(f"insertvalue {t} {text}, {field} {inner}, {k}")
        return text

    # --- phis, once every block is written ----------------------------------------------------

    def _finish_phis(self) -> None:
        incoming: dict[str, list[str]] = {}
        for block in self.order:
            self._outgoing(block, incoming)
        types = {
            name: wide_type(i.type, self.w.lanes) if shape.wide else i.type.text
            for i, name, shape in self.w.phis
        }
        for block in self.order:
            host = self.w.blocks[block.label]
            host.lines = [
                f"{x[4:]} = phi {types[x[4:]]} {', '.join(incoming[x[4:]])}"
                if x.startswith("PHI ") else x
                for x in host.lines
            ]

    def _outgoing(self, block: Block, incoming: dict[str, list[str]]) -> None:
        """Materialise, at the end of `block`, what the phis of its successors receive."""
        w = self.w
        w.block = w.blocks[block.label]
        stores: list[tuple[str, str, str]] = []
        names = {i.result: (name, shape) for i, name, shape in w.phis}
        for label in dict.fromkeys(block.successors):
            for phi in self.by_label[label].phis:
                for operand, source in zip(phi.operands, phi.labels, strict=True):
                    if source != block.label:
                        continue
                    if phi.result in w.slots:
                        self._slot_copy(phi, operand, stores)
                    elif phi.result in names:
                        name, shape = names[phi.result]
                        incoming.setdefault(name, []).append(
                            f"[{self._incoming(operand, shape)}, %{w.block.exit}]"
                        )
        for flat, text, pointer in stores:
            w.do(f"store {flat} {text}, ptr {pointer}, align 64")

    def _slot_copy(
        self, phi: Instruction, operand: ir.Operand, stores: list[tuple[str, str, str]]
    ) -> None:
        w = self.w
        assert phi.result is not None
        slot = w.slots[phi.result]
        value = w.value(operand)
        if operand.is_undefined or (isinstance(value, Slot) and value.pointer == slot):
            return
        stores.append((wide_type(phi.type, w.lanes), w.wide(value), slot))

    def _incoming(self, operand: ir.Operand, shape: Shape) -> str:
        w = self.w
        if operand.is_undefined:
            return "poison"
        return w.wide_of(operand) if shape.wide else w.base(operand)


RULES: Mapping[str, Rule] = {**elementwise.RULES, **memory.RULES}

__all__ = ["ENTRY", "HostKernel", "is_dpas", "translate"]
