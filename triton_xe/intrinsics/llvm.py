"""Intrinsics of LLVM itself that reach the GPU's compiler; others count as unknown.

The source of each row is the LLVM language reference, at the intrinsic of its name.
"""

from __future__ import annotations

from typing import Any

from triton_xe.intrinsics.definitions import maths
from triton_xe.intrinsics.intrinsic import Effect, Family, Intrinsic
from triton_xe.intrinsics.rows import ROWS, row


def _llvm(name: str, signature: str, family: Family = Family.MATHS, **rest: Any) -> Intrinsic:
    return row(f"llvm.{name}", signature, family, f"LLVM language reference, llvm.{name}", **rest)


_ARGUMENTS = {1: "x: T", 2: "x: T, y: T", 3: "x: T, y: T, z: T"}
for _name, (_count, _definition) in maths.LLVM.items():
    _llvm(_name, f"T ({_ARGUMENTS[_count]})", overloads="T", definition=_definition)
for _name, _definition in {"ctlz": maths.clz, "cttz": maths.ctz, "abs": maths.absolute}.items():
    _llvm(_name, "T (x: T, =poison: i1)", overloads="T", definition=_definition)
_llvm("ldexp", "T (x: T, exponent: N)", overloads="T N", definition=maths.ldexp)
_llvm("is.fpclass", "R (x: T, =classes: i32)", overloads="T", definition=maths.is_class)
for _name, _definition in maths.REDUCTIONS.items():
    _start = "start: R, " if _name in ("fadd", "fmul") else ""
    _llvm(f"vector.reduce.{_name}", f"R ({_start}value: V)", overloads="V", definition=_definition,
          combines=_name)

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
