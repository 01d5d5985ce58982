"""Rule expand-fpsan: replace float arithmetic by the integer arithmetic of Triton's `fpsan`.

    %i = tti.experimental_fpsan_embed %x    ->  %b = tt.bitcast %x
                                                %i = sign(%b) | (mix(%b * A) * B) mod 2^(w-1)
    %x = tti.experimental_fpsan_unembed %i  ->  the inverse, and tt.bitcast
    mix(v) = v ^ (v mod 2^(w-1) >> m)       for floats of w bits with a mantissa of m bits

A is an odd constant, and B is chosen by the sign of %b so that 1.0 and -1.0 become 1 and -1.  Both
directions preserve the sign bit, and are one-to-one.  The formulas are those of libtriton 3.9.0,
taken from the LLVM IR for its own targets.  Other versions must give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
)
from xdsl.ir import Attribute, Operation, SSAValue

from triton_xe.dialects.arith_ext import SelectOp
from triton_xe.dialects.text.assembly import element_type
from triton_xe.dialects.tti import FpsanEmbedOp, FpsanUnembedOp
from triton_xe.lowering.family import Scope
from triton_xe.lowering.front.writer import Writer
from triton_xe.lowering.rewriting import replace_by

A = 14940041


class Format(NamedTuple):
    """Bits of a float, and those of its mantissa without the leading one."""

    bits: int
    mantissa: int

    @property
    def magnitude(self) -> int:
        """All bits but the sign."""
        return (1 << self.bits - 1) - 1

    @property
    def one(self) -> int:
        """1.0: an exponent of the bias."""
        return self.magnitude >> self.mantissa + 1 << self.mantissa

    def mixed(self, value: int) -> int:
        """mix(v) of the module's formulas."""
        value &= self.magnitude
        return value ^ value >> self.mantissa

    def inverse(self, factor: int) -> int:
        """Inverse of an odd factor modulo 2^(w-1)."""
        return pow(factor, -1, self.magnitude + 1)

    @property
    def factors(self) -> tuple[int, int]:
        """B for floats without and with a sign."""
        positive = self.inverse(self.mixed(self.one * A))
        return positive, self.magnitude + 1 - positive


def expand_fpsan(op: Operation, scope: Scope) -> None:
    """Replace float arithmetic by the integer arithmetic of Triton's `fpsan`."""
    replace_by(op, lambda: [FPSAN[type(op)](_Writer(op), op)])


def _embedded(w: _Writer, op: Operation) -> SSAValue:
    """Write the integer that stands for a float, by the formula above."""
    form = format_of(element_type(op.operands[0].type))
    bits = w.bitcast(op.operands[0], op.results[0].type)
    product = w.do(arith.MuliOp, bits, A & form.magnitude)
    shifted = w.do(arith.ShRUIOp, w.do(arith.AndIOp, product, form.magnitude), form.mantissa)
    mixed = w.do(arith.XOrIOp, product, shifted)
    made = w.do(arith.MuliOp, mixed, w.by_sign(bits, *form.factors))
    return w.with_sign_of(bits, made, form)


def _unembedded(w: _Writer, op: Operation) -> SSAValue:
    """Write the float that an integer stands for: the inverse of `_embedded`."""
    form = format_of(element_type(op.results[0].type))
    value = op.operands[0]
    back = [form.inverse(factor) for factor in form.factors]
    mixed = w.do(arith.AndIOp, w.do(arith.MuliOp, value, w.by_sign(value, *back)), form.magnitude)
    shift = form.mantissa
    while shift < form.bits - 1:
        mixed = w.do(arith.XOrIOp, mixed, w.do(arith.ShRUIOp, mixed, shift))
        shift *= 2
    made = w.do(arith.MuliOp, mixed, form.inverse(A & form.magnitude))
    return w.bitcast(w.with_sign_of(value, made, form), op.results[0].type)


FPSAN: dict[type[Operation], Callable[[_Writer, Operation], SSAValue]] = {
    FpsanEmbedOp: _embedded, FpsanUnembedOp: _unembedded,
}


def format_of(kind: Attribute) -> Format:
    """The format of a float; 8-bit formats are distinguished by their mantissa."""
    known: dict[type[Attribute], Format] = {
        Float64Type: Format(64, 52), Float32Type: Format(32, 23),
        Float16Type: Format(16, 10), BFloat16Type: Format(16, 7)}
    found = known.get(type(kind))
    return found or Format(8, 2 if "E5M2" in str(kind) else 3)


class _Writer(Writer):
    """Writes what depends on the sign of an integer."""

    def by_sign(self, value: SSAValue, positive: int, negative: int) -> SSAValue:
        is_negative = self.compare(value, 0, "slt")
        return self.put(SelectOp(is_negative, self.constant(negative, value.type),
                                 self.constant(positive, value.type)))

    def with_sign_of(self, value: SSAValue, result: SSAValue, form: Format) -> SSAValue:
        sign = self.do(arith.AndIOp, value, form.magnitude + 1)
        return self.do(arith.OrIOp, self.do(arith.AndIOp, result, form.magnitude), sign)
