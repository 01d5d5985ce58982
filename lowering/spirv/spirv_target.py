"""Compile LLVM IR to SPIR-V by LLVM's own target, through llvmlite.

Run as a script, this file reads LLVM IR from standard input and writes SPIR-V to standard output.
The second argument is the optimization level.  The file imports nothing of its own package, so that
a new process can run it by its name.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

import llvmlite.binding as llvm

EXTENSIONS = (
    "SPV_EXT_shader_atomic_float_add",
    "SPV_EXT_shader_atomic_float16_add",
    "SPV_EXT_shader_atomic_float_min_max",
    "SPV_INTEL_16bit_atomics",
    "SPV_INTEL_subgroups",
    "SPV_INTEL_inline_assembly",
    "SPV_INTEL_split_barrier",
    "SPV_KHR_bfloat16",
    "SPV_KHR_bit_instructions",
    "SPV_KHR_shader_clock",
)
"""Extensions that a module may use; one is declared only if something needs it."""
_INTEGER = re.compile(r'(?<![\w%@".])i(\d+)\b')


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("triton-xe", "-spirv-ext=" + ",".join(f"+{e}" for e in EXTENSIONS))


def target_machine(effort: int) -> Any:
    """Create a target machine for one module; LLVM's SPIR-V target keeps state of each module."""
    _initialize()
    return llvm.Target.from_triple("spirv64-unknown-unknown").create_target_machine(opt=effort)


def verified(text: str) -> Any:
    """Parse and verify LLVM IR."""
    _initialize()
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def keeps_widths(module: Any) -> bool:
    """True if LLVM's loop strength reduction creates only integer widths that SPIR-V has.

    LLVM 22 computes some remainders and masked numbers before a loop in, for example, 7 bits.  The
    SPIR-V target widens them to 8 bits without a mask, which is wrong.
    """
    trial, machine = module.clone(), target_machine(2)
    trial.triple, trial.data_layout = "spirv64-unknown-unknown", str(machine.target_data)
    passes = llvm.create_new_function_pass_manager()
    passes.add_loop_strength_reduce_pass()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    for function in trial.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return {*_INTEGER.findall(str(trial))} <= {"1", "8", "16", "32", "64"}


def write(module: Any, effort: int = 2) -> bytes:
    """Compile a verified module to SPIR-V at optimization level `effort`, which changes the module.

    Names that begin with `llvm~` become those of LLVM's intrinsics.
    """
    module.triple = "spirv64-unknown-unknown"
    return bytes(target_machine(effort).emit_object(module)).replace(b"llvm~", b"llvm.")


if __name__ == "__main__":
    sys.stdout.buffer.write(write(verified(sys.stdin.read()), *map(int, sys.argv[2:])))
