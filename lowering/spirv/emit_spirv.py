"""Translate LLVM IR to a SPIR-V module.

Text of a user is first verified, and printed, by LLVM, which takes some 60 MB of memory, and is
loaded only for that.
"""

from __future__ import annotations

from functools import cache

from triton_xe.llvm import Module
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.lowering.spirv import bf16_sums, halves_visa, quotients, wide_visa
from triton_xe.lowering.spirv.function_writer import write_module
from triton_xe.lowering.spirv.library_calls import for_intel
from triton_xe.spirv import BF16_SUM, HALVES, LLVM_IR, QUOTIENT, attach, has_visa


def emit_spirv(text: str, module: Module | None = None) -> bytes:
    """Translate LLVM IR to SPIR-V that has the text attached; `module` is what the text is of.

    Text without a module is that of a user.
    """
    read = parse_module(canonical(text)) if module is None else module
    return attach(write_module(for_compiler(read)), LLVM_IR, text)


def write_spirv(text: str, *, library: bool = True) -> bytes:
    """Translate LLVM IR with its calls and bodies as they are, or without Intel's library."""
    module = parse_module(canonical(text))
    return write_module(module if library else for_intel(module))


def for_compiler(module: Module) -> Module:
    """The module as Intel's compiler gets it."""
    made = for_intel(module)
    use_visa(made)
    return made


def use_visa(module: Module) -> None:
    """Replace bodies by those for Intel's compiler (`definition`); private functions keep theirs.
    """
    for name, function in list(module.functions.items()):
        if (has_visa(name) or name.startswith(BF16_SUM)) and not function.is_private:
            read = _read(name)
            module.functions |= read.functions
            module.attributes |= read.attributes


@cache
def _read(symbol: str) -> Module:
    declared = quotients.declared([symbol]) if symbol.startswith(QUOTIENT) else ""
    module = for_intel(parse_module(declared + definition(symbol)))
    module.functions[symbol].is_internal = True
    return module


def definition(symbol: str) -> str:
    """LLVM IR of a function as Intel's compiler gets it; the simulator executes another body."""
    if symbol.startswith(BF16_SUM):
        return bf16_sums.definition(symbol)
    if symbol.startswith(QUOTIENT):
        return quotients.definition(symbol)
    visa = halves_visa if symbol.startswith(HALVES) else wide_visa
    return visa.definition(symbol)
