"""Fill the initial sums of products two registers at a time, and once for two versions.

    %s = phi <8 x float> [splat (float 0.0), %before], [%product, %loop]
 -> %f = call @xe.wide.initial_00000000_8.float() ; %s = phi [%f, %before], [%product, %loop]

For a constant, Intel's compiler writes one instruction for each register, and again for the results
of a loop that does not run.  A function in vISA fills two registers by an instruction.  The block
that decides if the loop runs, or which of two versions does, fills them for both sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.links import Links, row_of
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.maths.wide import AT_ONCE, initial_sums, same_bits
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.spirv import PRODUCT, WIDE

_PRODUCTS = (genisa.DPAS, genisa.SCALED_DPAS)


class _Use(NamedTuple):
    """A phi, and the number of its operand that is the constant."""

    phi: ir.Instruction
    number: int

    @property
    def value(self) -> ir.Operand:
        return self.phi.operands[self.number]

    @property
    def label(self) -> str:
        """The block from which the constant comes."""
        return self.phi.labels[self.number]


class _Branches(NamedTuple):
    """The blocks from which control comes to each block, and goes to."""

    after: dict[str, list[str]]
    before: dict[str, list[str]]

    @staticmethod
    def of(function: ir.Function) -> _Branches:
        after = {b.label: list(dict.fromkeys(b.successors)) for b in function.blocks}
        before = defaultdict[str, list[str]](list)
        for label, following in after.items():
            for each in following:
                before[each].append(label)
        return _Branches(after, before)

    def parent(self, label: str) -> str | None:
        """The only block that leads to a block; None if there are several."""
        found = self.before.get(label, [])
        return found[0] if len(found) == 1 else None


def fill_initial_sums(state: ModuleState) -> None:
    """Replace constants that are initial sums of products by results of functions."""
    if suits(state):
        for function in state.llvm.kernels():
            _fill(state, function)


def _fill(state: ModuleState, function: ir.Function) -> None:
    links, branches = Links(function, "sums"), _Branches.of(function)
    by_place = defaultdict[str, list[list[_Use]]](list)
    for uses in _sums(function, links):
        for place, there in _places(uses, branches).items():
            by_place[place].append(there)
    for place, fills in _shared(by_place, branches).items():
        block = links.blocks[place]
        for uses in fills:
            made = initial_sums(state, uses[0].value)
            filled = links.named(made)
            block.instructions.insert(len(block.instructions) - 1, made)
            for use in uses:
                use.phi.operands[use.number] = filled


def _sums(function: ir.Function, links: Links) -> Iterator[list[_Use]]:
    """Phis of a constant and the same product."""
    found = defaultdict[tuple[str, ...], list[_Use]](list)
    for block in function.blocks:
        for phi in block.phis:
            constants = [n for n, o in enumerate(phi.operands) if _is_fillable(o)]
            others = [o for o in phi.operands if not o.is_constant]
            if len(constants) == 1 and others and all(_is_product(o, links) for o in others):
                use = _Use(phi, constants[0])
                found[use.value.text, *sorted({o.text for o in others})].append(use)
    yield from found.values()


def _is_fillable(value: ir.Operand) -> bool:
    """True for a constant of whole numbers of registers, which all have the same bits."""
    return same_bits(value) is not None and value.type.count % AT_ONCE == 0 and (
        value.type.scalar.bits == 32)


def _is_product(value: ir.Operand, links: Links) -> bool:
    made = links.maker(value)
    return made is not None and (
        row_of(made) in _PRODUCTS or made.callee.startswith(WIDE + PRODUCT))


def _places(uses: Sequence[_Use], branches: _Branches) -> dict[str, list[_Use]]:
    """Uses by the block that can fill them: that of the constant, or its parent if it has a use."""
    labels, found = {use.label for use in uses}, defaultdict[str, list[_Use]](list)
    for use in uses:
        parent = branches.parent(use.label)
        found[parent if parent in labels and parent is not None else use.label].append(use)
    return found


def _shared(
    fills: dict[str, list[list[_Use]]], branches: _Branches
) -> dict[str, list[list[_Use]]]:
    """Fills by block; equal ones of both sides of a branch become one of the block before it."""
    found = defaultdict(list, {place: list(each) for place, each in fills.items()})
    for parent, sides in branches.after.items():
        if len(sides) == 2 and all(branches.parent(side) == parent for side in sides):
            first, second = (found[side] for side in sides)
            for one in list(first):
                other = next((x for x in second if x[0].value == one[0].value), None)
                if other is not None:
                    first.remove(one)
                    second.remove(other)
                    found[parent].append(one + other)
    return found
