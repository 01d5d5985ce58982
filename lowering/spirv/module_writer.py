"""The sections of a SPIR-V module: capabilities, types, constants, imported functions.

Types, constants and imports are written at their first use.  The module must not have a construct
without a form here; it raises `UnsupportedError`.

Source: the SPIR-V specification, version 1.6, section 2.4 (order of the sections), and the
extensions that `tables.EXTENSIONS` names.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NoReturn

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError
from triton_xe.llvm import Instruction, Module, Operand, Type
from triton_xe.lowering.spirv import spirv_tables as tables
from triton_xe.lowering.spirv.spirv_tables import Op
from triton_xe.spirv import MAGIC

VERSION = 0x10400
_ASSEMBLY = re.compile(
    r'(sideeffect )?(?:(?:alignstack|inteldialect) )*"([^"]*)" , "([^"]*)"')
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2})")


def encoded(text: str) -> list[int]:
    """Words of a literal string."""
    data = text.encode() + b"\0"
    return list(array("I", data + bytes(-len(data) % 4)))


class ModuleWriter:
    """The sections of the module, and what its functions share."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.new = count(1).__next__
        self.library = self.new()
        self.capabilities = dict.fromkeys(tables.ALWAYS)
        self.extensions: dict[str, None] = {}
        self.entry_points: list[tuple[int, str, int]] = []
        self.libraries: list[int] = []
        add(self.libraries, Op.EXT_INST_IMPORT, self.library, *encoded("OpenCL.std"))
        self.strings: list[int] = []
        self.modes: list[int] = []
        self.decorations: list[int] = []
        self.constants: list[int] = []
        """The section of types, constants and variables."""
        self.imports: list[int] = []
        self.bodies: list[int] = []
        self.types: dict[Any, int] = {}
        self.known: dict[tuple[Type, str], int] = {}
        """Constants by type and text."""
        self.callees: dict[str, int] = {}
        self.inputs: dict[int, int] = {}
        """Variables of built-in values, by number."""
        self.assemblies: dict[tuple[str, int], int] = {}
        self.variables = {name: self.variable(one) for name, one in module.globals.items()}

    def finish(self) -> bytes:
        head: list[int] = []
        for capability in self.capabilities:
            add(head, Op.CAPABILITY, capability)
        for extension in self.extensions:
            add(head, Op.EXTENSION, *encoded(extension))
        head += self.libraries
        add(head, Op.MEMORY_MODEL, *tables.PHYSICAL64_OPENCL)
        interface = (*self.inputs.values(), *self.variables.values())
        for kind, name, function in self.entry_points:
            add(head, Op.ENTRY_POINT, kind, function, *encoded(name), *interface)
        head += self.modes + self.strings
        add(head, Op.SOURCE, *tables.OPENCL_CPP)
        words = [MAGIC, VERSION, 0, self.new(), 0]
        for section in (head, self.decorations, self.constants, self.imports, self.bodies):
            words += section
        return array("I", words).tobytes()

    def need(self, capability: int) -> None:
        """Declare a capability, and its extension."""
        if capability not in self.capabilities:
            self.capabilities[capability] = None
            extension = tables.EXTENSIONS.get(capability)
            if extension is not None:
                self.extensions[extension] = None

    def decorate(self, target: int, decoration: int, *operands: int) -> None:
        add(self.decorations, Op.DECORATE, target, decoration, *operands)

    # --- types ------------------------------------------------------------------------------------

    def type(self, t: Type) -> int:
        found = self.types.get(t)
        if found is None:
            found = self.types[t] = self._new_type(t)
        return found

    def _new_type(self, t: Type) -> int:
        if t.kind == "ptr":
            return self.pointer(t.space, ir.I8)
        opcode, operands = self._spelled(t)
        result = self.new()
        add(self.constants, opcode, result, *operands)
        return result

    def _spelled(self, t: Type) -> tuple[int, Sequence[int]]:
        if t.kind in ("int", "float"):
            if t.text not in tables.SCALARS:
                refuse(f"integers of {t.bits} bits")
            opcode, operands, capability = tables.SCALARS[t.text]
            if capability:
                self.need(capability)
            return opcode, operands
        if t.kind == "vec":
            if t.count < 2:
                refuse("vectors of one element")
            if t.count > 4:
                self.need(tables.VECTOR16)
            return Op.TYPE_VECTOR, (self.type(t.scalar), t.count)
        if t.kind == "array" and t.elem is not None:
            return Op.TYPE_ARRAY, (self.type(t.elem), self.number(ir.I32, t.count))
        if t.kind == "struct":
            return Op.TYPE_STRUCT, [self.type(f) for f in t.fields]
        if t.kind == "void":
            return Op.TYPE_VOID, ()
        refuse(f"values of type {t.text}")

    def pointer(self, space: int, pointee: Type) -> int:
        """The type of pointers to values of a type."""
        if space not in tables.STORAGE:
            refuse(f"address space {space}")
        return self._keyed(Op.TYPE_POINTER, tables.STORAGE[space], self.type(pointee))

    def _keyed(self, opcode: int, *operands: int) -> int:
        """The type with these operands."""
        found = self.types.get((opcode, *operands))
        if found is None:
            found = self.types[opcode, *operands] = self.new()
            add(self.constants, opcode, found, *operands)
        return found

    def signature(self, result: Type, parameters: Iterable[Type]) -> int:
        return self._keyed(Op.TYPE_FUNCTION, self.type(result), *map(self.type, parameters))

    # --- constants --------------------------------------------------------------------------------

    def constant(self, o: Operand) -> int:
        key = o.type, o.text
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._new_constant(o)
        return found

    def number(self, t: Type, value: float) -> int:
        """A number of type `t`, in every element of a vector."""
        return self.constant(ir.constant(t, value))

    def _new_constant(self, o: Operand) -> int:
        t, text, kind = o.type, o.text, self.type(o.type)
        if text in ("undef", "poison"):
            return self._constant(Op.UNDEF, kind)
        if text in ("zeroinitializer", "null"):
            return self._constant(Op.CONSTANT_NULL, kind)
        if o.elements and all(e.is_undefined for e in o.elements):
            return self.constant(ir.poison(t))
        if o.elements:
            return self._constant(
                Op.CONSTANT_COMPOSITE, kind, *map(self.constant, _elements(o)))
        if t is ir.I1:
            return self._constant(
                Op.CONSTANT_TRUE if _is_true(text) else Op.CONSTANT_FALSE, kind)
        if t.kind not in ("int", "float"):
            refuse(f"the constant {t.text} {text}")
        bits = int(text) if t.kind == "int" else tables.float_bits(text, t.name)
        bits &= (1 << t.bits) - 1
        words = (bits,) if t.bits <= 32 else (bits & 0xFFFFFFFF, bits >> 32)
        return self._constant(Op.CONSTANT, kind, *words)

    def _constant(self, opcode: int, kind: int, *operands: int) -> int:
        result = self.new()
        add(self.constants, opcode, kind, result, *operands)
        return result

    # --- variables and functions ------------------------------------------------------------------

    def variable(self, g: ir.Global) -> int:
        """A global variable."""
        storage = tables.STORAGE.get(g.space)
        if storage is None or g.initializer not in ("undef", "poison", "zeroinitializer"):
            refuse(f"the initial value of {g.name}")
        result = self._constant(Op.VARIABLE, self.pointer(g.space, g.type), storage)
        if g.align:
            self.decorate(result, tables.ALIGNMENT, g.align)
        return result

    def input(self, number: int, t: Type) -> int:
        """The variable of a built-in value."""
        found = self.inputs.get(number)
        if found is None:
            kind = self._keyed(Op.TYPE_POINTER, tables.INPUT, self.type(t))
            found = self.inputs[number] = self._constant(Op.VARIABLE, kind, tables.INPUT)
            self.decorate(found, tables.CONSTANT)
            self.decorate(found, tables.BUILT_IN, number)
        return found

    def control(self, name: str) -> int:
        """The function control for a function's attributes."""
        words = self.module.attributes.get(name, "")
        return sum(bit for word, bit in tables.CONTROLS.items() if word in words)

    def callee(self, i: Instruction) -> int:
        """The function that a call names, which is imported if it has no body here."""
        name = i.callee
        found = self.callees.get(name)
        if found is None:
            found = self.callees[name] = self.new()
            if name not in self.module.functions:
                self._import(found, name, i)
        return found

    def _import(self, result: int, name: str, i: Instruction) -> None:
        types = [o.type for o in i.operands]
        add(self.imports, Op.FUNCTION, self.type(i.type), result, self.control(name),
             self.signature(i.type, types))
        for t in types:
            add(self.imports, Op.FUNCTION_PARAMETER, self.type(t), self.new())
        add(self.imports, Op.FUNCTION_END)
        self.decorate(result, tables.LINKAGE, *encoded(name.replace("~", ".", 1)), tables.IMPORT)

    def assembly(self, i: Instruction) -> int:
        """Inline assembly, with its type."""
        kind = self.signature(i.type, [o.type for o in i.operands])
        found = self.assemblies.get((i.extra, kind))
        if found is None:
            read = _ASSEMBLY.fullmatch(i.extra)
            if read is None:
                refuse("this inline assembly")
            self.need(tables.ASM_INTEL)
            if not self.assemblies:
                self.assembly_target = self.new()
                add(self.constants, Op.ASM_TARGET, self.assembly_target, *encoded(""))
            effects, text, constraints = read.groups()
            text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)
            found = self._constant(Op.ASM, self.type(i.type), kind, self.assembly_target,
                                   *encoded(text), *encoded(constraints))
            self.assemblies[i.extra, kind] = found
            if effects:
                self.decorate(found, tables.SIDE_EFFECTS)
        return found


def add(words: list[int], opcode: int, *operands: int) -> None:
    words.append(len(operands) + 1 << 16 | opcode)
    words += operands


def refuse(what: str) -> NoReturn:
    raise UnsupportedError(f"{what} cannot be written to SPIR-V")


def _is_true(text: str) -> bool:
    return text == "true" or (text != "false" and bool(int(text) & 1))


def _elements(o: Operand) -> Sequence[Operand]:
    """The elements of a constant; a splat has only one."""
    return o.elements * o.type.count if len(o.elements) < o.type.count else o.elements
