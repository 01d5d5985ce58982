"""The functions that kernels call: name, signature, definition and side effects of each.

There is one row per intrinsic of LLVM and of Intel's compiler, per builtin of OpenCL and SPIR-V,
and per function of our own.  The compiler takes names from here; the simulator and its analyses
call `find`:

>>> find("llvm.genx.GenISA.LSC2DBlockRead.v16i16").effects
<Effect.READS|CONVERGENT: 65>

A function without a row counts as reading and writing all memory.
"""

from triton_xe.intrinsics import genisa, llvm, opencl, own, spirv
from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import ROWS, find

__all__ = [
    "ROWS", "Effect", "Family", "Intrinsic", "Uniformity", "find", "genisa", "llvm", "opencl",
    "own", "spirv",
]
