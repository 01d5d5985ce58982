"""Lowering of the dialect `vector` on whole vectors, fragments and tiles."""

from __future__ import annotations

from math import prod

from xdsl.dialects import vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import vector_ext
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics import llvm
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.tensors.registers import Registers, Splat
from triton_xe.lowering.emit.types import I64, number
from triton_xe.lowering.emit.xegpu.fragments import fragment_value
from triton_xe.lowering.emit.xegpu.mapping import Spread
from triton_xe.lowering.emit.xegpu.spreads import is_operand, spread_of
from triton_xe.lowering.emit.xegpu.vectors import (
    from_lane,
    from_list,
    held_type,
    pick,
    rearranged,
    register_count,
    retyped,
    vector_elementwise,
)


@lowers(vector_ext.StepOp)
def lower_step(em: Emitter, op: vector_ext.StepOp) -> None:
    spread = spread_of(em, op.result)
    count = register_count(op.result.type, spread)
    if spread.own:
        em.bind(op.result, from_list(em, I64, [ir.constant(I64, i) for i in range(count)]))
        return
    lane = em.b.zext(em.lane_id(), I64)
    base = em.b.mul(lane, spread.unit) if spread.unit > 1 else lane
    steps = [spread.lanes * (r // spread.unit) * spread.unit + r % spread.unit
             for r in range(count)]
    em.bind(op.result, from_list(em, I64, [em.b.add(base, s) if s else base for s in steps]))


@lowers(vector_ext.ShapeCastOp)
def lower_shapecast(em: Emitter, op: vector_ext.ShapeCastOp) -> None:
    held = em.get(op.source)
    if not isinstance(held, Registers):
        raise UnsupportedError("vector.shape_cast of a tile; load it in the shape that is needed")
    em.bind(op.result, held)


@lowers(vector_ext.PermuteOp)
def lower_permute(em: Emitter, op: vector_ext.PermuteOp) -> None:
    """Permute elements; those of other lanes come by shuffles."""
    spreads, target = [spread_of(em, v) for v in op.sources], spread_of(em, op.result)
    if {s.own for s in spreads} != {target.own}:
        raise UnsupportedError(f"{op.name}: a fragment becomes a whole vector")
    kind, per = held_type(op.result.type, target)
    if per > 1:
        raise UnsupportedError(f"{op.name} of {op.result.type}: elements of 8 bits or more")
    held: list[ir.Operand] = []
    slots: list[tuple[int, int]] = []
    for value, spread in zip(op.sources, spreads, strict=True):
        assert isinstance(value.type, VectorType)
        places = map(spread.slot, range(prod(value.type.get_shape())))
        slots += [(len(held) + register, lane) for register, lane in places]
        registers = em.registers(value)
        held += [registers.register(em, r) for r in range(registers.count)]
    found = {target.slot(p): slots[origin] for p, origin in enumerate(op.origins.get_values())
             if origin >= 0}
    count = register_count(op.result.type, target)
    em.bind(op.result, rearranged(em, held, kind, found, count, target))


@lowers(vector.BitcastOp)
def lower_vector_bitcast(em: Emitter, op: vector.BitcastOp) -> None:
    kind, _ = held_type(op.result.type, spread_of(em, op.result))
    em.bind(op.result, retyped(em, em.registers(op.source), kind))


@lowers(vector.BroadcastOp)
def lower_broadcast(em: Emitter, op: vector.BroadcastOp) -> None:
    result, source = op.vector, em.get(op.source)
    if is_operand(em, result) and isinstance(source, ir.Operand):
        size = prod(result.type.get_shape())
        em.bind(result, fragment_value(em, em.splat(source, size), result.type))
        return
    count = register_count(result.type, spread_of(em, result))
    if not isinstance(source, Registers):
        em.bind(result, Splat(count, source))
        return
    kind = op.source.type
    assert isinstance(kind, VectorType)
    spread, size = spread_of(em, result), prod(kind.get_shape())
    _whole_rows(op, spread, size)
    em.bind(result, pick(em, source, [r % source.count for r in range(count)]))


def _whole_rows(op: Operation, spread: Spread, size: int) -> None:
    """Refuse elements that do not fill all lanes evenly."""
    if not spread.own and size % (spread.lanes * spread.unit):
        raise UnsupportedError(
            f"{op.name}: {size} elements do not fill the {spread.lanes} lanes evenly"
        )


def _range(op: vector.ExtractOp | vector.InsertOp, whole: SSAValue) -> tuple[int, int]:
    """(first element, number of elements) that static_position picks."""
    kind = whole.type
    assert isinstance(kind, VectorType)
    position = [int(p) for p in op.static_position.get_values()]
    shape = kind.get_shape()
    if any(p < 0 or p >= s for p, s in zip(position, shape, strict=False)):
        raise UnsupportedError(f"{op.name}: only constant positions inside the vector")
    first = 0
    for p, size in zip(position, shape, strict=False):
        first = first * size + p
    rest = prod(shape[len(position) :])
    return first * rest, rest


@lowers(vector.ExtractOp)
def lower_extract(em: Emitter, op: vector.ExtractOp) -> None:
    source = op.vector
    first, size = _range(op, source)
    spread = spread_of(em, source)
    held = em.registers(source)
    (result,) = op.results
    if not isinstance(result.type, VectorType):
        register, lane = spread.slot(first)
        value = held.register(em, register)
        em.bind(result, value if spread.own else from_lane(em, value, number(lane)))
        return
    _whole_rows(op, spread, size)
    _whole_rows(op, spread, first)
    start, count = spread.registers(first), register_count(result.type, spread)
    em.bind(result, pick(em, held, list(range(start, start + count))))


@lowers(vector.InsertOp)
def lower_insert(em: Emitter, op: vector.InsertOp) -> None:
    value, whole, result = op.source, op.dest, op.result
    first, size = _range(op, whole)
    spread = spread_of(em, result)
    held = em.registers(whole)
    scalars = [held.register(em, r) for r in range(held.count)]
    if isinstance(value.type, VectorType):
        _whole_rows(op, spread, size)
        _whole_rows(op, spread, first)
        part, start = em.registers(value), spread.registers(first)
        scalars[start : start + part.count] = [part.register(em, r) for r in range(part.count)]
    else:
        register, lane = spread.slot(first)
        new = em.scalar(value)
        if not spread.own:
            here = em.b.icmp("eq", em.lane_id(), lane)
            new = em.b.select(here, new, scalars[register])
        scalars[register] = new
    em.bind(result, from_list(em, held.kind, scalars))


@lowers(vector.FMAOp)
def lower_fma(em: Emitter, op: vector.FMAOp) -> None:
    def write(a: ir.Operand, b: ir.Operand, c: ir.Operand) -> ir.Operand:
        return em.call(llvm.named("fma"), [a, b, c])

    vector_elementwise(em, op, write)
