"""Find integer divisions that can share the factor of their divisor.

`triton_xe.lowering.emit.maths.divisors` says how they are computed.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation
from xdsl.utils.type import get_element_type_or_self

from triton_xe.hardware.target import Target
from triton_xe.lowering.facts.analysis import Facts

MOST = (1 << 32) - 1
"""Largest unsigned number of 32 bits."""
SIGNED = (arith.DivSIOp, arith.RemSIOp)


def pays(target: Target) -> bool:
    """True if dividing by a shared factor makes loops shorter than Intel's compiler's divisions.

    On devices without 2D messages, IGC then no longer hoists addresses that depend on quotients.
    """
    return target.has_block_2d


def fits(op: Operation, facts: Facts) -> bool:
    """True if the dividends fit 32 bits: i32, or i64 whose absolute values are known to.

    Then quotients by a divisor of more than 32 bits are 0, as those by 2^32 - 1 are.
    """
    kind = get_element_type_or_self(op.results[0].type)
    if kind != i64:
        return bool(kind == i32)
    low, high = facts.range(op.operands[0])
    return high < MOST and low > (-MOST if isinstance(op, SIGNED) else -1)
