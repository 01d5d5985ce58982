"""4-bit floats (e2m1), two in a byte, as f16 or bf16.

| bits without sign | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
|---|---|---|---|---|---|---|---|---|
| value | 0 | 0.5 | 1 | 1.5 | 2 | 3 | 4 | 6 |

Format: OCP microscaling formats (MX) 1.0, section 5.3.3.  Above 1 the bits are exponent and
mantissa of the wider type, moved and biased.
"""

from __future__ import annotations

from llvmlite import ir
from xdsl.ir import Operation

from triton_xe.errors import UnsupportedError
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.maths.floats import filled, shaped
from triton_xe.lowering.emit.tensors.registers import mapped
from triton_xe.lowering.emit.tensors.shape import picked
from triton_xe.lowering.emit.types import I16, is_bf16, scalar_type
from triton_xe.lowering.surfaces.affine import attribute

_WIDER = {True: (6, 126 << 7, 0x3F00), False: (9, 14 << 10, 0x3800)}
"""For bf16 and f16: how far the bits move, what is added to them, and 0.5."""


@lowers("ttg.fp4_to_fp")
def lower_fp4_to_fp(em: Emitter, op: Operation) -> None:
    (result,) = op.results
    axis = attribute(op, "axis").value.data
    source = em.registers(op.operands[0])
    old, new = em.view(op.operands[0]), em.view(result)

    def halved(c: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x // 2 if d == axis else x for d, x in enumerate(c))

    alike = all(
        a == halved(b) and not b[axis] & 1
        for mine, theirs in ((old.lanes, new.lanes), (old.warps, new.warps))
        for a, b in zip(mine, theirs, strict=True)
    )
    if not alike or any(halved(c) not in old.index for c in new.registers):
        raise UnsupportedError("ttg.fp4_to_fp between layouts that differ in lanes or warps")
    kind = scalar_type(result.type)
    sides = [
        mapped(em, kind, [source], lambda v, s=shift: _number(em, v, s, is_bf16(result.type)))
        for shift in (0, 4)
    ]
    picks = [(sides[c[axis] & 1], old.index[halved(c)]) for c in new.registers]
    em.bind(result, picked(em, kind, picks))


def _number(em: Emitter, value: ir.Value, shift: int, into_bf16: bool) -> ir.Value:
    """The 4-bit float that begins at bit `shift` of a byte."""
    wide = em.b.zext(value, shaped(value.type, I16))
    kind = wide.type

    def constant(number: int) -> ir.Constant:
        return filled(kind, number)

    move, bias, half = _WIDER[into_bf16]
    held = em.b.lshr(wide, constant(shift)) if shift else wide
    size = em.b.and_(held, constant(7))
    bits = em.b.add(em.b.shl(size, constant(move)), constant(bias))
    for number, exact in ((1, half), (0, 0)):
        special = em.b.icmp_unsigned("==", size, constant(number))
        bits = em.b.select(special, constant(exact), bits)
    sign = em.b.shl(em.b.and_(held, constant(8)), constant(12))
    bits = em.b.or_(bits, sign)
    return bits if into_bf16 else em.b.bitcast(bits, shaped(kind, ir.HalfType()))
