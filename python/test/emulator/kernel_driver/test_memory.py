"""Addresses of the emulated GPU: bindings, pages of the program, and faults."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python.test.emulator.kernel_driver.machines import bound, page, space
from triton_xe.runtime.emulator.kernel_driver.memory import Arena, EmulatorFault

PAGE = 1 << 16


def test_buffers_are_zero_and_used_again():
    arena = Arena()
    first = arena.allocate(5)
    arena.bytes[first] = 7
    second = arena.allocate(5)
    assert first != second
    arena.release(first, 5)
    assert arena.allocate(PAGE) == first
    assert arena.bytes[first] == 0


def test_an_address_may_have_the_sign_bit_copied():
    addresses = space()
    buffer = bound(addresses, 0xFFFF_F000_0000_0000, PAGE)
    addresses.store(0xFFFF_F000_0000_0004, b"abc")
    assert bytes(buffer[4:7]) == b"abc"
    assert addresses.load(0xF000_0000_0004, 3) == b"abc"
    assert addresses.bytes_from(0xF000_0000_0004) == PAGE - 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 12)), max_size=12))
def test_bindings_are_what_a_plain_table_of_bytes_says(operations):
    """Bind and unbind ranges, also parts of bound ones, against one dictionary of bytes."""
    addresses, plain = space(), {}
    for number, (binds, start, size) in enumerate(operations):
        if binds:
            bound(addresses, start, size)[:] = number
        else:
            addresses.unbind(start, size)
        for at in range(start, start + size):
            plain.pop(at, None)
            if binds:
                plain[at] = number
    for at in range(45):
        if at in plain:
            assert addresses.load(at, 1)[0] == plain[at]
            (host,) = addresses.locate(np.array([at]), 1)
            assert addresses.arena.bytes[host - addresses.arena.start] == plain[at]
        else:
            with pytest.raises(EmulatorFault):
                addresses.load(at, 1)


def test_a_value_may_lie_in_two_buffers():
    addresses = space()
    first, second = bound(addresses, 0, 64), bound(addresses, 64, 64)
    addresses.store(60, bytes(range(8)))
    assert bytes(first[60:]) + bytes(second[:4]) == bytes(range(8)) == addresses.load(60, 8)


@pytest.mark.parametrize("address", [0, (1 << 20) - 1, (1 << 20) + PAGE - 3, 1 << 40])
def test_an_access_outside_of_every_buffer_is_a_fault(address):
    addresses = space()
    bound(addresses, 1 << 20, PAGE)
    with pytest.raises(EmulatorFault, match=f"4 bytes at address {address:#x}"):
        addresses.read(np.array([1 << 20, address]), np.uint32)


def test_a_launch_sees_the_programs_pages_and_writes_back_what_it_changed():
    addresses, own = space(), page()
    addresses.bind_program(1 << 20, own.size, own.ctypes.data)
    own[:] = 1
    at = (1 << 20) + np.array([0, 4, 40_000])
    assert addresses.read(at, np.uint8).tolist() == [1, 1, 1]
    addresses.write(at[1:], np.array([2, 3], np.uint8))
    own[0] = 9  # the program writes beside it meanwhile
    addresses.flush()
    assert own[[0, 4, 40_000]].tolist() == [9, 2, 3]
    assert np.count_nonzero(own != 1) == 3
    own[4] = 5
    assert addresses.read(at[1:2], np.uint8).tolist() == [5]


def test_an_access_may_reach_into_the_next_piece_of_the_programs_pages():
    addresses, own = space(), page()
    addresses.bind_program(0, own.size, own.ctypes.data)
    own[(1 << 14) - 2 : (1 << 14) + 2] = 1, 2, 3, 4
    found = addresses.read(np.array([(1 << 14) - 2]), np.uint32)
    assert found.view(np.uint8).tolist() == [1, 2, 3, 4]


def test_pages_that_the_program_unmapped_are_a_sentence():
    addresses = space()
    addresses.bind_program(0, 4096, 4096)
    with pytest.raises(EmulatorFault, match="cannot be read: it was unmapped"):
        addresses.read(np.array([0]), np.uint8)
