"""Programs: the decoded instructions of a kernel, and the function that executes each.

A program comes from a native binary, or from code at a GPU address.  Such code is decoded until the
thread ends and all branch targets are known.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from triton_xe.errors import DeviceError, UnsupportedError, XeError
from triton_xe.hardware.target import target
from triton_xe.runtime.emulator import iga
from triton_xe.runtime.emulator.branches import BRANCHES, Place, branch
from triton_xe.runtime.emulator.channels import Running
from triton_xe.runtime.emulator.dpas import PRODUCTS, dpas, resets_reads
from triton_xe.runtime.emulator.instruction import Instruction, instruction_of
from triton_xe.runtime.emulator.macros import MACROS, is_macro
from triton_xe.runtime.emulator.memory import AddressSpace, Fault, fault
from triton_xe.runtime.emulator.messages.gateway import barrier_of
from triton_xe.runtime.emulator.messages.long_form import short_form
from triton_xe.runtime.emulator.messages.send import send
from triton_xe.runtime.emulator.operands import source
from triton_xe.runtime.emulator.operations import build
from triton_xe.runtime.emulator.registers import Threads
from triton_xe.runtime.emulator.scoreboard import Scoreboard
from triton_xe.runtime.level_zero.zebin import sections

Step = Callable[[Threads, Running], Any]
_FIRST_BYTES, _MOST_BYTES = 4096, 1 << 24
_PADDING = "illegal"


@dataclass(frozen=True)
class Wait:
    """Result of the step of `sync.bar`: the barrier that each thread waits at."""

    barriers: Any


class Program:
    """The instructions of one kernel on one device, in order of their addresses."""

    def __init__(
        self, device: str, code: bytes, name: str = "kernel",
        decoded: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.device, self.name, self.code = device, name, code
        self.target = target(device)
        self.grf_bytes = self.target.grf_bytes
        with _without_collection():
            elements = iga.decode(device, code) if decoded is None else decoded
            self.labels: Mapping[str, int] = {
                e["symbol"]: e["pc"] for e in elements if e["kind"] == "L"}
            self.instructions = tuple(
                short_form(instruction_of(e)) for e in elements
                if e["kind"] == "I" and e["op"] != _PADDING)
        if not self.instructions:
            raise DeviceError(f"kernel {name} has no instructions")
        self.index: Mapping[int, int] = {i.pc: n for n, i in enumerate(self.instructions)}
        self.find_lines: Callable[[], Mapping[int, str]] = dict
        """The function that finds `lines`; they are needed for errors and reports only."""
        self.complete_with: set[int] = set()
        """Payloads, as bits of bytes, with which no register is read before it is written."""
        self.scoreboard = Scoreboard(self.target, self.instructions)

    @classmethod
    def from_zebin(cls, device: str, binary: bytes, kernel: str | None = None) -> Program:
        """The program of a kernel in a native binary; by default its first."""
        texts = {name.removeprefix(".text."): code for name, code in sections(binary).items()
                 if name.startswith(".text.") and not name.endswith("Void_Program")}
        if not texts or (kernel is not None and kernel not in texts):
            raise DeviceError(f"the native binary has no kernel {kernel or ''}; "
                              f"it has: {', '.join(texts) or 'none'}")
        name = kernel or next(iter(texts))
        return cls(device, texts[name], name)

    @classmethod
    def at_address(
        cls, device: str, space: AddressSpace, address: int, name: str = "kernel"
    ) -> Program:
        """The program whose code is at a GPU address."""
        available = space.bytes_from(address)
        size = min(_FIRST_BYTES, available)
        while size:
            code = space.copy(address, size)
            with _without_collection():
                decoded = _whole(iga.decode_part(device, code))
            if decoded:
                return cls(device, code[: decoded[-1]["pc"] + 16], name, decoded)
            if size >= min(available, _MOST_BYTES):
                break
            size = min(size * 4, available)
        raise DeviceError(f"no program of {device} at {address:#x}: {available} bytes are mapped "
                          "there, and no thread ends in them")

    @cached_property
    def lines(self) -> Mapping[int, str]:
        """Program counter -> `file:line` in the kernel's source (`source_lines`), if known."""
        return self.find_lines()

    def following(self, number: int) -> list[int]:
        """Positions of the possible successors of an instruction."""
        instruction = self.instructions[number]
        if instruction.is_end or number + 1 == len(self.instructions):
            return []
        targets = self.targets(number)
        always = instruction.op == "jmpi" and instruction.predicate is None
        return targets if always and targets else [number + 1, *targets]

    def targets(self, number: int) -> list[int]:
        """Positions that an instruction names as labels."""
        places = (self.labels.get(each.target, -1) for each in self.instructions[number].sources)
        return [self.index[pc] for pc in places if pc in self.index]

    @cached_property
    def steps(self) -> list[Step]:
        """The functions of the instructions; one without definition raises when it runs."""
        with _without_collection():
            return [self.step_of(number) for number in range(len(self.instructions))]

    @property
    def missing_waits(self) -> tuple[str, ...]:
        """Each missing wait that `scoreboard` found, with its source location."""
        return tuple(f"{self.place_of(pc)} {sentence}"
                     for pc, sentence in sorted(self.scoreboard.findings))

    def refuse_missing_waits(self) -> None:
        """Raise an error that names the first missing wait of the launches so far."""
        if missing := self.missing_waits:
            raise fault("scoreboard", (
                f"{missing[0]}: hardware may read or overwrite the register too early, so that "
                f"results differ from run to run ({len(missing)} such waits).  This is a fault of "
                "the compiler that wrote the code; report it with the kernel's code"))

    def place_of(self, pc: int) -> str:
        """The kernel, the instruction, its program counter and its source location."""
        line = self.line_of(pc)
        name = self.instructions[self.index[pc]].name
        return f"kernel {self.name}, {name} at {pc:#x}{f' ({line})' if line else ''}:"

    def line_of(self, pc: int) -> str:
        """The source location, `file:line`, of an instruction; "" if it is not known."""
        return self.lines.get(pc, "")

    def step_of(self, number: int) -> Step:
        """Return the function of one instruction."""
        instruction = self.instructions[number]
        try:
            return self._definition(number, instruction)
        except (UnsupportedError, Fault) as error:
            return partial(_refuse, error)

    def _definition(self, number: int, instruction: Instruction) -> Step:
        """Compile one instruction to a step."""
        if instruction.op in ("nop", "illegal"):
            return _nothing
        if instruction.op == "sync":
            return self._sync(instruction)
        if instruction.op.startswith("send"):
            return send(instruction, self.target)
        if instruction.op in PRODUCTS:
            following = self.instructions[number + 1 : number + 2]
            if resets_reads(instruction, following[0] if following else None):
                return _nothing
            return dpas(instruction, self.grf_bytes)
        if instruction.op in BRANCHES:
            return branch(Place(instruction, self._next(number), tuple(
                self.labels.get(source.target) for source in instruction.sources),
                self.grf_bytes))
        if is_macro(instruction):
            return MACROS[instruction.subop or instruction.op](instruction, self.grf_bytes)
        return _noting_state(instruction, build(instruction, self.grf_bytes), self._next(number))

    def _next(self, number: int) -> int:
        """Program counter of the instruction that follows."""
        following = self.instructions[number + 1 : number + 2]
        return following[0].pc if following else self.instructions[number].pc + 16

    def _sync(self, instruction: Instruction) -> Step:
        """Waits for a barrier; other kinds wait for messages, which are executed in order."""
        if instruction.subop != "bar":
            return _nothing
        number = barrier_of(instruction, self.grf_bytes)
        return lambda threads, running: Wait(number(threads))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Pause the collector of cyclic garbage, which takes half the time of building a program.

    A program's objects are many and live on, so that there is nothing to collect.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _whole(elements: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The elements of the program that these begin with; none if its end is missing.

    The program ends at the first end of a thread that no earlier branch skips.
    """
    found, known, ahead = [], set(), set()
    for element in elements:
        found.append(element)
        if element["kind"] == "L":
            known.add(element["symbol"])
        else:
            ahead |= {each["target"] for each in element.get("srcs", ()) if each["kind"] == "LB"}
        ahead -= known
        if "EOT" in element.get("opts", ()) and not ahead:
            return found
    return []


def _nothing(threads: Threads, running: Running) -> None:
    """Execute an instruction without effect here."""


def _refuse(error: XeError, threads: Threads, running: Running) -> None:
    raise copy.copy(error)


def _noting_state(instruction: Instruction, step: Step, following: int) -> Step:
    """Make a step that writes cr0 or sr0.2 update the rounding, or the dispatched channels."""
    target = instruction.destination
    if target is None or target.file not in ("cr", "sr"):
        return step
    if target.file == "sr":
        return _dispatch_mask(instruction, step, following)

    def control(threads: Threads, running: Running) -> None:
        step(threads, running)
        threads.control_changed()

    return control


def _dispatch_mask(instruction: Instruction, step: Step, following: int) -> Step:
    """`mov sr0.2 MASK`: the channels of the thread from here on (nGEN turns on all 32)."""
    target = instruction.destination
    if instruction.op != "mov" or target is None or (target.sub, target.type) != (2, "ud"):
        raise UnsupportedError(f"{instruction.name} to the state register has no definition here")
    read = source(instruction.sources[0], 1, 64).bits(4)
    channels = np.arange(32, dtype=np.uint32)

    def enable(threads: Threads, running: Running) -> list[tuple[int, Any]]:
        step(threads, running)
        mask = np.broadcast_to(read(threads), (threads.count, 1)) >> channels & np.uint32(1)
        rows = running.threads
        threads.enabled[rows] = mask.astype(bool)[rows]
        return [(following, threads.enabled & rows[:, None])]

    return enable
