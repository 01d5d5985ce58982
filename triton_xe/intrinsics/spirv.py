"""Builtins that become instructions of SPIR-V: `__spirv_<instruction without Op>`.

The source of each row is the SPIR-V specification, version 1.6, at the instruction of its name.
Memory semantics are sums of 2 acquire, 4 release, 8 both, 16 sequentially consistent, 256 memory of
the work-group, 512 global memory.  Scopes are 1 device, 2 work-group, 3 subgroup.
"""

from __future__ import annotations

from typing import Any

from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import row

_LANES = Effect.CONVERGENT
_ATOMIC = Effect.READS | Effect.WRITES | Effect.ORDERS


PREFIX = "__spirv_"


def _spirv(name: str, signature: str, family: Family, **rest: Any) -> Intrinsic:
    return row(PREFIX + name, signature, family, f"SPIR-V 1.6, Op{name}", **rest)


CONTROL_BARRIER = _spirv(
    "ControlBarrier", "void (=execution: i32, =scope: i32, =semantics: i32)", Family.BARRIER,
    effects=Effect.BARRIER | _LANES)
BARRIER_ARRIVE, BARRIER_WAIT = (
    row(f"{PREFIX}ControlBarrier{step}INTEL",
        "void (=execution: i32, =scope: i32, =semantics: i32)",
        Family.BARRIER, f"SPV_INTEL_split_barrier, OpControlBarrier{step}INTEL",
        effects=effect | _LANES)
    for step, effect in (("Arrive", Effect.ARRIVES), ("Wait", Effect.BARRIER)))
MEMORY_BARRIER = _spirv(
    "MemoryBarrier", "void (=scope: u32, =semantics: u32)", Family.FENCE, effects=Effect.ORDERS)
ATOMIC_LOAD = _spirv(
    "AtomicLoad", "T (pointer: P, =scope: i32, =semantics: i32)", Family.ATOMIC,
    effects=Effect.READS | Effect.ORDERS, defined_by="memory.atomic_load")
ATOMIC_STORE = _spirv(
    "AtomicStore", "void (pointer: P, =scope: i32, =semantics: i32, value: T)", Family.ATOMIC,
    effects=_ATOMIC, defined_by="memory.atomic_store")

_MOVE = "T (=scope: u32, value: T, index: u32)"
_SHUFFLE: dict[str, Any] = dict(family=Family.SHUFFLE, effects=_LANES)
GROUP_BROADCAST = _spirv(
    "GroupBroadcast", _MOVE, uniformity=Uniformity.SUBGROUP,
    defined_by="subgroup.shuffle_index", **_SHUFFLE)
SHUFFLE = _spirv(
    "GroupNonUniformShuffle", _MOVE, uniformity=Uniformity.INDEXED,
    defined_by="subgroup.shuffle_index", **_SHUFFLE)
SHUFFLE_XOR = _spirv(
    "GroupNonUniformShuffleXor", _MOVE, defined_by="subgroup.shuffle_xor", **_SHUFFLE)
SHUFFLE_UP = _spirv(
    "GroupNonUniformShuffleUp", _MOVE, defined_by="subgroup.shuffle_up", **_SHUFFLE)
SHUFFLE_DOWN = _spirv(
    "GroupNonUniformShuffleDown", _MOVE, defined_by="subgroup.shuffle_down", **_SHUFFLE)
ROTATE = _spirv(
    "GroupNonUniformRotateKHR", _MOVE, defined_by="subgroup.shuffle_down", **_SHUFFLE)

_VOTE: dict[str, Any] = dict(
    family=Family.VOTE, effects=_LANES, uniformity=Uniformity.SUBGROUP)
BALLOT = _spirv(
    "GroupNonUniformBallot", "R (=scope: u32, value: i1)", defined_by="subgroup.ballot", **_VOTE)
GROUP_ANY = _spirv(
    "GroupAny", "R (=scope: u32, value: T)", defined_by="subgroup.vote_any", **_VOTE)
GROUP_ALL = _spirv(
    "GroupAll", "R (=scope: u32, value: T)", defined_by="subgroup.vote_all", **_VOTE)

REDUCE, INCLUSIVE_SCAN, EXCLUSIVE_SCAN, CLUSTERED_REDUCE = range(4)
"""Numbers of the group operations."""
GROUP_OPERATIONS = {
    "IAdd": "add", "IMul": "mul", "FAdd": "fadd", "FMul": "fmul", "FMin": "fmin", "FMax": "fmax",
    "UMin": "umin", "UMax": "umax", "SMin": "smin", "SMax": "smax",
}
for _name in GROUP_OPERATIONS:
    for _prefix, _size in (("Group", ""), ("GroupNonUniform", ", =size: u32")):
        _spirv(
            _prefix + _name, f"T (=scope: u32, =operation: u32, value: T{_size})",
            Family.REDUCTION, effects=_LANES, uniformity=Uniformity.OPERATION,
            defined_by="subgroup.group_operation", combines=GROUP_OPERATIONS[_name])
