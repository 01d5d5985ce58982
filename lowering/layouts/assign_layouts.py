"""Pass assign-layouts: layouts in which little moves between lanes and warps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.arith import DivfOp
from xdsl.dialects.scf import ForOp

from triton_xe.dialects.tt.memory import AtomicCASOp, AtomicRMWOp, StoreOp
from triton_xe.dialects.tt.structure import ReduceOp, ScanOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.family import (
    Family,
    Rule,
    in_kernel,
    tested_at_launch,
    with_blocks,
    with_free_layouts,
    with_native_lanes,
)
from triton_xe.lowering.layouts.assign_dpas import assign_dpas
from triton_xe.lowering.layouts.divide_by_rows import divide_by_rows
from triton_xe.lowering.layouts.gather_operands import gather_operands
from triton_xe.lowering.layouts.keep_rows_in_warps import keep_rows_in_warps
from triton_xe.lowering.layouts.reduce_in_place import reduce_in_place
from triton_xe.lowering.layouts.rematerialize_row_loads import rematerialize_row_loads
from triton_xe.lowering.layouts.scan_in_runs import scan_in_runs
from triton_xe.lowering.layouts.scatter_general_rows import scatter_general_rows
from triton_xe.lowering.layouts.scatter_in_place import scatter_in_place
from triton_xe.lowering.layouts.spread_rows import spread_rows
from triton_xe.lowering.layouts.sum_after_loops import sum_after_loops


@dataclass(frozen=True)
class AssignLayoutsPass(Family):
    """Assign layouts in which little moves between lanes and warps."""

    name: ClassVar = "assign-layouts"
    table: ClassVar = (
        Rule(assign_dpas, when=(with_native_lanes,)),
        Rule(keep_rows_in_warps, (ReduceOp, ScanOp), when=(in_kernel, with_free_layouts)),
        Rule(scan_in_runs, (ScanOp,), when=(in_kernel, with_free_layouts)),
        Rule(reduce_in_place, (ReduceOp,), when=(with_free_layouts,)),
        Rule(gather_operands, (ConvertLayoutOp,), when=(with_blocks, with_free_layouts)),
        Rule(sum_after_loops, (ForOp,), when=(with_free_layouts,)),
        Rule(spread_rows, when=(with_free_layouts,)),
        # on eight lanes, full registers have no room for factors
        Rule(divide_by_rows, (DivfOp,), when=(with_blocks,)),
        Rule(scatter_in_place, (StoreOp, AtomicRMWOp, AtomicCASOp), when=(with_free_layouts,)),
        Rule(rematerialize_row_loads, (ConvertLayoutOp,), when=(with_free_layouts,)),
        Rule(scatter_general_rows, (StoreOp,),
             when=(with_blocks, with_free_layouts, tested_at_launch)),
    )
