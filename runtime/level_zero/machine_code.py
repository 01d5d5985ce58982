"""LLVM IR to machine code in this process."""

from __future__ import annotations

from typing import Any


def compile_text(text: str) -> Any:
    """The engine that holds the machine code of a text of LLVM IR, and keeps it alive."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
