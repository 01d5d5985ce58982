"""Functions that triton-xe itself adds to modules."""

from __future__ import annotations

from triton_xe.intrinsics.intrinsic import Effect, Family, Uniformity
from triton_xe.intrinsics.rows import row

_MEMORY = Effect.READS | Effect.WRITES | Effect.PRIVATE | Effect.ORDERS
LANE_PREFIX = "__xe_lane_"
"""Begins the names of functions of the module that run on their own in each lane."""
LANE_HELPER = row(
    LANE_PREFIX, "R ()", Family.HELPER, "triton_xe.lowering.emit.helpers", effects=_MEMORY,
    uniformity=Uniformity.LANE)

SHADOW_PREFIX = "xe.shadow."
"""Begins the names of calls that the simulator's sanitizer adds; see its `definedness`."""
SHADOW_ORIGIN, SHADOW_USE, SHADOW_BLOCK, SHADOW_DPAS, SHADOW_SLM = (
    row(SHADOW_PREFIX + name, "R ()", Family.SHADOW,
        "triton_xe.runtime.simulator.sanitizer.definedness_rules", effects=_MEMORY,
        uniformity=Uniformity.LANE if name == "dpas" else Uniformity.ELEMENTWISE)
    for name in ("origin", "use", "block", "dpas", "slm"))
