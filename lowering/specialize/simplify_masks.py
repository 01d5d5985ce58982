"""Pass simplify-masks: masks that are true, or take fewer comparisons, if a guard holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.arith import AndIOp

from triton_xe.lowering.family import (
    Family,
    Rule,
    in_kernel,
    tested_at_launch,
    with_blocks,
    with_free_layouts,
)
from triton_xe.lowering.specialize.assume_in_bounds import assume_in_bounds
from triton_xe.lowering.specialize.fuse_range_checks import fuse_range_checks
from triton_xe.lowering.specialize.split_inside import split_inside


@dataclass(frozen=True)
class SimplifyMasksPass(Family):
    """Drop or shorten masks, where a guard of the launch or of the program allows it."""

    name: ClassVar = "simplify-masks"
    table: ClassVar = (
        Rule(split_inside, when=(in_kernel, with_free_layouts)),
        Rule(assume_in_bounds, when=(in_kernel, tested_at_launch)),
        # on eight lanes the loop became 3 % longer (dg2)
        Rule(fuse_range_checks, (AndIOp,), when=(with_blocks,)),
    )
