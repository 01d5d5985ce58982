"""The sanitizer's check of one access of all lanes at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.sanitizer.checks import owner_of, unfenced_barriers
from triton_xe.runtime.simulator.sanitizer.state import (
    ATOMIC,
    CHECK_ONE,
    CLASH,
    FIND,
    GROUP,
    I1,
    I32,
    I64,
    MERGE,
    PHASE,
    PHASE_MOST,
    PTR,
    SEVERAL,
    SITE_ARGUMENTS,
    SUBGROUP,
    Entry,
    Kind,
    Text,
    Word,
    Writer,
    block_of,
    check_lanes_name,
    try_lanes_name,
)

_SAME_SUBGROUP = -1 << SUBGROUP


class _Lanes:
    """Vector forms of the cell arithmetic of `library_sanitizer`, for `lanes` cells."""

    def __init__(self, lanes: int, name: str) -> None:
        self.lanes = lanes
        self.vector = ir.VectorType(I64, lanes)
        self.words = ir.VectorType(I32, lanes)
        self.masks = ir.VectorType(I1, lanes)
        self.bits = ir.IntType(lanes)
        self.w = Writer(name, I1, [
            *SITE_ARGUMENTS, ("entry", I64), ("addresses", self.vector), ("size", I64),
            ("kind", I64), ("mask", self.masks)])

    def constant(self, value: int) -> Any:
        return ir.Constant(self.vector, [value] * self.lanes)

    def spread(self, value: Any) -> Any:
        b, kind = self.w.b, ir.VectorType(value.type, self.lanes)
        one = b.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
        return b.shuffle_vector(one, one, ir.Constant(self.words, [0] * self.lanes))

    def every(self, condition: Any) -> Any:
        b = self.w.b
        return b.icmp_signed("==", b.bitcast(condition, self.bits), self.bits(-1))

    def at(self, base: Any, index: Any, size: int) -> Any:
        b = self.w.b
        offset = b.mul(index, self.constant(size))
        return b.inttoptr(b.add(self.spread(base), offset), ir.VectorType(PTR, self.lanes))

    def gather(self, pointers: Any, mask: Any, kind: Any) -> Any:
        name = f"llvm.masked.gather.v{self.lanes}i{kind.element.width}.v{self.lanes}p0"
        zero = ir.Constant(kind, [0] * self.lanes)
        return self.w.call(name, kind, [pointers, mask, zero])

    def scatter(self, value: Any, pointers: Any, mask: Any) -> None:
        name = f"llvm.masked.scatter.v{self.lanes}i{value.type.element.width}.v{self.lanes}p0"
        self.w.call(name, ir.VoidType(), [value, pointers, mask])

    def bit(self, cells: Any, number: int) -> Any:
        b = self.w.b
        return b.icmp_unsigned("!=", b.and_(cells, self.constant(1 << number)), self.constant(0))

    def ordered(self, old: Any, owner: Any, slm: Any, since: Any) -> Any:
        """Cells that cannot clash: unused, atomic like the new access, of this subgroup, or before
        one more barrier."""
        b = self.w.b
        odd = b.xor(old, owner)
        none = self.constant(0)
        unused = b.icmp_unsigned("==", old, none)
        mine = b.icmp_unsigned("==", b.and_(odd, self.constant(_SAME_SUBGROUP)), none)
        group = b.icmp_unsigned("<", odd, self.constant(1 << GROUP))
        first = self.constant(PHASE)
        age = b.and_(b.sub(b.lshr(owner, first), b.lshr(old, first)), self.constant(PHASE_MOST))
        phase = b.icmp_unsigned(">", age, self.spread(since))
        warp = b.and_(old, self.constant(SEVERAL << SUBGROUP))
        several = b.icmp_unsigned("==", warp, self.constant(SEVERAL << SUBGROUP))
        phase = b.and_(phase, b.not_(several))
        stale = b.and_(self.spread(slm), b.not_(group))
        local = b.icmp_unsigned("!=", b.and_(self.w["kind"], I64(Kind.LOCAL)), I64(0))
        atomic = b.and_(self.bit(b.and_(old, owner), ATOMIC),
                        b.or_(group, b.not_(self.spread(local))))
        free = b.or_(b.or_(unused, mine), atomic)
        return b.or_(free, b.or_(b.and_(group, phase), stale))

    @contextmanager
    def distinct(self, cells: Any, which: Any) -> Iterator[tuple[Any, Any]]:
        """For each value among the cells of some lanes: it, and the lanes that have it."""
        w, b = self.w, self.w.b
        with w.chain(b.bitcast(which, self.bits)) as (rest, slot):
            one = b.extract_element(cells, b.zext(b.cttz(rest, I1(1)), I64))
            alike = b.icmp_unsigned("==", cells, self.spread(one))
            yield one, b.and_(alike, which)
            b.store(b.and_(rest, b.not_(b.bitcast(alike, self.bits))), slot)

    def of_group(self, old: Any, owner: Any) -> Any:
        """Cells of the running work-group."""
        b = self.w.b
        return b.icmp_unsigned("<", b.xor(old, owner), self.constant(1 << GROUP))

    def crossing(self, old: Any, owner: Any, ordered: Any) -> Any:
        """Cells of other programs, which may clash."""
        b = self.w.b
        group = b.icmp_unsigned("<", b.xor(old, owner), self.constant(1 << GROUP))
        return b.not_(b.or_(ordered, group))

    def merged_read(self, old: Any, new: Any, owner: Any, ordered: Any) -> Any:
        b = self.w.b
        none = self.constant(0)
        odd = b.xor(old, owner)
        mine = b.icmp_unsigned("==", b.and_(odd, self.constant(_SAME_SUBGROUP)), none)
        group = b.icmp_unsigned("<", odd, self.constant(1 << GROUP))
        read = b.and_(old, self.constant(15))
        several = b.or_(b.or_(new, read), self.constant(SEVERAL << SUBGROUP))
        read = b.and_(b.or_(old, new), self.constant(15))
        groups = b.or_(read, self.constant((SEVERAL << SUBGROUP) | -1 << GROUP))
        joined = b.select(group, several, groups)
        alone = b.select(mine, b.or_(new, b.and_(old, self.constant(15))), new)
        return b.select(b.or_(ordered, mine), alone, joined)


class _Scattered:
    """One cell per lane, anywhere; only those of active lanes."""

    def __init__(self, v: _Lanes, cells: Any, active: Any) -> None:
        self.v = v
        self.cells = cells
        self.active = active

    def load(self, base: Any, size: int, kind: Any) -> Any:
        return self.v.gather(self.v.at(base, self.cells, size), self.active, kind)

    def store(self, value: Any, base: Any, size: int) -> None:
        self.v.scatter(value, self.v.at(base, self.cells, size), self.active)


class _Run:
    """As many cells as lanes, one after another: plain vector accesses."""

    def __init__(self, v: _Lanes, first: Any) -> None:
        self.v = v
        self.first = first
        self.active = ir.Constant(v.masks, [1] * v.lanes)

    def _at(self, base: Any, size: int) -> Any:
        b = self.v.w.b
        return b.inttoptr(b.add(base, b.mul(self.first, I64(size))), PTR)

    def load(self, base: Any, size: int, kind: Any) -> Any:
        return self.v.w.b.load(self._at(base, size), align=4, typ=kind)

    def store(self, value: Any, base: Any, size: int) -> None:
        self.v.w.b.store(value, self._at(base, size), align=4)


_Cells = _Scattered | _Run


def check_lanes(lanes: int) -> Text:
    """True when no active lane's access is at fault.

    All lanes are looked at together; whatever is not plainly right is left to `CHECK_ONE`.
    """
    v = _Lanes(lanes, check_lanes_name(lanes))
    w, b = v.w, v.w.b
    result = w.variable(I1(1))
    masked = b.bitcast(w["mask"], v.bits)
    good = w.variable(b.icmp_unsigned("==", masked, v.bits(0)))
    with b.if_then(b.not_(w.get(good))):
        _all_lanes(v, masked, good)
    with b.if_then(b.not_(w.get(good))):
        memory = w.space(v.vector)
        b.store(w["addresses"], memory)
        with w.loop(I64(0), I64(lanes)) as k:
            active = b.trunc(b.lshr(masked, b.trunc(k, v.bits)), I1)
            arguments = [w["ctx"], w["sg"], w["site"], b.trunc(k, I32), w["entry"],
                         w.word(memory, k), w["size"], w["kind"], active]
            b.store(b.and_(w.get(result), w.call(CHECK_ONE, I1, arguments)), result)
    b.ret(w.get(result))
    return w.text(), (CHECK_ONE, CLASH, MERGE, FIND)


def try_lanes(lanes: int) -> Text:
    """Whether no active lane's access is at fault; if there may be a fault, nothing is told."""
    v = _Lanes(lanes, try_lanes_name(lanes))
    w, b = v.w, v.w.b
    masked = b.bitcast(w["mask"], v.bits)
    good = w.variable(b.icmp_unsigned("==", masked, v.bits(0)))
    with b.if_then(b.not_(w.get(good))):
        _all_lanes(v, masked, good)
    b.ret(w.get(good))
    return w.text(), (CLASH, MERGE, FIND)


def _all_lanes(v: _Lanes, masked: Any, good: Any) -> None:
    """Note the access, if it is plainly right; whether it is."""
    w, b = v.w, v.w.b
    state = w.state()
    slm = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.SLM)), I64(0))
    known = b.icmp_signed(">=", w["entry"], I64(0))
    row = w.variable(b.select(slm, w.word(state, Word.SLM_ENTRY), w["entry"]))
    with b.if_then(b.not_(b.or_(known, slm))):
        b.store(_searched(v, state, masked), row)
    block = block_of(w, state, w.get(row))
    b.store(_inside(v, block), good)
    tracked = b.icmp_unsigned("!=", w.word(block, Entry.WRITES), I64(0))
    with b.if_then(b.and_(w.get(good), tracked)):
        _note(v, state, block, slm, good)


def _searched(v: _Lanes, state: Any, masked: Any) -> Any:
    """The row of the block that the first active lane's address is in; an empty one if none."""
    w, b = v.w, v.w.b
    address = b.extract_element(w["addresses"], b.zext(b.cttz(masked, I1(1)), I64))
    block = block_of(w, state, w.word(state, Word.SEARCHED_ROW))
    away = b.or_(b.icmp_unsigned("<", address, w.word(block, Entry.LOW)),
                 b.icmp_unsigned(">=", address, w.word(block, Entry.HIGH)))
    with b.if_then(away):
        found = w.call(FIND, I64, [w["ctx"], address])
        nowhere = w.word(state, Word.EMPTY_ROW)
        here = b.icmp_signed(">=", found, I64(0))
        w.set_word(state, Word.SEARCHED_ROW, b.select(here, found, nowhere))
    return w.word(state, Word.SEARCHED_ROW)


def _inside(v: _Lanes, block: Any) -> Any:
    """Whether every active lane is in the block, and aligned."""
    w, b = v.w, v.w.b
    align = v.spread(b.sub(b.lshr(w["kind"], I64(8)), I64(1)))
    addresses = w["addresses"]
    fits = b.and_(
        b.icmp_unsigned(">=", addresses, v.spread(w.word(block, Entry.LOW))),
        b.icmp_unsigned("<=", b.add(addresses, v.spread(w["size"])),
                        v.spread(w.word(block, Entry.HIGH))))
    fits = b.and_(fits, b.icmp_unsigned("==", b.and_(addresses, align), v.constant(0)))
    return v.every(b.or_(fits, b.not_(w["mask"])))


def _note(v: _Lanes, state: Any, block: Any, slm: Any, good: Any) -> None:
    """Compare with the cells, and note the access, dword by dword; or part by part of a dword."""
    w, b = v.w, v.w.b
    size, addresses, mask = w["size"], w["addresses"], w["mask"]
    writes = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.WRITE)), I64(0))
    whole = b.icmp_unsigned(">=", size, I64(4))
    low = w.word(block, Entry.LOW)
    offsets = b.sub(addresses, v.spread(b.and_(low, I64(-4))))
    inner = b.and_(offsets, v.constant(3))
    even = v.every(b.or_(b.icmp_unsigned("==", inner, v.constant(0)), b.not_(mask)))
    simple = b.and_(b.and_(whole, even), b.icmp_unsigned("==", b.and_(size, I64(3)), I64(0)))
    b.store(b.or_(simple, b.not_(whole)), good)
    owner = owner_of(w, state, slm)
    index = b.lshr(offsets, v.constant(2))
    count = b.select(whole, b.lshr(size, I64(2)), b.udiv(I64(4), size))
    part = b.sub(b.shl(I64(1), b.select(whole, I64(4), size)), I64(1))
    start = b.extract_element(index, I32(0))
    run = b.and_(simple, _is_run(v, addresses, size, mask))
    with w.loop(I64(0), b.select(run, count, I64(0))) as k:
        cells = _Run(v, b.add(start, b.mul(k, I64(v.lanes))))
        _cells(v, state, block, cells, b.or_(owner, I64(15)), owner, slm, writes, good)
    with w.loop(I64(0), b.select(b.and_(w.get(good), b.not_(run)), count, I64(0))) as k:
        shift = b.select(whole, I64(0), b.mul(k, size))
        here = b.or_(v.spread(whole), b.icmp_unsigned("==", inner, v.spread(shift)))
        active = b.and_(mask, here)
        cell = b.add(index, v.spread(b.select(whole, k, I64(0))))
        new = b.or_(owner, b.shl(part, shift))
        _cells(v, state, block, _Scattered(v, cell, active), new, owner, slm, writes, good)


def _is_run(v: _Lanes, addresses: Any, size: Any, mask: Any) -> Any:
    """Whether all lanes take part, each right after the one before."""
    b = v.w.b
    steps = b.mul(ir.Constant(v.vector, list(range(v.lanes))), v.spread(size))
    expected = b.add(v.spread(b.extract_element(addresses, I32(0))), steps)
    return v.every(b.and_(b.icmp_unsigned("==", addresses, expected), mask))


def _cells(
    v: _Lanes, state: Any, block: Any, cells: _Cells, access: Any, accessor: Any, slm: Any,
    writes: Any, good: Any,
) -> None:
    w, b = v.w, v.w.b
    new, owner = v.spread(access), v.spread(accessor)
    write_at, read_at = w.word(block, Entry.WRITES), w.word(block, Entry.READS)
    old_write = cells.load(write_at, 8, v.vector)
    old_read = cells.load(read_at, 8, v.vector)
    after_write = v.ordered(old_write, owner, slm, unfenced_barriers(w, state, slm))
    after_read = v.ordered(old_read, owner, slm, I64(0))
    published = b.icmp_unsigned("!=", w.word(block, Entry.SYNC), I64(0))
    ordered = b.and_(after_write, b.or_(after_read, b.not_(v.spread(writes))))
    plain = v.every(b.or_(ordered, b.not_(cells.active)))
    atomic = b.icmp_unsigned("!=", b.and_(accessor, I64(1 << ATOMIC)), I64(0))
    with b.if_then(b.or_(b.not_(plain), b.and_(atomic, published))):
        _look_closer(v, cells, (old_write, old_read), (after_write, after_read), access, writes,
                     published, good)
    filled = b.and_(v.of_group(old_write, owner), b.icmp_unsigned(
        "==", b.and_(old_write, v.constant(15)), v.constant(15)))
    filled = v.every(b.or_(filled, b.not_(cells.active)))
    fresh = b.and_(slm, b.not_(filled))
    fine = b.and_(w.get(good), _first_use(v, state, cells, access, fresh, writes))
    b.store(fine, good)
    site = v.spread(w["site"])
    with b.if_then(fine), b.if_else(writes) as (then, otherwise):
        with then:
            mine = b.icmp_unsigned(
                "==", b.and_(b.xor(old_write, owner), v.constant(-16)), v.constant(0))
            kept = b.select(mine, b.or_(old_write, new), new)
            cells.store(kept, write_at, 8)
            # in shared memory, what other work-groups left there tells nothing
            stale = b.and_(v.spread(slm), b.not_(v.of_group(old_read, owner)))
            gone = b.or_(b.icmp_unsigned("==", old_read, v.constant(0)), stale)
            with b.if_then(b.not_(v.every(b.or_(gone, b.not_(cells.active))))):
                cells.store(v.constant(0), read_at, 8)
            cells.store(site, w.word(block, Entry.WRITE_SITES), 4)
        with otherwise:
            kept = w.variable(v.merged_read(old_read, new, owner, after_read))
            with b.if_then(published):
                joins = b.and_(v.crossing(old_read, owner, after_read), cells.active)
                with v.distinct(old_read, joins) as (old, alike):
                    one = w.call(MERGE, I64, [w["ctx"], block, old, access, w["kind"]])
                    b.store(b.select(alike, v.spread(one), w.get(kept)), kept)
            cells.store(w.get(kept), read_at, 8)
            cells.store(site, w.word(block, Entry.READ_SITES), 4)


def _look_closer(
    v: _Lanes, cells: _Cells, old: tuple[Any, Any], after: tuple[Any, Any], access: Any,
    writes: Any, published: Any, good: Any,
) -> None:
    """Where not all cells are plainly in order: whether what they tell of has been acquired."""
    b = v.w.b
    old_write, old_read = old
    new, active = v.spread(access), cells.active
    cross_write, cross_read = (
        b.and_(v.crossing(cell, new, ordered), active)
        for cell, ordered in zip(old, after, strict=True))
    fine = b.or_(after[0], b.and_(cross_write, _replaced(v, old_write, new, writes)))
    fine = b.and_(fine, b.or_(b.or_(after[1], cross_read), b.not_(v.spread(writes))))
    fine = b.and_(fine, b.or_(_goes_on(v, old_write, new), b.not_(v.spread(published))))
    every = v.every(b.or_(fine, b.not_(active)))
    b.store(b.and_(v.w.get(good), every), good)
    with b.if_then(every):
        _compare(v, old_write, cross_write, access, I1(0), good)
        _compare(v, old_read, b.and_(cross_read, v.spread(writes)), access, I1(1), good)


def _replaced(v: _Lanes, old: Any, new: Any, writes: Any) -> Any:
    """Cells of which a store leaves nothing; all, for a load."""
    b = v.w.b
    touched = b.icmp_unsigned("!=", b.and_(b.and_(old, new), v.constant(15)), v.constant(0))
    return b.or_(touched, b.not_(v.spread(writes)))


def _goes_on(v: _Lanes, old: Any, owner: Any) -> Any:
    """Cells after whose write an atomic still finds what is published there."""
    b = v.w.b
    unused = b.icmp_unsigned("==", old, v.constant(0))
    return b.or_(b.or_(unused, v.bit(old, ATOMIC)), b.not_(v.bit(owner, ATOMIC)))


def _compare(v: _Lanes, old: Any, which: Any, access: Any, read: Any, good: Any) -> None:
    """Compare with what some lanes found of other programs, each such access once."""
    w, b = v.w, v.w.b
    with v.distinct(old, which) as (cell, _):
        found = w.call(CLASH, I1, [w["ctx"], cell, access, w["kind"], read])
        b.store(b.and_(w.get(good), b.not_(found)), good)


def _first_use(
    v: _Lanes, state: Any, cells: _Cells, access: Any, slm: Any, writes: Any
) -> Any:
    """Shared memory whose bytes are not all known to be written: note which are; whether all that
    are read were."""
    w, b = v.w, v.w.b
    known = w.word(state, Word.SLM_KNOWN)
    spread = b.mul(b.and_(b.trunc(access, I32), I32(15)), I32(1 | 1 << 7 | 1 << 14 | 1 << 21))
    here = v.spread(b.and_(spread, I32(0x01010101)))
    result = w.variable(I1(1))
    whole = b.icmp_unsigned("==", b.and_(access, I64(15)), I64(15))
    with b.if_then(b.and_(slm, b.and_(writes, whole))):
        cells.store(here, known, 4)
    with b.if_then(b.and_(slm, b.not_(b.and_(writes, whole)))):
        old = cells.load(known, 4, v.words)
        with b.if_else(writes) as (then, otherwise):
            with then:
                cells.store(b.or_(old, here), known, 4)
            with otherwise:
                seen = b.icmp_unsigned("==", b.and_(old, here), here)
                b.store(v.every(b.or_(seen, b.not_(cells.active))), result)
    return w.get(result)


__all__ = ["check_lanes", "try_lanes"]
