"""Rule split-inside: programs whose block is inside all bounds work without masks.

    %m = cmpi slt, %offsets, splat %n ; tt.load %p, %m ; ... ; tt.store %q, %x, %m
 -> %inside = <last offset is below %n>
    scf.if %inside { tt.load %p, true ; ... } else { the original }

This is for kernels that only stream through memory, and whose masks make messages narrower.  That
is, %n may end between the elements that a lane accesses at once.  One test covers all masks.

Masks that only take instructions stay.  `add` moves 3 KB per warp, which takes a core of bmg 384
clocks from memory.  Its masks are 17 of 72 instructions, on one of eight engines.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects import math as maths
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import DotOp
from triton_xe.dialects.tt.structure import CallOp, FuncOp
from triton_xe.hardware.block_2d import Guard
from triton_xe.hardware.memory import MAX_LANE_BYTES
from triton_xe.lowering.facts.affine import Affine
from triton_xe.lowering.facts.analysis import Facts
from triton_xe.lowering.facts.poly import Poly, at_least
from triton_xe.lowering.facts.values import Unknown, constant_of, pointee_bytes, shape_of
from triton_xe.lowering.family import Scope
from triton_xe.lowering.module_facts import remark
from triton_xe.lowering.rewriting import Scalars, below, hoist, put
from triton_xe.lowering.specialize.launch_guards import assume
from triton_xe.lowering.surfaces.raise_surfaces import split_rest, values_of

MOST_PER_ACCESS = 16
"""Kernels that compute more for each access gain little by a second version of all that code.

The dropout of `benchmarks.loops` has 47 operations on tensors for each access, a pointwise kernel
of Inductor has 15.
"""
SERIES = 32
"""Operations that a quotient or a function counts as; `SHORT` functions are one instruction.

GELU by the error function has 411 instructions with masks, 766 in two versions (IGC 2.40, bmg).
"""
SHORT = (maths.ExpOp, maths.Exp2Op, maths.SqrtOp, maths.RsqrtOp, maths.FmaOp, maths.AbsFOp,
         maths.AbsIOp, maths.FloorOp, maths.CeilOp, maths.TruncOp, maths.RoundEvenOp)
INSIDE = "inside"
"""Meaning of a guard that holds for some programs of a launch: their block is inside."""
Masked = LoadOp | StoreOp


def split_inside(function: FuncOp, scope: Scope) -> None:
    """Add a version without masks, with wider messages, for programs inside all bounds."""
    if _streams(function):
        _split(function.body.block, scope)


def _streams(function: Operation) -> bool:
    """True if a kernel has few operations on tensors for each access.

    It must have no loops, reductions, products or calls.
    """
    ops = below(function)[1:]
    accesses = sum(type(op) in (LoadOp, StoreOp) for op in ops)
    on_tensors = sum(_count(op) for op in ops if any(isinstance(r.type, TensorType)
                                                     for r in op.results))
    return (
        len(function.regions[0].blocks) == 1 and on_tensors <= MOST_PER_ACCESS * accesses
        and not any(op.regions or type(op) in (DotOp, CallOp) for op in ops))


def _count(op: Operation) -> int:
    """Operations on elements that an operation on a tensor consists of."""
    is_series = isinstance(op, arith.DivfOp) or (
        op.name.startswith("math.") and not isinstance(op, SHORT))
    return SERIES if is_series else len(op.results)


def _split(block: Block, scope: Scope) -> None:
    """Split a block's accesses into versions with and without masks."""
    bounds = _bounds(block, scope.affine)
    if not any(narrows(op, scope.facts) for op in bounds):
        bounds = {op: guards for op, guards in bounds.items()
                  if all(guard.what != INSIDE for guard in guards)}
    if not bounds:
        return
    guards = list(dict.fromkeys(guard for found in bounds.values() for guard in found))
    anchor = next(iter(bounds))
    values = set().union(*(values_of(a) for g in guards for a in (g.amount, g.bound)))
    if not hoist(values, anchor):
        return
    inside = [guard for guard in guards if guard.what == INSIDE]
    tested = [*assume([guard for guard in guards if guard.what != INSIDE], anchor), *inside]
    condition = Scalars(InsertPoint.before(anchor)).all_hold(tested)
    remark(anchor, "without masks" + (", if the block is inside" if guards else ""))
    copies: dict[Operation, Operation] = {op: op for op in bounds}
    if condition is not None:
        copies = split_rest(anchor, condition, list(bounds))
    for copy in copies.values():
        assert isinstance(copy, Masked)
        unmask(copy)


def _bounds(block: Block, affine: Affine) -> dict[Masked, list[Guard]]:
    """Accesses whose masks consist of bounds only, and the guards under which all lanes are on."""
    found: dict[Masked, list[Guard]] = {}
    for op in block.ops:
        if type(op) not in (LoadOp, StoreOp):
            continue
        assert isinstance(op, Masked)
        guards = bounds_of(op, affine)
        if guards is not None:
            found[op] = guards
    return found


def bounds_of(op: Masked, affine: Affine) -> list[Guard] | None:
    """Guards under which an access's mask is true for all lanes; None if it is not only bounds."""
    if op.mask is None or not shape_of(op.mask) or constant_of(op.mask) is not None:
        return None
    return mask_guards(op.mask, affine)


def narrows(op: Masked, facts: Facts) -> bool:
    """True if lanes access fewer elements at once because of the mask."""
    assert op.mask is not None
    most = MAX_LANE_BYTES // pointee_bytes(op.ptr)
    return any(equal < min(run, most) for equal, run in zip(
        facts.of(op.mask).constancy, facts.of(op.ptr).contiguity, strict=True))


def mask_guards(conditions: SSAValue, affine: Affine) -> list[Guard] | None:
    """Guards under which all of a tensor of conditions is true; None if it is not only bounds."""
    try:
        mask = affine.mask(conditions)
    except Unknown:
        return None
    shape = shape_of(conditions)
    room = [high - shape[dim] for dim, high in mask.high.items()]
    room += [Poly.constant(0) - low for low in mask.low.values()]
    tested = [at_least(r, Poly.constant(0), INSIDE) for r in room
              if not affine.nonnegative(r)]
    return [*mask.conditions, *tested]


def unmask(op: Masked) -> None:
    """Make an access's mask true, also in selects by the same mask."""
    mask = op.mask
    assert mask is not None
    if constant_of(mask) is not None:
        return
    true = all_true(mask, InsertPoint.before(op))
    made = true.owner
    assert isinstance(made, Operation)
    for use in list(mask.uses):
        if made.is_before_in_block(use.operation):
            use.operation.operands[use.index] = true


def all_true(mask: SSAValue, at: InsertPoint) -> SSAValue:
    """A mask that is true for all elements."""
    assert isinstance(mask.type, TensorType)
    return put(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(mask.type, [1])), at)
