"""The threads of a launch: their registers as one array of bytes with a view per type.

Threads are the leading axis, so that one numpy operation executes an instruction for all of them.
General registers come first.  Architecture registers follow at fixed offsets of the same array,
therefore an instruction may read a flag or an accumulator as any type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator.instruction import Operand
from triton_xe.runtime.emulator.memory import Memories

Array = NDArray[Any]
Bools = NDArray[np.bool_]

DTYPES: Mapping[str, Any] = {
    "ub": np.uint8, "b": np.int8, "uw": np.uint16, "w": np.int16, "ud": np.uint32, "d": np.int32,
    "uq": np.uint64, "q": np.int64, "hf": np.float16, "f": np.float32, "df": np.float64,
    "bf": np.uint16, "tf32": np.float32,
}  # fmt: skip
"""Type of an operand -> numpy type that it is stored as."""
SIZES: Mapping[str, int] = {name: np.dtype(dtype).itemsize for name, dtype in DTYPES.items()}
FLOATS = frozenset(("hf", "f", "df", "bf", "tf32"))
UNSIGNED: Mapping[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
CHANNELS = 32
WIDE_ELEMENTS = 256
"""Elements of 4 bytes in all accumulators."""

GENERAL_BYTES = 512 * 64
"""Bytes of the most general registers that a thread may have, on Xe3P."""
STAGING_REGISTERS = 64
_ARCHITECTURE: Mapping[str, tuple[int, int]] = {
    "acc": (0, 1024), "a": (1024, 64), "f": (1088, 32), "cr": (1120, 32), "sr": (1152, 32),
    "ce": (1184, 16), "n": (1200, 16), "tm": (1216, 32), "tdr": (1248, 32), "s": (1280, 256),
}  # fmt: skip
"""Architecture registers: offset after the general registers, and size in bytes."""
FLAGS = (GENERAL_BYTES + _ARCHITECTURE["f"][0]) // 4
"""Position of f0 in the view of 32-bit words."""
ADDRESSES = (GENERAL_BYTES + _ARCHITECTURE["a"][0]) // 2
"""Position of a0.0 in the view of 16-bit words."""
CONTROL = (GENERAL_BYTES + _ARCHITECTURE["cr"][0]) // 4
"""Position of cr0.0 in the view of 32-bit words."""
SCALARS = GENERAL_BYTES + _ARCHITECTURE["s"][0]
"""Position of s0 in bytes."""
STAGING = GENERAL_BYTES + 1536
"""Position in bytes of the registers in which payloads of gathered messages are assembled."""
_BYTES = STAGING + STAGING_REGISTERS * 64

ROUND_NEAREST, ROUND_UP, ROUND_DOWN, ROUND_TO_ZERO = range(4)
_DENORMAL_BITS: Mapping[str, int] = {"df": 6, "f": 7, "hf": 10}
_SINGLE_FLOW, _INTEGER_ROUNDING = 1 << 2, 12
_KNOWN_CONTROL = (
    _SINGLE_FLOW | 0x30 | 1 << _INTEGER_ROUNDING | 1 << 30
    | sum(1 << bit for bit in _DENORMAL_BITS.values()))
"""Bits of cr0.0 whose meaning is implemented: rounding mode [5:4], kept denormals, and [12].  With
the last one, which oneDNN sets, conversions of fp32 to integers round; else they truncate.  Single
program flow says that channels do not diverge, which needs nothing.  Bit 30 is set by Intel's
compiler in each kernel; its meaning is not published."""


class Threads:
    """Registers of the threads of a launch, and the memories that they reach.

    `groups` has the work-group of each thread; `lanes` channels of each are dispatched, with
    `general` bytes of general registers.
    """

    def __init__(self, groups: Array, lanes: int, memories: Memories, general: int) -> None:
        count = len(groups)
        self.count, self.memories, self.general = count, memories, general
        self.groups, self.numbers = groups, np.arange(count)
        self.bytes: NDArray[np.uint8] = np.zeros((count, _BYTES), np.uint8)
        self.bytes[:, :general] = memories.undefined.fill((count, general))
        self.enabled: Bools = np.zeros((count, CHANNELS), bool)
        self.enabled[:, :lanes] = True
        self.wide: NDArray[np.int64] = np.zeros((count, WIDE_ELEMENTS), np.int64)
        """The integer accumulator, which has more than 32 bits for each element."""
        self.exponents: dict[str, tuple[NDArray[np.float64], NDArray[Any]]] = {}
        """Macro registers (`mme0` ...): a mantissa and an exponent of each channel."""
        self.rounding: Array | None = None
        """Rounding mode of each thread, (count, 1); None if all round to nearest even."""
        self.rounds_integers: Bools | None = None
        """True for threads, (count, 1), that round fp32 to integers; None if all truncate."""
        self.flushed: Mapping[str, Bools] = {}
        """Types whose denormals become zero -> threads, (count, 1), that do so."""
        self.polled: NDArray[np.uint64] = np.zeros((count, 2), np.uint64)
        """Program counter of each thread's last atomic with a result, and the sum of its values."""
        self.spins = np.zeros(count, bool)
        """True for threads whose last two atomics are one instruction and had equal results."""
        self._make_views()

    def note_polls(self, pc: int, rows: Array, bits: Array) -> None:
        """Note the results of an atomic message, by the rows of their threads."""
        sums = np.zeros(self.count, np.uint64)
        np.add.at(sums, rows, bits.astype(np.uint64))
        found = np.stack([np.full(self.count, pc, np.uint64), sums], axis=1)
        here = np.bincount(rows, minlength=self.count) > 0
        self.spins[here] = (found == self.polled).all(1)[here]
        self.polled[here] = found[here]

    def _make_views(self) -> None:
        kinds = {*DTYPES.values(), np.int64, np.uint64}
        self.views: dict[Any, Array] = {kind: self.bytes.view(kind) for kind in kinds}

    def thread(self, number: int) -> Threads:
        """The registers of one thread, sharing memory with this object."""
        one = object.__new__(Threads)
        rows = slice(number, number + 1)
        one.count, one.bytes, one.enabled = 1, self.bytes[rows], self.enabled[rows]
        one.memories, one.general = self.memories, self.general
        one.groups, one.numbers = self.groups[rows], self.numbers[rows]
        one.wide, one.exponents = self.wide[rows], {}
        one.polled, one.spins = self.polled[rows], self.spins[rows]
        one._make_views()
        one.rounding, one.rounds_integers, one.flushed = None, None, {}
        one.control_changed()
        return one

    def control_changed(self) -> None:
        """Read the rounding mode and the treatment of denormals from cr0.0 again."""
        control = self.views[np.uint32][:, CONTROL : CONTROL + 1]
        if unknown := int(np.bitwise_or.reduce(control, axis=None)) & ~_KNOWN_CONTROL:
            raise UnsupportedError(
                f"bits {unknown:#x} of the control register cr0.0 have no definition here")
        mode = control >> 4 & 3
        self.rounding = mode if mode.any() else None
        rounds = (control >> _INTEGER_ROUNDING & 1).astype(bool)
        self.rounds_integers = rounds if rounds.any() else None
        self.flushed = {
            name: off for name, bit in _DENORMAL_BITS.items()
            if (off := (control >> bit & 1) == 0).any()}


def byte_offset(operand: Operand, grf_bytes: int) -> int:
    """Position of a register operand in the register file's bytes."""
    file, number = operand.file, operand.number
    size = SIZES[operand.type] if operand.type else 1
    if file == "r":
        return number * grf_bytes + operand.sub * size
    if file not in _ARCHITECTURE:
        raise UnsupportedError(f"register {file}{number} has no definition here")
    start, limit = _ARCHITECTURE[file]
    inside = {"f": number * 4 + operand.sub * 2, "a": operand.sub * size,
              "acc": number * grf_bytes + operand.sub * size}.get(file, operand.sub * size)
    if inside >= limit:
        raise UnsupportedError(f"register {file}{number}.{operand.sub} has no definition here")
    return GENERAL_BYTES + start + inside


def register_name(position: int, grf_bytes: int) -> str:
    """The general register or accumulator that a byte belongs to.

    >>> register_name(130, 64), register_name(GENERAL_BYTES + 70, 64)
    ('r2', 'acc1')
    """
    is_general = position < GENERAL_BYTES
    return f"{'r' if is_general else 'acc'}{position % GENERAL_BYTES // grf_bytes}"
