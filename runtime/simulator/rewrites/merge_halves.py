"""Replace operations on the even and on the odd halves of words by operations on whole vectors.

    %e = shufflevector %h, [0, 2, ...]                      %x = fpext %h
    %o = shufflevector %h, [1, 3, ...]
    %l = fpext %e
    %u = fpext %o                                      ->
    %x = shufflevector %l, %u, [0, n, 1, n + 1, ...]        (or several conversions)

    %l = shl %w, 16                                         %h = bitcast %w to <2n x i16>
    %u = and %w, 0xffff0000                            ->   %z = zext %h
    %x = shufflevector %l, %u, [0, n, 1, n + 1, ...]        %x = shl %z, 16

    two shuffles that undo each other                  ->   nothing

Xe hardware works on one half of each word of a register; a host converts adjacent elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find
from triton_xe.llvm import I16, Block, Function, Instruction, Operand, vector
from triton_xe.llvm.records import BINARY, CASTS
from triton_xe.runtime.simulator.rewrites.rewriter import Rewriter
from triton_xe.runtime.simulator.rewrites.scalar_extracts import without_unused

_HALF = 16
_UPPER = 0xFFFF0000


def merge_halves(function: Function) -> Function:
    """A copy of the function with conversions of whole vectors."""
    if not any(i.opcode == "shufflevector" for i in function.instructions()):
        return function
    rewrite = _Rewrite(function)
    blocks = [Block(b.label, [x for i in b.instructions for x in rewrite.written(i)])
              for b in function.blocks]
    if not rewrite.count:
        return function
    ir.substitute(blocks, rewrite.same)
    return replace(function, blocks=without_unused(blocks))


class _Rewrite(Rewriter):
    def __init__(self, function: Function) -> None:
        super().__init__(function, "%xe.h")
        self.made = self.facts.makers
        self.same: dict[str, Operand] = {}
        """Values that equal another one."""

    def written(self, i: Instruction) -> list[Instruction]:
        """Instructions in place of one; none if its result is a known vector."""
        if i.opcode != "shufflevector":
            return [i]
        source = self._whole(i)
        if source is not None:
            assert i.result is not None
            self.same[i.result] = source
            self.count += 1
            return []
        return self._converted(i) or self._of_words(i) or [i]

    # --- conversions -----------------------------------------------------------------------------

    def _converted(self, i: Instruction) -> list[Instruction]:
        """Merge elements of two equal conversions into a conversion of elements."""
        steps, taken = list[Instruction](), i
        while (source := self._whole(taken)) is None:
            step, other = (self._definition(x) for x in taken.operands)
            if step is None or other is None or not _convert_alike(step, other):
                return []
            steps.append(step)
            taken = replace(taken, operands=[step.operands[0], other.operands[0]])
        made: list[Instruction] = []
        for step in reversed(steps):
            made.append(self._of_all(step, source, i))
            source = made[-1].value
        made[-1].result = i.result
        self.made[i.value.text] = made[-1]
        return made

    def _of_all(self, step: Instruction, source: Operand, at: Instruction) -> Instruction:
        """The conversion of another vector, with as many elements as the vector has."""
        n, old = source.type.lanes, step.type.lanes
        rest = [x if (number := _number(x)) is None else ir.constant(
            vector(n, x.type.scalar), number) for x in step.operands[1:]]
        made = self.new(step.opcode, vector(n, step.type.scalar), [source, *rest], at)
        made.flags, made.callee = step.flags, step.callee.replace(f".v{old}", f".v{n}")
        return made

    def _of_words(self, i: Instruction) -> list[Instruction]:
        """Merge the upper bits of words with two numbers each into the bits of the numbers."""
        n = i.type.lanes // 2
        if list(i.indices) != [x for k in range(n) for x in (k, n + k)]:
            return []
        low, high = (self._definition(self._plain(x)) for x in i.operands)
        if low is None or high is None or low.opcode != "shl" or high.opcode != "and":
            return []
        words = low.operands[0]
        if (words.type is not vector(n, ir.I32) or not self._is_same(words, high.operands[0])
                or not _is_splat(low.operands[1], _HALF)
                or not _is_splat(high.operands[1], _UPPER)):
            return []
        halves = self.new("bitcast", vector(2 * n, I16), [words], i)
        wide = self.new("zext", vector(2 * n, ir.I32), [halves.value], i)
        placed = self.new("shl", wide.type, [
            wide.value, ir.integers(ir.I32, [_HALF] * 2 * n)], i)
        return [halves, wide, placed, replace(
            i, opcode="bitcast", operands=[placed.value], indices=())]

    # --- what values are -------------------------------------------------------------------------

    def _whole(self, i: Instruction) -> Operand | None:
        """The vector whose elements, in order, a shuffle has."""
        found = self._elements(i)
        return found[0] if found and found[1] == list(range(found[0].type.lanes)) else None

    def _elements(self, i: Instruction) -> tuple[Operand, list[int]] | None:
        """The single vector that elements come from, and their indices in it."""
        first, *_ = parts = [self._part(x) for x in i.operands]
        found: list[int] = []
        for index in i.indices:
            side, at = divmod(index, i.operands[0].type.lanes)
            if index < 0 or not self._is_same(parts[side][0], first[0]) or parts[side][1][at] < 0:
                return None
            found.append(parts[side][1][at])
        return first[0], found

    def _part(self, x: Operand) -> tuple[Operand, Sequence[int]]:
        """Source and indices of a shuffled operand; otherwise the operand and its indices."""
        i = self._definition(x)
        if i is None or i.opcode != "shufflevector":
            return x, range(x.type.lanes)
        n = i.operands[0].type.lanes
        if not self._is_same(*i.operands) and max(i.indices) >= n:
            return x, range(x.type.lanes)
        return i.operands[0], [index % n if index >= 0 else -1 for index in i.indices]

    def _definition(self, x: Operand) -> Instruction | None:
        while x.text in self.same:
            x = self.same[x.text]
        return self.made.get(x.text)

    def _plain(self, x: Operand) -> Operand:
        """A value without bitcasts."""
        i = self._definition(x)
        return x if i is None or i.opcode != "bitcast" or (
            i.operands[0].type.lanes != x.type.lanes) else i.operands[0]

    def _is_same(self, x: Operand, y: Operand) -> bool:
        """True if two values are the same, or bitcasts of the same value."""
        if x.text == y.text and x.type is y.type:
            return True
        made, other = self._definition(x), self._definition(y)
        return (made is not None and other is not None and made.opcode == other.opcode == "bitcast"
                and made.type is other.type and made.operands[0].text == other.operands[0].text)


def _convert_alike(step: Instruction, other: Instruction) -> bool:
    """True if two instructions convert the elements of their first operands by the same rule."""
    first, *rest = step.operands
    if (step.opcode != other.opcode or step.callee != other.callee or step.flags != other.flags
            or step.type is not other.type or first.type is not other.operands[0].type
            or first.type.lanes != step.type.lanes):
        return False
    if any(x.local or x.text != y.text for x, y in zip(rest, other.operands[1:], strict=True)):
        return False
    if step.opcode == "call":
        return step.callee.startswith("llvm.") and find(step.callee).family is Family.CONVERSION
    return step.opcode in CASTS or (
        step.opcode in BINARY and _number(rest[0]) is not None)


def _is_splat(x: Operand, number: int) -> bool:
    return _number(x) in (number, number - (1 << 32))


def _number(x: Operand) -> int | None:
    """The integer that all elements of a vector are, if they are equal and known."""
    values = {e.integer_value() for e in x.elements}
    return values.pop() if len(values) == 1 else None
