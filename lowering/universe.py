"""Dialects and passes of this project for `xdsl-opt`, through the entry point `xdsl.universe`.

The compiler itself is `pipeline.py`.  What programs written by hand need besides is added here.
"""

from __future__ import annotations

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from triton_xe.dialects import OWN_DIALECTS
from triton_xe.lowering.by_hand.emission import register
from triton_xe.lowering.by_hand.guard_tiles import GuardTilesPass
from triton_xe.lowering.by_hand.lower_kernel_functions import LowerKernelFunctionsPass
from triton_xe.lowering.convert_xegpu_to_llvm import ConvertXeGPUToLLVMPass
from triton_xe.lowering.pipeline import PASSES, by_name


def _conversion_to_llvm() -> type[ModulePass]:
    register()
    return ConvertXeGPUToLLVMPass


BY_HAND = by_name((LowerKernelFunctionsPass, GuardTilesPass))
UNIVERSE = Universe(
    all_dialects=OWN_DIALECTS,
    all_passes=PASSES | BY_HAND | {ConvertXeGPUToLLVMPass.name: _conversion_to_llvm},
)
