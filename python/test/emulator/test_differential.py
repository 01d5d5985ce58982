"""The comparison of native code with the simulator: which differences fail a test."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from python.test.emulator.assembled import program
from python.test.emulator.differential import Different, Place, compared, places_of
from triton_xe.runtime.emulator.device import EmulatedDevice
from triton_xe.runtime.simulator.interface import Work

pytestmark = pytest.mark.intel_compiler
INTEGERS = "add (16|M0) r20.0<1>:d r4.0<1;1,0>:d r6.0<1;1,0>:d"
FLOATS = "add (16|M0) r20.0<1>:f r4.0<1;1,0>:f r6.0<1;1,0>:f"
ADD = "send.ugm (16|M0) {} r4 r8:1 0x0 0x04{}0058C"


def outcome(text, native, simulated, name="kernel", types=("",)):
    left, right = (np.ascontiguousarray(x).view(np.uint8) for x in (native, simulated))
    return compared(name, left, Place(right, set(types)), program("bmg", text))


def test_numbers_of_every_size_may_be_rounded():
    x = np.array([3e-37, 1.5, -2e8, 3.3e38], np.float32)
    assert outcome(FLOATS, x, x) == "equal"
    assert outcome(FLOATS, x, np.nextafter(x, np.float32(0))) == "rounded"
    with pytest.raises(Different, match="bytes differ"):
        outcome(FLOATS, x, x * np.float32(1 + 1e-4))
    y = np.array([1e-290, 4e300, 7.0])
    assert outcome(FLOATS, y, y * (1 + 1e-15), types=["float64"]) == "rounded"


def test_nans_are_equal():
    bits = np.array([0x7FC00000, 0xFFC00000], np.uint32)
    assert outcome(FLOATS, bits, bits[::-1]) == "rounded"


@pytest.mark.filterwarnings("error")
def test_a_nan_is_no_number():
    signalling = np.array([0x7F817F81], np.uint32)
    assert outcome(FLOATS, signalling, signalling | 0x00400040) == "rounded"
    with pytest.raises(Different):
        outcome(FLOATS, signalling, np.array([1.5], np.float32))


def test_bytes_behind_the_last_number_count():
    x = np.array([1.0, 2.0, 3.0], np.float32)
    with pytest.raises(Different, match="the first at 10"):
        outcome(FLOATS, x, np.array([1.0, 2.0, 4.0], np.float32))
    with pytest.raises(Different):
        outcome(FLOATS, np.arange(3, dtype=np.uint8), np.array([0, 1, 9], np.uint8))


def test_integers_are_equal():
    """Integers that would be close to each other as floats."""
    x = np.array([0x40000000, 5], np.int32)
    with pytest.raises(Different, match="1 bytes differ, the first at 0"):
        outcome(INTEGERS, x, x + np.array([1, 0], np.int32))


def test_types_of_tensors_say_what_may_be_rounded():
    """Integers close to each other as floats, in a kernel that computes floats."""
    x = np.array([0x40000000, 5], np.int32)
    near = x + np.array([1, 0], np.int32)
    assert outcome(FLOATS, x, near) == outcome(FLOATS, x, near, types=["float32"]) == "rounded"
    for types in (["int32"], ["int64", "uint8"], ["float64"]):
        with pytest.raises(Different):
            outcome(FLOATS, x, near, types=types)
    half = np.array([0x3C00, 0x3C01], np.int16)
    assert outcome(FLOATS, half, half + 1, types=["float16"]) == "rounded"
    assert outcome(FLOATS, half, half + 1, types=["bfloat16", "int16"]) == "rounded"
    for types in (["int16"], ["float32"]):
        with pytest.raises(Different):
            outcome(FLOATS, half, half + 1, types=types)
    eight = np.array([0x38, 0xB8], np.uint8)
    assert outcome(FLOATS, eight, eight + 1, types=["float8_e4m3fn"]) == "rounded"
    with pytest.raises(Different):
        outcome(FLOATS, eight, eight + 2, types=["float8_e4m3fn"])


def test_old_values_of_atomics_are_left_to_the_test():
    x = np.array([1, 2], np.int32)
    assert outcome(ADD.format("r10", 1), x, x[::-1]) == "left to the test"
    with pytest.raises(Different):
        outcome(ADD.format("null", 0), x, x[::-1])
    assert outcome(INTEGERS, x, x[::-1], "divisions") == "left to the test"


def test_memory_around_an_array_is_not_compared():
    """A block of borrowed memory may be larger than the array that is there now."""
    array = np.zeros(32, np.int32)
    address = array.ctypes.data
    kernel = SimpleNamespace(pointer_arguments=frozenset((0, 1)))
    device = EmulatedDevice("bmg")
    device.borrow(address - 64, address + 4096)
    own = device.allocate(64)
    work = Work((1, 1, 1), (address, own.pointer), (((0, "x"),), (array,)))
    one, two = places_of(device, kernel, work)
    assert (one.memory.ctypes.data, one.memory.nbytes, one.types) == (address, 128, {"int32"})
    assert (two.memory.ctypes.data, two.memory.nbytes, two.types) == (own.pointer, 64, {""})
