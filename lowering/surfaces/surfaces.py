"""Find the 2D surface that a load or store accesses, and the guards for that.

`surface_access` is a pure function from a load or store to a `Surface`, or to a `Refusal` with the
reason.  The guards imply `block_2d.surface_rules` for the surface that begins at the aligned
address below the base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from triton_xe.dialects.arith_ext import SelectOp
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import AddPtrOp, SplatOp
from triton_xe.dialects.tt.structure import FuncOp
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.lowering.facts.affine import (
    Affine,
    Index,
    Iteration,
    LastIteration,
    Mask,
    Misalignment,
    implied,
    intersected,
    invariant_in,
    is_computed_in,
    limit,
)
from triton_xe.lowering.facts.poly import Poly, at_least
from triton_xe.lowering.facts.values import (
    Unknown,
    constant_of,
    pointee_bits,
    shape_of,
)
from triton_xe.lowering.module_facts import module_of, options_of
from triton_xe.lowering.rewriting import overflow_guards
from triton_xe.lowering.specialize.launch_guards import tested_in_kernel
from triton_xe.lowering.surfaces.unobserved import repeats_unobserved_if, unobserved_if
from triton_xe.plan import Refusal

MANY_ROWS = block_2d.MAX_SURFACE - 1
_ZERO, _ONE = Poly({}), Poly.constant(1)


@dataclass(frozen=True)
class Surface:
    """A 2D surface access; lengths in rows and elements.

    `y` and `x` are the block's first row and column, as polynomials of loop iterations.
    `transposed` is True if dimension 0 of the tensor is the contiguous one.  A position that
    `jumps` is any number in each iteration.  Elements beyond all four edges are masked then.  The
    base is aligned, so that no elements are stored between it and the surface's left edge.
    """

    base: SSAValue
    base_alignment: int
    height: Poly
    width: Poly
    pitch: Poly
    y: Poly
    x: Poly
    transposed: bool
    guards: tuple[Guard, ...]
    jumps: bool = False


def surface_access(
    op: LoadOp | StoreOp, affine: Affine, loop: Operation | None
) -> Surface | Refusal:
    """The surface that a tt.load or tt.store touches, or why it has none; cached in the analysis.

    All of its facts but its position must be known before `loop` begins.
    """
    key = op, loop
    if key not in affine.surfaces:
        found = _surface_or_refusal(op, affine, loop)
        if isinstance(found, Refusal) and isinstance(op, LoadOp) and loop is not None:
            opaque = Affine(affine.facts, affine.needed, opaque=True)
            jumping = _surface_or_refusal(op, opaque, loop)
            found = found if isinstance(jumping, Refusal) else jumping
        affine.surfaces[key] = found
    known: Surface | Refusal = affine.surfaces[key]
    return known


def _surface_or_refusal(
    op: LoadOp | StoreOp, affine: Affine, loop: Operation | None
) -> Surface | Refusal:
    """The surface of an access, found by formulas of one kind."""
    try:
        surface = find_surface(op, affine, loop)
        list(overflow_guards(surface.guards, affine))  # raises `Unknown` if there are none
    except Unknown as reason:
        return Refusal(str(reason))
    return surface


def find_surface(op: LoadOp | StoreOp, affine: Affine, loop: Operation | None) -> Surface:
    """Find the surface of an access; raise `Unknown` with the reason if it has none."""
    if len(shape_of(op.ptr)) != 2:
        raise Unknown("only accesses of rank 2 can be 2D blocks")
    zeros = _zero_unless(op.other if isinstance(op, LoadOp) else None)
    index = _base_before_loop(affine.index(op.ptr), affine, loop)
    mask = affine.mask(op.mask)
    if not all(invariant_in(z.amount, loop) for z in zeros):
        raise Unknown("what fills masked elements changes in the loop")
    if isinstance(op, LoadOp):
        index, mask = _without_unobserved(op, index, mask, affine)
    surface = _surface(index, mask, op.ptr, loop, affine)
    return replace(surface, guards=(*surface.guards, *zeros))


def _base_before_loop(index: Index, affine: Affine, loop: Operation | None) -> Index:
    """An index with a base that is known before `loop`; the base's motion becomes part of it."""
    while loop is not None and is_computed_in(index.base, loop):
        moved = index.base.owner  # type: ignore[union-attr]
        if not isinstance(moved, AddPtrOp):
            raise Unknown("the base address changes in the loop")
        index = index.plus(affine.moved(moved.offset, index))._replace(base=moved.ptr)
    return index


def _without_unobserved(
    op: LoadOp, index: Index, mask: Mask, affine: Affine
) -> tuple[Index, Mask]:
    """Treat rows and columns that wrap or repeat, if no store observes them, as masked."""
    for dim, wrap in index.wraps.items():
        needs = None if dim in mask.high else unobserved_if(op.result, dim, wrap, affine)
        if needs is not None:
            index = index.without_wrap(dim).under(needs)
            mask = replace(mask, high={**mask.high, dim: wrap.end - wrap.start})
    for dim, size in enumerate(shape_of(op.ptr)):
        if size == 1 or index.strides[dim] != _ZERO or dim in mask.high:
            continue
        needs = repeats_unobserved_if(op.result, dim, affine)
        if needs is not None and not tested_in_kernel(needs, op):
            index, mask = index.under(needs), replace(mask, high={**mask.high, dim: _ONE})
    return index, mask


def _zero_unless(fill: SSAValue | None) -> list[Guard]:
    """Guards that imply that masked elements are filled with zero."""
    if fill is None or constant_of(fill) == 0 or _is_zero(fill):
        return []
    match fill.owner:
        case SelectOp(cond=choice, rhs=other) if _is_zero(other) and not shape_of(choice):
            is_even = Guard(Poly.symbol(choice), Relation.MULTIPLE_OF, 2)
            return [replace(is_even, what="the descriptor pads with zero")]
    raise Unknown("masked elements are filled with something else than zero")


def _is_zero(value: SSAValue) -> bool:
    """True if all elements are the constant +0."""
    match value.owner:
        case SplatOp(src=source):
            return _is_zero(source)
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as held):
            first = held.get_values()[0]
            return first == 0 and str(first)[0] != "-" and (len(held) == 1 or held.is_splat())
        case arith.ConstantOp(value=IntegerAttr() | FloatAttr() as held):
            return held.value.data == 0 and str(held.value.data)[0] != "-"
    return False


def _surface(
    index: Index, mask: Mask, pointer: SSAValue, loop: Operation | None, affine: Affine
) -> Surface:
    """The surface of an access: its row pitch, width, height and start; `Unknown` if it is none."""
    bits = pointee_bits(pointer)
    if bits not in block_2d.MATRIX_BITS:
        raise Unknown(f"elements of {bits} bits have no 2D block messages")
    index, unit, guards = _unit_stride(index)
    if unit is None:
        raise Unknown("no dimension is contiguous")
    other = 1 - unit
    pitch, x = index.strides[other], index.start
    if pitch == _ZERO and mask.high.get(other) == _ONE and unit in mask.high:
        y, pitch = _ZERO, x + mask.high[unit]  # a surface of one row
    elif not invariant_in(pitch, loop) or affine.nonnegative(-pitch):
        raise Unknown("the pitch changes in the loop or is not positive")
    else:
        y, x = x.divide(pitch)
    width = x + mask.high[unit] if unit in mask.high else pitch
    height = y + mask.high[other] if other in mask.high else Poly.constant(MANY_ROWS)
    if not (invariant_in(width, loop) and invariant_in(height, loop)):
        raise Unknown("the bounds of the surface change in the loop")
    assert index.base is not None
    found = Surface(index.base, affine.facts.of(index.base).divisor, height, width, pitch, y, x,
                    unit == 0, (), affine.opaque)
    needs = _unproved([*index.conditions, *mask.conditions],
                      _bounds(found, mask, shape_of(pointer), bits // 8), affine)
    guards += _resolve(needs, loop, affine)
    return _aligned(replace(found, guards=tuple(guards)), bits // 8, loop, affine)


def _bounds(s: Surface, mask: Mask, shape: tuple[int, ...], size: int) -> list[Guard]:
    """Requirements on position and size of a surface with elements of `size` bytes."""
    other, unit = (1, 0) if s.transposed else (0, 1)
    needs: list[Guard] = []
    if unit not in mask.high:
        needs.append(at_least(s.pitch, s.x + shape[unit], "the block ends inside a row"))
    if other in mask.high:
        needs.append(
            at_least(Poly.constant(MANY_ROWS), s.height, "the surface has few enough rows"))
    for dim, low in mask.low.items():
        if ((s.x if dim == unit else s.y) + low).as_constant != 0:
            raise Unknown("the mask has a lower bound inside the surface")
    most = Poly.constant(block_2d.MAX_SURFACE)
    if s.jumps and not {0, 1} <= {*mask.low} & {*mask.high}:
        raise Unknown("the mask does not limit the position in the loop")
    if not s.jumps:
        needs += [
            at_least(s.x, _ZERO, "x is not negative"),
            at_least(s.y, _ZERO, "y is not negative"),
            at_least(most, s.x + shape[unit], "x is small enough"),
            at_least(most, s.y + shape[other], "y is small enough"),
        ]
    return [
        *needs,
        at_least(s.width * size, Poly.constant(block_2d.MIN_SURFACE_BYTES),
                 f"the surface is at least {block_2d.MIN_SURFACE_BYTES} bytes wide"),
        at_least(s.pitch, s.width, "a row is not longer than the pitch"),
        at_least(most - block_2d.BASE_ALIGNMENT, s.pitch * size, "the pitch is below 2^24 bytes"),
        at_least(s.height, Poly.constant(1), "the surface has rows"),
    ]


def _aligned(s: Surface, size: int, loop: Operation | None, affine: Affine) -> Surface:
    """Add the guards for a surface's alignment; its elements have `size` bytes."""
    guards, alignment, word = list(s.guards), s.base_alignment, block_2d.OFFSET_BYTES
    moving, still = s.x.split(lambda symbol: is_computed_in(symbol, loop))
    if affine.multiple_of(moving * size) % word:
        raise Unknown(f"x moves by less than {word} bytes")
    for what, amount, of in (
        ("the pitch", s.pitch * size, affine.needed.pitch),
        ("the width", s.width * size, word),
        ("x", still * size, word),
    ):
        need = Guard(amount, Relation.MULTIPLE_OF, of, f"{what} is a multiple of {of} bytes")
        known = amount.as_constant
        if known is not None and known % of:
            raise Unknown(f"{need.what}: not so here ({known})")
        if affine.multiple_of(amount) % of:
            guards.append(need)
    needed = affine.needed.base if s.jumps or _is_launch_argument(s.base) else word
    if alignment % needed:
        what = f"the base address is a multiple of {needed} bytes"
        guards.append(Guard(Poly.symbol(s.base), Relation.MULTIPLE_OF, needed, what))
        alignment = needed
    if alignment % affine.needed.base:
        what = f"a row fits into the pitch, counted from {block_2d.BASE_ALIGNMENT}-byte alignment"
        room = (s.pitch - s.width) * size
        guards.append(at_least(room, Poly.symbol(Misalignment(s.base)), what))
    return replace(s, base_alignment=alignment, guards=tuple(guards))


def _is_launch_argument(base: SSAValue) -> bool:
    """True if a base is a kernel argument, and guards are tested before the launch.

    Such bases are aligned except for views that begin within a row, for which the general version
    runs.  Bases that a program computes, for example of a head or a group, may be at any address.
    """
    function = base.owner.parent_op() if isinstance(base, BlockArgument) else None
    return (isinstance(function, FuncOp) and function.is_kernel
            and options_of(module_of(function)).guards == "launch")


def _unit_stride(index: Index) -> tuple[Index, int | None, list[Guard]]:
    """Find the contiguous dimension; an unknown stride is assumed to be 1, checked by guards."""
    for unit in (1, 0):
        if index.strides[unit].as_constant == 1:
            return index, unit, []
    stride = index.strides[1]
    if len(stride.symbols) != 1 or stride != Poly.symbol(*stride.symbols):
        return index, None, []
    one = dict.fromkeys(stride.symbols, Poly.constant(1))
    changed = index._replace(
        start=index.start.substitute(one),
        strides=tuple(s.substitute(one) for s in index.strides),
        conditions=tuple(
            replace(c, amount=c.amount.substitute(one), bound=c.bound.substitute(one))
            for c in index.conditions),
    )
    what = "the inner stride is 1"
    return changed, 1, [
        at_least(stride, Poly.constant(1), what),
        at_least(Poly.constant(1), stride, what),
    ]


def _unproved(conditions: list[Guard], needs: list[Guard], affine: Affine) -> list[Guard]:
    """The needs, and the conditions that no other requirement implies."""
    conditions = [need for need in dict.fromkeys(conditions) if need not in needs]
    limits = {need: limit(need) for need in (*conditions, *needs)}
    for condition in conditions:
        others = intersected(each for need, each in limits.items() if need is not condition)
        if affine.nonnegative(condition.amount - condition.bound, others):
            del limits[condition]
    return [*(need for need in conditions if need in limits), *needs]


def _resolve(needs: list[Guard], loop: Operation | None, affine: Affine) -> list[Guard]:
    """Convert requirements to guards that can be tested before the loop; drop proved ones."""
    guards: list[Guard] = []
    assumed = implied(needs)
    for need in needs:
        gap = need.amount - need.bound
        moving, still = gap.split(lambda s: is_computed_in(s, loop))
        worst = still
        if moving.terms:
            if loop is None:
                raise Unknown("no loop")
            falling = not affine.nonnegative(moving, assumed)
            if falling and not affine.nonnegative(-moving, assumed):
                raise Unknown(f"cannot tell for every iteration whether {need.what}")
            if any(not isinstance(s, Iteration) and is_computed_in(s, loop)
                   for s in moving.symbols):
                raise Unknown(f"cannot tell before the loop whether {need.what}")
            if falling:
                worst = gap.substitute({Iteration(loop): Poly.symbol(LastIteration(loop))})
        low, high = affine.bounds(worst)
        if high < 0:
            raise Unknown(f"it is never so that {need.what}")
        if low < 0:
            guards.append(at_least(worst, _ZERO, need.what))
    return guards
