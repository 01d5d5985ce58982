"""Rule fuse-range-checks: fuse the two comparisons of a range check into one.

    %a = cmpi sge, %i, %j ; %b = cmpi slt, (subi %i, %j), %window ; andi %a, %b
 -> cmpi ult, (subi %i, %j), %window                   or with the larger of %window and 0

The positions are not negative, so that their difference fits: by proof, or assumed at launch and
checked by a guard.  If %j is greater than %i, the difference is negative, which as an unsigned
number is above all windows.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import SSAValue

from triton_xe.dialects.arith_ext import CmpiOp
from triton_xe.dialects.tt.ops import SplatOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.values import Unknown, constant_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.rewriting import conjunction, conjuncts, put_before
from triton_xe.lowering.specialize.launch_guards import assume, tested_in_kernel

_LESS, _NOT_MORE, _NOT_LESS = map(CmpiOp.PREDICATES.index, ("slt", "sle", "sge"))


def fuse_range_checks(end: arith.AndIOp, scope: Scope) -> None:
    """Fuse the two comparisons of a range check into one."""
    if _ends_chain(end):
        _join(end, scope.affine)


def _ends_chain(op: arith.AndIOp) -> bool:
    """True for the last operation of a chain of `andi`."""
    return isinstance(op.result.type, TensorType) and not all(
        type(use.operation) is arith.AndIOp for use in op.result.uses)


def _join(end: arith.AndIOp, affine: Affine) -> None:
    """Replace the pairs of comparisons in a chain by one comparison each."""
    terms = list(conjuncts(end.result))
    windows = [(at, near) for at in terms if (near := _window(at, terms, affine)) is not None]
    if not windows:
        return
    needs = [guard for at, _ in windows for value in at.owner.lhs.owner.operands  # type: ignore[union-attr]
             for guard in _position_if(value, affine) or ()]
    assume(dict.fromkeys(needs), end)
    gone = {term for pair in windows for term in pair}
    kept = [term for term in terms if term not in gone]
    made = [_one_comparison(at.owner, end) for at, _ in windows]
    end.result.replace_all_uses_with(conjunction([*made, *kept], end))


def _window(value: SSAValue, terms: list[SSAValue], affine: Affine) -> SSAValue | None:
    """Return the test that the difference compared by `value` is not negative, if any."""
    test = value.owner
    if not isinstance(test, CmpiOp) or test.predicate.value.data != _LESS:
        return None
    difference = test.lhs.owner
    if not isinstance(difference, arith.SubiOp) or _bound(test.rhs) is None:
        return None
    needs = [_position_if(v, affine) for v in difference.operands]
    if None in needs or tested_in_kernel([g for guards in needs for g in guards or ()], difference):
        return None
    return next((term for term in terms if _tests_sign_of(term.owner, difference)), None)


def _tests_sign_of(op: object, difference: arith.SubiOp) -> bool:
    """True if `op` tests that `difference` is not negative."""
    if not isinstance(op, CmpiOp):
        return False
    ordered = {_NOT_LESS: (op.lhs, op.rhs), _NOT_MORE: (op.rhs, op.lhs)}
    return ordered.get(op.predicate.value.data) == (difference.lhs, difference.rhs)


def _position_if(value: SSAValue, affine: Affine) -> list[Guard] | None:
    """Return the guards under which no element of a tensor is negative; None if unknown."""
    if affine.facts.range(value)[0] >= 0:
        return []
    try:
        index = affine.natural(value)
    except Unknown:
        return None
    return None if index.wraps else list(index.conditions)


def _bound(value: SSAValue) -> SSAValue | int | None:
    """Return the number that all elements of a tensor equal, or None."""
    known = constant_of(value)
    if known is not None:
        return known if known >= 0 else None
    return value.owner.src if isinstance(value.owner, SplatOp) else None


def _one_comparison(test: object, end: arith.AndIOp) -> SSAValue:
    """Compare unsigned: `0 <= x and x < n  ->  x <u max(n, 0)`."""
    assert isinstance(test, CmpiOp)
    limit, bound = test.rhs, _bound(test.rhs)
    if isinstance(bound, SSAValue):
        assert isinstance(bound.type, IntegerType)
        zero = put_before(arith.ConstantOp(IntegerAttr(0, bound.type)), end)
        larger = put_before(arith.MaxSIOp(bound, zero), end)
        limit = put_before(SplatOp(operands=[larger], result_types=[limit.type]), end)
    return put_before(CmpiOp(test.lhs, limit, "ult"), end)
