"""The registers that the consumer of an encoding takes at once."""

from __future__ import annotations

from triton_xe.hardware.dpas import Fragment
from triton_xe.hardware.target import Target
from triton_xe.layout import DotOperandEncoding, DpasEncoding, Encoding


def fragment_of(encoding: Encoding, element_bits: int) -> Fragment | None:
    """The fragment of a DPAS operand or result; None if no instruction takes several registers.

    Elements that are narrower or wider than the operand's are converted one by one before the DPAS,
    so they have no fragment either.

    >>> from triton_xe.layout import parse_encoding
    >>> dpas = ("#xe.dpas<{repeatCount = 8, systolicDepth = 8, executionSize = 16, "
    ...     "opsPerChan = 2, threadsPerWarp = 16, warpsPerCTA = [8, 4], repCluster = [4, 2]}>")
    >>> operand = f"#ttg.dot_op<{{opIdx = 1, parent = {dpas}, kWidth = 2}}>"
    >>> fragment_of(parse_encoding(operand), 16)
    Fragment(registers=16, packed=2, outer_dim=1)
    """
    if isinstance(encoding, DpasEncoding):
        rows = encoding.repeat_count // encoding.rows_per_register
        return Fragment(rows, 1, 0)
    if not isinstance(encoding, DotOperandEncoding):
        return None
    dpas = encoding.parent
    if not isinstance(dpas, DpasEncoding) or dpas.ops_per_channel * element_bits != 32:
        return None
    if encoding.op_idx == 1:
        registers = dpas.k_size * dpas.execution_size // dpas.threads_per_warp
        return Fragment(registers, dpas.ops_per_channel, 1)
    registers = max(1, dpas.repeat_count * dpas.k_size // dpas.threads_per_warp)
    return Fragment(registers, min(dpas.a_elements_per_lane, registers), 0)


EIGHT_LANES = 8
CROWDED = 160
"""Registers of accumulators in the largest file above which blocks of eight registers spill."""


def takes_words(target: Target, sum_bytes: int) -> bool:
    """True if 16-bit operands are read from shared memory as blocks of words of two elements.

    That holds for eight lanes, if the accumulators of a subgroup leave registers for blocks.
    """
    return target.subgroup_size == EIGHT_LANES and sum_bytes <= CROWDED * target.grf_bytes
