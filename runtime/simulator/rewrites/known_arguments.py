"""A second version of a kernel's host function, for launches like one that was seen.

Whether a lane is inside mostly hangs on an argument: `column < N`.  For the value that the argument
had, or for all that put every lane inside, these masks are constants, and LLVM makes plain accesses
of full ones and none of empty ones.  Other launches take the function as it is.  Only comparisons
become constants: what is computed stays what it is, and so do all bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from triton_xe.runtime.simulator.ir import Block, Function, Instruction, Operand
from triton_xe.runtime.simulator.ir.builder import Builder
from triton_xe.runtime.simulator.ir.records import constant
from triton_xe.runtime.simulator.ir.types import VOID

_SWAPPED = {"sgt": "slt", "sge": "sle", "slt": "sgt", "sle": "sge", "eq": "eq", "ne": "ne"}
_MET = {
    "slt": lambda x, y: x < y, "sle": lambda x, y: x <= y, "sgt": lambda x, y: x > y,
    "sge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
}
_RISING = ("slt", "sle")


@dataclass(frozen=True)
class _Comparison:
    """Of numbers, one in each lane, with an argument."""

    instruction: Instruction
    argument: str
    side: int
    """Which operand comes of the argument."""
    predicate: str
    """As the numbers have it."""
    numbers: tuple[int, ...]

    def is_met(self, value: int) -> bool:
        """Whether all lanes meet it when the argument is `value`."""
        return all(_MET[self.predicate](each, value) for each in self.numbers)


def for_arguments(function: Function, known: Mapping[str, int]) -> list[Function]:
    """The function, and in front of it, where that may be faster, one with these arguments.

    `known`: values of arguments, by the name of what is loaded of them.
    """
    made = {i.result: i for i in function.instructions() if i.result}
    found = [c for i in function.instructions() if (c := _comparison(i, made, known)) is not None]
    if not found:
        return [function]
    general, special = (replace(
        function, name=f"{function.name}_{name}", is_internal=True,
        attributes=f"{function.attributes} noinline") for name in ("general", "special"))
    changed = {id(c.instruction): _with(c, known[c.argument]) for c in found}
    special.blocks = [Block(b.label, [changed.get(id(i), i) for i in b.instructions])
                      for b in function.blocks]
    return [_chooser(function, general, special, made, found, known), general, special]


def _with(c: _Comparison, value: int) -> Instruction:
    operands = list(c.instruction.operands)
    operands[c.side] = constant(operands[c.side].type, value)
    return replace(c.instruction, operands=operands)


def _comparison(
    i: Instruction, made: Mapping[str, Instruction], known: Mapping[str, int]
) -> _Comparison | None:
    if i.opcode != "icmp" or i.extra not in _SWAPPED or i.operands[0].type.kind != "vec":
        return None
    for side in range(2):
        argument, numbers = _source(i.operands[side], made), i.operands[1 - side].elements
        values = [x.integer_value() for x in numbers]
        if argument in known and values and None not in values:
            predicate = i.extra if side else _SWAPPED[i.extra]
            return _Comparison(i, str(argument), side, predicate,
                               tuple(x for x in values if x is not None))
    return None


def _source(x: Operand | None, made: Mapping[str, Instruction]) -> str | None:
    """The scalar that all elements of `x` are, or that it is itself."""
    while x is not None and (i := made.get(x.local or "")) is not None:
        if x.type.kind == "vec":
            x = _spread(x, made, range(x.type.count))
        elif i.opcode == "extractelement" and (at := i.operands[1].integer_value()) is not None:
            x = _spread(i.operands[0], made, (at,))
        else:
            return i.result
    return None


def _spread(
    x: Operand, made: Mapping[str, Instruction], elements: Iterable[int]
) -> Operand | None:
    """The scalar that these elements of a vector are, if they are known to be one."""
    i, elements = made.get(x.local or ""), set(elements)
    if i is None:
        return None
    if i.opcode == "insertelement":
        return i.operands[1] if elements == {i.operands[2].integer_value()} else None
    if i.opcode != "shufflevector":
        return None
    count = i.operands[0].type.count
    taken = {i.indices[k] for k in elements}
    found = {_spread(source, made, own) for source, own in (
        (i.operands[0], {k for k in taken if 0 <= k < count}),
        (i.operands[1], {k - count for k in taken if k >= count})) if own}
    return found.pop() if len(found) == 1 else None


def _chooser(
    function: Function, general: Function, special: Function, made: Mapping[str, Instruction],
    found: list[_Comparison], known: Mapping[str, int],
) -> Function:
    """Calls one of both by what the arguments are."""
    chooser = replace(function, blocks=[Block("%entry")])
    b = Builder(chooser, "fits")
    tests = []
    for name in dict.fromkeys(c.argument for c in found):
        x = _loaded(b, made[name], made)
        own = [c for c in found if c.argument == name]
        if all(c.predicate in _RISING and c.is_met(known[name]) for c in own):
            least = max(max(c.numbers) + (c.predicate == "slt") for c in own)
            tests.append(b.icmp("sge", x, least))
        else:
            tests.append(b.icmp("eq", x, known[name]))
    fits = tests[0]
    for test in tests[1:]:
        fits = b.binary("and", fits, test)
    b.cond_br(fits, "%like", "%other")
    for label, version in (("%like", special), ("%other", general)):
        b.start(label)
        b.call(version.name, VOID, chooser.arguments)
        b.ret()
    return chooser


def _loaded(b: Builder, load: Instruction, made: Mapping[str, Instruction]) -> Operand:
    """The argument once more."""
    address = made.get(load.operands[0].local or "")
    if address is not None:
        b.append(address)
    return b.append(load).value
