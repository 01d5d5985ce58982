"""Memory accesses of single lanes, with masks, cache policies or volatile.

Intel's compiler supports a condition only on `GenISA.Predicated*`, and a cache policy only on
`GenISA.LSCLoad` and `LSCStore`, whose last operand is the code of `hardware.block_2d.cache_code`.
Decorations of pointers (SPV_INTEL_cache_controls) are lost if a pointer is computed in bytes.  An
access that needs both a condition and one of the others branches, in a helper that every lane runs
separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from triton_xe import llvm as ir
from triton_xe.hardware.block_2d import cache_code
from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.mangling import suffix
from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.maths.wide import constant
from triton_xe.lowering.emit.types import (
    I1,
    I8,
    I32,
    I64,
    POINTER,
    SLM,
    bits_of,
    number,
    shaped,
    vector_of,
)
from triton_xe.lowering.emit.values import instruction_of
from triton_xe.lowering.emit.writer import Writer

DEFAULT = "default"


class CachePolicy(NamedTuple):
    """Cache policy of an access; compilers may not move or merge a `volatile` one."""

    name: str = DEFAULT
    volatile: bool = False
    marked: bool = False
    """Mark in the module that lanes without a load and without another value are undefined."""


PLAIN = CachePolicy()


def load(
    em: Writer, address: ir.Operand, kind: ir.Type, condition: ir.Operand | None,
    passthrough: ir.Operand | None, align: int, policy: CachePolicy = PLAIN,
) -> ir.Operand:
    """Read global memory; where the condition does not hold, `passthrough` or zero.

    Cache policies are hints that the device reads on accesses without a condition only.
    """
    stored, align = _memory_type(kind), max(align, 1)
    pointer = em.global_pointer(address)
    if condition is None:
        return _from_memory(em, _load_always(em, pointer, stored, align, policy), kind)
    fill = ir.zero(stored) if passthrough is None else Term(
        em, passthrough).resized(stored.scalar).value
    if policy.volatile:
        def read(
            w: Writer, at: ir.Operand, fill: ir.Operand, active: ir.Operand
        ) -> ir.Operand | None:
            return conditional(w, active, lambda _: w.b.load(
                stored, w.b.inttoptr(at, POINTER), align=align, volatile=True), fill)

        value = call_lane(em, f"volatile_load_{suffix(str(stored))}_{align}", stored,
                          [em.address(pointer), fill, condition], read)
    else:
        alignment = ir.constant(I64, align)
        value = em.call(
            genisa.PREDICATED_LOAD, [pointer, alignment, condition, constant(em, fill)])
    if policy.marked and (made := instruction_of(value)) is not None:
        made.unfilled = True
    return _from_memory(em, value, kind)


def _load_always(
    em: Writer, pointer: ir.Operand, stored: ir.Type, align: int, policy: CachePolicy
) -> ir.Operand:
    """Load without a mask."""
    if policy.volatile:
        return em.b.load(stored, pointer, align=align, volatile=True)
    return _read(em, pointer, stored, align, policy.name)


def store(
    em: Writer, address: ir.Operand, value: ir.Operand, condition: ir.Operand | None, align: int,
    policy: str = DEFAULT,
) -> None:
    """Write global memory where the condition holds."""
    stored, align = _memory_type(value.type), max(align, 1)
    value = Term(em, value).resized(stored.scalar).value
    pointer = em.global_pointer(address)
    if condition is None:
        _write(em, pointer, value, align, policy)
        return
    em.call(genisa.PREDICATED_STORE, [pointer, value, ir.constant(I64, align), condition])


def _memory_type(kind: ir.Type) -> ir.Type:
    """i1 is a byte in memory; everything else keeps its type."""
    return shaped(kind, I8) if kind.scalar == I1 else kind


def _from_memory(em: Writer, value: ir.Operand, kind: ir.Type) -> ir.Operand:
    if value.type == kind:
        return value
    return em.b.icmp("ne", value, ir.zero(value.type))


# -- global or shared memory, with a condition and a policy ----------------------------------------

Where = tuple[ir.Operand, ir.Operand]
"""A pointer and an offset in bytes."""


def pointer_at(em: Writer, where: Where) -> ir.Operand:
    """base + offset."""
    return em.b.gep(I8, where[0], where[1])


def _alignment(kind: ir.Type) -> int:
    """Bytes to which the elements of an access are aligned: their own size."""
    return max(bits_of(kind.scalar) // 8, 1)


def _heeded(where: Where, policy: str) -> tuple[bool, str]:
    """Return whether memory is shared, and the policy: the default there, as it has no cache."""
    shared = where[0].type.space == SLM
    return shared, DEFAULT if shared else policy


def hinted_load(
    em: Writer, where: Where, kind: ir.Type, condition: ir.Operand | None, policy: str
) -> ir.Operand:
    """The value at a pointer, or zero if the condition does not hold."""
    shared, policy = _heeded(where, policy)
    align, zero = _alignment(kind), ir.zero(kind)
    if _is_false(condition):
        return zero
    if condition is None:
        return _read(em, pointer_at(em, where), kind, align, policy)
    if not shared and policy == DEFAULT:
        return load(em, pointer_at(em, where), kind, condition, None, align)

    def read(
        w: Writer, base: ir.Operand, offset: ir.Operand, active: ir.Operand
    ) -> ir.Operand | None:
        return conditional(w, active, lambda _: _read(
            w, pointer_at(w, (base, offset)), kind, align, policy), zero)

    return call_lane(em, _helper_name("load", where, kind, policy), kind, [*where, condition], read)


def hinted_store(
    em: Writer, where: Where, value: ir.Operand, condition: ir.Operand | None, policy: str
) -> None:
    """Write a value where the condition holds."""
    shared, policy = _heeded(where, policy)
    align = _alignment(value.type)
    if condition is None:
        _write(em, pointer_at(em, where), value, align, policy)
        return
    if not shared and policy == DEFAULT:
        store(em, pointer_at(em, where), value, condition, align)
        return

    def write(
        w: Writer, base: ir.Operand, by: ir.Operand, held: ir.Operand, active: ir.Operand
    ) -> None:
        conditional(w, active, lambda _: _write(w, pointer_at(w, (base, by)), held, align, policy))

    call_lane(em, _helper_name("store", where, value.type, policy), ir.VOID,
              [*where, value, condition], write)


def _helper_name(verb: str, where: Where, kind: ir.Type, policy: str) -> str:
    return f"{verb}_{suffix(str(kind))}_p{where[0].type.space}_{policy.replace('.', '_')}"


class LaneAccess(NamedTuple):
    """One access of every lane: where, under which condition, which registers it moves."""

    where: Where
    condition: ir.Operand | None
    registers: tuple[int, ...]


def load_each(
    em: Writer, accesses: Iterable[LaneAccess], kind: ir.Type, policy: str, into: ir.Type
) -> list[ir.Operand]:
    """The registers that accesses to elements of `kind` read, as scalars of type `into`."""
    cache_code(policy, em.target)
    found: dict[int, ir.Operand] = {}
    for access in accesses:
        count = len(access.registers)
        value = hinted_load(em, access.where, vector_of(kind, count), access.condition, policy)
        for i, register in enumerate(access.registers):
            one = em.b.extract(value, i) if count > 1 else value
            found[register] = _cast(em, one, into)
    return [found[r] for r in sorted(found)]


def store_each(
    em: Writer, accesses: Iterable[LaneAccess],
    value_of: Callable[[tuple[int, ...]], ir.Operand], policy: str,
) -> None:
    """Write registers under conditions; `value_of` combines those of an access to one value."""
    cache_code(policy, em.target, write=True)
    for access in accesses:
        if not _is_false(access.condition):
            value = value_of(access.registers)
            hinted_store(em, access.where, value, access.condition, policy)


def _is_false(condition: ir.Operand | None) -> bool:
    return condition is not None and condition.is_zero


# -- messages with a cache policy: 1 to 4 words of 32 or 64 bits, or one of 8 or 16 bits -----------

_DATA_SIZES = {32: 3, 64: 4, 8: 5, 16: 6}
"""Data sizes of the message; the narrow ones are zero-extended to 32 bits."""
_MOST = 4


def _read(em: Writer, pointer: ir.Operand, kind: ir.Type, align: int, policy: str) -> ir.Operand:
    """A scalar or vector of at most 16 bytes, read with a cache policy such as "uc.ca"."""
    if policy == DEFAULT:
        return em.b.load(kind, pointer, align=align)
    code = cache_code(policy, em.target)
    whole = _raw(kind)
    parts = [_load_part(em, em.b.at(pointer, at), part, code)
             for at, part in _parts(whole, align)]
    return _cast(em, _joined(em, parts, whole), kind)


def _write(em: Writer, pointer: ir.Operand, value: ir.Operand, align: int, policy: str) -> None:
    """Write a scalar or vector of at most 16 bytes with a cache policy such as "st.wb"."""
    if policy == DEFAULT:
        em.b.store(value, pointer, align=align)
        return
    code = cache_code(policy, em.target, write=True)
    value = _cast(em, value, _raw(value.type))
    parts = _parts(value.type, align)
    pieces = _split(em, value, [part for _, part in parts])
    for (at, part), piece in zip(parts, pieces, strict=True):
        _store_part(em, em.b.at(pointer, at), piece, part, code)


def _raw(kind: ir.Type) -> ir.Type:
    """The integer type with the same bits."""
    return shaped(kind, ir.integer(bits_of(kind.scalar)))


def _parts(kind: ir.Type, align: int) -> list[tuple[int, ir.Type]]:
    """(byte offset, type) of each message: vectors need the alignment of their words."""
    count, bits = kind.lanes, bits_of(kind.scalar)
    if bits < 32 and bits * count % 32:
        return [(i * bits // 8, ir.integer(bits)) for i in range(count)]
    unit = max(bits, 32)
    count = bits * count // unit
    step = _MOST if align * 8 >= unit else 1
    word = ir.integer(unit)
    return [(i * unit // 8, vector_of(word, min(step, count - i))) for i in range(0, count, step)]


def _shape(part: ir.Type) -> tuple[ir.Type, ir.Operand, ir.Operand]:
    """(type of the register, data size, elements) of a message."""
    bits = bits_of(part.scalar)
    return part if bits >= 32 else I32, number(_DATA_SIZES[bits]), number(part.lanes)


def _load_part(em: Writer, pointer: ir.Operand, part: ir.Type, code: int) -> ir.Operand:
    held, size, count = _shape(part)
    value = em.call(genisa.LSC_LOAD, [pointer, number(0), size, count, number(code)], held)
    return Term(em, value).resized(part.scalar).value


def _store_part(
    em: Writer, pointer: ir.Operand, value: ir.Operand, part: ir.Type, code: int
) -> None:
    """Store one part by an LSC message with cache control `code`."""
    held, size, count = _shape(part)
    value = Term(em, value).resized(held.scalar).value
    em.call(genisa.LSC_STORE, [pointer, number(0), value, size, count, number(code)])


def _joined(em: Writer, parts: Sequence[ir.Operand], whole: ir.Type) -> ir.Operand:
    """One value of the parts' registers, in memory order."""
    if len(parts) == 1:
        return _cast(em, parts[0], whole)
    elements = [e for part in parts for e in _elements(em, part)]
    return _cast(em, em.pack(elements[0].type, elements), whole)


def _split(em: Writer, value: ir.Operand, parts: Sequence[ir.Type]) -> list[ir.Operand]:
    """The values of the parts of a value."""
    if len(parts) == 1:
        return [_cast(em, value, parts[0])]
    word, total = parts[0].scalar, sum(part.lanes for part in parts)
    elements = iter(_elements(em, _cast(em, value, vector_of(word, total))))
    return [em.pack(word, [next(elements) for _ in range(part.lanes)]) for part in parts]


def _elements(em: Writer, value: ir.Operand) -> list[ir.Operand]:
    if value.type.kind != "vec":
        return [value]
    return [em.b.extract(value, i) for i in range(value.type.count)]


def _cast(em: Writer, value: ir.Operand, kind: ir.Type) -> ir.Operand:
    return value if value.type == kind else em.b.bitcast(value, kind)
