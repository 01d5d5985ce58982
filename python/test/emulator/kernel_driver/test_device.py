"""Requests to the emulated xe kernel driver, made as the driver's program makes them."""

import ctypes
import errno
import struct
import threading
import time

import numpy as np
import pytest

from python.test.emulator.kernel_driver.machines import batch, device, page, request
from triton_xe.hardware.target import TARGETS, target
from triton_xe.runtime.emulator.kernel_driver import machine, uapi
from triton_xe.runtime.emulator.kernel_driver.device import RequestRefused
from triton_xe.runtime.emulator.kernel_driver.memory import EmulatorFault

QUERY, CREATE, MMAP, VM, VM_END, BIND, QUEUE, QUEUE_END, PROPERTY, EXEC, WAIT = range(0x40, 0x4B)
CLOSE, VERSION = 0x09, 0x00


def queried(opened, number):
    sized = request(opened, QUERY, uapi.Query(query=number))
    data = np.zeros(sized.size, np.uint8)
    request(opened, QUERY, uapi.Query(query=number, size=sized.size, data=data.ctypes.data))
    return data.tobytes()


def bind(opened, vm, address, size, *, handle=0, offset=0, operation=uapi.MAP, fence=None):
    one = uapi.BindOperation(
        handle=handle, offset=offset, size=size, address=address, operation=operation)
    given = uapi.VmBind(vm=vm, count=1)
    ctypes.memmove(ctypes.addressof(given) + uapi.VmBind.vector.offset, ctypes.addressof(one),
                   ctypes.sizeof(one))
    if fence is not None:
        given.sync_count, given.syncs = 1, ctypes.addressof(fence)
    request(opened, BIND, given)


@pytest.fixture
def opened():
    made = device()
    yield made
    made.close()


@pytest.fixture
def ready(opened):
    """A device with a queue, and a buffer at address 1 << 20 as an array."""
    handle = request(opened, CREATE, uapi.GemCreate(size=1 << 16)).handle
    vm = request(opened, VM, uapi.VmCreate()).vm
    bind(opened, vm, 1 << 20, 1 << 16, handle=handle)
    queue = request(opened, QUEUE, uapi.QueueCreate(vm=vm, width=1, placements=1)).queue
    offset = request(opened, MMAP, uapi.MmapOffset(handle=handle)).offset
    return opened, vm, queue, handle, opened.arena.bytes[offset : offset + (1 << 16)]


@pytest.mark.parametrize("name", list(TARGETS))
def test_the_device_is_that_of_the_table(name):
    opened, row = device(name), target(name)
    configuration = struct.unpack("<II5Q", queried(opened, 2))
    assert configuration[2] & 0xFFFF == row.device_id
    assert bool(configuration[3] & 1) == (not row.is_integrated)
    units = struct.unpack_from("<6HIQQ3H", queried(opened, 3), 8)
    assert units[6] == machine.CLOCK_HZ
    assert units[-3:] == (*row.ip_version, row.stepping)
    words = struct.iter_unpack("<III", queried(opened, 4))
    facts = {key: value for key, _, value in words}
    assert (facts[1], facts[70], facts[71]) == (row.slices, row.xe_cores, row.eus_per_core)
    topology, counts = queried(opened, 5), {}
    while topology:
        _, kind, size = struct.unpack_from("<HHI", topology)
        counts[kind] = int.from_bytes(topology[8 : 8 + size], "little").bit_count()
        topology = topology[8 + size :]
    assert counts[2] * counts[5] == row.xe_cores * row.eus_per_core
    assert counts[3] * facts[64] << 10 == row.last_level_cache_bytes
    memories = struct.unpack_from("<I", queried(opened, 1))[0]
    assert memories == (1 if row.is_integrated else 2)
    opened.close()


def test_its_name_is_xe(opened):
    text = ctypes.create_string_buffer(8)
    found = request(opened, VERSION, uapi.Version(name_size=8, name=ctypes.addressof(text)))
    assert (text.value, found.name_size) == (b"xe", 2)


def test_the_devices_clock_goes_with_the_systems(opened):
    first, second = uapi.EngineCycles(clock=time.CLOCK_MONOTONIC_RAW), uapi.EngineCycles()
    given = uapi.Query(query=6, size=40, data=ctypes.addressof(first))
    request(opened, QUERY, given)
    time.sleep(0.01)
    second.clock, given.data = time.CLOCK_MONOTONIC_RAW, ctypes.addressof(second)
    request(opened, QUERY, given)
    nanoseconds = second.cpu_time - first.cpu_time
    assert first.width == machine.TIMESTAMP_BITS
    assert second.cycles - first.cycles == pytest.approx(
        nanoseconds * machine.CLOCK_HZ / 1e9, rel=0.2)


def test_memory_is_free_again_when_nothing_means_it(ready):
    opened, vm, _, handle, memory = ready
    memory[0] = 1
    request(opened, CLOSE, uapi.GemClose(handle=handle))
    again = request(opened, CREATE, uapi.GemCreate(size=1 << 16)).handle
    other = request(opened, MMAP, uapi.MmapOffset(handle=again)).offset
    bind(opened, vm, 1 << 20, 1 << 16, operation=uapi.UNMAP)
    third = request(opened, CREATE, uapi.GemCreate(size=1 << 16)).handle
    used_again = request(opened, MMAP, uapi.MmapOffset(handle=third)).offset
    assert other != used_again
    assert memory[0] == 0


def test_bindings_signal_their_fence_in_the_programs_memory(ready):
    opened, vm, _, handle, _ = ready
    word = page()
    fence = uapi.Sync(kind=uapi.USER_FENCE, flags=uapi.SIGNAL, address=word.ctypes.data, value=77)
    bind(opened, vm, 1 << 24, 1 << 16, handle=handle, fence=fence)
    assert word.view(np.uint64)[0] == 77


def execute(opened, queue, address, fence):
    request(opened, EXEC, uapi.Exec(queue=queue, batches=1, address=address, sync_count=1,
                                    syncs=ctypes.addressof(fence)))


def test_a_batch_signals_its_fence_at_an_address_of_the_gpu(ready):
    opened, vm, queue, _, memory = ready
    batch(opened.spaces[vm], 1 << 20, 0x10000002, (1 << 20) + 256, 0, 5)
    execute(opened, queue, 1 << 20, uapi.Sync(
        kind=uapi.USER_FENCE, flags=uapi.SIGNAL, address=(1 << 20) + 512, value=3))
    assert memory.view(np.uint64)[[32, 64]].tolist() == [5, 3]


def test_a_batch_that_waits_is_finished_later_and_holds_up_its_queue(ready):
    """The request returns; the program then sets what the batch waits for."""
    opened, vm, queue, _, memory = ready
    space, words = opened.spaces[vm], memory.view(np.uint64)
    batch(space, 1 << 20, 0x0E004003, 9, (1 << 20) + 256, 0, 0)
    batch(space, (1 << 20) + 4096, 0x10000002, (1 << 20) + 768, 0, 5)
    for number, start in enumerate((0, 4096)):
        execute(opened, queue, (1 << 20) + start, uapi.Sync(
            kind=uapi.USER_FENCE, flags=uapi.SIGNAL, address=(1 << 20) + 512 + 8 * number,
            value=1))
    assert opened.poll()
    assert words[[64, 65, 96]].tolist() == [0, 0, 0]
    words[32] = 9
    assert not opened.poll()
    assert words[[64, 65, 96]].tolist() == [1, 1, 5]


@pytest.mark.parametrize(("operation", "value", "holds"), [
    (0, 5, True), (0, 4, False), (1, 4, True), (2, 4, True), (3, 5, True), (3, 6, False),
    (4, 6, True), (5, 5, True), (5, 4, False)])
def test_waiting_for_a_fence_ends_in_time(opened, operation, value, holds):
    word = page()
    word.view(np.uint64)[0] = 5 | 1 << 40
    given = uapi.WaitFence(address=word.ctypes.data, operation=operation, value=value,
                           mask=0xFFFFFFFF, timeout=1_000_000)
    if holds:
        request(opened, WAIT, given)
    else:
        with pytest.raises(RequestRefused) as refused:
            request(opened, WAIT, given)
        assert refused.value.number == errno.ETIME


def test_another_thread_may_signal_the_fence(opened):
    word = page()
    timer = threading.Timer(0.05, lambda: word.view(np.uint64).__setitem__(0, 8))
    timer.start()
    request(opened, WAIT, uapi.WaitFence(address=word.ctypes.data, operation=3, value=8,
                                         mask=2**64 - 1, timeout=-1))
    assert word.view(np.uint64)[0] == 8


@pytest.mark.parametrize(("number", "structure", "code"), [
    (MMAP, uapi.MmapOffset(handle=99), errno.ENOENT),
    (CLOSE, uapi.GemClose(handle=99), errno.ENOENT),
    (QUEUE, uapi.QueueCreate(vm=99), errno.ENOENT), (EXEC, uapi.Exec(queue=99), errno.ENOENT),
    (QUERY, uapi.Query(query=8), errno.EINVAL), (VM_END, uapi.VmDestroy(vm=9), errno.ENOENT),
    (QUEUE_END, uapi.QueueDestroy(queue=9), errno.ENOENT),
    (CREATE, uapi.GemCreate(size=1 << 60), errno.ENOMEM)])
def test_wrong_numbers_are_refused_as_by_the_kernel(opened, number, structure, code):
    with pytest.raises(RequestRefused) as refused:
        request(opened, number, structure)
    assert refused.value.number == code


@pytest.mark.parametrize(("number", "name"), [
    (0x2D, "DRM_PRIME_HANDLE_TO_FD"), (0x4B, "XE_OBSERVATION"), (0x9F, "unknown name")])
def test_an_unknown_request_is_a_sentence_with_its_name(opened, number, name):
    with pytest.raises(EmulatorFault, match=f"has no request {number:#04x} .*{name}"):
        request(opened, number, uapi.Query())


def test_unknown_parts_of_requests_are_sentences(ready):
    opened, vm, queue, *_ = ready
    with pytest.raises(EmulatorFault, match="XE_GEM_CREATE has extensions"):
        request(opened, CREATE, uapi.GemCreate(size=1, extensions=1))
    with pytest.raises(EmulatorFault, match="operation 5 of XE_VM_BIND"):
        bind(opened, vm, 0, 4096, operation=5)
    with pytest.raises(EmulatorFault, match="only user fences"):
        execute(opened, queue, 0, uapi.Sync(kind=0, flags=1))
    with pytest.raises(EmulatorFault, match="several batches"):
        request(opened, EXEC, uapi.Exec(queue=queue, batches=2))
