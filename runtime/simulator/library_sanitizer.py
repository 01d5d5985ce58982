"""The sanitizer's run-time checks, as LLVM functions: bounds, alignment, first use, races.

State of a launch (`Word`, 64-bit words, see `shadow.LaunchState`) is reached through word 12 of the
work-group's context.  Work-groups of a checked launch run one after another on one thread.

A tracked block has two cells of 64 bits per dword of memory, the last write and the last read:
bits 0-3 bytes, 4 atomic, 5-17 release epoch, 18-35 barrier phase, 36-42 subgroup, 43-63 group + 1.
Two accesses of one dword race when one writes, they share bytes, not both are atomic, and

- in one work-group: other subgroup, same phase (no barrier with the right fence between; a store to
  global memory after a load needs a barrier of any kind, by which the loaded value has arrived);
- in two work-groups: the second has not acquired, by an atomic, what the first released by one;
  an atomic alone orders nothing, it takes a release fence before it and an acquire fence after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from llvmlite import ir

from triton_xe.runtime.simulator.host_cpu import HostCpu

I1, I8, I32, I64 = (ir.IntType(n) for n in (1, 8, 32, 64))
PTR = ir.PointerType()
Text = tuple[str, tuple[str, ...]]


class Word(IntEnum):
    """Words of the state of a sanitized launch."""

    TABLE = 0
    FIRST_SEARCHED = 1
    SEARCH_END = 2
    SCRATCH = 3
    GLOBAL_PHASE = 5
    """Barriers met so far, of any kind."""
    SLM_PHASE = 6
    EPOCH = 7
    RELEASED = 8
    ACQUIRED = 9
    SLM_ENTRY = 10
    SLM_KNOWN = 11
    FENCED_GLOBAL = 12
    FENCED_SLM = 13
    SUBGROUP = 14
    GROUP = 15
    SLM_BYTES = 16
    RELEASES = 17
    SITE = 18
    TRACE = 19
    TRACED = 20
    TRACE_MOST = 21
    SLM_SHADOW = 22
    ORIGINS = 23
    ATOMICS = 24
    """Whether the work-group has made an atomic access, whose value an acquire fence can use."""
    SINCE = 26
    """Barriers met since one that fences global memory."""
    RELEASABLE = 25
    """What the last release fence covers: accesses of lower epochs."""
    COUNT = 32


class Kind(IntEnum):
    """Bits that describe an access; bits 8 and up hold the alignment."""

    WRITE = 1
    ATOMIC = 2
    SLM = 4
    SCALAR = 8
    """A load of global memory that every warp makes for itself: Triton puts no barrier between it
    and a later store by one of them, so only other programs' stores count."""
    SAME = 16
    """A store to shared memory of what is there already: warps that hold copies of a value may
    all write it."""


class Order(IntEnum):
    """Memory semantics of SPIR-V; acquire and release are what an atomic can also have itself."""

    ACQUIRE = 2
    RELEASE = 4
    BOTH = 8
    SEQUENTIAL = 16
    SLM = 256
    GLOBAL = 512
    FULL = BOTH | SLM | GLOBAL


class Code(IntEnum):
    """Why a launch was stopped; 1 and 2 are those of block surfaces and divergent barriers."""

    BOUNDS = 10
    ALIGNMENT = 11
    RACE = 12
    UNINITIALISED = 13
    NON_FINITE = 14
    UNDEFINED = 15
    TIME = 20


class Entry(IntEnum):
    """Words of an entry of the block table."""

    LOW = 0
    HIGH = 1
    WRITES = 2
    READS = 3
    WRITE_SITES = 4
    READ_SITES = 5
    WORDS = 8


STATE_WORD = 12
GROUP_WORD = 10
ERROR_WORD = 7
MASK, ATOMIC, EPOCH, PHASE, SUBGROUP, GROUP = 0, 4, 5, 18, 36, 43
EPOCH_MOST, PHASE_MOST, SEVERAL = (1 << 13) - 1, (1 << 18) - 1, 127
SEVERAL_GROUPS = (1 << 21) - 1

CHECK_ONE = "xe_san_one"
CHECK_BLOCK = "xe_san_block"
FENCE = "xe_san_fence"
BARRIER = "xe_san_barrier"
SYNC = "xe_san_sync"
NEW_GROUP = "xe_san_group"
NON_FINITE = "xe_san_non_finite"
UNDEFINED = "xe_san_undefined"
STOPPED = "xe_stopped"
"""Notes who was still running when the time was up."""
MISS = "xe_san_miss"
"""Of the host: the index of a new entry for the block that holds an address, or -1."""


def slm_shadow_bytes(slm_bytes: int) -> int:
    """Bytes of the shadow of shared memory: a power of two, so that places wrap around."""
    return 1 << max(slm_bytes - 1, 63).bit_length()


def origin_words(lanes: int) -> int:
    """Words of what is noted of one masked load by one subgroup: group + 1, addresses from 8 on."""
    return 8 + -(-lanes // 8) * 8


def check_lanes_name(lanes: int) -> str:
    return f"xe_san_lanes_{lanes}"


class Writer:
    """A module with one public function, written with llvmlite's builder."""

    def __init__(self, name: str, result: ir.Type, arguments: list[tuple[str, ir.Type]]) -> None:
        self.module = ir.Module(name)
        self.function = self._define(name, result, arguments)
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.arguments = {n: a for (n, _), a in zip(arguments, self.function.args, strict=True)}

    def _define(
        self, name: str, result: ir.Type, arguments: list[tuple[str, ir.Type]]
    ) -> ir.Function:
        made = ir.Function(self.module, ir.FunctionType(result, [t for _, t in arguments]), name)
        made.attributes.add("nounwind")
        for (text, _), argument in zip(arguments, made.args, strict=True):
            argument.name = text
        return made

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def text(self) -> str:
        lines = str(self.module).splitlines()
        return "\n".join(x for x in lines if not x.startswith(("target ", "; ModuleID")))

    def word(self, base: Any, index: int | Any, kind: ir.Type = I64) -> Any:
        at = index if isinstance(index, ir.Value) else I64(int(index))
        return self.b.load(self.b.gep(base, [at], source_etype=kind), typ=kind)

    def set_word(self, base: Any, index: int | Any, value: Any, kind: ir.Type = I64) -> None:
        at = index if isinstance(index, ir.Value) else I64(int(index))
        self.b.store(value, self.b.gep(base, [at], source_etype=kind))

    def pointer(self, base: Any, index: int) -> Any:
        return self.word(base, index, PTR)

    def state(self) -> Any:
        return self.pointer(self["ctx"], STATE_WORD)

    def variable(self, value: Any) -> Any:
        slot = self.space(value.type)
        self.b.store(value, slot)
        return slot

    def space(self, kind: ir.Type) -> Any:
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def get(self, slot: Any) -> Any:
        return self.b.load(slot, typ=slot.allocated_type)

    @contextmanager
    def loop(self, first: Any, end: Any) -> Iterator[Any]:
        """for k in range(first, end), unsigned."""
        slot = self.variable(first)
        head, body, after = (self.function.append_basic_block(n) for n in ("head", "body", "after"))
        self.b.branch(head)
        self.b.position_at_end(head)
        k = self.get(slot)
        self.b.cbranch(self.b.icmp_unsigned("<", k, end), body, after)
        self.b.position_at_end(body)
        yield k
        self.b.store(self.b.add(k, k.type(1)), slot)
        self.b.branch(head)
        self.b.position_at_end(after)

    def call(self, name: str, result: ir.Type, arguments: list[Any]) -> Any:
        known = self.module.globals.get(name)
        if known is None:
            kind = ir.FunctionType(result, [a.type for a in arguments])
            known = ir.Function(self.module, kind, name)
        return self.b.call(known, arguments)

    def field(self, cell: Any, first: int, bits: int) -> Any:
        part = self.b.lshr(cell, I64(first)) if first else cell
        return self.b.and_(part, I64((1 << bits) - 1))


SITE_ARGUMENTS = [("ctx", PTR), ("sg", I32), ("site", I32)]
_ACCESS = [
    *SITE_ARGUMENTS, ("lane", I32), ("entry", I64), ("address", I64), ("size", I64), ("kind", I64),
]
_ARGUMENTS: dict[str, tuple[ir.Type, list[tuple[str, ir.Type]]]] = {
    CHECK_ONE: (I1, [*_ACCESS, ("active", I1)]),
    "xe_san_find": (I64, [("ctx", PTR), ("address", I64)]),
    "xe_san_track": (I1, [*_ACCESS[:4], ("block", PTR), *_ACCESS[5:]]),
    "xe_san_report": (ir.VoidType(), [
        *_ACCESS, ("code", I64), ("other", I64), ("other_site", I64), ("other_writes", I64)]),
    CHECK_BLOCK: (I1, [
        *SITE_ARGUMENTS, ("entry", I64), ("base", I64), ("w1", I32), ("h1", I32), ("p1", I32),
        ("x", I32), ("y", I32), ("row_bytes", I64), ("rows", I64), ("element", I64),
        ("kind", I64)]),
    FENCE: (ir.VoidType(), [("ctx", PTR), ("semantics", I32)]),
    BARRIER: (ir.VoidType(), [("ctx", PTR), ("sg", I32), ("semantics", I32)]),
    SYNC: (ir.VoidType(), [("ctx", PTR), ("semantics", I32)]),
    NEW_GROUP: (ir.VoidType(), [("ctx", PTR)]),
    NON_FINITE: (ir.VoidType(), [*SITE_ARGUMENTS, ("bad", I64)]),
    UNDEFINED: (ir.VoidType(), [*SITE_ARGUMENTS, ("bad", I64), ("use", I64)]),
}


def _start(name: str) -> Writer:
    result, arguments = _ARGUMENTS[name]
    return Writer(name, result, arguments)


def block_of(w: Writer, state: Any, index: Any) -> Any:
    table = w.pointer(state, Word.TABLE)
    offset = w.b.mul(index, I64(8 * Entry.WORDS))
    return w.b.gep(table, [offset], source_etype=I8)


def _report(w: Writer, code: Code, entry: Any, *other: Any) -> None:
    rest = list(other) or [I64(0), I64(0), I64(0)]
    access = [w[n] for n in ("ctx", "sg", "site", "lane")]
    tail = [w[n] for n in ("address", "size", "kind")]
    w.call("xe_san_report", ir.VoidType(), [*access, entry, *tail, I64(code), *rest])


def _make_report() -> Text:
    """Note the first fault of a launch in the error record."""
    w = _start("xe_san_report")
    error = w.pointer(w["ctx"], ERROR_WORD)
    first = w.b.icmp_unsigned("==", w.word(error, 0), I64(0))
    with w.b.if_then(first):
        for k, name in enumerate(("site", "address", "size", "kind", "entry", "sg", "lane")):
            value = w[name]
            value = value if value.type == I64 else w.b.sext(value, I64)
            w.set_word(error, 1 + k, value)
        w.set_word(error, 8, w.word(w["ctx"], GROUP_WORD))
        for k, name in enumerate(("other", "other_site", "other_writes")):
            w.set_word(error, 9 + k, w[name])
        w.set_word(error, 0, w["code"])
    w.b.ret_void()
    return w.text(), ()


def _make_find() -> Text:
    """The entry that holds an address; asks the host once for a new block; -1 when none does."""
    w = _start("xe_san_find")
    state = w.state()
    found = w.variable(I64(-1))
    end = w.word(state, Word.SEARCH_END)
    with w.loop(w.word(state, Word.FIRST_SEARCHED), end) as k:
        block = block_of(w, state, k)
        low, high = w.word(block, Entry.LOW), w.word(block, Entry.HIGH)
        inside = w.b.and_(w.b.icmp_unsigned(">=", w["address"], low),
                          w.b.icmp_unsigned("<", w["address"], high))
        with w.b.if_then(inside):
            w.b.store(k, found)
    with w.b.if_then(w.b.icmp_signed("<", w.get(found), I64(0))):
        w.b.store(w.call(MISS, I64, [w["address"]]), found)
    w.b.ret(w.get(found))
    return w.text(), ()


def _make_one() -> Text:
    """Check one range of bytes; true when the access may happen."""
    w = _start(CHECK_ONE)
    b = w.b
    result = w.variable(I1(1))
    state = w.state()
    error = w.pointer(w["ctx"], ERROR_WORD)
    clean = b.icmp_unsigned("==", w.word(error, 0), I64(0))
    with b.if_then(b.and_(w["active"], b.not_(clean))):
        arguments = [w["ctx"], w["sg"], b.zext(w["site"], I64)]
        w.call(STOPPED, ir.VoidType(), arguments)
        b.store(I1(0), result)
    with b.if_then(b.and_(w["active"], clean)):
        align = b.sub(b.lshr(w["kind"], I64(8)), I64(1))
        odd = b.icmp_unsigned("!=", b.and_(w["address"], align), I64(0))
        entry = w.variable(w["entry"])
        slm = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.SLM)), I64(0))
        unknown = b.and_(b.icmp_signed("<", w["entry"], I64(0)), b.not_(slm))
        with b.if_then(unknown):
            arguments = [w["ctx"], w["address"]]
            b.store(w.call("xe_san_find", I64, arguments), entry)
        index = w.get(entry)
        missing = b.and_(b.icmp_signed("<", index, I64(0)), b.not_(slm))
        slot = b.select(slm, w.word(state, Word.SLM_ENTRY), b.select(missing, I64(0), index))
        block = block_of(w, state, slot)
        low = b.icmp_unsigned("<", w["address"], w.word(block, Entry.LOW))
        end = b.add(w["address"], w["size"])
        high = b.icmp_unsigned(">", end, w.word(block, Entry.HIGH))
        wrong = b.or_(b.or_(low, high), missing)
        with b.if_then(wrong):
            _report(w, Code.BOUNDS, index)
            b.store(I1(0), result)
        with b.if_then(b.and_(odd, b.not_(wrong))):
            _report(w, Code.ALIGNMENT, index)
            b.store(I1(0), result)
        cells = w.word(block, Entry.WRITES)
        tracked = b.icmp_unsigned("!=", cells, I64(0))
        with b.if_then(b.and_(tracked, w.get(result))):
            names = ("ctx", "sg", "site", "lane")
            arguments = [*(w[n] for n in names), block,
                         *(w[n] for n in ("address", "size", "kind"))]
            b.store(w.call("xe_san_track", I1, arguments), result)
    b.ret(w.get(result))
    return w.text(), ("xe_san_find", "xe_san_report", "xe_san_track", STOPPED)


def _conflict(w: Writer, state: Any, old: Any, new: Any, slm: Any, since: Any) -> Any:
    """Whether an earlier access is not ordered before the new one.

    `since` counts the barriers, up to the last, that do not order the two.
    """
    b = w.b
    shared = b.icmp_unsigned("!=", b.and_(b.and_(old, new), I64(15)), I64(0))
    atomic = b.icmp_unsigned("!=", b.and_(b.and_(old, new), I64(1 << ATOMIC)), I64(0))
    group, mine = (b.lshr(x, I64(GROUP)) for x in (old, new))
    same = b.icmp_unsigned("==", group, mine)
    other_warp = b.icmp_unsigned("!=", w.field(old, SUBGROUP, 7), w.field(new, SUBGROUP, 7))
    age = b.and_(b.sub(w.field(new, PHASE, 18), w.field(old, PHASE, 18)), I64(PHASE_MOST))
    phase = b.icmp_unsigned("<=", age, since)
    inside = b.and_(same, b.and_(other_warp, phase))
    released = w.pointer(state, Word.RELEASED)
    acquired = b.icmp_unsigned("!=", w.word(state, Word.ACQUIRED), I64(0))
    known_group = b.icmp_unsigned("<", group, I64(SEVERAL_GROUPS))
    safe = b.select(b.and_(known_group, b.not_(slm)), group, I64(0))
    fresh = b.icmp_unsigned(">", b.zext(w.word(released, safe, I32), I64), w.field(old, EPOCH, 13))
    ordered = b.and_(acquired, b.or_(fresh, b.not_(known_group)))
    across = b.and_(b.not_(slm), b.and_(b.not_(same), b.not_(ordered)))
    used = b.icmp_unsigned("!=", old, I64(0))
    return b.and_(b.and_(used, shared), b.and_(b.not_(atomic), b.or_(inside, across)))


def _make_track() -> Text:
    """Compare with the last accesses of every dword of a range, and note this one."""
    w = _start("xe_san_track")
    b = w.b
    state = w.state()
    result = w.variable(I1(1))
    kind = w["kind"]
    slm = b.icmp_unsigned("!=", b.and_(kind, I64(Kind.SLM)), I64(0))
    writes = b.icmp_unsigned("!=", b.and_(kind, I64(Kind.WRITE)), I64(0))
    same = b.icmp_unsigned("!=", b.and_(kind, I64(Kind.SAME)), I64(0))
    block = w["block"]
    start = b.and_(w.word(block, Entry.LOW), I64(-4))
    first = b.sub(w["address"], start)
    end = b.add(first, w["size"])
    owner = owner_of(w, state, slm)
    last_writes, last_reads, write_sites, read_sites = (
        w.pointer(block, k)
        for k in (Entry.WRITES, Entry.READS, Entry.WRITE_SITES, Entry.READ_SITES)
    )
    _first_use(w, state, slm, writes, w["address"], result)
    with w.loop(b.lshr(first, I64(2)), b.lshr(b.add(end, I64(3)), I64(2))) as d:
        low = b.shl(d, I64(2))
        skip = b.select(b.icmp_unsigned(">", first, low), b.sub(first, low), I64(0))
        over = b.select(b.icmp_unsigned("<", end, b.add(low, I64(4))),
                        b.sub(b.add(low, I64(4)), end), I64(0))
        mask = b.and_(b.shl(I64(15), skip), b.lshr(I64(15), over))
        new = b.or_(owner, mask)
        old_write, old_read = w.word(last_writes, d), w.word(last_reads, d)
        after_write = _conflict(w, state, old_write, new, slm, unfenced_barriers(w, state, slm))
        mixed = b.and_(b.icmp_unsigned("==", w.field(old_write, SUBGROUP, 7), I64(SEVERAL)),
                       b.icmp_unsigned("==", b.lshr(old_write, I64(GROUP)),
                                       b.lshr(new, I64(GROUP))))
        # a place of shared memory that several subgroups write may be one that nobody reads
        several = b.and_(after_write, b.and_(slm, writes))
        was_mixed = b.icmp_unsigned("==", w.field(old_write, SUBGROUP, 7), I64(SEVERAL))
        mixes = b.and_(several, b.or_(was_mixed, b.not_(same)))
        after_write = b.or_(b.and_(after_write, b.not_(several)), b.and_(mixed, b.not_(writes)))
        after_read = _conflict(w, state, old_read, new, slm, I64(0))
        bad_read = b.and_(after_read, writes)
        bad = b.and_(b.or_(after_write, bad_read), w.get(result))
        with b.if_then(bad):
            site = b.select(after_write, w.word(write_sites, d, I32), w.word(read_sites, d, I32))
            _report(w, Code.RACE, I64(-1), b.select(after_write, old_write, old_read),
                    b.zext(site, I64), b.zext(after_write, I64))
            b.store(I1(0), result)
        with b.if_else(writes) as (then, otherwise):
            with then:
                mine = b.icmp_unsigned("==", b.and_(old_write, I64(-16)), owner)
                kept = b.select(mine, b.or_(old_write, new), new)
                kept = b.select(mixes, b.or_(kept, I64(SEVERAL << SUBGROUP)), kept)
                w.set_word(last_writes, d, kept)
                w.set_word(last_reads, d, I64(0))
                w.set_word(write_sites, d, w["site"], I32)
            with otherwise:
                w.set_word(last_reads, d, _merged_read(w, old_read, new, after_read))
                w.set_word(read_sites, d, w["site"], I32)
    b.ret(w.get(result))
    return w.text(), ("xe_san_report",)


def unfenced_barriers(w: Writer, state: Any, slm: Any) -> Any:
    """The barriers, up to the last, after which earlier stores are not visible yet."""
    return w.b.select(slm, I64(0), w.word(state, Word.SINCE))


def owner_of(w: Writer, state: Any, slm: Any) -> Any:
    b = w.b
    group = b.add(w.word(w["ctx"], GROUP_WORD), I64(1))
    phase = b.select(slm, w.word(state, Word.SLM_PHASE), w.word(state, Word.GLOBAL_PHASE))
    scalar = b.icmp_unsigned("!=", b.and_(w["kind"], I64(Kind.SCALAR)), I64(0))
    phase = b.select(scalar, I64(PHASE_MOST), phase)
    epoch = w.word(state, Word.EPOCH)
    epoch = b.select(b.icmp_unsigned("<", epoch, I64(EPOCH_MOST)), epoch, I64(EPOCH_MOST))
    atomic = b.and_(b.lshr(w["kind"], I64(1)), I64(1))
    owner = b.shl(group, I64(GROUP))
    for value, first in (
        (b.zext(w["sg"], I64), SUBGROUP), (b.and_(phase, I64(PHASE_MOST)), PHASE),
        (epoch, EPOCH), (atomic, ATOMIC),
    ):
        owner = b.or_(owner, b.shl(value, I64(first)))
    return owner


def _merged_read(w: Writer, old: Any, new: Any, unordered: Any) -> Any:
    """One cell for all readers since the last write; several readers clash with any writer."""
    b = w.b
    group = b.icmp_unsigned("==", b.lshr(old, I64(GROUP)), b.lshr(new, I64(GROUP)))
    warp = b.icmp_unsigned("==", w.field(old, SUBGROUP, 7), w.field(new, SUBGROUP, 7))
    several = b.or_(b.or_(old, new), I64(SEVERAL << SUBGROUP))
    clear = I64((1 << GROUP) - 1)
    groups = b.or_(b.and_(several, clear), I64(-1 << GROUP))
    joined = b.select(group, several, groups)
    same = b.and_(group, warp)
    kept = b.select(same, b.or_(new, b.and_(old, I64(15))), joined)
    return b.select(b.or_(same, unordered), kept, new)


def _first_use(
    w: Writer, state: Any, slm: Any, writes: Any, address: Any, result: Any
) -> None:
    """Note which bytes of shared memory were written; a read of another one is a fault."""
    b = w.b
    with b.if_then(slm):
        known = w.pointer(state, Word.SLM_KNOWN)
        first = b.sub(address, w.word(w["block"], Entry.LOW))
        with w.loop(first, b.add(first, w["size"])) as k:
            with b.if_then(b.not_(writes)):
                fresh = b.icmp_unsigned("==", w.word(known, k, I8), I8(0))
                with b.if_then(b.and_(fresh, w.get(result))):
                    _report(w, Code.UNINITIALISED, I64(-1), k, I64(0), I64(0))
                    b.store(I1(0), result)
            with b.if_then(writes):
                w.set_word(known, k, I8(1), I8)


def _make_block() -> Text:
    """Check the part of a 2D block that is inside its surface."""
    w = _start(CHECK_BLOCK)
    b = w.b
    result = w.variable(I1(1))
    x = b.mul(b.sext(w["x"], I64), w["element"])
    y = b.sext(w["y"], I64)
    width, height, pitch = (
        b.add(b.zext(w[n], I64), I64(1)) for n in ("w1", "h1", "p1"))

    def clipped(first: Any, count: Any, limit: Any) -> tuple[Any, Any]:
        end = b.add(first, count)
        low = b.select(b.icmp_signed(">", first, I64(0)), first, I64(0))
        return low, b.select(b.icmp_signed("<", end, limit), end, limit)

    (x0, x1), (y0, y1) = clipped(x, w["row_bytes"], width), clipped(y, w["rows"], height)
    some = b.and_(b.icmp_signed("<", x0, x1), b.icmp_signed("<", y0, y1))
    with b.if_then(some), w.loop(y0, y1) as row:
        address = b.add(b.add(w["base"], b.mul(row, pitch)), x0)
        arguments = [*(w[n] for n in ("ctx", "sg", "site")), I32(-1), w["entry"], address,
                     b.sub(x1, x0), w["kind"], I1(1)]
        b.store(b.and_(w.get(result), w.call(CHECK_ONE, I1, arguments)), result)
    b.ret(w.get(result))
    return w.text(), (CHECK_ONE,)


def _has(w: Writer, *orders: Order) -> Any:
    """Whether the semantics have one of the bits."""
    bits = w.b.and_(w["semantics"], I32(sum(orders)))
    return w.b.icmp_unsigned("!=", bits, I32(0))


def _acquires(w: Writer) -> Any:
    return _has(w, Order.ACQUIRE, Order.BOTH, Order.SEQUENTIAL)


def _releases(w: Writer) -> Any:
    return _has(w, Order.RELEASE, Order.BOTH, Order.SEQUENTIAL)


def _next_epoch(w: Writer, state: Any) -> Any:
    epoch = w.b.add(w.word(state, Word.EPOCH), I64(1))
    w.set_word(state, Word.EPOCH, epoch)
    return epoch


def _make_fence() -> Text:
    """A memory fence: what it covers is ordered by the next barrier.

    In global memory, a release fence lets the atomics after it release the accesses before it; an
    acquire fence after an atomic acquires.
    """
    w = _start(FENCE)
    state, b = w.state(), w.b
    with b.if_then(_has(w, Order.SLM)):
        w.set_word(state, Word.FENCED_SLM, I64(1))
    everywhere = _has(w, Order.GLOBAL)
    with b.if_then(everywhere):
        w.set_word(state, Word.FENCED_GLOBAL, I64(1))
    with b.if_then(b.and_(everywhere, _releases(w))):
        w.set_word(state, Word.RELEASABLE, _next_epoch(w, state))
    after_atomic = b.icmp_unsigned("!=", w.word(state, Word.ATOMICS), I64(0))
    with b.if_then(b.and_(b.and_(everywhere, _acquires(w)), after_atomic)):
        w.set_word(state, Word.ACQUIRED, I64(1))
    b.ret_void()
    return w.text(), ()


def _make_barrier() -> Text:
    """All subgroups are past a barrier, subgroup 0 first: a new phase of the memory it fences."""
    w = _start(BARRIER)
    state, b = w.state(), w.b

    def fences(order: Order, fenced: Word) -> Any:
        before = b.icmp_unsigned("!=", w.word(state, fenced), I64(0))
        w.set_word(state, fenced, I64(0))
        return b.or_(_has(w, order), before)

    def count(word: Word, more: Any) -> Any:
        total = b.add(w.word(state, word), more)
        w.set_word(state, word, total)
        return total

    with b.if_then(b.icmp_unsigned("==", w["sg"], I32(0))):
        count(Word.SLM_PHASE, b.zext(fences(Order.SLM, Word.FENCED_SLM), I64))
        count(Word.GLOBAL_PHASE, I64(1))
        visible = fences(Order.GLOBAL, Word.FENCED_GLOBAL)
        w.set_word(state, Word.SINCE, b.select(visible, I64(0), count(Word.SINCE, I64(1))))
    b.ret_void()
    return w.text(), ()


def _make_sync() -> Text:
    """An atomic on global memory: releases what was fenced before it, or is ordered itself."""
    w = _start(SYNC)
    state, b = w.state(), w.b
    w.set_word(state, Word.ATOMICS, I64(1))
    with b.if_then(_acquires(w)):
        w.set_word(state, Word.ACQUIRED, I64(1))
    with b.if_then(_releases(w)):
        w.set_word(state, Word.RELEASABLE, _next_epoch(w, state))
    group = b.add(w.word(w["ctx"], GROUP_WORD), I64(1))
    with b.if_then(b.icmp_unsigned("<", group, w.word(state, Word.RELEASES))):
        epoch = b.trunc(w.word(state, Word.RELEASABLE), I32)
        w.set_word(w.pointer(state, Word.RELEASED), group, epoch, I32)
    b.ret_void()
    return w.text(), ()


def _make_group() -> Text:
    """A new work-group begins: nothing is known of its shared memory, nothing acquired."""
    w = _start(NEW_GROUP)
    state, b = w.state(), w.b
    for word in (Word.GLOBAL_PHASE, Word.SLM_PHASE, Word.EPOCH, Word.ACQUIRED, Word.ATOMICS,
                 Word.RELEASABLE, Word.SINCE, Word.FENCED_GLOBAL, Word.FENCED_SLM):
        w.set_word(state, word, I64(0))
    group = w.word(w["ctx"], GROUP_WORD)
    w.set_word(state, Word.GROUP, group)
    slm = w.pointer(w["ctx"], 6)
    block = block_of(w, state, w.word(state, Word.SLM_ENTRY))
    low = b.ptrtoint(slm, I64)
    w.set_word(block, Entry.LOW, low)
    nbytes = w.word(state, Word.SLM_BYTES)
    w.set_word(block, Entry.HIGH, b.add(low, nbytes))
    known = w.pointer(state, Word.SLM_KNOWN)
    with w.loop(I64(0), b.lshr(b.add(nbytes, I64(7)), I64(3))) as k:
        w.set_word(known, k, I64(0))
    b.ret_void()
    return w.text(), ()


def _make_non_finite() -> Text:
    """Stop where finite operands gave an infinity or NaN; `bad` has a bit per lane."""
    return _first_bad_lane(_start(NON_FINITE), Code.NON_FINITE, I64(0))


def _make_undefined() -> Text:
    """Stop where undefined bits are used: `use` numbers the check, `bad` has a bit per lane."""
    w = _start(UNDEFINED)
    return _first_bad_lane(w, Code.UNDEFINED, w["use"])


def _first_bad_lane(w: Writer, code: Code, other: Any) -> Text:
    b = w.b
    with b.if_then(b.icmp_unsigned("!=", w["bad"], I64(0))):
        count = b.cttz(w["bad"], I1(1))
        arguments = [w["ctx"], w["sg"], w["site"], b.trunc(count, I32), I64(-1), I64(0), I64(0),
                     I64(0), I64(code), other, I64(0), I64(0)]
        w.call("xe_san_report", ir.VoidType(), arguments)
    b.ret_void()
    return w.text(), ("xe_san_report",)


_MAKERS: dict[str, Callable[[], Text]] = {
    "report": _make_report,
    "find": _make_find,
    "one": _make_one,
    "track": _make_track,
    "block": _make_block,
    "fence": _make_fence,
    "barrier": _make_barrier,
    "sync": _make_sync,
    "group": _make_group,
    "non_finite": _make_non_finite,
    "undefined": _make_undefined,
}
PATTERN = r"xe_san_(" + "|".join([*_MAKERS, r"lanes_\d+"]) + ")"


def function(host: HostCpu, name: str) -> Text:
    """The module of `xe_san_<name>`."""
    if name.startswith("lanes_"):
        from triton_xe.runtime.simulator.library_sanitizer_lanes import check_lanes

        return check_lanes(int(name.removeprefix("lanes_")))
    return _MAKERS[name]()
