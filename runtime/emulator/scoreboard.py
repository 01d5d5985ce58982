"""Check that machine code waits for its own results (Intel's software scoreboard).

Hardware does not wait for registers, so each instruction encodes its waits.  A distance `I@2` waits
for the second last instruction of an in-order pipe (`A@2`: of each of these pipes).  A token
`$3.dst` waits for the message or dpas that set it, and `$3.src` until it has read its sources.
`Scoreboard` follows the executed instructions of a thread, and finds those that touch a register
too early.

Rules and pipes: IGC, visa/iga/IGALibrary/IR/RegDeps.cpp and SWSBSetter.cpp.  What a token that is
set again waits for: visa/LocalScheduler/SWSB_G4IR.cpp (`SWSB::assignDepToken`).

- A read waits for the write before it.  A write waits for writes and reads before it in other
  pipes; within a pipe these happen in order.
- An instruction is complete after `_LATENCY` later ones of its pipe.
- Messages to one unit, and `math` of Xe-HPG, read their registers in order.  Therefore a wait for
  one is a wait for the reads of those before it.
- dpas are complete in order.
- A branch that is taken lasts longer than the instructions that pipes in order have begun.
- Hardware waits before a token is set again.
- Accumulators need waits between pipes only, and none on Xe3P, where Intel's compiler writes none.

Flags, address registers and dependences between dpas are not tracked: Intel's compiler writes no
waits for them, so hardware must.  Intel's compiler leaves out no wait that these rules require.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator.branches import BRANCHES
from triton_xe.runtime.emulator.dpas import PRODUCTS
from triton_xe.runtime.emulator.footprints import GENERAL, Footprint, footprint
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.registers import FLOATS, SIZES, Bools, register_name

_LATENCY: Mapping[str, int] = {"F": 10, "I": 10, "L": 14, "M": 17, "S": 10}
"""Pipe (float, integer, long, math, scalar) -> later instructions until one is complete."""
_OUT_OF_ORDER = ("send", "dpas", "math")
_THREE_PIPES = ("dg2", "mtl", "arl-h")
_XE3P = (35,)
_COPIED = ("f", "hf", "bf")
"""Types that Xe3P copies in the floating-point pipe; it converts in that of integers."""
_NO_TOKEN = -1


def pipe(device: Target, instruction: Instruction) -> str:
    """The pipe of an instruction: a letter, or one of `_OUT_OF_ORDER`; "" for those without."""
    op = instruction.op
    if op.startswith("send"):
        return "send"
    if op in PRODUCTS:
        return "dpas"
    if op in ("sync", "illegal"):
        return ""
    if op == "math":
        return "math" if device.name in _THREE_PIPES else "M"
    if op in BRANCHES or op == "nop":
        return "I"
    return _arithmetic_pipe(device, instruction)


def _arithmetic_pipe(device: Target, instruction: Instruction) -> str:
    """The pipe that executes an instruction: F, I, L (long), S (scalar) or math."""
    target = instruction.destination
    first = target if target is not None else instruction.sources[0]
    operands = (first, *instruction.sources)
    if device.name in _THREE_PIPES:
        if device.name in ("mtl", "arl-h") and any(each.type == "df" for each in operands):
            return "math"
        if any(SIZES.get(each.type, 4) == 8 for each in operands):
            return "L"
    elif first.type == "df":
        return "L"
    elif first.file == "s" and instruction.sources[0].kind == "immediate":
        return "S"
    elif device.ip_version >= _XE3P and instruction.op == "mov" and (
            first.type not in _COPIED or instruction.sources[0].type != first.type):
        return "I"
    return "F" if first.type in FLOATS else "I"


@dataclass(frozen=True)
class Action:
    """An instruction as the scoreboard sees it."""

    touches: Footprint
    pipe: str
    waits: tuple[str, int] | None
    """Pipe ("A" for all) and distance."""
    token: tuple[int, str] | None
    unit: str
    """Unit that a message goes to, dpas or math; "" for instructions in order."""
    every_token: str
    """"dst" or "src" if it waits for all tokens."""
    tokens: int
    """Bit mask of the tokens that `every_token` waits for."""

    @cached_property
    def registers(self) -> int:
        """Mask of the register bytes that are read or written."""
        return self.touches.reads | self.touches.writes


def action(device: Target, instruction: Instruction) -> Action:
    """An instruction, reduced to its registers, its pipe and its waits."""
    found = re.fullmatch(r"([A-Z]?)@(\d+)", instruction.distance)
    every = {"allwr": "dst", "allrd": "src"}.get(instruction.subop, "") if (
        instruction.op == "sync") else ""
    given = instruction.sources[0] if every and instruction.sources else Operand("register")
    name, touches = pipe(device, instruction), footprint(instruction, device)
    if device.ip_version >= _XE3P:
        touches = Footprint(touches.reads & GENERAL, touches.writes & GENERAL)
    return Action(
        touches, name,
        (found[1] or "A", int(found[2])) if found else None, instruction.token,
        instruction.subop if name == "send" else name if name in _OUT_OF_ORDER else "", every,
        int(given.value, 0) if given.kind == "immediate" else -1)


@dataclass(frozen=True)
class Pending:
    """The out-of-order instructions that set one token."""

    positions: tuple[int, ...]
    unit: str = ""
    """Unit that a message goes to, dpas or math."""
    read: tuple[int, ...] = ()
    """Positions of those that have read their sources."""


@dataclass(frozen=True)
class State:
    """Instructions that a thread may still have to wait for."""

    pipes: tuple[tuple[str, tuple[int, ...]], ...] = tuple((name, ()) for name in _LATENCY)
    """Pipe -> positions of its incomplete instructions, the last one first."""
    tokens: tuple[tuple[int, Pending], ...] = ()
    """Tokens that are set, in order, with what they wait for."""
    chain: tuple[int, ...] = ()
    """dpas of a chain whose last one will set the token."""
    following: int = 0
    """Position after the last instruction."""

    def enter(self, position: int) -> State:
        """The state at a position; a taken branch outlasts the in-order pipes."""
        if position == self.following:
            return self
        return replace(self, pipes=State().pipes)

    def wait(self, step: Action) -> State:
        """The state after an instruction has waited."""
        if step.waits is None and step.token is None and not step.every_token:
            return self
        pipes, tokens = self.pipes, self.tokens
        if step.waits is not None:
            name, distance = step.waits
            pipes = tuple((p, at[: distance - 1] if name in (p, "A") else at) for p, at in pipes)
        if step.every_token:
            tokens = _after_wait(tokens, step.tokens, step.every_token)
        if step.token is not None:
            number, kind = step.token
            tokens = _after_wait(tokens, 1 << number, kind.lstrip(".") or "dst")
        return replace(self, pipes=pipes, tokens=tokens)

    def issue(self, position: int, step: Action) -> State:
        """The state after an instruction is issued."""
        if step.pipe in _LATENCY:
            most = _LATENCY[step.pipe] - 1
            return replace(self, pipes=tuple(
                (p, (position, *at[:most]) if p == step.pipe else at) for p, at in self.pipes))
        if step.pipe not in _OUT_OF_ORDER:
            return self
        sets = step.token is not None and not step.token[1]
        if step.pipe == "dpas" and not sets:
            return replace(self, chain=(*self.chain, position))
        number = step.token[0] if sets and step.token else _NO_TOKEN
        others = tuple(each for each in self.tokens if each[0] != number)
        before = dict(self.tokens).get(number, Pending(()))
        chain = self.chain if step.pipe == "dpas" else ()
        added = (*chain, position)
        positions = (*(each for each in before.positions if each not in added), *added)
        read = tuple(each for each in before.read if each not in added)
        pending = Pending(positions, step.unit, read)
        return replace(self, tokens=(*others, (number, pending)), chain=() if chain else self.chain)


def _after_wait(
    tokens: tuple[tuple[int, Pending], ...], numbers: int, kind: str
) -> tuple[tuple[int, Pending], ...]:
    """Tokens after a wait for some of them."""
    found: list[tuple[int, Pending]] = []
    read_units: set[str] = set()
    done_units: set[str] = set()
    for number, pending in reversed(tokens):
        is_chosen = number != _NO_TOKEN and numbers >> number & 1
        if is_chosen and pending.unit:
            read_units.add(pending.unit)
        if is_chosen and kind == "dst":
            done_units |= {"dpas"} & {pending.unit}
            continue
        if pending.unit in done_units:
            continue
        has_read = is_chosen or pending.unit in read_units
        found.append((number, replace(pending, read=pending.positions) if has_read else pending))
    return tuple(reversed(found))


@dataclass
class Scoreboard:
    """Follows the states of a program's threads, and collects missing waits.

    Threads have numbers of states, so that equal states advance once.
    """

    device: Target
    instructions: Sequence[Instruction]
    findings: dict[tuple[int, str], int] = field(default_factory=dict)
    """Program counter and sentence of each missing wait -> position of the earlier instruction."""

    def __post_init__(self) -> None:
        self._actions: dict[int, Action] = {}
        self._numbers: dict[State, int] = {State(): 0}
        self._states = [State()]
        self._next: dict[tuple[int, int, int], int] = {}

    def advance(self, states: NDArray[Any], rows: Bools, first: int, end: int) -> None:
        """Let threads `rows` execute the instructions from position `first` to before `end`."""
        before = states[rows]
        if (before == before[0]).all():
            states[rows] = self._next_state(int(before[0]), first, end)
            return
        for number in np.unique(before).tolist():
            states[rows & (states == number)] = self._next_state(number, first, end)

    def _next_state(self, number: int, first: int, end: int) -> int:
        """Number of the state in which instructions leave a thread with state `number`."""
        key = number, first, end
        if key not in self._next:
            state = self._states[number].enter(first)
            for position in range(first, end):
                state = self._step(state, position)
            state = replace(state, following=end)
            if state not in self._numbers:
                self._numbers[state] = len(self._states)
                self._states.append(state)
            self._next[key] = self._numbers[state]
        return self._next[key]

    def _step(self, state: State, position: int) -> State:
        """State after an instruction; note what it should have waited for."""
        step = self._action(position)
        state = state.wait(step)
        for earlier, sentence in self._missing(state, step):
            self.findings.setdefault((self.instructions[position].pc, sentence), earlier)
        return state.issue(position, step)

    def _action(self, position: int) -> Action:
        if position not in self._actions:
            self._actions[position] = action(self.device, self.instructions[position])
        return self._actions[position]

    def _missing(self, state: State, step: Action) -> Iterator[tuple[int, str]]:
        """Each earlier instruction that this one fails to wait for, and a sentence about it."""
        for name, positions in state.pipes:
            for age, earlier in enumerate(positions, 1):
                if self._overlaps(earlier, step):
                    yield from self._conflicts(
                        earlier, self._actions[earlier].touches, step.touches,
                        f"{name}@{min(age, 7)}", name == step.pipe)
        for number, pending in state.tokens:
            for earlier in pending.positions:
                if self._overlaps(earlier, step):
                    yield from self._pending_conflicts(number, pending, earlier, step)
        for earlier in state.chain:
            if step.pipe != "dpas" and self._overlaps(earlier, step):
                yield from self._pending_conflicts(_NO_TOKEN, Pending(()), earlier, step)

    def _overlaps(self, earlier: int, step: Action) -> bool:
        """True if an instruction touches a byte that an earlier one touched too."""
        return bool(self._actions[earlier].registers & step.registers)

    def _pending_conflicts(
        self, number: int, pending: Pending, earlier: int, step: Action
    ) -> Iterator[tuple[int, str]]:
        """Conflicts with a message or dpas; a chain of dpas adds to its registers in order."""
        before = self._action(earlier)
        if before.pipe == step.pipe == "dpas":
            return
        is_read = earlier in pending.read or before.unit == step.unit
        reads = 0 if is_read else before.touches.reads
        wait = "a token" if number == _NO_TOKEN else f"${number}"
        yield from self._conflicts(
            earlier, Footprint(reads, before.touches.writes), step.touches, wait, False)

    def _conflicts(
        self, earlier: int, before: Footprint, touches: Footprint, wait: str, same_pipe: bool
    ) -> Iterator[tuple[int, str]]:
        """Conflicts of two instructions: a read after a write, a write after a write or read.

        Within a pipe only general registers are read too early.
        """
        end = ".dst" if wait[0] == "$" else ""
        ordered = GENERAL if same_pipe else -1
        if both := before.writes & touches.reads & ordered:
            yield earlier, self._sentence("reads", both, "writes", earlier, wait + end)
        if same_pipe:
            return
        if both := before.writes & touches.writes:
            yield earlier, self._sentence("writes", both, "writes", earlier, wait + end)
        if both := before.reads & touches.writes:
            yield earlier, self._sentence("writes", both, "reads", earlier,
                                          wait + (".src" if end else ""))

    def _sentence(self, what: str, both: int, did: str, earlier: int, wait: str) -> str:
        register = register_name((both & -both).bit_length() - 1, self.device.grf_bytes)
        instruction = self.instructions[earlier]
        return (f"{what} {register}, which {instruction.name} at {instruction.pc:#x} {did}, "
                f"without a wait for it ({wait})")
