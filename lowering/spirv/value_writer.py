"""The values of a function that is written as SPIR-V: their ids, and how one is computed.

All pointers point to bytes, as those of LLVM have no type; accesses convert them to what they read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from triton_xe import llvm as ir
from triton_xe.llvm import Function, Instruction, Operand, Type
from triton_xe.lowering.spirv import spirv_tables as tables
from triton_xe.lowering.spirv.module_writer import ModuleWriter, add, refuse
from triton_xe.lowering.spirv.spirv_tables import Op


class _Ids(dict[str, int]):
    """Ids of a function's values and labels, by name; a new name gets a new id.

    `waiting` has instructions by their result, which are written at the first use.
    """

    def __init__(self, new: Callable[[], int], write: Callable[[Instruction], None]) -> None:
        super().__init__()
        self.new, self.write = new, write
        self.waiting: dict[str, Instruction] = {}

    def __missing__(self, name: str) -> int:
        self[name] = made = self.new()
        if name in self.waiting:
            self.write(self.waiting.pop(name))
        return made


class ValueWriter(ABC):
    """The words and values of one function.

    `head` has the variables of the function and the conversions of constant expressions, which
    begin its first block.
    """

    def __init__(self, module: ModuleWriter, function: Function) -> None:
        self.m, self.f = module, function
        self.type, self.constant, self.new = module.type, module.constant, module.new
        self.ids = _Ids(module.new, self.write_waiting)
        self.words: list[int] = []
        self.head: list[int] = []
        self.label = ""
        self._before: set[str] = set()
        """The current block, and those that dominate it."""
        self._computed: dict[tuple[int, ...], tuple[int, str]] = {}
        """Results and their blocks, by opcode, type and operands."""

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.label, self._before = label, {label}
        while (label := self.f.dominators.get(label, "")):
            self._before.add(label)

    @abstractmethod
    def instruction(self, i: Instruction) -> None:
        """Write an instruction."""

    @abstractmethod
    def write_waiting(self, i: Instruction) -> None:
        """Write an instruction that waited for a use."""

    def value(self, o: Operand) -> int:
        """The id of an operand."""
        text = o.text
        if text[0] == "%":
            return self.ids[text]
        if o.expression is not None:
            return self._constant_expression(o)
        if text[0] == "@":
            return self._address(o)
        return self.constant(o)

    def _address(self, o: Operand) -> int:
        """The address of a global variable, as a pointer to bytes."""
        if o.text not in self.ids:
            if o.text not in self.m.variables:
                refuse(f"the address of {o.text}")
            add(self.head, Op.BITCAST, self.type(o.type), self.ids[o.text],
                 self.m.variables[o.text])
        return self.ids[o.text]

    def _constant_expression(self, o: Operand) -> int:
        """Compute a constant expression at the start of the function."""
        body, before, self.words, self._before = self.words, self._before, self.head, set()
        assert o.expression is not None
        one = o.expression.with_operands(o.expression.operands)
        one.result = f"%expression{self.new()}"
        self.instruction(one)
        self.words, self._before = body, before
        return self.ids[one.result]

    def made(self, opcode: int, t: Type, *operands: int) -> int:
        """Write an instruction with a result of its own."""
        result = self.new()
        self.words += (len(operands) + 3 << 16 | opcode, self.type(t), result, *operands)
        return result

    def compute(self, i: Instruction, opcode: int, *operands: int) -> None:
        """Write a computation without side effects, unless its result is known."""
        key, result = (opcode, self.type(i.type), *operands), i.result
        assert result is not None
        found, where = self._computed.get(key, (0, ""))
        if where in self._before and result not in self.ids:
            self.ids[result] = found
            return
        made = self.ids[result]
        self._computed[key] = made, self.label
        self.words += (len(operands) + 3 << 16 | opcode, key[1], made, *operands)

    def define(self, i: Instruction, opcode: int, *operands: int) -> None:
        """Write the instruction that computes the result of `i`."""
        self.words += (len(operands) + 3 << 16 | opcode, self.type(i.type),
                       self.new() if i.result is None else self.ids[i.result], *operands)

    def rename(self, i: Instruction, value: int) -> None:
        """Let the result of `i` be another value."""
        assert i.result is not None
        if i.result in self.ids:
            self.define(i, Op.COPY_OBJECT, value)
        else:
            self.ids[i.result] = value

    def at(self, address: Operand, pointee: Type) -> int:
        """A pointer to a value of a type."""
        found = self.value(address)
        if pointee is ir.I8:
            return found
        if pointee.scalar is ir.I1:
            refuse("bits in memory")
        result = self.new()
        self.words += (4 << 16 | Op.BITCAST, self.m.pointer(address.type.space, pointee), result,
                       found)
        return result

    def fast(self, i: Instruction) -> None:
        """Decorate a result with its fast-math flags."""
        mode = sum(tables.FAST_MATH.get(flag, 0) for flag in i.flags)
        if mode:
            assert i.result is not None
            self.m.decorate(self.ids[i.result], tables.FP_FAST_MATH_MODE, mode)
