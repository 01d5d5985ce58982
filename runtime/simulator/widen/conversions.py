"""OpenCL's `convert_*` builtins, as an independent translator spells casts of SPIR-V.

Mangled name: `_Z<n>convert_<type><count>[_sat][_rt?]<argument>`; the last letter of the argument is
its type in the Itanium C++ ABI's spelling (h t j m unsigned; c s i l signed; Dh f d floating).
"""

from __future__ import annotations

import re
from dataclasses import replace

from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.widen.elementwise import cast
from triton_xe.runtime.simulator.widen.widener import Widener

_NAME = re.compile(r"_Z\d+convert_(u?)(char|short|int|long|half|float|double)\d*(_\w+?)?(?:Dv\d+_)?"
                   r"(Dh|[a-z])$")


def conversion(w: Widener, i: Instruction) -> None:
    """A conversion without saturation, or with rounding to nearest or toward zero as LLVM does."""
    found = _NAME.match(i.callee)
    if found is None:
        w.fail(f"unknown function {i.callee}")
    unsigned_result, _, mode, letter = found.groups()
    source, target = i.operands[0].type.scalar, i.type.scalar
    unsigned = letter in "htjm"
    if source.kind == target.kind == "int":
        opcode = "trunc" if target.bits < source.bits else "zext" if unsigned else "sext"
    elif source.kind == "int":
        opcode = "uitofp" if unsigned else "sitofp"
    elif target.kind == "int":
        opcode = "fptoui" if unsigned_result else "fptosi"
    else:
        opcode = "fptrunc" if target.bits < source.bits else "fpext"
    toward_zero = opcode in ("fptoui", "fptosi") and mode in (None, "_rtz")
    if mode and not toward_zero and mode != "_rte":
        w.fail(f"a conversion with {mode.lstrip('_')}, {i.callee}")
    if source == target:
        w.define(i, w.value(i.operands[0]))
        return
    cast(w, replace(i, opcode=opcode, flags=(), operands=i.operands[:1]))


__all__ = ["conversion"]
