"""The host function of one function: parameters, blocks, branches, phis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import Block, Function, Instruction, Operand, constant
from triton_xe.llvm.types import I1, I8, I32, I64, PTR, TOKEN, VOID, Type
from triton_xe.runtime.simulator.analysis.calls import is_barrier, is_dpas
from triton_xe.runtime.simulator.analysis.orders import memory_orders
from triton_xe.runtime.simulator.analysis.private_arrays import find_granules
from triton_xe.runtime.simulator.analysis.shapes import Shape
from triton_xe.runtime.simulator.analysis.shared_image import SharedImage
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.host_kernel import ENTRY
from triton_xe.runtime.simulator.library.names import COLD, FRAME, STOPPED
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.sanitizer.instrument import finite_result, read_back
from triton_xe.runtime.simulator.translation import Kernel, Schedule
from triton_xe.runtime.simulator.widen import elementwise, memory, turns
from triton_xe.runtime.simulator.widen.calls import call, host_type
from triton_xe.runtime.simulator.widen.dpas_groups import group_dpas
from triton_xe.runtime.simulator.widen.host_function import (
    ARGS,
    CTX,
    ERROR,
    SG,
    SITES_AT,
    SLM,
    Here,
    HostFunction,
    NotData,
    known,
)
from triton_xe.runtime.simulator.widen.lane_helpers import host_name
from triton_xe.runtime.simulator.widen.matrix import allocate_slots, operand_roles
from triton_xe.runtime.simulator.widen.parts import Forms, Matrices, Shared, Source
from triton_xe.runtime.simulator.widen.values import Aggregate, Slot, Tabled, Uniform, Value, Wide
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

STOP_LABEL = "%xe.stopped"
LONG_BLOCK = 400
"""Instructions after which a block is cut.

LLVM's time for one block grows with the square of its length.  Its x86 target compares each
constant vector with all others that the block loads.
"""


class End(NamedTuple):
    """The end of a source block in the host function."""

    block: Block
    """Its last host block, without the terminator until phis have their operands."""
    terminator: Instruction
    here: Here


class FunctionWriter:
    """One function, widened."""

    def __init__(self, kernel: Kernel, function: Function) -> None:
        self.kernel = kernel
        self.function = function
        self.schedule = kernel.schedule if function.is_kernel else Schedule()
        """How subgroups run; a function that the kernel calls does not suspend them."""
        source = Source(function, Facts(function), kernel.shapes)
        source = source if self._equal is None else source.for_subgroup(0)
        b = HostFunction(kernel.sizes.lanes)
        shared = None if self._equal is None else Shared(SharedImage(kernel.slm.nbytes))
        self.w = Widener(kernel, source, self._forms(source, b), b, Matrices(), shared)
        self.team = [self.w]
        """Wideners of the subgroups that the function runs."""
        self.number = {b.label: k for k, b in enumerate(source.facts.order)}
        """Source blocks in the order in which they are written, by label."""
        self.current = ""
        """Label of the source block that is being written."""
        self.ends: dict[str, End] = {}
        """The end of each source block."""
        self.phis: dict[tuple[str | None, Operand], tuple[Instruction, Shape]] = {}
        """Phis of the host, by result in the source, and subgroup."""
        self.stops = False
        """True if the launch may end in the middle of the function."""

    @property
    def _equal(self) -> frozenset[str] | None:
        """Values that are equal in all subgroups, if it has code for each; else None."""
        return None if self.schedule.in_step is None else self.schedule.in_step.shared

    def _forms(self, source: Source, b: HostFunction) -> Forms:
        """Decide the forms of matrix operands, phis and private arrays."""
        facts = source.facts
        return Forms(
            operand_roles(self.function, self.kernel.target), allocate_slots(b, facts),
            memory_orders(facts, source.shape, source.lane_groups), find_granules(self.function))

    def _after_barriers(self) -> set[str]:
        """Labels of blocks that can run after a barrier."""
        if not self.schedule.is_coroutine:
            return set()
        suspending = [b for b in self.function.blocks
                      if self.schedule.turns or any(map(is_barrier, b.instructions))]
        return self.function.reachable([x for b in suspending for x in b.successors])

    def write(self) -> Function:
        """The host function; `UnsupportedError` for what the simulator cannot run."""
        try:
            return self._write()
        except NotData as error:
            self.w.fail(str(error))

    def _write(self) -> Function:
        w, b = self.w, self.w.b
        order, after_barriers = w.source.facts.order, self._after_barriers()
        self._head(b.function)
        entry = b.block
        arguments = b.block = Block("")
        self._parameters()
        if self._equal is not None:
            self.team += [w.for_subgroup(k) for k in range(1, self.kernel.sizes.sub_groups)]
        for block in order:
            self._block(block, is_resumed=block.label in after_barriers)
        for block in order:
            for each in self.team:
                self._outgoing(each, block)
        for end in self.ends.values():
            end.block.instructions.append(end.terminator)
        if self.stops:
            b.start(STOP_LABEL)
            self._leave()
        b.block = entry
        handle = self._coroutine() if self.schedule.is_coroutine else None
        self._prologue()
        entry.instructions += [*w.b.frame, *arguments.instructions]
        b.br(self._label(order[0].label))
        if handle is not None:
            self._epilogue(handle)
        if not self.needs_shared_memory:
            self._without_stores_to_shared_memory()
        return b.function

    @property
    def needs_shared_memory(self) -> bool:
        """True if the function loads anything from shared memory."""
        return self.w.shared is None or self.w.shared.is_read

    def _without_stores_to_shared_memory(self) -> None:
        assert self.w.shared is not None
        stores = set(self.w.shared.stores)
        for block in self.w.b.function.blocks:
            block.instructions = [i for i in block.instructions if i not in stores]

    def _label(self, label: str) -> str:
        """Label of the host block where a source block begins."""
        return f"%s{self.number[label]}"

    def _is_uniform(self, shape: Shape | None) -> bool:
        return shape is not None and shape.uniform

    @property
    def _result(self) -> Type:
        shape = self.kernel.shapes.returns[self.function.name]
        return host_type(self.w, self.function.result, self._is_uniform(shape))

    def _head(self, function: Function) -> None:
        """Set the name, the result, the parameters and the attributes of the host function."""
        function.attributes = (
            f'nounwind alignstack({host_cpu().vector_bytes}) '
            '"min-legal-vector-width"="512" "prefer-vector-width"="512"')
        function.parameters = [(CTX.text, PTR), (SG.text, I32)]
        if self.function.is_kernel:
            function.name, function.result = ENTRY, PTR if self.schedule.is_coroutine else VOID
            function.parameters.insert(0, (ARGS.text, PTR))
            function.parameter_attributes = {ARGS.text: "noalias", CTX.text: "noalias"}
            function.attributes += " presplitcoroutine" if self.schedule.is_coroutine else ""
            return
        function.name, function.is_internal = host_name(self.function), True
        function.result = self._result
        shapes = self.kernel.shapes.arguments[self.function.name]
        function.parameters += [
            (f"%p{k}", host_type(self.w, t, self._is_uniform(shape)))
            for k, ((_, t), shape) in enumerate(zip(self.function.parameters, shapes, strict=True))
        ]

    def _coroutine(self) -> Operand:
        """Begin a coroutine, with memory for its frame; its handle."""
        b, null = self.w.b, constant(PTR, 0)
        token = b.call("llvm.coro.id", TOKEN, [constant(I32, 64), null, null, null])
        size = b.call("llvm.coro.size.i64", I64)
        frame = b.invoke(FRAME, CTX, SG, size)
        return b.call("llvm.coro.begin", PTR, [token, frame])

    def _prologue(self) -> None:
        """Define the values that `host_function` names."""

        def name(result: Operand, opcode: str, *operands: Operand) -> None:
            b.append(Instruction(opcode, PTR, list(operands), result.text, element=I8))

        b = self.w.b
        name(SLM, "load", b.at(CTX, Context.SLM.offset))
        name(ERROR, "load", b.at(CTX, Context.ERROR.offset))
        name(SITES_AT, "getelementptr", CTX, constant(I64, Context.SITES.offset))

    def _epilogue(self, handle: Operand) -> None:
        """Write the end of a coroutine."""
        b = self.w.b
        b.start("%coro.final")
        none = Operand(TOKEN, "none")
        last = b.call("llvm.coro.suspend", I8, [none, ir.TRUE])
        b.switch(last, "%coro.leave", [(0, "%coro.trap"), (1, "%coro.cleanup")])
        b.start("%coro.trap")
        b.unreachable()
        b.start("%coro.cleanup")
        b.br("%coro.leave")
        b.start("%coro.leave")
        b.call("llvm.coro.end", VOID, [handle, ir.FALSE, none])
        b.ret(handle)

    def _leave(self) -> None:
        """End the subgroup; functions with a result return an unspecified one."""
        b = self.w.b
        if self.schedule.is_coroutine:
            b.br("%coro.final")
        else:
            nothing = self.function.is_kernel or self._result is VOID
            b.ret(None if nothing else ir.zero(self._result))

    def _parameters(self) -> None:
        """Bind the parameters: for a kernel those in the argument buffer."""
        w = self.w
        shapes = self.kernel.shapes.arguments[self.function.name]
        for k, ((name, t), shape) in enumerate(
            zip(self.function.parameters, shapes, strict=True)
        ):
            if self.function.is_kernel:
                x = w.b.load(I8 if t is I1 else t, w.b.at(ARGS, 8 * k), align=8)
                w.values[name] = Uniform(w.b.trunc(x, I1) if t is I1 else x, t)
                continue
            uniform = self._is_uniform(shape)
            x = Operand(host_type(w, t, uniform), f"%p{k}")
            w.values[name] = Uniform(x, t) if uniform else Wide(x, t)

    def _block(self, block: Block, *, is_resumed: bool) -> None:
        """Write a block, for each subgroup of the team."""
        w, b = self.w, self.w.b
        self.current = block.label
        in_loop = block.label in self.function.reachable(block.successors)
        b.here = Here(block.label, is_resumed, in_loop,
                      in_loop and any(map(is_dpas, block.instructions)), self._inner(block))
        b.start(self._label(block.label))
        if w.shared is not None:
            w.shared.image.forget()
        first = len(b.function.blocks) - 1
        phis = block.phis
        waiting = [(each, i, self._phi(each, i)) for i in phis
                   for each in self.team[: 1 if self._is_shared(i) else None]]
        for each, i, value in waiting:
            each.define(i, value)
            self._share(i)
        for stretch in self._stretches(block.instructions[len(phis) :]):
            for each in self.team:
                for i in stretch:
                    if each is w or not self._is_shared(i):
                        self._visit(each, i)
        last = b.block
        terminator = last.instructions.pop()
        w.current = None
        group_dpas(w, b.function.blocks[first:])
        self.ends[block.label] = End(last, terminator, b.here)

    def _inner(self, block: Block) -> frozenset[str]:
        """Values that only this block uses, if it is cut by barriers."""
        own = set(block.instructions)
        if not self.schedule.is_coroutine or not any(map(is_barrier, own)):
            return frozenset()
        uses = self.w.source.facts.users
        return frozenset(i.result for i in own if i.result and all(
            u in own and u.opcode != "phi" for u in uses.get(i.result, [])))

    def _stretches(self, instructions: list[Instruction]) -> Iterator[list[Instruction]]:
        """Split instructions at barriers, for kernels that run in step."""
        start = 0
        for k, i in enumerate(instructions if len(self.team) > 1 else ()):
            if is_barrier(i):
                yield instructions[start:k]
                start = k + 1
        yield instructions[start:]

    def _visit(self, w: Widener, i: Instruction) -> None:
        """Write one instruction; a terminator once for the team."""
        w.current = i
        if len(w.b.block.instructions) > LONG_BLOCK:
            self._stop_when_asked()
        if w.stored:
            read_back(w, i)
        if i.opcode not in ir.TERMINATORS:
            self._instruction(w, i)
            self._share(i)
        elif w is self.team[-1]:
            self._terminate(i)

    def _is_shared(self, i: Instruction) -> bool:
        return self._equal is not None and i.result in self._equal

    def _share(self, i: Instruction) -> None:
        """Give a result that is equal in all subgroups to the other wideners."""
        if self._is_shared(i):
            assert i.result is not None
            for other in self.team[1:]:
                other.values[i.result] = self.w.values[i.result]

    def _phi(self, w: Widener, i: Instruction) -> Value:
        """Create the host phi of a value, unless it is a slot or a table."""
        assert i.result is not None
        shape = w.result_shape(i)
        value: Value
        if i.result in w.forms.slots:
            value = Slot(w.forms.slots[i.result], i.type)
        elif shape.pure and shape.table is not None and i.type.scalar.kind != "ptr":
            value = known(shape.table, i.type)
        elif i.type.kind == "struct":
            w.fail("a phi of a struct")
        else:
            phi = w.b.phi(w.b.type_of(i.type) if shape.wide else i.type)
            self.phis[i.result, w.source.sg] = phi, shape
            if shape.wide:
                value = Wide(phi.value, i.type, w.forms.orders.get(i.result, 1))
            elif shape.uniform or shape.table is None:
                value = Uniform(phi.value, i.type)
            else:
                value = Tabled(phi.value, shape.table, i.type)
        w.values[i.result] = value
        return value

    def _instruction(self, w: Widener, i: Instruction) -> None:
        if self.schedule.turns:
            turns.write_before(w, i)
        if w.shared is not None and i.opcode == "call" and any(
                o.type.space == memory.SHARED for o in i.operands):
            w.shared.image.forget()
            w.shared.is_read = True
        if i.opcode == "call":
            call(w, i)
        else:
            rule = RULES.get(i.opcode)
            if rule is None:
                w.fail(f"unknown instruction {i.opcode}")
            rule(w, i)
        finite_result(w, i)

    def _terminate(self, i: Instruction) -> None:
        """Append the terminator of a source block."""
        w = self.w
        if self.schedule.turns:
            turns.write_before(w, i)
        if i.opcode in ("br", "switch"):
            self._branch(i)
        elif i.opcode == "ret":
            self._return(i)
        elif i.opcode == "unreachable":
            w.b.unreachable()
        elif i.opcode == "cold":
            w.b.invoke(COLD, CTX, SG if self.kernel.schedule.in_step is None else constant(I32, 0))
            self._return(i)
        else:
            w.fail(f"unknown instruction {i.opcode}")

    def _branch(self, i: Instruction) -> None:
        w = self.w
        if any(self.number[x] <= self.number[self.current] for x in i.labels):
            self._stop_when_asked(i)
        if i in self.kernel.schedule.turns.waits:
            turns.wait(w, self.kernel.schedule.turns.waits[i])
        operands = list(i.operands)
        if operands:
            value = w.value(operands[0])
            if not isinstance(value, Uniform):
                w.fail("a branch on a condition that differs between lanes")
            operands[0] = value.value
        w.b.append(Instruction(i.opcode, VOID, operands, labels=[self._label(x) for x in i.labels]))

    def _stop_when_asked(self, back: Instruction | None = None) -> None:
        """Leave a long block, or a loop at `back`, if the launch has failed or is to end."""
        w, b = self.w, self.w.b
        bad = b.icmp("ne", b.load(I64, ERROR, volatile=True), 0)
        after, left = b.label(), b.label() if back is not None else STOP_LABEL
        b.cond_br(bad, left, after)
        if back is not None:
            w.note_location(back)
            b.start(left)
            w.b.invoke(STOPPED, CTX, SG, back.line)
            b.br(STOP_LABEL)
        b.start(after)
        self.stops = True

    def _return(self, i: Instruction) -> None:
        if self.function.is_kernel or not i.operands:
            self._leave()
        else:
            self.w.b.ret(self._packed(self.w.value(i.operands[0]), self._result))

    def _packed(self, value: Value, t: Type) -> Operand:
        """A result of the function as one LLVM value."""
        w = self.w
        if not isinstance(value, Aggregate):
            if isinstance(value, Uniform) and value.value.type is t:
                return value.value
            return w.b.wide(value)
        x = ir.poison(t)
        for k, (part, field) in enumerate(zip(value.parts, t.fields, strict=True)):
            x = w.b.insert_value(x, self._packed(part, field), k)
        return x

    # --- phis, once every block is written ----------------------------------------------------

    def _outgoing(self, w: Widener, block: Block) -> None:
        """Compute, at the end of `block`, the values for the phis of its successors."""
        last, _, w.b.here = self.ends[block.label]
        w.b.block = last
        stores: list[tuple[Operand, Operand]] = []
        for label in dict.fromkeys(block.successors):
            for phi in self.w.source.facts.blocks[label].phis:
                for operand, source in zip(phi.operands, phi.labels, strict=True):
                    if source != block.label:
                        continue
                    if phi.result in w.forms.slots:
                        self._slot_copy(phi, operand, stores)
                    elif (phi.result, w.source.sg) in self.phis:
                        made, shape = self.phis[phi.result, w.source.sg]
                        group = w.forms.orders.get(phi.result or "", 1)
                        incoming = self._incoming(w, operand, made.type, shape, group)
                        w.b.add_incoming(made, incoming, last.label)
        for x, pointer in stores:
            w.b.store(x, pointer, align=64)

    def _slot_copy(
        self, phi: Instruction, operand: Operand, stores: list[tuple[Operand, Operand]]
    ) -> None:
        """Add the store of a phi's operand to its slot, unless it is there already."""
        w = self.w
        assert phi.result is not None
        slot = w.forms.slots[phi.result]
        value = w.value(operand)
        if operand.is_undefined or (isinstance(value, Slot) and value.pointer == slot):
            return
        stores.append((w.b.wide(value), slot))

    @staticmethod
    def _incoming(w: Widener, operand: Operand, t: Type, shape: Shape, group: int) -> Operand:
        if operand.is_undefined:
            return ir.poison(t)
        return w.b.ordered(w.value(operand), group) if shape.wide else w.base(operand)


RULES: Mapping[str, Rule] = {**elementwise.RULES, **memory.RULES}
