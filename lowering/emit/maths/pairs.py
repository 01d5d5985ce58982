"""fp16 arithmetic in pairs, two numbers per lane, and the small integers that it is computed from.

    (words >> shift & mask) - zero  ->  fp16  ->  * scale

If neighbours share a dword, as in operand B of DPAS, one instruction of 32 lanes computes two
numbers per lane.  An integer below 1024 is written into the last bits of fp16's 1024; sums of such
numbers are exact.  The functions of the module are like those of `halves`: their bodies in LLVM IR
are the definition, and `triton_xe.lowering.spirv.pairs_visa` has the same in vISA.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.arith_ext import ExtSIOp, ExtUIOp
from triton_xe.intrinsics import llvm
from triton_xe.lowering.emit.emitter import Emitter
from triton_xe.lowering.emit.helpers import call_internal
from triton_xe.lowering.emit.maths.halves import from_bytes, in_pairs, suits
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.registers import CHUNK, Halves, Part, Registers, Splat, mapped
from triton_xe.lowering.emit.tensors.repeat import Repeated, RowsInLanes, rows_of
from triton_xe.lowering.emit.types import (
    FLOAT,
    HALF,
    I8,
    I16,
    I32,
    TWO_HALVES,
    number,
    scalar_type,
    vector_of,
)
from triton_xe.lowering.emit.writer import Writer
from triton_xe.lowering.facts.known_elements import known_elements
from triton_xe.lowering.facts.values import constant_of
from triton_xe.spirv import HALVES

FOUR, EIGHT = vector_of(I32, CHUNK // 2), vector_of(HALF, CHUNK)
MAGIC, BIAS = 0x6400, 1024
"""Bits of fp16's 1024, whose last 10 bits count in ones; beyond 2048 fp16 counts in twos."""
BOTH = 0x10001
_OPERATIONS: dict[str, Callable[[Term, Term], Term]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
}


def uses_pairs(em: Emitter, kind: Attribute, operands: Sequence[SSAValue] = ()) -> bool:
    """True if fp16 tensors of a type are computed in pairs.

    This is so if a later operation uses pairs, or if the operands are pairs, as loads return them.
    """
    if not (isinstance(kind, TensorType) and scalar_type(kind) == HALF and suits(em.state)
            and len(em.view(kind).registers) % CHUNK == 0):
        return False
    return in_pairs(kind) or _are_in_pairs([em.registers(v) for v in operands])


def _are_in_pairs(sides: Sequence[Registers]) -> bool:
    """True if registers are stored two to a word, or are the same in all elements."""
    held = [side for side in sides if not isinstance(side, Splat)]
    return bool(held) and all(
        isinstance(side, Halves) and side.kind == HALF and side.width == CHUNK for side in held)


# -- sums and products -----------------------------------------------------------------------------


def arithmetic(em: Emitter, name: str, left: Registers, right: Registers) -> Registers:
    """The sum ("add"), difference or product of fp16 registers, in pairs."""
    if name != "sub" and left.single(0):
        left, right = right, left

    def make(i: int) -> ir.Operand:
        return _operation(em, name, _words(em, left, i), _one_or_words(em, right, i))

    def needs(i: int) -> list[Part]:
        some = left.parts_of_words(CHUNK * i, CHUNK)
        return some if right.single(i) else [*some, *right.parts_of_words(CHUNK * i, CHUNK)]

    return _halves(em, left.count, make, needs)


def fused(
    em: Emitter, name: str, left: Registers, right: Registers, other: Registers
) -> Registers:
    """Fused multiply-add of fp16 registers, in pairs.

    The name is "plus" for left * right + other, "less" for left * right - other, and "from" for
    other - left * right.
    """
    if left.single(0):
        left, right = right, left

    def make(i: int) -> ir.Operand:
        values = [_words(em, left, i), *(_one_or_words(em, v, i) for v in (right, other))]
        how = "_".join("one" if v.type == I32 else "pairs" for v in values[1:])
        return _call(em, f"{name}.by_{how}", values, partial(_fused, name))

    def needs(i: int) -> list[Part]:
        return [part for v in (left, right, other) if v is left or not v.single(i)
                for part in v.parts_of_words(CHUNK * i, CHUNK)]

    return _halves(em, left.count, make, needs)


def _one_or_words(em: Emitter, source: Registers, index: int) -> ir.Operand:
    one = source.single(index)
    return _words(em, source, index) if one is None else _duplicate_half(em, one())


def _fused(name: str, inner: Writer, *given: ir.Operand) -> ir.Operand:
    a, b, c = (inner.b.bitcast(inner.splat(v, FOUR.count) if v.type == I32 else v, EIGHT)
               for v in given)
    a, c = inner.b.fneg(a) if name == "from" else a, inner.b.fneg(c) if name == "less" else c
    return inner.b.bitcast(inner.call(llvm.named("fma"), [a, b, c]), FOUR)


def _halves(
    em: Emitter, count: int, make: Callable[[int], ir.Operand],
    needs: Callable[[int], Iterable[Part]],
) -> Registers:
    return Halves(em, HALF, Registers(count // 2, I32, make, CHUNK // 2, needs))


def _words(em: Emitter, source: Registers, index: int) -> ir.Operand:
    return source.words(em, CHUNK * index, CHUNK)


def _biased_field(em: Emitter, bits: ir.Operand) -> ir.Operand:
    """1024 and few bits, as fp16."""
    field = Term(em, bits)
    half: ir.Operand = (field | MAGIC).resized(I16).bitcast(HALF).value
    if bits.type.kind == "int":
        em.remember(("twice", half), lambda: (field | field << 16 | MAGIC * BOTH).value)
    return half


def _duplicate_half(em: Emitter, half: ir.Operand) -> ir.Operand:
    """Copy fp16 bits to both halves of a dword."""
    return em.remember(
        ("twice", half), lambda: (Term(em, half).bits.resized(I32) * BOTH).value)


def _operation(em: Emitter, name: str, left: ir.Operand, right: ir.Operand) -> ir.Operand:
    """Call a function of four dwords, and of four or one."""
    def body(inner: Writer, a: ir.Operand, b: ir.Operand) -> ir.Operand:
        b = inner.splat(b, FOUR.count) if b.type == I32 else b
        terms = [Term(inner, inner.b.bitcast(v, EIGHT)) for v in (a, b)]
        return inner.b.bitcast(_OPERATIONS[name](*terms).value, FOUR)

    return _call(em, f"{name}.by_{'one' if right.type == I32 else 'pairs'}", [left, right], body)


def plus(em: Emitter, source: Registers, number: int) -> Registers:
    """Add a known number to fp16 registers, in pairs."""
    bits = int.from_bytes(struct.pack("<e", number), "little")

    def body(inner: Writer, a: ir.Operand) -> ir.Operand:
        return inner.b.bitcast((Term(inner, inner.b.bitcast(a, EIGHT)) + number).value, FOUR)

    return _halves(
        em, source.count, lambda i: _call(em, f"plus.{bits:04x}", [_words(em, source, i)], body),
        lambda i: source.parts_of_words(CHUNK * i, CHUNK))


def zipped(em: Emitter, first: ir.Operand, second: ir.Operand) -> list[ir.Operand]:
    """Two vectors of two fp16 values from dwords of two: of both first ones, and of both second."""
    def body(inner: Writer, *given: ir.Operand) -> ir.Operand:
        rows = [inner.b.bitcast(x, TWO_HALVES) for x in given]
        return inner.pack(I32, [inner.b.bitcast(inner.pack(HALF, [
            inner.b.extract(row, i) for row in rows]), I32) for i in (0, 1)])

    made = _call(em, "zip", [first, second], body, vector_of(I32, 2))
    return [em.b.bitcast(em.b.extract(made, i), TWO_HALVES) for i in (0, 1)]


def _call(
    em: Emitter, name: str, arguments: Sequence[ir.Operand], body: Callable[..., ir.Operand],
    result: ir.Type = FOUR,
) -> ir.Operand:
    return call_internal(em, HALVES + name, result, list(arguments), body)


# -- integers of few bits --------------------------------------------------------------------------


class _Field(NamedTuple):
    """`words >> shift & mask`; the shift fills with the sign if `signed`."""

    words: SSAValue
    shift: SSAValue | None
    mask: int
    signed: bool = False

    @property
    def bytes(self) -> SSAValue | None:
        """The bytes that were extended to words, if the field is in their bits."""
        op = self.words.owner
        is_byte = isinstance(op, ExtSIOp | ExtUIOp) and scalar_type(op.input.type) == I8
        return op.input if is_byte and self.bits == 4 else None  # type: ignore[union-attr]

    @property
    def bits(self) -> int:
        return self.mask.bit_length()


def _field_of(value: SSAValue) -> _Field | None:
    """The bit field of words that a value is, with fewer than ten bits."""
    op = value.owner
    if not isinstance(op, arith.AndIOp):
        return None
    mask, shifted = constant_of(op.rhs), op.lhs.owner
    if mask is None or not 0 < mask < BIAS or mask & (mask + 1):
        return None
    if isinstance(shifted, arith.ShRSIOp | arith.ShRUIOp):
        return _Field(shifted.lhs, shifted.rhs, mask, isinstance(shifted, arith.ShRSIOp))
    return _Field(op.lhs, None, mask)


def from_integer(em: Emitter, value: SSAValue, kind: Attribute) -> Registers | None:
    """Convert integers to fp16 in pairs; None if they are not computed from bit fields of words."""
    if not uses_pairs(em, kind) or _bias(em, value) is None:
        return None
    made, bias = _biased(em, value)
    return plus(em, made, -bias) if bias else made


def _bias(em: Emitter, value: SSAValue) -> int | None:
    """Excess of the fp16 numbers over the integers before correction.

    None if an integer is not computed from bit fields, or if fp16 could not represent it exactly.
    """
    op = value.owner
    if scalar_type(value.type) != I32:
        return None
    if not isinstance(op, arith.AddiOp | arith.SubiOp):
        return BIAS if _field_of(value) is not None else 0 if _is_byte(op) else None
    sides = [_bias(em, v) for v in op.operands]
    if sides == [None, None] or any(_exceeds_fp16(em, v, 0) for v in op.operands):
        return None
    found = _sum(op, *sides)
    return None if _exceeds_fp16(em, value, found) or _exceeds_fp16(em, op.rhs, found) or (
        _exceeds_fp16(em, op.rhs, -found)) else found


def _sum(op: arith.AddiOp | arith.SubiOp, left: int | None, right: int | None) -> int:
    """Bias of a sum or difference; a known addend is not added but counts in the bias."""
    known = constant_of(op.rhs)
    other = -known if known is not None else right or 0
    return (left or 0) + (other if isinstance(op, arith.AddiOp) else -other)


def _exceeds_fp16(em: Emitter, value: SSAValue, bias: int) -> bool:
    """True if fp16 cannot represent all values of an integer plus the bias."""
    low, high = em.proven.range(value)
    return low + bias < -2 * BIAS or high + bias > 2 * BIAS


def _biased(em: Emitter, value: SSAValue) -> tuple[Registers, int]:
    """Convert integers to fp16, in pairs if they are bit fields; also return the excess."""
    op, field = value.owner, _field_of(value)
    if _is_byte(op) and not _all_single(em, op.input):
        return _bytes_to_halves(em, op), 0
    if field is not None and _is_single(em, field):
        return mapped(em, HALF, [em.registers(value)], partial(_biased_field, em)), BIAS
    if _bias(em, value) is None or _is_byte(op):
        return mapped(em, HALF, [em.registers(value)], lambda v: Term(em, v).to_float(
            FLOAT).resized(HALF).value), 0
    if field is not None:
        return _field_to_halves(em, field), BIAS
    assert isinstance(op, arith.AddiOp | arith.SubiOp)
    left, one = _biased(em, op.lhs)
    if constant_of(op.rhs) is not None:
        return left, _sum(op, one, None)
    right, other = _biased(em, op.rhs)
    bias, is_sum = _sum(op, one, other), isinstance(op, arith.AddiOp)
    if right.single(0) and bias:
        by = float(-bias if is_sum else bias)
        right, bias = mapped(em, HALF, [right], lambda v: (Term(em, v) + by).value), 0
    return arithmetic(em, "add" if is_sum else "sub", left, right), bias


def _is_byte(op: Any) -> TypeGuard[ExtSIOp | ExtUIOp]:
    """True if an operation extends bytes."""
    return isinstance(op, ExtSIOp | ExtUIOp) and scalar_type(op.input.type) == I8


def _all_single(em: Emitter, value: SSAValue) -> bool:
    """True if all registers of a chunk are equal."""
    held = em.registers(value)
    return all(held.single(i) for i in range(held.chunks))


def _bytes_to_halves(em: Emitter, op: ExtSIOp | ExtUIOp) -> Registers:
    """Convert bytes to fp16."""
    held, signed = em.registers(op.input), isinstance(op, ExtSIOp)

    def plain(x: Term) -> Term:
        return x.to_float(FLOAT, signed=signed).resized(HALF)

    def make(i: int) -> ir.Operand:
        x = Term(em, held.slice(em, CHUNK * i, CHUNK))
        made = from_bytes("s8" if signed else "u8", x, plain, pairs=True) or plain(x)
        return em.b.bitcast(made.value, FOUR)

    return _halves(em, held.count, make,
                   lambda i: held.parts_of(range(CHUNK * i, CHUNK * (i + 1))))


def _is_single(em: Emitter, field: _Field) -> bool:
    """True if all registers of a chunk are the same field of the same word."""
    parts = [em.registers(v) for v in (field.words, field.shift) if v is not None]
    return all(part.single(i) for part in parts for i in range(part.chunks))


def _field_to_halves(em: Emitter, field: _Field) -> Registers:
    """Compute 1024 + field as fp16."""
    words = em.registers(field.words)
    shift = None if field.shift is None else em.registers(field.shift)
    packed = None if field.bytes is None else em.registers(field.bytes)
    known, fits = _known_shifts(em, field), _stays_inside(em, field)
    half = _which_half(em, field)

    def is_word(i: int) -> bool:
        mine = known[CHUNK * i : CHUNK * (i + 1)]
        return bool(words.single(i)) and field.bits == 4 and mine == tuple(range(0, 32, 4))

    def four(i: int) -> int | None:
        by_bytes = known[CHUNK * i : CHUNK * (i + 1)] == (0, 4) * (CHUNK // 2)
        return packed.four(i) if by_bytes and isinstance(packed, Repeated) else None

    def place(i: int) -> Callable[[], ir.Operand] | None:
        return shift.single(i) if shift is not None and fits else None

    def make(i: int) -> ir.Operand:
        one, by, first = words.single(i), place(i), four(i)
        if first is not None:
            assert isinstance(packed, Repeated)
            return _call(em, "nibbles", [packed.source.words(em, first, 4)], _nibbles)
        if is_word(i) and one is not None:
            return _call(em, "nibbles", [one()], _nibbles)
        if by is not None and half and isinstance(words, RowsInLanes):
            given = [words.packed(i), _limit_shift(em, by())]
            return _call(em, f"{half}.4", given if half == "in_order" else [*given, _masks(em)],
                           lambda inner, word, by, *masks: _bits_of_rows(
                               15, inner, word, inner.splat(by, FOUR.count)))
        if by is not None and isinstance(words, RowsInLanes):
            return _call(em, f"rows.{field.bits}", [words.packed(i), _rotations(em, by())],
                           partial(_bits_of_rows, field.mask))
        if by is not None or shift is None:
            return _fields(em, words.chunk(em, i), None if by is None else by(), field)
        moved = (em.b.ashr if field.signed else em.b.lshr)(
            words.chunk(em, i), _limit_shift(em, shift.chunk(em, i)))
        return _fields(em, moved, None, field)

    def needs(i: int) -> Iterable[Part]:
        first = four(i)
        if first is not None:
            assert isinstance(packed, Repeated)
            return packed.source.parts_of_words(first, 4)
        if is_word(i):
            return []
        if place(i) is not None:
            return words.needs(i) if isinstance(words, RowsInLanes) else words.parts(i)
        return words.parts(i) if shift is None else [*words.parts(i), *shift.parts(i)]

    return _halves(em, words.count, make, needs)


def _which_half(em: Emitter, field: _Field) -> str:
    """Order in which lanes take 4-bit fields from the halves of words; "" if unknown."""
    import numpy as np

    numbers = None if field.shift is None else known_elements(field.shift, as_shifts=True)
    if numbers is None or field.bits != 4 or numbers.ndim != 2 or numbers.shape[1] % 16:
        return ""
    assert field.shift is not None
    if em.view(field.shift).lanes != ((0, 1), (0, 2), (0, 4), (0, 8)):
        return ""
    lane, size = np.arange(16), (numbers.shape[0], numbers.shape[1] // 16)
    orders = {"in_order": lane % 8 * 4, "in_turns": lane % 2 * 16 + lane % 8 // 2 * 4}
    return next((k for k, v in orders.items() if np.array_equal(np.tile(v, size), numbers)), "")


def _stays_inside(em: Emitter, field: _Field) -> bool:
    """True if a field never crosses the end of a word: the shift is a multiple of its width."""
    if field.shift is None:
        return True
    return em.proven.of(field.shift).divisor % field.bits == 0 and (
        32 % field.bits == 0)


def _fields(em: Emitter, words: ir.Operand, by: ir.Operand | None, field: _Field) -> ir.Operand:
    """Lowest bits of eight rotated words, every other one in the upper half."""
    halves = [em.shuffle(words, words, list(range(at, at + 4))) for at in (0, 4)]
    body = partial(_bits, field.mask)
    return _call(em, f"bits.{field.bits}", [*halves, _rotations(em, by)], body)


def _masks(em: Emitter) -> ir.Operand:
    """In even lanes a mask of four bits in both halves, in odd ones fp16's 1024 in both."""
    def make() -> ir.Operand:
        odd = em.b.icmp("ne", em.b.and_(em.lane_id(), 1), 0)
        return em.b.select(odd, number(MAGIC * BOTH), 15 * BOTH)

    return em.remember(("masks",), make)


def _rotations(em: Emitter, by: ir.Operand | None) -> ir.Operand:
    """Amounts by which words are rotated right for the lower and the upper half."""
    if by is None:
        return ir.integers(I32, [0, 16, 0, 16])
    within = _limit_shift(em, by)
    return em.remember(("rotations", within), lambda: em.pack(
        I32, [within, em.b.add(within, 16)] * 2))


def _limit_shift(em: Emitter, by: ir.Operand) -> ir.Operand:
    """Limit a shift to 31, which leaves the sign only, as larger shifts do."""
    if by.is_constant:
        return by

    def make() -> ir.Operand:
        fits = em.b.icmp("ult", by, Term(em, by).term(32).value)
        em.b.mark_fitting(fits)
        return em.b.select(fits, by, Term(em, by).term(31).value)

    return em.remember(("within", by), make)


def _bits(
    mask: int, inner: Writer, first: ir.Operand, last: ir.Operand, by: ir.Operand
) -> ir.Operand:
    """Body of a function: 1024 plus the masked bits of eight words, two fp16 to a dword."""
    moved = inner.splat(inner.b.extract(by, 0), FOUR.count)
    parts = [inner.shuffle(first, last, list(range(at, 8, 2))) for at in (0, 1)]
    low, high = (Term(inner, inner.b.lshr(part, moved)) & mask for part in parts)
    return (low | high << 16 | MAGIC * BOTH).value


def _bits_of_rows(mask: int, inner: Writer, word: ir.Operand, by: ir.Operand) -> ir.Operand:
    """`_bits` of the eight rows of a word, which are in several lanes."""
    rows = rows_of(inner, word)
    halves = [inner.shuffle(rows, rows, list(range(at, at + 4))) for at in (0, 4)]
    return _bits(mask, inner, halves[0], halves[1], by)


def _nibbles(inner: Writer, word: ir.Operand) -> ir.Operand:
    """Unpack the eight nibbles of a word."""
    moved = inner.b.lshr(inner.splat(word, FOUR.count), ir.integers(I32, [0, 8, 16, 24]))
    byte = Term(inner, moved) & 255
    return ((byte | byte << 12) & 0xF000F | MAGIC * BOTH).value


def _known_shifts(em: Emitter, field: _Field) -> tuple[int, ...]:
    """Shift amount of each register, if known."""
    numbers = None if field.shift is None else known_elements(field.shift)
    if numbers is None:
        return ()
    assert field.shift is not None
    view = em.view(field.shift)
    moved = [d for d in range(numbers.ndim) if any(c[d] for c in (*view.lanes, *view.warps))]
    if any((numbers != numbers.take([0], d)).any() for d in moved):
        return ()
    return tuple(int(numbers[c]) for c in view.registers)
