"""The trait of operations that compute each element of a result from those of their operands."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.traits import OpTrait


class Elementwise(OpTrait):
    """Each element of the result depends only on the elements of operands at its position.

    Operations of `arith` and `math` have this property without the trait, which xDSL lacks.
    Source: MLIR's trait `Elementwise`.
    """


def is_elementwise(op: Operation) -> bool:
    """True if an operation computes each element of its one result from those of its operands."""
    known = op.dialect_name() in ("arith", "math") or op.has_trait(
        Elementwise, value_if_unregistered=False)
    return known and len(op.results) == 1 and not op.regions
