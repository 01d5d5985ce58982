"""Store vectors of flags as bytes.

    store <8 x i1> %m, ptr %p   ->  store <8 x i8> (sext %m), ptr %p
    %n = load <8 x i1>, ptr %p  ->  %n = icmp slt <8 x i8> (load <8 x i8>, ptr %p), 0
    %p = alloca <8 x i1>        ->  %p = alloca <8 x i8>

LLVM narrows a load of `<8 x i1>` to `<7 x i1>` if that is all that is used, and assumes that the
other bit is zero.  In LLVM 22.1, VectorCombine narrows, and the code generator expects `i7` in a
byte. An integer would be converted back to a vector of flags, so bytes are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from triton_xe.llvm import Block, Function, Instruction, Operand, zero
from triton_xe.llvm.types import I1, I8, Type, vector


def flags_in_memory(function: Function) -> Function:
    """The function with loads and stores of flags as bytes.

    Memory that is not for flags alone has room for them.
    """
    if not any(map(_moves_flags, function.instructions())):
        return function
    return replace(function, blocks=[
        Block(b.label, [made for k, i in enumerate(b.instructions)
                        for made in _rewritten(i, f"%flags.{b.label[1:]}.{k}")])
        for b in function.blocks])


def is_flags(t: Type) -> bool:
    return t.kind == "vec" and t.scalar == I1


def _moves_flags(i: Instruction) -> bool:
    if i.opcode == "store":
        return is_flags(i.operands[0].type)
    return i.opcode == "load" and is_flags(i.type)


def _rewritten(i: Instruction, name: str) -> Iterator[Instruction]:
    """load <n x i1> -> load <n x i8>, icmp slt 0;  store <n x i1> -> sext, store <n x i8>"""
    if i.opcode == "alloca" and i.element is not None and is_flags(i.element):
        yield replace(i, element=vector(i.element.count, I8))
    elif not _moves_flags(i):
        yield i
    elif i.opcode == "load":
        numbers = Operand(vector(i.type.count, I8), name)
        yield replace(i, type=numbers.type, result=name)
        yield Instruction("icmp", i.type, [numbers, zero(numbers.type)], i.result, extra="slt")
    else:
        flags, at = i.operands
        numbers = Operand(vector(flags.type.count, I8), name)
        yield Instruction("sext", numbers.type, [flags], name)
        yield replace(i, operands=[numbers, at])
