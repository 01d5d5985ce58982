"""The command streamer: executes what Intel's driver puts into batch buffers.

Source of all layouts: Intel's compute runtime, `shared/source/generated/*_core/
hw_cmds_generated_*_core.inl`; of registers, `shared/source/helpers/register_offsets.h`.  What only
prepares caches, pipelines or exceptions changes nothing here; a command that is not in the tables
ends the program with its name.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from triton_xe.runtime.emulator.kernel_driver import copy_engine
from triton_xe.runtime.emulator.kernel_driver.dispatch import form_of
from triton_xe.runtime.emulator.kernel_driver.machine import ticks
from triton_xe.runtime.emulator.kernel_driver.memory import AddressSpace, EmulatorFault

Words = Sequence[int]
_ALL_ONES = (1 << 64) - 1

PREPARING: Mapping[str, frozenset[int]] = {
    "MI": frozenset((
        0x00,  # MI_NOOP
        0x02,  # MI_USER_INTERRUPT
        0x05,  # MI_ARB_CHECK
        0x09,  # MI_MEM_FENCE
    )),
    "3D": frozenset((
        0x00_03,  # STATE_PREFETCH
        0x01_02,  # STATE_SIP
        0x01_05,  # STATE_COMPUTE_MODE
        0x01_06,  # 3DSTATE_BTD
        0x01_09,  # STATE_SYSTEM_MEM_FENCE_ADDRESS
        0x01_0B,  # STATE_CONTEXT_DATA_BASE_ADDRESS
        0x09_04,  # PIPELINE_SELECT
        0x19_19,  # 3DSTATE_BINDING_TABLE_POOL_ALLOC
    )),
    "barrier": frozenset((
        0x3,  # RESOURCE_BARRIER
    )),
}  # fmt: skip
"""Commands without an effect on numbers.  3D: subtype and opcode, then the sub-opcode."""
_PIPELINE_SELECT, _FLUSH, _FIRST_WITH_LENGTH = 0x09_04, 0x26, 0x10
NAMES: Mapping[tuple[str, int], str] = {
    ("MI", 0x01): "MI_SET_PREDICATE", ("MI", 0x28): "MI_REPORT_PERF_COUNT",
    ("MI", 0x36): "MI_CONDITIONAL_BATCH_BUFFER_END", ("copy", 0x53): "XY_SRC_COPY_BLT",
}
"""Commands that are known by name only, for a refusal that says which one it is."""

_CLOCKS, _GENERAL = (0x358, 0x3A8, 0x4C0), 0x600
"""Registers of an engine, by their offset in its 4 KiB.  There are clocks of the device, the
context and, on Xe3P, the queue, and sixteen of 64 bits."""
_REGISTER_MASK = 0xFFF
COMPARISONS: Mapping[int, Callable[[int, int], bool]] = {
    0: int.__gt__, 1: int.__ge__, 2: int.__lt__, 3: int.__le__, 4: int.__eq__, 5: int.__ne__,
}
_ATOMICS: Mapping[int, Callable[[int, int], int]] = {
    0x4: lambda old, new: new, 0x5: lambda old, new: old + 1, 0x6: lambda old, new: old - 1,
    0x7: lambda old, new: old + new, 0x8: lambda old, new: old - new,
}
"""Low bits of an atomic opcode -> what it does; bit 5 says 64 bits."""
_ATOMIC_64 = 0x20
_BASES = {"general": 1, "surface": 4, "dynamic": 6, "instruction": 10, "bindless": 16}
"""Base address -> its first word in STATE_BASE_ADDRESS."""
_WRITE_IMMEDIATE, _ATOMIC, _WRITE_TIMESTAMP = 1, 2, 3


class Dispatch(Protocol):
    """Function that runs a COMPUTE_WALKER: its words, the addresses, and the base addresses."""

    def __call__(self, words: Words, space: AddressSpace, bases: Mapping[str, int]) -> None: ...


class Streamer:
    """State of one queue: registers and base addresses stay from one batch to the next."""

    def __init__(self, space: AddressSpace, dispatch: Dispatch, *, is_xe2: bool) -> None:
        self.space, self._dispatch, self._is_xe2 = space, dispatch, is_xe2
        self._registers: dict[int, int] = {}
        self._bases: dict[str, int] = {}
        self.commands: Counter[str] = Counter()

    def run(self, address: int) -> Iterator[None]:
        """Execute a batch buffer; yields while a semaphore is not what it waits for."""
        self._pc: int | None = address
        self._returns: list[int] = []
        while self._pc is not None:
            start = self._pc
            head = self._words(start, 1)[0]
            kind = _kind(head)
            if not kind:
                raise self._unknown(f"{head:#010x}")
            words = self._words(start, _length(kind, head))
            self._pc = start + 4 * len(words)
            yield from self._execute(kind, words)

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.space.load(address, 4 * count))

    def _unknown(self, what: str) -> EmulatorFault:
        return EmulatorFault(f"the emulated command streamer does not know the command {what}; "
                             "please report it with the program that sent it")

    def _execute(self, kind: str, words: Words) -> Iterator[None]:
        """Execute one command; yield while it waits."""
        code = _code(kind, words[0])
        if code in PREPARING.get(kind, ()):
            return
        if kind == "copy" and code in copy_engine.COMMANDS:
            name, command = copy_engine.COMMANDS[code]
            self.commands[name] += 1
            command(self.space, words)
            return
        name = _COMMAND_NAMES.get((kind, code), "")
        if not name:
            known = NAMES.get((kind, code), "")
            raise self._unknown(f"{known or kind} ({words[0]:#010x})")
        self.commands[name] += 1
        yield from getattr(self, f"_{name.lower()}")(words) or ()

    # ---- flow ------------------------------------------------------------------------------

    def _mi_batch_buffer_start(self, words: Words) -> None:
        if words[0] & (1 << 15 | 1 << 18):
            raise self._unknown("MI_BATCH_BUFFER_START with a predicate or an indirect address")
        if words[0] >> 22 & 1 and self._pc is not None:
            self._returns.append(self._pc)
        self._pc = _address(words[1], words[2])

    def _mi_batch_buffer_end(self, words: Words) -> None:
        self._pc = self._returns.pop() if self._returns else None

    def _mi_semaphore_wait(self, words: Words) -> Iterator[None]:
        if words[0] & (1 << 16 | 1 << 17):
            raise self._unknown("MI_SEMAPHORE_WAIT on a register or with indirect data")
        holds = COMPARISONS[words[0] >> 12 & 7]
        while not holds(self._word(_address(words[2], words[3])), words[1]):
            yield

    # ---- memory and registers --------------------------------------------------------------

    def _word(self, address: int) -> int:
        return self._words(address, 1)[0]

    def _store(self, address: int, *words: int) -> None:
        self.space.store(address, struct.pack(f"<{len(words)}I", *words))

    def _mi_store_data_imm(self, words: Words) -> None:
        self._store(_address(words[1], words[2]), *words[3:])

    def _mi_load_register_imm(self, words: Words) -> None:
        for register, value in zip(words[1::2], words[2::2], strict=True):
            self._registers[register & _REGISTER_MASK] = value

    def _mi_load_register_reg(self, words: Words) -> None:
        self._registers[words[2] & _REGISTER_MASK] = self._register(words[1])

    def _mi_load_register_mem(self, words: Words) -> None:
        value = self._word(_address(words[2], words[3]))
        self._registers[words[1] & _REGISTER_MASK] = value

    def _mi_store_register_mem(self, words: Words) -> None:
        if words[0] >> 21 & 1:
            raise self._unknown("MI_STORE_REGISTER_MEM with a predicate")
        self._store(_address(words[2], words[3]), self._register(words[1]))

    def _register(self, register: int) -> int:
        number = register & _REGISTER_MASK
        if number & ~4 in _CLOCKS:
            return ticks() >> (32 if number & 4 else 0) & 0xFFFFFFFF
        if number not in self._registers and not _GENERAL <= number < _GENERAL + 128:
            raise self._unknown(f"that reads register {register:#x}, which nothing wrote")
        return self._registers.get(number, 0)

    def _mi_atomic(self, words: Words) -> None:
        if words[0] >> 16 & 1:
            raise self._unknown("MI_ATOMIC with a result")
        operand = words[3] | words[5] << 32 if len(words) > 5 else 0
        self._atomic("MI_ATOMIC", words[0] >> 8 & 0xFF, _address(words[1], words[2]), operand)

    def _atomic(self, name: str, code: int, address: int, operand: int) -> None:
        """Change a number in memory; `name` is that of the command, for a refusal."""
        operation = _ATOMICS.get(code & ~_ATOMIC_64)
        if operation is None:
            raise self._unknown(f"{name} with opcode {code:#x}")
        form = "<Q" if code & _ATOMIC_64 else "<I"
        size = struct.calcsize(form)
        new = operation(struct.unpack(form, self.space.load(address, size))[0], operand)
        self.space.store(address, struct.pack(form, new & (1 << 8 * size) - 1))

    def _mi_math(self, words: Words) -> None:
        for name in Arithmetic(self._registers).run(words[1:]):
            raise self._unknown(f"MI_MATH with operation {name:#x}")

    def _mi_flush_dw(self, words: Words) -> None:
        self._post(words[0] >> 14 & 3, _address(words[1], words[2]) & ~7, words[3:5])

    def _pipe_control(self, words: Words) -> None:
        if words[0] >> 8 & 1:
            raise self._unknown("PIPE_CONTROL with a predicate")
        self._post(words[1] >> 14 & 3, _address(words[2], words[3]), words[4:6])

    def _post(self, operation: int, address: int, immediate: Words) -> None:
        """Write the immediate or the time after all earlier commands."""
        if operation == _WRITE_IMMEDIATE:
            self._store(address, *immediate)
        elif operation == _WRITE_TIMESTAMP:
            self.space.store(address, struct.pack("<Q", ticks()))
        elif operation:
            raise self._unknown(f"with post-sync operation {operation}")

    # ---- compute ---------------------------------------------------------------------------

    def _state_base_address(self, words: Words) -> None:
        for name, index in _BASES.items():
            if words[index] & 1:
                self._bases[name] = (words[index] & ~0xFFF) | words[index + 1] << 32

    def _cfe_state(self, words: Words) -> None:
        """Keep the offset of scratch memory's surface in the heap of surfaces."""
        self._bases["scratch"] = words[1] >> 10 << 6

    def _compute_walker(self, words: Words) -> None:
        """Run a kernel, then write its timestamps or do its post-sync operation."""
        begin = ticks()
        self._dispatch(words, self.space, self._bases)
        self.space.flush()
        form = form_of(words)
        for part in form.post_syncs:
            first, low, high, *immediate = words[part]
            operation, address = first >> form.operation_bit & 3, _address(low, high) & ~7
            if operation == _WRITE_TIMESTAMP:
                end = max(ticks(), begin + 1)
                self.space.store(address, self._times(begin, begin, end, end))
            elif operation == _ATOMIC and form.operation_bit:
                self._atomic("a post-sync atomic", first >> 24, address,
                             immediate[0] | immediate[1] << 32)
            else:
                self._post(operation, address, immediate)

    def _times(self, *times: int) -> bytes:
        """Times of context and device at the start, then at the end; 64 bits each since Xe2."""
        if self._is_xe2:
            return struct.pack("<4Q", *times)
        return struct.pack("<4I", *(each & 0xFFFFFFFF for each in times))


class Arithmetic:
    """MI_MATH: a little machine with two operands and a result, on the sixteen registers."""

    def __init__(self, registers: dict[int, int]) -> None:
        self._registers = registers
        self._values = {0x20: 0, 0x21: 0, 0x31: 0, 0x32: 0, 0x33: 0}
        """Operands A and B, result, zero flag and carry flag."""

    def run(self, words: Words) -> Iterator[int]:
        """Execute the words; yields the operation of one that is unknown."""
        for word in words:
            operation, target, source = word >> 20, word >> 10 & 0x3FF, word & 0x3FF
            if operation in (0x080, 0x480):
                self._values[target] = self._read(source) ^ (_ALL_ONES if operation >> 10 else 0)
            elif operation in (0x081, 0x481):
                self._values[target] = _ALL_ONES if operation >> 10 else 0
            elif 0x100 <= operation <= 0x104:
                self._compute(operation)
            elif operation in (0x180, 0x580):
                self._write(target, self._read(source) ^ (_ALL_ONES if operation >> 10 else 0))
            elif operation:
                yield operation

    def _compute(self, operation: int) -> None:
        a, b = self._values[0x20], self._values[0x21]
        whole = (a + b, a - b, a & b, a | b, a ^ b)[operation - 0x100]
        self._values[0x31] = whole & _ALL_ONES
        self._values[0x32] = 0 if whole & _ALL_ONES else _ALL_ONES
        self._values[0x33] = _ALL_ONES if whole >> 64 & 1 else 0

    def _read(self, source: int) -> int:
        if source in self._values:
            return self._values[source]
        low = _GENERAL + 8 * source
        return self._registers.get(low, 0) | self._registers.get(low + 4, 0) << 32

    def _write(self, target: int, value: int) -> None:
        low = _GENERAL + 8 * target
        self._registers[low], self._registers[low + 4] = value & 0xFFFFFFFF, value >> 32


_COMMAND_NAMES: Mapping[tuple[str, int], str] = {
    ("MI", 0x0A): "MI_BATCH_BUFFER_END", ("MI", 0x1A): "MI_MATH", ("MI", 0x1C): "MI_SEMAPHORE_WAIT",
    ("MI", 0x20): "MI_STORE_DATA_IMM", ("MI", 0x22): "MI_LOAD_REGISTER_IMM",
    ("MI", 0x24): "MI_STORE_REGISTER_MEM", ("MI", 0x26): "MI_FLUSH_DW",
    ("MI", 0x29): "MI_LOAD_REGISTER_MEM", ("MI", 0x2A): "MI_LOAD_REGISTER_REG",
    ("MI", 0x2F): "MI_ATOMIC", ("MI", 0x31): "MI_BATCH_BUFFER_START",
    ("3D", 0x01_01): "STATE_BASE_ADDRESS", ("3D", 0x1A_00): "PIPE_CONTROL",
    ("compute", 0): "CFE_STATE", ("compute", 2): "COMPUTE_WALKER",
    ("compute", 8): "COMPUTE_WALKER",
}
"""Kind and code of a command -> its name, that of a method in small letters."""


def _kind(head: int) -> str:
    """The part of the GPU that a command is for; "" if none is known."""
    if head >> 24 == 0x72:
        return "compute"
    return {0: "MI", 2: "copy", 3: "3D", 5: "barrier"}.get(head >> 29, "")


def _code(kind: str, head: int) -> int:
    shift, mask = {"MI": (23, 0x3F), "copy": (22, 0x7F), "compute": (18, 0x3F),
                   "3D": (16, 0x1FFF), "barrier": (26, 7)}[kind]
    return head >> shift & mask


def _length(kind: str, head: int) -> int:
    """Words of a command; those of small opcodes have no length."""
    code = _code(kind, head)
    if (kind == "MI" and code < _FIRST_WITH_LENGTH) or (kind, code) == ("3D", _PIPELINE_SELECT):
        return 1
    return (head & (0x3F if (kind, code) == ("MI", _FLUSH) else 0xFF)) + 2


def _address(low: int, high: int) -> int:
    return (low & ~3) | high << 32
