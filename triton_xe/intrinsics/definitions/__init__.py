"""Definition of each intrinsic in plain Python: the oracle for all implementations.

Registers are *images*: a work-item vector `<n x T>` over S lanes is an array of n*S elements with
index = element * S + lane.  Operands that the hardware takes as raw registers are byte arrays.
"""

from triton_xe.intrinsics.definitions import (
    block_1d,
    block_2d,
    conversions,
    dpas,
    ids,
    maths,
    memory,
    subgroup,
)

__all__ = [
    "block_1d", "block_2d", "conversions", "dpas", "ids", "maths", "memory", "subgroup",
]
