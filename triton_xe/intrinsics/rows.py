"""The table of intrinsics, one row per name, and the lookup of the row for a symbol."""

from __future__ import annotations

from functools import cache
from typing import Any

from triton_xe.intrinsics.intrinsic import UNKNOWN, Family, Intrinsic
from triton_xe.intrinsics.mangling import builtin_name, prefixes

ROWS: dict[str, Intrinsic] = {}
_OPEN = ("__xe_lane_", "convert_", "__builtin_IB_simd_broadcast")
"""Prefixes of symbols that continue after the name of their row."""
_OPENCL_IN_SPIRV = "__spirv_ocl_"
"""Prefix of OpenCL functions in LLVM IR that was translated back from SPIR-V."""


def row(name: str, signature: str, family: Family, source: str, **rest: Any) -> Intrinsic:
    """Add a row to the table."""
    assert name not in ROWS, name
    made = ROWS[name] = Intrinsic(name, signature, family, source, **rest)
    return made


@cache
def find(symbol: str) -> Intrinsic:
    """Return the row of a function's symbol (without `@`), or `UNKNOWN` if there is none.

    Suffixes of types are ignored, as in LLVM and Intel's compiler.

    >>> find("llvm.fma.v4f32").name, find("_Z4fmodDv4_fS_").name, find("_Z7mysteryi").known
    ('llvm.fma', 'fmod', False)
    """
    symbol = symbol.strip('"')
    builtin = builtin_name(symbol)
    name = symbol if builtin is None else builtin[0].removeprefix(_OPENCL_IN_SPIRV)
    if builtin is None and not symbol.startswith(("llvm.", "xe.", *_OPEN)):
        return UNKNOWN
    if name.startswith(_OPEN):
        return ROWS[max((known for known in ROWS if name.startswith(known)), key=len)]
    if builtin is not None:
        return ROWS.get(name, UNKNOWN)
    return next((ROWS[prefix] for prefix in prefixes(name) if prefix in ROWS), UNKNOWN)
