"""Control flow: each branch sends channels to program counters.

The scheduler keeps, for each thread, where its channels are, and runs the lowest program counter
of a thread first.  Channels therefore meet again where the compiler's join points are.  Intel's
code is laid out structurally, and JIP and UIP of the branches realise the same order (Intel PRM,
volume "3D and GPGPU Programs", "SIMD Flow Control").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator.channels import Running, predicate
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.operands import Read, source
from triton_xe.runtime.emulator.registers import CHANNELS, Array, Bools, Threads

Moves = list[tuple[int, Bools]]
"""Program counters and the channels (threads, 32) that go there."""
Branch = Callable[[Threads, Running], "Moves | None"]


@dataclass(frozen=True)
class Place:
    """A branch in its program: where its labels and the next instruction are."""

    instruction: Instruction
    next: int
    targets: tuple[int | None, ...]
    """Program counter of each source that is a label; None for registers."""
    grf_bytes: int

    def first(self) -> int:
        return self._target(0)

    def last(self) -> int:
        """The second label (UIP) if there are two."""
        return self._target(len(self.targets) - 1)

    def _target(self, index: int) -> int:
        """Address of a branch's target; raise if a register has it."""
        found = self.targets[index]
        if found is None:
            raise UnsupportedError(
                f"instruction {self.instruction.name} through a register has no definition here")
        return found


def branch(place: Place) -> Branch:
    """The function that executes a branch."""
    return BRANCHES[place.instruction.op](place)


def _taken(place: Place) -> Callable[[Threads, Running], Bools]:
    """Channels that run and whose predicate holds."""
    instruction = place.instruction
    chosen = predicate(instruction) if instruction.predicate is not None else None
    part = slice(instruction.first_channel, instruction.first_channel + instruction.width)

    def taken(threads: Threads, running: Running) -> Bools:
        inside = np.zeros((threads.count, CHANNELS), bool)
        inside[:, part] = True if chosen is None else chosen(threads)
        return inside & running.channels

    return taken


def _split(place: Place, target: int, otherwise: int) -> Branch:
    """Channels whose predicate holds go to `target`."""
    taken = _taken(place)

    def go(threads: Threads, running: Running) -> Moves:
        there = taken(threads, running)
        return [(target, there), (otherwise, running.channels & ~there)]

    return go


def _goto(place: Place) -> Branch:
    return _split(place, place.last(), place.next)


def _if(place: Place) -> Branch:
    """Channels whose predicate fails go to the first label: after `else`, or to `endif`."""
    return _split(place, place.next, place.first())


def _else(place: Place) -> Branch:
    last = place.last()
    return lambda threads, running: [(last, running.channels)]


def _while(place: Place) -> Branch:
    return _split(place, place.first(), place.next)


def _meet(place: Place) -> Branch:
    """join and endif: the scheduler merges channels at one program counter."""
    return lambda threads, running: None


def _jump(place: Place) -> Branch:
    """Move all channels of a thread, by the predicate of its first channel.

    Through a register: to the address of the jump plus the register's value (nGEN, `jmpi`).
    """
    instruction = place.instruction
    chosen = predicate(instruction) if instruction.predicate is not None else None
    targets = _jump_targets(place)

    def go(threads: Threads, running: Running) -> Moves:
        jumps = running.threads.copy()
        if chosen is not None:
            jumps &= chosen(threads)[:, 0]
        to = targets(threads)
        moves = [(int(pc), running.channels & (jumps & (to == pc))[:, None])
                 for pc in np.unique(to[jumps])]
        return [*moves, (place.next, running.channels & ~jumps[:, None])]

    return go


def _jump_targets(place: Place) -> Callable[[Threads], Array]:
    """Compile the target of a jump for each thread: a label, or an offset in a register."""
    (target,) = place.targets
    if target is not None:
        return lambda threads: np.full(threads.count, target)
    read = _value(place)
    return lambda threads: place.instruction.pc + read(threads).astype(np.int64)[:, 0]


def _value(place: Place) -> Read:
    """The 32-bit register of an indirect branch; IGA gives it neither type nor region."""
    (operand,) = place.instruction.sources
    return source(replace(operand, type="d", region=(0, 1, 0)), 1, place.grf_bytes).read


BRANCHES: Mapping[str, Callable[[Place], Branch]] = {
    "goto": _goto, "join": _meet, "if": _if, "else": _else, "endif": _meet, "while": _while,
    "break": _goto, "cont": _goto, "halt": _goto, "jmpi": _jump,
}  # fmt: skip
"""break, cont and halt send channels to their UIP as goto does."""
