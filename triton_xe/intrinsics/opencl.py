"""Builtins of OpenCL C: ids, subgroups, and mathematical functions with their error bounds.

Sources: the OpenCL C specification, version 3.0, sections 6.15.1 (work-items), 6.15.2 (mathematical
functions), 7.4 (their errors), 6.4.3 (conversions), and 6.15.19 with the extensions
`cl_khr_subgroup_*` (subgroups).
"""

from __future__ import annotations

import math
from typing import Any

from triton_xe.intrinsics.definitions import ids, maths, subgroup
from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import row

_LANES = Effect.CONVERGENT


def _opencl(name: str, signature: str, family: Family, section: str, **rest: Any) -> Intrinsic:
    return row(name, signature, family, f"OpenCL C 3.0, {section}", **rest)


def _id(name: str, signature: str, uniformity: Uniformity, **rest: Any) -> Intrinsic:
    return _opencl(name, signature, Family.ID, "6.15.1", uniformity=uniformity,
                   definition=getattr(ids, name), **rest)


_AXIS = "i64 (=axis: u32)"
GROUP_ID = _id("get_group_id", _AXIS, Uniformity.GROUP)
NUM_GROUPS = _id("get_num_groups", _AXIS, Uniformity.GROUP)
LOCAL_SIZE = _id("get_local_size", _AXIS, Uniformity.GROUP)
GLOBAL_SIZE = _id("get_global_size", _AXIS, Uniformity.GROUP)
WORK_DIM = _id("get_work_dim", "i32 ()", Uniformity.GROUP)
SUB_GROUP_SIZE = _id("get_sub_group_size", "i32 ()", Uniformity.GROUP)
MAX_SUB_GROUP_SIZE = _id("get_max_sub_group_size", "i32 ()", Uniformity.GROUP)
NUM_SUB_GROUPS = _id("get_num_sub_groups", "i32 ()", Uniformity.GROUP)
SUB_GROUP_ID = _id("get_sub_group_id", "i32 ()", Uniformity.SUBGROUP)
LANE_ID = _id("get_sub_group_local_id", "i32 ()", Uniformity.LANE)
LOCAL_ID = _id("get_local_id", _AXIS, Uniformity.LANE)
GLOBAL_ID = _id("get_global_id", _AXIS, Uniformity.LANE)

BARRIER = _opencl("barrier", "void (=flags: u32)", Family.BARRIER, "6.15.8",
                  effects=Effect.BARRIER | _LANES)
PREFETCH = _opencl("prefetch", "void (pointer: P, count: i64)", Family.HINT, "6.15.11")

# --- subgroups -------------------------------------------------------------------------------

for _name, _move, _uniformity in (
    ("shuffle", subgroup.shuffle_index, Uniformity.INDEXED),
    ("shuffle_xor", subgroup.shuffle_xor, Uniformity.ELEMENTWISE),
    ("shuffle_up", subgroup.shuffle_up, Uniformity.ELEMENTWISE),
    ("shuffle_down", subgroup.shuffle_down, Uniformity.ELEMENTWISE),
    ("rotate", subgroup.shuffle_down, Uniformity.ELEMENTWISE),
):
    _opencl(f"sub_group_{_name}", f"T (value: T, index: {'i32' if _name == 'rotate' else 'u32'})",
            Family.SHUFFLE, "6.15.19", effects=_LANES, uniformity=_uniformity, definition=_move)
BROADCAST = _opencl("sub_group_broadcast", "T (value: T, index: u32)", Family.SHUFFLE, "6.15.19",
                    effects=_LANES, uniformity=Uniformity.SUBGROUP,
                    definition=subgroup.shuffle_index)
SUB_GROUP_ANY, SUB_GROUP_ALL = (
    _opencl(f"sub_group_{_name}", "i32 (value: i32)", Family.VOTE, "6.15.19", effects=_LANES,
            uniformity=Uniformity.SUBGROUP, definition=_vote)
    for _name, _vote in (("any", subgroup.vote_any), ("all", subgroup.vote_all)))
for _name in ("add", "min", "max"):
    _opencl(f"sub_group_reduce_{_name}", "T (value: T)", Family.REDUCTION, "6.15.19",
            effects=_LANES, uniformity=Uniformity.SUBGROUP, definition=subgroup.reduce,
            combines=_name)
    for _scan, _definition in (
        ("inclusive", subgroup.scan), ("exclusive", subgroup.exclusive_scan)
    ):
        _opencl(f"sub_group_scan_{_scan}_{_name}", "T (value: T)", Family.REDUCTION, "6.15.19",
                effects=_LANES, uniformity=Uniformity.LANE, definition=_definition,
                combines=_name)

# --- functions of each element ---------------------------------------------------------------

_ARGUMENTS = {1: "x: T", 2: "x: T, y: T", 3: "x: T, y: T, z: T"}


def _maths(
    name: str, count: int, definition: Any, ulp: float = 0, section: str = "6.15.2"
) -> None:
    _opencl(name, f"T ({_ARGUMENTS[count]})", Family.MATHS, section, definition=definition,
            ulp=ulp)


for _name, (_count, _definition, _ulp) in maths.FUNCTIONS.items():
    _maths(_name, _count, _definition, _ulp)
_opencl("ldexp", "T (x: T, exponent: N)", Family.MATHS, "6.15.2", definition=maths.ldexp)
for _name in maths.NATIVE:
    _count, _definition, _ = maths.FUNCTIONS[_name]
    _maths(f"native_{_name}", _count, _definition, math.inf)
    _maths(f"half_{_name}", _count, _definition, 8192)
for _name, (_count, _definition) in maths.INTEGER.items():
    _maths(_name, _count, _definition, section="6.15.3")
_opencl("isnan", "R (x: T)", Family.MATHS, "6.15.6", definition=maths.isnan)
CONVERT = _opencl("convert_", "R (value: V)", Family.CONVERSION, "6.4.3",
                  definition=maths.convert)
