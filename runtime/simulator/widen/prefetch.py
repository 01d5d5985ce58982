"""Prefetch the memory that the next program will access.

Programs run in the order of their numbers, and their addresses advance by a constant step.  The
step is the derivative of an address by the program's number, which the host computes before the
prefetch. There is none if the address does not depend on the program's number, or not by sums and
products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from triton_xe.hardware.memory import CACHE_LINE_BYTES
from triton_xe.intrinsics import find
from triton_xe.intrinsics.definitions import ids
from triton_xe.llvm.records import CASTS, Instruction, Operand, constant
from triton_xe.llvm.types import I8, I32, I64, VOID
from triton_xe.runtime.simulator.analysis.shapes import gep_steps
from triton_xe.runtime.simulator.run.host_cpu import host_cpu
from triton_xe.runtime.simulator.widen.values import Uniform
from triton_xe.runtime.simulator.widen.widener import Widener

_SECOND_LEVEL = 2
"""Cache level of prefetches, because the current program's data fill the first level.

On AMD's CPUs (measured: Zen 4) a prefetch for a store brings lines into the first level all the
same.  One for a load does not: layer norm of 16 MB went from 15 to 22 GB/s.
"""

LONGEST = 100
"""Largest number of values that an address may be computed from."""
Step = Operand | None
"""Growth of a value from program to program; None for 0."""


class NoStep(Exception):
    """The value does not depend on the program's number by sums and products alone."""


def prefetch_next(
    w: Widener, address: Operand | None, start: Operand, parts: Iterable[tuple[int, int]], *,
    write: bool,
) -> None:
    """Prefetch the memory of the next program that corresponds to an access of this one.

    `parts`: offset from `start`, and bytes, of each accessed part.  `address` is the pointer in the
    kernel; None if prefetching does not pay.
    """
    plan = w.kernel.plan
    if address is None or (plan is not None and plan.trace):
        return
    try:
        _check_short(w, address)
        step = step_of(w, address)
    except NoStep:
        return
    if step is None or not (write or _is_sequential(w, address)):
        return
    there, owned = w.b.gep(I8, start, step), write and not host_cpu().is_amd
    lines = {byte // CACHE_LINE_BYTES for first, size in parts
             for byte in (*range(first, first + size, CACHE_LINE_BYTES), first + size - 1)}
    for line in sorted(lines):
        w.b.call("llvm.prefetch.p0", VOID, [
            w.b.at(there, line * CACHE_LINE_BYTES), constant(I32, int(owned)),
            constant(I32, _SECOND_LEVEL), constant(I32, 1)])


def _check_short(w: Widener, address: Operand) -> None:
    """Refuse an address with too many operands, with loop-carried ones, or with loaded ones."""
    todo, found = [address], set[str]()
    while todo:
        i = w.source.facts.maker(todo.pop())
        if i is None or str(i.result) in found or _is_id(i):
            continue
        found.add(str(i.result))
        if _is_counter(w, i):
            continue
        if len(found) > LONGEST or i.opcode in ("phi", "load") or (
                i.opcode == "call" and i.operands):
            raise NoStep
        todo += i.operands


def _is_sequential(w: Widener, address: Operand) -> bool:
    """True if a program reads its memory piece by piece, and the next program the memory after it.

    If a loop's step is larger than the step between programs, as in sums of columns, the next
    program's data are too scattered.
    """
    if not w.b.here.in_loop:
        return True
    each_pass = _known_step(w, address, lambda i: _increment(w, i) if _is_counter(w, i) else 0)
    program = _known_step(w, address, lambda i: int(_is_id(i)))
    return each_pass is not None and (program is None or abs(each_pass) <= abs(program))


def _known_step(
    w: Widener, x: Operand, grows: Callable[[Instruction], int | None]
) -> int | None:
    """Constant that is added to a value as ids and counters grow; None if it is not constant."""
    i = w.source.facts.maker(x)
    if i is None:
        return 0
    if _is_id(i) or _is_counter(w, i):
        return grows(i)
    if i.opcode == "getelementptr":
        found = [_known_step(w, i.operands[0], grows)]
        found += [_times(_known_step(w, i.operands[k], grows), n) for k, n in gep_steps(i)[1]]
        return _total(found)
    steps = [_known_step(w, o, grows) for o in i.operands]
    if not any(each != 0 for each in steps):
        return 0
    if i.opcode in ("add", "or"):
        return _total(steps)
    if i.opcode in ("mul", "shl") and steps[1] == 0:
        other = i.operands[1]
        if other.is_splat and other.elements:
            other = other.elements[0]
        factor = other.integer_value()
        return _times(steps[0], 1 << factor if i.opcode == "shl" and factor is not None else factor)
    if i.opcode in CASTS or i.opcode in ("insertelement", "shufflevector", "extractelement"):
        return next(each for each in steps if each != 0)
    return None


def _times(step: int | None, factor: int | None) -> int | None:
    return 0 if step == 0 else None if step is None or factor is None else step * factor


def _total(steps: Iterable[int | None]) -> int | None:
    """Sum of numbers; None if one is unknown."""
    total = 0
    for each in steps:
        if each is None:
            return None
        total += each
    return total


def _increment(w: Widener, counter: Instruction) -> int | None:
    """Step of a counter."""
    found = {value for o in counter.operands if (i := w.source.facts.maker(o)) is not None
             for x in i.operands if (value := x.integer_value()) is not None}
    return found.pop() if len(found) == 1 else None


def _is_counter(w: Widener, i: Instruction) -> bool:
    """True for the counter of a loop that is equal in all programs and has constant steps."""
    return i.opcode == "phi" and i.type.kind == "int" and all(
        o.is_constant or _is_increment(i, w.source.facts.maker(o)) for o in i.operands)


def _is_increment(counter: Instruction, i: Instruction | None) -> bool:
    return i is not None and i.opcode == "add" and any(o.is_constant for o in i.operands) and any(
        o.text == counter.result for o in i.operands)


def _is_id(i: Instruction) -> bool:
    return i.opcode == "call" and find(i.callee).definition is ids.get_group_id


def step_of(w: Widener, x: Operand) -> Step:
    """Difference of a value between this program and the next one."""
    i = w.source.facts.maker(x)
    if i is None:
        return None
    key = w.b.here.label, x.text
    if key not in w.steps:
        w.steps[key] = _step(w, i)
    return w.steps[key]


def _step(w: Widener, i: Instruction) -> Step:
    """Step of an instruction's result; raise `NoStep` unless sums and products give it."""
    if _is_id(i):
        return constant(I64, 1) if i.operands[0].integer_value() == _axis(w) else None
    if _is_counter(w, i):
        return None
    steps = [step_of(w, o) for o in i.operands if o.local]
    if not any(steps):
        return None
    if i.opcode in ("add", "sub", "or"):
        x, y = (step_of(w, o) for o in i.operands)
        return _sum(w, x, y, i.opcode)
    if i.opcode in ("mul", "shl"):
        return _product(w, i)
    if i.opcode == "getelementptr":
        total = step_of(w, i.operands[0])
        for k, scale in gep_steps(i)[1]:
            step = step_of(w, i.operands[k])
            total = _sum(w, total, step and w.b.mul(step, scale), "add")
        return total
    if i.opcode in CASTS or i.opcode in ("insertelement", "shufflevector", "extractelement"):
        return next(s for s in steps if s)
    raise NoStep


def _axis(w: Widener) -> int:
    """Axis of the grid along which programs are consecutive: the first that addresses use."""
    axes = [i.operands[0].integer_value() for i in w.source.facts.makers.values()
            if i.opcode == "call" and find(i.callee).definition is ids.get_group_id]
    return min(k for k in axes if k is not None)


def _sum(w: Widener, x: Step, y: Step, opcode: str) -> Step:
    """Step of a sum or difference from the steps of its terms."""
    if y is None:
        return x
    y = w.b.sub(constant(I64, 0), y) if opcode == "sub" else y
    return y if x is None else w.b.add(x, y)


def _product(w: Widener, i: Instruction) -> Step:
    """Step of a product by a factor that no program changes; raise `NoStep` for others."""
    x, y = i.operands
    step, other = (step_of(w, x), y) if step_of(w, x) else (step_of(w, y), x)
    if other.local and step_of(w, other):
        raise NoStep
    factor = _uniform_factor(w, other)
    assert step is not None
    if i.opcode == "shl" and (other is x or not factor.is_constant):
        raise NoStep
    return w.b.binary(i.opcode, step, factor)


def _uniform_factor(w: Widener, x: Operand) -> Operand:
    """A factor that is equal in all lanes and elements, as 64 bits."""
    value = w.value(x)
    if not isinstance(value, Uniform):
        raise NoStep
    one = value.value
    if x.type.lanes > 1:
        if one.is_splat and one.elements:
            one = one.elements[0]
        elif one.text in w.b.sums and not any(w.b.sums[one.text][1]):
            one = w.b.sums[one.text][0]
        else:
            raise NoStep
    known = one.integer_value()
    if known is not None:
        return constant(I64, known)
    return one if one.type.bits == 64 else w.b.sext(one, I64)
