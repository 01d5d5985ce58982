"""Compute vectors of two fp16 values by functions, which take one instruction for both.

    fadd <2 x half> %a, %b   ->   call i32 @xe.half.both.add(i32 %a, i32 %b), and bitcasts

Intel's compiler writes one instruction for each element of a vector.  Two fp16 values in a dword of
each lane fill one register, on which one instruction works.
"""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.lowering.emit.helpers import internal_function
from triton_xe.lowering.emit.links import Links, rewrite, row_of
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.types import I32, TWO_HALVES
from triton_xe.lowering.emit.writer import BUILTIN, ModuleState, Writer
from triton_xe.spirv import HALVES

_NAMES = {"fadd": "add", "fsub": "sub", "fmul": "mul", "select": "select", "llvm.fma": "plus",
          "llvm.minnum": "min", "llvm.maxnum": "max"}


def compute_halves_at_once(state: ModuleState) -> None:
    """Replace arithmetic on vectors of two fp16 values."""
    if suits(state):
        rewrite(state, "both", lambda i: _name(i) is not None, _change)


def _name(i: ir.Instruction) -> str | None:
    """The name of an operation; None for others."""
    picks_each = i.opcode == "select" and i.operands[0].type.kind == "vec"
    if i.type != TWO_HALVES or i.flags or picks_each:
        return None
    row = row_of(i)
    return _NAMES.get(i.opcode if row is None else row.name)


def _change(state: ModuleState, i: ir.Instruction, links: Links) -> None:
    """Replace an operation if an operand is a dword; others would be moved to dwords first."""
    if not any(_dword(links, x) for x in i.operands):
        return
    made: list[ir.Instruction] = []

    def add(one: ir.Instruction) -> ir.Operand:
        one.debug = i.debug
        made.append(one)
        value = links.named(one)
        links.makers[value.text] = one
        return value

    given = [x if x.type != TWO_HALVES else _dword(links, x) or add(
        ir.Instruction("bitcast", I32, [x])) for x in i.operands]
    word = add(ir.Instruction("select", I32, given) if i.opcode == "select" else ir.Instruction(
        "call", I32, given, callee=_function(state, i), attributes=BUILTIN))
    add(ir.Instruction("bitcast", TWO_HALVES, [word]))
    links.put(i, made)


def _dword(links: Links, x: ir.Operand) -> ir.Operand | None:
    """The dword that a value is the two halves of; None if it is another value."""
    made = links.makers.get(x.text)
    is_dword = made is not None and made.opcode == "bitcast" and made.operands[0].type == I32
    return made.operands[0] if made is not None and is_dword else None


def _function(state: ModuleState, i: ir.Instruction) -> str:
    """The name of the function that computes what an instruction does."""
    symbol = f"{HALVES}both.{_name(i)}"
    if symbol not in state.llvm.functions:
        function = internal_function(state, symbol, I32, [I32] * len(i.operands))
        function.blocks.append(ir.Block("%entry"))
        inner = Writer(state, function, function.blocks[0])
        given = [inner.b.bitcast(x, TWO_HALVES) for x in function.arguments]
        inner.b.ret(inner.b.bitcast(inner.b.emit(i.with_operands(given)), I32))
    return symbol
