"""Which loads and stores touch a 2D surface, and what must hold at run time for that.

`surface_access` is a pure function: a load or store in, a `Surface` out, or
`Unknown` raised with the reason.  Its guards imply `block_2d.surface_rules` for the surface that
is counted from the aligned address below the base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd

from xdsl.ir import Operation, SSAValue

from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import Guard, Relation
from triton_xe.lowering.surfaces.affine import (
    Affine,
    Index,
    Iteration,
    Mask,
    Pointers,
    Remainder,
    Unknown,
    attribute,
    constant_of,
    declared_multiple,
    invariant_in,
    shape_of,
)
from triton_xe.lowering.surfaces.axis_info import pointee_bits, pointee_bytes
from triton_xe.lowering.surfaces.poly import Poly, Symbol, at_least

MANY_ROWS = block_2d.MAX_SURFACE - 1
_ZERO = Poly({})


@dataclass(frozen=True)
class Misalignment:
    """The amount `address % BASE_ALIGNMENT`: the bytes that become part of a surface's rows."""

    base: SSAValue


@dataclass(frozen=True)
class Surface:
    """A 2D surface access; lengths in rows and elements.

    `y` and `x` are where the block begins, in terms of loop iterations; `transposed` says that
    dimension 0 of the tensor is the contiguous one.
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


def surface_access(op: Operation, affine: Affine, loop: Operation | None) -> Surface:
    """The surface that a tt.load or tt.store touches.

    All facts about it, but not its position, must be known before `loop` begins.
    """
    pointer, mask_value, fill = _operands(op)
    if len(shape_of(pointer)) != 2:
        raise Unknown("only accesses of rank 2 can be 2D blocks")
    zeros = _zero_unless(fill)
    pointers, mask = affine.pointers(pointer), affine.mask(mask_value)
    if any(loop is not None and loop.is_ancestor(z.amount.owner) for z in zeros):
        raise Unknown("what fills masked elements changes in the loop")
    surface = _surface(pointers, mask, pointer, loop)
    return replace(surface, guards=(*surface.guards, *zeros))


def _zero_unless(fill: SSAValue | None) -> list[Guard]:
    """What must be false so that masked elements are filled with zero."""
    if fill is None or constant_of(fill) == 0 or _is_zero(fill):
        return []
    op = fill.owner
    if isinstance(op, Operation) and op.name == "arith.select" and _is_zero(op.operands[2]):
        choice = op.operands[0]
        if not shape_of(choice):
            return [Guard(choice, Relation.FALSE, what="the descriptor pads with zero")]
    raise Unknown("masked elements are filled with something else than zero")


def _operands(op: Operation) -> tuple[SSAValue, SSAValue | None, SSAValue | None]:
    operands = list(op.operands)
    if op.name == "tt.load":
        return operands[0], *(operands[1:3] + [None] * (3 - len(operands)))  # type: ignore[return-value]
    return operands[0], operands[2] if len(operands) > 2 else None, None


def _is_zero(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, Operation):
        return False
    if op.name == "tt.splat":
        return _is_zero(op.operands[0])
    if op.name != "arith.constant":
        return False
    held = attribute(op, "value")
    values = held.get_values() if hasattr(held, "get_values") else (held.value.data,)
    return all(v == 0 and str(v)[0] != "-" for v in values[:1]) and (
        len(values) == 1 or held.is_splat()
    )


def _surface(
    pointers: Pointers, mask: Mask, pointer: SSAValue, loop: Operation | None
) -> Surface:
    bits = pointee_bits(pointer)
    if bits not in block_2d.ELEMENT_BITS:
        raise Unknown(f"elements of {bits} bits have no 2D block messages")
    index, unit, guards = _unit_stride(pointers.index)
    if unit is None:
        raise Unknown("no dimension is contiguous")
    other = 1 - unit
    pitch = index.strides[other]
    if not invariant_in_maybe(pitch, loop) or (pitch.as_constant or 1) <= 0:
        raise Unknown("the pitch changes in the loop or is not positive")
    y, x = index.start.divide(pitch)
    return _bounded(_Draft(pointers.base, bits, unit, pitch, y, x), mask, pointer, loop, guards,
                    index.conditions + mask.conditions)


@dataclass(frozen=True)
class _Draft:
    base: SSAValue
    bits: int
    unit: int
    pitch: Poly
    y: Poly
    x: Poly


def _bounded(
    draft: _Draft,
    mask: Mask,
    pointer: SSAValue,
    loop: Operation | None,
    guards: list[Guard],
    conditions: tuple[Guard, ...],
) -> Surface:
    size, unit, other = draft.bits // 8, draft.unit, 1 - draft.unit
    rows, columns = shape_of(pointer)[other], shape_of(pointer)[unit]
    needs = list(conditions)
    width, height = draft.pitch, Poly.constant(MANY_ROWS)
    if unit in mask.high:
        width = draft.x + mask.high[unit]
    else:
        needs.append(at_least(draft.pitch, draft.x + columns, "the block ends inside a row"))
    if other in mask.high:
        height = draft.y + mask.high[other]
        needs.append(at_least(Poly.constant(MANY_ROWS), height, "the surface has few enough rows"))
    for dim, low in mask.low.items():
        at = draft.x if dim == unit else draft.y
        if (at + low).as_constant != 0:
            raise Unknown("the mask has a lower bound inside the surface")
    needs += [
        at_least(draft.x, _ZERO, "x is not negative"),
        at_least(draft.y, _ZERO, "y is not negative"),
        at_least(Poly.constant(block_2d.MAX_SURFACE), draft.x + columns, "x is small enough"),
        at_least(Poly.constant(block_2d.MAX_SURFACE), draft.y + rows, "y is small enough"),
        at_least(width * size, Poly.constant(block_2d.MIN_SURFACE_BYTES),
                 f"the surface is at least {block_2d.MIN_SURFACE_BYTES} bytes wide"),
        at_least(draft.pitch, width, "a row is not longer than the pitch"),
        at_least(Poly.constant(block_2d.MAX_SURFACE - block_2d.BASE_ALIGNMENT),
                 draft.pitch * size, "the pitch is below 2^24 bytes"),
        at_least(height, Poly.constant(1), "the surface has rows"),
    ]
    for value in (width, height):
        if not invariant_in_maybe(value, loop):
            raise Unknown("the bounds of the surface change in the loop")
    resolved = _resolve(needs, loop)
    guards = guards + resolved
    word = block_2d.OFFSET_BYTES
    moving, still = draft.x.split(lambda s: loop is not None and not _known_before(s, loop))
    if multiple_of(moving * size) % word:
        raise Unknown(f"x moves by less than {word} bytes")
    for what, amount, of in (
        ("the pitch", draft.pitch * size, block_2d.PITCH_MULTIPLE),
        ("the width", width * size, word),
        ("x", still * size, word),
    ):
        need = Guard(amount, Relation.MULTIPLE_OF, of, f"{what} is a multiple of {of} bytes")
        known = amount.as_constant
        if known is not None and known % of:
            raise Unknown(f"{need.what}: not so here ({known})")
        if multiple_of(amount) % of:
            guards.append(need)
    alignment = base_multiple(draft.base)
    if alignment % word:
        what = f"the base address is a multiple of {word} bytes"
        guards.append(Guard(draft.base, Relation.MULTIPLE_OF, word, what))
        alignment = word
    if alignment % block_2d.BASE_ALIGNMENT:
        what = f"a row fits into the pitch, counted from {block_2d.BASE_ALIGNMENT}-byte alignment"
        room = draft.pitch * size - width * size
        guards.append(Guard(room, Relation.AT_LEAST, Misalignment(draft.base), what))
    return Surface(draft.base, alignment, height, width, draft.pitch, draft.y, draft.x,
                   unit == 0, tuple(guards))


def _unit_stride(index: Index) -> tuple[Index, int | None, list[Guard]]:
    """The index with its contiguous dimension; a guard where that is only known at run time."""
    for unit in (1, 0):
        if index.strides[unit].as_constant == 1:
            return index, unit, []
    stride = index.strides[1]
    if len(stride.terms) != 1 or len(stride.symbols) != 1 or stride != Poly.symbol(
        next(iter(stride.symbols))
    ):
        return index, None, []
    (symbol,) = stride.symbols

    def one(s: Symbol) -> Poly | None:
        return Poly.constant(1) if s == symbol else None

    changed = Index(
        index.start.substitute(one),
        tuple(s.substitute(one) for s in index.strides),
        index.conditions,
    )
    what = "the inner stride is 1"
    return changed, 1, [
        at_least(stride, Poly.constant(1), what),
        at_least(Poly.constant(1), stride, what),
    ]


def invariant_in_maybe(poly: Poly, loop: Operation | None) -> bool:
    """Whether every symbol is known before `loop` begins (always so without a loop)."""
    return loop is None or invariant_in(poly, loop)


def _known_before(symbol: Symbol, loop: Operation) -> bool:
    return invariant_in(Poly.symbol(symbol), loop)


@dataclass(frozen=True)
class LastIteration:
    """The symbol: index of the last iteration of a loop, which runs at least once."""

    loop: Operation


def _resolve(needs: list[Guard], loop: Operation | None) -> list[Guard]:
    """Requirements as guards that can be tested before the loop; proven ones are left out."""
    guards: list[Guard] = []
    for need in needs:
        gap = need.amount - need.bound
        moving, still = gap.split(lambda s: loop is not None and not _known_before(s, loop))
        worst = still
        if moving.terms:
            if loop is None:
                raise Unknown("no loop")
            falling = not nonnegative(moving)
            if falling and not nonnegative(-moving):
                raise Unknown(f"cannot tell for every iteration whether {need.what}")
            if moving.symbols and any(
                not isinstance(s, Iteration) and not _known_before(s, loop) for s in moving.symbols
            ):
                raise Unknown(f"cannot tell before the loop whether {need.what}")
            if falling:
                worst = gap.substitute(_last_of(loop))
        value = worst.as_constant
        if value is not None and value < 0:
            raise Unknown(f"it is never so that {need.what}")
        if not nonnegative(worst):
            guards.append(at_least(worst, _ZERO, need.what))
    return guards


def _last_of(loop: Operation) -> Callable[[Symbol], Poly | None]:
    def last(symbol: Symbol) -> Poly | None:
        if not isinstance(symbol, Iteration) or symbol.loop is not loop:
            return None
        bounds = [constant_of(v) for v in loop.operands[:3]]
        if any(b is None for b in bounds):
            return Poly.symbol(LastIteration(loop))
        low, high, step = (b for b in bounds if b is not None)
        return Poly.constant(max(0, (high - low - 1) // step))

    return last


def nonnegative(poly: Poly) -> bool:
    """Whether a polynomial is certainly not negative."""
    return all(c >= 0 and all(_symbol_nonnegative(s) for s in m) for m, c in poly.terms.items())


def _symbol_nonnegative(symbol: Symbol) -> bool:
    if isinstance(symbol, (Iteration, Remainder, LastIteration)):
        return True
    return isinstance(symbol, SSAValue) and _value_nonnegative(symbol, 8)


def _value_nonnegative(value: SSAValue, depth: int) -> bool:
    constant = constant_of(value)
    if constant is not None:
        return constant >= 0
    op = value.owner
    if not isinstance(op, Operation) or depth == 0:
        return False

    def of(*operands: int) -> bool:
        return all(_value_nonnegative(op.operands[i], depth - 1) for i in operands)

    match op.name:
        case "tt.get_program_id" | "tt.get_num_programs":
            return True
        case "arith.remsi" | "arith.extsi":
            return of(0)
        case "arith.divsi" | "arith.minsi" | "arith.addi" | "arith.muli":
            return of(0, 1)
        case "arith.maxsi":
            return of(0) or of(1)
        case "arith.select":
            return of(1, 2)
    return False


def multiple_of(poly: Poly) -> int:
    """A number that certainly divides the value of a polynomial (0: the value is 0)."""
    out = 0
    for monomial, coefficient in poly.terms.items():
        factor = abs(coefficient)
        for symbol in monomial:
            factor *= _symbol_multiple(symbol)
        out = gcd(out, factor)
    return out


def _symbol_multiple(symbol: Symbol) -> int:
    if isinstance(symbol, Remainder):
        return gcd(multiple_of(symbol.value), multiple_of(symbol.modulus)) or 1
    return declared_multiple(symbol) if isinstance(symbol, SSAValue) else 1


def base_multiple(base: SSAValue) -> int:
    """A number of bytes that certainly divides a scalar pointer."""
    op = base.owner
    if not isinstance(op, Operation):
        return declared_multiple(base)
    if op.name != "tt.addptr":
        return 1
    step = multiple_of(Affine().scalar(op.operands[1])) * pointee_bytes(op.results[0])
    return gcd(base_multiple(op.operands[0]), step)
