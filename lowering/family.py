"""Base class of a family: one pass, a table of rules, and the driver that applies them.

    xdsl-opt kernel.ttgir -p 'assign-layouts{rules=spread-rows,divide-by-rows}'

A rule rewrites the operations of some classes, one by one, in functions that meet its conditions.
The driver applies the rules in the order of the table, and erases what a rule left unused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, LoadOp, StoreOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.hardware.block_2d import alignment
from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.analysis import Facts, has_promises
from triton_xe.lowering.insert_barriers import base_of
from triton_xe.lowering.module_facts import module_lanes, module_warps, options_of
from triton_xe.lowering.rewriting import all_of, below, erase_dead, functions
from triton_xe.lowering.targeted_pass import TargetedPass

Code = list[tuple[Operation, Sequence[SSAValue]]]


def code_of(function: FuncOp) -> Code:
    """The operations of a function in order, each with its operands."""
    return [(op, op._operands) for op in below(function)]  # the property is ten times as slow


@dataclass(frozen=True)
class Scope:
    """The function that a rule rewrites, and facts about it, which are computed when first used."""

    module: ModuleOp
    function: FuncOp
    target: Target
    keeps_layouts: bool
    code: Code
    """The function before the rule."""
    made: dict[tuple[SSAValue, Attribute], SSAValue] = field(default_factory=dict)
    """Values that the rule recomputed in other layouts."""

    @cached_property
    def warps(self) -> int:
        return module_warps(self.module)

    @cached_property
    def lanes(self) -> int:
        return module_lanes(self.module, self.target)

    @property
    def native(self) -> Target | None:
        """The device, if subgroups have the lanes that its matrix unit and 2D messages need."""
        return self.target if self.lanes == self.target.subgroup_size else None

    @cached_property
    def loaded(self) -> set[SSAValue | None]:
        """Arguments and buffers that the function loads from; None for unknown ones."""
        return {base_of(op.ptr) for op in all_of(self.function, LoadOp)}

    @cached_property
    def stored(self) -> set[SSAValue | None]:
        """Arguments and buffers that the function stores to; None for unknown ones."""
        writes: list[Operation] = all_of(self.function, StoreOp, AtomicRMWOp, AtomicCASOp)
        return {base_of(op.operands[0]) for op in writes}

    @cached_property
    def facts(self) -> Facts:
        return Facts()

    @cached_property
    def affine(self) -> Affine:
        trusted = has_promises(op for op, _ in self.code)
        return Affine(None if trusted else self.facts, alignment(self.target))


def in_kernel(scope: Scope) -> bool:
    """True for a function that is launched, not called."""
    return scope.function.is_kernel


def with_blocks(scope: Scope) -> bool:
    """True if the device has 2D messages."""
    return scope.target.has_block_2d


def with_native_lanes(scope: Scope) -> bool:
    """True if subgroups have the lanes that the matrix unit and 2D messages need."""
    return scope.native is not None


def with_free_layouts(scope: Scope) -> bool:
    """True if the compiler chooses layouts; some programs specify them."""
    return not scope.keeps_layouts


def tested_at_launch(scope: Scope) -> bool:
    """True if guards are tested before the launch, not in the kernel."""
    return options_of(scope.module).guards != "kernel"


@dataclass(frozen=True)
class Rule:
    """A rewrite of operations of classes `ops`, or of a whole function if no class is given.

    It applies if all conditions of `when` are true.
    """

    rewrite: Callable[[Any, Scope], None]
    ops: tuple[type[Operation], ...] = ()
    when: tuple[Callable[[Scope], bool], ...] = ()

    @property
    def name(self) -> str:
        return self.rewrite.__name__.replace("_", "-")

    def apply(self, scope: Scope) -> Code:
        """Apply the rule to a function, and erase what it left unused; returns the new code."""
        code = scope.code
        if not all(holds(scope) for holds in self.when):
            return code
        found = [op for op, _ in code if type(op) in self.ops] if self.ops else [scope.function]
        for op in found:
            if op.parent is not None:
                self.rewrite(op, scope)
        if not found or code == code_of(scope.function):
            return code
        erase_dead(scope.function)
        return code_of(scope.function)


@dataclass(frozen=True)
class Family(TargetedPass):
    """A pass that applies the rules of a table; `rules` selects some of them by name."""

    table: ClassVar[tuple[Rule, ...]]
    rules: tuple[str, ...] = ()
    keeps_layouts: bool = False

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.table]
        unknown = next((name for name in self.rules if name not in names), None)
        if unknown is not None:
            raise ValueError(f"{self.name} has no rule {unknown}; it has {', '.join(names)}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.device(op)
        codes = {function: code_of(function) for function in functions(op)}
        for rule in self.table:
            if not self.rules or rule.name in self.rules:
                for function, code in codes.items():
                    scope = Scope(op, function, target, self.keeps_layouts, code)
                    codes[function] = rule.apply(scope)
