"""4-bit floats (e2m1), two in a byte, as f16 or bf16.

| bits without sign | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
|---|---|---|---|---|---|---|---|---|
| value | 0 | 0.5 | 1 | 1.5 | 2 | 3 | 4 | 6 |

Format: OCP microscaling formats (MX) 1.0, section 5.3.3.  Above 1 the bits are exponent and
mantissa of the wider type, moved and biased.
"""

from __future__ import annotations

from triton_xe.dialects.ttg import Fp4ToFpOp
from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.tensors.registers import mapped
from triton_xe.lowering.emit.tensors.shape import in_place, picked
from triton_xe.lowering.emit.types import HALF, I16, is_bf16, scalar_type

_WIDER = {True: (6, 126 << 7, 0x3F00), False: (9, 14 << 10, 0x3800)}
"""For bf16 and f16: how far the bits move, what is added to them, and 0.5."""


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
    kind, into_bf16 = scalar_type(op.result.type), is_bf16(op.result.type)
    sides = [
        mapped(em, kind, [source], lambda v, s=shift: _number(Term(em, v), s, into_bf16).value)
        for shift in (0, 4)
    ]
    picks = [(sides[c[axis] & 1], old.index[halved(c)]) for c in new.registers]
    em.bind(op.result, picked(em, kind, picks))


def _number(x: Term, shift: int, into_bf16: bool) -> Term:
    """The 4-bit float that begins at bit `shift` of a byte."""
    held = x.resized(I16)
    held = held >> shift if shift else held
    move, bias, half = _WIDER[into_bf16]
    size = held & 7
    bits = (size << move) + bias
    for number, exact in ((1, half), (0, 0)):
        bits = where(size.equals(number), exact, bits)
    bits = bits | (held & 8) << 12
    return bits if into_bf16 else bits.bitcast(HALF)
