"""Emit helpers with divergent code as scalar host functions that are called once per lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triton_xe import llvm as ir
from triton_xe.intrinsics import Effect, find
from triton_xe.intrinsics.opencl import LANE_ID, SUB_GROUP_ID
from triton_xe.intrinsics.spirv import ATOMIC_LOAD, MEMORY_BARRIER
from triton_xe.llvm.builder import Builder, Routine
from triton_xe.llvm.records import Function, Instruction, Operand, constant, poison
from triton_xe.llvm.types import I1, I8, I32, I64, PTR, VOID, Type, struct
from triton_xe.llvm.values import Writer
from triton_xe.runtime.simulator.context import Context
from triton_xe.runtime.simulator.library.names import STOPPED
from triton_xe.runtime.simulator.sanitizer import state as sanitizer
from triton_xe.runtime.simulator.sanitizer.instrument import (
    local_scope,
    needs,
    order_of,
)
from triton_xe.runtime.simulator.sanitizer.state import READS, WRITES, Kind, Word
from triton_xe.runtime.simulator.widen.host_function import CTX, LANE, SG
from triton_xe.runtime.simulator.widen.turns import count, count_atomic
from triton_xe.runtime.simulator.widen.values import wide_type

_IDS = {LANE_ID: LANE, SUB_GROUP_ID: SG}
_PARAMETERS = [("ctx", PTR), ("sg", I32)]


def host_name(function: Function, suffix: str = "") -> str:
    return f"xe.{function.name}{suffix}"


def lane_helper(
    function: Function, *, checked: bool = False, releases: bool = True, noted: bool = False,
    suffix: str = "", counted: bool = False,
) -> Function:
    """Emit a helper as a host function for one lane, which takes its ids as arguments.

    `checked`: every access is checked.  `noted`: accesses are not checked, but effects of
    compare-and-swaps are recorded.  `counted`: changes of memory are counted.
    """
    parameters = [("%ctx", PTR), ("%sg", I32), ("%lane", I32), *function.parameters]
    made = Function(host_name(function, suffix), function.result, parameters, [], is_internal=True)
    b = Builder(made, "xe.")
    checks = LaneChecks(b, function, releases=releases) if checked else None
    for block in function.blocks:
        b.start(block.label)
        for i in block.instructions:
            _instruction(b, i, checks, noted=noted)
            if counted:
                _count(b, i)
    _stop_when_asked(b, has_state=checked or bool(suffix))
    return made


def _instruction(b: Builder, i: Instruction, checks: LaneChecks | None, *, noted: bool) -> None:
    """Write an instruction of a helper for one lane, with checks of its accesses, if any."""
    if i.opcode == "call":
        _call(b, i, checks)
        return
    if checks is not None and i.opcode in ir.ACCESSES:
        checks.access(i)
        return
    b.append(replace(i, scope=""))
    if noted and i.opcode == "cmpxchg":
        _note_swap(b, i.value)


def _count(b: Builder, i: Instruction) -> None:
    """Count a change of memory, at the actual address of a checked access."""
    if i.opcode == "store":
        count(b, constant(I64, 1))
    elif i.opcode in ir.ATOMICS:
        done = next(x for x in reversed(b.block.instructions) if x.result == i.result)
        count_atomic(b, i, done.operands[0], i.value)


def _call(b: Builder, i: Instruction, checks: LaneChecks | None) -> None:
    """Emit a call in a helper: lane ids, fences and atomic loads; other calls are unchanged."""
    known = find(i.callee)
    if known in _IDS:
        b.append(Instruction("add", I32, [_IDS[known], constant(I32, 0)], i.result))
    elif known is MEMORY_BARRIER:
        b.fence()
        if checks is not None:
            scope, semantics = (o.integer_value() or 0 for o in i.operands)
            checks.fence(scope, semantics)
    elif known is ATOMIC_LOAD:
        host = Instruction("load", i.type, i.operands[:1], i.result, align=4,
                           orderings=("seq_cst",))
        if checks is None:
            b.append(host)
        else:
            checks.atomic_load(host, i.operands[2].integer_value() or 0)
    else:
        b.append(i)


def _note_swap(b: Builder, pair: Operand) -> None:
    """Record the effect of a lane's compare-and-swap in the launch's state."""
    done = b.select(b.extract_value(pair, 1), constant(I8, READS | WRITES), READS)
    state = b.load(PTR, b.at(CTX, Context.STATE.offset))
    at = b.gep(I8, b.at(state, 8 * Word.DID), LANE)
    b.store(b.or_(b.load(I8, at), done), at)


# --- the end of a launch --------------------------------------------------------------------------


def loop_ends(function: Function) -> set[str]:
    """Labels of the blocks with back edges."""
    number = {b.label: k for k, b in enumerate(function.blocks)}
    return {b.label for k, b in enumerate(function.blocks)
            if any(number[x] <= k for x in b.successors)}


def _stop_when_asked(b: Builder, *, has_state: bool) -> None:
    """Test the error word before each back edge, and return if the launch is to end.

    `has_state`: the launch has a state, with the line of the call.
    """
    function = b.function
    ends = loop_ends(function)
    if not ends:
        return
    blocks, function.blocks = function.blocks, []
    renamed = {}
    for block in blocks:
        function.blocks.append(block)
        if block.label in ends:
            renamed[block.label] = after = f'%"xe.on.{block.label[1:].strip(chr(34))}"'
            last = block.instructions.pop()
            b.block = block
            error = b.load(PTR, b.at(CTX, Context.ERROR.offset))
            b.cond_br(b.icmp("ne", b.load(I64, error, volatile=True), 0), "%xe.stopped", after)
            b.start(after)
            b.append(last)
    for block in function.blocks:
        for phi in block.phis:
            phi.labels = [renamed.get(x, x) for x in phi.labels]
    b.start("%xe.stopped")
    line = constant(I64, 0)
    if has_state:
        state = b.load(PTR, b.at(CTX, Context.STATE.offset))
        line = b.zext(b.load(I32, b.at(state, 8 * Word.SITE)), I64)
    b.invoke(STOPPED, CTX, SG, line)
    b.ret(None if function.result is VOID else ir.zero(function.result))


# --- the loop over the lanes ----------------------------------------------------------------------


def lane_loop_name(target: Function, suffix: str = "") -> str:
    return f"xe.lanes.{target.name}{suffix}"


def result_fields(t: Type) -> tuple[Type, ...]:
    return () if t is VOID else t.fields if t.kind == "struct" else (t,)


def lane_loop(target: Function, lanes: int, suffix: str = "") -> Function:
    """A host function that calls a scalar helper once per lane, in lane order.

    Arguments and results are vectors with one lane after another, and flags are bytes.  The loop of
    a variant, with a suffix, takes a flag.  Unless it is set, the loop without suffix runs instead.
    """
    types = [t for _, t in target.parameters]
    fields = result_fields(target.result)
    wide = [wide_type(in_memory(t), lanes) for t in types]
    results = [wide_type(in_memory(t), lanes) for t in fields]
    operands = [(f"a{k}", t) for k, t in enumerate(wide)]
    w = Writer(Routine(lane_loop_name(target, suffix), returned(results),
                       (*_PARAMETERS, *operands, *([("good", I1)] if suffix else []))),
               "noinline", internal=True)
    b = w.b
    if suffix:
        _unless_good(b, lane_loop_name(target))
    pointers, made = ([w.space(t, align=64).operand for t in each] for each in (wide, results))
    for x, p in zip(b.arguments[2:], pointers, strict=False):
        b.store(x, p, align=64)
    with w.range(0, lanes) as index:
        lane = index.to(I32).operand
        arguments = [_load(b, t, p, lane) for t, p in zip(types, pointers, strict=True)]
        result = b.call(host_name(target, suffix), target.result, [CTX, SG, lane, *arguments])
        for k, (t, p) in enumerate(zip(fields, made, strict=True)):
            x = b.extract_value(result, k) if target.result.kind == "struct" else result
            x = b.zext(x, I8) if t is I1 else x
            b.store(x, _lane_of(b, x.type, p, lane), align=t.scalar.size)
    b.ret(_packed(b, [b.load(t, p, align=64) for t, p in zip(results, made, strict=True)]))
    return w.function


def _unless_good(b: Builder, other: str) -> None:
    """Call another function instead and return, unless the last argument is set."""
    *arguments, good = b.arguments
    here, after = b.label(), b.label()
    b.cond_br(good, after, here)
    b.start(here)
    x = b.call(other, b.function.result, arguments)
    b.ret(x if x.type is not VOID else None)
    b.start(after)


def returned(results: Sequence[Type]) -> Type:
    """The type of a function with so many results."""
    return struct(tuple(results)) if len(results) > 1 else results[0] if results else VOID


def _packed(b: Builder, results: Sequence[Operand]) -> Operand | None:
    """The results of a function as one value."""
    if len(results) < 2:
        return results[0] if results else None
    made = poison(returned([x.type for x in results]))
    for k, x in enumerate(results):
        made = b.insert_value(made, x, k)
    return made


def in_memory(t: Type) -> Type:
    """The type of a lane's value in memory."""
    return I8 if t is I1 else t


def _lane_of(b: Builder, t: Type, pointer: Operand, lane: Operand) -> Operand:
    return b.gep(ir.array(t.size, I8) if t.lanes > 1 else t, pointer, lane)


def _load(b: Builder, t: Type, pointer: Operand, lane: Operand) -> Operand:
    held = in_memory(t)
    x = b.load(held, _lane_of(b, held, pointer, lane), align=t.scalar.size)
    return b.trunc(x, I1) if t is I1 else x


# --- checks ---------------------------------------------------------------------------------------


def helper_effects(helper: Function) -> int:
    """Effects of a lane helper's read-modify-writes: `READS`, `WRITES` or both."""
    effects = find(helper.name).effects
    return READS * (Effect.READS in effects) | WRITES * (Effect.WRITES in effects)


class LaneChecks:
    """Emits a lane helper's accesses, with checks before them.

    The load before a loop of compare-and-swap counts as atomic, because the loop handles a stale
    value.  If nothing in the kernel `releases`, effects of atomics are not recorded.
    """

    def __init__(self, b: Builder, helper: Function, *, releases: bool) -> None:
        self.b = b
        self.releases = releases
        self.only = helper_effects(helper)
        self.loops = any(i.opcode == "cmpxchg" for i in helper.instructions())

    def atomic_load(self, i: Instruction, order: int) -> None:
        """Write a load with the address and order of the builtin."""
        address = self._access(i, 0, i.type, Kind.ATOMIC | Kind.NEEDS)
        if self.releases:
            self._sync(address, order, READS)

    def fence(self, scope: int, semantics: int) -> None:
        self.b.invoke(sanitizer.FENCE, CTX, SG, scope, semantics)

    def access(self, i: Instruction) -> None:
        """Write a load, store or atomic."""
        at = 1 if i.opcode == "store" else 0
        t = i.type if i.opcode == "load" else i.operands[1 - at].type
        atomic = Kind.ATOMIC | local_scope(i) | needs(i) | (
            Kind.WRITE if self.only & WRITES else 0)
        kind = {"load": Kind.ATOMIC if self.loops else 0, "store": Kind.WRITE}.get(
            i.opcode, atomic)
        space = i.operands[at].type.space
        if space not in (1, 3) or i.operands[at].local is None:
            self.b.append(replace(i, scope=""))
            return
        address = self._access(i, at, t, kind | (Kind.SLM if space == 3 else 0))
        if not self.releases or i.opcode not in ir.ATOMICS or space != 1 or local_scope(i):
            return
        what: Operand | int = self.only
        if i.opcode == "cmpxchg":
            swapped = self.b.extract_value(i.value, 1)
            what = self.b.select(swapped, constant(I32, self.only), self.only & READS)
        self._sync(address, order_of(i), what)

    def _access(self, i: Instruction, at: int, t: Type, kind: int) -> Operand:
        """Write the access with its check; return its address as an integer."""
        b, pointer = self.b, i.operands[at]
        address = b.ptrtoint(pointer)
        state = b.load(PTR, b.at(CTX, Context.STATE.offset))
        line, entry, page = (b.load(of, b.at(state, 8 * word)) for word, of in (
            (Word.SITE, I32), (Word.ENTRY, I64), (Word.SCRATCH, PTR)))
        described = kind | t.scalar.size << 8
        fine = b.invoke(sanitizer.check_one(t.size, described), CTX, SG, line, LANE, entry, address,
                        t.size, described, 1)
        safe = b.select(fine, pointer, page)
        operands = list(i.operands)
        operands[at] = safe
        b.append(replace(i, operands=operands, scope=""))
        return address

    def _sync(self, address: Operand, order: int, what: Operand | int) -> None:
        self.b.invoke(sanitizer.SYNC, CTX, SG, order, address, what)
