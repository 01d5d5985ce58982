"""Memory accesses of single lanes, with masks, cache policies or volatile.

Intel's compiler supports a condition only on `GenISA.Predicated*`, and a cache policy only on
`GenISA.LSCLoad` and `LSCStore`, whose last operand is the code of `hardware.block_2d.cache_code`.
Decorations of pointers (SPV_INTEL_cache_controls) are lost if a pointer is computed in bytes.  An
access that needs both a condition and one of the others branches, in a helper that every lane runs
separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from triton_xe.hardware.block_2d import cache_code
from triton_xe.intrinsics import genisa
from triton_xe.intrinsics.mangling import suffix
from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.instructions import volatile_load
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
    scalar_of,
    shaped,
    vector_of,
)
from triton_xe.lowering.emit.writer import Writer

DEFAULT = "default"


@dataclass(frozen=True)
class CachePolicy:
    """Cache policy of an access; compilers may not move or merge a `volatile` one."""

    name: str = DEFAULT
    volatile: bool = False
    marked: bool = False
    """Mark in the module that lanes without a load and without another value are undefined."""


PLAIN = CachePolicy()


def load(
    em: Writer, address: ir.Value, kind: ir.Type, condition: ir.Value | None,
    passthrough: ir.Value | None, align: int, policy: CachePolicy = PLAIN,
) -> ir.Value:
    """Read global memory; where the condition does not hold, `passthrough` or zero.

    Cache policies are hints that the device reads on accesses without a condition only.
    """
    stored, align = _memory_type(kind), max(align, 1)
    pointer = em.global_pointer(address)
    if condition is None:
        return _from_memory(em, _load_always(em, pointer, stored, align, policy), kind)
    fill = ir.Constant(stored, None) if passthrough is None else Term(
        em, passthrough).resized(scalar_of(stored)).value
    if policy.volatile:
        def read(w: Writer, at: ir.Value, fill: ir.Value, active: ir.Value) -> ir.Value | None:
            return conditional(w, active, lambda _: volatile_load(
                w.b, w.b.inttoptr(at, POINTER), stored, align), fill)

        value = call_lane(em, f"volatile_load_{suffix(str(stored))}_{align}", stored,
                          [em.address(pointer), fill, condition], read)
    else:
        value = em.call(
            genisa.PREDICATED_LOAD, [pointer, I64(align), condition, constant(em, fill)])
    if policy.marked:
        value.set_metadata("xe.unfilled", em.state.llvm.add_metadata([]))
    return _from_memory(em, value, kind)


def _load_always(
    em: Writer, pointer: ir.Value, stored: ir.Type, align: int, policy: CachePolicy
) -> ir.Value:
    """Load without a mask."""
    if policy.volatile:
        return volatile_load(em.b, pointer, stored, align)
    return _read(em, pointer, stored, align, policy.name)


def store(
    em: Writer, address: ir.Value, value: ir.Value, condition: ir.Value | None, align: int,
    policy: str = DEFAULT,
) -> None:
    """Write global memory where the condition holds."""
    stored, align = _memory_type(value.type), max(align, 1)
    value = Term(em, value).resized(scalar_of(stored)).value
    pointer = em.global_pointer(address)
    if condition is None:
        _write(em, pointer, value, align, policy)
        return
    em.call(genisa.PREDICATED_STORE, [pointer, value, I64(align), condition])


def _memory_type(kind: ir.Type) -> ir.Type:
    """i1 is a byte in memory; everything else keeps its type."""
    return shaped(kind, I8) if scalar_of(kind) == I1 else kind


def _from_memory(em: Writer, value: ir.Value, kind: ir.Type) -> ir.Value:
    if value.type == kind:
        return value
    return em.b.icmp_unsigned("!=", value, ir.Constant(value.type, None))


# -- global or shared memory, with a condition and a policy ----------------------------------------

Where = tuple[ir.Value, ir.Value]
"""A pointer and an offset in bytes."""


def pointer_at(em: Writer, where: Where) -> ir.Value:
    """base + offset."""
    return em.b.gep(where[0], [where[1]], source_etype=I8)


def _alignment(kind: ir.Type) -> int:
    """Bytes to which the elements of an access are aligned: their own size."""
    return max(bits_of(scalar_of(kind)) // 8, 1)


def _heeded(where: Where, policy: str) -> tuple[bool, str]:
    """Return whether memory is shared, and the policy: the default there, as it has no cache."""
    shared = where[0].type.addrspace == SLM
    return shared, DEFAULT if shared else policy


def hinted_load(
    em: Writer, where: Where, kind: ir.Type, condition: ir.Value | None, policy: str
) -> ir.Value:
    """The value at a pointer, or zero if the condition does not hold."""
    shared, policy = _heeded(where, policy)
    align, zero = _alignment(kind), ir.Constant(kind, None)
    if _is_false(condition):
        return zero
    if condition is None:
        return _read(em, pointer_at(em, where), kind, align, policy)
    if not shared and policy == DEFAULT:
        return load(em, pointer_at(em, where), kind, condition, None, align)

    def read(w: Writer, base: ir.Value, offset: ir.Value, active: ir.Value) -> ir.Value | None:
        return conditional(w, active, lambda _: _read(
            w, pointer_at(w, (base, offset)), kind, align, policy), zero)

    return call_lane(em, _helper_name("load", where, kind, policy), kind, [*where, condition], read)


def hinted_store(
    em: Writer, where: Where, value: ir.Value, condition: ir.Value | None, policy: str
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

    def write(w: Writer, base: ir.Value, by: ir.Value, held: ir.Value, active: ir.Value) -> None:
        conditional(w, active, lambda _: _write(w, pointer_at(w, (base, by)), held, align, policy))

    call_lane(em, _helper_name("store", where, value.type, policy), ir.VoidType(),
              [*where, value, condition], write)


def _helper_name(verb: str, where: Where, kind: ir.Type, policy: str) -> str:
    return f"{verb}_{suffix(str(kind))}_p{where[0].type.addrspace}_{policy.replace('.', '_')}"


@dataclass(frozen=True)
class LaneAccess:
    """One access of every lane: where, under which condition, which registers it moves."""

    where: Where
    condition: ir.Value | None
    registers: tuple[int, ...]


def load_each(
    em: Writer, accesses: Iterable[LaneAccess], kind: ir.Type, policy: str, into: ir.Type
) -> list[ir.Value]:
    """The registers that accesses to elements of `kind` read, as scalars of type `into`."""
    cache_code(policy, em.target)
    found: dict[int, ir.Value] = {}
    for access in accesses:
        count = len(access.registers)
        value = hinted_load(em, access.where, vector_of(kind, count), access.condition, policy)
        for i, register in enumerate(access.registers):
            one = em.b.extract_element(value, I32(i)) if count > 1 else value
            found[register] = _cast(em, one, into)
    return [found[r] for r in sorted(found)]


def store_each(
    em: Writer, accesses: Iterable[LaneAccess],
    value_of: Callable[[tuple[int, ...]], ir.Value], policy: str,
) -> None:
    """Write registers under conditions; `value_of` combines those of an access to one value."""
    cache_code(policy, em.target, write=True)
    for access in accesses:
        if not _is_false(access.condition):
            value = value_of(access.registers)
            hinted_store(em, access.where, value, access.condition, policy)


def _is_false(condition: ir.Value | None) -> bool:
    return isinstance(condition, ir.Constant) and condition.constant == 0


# -- messages with a cache policy: 1 to 4 words of 32 or 64 bits, or one of 8 or 16 bits -----------

_DATA_SIZES = {32: 3, 64: 4, 8: 5, 16: 6}
"""Data sizes of the message; the narrow ones are zero-extended to 32 bits."""
_MOST = 4


def _read(em: Writer, pointer: ir.Value, kind: ir.Type, align: int, policy: str) -> ir.Value:
    """A scalar or vector of at most 16 bytes, read with a cache policy such as "uc.ca"."""
    if policy == DEFAULT:
        value = em.b.load(pointer, typ=kind)
        value.align = align
        return value
    code = cache_code(policy, em.target)
    whole = _raw(kind)
    parts = [_load_part(em, _moved(em, pointer, at), part, code)
             for at, part in _parts(whole, align)]
    return _cast(em, _joined(em, parts, whole), kind)


def _write(em: Writer, pointer: ir.Value, value: ir.Value, align: int, policy: str) -> None:
    """Write a scalar or vector of at most 16 bytes with a cache policy such as "st.wb"."""
    if policy == DEFAULT:
        em.b.store(value, pointer).align = align
        return
    code = cache_code(policy, em.target, write=True)
    value = _cast(em, value, _raw(value.type))
    parts = _parts(value.type, align)
    pieces = _split(em, value, [part for _, part in parts])
    for (at, part), piece in zip(parts, pieces, strict=True):
        _store_part(em, _moved(em, pointer, at), piece, part, code)


def _count(kind: ir.Type) -> int:
    return int(kind.count) if isinstance(kind, ir.VectorType) else 1


def _raw(kind: ir.Type) -> ir.Type:
    """The integer type with the same bits."""
    return shaped(kind, ir.IntType(bits_of(scalar_of(kind))))


def _parts(kind: ir.Type, align: int) -> list[tuple[int, ir.Type]]:
    """(byte offset, type) of each message: vectors need the alignment of their words."""
    count, bits = _count(kind), bits_of(scalar_of(kind))
    if bits < 32 and bits * count % 32:
        return [(i * bits // 8, ir.IntType(bits)) for i in range(count)]
    unit = max(bits, 32)
    count = bits * count // unit
    step = _MOST if align * 8 >= unit else 1
    word = ir.IntType(unit)
    return [(i * unit // 8, vector_of(word, min(step, count - i))) for i in range(0, count, step)]


def _moved(em: Writer, pointer: ir.Value, by: int) -> ir.Value:
    return em.b.gep(pointer, [I64(by)], source_etype=I8) if by else pointer


def _shape(part: ir.Type) -> tuple[ir.Type, ir.Value, ir.Value]:
    """(type of the register, data size, elements) of a message."""
    bits = bits_of(scalar_of(part))
    return part if bits >= 32 else I32, I32(_DATA_SIZES[bits]), I32(_count(part))


def _load_part(em: Writer, pointer: ir.Value, part: ir.Type, code: int) -> ir.Value:
    held, size, count = _shape(part)
    value = em.call(genisa.LSC_LOAD, [pointer, I32(0), size, count, I32(code)], held)
    return Term(em, value).resized(scalar_of(part)).value


def _store_part(
    em: Writer, pointer: ir.Value, value: ir.Value, part: ir.Type, code: int
) -> None:
    """Store one part by an LSC message with cache control `code`."""
    held, size, count = _shape(part)
    value = Term(em, value).resized(scalar_of(held)).value
    em.call(genisa.LSC_STORE, [pointer, I32(0), value, size, count, I32(code)])


def _joined(em: Writer, parts: Sequence[ir.Value], whole: ir.Type) -> ir.Value:
    """One value of the parts' registers, in memory order."""
    if len(parts) == 1:
        return _cast(em, parts[0], whole)
    elements = [e for part in parts for e in _elements(em, part)]
    return _cast(em, em.pack(elements[0].type, elements), whole)


def _split(em: Writer, value: ir.Value, parts: Sequence[ir.Type]) -> list[ir.Value]:
    """The values of the parts of a value."""
    if len(parts) == 1:
        return [_cast(em, value, parts[0])]
    word, total = scalar_of(parts[0]), sum(map(_count, parts))
    elements = iter(_elements(em, _cast(em, value, vector_of(word, total))))
    return [em.pack(word, [next(elements) for _ in range(_count(part))]) for part in parts]


def _elements(em: Writer, value: ir.Value) -> list[ir.Value]:
    if not isinstance(value.type, ir.VectorType):
        return [value]
    return [em.b.extract_element(value, I32(i)) for i in range(value.type.count)]


def _cast(em: Writer, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else em.b.bitcast(value, kind)
