"""Spelling of instructions: one table, which `parser` and `printer` both use.

A spelling is a list of parts, each of which can be read into a record and written from it.  A
`Spell` spells the types: without address spaces for the host, which has one (`host_type`), or with
them (`llvm_type`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from triton_xe.llvm.records import (
    ASSEMBLY,
    BINARY,
    CASTS,
    Instruction,
    Operand,
    is_spelled,
    quoted,
)
from triton_xe.llvm.tokens import Line
from triton_xe.llvm.types import (
    I1,
    VOID,
    Type,
    array,
    pointer,
    struct,
    vector,
    with_elements,
)

_FLAGS = frozenset(
    "nuw nsw exact disjoint nneg samesign fast nnan ninf nsz arcp contract afn reassoc inbounds "
    "nusw inreg weak volatile".split())
CONVENTIONS = frozenset("spir_func spir_kernel fastcc ccc coldcc tail musttail notail".split())
_ORDERINGS = frozenset("monotonic acquire release acq_rel seq_cst unordered".split())


Spell = Callable[[Type], str]
host_type: Spell = attrgetter("text")
llvm_type: Spell = attrgetter("spelled")


class Part(NamedTuple):
    """A part of a spelling, how it is read and written."""

    read: Callable[[Line, Instruction], None]
    write: Callable[[Instruction, Spell], str]


def read_instruction(line: Line) -> Instruction:
    """The instruction at the rest of a line."""
    opcode = line.take()
    if opcode in CONVENTIONS:
        line.take_while(CONVENTIONS)
        opcode = line.take()
    if opcode not in _SPELLINGS:
        line.fail(f"unknown instruction {opcode!r}")
    i = Instruction(opcode, VOID, [])
    for part in _SPELLINGS[opcode]:
        part.read(line, i)
    if opcode in _RESULTS:
        i.type = _RESULTS[opcode](i)
    return i


def read_expression(line: Line, t: Type, opcode: str) -> Operand:
    """A constant expression after its opcode: spelled as the instruction is, in parentheses."""
    i = Instruction(opcode, VOID, [])
    flags, *rest = _SPELLINGS[opcode]
    flags.read(line, i)
    line.expect("(")
    for part in rest:
        part.read(line, i)
    line.expect(")")
    i.type = t
    return Operand(t, opcode, expression=i)


def write_instruction(i: Instruction, spell: Spell = host_type) -> str:
    """One indented line."""
    parts = "".join([write(i, spell) for write in _WRITERS[i.opcode]])
    opcode = "bitcast" if i.opcode == "addrspacecast" and spell is host_type else i.opcode
    return f"  {opcode}{parts}" if i.result is None else f"  {i.result} = {opcode}{parts}"


# --- parts ----------------------------------------------------------------------------------------


def _typed(operands: Sequence[Operand], spell: Spell) -> str:
    return ", ".join([f"{spell(o.type)} {o.text}" for o in operands])


def _read_flags(line: Line, i: Instruction) -> None:
    """Read flags; `contract` is dropped, because products and sums are fused already."""
    i.flags = tuple(f for f in line.take_while(_FLAGS) if f != "contract")


def _write_flags(i: Instruction, spell: Spell) -> str:
    return "".join([f" {f}" for f in i.flags]) if i.flags else ""


def _read_pair(line: Line, i: Instruction) -> None:
    left = line.typed_operand()
    line.expect(",")
    i.operands = [left, line.operand(left.type)]


def _write_pair(i: Instruction, spell: Spell) -> str:
    a, b = i.operands
    return f" {spell(a.type)} {a.text}, {b.text}"


def _read_count(line: Line, i: Instruction) -> None:
    """Read the number of elements of an alloca; several are an array."""
    if line.peek != "," or line.tokens[line.at + 1] == "align":
        return
    line.take()
    count = line.typed_operand().integer_value()
    if count is None or i.element is None:
        line.fail("an alloca of variable size")
    i.element = i.element if count == 1 else array(count, i.element)


def _field(
    name: str, read: Callable[[Line], object], write: Callable[[Instruction, Spell], str]
) -> Part:
    """A part that is one field of the record."""
    return Part(lambda line, i: setattr(i, name, read(line)), write)


def _word(word: str) -> Part:
    spelled = word if word == "," else f" {word}"
    return Part(lambda line, i: line.expect(word), lambda i, _: spelled)


def _read_mask(line: Line, i: Instruction) -> None:
    mask = i.operands.pop()
    i.indices = tuple(-1 if e.is_undefined else int(e.text) for e in mask.elements)


@lru_cache(maxsize=4096)
def _mask(indices: tuple[int, ...]) -> str:
    if not any(indices):
        return f", <{len(indices)} x i32> zeroinitializer"
    items = ", ".join(["i32 poison" if k < 0 else f"i32 {k}" for k in indices])
    return f", <{len(indices)} x i32> <{items}>"


def _read_indices(line: Line, i: Instruction) -> None:
    while line.accept(","):
        i.indices += (int(line.take()),)


def _read_atomic(line: Line, i: Instruction) -> None:
    if line.peek == "atomic":
        line.fail(f"an atomic {i.opcode}")


def _read_order(line: Line, i: Instruction) -> None:
    if i.opcode == "fence":
        line.fail("an LLVM fence, which real devices drop; call the memory barrier builtin instead")
    if line.accept("syncscope"):
        line.expect("(")
        i.scope = line.take().strip('"')
        line.expect(")")
    i.orderings = line.take_while(_ORDERINGS)


def _write_order(i: Instruction, spell: Spell) -> str:
    scope = f' syncscope("{i.scope}")' if i.scope else ""
    return scope + "".join([f" {o}" for o in i.orderings])


def _read_align(line: Line, i: Instruction) -> None:
    i.align = line.alignment()


def _read_incoming(line: Line, i: Instruction) -> None:
    while line.accept("["):
        i.operands.append(line.operand(i.type))
        line.expect(",")
        i.labels.append(line.label())
        line.expect("]")
        line.accept(",")


def _write_incoming(i: Instruction, spell: Spell) -> str:
    pairs = zip(i.operands, i.labels, strict=True)
    return " " + ", ".join([f"[{o.text}, {label}]" for o, label in pairs])


def _read_targets(line: Line, i: Instruction) -> None:
    """Read labels, the first at once or after a condition."""
    if line.peek != "label":
        i.operands = [line.typed_operand()]
        line.expect(",")
    while line.accept("label"):
        i.labels.append(line.label())
        line.accept(",")


def _write_targets(i: Instruction, spell: Spell) -> str:
    return " " + ", ".join([*(f"{spell(o.type)} {o.text}" for o in i.operands[:1]),
                            *(f"label {label}" for label in i.labels)])


def _read_cases(line: Line, i: Instruction) -> None:
    i.operands = [line.typed_operand()]
    line.expect(",")
    line.expect("label")
    i.labels = [line.label()]
    line.expect("[")
    while not line.accept("]"):
        i.operands.append(line.typed_operand())
        line.expect(",")
        line.expect("label")
        i.labels.append(line.label())


def _write_cases(i: Instruction, spell: Spell) -> str:
    value, *cases = i.operands
    inner = " ".join([f"{_typed([o], spell)}, label {label}"
                      for o, label in zip(cases, i.labels[1:], strict=True)])
    return f" {_typed([value], spell)}, label {i.labels[0]} [{inner}]"


def _read_return(line: Line, i: Instruction) -> None:
    if not line.accept("void"):
        i.operands = [line.typed_operand()]


def _read_call(line: Line, i: Instruction) -> None:
    line.take_while(CONVENTIONS)
    line.attributes()
    i.type = line.type()
    if line.peek == "(":
        line.skip_parens()
    callee = line.take()
    if callee == ASSEMBLY:
        words = []
        while line.peek not in ("(", ""):
            words.append(line.take())
        i.extra, callee = " ".join(words), "@" + ASSEMBLY
    if not callee.startswith("@"):
        line.fail("an indirect call")
    i.callee = callee.strip("@").strip('"')
    line.expect("(")
    while not line.accept(")"):
        i.operands.append(line.typed_operand())
        line.accept(",")


def _write_call(i: Instruction, spell: Spell) -> str:
    arguments = _typed(i.operands, spell)
    if any(i.aligns):
        arguments = ", ".join([
            f"{spell(o.type)} align {n} {o.text}" if n else f"{spell(o.type)} {o.text}"
            for o, n in zip(i.operands, i.aligns, strict=True)
        ])
    callee = f"{ASSEMBLY} {i.extra}" if i.callee == ASSEMBLY else (
        i.callee if is_spelled(i.callee) else "@" + quoted(i.callee))
    attributes = f" {i.attributes}" if i.attributes else ""
    return f"{attributes} {spell(i.type)} {callee}({arguments})"


# --- the table ------------------------------------------------------------------------------------

_PARTS = {
    "flags": Part(_read_flags, _write_flags),
    "extra": _field("extra", Line.take, lambda i, s: f" {i.extra}"),
    "pair": Part(_read_pair, _write_pair),
    "operands": _field("operands", Line.operands, lambda i, s: f" {_typed(i.operands, s)}"),
    "type": _field("type", Line.type, lambda i, s: f" {s(i.type)}"),
    "element": _field("element", Line.type, lambda i, s: f" {s(i.element or VOID)}"),
    "count": Part(_read_count, lambda i, s: f", {_typed(i.operands, s)}" if i.operands else ""),
    "mask": Part(_read_mask, lambda i, s: _mask(i.indices)),
    "indices": Part(_read_indices, lambda i, s: "".join([f", {k}" for k in i.indices])),
    "atomic": Part(_read_atomic, lambda i, s: " atomic" if i.orderings else ""),
    "order": Part(_read_order, _write_order),
    "align": Part(_read_align, lambda i, s: f", align {i.align}" if i.align else ""),
    "incoming": Part(_read_incoming, _write_incoming),
    "targets": Part(_read_targets, _write_targets),
    "cases": Part(_read_cases, _write_cases),
    "returned": Part(_read_return, lambda i, s: f" {_typed(i.operands, s) or 'void'}"),
    "call": Part(_read_call, _write_call),
    ",": _word(","),
    "to": _word("to"),
}
_SPELLINGS = {
    opcode: [_PARTS[part] for part in parts.split()]
    for opcodes, parts in (
        (BINARY, "flags pair"),
        (("icmp", "fcmp"), "flags extra pair"),
        (CASTS, "flags operands to type"),
        (("fneg", "freeze", "select", "extractelement", "insertelement"), "flags operands"),
        (("shufflevector",), "operands mask"),
        (("extractvalue", "insertvalue"), "operands indices"),
        (("load",), "atomic flags type , operands order align"),
        (("store",), "atomic flags operands order align"),
        (("alloca",), "element count align"),
        (("getelementptr",), "flags element , operands"),
        (("atomicrmw",), "flags extra operands order align"),
        (("cmpxchg",), "flags operands order align"),
        (("fence",), "order"),
        (("phi",), "flags type incoming"),
        (("br",), "targets"),
        (("switch",), "cases"),
        (("ret",), "returned"),
        (("call",), "flags call"),
        (("unreachable",), ""),
    )
    for opcode in opcodes
}
_WRITERS = {opcode: [part.write for part in parts] for opcode, parts in _SPELLINGS.items()}


def _element_type(i: Instruction) -> Type:
    t = i.operands[0].type
    for k in i.indices:
        t = t.fields[k] if t.kind == "struct" else t.elem or t
    return t


def _first_type(i: Instruction) -> Type:
    return i.operands[0].type


_RESULTS: dict[str, Callable[[Instruction], Type]] = {
    **dict.fromkeys(
        (*BINARY, "fneg", "freeze", "insertelement", "insertvalue", "getelementptr"), _first_type),
    **dict.fromkeys(("icmp", "fcmp"), lambda i: with_elements(_first_type(i), I1)),
    "select": lambda i: i.operands[1].type,
    "extractelement": lambda i: _first_type(i).scalar,
    "shufflevector": lambda i: vector(len(i.indices), _first_type(i).scalar),
    "extractvalue": _element_type,
    "alloca": lambda i: pointer(),
    "atomicrmw": lambda i: i.operands[1].type,
    "cmpxchg": lambda i: struct((i.operands[1].type, I1)),
}
"""The types of results that are not spelled."""
