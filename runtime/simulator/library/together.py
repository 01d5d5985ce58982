"""Run programs that wait for each other: interleaved, as many at once as the device holds.

Each thread has some of them, each with shared memory of its own.  They begin in the order of their
numbers, or a shuffled one, and take turns.  Every subgroup runs until a barrier, a loop that waits,
or its end.

If no event happens for some passes over all programs of a thread, it compares their state with that
of a pass before.  The state is coroutine frames and shared memory.  If they are equal, and global
memory did not change in between, they cannot continue by themselves.  The thread then adds their
number to `Launch.QUIET`, under the version of memory that they saw.  When that count is all live
programs, and no other can begin, the launch has a deadlock.
"""

from __future__ import annotations

from triton_xe.llvm import I1, I32, I64, PTR, VOID, Function
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Term, Value, Writer
from triton_xe.runtime.simulator.context import READY, Code, Context, Launch
from triton_xe.runtime.simulator.library.launches import (
    place_group,
    report_barrier,
    same_for_all_groups,
)
from triton_xe.runtime.simulator.library.names import TRAP
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer.state import (
    NEW_GROUP,
    OF_A_GROUP,
    REPLAY_LOG,
    TURNS,
    Entry,
    Known,
    Word,
)

MOST_TAKEN = 32
"""Turns that a program passes to others before it takes an item; one by one would be slow."""
FEW = 16
"""Number of waiting programs from which on the checks start as many as the device holds."""
QUIET_PASSES, QUIET_SHUFFLED = 4, 256
"""Passes without events before states are compared; shuffled programs do little in each pass."""
LONG_TURN = 1024
"""Accesses in a turn of a shuffled program whose state is compared.

They are more than between two polls of a waiting loop, and fewer than to the end of most other
loops.
"""
WAITING_PASSES, PAUSE_US = 64, 50
"""Passes without events before a thread sleeps between passes, and microseconds of that sleep."""
_MEMORY = (Word.SLM_KNOWN, Word.SLM_SHADOW)
_MIX = 0x9E3779B97F4A7C15
_NEVER = -1

_BEGIN = Routine("begin", VOID, (("launch", PTR), ("context", PTR), ("index", I64)))
_STEP = Routine("step", VOID, (("kernel", PTR), ("launch", PTR), ("context", PTR), ("quiet", I1)))
_SWITCH = Routine("switch", VOID, (("launch", PTR), ("context", PTR)))
_DIGEST = Routine("digest", I64, (("launch", PTR), ("context", PTR)))


def together(host: HostCpu, checked: str = "") -> list[Function]:
    """The runner of launches whose programs are interleaved, see `launches.run`."""
    return [*_begin(bool(checked)), *_step(), *_digest(), *_switch(),
            *_Runner(checked=bool(checked)).write()]


class _Turns(Writer):
    """Writer of a function on the record of a launch, and on one of its work-groups."""

    def __init__(self, routine: Routine, *, internal: bool = True) -> None:
        super().__init__(routine, internal=internal)
        self.launch = Memory(self, self["launch"])
        self.error = Memory(self, self.launch.address(Launch.ERROR_RECORD))
        self.count = self.launch[Launch.SUBGROUPS]
        if "context" in self.arguments:
            self.context = Memory(self, self["context"])
            self.handles = self.context.follow(Context.HANDLES, PTR)
            self.sites = self.context.follow(Context.SITES, I32)

    def random(self) -> Value:
        """The next random number of the launch's order; 0 without a seed."""
        x = self.launch[Launch.SEED]
        x ^= x << 13
        x ^= x >> 7
        x ^= x << 17
        self.launch[Launch.SEED] = x
        return x * _MIX >> 32

    def has_ended(self, sg: Term) -> Value:
        """True if a subgroup has been started, and its coroutine has ended."""
        handle = self.handles[sg]
        ended = self.variable(handle != 0)
        with self.when(ended.value):
            ended.value = self.load(PTR, handle) == 0
        return ended.value

    def follow_handle(self, sg: Term, function: int) -> None:
        """Resume (0) or destroy (1) the coroutine of a subgroup."""
        handle = self.handles[sg].operand
        callee = self.b.load(PTR, self.b.gep(PTR, handle, function))
        self.b.call(callee, VOID, [handle], flags=("fastcc",))

    def shared(self, word: Launch) -> Value:
        """A word of the launch that all threads change."""
        return self.load(I64, self.launch.address(word), align=8, ordering="seq_cst")

    def add(self, word: Launch, value: int) -> Value:
        """Add to a word of the launch that all threads change; return the old value."""
        at = self.launch.address(word).operand
        return self.wrap(self.b.atomicrmw("add", at, self.term(value, I64).operand))


def _begin(checked: bool) -> list[Function]:
    """Begin a work-group: all of its subgroups are ready."""
    w = _Turns(_BEGIN)
    number = w.variable(w["index"])
    groups = w.launch.follow(Launch.GROUPS)
    with w.when(groups.base != 0):
        number.value = groups[w["index"]]
    place_group(w, w.launch, w.context, number.value)
    with w.range(0, w.count) as sg:
        w.sites[sg] = READY
        w.store(w.term(0, PTR), w.handles.address(sg))
    w.context[Context.LIVE] = 1
    w.context[Context.TAKEN] = 0
    if checked:
        w.context[Context.GROUP] = w["index"]
        w.call(_SWITCH, w["launch"], w.context.base)
        w.call(NEW_GROUP, w.context.base)
    return w.finish()


def _switch() -> list[Function]:
    """Switch the state of the checks to a work-group."""
    w = _Turns(_SWITCH)
    old = w.launch.follow(Launch.CURRENT)
    same = old.base == w.context.base
    with w.when(same | (w.error[0] != 0)):
        w.ret()
    state = w.launch.follow(Launch.STATE)
    with w.when((old.base != 0) & (state[Word.SLM_LOGGED] != 0)):
        w.call(REPLAY_LOG, old.base)
        state[Word.SLM_EXACT] = 1
    for kept, word in enumerate(OF_A_GROUP, Context.CHECKS):
        with w.when(old.base != 0):
            old[kept] = state[word]
        state[word] = w.context[kept]
    entry = state.follow(Word.TABLE).row(state[Word.SLM_ENTRY], Entry.WORDS)
    entry[Entry.LOW] = w.context[Context.SLM]
    entry[Entry.HIGH] = w.context[Context.SLM] + state[Word.SLM_BYTES]
    w.launch[Launch.CURRENT] = w.context.base
    return w.finish()


def _step() -> list[Function]:
    """Run each ready subgroup, and continue past barriers at which all have arrived.

    In shuffled order, a program stops at such a barrier, and may be skipped unless it is `quiet`.
    """
    w = _Turns(_STEP)
    shuffled = (w.launch[Launch.SEED] != 0) & ~w["quiet"]
    going = w.variable(1, I1)
    with w.loop(lambda: going.value):
        _go_on(w, shuffled)
        ready, ended = _tally(w)
        arrived = ready == 0
        going.value = arrived & ~shuffled
        with w.when(arrived):
            _check_arrivals(w)
            with w.when((ended == w.count) | (w.error[0] != 0)):
                _end(w)
                w.ret()
            with w.range(0, w.count) as sg:
                w.sites[sg] |= READY
    return w.finish()


def _go_on(w: _Turns, shuffled: Value) -> None:
    """Resume, or start, the subgroups that are ready."""
    first = w.variable(0)
    with w.when(shuffled):
        first.value = w.random() % w.count
    with w.range(0, w.count) as k:
        sg = (first.value + k) % w.count
        takes = (w.launch[Launch.EAGER] != 0) & (w.context[Context.TAKEN] < MOST_TAKEN)
        usual = w.select(w.launch[Launch.SEED] != 0, LONG_TURN, _NEVER)
        turn = w.variable(w.select(takes, 1, usual))
        runs = w.variable(w.sites[sg].has(READY))
        with w.when(shuffled):
            luck = w.random()
            turn.value = (luck >> 8 & (w.term(2, I64) << (luck >> 4 & 3)) - 1) + 1
            runs.value &= luck.has(1)
        with w.when(runs.value):
            w.sites[sg] = 0
            w.context[Context.TURN] = turn.value
            with w.when(w.handles[sg] == 0):
                given = w.launch.address(Launch.ARGUMENTS), w.context.base, sg.to(I32)
                made = w.wrap(w.b.call(w["kernel"].operand, PTR, [x.operand for x in given]))
                w.store(made, w.handles.address(sg))
            with w.otherwise():
                w.follow_handle(sg, 0)


def _tally(w: _Turns) -> tuple[Value, Value]:
    """Number of subgroups that are ready, and number that have ended."""
    ready, ended = w.variable(0), w.variable(0)
    with w.range(0, w.count) as sg:
        ready.value += w.sites[sg].has(READY).to(I64)
        ended.value += w.has_ended(sg).to(I64)
    return ready.value, ended.value


def _check_arrivals(w: _Turns) -> None:
    """Trap unless all subgroups, none of which is ready, wait at the same barrier or have ended."""
    ended, site = w.has_ended(0), w.sites[0]
    with w.range(0, w.count) as sg:
        own_ended, own_site = w.has_ended(sg), w.sites[sg]
        with w.when((own_ended != ended) | (own_site != site) & ~ended):
            report_barrier(w, w.context, (sg, site, own_site, ended, own_ended))


def _end(w: _Turns) -> None:
    with w.range(0, w.count) as sg:
        w.follow_handle(sg, 1)
    w.context[Context.LIVE] = 0


def _digest() -> list[Function]:
    """Hash of all state of a work-group except global memory."""
    w = _Turns(_DIGEST)
    found = w.variable(0)

    def add(start: Value, nbytes: Value) -> None:
        words = Memory(w, start)
        with w.range(0, nbytes + 7 >> 3) as k:
            x = (found.value ^ words[k]) * _MIX
            found.value = x ^ x >> 29

    frames = w.context.follow(Context.FRAMES, PTR)
    with w.range(0, w.count) as sg:
        found.value = (found.value ^ w.sites[sg].to(I64)) * _MIX
        with w.when(~w.has_ended(sg)):
            add(frames[sg], w.context[Context.FRAME_BYTES])
    add(w.context[Context.SLM].pointer(), w.launch[Launch.SLM_BYTES])
    return w.finish(found.value)


class _Runner(_Turns):
    """The loop of a thread; `slots` are the work-groups that it has begun, in order."""

    def __init__(self, *, checked: bool) -> None:
        name = symbol("together", *(["checked"] if checked else []))
        super().__init__(Routine(name, VOID, (("kernel", PTR), ("launch", PTR), ("slm", PTR))),
                         internal=False)
        self.checked = checked
        self.total, self.resident = self.launch[Launch.TOTAL], self.launch[Launch.RESIDENT]
        self.live, self.used, self.idle = (self.variable(0) for _ in range(3))
        """Live work-groups of this thread, slots in use so far, passes without events."""
        self.noted = self.variable(_NEVER)
        """The version for which `QUIET` counts the work-groups of this thread."""
        self.moved = self.variable(0, I1)
        self.same = self.variable(1, I1)
        self.passes = self.variable(0)
        each = (self.count * 20 + 63 & -64) + 64
        self.pitch = each + 8 * Context.COUNT + (self.launch[Launch.SLM_BYTES] + 63 & -64)
        most = self.intrinsic("umin", self.resident, self.total)
        self.memory = self.call("calloc", most + 1, self.pitch, result=PTR)
        self.slots = (self.memory.integer() + 63 & -64).pointer()

    def write(self) -> list[Function]:
        """Begin programs and let each advance in turns, until none is left or all wait in vain."""
        going = self.variable(1, I1)
        with self.loop(lambda: going.value):
            self.moved.value = 0
            self._begin_some()
            version = self.shared(Launch.VERSION)
            most = self.select(self.launch[Launch.SEED] != 0, QUIET_SHUFFLED, QUIET_PASSES)
            quiet = self.idle.value >= most
            self.same.value = self.idle.value > most
            self._pass(quiet)
            self.passes.value += 1
            with self.when(self.moved.value):
                self.add(Launch.VERSION, 1)
                self.idle.value = 0
            with self.otherwise():
                self.idle.value += 1
                with self.when(self.same.value & (self.live.value != 0)):
                    self._look(version)
                self._pause()
            going.value = (self.live.value != 0) | self._can_begin()
        self._free()
        return self.finish()

    def slot(self, index: Value) -> Memory:
        return Memory(self, self.slots + index * self.pitch)

    def _is_fine(self) -> Value:
        return self.load(I64, self.error.base, align=8, ordering="monotonic") == 0

    def _can_begin(self) -> Value:
        return self._is_fine() & (self.shared(Launch.NEXT) < self.total)

    def _begin_some(self) -> None:
        """Begin work-groups while there are any, and the device has room.

        With the checks, one begins only when all others wait, because most need not run
        concurrently. Exceptions are programs that take items of a queue, shuffled ones, and many
        that wait.
        """
        going = self.variable(self._may_begin())
        with self.loop(lambda: going.value):
            going.value = 0
            with self.when(self.add(Launch.LIVE, 1) < self.resident):
                index = self.add(Launch.NEXT, 1)
                with self.when(index < self.total):
                    self._begin(index)
                    going.value = self._may_begin()
                with self.otherwise():
                    self.add(Launch.LIVE, -1)
            with self.otherwise():
                self.add(Launch.LIVE, -1)

    def _may_begin(self) -> Value:
        """True if another work-group may begin, by the rules of `_begin_some`."""
        if not self.checked:
            return self._can_begin()
        eager = (self.launch[Launch.EAGER] | self.launch[Launch.SEED]) != 0
        eager |= self.live.value >= FEW
        eager &= self.launch.follow(Launch.STATE)[Word.CLOCKED] != 0
        return self._can_begin() & ((self.live.value == 0) | (self.idle.value != 0) | eager)

    def _begin(self, index: Value) -> None:
        """Begin a program, and let it run to its first wait."""
        context = self.slot(self._free_slot())
        if self.checked:
            self.idle.value = 0
            state = self.launch.follow(Launch.STATE)
            with self.when((self.live.value != 0) & (state[Word.CLOCKED] == 0)):
                self.call(TURNS)
        self.call(_BEGIN, self["launch"], context.base, index)
        self.live.value += 1
        self._advance(context, self.term(0, I1))
        self.moved.value = 1

    def _free_slot(self) -> Value:
        """The last unused slot, or a new one."""
        found = self.variable(self.used.value)
        with self.when(self.live.value < self.used.value), self.range(0, self.used.value) as k:
            with self.when(self.slot(k)[Context.LIVE] == 0):
                found.value = k
        with self.when(found.value == self.used.value):
            self._prepare(self.slot(found.value))
            self.used.value += 1
        return found.value

    def _prepare(self, context: Memory) -> None:
        """Set the pointers of a slot, which is all zeros."""
        frames = context.address(Context.COUNT)
        handles = frames + self.count * 8
        sites = handles + self.count * 8
        slm = (sites.integer() + self.count * 4 + 63 & -64).pointer()
        same_for_all_groups(self, self.launch, context, slm)
        for word, value in ((Context.FRAMES, frames), (Context.HANDLES, handles),
                            (Context.SITES, sites)):
            context[word] = value
        if self.checked:
            sizes = self.launch[Launch.SLM_BYTES], self.launch[Launch.SHADOW_BYTES]
            for of_checks, size in zip(_MEMORY, sizes, strict=True):
                nbytes = size + 127 & -64
                memory = self.call("aligned_alloc", 64, nbytes, result=PTR)
                self.fill(memory, 0, nbytes)
                context[self.word_in_context(of_checks)] = memory

    @staticmethod
    def word_in_context(word: Word) -> int:
        """Word of a context in which a word of the checks is saved."""
        return Context.CHECKS + OF_A_GROUP.index(word)

    def _advance(self, context: Memory, quiet: Value) -> None:
        """Run a work-group's turn; its last stores count as events before it is removed."""
        before = context[Context.CHANGES]
        if self.checked:
            self.call(_SWITCH, self["launch"], context.base)
        self.call(_STEP, self["kernel"], self["launch"], context.base, quiet)
        ended = context[Context.LIVE] == 0
        with self.when(ended | (context[Context.CHANGES] != before)):
            self.moved.value = 1
        with self.when(ended):
            if self.checked:
                state = self.launch.follow(Launch.STATE)
                known = state.follow(Word.RELEASED)
                with self.when(state[Word.CLOCKED] != 0):
                    known.row(context[Context.GROUP] + 1, Known.WORDS)[Known.ENDED] = 1
            self.live.value = self.live.value - 1
            self.add(Launch.VERSION, 1)
            self.add(Launch.LIVE, -1)

    def _pass(self, quiet: Value) -> None:
        """Let each live program advance once; if `quiet`, compare states with those before."""
        first = self.variable(0)
        with self.when((self.launch[Launch.SEED] != 0) & (self.used.value != 0)):
            first.value = self.random() % self.used.value
        with self.range(0, self.used.value) as k:
            context = self.slot((first.value + k) % self.used.value)
            context[Context.LONG] = self._is_long(k)
            with self.when(context[Context.LIVE] != 0):
                self._advance(context, quiet)
            with self.when((context[Context.LIVE] != 0) & quiet):
                digest = self.call(_DIGEST, self["launch"], context.base)
                self.same.value &= digest == context[Context.SEEN]
                context[Context.SEEN] = digest

    def _is_long(self, slot: Value) -> Value:
        """True if a work-group keeps its turn until it must wait; others stop after each wait.

        In each third pass half of them do.  First come those with a certain bit of their number
        set, then the others, then the same for the next bit.  So each of them runs far ahead of
        each other one that has just waited, and that acts on values that it read before.
        """
        round_, phase = self.passes.value // 3, self.passes.value % 3
        zeros = self.intrinsic("ctlz", self.used.value - 1 | 1, self.term(0, I1))
        bit = slot >> (round_ >> 1) % (self.term(64, I64) - zeros)
        return (phase == 2) & ((bit ^ round_) & 1 == 0)

    def _look(self, version: Value) -> None:
        """Note that the work-groups of this thread cannot continue unless memory changes."""
        known = self.variable(self.shared(Launch.QUIET))
        head = version << 32
        fresh = known.value >> 32 << 32 != head
        still = self.shared(Launch.VERSION) == version
        with self.when(still & (fresh | (self.noted.value != version))):
            new = self.select(fresh, head, known.value) + self.live.value
            pair = self.b.cmpxchg(self.launch.address(Launch.QUIET).operand, known.value.operand,
                                  new.operand)
            with self.when(self.wrap(self.b.extract_value(pair, 1))):
                self.noted.value = version
                known.value = new
        live = self.shared(Launch.LIVE)
        still = self.shared(Launch.VERSION) == version
        full = (live >= self.resident) | (self.shared(Launch.NEXT) >= self.total)
        with self.when(still & full & (known.value == head + live)):
            self._report(live)

    def _report(self, live: Value) -> None:
        """Record a deadlock, and one subgroup that waits."""
        begun = self.intrinsic("umin", self.shared(Launch.NEXT), self.total)
        with self.range(0, self.used.value) as k:
            context = self.slot(k)
            sites = context.follow(Context.SITES, I32)
            with self.when(context[Context.LIVE] != 0), self.range(0, self.count) as sg:
                with self.when(sites[sg].has(READY)):
                    self.call(TRAP, self.error.base, Code.DEADLOCK, sites[sg] & READY - 1,
                              context[Context.GROUP], sg, live, self.resident, begun, 0)

    def _pause(self) -> None:
        """Yield the core to threads for whose work-groups those of this thread wait."""
        with self.when(self.shared(Launch.LIVE) > self.live.value):
            with self.when(self.idle.value > WAITING_PASSES):
                self.call("usleep", self.term(PAUSE_US, I32))
            with self.otherwise():
                self.call("sched_yield")

    def _free(self) -> None:
        with self.range(0, self.used.value) as k:
            frames = self.slot(k).follow(Context.FRAMES, PTR)
            with self.range(0, self.count) as sg:
                self.call("free", frames[sg])
            for word in _MEMORY if self.checked else ():
                self.call("free", self.slot(k)[self.word_in_context(word)].pointer())
        self.call("free", self.memory)
