"""Atomic accesses of single lanes, as helper functions `__xe_lane_atomic_*`.

Their first parameter is the address, as an i64 or a pointer.  The last one is true if the lane
takes part; otherwise its result is zero.  Accesses have no order: fences of LLVM's own, and atomic
loads and stores, are lost on the way to the GPU.  Operations without an instruction (bytes, 16-bit
types, sums of bf16 and, on most devices, of f16, products) are loops of compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable

from triton_xe import llvm as ir
from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.maths.floats import from_bf16, to_bf16_in_software
from triton_xe.lowering.emit.maths.terms import Term, where
from triton_xe.lowering.emit.types import I1, I8, I32, I64, POINTER, bits_of
from triton_xe.lowering.emit.writer import Writer

SCOPES = {"sys": ("all_svm_devices", 0), "gpu": ("device", 1), "cta": ("workgroup", 2)}
"""Triton's scope: its name in LLVM, and the SPIR-V scope of the fences."""
NATIVE = {
    "and": "and", "or": "or", "xor": "xor", "add": "add", "max": "max", "min": "min",
    "umax": "umax", "umin": "umin", "exch": "xchg", "fadd": "fadd",
}
"""Kinds with an instruction for 32 and 64 bits, and its name in LLVM."""


def _chosen(predicate: str) -> Callable[[Term, Term], Term]:
    """Combine by a comparison: the old value if it holds, otherwise the new one."""
    def combine(old: Term, new: Term) -> Term:
        return where(old.compare(predicate, new), old, new)

    return combine


def _extremum(greater: bool, keeps_nan: bool) -> Callable[[Term, Term], Term]:
    """The larger (or smaller) float; of one NaN and a number, the NaN only if it is kept."""

    def combine(old: Term, new: Term) -> Term:
        taken = new > old if greater else new < old
        return where(taken | (new if keeps_nan else old).is_nan(), new, old)

    return combine


COMBINE: dict[str, Callable[[Term, Term], Term]] = {
    "and": lambda old, new: old & new, "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new, "exch": lambda old, new: new,
    "add": lambda old, new: old + new, "fadd": lambda old, new: old + new,
    "mul": lambda old, new: old * new, "fmul": lambda old, new: old * new,
    "max": _chosen("sgt"), "min": _chosen("slt"), "umax": _chosen("ugt"), "umin": _chosen("ult"),
    "maximumf": _extremum(True, True), "minimumf": _extremum(False, True),
    "maxnumf": _extremum(True, False), "minnumf": _extremum(False, False),
}
"""New value in memory, from the old value and the operand."""


def rmw(
    em: Writer, kind: str, address: ir.Operand, value: ir.Operand, active: ir.Operand,
    scope: str = "", *, bf16: bool = False, name: str = "",
) -> ir.Operand:
    """Combine a value with memory; return the old value.  `scope` is Triton's, "" for all."""
    held = value.type
    if kind == "exch" and held.kind != "int":
        old = rmw(em, kind, address, Term(em, value).bits.value, active, scope, name=name)
        return em.b.bitcast(old, held)
    shown = "bf16" if bf16 and kind != "exch" else str(held)
    where_ = f"_p{address.type.space}" if address.type.kind == "ptr" else ""
    native = bits_of(held) >= 32 and kind in NATIVE
    if _adds_16_bits(em, kind, address, bits_of(held)):
        native, name = not bf16, "one" if bf16 else name
    within = SCOPES[scope][0] if scope else ""

    def write(
        w: Writer, at: ir.Operand, given: ir.Operand, takes_part: ir.Operand
    ) -> ir.Operand | None:
        def access(done: ir.Block) -> ir.Operand:
            if native:
                return w.b.atomic(NATIVE[kind], _pointer(w, at), given, within)
            return _swapped(w, kind, at, given, within, bf16, done)

        return conditional(w, takes_part, access, ir.zero(held))

    full = f"atomic_{name or kind}_{shown}{where_}{'_' + scope if scope else ''}"
    return call_lane(em, full, held, [address, value, active], write)


def _adds_16_bits(em: Writer, kind: str, address: ir.Operand, bits: int) -> bool:
    """True for the sums of fp16 and bf16 in global memory that the device has a message for.

    That of bf16 is in SPIR-V only (`lowering.spirv.bf16_sums`).
    """
    return (kind == "fadd" and bits == 16 and address.type == I64
            and em.state.target.has_16_bit_atomics)


def _pointer(w: Writer, at: ir.Operand) -> ir.Operand:
    return w.b.inttoptr(at, POINTER) if at.type == I64 else at


def _swapped(
    w: Writer, kind: str, at: ir.Operand, value: ir.Operand, scope: str, bf16: bool, done: ir.Block
) -> ir.Operand:
    """Read, combine, and compare-and-swap the word until no other thread intervened.

    A byte is a part of its word.
    """
    held, bits = value.type, bits_of(value.type)
    word = I32 if bits == 8 else ir.integer(bits)
    shift = Term(w, at)
    if at.type == I64 and bits == 8:
        pointer = w.b.inttoptr((shift & -4).value, POINTER)
        shift = ((shift & 3) << 3).resized(I32)
        keep = (shift.term(0xFF) << shift) ^ -1
    else:
        pointer = _pointer(w, at)
    before, again = w.b.block, w.b.append_block("again")
    first = w.b.load(word, pointer, align=word.bits // 8)
    w.b.branch(again)
    w.b.at_end(again)
    seen = w.b.merged(word, (first, before))
    have = Term(w, seen)
    have = (have >> shift).resized(I8) if bits == 8 else have.bitcast(held)
    new = _combined(kind, have, Term(w, value), bf16 and kind != "exch")
    if bits == 8:
        placed = new.resized(I32) << shift
        wanted = (Term(w, seen) & keep) | placed
    else:
        wanted = new.bitcast(word)
    pair = w.b.compare_and_swap(pointer, seen, wanted.value, scope)
    w.b.join(seen, w.b.extract_value(pair, 0), again)
    w.b.branch_if(w.b.extract_value(pair, 1), done, again)
    return have.value


def _combined(kind: str, old: Term, new: Term, bf16: bool) -> Term:
    """Combine two values; bf16 in float, by a conversion that needs no instruction of the device.
    """
    if bf16:
        return to_bf16_in_software(COMBINE[kind](from_bf16(old), from_bf16(new)))
    return COMBINE[kind](old, new)


def compare_and_exchange(
    em: Writer, address: ir.Operand, expected: ir.Operand, wanted: ir.Operand, active: ir.Operand,
    scope: str,
) -> ir.Operand:
    """Write `wanted` if memory has `expected`, both integers; return the old value."""
    kind = wanted.type

    def write(
        w: Writer, at: ir.Operand, old: ir.Operand, new: ir.Operand, takes_part: ir.Operand
    ) -> ir.Operand | None:
        def access(_: ir.Block) -> ir.Operand:
            pair = w.b.compare_and_swap(_pointer(w, at), old, new, SCOPES[scope][0])
            return w.b.extract_value(pair, 0)

        return conditional(w, takes_part, access, ir.zero(kind))

    return call_lane(em, f"atomic_cas_{kind}_{scope}", kind,
                     [address, expected, wanted, active], write)


def load(
    em: Writer, kind: ir.Type, address: ir.Operand, active: ir.Operand, scope: str
) -> ir.Operand:
    """The value in memory, as an integer."""

    def write(w: Writer, at: ir.Operand, takes_part: ir.Operand) -> ir.Operand | None:
        return conditional(w, takes_part, lambda _: _read(w, kind, _pointer(w, at), scope),
                           ir.zero(kind))

    return call_lane(em, f"atomic_load_{kind}_{scope}", kind, [address, active], write)


def _read(w: Writer, kind: ir.Type, pointer: ir.Operand, scope: str) -> ir.Operand:
    """Read atomically: by `or` with 0, or by compare-and-swap of 0 with 0."""
    zero, name = ir.zero(kind), SCOPES[scope][0]
    if bits_of(kind) >= 32:
        return w.b.atomic("or", pointer, zero, name)
    return w.b.extract_value(w.b.compare_and_swap(pointer, zero, zero, name), 0)


def poll(
    em: Writer, address: ir.Operand, expected: ir.Operand, timeout: ir.Operand, active: ir.Operand,
    scope: str,
) -> ir.Operand:
    """Wait until memory has an integer; true if it did before the timeout.

    The time is counted in iterations of the loop, each of which takes more than ten nanoseconds; a
    negative timeout never ends.
    """

    def write(
        w: Writer, at: ir.Operand, expected: ir.Operand, timeout: ir.Operand, takes_part: ir.Operand
    ) -> ir.Operand:
        b, entry, pointer = w.b, w.b.block, _pointer(w, at)
        again, late, wait, done = (
            b.append_block(name) for name in ("again", "late", "wait", "done"))
        b.branch_if(takes_part, again, done)
        b.at_end(again)
        left = b.merged(I64)
        em.b.join(left, timeout, entry)
        now = _read(w, expected.type, pointer, scope)
        b.branch_if(b.icmp("eq", now, expected), done, late)
        b.at_end(late)
        b.branch_if(b.icmp("eq", left, 0), done, wait)
        b.at_end(wait)
        forever, rest = Term(w, left) < 0, Term(w, left) - 10
        em.b.join(left, where(forever, Term(w, left), where(rest < 0, 0, rest)).value, wait)
        b.branch(again)
        b.at_end(done)
        met = b.merged(I1)
        for block, value in ((entry, 0), (again, 1), (late, 0)):
            em.b.join(met, ir.constant(I1, value), block)
        return met

    return call_lane(em, f"atomic_poll_{expected.type}_{scope}", I1,
                     [address, expected, timeout, active], write)
