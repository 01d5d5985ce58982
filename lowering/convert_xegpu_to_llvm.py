"""Pass convert-xegpu-to-llvm: translate the kernels of a module to one LLVM module for SPIR-V.

LLVM IR has no form in these dialects.  Therefore the pass empties the module and stores the text of
the LLVM module in an attribute, for inspection.  The compiler itself uses the result of
`write_llvm`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from triton_xe.hardware.register_file import (
    CARRIED_LIMIT,
    MOST_CARRIED,
    MOST_ESTIMATED,
    MOST_FOR_LARGE,
    SMALL,
    Need,
    RegisterFile,
    larger_file,
    needed_file,
    register_file,
)
from triton_xe.llvm import Module
from triton_xe.llvm.printer import print_kernels
from triton_xe.lowering.emit.initial_sums import fill_initial_sums
from triton_xe.lowering.emit.module import emit_module
from triton_xe.lowering.emit.pressure import pressure
from triton_xe.lowering.emit.writer import ModuleState
from triton_xe.lowering.module_facts import (
    launch_conditions_of,
    module_lanes,
    module_target,
    module_warps,
    options_of,
    plans_of,
    remark,
    remarks_of,
)
from triton_xe.lowering.rewriting import detach, functions
from triton_xe.lowering.targeted_pass import TargetedPass
from triton_xe.spirv import CONDITIONAL, WIDE

LLVM_IR = "xe.llvm_ir"
"""Attribute of a converted module: the text of the LLVM module."""
REMEDY = "use smaller blocks or more warps"
EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"
SCALAR_NARROWING = "-igc_opts 'VectorizerAllowFPTRUNC=0'"
"""Keep IGC from converting two doubles of a lane to fp32 at once.

IGC 2.40's vectorizer joins such conversions, also of separate scalars.  Its emitter then takes
the second double from the register of a second float: `mov V(1,0) W(1,0)`, where doubles of 16
lanes fill two registers.
"""


@dataclass
class LlvmStage:
    """The LLVM module, and its text."""

    module: Module
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ConvertXeGPUToLLVMPass(TargetedPass):
    """Translate all ops of the module to LLVM IR, in an attribute of the emptied module."""

    name: ClassVar = "convert-xegpu-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.device(op)
        stage, _ = write_llvm(op)
        for inner in list(op.body.block.ops):
            detach(inner)
        op.attributes[LLVM_IR] = StringAttr(stage.text)


def _use_register_pairs(state: ModuleState, most: Callable[[], int]) -> None:
    """Fill sums of products in pairs of registers, unless the pairs of other values would spill.

    `most` returns the largest number of live registers.  If they are too many, the kernel gets no
    assembly at all: Intel's compiler does not reorder instructions next to it to avoid spills.
    """
    wide = [f for f in state.llvm.functions.values() if f.name.startswith(WIDE)]
    if not wide and not state.dpas:
        return
    if most() <= MOST_ESTIMATED:
        fill_initial_sums(state)
        return
    for function in wide:
        function.is_private = True


def _most_registers(state: ModuleState) -> int:
    """Estimated largest number of live registers."""
    functions = state.llvm.functions.values()
    most = max((pressure(state.llvm, f, state.lanes) for f in functions), default=0)
    return -(-most // state.target.grf_bytes)


def _registers_needed(state: ModuleState, most: Callable[[], int]) -> int | None:
    """Number of live registers; None if loop-carried accumulators already decide the choice."""
    limit = CARRIED_LIMIT * state.target.grf_bytes
    return None if state.dpas and state.carried_bytes >= limit else most()


def _register_remark(
    carried: int, kept: int, needed: int | None, file: RegisterFile, larger: RegisterFile | None
) -> str:
    """Text of the remark on the register file: the estimate, and the file that it leads to.

    `carried` registers are loop-carried, of which `kept` are not addresses.  `larger` is the file
    that is tried next.
    """
    built_for = str(file.registers or SMALL)
    if larger is not None:
        built_for += f", and for {larger.registers} if that spills"
    more = "" if kept >= CARRIED_LIMIT else f" and {carried - kept} of addresses"
    what = f"a loop keeps {kept} registers{more}" if needed is None else (
        f"about {needed} registers are needed at once")
    return f"{what}: built for {built_for}"


def _rename_kernels(module: ModuleOp) -> None:
    """Rename kernels with conditions, so that only callers that test the conditions find them."""
    for function in functions(module):
        name = function.sym_name.data
        if function.is_kernel and not name.endswith(CONDITIONAL):
            function.properties["sym_name"] = StringAttr(name + CONDITIONAL)


def write_llvm(module: ModuleOp) -> tuple[LlvmStage, dict[str, Any]]:
    """Emit the LLVM module; return it with the metadata for the launcher."""
    device, options = module_target(module), options_of(module)
    if launch_conditions_of(module):
        _rename_kernels(module)
    state = emit_module(module, device, module_warps(module), module_lanes(module, device),
                        contract=options.contract, tests_promises=options.tests_promises,
                        locates_all=options.locates_all)
    most = cache(partial(_most_registers, state))
    _use_register_pairs(state, most)
    text, carried, kept = print_kernels(state.llvm), *(
        size // device.grf_bytes for size in (state.carried_bytes, state.kept_bytes))
    if carried >= MOST_CARRIED and most() > MOST_ESTIMATED:
        kept = carried
    if kept >= MOST_CARRIED:
        remark(module, f"a loop carries {kept} registers of at most {max(device.grf_modes)}: it "
                       f"may spill; {REMEDY}")
    needed, is_straight = _registers_needed(state, most), not (state.carried_bytes or state.dpas)
    need = needed_file(needed, carried, bool(state.dpas), is_straight, device)
    registers = register_file(options.grf_mode, need, state.num_warps, device)
    if not (is_straight and need is Need.SMALL) and not registers.automatic:
        is_full = (needed or 0) > MOST_FOR_LARGE[device.grf_bytes]
        larger = None if need is not Need.MEASURED else larger_file(
            registers.flag, state.num_warps, device)
        spills = "it may spill" if larger is None else "which may spill, too"
        remark(module, _register_remark(carried, kept, needed, registers, larger)
               + (f", {spills}; {REMEDY}" if is_full else ""))
    flags = (registers.flag, EXACT_DIVISION if state.precise else "",
             SCALAR_NARROWING if state.narrows_doubles else "")
    return LlvmStage(state.llvm, text), {
        "shared": state.slm_bytes,
        "debug_sites": state.debug_sites,
        "n_dpas": state.dpas,
        "n_block_loads": state.block_loads,
        "plan_summary": plans_of(module),
        "remarks": remarks_of(module),
        "launch_conditions": launch_conditions_of(module),
        "build_flags": " ".join(filter(None, flags)),
        "registers": registers.registers,
    }
