"""Atomic accesses of single lanes, as helper functions `__xe_lane_atomic_*`.

Their first parameter is the address, as an i64 or a pointer.  The last one is true if the lane
takes part; otherwise its result is zero.  Accesses have no order: fences of LLVM's own, and atomic
loads and stores, are lost on the way to the GPU.  Operations without an instruction (bytes, 16-bit
types, sums of bf16 and, on most devices, of f16, products) are loops of compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from triton_xe.lowering.emit.helpers import call_lane, conditional
from triton_xe.lowering.emit.instructions import atomic_rmw, compare_and_swap
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


def _chosen(sign: str, *, unsigned: bool = False) -> Callable[[Term, Term], Term]:
    """Combine by a comparison: the old value if it holds, otherwise the new one."""
    def combine(old: Term, new: Term) -> Term:
        test = getattr(old.em.b, "icmp_unsigned" if unsigned else "icmp_signed")
        return where(old.with_value(test(sign, old.value, new.value)), old, new)

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
    "max": _chosen(">"), "min": _chosen("<"),
    "umax": _chosen(">", unsigned=True), "umin": _chosen("<", unsigned=True),
    "maximumf": _extremum(True, True), "minimumf": _extremum(False, True),
    "maxnumf": _extremum(True, False), "minnumf": _extremum(False, False),
}
"""New value in memory, from the old value and the operand."""


def rmw(
    em: Writer, kind: str, address: ir.Value, value: ir.Value, active: ir.Value, scope: str = "",
    *, bf16: bool = False, name: str = "",
) -> ir.Value:
    """Combine a value with memory; return the old value.  `scope` is Triton's, "" for all."""
    held = value.type
    if kind == "exch" and not isinstance(held, ir.IntType):
        old = rmw(em, kind, address, Term(em, value).bits.value, active, scope, name=name)
        return em.b.bitcast(old, held)
    shown = "bf16" if bf16 and kind != "exch" else str(held)
    where_ = f"_p{address.type.addrspace}" if isinstance(address.type, ir.PointerType) else ""
    native = bits_of(held) >= 32 and kind in NATIVE
    if _adds_16_bits(em, kind, address, bits_of(held)):
        native, name = not bf16, "one" if bf16 else name
    within = SCOPES[scope][0] if scope else ""

    def write(w: Writer, at: ir.Value, given: ir.Value, takes_part: ir.Value) -> ir.Value | None:
        def access(done: ir.Block) -> ir.Value:
            if native:
                return atomic_rmw(w.b, NATIVE[kind], _pointer(w, at), given, within)
            return _swapped(w, kind, at, given, within, bf16, done)

        return conditional(w, takes_part, access, ir.Constant(held, None))

    full = f"atomic_{name or kind}_{shown}{where_}{'_' + scope if scope else ''}"
    return call_lane(em, full, held, [address, value, active], write)


def _adds_16_bits(em: Writer, kind: str, address: ir.Value, bits: int) -> bool:
    """True for the sums of fp16 and bf16 in global memory that the device has a message for.

    That of bf16 is in SPIR-V only (`lowering.spirv.bf16_sums`).
    """
    return (kind == "fadd" and bits == 16 and address.type == I64
            and em.state.target.has_16_bit_atomics)


def _pointer(w: Writer, at: ir.Value) -> ir.Value:
    return w.b.inttoptr(at, POINTER) if at.type == I64 else at


def _swapped(
    w: Writer, kind: str, at: ir.Value, value: ir.Value, scope: str, bf16: bool, done: ir.Block
) -> ir.Value:
    """Read, combine, and compare-and-swap the word until no other thread intervened.

    A byte is a part of its word.
    """
    held, bits = value.type, bits_of(value.type)
    word = I32 if bits == 8 else ir.IntType(bits)
    shift = Term(w, at)
    if at.type == I64 and bits == 8:
        pointer = w.b.inttoptr((shift & -4).value, POINTER)
        shift = ((shift & 3) << 3).resized(I32)
        keep = (shift.term(0xFF) << shift) ^ -1
    else:
        pointer = _pointer(w, at)
    before, again = w.b.block, w.b.append_basic_block("again")
    first = w.b.load(pointer, typ=word)
    first.align = word.width // 8
    w.b.branch(again)
    w.b.position_at_end(again)
    seen = w.b.phi(word)
    seen.add_incoming(first, before)
    have = Term(w, seen)
    have = (have >> shift).resized(I8) if bits == 8 else have.bitcast(held)
    new = _combined(kind, have, Term(w, value), bf16 and kind != "exch")
    if bits == 8:
        placed = new.resized(I32) << shift
        wanted = (Term(w, seen) & keep) | placed
    else:
        wanted = new.bitcast(word)
    pair = compare_and_swap(w.b, pointer, seen, wanted.value, scope)
    seen.add_incoming(w.b.extract_value(pair, 0), again)
    w.b.cbranch(w.b.extract_value(pair, 1), done, again)
    return have.value


def _combined(kind: str, old: Term, new: Term, bf16: bool) -> Term:
    """Combine two values; bf16 in float, by a conversion that needs no instruction of the device.
    """
    if bf16:
        return to_bf16_in_software(COMBINE[kind](from_bf16(old), from_bf16(new)))
    return COMBINE[kind](old, new)


def compare_and_exchange(
    em: Writer, address: ir.Value, expected: ir.Value, wanted: ir.Value, active: ir.Value,
    scope: str,
) -> ir.Value:
    """Write `wanted` if memory has `expected`, both integers; return the old value."""
    kind = wanted.type

    def write(w: Writer, at: ir.Value, old: ir.Value, new: ir.Value, takes_part: ir.Value) -> (
        ir.Value | None
    ):
        def access(_: ir.Block) -> ir.Value:
            pair = compare_and_swap(w.b, _pointer(w, at), old, new, SCOPES[scope][0])
            return w.b.extract_value(pair, 0)

        return conditional(w, takes_part, access, ir.Constant(kind, None))

    return call_lane(em, f"atomic_cas_{kind}_{scope}", kind,
                     [address, expected, wanted, active], write)


def load(
    em: Writer, kind: ir.Type, address: ir.Value, active: ir.Value, scope: str
) -> ir.Value:
    """The value in memory, as an integer."""

    def write(w: Writer, at: ir.Value, takes_part: ir.Value) -> ir.Value | None:
        return conditional(w, takes_part, lambda _: _read(w, kind, _pointer(w, at), scope),
                           ir.Constant(kind, None))

    return call_lane(em, f"atomic_load_{kind}_{scope}", kind, [address, active], write)


def _read(w: Writer, kind: ir.Type, pointer: ir.Value, scope: str) -> ir.Value:
    """Read atomically: by `or` with 0, or by compare-and-swap of 0 with 0."""
    zero, name = ir.Constant(kind, None), SCOPES[scope][0]
    if bits_of(kind) >= 32:
        return atomic_rmw(w.b, "or", pointer, zero, name)
    return w.b.extract_value(compare_and_swap(w.b, pointer, zero, zero, name), 0)


def poll(
    em: Writer, address: ir.Value, expected: ir.Value, timeout: ir.Value, active: ir.Value,
    scope: str,
) -> ir.Value:
    """Wait until memory has an integer; true if it did before the timeout.

    The time is counted in iterations of the loop, each of which takes more than ten nanoseconds; a
    negative timeout never ends.
    """

    def write(
        w: Writer, at: ir.Value, expected: ir.Value, timeout: ir.Value, takes_part: ir.Value
    ) -> ir.Value:
        b, entry, pointer = w.b, w.b.block, _pointer(w, at)
        again, late, wait, done = (
            b.append_basic_block(name) for name in ("again", "late", "wait", "done"))
        b.cbranch(takes_part, again, done)
        b.position_at_end(again)
        left = b.phi(I64)
        left.add_incoming(timeout, entry)
        now = _read(w, expected.type, pointer, scope)
        b.cbranch(b.icmp_signed("==", now, expected), done, late)
        b.position_at_end(late)
        b.cbranch(b.icmp_signed("==", left, I64(0)), done, wait)
        b.position_at_end(wait)
        forever, rest = Term(w, left) < 0, Term(w, left) - 10
        left.add_incoming(where(forever, Term(w, left), where(rest < 0, 0, rest)).value, wait)
        b.branch(again)
        b.position_at_end(done)
        met = b.phi(I1)
        for block, value in ((entry, 0), (again, 1), (late, 0)):
            met.add_incoming(I1(value), block)
        return met

    return call_lane(em, f"atomic_poll_{expected.type}_{scope}", I1,
                     [address, expected, timeout, active], write)
