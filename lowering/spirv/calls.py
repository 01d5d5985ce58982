"""Calls of functions without a body, which are instructions in SPIR-V, or imported.

LLVM's intrinsics become instructions of SPIR-V or of OpenCL's extended set.  So do builtins of
OpenCL and SPIR-V, by their mangled names.  All others, as Intel's own, are imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find, genisa, spirv
from triton_xe.intrinsics.mangling import builtin_name, is_unsigned
from triton_xe.llvm import Instruction
from triton_xe.lowering.spirv import spirv_tables as tables
from triton_xe.lowering.spirv.module_writer import add, refuse
from triton_xe.lowering.spirv.spirv_tables import Op
from triton_xe.lowering.spirv.value_writer import ValueWriter

_OF_FLOATS = re.compile(r"(Dv\d+_)?(Dh|f|d)")
Form = Callable[[ValueWriter, Instruction], None]


@cache
def form_of(callee: str) -> Form | None:
    """How a call of a function without a body is written; None if it is imported."""
    row = find(callee)
    name = row.name
    known = name.removeprefix(spirv.PREFIX)
    if known in tables.PLAIN:
        opcode, capability = tables.PLAIN[known]
        return partial(plain, opcode=opcode, capability=capability)
    if row.family is Family.HINT and name.startswith("llvm.") and genisa.PREFIX not in name:
        return hint
    if name.startswith("llvm.") and name[5:] in tables.OF_LLVM:
        number = tables.EXTENDED[tables.OF_LLVM[name[5:]]]
        counted = row.parameters[-1].name == "poison"
        return partial(extended, number=number, arguments=-1 if counted else None)
    if callee.startswith("llvm.expect."):
        return expect
    if callee.startswith("llvm.") and not callee.startswith(genisa.PREFIX):
        refuse(f"the intrinsic {callee}")
    return _builtin_form(callee)


def _builtin_form(callee: str) -> Form | None:
    """How a call of a builtin of OpenCL or SPIR-V is written; None for an imported function."""
    found = builtin_name(callee)
    if found is None:
        return None
    name, types = found[0].removeprefix(spirv.PREFIX), found[1]
    if name in tables.BUILT_INS:
        return partial(built_in, number=tables.BUILT_INS[name])
    if name in tables.IN_SUBGROUP:
        opcode, capability = tables.IN_SUBGROUP[name]
        return partial(in_subgroup, opcode=opcode, capability=capability)
    if name in tables.GROUP_OPERATIONS:
        opcode, capability = tables.GROUP_OPERATIONS[name]
        return partial(group, opcode=opcode, capability=capability)
    if name in tables.OF_SUBGROUP:
        operation, combines = tables.OF_SUBGROUP[name]
        integer = "I" if combines == "Add" else "U" if is_unsigned(callee) else "S"
        kind = "F" if _OF_FLOATS.match(types) else integer
        return partial(subgroup_operation, number=operation,
                       opcode=tables.GROUP_OPERATIONS[f"Group{kind}{combines}"][0])
    if name in tables.ATOMIC_ACCESSES:
        return partial(atomic_access, opcode=tables.ATOMIC_ACCESSES[name])
    if name in tables.SIGNED and not _OF_FLOATS.match(types):
        name = f"{'u' if is_unsigned(callee) else 's'}_{name}"
    if name in tables.EXTENDED:
        return partial(extended, number=tables.EXTENDED[name])
    if find(callee).known:
        refuse(f"the function {callee}")
    return None


def extended(w: ValueWriter, i: Instruction, number: int, arguments: int | None = None) -> None:
    """Write an instruction of the OpenCL set."""
    w.define(i, Op.EXT_INST, w.m.library, number, *map(w.value, i.operands[:arguments]))
    w.fast(i)


def hint(w: ValueWriter, i: Instruction) -> None:
    """Leave out what is only a hint."""


def expect(w: ValueWriter, i: Instruction) -> None:
    w.rename(i, w.value(i.operands[0]))


def plain(w: ValueWriter, i: Instruction, opcode: int, capability: int = 0) -> None:
    """Write an instruction with the operands of the call."""
    if capability:
        w.m.need(capability)
    operands = map(w.value, i.operands)
    if i.type is ir.VOID:
        add(w.words, opcode, *operands)
    else:
        w.define(i, opcode, *operands)


def group(w: ValueWriter, i: Instruction, opcode: int, capability: int) -> None:
    """Write a group operation, whose second operand is a literal."""
    w.m.need(capability)
    scope, operation, *rest = i.operands
    number = operation.integer_value()
    if number is None:
        refuse("a group operation that is no constant")
    if number == tables.CLUSTERED_REDUCE:
        w.m.need(tables.GROUP_CLUSTERED)
    w.define(i, opcode, w.value(scope), number, *map(w.value, rest))


def in_subgroup(w: ValueWriter, i: Instruction, opcode: int, capability: int) -> None:
    """Write an instruction with the scope of a subgroup before its operands."""
    w.m.need(capability)
    w.define(i, opcode, w.m.number(ir.I32, tables.SUBGROUP), *map(w.value, i.operands))


def subgroup_operation(w: ValueWriter, i: Instruction, opcode: int, number: int) -> None:
    """Write a reduction or scan of a subgroup."""
    w.m.need(tables.GROUPS)
    w.define(i, opcode, w.m.number(ir.I32, tables.SUBGROUP), number, w.value(i.operands[0]))


def atomic_access(w: ValueWriter, i: Instruction, opcode: int) -> None:
    """Write an atomic load or store."""
    address, *rest = i.operands
    t = rest[-1].type if i.type is ir.VOID else i.type
    if t.bits == 64:
        w.m.need(tables.INT64_ATOMICS)
    operands = w.at(address, t), *map(w.value, rest)
    if i.type is ir.VOID:
        add(w.words, opcode, *operands)
    else:
        w.define(i, opcode, *operands)


def built_in(w: ValueWriter, i: Instruction, number: int) -> None:
    """Write a call that reads a built-in value, of an axis if it takes one."""
    if not i.operands:
        w.define(i, Op.LOAD, w.m.input(number, i.type))
        return
    axis = i.operands[0].integer_value()
    if axis is None or axis > 2:
        refuse("an id of an axis that is no constant below 3")
    kind = ir.vector(3, i.type)
    w.define(i, Op.COMPOSITE_EXTRACT, w.made(Op.LOAD, kind, w.m.input(number, kind)), axis)
