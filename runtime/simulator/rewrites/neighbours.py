"""Merge operations on single elements of a vector into operations on vectors.

    %x = extractelement %v, 0                      %a = shufflevector %v, [0, 2, ...]
    %y = extractelement %v, 1                      %b = shufflevector %v, [1, 3, ...]
    %s = fadd %x, %y                         ->    %w = fadd %a, %b
    ... the same of 2 and 3, and so on             %s = extractelement %w, 0

    a vector of elements of others,          ->    the others, concatenated
    inserted one by one

    a vector of halves of elements,          ->    %x = bitcast <4 x i32> %v to <8 x i16>
    shifted and truncated one by one

Reductions over the elements of a lane have this form, and tensors loaded element by element.  A
host separates even and odd elements at once more cheaply than one by one.  Whole vectors keep
the order in which they were loaded.
"""

from __future__ import annotations

from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find
from triton_xe.llvm import Block, Function, Instruction, Operand, vector
from triton_xe.runtime.simulator.rewrites.rewriter import Rewriter

_PAIRED = frozenset("fadd fmul add mul and or xor".split())


def whole_vectors(function: Function) -> Function:
    """A copy of the function with such elements as vectors."""
    rewrite = _Rewrite(function)
    if not rewrite.is_needed:
        return function
    blocks = [rewrite.block(b) for b in function.blocks]
    ir.substitute(blocks, rewrite.same)
    return replace(function, blocks=blocks)


class _Rewrite(Rewriter):
    def __init__(self, function: Function) -> None:
        super().__init__(function, "%xe.n")
        self.defined = self.facts.makers
        self.is_needed = any(i.opcode == "extractelement" for i in function.instructions())
        self.same: dict[str, Operand] = {}
        """Vectors of all elements of another one, in order."""

    def block(self, block: Block) -> Block:
        """Merge operations of a block until no more pairs are found."""
        instructions = [x for i in block.instructions for x in self._joined(i)]
        found: list[Instruction] = []
        while len(found) != len(instructions):
            found, instructions = instructions, self._paired(instructions)
        return Block(block.label, instructions)

    # --- pairs ----------------------------------------------------------------------------------

    def _paired(self, instructions: list[Instruction]) -> list[Instruction]:
        """One step: merge operations on all pairs of a vector into one on its halves."""
        pairs: dict[tuple[str, ...], dict[int, Instruction]] = {}
        for i in instructions:
            key = self._pair(i)
            if key is not None:
                pairs.setdefault(key[0], {}).setdefault(key[1], i)
        places: dict[Instruction, tuple[list[Instruction], int]] = {}
        for found in pairs.values():
            vector_, _ = self.facts.extraction(found[min(found)].operands[0]) or (None, 0)
            if vector_ is not None and len(found) > 1 and 2 * len(found) == vector_.type.lanes:
                made = self._halves(vector_, [found[k] for k in sorted(found)])
                places.update((i, (made, k)) for k, i in found.items())
        written, done = [], set[str | None]()
        for i in instructions:
            made, k = places.get(i, ([], 0))
            if not made:
                written.append(i)
                continue
            if made[-1].result not in done:
                done.add(made[-1].result)
                written += made
            written.append(replace(
                i, opcode="extractelement", callee="", flags=(), aligns=(),
                operands=[made[-1].value, ir.constant(ir.I32, k)]))
            self.defined[i.result or ""] = written[-1]
        return written

    def _pair(self, i: Instruction) -> tuple[tuple[str, ...], int] | None:
        """Key of an operation on two neighbours of a vector, and the index of the pair."""
        if len(i.operands) != 2 or i.type.lanes > 1 or not (
                i.opcode in _PAIRED or is_elementwise(i)):
            return None
        x, y = (self.facts.extraction(o) for o in i.operands)
        if x is None or y is None or x[0].text != y[0].text or x[1] % 2 or y[1] != x[1] + 1:
            return None
        return (x[0].text, i.opcode, i.callee, *i.flags), x[1] // 2

    def _halves(self, source: Operand, pairs: list[Instruction]) -> list[Instruction]:
        """Even and odd elements as two vectors, and the operation of pairs on these."""
        first, n = pairs[0], source.type.lanes
        t = vector(n // 2, source.type.scalar)
        halves = [self.new("shufflevector", t, [source, source], first, range(k, n, 2))
                  for k in (0, 1)]
        made = self.new(first.opcode, t, [h.value for h in halves], first)
        made.flags = first.flags
        if first.opcode == "call":
            name, _, kind = first.callee.rpartition(".")
            made.callee = f"{name}.v{n // 2}{kind}"
        return [*halves, made]

    # --- vectors of elements --------------------------------------------------------------------

    def _joined(self, i: Instruction) -> list[Instruction]:
        """Replace the last insertion of an element by a concatenation of vectors, if equal."""
        if i.opcode != "insertelement":
            return [i]
        items = self.facts.inserted(i.value)
        source = self._cut(items, i.type) if len(items) == i.type.lanes else None
        if source is not None:
            cast = replace(i, opcode="bitcast", operands=[source])
            self.defined[i.result or ""] = cast
            return [cast]
        parts = self._parts(items, i.type)
        if parts is None:
            return [i]
        if len(parts) == 1:
            self.same[i.result or ""] = parts[0]
            return []
        made = self.concatenated(parts, i)
        made[-1].result = i.result
        self.defined[i.result or ""] = made[-1]
        return made

    def _parts(self, items: dict[int, Operand], t: ir.Type) -> list[Operand] | None:
        """The whole vectors, a power of two of them, whose concatenation a vector is."""
        n, found = t.lanes, [self.facts.extraction(items[k]) for k in range(t.lanes) if k in items]
        taken = [x for x in found if x is not None]
        if len(taken) < n or n < 2:
            return None
        width = taken[0][0].type.lanes
        parts = [taken[k][0] for k in range(0, n, width)]
        fits = 1 < width <= n and n % width == 0 and (n // width).bit_count() == 1 and all(
            x.text == parts[k // width].text and at == k % width
            for k, (x, at) in enumerate(taken))
        return parts if fits and all(p.type.lanes == width for p in parts) else None

    def _cut(self, items: dict[int, Operand], t: ir.Type) -> Operand | None:
        """The vector whose elements, split into equal parts, a vector has in order."""
        found = [self._piece(items[k], t.scalar.bits) for k in range(t.lanes)]
        first = found[0]
        if first is None or t.scalar.kind != "int":
            return None
        source, per = first[0], first[0].type.scalar.bits // t.scalar.bits
        whole = source.type.lanes * per == t.lanes and per > 1 and all(
            x is not None and x[0].text == source.text and x[1:] == (k // per, k % per)
            for k, x in enumerate(found))
        return source if whole else None

    def _piece(self, x: Operand, bits: int) -> tuple[Operand, int, int] | None:
        """The vector, element, and part of `bits` bits that a number is."""
        made = self.facts.maker(x)
        if made is None or made.opcode != "trunc":
            return None
        word, shift = made.operands[0], 0
        shifted = self.facts.maker(word)
        if shifted is not None and shifted.opcode == "lshr":
            word, shift = shifted.operands[0], shifted.operands[1].integer_value() or -1
        taken = self.facts.extraction(word)
        if taken is None or shift % bits:
            return None
        return *taken, shift // bits


def is_elementwise(i: Instruction) -> bool:
    """True if a call of an LLVM intrinsic works element by element on two operands of one type."""
    return (i.opcode == "call" and i.callee.startswith("llvm.") and i.callee.count(".") == 2
            and find(i.callee).family is Family.MATHS
            and all(o.type is i.type for o in i.operands))
