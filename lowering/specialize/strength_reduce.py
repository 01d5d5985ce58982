"""Pass strength-reduce: cheaper arithmetic for offsets and quotients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.scf import ForOp

from triton_xe.lowering.family import Family, Rule, in_kernel, with_blocks, with_native_lanes
from triton_xe.lowering.specialize.narrow_divisions import narrow_divisions
from triton_xe.lowering.specialize.share_divisors import DIVISIONS, share_divisors
from triton_xe.lowering.specialize.strength_reduce_divisions import strength_reduce_divisions
from triton_xe.lowering.specialize.strength_reduce_offsets import strength_reduce_offsets


@dataclass(frozen=True)
class StrengthReducePass(Family):
    """Replace arithmetic of offsets and quotients by cheaper operations."""

    name: ClassVar = "strength-reduce"
    table: ClassVar = (
        Rule(strength_reduce_offsets, when=(with_native_lanes, with_blocks)),
        Rule(strength_reduce_divisions, when=(in_kernel,)),
        Rule(narrow_divisions, DIVISIONS),
        Rule(share_divisors, (ForOp,)),
    )
