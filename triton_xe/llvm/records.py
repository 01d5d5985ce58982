"""The records of a module: operands, instructions, blocks, functions.

`parser.parse_module` reads them from text, `builder.Builder` makes them, `printer` writes them.
"""

from __future__ import annotations

import re
import struct as packing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import NamedTuple

from triton_xe.llvm.solver import reached
from triton_xe.llvm.types import I1, Type, pointer, vector

_LOCATION = re.compile(r'!\{ ?!"(.*)", i32 (\d+), i32 (\d+)\}')
_PLAIN = re.compile(r"[-\w.$]+")
ASSEMBLY = "asm"
"""The callee of a call of inline assembly."""
_PIN, _PINNED = f'{ASSEMBLY} sideeffect "", "=', ',0"'


class Operand(NamedTuple):
    """A use of a value: the name of an SSA value (`%x`) or global (`@x`), or a constant's spelling.

    `elements` holds the parts of a vector or struct constant; `expression` a constant expression.
    """

    type: Type
    text: str
    elements: tuple[Operand, ...] = ()
    expression: Instruction | None = None

    @property
    def local(self) -> str | None:
        """The name of an SSA value, None for constants and globals."""
        return self.text if self.text[0] == "%" else None

    @property
    def is_constant(self) -> bool:
        return self.text[0] != "%"

    @property
    def is_undefined(self) -> bool:
        return self.text in ("undef", "poison")

    @property
    def is_splat(self) -> bool:
        """True if all elements of a vector are known to be the same: also zero and undefined."""
        return self.text[0] != "%" and (
            self.is_undefined or self.text == "zeroinitializer" or self.text.startswith("splat"))

    @property
    def is_zero(self) -> bool:
        return self.text in _ZEROS

    def integer_value(self) -> int | None:
        """The value of an integer or null-pointer constant, else None."""
        if self.text[0] == "%" or self.type.kind not in ("int", "ptr"):
            return None
        if self.text in ("true", "false"):
            return int(self.text == "true")
        if self.text in ("null", "zeroinitializer"):
            return 0
        return int(self.text) if self.text.lstrip("-").isdigit() else None

    def __str__(self) -> str:
        return self.text


class Result(Operand):
    """The result of an instruction; other users of the value can look at the instruction."""

    instruction: Instruction


_ZEROS = frozenset({"0", "0.0", "0xH0000", "null", "false", "zeroinitializer"})


def constant(t: Type, value: float | str) -> Operand:
    """A number of type `t`, in every element of a vector; text is LLVM's own spelling."""
    if t.kind == "vec":
        return splat(constant(t.scalar, value), t.count)
    if isinstance(value, str):
        return Operand(t, value)
    if t.kind == "float":
        return Operand(t, _float_text(t, float(value)))
    return _integer(t, int(value))


@lru_cache(maxsize=4096)
def _integer(t: Type, value: int) -> Operand:
    if t.kind == "ptr":
        return Operand(t, "null")
    return Operand(t, ("true" if value & 1 else "false") if t is I1 else str(value))


def _float_text(t: Type, value: float) -> str:
    """A floating-point number, exactly; fp32 and fp64 are both spelled as the bits of fp64."""
    if t.name == "half":
        return f"0xH{packing.unpack('<H', packing.pack('<e', value))[0]:04X}"
    if t.name == "bfloat":
        return f"0xR{packing.unpack('<I', packing.pack('<f', value))[0] >> 16:04X}"
    if t.name == "float":
        value = packing.unpack("<f", packing.pack("<f", value))[0]
    return f"0x{packing.unpack('<Q', packing.pack('<d', value))[0]:016X}"


@lru_cache(maxsize=1024)
def splat(element: Operand, count: int) -> Operand:
    """A vector constant whose elements are all `element`."""
    t = vector(count, element.type)
    if element.is_undefined:
        return Operand(t, element.text)
    return Operand(t, f"splat ({element.type.text} {element.text})", (element,) * count)


def constant_vector(elements: Sequence[Operand]) -> Operand:
    """A vector constant of these elements."""
    first = elements[0]
    if all(e.text == first.text for e in elements):
        return splat(first, len(elements))
    text = ", ".join([f"{e.type.text} {e.text}" for e in elements])
    return Operand(vector(len(elements), first.type), f"<{text}>", tuple(elements))


def integers(t: Type, values: Sequence[int]) -> Operand:
    """A vector constant of integers of scalar type `t`."""
    return constant_vector([constant(t, v) for v in values])


def zero(t: Type) -> Operand:
    """The value whose bits are all zero."""
    return Operand(t, "zeroinitializer") if t.kind in ("vec", "struct", "array") else constant(t, 0)


def poison(t: Type) -> Operand:
    return Operand(t, "poison")


def undef(t: Type) -> Operand:
    return Operand(t, "undef")


def quoted(name: str) -> str:
    """The name of a function, quoted where it must be."""
    return name if _PLAIN.fullmatch(name) else f'"{name}"'


def escaped(text: str) -> str:
    """Text between quotes: backslashes, quotes and line breaks as hexadecimal numbers."""
    return re.sub(r'[\\"\n]', lambda found: f"\\{ord(found[0]):02X}", text)


TRUE, FALSE = constant(I1, 1), constant(I1, 0)


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction.

    `flags` are the words between opcode and type (`nuw`, `fast`, `volatile`). `extra` is the
    predicate of a comparison, the operation of an atomicrmw, or inline assembly with its
    constraints. `labels` are the successors, or the incoming blocks of a phi. `element` is the
    source type of a getelementptr, or the allocated type. `indices` are those of
    extractvalue/insertvalue, or a shuffle mask (-1 = undefined).
    `aligns` has the alignment of each argument of a call, 0 if none is stated. A `callee` that
    begins with % is a pointer.
    """

    opcode: str
    type: Type
    operands: list[Operand]
    result: str | None = None
    flags: tuple[str, ...] = ()
    extra: str = ""
    labels: list[str] = field(default_factory=list)
    element: Type | None = None
    indices: tuple[int, ...] = ()
    callee: str = ""
    align: int = 0
    aligns: tuple[int, ...] = ()
    orderings: tuple[str, ...] = ()
    """Orderings of an atomic access or a fence; a cmpxchg has two."""
    scope: str = ""
    """The `syncscope` of an atomic, "" for the whole system."""
    attributes: str = ""
    line: int = 0
    debug: int | None = None
    unfilled: bool = False
    """True for a masked load that does not change the registers of inactive lanes."""
    partial: bool = False
    """True for a masked access of a loop that has a version without masks."""
    defines: str = ""
    """Metadata of a comparison without which an operation of the kernel is undefined."""
    added: bool = False
    """True if it is part of a barrier that the compiler inserted."""
    first: bool = False
    """True for the first of the stores into which a store of a tensor is split."""
    shadow: bool = False
    """True for an access to the map of unwritten bytes, at the byte for an address."""
    fallback: str | None = None
    """Label of the general version, for a branch between two versions."""
    keeps_invariants: bool = False
    """True for the back edge of a loop from which nothing may be hoisted."""

    @property
    def value(self) -> Operand:
        """The result, as an operand of other instructions."""
        assert self.result is not None
        return Operand(self.type, self.result)

    def locals(self) -> list[str]:
        """Names of the SSA values used."""
        return [o.text for o in self.operands if o.text[0] == "%"]

    def with_operands(self, operands: list[Operand]) -> Instruction:
        """Copy the instruction with other operands, faster than `dataclasses.replace`."""
        made = Instruction(*_FIELDS(self))
        made.operands = operands
        return made

    @property
    def is_pure(self) -> bool:
        """True if it only computes its result: no memory, no control flow, no call."""
        return self.opcode not in _IMPURE


_FIELDS = attrgetter(*(x.name for x in fields(Instruction)))
_IMPURE = frozenset(
    "load store call cmpxchg atomicrmw fence br switch ret unreachable cold".split())
BINARY = frozenset(
    "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem".split())
CASTS = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr bitcast "
    "addrspacecast".split())
TERMINATORS = frozenset("br switch ret unreachable cold".split())
ATOMICS = frozenset({"atomicrmw", "cmpxchg"})
ACCESSES = ATOMICS | {"load", "store"}


@dataclass(eq=False)
class Block:
    """A basic block; the last instruction is the terminator.  Labels begin with %."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def is_terminated(self) -> bool:
        return bool(self.instructions) and self.instructions[-1].opcode in TERMINATORS

    @property
    def successors(self) -> list[str]:
        last = self.instructions[-1]
        return last.labels if last.opcode in ("br", "switch") else []

    @property
    def phis(self) -> list[Instruction]:
        return [i for i in self.instructions if i.opcode == "phi"]


def substitute(blocks: Sequence[Block], values: Mapping[str, Operand]) -> None:
    """Replace SSA values by other operands, by name; these may be replaced themselves."""

    def final(operand: Operand) -> Operand:
        while operand.text in values:
            operand = values[operand.text]
        return operand

    for block in blocks:
        for k, i in enumerate(block.instructions):
            if any(name in values for name in i.locals()):
                block.instructions[k] = i.with_operands([final(o) for o in i.operands])


@dataclass
class Function:
    """A function with a body; `metadata` maps attachment names to metadata numbers."""

    name: str
    result: Type
    parameters: list[tuple[str, Type]]
    blocks: list[Block]
    is_kernel: bool = False
    is_internal: bool = False
    metadata: dict[str, int] = field(default_factory=dict)
    is_private: bool = False
    attributes: str = ""
    """Attributes of the function, as LLVM spells them."""
    parameter_attributes: dict[str, str] = field(default_factory=dict)
    """Attributes by name of the parameter: `noalias readonly`."""

    @property
    def arguments(self) -> list[Operand]:
        return [Operand(t, name) for name, t in self.parameters]

    def instructions(self) -> Iterator[Instruction]:
        for block in self.blocks:
            yield from block.instructions

    def reachable(self, labels: Iterable[str]) -> set[str]:
        """Those blocks, and all that may run after them."""
        following = {b.label: b.successors for b in self.blocks}
        return following.keys() & reached(labels, lambda label: following.get(label, ()))

    def reverse_postorder(self) -> list[str]:
        """Labels of the blocks that can run, each before those that only it leads to."""
        following = {b.label: b.successors for b in self.blocks}
        entry = self.blocks[0].label
        order, seen, stack = [], {entry}, [(entry, iter(following[entry]))]
        while stack:
            label, rest = stack[-1]
            step = next((x for x in rest if x not in seen), None)
            if step is None:
                order.append(label)
                stack.pop()
            else:
                seen.add(step)
                stack.append((step, iter(following[step])))
        return order[::-1]

    def loops(self) -> dict[str, set[str]]:
        """Head -> blocks of its natural loop, in reverse postorder of the heads."""
        number = {label: k for k, label in enumerate(self.reverse_postorder())}
        found: dict[str, set[str]] = {}
        for head, first in number.items():
            backs = [b for b in self.predecessors[head] if number.get(b, -1) >= first]
            if backs:
                before = {**self.predecessors, head: []}
                found[head] = number.keys() & reached([head, *backs], before.__getitem__)
        return found

    @cached_property
    def dominators(self) -> dict[str, str]:
        """The immediate dominator of each block that can run, but the first one.

        Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm.
        """
        order = self.reverse_postorder()
        number = {label: k for k, label in enumerate(order)}
        found, before = {order[0]: order[0]}, dict[str, str]()
        while found != before:
            before = dict(found)
            for label in order[1:]:
                known = [p for p in self.predecessors[label] if p in found]
                a = known[0]
                for b in known[1:]:
                    while a != b:
                        a, b = (found[a], b) if number[a] > number[b] else (a, found[b])
                found[label] = a
        del found[order[0]]
        return found

    @cached_property
    def predecessors(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {b.label: [] for b in self.blocks}
        for block in self.blocks:
            for successor in dict.fromkeys(block.successors):
                found[successor].append(block.label)
        return found


@dataclass
class Global:
    """A global variable; `initializer` is its host spelling, or undef."""

    name: str
    type: Type
    space: int
    initializer: str
    is_constant: bool
    align: int = 0

    @property
    def address(self) -> Operand:
        return Operand(pointer(self.space), self.name)


@dataclass
class Module:
    """Functions by name, globals by name with @; `metadata` maps numbers to their text.

    `attributes` has those of functions, also of functions without a body, as they are spelled.
    """

    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, Global] = field(default_factory=dict)
    metadata: dict[int, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _nearest_locations(self) -> dict[int, int]:
        """Line of each instruction without a source location -> location of a neighbour."""
        found: dict[int, int] = {}
        for function in self.functions.values():
            before: int | None = None
            waiting: list[int] = []
            for i in function.instructions():
                if i.debug is None:
                    waiting.append(i.line)
                    continue
                found.update(dict.fromkeys(waiting, i.debug))
                before, waiting = i.debug, []
            if before is not None:
                found.update(dict.fromkeys(waiting, before))
        return found

    def add_metadata(self, text: str) -> int:
        """Add a node; return its number."""
        self.metadata[len(self.metadata)] = text
        return len(self.metadata) - 1

    def kernels(self) -> list[Function]:
        return [f for f in self.functions.values() if f.is_kernel]

    def location(self, line: int, debug: int | None) -> str:
        """Source location of an instruction: in the kernel's source if known, else in the module.

        An instruction without a location is "near" that of the next one that has one.
        """
        if debug is None:
            following = self._nearest_locations.get(line)
            if following is not None:
                return f"near {self.location(0, following)}"
        text = self.metadata.get(-1 if debug is None else debug, "")
        if "DILocation(line: " in text:
            return f"source line {text.split('line: ')[1].split(',')[0]}"
        place = self._place(text)
        if place is not None:
            return "{}:{}:{}".format(*place)
        return f"line {line} of its LLVM module"

    def source_line(self, line: int, debug: int | None) -> tuple[str, int] | None:
        """File and line of the kernel's source that an instruction, or its neighbour, is from."""
        number = self._nearest_locations.get(line, -1) if debug is None else debug
        place = self._place(self.metadata.get(number, ""))
        return None if place is None else place[:2]

    @staticmethod
    def _place(text: str) -> tuple[str, int, int] | None:
        found = _LOCATION.match(text)
        return None if found is None else (found[1], int(found[2]), int(found[3]))

    def metadata_integers(self, function: Function, name: str) -> tuple[int, ...]:
        """The integers of an attachment such as `reqd_work_group_size`; () when absent."""
        number = function.metadata.get(name)
        return () if number is None else self.integers(number)

    def integers(self, number: int) -> tuple[int, ...]:
        """The integers of a metadata node."""
        return tuple(map(int, re.findall(r"i\d+ (-?\d+)", self.metadata.get(number, ""))))


def pin(bank: str) -> str:
    """The callee that returns its operand in a register; LLVM neither moves nor repeats the call.

    `bank` is a constraint of inline assembly, as `r` for general registers.
    """
    return _PIN + bank + _PINNED


def is_pin(i: Instruction) -> bool:
    return i.callee.startswith(_PIN) and i.callee.endswith(_PINNED)


def is_spelled(callee: str) -> bool:
    """True if a callee is printed as it is: a pointer, or this package's inline assembly."""
    return callee[0] == "%" or callee.startswith(f"{ASSEMBLY} ")


def undefined_calls(functions: Sequence[Function]) -> dict[str, Instruction]:
    """Functions that are called but not defined among these, with one call each."""
    own = {f.name for f in functions}
    found: dict[str, Instruction] = {}
    for function in functions:
        for i in function.instructions():
            if i.opcode == "call" and i.callee not in own and i.callee != ASSEMBLY and (
                    not is_spelled(i.callee)):
                found.setdefault(i.callee, i)
    return found

