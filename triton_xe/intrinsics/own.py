"""Functions that triton-xe itself adds to modules."""

from __future__ import annotations

from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import row

_MEMORY = Effect.READS | Effect.WRITES | Effect.PRIVATE | Effect.ORDERS
LANE_PREFIX = "__xe_lane_"
"""Prefix of the module's functions that run separately in each lane."""


def _helper(name: str, effects: Effect = _MEMORY, arguments: str = "") -> Intrinsic:
    return row(
        LANE_PREFIX + name, f"R ({arguments})", Family.HELPER, "triton_xe.lowering.emit.helpers",
        effects=effects, uniformity=Uniformity.LANE)


LANE_HELPER = _helper("")
REPORT = _helper("report")
_helper("atomic_", arguments="address: i64")
_helper("atomic_store_", _MEMORY & ~Effect.READS, "address: i64")
_LOADS = _MEMORY & ~Effect.WRITES
_helper("atomic_load_", _LOADS, "address: i64")
ATOMIC_POLL = _helper(
    "atomic_poll_", _LOADS, "address: i64, expected: T, timeout: i64, active: i1")
# as devices do it, by an instruction that reads and writes, but whose other half changes nothing

SHADOW_PREFIX = "xe.shadow."
"""Prefix of calls that the simulator's sanitizer adds; see its `definedness`."""
SHADOW_ORIGIN, SHADOW_USE, SHADOW_BLOCK, SHADOW_DPAS, SHADOW_SLM = (
    row(SHADOW_PREFIX + name, "R ()", Family.SHADOW,
        "triton_xe.runtime.simulator", effects=_MEMORY,
        uniformity=Uniformity.LANE if name == "dpas" else Uniformity.ELEMENTWISE)
    for name in ("origin", "use", "block", "dpas", "slm"))
