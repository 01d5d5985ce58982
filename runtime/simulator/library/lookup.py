"""Look up the elements of a vector in a small constant table."""

from __future__ import annotations

from collections.abc import Sequence

from triton_xe.llvm import F32, vector
from triton_xe.llvm.records import constant, constant_vector
from triton_xe.llvm.values import Value
from triton_xe.runtime.simulator.library.parts import in_parts
from triton_xe.runtime.simulator.run.host_cpu import HostCpu

PLACES = 16
"""Entries of a table: as many fp32 numbers as a register of 64 bytes holds."""
_HALF = PLACES // 2


def looked_up(host: HostCpu, table: Sequence[float], places: Value) -> Value:
    """Table entries at these indices, of which only the lowest bits count."""
    w, count = places.w, places.type.count
    if host.has("avx512f") and count % PLACES == 0:
        whole = _numbers(places, table)
        return in_parts(PLACES, lambda at: w.call(
            "llvm.x86.avx512.permvar.sf.512", whole, at, result=whole.type), places)
    if host.has("avx2") and count % _HALF == 0:
        low, high = _numbers(places, table[:_HALF]), _numbers(places, table[_HALF:])

        def chosen(at: Value) -> Value:
            x, y = (w.call("llvm.x86.avx2.permps", half, at, result=half.type)
                    for half in (low, high))
            return w.select(at.has(_HALF), y, x)

        return in_parts(_HALF, chosen, places)
    whole, places = _numbers(places, table), places & PLACES - 1
    return w.pack(vector(count, F32), (whole[places[k]] for k in range(count)))


def _numbers(like: Value, table: Sequence[float]) -> Value:
    return like.w.wrap(constant_vector([constant(F32, x) for x in table]))
