"""Lowering of XeGPU operations: descriptors, 2D block messages, fragments and DPAS.

A descriptor is a set of scalars, of which x and y change, or an address payload (`payloads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects import xe
from triton_xe.dialects.xegpu.dpas import DpasMxOp, DpasOp
from triton_xe.dialects.xegpu.nd import (
    CreateNdTdescOp,
    LoadNdOp,
    PrefetchNdOp,
    StoreNdOp,
    UpdateNdOffsetOp,
)
from triton_xe.dialects.xegpu.types import TensorDescType
from triton_xe.errors import LegalityError, UnsupportedError
from triton_xe.hardware import block_2d
from triton_xe.hardware.dpas import (
    ELEMENT_BITS,
    MAX_REPEAT_COUNT,
    Dpas,
    check_dpas,
    check_scaled_dpas,
)
from triton_xe.hardware.register_file import MOST_CARRIED
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths import wide
from triton_xe.lowering.emit.maths.wide import Scales
from triton_xe.lowering.emit.tensors.convert import SharedBlocks
from triton_xe.lowering.emit.tensors.dot import multiply
from triton_xe.lowering.emit.tensors.registers import InWords, Registers, eager, regrouped
from triton_xe.lowering.emit.tensors.shuffle import shuffle_xor
from triton_xe.lowering.emit.types import (
    I8,
    I32,
    bits_of,
    number,
    scalar_type,
    undefined,
    vector_of,
)
from triton_xe.lowering.emit.xegpu.blocks import (
    Block,
    access_of,
    block_read,
    block_write,
    check_bytes,
    create_block,
    index_value,
    load_block,
    load_elements,
    message,
    prefetch_code,
    prefetch_lanes,
    require,
    store_block,
    store_registers,
)
from triton_xe.lowering.emit.xegpu.fragments import (
    BY_BYTES,
    BY_ROWS,
    MAX_VECTOR,
    FragmentPieces,
    FragmentValue,
    as_integers,
    composed,
    follow,
    triples,
)
from triton_xe.lowering.emit.xegpu.mapping import Spread
from triton_xe.lowering.emit.xegpu.payloads import (
    Payload,
    block_shape,
    is_in_reach,
    is_zero,
    move,
    offsets_of,
    payload_shape,
    step_before,
    step_of,
    with_copies,
)
from triton_xe.lowering.emit.xegpu.spreads import is_operand, spread_of
from triton_xe.lowering.emit.xegpu.stacks import (
    Stack,
    create_stack,
    inner_kind,
    load_stack,
    store_stack,
)
from triton_xe.lowering.emit.xegpu.vectors import (
    held_type,
    packed,
    part_of,
    rearranged,
    register_count,
    retyped,
    unpacked,
)

VOID = ir.VOID


@lowers(CreateNdTdescOp)
def lower_create_nd_tdesc(em: Emitter, op: CreateNdTdescOp) -> None:
    made = create_block(em, op)
    if op.desc_type.rank > 2:
        em.bind(op.desc, create_stack(em, op, made))
        return
    shape = None if made.encoded is None else payload_shape(
        op, em.target, partial(is_operand, em))
    if shape is None:
        em.bind(op.desc, made)
        return
    fields = message(em, made, shape, op.desc_type.element_bits, 0)
    payload = Payload(em.call(
        genisa.LSC_2D_BLOCK_CREATE_PAYLOAD,
        [*fields[:6], number(shape.width), number(shape.height), number(shape.blocks)],
    ), shape)
    em.bind(op.desc, with_copies(em, payload, op))


@lowers(UpdateNdOffsetOp)
def lower_update_nd_offset(em: Emitter, op: UpdateNdOffsetOp) -> None:
    held = em.get(op.desc)
    check_bytes(op, op.desc_type, op.offsets[-1:])
    if isinstance(held, Stack):
        em.bind(op.moved, held.moved(em, op.offsets))
        return
    rows, columns = offsets_of(op)
    if isinstance(held, Payload):
        em.bind(op.moved, _moved(em, op, held))
        return
    y, x = (_further(em, here, by) for here, by in ((held.y, rows), (held.x, columns)))
    em.bind(op.moved, replace(held, y=y, x=x))


def _further(em: Emitter, here: ir.Operand, by: SSAValue | int) -> ir.Operand:
    """A coordinate moved by a number of elements."""
    if is_zero(by):
        return here
    step = index_value(em, by)
    is_all = here == number(0) and not step.is_constant
    return step if is_all else em.b.add(here, step)


def _moved(em: Emitter, op: UpdateNdOffsetOp, held: Payload) -> Payload:
    """Move a payload: by the immediate offsets of messages, or by changing its fields in place."""
    bits, step = op.desc_type.element_bits, step_of(op) or step_before(op, em.target)
    if step is None and any(held.step):
        return held  # the next iteration moves all copies at its start
    if step is not None and is_in_reach((moved := held.moved(*step, bits)).y, moved.x):
        return moved
    per = held.shape.element_bits // bits
    y, x = (
        _step(em, by, unit, more) for by, unit, more in zip(
            offsets_of(op), (1, per), (held.y, held.x), strict=True))
    move(em, held.pointer, y, x)
    return replace(held, x=0, y=0)


def _step(em: Emitter, by: SSAValue | int, unit: int, more: int) -> ir.Operand:
    """Number of `unit`s by which a payload's field moves, plus `more`."""
    if is_zero(by):
        return number(more)
    step = index_value(em, by)
    step = step if unit == 1 else em.b.sdiv(step, unit)
    return em.b.add(step, more) if more else step


@lowers(LoadNdOp)
def lower_load_nd(em: Emitter, op: LoadNdOp) -> None:
    kind, block = op.desc_type, em.get(op.desc)
    if isinstance(block, Stack):
        em.bind(op.value, load_stack(em, op, block))
        return
    if not is_operand(em, op.value):
        em.bind(op.value, load_block(em, op, block, kind, op.value.type))
        return
    if not isinstance(block, Payload) and (block.encoded is None or op.valid is not None):
        access = access_of(kind, op.value.type, op)
        held = load_elements(em, op, block, access, Spread(em.state.lanes, own=True))
        em.bind(op.value, fragment_of_registers(em, held, op.value.type))
        return
    elements, parts = op.value.type.get_shape()
    bits = parts * kind.element_bits
    vector = vector_of(ir.integer(bits), elements)
    read = block_read(em, op, block, block_shape(kind, op), kind.element_bits, vector)
    em.bind(op.value, FragmentValue(read))


@lowers(PrefetchNdOp)
def lower_prefetch_nd(em: Emitter, op: PrefetchNdOp) -> None:
    kind, held = op.desc_type, em.get(op.desc)
    code = prefetch_code(em, op, op.cache_policy)
    if kind.memory_scope == "slm":
        raise LegalityError("xegpu.prefetch_nd: shared local memory is not cached")
    for block in held.slices(em, kind) if isinstance(held, Stack) else (held,):
        _prefetch(em, op, block, inner_kind(kind), code)


def _prefetch(
    em: Emitter, op: PrefetchNdOp, held: Block | Payload, kind: TensorDescType, code: int
) -> None:
    """Prefetch by a 2D message, or by messages of lanes where the device has none."""
    if not isinstance(held, Payload) and held.encoded is None:
        prefetch_lanes(em, kind, held, code)
        return
    shape = block_shape(kind, None)
    require(op, kind, block_2d.check_prefetch(shape, em.target))
    intrinsic = genisa.LSC_2D_BLOCK_PREFETCH
    if isinstance(held, Payload):
        intrinsic = genisa.LSC_2D_BLOCK_PREFETCH_PAYLOAD
    em.call(intrinsic, message(em, held, shape, kind.element_bits, code))


@lowers(StoreNdOp)
def lower_store_nd(em: Emitter, op: StoreNdOp) -> None:
    kind, block = op.desc_type, em.get(op.desc)
    if _is_one_message(em, op):
        raw = as_integers(em, em.get(op.value).value)
        block_write(em, op, block, block_shape(kind, None), kind.element_bits, raw)
        return
    if isinstance(block, Stack):
        store_stack(em, op, block)
        return
    if not is_operand(em, op.value):
        store_block(em, op, block, kind, op.value.type, em.registers(op.value))
        return
    held = fragment_registers(em, em.get(op.value), op.value.type)
    access = access_of(kind, op.value.type, None)
    store_registers(em, op, block, access, Spread(em.state.lanes, own=True), held)


def _is_one_message(em: Emitter, op: StoreNdOp) -> bool:
    """True if one 2D message stores the fragment as it is in registers."""
    block = em.get(op.desc)
    return not isinstance(block, Stack) and is_operand(em, op.value) and (
        isinstance(block, Payload) or (block.encoded is not None and op.valid is None))


def fragment_of_registers(em: Emitter, held: Registers, kind: Attribute) -> FragmentValue:
    """Registers of raw integers as a fragment."""
    assert isinstance(kind, VectorType)
    elements, parts = kind.get_shape()
    raw = packed(em, held, parts * bits_of(held.kind), 0, held.count)
    if parts > 1:
        return FragmentValue(raw)
    typed = vector_of(scalar_type(kind.element_type), elements)
    return FragmentValue(raw if raw.type == typed else em.b.bitcast(raw, typed))


def fragment_registers(em: Emitter, held: FragmentValue, kind: Attribute) -> Registers:
    """A fragment as registers of raw integers."""
    assert isinstance(kind, VectorType)
    elements, parts = kind.get_shape()
    bits = bits_of(scalar_type(kind.element_type))
    return unpacked(em, as_integers(em, held.value), ir.integer(bits), elements * parts)


@lowers(xe.VectorOfFragmentsOp)
def lower_vector_of_fragments(em: Emitter, op: xe.VectorOfFragmentsOp) -> None:
    lanes, spread = em.state.lanes, spread_of(em, op.vector)
    kind, _ = held_type(op.vector.type, spread)
    held = [part for v in op.fragments for part in _typed(em, v, kind)]
    found = {spread.slot(p): divmod(place, lanes)
             for p, place in enumerate(op.places.get_values())}
    count = register_count(op.vector.type, spread)
    em.bind(op.vector, rearranged(em, held, kind, found, count, spread))


def _typed(em: Emitter, fragment: SSAValue, kind: ir.Type) -> list[ir.Operand]:
    """The registers of a fragment, as scalars of type `kind`."""
    held = retyped(em, fragment_registers(em, em.get(fragment), fragment.type), kind)
    return [held.register(em, r) for r in range(held.count)]


@lowers(xe.FragmentOfVectorOp)
def lower_fragment_of_vector(em: Emitter, op: xe.FragmentOfVectorOp) -> None:
    lanes, spread, source = em.state.lanes, spread_of(em, op.source), em.registers(op.source)
    raw = retyped(em, source, ir.integer(bits_of(source.kind)))
    held = [raw.register(em, r) for r in range(raw.count)]
    found = {divmod(place, lanes): spread.slot(p)
             for place, p in enumerate(op.places.get_values()) if p >= 0}
    count = len(op.places) // lanes
    made = rearranged(em, held, raw.kind, found, count, Spread(lanes))
    em.bind(op.fragment, fragment_of_registers(em, made, op.fragment.type))


@lowers(xe.FragmentOp)
def lower_fragment(em: Emitter, op: xe.FragmentOp) -> None:
    """Assemble a DPAS operand from loaded elements."""
    if pieces := _pieces(em, op):
        em.bind(op.value, FragmentPieces(pieces))
        return
    em.bind(op.value, _scales(em, op) if _are_scales(op.value) else FragmentValue(
        _fragment(em, op)))


def _are_scales(value: SSAValue) -> bool:
    """True if all uses read a fragment as the scales of a product."""
    return all(isinstance(use.operation, DpasMxOp) and use.index > 2 for use in value.uses)


def _holds_scales(value: SSAValue) -> bool:
    """True if a part of a fragment is the scales of a product."""
    parts = [use.operation for use in value.uses]
    return any(isinstance(part, xe.FragmentOp) and _are_scales(part.value) for part in parts)


def _scales(em: Emitter, op: xe.FragmentOp) -> Scales:
    """Bytes of a word, separated with those of the words beside it, or of other values."""
    loads, sources = composed(op)
    number, element, part = sources[0]
    held = em.get(loads[number])
    bits, count = _size(em, held)
    is_run = sources == [(number, element, part + i) for i in range(len(sources))]
    if not is_run or bits == 8 or part % len(sources):
        return _other_scales(em, op)
    at_once = 2 if count % wide.AT_ONCE else wide.AT_ONCE
    first = element // at_once * at_once
    made = em.remember((loads[number], first, at_once), lambda: wide.scale_pairs(
        em, _words(em, held, first, at_once)))
    pair, side = divmod(element - first, 2)
    step, byte = divmod(part, 2)
    upper = MAX_REPEAT_COUNT * (op.swapped is not None)
    return Scales(made, 2 * step + pair, 32 * byte + 16 * side + upper)


def _size(em: Emitter, held: Any) -> tuple[int, int]:
    """Bits of an element of a message or a fragment, and their number; constants have single bytes.
    """
    value = as_integers(em, held.value)
    return 8 if value.is_constant else bits_of(value.type.scalar), value.type.lanes


def _words(em: Emitter, held: Any, first: int, count: int) -> ir.Operand:
    """`count` words of a message or a fragment; the last one again if it has fewer."""
    words = as_integers(em, held.value)
    if words.type.kind != "vec":
        return em.pack(words.type, [words] * count)
    if words.type.count == count:
        return words
    last = words.type.count - 1
    return em.shuffle(words, words, [min(first + i, last) for i in range(count)])


def _other_scales(em: Emitter, op: xe.FragmentOp) -> Scales:
    """Scales that are no run of bytes in a word, each extracted on its own."""
    loads = [em.get(v) for v in op.loads]
    made = undefined(I8, 16)
    for i, (load, element, part) in enumerate(triples(op)):
        each = _part(em, loads[load], element, part, 8)
        each = shuffle_xor(em, each, MAX_REPEAT_COUNT) if op.swapped is not None else each
        made = em.b.insert(made, each, 2 * i)
    return Scales(made, 0, 0)


def used_here(op: Operation) -> bool:
    """True if only operations of the same block use the results."""
    return all(use.operation.parent is op.parent for r in op.results for use in r.uses)


def used_once(op: Operation) -> bool:
    """True if only operations of the same block, or of branches in it, use the results."""
    for user in (use.operation for result in op.results for use in result.uses):
        block = user.parent
        while block is not None and block is not op.parent:
            parent = block.parent_op()
            block = parent.parent if isinstance(parent, scf.IfOp) else None
        if block is None:
            return False
    return True


def _pieces(em: Emitter, op: xe.FragmentOp) -> list[ir.Operand]:
    """Vectors of a tensor's fragment that is too long for one vector; [] for other fragments.

    Consecutive elements are read as they are.  Others are unpacked one by one: four int32 that
    become int8 for DPAS would need an integer of 128 bits, which SPIR-V lacks.  Bytes remain in
    words, which `lower_from_fragments` regroups.
    """
    kind = op.value.type
    assert isinstance(kind, VectorType)
    sources = triples(op)
    if len(sources) <= MAX_VECTOR or not _is_used_as_tensor(op.value):
        return []
    loads, bits = [em.get(v) for v in op.loads], bits_of(scalar_type(kind.element_type))
    firsts = range(0, len(sources), MAX_VECTOR)
    run = _run_of(em, loads, sources, bits)
    if run is not None and bits_of(run.type.scalar) == bits:
        return [part_of(em, run, sources[0][1] + at, MAX_VECTOR) for at in firsts]
    if (bits, kind.get_shape()[1]) == (8, 4):
        return []
    return [_assemble(em, loads, sources[at : at + MAX_VECTOR], MAX_VECTOR, 1, bits)
            for at in firsts]


def _fragment(em: Emitter, op: xe.FragmentOp) -> ir.Operand:
    """The value of a fragment: read in one piece if its sources are a run, else assembled."""
    kind = op.value.type
    assert isinstance(kind, VectorType)
    elements, parts = kind.get_shape()
    bits = bits_of(scalar_type(kind.element_type))
    sources = triples(op)
    loads = [em.get(v) for v in op.loads]
    run = _run_of(em, loads, sources, bits)
    start, count = sources[0][1], len(sources)
    if run is not None and bits_of(run.type.scalar) >= parts * bits:
        value = _slice_as(em, run, start, elements, parts * bits)
    elif run is not None and _is_used_as_tensor(op.value):
        return part_of(em, run, start, count)
    elif (halves := _unpack_words(em, op, bits)) is not None:
        value = halves
    else:
        value = _assemble(em, loads, sources, elements, parts, bits)
    typed = vector_of(scalar_type(kind.element_type), elements)
    if parts == 1 and value.type != typed and not _is_used_as_integers(op.value):
        value = em.b.bitcast(value, typed)
    return value


def _run_of(
    em: Emitter, loads: Sequence[Any], sources: Sequence[tuple[int, ...]], bits: int
) -> ir.Operand | None:
    """The vector of which all sources are consecutive elements; None if there is none."""
    number, first, part = sources[0]
    held = loads[number]
    if part or isinstance(held, FragmentPieces):
        return None
    value = as_integers(em, held.value)
    size = bits_of(value.type.scalar)
    run = [(number, first + i * bits // size, i * bits % size // bits)
           for i in range(len(sources))]
    return value if sources == run and len(sources) * bits % size == 0 else None


def _unpack_words(em: Emitter, op: xe.FragmentOp, bits: int) -> ir.Operand | None:
    """Unpack parts of words by two-register instructions; None if the order has no such form."""
    loads, sources = composed(op)
    order = next((o for o in (BY_ROWS, BY_BYTES) if follow(sources, o)), None)
    held = em.get(loads[0])
    if order is None or isinstance(held, FragmentPieces):
        return None
    words, first = as_integers(em, held.value), sources[0][1]
    size = bits_of(words.type.scalar)
    if (size, bits) == (64, 8) and order is BY_BYTES:
        return wide.interleave_bytes(em, part_of(em, words, first, 2))
    if (size, bits) != (32, 16) or order is BY_BYTES:
        return None
    return wide.deinterleave_halves(em, part_of(em, words, first, wide.AT_ONCE))


def _is_used_as_tensor(value: SSAValue) -> bool:
    """True if all uses read a fragment as a tensor."""
    return all(isinstance(use.operation, xe.FromFragmentsOp) for use in value.uses)


def _is_used_as_integers(value: SSAValue) -> bool:
    """True if all uses read a fragment as integers: factors of DPAS, stores, tensors."""
    return all(
        isinstance(use.operation, StoreNdOp | xe.FromFragmentsOp | xe.FragmentOp)
        or (isinstance(use.operation, DpasOp | DpasMxOp) and use.index < 2)
        for use in value.uses
    )


def _slice_as(em: Emitter, vector: ir.Operand, first: int, count: int, bits: int) -> ir.Operand:
    """`count` values of `bits` bits from element `first` on; an element has one or several.

    Elements are unpacked 16 values at a time, because operands share the moves for this.
    """
    per = bits_of(vector.type.scalar) // bits
    if per == 1:
        return part_of(em, vector, first, count)
    size, needed = MAX_VECTOR // per, count // per
    base = first // size * size
    if base + size > vector.type.lanes or base + size < first + needed:
        base, size = first, needed
    into = vector_of(ir.integer(bits), size * per)
    whole = em.remember(
        (vector, base, size), lambda: em.b.bitcast(part_of(em, vector, base, size), into))
    start = (first - base) * per
    return em.shuffle(whole, whole, range(start, start + count))


def _assemble(
    em: Emitter, loads: Sequence[Any], sources: Sequence[tuple[int, ...]], elements: int,
    parts: int, bits: int,
) -> ir.Operand:
    """Assemble a fragment by one shuffle of one or two vectors, or else element by element."""
    kind = ir.integer(bits)
    if parts == 1 and len(loads) <= 2:
        first, second = (as_integers(em, held.value) for held in (loads[0], loads[-1]))
        is_plain = first.type.kind == "vec" and first.type.scalar is kind
        if is_plain and first.type == second.type:
            return em.shuffle(first, second, [m * first.type.count + e for m, e, _ in sources])
    scalars = [_part(em, loads[m], e, p, bits) for m, e, p in sources]
    if parts == 1:
        return em.pack(kind, scalars)
    packed = [_joined(em, scalars[i * parts : (i + 1) * parts], bits) for i in range(elements)]
    return em.pack(ir.integer(bits * parts), packed)


def _part(em: Emitter, held: Any, element: int, part: int, bits: int) -> ir.Operand:
    """One part, of `bits` bits, of a loaded element."""
    value = as_integers(em, held.value)
    whole = em.b.extract(value, element) if value.type.kind == "vec" else value
    have = bits_of(whole.type)
    if have == bits:
        return whole
    shifted = em.b.lshr(whole, part * bits) if part else whole
    return em.b.trunc(shifted, ir.integer(bits))


def _joined(em: Emitter, parts: Sequence[ir.Operand], bits: int) -> ir.Operand:
    """Concatenate integers, the first in the lowest bits."""
    into = ir.integer(bits * len(parts))
    total: ir.Operand | None = None
    for place, part in enumerate(parts):
        wide = em.b.zext(part, into)
        wide = em.b.shl(wide, place * bits) if place else wide
        total = wide if total is None else em.b.or_(total, wide)
    assert total is not None
    return total


@lowers(xe.ToFragmentOp)
def lower_to_fragment(em: Emitter, op: xe.ToFragmentOp) -> None:
    source, first = em.registers(op.tensor), op.first.value.data
    kind = op.fragment.type
    elements, parts = kind.get_shape()
    bits = parts * bits_of(source.kind)
    if isinstance(source, SharedBlocks):
        source.read_again(first, elements * parts)
    if parts > 1 and bits == 32 and used_here(op) and not _fills_registers(em, op.parent_op()):
        value = source.words(em, first, elements * parts)
    elif parts == 2 and _holds_scales(op.fragment):
        unit = ir.integer(bits)  # IGC loads a word if its bytes alone are joined
        value = em.pack(unit, [em.b.bitcast(source.slice(em, first + i * parts, parts), unit)
                               for i in range(elements)])
    else:
        value = source.slice(em, first, elements * parts)
        value = value if parts == 1 else em.b.bitcast(value, vector_of(ir.integer(bits), elements))
    em.bind(op.fragment, FragmentValue(value))


def _fills_registers(em: Emitter, loop: Operation | None) -> bool:
    """True if a loop's fragments fill the registers; IGC 2.40 then spills more with whole words."""
    kinds = [v.type for v in loop.body.block.args] if isinstance(loop, scf.ForOp) else []
    held = sum(prod(kind.get_shape()) * bits_of(scalar_type(kind.element_type)) // 8
               for kind in kinds if isinstance(kind, VectorType))
    return held * em.state.lanes >= MOST_CARRIED * em.target.grf_bytes


@lowers(xe.FromFragmentsOp)
def lower_from_fragments(em: Emitter, op: xe.FromFragmentsOp) -> None:
    element = scalar_type(op.tensor.type)
    held = [em.get(v) for v in op.fragments]
    kind = op.fragments[0].type
    assert isinstance(kind, VectorType)
    size = kind.get_shape()[0] * kind.get_shape()[1]
    if element == I8 and kind.get_shape()[1] == 4:
        words = Registers(size // 4 * len(held), I32, lambda i: held[i].value, size // 4)
        words = regrouped(em, words, 2)
        em.bind(op.tensor, InWords(em, I8, words if used_once(op) else eager(
            I32, words.all_chunks(em), words.width), 4))
        return
    width = min(size, MAX_VECTOR)
    flat = vector_of(element, width)

    def piece(i: int) -> ir.Operand:
        number, part = divmod(i, size // width)
        of = held[number]
        value = of.pieces[part] if isinstance(of, FragmentPieces) else of.value
        return value if value.type == flat else em.b.bitcast(value, flat)

    pieces = Registers(size * len(held), element, piece, width)
    chunked = regrouped(em, pieces)
    em.bind(op.tensor, chunked if used_once(op) else eager(
        element, chunked.all_chunks(em), chunked.width))


@lowers(DpasOp)
def lower_dpas(em: Emitter, op: Any) -> None:
    made = op.instruction
    lanes = em.state.lanes
    reason = check_dpas(made.a, made.b, made.accumulator, em.target, subgroup_size=lanes,
                        repeat_count=made.repeat_count)
    if reason is None and made.execution_size != lanes:
        reason = f"C is {made.execution_size} wide, on {em.target.name} it must be {lanes}"
    if reason is not None:
        raise LegalityError(f"xegpu.dpas: {reason}")
    fragments = is_operand(em, op.result)
    value = _multiplied(em, op, fragments)
    kept = FragmentValue(value) if fragments else Registers(
        made.repeat_count, scalar_type(op.result.type.element_type), lambda _: value)
    em.bind(op.result, kept)


@lowers(DpasMxOp)
def lower_dpas_mx(em: Emitter, op: DpasMxOp) -> None:
    made = op.instruction
    reason = check_scaled_dpas(
        made.a, made.b, made.accumulator, em.target, subgroup_size=em.state.lanes)
    if reason is not None:
        raise LegalityError(f"{op.name}: {reason}")
    em.state.dpas += 1
    factors, scales = (op.a, op.b), (op.scale_a, op.scale_b)
    if is_operand(em, op.result):
        given = [as_integers(em, em.get(v).value) for v in factors]
        em.bind(op.result, FragmentValue(wide.scaled_product(
            em, made, [em.get(op.acc).value, *given], *map(em.get, scales))))
        return
    acc = em.registers(op.acc).slice(em, 0, made.repeat_count)
    given = [packed(em, held, bits, 0, held.count) for held, bits in zip(
        map(em.registers, factors + scales), (made.a_element_bits, 32, 8, 8), strict=True)]
    value = em.call(genisa.SCALED_DPAS, [acc, *given, *(number(n) for n in made.precision)])
    em.bind(op.result, Registers(
        made.repeat_count, scalar_type(op.result.type.element_type), lambda _: value))


def _multiplied(em: Emitter, op: Any, fragments: bool) -> ir.Operand:
    """Emit a DPAS; its operands are fragments or vectors of the subgroup."""
    made = op.instruction
    result = vector_of(scalar_type(op.result.type.element_type), made.repeat_count)
    if fragments:
        a, b = (as_integers(em, em.get(v).value) for v in (op.a, op.b))
    else:
        a, b = _operands(em, op, made)
    acc: ir.Operand = ir.zero(result)
    if op.acc is not None:
        held = em.get(op.acc)
        acc = held.value if fragments else held.slice(em, 0, made.repeat_count)
    return multiply(em, made, acc, a, b)


def _operands(em: Emitter, op: Any, dpas: Dpas) -> list[ir.Operand]:
    """A and B as vectors of integers, as the instruction takes them."""
    if ELEMENT_BITS[dpas.b] < 8 and len(op.b.type.get_shape()) == 2 and op.sg_maps is None:
        raise UnsupportedError(
            f"xegpu.dpas: B of {dpas.b} must be in VNNI form, K/v x N x v; nothing packs elements"
            " of less than 8 bits"
        )
    out = []
    for value, unit in ((op.a, dpas.a_element_bits), (op.b, 32)):
        held = em.registers(value)
        count = held.count
        out.append(packed(em, held, max(unit, bits_of(held.kind)), 0, count))
    return out

