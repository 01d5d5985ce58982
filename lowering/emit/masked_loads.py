"""Work around masked loads that IGC 2.40 loses.

The value of a predicated load in masked-off lanes may be non-constant.  If instructions then only
move the loaded elements, IGC gives the moved vector registers that nothing writes (on devices with
predicated messages).  Therefore the load gets a constant, and a select the value:

    %x = PredicatedLoad(%p, %m, %other)           %y = PredicatedLoad(%p, %m, zero)
    store(shufflevector %x, <0, 1>)         ->    %x = select %m, %y, %other
    store(shufflevector %x, <2, 3>)               store(shufflevector %x, <0, 1>) ...

A store of the whole result may be affected too, because IGC merges adjacent stores.  Arithmetic
reads the right registers, and so do DPAS and inline assembly that take all elements.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.links import Uses, replace_with, rewrite, row_of, users_through
from triton_xe.lowering.emit.types import callee_of, opcode_of
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.spirv import HALVES, WIDE

Elements = tuple[int, ...]
MASK, OTHER = 3, 4
"""Operand indices in a call of `PredicatedLoad`, after the function."""
_MOVES = frozenset((
    "extractelement", "insertelement", "shufflevector", "bitcast", "zext", "sext", "trunc",
    "fpext", "fptrunc", "or", "shl", "lshr"))
"""Instructions that IGC may turn into moves; a pair of inverse conversions is a move too."""
_COMPUTED = frozenset((
    "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "add", "sub", "mul", "sdiv", "udiv", "srem",
    "urem", "and", "xor", "ashr", "icmp", "fcmp", "select", "sitofp", "uitofp", "fptosi", "fptoui"))

_ARITHMETIC = tuple(f"llvm.{name}." for name in ("fma", "maxnum", "minnum", "exp2", "sqrt"))
"""Beginnings of the names of functions that compute."""


def separate_other_values(state: ModuleState) -> None:
    """Load a constant in lanes that are masked off, and select their values after the load.

    This is done for loads whose elements are moved.
    """
    rewrite(state, lambda i: row_of(i) is genisa.PREDICATED_LOAD and not isinstance(
        i.operands[OTHER], ir.Constant), _separate)


def _is_moved(load: Any, uses: Uses) -> bool:
    """True if a load's elements are used by other than arithmetic, or DPAS that takes all."""
    return any(
        user.opname not in _MOVES | _COMPUTED and not callee_of(user).startswith(_ARITHMETIC)
        and not (_takes_registers(user) and _elements(value, load) == _elements(load, load))
        for value, user in users_through(load, uses, _MOVES))


def _elements(value: Any, load: Any) -> Elements:
    """Index in the load of each element of a vector, -1 for other elements; () if not known."""
    if value is load:
        return tuple(range(getattr(load.type, "count", 1)))
    opcode = opcode_of(value)
    if opcode == "bitcast":
        return _elements(value.operands[0], load)
    if opcode != "shufflevector":
        return ()
    sides = value.operands[:2]
    known = {id(v): _elements(v, load) or (-1,) * v.type.count for v in sides}
    both = [position for v in sides for position in known[id(v)]]
    return tuple(both[one.constant] if len(both) > one.constant else -1
                 for one in value.operands[2].constant)


def _takes_registers(user: Any) -> bool:
    """True for DPAS, and for functions of inline assembly."""
    return row_of(user) is genisa.DPAS or callee_of(user).startswith((HALVES, WIDE))


def _separate(state: ModuleState, load: Any, uses: Uses) -> None:
    """load(p, m, other)  ->  select(m, load(p, m, 0), other)"""
    if not _is_moved(load, uses):
        return
    other = load.operands[OTHER]
    constant = _constant(other)
    load.operands[OTHER] = constant or ir.Constant(load.type, None)
    if constant is None:
        chosen = instructions.SelectInstr(load.parent, load.operands[MASK], load, other)
        chosen.metadata.update({k: v for k, v in load.metadata.items() if k == "xe.at"})
        replace_with(load, [load, chosen], uses)
    elif isinstance(other, ir.CallInstr) and len(uses[id(other)]) == 1:
        other.parent.instructions.remove(other)


def _constant(other: Any) -> ir.Constant | None:
    """The constant that a call returns; undefined for an undefined vector with one element set.

    None for other values.  Masked-off lanes do not need that element, which costs one move.
    """
    if isinstance(other, ir.CallInstr) and other.callee.name.startswith(WIDE):
        result = other.callee.blocks[0].terminator.operands[0]
        return result if isinstance(result, ir.Constant) else None
    if isinstance(other, instructions.InsertElement) and other.type.count > 1 and _is_undefined(
            other.operands[0]):
        return ir.Constant(other.type, ir.Undefined)
    return None


def _is_undefined(value: Any) -> bool:
    held = getattr(value, "constant", None)
    elements = held if isinstance(held, list | tuple) else [value]
    return all(getattr(each, "constant", None) is ir.Undefined for each in elements)
