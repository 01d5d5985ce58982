"""Pass lower-kernel-functions: functions written by hand become kernels as Triton's are.

    func.func @k(%a: memref<64x64xf16>, %n: index)  ->  tt.func public @k(%a: !tt.ptr<f16>, ...)
    func.return                                     ->  tt.return
    xetile.init_tile / xegpu.create_nd_tdesc at a memref of static shape
                                                    ->  the same at an address, sizes written out
    memref.subview and static offsets of memrefs    ->  tt.addptr
    gpu.block_id, gpu.grid_dim, gpu.subgroup_id     ->  tt.get_program_id, ..., xe.warp_id
    memref.alloca() : memref<256xf32, 3>            ->  an offset into shared local memory
    ops of the dialect `vector`                     ->  see `decompose_vectors`
    xegpu.create_nd_tdesc that no 2D message can address by its constants
                                                    ->  the same with xe.gather

The attribute `xe.subgroups` of a function is the number of subgroups of its work-group (1 unless
it is given).  `xe.slm_bytes` is the shared local memory that addresses of memory_scope = slm count
in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from triton_xe.dialects.xegpu.nd import CreateNdTdescOp, broken_rule
from triton_xe.lowering.module_facts import WARPS
from triton_xe.lowering.rewriting import all_of
from triton_xe.lowering.targeted_pass import TargetedPass

FUNCTION = "func.func"


@dataclass(frozen=True)
class LowerKernelFunctionsPass(TargetedPass):
    """In kernels written by hand: `func.func` -> `tt.func`, memrefs -> addresses.

    Modules from Triton have no such functions.  The dialects of such functions take 0.1 s to
    import, and are imported only if there is one.
    """

    name: ClassVar = "lower-kernel-functions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = self.device(op)
        if WARPS not in op.attributes or any(each.name == FUNCTION for each in op.body.block.ops):
            from triton_xe.lowering.by_hand.kernel_functions import lower_kernel_functions

            lower_kernel_functions(op, device)
        for desc in all_of(op, CreateNdTdescOp):
            is_surface = desc.desc_type.rank > 1 and desc.desc_type.memory_scope == "global"
            if is_surface and broken_rule(desc, device) is not None:
                desc.gather = UnitAttr()
