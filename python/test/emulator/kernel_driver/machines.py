"""An emulated GPU whose program is this very process."""

import ctypes
import os
import struct
import threading

import numpy as np

from triton_xe.hardware.target import target
from triton_xe.runtime.emulator.kernel_driver.device import OpenDevice
from triton_xe.runtime.emulator.kernel_driver.memory import AddressSpace, Arena, Program
from triton_xe.runtime.emulator.kernel_driver.streamer import Streamer


def space():
    return AddressSpace(Arena(), Program(os.getpid()), 48)


def bound(addresses, start, size):
    """A buffer of the file at an address, as an array."""
    offset = addresses.arena.allocate(size)
    addresses.bind(start, size, offset)
    return addresses.arena.bytes[offset : offset + size]


def ignore(words, space, bases):
    """A walker that does nothing."""


def streamer(addresses, dispatch=ignore, *, is_xe2=True):
    return Streamer(addresses, dispatch, is_xe2=is_xe2)


def batch(addresses, address, *words):
    """Write commands, and the end of the batch, to an address."""
    addresses.store(address, struct.pack(f"<{len(words) + 1}I", *words, 0x05000000))


def device(name="bmg", dispatch=ignore):
    return OpenDevice(target(name), os.getpid(), dispatch, threading.Lock())


def request(opened, number, structure):
    """Make a request with a structure of this process; returns it as it is afterwards."""
    opened.request(number, ctypes.addressof(structure))
    return structure


def page(size=1 << 16):
    """Zeroed memory of this process, aligned to a page."""
    raw = np.zeros(size + 4096, np.uint8)
    first = -raw.ctypes.data % 4096
    return raw[first : first + size]
