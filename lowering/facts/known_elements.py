"""The elements of integer tensors that are known when a kernel is compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects.tt.ops import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    ReshapeOp,
    SplatOp,
    TransOp,
)
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.values import bits_of, constant_of, shape_of

if TYPE_CHECKING:
    import numpy as np

    Elements = np.ndarray[Any, np.dtype[np.int64]]

DEPTH = 16
_SHAPES = (BroadcastOp, ExpandDimsOp, ReshapeOp, TransOp, SplatOp, ConvertLayoutOp)
_ARITHMETIC: dict[type[Operation], Callable[[Elements, Elements], Elements]] = {
    arith.AddiOp: operator.add, arith.MuliOp: operator.mul, arith.DivSIOp: operator.floordiv,
    arith.DivUIOp: operator.floordiv, arith.RemSIOp: operator.mod, arith.RemUIOp: operator.mod,
    arith.AndIOp: operator.and_,
}


def known_elements(
    value: SSAValue, depth: int = DEPTH, *, as_shifts: bool = False
) -> Elements | None:
    """Known elements, if all are natural numbers below 2^31 that do not wrap; else None.

    With `as_shifts`, remainders of numbers that are only known modulo that divisor count as
    natural: shifts by negative numbers are undefined.
    """
    import numpy as np

    op, shape = value.owner, shape_of(value)
    known = constant_of(value)
    if known is not None:
        return np.full(shape, known) if 0 <= known < 1 << 31 else None
    if isinstance(op, MakeRangeOp):
        return np.arange(op.start.value.data, op.end.value.data)
    if not isinstance(op, Operation) or type(op) not in (*_SHAPES, *_ARITHMETIC) or not depth:
        return None
    if as_shifts and isinstance(op, arith.RemSIOp | arith.RemUIOp):
        by = constant_of(op.rhs)
        return None if by is None or by <= 0 or by & (by - 1) else _remainders(op.lhs, by, depth)
    sides = [known_elements(v, depth - 1, as_shifts=as_shifts) for v in op.operands]
    if any(side is None for side in sides):
        return None
    made = _computed(op, *sides)
    most = 1 << min(bits_of(value) - 1, 31)
    return made if made is not None and 0 <= made.min() and made.max() < most else None


def _remainders(value: SSAValue, by: int, depth: int) -> Elements | None:
    """The elements modulo a power of two."""
    import numpy as np

    op = value.owner
    known = known_elements(value, depth)
    if known is not None:
        return known % by
    if isinstance(op, SplatOp):
        facts = Facts(trusting=False).of(op.src)
        return None if facts.divisibility[0] % by else np.zeros(shape_of(value), np.int64)
    if not isinstance(op, arith.AddiOp | BroadcastOp | ExpandDimsOp | ConvertLayoutOp) or not depth:
        return None
    sides = [_remainders(v, by, depth - 1) for v in op.operands]
    if any(side is None for side in sides):
        return None
    made = _computed(op, *sides)
    return None if made is None else made % by


def _computed(op: Operation, one: Any, other: Any = None) -> Elements | None:
    """Apply an operation to known elements; None for a division by 0."""
    import numpy as np

    if type(op) in _ARITHMETIC:
        divides = isinstance(
            op, arith.DivSIOp | arith.DivUIOp | arith.RemSIOp | arith.RemUIOp)
        return None if divides and not other.all() else _ARITHMETIC[type(op)](one, other)
    if isinstance(op, TransOp):
        return one.transpose([int(d) for d in op.order.get_values()])
    shape = shape_of(op.results[0])
    if isinstance(op, BroadcastOp | SplatOp):
        return np.broadcast_to(one, shape)
    return one.reshape(shape)
