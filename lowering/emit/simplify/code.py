"""The function that rules simplify: elements of its vectors, its loops, and new instructions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.llvm import folding
from triton_xe.lowering.emit.links import Links
from triton_xe.lowering.emit.types import number, undefined, vector_of
from triton_xe.lowering.emit.values import elements_of
from triton_xe.lowering.emit.writer import ModuleState

Made = list[ir.Instruction] | ir.Operand | None
"""Instructions in place of one, or another value for its result; None if a rule does not apply."""


@dataclass(frozen=True)
class Element:
    """An element of a vector, or a scalar with index 0."""

    vector: ir.Operand
    index: int


class Shifted(NamedTuple):
    """A vector that is the sum of a scalar and known numbers, by the instruction `total`."""

    scalar: ir.Operand
    numbers: ir.Operand
    total: ir.Instruction


class Multiples(NamedTuple):
    """A vector of 64-bit sums of `first` and a known multiple of `by` each."""

    first: ir.Operand
    by: ir.Operand
    numbers: tuple[int, ...]


class Code(Links):
    """A function that is simplified block by block, each after the blocks that dominate it."""

    def __init__(self, function: ir.Function, state: ModuleState, prefix: str = "s") -> None:
        super().__init__(function, prefix)
        self.state = state
        self.replaced: dict[str, ir.Operand] = {}
        """Values that are replaced, by name."""
        self.multiples: dict[str, Multiples] = {}
        self._once: dict[Hashable, tuple[ir.Operand, str]] = {}
        self._invariant: dict[str, set[str]] = {}
        self.enter(function.blocks[0])

    def enter(self, block: ir.Block) -> None:
        """Begin to rewrite a block."""
        self.block, self.written = block, list[ir.Instruction]()
        self._path = [block.label]
        while (above := self.function.dominators.get(self._path[-1])) is not None:
            self._path.append(above)

    # -- elements --------------------------------------------------------------------------------

    def made(self, value: ir.Operand, *opcodes: str) -> ir.Instruction | None:
        """The instruction, one of `opcodes`, that computes a value; else None."""
        maker = self.makers.get(value.text)
        return maker if maker is not None and maker.opcode in opcodes else None

    def element(self, vector: ir.Operand, index: int) -> Element | None:
        """The element that is moved to an index; None if it is undefined or not known."""
        while (i := self._move(vector)) is not None:
            if i.opcode == "shufflevector":
                side, index = divmod(i.indices[index], i.operands[0].type.count)
                if side < 0:
                    return None
                vector = i.operands[side]
                continue
            at = i.operands[2].integer_value()
            if at is None:
                return None
            if at != index:
                vector = i.operands[0]
                continue
            found = self.extraction(i.operands[1])
            if found is None:
                return Element(i.operands[1], 0)
            vector, index = found
        return None if vector.is_undefined else Element(vector, index)

    def _move(self, vector: ir.Operand) -> ir.Instruction | None:
        """The instruction that moves elements to a vector."""
        known = vector.text in self.multiples
        return None if known else self.made(vector, "shufflevector", "insertelement")

    def origin(self, vector: ir.Operand) -> tuple[ir.Operand, list[int]] | None:
        """The vector from which all elements are moved, and their indices in it."""
        found = [self.element(vector, k) for k in range(vector.type.lanes)]
        known = [place for place in found if place is not None]
        if len(known) < len(found) or any(p.vector != known[0].vector for p in known):
            return None
        return known[0].vector, [place.index for place in known]

    def scalar(self, vector: ir.Operand) -> ir.Operand | None:
        """The scalar that all elements of a vector are; None if they differ."""
        if vector.type.kind != "vec":
            return vector
        if vector.is_constant:
            first, *others = elements_of(vector)
            return first if all(each == first for each in others) else None
        i = self.made(vector, "shufflevector")
        if i is None or any(i.indices):
            return None
        one = self.made(i.operands[0], "insertelement")
        return one.operands[1] if one is not None and one.operands[2].is_zero else None

    def shifted(self, vector: ir.Operand) -> Shifted | None:
        """A sum splat(scalar) + constant."""
        total = self.made(vector, "add")
        if total is None or total.type.kind != "vec" or not total.operands[1].is_constant:
            return None
        scalar = self.scalar(total.operands[0])
        return None if scalar is None else Shifted(scalar, total.operands[1], total)

    # -- loops -----------------------------------------------------------------------------------

    @cached_property
    def _loops(self) -> dict[str, set[str]]:
        return self.function.loops()

    @cached_property
    def _loop_of(self) -> dict[str, str]:
        """Label of a block -> that of the head of its innermost loop."""
        return {label: head for head, inside in self._loops.items() for label in inside}

    def is_invariant(self, value: ir.Operand) -> bool:
        """True if a value is computed from values of before the loop that is being rewritten."""
        head = self._loop_of.get(self.block.label)
        if head is None:
            return False
        known, found, waiting = self._invariant.setdefault(head, set()), set[str](), [value.text]
        while waiting:
            name = waiting.pop()
            maker = self.makers.get(name)
            if (maker is None or name in known or name in found
                    or self.homes.get(maker, self.block.label) not in self._loops[head]):
                continue
            if maker.opcode == "phi" or not maker.is_pure:
                return False
            found.add(name)
            waiting += maker.locals()
        known |= found
        return True

    # -- new instructions ------------------------------------------------------------------------

    def share(self, i: ir.Instruction) -> ir.Operand:
        """The result of an instruction that is written here, unless it was written before."""
        return self._write_once(i, self.block.label)

    def hoist(self, i: ir.Instruction) -> ir.Operand:
        """`share`, but in the last block that computes an operand, which may be before a loop."""
        homes = [self.homes[maker] for o in i.operands if (maker := self.makers.get(o.text))]
        label = next((label for label in self._path if label in homes), self.block.label)
        return self._write_once(i, label)

    def known(self, i: ir.Instruction) -> ir.Operand | None:
        """The result of an equal instruction that was written before; None if there is none."""
        value, home = self._once.get(_key(i), (None, ""))
        return value if home in self._path else None

    def _write_once(self, i: ir.Instruction, label: str) -> ir.Operand:
        folded = (folding.binary(i.opcode, *i.operands) if len(i.operands) == 2 else
                  folding.resized(i.opcode, i.operands[0], i.type) if len(i.operands) == 1 else
                  None)
        if folded is not None:
            return folded
        value = self.known(i)
        if value is not None:
            return value
        value = self.named(i)
        self._once[_key(i)], self.makers[value.text], self.homes[i] = (value, label), i, label
        if label == self.block.label:
            self.written.append(i)
        else:
            code = self.blocks[label].instructions
            code.insert(len(code) - 1, i)
        return value

    def splat(self, scalar: ir.Operand, count: int) -> ir.Operand:
        """A vector with the scalar in every element."""
        if count == 1:
            return scalar
        if scalar.is_constant:
            return ir.splat(scalar, count)
        one = undefined(scalar.type, count)
        one = self.share(ir.Instruction("insertelement", one.type, [one, scalar, number(0)]))
        return self.share(ir.Instruction(
            "shufflevector", one.type, [one, one], indices=(0,) * count))

    def pick(self, vector: ir.Operand, order: Sequence[int]) -> ir.Operand:
        """Elements of a vector, by index."""
        count, scalar = len(order), self.scalar(vector)
        if list(order) == list(range(vector.type.lanes)):
            return vector
        if scalar is not None:
            return self.splat(scalar, count)
        if vector.is_constant:
            return ir.constant_vector([elements_of(vector)[k] for k in order])
        if len(set(order)) == 1:
            return self.splat(self.share(ir.Instruction(
                "extractelement", vector.type.scalar, [vector, number(order[0])])), count)
        return self.share(ir.Instruction(
            "shufflevector", vector_of(vector.type.scalar, count), [vector, vector],
            indices=tuple(order)))

    # -- replacing -------------------------------------------------------------------------------

    def take_operands(self, i: ir.Instruction) -> None:
        """Let an instruction use what replaced its operands."""
        for o in i.operands:
            if o.text in self.replaced:
                i.operands = [self.replaced.get(x.text, x) for x in i.operands]
                return

    def put_in_place(self, old: ir.Instruction, made: Sequence[ir.Instruction]) -> None:
        """Write instructions in place of one, whose name the last of them takes."""
        last = made[-1]
        last.result, last.debug = old.result, old.debug
        for each in made:
            self.makers[each.value.text], self.homes[each] = each, self.block.label
        self.written += made


def _key(i: ir.Instruction) -> Hashable:
    return i.opcode, i.type, i.extra, i.flags, i.indices, *i.operands
