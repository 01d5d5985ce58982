"""Find the pointer arguments of a kernel that an address can be computed from."""

from __future__ import annotations

from typing import NamedTuple

from triton_xe.intrinsics import Effect, find
from triton_xe.intrinsics.genisa import (
    BASE,
    LSC_2D_BLOCK_COPY_PAYLOAD,
    LSC_2D_BLOCK_SET_PAYLOAD_FIELD,
)
from triton_xe.llvm import Function, Instruction, Operand
from triton_xe.llvm.facts import Facts
from triton_xe.llvm.solver import readers, solve

Roots = frozenset[int]
NOWHERE: Roots = frozenset()
_ATOMICS = ("atomicrmw", "cmpxchg")
_MEMORY = ("load", *_ATOMICS)
_LANE_BY_LANE = frozenset(
    "add sub mul sdiv udiv srem urem and or xor shl lshr ashr fadd fsub fmul fdiv fneg icmp fcmp "
    "trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast freeze".split())


class Read(NamedTuple):
    """The load that a value comes from, and the index of its element; None for all, in order."""

    load: Instruction
    element: int | None


def read_for(
    operand: Operand, facts: Facts, loads: frozenset[str], element: int | None = None
) -> Read | None:
    """The load, out of some, that a value comes from lane by lane; None if unknown."""
    i = facts.maker(operand)
    if i is None or i.result in loads:
        return None if i is None else Read(i, element)
    sources: tuple[tuple[Operand, int | None], ...] = ()
    if i.opcode == "extractelement":
        at = i.operands[1].integer_value()
        sources = ((i.operands[0], at),) if at is not None else ()
    elif i.opcode == "insertelement" and element is not None:
        here = i.operands[2].integer_value() == element
        sources = ((i.operands[1], None),) if here else ((i.operands[0], element),)
    elif i.opcode in _LANE_BY_LANE:
        sources = tuple((o, element) for o in i.operands)
    elif i.opcode == "select":
        sources = tuple((o, element) for o in i.operands[1:])
    found = (read_for(o, facts, loads, at) for o, at in sources)
    return next((each for each in found if each is not None), None)


def pointer_roots(function: Function) -> dict[str, Roots]:
    """Numbers of the pointer arguments that each value is computed from, also through integers.

    Values loaded from memory have no roots, because an address computed from them may point
    anywhere.  There is one exception, because tensors of pointers change their layout through
    shared memory.  If every 64-bit word that the function stores there has roots, a loaded word has
    all of those.
    """
    found: dict[str, Roots] = {
        name: frozenset((k,)) for k, (name, t) in enumerate(function.parameters)
        if t.kind == "ptr" and function.is_kernel
    }
    todo = [i for i in function.instructions() if i.result is not None and not _reads(i)]
    based = _given_bases(function)
    stored, loaded = _shared_words(function)
    sources = {i: based.get(i.value.text, list(i.locals())) for i in todo}
    sources |= dict.fromkeys(loaded, stored)

    def roots(i: Instruction) -> tuple[str, Roots] | None:
        parts = [found.get(name, NOWHERE) for name in sources[i]]
        found_all = i.opcode != "load" or all(parts)
        merged = NOWHERE.union(*parts) if found_all else NOWHERE
        return (i.value.text, merged) if merged else None

    solve(todo + loaded, roots, readers(sources), found)
    return found


def _given_bases(function: Function) -> dict[str, list[str]]:
    """Bases that copies of descriptors are given, which replace the base of the original."""
    found: dict[str, list[str]] = {}
    copies = {i.result for i in function.instructions()
              if i.opcode == "call" and find(i.callee) is LSC_2D_BLOCK_COPY_PAYLOAD}
    for i in function.instructions():
        if i.opcode != "call" or find(i.callee) is not LSC_2D_BLOCK_SET_PAYLOAD_FIELD:
            continue
        payload, field, base = i.operands[:3]
        if payload.local in copies and field.integer_value() == BASE and base.local is not None:
            found.setdefault(payload.local or "", []).append(base.local)
    return found


def stored_to(i: Instruction) -> list[Operand]:
    """The address that an instruction stores to, if it stores."""
    if i.opcode == "store":
        return i.operands[1:2]
    writes = i.opcode in _ATOMICS or (
        i.opcode == "call" and Effect.WRITES in find(i.callee).effects)
    return i.operands[:1] if writes else []


def _shared_words(function: Function) -> tuple[list[str], list[Instruction]]:
    """The 64-bit words stored to shared memory, and the loads of such words.

    Nothing, if the function also accesses that memory in another way.
    """
    stored, loaded = [], []
    for i in function.instructions():
        shared = any(map(_is_shared, i.operands))
        unknown = i.opcode == "call" and not find(i.callee).known
        if unknown or any(map(_escapes, i.operands)) or (shared and i.opcode not in _KNOWN_USES):
            return [], []
        if not shared or i.opcode not in ("load", "store"):
            continue
        t = i.operands[0].type if i.opcode == "store" else i.type
        if t.kind == "ptr" and t.space == 3:
            return [], []
        if t.scalar.bits == 64 and i.opcode == "load":
            loaded.append(i)
        elif t.scalar.bits == 64:
            stored.append(i.operands[0].local or "")
    return stored, loaded


_KNOWN_USES = ("load", "store", "getelementptr", "phi", "select", "icmp", "freeze")


def _is_shared(o: Operand) -> bool:
    return o.type.kind == "ptr" and o.type.space == 3


def _escapes(o: Operand) -> bool:
    """True if a constant expression converts a pointer to shared memory to something else."""
    return o.expression is not None and not _is_shared(o) and any(
        _is_shared(x) or _escapes(x) for x in o.expression.operands)


def _reads(i: Instruction) -> bool:
    """True if the result comes from memory, or is a truth value."""
    if i.opcode in _MEMORY or i.type.scalar.bits == 1:
        return True
    return i.opcode == "call" and Effect.READS in find(i.callee).effects
