"""Pass expand-operations: replace operations that later passes do not know by simpler ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triton_xe.dialects.tt.ops import DotScaledOp
from triton_xe.dialects.ttg import WarpSpecializeOp
from triton_xe.lowering.family import Family, Rule, with_free_layouts
from triton_xe.lowering.front.copy_at_once import COPIES, copy_at_once
from triton_xe.lowering.front.decompose_scaled_dots import decompose_scaled_dots
from triton_xe.lowering.front.expand_arithmetic import EXPANSIONS, expand_arithmetic
from triton_xe.lowering.front.expand_descriptors import expand_descriptors
from triton_xe.lowering.front.expand_fpsan import FPSAN, expand_fpsan
from triton_xe.lowering.front.raise_calls import raise_calls
from triton_xe.lowering.front.run_partitions import run_partitions
from triton_xe.lowering.front.swap_pairs import swap_pairs


@dataclass(frozen=True)
class ExpandOperationsPass(Family):
    """Replace operations that later passes do not know by simpler ones."""

    name: ClassVar = "expand-operations"
    table: ClassVar = (
        Rule(expand_fpsan, tuple(FPSAN)),
        Rule(expand_arithmetic, tuple(EXPANSIONS)),
        Rule(run_partitions, (WarpSpecializeOp,)),
        Rule(raise_calls),
        Rule(expand_descriptors),
        Rule(copy_at_once, COPIES),
        Rule(decompose_scaled_dots, (DotScaledOp,)),
        Rule(swap_pairs, when=(with_free_layouts,)),
    )
