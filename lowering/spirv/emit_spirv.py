"""LLVM IR text to a SPIR-V module, by LLVM's own SPIR-V target.

LLVM ends the process on constructs that its target does not know, so the module is first checked
against what is known to work (`legality`): the emitter's as it is written, others as they are read.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.spirv import spirv_target
from triton_xe.lowering.spirv.legality import check_parsed
from triton_xe.lowering.spirv.spirv_target import verified
from triton_xe.spirv import LLVM_IR, attach, ids_are_sound


def emit_spirv(text: str, parsed: Any = None) -> bytes:
    """SPIR-V that carries the text it was made from; `parsed`, its module, is used up.

    LLVM also remembers basic blocks by address, and gives a block at the address of a freed one the
    freed one's id.  A module that shows this is written once more by a new process.
    """
    if parsed is None:
        parsed = verified(text)
        check_parsed(parsed)
    return attach(written(text, parsed), LLVM_IR, text)


def written(text: str, parsed: Any = None) -> bytes:
    """SPIR-V as LLVM writes it, its ids checked."""
    binary = spirv_target.write(verified(text) if parsed is None else parsed)
    return binary if ids_are_sound(binary) else _from_new_process(text)


def _from_new_process(text: str) -> bytes:
    """The module as a process writes it that has written no other."""
    path = f"import runpy, sys; sys.path[:] = {sys.path!r}; "
    run = path + "runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", run, spirv_target.__file__]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode or not ids_are_sound(done.stdout):
        raise UnsupportedError(f"LLVM cannot write SPIR-V: {done.stderr.decode()[-500:]}")
    return done.stdout
