"""Write records as LLVM text; no other module of the simulator does.

Functions that are called and not defined in the module are declared from the call.
"""

from __future__ import annotations

from collections.abc import Iterable

from triton_xe.llvm.records import (
    Function,
    Global,
    Instruction,
    quoted,
    undefined_calls,
)
from triton_xe.llvm.syntax import write_instruction


def print_module(functions: Iterable[Function], variables: Iterable[Global] = ()) -> str:
    """A module of these functions and global variables."""
    functions = list(functions)
    return "\n\n".join([
        *map(print_global, variables),
        *(_declaration(name, i) for name, i in sorted(undefined_calls(functions).items())),
        *map(print_function, functions),
    ]) + "\n"


def print_global(variable: Global) -> str:
    kind = "constant" if variable.is_constant else "global"
    initializer = variable.initializer if variable.initializer != "external" else "undef"
    return f"{variable.name} = internal {kind} {variable.type.text} {initializer}"


def _declaration(name: str, call: Instruction) -> str:
    types = ", ".join([o.type.text for o in call.operands])
    attributes = "" if name.startswith("llvm.") else " nounwind"
    return f"declare {call.type.text} @{quoted(name)}({types}){attributes}"


def print_function(function: Function) -> str:
    parameters = ", ".join(
        f"{t.text} {_with_space(function.parameter_attributes.get(name, ''))}{name}"
        for name, t in function.parameters
    )
    linkage = "internal " if function.is_internal else ""
    attributes = _with_space(function.attributes)
    lines = [f"define {linkage}{function.result.text} @{quoted(function.name)}({parameters}) "
             f"{attributes}{{"]
    for block in function.blocks:
        lines.append(f"{block.label[1:]}:")
        lines += map(write_instruction, block.instructions)
    lines.append("}")
    return "\n".join(lines)


def _with_space(text: str) -> str:
    return f"{text} " if text else ""
