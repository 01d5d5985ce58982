"""Commands of batch buffers, each against what its description says."""

import numpy as np
import pytest

from python.test.emulator.kernel_driver.machines import batch, bound, space, streamer
from triton_xe.runtime.emulator.kernel_driver import machine
from triton_xe.runtime.emulator.kernel_driver.memory import EmulatorFault

BATCH, DATA = 1 << 20, 1 << 21


@pytest.fixture
def gpu():
    addresses = space()
    bound(addresses, BATCH, 1 << 16)
    addresses.data = bound(addresses, DATA, 1 << 16).view(np.uint64)
    return addresses


def finish(addresses, *words, **options):
    batch(addresses, BATCH, *words)
    assert list(streamer(addresses, **options).run(BATCH)) == []


def test_batches_start_others_and_come_back(gpu):
    second, third = BATCH + 4096, BATCH + 8192
    batch(gpu, second, 0x10000002, DATA, 0, 11)  # MI_STORE_DATA_IMM
    batch(gpu, third, 0x10200003, DATA + 8, 0, 22, 33)
    finish(gpu, 0x18800101 | 1 << 22, second, 0, 0x18800101, third, 0, 0x10000002, DATA, 0, 99)
    assert gpu.data[:2].tolist() == [11, 22 | 33 << 32]


def test_registers_and_arithmetic(gpu):
    """(5 - 7) of 64 bits through MI_MATH, and the carry."""
    r0, r1, r2 = 0x2600, 0x2608, 0x2610
    load_a, load_b = 0x080 << 20 | 0x20 << 10, 0x080 << 20 | 0x21 << 10 | 1
    subtract, store, carry = 0x101 << 20, 0x180 << 20 | 2 << 10 | 0x31, 0x180 << 20 | 3 << 10 | 0x33
    finish(gpu, 0x11000003, r0, 5, r1, 7, 0x0D000004, load_a, load_b, subtract, store, carry,
           0x12000002, r2, DATA, 0, 0x12000002, r2 + 4, DATA + 4, 0,
           0x12000002, r2 + 8, DATA + 8, 0,
           0x15000001, r1, 0x2640, 0x12000002, 0x2640, DATA + 16, 0)
    assert gpu.data[:3].tolist() == [2**64 - 2, 2**32 - 1, 7]


def test_a_register_comes_from_memory(gpu):
    gpu.data[0] = 123
    finish(gpu, 0x14800002, 0x2600, DATA, 0, 0x12000002, 0x2600, DATA + 8, 0)
    assert gpu.data[1] == 123


@pytest.mark.parametrize(("comparison", "value", "passes"), [
    (0, 4, True), (0, 5, False), (1, 5, True), (2, 6, True), (2, 5, False), (3, 5, True),
    (4, 5, True), (4, 4, False), (5, 4, True), (5, 5, False)])
def test_a_semaphore_waits_until_its_comparison_holds(gpu, comparison, value, passes):
    gpu.data[0] = 5
    batch(gpu, BATCH, 0x0E000003 | comparison << 12, value, DATA, 0, 0, 0x10000002, DATA + 8, 0, 1)
    steps = streamer(gpu).run(BATCH)
    waits = 0
    for _ in steps:
        waits += 1
        if waits == 3:
            gpu.data[0] = {0: 9, 2: 0, 4: value, 5: 0}[comparison]
    assert waits == (0 if passes else 3)
    assert gpu.data[1] == 1


@pytest.mark.parametrize(("code", "start", "expected"), [
    (0x05, 2**32 - 1, 0), (0x06, 8, 7), (0x25, 2**32 - 1, 2**32), (0x26, 0, 2**64 - 1)])
def test_atomics_of_32_and_64_bits(gpu, code, start, expected):
    gpu.data[0] = start
    finish(gpu, 0x17800001 | code << 8, DATA, 0)
    assert gpu.data[0] == expected


def test_flushes_write_numbers_and_times(gpu):
    before = machine.ticks()
    finish(gpu, 0x7A000004, 1 << 14, DATA, 0, 5, 6, 0x7A000004, 3 << 14, DATA + 8, 0, 0, 0,
           0x13000003 | 1 << 14, DATA + 16, 0, 7, 8)
    assert gpu.data[0] == 5 | 6 << 32
    assert before <= gpu.data[1] <= machine.ticks()
    assert gpu.data[2] == 7 | 8 << 32


@pytest.mark.parametrize(("is_xe2", "kind"), [(True, np.uint64), (False, np.uint32)])
def test_a_walkers_times_have_64_bits_since_xe2(gpu, is_xe2, kind):
    """Four times, of context and device at start and end; Intel's driver waits for the third."""
    words = [0] * (40 if is_xe2 else 39)
    words[0] = 0x72080000 | len(words) - 2
    words[-13:-10] = 3, DATA, 0
    gpu.data[:8] = 2**64 - 1
    finish(gpu, *words, is_xe2=is_xe2)
    times = gpu.data.view(kind)[:5]
    assert times[0] == times[1] < times[2] == times[3]
    assert times[4] == np.iinfo(kind).max


def test_a_walker_of_xe3p_has_four_results(gpu):
    """Times, a number, a sum of 64 bits and none: each at its own address."""
    words = [0] * 64
    words[0] = 0x72200000 | len(words) - 2
    words[27:30] = 3 << 16, DATA, 0
    words[48:53] = 1 << 16, DATA + 64, 0, 5, 6
    words[53:58] = 2 << 16 | 0x27 << 24, DATA + 72, 0, 2, 1
    gpu.data[8:12] = 7
    finish(gpu, *words)
    assert gpu.data[0] == gpu.data[1] < gpu.data[2] == gpu.data[3]
    assert gpu.data[8:11].tolist() == [5 | 6 << 32, 7 + (2 | 1 << 32), 7]


def test_the_copy_engine_copies_and_fills(gpu):
    raw = gpu.data.view(np.uint8)
    raw[:256] = np.arange(256)
    at = lambda offset: (DATA + offset, 0)  # noqa: E731
    finish(
        gpu,
        0x56800008, 100 - 1, 0, 0, 0, *at(0), *at(1000), 0,
        0x56820008, 4 - 1, 3 - 1, 16 - 1, 8 - 1, *at(0), *at(2000), 0,
        0x56C00005, 10 - 1, 0, 0, *at(3000), 0xAB << 24,
        0x56C20005, 2 - 1, 3 - 1, 4 - 1, *at(4000), 0xCD << 24)
    assert raw[1000:1101].tolist() == [*range(100), 0]
    assert raw[2000:2024].tolist() == [0, 1, 2, 3, 0, 0, 0, 0, 16, 17, 18, 19, 0, 0, 0, 0, 32, 33,
                                       34, 35, 0, 0, 0, 0]
    assert raw[2999:3011].tolist() == [0, *[0xAB] * 10, 0]
    assert raw[4000:4012].tolist() == [0xCD, 0xCD, 0, 0] * 3


def test_the_copy_engine_moves_rectangles_of_surfaces(gpu):
    raw = gpu.data.view(np.uint8)
    raw[:256] = np.arange(256)
    copy = [0x50400014 | 2 << 19, 32 - 1, 1 | 2 << 16, 3 | 4 << 16, DATA + 4096, 0, 0,
            2 | 1 << 16, 64 - 1, DATA, 0, 0, *[0] * 10]
    fill = [0x5100000E | 1 << 19, 16 - 1, 1 | 0 << 16, 3 | 2 << 16, DATA + 8192, 0, 0,
            0x1234, 0, 0, 0, *[0] * 5]
    finish(gpu, *copy, *fill)
    copied = raw[4096 : 4096 + 160].reshape(5, 32)
    source = raw[:256].reshape(4, 64)
    assert (copied[2:4, 4:12] == source[1:3, 8:16]).all()
    assert np.count_nonzero(copied) == 16
    assert raw[8192 : 8192 + 32].view(np.uint16).reshape(2, 8)[:, :4].tolist() == [
        [0, 0x1234, 0x1234, 0]] * 2


@pytest.mark.parametrize(("words", "name"), [
    ((0x1B000002, 0, 0, 0), "MI_CONDITIONAL_BATCH_BUFFER_END"),
    ((0xA0000000,), "barrier"), ((0x20000000,), "0x20000000"),
    ((0x54C00008, *[0] * 9), "XY_SRC_COPY_BLT"), ((0x7B000005,), "3D"),
    ((0x12000002, 0x2340, DATA, 0), "register 0x2340, which nothing wrote"),
    ((0x17800001 | 9 << 8, DATA, 0), "MI_ATOMIC with opcode 0x9"),
    ((0x56840008, *[0] * 9), "kind of MEM_COPY")])
def test_an_unknown_command_is_a_sentence_with_its_name(gpu, words, name):
    batch(gpu, BATCH, *words)
    with pytest.raises(EmulatorFault, match="does not know") as refused:
        list(streamer(gpu).run(BATCH))
    assert name in str(refused.value)


def test_base_addresses_stay_for_later_batches(gpu):
    found = []
    queue = streamer(gpu, lambda words, space, bases: found.append(dict(bases)))
    base = [0x61010014, *[0] * 21]
    base[1:3], base[10:12] = (0x5000 | 1, 2), (0x7000 | 1, 0)
    batch(gpu, BATCH, *base, 0x72000004, 3 << 10, 0, 0, 0, 0)
    batch(gpu, BATCH + 4096, 0x72080025, *[0] * 38)
    for address in (BATCH, BATCH + 4096):
        assert list(queue.run(address)) == []
    assert found == [{"general": 0x2_0000_5000, "instruction": 0x7000, "scratch": 192}]
