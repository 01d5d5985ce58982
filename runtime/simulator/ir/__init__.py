"""The simulator's view of LLVM IR: types, operands, instructions, functions.

Only what a triton-xe module may contain; `parser.parse_module` builds it from text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

from triton_xe.errors import UnsupportedError

_PLACE = re.compile(r'!\{!"(.*)", i32 (\d+), i32 (\d+)\}')
ASSEMBLY = "asm"
"""The callee of a call of inline assembly."""
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


@dataclass(frozen=True)
class Type:
    """An LLVM type.

    `kind` is one of int, float, ptr, vec, array, struct, void, label, token, metadata, func;
    `bits` the width of an int, float or pointer, `space` the address space of a pointer,
    `count` the length of a vector or array.
    """

    kind: str
    bits: int = 0
    name: str = ""
    count: int = 0
    elem: Type | None = None
    fields: tuple[Type, ...] = ()
    space: int = 0

    @property
    def scalar(self) -> Type:
        """The element type of a vector, else the type itself."""
        return self.elem if self.kind == "vec" and self.elem is not None else self

    @property
    def lanes(self) -> int:
        """Elements per work-item: the count of a vector, else 1."""
        return self.count if self.kind == "vec" else 1

    @cached_property
    def size(self) -> int:
        """Bytes in memory, without padding of vectors to powers of two."""
        if self.kind in ("int", "float", "ptr"):
            return max(1, (self.bits + 7) // 8)
        if self.kind in ("vec", "array") and self.elem is not None:
            return self.count * self.elem.size
        if self.kind == "struct":
            return struct_offsets(self)[-1]
        raise UnsupportedError(f"the simulator cannot take the size of type {self.kind}")

    @cached_property
    def text(self) -> str:
        """The host spelling: every pointer is a plain `ptr`."""
        if self.kind in ("int", "float"):
            return self.name
        if self.kind == "ptr":
            return "ptr"
        if self.elem is not None and self.kind in ("vec", "array"):
            mark = "<>" if self.kind == "vec" else "[]"
            return f"{mark[0]}{self.count} x {self.elem.text}{mark[1]}"
        if self.kind == "struct":
            return "{ " + ", ".join(f.text for f in self.fields) + " }"
        return self.kind

    def __str__(self) -> str:
        return self.text


@cache
def integer(bits: int) -> Type:
    return Type("int", bits, f"i{bits}")


@cache
def floating(name: str) -> Type:
    return Type("float", _FLOAT_BITS[name], name)


@cache
def pointer(space: int = 0) -> Type:
    return Type("ptr", 64, space=space)


@cache
def vector(count: int, elem: Type) -> Type:
    return Type("vec", count=count, elem=elem)


@cache
def array(count: int, elem: Type) -> Type:
    return Type("array", count=count, elem=elem)


@cache
def struct(fields: tuple[Type, ...]) -> Type:
    return Type("struct", fields=fields)


def like(count: int, t: Type) -> Type:
    """`count` elements of the scalar type `t`: a vector, or `t` itself for 1."""
    return vector(count, t) if count > 1 else t


VOID = Type("void")
LABEL = Type("label")
TOKEN = Type("token")
METADATA = Type("metadata")
I1, I8, I16, I32, I64 = (integer(b) for b in (1, 8, 16, 32, 64))
F16, F32, F64 = (floating(n) for n in ("half", "float", "double"))


def struct_offsets(t: Type) -> tuple[int, ...]:
    """Byte offset of each field, then the padded size; natural alignment."""
    offset, widest, offsets = 0, 1, []
    for f in t.fields:
        align = max(1, f.scalar.size if f.kind == "vec" else _align(f))
        offset = -(-offset // align) * align
        offsets.append(offset)
        offset += f.size
        widest = max(widest, align)
    return (*offsets, -(-offset // widest) * widest)


def _align(t: Type) -> int:
    if t.kind == "array" and t.elem is not None:
        return _align(t.elem)
    if t.kind == "struct":
        return max((_align(f) for f in t.fields), default=1)
    return t.size


@dataclass(frozen=True)
class Operand:
    """A use of a value: `local` names an SSA value, else `text` is the constant's spelling.

    `elements` holds the parts of a vector or struct constant; `expression` a constant expression.
    """

    type: Type
    text: str
    local: str | None = None
    elements: tuple[Operand, ...] = ()
    expression: Instruction | None = None

    @property
    def is_undefined(self) -> bool:
        return self.local is None and self.text in ("undef", "poison")

    def integer_value(self) -> int | None:
        """The value of an integer or null-pointer constant, else None."""
        if self.local is not None or self.type.kind not in ("int", "ptr"):
            return None
        if self.text in ("true", "false"):
            return int(self.text == "true")
        if self.text in ("null", "zeroinitializer"):
            return 0
        return int(self.text) if self.text.lstrip("-").isdigit() else None


@dataclass
class Instruction:
    """One instruction.

    `flags` is the text between opcode and type (`nuw nsw`, `fast`), `extra` the predicate of a
    comparison, the operation and ordering of an atomic; `labels` are successors or the incoming
    blocks of a phi; `element` is the source type of a getelementptr or the allocated type;
    `indices` are those of extractvalue/insertvalue, or a shuffle mask (-1 = undefined).
    """

    opcode: str
    type: Type
    operands: list[Operand]
    result: str | None = None
    flags: str = ""
    extra: str = ""
    labels: list[str] = field(default_factory=list)
    element: Type | None = None
    indices: tuple[int, ...] = ()
    callee: str = ""
    align: int = 0
    attributes: str = ""
    line: int = 0
    debug: int | None = None
    unfilled: bool = False
    """A masked load that leaves the registers of lanes without one as they are."""

    def locals(self) -> Iterator[str]:
        """Names of the SSA values used."""
        for operand in self.operands:
            if operand.local is not None:
                yield operand.local


@dataclass
class Block:
    """A basic block; the last instruction is the terminator."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def successors(self) -> list[str]:
        last = self.instructions[-1]
        return last.labels if last.opcode in ("br", "switch") else []

    @property
    def phis(self) -> list[Instruction]:
        return [i for i in self.instructions if i.opcode == "phi"]


@dataclass
class Function:
    """A function with a body; `metadata` maps attachment names to metadata numbers."""

    name: str
    result: Type
    parameters: list[tuple[str, Type]]
    blocks: list[Block]
    is_kernel: bool
    is_internal: bool
    metadata: dict[str, int]
    text: str = ""

    def instructions(self) -> Iterator[Instruction]:
        for block in self.blocks:
            yield from block.instructions

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


@dataclass
class Module:
    """A parsed module; `metadata` maps numbers to their text."""

    functions: dict[str, Function]
    globals: dict[str, Global]
    metadata: dict[int, str]

    @cached_property
    def placed(self) -> dict[int, int]:
        """Line of each instruction that does not say where it is from -> place of a neighbour."""
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

    def kernels(self) -> list[Function]:
        return [f for f in self.functions.values() if f.is_kernel]

    def place(self, line: int, debug: int | None) -> str:
        """Where an instruction is: a line of the kernel's source if known, else of the module.

        An instruction that does not say is "near" the next one that does.
        """
        if debug is None:
            following = self.placed.get(line)
            if following is not None:
                return f"near {self.place(0, following)}"
        text = self.metadata.get(-1 if debug is None else debug, "")
        if "DILocation(line: " in text:
            return f"source line {text.split('line: ')[1].split(',')[0]}"
        found = _PLACE.match(text)
        if found is not None:
            return f"{found[1]}:{found[2]}:{found[3]}"
        return f"line {line} of its LLVM module"

    def metadata_integers(self, function: Function, name: str) -> tuple[int, ...]:
        """The integers of an attachment such as `reqd_work_group_size`; () when absent."""
        number = function.metadata.get(name)
        if number is None:
            return ()
        words = self.metadata.get(number, "").replace(",", " ").replace("}", " ").split()
        return tuple(int(w) for w in words if w.lstrip("-").isdigit())
