"""Lowering of operations that only determine positions of elements: ranges, shapes, program ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.ir import SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import xe
from triton_xe.dialects.tt import ops as tt
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics import opencl
from triton_xe.layout import LinearLayout
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.tensors.convert import relaid, through_positions
from triton_xe.lowering.emit.tensors.coordinates import (
    coordinate,
    flatten_index,
    positions,
    unflatten,
)
from triton_xe.lowering.emit.tensors.registers import (
    CHUNK,
    Registers,
    Splat,
    eager,
    from_scalars,
    permuted,
)
from triton_xe.lowering.emit.tensors.shuffle import shuffle_xor
from triton_xe.lowering.emit.types import FLOAT, I1, I32, POINTER, is_pointer, number, vector_of
from triton_xe.lowering.facts.values import attribute, shape_of
from triton_xe.lowering.facts.view import Coordinates, View, view_of


@lowers(tt.MakeRangeOp)
def lower_make_range(em: Emitter, op: tt.MakeRangeOp) -> None:
    start = op.start.value.data
    counted = coordinate(em, em.view(op.result), 0)
    if start:
        em.bind(op.result, Registers(counted.count, I32, lambda i: em.b.add(
            counted.chunk(em, i), em.splat(number(start), counted.width))))
    else:
        em.bind(op.result, counted)


@lowers(tt.SplatOp)
def lower_splat(em: Emitter, op: tt.SplatOp) -> None:
    scalar = em.get(op.src)
    if scalar.type.kind == "ptr":
        scalar = em.address(scalar)
    em.bind(op.result, Splat(len(em.view(op.result).registers), scalar))


@lowers(tt.UnsplatOp)
def lower_unsplat(em: Emitter, op: tt.UnsplatOp) -> None:
    value = em.registers(op.src).register(em, 0)
    em.bind(op.result, em.b.inttoptr(value, POINTER) if is_pointer(op.result.type) else value)


def rearranged(
    em: Emitter, operand: SSAValue, result: SSAValue, origin: Callable[[Coordinates], Coordinates]
) -> None:
    """Bind a result whose element at c is the operand's element at origin(c), a linear map.

    Triton's verifier makes the layouts of operand and result agree on lanes and warps most of the
    time.  Where they do not, the operand is converted first.
    """
    source = em.registers(operand)
    new = em.view(result)
    if isinstance(source, Splat):
        em.bind(result, Splat(len(new.registers), source.scalar))
        return
    old = em.view(operand)
    if not in_place(old, new, origin):
        have = em.layout(operand.type)
        wanted = moved_back(em.layout(result.type), origin, have)
        source, old = relaid(em, source, have, wanted), view_of(wanted)
    index = old.index
    em.bind(result, permuted(em, source, [index[origin(c)] for c in new.registers]))


def moved_back(
    result: LinearLayout, origin: Callable[[Coordinates], Coordinates], operand: LinearLayout
) -> LinearLayout:
    """The layout of the operand in which every slot has the element of the result's slot."""
    bases = {
        name: [origin(tuple(basis)) for basis in bases] for name, bases in result.bases.items()
    }
    return LinearLayout(bases, operand.out_dims, require_surjective=False)


@lowers(tt.ExpandDimsOp)
def lower_expand_dims(em: Emitter, op: tt.ExpandDimsOp) -> None:
    axis = op.axis.value.data
    rearranged(em, op.src, op.result, lambda c: c[:axis] + c[axis + 1 :])


@lowers(tt.BroadcastOp)
def lower_broadcast(em: Emitter, op: tt.BroadcastOp) -> None:
    old = shape_of(op.src)
    rearranged(em, op.src, op.result, lambda c: tuple(
        0 if s == 1 else x for x, s in zip(c, old, strict=True)))


@lowers(tt.TransOp)
def lower_trans(em: Emitter, op: tt.TransOp) -> None:
    order = [int(d) for d in op.order.get_values()]
    rearranged(em, op.src, op.result, lambda c: tuple(c[order.index(d)] for d in range(len(c))))


@lowers(tt.ReshapeOp)
def lower_reshape(em: Emitter, op: tt.ReshapeOp) -> None:
    old, new = shape_of(op.src), shape_of(op.result)
    rearranged(em, op.src, op.result, lambda c: unflatten(flatten_index(c, new), old))


@lowers(tt.JoinOp)
def lower_join(em: Emitter, op: tt.JoinOp) -> None:
    """result[..., s] = operand s[...]."""
    sides = [em.registers(v) for v in (op.lhs, op.rhs)]
    old, new = em.view(op.lhs), em.view(op.result)
    if not in_place(old, new, lambda c: c[:-1]) or any(c[-1] for c in (*new.lanes, *new.warps)):
        _joined_through_memory(em, op, sides, 2, 1)
        return
    picks = [(sides[c[-1]], old.index[c[:-1]]) for c in new.registers]
    em.bind(op.result, picked(em, sides[0].kind, picks))


def in_place(old: View, new: View, origin: Callable[[Coordinates], Coordinates]) -> bool:
    """True if every lane already has the elements that its registers of `new` need."""
    return all(
        a == origin(b)
        for mine, theirs in ((old.lanes, new.lanes), (old.warps, new.warps))
        for a, b in zip(mine, theirs, strict=True)
    ) and all(origin(c) in old.index for c in new.registers)


def picked(
    em: Emitter, kind: ir.Type, picks: Sequence[tuple[Registers, int]]
) -> Registers:
    """Registers taken from several others."""
    width = min(len(picks), 8)

    def mine(i: int) -> Sequence[tuple[Registers, int]]:
        return picks[i * width : (i + 1) * width]

    return Registers(
        len(picks), kind,
        lambda i: em.pack(kind, [side.register(em, r) for side, r in mine(i)]),
        needs=lambda i: [part for side, r in mine(i) for part in side.parts_of([r])],
    )


def _joined_through_memory(
    em: Emitter, op: tt.JoinOp | tt.CatOp, sides: Sequence[Registers], stride: int, offset: int
) -> None:
    """Join tensors: operand s goes to row-major positions p * stride + s * offset of the result."""
    writes = []
    for order, (side, value) in enumerate(zip(sides, (op.lhs, op.rhs), strict=True)):
        for r, place in enumerate(positions(em, em.view(value))):
            at = em.b.mul(place, stride) if stride > 1 else place
            at = em.b.add(at, order * offset)
            writes.append((at, side.register(em, r)))
    reads, count = positions(em, em.view(op.result)), prod(shape_of(op.result))
    em.bind(op.result, through_positions(em, sides[0].kind, count, writes, reads))


@lowers(tt.SplitOp)
def lower_split(em: Emitter, op: tt.SplitOp) -> None:
    """result s[...] = operand[..., s]."""
    source = em.registers(op.src)
    old, new = em.view(op.src), em.view(op.lhs)
    spread = any(c[-1] for c in (*old.lanes, *old.warps))
    if not spread and in_place(_first_half(old), new, lambda c: c):
        for side, result in enumerate(op.results):
            order = [old.index[(*c, side)] for c in new.registers]
            em.bind(result, permuted(em, source, order))
        return
    writes = [(p, source.register(em, r)) for r, p in enumerate(positions(em, old))]
    doubled = [em.b.mul(p, 2) for p in positions(em, new)]
    reads = [*doubled, *(em.b.add(p, 1) for p in doubled)]
    both = through_positions(em, source.kind, prod(old.shape), writes, reads)
    for side, result in enumerate(op.results):
        order = [side * len(doubled) + r for r in range(len(doubled))]
        em.bind(result, permuted(em, both, order))


@lowers(xe.RowsOp)
def lower_rows(em: Emitter, op: xe.RowsOp) -> None:
    """Select one of the consecutive registers of each instruction by an index."""
    held, old, new = em.registers(op.tensor), em.view(op.tensor), em.view(op.result)
    count = shape_of(op.tensor)[0] // shape_of(op.result)[0]
    if isinstance(held, Splat):
        em.bind(op.result, Splat(len(new.registers), held.scalar))
        return
    firsts = [old.index[row * count, column] for row, column in new.registers]
    runs = [[old.index[row * count + i, column] for i in range(count)]
            for row, column in new.registers]
    threads = [[(row * count, column) for row, column in bits] for bits in (new.lanes, new.warps)]
    if (threads != [list(old.lanes), list(old.warps)] or held.width % count
            or runs != [list(range(first, first + count)) for first in firsts]):
        raise UnsupportedError("rows that are not consecutive registers")
    index, made = em.scalar(op.first), []
    for first in firsts:
        inside = first % held.width
        at = em.b.add(index, inside) if inside else index
        made.append(em.b.extract(held.chunk(em, first // held.width), at))
    em.bind(op.result, from_scalars(em, held.kind, made))


@lowers(xe.SwapOp)
def lower_swap(em: Emitter, op: xe.SwapOp) -> None:
    """Exchange neighbours between registers, between lanes, or through shared local memory."""
    source, view, stride = em.registers(op.src), em.view(op.src), op.stride.value.data
    there = unflatten(stride, view.shape)
    if isinstance(source, Splat):
        em.bind(op.result, source)
    elif there in view.index:
        em.bind(op.result, permuted(em, source, [
            view.index[tuple(a ^ b for a, b in zip(c, there, strict=True))]
            for c in view.registers]))
    elif there in view.lanes:
        mask = 1 << view.lanes.index(there)
        chunks = [_other_lanes(em, chunk, mask) for chunk in source.all_chunks(em)]
        em.bind(op.result, eager(source.kind, chunks, source.width))
    else:
        places = positions(em, view)
        writes = [(place, source.register(em, r)) for r, place in enumerate(places)]
        reads = [em.b.xor(place, stride) for place in places]
        em.bind(op.result, through_positions(em, source.kind, prod(view.shape), writes, reads))


def _other_lanes(em: Emitter, chunk: ir.Operand, mask: int) -> ir.Operand:
    """Each element of a chunk from lane `own ^ mask`."""
    if chunk.type.kind != "vec":
        return shuffle_xor(em, chunk, mask)
    kind, count = chunk.type.scalar, chunk.type.count
    words = em.b.bitcast(chunk, vector_of(I32, count)) if kind == FLOAT else chunk
    moved = [shuffle_xor(em, em.b.extract(words, i), mask) for i in range(count)]
    return em.b.bitcast(em.pack(moved[0].type, moved), chunk.type)


@lowers(xe.PositionBitOp)
def lower_position_bit(em: Emitter, op: xe.PositionBitOp) -> None:
    view = em.view(op.result)
    there = unflatten(op.stride.value.data, view.shape)
    dim = next(d for d, at in enumerate(there) if at)
    at = em.thread_part(view, dim)
    moves = any(c[dim] & there[dim] for c in (*view.lanes, *view.warps))
    thread = em.b.icmp("ne", em.b.and_(at, there[dim]), 0) if moves and at is not None else None
    bits = [int(bool(c[dim] & there[dim])) for c in view.registers]

    def make(i: int) -> ir.Operand:
        mine = bits[i * width : (i + 1) * width]
        fixed = ir.integers(I1, mine) if width > 1 else ir.constant(I1, mine[0])
        if thread is None:
            return fixed
        return em.b.xor(em.splat(thread, width), fixed) if any(mine) else em.splat(thread, width)

    width = min(len(bits), CHUNK)
    em.bind(op.result, Registers(len(bits), I1, make))


def _first_half(view: View) -> View:
    """The part of a view where the last coordinate is 0, without that coordinate."""
    return View(
        view.shape[:-1], tuple(c[:-1] for c in view.registers if not c[-1]),
        tuple(c[:-1] for c in view.lanes), tuple(c[:-1] for c in view.warps),
    )


@lowers(tt.CatOp)
def lower_cat(em: Emitter, op: tt.CatOp) -> None:
    """Concatenate along dimension 0, in order, although Triton's `can_reorder` allows any."""
    left, right = em.registers(op.lhs), em.registers(op.rhs)
    new, shape = em.view(op.result), shape_of(op.lhs)
    views = [em.view(op.lhs), em.view(op.rhs)]

    def inner(c: Coordinates) -> Coordinates:
        return (c[0] % shape[0], *c[1:])

    split = any(c[0] & shape[0] for c in (*new.lanes, *new.warps))
    if split or not all(in_place(view, new, inner) for view in views):
        _joined_through_memory(em, op, [left, right], 1, prod(shape))
        return
    picks = [
        (right, views[1].index[inner(c)]) if c[0] & shape[0] else (left, views[0].index[inner(c)])
        for c in new.registers
    ]
    em.bind(op.result, picked(em, left.kind, picks))


_AXES = {"x": 0, "y": 1, "z": 2}


def _axis(op: tt.GetProgramIdOp | tt.GetNumProgramsOp) -> int:
    return _AXES[attribute(op, "axis").data]


@lowers(tt.GetProgramIdOp)
def lower_program_id(em: Emitter, op: tt.GetProgramIdOp) -> None:
    wide = em.call(opencl.GROUP_ID, [number(_axis(op))])
    em.bind(op.result, em.remember(("id", str(wide)), lambda: em.b.trunc(wide, I32)))


@lowers(tt.GetNumProgramsOp)
def lower_num_programs(em: Emitter, op: tt.GetNumProgramsOp) -> None:
    wide = em.call(opencl.NUM_GROUPS, [number(_axis(op))])
    em.bind(op.result, em.b.trunc(wide, I32))


@lowers(xe.WarpIdOp)
def lower_warp_id(em: Emitter, op: xe.WarpIdOp) -> None:
    em.bind(op.id, em.warp_id())
