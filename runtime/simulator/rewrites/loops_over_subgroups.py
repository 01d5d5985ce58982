"""Merge all subgroups of a program into one function: a loop over them between barriers.

    first stretch       for sg in subgroups:
    barrier         ->      first stretch; store values that a later stretch needs
    second stretch      for sg in subgroups:
                            load these values; second stretch

The code from barrier to barrier is a stretch.  All subgroups take the same path (see
`analysis.in_step`), so that the last one takes the branch at the end of a stretch for all.  Values
that are equal in all subgroups are stored once, or computed before the loop if nothing was written
yet.  Cheap values are recomputed instead of being stored.  Values that are not live at the same
time share memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from triton_xe.llvm import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Block,
    Function,
    Instruction,
    Operand,
    array,
    constant,
)
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.liveness import Path, Step
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.llvm.solver import reached
from triton_xe.runtime.simulator.analysis.assign_offsets import assign_offsets

_LINE = 64
_MOST_RECOMPUTED = 6
"""Largest number of instructions of a recomputed value; a load is cheaper than more of them."""
_ELEMENTWISE = BINARY | CASTS | frozenset(
    "icmp fcmp fneg select getelementptr insertelement shufflevector extractelement".split())
_PURE_CALLS = ("inlined.", *(f"llvm.{name}." for name in (
    "fma maxnum minnum sqrt fabs smax smin umax umin".split())))
_READING = ("llvm.masked.load.", "xe.load_masked.", "llvm.masked.gather.", "llvm.prefetch.")


def loops_over_subgroups(
    function: Function, after_barriers: Collection[str], sub_groups: int, *, sg: str, stopped: str
) -> Function:
    """Convert the host function of one subgroup to that of all subgroups.

    `after_barriers`: labels of the blocks after barriers.  `sg`: the parameter with the subgroup's
    number.  `stopped`: label of the block that ends the launch.
    """
    return _Loops(function, after_barriers, sub_groups, sg, stopped).write()


@dataclass
class _FrameMemory:
    """Memory of values that are live between stretches."""

    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of values that differ between subgroups, in a subgroup's memory."""
    slots: dict[str, tuple[str, Instruction]] = field(default_factory=dict)
    """Name of an address -> its value, and the instruction that computes it."""
    strides: list[Instruction] = field(default_factory=list)
    """Instructions that multiply a subgroup's number by the bytes of one subgroup."""
    single: dict[str, Operand] = field(default_factory=dict)
    """Memory of each value that is equal in all subgroups."""

    def assign_offsets(self, blocks: Iterable[Block], turns: Collection[tuple[str, str]]) -> int:
        """Assign an offset to each value, and return the bytes of a subgroup.

        `turns`: edges at which the next subgroup runs, in memory of its own.
        """
        places, nbytes = assign_offsets([
            Path(b.label, list(self._steps(b)), [
                x for x in b.successors if (b.label, x) not in turns]) for b in blocks],
            self.sizes)
        for name, at in self.slots.values():
            at.operands[1] = constant(I64, places[name])
        for i in self.strides:
            i.operands[1] = constant(I64, nbytes)
        return nbytes

    def _steps(self, block: Block) -> Iterator[Step]:
        for i in block.instructions:
            at = i.operands[-1].text if i.opcode in ("load", "store") else ""
            if at in self.slots:
                names = (self.slots[at][0],)
                yield Step((), names) if i.opcode == "store" else Step(names)


class _Loops:
    """Converts one function."""

    def __init__(
        self, function: Function, after_barriers: Collection[str], sub_groups: int, sg: str,
        stopped: str,
    ) -> None:
        self.function, self.sub_groups = function, sub_groups
        self.sg, self.stopped = sg, stopped
        self.entry = function.blocks[0]
        self.owner = _stretches(function, after_barriers, stopped)
        facts = Facts(function)
        self.made = facts.makers
        self.home = {name: facts.homes[i] for name, i in facts.makers.items()}
        self.own = _varying_values(facts, sg)
        self.phis = {b.label: b.phis for b in function.blocks
                     if self.owner.get(b.label) == b.label}
        """Phis of the first blocks of stretches, by label."""
        self.entry_phis = {str(i.result): i for phis in self.phis.values() for i in phis}
        self.kept = _FrameMemory()
        self.count = 0
        self.allocas: list[Instruction] = []
        self._assign_memory()

    # --- values that are live between stretches -------------------------------------------------

    def _assign_memory(self) -> None:
        """Assign memory to values that are live between stretches and not recomputed."""
        order = {i.result: k for k, i in enumerate(self.function.instructions()) if i.result}
        for i in self.entry_phis.values():
            self._keep(i.value)
        crossing = {x.text: x for x in self._live_in_operands()}
        for name in sorted(crossing, key=order.__getitem__):
            if self._is_recomputed(name):
                for leaf in self._uniform_inputs(name):
                    self._keep(leaf)
            else:
                self._keep(crossing[name])

    def _keep(self, x: Operand) -> None:
        """Assign memory to a value: for each subgroup, or once if it is equal in all."""
        if x.text in self.kept.sizes or x.text in self.kept.single:
            return
        if x.text in self.own:
            self.kept.sizes[x.text] = x.type.size
            return
        slot = Instruction("alloca", PTR, [], self._name("same"), element=x.type, align=_LINE)
        self.allocas.append(slot)
        self.kept.single[x.text] = slot.value

    def _is_inside(self, x: Operand) -> bool:
        return self.owner.get(self.home.get(x.text, "")) is not None

    def _live_in_operands(self) -> Iterator[Operand]:
        """Yield operands that are computed in another stretch than their user."""
        for block in self.function.blocks:
            for i in block.instructions:
                for k, x in enumerate(i.operands):
                    at = i.labels[k] if i.opcode == "phi" else block.label
                    if x.local in self.made and self._is_inside(x) and (
                            self.owner.get(at) != self.owner[self.home[x.text]]):
                        yield x

    def _is_recomputed(self, name: str) -> bool:
        """True if a varying value is recomputed by a few instructions.

        Their inputs are the subgroup's number, values that are equal in all, and stored values.
        """
        return name in self.own and name not in self.kept.sizes and (
            self._cost(name) <= _MOST_RECOMPUTED)

    def _cost(self, name: str) -> int:
        """Number of instructions that recompute a value; above the limit if it is impossible."""
        if name not in self.own or name == self.sg or name in self.kept.sizes:
            return 0
        i = self.made[name]
        if i.opcode not in _ELEMENTWISE:
            return _MOST_RECOMPUTED + 1
        total = 1
        for x in i.locals():
            total += self._cost(x)
            if total > _MOST_RECOMPUTED:
                break
        return total

    def _uniform_inputs(self, name: str) -> Iterator[Operand]:
        """Inputs of a recomputed value that are equal in all subgroups."""
        for x in self.made[name].operands:
            if x.local not in self.made or not self._is_inside(x) or x.text in self.kept.sizes:
                continue
            if x.text in self.own:
                yield from self._uniform_inputs(x.text)
            else:
                yield x

    # --- the function ---------------------------------------------------------------------------

    def write(self) -> Function:
        """The function with each stretch between barriers as a loop over the subgroups."""
        blocks: list[Block] = []
        turns: set[tuple[str, str]] = set()
        for block in self.function.blocks:
            if self.owner.get(block.label) == block.label:
                own = [b for b in self.function.blocks if self.owner.get(b.label) == block.label]
                stretch = _Stretch(self, own)
                blocks += stretch.write()
                turns |= {(label, stretch.loop) for _, label in stretch.counted}
        nbytes = self.kept.assign_offsets(blocks, turns)
        memory = Instruction("alloca", PTR, [], "%kept", align=_LINE,
                             element=array(max(1, nbytes * self.sub_groups), I8))
        others = [b for b in self.function.blocks[1:] if b.label == self.stopped]
        entry = Block(self.entry.label, [memory, *self.allocas, *self.entry.instructions])
        return replace(self.function, blocks=[entry, *blocks, *others])

    def _name(self, hint: str) -> str:
        self.count += 1
        return f"%{hint}.{self.count}"


class _Stretch:
    """Writes the loop of a stretch, whose only entry is its first block."""

    def __init__(self, loops: _Loops, blocks: list[Block]) -> None:
        self.loops, self.blocks = loops, blocks
        self.label = blocks[0].label
        self.loop = f"{self.label}.each"
        self.sg = Operand(I32, f"{loops.sg}.{self.label[1:]}")
        self.before: list[Instruction] = []
        self.single: dict[str, Operand] = {}
        """Values of other stretches that are equal in all subgroups, as loaded before the loop."""
        self.latches: list[Block] = []
        self.counted: list[tuple[Operand, str]] = []
        """The number of the next subgroup, and the block that continues with it."""
        self.hoisted: set[str] = set()
        self.memory: Operand | None = None
        self.out: list[Instruction] = []
        self.here: dict[str, Operand] = {}
        """Values that the current block has loaded or recomputed."""

    def write(self) -> list[Block]:
        """Blocks of the loop over the subgroups."""
        body = [self._write_block(b) for b in self.blocks]
        counter = Instruction("phi", I32, [constant(I32, 0)], self.sg.text, labels=[self.label])
        for following, label in self.counted:
            counter.operands.append(following)
            counter.labels.append(label)
        stride = [] if self.memory is None else self._stride(self.memory)
        body[0] = Block(self.loop, [counter, *stride, *body[0].instructions])
        start = Block(self.label, [*self.before, Instruction("br", VOID, [], labels=[self.loop])])
        return [start, *body, *self.latches]

    def _stride(self, memory: Operand) -> list[Instruction]:
        """Write the address of the current subgroup's memory; its size is set later."""
        number = Instruction("zext", I64, [self.sg], f"{memory.text}.sg")
        at = Instruction("mul", I64, [number.value, constant(I64, 0)], f"{memory.text}.at")
        self.loops.kept.strides.append(at)
        return [number, at, Instruction("getelementptr", PTR, [Operand(PTR, "%kept"), at.value],
                                        memory.text, element=I8)]

    def _write_block(self, block: Block) -> Block:
        """Write a block of the loop.

        Operations that are equal in all subgroups go before the loop, unless memory was written.
        """
        self.out, self.here = [], {}
        is_first, written = block.label == self.label, False
        for i in block.instructions[:-1]:
            if i.opcode == "phi":
                if not is_first:
                    self.out.append(replace(i, operands=list(i.operands), labels=[
                        self._renamed(x) for x in i.labels]))
                    self._keep(i)
                continue
            made = replace(i, operands=[self._operand(x) for x in i.operands])
            written |= _writes(i)
            if is_first and not written and self._is_uniform(i):
                self.before.append(made)
                self.hoisted.add(str(i.result))
            else:
                self.out.append(made)
            self._keep(i)
        self._write_terminator(block)
        return Block(self._renamed(block.label), self.out)

    def _is_uniform(self, i: Instruction) -> bool:
        """True if an instruction is equal for all subgroups, from values known before the loop."""
        if i.result is None or i.result in self.loops.own:
            return False
        if not all(o.local is None or self._is_known_before(o) for o in i.operands):
            return False
        return i.opcode in _ELEMENTWISE or (i.opcode == "load" and "volatile" not in i.flags) or (
            i.opcode == "call" and _is_pure(i))

    def _is_known_before(self, x: Operand) -> bool:
        """True if a value is known before the loop, and equal in all subgroups."""
        if x.text in self.loops.own:
            return False
        inside = self.loops.owner.get(self.loops.home.get(x.text, "")) == self.label
        return not inside or x.text in self.hoisted or x.text in self.loops.entry_phis

    def _renamed(self, label: str) -> str:
        return self.loop if label == self.label else label

    def _keep(self, i: Instruction) -> None:
        """Store a result that another stretch needs."""
        if i.result in self.loops.entry_phis:
            return
        target = self.before if i.result in self.hoisted else self.out
        if i.result in self.loops.kept.single:
            target.append(_store(i.value, self.loops.kept.single[i.result]))
        elif i.result in self.loops.kept.sizes:
            slot = self._slot(i.result)
            self.out.append(_store(i.value, slot))

    def _slot(self, name: str) -> Operand:
        """Address of a value in the memory of the current subgroup; the offset is set later."""
        if self.memory is None:
            self.memory = Operand(PTR, f"%kept.{self.label[1:]}")
        at = Instruction("getelementptr", PTR, [self.memory, constant(I64, 0)],
                         self.loops._name("slot"), element=I8)
        self.loops.kept.slots[at.value.text] = name, at
        self.out.append(at)
        return at.value

    def _operand(self, x: Operand) -> Operand:
        """An operand inside this loop: read from memory, or recomputed, if another loop has it."""
        loops, name = self.loops, x.text
        if name == loops.sg:
            return self.sg
        if name not in loops.made or not loops._is_inside(x):
            return x
        is_phi = name in loops.entry_phis
        if loops.owner[loops.home[name]] == self.label and not is_phi:
            return x
        if name in loops.kept.single:
            if name not in self.single:
                read = Instruction("load", x.type, [loops.kept.single[name]],
                                   loops._name("same"), align=_LINE)
                self.before.insert(0, read)
                self.single[name] = read.value
            return self.single[name]
        if name not in self.here:
            self.here[name] = self._load(x) if name in loops.kept.sizes else (
                self._recompute(name))
        return self.here[name]

    def _load(self, x: Operand) -> Operand:
        """Load a value of the current subgroup that an earlier stretch stored."""
        slot = self._slot(x.text)
        read = Instruction("load", x.type, [slot], self.loops._name("kept"), align=_LINE)
        self.out.append(read)
        return read.value

    def _recompute(self, name: str) -> Operand:
        """Copy the instruction that computes a value; return the copy's result."""
        i = self.loops.made[name]
        made = replace(i, operands=[self._operand(x) for x in i.operands],
                       result=self.loops._name("again"))
        self.out.append(made)
        return made.value

    def _write_terminator(self, block: Block) -> None:
        """Write the terminator; branches out of the stretch go to a latch."""
        last = block.instructions[-1]
        operands = [self._operand(x) for x in last.operands]
        labels = [label if self._is_in_turn(label) else self._latch(block, label)
                  for label in last.labels]
        if last.opcode == "ret":
            last, labels = Instruction("br", VOID, []), [self._latch(block, None)]
        if last.opcode == "unreachable":
            labels = []
        self.out.append(replace(last, operands=operands, labels=labels))

    def _is_in_turn(self, label: str) -> bool:
        """True if a branch to this block stays in the loop's body, or ends the launch."""
        inside = self.loops.owner.get(label) == self.label and label != self.label
        return inside or label == self.loops.stopped

    def _latch(self, block: Block, target: str | None) -> str:
        """Write a block that continues with the next subgroup, or after the last with `target`.

        It stores the operands of the phis of `target`.
        """
        loops, label = self.loops, self.loops._name(f"{self.label[1:]}.next")
        before = self.out, self.here
        self.out, self.here = [], dict(self.here)
        phis = loops.phis.get(target or "", [])
        values = [self._operand(i.operands[i.labels.index(block.label)]) for i in phis]
        for i, x in zip(phis, values, strict=True):
            name = str(i.result)
            self.out.append(_store(
                x, loops.kept.single[name] if name in loops.kept.single else self._slot(name)))
        following = Instruction("add", I32, [self.sg, constant(I32, 1)], f"{label}.sg")
        more = Instruction("icmp", I1, [following.value, constant(I32, loops.sub_groups)],
                           f"{label}.more", extra="ult")
        end = target or f"{label}.end"
        self.latches.append(Block(label, [*self.out, following, more, Instruction(
            "br", VOID, [more.value], labels=[self.loop, end])]))
        self.counted.append((following.value, label))
        if target is None:
            self.latches.append(Block(end, [Instruction("ret", VOID, [])]))
        self.out, self.here = before
        return label


def _store(x: Operand, slot: Operand) -> Instruction:
    return Instruction("store", VOID, [x, slot], align=_LINE)


def _stretches(
    function: Function, after_barriers: Collection[str], stopped: str
) -> dict[str, str]:
    """Map each block but the entry to the first block of its stretch, its only entry."""
    entry, *blocks = function.blocks
    firsts = {*entry.successors, *after_barriers}
    predecessors = function.predecessors
    while True:
        owner = {label: label for label in firsts}
        changed = True
        while changed:
            changed = False
            for b in blocks:
                if b.label in owner or b.label == stopped:
                    continue
                found = {owner[x] for x in predecessors[b.label] if x in owner}
                if found:
                    owner[b.label] = min(found)
                    changed = True
        joined = {b.label for b in blocks if b.label in owner and b.label not in firsts and any(
            owner.get(x, owner[b.label]) != owner[b.label] for x in predecessors[b.label])}
        if not joined:
            return owner
        firsts |= joined


def _varying_values(facts: Facts, sg: str) -> set[str]:
    """Values that may differ between subgroups.

    They depend on subgroup numbers, or are loaded from memory in the function's frame.
    """
    allocas = (i.value.text for i in facts.function.instructions() if i.opcode == "alloca")
    frame = reached(allocas, lambda x: [
        i.result for i in facts.users.get(x, ()) if i.result and i.opcode in _ELEMENTWISE])
    reads = [i.result for x in frame for i in facts.users.get(x, ())
             if i.result and i.opcode in ("load", "call")]
    return reached([sg, *reads], facts.results)


def _is_pure(i: Instruction) -> bool:
    return i.callee.startswith(_PURE_CALLS)


def _writes(i: Instruction) -> bool:
    if i.opcode == "call":
        return not (_is_pure(i) or i.callee.startswith(_READING))
    return not (i.is_pure or i.opcode == "load")
