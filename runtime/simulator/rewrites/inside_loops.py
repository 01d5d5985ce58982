"""Run iterations of loops that are inside all bounds without masks.

      loop:                                   loop:
        %i = phi i32 [0, ...], ...              %i = phi i32 [0, ...], ...
        %m = icmp slt i32 %i + lane, %n         %inside = %i + 15 < %n
        predicated load if %m                   br i1 %inside, label %loop.inside, %loop.partial
        br ..., label %loop, ...        ->    loop.inside:
                                                load
                                                br ..., label %loop, ...
                                              loop.partial:
                                                predicated load if %m
                                                br ..., label %loop, ...

A host without mask registers tests the mask of each access, and branches.  The branches separate
loads from their users, so that the loaded values of an iteration are live at the same time, and are
spilled.  One test of scalars replaces them: that of all bounds, for all subgroups (see
`inside_bounds`).  There are two ends of the loop, because LLVM would move what two versions have in
common to one end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from triton_xe.intrinsics import Effect, find, opencl
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.builder import Builder
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.records import constant, substitute
from triton_xe.llvm.solver import reached
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


def inside_loops(function: Function, sizes: Sizes) -> Function:
    """A copy of the function with two versions of the loops of one block with masked accesses."""
    if sum(1 for _ in function.instructions()) > LONGEST:
        return function
    loops = _Loops(function, sizes)
    written = {b.label: loops.versions(b) for b in function.blocks}
    if not any(written.values()):
        return function
    blocks = [made for b in function.blocks for made in written.get(b.label) or [b]]
    return replace(function, blocks=[loops.joined(b) for b in blocks])


class _Loops:
    """Writes the loops of one function."""

    def __init__(self, function: Function, sizes: Sizes) -> None:
        self.function, self.sizes = function, sizes
        self.facts = Facts(function)
        self.varying = reached((i.result for i in function.instructions() if i.result
                                and not _is_uniform(i)), self.facts.results)
        """Values that may differ between lanes or subgroups."""
        self.moving = [i for i in function.instructions()
                       if i.opcode == "phi" or find(i.callee) is opencl.GROUP_ID]
        self.names: dict[str, dict[str, Mapping[str, Operand]]] = {}
        """Label of a loop -> label of a version -> its values, by name in the loop."""
        self.joins: dict[str, list[Instruction]] = {}
        """Label of a block after a loop -> phis of the loop's values that are used later."""

    def versions(self, block: Block) -> list[Block]:
        """A loop whose head tests its bounds, and its versions; [] for others and few bounds."""
        ends = {*block.successors} - {block.label}
        if (block.label not in block.successors or len(ends) != 1
                or any(map(_is_written_once, block.instructions))):
            return []
        found = BoundSearch(self.facts, self.sizes, lambda x: self._slice(x, block), self.moving)
        accesses = {i for i in block.instructions if (condition := condition_of(i)) is not None
                    and found.is_bounded(condition, 0)}
        first = self._counters(block)
        own = block.instructions[len(block.phis):]
        rest = [i for i in own if i not in first]
        (end,), later = ends, self._used_later(block, rest)
        is_joined = not later or self.function.predecessors[end] == [block.label]
        if len(accesses) < _LEAST or not is_joined:
            return []
        plain = [unmasked(i) if i in accesses else i for i in rest if i.result not in found.true]
        versions = [
            self._version(f"{block.label}.inside", plain, {
                name: constant(t, 1) for name, t in found.true.items()}),
            self._version(f"{block.label}.partial", [
                replace(i, partial=True) if i in accesses else i for i in rest], {})]
        self.names[block.label] = {b.label: names for b, names in versions}
        self.joins[end] = [
            Instruction("phi", i.type, [o for o, _ in each], i.result, labels=[x for _, x in each])
            for i in later for each in [self._incoming(i.value, block.label)]]
        head = Block(block.label, [*block.phis, *(i for i in own if i in first)])
        b = Builder(replace(self.function, blocks=[head]), f"xe.{block.label[1:]}")
        b.cond_br(tests_of(b, found), *self.names[block.label])
        return [head, *(b for b, _ in versions)]

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

    def _used_later(self, block: Block, rest: Iterable[Instruction]) -> list[Instruction]:
        """Instructions whose results are used after a loop, except by phis at its end."""
        return [i for i in rest if i.result
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

    @staticmethod
    def _version(
        label: str, instructions: list[Instruction], known: Mapping[str, Operand]
    ) -> tuple[Block, Mapping[str, Operand]]:
        """A version of a loop's body, and its values by name in the loop."""
        suffix = label[label.rindex("."):]
        names = {i.result: Operand(i.type, i.result + suffix) for i in instructions if i.result}
        made = Block(label, [
            replace(i, operands=list(i.operands), result=i.result and names[i.result].text)
            for i in instructions])
        names.update(known)
        substitute([made], names)
        return made, names


def _is_uniform(i: Instruction) -> bool:
    """True if a result is equal in all lanes and subgroups if its operands are."""
    return is_group_uniform(i) if i.opcode == "call" else i.opcode not in _NOT_UNIFORM


def _is_written_once(i: Instruction) -> bool:
    """True if an instruction must not be written twice, or takes longer than all masks."""
    return i.opcode in ("alloca", "fence") or is_dpas(i) or (
        i.opcode == "call" and bool(find(i.callee).effects & _ONCE))
