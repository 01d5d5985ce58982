"""Blocks of XeGPU programs: 2D messages, or accesses of single lanes.

A block is gathered if its descriptor is marked `xe.gather`; another one whose constants break a
rule of messages is refused.  The masks of gathers implement the hardware's bounds: outside of the
base tensor, loads return zero and stores are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import VectorType, i8
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.xegpu.dpas import DpasMxOp, DpasOp, lanes_reason
from triton_xe.dialects.xegpu.nd import CreateNdTdescOp, LoadNdOp, StoreNdOp, broken_rule
from triton_xe.dialects.xegpu.types import TensorDescType, tensor_desc, vnni_factor
from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.hardware import block_2d
from triton_xe.hardware.block_2d import BlockShape, cache_code
from triton_xe.hardware.memory import CACHE_LINE_BYTES
from triton_xe.intrinsics import genisa, llvm
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.lane_access import LaneAccess, Where, load_each, store_each
from triton_xe.lowering.emit.tensors.exchange import kept_region
from triton_xe.lowering.emit.tensors.registers import Registers
from triton_xe.lowering.emit.types import I1, I8, I32, I64, POINTER, bits_of, number, vector_of
from triton_xe.lowering.emit.xegpu.mapping import (
    Access,
    Choice,
    Spread,
    Table,
    choose_load,
    choose_store,
    lane_parts,
    wanted,
)
from triton_xe.lowering.emit.xegpu.payloads import Payload
from triton_xe.lowering.emit.xegpu.spreads import spread_of
from triton_xe.lowering.emit.xegpu.vectors import Image, from_list, held_type, packed, pick, retyped
from triton_xe.lowering.facts.values import constant_of, integer_attribute

VOID = ir.VOID
SLM_BYTES = "xe.slm_bytes"


@dataclass(frozen=True)
class Block:
    """A block's base tensor and position, in elements and rows; `encoded` for messages.

    `misalignment` is added to x for a base that was rounded down; None if it is aligned.
    """

    base: ir.Operand
    height: ir.Operand | None
    width: ir.Operand | None
    pitch: ir.Operand | None
    y: ir.Operand
    x: ir.Operand
    encoded: tuple[ir.Operand, ir.Operand, ir.Operand, ir.Operand] | None = None
    misalignment: ir.Operand | None = None
    transposed: bool = False

    def flatten(self, em: Emitter) -> tuple[list[ir.Operand], Callable[[list[ir.Operand]], Any]]:
        return [self.y, self.x], lambda parts: replace(self, y=parts[0], x=parts[1])


def index_value(em: Emitter, value: SSAValue | int) -> ir.Operand:
    """An index operand as i32."""
    if isinstance(value, int):
        return number(value)
    held = em.scalar(value)
    return held if bits_of(held.type) == 32 else em.b.trunc(held, I32)


def create_block(em: Emitter, op: CreateNdTdescOp) -> Block:
    """The block that an op describes."""
    kind = op.desc_type
    check_lanes(em, op.name, kind)
    check_bytes(op, kind, (op.offsets[-1], *op.shape[-1:], *op.strides[:-1]))
    local = kind.memory_scope == "slm"
    base = slm_base(em, op, op.base) if local else em.address(em.get(op.base))
    if kind.rank == 1:
        return Block(base, None, None, None, number(0), index_value(em, op.offsets[0]))
    inner = op.strides[-1]
    if (inner if isinstance(inner, int) else constant_of(inner)) != 1:
        raise LegalityError(
            f"{op.name}: the innermost stride is known at run time only; write 1, which it must be"
        )
    height, width = (index_value(em, v) for v in op.shape[-2:])
    pitch = index_value(em, op.strides[-2])
    y, x = (index_value(em, v) for v in op.offsets[-2:])
    made = Block(base, height, width, pitch, y, x, transposed=op.gather_transposed is not None)
    if is_by_lanes(op):
        return made
    require(op, kind, broken_rule(op, em.target))
    return made if kind.rank > 2 else encoded(em, op, made)


def is_by_lanes(op: CreateNdTdescOp) -> bool:
    """True if lanes access a described block element by element, or in shared memory."""
    return op.gather is not None or op.desc_type.memory_scope == "slm"


def check_lanes(em: Emitter, name: str, kind: TensorDescType) -> None:
    """Refuse maps for subgroups of another size."""
    if kind.lane_map is not None:
        reason = lanes_reason(kind.lane_map, em.target)
        if reason is not None:
            raise LegalityError(f"{name}: {reason}")


def check_bytes(op: Operation, kind: TensorDescType, amounts: Iterable[SSAValue | int]) -> None:
    """Refuse offsets, widths and strides that end within a byte."""
    per = 8 // kind.element_bits
    odd = next((a for a in amounts if per > 1 and isinstance(a, int) and a % per), None)
    if odd is not None:
        raise LegalityError(
            f"{op.name} of {kind}: {odd} elements of {kind.element_bits} bits end within a byte;"
            " offsets, widths and strides are even")


def encoded(em: Emitter, op: CreateNdTdescOp, block: Block) -> Block:
    """The surface in the form of messages: lengths in bytes minus one, from an aligned base."""
    bits = op.desc_type.element_bits
    alignment = 1 if op.base_alignment is None else op.base_alignment.value.data
    assert block.width is not None
    assert block.pitch is not None
    assert block.height is not None
    width, pitch = (scaled(em, v, bits) for v in (block.width, block.pitch))
    base, low = block.base, None
    if alignment % block_2d.alignment(em.target).base:
        here = block.base
        rest = em.remember(("low", here), lambda: em.b.and_(
            em.b.trunc(here, I32), block_2d.BASE_ALIGNMENT - 1))
        base = em.remember(("aligned", here), lambda: em.b.and_(
            here, -block_2d.BASE_ALIGNMENT & ((1 << 64) - 1)))
        width = em.b.add(width, rest)
        low = em.b.udiv(em.b.mul(rest, 8), bits) if bits != 8 else rest
    width, height, pitch = (em.b.sub(length, 1) for length in (width, block.height, pitch))
    return replace(block, encoded=(base, width, height, pitch), misalignment=low)


def scaled(em: Emitter, elements: ir.Operand, bits: int) -> ir.Operand:
    """A number of elements in bytes."""
    if bits >= 8:
        return em.b.mul(elements, bits // 8)
    return em.b.sdiv(elements, 8 // bits)


def slm_base(em: Emitter, op: Operation, base: SSAValue) -> ir.Operand:
    """A pointer into the function's shared local memory, from an offset in bytes."""
    size = integer_attribute(em.source, SLM_BYTES)
    if size is None:
        raise UnsupportedError(
            f"{op.name}: an address in shared local memory counts from its start; give its size"
            f" as the function's attribute {SLM_BYTES}"
        )
    offset = em.address(em.get(base))
    offset = offset if bits_of(offset.type) == 64 else em.b.sext(offset, I64)
    return em.b.gep(I8, kept_region(em, size), offset)


# -- loads ----------------------------------------------------------------------------------------


def access_of(kind: TensorDescType, value: Attribute, op: LoadNdOp | None) -> Access:
    """The access of a load or (without `op`) a store; 4-bit elements are moved as bytes."""
    assert isinstance(value, VectorType)
    shape = tuple(value.get_shape())
    ratio = max(1, 8 // kind.element_bits)
    if ratio > 1:
        if op is not None and (op.packed is not None or op.transpose is not None):
            raise UnsupportedError(
                f"xegpu.load_nd of {kind}: elements of less than 8 bits are loaded as they are"
            )
        sizes = (*kind.get_shape()[:-1], kind.get_shape()[-1] // ratio)
        kind = tensor_desc(sizes, i8, array_length=kind.array_length,
                           boundary_check=kind.boundary_check, memory_scope=kind.memory_scope)
        shape = (*shape[:-1], shape[-1] // ratio)
    if op is None:
        return Access(kind, shape, ratio=ratio)
    return Access(
        kind, shape, op.packed is not None, op.transpose is not None, op.unit_bits, ratio)


def _in_units(em: Emitter, block: Block, access: Access) -> Block:
    """A block in units of the access: bytes for 4-bit elements.

    A block that begins within a byte gets address 0, which faults.
    """
    if access.ratio == 1:
        return block
    shift = access.ratio.bit_length() - 1
    x, width, pitch = (None if value is None else em.b.ashr(value, shift)
                       for value in (block.x, block.width, block.pitch))
    assert x is not None
    made = replace(block, x=x, width=width, pitch=pitch)
    if block.x.is_constant:
        return made
    is_odd = em.b.trunc(block.x, ir.integer(1))
    return replace(made, base=em.b.select(is_odd, ir.zero(block.base.type), block.base))


def _byte_spread(kind: TensorDescType, spread: Spread) -> Spread:
    if kind.element_bits >= 8:
        return spread
    return replace(spread, unit=max(1, spread.unit * kind.element_bits // 8))


def load_block(
    em: Emitter, op: LoadNdOp, block: Block, kind: TensorDescType, value: Attribute
) -> Registers:
    """The registers of a load's value, or of the 2D block of it that `kind` describes."""
    spread = spread_of(em, op.value)
    held, _ = held_type(op.value.type, spread)
    access = access_of(kind, value, op)
    inner = _byte_spread(kind, spread)
    if kind.rank == 1:
        made = _load_1d(em, op, block, access, inner)
    elif block.encoded is None or op.valid is not None:
        made = load_elements(em, op, block, access, inner)
    else:
        choice = choose_load(access, inner, _may_pack(em, op))
        if choice is None:
            raise LegalityError(
                f"xegpu.load_nd of {kind} to {value}: no message of {em.target.name}"
                " brings the elements to the lanes that need them"
            )
        return _message_load(em, op, block, choice, held, access)
    return retyped(em, made, held)


def _may_pack(em: Emitter, op: LoadNdOp) -> bool:
    """True if packing during the load is free: the value is used as B, or the map requires it."""
    kind = op.desc_type
    factor = vnni_factor(kind.element_type) if kind.element_bits >= 8 else 1
    if kind.lane_map is not None:
        return factor > 1 and kind.lane_map.data[0] == factor
    uses = [isinstance(use.operation, DpasOp | DpasMxOp) and use.index == 1
            for use in op.value.uses]
    return bool(uses) and all(uses)


def _message_load(
    em: Emitter, op: LoadNdOp, block: Block, choice: Choice, held: ir.Type, access: Access
) -> Registers:
    """Load a block by one message, and return its registers in the order of the value."""
    count = choice.shape.result_bytes * 8 // (choice.register_bits * em.state.lanes)
    kind = vector_of(ir.integer(choice.register_bits), count)
    value = block_read(em, op, block, choice.shape, op.desc_type.element_bits, kind)
    total = count * choice.register_bits // bits_of(held)
    image = Image(em, held, value, total)
    per = bits_of(held) // access.desc.element_bits
    order = choice.order[::per]
    order = tuple(r // per for r in order)
    if order == tuple(range(len(order))):
        return image if len(order) == total else Image(em, held, value, len(order))
    return pick(em, image, order)


def message(
    em: Emitter, block: Block | Payload, shape: BlockShape, bits: int, cache: int
) -> list[ir.Operand]:
    """The operands of a 2D block message: thirteen, or ten of a payload's.

    With 4-bit elements, an x within a byte makes the message illegal.
    """
    sizes = (shape.element_bits, shape.width, shape.height, shape.blocks)
    form = [*map(number, sizes), ir.constant(I1, shape.transpose), ir.constant(I1, shape.vnni),
            number(cache)]
    if isinstance(block, Payload):
        pointer, columns, rows = block.place
        return [pointer, number(columns), number(rows), *form]
    assert block.encoded is not None
    x = block.x
    if block.misalignment is not None:
        x = em.b.add(x, block.misalignment)
    if shape.element_bits != bits:
        moved = em.b.ashr(x, (shape.element_bits // bits).bit_length() - 1)
        inside = bits < 8 and not x.is_constant
        x = em.b.or_(moved, em.b.and_(x, 1)) if inside else moved
    base, width, height, pitch = block.encoded
    return [base, width, height, pitch, x, block.y, *form]


def require(op: Operation, kind: TensorDescType, reason: str | None) -> None:
    """Raise `LegalityError` with the reason why no message fits, if there is one."""
    if reason is not None:
        raise LegalityError(f"{op.name} of {kind}: {reason}")


def block_read(
    em: Emitter, op: LoadNdOp, block: Block | Payload, shape: BlockShape, bits: int, kind: ir.Type
) -> ir.Operand:
    """Read a block by one message."""
    require(op, op.desc_type, block_2d.check_load(shape, em.target))
    em.state.block_loads += 1
    code = cache_code(op.cache_policy, em.target)
    read = genisa.LSC_2D_BLOCK_READ
    if isinstance(block, Payload):
        read = genisa.LSC_2D_BLOCK_READ_PAYLOAD
    return em.call(read, message(em, block, shape, bits, code), kind)


def block_write(
    em: Emitter, op: StoreNdOp, block: Block | Payload, shape: BlockShape, bits: int,
    raw: ir.Operand,
) -> None:
    """Write a block by one message."""
    require(op, op.desc_type, block_2d.check_store(shape, em.target))
    code = cache_code(op.cache_policy, em.target, write=True)
    write = genisa.LSC_2D_BLOCK_WRITE
    if isinstance(block, Payload):
        write = genisa.LSC_2D_BLOCK_WRITE_PAYLOAD
    em.call(write, [*message(em, block, shape, bits, code), raw])


WORDS = {32: "i32", 64: "i64"}


def _load_1d(
    em: Emitter, op: LoadNdOp, block: Block, access: Access, spread: Spread
) -> Registers:
    """Load a 1D block: by block messages for whole words, else one access per register."""
    bits = access.desc.element_bits
    table = wanted(access, spread)
    count = 1 + max(register for register, _ in table)
    start = _start_1d(em, _in_units(em, block, access), bits)
    kind = ir.integer(bits)
    if _in_turn(table, count, em.state.lanes) and bits in WORDS and op.cache_policy == "default":
        return _words_1d(em, start, kind, count)
    accesses = _accesses_1d(em, start, bits, table)
    return from_list(em, kind, load_each(em, accesses, kind, op.cache_policy, kind))


def _in_turn(table: Table, count: int, lanes: int) -> bool:
    """True if register r of lane l is element r * lanes + l, for all elements."""
    return len(table) == count * lanes and all(
        element[2] == register * lanes + lane for (register, lane), element in table.items()
    )


def _start_1d(em: Emitter, block: Block, bits: int) -> ir.Operand:
    """The address of the first element, as a pointer."""
    return moved_base(em, block.base, scaled(em, em.b.sext(block.x, I64), bits), pointer=True)


def moved_base(em: Emitter, base: ir.Operand, offset: ir.Operand, *, pointer: bool) -> ir.Operand:
    """An address some bytes further: a pointer in shared local memory, else also an integer."""
    if base.type.kind == "ptr":
        return em.b.gep(I8, base, offset)
    moved = em.b.add(base, offset)
    return em.b.inttoptr(moved, POINTER) if pointer else moved


def _pieces(count: int) -> list[tuple[int, int]]:
    """(first, length) of runs of 8, 4, 2 and 1."""
    out, at = [], 0
    while at < count:
        length = next(n for n in (8, 4, 2, 1) if n <= count - at)
        out.append((at, length))
        at += length
    return out


def _words_1d(em: Emitter, start: ir.Operand, kind: ir.Type, count: int) -> Registers:
    """Load a 1D block of whole words by block reads of up to 8 registers."""
    scalars: list[ir.Operand] = []
    for first, length in _pieces(count):
        value_type = vector_of(kind, length)
        offset = first * em.state.lanes * kind.bits // 8
        at = em.b.gep(I8, start, ir.constant(I64, offset)) if offset else start
        value = em.call(genisa.SIMD_BLOCK_READ, [at], value_type)
        if length == 1:
            scalars.append(value)
        else:
            scalars += [em.b.extract(value, i) for i in range(length)]
    return from_list(em, kind, scalars)


def _accesses_1d(
    em: Emitter, start: ir.Operand, bits: int, table: Table
) -> Iterator[LaneAccess]:
    for register in range(1 + max(r for r, _ in table)):
        yield LaneAccess(*_place_1d(em, start, bits // 8, table, register), (register,))


def _place_1d(
    em: Emitter, start: ir.Operand, size: int, table: Table, register: int
) -> tuple[Where, ir.Operand | None]:
    """(address of a register's element, flag that is true if this lane has one)."""
    lanes = em.state.lanes
    row = [table.get((register, lane)) for lane in range(lanes)]
    known = [element[2] for element in row if element is not None]
    step = known[1] - known[0] if len(known) > 1 else 0
    if any(v != known[0] + i * step for i, v in enumerate(known)):
        raise UnsupportedError("a 1D block whose lanes do not take turns evenly")
    lane = em.b.zext(em.lane_id(), I64)
    at = em.b.add(em.b.mul(lane, step * size), known[0] * size)
    if len(known) == lanes:
        return (start, at), None
    return (start, at), em.b.icmp("ult", em.lane_id(), len(known))


# -- accesses of single lanes ---------------------------------------------------------------------


Valid = tuple[int, int] | None


def valid_part(op: Operation) -> Valid:
    """Number of rows and columns of a block that an access uses; None for all."""
    held = op.valid if isinstance(op, LoadNdOp | StoreNdOp) else None
    if held is None:
        return None
    rows, columns = (int(v) for v in held.get_values())
    return rows, columns


def lane_accesses(
    em: Emitter, block: Block, access: Access, spread: Spread, valid: Valid
) -> list[LaneAccess]:
    """The accesses that cover a block, element by element."""
    desc, block = access.desc, _in_units(em, block, access)
    table = wanted(access, spread)
    added = lane_parts(table, em.state.lanes)
    if added is None:
        raise UnsupportedError(f"{desc}: its lanes do not take turns evenly; use another sg_map")
    lane = em.lane_id()
    parts = [em.bits_to_coordinate(lane, bases, "lane") for bases in added]
    return [_lane_access(em, block, desc, register, element, parts, valid)
            for register, element in sorted(
                (r, e) for (r, held), e in table.items() if held == 0)]


def _lane_access(
    em: Emitter, block: Block, desc: TensorDescType, register: int, element: Any,
    parts: Sequence[ir.Operand | None], valid: Valid,
) -> LaneAccess:
    """The access of a register's element; its condition tests the bounds that may be exceeded."""
    number, row, column = element
    column += number * desc.get_shape()[1]
    y = _moved(em, block.y, row)
    x = _moved(em, block.x, column)
    tests = _inside(em, block, y, x, parts) if desc.boundary_check else []
    if valid is not None:
        for at, limit, part in ((row, valid[0], parts[0]), (column, valid[1], parts[1])):
            tests += _limit(em, at, limit, part)
    inside: ir.Operand | None = None
    for test in tests:
        inside = test if inside is None else em.b.and_(inside, test)
    where = _address(em, block, desc.element_bits, row, x, parts)
    return LaneAccess(where, inside, (register,))


def _moved(em: Emitter, start: ir.Operand, by: int) -> ir.Operand:
    """`start + by`, computed once."""
    return em.remember(("moved", start, by), lambda: em.b.add(start, by)) if by else start


def _address(
    em: Emitter, block: Block, bits: int, row: int, x: ir.Operand,
    parts: Sequence[ir.Operand | None],
) -> Where:
    """The part of an address per lane, equal for all blocks, and the part that all lanes share."""
    assert block.pitch is not None
    pitch = block.pitch
    strides = (None, pitch) if block.transposed else (pitch, None)

    def line() -> ir.Operand:
        first = em.remember(("line", pitch, block.y), lambda: em.b.mul(
            em.b.sext(block.y, I64), em.b.sext(pitch, I64)))
        return em.b.add(first, em.b.mul(em.b.sext(pitch, I64), row)) if row else first

    def lanes() -> ir.Operand:
        total: ir.Operand | None = None
        for part, stride in zip(parts, strides, strict=True):
            if part is None:
                continue
            wide = em.b.zext(part, I64)
            wide = wide if stride is None else em.b.mul(wide, em.b.sext(stride, I64))
            total = wide if total is None else em.b.add(total, wide)
        if total is not None:
            return moved_base(em, block.base, scaled(em, total, bits), pointer=True)
        local = block.base.type.kind == "ptr"
        return block.base if local else em.b.inttoptr(block.base, POINTER)

    own = em.remember(("lanes", block.base, pitch, block.transposed, bits, *parts), lanes)
    if block.transposed:
        y = em.b.add(em.b.sext(block.y, I64), row)
        across = em.remember(("across", pitch, x), lambda: em.b.mul(
            em.b.sext(x, I64), em.b.sext(pitch, I64)))
        return own, scaled(em, em.b.add(across, y), bits)
    shared = em.b.add(em.remember(("line", pitch, block.y, row), line), em.b.sext(x, I64))
    return own, scaled(em, shared, bits)


def _inside(
    em: Emitter, block: Block, y: ir.Operand, x: ir.Operand, parts: Sequence[ir.Operand | None]
) -> list[ir.Operand]:
    """One test per dimension that lanes differ in; the other one makes its limit 0."""
    assert block.height is not None
    assert block.width is not None
    height, width = block.height, block.width
    down, across = parts

    def test(at: ir.Operand, part: ir.Operand | None, limit: ir.Operand) -> ir.Operand:
        where = at if part is None else em.b.add(at, part)
        return em.b.icmp("ult", where, limit)

    if down is None:
        limit = em.remember(("limit", y, width, height), lambda: em.b.select(
            em.b.icmp("ult", y, height), width, 0))
        return [test(x, across, limit)]
    if across is None:
        limit = em.remember(("limit", x, height, width), lambda: em.b.select(
            em.b.icmp("ult", x, width), height, 0))
        return [test(y, down, limit)]
    return [test(y, down, height), test(x, across, width)]


def _limit(em: Emitter, at: int, limit: int, part: ir.Operand | None) -> list[ir.Operand]:
    """The test that at + part stays below a limit; none where the limit is the block's."""
    if part is None:
        return [] if at < limit else [ir.constant(I1, 0)]
    if at >= limit:
        return [ir.constant(I1, 0)]
    return [em.remember(("limit", part, limit - at), lambda: em.b.icmp("ult", part, limit - at))]


def load_elements(
    em: Emitter, op: LoadNdOp, block: Block, access: Access, spread: Spread
) -> Registers:
    """A block read by every lane for itself."""
    kind = ir.integer(access.desc.element_bits)
    accesses = lane_accesses(em, block, access, spread, valid_part(op))
    return from_list(em, kind, load_each(em, accesses, kind, op.cache_policy, kind))


# -- stores ---------------------------------------------------------------------------------------


def store_block(
    em: Emitter, op: StoreNdOp, block: Block, kind: TensorDescType, value: Attribute,
    held: Registers,
) -> None:
    """Write a vector to a block, or the part of it that `kind` describes."""
    spread = spread_of(em, op.value)
    store_registers(em, op, block, access_of(kind, value, None), _byte_spread(kind, spread), held)


def store_registers(
    em: Emitter, op: StoreNdOp, block: Block, access: Access, inner: Spread, held: Registers
) -> None:
    """Write registers to a block: by messages, or by every lane for itself."""
    bits = access.desc.element_bits
    if bits_of(held.kind) > bits:
        held = retyped(em, held, ir.integer(bits))
    flat = access.desc.rank == 1
    if flat or block.encoded is None or op.valid is not None:
        accesses = _accesses_1d(
            em, _start_1d(em, _in_units(em, block, access), bits), bits, wanted(access, inner)
        ) if flat else lane_accesses(em, block, access, inner, valid_part(op))
        store_each(em, accesses, lambda r: packed(em, held, bits, r[0], 1), op.cache_policy)
        return
    choice = choose_store(access, inner)
    if choice is None:
        raise LegalityError(
            f"xegpu.store_nd of {op.value.type} to {op.desc_type}: no message of"
            f" {em.target.name} takes the elements from the lanes that hold them"
        )
    source = _in_order(em, held, choice, 8 * choice.shape.result_bytes // (bits * em.state.lanes))
    raw = packed(em, source, choice.register_bits, 0, source.count)
    block_write(em, op, block, choice.shape, op.desc_type.element_bits, raw)


def _in_order(em: Emitter, held: Registers, choice: Choice, count: int) -> Registers:
    """`count` registers in the order of a message, zero where it has none."""
    where = {home: register for register, home in enumerate(choice.order)}
    if len(where) == count:
        return pick(em, held, [where[home] for home in range(count)])
    return from_list(em, held.kind, [
        held.register(em, where[home]) if home in where else ir.zero(held.kind)
        for home in range(count)])


# -- prefetches -----------------------------------------------------------------------------------


def prefetch_code(em: Emitter, op: Operation, policy: str) -> int:
    """The cache code of a prefetch, which must leave its data in some cache."""
    policy = "ca.ca" if policy == "default" else policy
    if policy == "uc.uc" or policy.startswith("ri"):
        raise LegalityError(
            f"{op.name}: cache policy {policy!r} keeps nothing in a cache; hint that L1 or L3 is"
            " cached"
        )
    return cache_code(policy, em.target)


def prefetch_lanes(em: Emitter, kind: TensorDescType, block: Block, code: int) -> None:
    """Prefetch by lanes, each of which takes rows of its own, inside the base tensor."""
    bits = kind.element_bits
    if kind.rank == 1:
        _prefetch_1d(em, _start_1d(em, block, bits), kind.get_shape()[0] * bits // 8, code)
        return
    rows, lanes = kind.get_shape()[0], em.state.lanes
    assert block.height is not None
    assert block.width is not None
    assert block.pitch is not None
    row_bytes = kind.get_shape()[1] * kind.array_length * bits // 8
    for first in range(0, rows, lanes):
        y = _clamped(em, em.b.add(block.y, _number(em, first, rows)), block.height)
        line = em.b.mul(em.b.sext(y, I64), em.b.sext(block.pitch, I64))
        row = em.b.add(block.base, scaled(em, line, bits))
        for part in range(0, row_bytes, CACHE_LINE_BYTES):
            x = _clamped(em, _moved(em, block.x, part * 8 // bits), block.width)
            address = em.b.add(row, scaled(em, em.b.sext(x, I64), bits))
            _line_prefetch(em, em.b.inttoptr(address, POINTER), code)


def _prefetch_1d(em: Emitter, start: ir.Operand, size: int, code: int) -> None:
    """Prefetch by lanes, each of which takes a cache line of its own."""
    lines, lanes = -(-size // CACHE_LINE_BYTES), em.state.lanes
    for first in range(0, lines, lanes):
        offset = em.b.mul(em.b.zext(_number(em, first, lines), I64), CACHE_LINE_BYTES)
        _line_prefetch(em, em.b.gep(I8, start, offset), code)


def _number(em: Emitter, first: int, count: int) -> ir.Operand:
    """The lane's number from `first` on, of `count`; lanes beyond them have the last one."""
    own = em.b.add(em.lane_id(), first)
    if first + em.state.lanes <= count:
        return own
    return em.call(llvm.named("umin"), [own, number(count - 1)])


def _line_prefetch(em: Emitter, pointer: ir.Operand, code: int) -> None:
    """Prefetch the cache line of each lane's address, by a message of one byte.

    A byte is aligned anywhere, and not in two lines.
    """
    em.call(genisa.LSC_PREFETCH, [pointer, number(0), number(5), number(1), number(code)])


def lane_prefetch(em: Emitter, pointer: ir.Operand, code: int) -> None:
    """Prefetch 16 bytes at each lane's address."""
    em.call(genisa.LSC_PREFETCH, [pointer, number(0), number(3), number(4), number(code)])


def _clamped(em: Emitter, value: ir.Operand, size: ir.Operand) -> ir.Operand:
    """A coordinate, limited to 0 .. size - 1, and to 0 if the size is 0."""
    low = em.call(llvm.named("smin"), [value, em.b.sub(size, 1)])
    return em.call(llvm.named("smax"), [low, number(0)])
