"""Conversions: of GenISA, and OpenCL's `convert_*`, as a translator spells casts of SPIR-V.

Mangled name: `_Z<n>convert_<type><count>[_sat][_rt?]<argument>`; the last letter of the argument is
its type in the Itanium C++ ABI's spelling (h t j m unsigned; c s i l signed; Dh f d floating).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from triton_xe.intrinsics import definitions
from triton_xe.intrinsics.mangling import is_unsigned
from triton_xe.runtime.simulator.ir import Instruction
from triton_xe.runtime.simulator.ir.values import Values
from triton_xe.runtime.simulator.library.rounding import bf16_bits, rounded
from triton_xe.runtime.simulator.widen.elementwise import cast
from triton_xe.runtime.simulator.widen.widener import Rule, Widener

_NAME = re.compile(r"_Z\d+convert_(u?)(char|short|int|long|half|float|double)\d*(_\w+?)?(?:Dv\d+_)?"
                   r"(?:Dh|[a-z])$")


def conversion(w: Widener, i: Instruction) -> None:
    """A conversion without saturation, or with rounding to nearest or toward zero as LLVM does."""
    found = _NAME.match(i.callee)
    if found is None:
        w.fail(f"unknown function {i.callee}")
    unsigned_result, _, mode = found.groups()
    source, target = i.operands[0].type.scalar, i.type.scalar
    if source.kind == target.kind == "int":
        extend = "zext" if is_unsigned(i.callee) else "sext"
        opcode = "trunc" if target.bits < source.bits else extend
    elif source.kind == "int":
        opcode = "uitofp" if is_unsigned(i.callee) else "sitofp"
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


def _float_to_bf16(w: Widener, i: Instruction) -> None:
    words = bf16_bits(Values(w.b).of(w.host_operands(i)[0]))
    w.define_like(i, words.as_bits(i.type.scalar).operand)


def _float_to_tf32(w: Widener, i: Instruction) -> None:
    kept = rounded(Values(w.b).of(w.host_operands(i)[0]), 13) & -(1 << 13)
    w.define_like(i, kept.as_bits(i.type.scalar).operand)


CONVERSION_RULES: dict[Callable[..., object] | None, Rule] = {
    definitions.maths.convert: conversion,
    definitions.conversions.float_to_bf16: _float_to_bf16,
    definitions.conversions.float_to_tf32: _float_to_tf32,
}
