"""Operands: from the description of a source or destination to a function on the registers.

Regions and types follow the Intel PRM, volume "3D and GPGPU Programs", "Register Region
Restrictions".  Sources yield arrays (threads, channels) or (threads, 1) if all channels read one
element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import UnsupportedError
from triton_xe.runtime.emulator.instruction import Operand, Region
from triton_xe.runtime.emulator.memory import fault
from triton_xe.runtime.emulator.numbers import bf16_to_float, convert
from triton_xe.runtime.emulator.registers import (
    ADDRESSES,
    DTYPES,
    FLOATS,
    GENERAL_BYTES,
    SIZES,
    UNSIGNED,
    Array,
    Bools,
    Threads,
    byte_offset,
)

Read = Callable[[Threads], Array]
Write = Callable[[Threads, Array, "Bools | None"], Array]
"""Stores values under a mask; returns them as they are stored."""
Positions = slice | NDArray[np.intp]
_VECTOR_TYPES = {"v": "w", "uv": "uw", "vf": "f"}


@dataclass(frozen=True)
class Source:
    """Reads one source: `read` as stored (bf as fp32), without its modifiers."""

    read: Read
    type: str
    modifiers: str = ""

    @property
    def is_float(self) -> bool:
        return self.type in FLOATS

    @property
    def size(self) -> int:
        return SIZES[self.type]

    def floats(self) -> Read:
        """The numbers with modifiers applied."""
        read = self.read
        if self.modifiers == "n":
            return lambda threads: -read(threads)
        if self.modifiers:
            negate = "n" in self.modifiers
            return lambda threads: -np.abs(read(threads)) if negate else np.abs(read(threads))
        return read

    def integers(self) -> Read:
        """The exact numbers, modifiers applied: int64, or Python integers for unsigned 64 bits."""
        read, modifiers = self.read, self.modifiers
        dtype: Any = object if self.type == "uq" or (self.type == "q" and modifiers) else np.int64

        def exact(threads: Threads) -> Array:
            values = read(threads).astype(dtype)
            values = np.abs(values) if "a" in modifiers else values
            return -values if "n" in modifiers else values

        return exact

    def values(self) -> Read:
        """`floats` or `integers`, by type; integers without modifiers as stored."""
        if self.is_float:
            return self.floats()
        return self.integers() if self.modifiers else self.read

    def bits(self, size: int, *, inverts: bool = False) -> Read:
        """The integer modulo 2 to the power of 8 * size, unsigned; `-` inverts in logic."""
        dtype, read, modifiers = UNSIGNED[size], self.read, self.modifiers

        def wrapped(threads: Threads) -> Array:
            values = read(threads)
            return values.view(dtype) if values.dtype.itemsize == size else values.astype(dtype)

        if not modifiers:
            return wrapped
        if inverts:
            return lambda threads: ~wrapped(threads)
        negate, absolute = "n" in modifiers, "a" in modifiers

        def modified(threads: Threads) -> Array:
            values = read(threads)
            values = np.abs(values.astype(np.int64)) if absolute else values
            return (dtype(0) - values.astype(dtype)) if negate else values.astype(dtype)

        return modified


def source(
    operand: Operand, channels: int, grf_bytes: int, target: Operand | None = None
) -> Source:
    """The source that an operand describes, for that many channels of an instruction's result."""
    if operand.kind == "immediate":
        values, kind = immediate(operand)
        if len(values) > 1:
            values = np.resize(values[:: _channel_stride(kind, target)], channels)
        fixed = values[None, :]
        return Source(lambda threads: fixed, kind)
    kind = operand.type
    if operand.is_null:
        zero = np.zeros((1, 1), np.float32 if kind == "bf" else DTYPES[kind])
        return Source(lambda threads: zero, "f" if kind == "bf" else kind)
    if operand.kind == "indirect":
        read = _read_indirect(operand, channels)
    elif operand.kind == "register":
        read = _read_direct(operand, channels, grf_bytes)
    else:
        raise UnsupportedError(f"a source of kind {operand.kind} has no definition here")
    if kind == "bf":
        return Source(lambda threads: bf16_to_float(read(threads)), "f", operand.modifiers)
    return Source(read, kind, operand.modifiers)


@cache
def elements(region: Region, channels: int) -> NDArray[np.intp]:
    """Element of each channel in a region, counted from its first; not to be changed.

    >>> elements((8, 4, 2), 8).tolist()
    [0, 2, 4, 6, 8, 10, 12, 14]
    """
    vertical, width, step = region
    channel = np.arange(channels)
    return channel // width * vertical + channel % width * step


def _element_offset(operand: Operand, grf_bytes: int) -> int:
    offset, size = byte_offset(operand, grf_bytes), SIZES[operand.type]
    if offset % size:
        raise UnsupportedError(f"{operand.file}{operand.number}.{operand.sub}:{operand.type} is "
                               "not aligned to its type")
    return offset // size


def positions(operand: Operand, channels: int, grf_bytes: int) -> Positions:
    """Positions of a direct source's elements in the view of its type: a slice if possible."""
    first, region = _element_offset(operand, grf_bytes), operand.region or (0, 1, 0)
    step, last = _progression(region, channels)
    if step:
        return slice(first, first + last + 1, step)
    return elements(region, channels) + first


@cache
def _progression(region: Region, channels: int) -> tuple[int, int]:
    """Step and last element of a region with equal steps; the step is 0 for others.

    >>> _progression((0, 1, 0), 16), _progression((16, 8, 2), 16), _progression((4, 1, 0), 2)
    ((1, 0), (2, 30), (4, 4))
    """
    inside = elements(region, channels)
    if not inside.any():
        return 1, 0
    step = int(inside[1] - inside[0])
    return (step, int(inside[-1])) if step > 0 and (np.diff(inside) == step).all() else (0, 0)


def _read_direct(operand: Operand, channels: int, grf_bytes: int) -> Read:
    dtype, where = DTYPES[operand.type], positions(operand, channels, grf_bytes)
    return lambda threads: threads.views[dtype][:, where]


def _rows(threads: Threads) -> NDArray[np.intp]:
    return np.arange(threads.count)[:, None]


def addresses(operand: Operand, channels: int) -> Read:
    """Bytes of the register file that a register-indirect source begins at in each channel.

    `<w,h>` takes an address register for each row.
    """
    vertical, width, step = operand.region or (0, 1, 0)
    channel, first = np.arange(channels), ADDRESSES + operand.sub
    by_row = vertical < 0
    registers = first + channel // width if by_row else np.full(channels, first)
    inside = channel % width * step + (0 if by_row else channel // width * vertical)
    added = inside * SIZES[operand.type] + operand.offset[0]
    return lambda threads: threads.views[np.uint16][:, registers].astype(np.int64) + added


def _read_indirect(operand: Operand, channels: int) -> Read:
    """A register-indirect source; anything where `check_addresses` would refuse the address."""
    dtype, size = DTYPES[operand.type], SIZES[operand.type]
    at, last = addresses(operand, channels), GENERAL_BYTES // size - 1
    return lambda threads: threads.views[dtype][_rows(threads), np.clip(
        at(threads) // size, 0, last)]


def check_addresses(at: Array, size: int, general: int) -> None:
    """Refuse addresses of elements of `size` bytes that are misaligned or in no register.

    `general` is the number of bytes in the general registers.
    """
    if (at % size).any():
        raise UnsupportedError("a register-indirect operand is not aligned to its type")
    if (at < 0).any() or (at >= general).any():
        raise fault("out of bounds", "a register-indirect operand is outside of the register file")


def destination(operand: Operand | None, channels: int, grf_bytes: int) -> Write:
    """A function that stores results, converted to the operand's type, under a mask."""
    if operand is None:
        return lambda threads, values, mask: values
    kind, saturate = operand.type, operand.saturate
    if operand.is_null:
        return lambda threads, values, mask: convert(values, kind, saturate, threads)
    if operand.kind == "indirect":
        return _write_indirect(operand, channels)
    dtype = DTYPES[kind]
    step = (operand.region or (0, 1, 1))[0] or 1
    first = _element_offset(operand, grf_bytes)
    where = slice(first, first + (channels - 1) * step + 1, step)

    def write(threads: Threads, values: Array, mask: Bools | None) -> Array:
        values = convert(values, kind, saturate, threads)
        if mask is None:
            threads.views[dtype][:, where] = values
        else:
            np.copyto(threads.views[dtype][:, where], values, where=mask)
        return values

    return write


def _write_indirect(operand: Operand, channels: int) -> Write:
    """Compile a write to registers at the byte offset that an address register has."""
    kind, dtype, size = operand.type, DTYPES[operand.type], SIZES[operand.type]
    step = (operand.region or (0, 1, 1))[0] or 1
    added = np.arange(channels) * step * size + operand.offset[0]
    register = slice(ADDRESSES + operand.sub, ADDRESSES + operand.sub + 1)

    def write(threads: Threads, values: Array, mask: Bools | None) -> Array:
        at = threads.views[np.uint16][:, register].astype(np.int64) + added
        values = np.broadcast_to(convert(values, kind, operand.saturate, threads), at.shape)
        chosen = np.broadcast_to(True if mask is None else mask, at.shape)
        check_addresses(at[chosen], size, threads.general)
        rows = np.broadcast_to(_rows(threads), at.shape)
        threads.views[dtype][rows[chosen], at[chosen] // size] = values[chosen]
        return values

    return write


def immediate(operand: Operand) -> tuple[Array, str]:
    """The elements of an immediate and the type that they have; vectors have 8 or 4 elements."""
    kind, text = operand.type, operand.value
    if kind in _VECTOR_TYPES:
        numbers = [_VECTOR_ELEMENT[kind](int(text, 16), i) for i in range(4 if kind == "vf" else 8)]
        return np.array(numbers, DTYPES[_VECTOR_TYPES[kind]]), _VECTOR_TYPES[kind]
    if kind in FLOATS:
        return _float_immediate(kind, text)
    size = SIZES[kind]
    number = int(text, 0) & (1 << 8 * size) - 1
    return np.array([number], UNSIGNED[size]).view(DTYPES[kind]), kind


def _float_immediate(kind: str, text: str) -> tuple[Array, str]:
    bits = _float_bits(kind, text)
    return (bf16_to_float(bits), "f") if kind == "bf" else (bits.view(DTYPES[kind]), kind)


def _channel_stride(kind: str, target: Operand | None) -> int:
    """Elements of a vector immediate from one channel's to the next channel's.

    An element belongs to a position in the result: `0x0C080400:uv` adds 0, 4, 8, 12 to `:ud`
    (IGC, `HWConformity::fixDstAlignmentWithVectorImm`).
    """
    if target is None or target.region is None:
        return 1
    apart, rest = divmod(SIZES[target.type] * (target.region[0] or 1), SIZES[kind])
    if rest or not apart:
        raise UnsupportedError(f"a vector immediate of :{kind} for a result of :{target.type} has "
                               "no definition here")
    return apart


def immediate_bits(operand: Operand) -> int:
    """The bits of a float immediate."""
    return int(_float_bits(operand.type, operand.value)[0])


def _float_bits(kind: str, text: str) -> Array:
    if "0x" in text.lower() and "p" not in text.lower() and "." not in text:
        return np.array([int(text, 16)], UNSIGNED[SIZES[kind]])
    plain = text.lower().replace("qnan", "nan").replace("snan", "nan")
    number = float.fromhex(plain) if "0x" in plain else float(plain)
    if kind == "bf":
        return (np.array([number], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.array([number], DTYPES[kind]).view(UNSIGNED[SIZES[kind]])


def _signed_nibble(bits: int, index: int) -> int:
    nibble = bits >> 4 * index & 15
    return nibble - 16 if nibble > 7 else nibble


def _restricted_float(bits: int, index: int) -> float:
    """An 8-bit float of a `:vf` immediate: sign, 3 bits of exponent (bias 3), 4 of mantissa."""
    byte = bits >> 8 * index & 255
    if not byte & 0x7F:
        return -0.0 if byte else 0.0
    return (-1.0) ** (byte >> 7) * 2.0 ** ((byte >> 4 & 7) - 3) * (1 + (byte & 15) / 16)


_VECTOR_ELEMENT: dict[str, Callable[[int, int], float]] = {
    "v": _signed_nibble, "uv": lambda bits, index: bits >> 4 * index & 15, "vf": _restricted_float,
}  # fmt: skip
