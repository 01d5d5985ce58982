"""Pass assume-indices: assume at launch what index arithmetic nearly always is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triton_xe.lowering.family import (
    Family,
    Rule,
    in_kernel,
    tested_at_launch,
    with_free_layouts,
    with_native_lanes,
)
from triton_xe.lowering.specialize.assume_group_divisibility import assume_group_divisibility
from triton_xe.lowering.specialize.assume_no_wrap import assume_no_wrap


@dataclass(frozen=True)
class AssumeIndicesPass(Family):
    """Assume facts about index arithmetic, checked by guards of the launch."""

    name: ClassVar = "assume-indices"
    table: ClassVar = (
        Rule(assume_no_wrap, when=(in_kernel, tested_at_launch)),
        Rule(assume_group_divisibility, when=(in_kernel, with_native_lanes, with_free_layouts)),
    )
