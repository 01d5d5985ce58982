"""Lowering of global memory accesses through tensors of pointers: vectors, masks, cache hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from triton_xe import llvm as ir
from triton_xe.dialects.arith_ext import TruncFOp, TruncIOp
from triton_xe.dialects.tt.memory import LoadOp, StoreOp
from triton_xe.dialects.tt.ops import AddPtrOp, FpToFpOp, IntToPtrOp, PtrToIntOp, TransOp
from triton_xe.dialects.tt.types import CachePolicyAttr
from triton_xe.dialects.ttg import ConvertLayoutOp
from triton_xe.hardware.block_2d import has_offsets
from triton_xe.hardware.memory import COLUMN_BYTES, MAX_LANE_BYTES
from triton_xe.hardware.register_file import HALF_FILE
from triton_xe.lowering.emit.emitter import Emitter, disjoint, lowers
from triton_xe.lowering.emit.lane_access import CachePolicy, load, store
from triton_xe.lowering.emit.maths import fp8
from triton_xe.lowering.emit.maths.halves import suits
from triton_xe.lowering.emit.maths.terms import Term
from triton_xe.lowering.emit.maths.wide import same_bits, words_of_bytes, words_of_halves
from triton_xe.lowering.emit.tensors.promises import where_kept
from triton_xe.lowering.emit.tensors.registers import (
    CHUNK,
    Halves,
    InWords,
    Registers,
    concatenated,
    eager,
    mapped,
    regrouped,
)
from triton_xe.lowering.emit.types import (
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    argument_type,
    bits_of,
    element,
    is_bf16,
    is_fp8,
    is_pointer,
    scalar_type,
    vector_of,
)
from triton_xe.lowering.facts.accesses import needed_mask, vector_width
from triton_xe.lowering.facts.values import Unknown, pointee_bytes
from triton_xe.lowering.facts.view import View
from triton_xe.lowering.rewriting import orders_memory
from triton_xe.lowering.surfaces.raise_surfaces import in_slow_version
from triton_xe.lowering.surfaces.unobserved import is_hidden

MANY = 32
"""Registers from which on a gather is too large to be live as a whole next to a product."""
_LOAD_POLICIES = {"ca": "ca.ca", "cg": "uc.ca", "cs": "st.ca", "cv": "uc.uc"}
_STORE_POLICIES = {"wb": "wb.wb", "cg": "uc.wb", "cs": "st.wb", "wt": "wt.wb"}


def policy_of(op: LoadOp | StoreOp) -> str:
    """Cache policy requested by `cache_modifier` and `eviction_policy`; "default" for none."""
    held, write = op.cache_policy, isinstance(op, StoreOp)
    if not isinstance(held, CachePolicyAttr):
        return "default"
    table = _STORE_POLICIES if write else _LOAD_POLICIES
    once = "st.wb" if write else "st.ca"
    usual = once if held.eviction_policy == "evict_first" else "default"
    return table.get(held.cache_modifier, usual)


def _in_bytes(em: Emitter, offset: ir.Operand, size: int, *, shared: bool = True) -> ir.Operand:
    """An offset in bytes, which accesses to other tensors share unless too many stay live."""
    def make() -> ir.Operand:
        wide = Term(em, offset).resized(I64, signed=True)
        return (wide * size if size > 1 else wide).value

    return em.remember((offset, size, "bytes"), make) if shared else make()


def _addresses(em: Emitter, op: LoadOp | StoreOp) -> Callable[[int], ir.Operand]:
    """The address of each register's element: a pointer to another one, plus a constant.

    As in `facts.poly`, offsets that wrap around address memory that the kernel does not own.  Next
    to registers that fill more than half of the file, too few are left for many pointers.
    Addresses that a loop carries are there already, for messages without immediate offsets.
    """
    held, size, view = em.registers(op.ptr), pointee_bytes(op.ptr), em.view(op.ptr)
    steps = _steps(em, op.ptr, view)
    groups = [tuple(c // run for c, (run, _) in zip(each, steps, strict=True))
              for each in view.registers]
    carried = isinstance(op.ptr, BlockArgument) and not has_offsets(em.state.target)
    if carried or (held.count > HALF_FILE and len(set(groups)) > 1):
        return partial(held.register, em)

    def address(register: int) -> ir.Operand:
        first = groups.index(groups[register])
        start = em.remember((held, "pointer", first), lambda: em.b.inttoptr(
            held.register(em, first), POINTER))
        apart = sum(step * (there - here) for here, there, (_, step) in zip(
            view.registers[first], view.registers[register], steps, strict=True))
        return em.b.gep(I8, start, apart * size) if apart else start

    return address


def _steps(em: Emitter, pointers: SSAValue, view: View) -> list[tuple[int, int]]:
    """For each dimension, the length of aligned runs, and the elements from neighbour to neighbour.

    They follow from a formula, or are adjacent.
    """
    known: Sequence[int | None] = [None] * len(view.shape)
    try:
        found = em.affine.index(pointers)
    except Unknown:
        pass
    else:
        if not found.conditions and not found.wraps:
            known = [stride.as_constant for stride in found.strides]
    return [(1, 0) if not disjoint(view, dim) else (run, 1) if step is None else (size, step)
            for dim, (size, step, run) in enumerate(zip(
                view.shape, known, em.proven.of(pointers).contiguity, strict=True))]


@lowers(AddPtrOp)
def lower_addptr(em: Emitter, op: AddPtrOp) -> None:
    size = pointee_bytes(op.result)
    if isinstance(op.result.type, TensorType):
        operands = [em.registers(v) for v in op.operands]
        few = operands[1].count < MANY
        em.bind(op.result, mapped(em, I64, operands, lambda base, offset: em.b.add(
            base, _in_bytes(em, offset, size, shared=few))))
        return
    offset = _in_bytes(em, em.scalar(op.offset), size)
    em.bind(op.result, em.b.gep(I8, em.scalar(op.ptr), offset))


@lowers(PtrToIntOp)
def lower_ptr_to_int(em: Emitter, op: PtrToIntOp) -> None:
    held = em.get(op.src)
    em.bind(op.result, held if isinstance(held, Registers) else em.address(held))


@lowers(IntToPtrOp)
def lower_int_to_ptr(em: Emitter, op: IntToPtrOp) -> None:
    held = em.get(op.src)
    em.bind(op.result, held if isinstance(held, Registers) else em.b.inttoptr(held, POINTER))


def proven_alignment(
    em: Emitter, width: int, align: int, pointer: SSAValue, mask: SSAValue | None, view: View,
    most: int,
) -> int:
    """Divisor of the address that holds without the facts that the program states.

    0 if the checks need not test these facts, because the access does not rely on them.
    """
    if not em.state.tests_promises:
        return 0
    proven, divisor = vector_width(em.proven, pointer, mask, view, most)
    return divisor if width > proven or align > divisor else 0


@lowers(LoadOp)
def lower_load(em: Emitter, op: LoadOp) -> None:
    mask, kind = needed_mask(op.mask), scalar_type(op.result.type)
    volatile = op.is_volatile is not None and bool(op.is_volatile.value.data)
    policy = CachePolicy(policy_of(op), volatile, marked=op.other is None)
    size = bits_of(kind) // 8
    if not isinstance(op.result.type, TensorType):
        condition, other = (None if v is None else em.scalar(v) for v in (mask, op.other))
        value = load(em, em.scalar(op.ptr), kind, condition, other, size, policy)
        pointer = is_pointer(op.result.type)
        em.bind(op.result,
                em.b.inttoptr(value, argument_type(op.result.type)) if pointer else value)
        return
    view = em.view(op.ptr)
    most = COLUMN_BYTES if op.columns is not None else MAX_LANE_BYTES
    width, align = vector_width(em.axis, op.ptr, mask, view, most)
    tested = proven_alignment(em, width, align, op.ptr, mask, view, most)
    pointers, address = em.registers(op.ptr), _addresses(em, op)
    conditions, fill = (None if v is None else em.registers(v) for v in (mask, op.other))
    active = None if conditions is None else partial(conditions.register, em)
    by_words = (kind == HALF or is_bf16(op.result.type)) and width % 2 == 0 and not volatile
    in_fours = kind == I8 and width % 4 == 0 and not (volatile or tested) and fill is None
    hidden = mask is not None and (op.hidden is not None or is_hidden(op.result, mask))

    def one(start: int) -> ir.Operand:
        pointer, kinds = address(start), vector_of(kind, width)
        condition = None if active is None else active(start)
        if by_words:
            kinds = vector_of(I32, width // 2)
        if in_fours:
            kinds = vector_of(I32, width // 4)
        passthrough = _unspecified(em, pointer, kinds) if hidden else None
        if passthrough is None and fill is not None:
            passthrough = fill.slice(em, start, width)
            passthrough = _words(em, passthrough) if by_words else passthrough
        least = 1 if kind == I1 else tested or align
        value = load(em, pointer, kinds, condition, passthrough, least, policy)
        if by_words and tested:
            value = em.b.bitcast(value, vector_of(kind, width))
        return where_kept(em, op, value, start, size, align, pointers, conditions) \
            if tested else value

    if width == 1 and _is_written_piecewise(op, len(view.registers)):
        em.bind(op.result, regrouped(em, Registers(len(view.registers), kind, one, 1)))
        return
    loaded = [one(start) for start in range(0, len(view.registers), width)]
    if by_words and not tested:
        pairs = regrouped(em, eager(I32, loaded, width // 2), CHUNK // 2)
        em.bind(op.result, Halves(em, kind, pairs))
    elif in_fours:
        words = regrouped(em, eager(I32, loaded, width // 4), CHUNK // 4)
        em.bind(op.result, InWords(em, I8, words, 4))
    else:
        em.bind(op.result, regrouped(em, eager(kind, loaded, width)))


def _is_written_piecewise(op: LoadOp, count: int) -> bool:
    """True if elements of a version with gathers are loaded where their layout changes.

    Next to a product, Intel's compiler has too few registers for many of them at once.
    """
    if count < MANY or not in_slow_version(op):
        return False
    value: SSAValue = op.result
    while value.has_one_use():
        user = value.get_user_of_unique_use()
        if user is None or user.parent is not op.parent or len(user.results) != 1:
            return False
        if isinstance(user, ConvertLayoutOp):
            return _nothing_between(op, user)
        if not isinstance(user, TransOp):
            return False
        value = user.result
    return False


def _nothing_between(op: Operation, user: Operation) -> bool:
    """True if a read may be delayed until an operation of its block."""
    between = op.next_op
    while between is not None and between is not user and not orders_memory(between):
        between = between.next_op
    return between is user


def _unspecified(em: Emitter, pointer: ir.Operand, kind: ir.Type) -> ir.Operand | None:
    """Vector that costs one move, as the result of lanes that are masked off; None for other types.

    Intel's compiler copies a constant, even an undefined one, into all registers of a conditional
    load, and also a value that stays live.  So this is a vector of the lane's own.
    """
    if kind.kind != "vec" or bits_of(kind.scalar) < 32:
        return None
    low = Term(em, em.address(pointer)).resized(ir.integer(bits_of(kind.scalar)))
    undefined = ir.undef(kind)
    return em.b.insert(undefined, low.bitcast(kind.scalar).value, 0)


def _words(em: Emitter, halves: ir.Operand) -> ir.Operand:
    """View elements of 16 bits as words."""
    bits = same_bits(halves)
    if bits is not None:
        return ir.constant(vector_of(I32, halves.type.count // 2), bits << 16 | bits)
    parts = [em.b.zext(em.b.bitcast(em.b.extract(halves, i), I16), I32)
             for i in range(halves.type.count)]
    return em.pack(I32, [em.b.or_(low, em.b.shl(high, 16))
                         for low, high in zip(parts[::2], parts[1::2], strict=True)])


@lowers(StoreOp)
def lower_store(em: Emitter, op: StoreOp) -> None:
    mask = needed_mask(op.mask)
    if not isinstance(op.ptr.type, TensorType):
        _scalar_store(em, op, mask)
        return
    view = em.view(op.ptr)
    width, align = vector_width(em.axis, op.ptr, mask, view)
    tested = proven_alignment(em, width, align, op.ptr, mask, view, MAX_LANE_BYTES)
    pointers, values = em.registers(op.ptr), em.registers(op.value)
    address = _addresses(em, op)
    conditions = None if mask is None else em.registers(mask)
    active = None if conditions is None else partial(conditions.register, em)
    once = owns_copy(em, view)
    size, policy = pointee_bytes(op.ptr), policy_of(op)
    for start in range(0, len(view.registers), width):
        condition = None if active is None else active(start)
        if tested and conditions is not None:
            # where a mask is not the first one's, what is stored is undefined, and reported
            each = (conditions.register(em, start + k) for k in range(width))
            condition = reduce(em.b.or_, each)
        if once is not None:
            condition = once if condition is None else em.b.and_(condition, once)
        value = _narrowed_words(em, op.value, start, width)
        value = values.slice(em, start, width) if value is None or tested else value
        if tested:
            value = where_kept(em, op, value, start, size, align, pointers, conditions)
        pointer = address(start)
        if start == 0 and width < len(view.registers):
            em.b.begin_store()
        store(em, pointer, value, condition, tested or align, policy)


def _narrowed_words(em: Emitter, value: SSAValue, start: int, width: int) -> ir.Operand | None:
    """Registers of fp32 rounded to fp16, two in a word, or those of bytes, four in a word.

    The bytes are the lowest of words, or 8-bit floats of loaded fp16.  None for others.
    """
    op = value.owner
    if isinstance(op, FpToFpOp):
        return _words_of_fp8(em, op, start, width)
    if isinstance(op, TruncIOp):
        is_byte = scalar_type(value.type) == I8 and scalar_type(op.operands[0].type) == I32
        return words_of_bytes(em, em.registers(op.operands[0]).slice(em, start, width)) if (
            is_byte and width == 2 * CHUNK) else None
    if not isinstance(op, TruncFOp) or op.rounding_mode is not None or scalar_type(
            value.type) != HALF or scalar_type(op.input.type) != FLOAT:
        return None
    held = em.registers(op.input)
    return words_of_halves(em, held.slice(em, start, width)) if width == CHUNK else None


def _words_of_fp8(em: Emitter, op: FpToFpOp, start: int, width: int) -> ir.Operand | None:
    """Registers of loaded fp16 rounded to 8-bit floats, four in a word; None for others."""
    held, kind = em.registers(op.src), op.result.type
    is_nearest = is_fp8(kind) and getattr(op.rounding, "data", "rtne") == "rtne"
    is_loaded = isinstance(held, Halves) and held.kind == HALF and width % CHUNK == 0
    return concatenated(em, [
        fp8.words_from_halves(em, element(kind).name, held.words(em, i, CHUNK))
        for i in range(start, start + width, CHUNK)]) if (
        is_nearest and is_loaded and suits(em.state)) else None


def owns_copy(em: Emitter, view: View) -> ir.Operand | None:
    """True in one lane of those that have copies of an element; None if there are no copies."""
    parts = []
    if view.lane_free:
        parts.append((em.lane_id(), view.lane_free))
    if view.warp_free:
        parts.append((em.warp_id(), view.warp_free))
    if not parts:
        return None

    def make() -> ir.Operand:
        tests = [
            em.b.icmp("eq", em.b.and_(value, mask), 0) for value, mask in parts
        ]
        return tests[0] if len(tests) == 1 else em.b.and_(*tests)

    return em.remember(("owns", view.lane_free, view.warp_free), make)


def first_lane(em: Emitter) -> ir.Operand:
    """True in one lane of the work-group."""
    return em.b.icmp("eq", em.b.or_(em.lane_id(), em.warp_id()), 0)


def _scalar_store(em: Emitter, op: StoreOp, mask: SSAValue | None) -> None:
    """Store a scalar once per work-group, by lane 0 of warp 0."""
    held = em.scalar(op.value)
    if held.type.kind == "ptr":
        held = em.address(held)
    first = first_lane(em)
    condition = first if mask is None else em.b.and_(first, em.scalar(mask))
    store(em, em.scalar(op.ptr), held, condition, bits_of(held.type) // 8)
