"""Write records as LLVM text: functions for the host, or the module of a kernel.

Functions that are called and not defined in the module are declared from the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triton_xe.llvm.records import (
    Function,
    Global,
    Instruction,
    Module,
    quoted,
    undefined_calls,
)
from triton_xe.llvm.syntax import llvm_type, write_instruction
from triton_xe.spirv import ADDED_NODE, FALLBACK_NODE, FIRST_NODE, SOURCE_NODE, UNFILLED_NODE

TRIPLE = "spirv64-unknown-unknown"


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


# --- the module of a kernel -----------------------------------------------------------------------


def print_kernels(module: Module) -> str:
    """A module as the compiler for the device reads it: with address spaces and metadata."""
    nodes = _Nodes(module)
    declared = undefined_calls(list(module.functions.values()))
    lines = [f'target triple = "{TRIPLE}"', *map(_device_global, module.globals.values()),
             *(_device_declaration(name, call) for name, call in declared.items())]
    for function in module.functions.values():
        lines += ["", *_device_function(function, nodes)]
    lines += [""]
    lines += [f"!{number} = {text}" for number, text in nodes.texts.items()]
    return "\n".join(lines) + "\n"


class _Nodes:
    """Metadata of a module: its own nodes, and those of the marks of its instructions."""

    def __init__(self, module: Module) -> None:
        self.texts = dict(module.metadata)
        self.numbers = {text: number for number, text in module.metadata.items()}

    def number(self, text: str) -> int:
        """The number of a node, which is added if it is new."""
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts[len(self.texts)] = text
        return self.numbers[text]

    def loop(self) -> int:
        """The number of a loop's own node, whose first element is the node itself."""
        hint, number = self.number('!{!"llvm.licm.disable"}'), len(self.texts)
        self.texts[number] = f"distinct !{{!{number}, !{hint}}}"
        return number

    def marks(self, i: Instruction) -> str:
        """The attachments of an instruction."""
        found = [] if i.debug is None else [f", !{SOURCE_NODE} !{i.debug}"]
        for name, is_set in ((UNFILLED_NODE, i.unfilled), (ADDED_NODE, i.added),
                             (FIRST_NODE, i.first), (i.defines, i.defines)):
            if is_set:
                found.append(f", !{name} !{self.number('!{}')}")
        if i.keeps_invariants:
            found.append(f", !llvm.loop !{self.loop()}")
        if i.fallback is not None:
            index = self.number(f"!{{i32 {i.labels.index(i.fallback)}}}")
            found.append(f", !{FALLBACK_NODE} !{index}")
        return "".join(found)


def _device_global(variable: Global) -> str:
    kind = "constant" if variable.is_constant else "global"
    align = f", align {variable.align}" if variable.align else ""
    return (f"{variable.name} = internal addrspace({variable.space}) {kind} "
            f"{variable.type.spelled} {variable.initializer}{align}")


def _device_declaration(name: str, call: Instruction) -> str:
    types = ", ".join([o.type.spelled for o in call.operands])
    return f"declare {_with_space(call.attributes)}{call.type.spelled} @{quoted(name)}({types})"


def _device_function(function: Function, nodes: _Nodes) -> Iterator[str]:
    linkage = "private " if function.is_private else "internal " * function.is_internal
    convention = "spir_kernel" if function.is_kernel else "spir_func"
    parameters = ", ".join([f"{t.spelled} {name}" for name, t in function.parameters])
    attached = "".join([f" !{name} !{n}" for name, n in function.metadata.items()])
    attributes = f" {function.attributes}" if function.attributes else ""
    yield (f"define {linkage}{convention} {function.result.spelled} @{quoted(function.name)}"
           f"({parameters}){attributes}{attached} {{")
    for block in function.blocks:
        yield f"{block.label[1:]}:"
        for i in block.instructions:
            yield write_instruction(i, llvm_type) + nodes.marks(i)
    yield "}"
