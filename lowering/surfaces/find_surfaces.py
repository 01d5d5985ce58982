"""Pass find-surfaces: accesses to matrices become accesses to surfaces, for 2D messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from triton_xe.dialects.tt.ops import DotOp, SplitOp
from triton_xe.lowering.family import (
    Family,
    Rule,
    tested_at_launch,
    with_blocks,
    with_free_layouts,
    with_native_lanes,
)
from triton_xe.lowering.surfaces.fuse_split_stores import fuse_split_stores
from triton_xe.lowering.surfaces.raise_surfaces import raise_surfaces
from triton_xe.lowering.surfaces.step_general_products import step_general_products
from triton_xe.lowering.surfaces.transpose_products import transpose_products


@dataclass(frozen=True)
class FindSurfacesPass(Family):
    """Find accesses to matrices that 2D messages can do."""

    name: ClassVar = "find-surfaces"
    table: ClassVar = (
        Rule(transpose_products, when=(with_native_lanes, with_blocks, with_free_layouts)),
        Rule(raise_surfaces),
        Rule(step_general_products, (DotOp,),
             when=(with_blocks, with_free_layouts, tested_at_launch)),
        Rule(fuse_split_stores, (SplitOp,),
             when=(with_native_lanes, with_blocks, with_free_layouts)),
    )
