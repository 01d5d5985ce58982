"""4-bit floats (e2m1), two in a byte, as f16 or bf16.

| bits without sign | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
|---|---|---|---|---|---|---|---|---|
| value | 0 | 0.5 | 1 | 1.5 | 2 | 3 | 4 | 6 |

Format: OCP microscaling formats (MX) 1.0, section 5.3.3.  Above 1 the bits are exponent and
mantissa of the wider type, moved and biased.
"""

from __future__ import annotations

from triton_xe import llvm as ir
from triton_xe.dialects.ttg import Fp4ToFpOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths import floats, halves
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.tensors.registers import mapped
from triton_xe.lowering.emit.tensors.shape import in_place, picked
from triton_xe.lowering.emit.types import FLOAT, HALF, I16, scalar_type

_WIDER = {True: (6, 126 << 7, 0x3F00), False: (9, 14 << 10, 0x3800)}
"""For bf16 and f16: the shift of the bits, the bias that is added, and the bits of 0.5."""


@lowers(Fp4ToFpOp)
def lower_fp4_to_fp(em: Emitter, op: Fp4ToFpOp) -> None:
    axis = op.axis.value.data
    source = em.registers(op.src)
    old, new = em.view(op.src), em.view(op.result)

    def halved(c: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x // 2 if d == axis else x for d, x in enumerate(c))

    odd = any(c[axis] & 1 for c in (*new.lanes, *new.warps))
    if odd or not in_place(old, new, halved):
        raise UnsupportedError("ttg.fp4_to_fp between layouts that differ in lanes or warps")
    kind = scalar_type(op.result.type)
    through = HALF if halves.suits(em.state) else kind
    sides = [mapped(em, through, [source], lambda v, s=shift: _side(Term(em, v), s, through).value)
             for shift in (0, 4)]
    picks = [(sides[c[axis] & 1], old.index[halved(c)]) for c in new.registers]
    made = picked(em, through, picks)
    if through != kind:
        made = mapped(em, kind, [made], lambda v: floats.exact_bf16(
            Term(em, v).resized(FLOAT)).value)
    em.bind(op.result, made)


def _side(x: Term, shift: int, kind: ir.Type) -> Term:
    """Convert the 4-bit floats at bit `shift` of bytes, by functions for fp16 if possible."""
    name = "e2m1_high" if shift else "e2m1_low"
    half = halves.from_bytes(name, x, lambda y: _number(y, shift, into_bf16=False), pairs=False)
    return _number(x, shift, into_bf16=kind != HALF) if half is None else half


def _number(x: Term, shift: int, into_bf16: bool) -> Term:
    """Convert the 4-bit float at bit `shift` of a byte.

    Its bits are moved and compared where they are, so that the upper one takes no shift of its own.
    """
    held = x.resized(I16)
    move, bias, half = _WIDER[into_bf16]
    size = held & 7 << shift
    bits = (size << move - shift) + bias
    for number, exact in ((1, half), (0, 0)):
        bits = where(size.equals(number << shift), exact, bits)
    bits = bits | (held & 8 << shift) << 12 - shift
    return bits if into_bf16 else bits.bitcast(HALF)
