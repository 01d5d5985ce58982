"""Widen one function from work-item to subgroup: the host function runs all lanes at once.

The rules for instructions and calls are in `elementwise`, `memory`, `matrix`, `calls`; this is
what they share: naming, blocks, and turning one form of a value into another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.runtime.simulator import ir
from triton_xe.runtime.simulator.analysis.shapes import Shape, ShapeAnalysis
from triton_xe.runtime.simulator.analysis.tile_tables import NO_TABLES
from triton_xe.runtime.simulator.ir import Function, Instruction, Module, Operand, Type
from triton_xe.runtime.simulator.sanitizer.instrument import Instrumentation
from triton_xe.runtime.simulator.widen.values import (
    Aggregate,
    Pieces,
    Private,
    Slot,
    Tabled,
    Uniform,
    Value,
    Wide,
    constant_vector,
    is_constant_text,
    mask_text,
    slice_mask,
    wide_type,
)

if TYPE_CHECKING:
    from triton_xe.runtime.simulator.widen.dpas_groups import Ahead, Dpas

Rule = Callable[["Widener", Instruction], None]


@dataclass
class ModuleContext:
    """What the functions of one host module share."""

    module: Module
    target: Target
    lanes: int
    shapes: ShapeAnalysis
    declarations: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    """Line of the LLVM module -> where that is, of instructions that may trap."""
    helpers: set[str] = field(default_factory=set)
    """Library functions called, by name; see `library`."""
    slm_offsets: dict[str, int] = field(default_factory=dict)
    slm_bytes: int = 0
    sub_groups: int = 1
    work_group: tuple[int, int, int] = (1, 1, 1)
    sanitizer: Instrumentation | None = None
    """Set when every access is to be checked."""
    barriers: set[str] = field(default_factory=set)
    """Functions that contain a barrier, directly or through a call."""

    def find(self, callee: str) -> Function | None:
        return self.module.functions.get(callee)


@dataclass
class HostBlock:
    """Lines of one source block; `exit` is the label control leaves from."""

    label: str
    lines: list[str] = field(default_factory=list)
    terminator: str = ""
    exit: str = ""


class Widener:
    """Widens one function; `rules` maps opcodes to emitters."""

    def __init__(
        self, context: ModuleContext, function: Function, rules: Mapping[str, Rule]
    ) -> None:
        self.context = context
        self.function = function
        self.rules = rules
        self.lanes = context.lanes
        self.values: dict[str, Value] = {}
        self.blocks: dict[str, HostBlock] = {}
        self.block = HostBlock("entry")
        self.entry: list[str] = []
        self.after_phis: list[Callable[[], None]] = []
        self.phis: list[tuple[Instruction, str, Shape]] = []
        self.count = 0
        self.cache: dict[tuple[str, str], str] = {}
        self.current: Instruction | None = None
        self.granules: dict[str, int] = {}
        """Element size of each private array, by source name, then by host name."""
        self.arrays: dict[str, str] = {}
        self.direct_kinds: dict[str, str] = {}
        """Private arrays that hold prepared operands instead of an image: element kind."""
        self.direct: dict[str, str] = {}
        """Their memory, by the host name of the array."""
        self.tables = NO_TABLES
        """Where block reads look for tiles that another subgroup prepared."""
        self.private_pointers: dict[str, tuple[str, int | None]] = {}
        self.uses: dict[str, list[Instruction]] = {}
        self.slots: dict[str, str] = {}
        self.roles: dict[str, set[str]] = {}
        self.prepared: dict[tuple[str, str], str] = {}
        self.dpas_lines: dict[str, Dpas] = {}
        """DPAS calls, by their line; see `dpas_groups`."""
        self.slot_stores: dict[str, str] = {}
        """Lines that store a value into an accumulator's memory, and which."""
        self.own_memory: set[str] = set()
        """Lines that write only memory made for one value, and read no other."""
        self.reads_ahead: dict[str, Ahead] = {}
        """Where block reads will read next, by the line that works it out."""
        self.in_loop = False
        """Whether the current block is part of a loop."""
        self.skipped: set[int] = set()
        for instruction in function.instructions():
            for name in instruction.locals():
                self.uses.setdefault(name, []).append(instruction)

    # --- text -------------------------------------------------------------------------------

    def fail(self, why: str) -> NoReturn:
        raise UnsupportedError(f"the simulator cannot run {self.where(self.current)}: {why}")

    def where(self, i: Instruction | None) -> str:
        """The kernel and the place in it, for messages."""
        name = self.function.name
        if i is None:
            return f"kernel {name}"
        return f"kernel {name}, {self.context.module.place(i.line, i.debug)}"

    def note_place(self, i: Instruction) -> None:
        """Remember where an instruction is that may trap when it runs."""
        self.context.places[i.line] = self.context.module.place(i.line, i.debug)

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, right: str) -> str:
        name = self.name()
        self.block.lines.append(f"{name} = {right}")
        return name

    def do(self, line: str) -> None:
        self.block.lines.append(line)

    def label(self) -> str:
        self.count += 1
        return f"b{self.count}"

    def start_block(self, label: str) -> None:
        """Continue the current source block under a new host label."""
        self.block.lines.append(f"{label}:")
        self.block.exit = label

    def temporary(self, nbytes: int) -> str:
        """A 64-byte aligned array in the frame."""
        name = self.name()
        self.entry.append(f"{name} = alloca [{nbytes} x i8], align 64")
        return name

    def at(self, pointer: str, offset: int) -> str:
        if offset == 0:
            return pointer
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def call_helper(self, name: str, result: str, arguments: Iterable[str]) -> str:
        """Call a library function; returns the result's name, "" for void."""
        arguments = list(arguments)
        self.context.helpers.add(name)
        types = ", ".join(a.rsplit(" ", 1)[0] if "<" not in a else _type_of(a) for a in arguments)
        self.context.declarations[name] = f"declare {result} @{name}({types}) nounwind"
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.do(text)
            return ""
        return self.emit(text)

    def intrinsic(self, signature: str, call: str) -> str:
        """Call an LLVM intrinsic declared by `signature`."""
        self.context.declarations[signature] = f"declare {signature}"
        return self.emit(f"call {call}")

    @staticmethod
    def error_pointer() -> str:
        """Where library functions note a trap; see `launch.ErrorRecord`."""
        return "%err"

    # --- values -----------------------------------------------------------------------------

    def shape(self, operand: Operand) -> Shape:
        return self.context.shapes.of(self.function, operand)

    def result_shape(self, i: Instruction) -> Shape:
        return self.context.shapes.values[self.function.name].get(i.result or "", Shape(False))

    def value(self, operand: Operand) -> Value:
        if operand.local is not None:
            found = self.values.get(operand.local)
            if found is None:
                self.fail(f"{operand.local} is used before it is computed")
            return found
        if operand.expression is not None:
            return self.constant_expression(operand)
        if operand.text.startswith("@"):
            return self.global_address(operand)
        return Uniform(self.constant_text(operand), operand.type)

    @staticmethod
    def constant_text(operand: Operand) -> str:
        if operand.elements and not operand.text.startswith(("splat", "<", "{")):
            return operand.text
        return operand.text

    def global_address(self, operand: Operand) -> Value:
        variable = self.context.module.globals.get(operand.text)
        if variable is None:
            self.fail(f"unknown global {operand.text}")
        if variable.space == 3:
            offset = self.context.slm_offsets[operand.text]
            return Uniform(self.at("%slm", offset), operand.type)
        return Uniform(operand.text, operand.type)

    def constant_expression(self, operand: Operand) -> Value:
        inner = operand.expression
        assert inner is not None
        parts = [self.uniform(o) for o in inner.operands]
        if inner.opcode == "getelementptr":
            assert inner.element is not None
            rest = ", ".join(
                f"{o.type.text} {p}" for o, p in zip(inner.operands, parts, strict=True)
            )
            return Uniform(self.emit(f"getelementptr {inner.element.text}, {rest}"), operand.type)
        if inner.opcode == "addrspacecast":
            return Uniform(parts[0], operand.type)
        source = inner.operands[0].type.text
        text = self.emit(f"{inner.opcode} {source} {parts[0]} to {operand.type.text}")
        return Uniform(text, operand.type)

    def define(self, i: Instruction, value: Value) -> None:
        assert i.result is not None
        self.values[i.result] = value
        if i.result in self.roles:
            from triton_xe.runtime.simulator.widen.matrix import prepare_roles

            prepare_roles(self, i.result, value)

    def is_uniform(self, value: Value) -> bool:
        return isinstance(value, Uniform)

    def uniform(self, operand: Operand) -> str:
        """Host text of an operand that must be the same in all lanes."""
        value = self.value(operand)
        if isinstance(value, Uniform):
            return value.text
        if isinstance(value, Aggregate | Private):
            self.fail(f"{operand.text} is not a plain value")
        # the analysis says wide, but hardware reads one lane: lane 0
        if value.type.lanes == 1:
            return self.emit(f"extractelement {wide_type(value.type, self.lanes)} "
                             f"{self.wide(value)}, i32 0")
        self.fail(f"{operand.text} must be the same in all lanes")

    def base(self, operand: Operand) -> str:
        """Host text of the lane-independent part."""
        value = self.value(operand)
        if isinstance(value, Uniform):
            return value.text
        if isinstance(value, Tabled):
            if value.base is not None:
                return value.base
            return "null" if value.type.kind == "ptr" else (
                "0" if value.type.lanes == 1 else "zeroinitializer"
            )
        self.fail(f"{operand.text} has no uniform part")

    def wide_of(self, operand: Operand) -> str:
        return self.wide(self.value(operand))

    def wide(self, value: Value) -> str:
        """The flat host vector of a value."""
        if isinstance(value, Wide):
            return value.text
        if isinstance(value, Uniform):
            return self.broadcast(value)
        if isinstance(value, Tabled):
            return self.tabled(value)
        if isinstance(value, Pieces):
            return self.join(value)
        if isinstance(value, Slot):
            return self.emit(f"load {wide_type(value.type, self.lanes)}, ptr {value.pointer}, "
                             "align 64")
        self.fail("a private pointer or struct is used as data")

    def cached(self, key: str, make: Callable[[], str]) -> str:
        place = (self.block.label, key)
        if place not in self.cache:
            self.cache[place] = make()
        return self.cache[place]

    def broadcast(self, value: Uniform) -> str:
        t, s = value.type, self.lanes
        if is_constant_text(value.text) and not value.text.startswith("@"):
            return broadcast_constant(value.text, t, s)
        target = wide_type(t, s)
        if t.lanes > 1:
            mask = tuple(e for e in range(t.lanes) for _ in range(s))
            return self.cached(
                f"b {value.text}",
                lambda: self.emit(f"shufflevector {t.text} {value.text}, {t.text} poison, "
                                  f"{mask_text(mask)}"),
            )

        def make() -> str:
            first = self.emit(f"insertelement {target} poison, {t.text} {value.text}, i32 0")
            return self.emit(f"shufflevector {target} {first}, {target} poison, "
                             f"<{s} x i32> zeroinitializer")

        return self.cached(f"b {value.text}", make)

    def tabled(self, value: Tabled) -> str:
        t, s = value.type, self.lanes
        flat = [int(v) for v in np.broadcast_to(value.table, (t.lanes, s)).ravel()]
        if t.kind == "ptr":
            offsets = constant_vector(flat, ir.I64)
            base = value.base or "null"
            return self.cached(
                f"t {base} {flat}",
                lambda: self.emit(f"getelementptr i8, ptr {base}, <{s} x i64> {offsets}"),
            )
        table = constant_vector(flat, t.scalar)
        if value.base is None:
            return table

        def make() -> str:
            base = self.broadcast(Uniform(value.base or "", t))
            return self.emit(f"add {wide_type(t, s)} {base}, {table}")

        return self.cached(f"t {value.base} {flat}", make)

    def join(self, value: Pieces) -> str:
        scalar, s = value.type.scalar, self.lanes
        parts = [self.wide(p) for p in value.parts]
        width = s
        while len(parts) > 1:
            if len(parts) % 2:
                parts.append("poison")
            pair = f"<{width} x {scalar.text}>"
            mask = slice_mask(0, 2 * width)
            parts = [
                "poison" if a == b == "poison"
                else self.emit(f"shufflevector {pair} {a}, {pair} {b}, {mask}")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        total = value.type.lanes * s
        if width == total:
            return parts[0]
        t = f"<{width} x {scalar.text}>"
        return self.emit(f"shufflevector {t} {parts[0]}, {t} poison, {slice_mask(0, total)}")

    def element(self, value: Value, index: int) -> Value:
        """One element of a vector value."""
        t, s = value.type.scalar, self.lanes
        if isinstance(value, Pieces):
            return value.parts[index]
        if value.type.lanes == 1 and isinstance(value, Uniform | Tabled):
            return value
        if isinstance(value, Uniform):
            if value.text in ("undef", "poison"):
                return Uniform("poison", t)
            return Uniform(
                self.emit(f"extractelement {value.type.text} {value.text}, i32 {index}"), t
            )
        if isinstance(value, Tabled):
            row = value.table[index : index + 1]
            if value.base is None:
                return known(row, t)
            base = self.emit(f"extractelement {value.type.text} {value.base}, i32 {index}")
            return Tabled(base, row, t) if row.any() else Uniform(base, t)
        if isinstance(value, Slot):
            pointer = self.at(value.pointer, index * s * t.size)
            return Wide(self.emit(f"load <{s} x {t.text}>, ptr {pointer}, align 8"), t)
        if value.type.lanes == 1:
            return value
        flat = wide_type(value.type, s)
        text = self.wide(value)
        return Wide(
            self.emit(f"shufflevector {flat} {text}, {flat} poison, {slice_mask(index * s, s)}"), t
        )

    def parts(self, value: Value) -> list[Value]:
        return [self.element(value, k) for k in range(value.type.lanes)]

    def lane(self, value: Value, lane: int) -> str:
        """The per-work-item value of one lane, as a host scalar or `<n x T>`."""
        t, s = value.type, self.lanes
        if isinstance(value, Uniform):
            return value.text
        text = self.wide(value)
        if t.lanes == 1:
            return self.emit(f"extractelement <{s} x {t.text}> {text}, i32 {lane}")
        mask = mask_text(tuple(e * s + lane for e in range(t.lanes)))
        flat = wide_type(t, s)
        return self.emit(f"shufflevector {flat} {text}, {flat} poison, {mask}")

    def mask(self, value: Value, count: int = 1) -> str:
        """A lane mask `<count*S x i1>`, the same lanes for each of `count` elements."""
        text = self.broadcast(value) if isinstance(value, Uniform) else self.wide(value)
        return text if count == 1 or value.type.lanes == count else self.repeat(text, "i1", count)

    def repeat(self, text: str, element: str, count: int) -> str:
        s = self.lanes
        if text.startswith("splat"):
            return text
        t = f"<{s} x {element}>"
        return self.emit(
            f"shufflevector {t} {text}, {t} poison, {mask_text(tuple(range(s)) * count)}"
        )

    def to_memory(self, value: Value) -> str:
        """A pointer to the register image of a value."""
        if isinstance(value, Slot):
            return value.pointer
        pointer = self.temporary(value.type.size * self.lanes)
        self.store_image(value, pointer)
        return pointer

    def store_image(self, value: Value, pointer: str) -> None:
        if isinstance(value, Slot):
            nbytes = value.type.size * self.lanes
            self.copy(pointer, value.pointer, nbytes)
            return
        self.do(f"store {wide_type(value.type, self.lanes)} {self.wide(value)}, ptr {pointer}, "
                "align 8")

    def copy(self, target: str, source: str, nbytes: int) -> None:
        self.context.declarations["memcpy"] = (
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        )
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr align 16 {target}, ptr align 16 {source}, "
                f"i64 {nbytes}, i1 false)")


def known(row: np.ndarray[tuple[int, ...], np.dtype[np.int64]], t: Type) -> Value:
    """A value known completely: uniform when all lanes agree."""
    if t.lanes == 1 and (row == row[:, :1]).all():
        value = int(row[0, 0])
        return Uniform(("true" if value & 1 else "false") if t.bits == 1 else str(value), t)
    if (row == row[:, :1]).all():
        return Uniform(constant_vector([int(v) for v in row[:, 0]], t.scalar), t)
    return Tabled(None, row, t)


def broadcast_constant(text: str, t: Type, lanes: int) -> str:
    """The flat vector of a constant, repeated for every lane."""
    if text in ("undef", "poison", "zeroinitializer") or text.startswith("splat"):
        return text
    if text == "null":
        return "zeroinitializer"
    if t.lanes == 1:
        return f"splat ({t.text} {text})"
    items = [item.strip() for item in text.strip("<>").split(",")]
    return "<" + ", ".join(item for item in items for _ in range(lanes)) + ">"


def _type_of(argument: str) -> str:
    """The type in `<16 x float> %x`."""
    depth, end = 0, 0
    for k, c in enumerate(argument):
        depth += (c == "<") - (c == ">")
        if c == ">" and depth == 0:
            end = k + 1
            break
    return argument[:end]
