"""`send`: find the unit that a message goes to, and the function that executes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from triton_xe.errors import UnsupportedError
from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator.channels import Running
from triton_xe.runtime.emulator.instruction import Instruction
from triton_xe.runtime.emulator.messages.atomics import atomic
from triton_xe.runtime.emulator.messages.block_2d import block_2d
from triton_xe.runtime.emulator.messages.gateway import gateway
from triton_xe.runtime.emulator.messages.hdc import hdc, is_scratch_block
from triton_xe.runtime.emulator.messages.lsc import OPERATIONS, UNITS, Lsc, access, field, lsc
from triton_xe.runtime.emulator.registers import (
    SCALARS,
    STAGING,
    STAGING_REGISTERS,
    Threads,
)

Step = Callable[[Threads, Running], Any]


def is_message(instruction: Instruction) -> bool:
    return instruction.op.startswith("send")


def is_scratch(instruction: Instruction) -> bool:
    """True for a message to the scratch memory of the thread, where registers are spilled."""
    if not is_message(instruction):
        return False
    return instruction.sources[0].surface == "ss" or (
        instruction.subop == "dc0" and is_scratch_block(descriptor(instruction)))


def descriptor(instruction: Instruction) -> int:
    """The descriptor of a message; 0 if a register has it."""
    return int(instruction.sources[-1].value or "0", 0)


def operation(instruction: Instruction) -> str:
    """The operation in the descriptor of a message to an LSC unit; "" if it is not known."""
    return OPERATIONS.get(field(descriptor(instruction), "op"), "")


def send(instruction: Instruction, device: Target) -> Step:
    """The function that executes a message; `UnsupportedError` names one without definition."""
    described = instruction.sources[3]
    if described.kind != "immediate":
        raise UnsupportedError(f"send.{instruction.subop} with its descriptor in a register has "
                               "no definition here")
    number = int(described.value, 0)
    if instruction.subop == "gtwy":
        return gateway(instruction, number, device.grf_bytes)
    if instruction.subop == "dc0":
        return hdc(instruction, number, device.grf_bytes)
    if instruction.subop not in UNITS:
        raise UnsupportedError(
            f"message send.{instruction.subop} {number:#x} has no definition here")
    if instruction.sources[0].file == "s":
        return _gathered(instruction, number, device)
    return _execute(lsc(instruction, number, device))


def _execute(message: Lsc) -> Step:
    """Compile a message by its operation."""
    if message.operation == "fence":
        return _fence
    if message.operation.endswith("block2d"):
        return block_2d(message)
    if message.operation.startswith("atomic"):
        return atomic(message)
    return access(message)


def _fence(threads: Threads, running: Running) -> None:
    """Do nothing, because messages are executed in order; the destination stays undefined."""


def _gathered(instruction: Instruction, number: int, device: Target) -> Step:
    """Since Xe3: bytes of s0 number the payload's registers, addresses first, then data.

    The registers are copied together before the message is executed from there.
    """
    address, data = instruction.sources[:2]
    count, selector, grf_bytes = address.registers, SCALARS + address.sub, device.grf_bytes
    if count > STAGING_REGISTERS:
        raise UnsupportedError(f"a gathered message of {count} registers has no definition here")
    decoded = lsc(instruction, number, device)
    first = STAGING // grf_bytes
    addresses = 1 if decoded.operation.endswith("block2d") else decoded.address_registers
    staged = replace(address, file="r", number=first, sub=0, registers=addresses)
    payload = (data if count == addresses else
               replace(data, file="r", number=first + addresses, registers=count - addresses))
    execute = _execute(lsc(replace(
        instruction, sources=(staged, payload, *instruction.sources[2:])), number, device))

    def run(threads: Threads, running: Running) -> None:
        numbers = threads.bytes[:, selector : selector + count].astype(np.intp)
        at = numbers[:, :, None] * grf_bytes + np.arange(grf_bytes)
        rows = np.arange(threads.count)[:, None, None]
        parts = threads.bytes[rows, at].reshape(threads.count, -1)
        threads.bytes[:, STAGING : STAGING + parts.shape[1]] = parts
        execute(threads, running)

    return run


