"""Lowering of tt.reduce: within a lane, then across lanes, then across subgroups through SLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import arith_ext
from triton_xe.dialects.tt.ops import BroadcastOp, ExpandDimsOp, ReshapeOp, SplitOp, TransOp
from triton_xe.dialects.tt.structure import FoldOp, ReduceOp
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics import genisa
from triton_xe.layout import LinearLayout
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.conversions import narrowed, widened
from triton_xe.lowering.emit.scalar_code import RETURNS, has_control_flow, scalar_code
from triton_xe.lowering.emit.tensors.convert import inside_warp
from triton_xe.lowering.emit.tensors.coordinates import positions
from triton_xe.lowering.emit.tensors.exchange import through_slm
from triton_xe.lowering.emit.tensors.registers import Registers, from_scalars, join, mapped
from triton_xe.lowering.emit.tensors.shuffle import shuffle_xor, uniform
from triton_xe.lowering.emit.types import FLOAT, I8, I32, POINTER, is_bf16, is_pointer, number
from triton_xe.lowering.facts.view import Coordinates, View, view_of
from triton_xe.plan.lane_reduction import LaneStep, plan_lane_reduction

Values = list[ir.Operand]
Combine = Callable[[Values, Values], Values]
_ARITHMETIC = frozenset(arith_ext.Arith.operations)
_MOVES = (BroadcastOp, ConvertLayoutOp, ExpandDimsOp, ReshapeOp, SplitOp, TransOp)


def combiner(em: Emitter, op: FoldOp) -> Combine:
    """The combine region as a function on LLVM values, one per reduced tensor.

    Values may be vectors where `vectorizable`: the operations of the region then work element by
    element.
    """
    wide = widened_sum(op)
    if wide is not None:
        return lambda left, right: [wide(em, left[0], right[0])]
    call = scalar_code(em, op.combine)
    return lambda left, right: call([*left, *right])


_WIDE: dict[type[Operation], str] = {arith.AddfOp: "fadd", arith.MulfOp: "fmul"}


def widened_sum(op: FoldOp) -> Callable[[Emitter, ir.Operand, ir.Operand], ir.Operand] | None:
    """Float operation of a sum or product of bf16, rounded once at the end; None for others."""
    block = op.combine.blocks[0]
    first, *rest = block.ops
    if len(rest) != 1 or len(op.srcs) != 1 or type(first) not in _WIDE:
        return None
    if not is_bf16(op.srcs[0].type) or rest[0].operands[0] is not first.results[0]:
        return None
    if set(first.operands) != set(block.args):
        return None
    name = _WIDE[type(first)]
    return lambda em, a, b: getattr(em.b, name)(a, b)


def combined_sources(em: Emitter, op: FoldOp) -> list[Registers]:
    """The registers to combine, in the type in which they are combined."""
    sources = [em.registers(v) for v in op.srcs]
    if widened_sum(op) is None:
        return sources
    kind = op.srcs[0].type
    return [mapped(em, FLOAT, sources, lambda a: widened(em, kind, a))]


def narrowed_results(em: Emitter, op: FoldOp, scalars: Values, index: int) -> Values:
    """Combined values in the type of the result."""
    if widened_sum(op) is None:
        return scalars
    return [narrowed(em, op.srcs[index].type, x) for x in scalars]


def vectorizable(op: FoldOp) -> bool:
    """True if the combine region may work on vectors: straight-line arithmetic only."""
    return not has_control_flow(op.combine) and all(
        isinstance(inner, RETURNS) or type(inner) in _ARITHMETIC for inner in op.combine.block.ops
    )


def without(c: Coordinates, axis: int) -> Coordinates:
    """Coordinates in the tensor without dimension `axis`."""
    return c[:axis] + c[axis + 1 :]


@lowers(ReduceOp)
def lower_reduce(em: Emitter, op: ReduceOp) -> None:
    axis = int(op.axis.value.data)
    view, source = em.view(op.srcs[0]), em.layout(op.srcs[0].type)
    check_axis(view, axis, op.name)
    combine = combiner(em, op)
    kept = list(dict.fromkeys(without(c, axis) for c in view.registers))
    values = _within_lane(em, op, combined_sources(em, op), view, axis, kept, combine)
    plan = plan_lane_reduction(source, axis)
    whole = _whole_subgroup(em, op, values, plan.steps)
    apart = any(map(_is_reduced, op.srcs))
    values = whole(values) if whole else _across_lanes(
        em, values, plan.steps, combine, apart=apart)
    values = _across_warps(em, values, view, axis, plan.layout, combine, whole)
    for index, result in enumerate(op.res):
        scalars = narrowed_results(em, op, [v[index] for v in values], index)
        if not isinstance(result.type, TensorType):
            held = uniform(em, scalars[0])
            em.bind(result, em.b.inttoptr(held, POINTER) if is_pointer(result.type) else held)
            continue
        rows = from_scalars(em, scalars[0].type, scalars)
        em.bind(result, inside_warp(em, rows, plan.layout, em.layout(result.type)))


def _is_reduced(value: SSAValue) -> bool:
    """True if a tensor has the elements of a reduction's result, in any order."""
    owner = value.owner
    while isinstance(owner, _MOVES):
        owner = owner.operands[0].owner
    return isinstance(owner, ReduceOp)


def check_axis(view: View, axis: int, what: str) -> None:
    """Refuse layouts in which a lane or warp bit moves along the axis and elsewhere at once."""
    for base in (*view.lanes, *view.warps):
        if base[axis] and any(without(base, axis)):
            raise UnsupportedError(
                f"{what}: a swizzled layout, whose lanes move along dim {axis} and another one, "
                "cannot be reduced; convert it to a blocked layout first"
            )


def _within_lane(
    em: Emitter, op: FoldOp, sources: Sequence[Registers], view: View, axis: int,
    kept: list[Coordinates], combine: Combine,
) -> list[Values]:
    """Combine registers along the axis to one value per other coordinate and tensor."""
    groups: dict[Coordinates, list[int]] = {c: [] for c in kept}
    for register, c in enumerate(view.registers):
        groups[without(c, axis)].append(register)
    columns = [sorted(g, key=lambda r: view.registers[r][axis]) for g in groups.values()]
    depth = len(columns[0])
    if len(kept) > 1 and vectorizable(op):
        return _within_lane_rows(em, sources, columns, combine)
    if depth > 8 and vectorizable(op):
        return [_folded(em, sources, column, combine) for column in columns]
    return [
        _tree([[s.register(em, r) for s in sources] for r in column], combine)
        for column in columns
    ]


def _within_lane_rows(
    em: Emitter, sources: Sequence[Registers], columns: list[list[int]], combine: Combine
) -> list[Values]:
    """Several rows at once: one vector operation reduces up to eight rows by one step."""
    out: list[Values] = []
    for start in range(0, len(columns), 8):
        some = columns[start : start + 8]
        steps = [
            [join(em, s, [column[i] for column in some]) for s in sources]
            for i in range(len(some[0]))
        ]
        total = _tree(steps, combine)
        for lane in range(len(some)):
            out.append([_element(em, v, lane) for v in total])
    return out


def _folded(
    em: Emitter, sources: Sequence[Registers], column: list[int], combine: Combine
) -> Values:
    """Reduce one long row: combine vectors of eight, then the elements of the result."""
    steps = [
        [join(em, s, column[i : i + 8]) for s in sources] for i in range(0, len(column), 8)
    ]
    total = _tree(steps, combine)
    return _tree([[_element(em, v, i) for v in total] for i in range(8)], combine)


def _element(em: Emitter, value: ir.Operand, index: int) -> ir.Operand:
    return em.b.extract(value, index) if value.type.kind == "vec" else value


def _tree(items: list[Values], combine: Combine) -> Values:
    """Combine items pairwise, neighbours first, so that the order of elements is kept."""
    while len(items) > 1:
        paired = [combine(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
        items = paired + (items[-1:] if len(items) % 2 else [])
    return items[0]


def _across_lanes(
    em: Emitter, values: list[Values], steps: Sequence[LaneStep], combine: Combine, *,
    apart: bool = False,
) -> list[Values]:
    """Apply the steps of `plan_lane_reduction`; one value per register of its layout is left.

    `apart`: the values are results of another reduction, with which Intel's compiler must not
    combine these steps (`shuffle_xor`).
    """
    for k, step in enumerate(steps):
        if not step.transposes:
            values = [combine(v, [shuffle_xor(em, x, step.mask, apart=apart and not k) for x in v])
                      for v in values]
            continue
        upper = _has_bit(em, step.mask)
        half = len(values) // 2
        values = [
            _exchanged(em, upper, step.mask, first, second, combine)
            for first, second in zip(values[:half], values[half:], strict=True)
        ]
    return values


_WAVE: dict[type[Operation], str] = {
    arith.AddfOp: "fadd", arith.MaxnumfOp: "fmax", arith.MinnumfOp: "fmin", arith.AddiOp: "add",
    arith.MaxSIOp: "smax", arith.MinSIOp: "smin", arith.MaxUIOp: "umax", arith.MinUIOp: "umin",
    arith.AndIOp: "and", arith.OrIOp: "or", arith.XOrIOp: "xor",
}


_NEUTRAL: dict[type[Operation], float] = {
    arith.AddfOp: -0.0, arith.MulfOp: 1.0, arith.AddiOp: 0, arith.MuliOp: 1, arith.AndIOp: -1,
    arith.OrIOp: 0, arith.XOrIOp: 0,
}


def wave_operation(op: FoldOp) -> int | None:
    """Index in `genisa.WAVE_OPERATIONS` of the combining operation; None if it is not there."""
    name = _WAVE.get(_plain_operation(op))
    return None if name is None else genisa.WAVE_OPERATIONS.index(name)


def neutral_element(op: FoldOp) -> float | None:
    """The neutral element of the combining operation; None if it is unknown."""
    return _NEUTRAL.get(_plain_operation(op))


def _plain_operation(op: FoldOp) -> type[Operation]:
    """The operation that combines two values; that of the region if it takes several."""
    block = op.combine.blocks[0]
    first, *rest = block.ops
    is_plain = len(rest) == 1 and set(first.operands) == set(block.args) and (
        rest[0].operands[0] is first.results[0])
    return type(first) if is_plain else type(op)


def _whole_subgroup(
    em: Emitter, op: FoldOp, values: list[Values], steps: Sequence[LaneStep]
) -> Callable[[list[Values]], list[Values]] | None:
    """Function that combines one value of all lanes by a single operation; None if there is none.

    In Intel's compiler's own reduction, half of the lanes idle at each step; exchanges use all of
    them.
    """
    wave = wave_operation(op)
    if wave is None or len(values) != 1 or any(s.transposes for s in steps):
        return None
    if 1 << len(steps) != em.state.lanes or any(v.type not in (FLOAT, I32) for v in values[0]):
        return None
    extra = [ir.constant(I8, wave), ir.TRUE, number(0)]
    return lambda found: [[em.call(genisa.WAVE_ALL, [v, *extra]) for v in row] for row in found]


def _has_bit(em: Emitter, mask: int) -> ir.Operand:
    """True in the lanes whose id has the bit of `mask`."""
    def make() -> ir.Operand:
        return em.b.icmp("ne", em.b.and_(em.lane_id(), mask), 0)

    return em.remember(("lane has", mask), make)


def _exchanged(
    em: Emitter, upper: ir.Operand, mask: int, first: Values, second: Values, combine: Combine
) -> Values:
    """Two rows in one register: `first` where the lane's bit is clear, else `second`."""
    keep = [em.b.select(upper, b, a) for a, b in zip(first, second, strict=True)]
    send = [em.b.select(upper, a, b) for a, b in zip(first, second, strict=True)]
    return combine(keep, [shuffle_xor(em, x, mask) for x in send])


def _across_warps(
    em: Emitter, values: list[Values], view: View, axis: int, layout: LinearLayout,
    combine: Combine, whole: Callable[[list[Values]], list[Values]] | None,
) -> list[Values]:
    """Combine rows with the layout `layout` over the warps along the axis.

    With `whole`, which combines all lanes, each lane reads the value of another warp if there are
    at least as many warps as lanes.
    """
    bits = [i for i, c in enumerate(view.warps) if c[axis]]
    if not bits:
        return values
    slots = 1 << len(bits)
    rows = positions(em, view_of(layout)) if layout.out_dims else [number(0)]

    def writes() -> Iterator[tuple[ir.Operand, Values]]:
        mine = _slot(em, bits)
        for value, row in zip(values, rows, strict=True):
            yield em.b.add(em.b.mul(row, slots), mine), value

    count = prod(without(view.shape, axis)) * slots
    read = through_slm(em, [v.type for v in values[0]], count, writes())
    if whole is not None and slots % em.state.lanes == 0 and len(rows) == 1:
        base = em.b.add(em.b.mul(rows[0], slots), em.lane_id())
        parts = [read(em.b.add(base, s)) for s in range(0, slots, em.state.lanes)]
        return whole([_tree(parts, combine)])
    out = []
    for row in rows:
        first = em.b.mul(row, slots)
        out.append(_tree([read(em.b.add(first, s)) for s in range(slots)], combine))
    return out


def _slot(em: Emitter, bits: list[int]) -> ir.Operand:
    """The warp's number among those along the axis."""
    if 1 << len(bits) == em.state.num_warps:
        return em.warp_id()
    total: ir.Operand | None = None
    for place, bit in enumerate(bits):
        part = em.b.and_(em.b.lshr(em.warp_id(), bit), 1)
        part = em.b.shl(part, place)
        total = part if total is None else em.b.or_(total, part)
    assert total is not None
    return total
