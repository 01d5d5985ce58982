"""The emulated xe kernel driver: carry out the ioctls of a program that opened a device."""

from __future__ import annotations

import ctypes
import errno
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from triton_xe.hardware.target import Target
from triton_xe.runtime.emulator.kernel_driver import machine, uapi
from triton_xe.runtime.emulator.kernel_driver.memory import (
    AddressSpace,
    Arena,
    EmulatorFault,
    Program,
)
from triton_xe.runtime.emulator.kernel_driver.streamer import COMPARISONS, Dispatch, Streamer

_NAME = b"xe"
_POLL_SECONDS = 0.0005
_FENCE_COMPARISONS = {0: 4, 1: 5, 2: 0, 3: 1, 4: 2, 5: 3}
"""Comparison of a user fence -> that of the command streamer."""
_ENGINE_CYCLES = 6
_XE2 = (20,)


class RequestRefused(Exception):
    """A request fails with this error number, as with the real driver."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass
class _Buffer:
    offset: int
    size: int
    is_closed: bool = False


@dataclass
class _Queue:
    """Batches of one queue run in order; one that waits for a semaphore holds up the others."""

    streamer: Streamer
    batches: deque[Iterator[None]] = field(default_factory=deque)

    def advance(self) -> None:
        """Run until all is done or a semaphore has to be waited for."""
        while self.batches:
            for _ in self.batches[0]:
                return
            self.batches.popleft()


class OpenDevice:
    """A device that a program has opened: its buffers, addresses and queues.

    Requests of several threads come one at a time, under `lock`; only `XE_WAIT_USER_FENCE` waits
    without it.  The method `_xe_exec` carries out `XE_EXEC`, and so on.  Its argument is the
    structure that the program passed, into which it writes the answer.
    """

    def __init__(self, target: Target, process: int, dispatch: Dispatch,
                 lock: threading.Lock) -> None:
        self.target, self._dispatch, self._lock = target, dispatch, lock
        self.arena, self.program = Arena(), Program(process)
        self._answers = machine.answers(target)
        self._buffers: dict[int, _Buffer] = {}
        self.spaces: dict[int, AddressSpace] = {}
        self._queues: dict[int, _Queue] = {}
        self._last = 0

    def close(self) -> None:
        with self._lock:
            self._queues.clear()
            self.spaces.clear()
            self.arena.close()
            self.program.close()

    def request(self, number: int, address: int) -> None:
        """Carry out the ioctl `number`, whose structure the program has at `address`."""
        name, kind = uapi.REQUESTS.get(number, ("", ctypes.Structure))
        if not name:
            known = uapi.UNKNOWN.get(number, "unknown name")
            raise EmulatorFault(f"the emulated kernel driver has no request {number:#04x} "
                                f"({known}); please report it with the program that made it")
        given: Any = self.program.structure(address, kind)
        if getattr(given, "extensions", 0) and name not in _EXTENSIBLE:
            raise EmulatorFault(f"{name} has extensions that the emulated kernel driver does not "
                                "know; please report it with the program that made it")
        handle: Callable[[Any], None] = getattr(self, f"_{name.lower()}")
        if name == "XE_WAIT_USER_FENCE":
            handle(given)
        else:
            with self._lock:
                handle(given)
        self.program.write(address, bytes(given))

    def poll(self) -> bool:
        """Go on with queues that wait for a semaphore; true if one still waits."""
        with self._lock:
            waiting = [queue for queue in self._queues.values() if queue.batches]
            for queue in waiting:
                queue.advance()
            return any(queue.batches for queue in waiting)

    def _new_handle(self) -> int:
        self._last += 1
        return self._last

    # ---- the device ------------------------------------------------------------------------

    def _drm_version(self, given: Any) -> None:
        if given.name and given.name_size:
            self.program.write(given.name, _NAME[: given.name_size])
        given.major, given.minor, given.patch = 1, 1, 0
        given.name_size, given.date_size, given.description_size = len(_NAME), 0, 0

    def _xe_device_query(self, given: Any) -> None:
        if given.query == _ENGINE_CYCLES:
            self._engine_cycles(given)
            return
        answer = self._answers.get(given.query)
        if answer is None:
            raise RequestRefused(errno.EINVAL)
        if given.size:
            self.program.write(given.data, answer[: given.size])
        given.size = given.size or len(answer)

    def _engine_cycles(self, given: Any) -> None:
        """Answer with the device's clock, and the system clock that the program names."""
        if not given.size:
            given.size = ctypes.sizeof(uapi.EngineCycles)
            return
        found: Any = self.program.structure(given.data, uapi.EngineCycles)
        found.width, found.delta = machine.TIMESTAMP_BITS, 0
        found.cpu_time = time.clock_gettime_ns(found.clock)
        found.cycles = machine.ticks() & (1 << machine.TIMESTAMP_BITS) - 1
        self.program.write(given.data, bytes(found))

    # ---- buffers ---------------------------------------------------------------------------

    def _xe_gem_create(self, given: Any) -> None:
        try:
            buffer = _Buffer(self.arena.allocate(given.size), given.size)
        except MemoryError:
            raise RequestRefused(errno.ENOMEM) from None
        given.handle = self._new_handle()
        self._buffers[given.handle] = buffer

    def _buffer(self, handle: int) -> _Buffer:
        if handle not in self._buffers:
            raise RequestRefused(errno.ENOENT)
        return self._buffers[handle]

    def _xe_gem_mmap_offset(self, given: Any) -> None:
        if given.flags:
            raise RequestRefused(errno.EINVAL)
        given.offset = self._buffer(given.handle).offset

    def _drm_gem_close(self, given: Any) -> None:
        self._buffer(given.handle).is_closed = True
        self._release()

    def _release(self) -> None:
        """Free closed buffers that no address space maps."""
        for handle, buffer in list(self._buffers.items()):
            if buffer.is_closed and not any(
                    space.uses(buffer.offset, buffer.size) for space in self.spaces.values()):
                self.arena.release(buffer.offset, buffer.size)
                del self._buffers[handle]

    # ---- addresses -------------------------------------------------------------------------

    def _xe_vm_create(self, given: Any) -> None:
        given.vm = self._new_handle()
        self.spaces[given.vm] = AddressSpace(self.arena, self.program, self.target.address_bits)

    def _space(self, number: int) -> AddressSpace:
        if number not in self.spaces:
            raise RequestRefused(errno.ENOENT)
        return self.spaces[number]

    def _xe_vm_destroy(self, given: Any) -> None:
        self._space(given.vm).close()
        del self.spaces[given.vm]
        self._release()

    def _xe_vm_bind(self, given: Any) -> None:
        space = self._space(given.vm)
        for operation in self._operations(given):
            self._bind(space, operation)
        for sync in self._fences(given):
            self.program.write(sync.address, struct.pack("<Q", sync.value))
        self._release()

    def _operations(self, given: Any) -> list[Any]:
        """Operations of a bind request: one in its structure, or several in an array."""
        size = ctypes.sizeof(uapi.BindOperation)
        if given.count == 1:
            at = uapi.VmBind.vector.offset
            return [uapi.BindOperation.from_buffer_copy(bytes(given)[at : at + size])]
        return [self.program.structure(given.vector + number * size, uapi.BindOperation)
                for number in range(given.count)]

    def _bind(self, space: AddressSpace, given: Any) -> None:
        if given.operation == uapi.MAP:
            buffer = self._buffer(given.handle)
            if given.offset + given.size > -(-buffer.size // 4096) * 4096:
                raise RequestRefused(errno.EINVAL)
            space.bind(given.address, given.size, buffer.offset + given.offset)
        elif given.operation == uapi.MAP_PROGRAM:
            space.bind_program(given.address, given.size, given.offset)
        elif given.operation == uapi.UNMAP:
            space.unbind(given.address, given.size)
        elif given.operation != uapi.PREFETCH:
            raise EmulatorFault("the emulated kernel driver does not know operation "
                                f"{given.operation} of XE_VM_BIND; please report it")

    def _fences(self, given: Any) -> Iterator[Any]:
        """The user fences that a request signals when it is done."""
        for number in range(given.sync_count):
            sync: Any = self.program.structure(
                given.syncs + number * ctypes.sizeof(uapi.Sync), uapi.Sync)
            if sync.kind != uapi.USER_FENCE or not sync.flags & uapi.SIGNAL:
                raise EmulatorFault(f"the emulated kernel driver knows only user fences to signal,"
                                    f" not syncs of kind {sync.kind} with flags {sync.flags}")
            yield sync

    # ---- queues ----------------------------------------------------------------------------

    def _xe_exec_queue_create(self, given: Any) -> None:
        space = self._space(given.vm)
        given.queue = self._new_handle()
        is_xe2 = self.target.ip_version >= _XE2
        self._queues[given.queue] = _Queue(Streamer(space, self._dispatch, is_xe2=is_xe2))

    def _queue(self, number: int) -> _Queue:
        if number not in self._queues:
            raise RequestRefused(errno.ENOENT)
        return self._queues[number]

    def _xe_exec_queue_destroy(self, given: Any) -> None:
        self._queue(given.queue)
        del self._queues[given.queue]

    def _xe_exec_queue_get_property(self, given: Any) -> None:
        """Answer that a queue is not banned, because a fault ends the program instead."""
        self._queue(given.queue)
        given.value = 0

    def _xe_exec(self, given: Any) -> None:
        queue = self._queue(given.queue)
        if given.batches > 1:
            raise EmulatorFault("XE_EXEC with several batches is for several tiles; the emulated "
                                "device has one")
        fences = list(self._fences(given))
        queue.batches.append(_batch(queue.streamer, given.batches and given.address, fences))
        queue.advance()

    def _xe_wait_user_fence(self, given: Any) -> None:
        """Wait for a number in the program's memory; a negative time-out never comes."""
        holds = COMPARISONS[_FENCE_COMPARISONS[given.operation]]
        end = None if given.timeout < 0 else given.timeout + (
            0 if given.flags & uapi.ABSOLUTE_TIME else time.monotonic_ns())
        while True:
            value = int.from_bytes(self.program.read(given.address, 8), "little")
            if holds(value & given.mask, given.value & given.mask):
                return
            if end is not None and time.monotonic_ns() >= end:
                raise RequestRefused(errno.ETIME)
            time.sleep(_POLL_SECONDS)


_EXTENSIBLE = frozenset(("XE_EXEC_QUEUE_CREATE",))
"""Requests whose extensions set priorities and the like, which change no result."""


def _batch(streamer: Streamer, address: int, fences: list[Any]) -> Iterator[None]:
    """Run the batch at an address, unless that is 0, and then signal the fences; yield to wait."""
    if address:
        yield from streamer.run(address)
    for sync in fences:
        streamer.space.store(sync.address, struct.pack("<Q", sync.value))
