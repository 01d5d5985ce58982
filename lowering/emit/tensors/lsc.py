"""Accesses of single lanes to global memory with a cache policy.

Intel's compiler prints a policy on `GenISA.LSCLoad` and `LSCStore` only, whose last operand is the
code of `hardware.block_2d.cache_code`; decorations of pointers (SPV_INTEL_cache_controls) are lost
wherever a pointer is computed in bytes.  These messages move words: 1 to 4 of 32 bits, 1 to 4 of
64, or one of 8 or 16 bits in a register of 32.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from triton_xe.hardware.block_2d import cache_code
from triton_xe.intrinsics import Intrinsic, genisa
from triton_xe.lowering.emit.maths.terms import scalar_of
from triton_xe.lowering.emit.types import I8, I32, I64, bits_of, vector_of

_DATA_SIZES = {32: 3, 64: 4}
_NARROW_SIZES = {8: 5, 16: 6}
"""Data sizes of the message; the narrow ones are zero-extended to 32 bits."""
_MOST = 4


def load_with_policy(em: Any, pointer: ir.Value, kind: ir.Type, align: int, policy: str) -> Any:
    """A scalar or vector of at most 16 bytes, read with a cache policy such as "uc.ca"."""
    code = cache_code(policy, em.target)
    whole = _raw(kind)
    parts = [_load(em, _moved(em, pointer, at), part, code) for at, part in _parts(whole, align)]
    return _bitcast(em, _joined(em, parts, whole), kind)


def store_with_policy(
    em: Any, pointer: ir.Value, value: ir.Value, align: int, policy: str
) -> None:
    """Write a scalar or vector of at most 16 bytes with a cache policy such as "st.wb"."""
    code = cache_code(policy, em.target, write=True)
    value = _bitcast(em, value, _raw(value.type))
    parts = _parts(value.type, align)
    pieces = _split(em, value, [part for _, part in parts])
    for (at, part), piece in zip(parts, pieces, strict=True):
        _store(em, _moved(em, pointer, at), piece, part, code)


def _raw(kind: ir.Type) -> ir.Type:
    """The same bits as integers."""
    count = kind.count if isinstance(kind, ir.VectorType) else 1
    return vector_of(ir.IntType(bits_of(scalar_of(kind))), count)


def _parts(kind: ir.Type, align: int) -> list[tuple[int, ir.Type]]:
    """(byte offset, type) of each message: vectors need the alignment of their words."""
    count = kind.count if isinstance(kind, ir.VectorType) else 1
    bits = bits_of(scalar_of(kind))
    if bits < 32 and bits * count % 32:
        return [(i * bits // 8, ir.IntType(bits)) for i in range(count)]
    unit = max(bits, 32)
    count = bits * count // unit
    step = _MOST if align * 8 >= unit else 1
    word = ir.IntType(unit)
    return [(i * unit // 8, vector_of(word, min(step, count - i))) for i in range(0, count, step)]


def _moved(em: Any, pointer: ir.Value, by: int) -> ir.Value:
    return em.b.gep(pointer, [I64(by)], source_etype=I8) if by else pointer


def _shape(part: ir.Type) -> tuple[ir.Type, int, int]:
    """(type of the register, data size, elements) of a message."""
    count = part.count if isinstance(part, ir.VectorType) else 1
    bits = bits_of(scalar_of(part))
    if bits in _NARROW_SIZES:
        return I32, _NARROW_SIZES[bits], 1
    return part, _DATA_SIZES[bits], count


def _load(em: Any, pointer: ir.Value, part: ir.Type, code: int) -> ir.Value:
    held, size, count = _shape(part)
    arguments = [pointer, I32(0), I32(size), I32(count), I32(code)]
    value = _call(em, genisa.LSC_LOAD, arguments, held)
    return value if held == part else em.b.trunc(value, part)


def _store(em: Any, pointer: ir.Value, value: ir.Value, part: ir.Type, code: int) -> None:
    held, size, count = _shape(part)
    value = value if held == part else em.b.zext(value, held)
    _call(em, genisa.LSC_STORE, [pointer, I32(0), value, I32(size), I32(count), I32(code)])


def _call(
    em: Any, row: Intrinsic, arguments: list[ir.Value], result: ir.Type | None = None
) -> ir.Value:
    function = em.state.declare(row, [a.type for a in arguments], result)
    return em.b.call(function, arguments)


def _joined(em: Any, parts: list[ir.Value], whole: ir.Type) -> ir.Value:
    """One value of the parts' registers, in memory order."""
    if len(parts) == 1:
        return _bitcast(em, parts[0], whole)
    elements = [e for part in parts for e in _elements(em, part)]
    made: ir.Value = ir.Constant(vector_of(elements[0].type, len(elements)), ir.Undefined)
    for i, element in enumerate(elements):
        made = em.b.insert_element(made, element, I32(i))
    return _bitcast(em, made, whole)


def _split(em: Any, value: ir.Value, parts: list[ir.Type]) -> list[ir.Value]:
    """The values of the parts of a value."""
    if len(parts) == 1:
        return [_bitcast(em, value, parts[0])]
    word = scalar_of(parts[0])
    total = sum(p.count if isinstance(p, ir.VectorType) else 1 for p in parts)
    elements = _elements(em, _bitcast(em, value, vector_of(word, total)))
    out = []
    for part in parts:
        count = part.count if isinstance(part, ir.VectorType) else 1
        mine, elements = elements[:count], elements[count:]
        out.append(mine[0] if count == 1 else _joined(em, mine, part))
    return out


def _elements(em: Any, value: ir.Value) -> list[ir.Value]:
    if not isinstance(value.type, ir.VectorType):
        return [value]
    return [em.b.extract_element(value, I32(i)) for i in range(value.type.count)]


def _bitcast(em: Any, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else em.b.bitcast(value, kind)


__all__ = ["load_with_policy", "store_with_policy"]
