"""Compute elements that are extracted from vector arithmetic as scalars.

    %s = add <8 x i64> %a, %b                       %x = extractelement <8 x i64> %a, i32 3
    %r = extractelement <8 x i64> %s, i32 3    ->   %y = extractelement <8 x i64> %b, i32 3
                                                    %r = add i64 %x, %y

Addresses of a lane's elements have this form.  It is not for speed alone.  On hosts with AVX-512,
LLVM 22.1's x86 target can lose the shuffle if an element of a sum of splats is extracted.  It then
computes the sum of other elements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Block, Function, Instruction, Operand, substitute
from triton_xe.llvm.facts import Facts

_BINARY = frozenset("add sub mul and or xor shl lshr ashr".split())
_CASTS = frozenset("sext zext trunc".split())
_MOVES = frozenset("insertelement extractelement shufflevector".split())


def scalar_extracts(function: Function) -> Function:
    """A copy of the function with extracts before integer arithmetic, without unused arithmetic."""
    if not any(map(_is_candidate, function.instructions())):
        return function
    made = _Rewrite(function).run()
    return replace(function, blocks=without_unused(made))


def _is_candidate(i: Instruction) -> bool:
    return (
        i.opcode == "extractelement" and i.type.kind == "int" and i.type.bits > 1
        and i.operands[0].local is not None and i.operands[1].integer_value() is not None
    )


class _Rewrite:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.facts = Facts(function)
        self.out: list[Instruction] = []
        self.known: dict[tuple[str, int], Operand] = {}
        self.renamed: dict[str, Operand] = {}
        self.count = 0

    def run(self) -> list[Block]:
        blocks = []
        for block in self.function.blocks:
            self.out, self.known = [], {}
            for i in block.instructions:
                if _is_candidate(i):
                    self._replace(i)
                else:
                    self.out.append(i)
            blocks.append(Block(block.label, self.out))
        substitute(blocks, self.renamed)
        return blocks

    def _replace(self, i: Instruction) -> None:
        index = i.operands[1].integer_value()
        assert index is not None
        assert i.result is not None
        self.renamed[i.result] = self.element(i.operands[0], index, i)

    def element(self, source: Operand, index: int, at: Instruction) -> Operand:
        """Element `index` of a vector, for use at `at` and later in its block."""
        scalar = source.type.scalar
        if source.elements:
            return source.elements[index]
        if source.is_undefined or source.local is None:
            return source._replace(type=scalar) if source.is_undefined else ir.zero(scalar)
        key = (source.local, index)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._computed(source, index, at)
        return found

    def _computed(self, source: Operand, index: int, at: Instruction) -> Operand:
        """Element `index` of a vector, computed as a scalar where that is possible."""
        made = self.facts.maker(source)
        if made is not None and made.opcode == "shufflevector":
            return self._shuffled(made, index, at)
        if made is not None and made.opcode == "insertelement":
            place = made.operands[2].integer_value()
            if place is not None:
                return (made.operands[1] if place == index
                        else self.element(made.operands[0], index, at))
        if made is not None and made.opcode in _BINARY | _CASTS:
            operands = [self.element(o, index, at) for o in made.operands]
            return self._new(replace(made, type=made.type.scalar, operands=operands), at)
        position = ir.constant(at.operands[1].type, index)
        return self._new(replace(at, operands=[source, position], type=source.type.scalar), at)

    def _shuffled(self, new: Instruction, index: int, at: Instruction) -> Operand:
        source = new.indices[index]
        if source < 0:
            return ir.poison(new.type.scalar)
        length = new.operands[0].type.count
        return self.element(new.operands[source // length], source % length, at)

    def _new(self, new: Instruction, at: Instruction) -> Operand:
        """Append a new instruction."""
        self.count += 1
        new.result, new.line, new.debug = f"%xe.e{self.count}", at.line, at.debug
        self.out.append(new)
        return new.value


def without_unused(blocks: list[Block]) -> list[Block]:
    """The blocks without vector arithmetic whose results have no use."""
    uses = Counter(name for block in blocks for i in block.instructions for name in i.locals())
    for block in reversed(blocks):
        kept: list[Instruction] = []
        for i in reversed(block.instructions):
            if i.result is not None and not uses[i.result] and _is_removable(i):
                uses.subtract(i.locals())
            else:
                kept.append(i)
        block.instructions = kept[::-1]
    return blocks


def _is_removable(i: Instruction) -> bool:
    return i.opcode in _REMOVABLE or (
        i.opcode == "call" and find(i.callee).family is Family.CONVERSION)


_REMOVABLE = _BINARY | _CASTS | _MOVES | {"bitcast", "fpext", "fptrunc"}
