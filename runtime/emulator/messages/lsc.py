"""LSC messages: decode descriptors, and execute loads and stores per channel or transposed.

Layout of descriptors: IGC, visa/iga/IGALibrary/Backend/Messages/MessageDecoderLSC.cpp, and
documentation/visa/instructions/LSC_UNTYPED.md.  `FIELDS` and the tables after it are all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target as Device
from triton_xe.runtime.emulator.channels import Mask, Running, execution_mask
from triton_xe.runtime.emulator.instruction import Instruction, Operand
from triton_xe.runtime.emulator.memory import SCRATCH_HANDLE, Place, fault, local_addresses
from triton_xe.runtime.emulator.registers import (
    ADDRESSES,
    SCALARS,
    STAGING,
    UNSIGNED,
    Array,
    Bools,
    Threads,
)

Step = Callable[[Threads, Running], Any]
_XE2 = (20,)
FIELDS: Mapping[str, tuple[int, int]] = {
    "op": (0, 6), "vnni": (7, 1), "address_size": (7, 2), "data_size": (9, 3), "vector": (12, 3),
    "components": (12, 4), "transposed": (15, 1), "surface": (29, 2), "response": (20, 5),
    "length": (25, 4),
}  # fmt: skip
"""Field of a descriptor -> lowest bit and width."""
OPERATIONS: Mapping[int, str] = {
    0: "load", 2: "load_quad", 3: "load_block2d", 4: "store", 6: "store_quad", 7: "store_block2d",
    8: "atomic_iinc", 9: "atomic_idec", 10: "atomic_load", 11: "atomic_store", 12: "atomic_iadd",
    13: "atomic_isub", 14: "atomic_smin", 15: "atomic_smax", 16: "atomic_umin",
    17: "atomic_umax", 18: "atomic_icas", 19: "atomic_fadd", 20: "atomic_fsub",
    21: "atomic_fmin", 22: "atomic_fmax", 23: "atomic_fcas", 24: "atomic_and", 25: "atomic_or",
    26: "atomic_xor", 31: "fence", 33: "atomic_bfadd", 34: "atomic_bfsub", 35: "atomic_bfmin",
    36: "atomic_bfmax", 37: "atomic_bfcas",
}  # fmt: skip
ADDRESS_BYTES: Mapping[int, int] = {1: 2, 2: 4, 3: 8}
DATA_BYTES: Mapping[int, tuple[int, int, int]] = {
    0: (1, 1, 0), 1: (2, 2, 0), 2: (4, 4, 0), 3: (8, 8, 0), 4: (1, 4, 0), 5: (2, 4, 0),
    6: (2, 4, 16),
}  # fmt: skip
"""Data size -> bytes in memory, bytes in a register, bits that values are shifted up (d16u32h)."""
VECTORS = (1, 2, 3, 4, 8, 16, 32, 64)
UNITS = ("ugm", "ugml", "slm")
"""Units that LSC messages go to."""
SURFACES = ("flat", "bss", "ss", "bti")
STATELESS = (253, 255)
"""Binding table indices of stateless memory; 32-bit addresses count from general state base."""


def field(descriptor: int, name: str) -> int:
    low, width = FIELDS[name]
    return descriptor >> low & (1 << width) - 1


@dataclass(frozen=True)
class Lsc:
    """An LSC message: its descriptor decoded, and its registers as byte positions."""

    instruction: Instruction
    device: Device
    operation: str
    descriptor: int
    address_at: int
    data_at: int | None
    result_at: int | None
    surface: str
    surface_number: int | None
    """None if an address register has it."""

    @property
    def grf_bytes(self) -> int:
        return self.device.grf_bytes

    @property
    def registers(self) -> int:
        """General registers that a thread may have."""
        return self.device.grf_modes[-1]

    @property
    def names_results(self) -> bool:
        """True if the descriptor says how many registers are returned."""
        return not self.instruction.op.startswith("sendg")

    @property
    def memory_bytes(self) -> int:
        return self._sizes[0]

    @property
    def register_bytes(self) -> int:
        return self._sizes[1]

    @property
    def shift(self) -> int:
        return self._sizes[2]

    @property
    def _sizes(self) -> tuple[int, int, int]:
        number = field(self.descriptor, "data_size")
        if number not in DATA_BYTES:
            raise UnsupportedError(f"data size {number} of an LSC message has no definition here")
        return DATA_BYTES[number]

    @property
    def address_bytes(self) -> int:
        number = field(self.descriptor, "address_size")
        if number not in ADDRESS_BYTES:
            raise UnsupportedError(f"address size {number} of a message has no definition here")
        return ADDRESS_BYTES[number]

    @property
    def components(self) -> tuple[int, ...]:
        """Elements of each channel that are moved."""
        if self.operation.endswith("quad"):
            mask = field(self.descriptor, "components")
            return tuple(i for i in range(4) if mask >> i & 1)
        return tuple(range(VECTORS[field(self.descriptor, "vector")]))

    @property
    def is_transposed(self) -> bool:
        """True if one address has all elements of a vector; quad messages have no such bit."""
        return not self.operation.endswith("quad") and bool(field(self.descriptor, "transposed"))

    @property
    def lanes(self) -> int:
        """Channels that the payload has room for: at least as many as dwords in a register."""
        return max(self.instruction.width, self.grf_bytes // 4)

    @property
    def component_stride(self) -> int:
        """Bytes in registers from one component to the next: whole registers."""
        return -(-self.lanes * self.register_bytes // self.grf_bytes) * self.grf_bytes

    @property
    def address_registers(self) -> int:
        """Registers of addresses."""
        if self.is_transposed:
            return 1
        return -(-self.lanes * self.address_bytes // self.grf_bytes)

    @property
    def data_registers(self) -> int:
        """Registers of the elements that are loaded or stored."""
        count = len(self.components)
        if self.is_transposed:
            return -(-count * self.register_bytes // self.grf_bytes)
        return count * self.component_stride // self.grf_bytes

    @property
    def has_undefined_bits(self) -> bool:
        """True for d8u32 and d16u32 before Xe2, which extends with zeros (MessageDecoderLSC.cpp).

        IGC's table calls the upper bits undefined.
        """
        return (self.device.ip_version < _XE2 and self.memory_bytes < self.register_bytes
                and not self.shift)


def lsc(instruction: Instruction, descriptor: int, device: Device) -> Lsc:
    """Decode an LSC message; `UnsupportedError` names an operation that is not in the table."""
    operation = OPERATIONS.get(descriptor & 63)
    if operation is None:
        raise UnsupportedError(
            f"LSC message {descriptor & 63:#x} (send.{instruction.subop}, descriptor "
            f"{descriptor:#x}) has no definition here")
    address, data, extended = instruction.sources[:3]
    grf_bytes, kind = device.grf_bytes, SURFACES[field(descriptor, "surface")]
    number = int(extended.value, 0) >> 24 & 255 if kind == "bti" and extended.value else None
    return Lsc(
        instruction, device, operation, descriptor, address.number * grf_bytes,
        _position(data, grf_bytes), _position(instruction.destination, grf_bytes),
        "slm" if instruction.subop == "slm" else kind, number)


def _position(operand: Operand | None, grf_bytes: int) -> int | None:
    if operand is None or operand.is_null:
        return None
    return operand.number * grf_bytes


def check_lengths(message: Lsc, operands: int) -> None:
    """Refuse a message whose registers are fewer or more than its payload takes.

    `operands` are those that it sends for each channel.  A response of 31 registers may be one of
    32, which the field cannot say.
    """
    if message.instruction.sources[0].number * message.grf_bytes >= STAGING:
        return
    data = 0 if message.data_at is None else message.instruction.sources[1].registers
    lengths = {"addresses": (field(message.descriptor, "length"), message.address_registers),
               "data": (data, operands * message.data_registers)}
    if message.result_at is not None and message.names_results:
        lengths["results"] = (min(field(message.descriptor, "response"), 31),
                              min(message.data_registers, 31))
    first = message.data_at if message.data_at is not None else message.result_at or 0
    if first // message.grf_bytes + message.data_registers > message.registers:
        raise fault("payload", f"{message.operation} has data after the last register")
    for name, (given, needed) in lengths.items():
        if given != needed:
            raise fault("payload", f"{message.operation} has {given} registers of {name}, but "
                                   f"takes {needed}")


@dataclass(frozen=True)
class Target:
    """Memory that a message addresses in a launch, and the base that its addresses count from."""

    place: Place
    base: int = 0
    is_local: bool = False

    def addresses(self, addresses: Array) -> Array:
        """GPU addresses for the addresses of a message."""
        return local_addresses(addresses) if self.is_local else addresses + self.base


def target_of(message: Lsc) -> Callable[[Threads, Running], Target]:
    """The memory that a message accesses."""
    if message.surface == "slm":
        return lambda threads, running: Target(
            Place(threads.memories.local, threads.groups), is_local=True)
    if message.surface == "flat":
        everything = Target(Place())
        return lambda threads, running: everything
    if message.surface == "bti" and message.surface_number in STATELESS:
        short = message.address_bytes == 4
        return lambda threads, running: Target(
            Place(), threads.memories.general_state_base if short else 0)
    return _surface_of(message)


def _surface_of(message: Lsc) -> Callable[[Threads, Running], Target]:
    """A surface: the scratch memory of each thread, or one that the launch describes."""
    kind, fixed = message.surface, message.surface_number
    word = ADDRESSES // 2 + message.instruction.sources[2].sub
    scalar = _scalar(message)
    numbers = scalar or (lambda threads: threads.views[np.uint32][:, word])

    def surface(threads: Threads, running: Running) -> Target:
        number = fixed if fixed is not None else _uniform(numbers(threads)[running.threads])
        scratch = threads.memories.scratch_pointer if scalar else SCRATCH_HANDLE >> 4
        if number == scratch:
            return Target(Place(threads.memories.scratch, threads.numbers))
        base, _ = threads.memories.surface(kind, number)
        return Target(Place(), base)

    return surface


def _uniform(values: Array) -> int:
    if (values != values[0]).any():
        raise UnsupportedError("threads of one message use different surfaces")
    return int(values[0])


Address = Callable[[Threads], Array]


def addresses_of(message: Lsc, count: int) -> Address:
    """The addresses of `count` channels: base + scale * register + immediate offset."""
    size, operand = message.address_bytes, message.instruction.sources[0]
    scale, offset = operand.scale, operand.offset[0]
    first, dtype = message.address_at // size, np.int32 if operand.is_signed else UNSIGNED[size]
    base = None if message.surface == "ss" else _scalar(message)

    def addresses(threads: Threads) -> Array:
        found: Array = threads.views[dtype][:, first : first + count].astype(np.int64)
        found = found * scale if scale != 1 else found
        found = found + base(threads)[:, None].astype(np.int64) if base else found
        return found + offset if offset else found

    return addresses


def _scalar(message: Lsc) -> Callable[[Threads], Array] | None:
    """The scalar register that a message of Xe3P names; None if it names none."""
    extended = message.instruction.sources[2]
    if extended.file != "s":
        return None
    dtype = np.uint32 if message.surface == "slm" else np.uint64
    element = (SCALARS + extended.sub) // np.dtype(dtype).itemsize
    return lambda threads: threads.views[dtype][:, element]


def register_part(position: int, size: int, count: int) -> slice:
    """Elements of a register image in the view of their size."""
    return slice(position // size, position // size + count)


def chosen_channels(
    mask: Mask, threads: Threads, running: Running, shape: tuple[int, ...]
) -> Bools | None:
    """The channels of a message as an array of this shape; None means all."""
    found = mask(threads, running)
    if found is None:
        return None
    return np.broadcast_to(found.reshape(found.shape + (1,) * (len(shape) - 2)), shape)


def access(message: Lsc) -> Step:
    """Loads and stores; components of a channel follow each other in memory."""
    check_lengths(message, int(message.operation.startswith("store")))
    if message.is_transposed:
        return _transposed(message)
    width, components = message.instruction.width, message.components
    offsets = np.array(components) * message.memory_bytes
    parts = [register_part((message.data_at if message.data_at is not None
                            else message.result_at or 0) + i * message.component_stride,
                           message.register_bytes, width) for i in range(len(components))]
    return _mover(message, width, lambda base: base[:, :, None] + offsets, parts,
                  (width, len(components)))


def _transposed(message: Lsc) -> Step:
    """One address; the elements of the vector are packed in the registers."""
    count = len(message.components)
    offsets = np.arange(count) * message.memory_bytes
    first = message.data_at if message.data_at is not None else message.result_at or 0
    part = register_part(first, message.register_bytes, count)
    return _mover(message, 1, lambda base: (base + offsets)[:, :, None], [part], (count, 1))


def _mover(
    message: Lsc, channels: int, spread: Callable[[Array], Array], parts: list[slice],
    shape: tuple[int, int],
) -> Step:
    """Move elements (threads, *shape) between memory and parts of the registers."""
    mask, addresses = execution_mask(message.instruction), addresses_of(message, channels)
    target, shift = target_of(message), message.shift
    register, memory = UNSIGNED[message.register_bytes], UNSIGNED[message.memory_bytes]

    def places(threads: Threads, running: Running) -> tuple[Target, Array, Bools | None]:
        where = target(threads, running)
        at = where.addresses(spread(addresses(threads)))
        return where, at, chosen_channels(mask, threads, running, (threads.count, *shape))

    def load(threads: Threads, running: Running) -> None:
        where, at, chosen = places(threads, running)
        values = threads.memories.read(where.place, at, chosen, memory)
        if message.has_undefined_bits:
            values = threads.memories.undefined.above(values, 8 * message.memory_bytes, register)
        values = values.astype(register, copy=False)
        values = values << register(shift) if shift else values
        for i, part in enumerate(parts):
            result = threads.views[register][:, part]
            if chosen is None:
                result[:] = values[:, :, i]
            else:
                np.copyto(result, values[:, :, i], where=chosen[:, :, i])

    def store(threads: Threads, running: Running) -> None:
        where, at, chosen = places(threads, running)
        view = threads.views[register]
        values = np.stack([view[:, part] for part in parts], axis=2)
        if shift:
            values = values >> register(shift)
        threads.memories.write(where.place, at, chosen, values.astype(memory, copy=False))

    def prefetch(threads: Threads, running: Running) -> None:
        """Prefetch: a load without result, whose addresses need not be valid."""
        _, at, chosen = places(threads, running)
        at, memories = at if chosen is None else at[chosen], threads.memories
        memories.bytes_moved[memories.pc] += at.size * message.memory_bytes
        if memories.lines is not None:
            memories.lines.prefetch(memories.pc, at)

    if message.operation.startswith("store"):
        return store
    return prefetch if message.result_at is None else load
