"""Translate LLVM IR text to a SPIR-V module.

The text of the emitter is read as it is.  Other text is first verified, and printed, by LLVM.  LLVM
takes some 60 MB of memory, and is loaded only for that.
"""

from __future__ import annotations

from functools import cache

from triton_xe.llvm import Module
from triton_xe.llvm.parser import canonical, parse_module
from triton_xe.lowering.spirv import bf16_sums, halves_visa, quotients, wide_visa
from triton_xe.lowering.spirv.function_writer import write_module
from triton_xe.lowering.spirv.library_calls import for_intel
from triton_xe.spirv import BF16_SUM, HALVES, LLVM_IR, QUOTIENT, attach, has_visa


def emit_spirv(text: str, *, is_emitted: bool = False) -> bytes:
    """Translate LLVM IR, perhaps of the emitter, to SPIR-V that has the text attached."""
    module = for_compiler(text if is_emitted else canonical(text))
    return attach(write_module(module), LLVM_IR, text)


def write_spirv(text: str) -> bytes:
    """Translate LLVM IR with its calls and bodies as they are."""
    return write_module(parse_module(canonical(text)))


def for_compiler(text: str) -> Module:
    """The module as Intel's compiler gets it."""
    module = parse_module(for_intel(text))
    use_visa(module)
    return module


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
    module = parse_module(for_intel(declared + definition(symbol)))
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
