"""Vectors of XeGPU programs: their registers, elementwise operations, constants.

Whole vectors and fragments (`spreads`) are bound as `Registers`, operands of instructions as
`FragmentValue`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatTF32Type, IntegerType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.maths.conversions import constant
from triton_xe.lowering.emit.tensors.registers import Registers, Splat, concatenated, from_scalars
from triton_xe.lowering.emit.types import (
    FLOAT,
    I8,
    I32,
    I64,
    bits_of,
    number,
    scalar_type,
    vector_of,
)
from triton_xe.lowering.emit.xegpu.fragments import (
    MAX_VECTOR,
    FragmentValue,
    fragment_constant,
    fragment_elements,
    fragment_value,
)
from triton_xe.lowering.emit.xegpu.mapping import Slot, Spread
from triton_xe.lowering.emit.xegpu.spreads import is_operand, spread_of

# -- registers ------------------------------------------------------------------------------------


def held_type(kind: Attribute, spread: Spread) -> tuple[ir.Type, int]:
    """(LLVM type of one register of a vector, elements in it); small integers share registers."""
    assert isinstance(kind, VectorType)
    element = kind.element_type
    if isinstance(element, FloatTF32Type):
        return FLOAT, 1
    if isinstance(element, IntegerType) and element.bitwidth in (2, 4):
        bits = spread.unit * element.bitwidth
        if bits < 8:
            raise UnsupportedError(
                f"{kind}: nothing says how its {element.bitwidth}-bit elements are packed; they"
                " serve xegpu.dpas only"
            )
        return ir.integer(min(bits, 64)), min(bits, 64) // element.bitwidth
    return scalar_type(element), 1


def register_count(kind: Attribute, spread: Spread) -> int:
    """Registers of one lane that hold a vector."""
    assert isinstance(kind, VectorType)
    _, per = held_type(kind, spread)
    return max(1, spread.registers(prod(kind.get_shape())) // per)


_WIDTHS = (8, 4, 3, 2)


class Image(Registers):
    """Registers of one vector, any part of which is taken in any form."""

    def __init__(self, em: Emitter, kind: ir.Type, whole: ir.Operand, count: int) -> None:
        super().__init__(count, kind, lambda i: self.read(em, i * self.width, self.width))
        self.whole = whole

    @property
    def chunks(self) -> int:
        return -(-self.count // self.width)

    def read(self, em: Emitter, first: int, count: int, into: ir.Type | None = None) -> ir.Operand:
        """`count` values from register `first`, as `into` (all of them) or of the own type."""
        into = into or vector_of(self.kind, min(count, self.count - first))
        whole, have, bits = self.whole, bits_of(self.whole.type.scalar), bits_of(into.scalar)
        start = first * bits_of(self.kind)
        if bits >= have:
            assert start % have == 0
            return _cast(em, part_of(em, whole, start // have, into.lanes * bits // have), into)
        flat = em.remember((whole, "as", into.scalar), lambda: _cast(
            em, whole, vector_of(into.scalar, whole.type.lanes * have // bits)))
        return part_of(em, flat, start // bits, into.lanes)


def chunk_sizes(registers: Registers) -> list[int]:
    """Registers in each chunk; the last one may have fewer."""
    full, rest = divmod(registers.count, registers.width)
    return [registers.width] * full + ([rest] if rest else [])


def pick(em: Emitter, source: Registers, order: Sequence[int]) -> Registers:
    """Registers by number, in groups of eight whatever their count."""
    if list(order) == list(range(source.count)):
        return source
    if isinstance(source, Splat):
        return Splat(len(order), source.scalar)
    return from_list(em, source.kind, [source.register(em, r) for r in order])


def from_list(em: Emitter, kind: ir.Type, scalars: Sequence[ir.Operand]) -> Registers:
    """Registers of one scalar each; eight form a chunk if that comes out even."""
    count = len(scalars)
    width = next(w for w in (8, 7, 6, 5, 4, 3, 2, 1) if count % w == 0) if count > 8 else count
    if width == min(count, 8):
        return from_scalars(em, kind, scalars)
    held = list(scalars)
    return Registers(
        count, kind, lambda i: em.pack(kind, held[i * width : (i + 1) * width]), width)


def packed(em: Emitter, source: Registers, unit: int, first: int, count: int) -> ir.Operand:
    """`count` registers from `first` as `<n x i{unit}>`: the raw form that instructions take."""
    total = count * bits_of(source.kind)
    shape = vector_of(ir.integer(unit), max(1, total // unit))
    if total // unit > MAX_VECTOR and not isinstance(source, Image):
        source = image_of(em, source, source.kind)
    if isinstance(source, Image):
        return source.read(em, first, count, shape)
    size = unit // bits_of(source.kind)
    pieces = []
    step = max(size, min(8, count))
    for at in range(first, first + count, step):
        length = min(step, first + count - at)
        part = em.pack(source.kind, [source.register(em, at + i) for i in range(length)]) if (
            length != source.width or at % source.width) else source.slice(em, at, length)
        pieces.append(_cast(em, part, vector_of(
            ir.integer(unit), max(1, length * bits_of(source.kind) // unit))))
    return concatenated(em, pieces)


def retyped(em: Emitter, source: Registers, kind: ir.Type) -> Registers:
    """Reinterpret registers as another type."""
    if source.kind == kind:
        return source
    if bits_of(source.kind) == bits_of(kind):
        return Registers(source.count, kind, lambda i: _cast(
            em, source.chunk(em, i), vector_of(kind, source.width)), source.width, source.parts)
    return image_of(em, source, kind)


def image_of(em: Emitter, source: Registers, kind: ir.Type) -> Image:
    """Join registers to one vector, of which registers of any type are parts."""
    whole = em.pack(source.kind, [source.register(em, r) for r in range(source.count)])
    return Image(em, kind, whole, source.count * bits_of(source.kind) // bits_of(kind))


def part_of(em: Emitter, vector: ir.Operand, first: int, count: int) -> ir.Operand:
    """`count` elements of a vector, from element `first` on."""
    if count == vector.type.lanes:
        return vector
    if count == 1:
        return em.b.extract(vector, first)
    return em.shuffle(vector, vector, range(first, first + count))


def unpacked(em: Emitter, raw: ir.Operand, kind: ir.Type, count: int) -> Registers:
    """Registers of `kind` from a raw value with `count` of them."""
    if count <= 8:
        value = _cast(em, raw, vector_of(kind, count))
        return Registers(count, kind, lambda _: value)
    return Image(em, kind, raw, count)


def _cast(em: Emitter, value: ir.Operand, into: ir.Type) -> ir.Operand:
    return value if value.type == into else em.b.bitcast(value, into)


# -- element-wise ops, constants ------------------------------------------------------------------


def vector_elementwise(em: Emitter, op: Operation, write: Any) -> None:
    """Apply an element-wise op to vectors in registers, or to fragments."""
    (result,) = op.results
    if is_operand(em, result):
        operands = [em.get(v) for v in op.operands]
        count = prod(result.type.get_shape())  # type: ignore[attr-defined]
        flat = [fragment_elements(em, held, v.type) if isinstance(held, FragmentValue)
                else em.splat(held, count) for held, v in zip(operands, op.operands, strict=True)]
        em.bind(result, fragment_value(em, write(*flat), result.type))
        return
    kind, _ = held_type(result.type, spread_of(em, result))
    count = register_count(result.type, spread_of(em, result))
    held = [_as_registers(em, v, count) for v in op.operands]
    if all(isinstance(h, Splat) for h in held):
        em.bind(result, Splat(count, write(*(h.scalar for h in held))))  # type: ignore[attr-defined]
        return
    width = _even_width(next(h for h in held if not isinstance(h, Splat)))
    operands = [_with_width(em, h, width) for h in held]
    em.bind(result, Registers(
        count, kind, lambda i: write(*(h.chunk(em, i) for h in operands)), width,
        lambda i: [part for h in operands for part in h.parts(i)]))


def _as_registers(em: Emitter, value: SSAValue, count: int) -> Registers:
    held = em.get(value)
    return held if isinstance(held, Registers) else Splat(count, held)


def _even_width(held: Registers) -> int:
    """A width of chunks that OpenCL has vectors of."""
    if set(chunk_sizes(held)) <= {1, *_WIDTHS}:
        return held.width
    return next((w for w in _WIDTHS if held.count % w == 0), 1)


def _with_width(em: Emitter, held: Registers, width: int) -> Registers:
    """The registers in chunks of `width`."""
    if held.width == width and not isinstance(held, Splat):
        return held
    if isinstance(held, Splat):
        return Registers(held.count, held.kind, lambda _: em.splat(held.scalar, width), width)
    return Registers(held.count, held.kind, lambda i: em.pack(
        held.kind, [held.register(em, r) for r in range(i * width, (i + 1) * width)]), width,
        lambda i: held.parts_of(range(i * width, (i + 1) * width)))


def vector_constant(em: Emitter, op: Operation, held: DenseIntOrFPElementsAttr[Any]) -> None:
    """Bind a constant vector."""
    (result,) = op.results
    if is_operand(em, result):
        em.bind(result, fragment_constant(em, result.type, held.get_values()[0]))
        return
    assert isinstance(result.type, VectorType)
    spread = spread_of(em, result)
    kind, per = held_type(result.type, spread)
    values = held.get_values()
    count = register_count(result.type, spread)
    if held.is_splat() and per == 1:
        em.bind(result, Splat(count, constant(result.type.element_type, values[0])))
        return
    if per > 1:
        raise UnsupportedError(f"a constant {result.type}; make it of 8-bit or larger elements")
    table: dict[tuple[int, int], Any] = {}
    for p, value in enumerate(values):
        table[spread.slot(p)] = value
    rows = [[table.get((r, lane)) for lane in range(spread.lanes)] for r in range(count)]
    if spread.own:
        rows = [[table[r, 0]] for r in range(count)]
    scalars = [_lane_constant(em, result.type.element_type, row) for row in rows]
    em.bind(result, from_list(em, kind, scalars))


def _lane_constant(em: Emitter, element: Attribute, row: Sequence[Any]) -> ir.Operand:
    """A value per lane: the lane number itself where it fits, else picked one by one."""
    known = [v for v in row if v is not None]
    kind = constant(element, known[0]).type
    if kind.kind == "int" and kind.bits > 1 and all(
        isinstance(v, int) for v in known
    ) and len(known) > 1:
        step = known[1] - known[0]
        if all(v == known[0] + i * step for i, v in enumerate(known)):
            lane = _resized(em, em.lane_id(), kind)
            return em.b.add(em.b.mul(lane, constant(element, step)), constant(element, known[0]))
    value: ir.Operand = constant(element, known[0])
    for place, held in enumerate(row):
        if held is not None and held != known[0]:
            here = em.b.icmp("eq", em.lane_id(), place)
            value = em.b.select(here, constant(element, held), value)
    return value


def _resized(em: Emitter, value: ir.Operand, kind: ir.Type) -> ir.Operand:
    have = bits_of(value.type)
    if have == kind.bits:
        return value
    return em.b.zext(value, kind) if have < kind.bits else em.b.trunc(value, kind)


# -- elements of other lanes ----------------------------------------------------------------------


def rearranged(
    em: Emitter, held: Sequence[ir.Operand], kind: ir.Type, found: Mapping[Slot, Slot], count: int,
    target: Spread,
) -> Registers:
    """`count` registers; slots take what other slots hold, or are zero."""
    rows = defaultdict[int, dict[int, Slot]](dict)
    for (register, lane), origin in found.items():
        rows[register][lane] = origin
    return from_list(
        em, kind, [_gather_register(em, held, kind, rows[r], target) for r in range(count)])


def _gather_register(
    em: Emitter, held: Sequence[ir.Operand], kind: ir.Type, row: dict[int, tuple[int, int]],
    target: Spread,
) -> ir.Operand:
    """One register from (register, lane) of each lane; zero in other lanes."""
    if target.own:
        return held[row[0][0]] if row else ir.zero(kind)
    value: ir.Operand | None = None if len(row) == target.lanes else ir.zero(kind)
    for register in sorted({r for r, _ in row.values()}):
        lanes = {lane: at for lane, (r, at) in row.items() if r == register}
        part = held[register]
        if any(lane != at for lane, at in lanes.items()):
            table = sum(at << (4 * lane) for lane, at in lanes.items())
            place = em.b.shl(em.b.zext(em.lane_id(), I64), 2)
            index = em.b.and_(em.b.trunc(em.b.lshr(ir.constant(I64, table), place), I32), 15)
            part = from_lane(em, part, index)
        if value is None:
            value = part
            continue
        mask = em.b.lshr(number(sum(1 << lane for lane in lanes)), em.lane_id())
        here = em.b.icmp("ne", em.b.and_(mask, 1), 0)
        value = em.b.select(here, part, value)
    assert value is not None
    return value


def from_lane(em: Emitter, value: ir.Operand, lane: ir.Operand) -> ir.Operand:
    """The value of lane `lane`, in every lane."""
    bits = bits_of(value.type)
    raw = _cast(em, value, ir.integer(bits))
    if bits == 1:
        raw = em.b.zext(raw, I8)
    found = em.call(genisa.WAVE_SHUFFLE_INDEX, [raw, lane, number(0)])
    if bits == 1:
        return em.b.trunc(found, ir.integer(1))
    return _cast(em, found, value.type)
