"""Run the work-groups of a launch, and record events in them: traps, timeouts, cold code."""

from __future__ import annotations

from collections.abc import Iterable

from triton_xe.llvm import I1, I8, I32, I64, PTR, VOID, Function, Type, array
from triton_xe.llvm.builder import Routine
from triton_xe.llvm.values import Memory, Term, Value, Variable, Writer
from triton_xe.runtime.simulator.context import Code, Context, Launch
from triton_xe.runtime.simulator.library.names import COLD, FRAME, STOPPED, TRAP
from triton_xe.runtime.simulator.library.symbols import symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer.state import NEW_GROUP

_SHARE = 2
"""Log2 of the fraction of the remaining work-groups that one of several threads takes at most."""
_RARE = "nounwind cold noinline"


def trap(host: HostCpu) -> list[Function]:
    """Record the first trap of a launch: code, line, six numbers."""
    w = Writer(TRAP, _RARE)
    error, code, line, *numbers = w.arguments.values()
    with w.when(w.first_to_set(error, code)):
        _record(Memory(w, error), line.to(I64), *numbers)
    return w.finish()


def stopped(host: HostCpu) -> list[Function]:
    """Record a subgroup that still ran at the timeout: line, work-group, subgroup, and a flag."""
    w = Writer(STOPPED, _RARE)
    context = Memory(w, w["context"])
    error = context.follow(Context.ERROR)
    with w.when(error.volatile == Code.TIME), w.when(w.first_to_set(error.address(4), 1)):
        _record(error, w["line"], context[Context.GROUP], w["sg"].to(I64))
    return w.finish()


def _record(error: Memory, *values: Value) -> None:
    """Write the words after the code of an error record."""
    for word, value in enumerate(values, 1):
        error[word] = value


def cold(host: HostCpu) -> list[Function]:
    """Record that this subgroup must run again, in the whole kernel."""
    w = Writer(COLD, "nounwind cold")
    context = Memory(w, w["context"])
    row = context[Context.GROUP] * context[Context.SUBGROUPS] + w["sg"].to(I64)
    context.follow(Context.COLD, I8)[row] = 1
    return w.finish()


def frame(host: HostCpu) -> list[Function]:
    """Memory for the coroutine of a subgroup, allocated once and then reused."""
    w = Writer(FRAME)
    context = Memory(w, w["context"])
    context[Context.FRAME_BYTES] = w["size"] + 63 & -64
    own = context.follow(Context.FRAMES, PTR).address(w["sg"])
    old = w.load(PTR, own)
    with w.when(old != 0):
        w.ret(old)
    new = w.call("aligned_alloc", 64, context[Context.FRAME_BYTES], result=PTR)
    w.store(new, own)
    return w.finish(new)


def run(host: HostCpu, kind: str, checked: str = "") -> list[Function]:
    """Take chunks of work-groups and run every subgroup of each; SLM is initialised with ones.

    A thread runs its own part first, then work-groups left in other parts.  `kind` is plain or
    barrier; `checked`: for a sanitized launch.
    """
    name = symbol("run", kind, *([checked] if checked else []))
    w = (_WithBarriers if kind == "barrier" else _Run)(name, checked=bool(checked))
    total, parts = w.launch[Launch.TOTAL], w.launch[Launch.PARTS]
    own = w.add(Launch.ENTERED, 1)
    with w.range(own, own + parts) as number:
        part = number % parts
        begin, end = (total / parts * k + w.intrinsic("umin", k, total % parts)
                      for k in (part, part + 1))
        taken = part + Launch.NEXT
        first, size = w.variable(0), w.variable(0)
        w.take(taken, begin, end, first, size)
        with w.loop(lambda: first.value < end):
            with w.range(first.value, w.intrinsic("umin", first.value + size.value, end)) as index:
                w.enter(index)
                w.subgroups()
                error = w.load(I64, w.error.base, align=8, ordering="monotonic")
                with w.when(error != 0):
                    w.end()
                    w.ret()
            w.take(taken, begin, end, first, size)
    w.end()
    return w.finish()


def same_for_all_groups(w: Writer, launch: Memory, context: Memory, slm: Value) -> None:
    """Write the words of a context that are equal for all work-groups."""
    same: dict[int, Value] = {
        Context.COLD: launch.follow(Launch.COLD).base, Context.SLM: slm,
        Context.SUBGROUPS: launch[Launch.SUBGROUPS],
        Context.ERROR: launch.address(Launch.ERROR_RECORD),
        Context.STATE: launch.follow(Launch.STATE).base,
    }
    same |= {Context.GROUPS + k: launch[Launch.GRID + k] for k in range(3)}
    for word, value in same.items():
        context[word] = value


def place_group(w: Writer, launch: Memory, context: Memory, group: Value) -> None:
    """Write the words of a context for one work-group, and initialise its shared memory."""
    x, y = (launch[Launch.GRID + k] for k in range(2))
    for k, value in enumerate((group % x, group // x % y, group // (x * y))):
        context[Context.GROUP_ID + k] = value
    context[Context.GROUP] = group
    _clear_slm(w, launch, context)


def _place_next(w: Writer, launch: Memory, context: Memory) -> None:
    """Write the words for the next work-group, without divisions, which are slow."""
    grows = w.term(1, I64)
    for k in range(3):
        at = context[Context.GROUP_ID + k] + grows
        over = at == launch[Launch.GRID + k]
        context[Context.GROUP_ID + k] = w.select(over, 0, at)
        grows = over.to(I64)
    context[Context.GROUP] = context[Context.GROUP] + 1
    _clear_slm(w, launch, context)


def _clear_slm(w: Writer, launch: Memory, context: Memory) -> None:
    with w.when(launch[Launch.SLM_BYTES] != 0):
        w.fill(context[Context.SLM].pointer(), -1, launch[Launch.SLM_BYTES])


def report_barrier(w: Writer, context: Memory, numbers: Iterable[Value]) -> None:
    """Record subgroups at different barriers: number, site and own site, ended and own ended."""
    sg, site, *rest = numbers
    w.call(TRAP, context.follow(Context.ERROR).base, Code.BARRIER, site, context[Context.GROUP],
           *(x.to(I64) for x in (sg, site, *rest)))


class _Run(Writer):
    """Runner of subgroups without barriers: the words of its launch, its context."""

    def __init__(self, name: str, *, checked: bool) -> None:
        super().__init__(Routine(name, VOID, (("kernel", PTR), ("launch", PTR), ("slm", PTR))))
        self.launch = launch = Memory(self, self["launch"])
        self.context = Memory(self, self.space(array(Context.COUNT, I64), align=64))
        self.count = launch[Launch.SUBGROUPS]
        self.error = Memory(self, launch.address(Launch.ERROR_RECORD))
        self.groups = launch.follow(Launch.GROUPS)
        self.cold = launch.follow(Launch.COLD, I8)
        self.all = self.groups.base == 0
        self.begins = self.variable(1, I1)
        """True if the next work-group is the first of a chunk."""
        self.checked = checked
        same_for_all_groups(self, launch, self.context, self["slm"])

    def add(self, word: Term, value: Term) -> Value:
        """Add to a word that all threads change, and return its old value."""
        at, added = self.launch.address(word), self.term(value, I64)
        return self.wrap(self.b.atomicrmw("add", at.operand, added.operand, "monotonic"))

    def take(
        self, taken: Value, begin: Value, end: Value, first: Variable, size: Variable
    ) -> None:
        """Take work-groups of a part, fewer towards its end, so that threads end together."""
        before = self.load(I64, self.launch.address(taken), align=8, ordering="monotonic")
        left = self.intrinsic("usub.sat", end - begin, before)
        share = self.select(self.launch[Launch.PARTS] > 1, _SHARE, 0)
        most = self.intrinsic("umin", self.launch[Launch.CHUNK], left >> share)
        size.value = self.intrinsic("umax", most, 1)
        first.value = begin + self.add(taken, size.value)
        self.begins.value = 1

    def enter(self, index: Value) -> None:
        """Begin a work-group, with that number or the number listed there."""
        with self.when(self.all & ~self.begins.value):
            _place_next(self, self.launch, self.context)
        with self.otherwise():
            number = self.variable(index)
            with self.when(~self.all):
                number.value = self.groups[index]
            place_group(self, self.launch, self.context, number.value)
            self.begins.value = 0
        if self.checked:
            # the checks count work-groups in the order in which they run
            self.context[Context.GROUP] = index
            self.call(NEW_GROUP, self.context.base)

    def subgroups(self) -> None:
        """Run every subgroup, or those that are marked to run again."""
        with self.range(0, self.count) as sg:
            runs = self.variable(self.all if not self.checked else self.term(1, I1))
            with self.when(~runs.value):
                row = self.context[Context.GROUP] * self.count + sg
                runs.value = self.cold[row] != 0
            with self.when(runs.value):
                self.start(sg, VOID)

    def start(self, sg: Value, result: Type) -> Value:
        """Call the kernel."""
        arguments = self.launch.address(Launch.ARGUMENTS), self.context.base, sg.to(I32)
        given = [a.operand for a in arguments]
        return self.wrap(self.b.call(self["kernel"].operand, result, given))

    def end(self) -> None:
        """Free the memory that the runner allocated."""


class _WithBarriers(_Run):
    """Runner of subgroups that are coroutines; their frames are reused by the next work-groups."""

    def __init__(self, name: str, *, checked: bool) -> None:
        super().__init__(name, checked=checked)
        self.handles, self.frames, self.sites = (self._each(t) for t in (PTR, PTR, I32))
        self.fill(self.frames.base, 0, self.count * 8)
        self.context[Context.SITES] = self.sites.base
        self.context[Context.FRAMES] = self.frames.base

    def _each(self, t: Type) -> Memory:
        """An array with an element for every subgroup."""
        return Memory(self, self.wrap(self.b.alloca(t, self.count.operand)), t)

    def subgroups(self) -> None:
        """Run every subgroup to its next barrier, in order, until all have ended."""
        with self.range(0, self.count) as sg:
            self.sites[sg] = 0
            self.handles[sg] = self.start(sg, PTR)
        going = self.variable(1, I1)
        with self.loop(lambda: going.value):
            done, site = self._state(0)
            going.value = ~done
            with self.range(0, self.count) as sg:
                own_done, own_site = self._state(sg)
                with self.when((own_done != done) | (own_site != site) & ~done):
                    report_barrier(self, self.context, (sg, site, own_site, done, own_done))
                    going.value = 0
            with self.when(going.value):
                self._call_all(0)
        self._call_all(1)

    def _state(self, sg: Term) -> tuple[Value, Value]:
        """True if a subgroup has ended, and the barrier at which it waits."""
        return self.load(PTR, self.handles[sg]) == 0, self.sites[sg]

    def _call_all(self, function: int) -> None:
        """Resume (0) or destroy (1) every coroutine."""
        with self.range(0, self.count) as sg:
            handle = self.handles[sg].operand
            callee = self.b.load(PTR, self.b.gep(PTR, handle, function))
            self.b.call(callee, VOID, [handle], flags=("fastcc",))

    def end(self) -> None:
        with self.range(0, self.count) as sg:
            self.call("free", self.frames[sg])
