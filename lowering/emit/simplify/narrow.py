"""Narrow integer vectors to the elements that are used.

    %y = add <8 x i64> %x, %b8                            %x0 = extractelement <8 x i64> %x, i32 0
    %p = extractelement <8 x i64> %y, i32 0        ->     %p = add i64 %x0, %b

A message has the address of its first element, so that most elements of a vector of addresses are
not used.  Intel's compiler removes them, but first it reads, splits and analyses each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.lowering.emit.simplify.code import Code
from triton_xe.lowering.emit.types import number, undefined, vector_of
from triton_xe.lowering.emit.values import elements_of
from triton_xe.lowering.emit.writer import ModuleState

ELEMENTWISE = frozenset((
    "add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "icmp", "select", "zext",
    "sext", "trunc", "udiv", "urem", "sdiv", "srem"))
WIDTHS = (1, 2, 4, 8)
"""Numbers of elements of a vector."""


class Narrowed(NamedTuple):
    """The used elements of a vector, by their indices, in a narrower vector or a scalar."""

    indices: tuple[int, ...]
    value: ir.Operand


def narrow_vectors(state: ModuleState) -> None:
    """Compute only the used elements of vectors of integers.

    On devices without 64-bit arithmetic, a copy through descriptors becomes 14 % longer.
    """
    if not state.target.has_int64:
        return
    for function in state.llvm.functions.values():
        code = Code(function, state, "n")
        used = used_elements(code)
        if any(_narrows(i, used) for i in function.instructions()):
            _Narrowing(code, used).run()


def used_elements(code: Code) -> dict[str, set[int]]:
    """The elements of each vector that some instruction uses."""
    used: dict[str, set[int]] = {}
    ordered = set(code.order)
    backwards = [i for block in (
        *code.order, *(b for b in code.function.blocks if b not in ordered))
        for i in block.instructions][::-1]
    for i in backwards:
        for operand, indices in _reads(i, used.get(i.result or "", ())):
            used.setdefault(operand.text, set()).update(indices)
    return used


def _reads(
    i: ir.Instruction, wanted: Iterable[int]
) -> Iterator[tuple[ir.Operand, Iterable[int]]]:
    """The elements of operands that an instruction reads for the wanted ones of its result."""
    vectors = [o for o in i.operands if o.local is not None and o.type.kind == "vec"]
    index = i.operands[-1].integer_value() if i.opcode.endswith("element") else None
    if i.opcode == "extractelement" and index is not None:
        yield i.operands[0], (index,)
    elif i.opcode == "insertelement" and index is not None:
        yield i.operands[0], [k for k in wanted if k != index]
    elif i.opcode == "shufflevector":
        count = i.operands[0].type.count
        for side in (0, 1):
            yield i.operands[side], [i.indices[k] - side * count for k in wanted
                                     if i.indices[k] // count == side]
    elif i.opcode in ELEMENTWISE and not i.defines:
        yield from ((o, wanted) for o in vectors)
    else:
        yield from ((o, range(o.type.count)) for o in vectors)


def _narrows(i: ir.Instruction, used: dict[str, set[int]]) -> bool:
    """True if the result of an instruction becomes narrower."""
    return (i.opcode in ELEMENTWISE and not i.defines and i.type.kind == "vec"
            and len(used.get(i.result or "", ())) in WIDTHS[:i.type.count.bit_length() - 1])


class _Narrowing:
    """The instructions of a function, with narrower vectors."""

    def __init__(self, code: Code, used: dict[str, set[int]]) -> None:
        self.code, self.used = code, used
        self.narrowed: dict[str, Narrowed] = {}

    def run(self) -> None:
        code = self.code
        for block in code.order:
            code.enter(block)
            for i in block.instructions:
                if code.replaced:
                    code.take_operands(i)
                self._write(i)
            block.instructions = code.written
        for i in code.function.instructions():  # phis, and code that is not reached
            code.take_operands(i)

    def _write(self, i: ir.Instruction) -> None:
        code = self.code
        if _narrows(i, self.used):
            indices = tuple(sorted(self.used[i.value.text]))
            operands = [self._taken(o, indices) for o in i.operands]
            self.narrowed[i.value.text] = Narrowed(indices, code.share(ir.Instruction(
                i.opcode, vector_of(i.type.scalar, len(indices)), operands, extra=i.extra,
                flags=i.flags)))
        elif i.opcode == "extractelement" and i.operands[0].text in self.narrowed:
            index = i.operands[1].integer_value()
            assert index is not None
            code.replaced[i.value.text] = self._taken(i.operands[0], [index])
        else:
            i.operands = [self._whole(o) for o in i.operands]
            code.written.append(i)

    def _taken(self, vector: ir.Operand, order: Sequence[int]) -> ir.Operand:
        """Elements of a vector, by index: a scalar if it is one."""
        if vector.type.kind != "vec":
            return vector
        known = self.narrowed.get(vector.text)
        if known is not None:
            vector, order = known.value, [known.indices.index(k) for k in order]
            if len(known.indices) == 1:
                return self.code.splat(vector, len(order))
        elif len(order) == 1:
            place = self.code.element(vector, order[0])
            if place is not None and place.vector.text != vector.text:
                return self._taken(place.vector, [place.index])
        if len(order) == 1 and vector.is_constant:
            return elements_of(vector)[order[0]]
        return self.code.pick(vector, order)

    def _whole(self, vector: ir.Operand) -> ir.Operand:
        """A vector of the former width, whose unused elements are undefined."""
        known = self.narrowed.get(vector.text)
        if known is None:
            return vector
        whole = undefined(vector.type.scalar, vector.type.count)
        for k in known.indices:
            whole = self.code.share(ir.Instruction("insertelement", whole.type, [
                whole, self._taken(vector, [k]), number(k)]))
        return whole
