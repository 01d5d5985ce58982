"""Roundings to fp16 that Intel's compiler would leave out, made by an instruction that it keeps.

IGC computes in fp32 what takes roundings of fp32 and is extended again, without any flag that
allows it (IGC 2.40, `CustomSafeOptPass::removeHftoFCast`), so that results differ in all bits below
fp16.  Until June 2026 it also extended a rounding to the unrounded value
(`LowPrecisionOpt::visitFPExtInst`).  It keeps the conversion with an explicit rounding mode, which
is the same instruction of the machine:

    %a = fptrunc float %x to half            %a = call half @llvm.genx.GenISA.ftof.rte(float %x)
    %c = fadd half %a, %b             ->     %c = fadd half %a, %b
    %d = fpext half %c to float              %d = fpext half %c to float
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.intrinsic import Family
from triton_xe.lowering.emit.tensors.wide_operands import Uses, instructions_of, row_of, uses_of
from triton_xe.lowering.emit.types import HALF, scalar_of
from triton_xe.lowering.emit.writer import ModuleState

_MOVES = frozenset((
    "extractelement", "insertelement", "shufflevector", "bitcast", "select", "phi", "fneg"))
"""Instructions through which a compiler sees the rounding that made an element."""
_NUMBERS = frozenset(("fadd", "fsub", "fmul", "fdiv", "frem", "fpext", "ret"))
"""Instructions for which Intel's compiler may take the unrounded number."""


def keep_roundings(state: ModuleState) -> None:
    """Round to fp16 with an explicit mode where arithmetic or an extension takes the result."""
    for function in state.llvm.functions:
        roundings = [i for i in instructions_of(function)
                     if i.opname == "fptrunc" and scalar_of(i.type) == HALF]
        if roundings:
            uses = uses_of(function)
            for each in roundings:
                if _is_number(each, uses):
                    _keep(state, each, uses)


def _is_number(rounding: Any, uses: Uses) -> bool:
    """True if arithmetic, an extension or a function takes a rounding's elements."""
    seen, waiting = {id(rounding)}, [rounding]
    while waiting:
        for user in uses[id(waiting.pop())]:
            if user.opname in _NUMBERS or _computes(user):
                return True
            if user.opname in _MOVES and id(user) not in seen:
                seen.add(id(user))
                waiting.append(user)
    return False


def _computes(user: Any) -> bool:
    """True for calls of the module's functions and of mathematical ones."""
    if not isinstance(user, ir.CallInstr):
        return False
    row = row_of(user)
    return row is None or row.family is Family.MATHS


def _keep(state: ModuleState, rounding: Any, uses: Uses) -> None:
    source = rounding.operands[0]
    function = state.declare(genisa.FLOAT_TO_HALF, [source.type], rounding.type)
    block = rounding.parent
    call = instructions.CallInstr(block, function, [source])
    call.metadata.update(rounding.metadata)
    for user in uses[id(rounding)]:
        user.replace_usage(rounding, call)
    block.instructions[block.instructions.index(rounding)] = call
