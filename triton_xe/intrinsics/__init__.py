"""The functions that kernels call: what each is named, takes, computes, and does besides.

One row per intrinsic of LLVM and of Intel's compiler, builtin of OpenCL and SPIR-V, and function of
our own.  The compiler takes names from here, the simulator and its analyses ask `find`:

>>> find("llvm.genx.GenISA.LSC2DBlockRead.v16i16").effects
<Effect.READS|CONVERGENT: 33>

A function that is not here counts as reading and writing everything.
"""

from triton_xe.intrinsics import genisa, llvm, opencl, own, spirv
from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import ROWS, find

__all__ = [
    "ROWS", "Effect", "Family", "Intrinsic", "Uniformity", "find", "genisa", "llvm", "opencl",
    "own", "spirv",
]
