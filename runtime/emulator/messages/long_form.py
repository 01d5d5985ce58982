"""Translate messages of Xe3P (`sendg`, `sendgx`) to those of earlier devices (`send`).

Their descriptor has 64 bits, including scale and offset of the addresses.  The base that is added
to addresses is in scalar registers.  Layout: IGC, visa/iga/IGALibrary/Backend/Messages/E64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.messages.lsc import (
    DATA_BYTES,
    FIELDS,
    OPERATIONS,
    UNITS,
    VECTORS,
)

_LONG_FIELDS: Mapping[str, tuple[int, int]] = {
    "op": (0, 6), "vector": (7, 3), "components": (7, 4), "vnni": (9, 1), "transposed": (10, 1),
    "data_size": (11, 3), "address": (14, 2), "x": (22, 12), "y": (34, 12),
    "flat_offset": (22, 22), "surface_offset": (27, 17), "scale": (44, 2),
}  # fmt: skip
"""Field of a descriptor of 64 bits -> lowest bit and width."""
_SIGNED, _SURFACE = 1, 3
_ADDRESSES: Mapping[int, tuple[int, int]] = {
    0: (2, 0), _SIGNED: (2, 0), 2: (3, 0), _SURFACE: (2, 2),
}  # fmt: skip
"""Kind of addresses in a `sendg` -> size of addresses and kind of surface in a `send`."""


def _field(descriptor: int, name: str) -> int:
    low, width = _LONG_FIELDS[name]
    return descriptor >> low & (1 << width) - 1


def _signed(descriptor: int, name: str) -> int:
    half = 1 << _LONG_FIELDS[name][1] - 1
    return (_field(descriptor, name) ^ half) - half


def short_form(instruction: Instruction) -> Instruction:
    """Translate a `sendg` to the sources and descriptor of a `send`; keep other instructions."""
    if not instruction.op.startswith("sendg"):
        return instruction
    address, data, *bases, last = instruction.sources
    descriptor = int(last.value, 0)
    operation = OPERATIONS.get(_field(descriptor, "op"), "")
    if instruction.subop in UNITS and operation not in ("", "fence"):
        address = _address(address, descriptor, operation)
        descriptor = _descriptor(descriptor, operation, address.registers)
    base = bases[0] if bases else Operand("register", file="null")
    return replace(instruction, sources=(
        address, data, base, replace(last, value=hex(descriptor))))


def _descriptor(descriptor: int, operation: str, length: int) -> int:
    """The descriptor of a `send`, without the number of returned registers, which is not known."""
    size, surface = _ADDRESSES[_field(descriptor, "address")]
    found = {"op": _field(descriptor, "op"), "data_size": _field(descriptor, "data_size"),
             "length": length}
    if operation.endswith("block2d"):
        names: tuple[str, ...] = ("vnni", "transposed")
    else:
        names = ("components",) if operation.endswith("quad") else ("vector", "transposed")
        found |= {"address_size": size, "surface": surface}
    found |= {name: _field(descriptor, name) for name in names}
    return sum(value << FIELDS[name][0] for name, value in found.items())


def _address(address: Operand, descriptor: int, operation: str) -> Operand:
    """The address with its offset and scale in bytes; the offsets of a block are in elements."""
    if operation.endswith("block2d"):
        return replace(address, offset=(_signed(descriptor, "x"), _signed(descriptor, "y")))
    kind, size = _field(descriptor, "address"), DATA_BYTES[_field(descriptor, "data_size")][0]
    is_surface = kind == _SURFACE
    offset = _signed(descriptor, "surface_offset" if is_surface else "flat_offset") * size
    scale = _field(descriptor, "scale")
    count = (_field(descriptor, "components").bit_count() if operation.endswith("quad")
             else VECTORS[_field(descriptor, "vector")])
    return replace(
        address, offset=(offset,), scale=size * count << scale - 1 if scale else 1,
        is_signed=kind == _SIGNED, surface="ss" if is_surface else "flat")
