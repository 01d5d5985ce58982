"""Instrumentation of the sanitizer: a check before every access, and the access only if it passed.

A refused access goes to a scratch page, and the launch stops after the work-group, so that the
kernel needs no exit.  The checks are in `checks`, the launch's side in `shadow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from triton_xe import llvm as ir
from triton_xe.intrinsics import Family, find, genisa
from triton_xe.llvm.records import Instruction, Operand, constant
from triton_xe.llvm.types import I1, I32, I64, PTR, Type
from triton_xe.llvm.values import Values
from triton_xe.runtime.simulator.analysis.calls import argument
from triton_xe.runtime.simulator.analysis.shapes import Table, gep_steps
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.rewrites.element_accesses import access_parts
from triton_xe.runtime.simulator.sanitizer import state as checks
from triton_xe.runtime.simulator.sanitizer.plan import SEARCHED, Instrumentation
from triton_xe.runtime.simulator.sanitizer.state import (
    MOST_VALUES,
    NOWHERE,
    SCRATCH_BYTES,
    WINDOW,
    Entry,
    Kind,
    Order,
    Word,
)
from triton_xe.runtime.simulator.sanitizer.steps import Steps, are_disjoint, steps_of
from triton_xe.runtime.simulator.trace.messages import traced_access
from triton_xe.runtime.simulator.widen.accesses import lane_major, load_value
from triton_xe.runtime.simulator.widen.host_function import CTX, ERROR, SG
from triton_xe.runtime.simulator.widen.parts import BlockArguments, Stored
from triton_xe.runtime.simulator.widen.values import (
    Tabled,
    Uniform,
    Value,
    Wide,
    contiguous_start,
    slice_mask,
    uniform,
)
from triton_xe.runtime.simulator.widen.widener import Widener

MOST_STEPS = 64
"""Longest chain of operations from an address to the load that it comes from."""
MOST_ELEMENTS = 64
"""Largest number of elements of an access in a batch: their masks are bits of a word."""
DEVICE_SCOPE, WORK_GROUP_SCOPE = 1, 2
"""Memory scopes of SPIR-V; lower ones are wider."""


def checking(w: Widener) -> bool:
    return w.kernel.plan is not None and not w.kernel.plan.trace


def guarded(
    w: Widener, i: Instruction, position: int, t: Type, mask: Value | None, kind: int,
    align: int = 0,
) -> Instruction:
    """The instruction with its address replaced by a safe one; itself when not sanitizing."""
    plan = w.kernel.plan
    operand = i.operands[position]
    if plan is None or operand.type.space == 0:
        return i
    pointer = w.value(operand)
    if plan.trace:
        traced_access(w, i, pointer, operand.type.space == 3, t, mask, kind)
        return i
    if i.shadow:
        return _moved(w, i, position, in_map(w, pointer, plan.entry(w.source.function, operand), t))
    is_scalar = isinstance(pointer, Uniform) and kind == 0
    kind |= Kind.SLM if operand.type.space == 3 else Kind.SCALAR if is_scalar else 0
    entry = SEARCHED if kind & Kind.SLM else _argument(w, i, plan, operand, kind)
    if isinstance(pointer, Uniform) and kind & Kind.WRITE and mask is not None and (
            mask.type.lanes > 1):
        pointer = Wide(w.b.wide(pointer), pointer.type)
    w.note_location(i)
    kind |= (align or t.scalar.size) << 8
    if _keeps_values(w, i, position, pointer, mask, kind):
        kind |= Kind.KEPT
    access = _Access(w, i, pointer, entry, t, mask, kind, _seen(w, i, kind))
    fine, safe, alone = access.checked()
    if kind & (Kind.WRITE | Kind.ATOMIC | Kind.SLM) == Kind.WRITE:
        _note_store(w, i, position, safe, fine, mask, alone)
    return _moved(w, i, position, safe)


def _argument(
    w: Widener, i: Instruction, plan: Instrumentation, address: Operand, kind: int
) -> int:
    """The argument whose memory an access is to, noted for reports; `SEARCHED` if unknown."""
    entry = plan.entry(w.source.function, address, **_does(kind))
    if entry == SEARCHED:
        plan.through[site(w, i)[2]] = _table_of(w, plan, address)
    else:
        plan.through_argument[i.line] = entry
    return entry


def _table_of(w: Widener, plan: Instrumentation, address: Operand) -> int:
    """The argument whose memory an address was loaded from; `SEARCHED` if unknown."""
    for _ in range(MOST_STEPS):
        i = w.source.facts.maker(address)
        if i is None or not i.operands:
            break
        address = i.operands[0]
        if i.opcode == "load":
            return plan.entry(w.source.function, address)
    return SEARCHED


def _does(kind: int) -> dict[str, bool]:
    """Reads and writes of an access, for `Instrumentation.entry`."""
    return {"writes": bool(kind & Kind.WRITE),
            "reads": not kind & Kind.WRITE or bool(kind & Kind.ATOMIC)}


def _seen(w: Widener, i: Instruction, kind: int) -> Operand | None:
    """True if a subgroup's copy of a loaded value matters; None if every subgroup's does."""
    seen, every = _observers(w, i), (1 << w.kernel.sizes.sub_groups) - 1
    if kind & (Kind.WRITE | Kind.ATOMIC | Kind.SLM) or seen == every:
        return None
    return w.b.cast("trunc", w.b.lshr(constant(I64, seen), w.b.zext(SG, I64)), I1)


def _observers(w: Widener, i: Instruction) -> int:
    """Bit mask of the subgroups whose copies of a loaded value matter."""
    plan, every = w.kernel.plan, (1 << w.kernel.sizes.sub_groups) - 1
    assert plan is not None
    return plan.observers.get(w.source.function.name, {}).get(i.result or "", every)


def _described(w: Widener, kind: int, seen: Operand | None) -> Operand | int:
    """The kind, with `UNSEEN` in subgroups whose copy does not matter."""
    return kind if seen is None else w.b.select(seen, constant(I64, kind), kind | Kind.UNSEEN)


def _tabled_address(w: Widener, address: Operand) -> Tabled | None:
    """Addresses of lanes as a base plus constants; None for others."""
    further = 0
    while (made := w.source.facts.maker(address)) is not None and (
            made.opcode == "getelementptr"):
        total, scales = gep_steps(made)
        steps = [(made.operands[k].integer_value(), scale) for k, scale in scales]
        known = [value * scale for value, scale in steps if value is not None]
        if len(known) < len(steps):
            break
        further, address = further + total + sum(known), made.operands[0]
    pointer = w.value(address)
    return replace(pointer, table=pointer.table + further) if isinstance(pointer, Tabled) else None


def _keeps_values(
    w: Widener, i: Instruction, at: int, pointer: Value, mask: Value | None, kind: int
) -> bool:
    """True if the checks know the stored values: subgroups may store equal ones to one address.

    Their order does not matter then.
    """
    if kind & (Kind.WRITE | Kind.ATOMIC) != Kind.WRITE or not _is_store(i):
        return False
    value = w.value(i.operands[1 - at])
    t, alone = value.type, isinstance(pointer, Uniform)
    clear = mask is None or isinstance(mask, Uniform) or isinstance(value, Uniform)
    return (t.scalar.kind != "ptr" and t.scalar.bits > 1 and t.size * w.lanes <= MOST_VALUES
            and (clear or not alone))


def _is_store(i: Instruction) -> bool:
    return i.opcode == "store" or find(i.callee) is genisa.PREDICATED_STORE


def _note_store(
    w: Widener, i: Instruction, at: int, address: Value, fine: Operand, mask: Value | None,
    alone: Operand,
) -> None:
    """Collect the stores of one tensor; see `read_back`."""
    if not _is_store(i):
        return
    value = w.value(i.operands[1 - at])
    if value.type.scalar.kind != "ptr" and not (
            isinstance(address, Uniform) and isinstance(value, Uniform)):
        place = _tabled_address(w, i.operands[at])
        w.stored.append(Stored(i, address, fine, value, mask, place, alone))


def _moved(w: Widener, i: Instruction, position: int, address: Value) -> Instruction:
    """The instruction with another address, with the same growth from program to program."""
    name = f"%xe.safe{len(w.values)}"
    w.values[name] = address
    operands = list(i.operands)
    made = w.source.facts.maker(operands[position])
    if made is not None:
        w.source.facts.makers[name] = made
    operands[position] = Operand(operands[position].type, name)
    return i.with_operands(operands)


def in_map(w: Widener, pointer: Value, row: int, t: Type) -> Value:
    """Address in the map of unwritten bytes for an address.

    It is a page of zeros for addresses outside of the block, and for unknown blocks.
    """
    if row == SEARCHED:
        page = uniform(scratch(w))
        return page if isinstance(pointer, Uniform) else Wide(w.b.wide(page), pointer.type)
    v = Values(w.b)
    entry = w.b.at(known_word(w, Word.TABLE), 8 * Entry.WORDS * row)
    low, high, map_ = (v.wrap(w.b.load(I64, w.b.at(entry, 8 * word)))
                       for word in (Entry.LOW, Entry.HIGH, Entry.UNWRITTEN))
    alone = isinstance(pointer, Uniform)
    x = v.wrap(pointer.value if isinstance(pointer, Uniform) else w.b.wide(pointer)).integer()
    room = high - low - t.size
    inside = (x - low <= room) & (room.compare("sge", 0))
    moved = v.select(inside, x + map_, v.wrap(known_word(w, Word.SCRATCH, I64)))
    moved = moved.pointer()
    return Uniform(moved.operand, pointer.type) if alone else Wide(moved.operand, pointer.type)


def site(w: Widener, i: Instruction) -> tuple[Operand, Operand, int]:
    """First arguments of a check: context, subgroup, line of the LLVM module.

    The line is the first one of those with the same source location.
    """
    plan = w.kernel.plan
    if plan is None or i.debug is None:
        return CTX, SG, i.line
    return CTX, SG, plan.lines.setdefault(i.debug, i.line)


def state_word(w: Widener, word: Word) -> Operand:
    """Address of a word of the launch's state."""
    return w.b.at(_state(w), 8 * word)


def known_word(w: Widener, word: Word, t: Type = PTR) -> Operand:
    """A word of the state that does not change while a work-group runs."""
    return w.b.loaded_once(_state(w), 8 * word, t)


def _state(w: Widener) -> Operand:
    return w.b.loaded_once(CTX, Context.STATE.offset)


def scratch(w: Widener) -> Operand:
    """Address of the page for refused accesses."""
    return known_word(w, Word.SCRATCH)


@dataclass(frozen=True)
class _Access:
    """An access of all lanes, and the flags of its check."""

    w: Widener
    i: Instruction
    pointer: Value
    entry: int
    type: Type
    mask: Value | None
    kind: int
    seen: Operand | None

    @property
    def count(self) -> int:
        """Number of elements of each lane that have masks of their own."""
        return 1 if self.mask is None else self.mask.type.lanes

    @property
    def size(self) -> int:
        """Bytes of such an element."""
        return self.type.size // self.count

    def checked(self) -> tuple[Operand, Value, Operand]:
        """True if it may be executed; a safe address; true if it is the first to its elements."""
        b, pointer, known = self.w.b, self.pointer, self._checked_in_batch()
        steps, alone = self._steps(), ir.FALSE
        if steps is not None:
            fine = self._checked_steps(steps, known)
        elif known is not None:
            fine = b.or_else(known, lambda: self._checked_lanes()[0])
        elif isinstance(pointer, Uniform):
            fine = self._checked_once(pointer)
            safe = b.select(fine, pointer.value, scratch(self.w))
            return fine, Uniform(safe, pointer.type), alone
        else:
            fine, alone = self._checked_lanes()
        return fine, self._moved_where(fine), alone

    def _keep_values(self) -> None:
        """Store the values of a store for its check, if that knows them (`KEPT`).

        After a store by all lanes to one address, the last lane's value remains.
        """
        w, i = self.w, self.i
        if self.kind & Kind.KEPT:
            value = w.value(i.operands[0 if i.opcode == "store" else 1])
            kept = w.b.lane(value, w.lanes - 1) if isinstance(self.pointer, Uniform) else (
                lane_major(w, w.b.wide(value), value.type, True))
            w.b.store(kept, known_word(w, Word.VALUES), align=1)

    def _checked_once(self, pointer: Uniform) -> Operand:
        """True if all lanes may access one address."""
        self._keep_values()
        w, b, mask, size = self.w, self.w.b, self.mask, self.size
        kind, fine = _described(w, self.kind, self.seen), ir.TRUE
        for e in range(self.count):
            active = ir.TRUE
            if mask is not None:
                own = mask if self.count == 1 else b.element(mask, e)
                active = own.value if isinstance(own, Uniform) else b.any_lane(b.mask(own))
            address = b.add(b.ptrtoint(pointer.value), e * size)
            one = b.invoke(checks.check_one(size, kind), *site(w, self.i), -1, self.entry, address,
                           size, kind, active)
            fine = one if self.count == 1 else b.and_(fine, one)
        return fine

    def _checked_lanes(self) -> tuple[Operand, Operand]:
        """True if lanes may access any addresses; true if it is the first access there."""
        self._keep_values()
        w, b, mask, count, size = self.w, self.w.b, self.mask, self.count, self.size
        kind, addresses = _described(w, self.kind, self.seen), b.ptrtoint(b.wide(self.pointer))
        check = checks.check_lanes(w.lanes, size, kind) if count == 1 else (
            checks.check_elements(w.lanes, count, size, kind))
        lanes = constant(ir.vector(w.lanes, I1), 1) if mask is None else b.mask(mask, count)
        found = b.invoke(check, *site(w, self.i), self.entry, addresses, size, kind, lanes)
        if found.type == I1:
            return found, ir.FALSE
        return b.trunc(found, I1), b.trunc(b.lshr(found, 1), I1)

    def _moved_where(self, fine: Operand) -> Value:
        """Addresses of lanes, replaced by scratch addresses where they are invalid."""
        w, b, pointer = self.w, self.w.b, self.pointer
        if isinstance(pointer, Tabled) and pointer.base is not None:
            low, high = int(pointer.table.min()), int(pointer.table.max())
            if high - low + self.type.size <= SCRATCH_BYTES:
                base = b.select(fine, b.at(pointer.base, low), scratch(w))
                return Tabled(base, pointer.table - low, pointer.type)
        return Wide(b.select(fine, b.wide(pointer), b.wide(uniform(scratch(w)))), pointer.type)

    def _steps(self) -> Steps | None:
        """Positions of the elements relative to a base, if they are known."""
        pointer = self.pointer
        if not isinstance(pointer, Tabled) or pointer.base is None:
            return None
        return _known_steps(self.w, pointer.table, self.count, self.size, self.kind)

    def _checked_steps(self, steps: Steps, known: Operand | None) -> Operand:
        """True if an access at known offsets from a base may be executed.

        It is `known` if a check of its batch has found no fault.
        """
        w, mask = self.w, self.mask
        check = checks.check_steps(w.lanes, self.count, self.size, self.kind, steps.strides,
                                   masked=mask is not None)
        seen = ir.TRUE if self.seen is None else self.seen

        def checked() -> Operand:
            self._keep_values()
            flags = [] if mask is None else [w.b.mask(mask, self.count)]
            base = _base(w, self.pointer)
            return w.b.invoke(check, *site(w, self.i), self.entry, base, seen, *flags)

        return checked() if known is None else w.b.or_else(known, checked)

    def _checked_in_batch(self) -> Operand | None:
        """True if a check of several accesses has found no fault in one; None if there is none.

        The first access of a batch writes the check, if all of them have the same form.
        """
        w, i, kind, plan = self.w, self.i, self.kind, self.w.kernel.plan
        assert plan is not None
        batch = plan.batches.get(i, ())
        steps = _steps_of(w, i, self.count, self.size, kind) if batch else None
        if steps is not None and self.entry != SEARCHED and (
                len(steps.offsets) <= MOST_ELEMENTS and all(
                    _is_like(w, other, i, steps, kind) for other in batch)):
            most = WINDOW // steps.width(kind >> 8)
            while len(batch) > 1 and most > 1:
                number = 1 << min(len(batch), most).bit_length() - 1
                _check_some(w, batch[:number], self.entry, steps, kind & ~Kind.KEPT, self.seen)
                batch = batch[number:]
        return w.checked.pop(i, None)


def _is_like(w: Widener, i: Instruction, first: Instruction, steps: Steps, kind: int) -> bool:
    """True if an access has the form of another one, relative to an address of its own."""
    one, other = (_entry(w, _parts(x)[0]) for x in (i, first))
    known = _steps_of(w, i, steps.count, steps.size, kind)
    return known == steps and one == other and _observers(w, i) == _observers(w, first)


def _steps_of(w: Widener, i: Instruction, count: int, size: int, kind: int) -> Steps | None:
    """Positions of the elements of an access, if no sum of its addresses wraps around."""
    pointer = w.value(_parts(i)[0])
    if isinstance(pointer, Uniform) or (isinstance(pointer, Tabled) and pointer.base is None):
        return None
    if isinstance(pointer, Tabled):
        return _known_steps(w, pointer.table, count, size, kind)
    table = w.kernel.shapes_without_wraps.of(w.source.function, _parts(i)[0]).table
    return None if table is None else _known_steps(w, table, count, size, kind)


def _entry(w: Widener, pointer: Operand) -> int:
    assert w.kernel.plan is not None
    return w.kernel.plan.entry(w.source.function, pointer)


def _parts(i: Instruction) -> tuple[Operand, Operand | None]:
    """Address and mask of an access."""
    parts = access_parts(i)
    assert parts is not None
    return parts[0], parts[2]


def _check_some(
    w: Widener, batch: Sequence[Instruction], entry: int, steps: Steps, kind: int,
    seen: Operand | None,
) -> None:
    """Write one check of several accesses, and note its result for each of them.

    It leaves out those whose lanes are not at the positions, because sums wrap around.
    """
    b, parts = w.b, [_parts(i) for i in batch]
    pointers, seen = [w.value(p) for p, _ in parts], ir.TRUE if seen is None else seen
    bases = [_base(w, p) for p in pointers]
    masks = [b.mask(w.value(m), steps.count) for _, m in parts if m is not None]
    sure = [_is_at(w, *place, steps) for place in zip(pointers, bases, strict=True)]
    if any(here != ir.TRUE for here in sure):
        every = constant(ir.vector(len(steps.offsets), I1), 1)
        masks = [b.select(here, mask, constant(mask.type, 0)) for here, mask in zip(
            sure, masks or [every] * len(batch), strict=True)]
    flags = [b.joined(masks, I1, len(steps.offsets))] if masks else []
    check = checks.check_batch(len(batch), w.lanes, steps.count, steps.size, kind, steps.strides,
                               masked=bool(masks))
    found = b.invoke(check, *site(w, batch[0]), entry, b.pack(ir.vector(len(batch), I64), bases),
                     seen, *flags)
    for k, i in enumerate(batch):
        w.checked[i] = b.and_(sure[k], b.trunc(b.lshr(found, k), I1))


def _is_at(w: Widener, pointer: Value, base: Operand, steps: Steps) -> Operand:
    """True if the lanes' addresses are at their positions relative to that of lane 0."""
    if isinstance(pointer, Tabled):
        return ir.TRUE
    v, offsets = Values(w.b), ir.integers(I64, steps.offsets[:w.lanes])
    places = v.wrap(w.b.ptrtoint(w.b.wide(pointer)))
    return (places - v.wrap(base) == v.wrap(offsets)).every().operand


def _known_steps(
    w: Widener, table: Table, count: int, size: int, kind: int
) -> Steps | None:
    """Positions of the elements at lanes' offsets from a base."""
    if kind & (Kind.SLM | Kind.ATOMIC):
        return None
    steps, align = steps_of(table, w.lanes, count, size), kind >> 8
    aligned = steps is not None and not any(k % align for k in steps.offsets)
    return steps if aligned else None


def _base(w: Widener, pointer: Value) -> Operand:
    """Address of lane 0, as an integer."""
    if not isinstance(pointer, Tabled):
        return w.b.extract(w.b.ptrtoint(w.b.wide(pointer)), 0)
    assert pointer.base is not None
    return w.b.ptrtoint(w.b.at(pointer.base, int(pointer.table.flat[0])))


def guarded_range(
    w: Widener, i: Instruction, position: int, nbytes: int, kind: int, align: int
) -> Operand:
    """The uniform address of a block of bytes, replaced if it is invalid."""
    block = ir.vector(nbytes, ir.I8)
    return w.uniform(guarded(w, i, position, block, None, kind, align).operands[position])


def guarded_surface(
    w: Widener, i: Instruction, arguments: BlockArguments, kind: int
) -> BlockArguments:
    """The 2D block, moved out of its surface if it would access invalid memory."""
    plan, b = w.kernel.plan, w.b
    if plan is None or plan.trace:
        return arguments
    entry = plan.entry(w.source.function, i.operands[0], **_does(kind))
    plan.through_argument[i.line] = entry
    element = arguments.bits // 8
    row_bytes = element * arguments.tile_width * arguments.blocks
    if i.shadow:
        return _surface_in_map(w, arguments, entry, row_bytes)
    described = _described(w, kind | 1 << 8, _seen(w, i, kind))
    fine = b.invoke(checks.check_block(described), *site(w, i), entry, *arguments.surface,
                    row_bytes, arguments.tile_height, element, described)
    at = state_word(w, Word.SUBGROUP)
    clean = b.icmp("eq", b.load(I64, ERROR), 0)
    first = b.load(I64, at)
    b.store(b.select(clean, b.zext(SG, I64), first), at)
    *surface, y = arguments.surface
    return replace(arguments, surface=(*surface, b.select(fine, y, NOWHERE)))


def _surface_in_map(
    w: Widener, arguments: BlockArguments, entry: int, row_bytes: int
) -> BlockArguments:
    """The 2D block in the map of unwritten bytes."""
    b, (base, w1, h1, p1, x, y) = w.b, arguments.surface
    if entry == SEARCHED:
        return replace(arguments, surface=(base, w1, h1, p1, x, constant(I32, NOWHERE)))
    x_bytes = b.mul(x, arguments.bits // 8)
    row = b.invoke(checks.SURFACE_Y, CTX, entry, base, w1, h1, p1, x_bytes, y, row_bytes,
                   arguments.tile_height)
    at = w.b.at(known_word(w, Word.TABLE), 8 * (Entry.WORDS * entry + Entry.UNWRITTEN))
    moved = b.add(base, b.load(I64, at))
    return replace(arguments, surface=(moved, w1, h1, p1, x, row))


def fence(w: Widener, i: Instruction) -> None:
    """Tell the checks about a fence; unknown semantics count as all."""
    if checking(w) and not _is_ignored(w, i):
        scope, semantics = (_integer(i, name) for name in ("scope", "semantics"))
        if semantics is None:
            scope, semantics = None, int(Order.FULL)
        w.b.invoke(checks.FENCE, CTX, SG, DEVICE_SCOPE if scope is None else scope, semantics)


def _integer(i: Instruction, name: str) -> int | None:
    """Value of a constant argument; None also if the callee has no such argument."""
    return argument(i, name).integer_value() if find(i.callee).has(name) else None


def _is_ignored(w: Widener, i: Instruction) -> bool:
    """True if the checks ignore a barrier, because the compiler inserted it."""
    return i.added and w.kernel.plan is not None and w.kernel.plan.strict


def note_site(w: Widener, i: Instruction) -> None:
    """Note the call of a lane helper, for reports of accesses in it."""
    if checking(w):
        w.note_location(i)
        entry = SEARCHED
        if w.kernel.plan is not None and is_atomic_helper(i.callee):
            entry = w.kernel.plan.entry(
                w.source.function, i.operands[0], writes=True, reads=True)
        w.b.store(constant(I32, i.line), state_word(w, Word.SITE))
        w.b.store(constant(I64, entry), state_word(w, Word.ENTRY))


def after_barrier(w: Widener, i: Instruction) -> None:
    """Tell the checks about a barrier, which orders memory and what was fenced before it."""
    if not checking(w) or _is_ignored(w, i):
        return
    flags = _integer(i, "flags") or 0
    semantics = _integer(i, "semantics") or (256 * (flags & 1) | 512 * (flags >> 1 & 1))
    w.b.invoke(checks.BARRIER, CTX, SG, semantics)


def synchronises(w: Widener, i: Instruction, pointer: Operand, what: int | Operand) -> None:
    """Record an atomic of one lane; `what`: whether it `READS` and `WRITES`."""
    plan = w.kernel.plan
    if plan is None or plan.trace or not plan.releases:
        return
    if i.operands[0].type.space == 3 or local_scope(i):
        return
    plan.synchronises = True
    stated = _integer(i, "semantics")
    semantics = order_of(i) if stated is None else stated
    w.b.invoke(checks.SYNC, CTX, SG, semantics, w.b.ptrtoint(pointer), what)


def local_scope(i: Instruction) -> int:
    """`Kind.LOCAL` for an atomic whose scope is a work-group or narrower; else 0."""
    if find(i.callee).family is Family.ATOMIC:
        scope = _integer(i, "scope")
        return Kind.LOCAL if scope is not None and scope >= WORK_GROUP_SCOPE else 0
    return Kind.LOCAL if i.scope in ("workgroup", "subgroup", "singlethread") else 0


def needs(i: Instruction) -> int:
    """`Kind.NEEDS` for an atomic whose result depends on the old value, else 0."""
    stores = i.extra == "xchg" or i.opcode == "store"
    return 0 if stores else Kind.NEEDS


def order_of(i: Instruction) -> int:
    """Memory semantics of the orderings of an atomic instruction."""
    return _ORDERS.get(i.orderings[0], 0) if i.orderings else 0


_ORDERS = {"acquire": Order.ACQUIRE, "release": Order.RELEASE, "acq_rel": Order.BOTH,
           "seq_cst": Order.SEQUENTIAL}


# --- infinities and NaN ---------------------------------------------------------------------------

_MAKES = (Family.MATHS, Family.CONVERSION, Family.REDUCTION, Family.DPAS)
_MAKES_NUMBERS = frozenset("fadd fsub fmul fdiv frem fptrunc sitofp uitofp".split())


def finite_result(w: Widener, i: Instruction) -> None:
    """Report a result that is not finite although all operands are."""
    plan = w.kernel.plan
    if plan is None or not plan.finite or i.result is None or i.type.scalar.kind != "float":
        return
    known = find(i.callee)
    made = i.opcode in _MAKES_NUMBERS or (
        i.opcode == "call" and (not known.known or known.family in _MAKES)
    )
    if not made:
        return
    bad = _not_finite(w, w.value(i.value))
    for operand in i.operands:
        if operand.type.scalar.kind == "float" and not operand.is_undefined:
            bad = w.b.and_(bad, w.b.not_(_not_finite(w, w.value(operand))))
    w.note_location(i)
    w.b.invoke(checks.NON_FINITE, *site(w, i), bad)


def _not_finite(w: Widener, value: Value) -> Operand:
    wide = w.b.wide(value)
    return lane_flags(w, w.b.fcmp("uno", w.b.fsub(wide, wide), 0.0), value.type.lanes)


def lane_flags(w: Widener, flat: Operand, elements: int) -> Operand:
    """Flags of `<elements*S x i1>`, or-ed over the elements: an i64 with a bit per lane."""
    parts = [flat] if elements == 1 else [
        w.b.shuffle(flat, None, slice_mask(e * w.lanes, w.lanes)) for e in range(elements)]
    return w.b.zext(w.b.lane_bits(reduce(w.b.or_, parts)), I64)


def first_address(w: Widener, bad: Operand, pointer: Value, odd: Operand, t: Type) -> Operand:
    """Address of the first odd element of the first lane that has a flag.

    Any address if no lane has a flag; `t` is the type that each lane accesses.
    """
    b, s = w.b, w.lanes
    at, wide = b.ptrtoint(w.b.wide(pointer)), ir.vector(s, I64)
    offsets = constant(wide, 0)
    for e in range(t.lanes - 1, -1, -1) if t.lanes > 1 else ():
        flags = b.shuffle(odd, None, slice_mask(e * s, s))
        offsets = b.select(flags, constant(wide, e * t.scalar.size), offsets)
    lane = b.and_(b.intrinsic("cttz", bad, ir.FALSE), s - 1)
    return b.extract(b.add(at, offsets), lane)


# --- elements of one store that go to one address -------------------------------------------------
#
# Which of them stays is not defined, where they differ.  Elements of different warps race; those of
# one warp are read back when all are stored: what is not there any more, another one overwrote.


def _is_of_stored(w: Widener, i: Instruction) -> bool:
    """True if an instruction cannot change stored memory, or belongs to the same tensor's store."""
    first = w.stored[0].instruction
    if i.opcode == "store" or find(i.callee) is genisa.PREDICATED_STORE:
        return first.first and not i.first and i.debug == first.debug
    return i.is_pure or i.shadow or find(i.callee).family is Family.SHADOW


def read_back(w: Widener, following: Instruction) -> None:
    """Compare stored values with memory, before the first instruction after a tensor's store."""
    if not w.stored or _is_of_stored(w, following):
        return
    stored, w.stored = w.stored, []
    t = stored[0].value.type
    if len(stored) == 1 and contiguous_start(stored[0].address, t.size) is not None:
        return
    places = [s.place for s in stored if s.place is not None and s.value.type.size == t.size]
    apart = are_disjoint(w, places, t.size) if len(places) == len(stored) else ir.FALSE
    if apart == ir.FALSE and all(s.is_first != ir.FALSE for s in stored):
        apart = reduce(w.b.and_, (s.is_first for s in stored))
    if apart != ir.TRUE:
        with w.b.unless(apart):
            for s in stored:
                _compare_stored(w, s)


def _compare_stored(w: Widener, s: Stored) -> None:
    """Load what a store of several elements wrote; report an element that another one overwrote."""
    b, t = w.b, s.value.type
    found = w.b.wide(load_value(w, s.address, t, s.mask, s.value))
    bits = ir.vector_or_scalar(t.lanes * w.lanes, ir.integer(8 * t.scalar.size))
    odd = b.icmp("ne", b.bitcast(found, bits), b.bitcast(w.b.wide(s.value), bits))
    if s.mask is not None:
        odd = b.and_(odd, w.b.mask(s.mask, t.lanes))
    bad = lane_flags(w, odd, t.lanes)
    bad = b.select(s.fine, bad, 0)
    at = first_address(w, bad, s.address, odd, t)
    w.note_location(s.instruction)
    b.invoke(checks.COLLISION, CTX, SG, s.instruction.line, bad, at,
             t.scalar.size)


# --- helper functions that run lane by lane -------------------------------------------------------


def is_atomic_helper(name: str) -> bool:
    """True if a function is a lane helper whose first argument is the address of an atomic."""
    return find(name).family is Family.HELPER and find(name).has("address")
