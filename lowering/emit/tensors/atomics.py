"""Lowering of atomics: one access per element and lane, in helpers that run lane by lane.

Orderings are explicit fences around monotonic accesses, because fences of LLVM's own are lost on
the way to the GPU.  What the GPU has no instruction for (16-bit arithmetic, f16 and bf16 sums,
bytes) is a loop of compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from triton_xe.dialects.tt.memory import (
    AtomicCASOp,
    AtomicLoadOp,
    AtomicPollOp,
    AtomicRMWOp,
    AtomicStoreOp,
)
from triton_xe.errors import UnsupportedError
from triton_xe.intrinsics import spirv
from triton_xe.lowering.emit.emitter import Emitter, lowers
from triton_xe.lowering.emit.helpers import LANE, call_text
from triton_xe.lowering.emit.tensors.exchange import Exchange, barrier, element_bytes
from triton_xe.lowering.emit.tensors.memory import owns_copy
from triton_xe.lowering.emit.tensors.registers import Registers, Splat, from_scalars
from triton_xe.lowering.emit.tensors.shuffle import shuffle_index, uniform
from triton_xe.lowering.emit.tensors.view import View
from triton_xe.lowering.emit.types import I1, I32, I64, bits_of, is_bf16, scalar_type
from triton_xe.lowering.surfaces.affine import attribute, constant_of

SCOPES = {"sys": ("all_svm_devices", 0), "gpu": ("device", 1), "cta": ("workgroup", 2)}
"""Triton's scope: its name in LLVM, and the SPIR-V scope of the fences."""

_GLOBAL_MEMORY, _SLM_MEMORY = 512, 256
_ACQUIRE, _RELEASE = 2, 4
_NATIVE = {
    "and": "and", "or": "or", "xor": "xor", "add": "add", "max": "max", "min": "min",
    "umax": "umax", "umin": "umin", "exch": "xchg", "fadd": "fadd",
}
_COMPARE = {"max": "sgt", "min": "slt", "umax": "ugt", "umin": "ult"}


# -- helpers: the access of one lane ---------------------------------------------------------------


def rmw_text(kind: str, held: ir.Type, bf16: bool, scope: str) -> str:
    """The body of `old(i64 address, value, i1 active)`."""
    bits = bits_of(held)
    native = bits >= 32 and (kind != "fadd" or held != ir.HalfType())
    if native:
        work = (
            f"  %old = atomicrmw {_NATIVE[kind]} ptr addrspace(1) %p, {held} %a1 "
            f'syncscope("{SCOPES[scope][0]}") monotonic, align {bits // 8}\n  br label %done\n'
        )
        return _guarded(held, f"{work}", "try", "%old")
    return _loop_text(kind, held, bf16, scope)


def _guarded(held: ir.Type, work: str, last: str, value: str) -> str:
    zero = "0" if isinstance(held, ir.IntType) else "0.0"
    return (
        "entry:\n  br i1 %a2, label %try, label %done\n"
        "try:\n  %p = inttoptr i64 %a0 to ptr addrspace(1)\n"
        f"{work}"
        f"done:\n  %r = phi {held} [ {zero}, %entry ], [ {value}, %{last} ]\n  ret {held} %r\n"
    )


def _loop_text(kind: str, held: ir.Type, bf16: bool, scope: str) -> str:
    """Compare-and-swap of the word until nobody else came between."""
    bits = bits_of(held)
    word = 32 if bits == 8 else bits
    is_float = not isinstance(held, ir.IntType)
    align = f"  %base = and i64 %a0, {-(word // 8)}\n" \
            f"  %q = inttoptr i64 %base to ptr addrspace(1)\n"
    if bits == 8:
        align += (
            "  %in = and i64 %a0, 3\n  %in8 = shl i64 %in, 3\n  %shift = trunc i64 %in8 to i32\n"
            "  %hole = shl i32 255, %shift\n  %keep = xor i32 %hole, -1\n"
        )
    body = align + (
        f"  %first = load i{word}, ptr addrspace(1) %q, align {word // 8}\n  br label %again\n"
        f"again:\n  %seen = phi i{word} [ %first, %try ], [ %found, %again ]\n"
    )
    if bits == 8:
        body += "  %moved = lshr i32 %seen, %shift\n  %have = trunc i32 %moved to i8\n"
    elif is_float:
        body += f"  %have = bitcast i{word} %seen to {held}\n"
    else:
        body += f"  %have = add i{word} %seen, 0\n"
    body += _combine_text(kind, held, bf16)
    if bits == 8:
        body += (
            "  %new32 = zext i8 %new to i32\n  %placed = shl i32 %new32, %shift\n"
            "  %rest = and i32 %seen, %keep\n  %wanted = or i32 %rest, %placed\n"
        )
    elif is_float:
        body += f"  %wanted = bitcast {held} %new to i{word}\n"
    else:
        body += f"  %wanted = add i{word} %new, 0\n"
    syncscope = SCOPES[scope][0]
    body += (
        f"  %pair = cmpxchg ptr addrspace(1) %q, i{word} %seen, i{word} %wanted "
        f'syncscope("{syncscope}") monotonic monotonic, align {word // 8}\n'
        f"  %found = extractvalue {{ i{word}, i1 }} %pair, 0\n"
        f"  %ok = extractvalue {{ i{word}, i1 }} %pair, 1\n"
        "  br i1 %ok, label %done, label %again\n"
    )
    return _guarded(held, body, "again", "%have")


def _combine_text(kind: str, held: ir.Type, bf16: bool) -> str:
    if kind == "fadd":
        return _BF16_SUM if bf16 else f"  %new = fadd {held} %have, %a1\n"
    if kind == "exch":
        same = "fadd" if not isinstance(held, ir.IntType) else "add"
        zero = "-0.0" if same == "fadd" else "0"
        return f"  %new = {same} {held} %a1, {zero}\n"
    if kind in _COMPARE:
        return (
            f"  %takes = icmp {_COMPARE[kind]} {held} %have, %a1\n"
            f"  %new = select i1 %takes, {held} %have, {held} %a1\n"
        )
    return f"  %new = {_NATIVE[kind]} {held} %have, %a1\n"


_BF16_SUM = """\
  %x32 = zext i16 %have to i32
  %xs = shl i32 %x32, 16
  %x = bitcast i32 %xs to float
  %y32 = zext i16 %a1 to i32
  %ys = shl i32 %y32, 16
  %y = bitcast i32 %ys to float
  %sum = fadd float %x, %y
  %bits = bitcast float %sum to i32
  %odd1 = lshr i32 %bits, 16
  %odd = and i32 %odd1, 1
  %half = add i32 %odd, 32767
  %up = add i32 %bits, %half
  %top = lshr i32 %up, 16
  %rounded = trunc i32 %top to i16
  %nan = fcmp uno float %sum, 0.0
  %new = select i1 %nan, i16 32704, i16 %rounded
"""


def cas_text(held: ir.Type, scope: str) -> str:
    """The body of `old(i64 address, expected, wanted, i1 active)` on integers."""
    size = bits_of(held) // 8
    return (
        "entry:\n  br i1 %a3, label %try, label %done\n"
        "try:\n  %p = inttoptr i64 %a0 to ptr addrspace(1)\n"
        f"  %pair = cmpxchg ptr addrspace(1) %p, {held} %a1, {held} %a2 "
        f'syncscope("{SCOPES[scope][0]}") monotonic monotonic, align {size}\n'
        f"  %old = extractvalue {{ {held}, i1 }} %pair, 0\n  br label %done\n"
        f"done:\n  %r = phi {held} [ 0, %entry ], [ %old, %try ]\n  ret {held} %r\n"
    )


def _read_text(held: ir.Type, scope: str, into: str) -> str:
    """Reads %p into `into`: `or` with 0, or compare-and-swap of 0 with 0.

    LLVM's atomic loads become plain ones on the way to the GPU.
    """
    size, name = bits_of(held) // 8, SCOPES[scope][0]
    if size >= 4:
        return (
            f"  {into} = atomicrmw or ptr addrspace(1) %p, {held} 0 "
            f'syncscope("{name}") monotonic, align {size}\n'
        )
    return (
        f"  %pair = cmpxchg ptr addrspace(1) %p, {held} 0, {held} 0 "
        f'syncscope("{name}") monotonic monotonic, align {size}\n'
        f"  {into} = extractvalue {{ {held}, i1 }} %pair, 0\n"
    )


def load_text(held: ir.Type, scope: str) -> str:
    """The body of `value(i64 address, i1 active)`."""
    return (
        "entry:\n  br i1 %a1, label %try, label %done\n"
        "try:\n  %p = inttoptr i64 %a0 to ptr addrspace(1)\n"
        f"{_read_text(held, scope, '%old')}  br label %done\n"
        f"done:\n  %r = phi {held} [ 0, %entry ], [ %old, %try ]\n  ret {held} %r\n"
    )


def poll_text(held: ir.Type, scope: str) -> str:
    """The body of `i1 met(i64 address, expected, i64 timeout, i1 active)`.

    The time is counted in turns of the loop, each of which takes more than ten nanoseconds; a
    negative timeout never ends.
    """
    return (
        "entry:\n  %p = inttoptr i64 %a0 to ptr addrspace(1)\n"
        "  br i1 %a3, label %again, label %done\n"
        "again:\n  %left = phi i64 [ %a2, %entry ], [ %fewer, %wait ]\n"
        f"{_read_text(held, scope, '%now')}"
        f"  %met = icmp eq {held} %now, %a1\n  br i1 %met, label %done, label %late\n"
        "late:\n  %over = icmp eq i64 %left, 0\n  br i1 %over, label %done, label %wait\n"
        "wait:\n  %forever = icmp slt i64 %left, 0\n  %step = sub i64 %left, 10\n"
        "  %out = icmp slt i64 %step, 0\n  %floor = select i1 %out, i64 0, i64 %step\n"
        "  %fewer = select i1 %forever, i64 %left, i64 %floor\n  br label %again\n"
        "done:\n  %r = phi i1 [ false, %entry ], [ true, %again ], [ false, %late ]\n"
        "  ret i1 %r\n"
    )


# -- one access of every lane ----------------------------------------------------------------------

Access = Callable[[ir.Value, Sequence[ir.Value], ir.Value], Any]
"""Writes one access: address, values, whether the lane takes part; returns the old value."""


def fence(em: Emitter, op: Operation, *, before: bool) -> None:
    """The fence that the op's ordering asks for before or after it."""
    sem, scope = attribute(op, "sem").data, attribute(op, "scope").data
    wanted = _RELEASE if before else _ACQUIRE
    if sem == "relaxed" or sem == ("acquire" if before else "release"):
        return
    em.call(spirv.MEMORY_BARRIER, [I32(SCOPES[scope][1]), I32(wanted | _GLOBAL_MEMORY)])


def gpu_barrier(em: Emitter) -> None:
    """Global memory written by the other subgroups is visible after it."""
    if em.state.num_warps > 1:
        barrier(em, global_memory=True)


def run(
    em: Emitter, op: Operation, pointer: SSAValue, operands: Sequence[SSAValue],
    mask: SSAValue | None, access: Access, used: bool = True,
) -> None:
    """Write the accesses of an atomic operation and bind its result, if it has one."""
    if mask is not None and constant_of(mask) in (1, -1):
        mask = None
    if isinstance(pointer.type, TensorType):
        _tensor(em, op, pointer, operands, mask, access, used)
    else:
        _scalar(em, op, pointer, operands, mask, access, used)


def _tensor(
    em: Emitter, op: Operation, pointer: SSAValue, operands: Sequence[SSAValue],
    mask: SSAValue | None, access: Access, used: bool = True,
) -> None:
    view = em.view(pointer)
    addresses = em.registers(pointer)
    values = [em.registers(v) for v in operands]
    conditions = None if mask is None else em.registers(mask)
    once = owns_copy(em, view)
    old = []
    fence(em, op, before=True)
    for r in range(len(view.registers)):
        active = I1(1) if conditions is None else conditions.register(em, r)
        if once is not None:
            active = once if conditions is None else em.b.and_(active, once)
        old.append(access(addresses.register(em, r), [v.register(em, r) for v in values], active))
    fence(em, op, before=False)
    if op.results and used and op.results[0].uses.get_length():
        em.bind(op.results[0], shared_copies(em, view, old))
    elif op.results:
        em.bind(op.results[0], from_scalars(em, old[0].type, old))


def shared_copies(em: Emitter, view: View, scalars: Sequence[ir.Value]) -> Registers:
    """Registers where lanes and warps with copies hold what the first of them has."""
    held = list(scalars)
    kind = held[0].type
    if view.lane_free:
        first = em.b.and_(em.lane_id(), I32(~view.lane_free & 0xFFFFFFFF))
        held = [shuffle_index(em, x, first) for x in held]
    if view.warp_free and em.state.num_warps > 1:
        per_warp = em.state.lanes * len(held)
        exchange = Exchange(em, element_bytes(kind) * per_warp * em.state.num_warps)
        owner = em.b.and_(em.warp_id(), I32(~view.warp_free & 0xFFFFFFFF))
        mine, theirs = (
            em.b.add(em.b.mul(warp, I32(per_warp)), em.lane_id())
            for warp in (em.warp_id(), owner)
        )
        for r, value in enumerate(held):
            exchange.write(em.b.add(mine, I32(r * em.state.lanes)), value)
        exchange.meet()
        held = [
            exchange.read(em.b.add(theirs, I32(r * em.state.lanes)), kind)
            for r in range(len(held))
        ]
    return from_scalars(em, kind, held)


def _scalar(
    em: Emitter, op: Operation, pointer: SSAValue, operands: Sequence[SSAValue],
    mask: SSAValue | None, access: Access, used: bool = True,
) -> None:
    """Once per work-group, by lane 0 of warp 0; all others are told the result."""
    sem = attribute(op, "sem").data
    if sem in ("release", "acq_rel"):
        gpu_barrier(em)
    fence(em, op, before=True)
    active = first_lane(em)
    if mask is not None:
        active = em.b.and_(active, em.scalar(mask))
    address = em.address(em.scalar(pointer))
    old = access(address, [em.scalar(v) for v in operands], active)
    fence(em, op, before=False)
    if op.results and used and op.results[0].uses.get_length():
        em.bind(op.results[0], from_first_lane(em, old))
    else:
        if op.results:
            em.bind(op.results[0], old)
        if sem in ("acquire", "acq_rel"):
            gpu_barrier(em)


def first_lane(em: Emitter) -> ir.Value:
    """True in one lane of the work-group."""
    return em.b.icmp_unsigned("==", em.b.or_(em.lane_id(), em.warp_id()), I32(0))


def from_first_lane(em: Emitter, value: ir.Value) -> ir.Value:
    """The value that lane 0 of warp 0 has, in every lane."""
    value = uniform(em, value)
    if em.state.num_warps == 1:
        return value
    exchange = Exchange(em, 2 * element_bytes(value.type))
    others = em.b.icmp_unsigned("!=", em.warp_id(), I32(0))
    exchange.write(em.b.zext(others, I32), value)
    exchange.meet()
    return uniform(em, exchange.read(I32(0), value.type))


def _as_integer(em: Emitter, value: ir.Value) -> ir.Value:
    if isinstance(value.type, ir.PointerType):
        return em.address(value)
    if isinstance(value.type, ir.IntType):
        return value
    return em.b.bitcast(value, ir.IntType(bits_of(value.type)))


def _back(em: Emitter, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else em.b.bitcast(value, kind)


# -- the operations --------------------------------------------------------------------------------


@lowers(AtomicRMWOp)
def lower_atomic_rmw(em: Emitter, op: AtomicRMWOp) -> None:
    pointer, value, *rest = op.operands
    kind, scope = attribute(op, "atomic_rmw_op").data, attribute(op, "scope").data
    bf16 = is_bf16(value.type)
    held = scalar_type(value.type)
    if held == I1:
        raise UnsupportedError("atomic operations on i1 elements")
    if kind == "exch" and not isinstance(held, ir.IntType):
        name_of, working = f"i{bits_of(held)}", ir.IntType(bits_of(held))
    else:
        name_of, working = ("bf16" if bf16 and kind == "fadd" else str(held)), held
    text = rmw_text(kind, working, bf16, scope)

    def access(address: ir.Value, values: Sequence[ir.Value], active: ir.Value) -> ir.Value:
        given = values[0] if values[0].type == working else _as_integer(em, values[0])
        name = f"{LANE}atomic_{kind}_{name_of}_{scope}"
        return _back(em, call_text(em, name, working, [address, given, active], text), held)

    run(em, op, pointer, [value], rest[0] if rest else None, access)


@lowers(AtomicCASOp)
def lower_atomic_cas(em: Emitter, op: AtomicCASOp) -> None:
    pointer, expected, wanted = op.operands
    scope = attribute(op, "scope").data
    held = scalar_type(wanted.type)
    word = ir.IntType(bits_of(held))
    text = cas_text(word, scope)

    def access(address: ir.Value, values: Sequence[ir.Value], active: ir.Value) -> ir.Value:
        given = [_as_integer(em, v) for v in values]
        name = f"{LANE}atomic_cas_{word}_{scope}"
        return _back(em, call_text(em, name, word, [address, *given, active], text), held)

    run(em, op, pointer, [expected, wanted], None, access)


@lowers(AtomicLoadOp)
def lower_atomic_load(em: Emitter, op: AtomicLoadOp) -> None:
    pointer, *rest = op.operands
    scope = attribute(op, "scope").data
    held = scalar_type(op.results[0].type)
    word = ir.IntType(bits_of(held))

    def access(address: ir.Value, values: Sequence[ir.Value], active: ir.Value) -> ir.Value:
        name = f"{LANE}atomic_load_{word}_{scope}"
        old = call_text(em, name, word, [address, active], load_text(word, scope))
        return _back(em, old, held)

    run(em, op, pointer, [], rest[0] if rest else None, access)


@lowers(AtomicStoreOp)
def lower_atomic_store(em: Emitter, op: AtomicStoreOp) -> None:
    """An exchange whose result nobody wants."""
    pointer, value, *rest = op.operands
    scope = attribute(op, "scope").data
    word = ir.IntType(bits_of(scalar_type(value.type)))
    text = rmw_text("exch", word, False, scope)

    def access(address: ir.Value, values: Sequence[ir.Value], active: ir.Value) -> ir.Value:
        name = f"{LANE}atomic_store_{word}_{scope}"
        given = [address, _as_integer(em, values[0]), active]
        return call_text(em, name, word, given, text)

    run(em, op, pointer, [value], rest[0] if rest else None, access)


@lowers(AtomicPollOp)
def lower_atomic_poll(em: Emitter, op: AtomicPollOp) -> None:
    pointer, expected, *rest = op.operands
    scope = attribute(op, "scope").data
    word = scalar_type(expected.type)
    timeout = em.scalar(rest[0]) if rest else I64(-1)

    def access(address: ir.Value, values: Sequence[ir.Value], active: ir.Value) -> ir.Value:
        name = f"{LANE}atomic_poll_{word}_{scope}"
        text = poll_text(word, scope)
        return call_text(em, name, I1, [address, values[0], timeout, active], text)

    if rest:
        run(em, op, pointer, [expected], None, access)
        return
    run(em, op, pointer, [expected], None, access, used=False)
    (result,) = op.results
    met = Splat(len(em.view(result).registers), I1(1)) if isinstance(
        result.type, TensorType) else I1(1)
    em.bind(result, met)
    if attribute(op, "sem").data == "relaxed" or isinstance(met, Splat):
        gpu_barrier(em)


__all__ = ["first_lane", "from_first_lane", "shared_copies"]
