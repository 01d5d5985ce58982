"""Run iterations of loops that are inside all bounds without masks.

      loop:                               loop:
        %i = phi i32 [0, ...], ...          %i = phi i32 [0, ...], [..., %loop.again]
        %m = icmp slt i32 %i + lane, %n     %inside = %i + 15 < %n
        predicated load if %m               br i1 %inside, label %loop.inside, label %loop.partial
        br ..., label %loop, ...    ->    loop.inside:
                                            load
                                            br ..., label %loop.again, ...
                                          loop.again:
                                            br label %loop
                                          loop.partial:
                                            %i.partial = phi i32 [%i, %loop], ...
                                            predicated load if %m
                                            br ..., label %loop.partial, ...

A host without mask registers tests the mask of each access, and branches.  The branches separate
loads from their users, so that the loaded values of an iteration are live at the same time, and are
spilled.  One test of scalars replaces them: that of all bounds (see `inside_bounds`), for one
subgroup, or for all if they take the same path.  From the first iteration that is not inside, the
others run with masks.  With one loop for both kinds of iterations, LLVM spills the sums of all.
The block `again` is where a launch is stopped: after the test whether the loop ends, so that LLVM
cannot move sums past it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from triton_xe.intrinsics import Effect, find, opencl
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import constant, substitute
from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import VOID
from triton_xe.runtime.simulator.analysis.calls import is_dpas
from triton_xe.runtime.simulator.analysis.guards import is_group_uniform, may_trap
from triton_xe.runtime.simulator.analysis.kernel_sizes import Sizes
from triton_xe.runtime.simulator.rewrites.inside_bounds import (
    LONGEST,
    BoundSearch,
    condition_of,
    tests_of,
    unmasked,
)

_LEAST = 2
"""Smallest number of masked accesses of a loop; a test instead of that of one gains nothing."""
_ONCE = Effect.ORDERS | Effect.ARRIVES | Effect.BARRIER
_NOT_UNIFORM = frozenset("load alloca call atomicrmw cmpxchg".split())


def inside_loops(function: Function, sizes: Sizes, *, together: bool) -> Function:
    """A copy of the function with two versions of the loops of one block with masked accesses.

    `together`: all subgroups of a program take the same path.
    """
    if sum(1 for _ in function.instructions()) > LONGEST:
        return function
    loops = _Loops(function, sizes, together)
    written = {b.label: loops.versions(b) for b in function.blocks}
    if not any(written.values()):
        return function
    blocks = [(loops.joined(first), *others)
              for b in function.blocks for first, *others in [written[b.label] or [b]]]
    return replace(function, blocks=[b for made in blocks for b in made])


class _Loops:
    """Writes the loops of one function."""

    def __init__(self, function: Function, sizes: Sizes, together: bool) -> None:
        self.function, self.sizes, self.together = function, sizes, together
        self.facts = Facts(function)
        self.varying = reached((i.result for i in function.instructions() if i.result
                                and not _is_uniform(i, together)), self.facts.results)
        """Values that may differ between lanes, or between subgroups on one path."""
        self.moving = [i for i in function.instructions()
                       if i.opcode == "phi" or find(i.callee) is opencl.GROUP_ID]
        self.names: dict[str, dict[str, Mapping[str, Operand]]] = {}
        """Label of a loop -> label of a version -> its values, by name in the loop."""
        self.joins: dict[str, list[Instruction]] = {}
        """Label of a block after a loop -> phis of the loop's values that are used later."""

    def versions(self, block: Block) -> list[Block]:
        """A loop that tests its bounds, and the rest of it with masks; [] for others."""
        label, ends = block.label, {*block.successors} - {block.label}
        if (label not in block.successors or len(ends) != 1
                or any(map(_is_written_once, block.instructions))):
            return []
        found = BoundSearch(self.facts, self.sizes, lambda x: self._slice(x, block), self.moving,
                            together=self.together)
        accesses = {i for i in block.instructions if (condition := condition_of(i)) is not None
                    and found.is_bounded(condition, 0)}
        (end,), later = ends, self._used_later(block)
        is_joined = not later or self.function.predecessors[end] == [label]
        if len(accesses) < _LEAST or not is_joined:
            return []
        inside, partial = (_renamed(block, version) for version in ("inside", "partial"))
        inside |= {name: constant(t, 1) for name, t in found.true.items()}
        self.names[label] = {f"{label}.inside": inside, f"{label}.partial": partial}
        self.joins[end] = [
            Instruction("phi", i.type, [o for o, _ in each], i.result, labels=[x for _, x in each])
            for i in later for each in [self._incoming(i.value, label)]]
        return [*self._inside(block, accesses, found, inside), self._partial(block, accesses)]

    def _inside(
        self, block: Block, accesses: Collection[Instruction], found: BoundSearch,
        names: Mapping[str, Operand],
    ) -> list[Block]:
        """The loop without masks: its head with the test, its body, and its back edge."""
        label, again = block.label, f"{block.label}.again"
        counters = self._counters(block)
        own = [i for i in block.instructions[len(block.phis):] if i.result not in found.true]
        head = Block(label, [_copied(i, {label: again}) for i in block.phis]
                     + [_copied(i) for i in own if i in counters])
        tests = Builder(replace(self.function, blocks=[head]), f"xe.{label[1:]}")
        tests.cond_br(tests_of(tests, found), *self.names[label])
        body = Block(f"{label}.inside", [
            _copied(unmasked(i) if i in accesses else i, {label: again})
            for i in own if i not in counters])
        _rename([head, body], names)
        return [head, body, Block(again, [Instruction("br", VOID, [], labels=[label])])]

    def _partial(self, block: Block, accesses: Collection[Instruction]) -> Block:
        """The loop with masks, which continues the other one."""
        (_, inside), (label, names) = self.names[block.label].items()
        made = Block(label, [
            _copied(replace(i, partial=i in accesses), {block.label: label})
            for i in block.instructions])
        for i in made.phis:
            (own,) = (o for o, x in zip(i.operands, i.labels, strict=True) if x == label)
            i.operands, i.labels = [inside[i.value.text], own], [block.label, label]
        _rename([made], names)
        return made

    def _slice(self, x: Operand, block: Block) -> list[Instruction] | None:
        """Instructions of a block that compute a value which is equal in a program, or None."""
        own = self._needed(x.text, block)
        return None if x.text in self.varying or any(map(may_trap, own)) else own

    def _needed(self, name: str, block: Block) -> list[Instruction]:
        """Instructions of a block, except phis, that compute a value, in order."""
        own = {i.result: i for i in block.instructions if i.result and i.opcode != "phi"}
        needed = reached([name], lambda x: own[x].locals() if x in own else ())
        return [i for i in own.values() if i.result in needed]

    def _counters(self, block: Block) -> set[Instruction]:
        """Instructions that compute what the loop carries from what it carries, without memory."""
        carried = {x for phi in block.phis for x in phi.locals()}
        slices = [self._needed(name, block) for name in carried]
        return {i for own in slices if all(i.is_pure for i in own) for i in own}

    def _used_later(self, block: Block) -> list[Instruction]:
        """Instructions whose results are used after a loop, except by phis at its end."""
        return [i for i in block.instructions if i.result
                and {*self.facts.used_in.get(i.result, ())} - {block.label}]

    def joined(self, block: Block) -> Block:
        """A block whose phis have the values of both versions."""
        made = []
        for i in block.instructions:
            if i.opcode == "phi" and not self.names.keys().isdisjoint(i.labels):
                each = [x for o, label in zip(i.operands, i.labels, strict=True)
                        for x in self._incoming(o, label)]
                i = replace(i, operands=[o for o, _ in each], labels=[x for _, x in each])
            made.append(i)
        return Block(block.label, [*self.joins.get(block.label, ()), *made])

    def _incoming(self, x: Operand, label: str) -> Iterable[tuple[Operand, str]]:
        """A value that comes from a block, or from each of its versions."""
        versions = self.names.get(label, {label: {}})
        return [(names.get(x.text, x), version) for version, names in versions.items()]


def _renamed(block: Block, version: str) -> dict[str, Operand]:
    """The values of a version of a block, by name in the block."""
    return {i.result: Operand(i.type, f"{i.result}.{version}")
            for i in block.instructions if i.result}


def _copied(i: Instruction, labels: Mapping[str, str] = MappingProxyType({})) -> Instruction:
    """A copy of an instruction, with other labels."""
    return replace(i, operands=[*i.operands], labels=[labels.get(x, x) for x in i.labels])


def _rename(blocks: Sequence[Block], names: Mapping[str, Operand]) -> None:
    """Rename the results of blocks, and their users."""
    for block in blocks:
        for i in block.instructions:
            if i.result is not None and i.result in names:
                i.result = names[i.result].text
    substitute(blocks, names)


def _is_uniform(i: Instruction, together: bool) -> bool:
    """True if a result is equal in all lanes, and in subgroups on one path, if its operands are."""
    if find(i.callee) is opencl.SUB_GROUP_ID:
        return not together
    return is_group_uniform(i) if i.opcode == "call" else i.opcode not in _NOT_UNIFORM


def _is_written_once(i: Instruction) -> bool:
    """True if an instruction must not be written twice, or takes longer than all masks."""
    return i.opcode in ("alloca", "fence") or is_dpas(i) or (
        i.opcode == "call" and bool(find(i.callee).effects & _ONCE))
