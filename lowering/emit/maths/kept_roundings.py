"""Roundings to fp16 that Intel's compiler would leave out, made by an instruction that it keeps.

IGC computes in fp32 what takes roundings of fp32 and is extended again, without any flag that
allows it (IGC 2.40, `CustomSafeOptPass::removeHftoFCast`).  Results then differ in all bits below
fp16.  Until June 2026 it also extended a rounding to the unrounded value
(`LowPrecisionOpt::visitFPExtInst`).  IGC keeps a conversion with an explicit rounding mode, which
is the same machine instruction:

    %a = fptrunc float %x to half            %a = call half @llvm.genx.GenISA.ftof.rte(float %x)
    %c = fadd half %a, %b             ->     %c = fadd half %a, %b
    %d = fpext half %c to float              %d = fpext half %c to float
"""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.intrinsic import Family
from triton_xe.lowering.emit.links import Links, calls_own_function, rewrite, row_of
from triton_xe.lowering.emit.types import HALF
from triton_xe.lowering.emit.writer import ModuleState

_MOVES = frozenset((
    "extractelement", "insertelement", "shufflevector", "bitcast", "select", "phi", "fneg"))
"""Instructions through which a compiler sees the rounding that made an element."""
_NUMBERS = frozenset(("fadd", "fsub", "fmul", "fdiv", "frem", "fpext", "ret"))
"""Instructions for which Intel's compiler may take the unrounded number."""


def keep_roundings(state: ModuleState) -> None:
    """Round to fp16 with an explicit mode where arithmetic or an extension takes the result."""
    rewrite(state, "half", lambda i: i.opcode == "fptrunc" and i.type.scalar is HALF, _keep)


def _computes(user: ir.Instruction) -> bool:
    """True for calls of the module's functions and of mathematical ones."""
    row = row_of(user)
    return calls_own_function(user) or (row is not None and row.family is Family.MATHS)


def _keep(state: ModuleState, rounding: ir.Instruction, links: Links) -> None:
    """Replace an `fptrunc` by the call, if arithmetic or an extension uses its result."""
    if any(user.opcode in _NUMBERS or _computes(user)
           for _, user in links.users_through(rounding, _MOVES)):
        call = state.call(genisa.FLOAT_TO_HALF, rounding.operands, rounding.type)
        call.debug = rounding.debug
        links.named(call)
        links.put(rounding, [call])
