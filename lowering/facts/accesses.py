"""How many registers one access of a lane covers."""

from __future__ import annotations

from math import gcd

from xdsl.ir import SSAValue

from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import constant_of, pointee_bytes
from triton_xe.lowering.facts.view import View, consecutive

WORD_BYTES = 4


def vector_width(
    axis: Facts, pointer: SSAValue, mask: SSAValue | None, view: View,
    most: int = MAX_LANE_BYTES,
) -> tuple[int, int]:
    """Number of registers that one access of a lane covers, and a divisor of its address in bytes.

    The registers are contiguous and equally masked.  Messages access words of 32 bits and more at
    any multiple of one element; smaller elements must fill aligned words.
    """
    info = axis.of(pointer)
    size = pointee_bytes(pointer)
    best, divisor = 1, size
    for dim in range(len(view.shape)):
        run = 1
        while run * 2 <= min(len(view.registers), most // size):
            if not consecutive(view, dim, run * 2):
                break
            run *= 2
        while run > 1 and (info.contiguity[dim] < run or not _in_words(
                run * size, size, info.divisibility[dim])):
            run //= 2
        if mask is not None:
            run = min(run, axis.of(mask).constancy[dim])
        if run > best:
            best, divisor = run, max(gcd(info.divisibility[dim], run * size), size)
    return best, divisor


def _in_words(total: int, size: int, divisor: int) -> bool:
    """True if elements are words, or fill aligned words."""
    return size >= WORD_BYTES or divisor >= min(total, WORD_BYTES)


def needed_mask(mask: SSAValue | None) -> SSAValue | None:
    """The mask, unless it is true everywhere."""
    return None if mask is not None and constant_of(mask) in (1, -1) else mask
