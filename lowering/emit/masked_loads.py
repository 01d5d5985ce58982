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

from triton_xe import llvm as ir
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.links import Links, calls_assembly, rewrite, row_of
from triton_xe.lowering.emit.values import elements_of
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.spirv import WIDE

Elements = tuple[int, ...]
MASK, OTHER = 2, 3
"""Operand indices in a call of `PredicatedLoad`."""
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
    rewrite(state, "masked", lambda i: row_of(i) is genisa.PREDICATED_LOAD
            and not i.operands[OTHER].is_constant, _separate)


def _is_moved(load: ir.Instruction, links: Links) -> bool:
    """True if a load's elements are used by other than arithmetic, or DPAS that takes all."""
    return any(
        user.opcode not in _MOVES | _COMPUTED and not user.callee.startswith(_ARITHMETIC)
        and not (_takes_registers(user)
                 and _elements(value, load, links) == _elements(load, load, links))
        for value, user in links.users_through(load, _MOVES))


def _elements(i: ir.Instruction | None, load: ir.Instruction, links: Links) -> Elements:
    """Index in the load of each element of a vector, -1 for other elements; () if not known."""
    if i is load:
        return tuple(range(load.type.lanes))
    if i is not None and i.opcode == "bitcast":
        return _elements(links.maker(i.operands[0]), load, links)
    if i is None or i.opcode != "shufflevector":
        return ()
    both = [position for v in i.operands
            for position in _elements(links.maker(v), load, links) or (-1,) * v.type.lanes]
    return tuple(both[at] if len(both) > at else -1 for at in i.indices)


def _takes_registers(user: ir.Instruction) -> bool:
    """True for DPAS, and for functions of inline assembly."""
    return row_of(user) is genisa.DPAS or calls_assembly(user)


def _separate(state: ModuleState, load: ir.Instruction, links: Links) -> None:
    """load(p, m, other)  ->  select(m, load(p, m, 0), other)"""
    if not _is_moved(load, links):
        return
    other = load.operands[OTHER]
    maker = links.maker(other)
    constant = _constant(state, maker)
    load.operands[OTHER] = constant or ir.zero(load.type)
    if constant is None:
        operands = [load.operands[MASK], load.value, other]
        chosen = ir.Instruction("select", load.type, operands, debug=load.debug)
        links.named(chosen)
        links.put(load, [load, chosen])
    elif maker is not None and maker.opcode == "call" and len(links.users[other.text]) == 1:
        links.home[maker].instructions.remove(maker)


def _constant(state: ModuleState, i: ir.Instruction | None) -> ir.Operand | None:
    """The constant that a call returns; undefined for an undefined vector with one element set.

    None for other values.  Masked-off lanes do not need that element, which costs one move.
    """
    if i is not None and i.callee.startswith(WIDE):
        result = state.llvm.functions[i.callee].blocks[0].instructions[-1].operands[0]
        return result if result.is_constant else None
    if i is not None and i.opcode == "insertelement" and i.type.count > 1 and _is_undefined(
            i.operands[0]):
        return ir.undef(i.type)
    return None


def _is_undefined(value: ir.Operand) -> bool:
    elements = elements_of(value)
    return bool(elements) and all(each.is_undefined for each in elements)
