"""Find registers that native code reads although no instruction wrote them.

Intel's compiler does not report when it loses a value.  Version 2.40 loses half a column if two
predicated loads that a shuffle joins feed a DPAS.  The register may even contain the right value
for a while, left by another thread.  A read is reported if no path to it has written the bytes,
whatever the predicates; so it does not depend on launches.

Copies of undefined values are allowed and undefined.  Macros of division are followed channel by
channel, because Intel's compiler divides a number of a whole subgroup in one channel of 16.  A read
is not reported if nothing uses the result: the compiler leaves some such arithmetic in the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator.dpas import PRODUCTS, is_dummy
from triton_xe.runtime.emulator.footprints import GENERAL, Footprint, footprint
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.kernel_info import KernelInfo
from triton_xe.runtime.emulator.macros import is_macro
from triton_xe.runtime.emulator.memory import fault
from triton_xe.runtime.emulator.messages.lsc import UNITS
from triton_xe.runtime.emulator.messages.send import is_message, is_scratch, operation
from triton_xe.runtime.emulator.program import Program
from triton_xe.runtime.emulator.registers import FLOATS, byte_offset


@dataclass(frozen=True)
class UndefinedRead:
    """One instruction, and the registers with unwritten bytes that it reads."""

    instruction: Instruction
    registers: tuple[int, ...]
    location: str = ""
    """`file:line` in the kernel's source, if the program has lines."""

    def __str__(self) -> str:
        names = ", ".join(f"r{register}" for register in self.registers)
        where = f" ({self.location})" if self.location else ""
        return (f"reads {names}, which nothing wrote: {self.instruction.name} at "
                f"{self.instruction.pc:#x}{where}")


@dataclass(frozen=True)
class _Effect:
    """Register bytes that an instruction writes and reads, as masks with a bit per byte."""

    writes: int
    reads: int
    copies: bool = False
    """True if it only moves bytes; it may move undefined ones, whose copies are undefined."""
    shifts: tuple[int, ...] = ()
    """Distances in bytes from the result to each source, for results defined byte by byte."""
    last: int = 0
    """Mask of the last data register of a block store, which a block may fill in part."""

    def defined_after(self, written: int) -> int:
        """Bytes that are defined after the instruction, if `written` are before."""
        if self.copies and self.reads and not self.reads & written:
            return written & ~self.writes
        defined = self.writes
        for shift in self.shifts:
            defined &= written >> shift if shift > 0 else written << -shift
        return written | defined

    def missing(self, written: int) -> int:
        """Bytes that the instruction needs, and that are not in `written`."""
        if self.copies or self.shifts:
            return 0
        wanted = self.reads & ~self.last if self.last & written else self.reads
        return wanted & ~written


def payload(info: KernelInfo, grf_bytes: int) -> int:
    """Mask of the register bytes that hardware initializes: r0, local ids and inline data."""
    ids = 3 * max(1, info.simd * 2 // grf_bytes) if info.per_thread else 0
    return (1 << (1 + ids) * grf_bytes + info.inline_bytes) - 1


def lost_value(program: Program, inputs: int) -> str:
    """Describe the first read of an unwritten register, or else a store that sends no registers.

    "" if there is neither.
    """
    found = [*map(str, undefined_reads(program, inputs)), *_unsent(program)]
    return "" if not found else (
        f"the compiler lost a value of kernel {program.name} for {program.device} without a "
        f"word: its code {found[0]}")


def _unsent(program: Program) -> Iterator[str]:
    """Yield a sentence for each message that names a data register, but sends none.

    Intel's compiler 2.40 writes such stores if their addresses begin in r510 (Xe3P; IGC,
    visa/iga/IGALibrary/Backend/GED/Encoder.cpp: `encodeSendgDescsXe3`).
    """
    for each in program.instructions:
        data = each.sources[1] if each.op.startswith("sendg") else None
        if data is not None and data.file == "r" and not data.registers:
            where = program.line_of(each.pc)
            yield (f"stores r{data.number} without its number of registers: {each.name} at "
                   f"{each.pc:#x}{f' ({where})' if where else ''}")


def refuse_lost_value(program: Program, inputs: int) -> None:
    """Raise `Fault` if the program has a `lost_value`; a program is checked once per `inputs`."""
    if inputs in program.complete_with:
        return
    if lost := lost_value(program, inputs):
        raise fault("undefined registers", f"{lost}.  Results are wrong; report it with the kernel")
    program.complete_with.add(inputs)


def undefined_reads(program: Program, inputs: int) -> list[UndefinedRead]:
    """Reads of registers that neither `inputs` (`payload`) nor an instruction wrote, in order.

    Messages of Xe3P (`sendg`) do not say how many registers they return, so none is found there.
    """
    if any(instruction.op.startswith("sendg") for instruction in program.instructions):
        return []
    effects = [_effect(each, program.target) for each in program.instructions]
    found = list(_undefined(program, effects, _written(program, effects, inputs)))
    used = _used(program) if found else set()
    return [read for read in found if program.index[read.instruction.pc] in used]


def _written(program: Program, effects: Sequence[_Effect], inputs: int) -> Mapping[int, int]:
    """Position -> bytes that may have been written before it."""
    found, is_stable = {0: inputs}, False
    while not is_stable:
        is_stable = True
        for number, effect in enumerate(effects):
            if number not in found:
                continue
            after = effect.defined_after(found[number])
            for later in _following(program, number):
                is_new = later not in found or after & ~found[later] != 0
                found[later] = found.get(later, 0) | after
                is_stable = is_stable and not (is_new and later <= number)
    return found


def _following(program: Program, number: int) -> Sequence[int]:
    """Positions of the possible successors; a jump through a register may lead anywhere."""
    is_indirect = program.instructions[number].op == "jmpi" and not program.targets(number)
    return range(len(program.instructions)) if is_indirect else program.following(number)


def _undefined(
    program: Program, effects: Sequence[_Effect], written: Mapping[int, int]
) -> Iterator[UndefinedRead]:
    """Yield reads of registers of which not all bytes were written before."""
    for number, before in sorted(written.items()):
        if missing := effects[number].missing(before):
            instruction = program.instructions[number]
            yield UndefinedRead(instruction, tuple(_registers(missing, program.grf_bytes)),
                                program.line_of(instruction.pc))


def _used(program: Program) -> set[int]:
    """Positions of the instructions that do more than write registers that nothing reads."""
    effects = [_all_effects(each, program.target) for each in program.instructions]
    live, found, is_stable = [0] * len(effects), set[int](), False
    while not is_stable:
        is_stable = True
        for number in reversed(range(len(effects))):
            after = 0
            for later in _following(program, number):
                after |= live[later]
            instruction, effect = program.instructions[number], effects[number]
            if _has_other_effects(instruction) or effect.writes & after:
                found.add(number)
                kept = after if instruction.predicate is not None else after & ~effect.writes
                after = kept | effect.reads
            is_stable = is_stable and after == live[number]
            live[number] = after
    return found


def _has_other_effects(instruction: Instruction) -> bool:
    """True if an instruction does more than write general registers at known positions."""
    target = instruction.destination
    return (is_message(instruction) or bool(instruction.condition) or target is None
            or target.file != "r" or target.kind == "indirect")


def _all_effects(instruction: Instruction, device: Target) -> Footprint:
    """All register bytes that are read, even if their values do not matter, or written."""
    touched = footprint(instruction, device)
    is_anywhere = any(each.kind == "indirect" for each in instruction.sources)
    return Footprint(GENERAL if is_anywhere else touched.reads & GENERAL, touched.writes & GENERAL)


def _registers(mask: int, size: int) -> Iterator[int]:
    for register in range(-(-mask.bit_length() // size)):
        if mask >> register * size & (1 << size) - 1:
            yield register


def _effect(instruction: Instruction, device: Target) -> _Effect:
    """The bytes that an instruction writes, and those whose values matter to it."""
    touched, target = footprint(instruction, device), instruction.destination
    grf_bytes = device.grf_bytes
    is_anywhere = target is not None and target.kind == "indirect"
    writes = GENERAL if is_anywhere else touched.writes & GENERAL
    reads = 0 if _is_independent(instruction) else touched.reads & GENERAL
    return _Effect(writes, reads, instruction.op == "mov" or is_scratch(instruction),
                   _shifts(instruction, grf_bytes), _last_of_block(instruction, grf_bytes))


def _shifts(instruction: Instruction, grf_bytes: int) -> tuple[int, ...]:
    """Distances in bytes from the result of a macro to its sources; none for others."""
    target = instruction.destination
    if not is_macro(instruction) or target is None:
        return ()
    return tuple(byte_offset(each, grf_bytes) - byte_offset(target, grf_bytes)
                 for each in instruction.sources if each.file == "r")


def _last_of_block(instruction: Instruction, grf_bytes: int) -> int:
    """Mask of the last data register of a 2D block store, which gives no size of the block."""
    if instruction.subop not in UNITS or operation(instruction) != "store_block2d":
        return 0
    data = instruction.sources[1]
    if not data.registers:  # s0 numbers them
        return 0
    return ((1 << grf_bytes) - 1) << (data.number + data.registers - 1) * grf_bytes


def _is_independent(instruction: Instruction) -> bool:
    """True if the values of the sources do not matter.

    The compiler pads with operations on their result alone, and compares integers with themselves
    to learn which channels are active.  The gateway uses a part of a register.
    """
    if is_message(instruction):
        return instruction.subop not in UNITS
    if instruction.op in PRODUCTS:
        return is_dummy(instruction)
    regions = {_region(each) for each in instruction.sources}
    if len(instruction.sources) < 2 or len(regions) > 1:
        return False
    if instruction.op == "cmp":
        return instruction.sources[0].type not in FLOATS
    return instruction.destination is not None and _region(instruction.destination) in regions


def _region(operand: Operand) -> tuple[str, str, int, int]:
    return operand.kind, operand.file, operand.number, operand.sub
