"""What each intrinsic computes, once, in plain Python: the oracle of what runs.

Registers are *images*: a work-item vector `<n x T>` over S lanes is an array of n*S elements,
index = element * S + lane; operands that the hardware takes as raw registers are byte arrays.
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
