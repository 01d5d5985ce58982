"""Find the register bytes that an instruction reads and writes.

Sets of bytes are bit masks over the general registers and accumulators.  They lack registers that
an address register selects, and the sources of moves without destination.  IGC writes such moves on
pvc to end the suppression of repeated reads.  Sizes of messages come from their descriptors, those
of dpas from IGC, visa/iga/IGALibrary/IR/RegDeps.cpp (`getDPASSrcDepUpBound`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator.dpas import PRODUCTS, SCALE_GROUP, bits_of, shape_of
from triton_xe.runtime.emulator.instruction import Instruction, Operand, Region
from triton_xe.runtime.emulator.messages.lsc import OPERATIONS, UNITS, Lsc, field, lsc
from triton_xe.runtime.emulator.operands import elements
from triton_xe.runtime.emulator.registers import (
    GENERAL_BYTES,
    SIZES,
    byte_offset,
)

_LONGEST_NAMED = 31
"""The response length in the descriptor of a 2D block of 31 or 32 registers."""
_BLOCK_HEADER_BYTES = 32
GENERAL = (1 << GENERAL_BYTES) - 1
"""The bytes of the general registers."""
_FILES = ("r", "acc")


@dataclass(frozen=True)
class Footprint:
    """Register bytes that an instruction reads and writes, as bit masks."""

    reads: int
    writes: int


def footprint(instruction: Instruction, device: Target) -> Footprint:
    """Bytes of the register file that an instruction reads and writes, as bit masks."""
    grf_bytes = device.grf_bytes
    if instruction.op.startswith("send"):
        return _message_footprint(instruction, device)
    if instruction.op in PRODUCTS:
        return _dpas_footprint(instruction, grf_bytes)
    target = instruction.destination
    if target is not None and target.is_null and not instruction.condition:
        return Footprint(0, 0)
    reads = 0
    for source in instruction.sources:
        reads |= _region(source, instruction.width, grf_bytes)
    writes = 0 if target is None else _region(
        replace(target, region=target.region or (1, 1, 0)), instruction.width, grf_bytes)
    if instruction.op == _TWO_HALVES:
        writes |= writes << -(-4 * instruction.width // grf_bytes) * grf_bytes
    implied = _bytes(GENERAL_BYTES, 4 * instruction.width)
    if instruction.op in _READ_ACCUMULATOR:
        reads |= implied
    if instruction.op in _WRITE_ACCUMULATOR or instruction.writes_accumulator:
        writes |= implied
    return Footprint(reads, writes)


_TWO_HALVES = "mullh"
"""Instruction that writes the high half of a product to the registers after its destination."""
_READ_ACCUMULATOR, _WRITE_ACCUMULATOR = ("mach", "macl"), ("mach", "addc", "subb")
"""Instructions that use acc0 without naming it."""


def _bytes(first: int, count: int) -> int:
    return ((1 << count) - 1) << first


def _is_tracked(operand: Operand | None) -> bool:
    """True for operands whose registers are known and tracked."""
    return operand is not None and operand.file in _FILES and operand.kind != "indirect"


def _region(operand: Operand, width: int, grf_bytes: int) -> int:
    """Bit mask of the register bytes that a source operand covers."""
    if not _is_tracked(operand):
        return 0
    size = SIZES.get(operand.type, 1)
    region = (1, 1, 0) if operand.kind == "macro" else operand.region or (0, 1, 0)
    return _elements(region, width, size) << byte_offset(operand, grf_bytes)


@cache
def _elements(region: Region, width: int, size: int) -> int:
    """Mask of the bytes of a region's elements, counted from its first byte."""
    found = 0
    for element in set(elements(region, width).tolist()):
        found |= _bytes(element * size, size)
    return found


def _range(operand: Operand | None, size: int, grf_bytes: int) -> int:
    """Mask of `size` bytes from the start of an operand."""
    if operand is None or operand.file != "r":
        return 0
    return _bytes(operand.number * grf_bytes + operand.sub * SIZES.get(operand.type, 1), size)


def _message_footprint(instruction: Instruction, device: Target) -> Footprint:
    """Registers that a message reads and writes."""
    address, data = instruction.sources[:2]
    grf_bytes = device.grf_bytes
    descriptor = instruction.sources[3]
    number = int(descriptor.value, 0) if descriptor.kind == "immediate" else 0
    count = field(number, "response") if number else 1
    reads = _range(address, address.registers * grf_bytes, grf_bytes) | _range(
        data, data.registers * grf_bytes, grf_bytes)
    is_known = instruction.subop in UNITS and field(number, "op") in OPERATIONS
    if number and is_known and address.file != "s":
        message = lsc(instruction, number, device)
        reads = _sent_bytes(message, address, data)
        is_block = message.operation == "load_block2d"
        if not message.names_results:  # those of a block are in its payload
            count = 1 if is_block else message.data_registers
        elif is_block and count == _LONGEST_NAMED:
            count += 1
    return Footprint(reads, _range(instruction.destination, count * grf_bytes, grf_bytes))


def _sent_bytes(message: Lsc, address: Operand, data: Operand) -> int:
    """Mask of the bytes of addresses and data that a message sends."""
    grf_bytes, width = message.grf_bytes, message.instruction.width
    if message.operation == "fence":
        return 0
    if message.operation.endswith("block2d"):
        return _range(address, _BLOCK_HEADER_BYTES, grf_bytes) | _range(
            data, data.registers * grf_bytes, grf_bytes)
    if message.is_transposed:
        return _range(address, message.address_bytes, grf_bytes) | _range(
            data, len(message.components) * message.register_bytes, grf_bytes)
    found = _range(address, width * message.address_bytes, grf_bytes)
    for start in range(0, data.registers * grf_bytes, message.component_stride):
        for lane in range(width):
            first = start + lane * message.register_bytes + message.shift // 8
            found |= _range(data, message.memory_bytes, grf_bytes) << first
    return found


def _dpas_footprint(instruction: Instruction, grf_bytes: int) -> Footprint:
    """Registers that a DPAS reads and writes."""
    initial, right, left, *scales = instruction.sources
    rows, columns, k = shape_of(instruction)
    reads = (_range(initial, rows * columns * SIZES.get(initial.type, 4), grf_bytes)
             | _range(right, k * columns * bits_of(right) // 8, grf_bytes)
             | _range(left, rows * k * bits_of(left) // 8, grf_bytes))
    for operand, count in zip(scales, (columns, rows), strict=False):
        for start in range(0, k, SCALE_GROUP):
            reads |= _range(operand, count, grf_bytes) << start
    target = instruction.destination
    size = rows * columns * SIZES.get(target.type if target else "", 4)
    return Footprint(reads, _range(target, size, grf_bytes))
