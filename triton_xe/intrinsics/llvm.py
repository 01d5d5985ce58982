"""Intrinsics of LLVM itself that reach the GPU's compiler; others count as unknown.

The source of each row is the LLVM language reference, at the intrinsic of its name.
"""

from __future__ import annotations

from typing import Any

from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic
from triton_xe.intrinsics.rows import ROWS, row


def _llvm(name: str, signature: str, family: Family = Family.MATHS, **rest: Any) -> Intrinsic:
    return row(f"llvm.{name}", signature, family, f"LLVM language reference, llvm.{name}", **rest)


_ARGUMENTS = {1: "x: T", 2: "x: T, y: T", 3: "x: T, y: T, z: T"}
_MATHS = {
    1: "fabs floor ceil trunc rint round sqrt exp exp2 exp10 log log2 log10 sin cos tan asin acos "
       "atan sinh cosh tanh nearbyint roundeven ctpop bswap bitreverse",
    2: "copysign pow atan2 maxnum minnum maximum minimum smax smin umax umin sadd.sat uadd.sat "
       "ssub.sat usub.sat",
    3: "fma fmuladd fshl fshr",
}
"""Functions of each element by their number of arguments."""
for _count, _names in _MATHS.items():
    for _name in _names.split():
        _llvm(_name, f"T ({_ARGUMENTS[_count]})", overloads="T", defined_by=f"maths.LLVM.{_name}")
for _name, _definition in {"ctlz": "clz", "cttz": "ctz", "abs": "absolute"}.items():
    _llvm(_name, "T (x: T, =poison: i1)", overloads="T", defined_by=f"maths.{_definition}")
_llvm("ldexp", "T (x: T, exponent: N)", overloads="T N", defined_by="maths.ldexp")
_llvm("is.fpclass", "R (x: T, =classes: i32)", overloads="T", defined_by="maths.is_class")
for _name in "add mul and or xor smax smin umax umin fadd fmul fmax fmin".split():
    _start = "start: R, " if _name in ("fadd", "fmul") else ""
    _llvm(f"vector.reduce.{_name}", f"R ({_start}value: V)", overloads="V",
          defined_by=f"maths.REDUCTIONS.{_name}", combines=_name)

ASSUME = _llvm("assume", "void (condition: i1)", Family.HINT)
DO_NOTHING = _llvm("donothing", "void ()", Family.HINT)
for _name in ("start", "end"):
    _llvm(f"lifetime.{_name}", "void (size: i64, pointer: P)", Family.HINT, overloads="P",
          effects=Effect.PRIVATE)
for _name in ("declare", "value", "assign", "label"):
    _llvm(f"dbg.{_name}", "void ()", Family.HINT)
_llvm("experimental.noalias.scope.decl", "void ()", Family.HINT)


def named(name: str) -> Intrinsic:
    """`llvm.<name>`."""
    return ROWS[f"llvm.{name}"]
