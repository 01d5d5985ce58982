"""Split arithmetic on vectors that are built from single elements and extracted again.

    %v = vector of %x0, %x1, ..., inserted one by one         %s0 = fadd %x0, %y0
    %w = vector of %y0, %y1, ..., likewise               ->   %s1 = fadd %x1, %y1
    %s = fadd %v, %w, of which elements are taken             ...

The sums of several rows have this form, and need the loads of all rows before the first sum.
Elements that are consecutive in their source vectors stay vectors, because a host computes with
them in memory order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from triton_xe import llvm as ir
from triton_xe.llvm import Block, Function, Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.runtime.simulator.rewrites.neighbours import is_elementwise

SUMS = frozenset("fadd fsub fmul".split())
_LEAST_BITS = 32
"""Smallest element size in bits; narrower elements do not fill a register of the host."""


def split_vectors(function: Function) -> Function:
    """A copy of the function with such elements computed separately."""
    if not any(map(_computes, function.instructions())):
        return function
    rewrite = _Rewrite(function)
    if not rewrite.elements:
        return function
    blocks = [Block(b.label, [x for i in b.instructions for x in rewrite.rewrite_instruction(i)])
              for b in function.blocks]
    ir.substitute(blocks, rewrite.renamed)
    return replace(function, blocks=blocks)


def _computes(i: Instruction) -> bool:
    """True if it computes each element of a vector by itself."""
    return (i.type.lanes > 1 and i.type.scalar.kind == "float" and i.type.scalar.bits >= _LEAST_BITS
            and (i.opcode in SUMS or is_elementwise(i)))


class _Rewrite:
    def __init__(self, function: Function) -> None:
        self.facts = Facts(function)
        self.renamed: dict[str, Operand] = {}
        self.count = 0
        self.elements: dict[str, list[Operand]] = {}
        """Elements of each vector that is split."""
        for i in function.instructions():
            if i.result and _computes(i) and all(self._of(o) for o in i.operands):
                self.elements[i.result] = [Operand(i.type.scalar, f"{i.result}.e{k}")
                                           for k in range(i.type.lanes)]
        self._keep_vectors_used_whole()

    def _keep_vectors_used_whole(self) -> None:
        """Keep vectors that some user needs as a vector, and those computed from them."""
        users, makers = self.facts.users, self.facts.makers
        while kept := [name for name in self.elements
                       if not all(self._is_elementwise_use(i) for i in users.get(name, ()))
                       or not all(self._of(o) for o in makers[name].operands)]:
            for name in kept:
                del self.elements[name]

    def _is_elementwise_use(self, i: Instruction) -> bool:
        """True if a user of a vector is split as well, or reads one known element."""
        return i.result in self.elements or (
            i.opcode == "extractelement" and i.operands[1].integer_value() is not None)

    def _of(self, x: Operand) -> Sequence[Operand]:
        """The elements of a vector, if they are known and not consecutive in their sources."""
        if x.elements or x.local in self.elements:
            return x.elements or self.elements[x.local or ""]
        items = self.facts.inserted(x)
        found = [items[k] for k in range(x.type.lanes) if k in items]
        return found if len(found) == x.type.lanes and not self._follow(found) else ()

    def _follow(self, elements: Sequence[Operand]) -> bool:
        """True if any two elements are neighbours in one vector."""
        taken = [self.facts.extraction(x) for x in elements]
        return any(a is not None and b is not None and a[0] == b[0] and a[1] + 1 == b[1]
                   for a, b in pairwise(taken))

    def rewrite_instruction(self, i: Instruction) -> list[Instruction]:
        """Instructions that replace an instruction."""
        if i.result in self.elements:
            operands = [self._of(o) for o in i.operands]
            callee = i.callee.replace(f".v{i.type.lanes}", ".")
            return [replace(i, type=i.type.scalar, callee=callee, result=made.text,
                            operands=[o[k] for o in operands])
                    for k, made in enumerate(self.elements[i.result])]
        source = (i.operands[0].local if i.opcode == "extractelement" else None) or ""
        if source in self.elements and i.result:
            self.renamed[i.result] = self.elements[source][i.operands[1].integer_value() or 0]
            return []
        return [i]
