"""Which bytes of the general registers an instruction reads and writes.

Sets are integers with one bit for each byte of the register file.  Registers that an address
register selects are not in them, nor what a move without destination reads: IGC writes such moves
on pvc only to end the suppression of repeated reads.  Sizes of messages come from their
descriptors, those of dpas from IGC, visa/iga/IGALibrary/IR/RegDeps.cpp (`getDPASSrcDepUpBound`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from triton_xe.runtime.emulator.dpas import bits_of
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.operands import elements
from triton_xe.runtime.emulator.registers import SIZES

_RESPONSE, _RESPONSE_BITS = 20, 31


@dataclass(frozen=True)
class Footprint:
    """Bytes that an instruction reads and writes, as sets of bits."""

    reads: int
    writes: int


def footprint(instruction: Instruction, grf_bytes: int) -> Footprint:
    if instruction.op.startswith("send"):
        return _of_message(instruction, grf_bytes)
    if instruction.op == "dpas":
        return _of_dpas(instruction, grf_bytes)
    target = instruction.destination
    if target is not None and target.is_null and not instruction.condition:
        return Footprint(0, 0)
    reads = 0
    for source in instruction.sources:
        reads |= _region(source, instruction.width, grf_bytes)
    writes = 0 if target is None else _region(
        replace(target, region=target.region or (1, 1, 0)), instruction.width, grf_bytes)
    return Footprint(reads, writes)


def _is_general(operand: Operand | None) -> bool:
    return operand is not None and operand.file == "r" and operand.kind != "indirect"


def _region(operand: Operand, width: int, grf_bytes: int) -> int:
    if not _is_general(operand):
        return 0
    size = SIZES.get(operand.type, 1)
    region = (1, 1, 0) if operand.kind == "macro" else operand.region or (0, 1, 0)
    first, found = operand.number * grf_bytes + operand.sub * size, 0
    for element in set(elements(region, width).tolist()):
        found |= ((1 << size) - 1) << first + element * size
    return found


def _range(operand: Operand | None, size: int, grf_bytes: int) -> int:
    """`size` bytes from the beginning of an operand."""
    if operand is None or not _is_general(operand):
        return 0
    return ((1 << size) - 1) << operand.number * grf_bytes + operand.sub * SIZES.get(
        operand.type, 1)


def _of_message(instruction: Instruction, grf_bytes: int) -> Footprint:
    address, data = instruction.sources[:2]
    descriptor = instruction.sources[3]
    count = (int(descriptor.value, 0) >> _RESPONSE & _RESPONSE_BITS
             if descriptor.kind == "immediate" else 1)
    reads = _range(address, address.registers * grf_bytes, grf_bytes) | _range(
        data, data.registers * grf_bytes, grf_bytes)
    return Footprint(reads, _range(instruction.destination, count * grf_bytes, grf_bytes))


def _of_dpas(instruction: Instruction, grf_bytes: int) -> Footprint:
    depth, rows = (int(part) for part in instruction.subop.split("x"))
    initial, right, left = instruction.sources
    columns = instruction.width
    bits = bits_of(left), bits_of(right)
    k = depth * min(8, 32 // max(bits))
    reads = (_range(initial, rows * columns * SIZES.get(initial.type, 4), grf_bytes)
             | _range(right, k * columns * bits[1] // 8, grf_bytes)
             | _range(left, rows * k * bits[0] // 8, grf_bytes))
    target = instruction.destination
    size = rows * columns * SIZES.get(target.type if target else "", 4)
    return Footprint(reads, _range(target, size, grf_bytes))
