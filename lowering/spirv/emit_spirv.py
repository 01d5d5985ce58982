"""Translate LLVM IR text to a SPIR-V module by LLVM's own SPIR-V target.

LLVM ends the process on constructs that its target does not know.  Therefore each module is first
checked against the constructs that work (`legality`).  The emitter checks its instructions when it
creates them; other modules are checked here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.spirv import (
    bf16_sums,
    halves_visa,
    quotients,
    spirv_target,
    wide_visa,
)
from triton_xe.lowering.spirv.assembly import with_assembly
from triton_xe.lowering.spirv.compose_vectors import with_composed_vectors
from triton_xe.lowering.spirv.legality import check_parsed
from triton_xe.lowering.spirv.library_calls import for_intel
from triton_xe.lowering.spirv.rolled_loops import with_rolled_loops
from triton_xe.lowering.spirv.spirv_target import verified
from triton_xe.spirv import (
    BF16_SUM,
    HALVES,
    LLVM_IR,
    QUOTIENT,
    ROLLED_LABEL,
    attach,
    has_visa,
    ids_are_sound,
    with_new_labels,
    without_names,
)

TRIES = 6
"""Attempts to write a module in this process, before a new process writes it."""
FILLERS = range(520, 1200, 16)
"""Sizes in bytes of allocations that occupy freed memory; LLVM's function objects are among them.
"""
SHORT = 60_000
"""Characters of a module below which LLVM does not optimise.

Such kernels have a few loads and stores, or one product.  For them, optimisation takes a third of
the time, finds nothing, and gives the loop of a product a second counter.
"""


def emit_spirv(text: str, parsed: Any = None) -> bytes:
    """Translate LLVM IR to SPIR-V that has the text attached.

    `parsed` is the module of the text, if it has been parsed and checked; this call modifies it.
    """
    native = for_intel(text)
    if parsed is None:
        parsed = verified(native)
        check_parsed(parsed)
    native = str(parsed) if use_visa(parsed) else native
    module = with_assembly(write_spirv(native, parsed), wide_visa.assembly_of)
    return attach(with_composed_vectors(without_names(with_rolled_loops(module))), LLVM_IR, text)


def use_visa(module: Any) -> bool:
    """Replace bodies by those for Intel's compiler (`definition`); False if none is replaced.

    Private functions keep their bodies.
    """
    names = [f.name for f in module.functions if not f.is_declaration
             and (has_visa(f.name) or f.name.startswith(BF16_SUM))
             and f.linkage != llvm.Linkage.private]
    if not names:
        return False
    for name in names:
        module.get_function(name).linkage = "linkonce_odr"  # gives way to another definition
    header = f'target datalayout = "{module.data_layout}"\ntarget triple = "{module.triple}"\n'
    divisions = [name for name in names if name.startswith(QUOTIENT)]
    if divisions:
        header += quotients.declared(divisions)
    module.link_in(llvm.parse_assembly(for_intel(header + "\n".join(map(definition, names)))))
    for name in names:
        module.get_function(name).linkage = "internal"
    return True


def definition(symbol: str) -> str:
    """LLVM IR of a function as Intel's compiler gets it; the simulator executes another body."""
    if symbol.startswith(BF16_SUM):
        return bf16_sums.definition(symbol)
    if symbol.startswith(QUOTIENT):
        return quotients.definition(symbol)
    visa = halves_visa if symbol.startswith(HALVES) else wide_visa
    return visa.definition(symbol)


def write_spirv(
    text: str, parsed: Any = None,
    write: Callable[[Any, int], bytes] = spirv_target.write,
) -> bytes:
    """Write SPIR-V by LLVM, with checked ids.

    LLVM caches the labels of a function by its address for the life of the process.  A later
    function at the same address gets the same label ids, even if other results have them.  In that
    case the labels get new ids.  If they cannot be distinguished, the module is written again, with
    the memory of earlier functions occupied.
    """
    effort = _effort(text, parsed)
    kept: list[Any] = []  # live objects, so that LLVM gets memory at other addresses
    for attempt in range(TRIES):
        if attempt:
            kept.append([bytearray(size) for size in FILLERS for _ in range(16)])
        kept.append(verified(text) if parsed is None else parsed)
        binary, parsed = write(kept[-1], effort), None
        binary = binary if ids_are_sound(binary) else with_new_labels(binary)
        if ids_are_sound(binary):
            return binary
    return from_new_process(text)


def _effort(text: str, parsed: Any = None) -> int:
    """Level of LLVM's optimisation for a module.

    After LLVM's optimisation, Intel's compiler also unrolls loops that are marked as rolled.
    """
    if len(text) < SHORT or f"\n{ROLLED_LABEL}:" in text:
        return 0
    return 2 if spirv_target.keeps_widths(verified(text) if parsed is None else parsed) else 0


def from_new_process(text: str) -> bytes:
    """Write the module in a new process, in which LLVM has cached no labels."""
    path = f"import runpy, sys; sys.path[:] = {sys.path!r}; "
    run = path + "runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", run, spirv_target.__file__, "0"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode or not ids_are_sound(done.stdout):
        raise UnsupportedError(f"LLVM cannot write SPIR-V: {done.stderr.decode()[-500:]}")
    return done.stdout
