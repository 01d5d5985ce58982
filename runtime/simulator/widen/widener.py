"""Widen one function from work-item to subgroup: the host function runs all lanes at once.

The rules for instructions and calls are in `elementwise`, `memory`, `matrix`, `calls`.  This module
has their common part: the host values of the function's operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeGuard

from triton_xe import llvm as ir
from triton_xe.errors import SimulatorTrap, UnsupportedError
from triton_xe.llvm.records import Instruction, Operand
from triton_xe.runtime.simulator.translation import Kernel
from triton_xe.runtime.simulator.widen.host_function import SLM, HostFunction
from triton_xe.runtime.simulator.widen.parts import Forms, Matrices, Shared, Source, Stored
from triton_xe.runtime.simulator.widen.values import (
    Aggregate,
    Lazy,
    Moved,
    Pieces,
    Private,
    Tabled,
    Uniform,
    Value,
    Wide,
    best_order,
)

Rule = Callable[["Widener", Instruction], None]


@dataclass(eq=False)
class Widener:
    """Widens one function, for one subgroup or for any."""

    kernel: Kernel
    source: Source
    """Known before: the function, and facts about its values."""
    forms: Forms
    """Decided before: forms of its matrix operands, private arrays and phis."""
    b: HostFunction
    """The host function, as far as it is written."""
    matrices: Matrices
    """Its operands and instructions of DPAS, as far as they are written."""
    shared: Shared | None = None
    """Known contents of shared local memory; None if they are not tracked."""
    values: dict[str, Value] = field(default_factory=dict)
    """Host value of each name of the function."""
    stored: list[Stored] = field(default_factory=list)
    """Checked stores of the current tensor store so far."""
    checked: dict[Instruction, Operand] = field(default_factory=dict)
    """Accesses that were checked with an earlier one: true if that found no fault."""
    current: Instruction | None = None

    def __post_init__(self) -> None:
        """Keep what rules read most as attributes."""
        self.lanes, self.result_shape = self.b.lanes, self.source.result_shape

    def for_subgroup(self, number: int) -> Widener:
        """A widener of another subgroup, which writes the same host function."""
        return replace(self, source=self.source.for_subgroup(number),
                       values=dict(self.values), stored=[])

    def fail(self, why: str) -> NoReturn:
        raise UnsupportedError(f"the simulator cannot run {self.where(self.current)}: {why}")

    def refuse(self, i: Instruction, why: str) -> NoReturn:
        """Refuse an error that a real device would not report."""
        raise SimulatorTrap(f"{self.where(i)}: {why}") from None

    def where(self, i: Instruction | None) -> str:
        """The kernel and the source location in it, for messages."""
        name = self.source.function.name
        if i is None:
            return f"kernel {name}"
        return f"kernel {name}, {self.kernel.module.location(i.line, i.debug)}"

    def note_location(self, i: Instruction) -> None:
        """Note the source location of an instruction that may trap at run time."""
        self.kernel.host.locations[i.line] = self.kernel.module.location(i.line, i.debug)

    # --- values -----------------------------------------------------------------------------

    def value(self, operand: Operand) -> Value:
        """The host value of an operand."""
        if operand.local is not None:
            found = self.values.get(operand.local)
            if found is None:
                self.fail(f"{operand.local} is used before it is computed")
            return found
        if operand.expression is not None:
            return self._constant_expression(operand)
        if operand.text.startswith("@"):
            return self._global_address(operand)
        return Uniform(operand, operand.type)

    def _global_address(self, operand: Operand) -> Value:
        variable = self.kernel.module.globals.get(operand.text)
        if variable is None:
            self.fail(f"unknown global {operand.text}")
        if variable.space == 3:
            offset = self.kernel.slm.offsets[operand.text]
            pointer = self.b.at(SLM, offset)
            if self.shared is not None:
                self.shared.offsets[pointer.text] = offset
            return Uniform(pointer, operand.type)
        return Uniform(operand, operand.type)

    def _constant_expression(self, operand: Operand) -> Value:
        inner = operand.expression
        assert inner is not None
        parts = [self.uniform(o) for o in inner.operands]
        if inner.opcode == "getelementptr":
            assert inner.element is not None
            return Uniform(self.b.gep(inner.element, *parts), operand.type)
        if inner.opcode == "addrspacecast":
            return Uniform(parts[0], operand.type)
        return Uniform(self.b.cast(inner.opcode, parts[0], operand.type), operand.type)

    def define(self, i: Instruction, value: Value) -> None:
        """Note a result; prepare it if it is an operand of DPAS."""
        assert i.result is not None
        self.values[i.result] = value
        if i.result in self.forms.roles:
            self._prepare(i.result, value)

    def _prepare(self, name: str, value: Value) -> None:
        """Prepare a value for each of its uses as a matrix operand."""
        image = self.b.to_memory(value)
        for role in sorted(self.forms.roles[name]):
            self.matrices.prepared[name, role] = self.b.prepared(image, role)

    def define_wide(self, i: Instruction, value: Operand) -> None:
        """Define the result as the flat vector `value`."""
        self.define(i, Wide(value, i.type))

    def define_uniform(self, i: Instruction, value: Operand) -> None:
        self.define(i, Uniform(value, i.type))

    def define_parts(self, i: Instruction, parts: Sequence[Value]) -> None:
        """Define the result as a vector of these elements, or as the only one."""
        self.define(i, parts[0] if i.type.lanes == 1 else Pieces(tuple(parts), i.type))

    def define_scalars(self, i: Instruction, scalars: list[Operand]) -> None:
        """Define a uniform result from these elements."""
        self.define_uniform(i, scalars[0] if i.type.lanes == 1 else self.b.pack(i.type, scalars))

    def define_like(self, i: Instruction, value: Operand) -> None:
        """Define the result of an elementwise operation: uniform or flat, as its shape says."""
        wide = self.result_shape(i).wide
        self.define(i, Wide(value, i.type, self.group(i)) if wide else Uniform(value, i.type))

    def host_operands(self, i: Instruction) -> list[Operand]:
        """Operands of an elementwise operation: flat vectors if the result is one, else scalars."""
        if not self.result_shape(i).wide:
            return [self.uniform(o) for o in i.operands]
        group = self.group(i)
        return [self.b.ordered(self.value(o), group) for o in i.operands]

    def group(self, i: Instruction) -> int:
        """The order of an elementwise operation: that of an operand that has one."""
        values = [self.value(o) for o in i.operands]
        flat = [v for v in values if isinstance(v, Wide | Lazy) and v.group > 1]
        moved = [v for v in values if isinstance(v, Moved) and v.type.lanes > 1]
        if flat or not moved or any(isinstance(v, Wide | Pieces) for v in values):
            return flat[0].group if flat else 1
        return best_order(moved, moved[0].type.lanes)

    def uniform(self, operand: Operand) -> Operand:
        """Host value of an operand that must be equal in all lanes."""
        value = self.value(operand)
        if isinstance(value, Uniform):
            return value.value
        if self._is_uniform(value, operand):
            return self._packed(value)
        if isinstance(value, Aggregate | Private):
            self.fail(f"{operand.text} is not a plain value")
        # the analysis says wide, but hardware reads one lane: lane 0
        if value.type.lanes == 1:
            return self.b.extract(self.b.wide(value), 0)
        self.fail(f"{operand.text} must be the same in all lanes")

    def base(self, operand: Operand) -> Operand:
        """Host value of the lane-independent part."""
        value = self.value(operand)
        if isinstance(value, Uniform):
            return value.value
        if isinstance(value, Tabled):
            return value.base if value.base is not None else ir.zero(value.type)
        if self._is_uniform(value, operand):
            return self._packed(value)
        self.fail(f"{operand.text} has no uniform part")

    def _is_uniform(self, value: Value, operand: Operand) -> TypeGuard[Pieces]:
        """True if a value that was computed element by element is equal in all lanes."""
        return isinstance(value, Pieces) and self.source.shape(operand).same_in_all_lanes and all(
            isinstance(part, Uniform | Wide) for part in value.parts)

    def _packed(self, value: Pieces) -> Operand:
        """A value that is equal in all lanes, from its elements in lane 0."""
        return self.b.pack(value.type, [
            part.value if isinstance(part, Uniform) else self.b.extract(self.b.wide(part), 0)
            for part in value.parts])

    def wide_of(self, operand: Operand) -> Operand:
        """The flat host vector of an operand, in register order."""
        return self.b.wide(self.value(operand))
