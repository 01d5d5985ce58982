"""Builtins of OpenCL C: ids, subgroups, and mathematical functions with their error bounds.

Sources: the OpenCL C specification, version 3.0, sections 6.15.1 (work-items), 6.15.2 (mathematical
functions), 7.4 (their errors), 6.4.3 (conversions), and 6.15.19 with the extensions
`cl_khr_subgroup_*` (subgroups).
"""

from __future__ import annotations

import math
from typing import Any

from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic, Uniformity
from triton_xe.intrinsics.rows import row

_LANES = Effect.CONVERGENT


def _opencl(name: str, signature: str, family: Family, section: str, **rest: Any) -> Intrinsic:
    return row(name, signature, family, f"OpenCL C 3.0, {section}", **rest)


def _id(name: str, signature: str, uniformity: Uniformity, **rest: Any) -> Intrinsic:
    return _opencl(name, signature, Family.ID, "6.15.1", uniformity=uniformity,
                   defined_by=f"ids.{name}", **rest)


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
    ("shuffle", "shuffle_index", Uniformity.INDEXED),
    ("shuffle_xor", "shuffle_xor", Uniformity.ELEMENTWISE),
    ("shuffle_up", "shuffle_up", Uniformity.ELEMENTWISE),
    ("shuffle_down", "shuffle_down", Uniformity.ELEMENTWISE),
    ("rotate", "shuffle_down", Uniformity.ELEMENTWISE),
):
    _opencl(f"sub_group_{_name}", f"T (value: T, index: {'i32' if _name == 'rotate' else 'u32'})",
            Family.SHUFFLE, "6.15.19", effects=_LANES, uniformity=_uniformity,
            defined_by=f"subgroup.{_move}")
BROADCAST = _opencl("sub_group_broadcast", "T (value: T, index: u32)", Family.SHUFFLE, "6.15.19",
                    effects=_LANES, uniformity=Uniformity.SUBGROUP,
                    defined_by="subgroup.shuffle_index")
SUB_GROUP_ANY, SUB_GROUP_ALL = (
    _opencl(f"sub_group_{_name}", "i32 (value: i32)", Family.VOTE, "6.15.19", effects=_LANES,
            uniformity=Uniformity.SUBGROUP, defined_by=f"subgroup.{_vote}")
    for _name, _vote in (("any", "vote_any"), ("all", "vote_all")))
for _name in ("add", "min", "max"):
    _opencl(f"sub_group_reduce_{_name}", "T (value: T)", Family.REDUCTION, "6.15.19",
            effects=_LANES, uniformity=Uniformity.SUBGROUP, defined_by="subgroup.reduce",
            combines=_name)
    for _scan, _definition in (("inclusive", "scan"), ("exclusive", "exclusive_scan")):
        _opencl(f"sub_group_scan_{_scan}_{_name}", "T (value: T)", Family.REDUCTION, "6.15.19",
                effects=_LANES, uniformity=Uniformity.LANE,
                defined_by=f"subgroup.{_definition}", combines=_name)

# --- functions of each element ---------------------------------------------------------------

_ARGUMENTS = {1: "x: T", 2: "x: T, y: T", 3: "x: T, y: T, z: T"}


_MATHS: dict[int, dict[str, float]] = {
    1: {"fabs": 0, "floor": 0, "ceil": 0, "trunc": 0, "rint": 0, "round": 0, "sqrt": 3, "exp": 3,
        "exp2": 3, "exp10": 3, "expm1": 3, "log": 3, "log2": 3, "log10": 3, "log1p": 2, "sin": 4,
        "cos": 4, "tan": 5, "asin": 4, "acos": 4, "atan": 5, "sinh": 4, "cosh": 4, "tanh": 5,
        "asinh": 4, "acosh": 4, "atanh": 5, "cbrt": 2, "erf": 16, "erfc": 16, "tgamma": 16,
        "lgamma": math.inf, "rsqrt": 2, "recip": 2.5},
    2: {"fmax": 0, "fmin": 0, "copysign": 0, "pow": 16, "atan2": 6, "fmod": 0, "hypot": 4,
        "divide": 2.5},
    3: {"fma": 0, "mad": math.inf},
}
"""Functions of floats by their number of arguments, with their error bounds.

`recip` and `divide` have `native_` and `half_` forms only in OpenCL C.
"""
_NATIVE = "cos exp exp2 exp10 log log2 log10 rsqrt recip divide sin sqrt tan tanh".split()
"""Functions that have a form with the device's own accuracy, and one with half precision."""
_INTEGER = {"mul_hi": 2, "clz": 1, "popcount": 1, "max": 2, "min": 2}
"""Functions of integers, with their number of arguments."""


def _maths(name: str, count: int, defined_by: str, ulp: float = 0) -> None:
    _opencl(name, f"T ({_ARGUMENTS[count]})", Family.MATHS, "6.15.2", ulp=ulp,
            defined_by=f"maths.FUNCTIONS.{defined_by}")


for _count, _bounds in _MATHS.items():
    for _name, _ulp in _bounds.items():
        _maths(_name, _count, _name, _ulp)
        if _name in _NATIVE:
            _maths(f"native_{_name}", _count, _name, math.inf)
            _maths(f"half_{_name}", _count, _name, 8192)
_opencl("ldexp", "T (x: T, exponent: N)", Family.MATHS, "6.15.2", defined_by="maths.ldexp")
for _name, _count in _INTEGER.items():
    _opencl(_name, f"T ({_ARGUMENTS[_count]})", Family.MATHS, "6.15.3",
            defined_by=f"maths.INTEGER.{_name}")
_opencl("isnan", "R (x: T)", Family.MATHS, "6.15.6", defined_by="maths.isnan")
CONVERT = _opencl("convert_", "R (value: V)", Family.CONVERSION, "6.4.3",
                  defined_by="maths.convert")
