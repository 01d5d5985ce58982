"""Rule share-divisors: compute before a loop what its divisions by an invariant scalar share.

    scf.for { %x / splat %d }  ->  xe.divisor %d ; scf.for { %x / splat %d }

The values, and the products that divisions become, are those of
`triton_xe.lowering.emit.maths.divisors`.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from triton_xe.dialects import xe
from triton_xe.lowering.facts.divisors import SIGNED, fits, pays
from triton_xe.lowering.facts.reciprocals import spread_from
from triton_xe.lowering.facts.values import constant_of
from triton_xe.lowering.family import Scope

DIVISIONS = (*SIGNED, arith.DivUIOp, arith.RemUIOp)


def share_divisors(loop: scf.ForOp, scope: Scope) -> None:
    """Compute before a loop what its divisions by an invariant scalar share."""
    body = loop.body.block
    divisors = dict.fromkeys(
        (divisor, type(op) in SIGNED) for op in body.ops if isinstance(op, DIVISIONS)
        and (divisor := _scalar_divisor(op, scope)) is not None
        and constant_of(divisor) is None and _block_of(divisor) is not body)
    for divisor, is_signed in divisors:
        Rewriter.insert_op(xe.DivisorOp(value=divisor, signed=is_signed), InsertPoint.before(loop))


def _scalar_divisor(op: Operation, scope: Scope) -> SSAValue | None:
    """The scalar divisor of integers, if multiplications are cheaper."""
    kind, value = op.results[0].type, op.operands[1]
    if not isinstance(kind, TensorType):
        return value if kind == i32 and pays(scope.target) else None
    if not fits(op, scope.affine.facts):
        return None
    value = spread_from(value)
    return None if isinstance(value.type, TensorType) else value


def _block_of(value: SSAValue) -> Block | None:
    return value.owner if isinstance(value.owner, Block) else value.owner.parent
