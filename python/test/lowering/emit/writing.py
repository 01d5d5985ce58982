"""Functions that tests write instruction by instruction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from triton_xe import llvm as ir
from triton_xe.hardware.target import target
from triton_xe.llvm import Function, Module, Type
from triton_xe.lowering.emit.builder import Builder
from triton_xe.lowering.emit.writer import ModuleState, Writer


def begin(
    *kinds: Type, result: Type = ir.VOID, module: Module | None = None, name: str = "f",
    is_kernel: bool = True,
) -> tuple[Function, Builder]:
    """A function with parameters of these types, and a builder at its entry."""
    parameters = [(f"%a{k}", kind) for k, kind in enumerate(kinds)]
    made = Function(name, result, parameters, [ir.Block("%entry")], is_kernel=is_kernel)
    if module is not None:
        module.functions[name] = made
    return made, Builder(made, made.blocks[0])


def writer(*kinds: Type) -> Writer:
    """A writer at the entry of a function, without a device."""
    function, _ = begin(*kinds)
    state: Any = SimpleNamespace(target=None, locates_all=False, llvm=Module())
    return Writer(state, function, function.blocks[0])


def state_of(module: Module) -> ModuleState:
    """The state of a module for bmg."""
    source: Any = None
    return ModuleState(module, target("bmg"), 1, 16, source)
