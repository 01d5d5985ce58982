"""Replace accesses with a cache policy (`GenISA.LSCLoad`, `LSCStore`) by plain accesses.

Data sizes 3 and 4 are words of 32 and 64 bits; 5 and 6 are 8 and 16 bits in a register of 32.
A cache policy changes no value; a policy that the device lacks is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.errors import SimulatorTrap
from triton_xe.hardware.block_2d import cache_codes
from triton_xe.hardware.target import Target
from triton_xe.intrinsics import find
from triton_xe.intrinsics.genisa import LSC_LOAD, LSC_STORE
from triton_xe.llvm import VOID, Instruction, Module, Operand, Type
from triton_xe.runtime.simulator.analysis.calls import argument

_WORDS = {3: ir.I32, 4: ir.I64}
_NARROW = {5: ir.I8, 6: ir.I16}


def plain_accesses(module: Module, target: Target) -> Module:
    """The module with loads and stores instead of these messages."""
    for function in module.functions.values():
        for block in function.blocks:
            if any(find(i.callee) in (LSC_LOAD, LSC_STORE) for i in block.instructions):
                block.instructions = [x for i in block.instructions for x in _plain(i, target)]
    return module


def _plain(i: Instruction, target: Target) -> Iterator[Instruction]:
    """LSC loads and stores -> plain ones, narrowed to the bits that they move."""
    known = find(i.callee)
    if known is LSC_LOAD:
        held = _moved_type(i, i.type, target, write=False)
        access = replace(i, opcode="load", type=held, operands=i.operands[:1], callee="",
                         align=held.scalar.size)
        if held is i.type:
            yield access
            return
        access.result = f"%lsc.{i.line}"
        yield access
        yield replace(i, opcode="zext", operands=[access.value], callee="")
    elif known is LSC_STORE:
        value = argument(i, "value")
        held = _moved_type(i, value.type, target, write=True)
        if held is not value.type:
            narrow = Instruction("trunc", held, [value], f"%lsc.{i.line}", line=i.line,
                                 debug=i.debug)
            yield narrow
            value = narrow.value
        yield replace(i, opcode="store", type=VOID, operands=[value, i.operands[0]], callee="",
                      align=held.scalar.size)
    else:
        yield i


def _moved_type(i: Instruction, word: Type, target: Target, *, write: bool) -> Type:
    """The type in memory; a trap if the device has no such message."""
    size, count, cache = (_number(argument(i, name)) for name in ("size", "count", "cache"))
    if size in _NARROW and count == 1 and word is ir.I32:
        held = _NARROW[size]
    elif size in _WORDS and ir.vector_or_scalar(count, _WORDS[size]) is word:
        held = word
    else:
        raise SimulatorTrap(f"a message of {count} elements of data size {size} is no {word}")
    if cache not in cache_codes(target, write=write).values():
        verb = "write" if write else "read"
        raise SimulatorTrap(f"{target.name} has no {verb} cache policy with code {cache}")
    return held


def _number(operand: Operand) -> int:
    found = operand.integer_value()
    return -1 if found is None else found
