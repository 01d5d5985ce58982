"""Running the work-groups of a launch, and what kernels tell it: traps, time over, cold code."""

from __future__ import annotations

from triton_xe.runtime.simulator.context import Context, Launch
from triton_xe.runtime.simulator.ir import (
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Function,
    Operand,
    Type,
    array,
    constant,
    define,
)
from triton_xe.runtime.simulator.library.names import COLD, FRAME, STOPPED, TRAP, symbol
from triton_xe.runtime.simulator.run.host_cpu import HostCpu
from triton_xe.runtime.simulator.sanitizer.state import NEW_GROUP, Code

BARRIER_TRAP = 2
_RARE = "nounwind cold noinline"
NULL = constant(PTR, 0)


def _word(b: Builder, record: Operand, word: int, t: Type = I64) -> Operand:
    return b.load(t, b.gep(I64, record, word))


def _put(b: Builder, record: Operand, word: int, value: Operand) -> None:
    b.store(value, b.gep(I64, record, word))


def _is_first(b: Builder, record: Operand, word: int, value: Operand) -> Operand:
    """Whether the word was 0; it is `value` then."""
    zero = constant(I64, 0)
    return b.extract_value(b.cmpxchg(b.gep(I64, record, word), zero, value), 1)


def trap(host: HostCpu) -> list[Function]:
    """Record the first trap of a launch: code, line, six numbers."""
    b = TRAP.define(_RARE)
    error, code, line, *numbers = b.arguments
    with b.branch(_is_first(b, error, 0, code)):
        for word, value in enumerate((b.zext(line, I64), *numbers), 1):
            _put(b, error, word, value)
    b.ret()
    return [b.function]


def stopped(host: HostCpu) -> list[Function]:
    """Record who still ran when the time was up: line, work-group, subgroup, that it is known."""
    b = STOPPED.define(_RARE)
    context, sg, line = b.arguments
    error = _word(b, context, Context.ERROR, PTR)
    late = b.icmp("eq", b.load(I64, error, volatile=True), int(Code.TIME))
    with b.branch(late):
        with b.branch(_is_first(b, error, 4, constant(I64, 1))):
            group = _word(b, context, Context.GROUP)
            for word, value in enumerate((line, group, b.zext(sg, I64)), 1):
                _put(b, error, word, value)
    b.ret()
    return [b.function]


def cold(host: HostCpu) -> list[Function]:
    """Record that this subgroup must run again, in the whole kernel."""
    b = COLD.define("nounwind cold")
    context, sg = b.arguments
    row = b.mul(_word(b, context, Context.GROUP), _word(b, context, Context.SUBGROUPS))
    flags = _word(b, context, Context.COLD, PTR)
    b.store(constant(I8, 1), b.gep(I8, flags, b.add(row, b.zext(sg, I64))))
    b.ret()
    return [b.function]


def frame(host: HostCpu) -> list[Function]:
    """Memory for the coroutine of a subgroup: made once, then used again."""
    b = FRAME.define()
    context, sg, size = b.arguments
    own = b.gep(PTR, _word(b, context, Context.FRAMES, PTR), sg)
    old = b.load(PTR, own)
    with b.branch(b.icmp("ne", old, 0), leaves=True):
        b.ret(old)
    rounded = b.and_(b.add(size, 63), -64)
    new = b.call("aligned_alloc", PTR, [constant(I64, 64), rounded])
    b.store(new, own)
    b.ret(new)
    return [b.function]


def run(host: HostCpu, kind: str, checked: str = "") -> list[Function]:
    """Take chunks of work-groups and run every subgroup of each; SLM starts as all ones.

    `kind` is plain or barrier; `checked`: for a sanitized launch.
    """
    b = define(symbol("run", kind, *([checked] if checked else [])), VOID, [
        ("kernel", PTR), ("launch", PTR), ("slm", PTR)])
    made = _Run(b)
    before = made.prepare(bool(checked))
    made.coroutines() if kind == "barrier" else None
    take, span, group, done = (b.label(name) for name in ("take", "span", "group", "done"))
    b.br(take)
    b.start(take)
    first = b.atomicrmw("add", made.next, made.chunk, "monotonic")
    b.cond_br(b.icmp("ult", first, made.total), span, done)
    b.start(span)
    end = b.intrinsic("umin", b.add(first, made.chunk), made.total)
    b.br(group)
    b.start(group)
    index = b.phi(I64, (first, span))
    made.enter(index.value, before, checked=bool(checked))
    made.subgroups_with_barriers() if kind == "barrier" else made.subgroups()
    following, inner = b.add(index.value, 1), b.label("next")
    error = b.load(I64, made.error, ordering="monotonic", align=8)
    b.cond_br(b.icmp("eq", error, 0), inner, done)
    b.start(inner)
    b.meet(index, following, inner)
    b.cond_br(b.icmp("ult", following, end), group, take)
    b.start(done)
    if kind == "barrier":
        with b.loop(made.count, start=constant(I32, 0)) as each:
            b.call("free", VOID, [b.load(PTR, b.gep(PTR, made.frames, each.index))])
    b.ret()
    return [b.function]


class _Run:
    """What the parts of a runner share: the words of the launch, the context it fills."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.kernel, self.launch, self.slm = b.arguments
        self.context = b.alloca(array(Context.COUNT, I64), align=64)
        self.arguments = self._word(Launch.ARGUMENTS, PTR)
        self.grid = [self._word(Launch.GRID + k) for k in range(3)]
        self.total, self.chunk = self._word(Launch.TOTAL), self._word(Launch.CHUNK)
        self.wide_count = self._word(Launch.SUBGROUPS)
        self.count = b.trunc(self.wide_count, I32)
        self.error = self._word(Launch.ERROR, PTR)
        self.cold = self._word(Launch.COLD, PTR)
        self.groups = self._word(Launch.GROUPS, PTR)
        self.all = b.icmp("eq", self.groups, NULL)
        self.next = b.gep(I64, self.launch, Launch.NEXT)
        self.group = self.frames = self.handles = self.sites = NULL

    def _word(self, word: int, t: Type = I64) -> Operand:
        return _word(self.b, self.launch, word, t)

    def prepare(self, checked: bool) -> Operand:
        """Fill what is the same for all work-groups; returns how many bytes of SLM there are."""
        same: dict[int, Operand] = {
            Context.COLD: self.cold, Context.SUBGROUPS: self.wide_count,
            Context.SLM: self.slm, Context.ERROR: self.error,
        }
        same |= {Context.GROUPS + k: size for k, size in enumerate(self.grid)}
        if checked:
            same[Context.STATE] = self._word(Launch.STATE, PTR)
        for word, value in same.items():
            _put(self.b, self.context, word, value)
        return self._word(Launch.SLM_BYTES)

    def coroutines(self) -> None:
        """The subgroups are coroutines; their frames serve one work-group after the other."""
        b = self.b
        self.handles, self.frames = b.alloca(PTR, self.count), b.alloca(PTR, self.count)
        self.sites = b.alloca(I32, self.count)
        b.fill(self.frames, 0, b.mul(self.wide_count, 8))
        _put(b, self.context, Context.SITES, self.sites)
        _put(b, self.context, Context.FRAMES, self.frames)

    def enter(self, index: Operand, slm_bytes: Operand, *, checked: bool) -> None:
        """Begin a work-group, the one of that index or the one that is listed there."""
        b = self.b
        before, listed, place = b.block.label, b.label("listed"), b.label("place")
        b.cond_br(self.all, place, listed)
        b.start(listed)
        number = b.load(I64, b.gep(I64, self.groups, index))
        b.br(place)
        b.start(place)
        self.group = b.phi(I64, (index, before), (number, listed)).value
        x, y, _ = self.grid
        rest = b.udiv(self.group, x)
        at = (b.urem(self.group, x), b.urem(rest, y), b.udiv(self.group, b.mul(x, y)))
        for k, value in enumerate(at):
            _put(b, self.context, Context.GROUP_ID + k, value)
        _put(b, self.context, Context.GROUP, self.group)
        b.fill(self.slm, -1, slm_bytes)
        if checked:
            b.invoke(NEW_GROUP, self.context)

    def subgroups(self) -> None:
        """Every subgroup from begin to end; those that are to run again, where only they are."""
        b = self.b
        with b.loop(self.count, start=constant(I32, 0)) as each:
            look, go, on = b.label("look"), b.label("run"), b.label("on")
            b.cond_br(self.all, go, look)
            b.start(look)
            row = b.add(b.mul(self.group, self.wide_count), b.zext(each.index, I64))
            flag = b.load(I8, b.gep(I8, self.cold, row))
            b.cond_br(b.icmp("ne", flag, 0), go, on)
            b.start(go)
            b.call(self.kernel, VOID, [self.arguments, self.context, each.index])
            b.br(on)
            b.start(on)

    def subgroups_with_barriers(self) -> None:
        """Every subgroup to its next barrier, in turn, until all are done."""
        b = self.b
        each_warp = constant(I32, 0)
        with b.loop(self.count, start=each_warp) as each:
            b.store(constant(I32, 0), b.gep(I32, self.sites, each.index))
            handle = b.call(self.kernel, PTR, [self.arguments, self.context, each.index])
            b.store(handle, b.gep(PTR, self.handles, each.index))
        check, resume, diverged, destroy = (
            b.label(name) for name in ("check", "resume", "diverged", "destroy"))
        b.br(check)
        b.start(check)
        done, site = self._state(constant(I32, 0))
        with b.loop(self.count, start=each_warp) as each:
            own_done, own_site = self._state(each.index)
            elsewhere = b.and_(b.icmp("ne", own_site, site), b.not_(done))
            same = b.label("same")
            b.cond_br(b.or_(b.icmp("ne", own_done, done), elsewhere), diverged, same)
            b.start(same)
        b.cond_br(done, destroy, resume)
        b.start(diverged)
        numbers = [b.zext(x, I64) for x in (each.index, site, own_site, done, own_done)]
        b.invoke(TRAP, self.error, BARRIER_TRAP, site, self.group, *numbers)
        b.br(destroy)
        b.start(resume)
        self._call_all(0)
        b.br(check)
        b.start(destroy)
        self._call_all(1)

    def _state(self, sg: Operand) -> tuple[Operand, Operand]:
        """Whether a subgroup has ended, and the barrier at which it waits."""
        b = self.b
        resume = b.load(PTR, b.load(PTR, b.gep(PTR, self.handles, sg)))
        return b.icmp("eq", resume, NULL), b.load(I32, b.gep(I32, self.sites, sg))

    def _call_all(self, function: int) -> None:
        """Resume (0) or destroy (1) every coroutine."""
        b = self.b
        with b.loop(self.count, start=constant(I32, 0)) as each:
            handle = b.load(PTR, b.gep(PTR, self.handles, each.index))
            callee = b.load(PTR, b.gep(PTR, handle, function))
            b.call(callee, VOID, [handle], flags=("fastcc",))
