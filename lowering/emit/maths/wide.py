"""Operations on the 32-bit elements of a vector, two registers at a time.

A vector occupies whole registers.  One instruction of the hardware takes two of them, but Intel's
compiler writes one for each.  As in `halves`, the operations are functions of the module.  Their
body in LLVM IR is the definition, and `triton_xe.lowering.spirv.wide_visa` has the equivalent vISA.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from triton_xe import llvm as ir
from triton_xe.dialects.arith_ext import TruncFOp
from triton_xe.dialects.tt import ops as tt
from triton_xe.hardware.dpas import Dpas
from triton_xe.intrinsics import genisa
from triton_xe.lowering.emit.helpers import call_internal, internal_function
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.tensors.registers import Halves, InWords, Registers, concatenated
from triton_xe.lowering.emit.types import (
    FLOAT,
    HALF,
    I8,
    I16,
    I32,
    I64,
    bits_of,
    number,
    vector_of,
)
from triton_xe.lowering.emit.values import elements_of, instruction_of, number_of, opcode_of
from triton_xe.lowering.emit.writer import BUILTIN, ModuleState, Writer
from triton_xe.spirv import INITIAL, PRODUCT, SCALES, WIDE

AT_ONCE = 4
"""Elements of a function: those of four registers."""
_PACKED_AS = {FLOAT: "<f", HALF: "<e"}
_INTERLEAVED = [half * AT_ONCE + i for i in range(AT_ONCE) for half in (0, 1)]
_BY_WORD = [byte * AT_ONCE + i for i in range(AT_ONCE) for byte in range(4)]
"""Order of four vectors, each of equal bytes of the words, as the bytes are in the words."""
_BROADCAST = "_Z19sub_group_broadcast"
_UNIFORM = ("bitcast", "fdiv", "fmul", "fadd", "fsub")
"""Operations whose results are equal in all lanes if their operands are."""
COMPUTED = ("fadd", "fsub", "fmul", "call")
"""Operations whose vector can be passed to a function without a copy; parts of others are
copied.
"""


def in_pairs_of_registers(
    name: str, x: Term, plain: Callable[[Term], Term], *, as_bits: bool = False
) -> Term:
    """Compute `plain(x)` by a function of the module, if `x` is a computed vector of fp32.

    With `as_bits`, for operands of DPAS, any fp32 vector will do.  The result is then integers,
    which Intel's compiler leaves where they are used.
    """
    em, kind = x.em, x.value.type
    if not (suits(em.state) and kind.kind == "vec" and kind.scalar is FLOAT
            and kind.count % AT_ONCE == 0):
        return plain(x)
    if not as_bits and not _is_computed(x.value):
        return plain(x)
    small = vector_of(I32 if as_bits else FLOAT, AT_ONCE)

    def body(inner: Writer) -> ir.Operand:
        return inner.b.bitcast(plain(Term(inner, inner.function.arguments[0])).value, small)

    made = concatenated(em, [
        _call(em, name, [p], small, body) for p in _split(em, x.value)])
    return x.with_value(em.b.bitcast(made, kind))


def _split(em: Writer, value: ir.Operand) -> list[ir.Operand]:
    """Split a vector into vectors of `AT_ONCE` elements."""
    count = value.type.count
    return [value] if count == AT_ONCE else [
        em.shuffle(value, value, list(range(first, first + AT_ONCE)))
        for first in range(0, count, AT_ONCE)]


def _is_computed(value: ir.Operand) -> bool:
    """True if a vector, or each of those it is concatenated from, can be passed without a copy."""
    if (joined := instruction_of(value, "shufflevector")) is not None:
        return _is_concatenation(joined) and all(map(_is_computed, joined.operands))
    return opcode_of(value) in COMPUTED


def _is_contiguous(value: ir.Operand) -> bool:
    """True if groups of four elements are in consecutive registers, including loaded ones."""
    if (joined := instruction_of(value, "shufflevector")) is not None:
        return _is_concatenation(joined) and all(map(_is_contiguous, joined.operands))
    return opcode_of(value) == "load" or _is_computed(value)


def _is_concatenation(shuffle: ir.Instruction) -> bool:
    """True if a shuffle concatenates two vectors of fp32 of the same length."""
    count = shuffle.type.count
    return ({part.type for part in shuffle.operands} == {vector_of(FLOAT, count // 2)}
            and shuffle.indices == tuple(range(count)))


def combine_with_uniform(
    em: Writer, name: str, x: ir.Operand, other: ir.Operand
) -> ir.Operand | None:
    """Subtract ("less"), or multiply by ("times"), a uniform number, four elements at a time.

    `other` has each number four times.  None if no function serves.
    """
    kind = x.type
    if not (suits(em.state) and kind.kind == "vec" and kind.scalar is FLOAT
            and kind.count % AT_ONCE == 0 and _is_contiguous(x)):
        return None
    repeated = instruction_of(other, "shufflevector")
    found = [] if repeated is None else [
        _scalar_of_splat(repeated, first) for first in range(0, kind.count, AT_ONCE)]
    ones = [one for one in found if one is not None and _is_uniform(one, em.b.block)]
    if not ones or len(ones) < len(found):
        return None

    def body(inner: Writer) -> ir.Operand:
        all_x, one = inner.function.arguments
        value = inner.splat(one, AT_ONCE)
        return inner.b.fsub(all_x, value) if name == "less" else inner.b.fmul(all_x, value)

    four = vector_of(FLOAT, AT_ONCE)
    return concatenated(em, [_call(em, name, [part, one], four, body)
                             for part, one in zip(_split(em, x), ones, strict=True)])


def _scalar_of_splat(shuffle: ir.Instruction, first: int) -> ir.Operand | None:
    """The scalar that the `AT_ONCE` elements from `first` on repeat; None if they differ."""
    positions = set(shuffle.indices[first:first + AT_ONCE])
    held = shuffle.operands[0]
    if len(positions) > 1 or max(positions) >= held.type.count:
        return None
    while (made := instruction_of(held, "insertelement")) is not None:
        held, scalar, position = made.operands
        if position.integer_value() in positions:
            return scalar
    return None


def is_never_rounded(op: Operation) -> bool:
    """True if no user rounds a result to fewer bits; such results are computed in pairs instead."""
    return not any(isinstance(use.operation, TruncFOp | tt.FpToFpOp)
                   for result in op.results for use in result.uses)


def _is_uniform(value: ir.Operand, block: ir.Block) -> bool:
    """True if Intel's compiler finds from this block alone that a value is equal in all lanes."""
    if value.is_constant:
        return True
    made = instruction_of(value, "call", *_UNIFORM)
    if made is None or made not in block.instructions:
        return False
    if made.opcode == "call":
        return made.callee.startswith(_BROADCAST)
    return all(_is_uniform(v, block) for v in made.operands)


def floats_of(held: Halves) -> Registers | None:
    """fp16 or bf16 registers, two in a word, as fp32; None where no function serves."""
    em, pairs = held.em, held.pairs
    if not suits(em.state) or pairs.width != AT_ONCE:
        return None
    small = vector_of(FLOAT, AT_ONCE)

    def part(name: str, first: int, words: ir.Operand) -> ir.Operand:
        def of_halves(inner: Writer) -> ir.Operand:
            halves = inner.b.bitcast(inner.function.arguments[0], vector_of(HALF, 2 * AT_ONCE))
            return inner.b.fpext(inner.shuffle(halves, halves, range(first, 8, 2)), small)

        def of_bf16(inner: Writer) -> ir.Operand:
            given = Term(inner, inner.function.arguments[0])
            return (given & 0xFFFF0000 if first else given << 16).bitcast(FLOAT).value

        if held.kind == HALF:
            return _call(em, name, [words], small, of_halves)
        return _call(em, f"bf16_{name}", [words], small, of_bf16)

    def make(i: int) -> ir.Operand:
        words = pairs.chunk(em, i)
        return em.shuffle(part("low", 0, words), part("high", 1, words), _INTERLEAVED)

    return Registers(held.count, FLOAT, make, 2 * AT_ONCE, needs=lambda i: pairs.parts(i))


def words_of_halves(em: Writer, value: ir.Operand) -> ir.Operand | None:
    """Eight fp32 elements as fp16, two in a word; None where no function serves."""
    if not suits(em.state) or value.type != vector_of(FLOAT, 2 * AT_ONCE):
        return None

    def body(inner: Writer) -> ir.Operand:
        low, high = inner.function.arguments
        whole = inner.shuffle(low, high, _INTERLEAVED)
        halves = inner.b.fptrunc(whole, vector_of(HALF, 2 * AT_ONCE))
        return inner.b.bitcast(halves, vector_of(I32, AT_ONCE))

    parts = [em.shuffle(value, value, range(first, 8, 2)) for first in (0, 1)]
    return _call(em, "pack", parts, vector_of(I32, AT_ONCE), body)


def integers_of(held: InWords, *, signed: bool) -> Registers | None:
    """Bytes in words as integers of 32 bits; None where no function serves.

    Intel's compiler first moves the bytes of a word to registers of their own.
    """
    em, words = held.em, held.held
    if not suits(em.state) or held.kind != I8 or words.count % AT_ONCE:
        return None

    def body(inner: Writer) -> ir.Operand:
        given = Term(inner, inner.function.arguments[0])
        shifted = [given << 24 - 8 * byte for byte in range(4)]
        return concatenated(inner, [
            (x.arithmetic_shift(24) if signed else x >> 24).value for x in shifted])

    def make(i: int) -> ir.Operand:
        found = _call(em, "signed_bytes" if signed else "unsigned_bytes",
                      [words.slice(em, i * AT_ONCE, AT_ONCE)], vector_of(I32, 4 * AT_ONCE), body)
        return em.shuffle(found, found, _BY_WORD)

    return Registers(held.count, I32, make, 4 * AT_ONCE, needs=lambda i: words.parts_of(
        range(i * AT_ONCE, (i + 1) * AT_ONCE)))


def words_of_bytes(em: Writer, value: ir.Operand) -> ir.Operand | None:
    """The low bytes of sixteen words, four in a word; None where no function serves."""
    if not suits(em.state) or value.type != vector_of(I32, 4 * AT_ONCE):
        return None

    def body(inner: Writer) -> ir.Operand:
        whole = inner.function.arguments[0]
        small = inner.b.trunc(inner.shuffle(whole, whole, _BY_WORD), vector_of(I8, 4 * AT_ONCE))
        return inner.b.bitcast(small, vector_of(I32, AT_ONCE))

    return _call(em, "pack_bytes", [em.shuffle(value, value, _BY_WORD)],
                 vector_of(I32, AT_ONCE), body)


def deinterleave_halves(em: Writer, words: ir.Operand) -> ir.Operand | None:
    """Order the lower halves of two words before their upper ones, then those of the next two.

    None if no function serves.
    """
    if not suits(em.state) or words.type != vector_of(I32, AT_ONCE):
        return None
    small = vector_of(I16, 2 * AT_ONCE)

    def body(inner: Writer) -> ir.Operand:
        halves = inner.b.bitcast(inner.function.arguments[0], small)
        return inner.shuffle(halves, halves, [0, 2, 1, 3, 4, 6, 5, 7])

    return _call(em, "rows", [words], small, body)


def interleave_bytes(em: Writer, pair: ir.Operand) -> ir.Operand | None:
    """Interleave the bytes of two values of 64 bits: the first ones, then the second ones.

    None if no function serves.
    """
    if not suits(em.state) or pair.type != vector_of(I64, 2):
        return None
    small = vector_of(I8, 16)

    def body(inner: Writer) -> ir.Operand:
        each = inner.b.bitcast(inner.function.arguments[0], small)
        return inner.shuffle(each, each, [8 * e + byte for byte in range(8) for e in (0, 1)])

    return _call(em, "bytes", [pair], small, body)


def scale_pairs(em: Writer, words: ir.Operand) -> ir.Operand:
    """The bytes of two or four words, of 2 or 4 bytes, as scaled products read them.

    A product of e2m1 takes bytes 0 and 1 of the lanes, or bytes 2 and 3.  They are in one register,
    at a distance of 32 bytes, and next to them those of the other word of a pair.
    """
    small, count, size = vector_of(I8, 16), words.type.count, bits_of(words.type.scalar) // 8

    def body(inner: Writer) -> ir.Operand:
        each = inner.b.bitcast(inner.function.arguments[0], vector_of(I8, size * count))
        return inner.shuffle(each, each, [
            size * ((2 * pair + e) % count) + (2 * step + byte) % size
            for step in (0, 1) for pair in (0, 1) for byte in (0, 1) for e in (0, 1)])

    return _call(em, f"{SCALES}{count}x{size}", [words], small, body)


class Scales(NamedTuple):
    """Scales of a product in `bytes`, 16 bytes each of four registers: a register, and a byte
    there.
    """

    bytes: ir.Operand
    register: int
    first: int

    def value(self, w: Writer, held: ir.Operand, count: int) -> ir.Operand:
        """The scales of each lane, of `bytes` or a copy; from byte 8 on those of lane (own ^ 8)."""
        start = 4 * self.register + self.first // 16
        made = [w.b.extract(held, start + 2 * i) for i in range(count)]
        if self.first % 16:
            made = [w.b.trunc(w.call(genisa.SIMD_SHUFFLE_XOR, [w.b.zext(each, I32), number(8)]), I8)
                    for each in made]
        return w.pack(I8, made)


def scaled_product(
    em: Writer, dpas: Dpas, factors: Sequence[ir.Operand], left: Scales, right: Scales
) -> ir.Operand:
    """A scaled product with a sum; IGC copies sums and scales for each that is no assembly."""
    places = [n for each in (left, right) for n in (each.register, each.first)]
    name = PRODUCT + "_".join(map(str, (dpas.a, dpas.b, *places)))

    def body(inner: Writer) -> ir.Operand:
        *given, a_scales, b_scales = inner.function.arguments
        scales = [each.value(inner, held, dpas.scales)
                  for each, held in ((left, a_scales), (right, b_scales))]
        return inner.call(genisa.SCALED_DPAS, [*given, *scales, *map(number, dpas.precision)])

    return _call(em, name, [*factors, left.bytes, right.bytes], factors[0].type, body)


def constant(em: Writer, value: ir.Operand) -> ir.Operand:
    """A vector; a constant of four equal elements of 32 bits becomes the result of a function."""
    if not suits(em.state) or value.type.count != AT_ONCE:
        return value
    bits = same_bits(value)
    if bits is None or bits_of(value.type.scalar) != 32:
        return value
    return _call(em, f"fill_{bits:08x}", [], value.type, lambda inner: value)


def initial_sums(state: ModuleState, value: ir.Operand) -> ir.Instruction:
    """A call of the function that returns a constant vector, whose elements have the same bits."""
    symbol = f"{WIDE}{INITIAL}{same_bits(value):08x}_{value.type.count}.{value.type.scalar}"
    if symbol not in state.llvm.functions:
        function = internal_function(state, symbol, value.type, [])
        function.blocks.append(ir.Block("%entry"))
        Writer(state, function, function.blocks[0]).b.ret(value)
    return ir.Instruction("call", value.type, [], callee=symbol, attributes=BUILTIN)


def same_bits(value: ir.Operand) -> int | None:
    """The bits of each element of a constant vector that are all the same, of 16 or 32 bits."""
    if not value.is_constant or value.type.kind != "vec":
        return None
    kind, numbers = value.type.scalar, {number_of(each) for each in elements_of(value)}
    first = numbers.pop()
    if first is None or numbers:
        return None
    if kind in _PACKED_AS:
        return int.from_bytes(struct.pack(_PACKED_AS[kind], first), "little")
    return int(first) & (1 << bits_of(kind)) - 1 if kind.kind == "int" else None


def _call(
    em: Writer, name: str, arguments: Sequence[ir.Operand], kind: ir.Type,
    plain: Callable[[Writer], ir.Operand],
) -> ir.Operand:
    """The result of a function, of vectors of one type; `plain` writes its body."""
    return call_internal(em, f"{WIDE}{name}.{kind.scalar}", kind, arguments,
                         lambda inner, *_: plain(inner))
