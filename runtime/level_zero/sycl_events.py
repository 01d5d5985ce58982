"""Order between a SYCL queue and a command list of ours, by events on the device.

A barrier of the queue gives an event that our list waits for.  An event that our list signals is
passed to the queue as a second barrier.  The host waits for neither.  All calls go to exported
functions of the SYCL runtime, as in `sycl_queue`.

A `sycl::event` is one shared pointer: the object's address and that of libstdc++'s control block,
which counts its uses.  Its destructor is inline in SYCL's headers, so the count is decremented
here. Tested with intel-sycl-rt 2026.2.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from dataclasses import dataclass

from triton_xe.errors import DeviceError
from triton_xe.runtime import native
from triton_xe.runtime.level_zero import raw
from triton_xe.runtime.level_zero.objects import CommandList, Context, Event, EventPool, wait
from triton_xe.runtime.level_zero.sycl_queue import (
    GET_CONTEXT,
    OBJECT_BYTES,
    SyclQueue,
    code_location,
    function,
)

_BARRIER = "_ZN4sycl3_V15queue25ext_oneapi_submit_barrierERKNS0_6detail13code_locationE"
_BARRIER_AFTER = (
    "_ZN4sycl3_V15queue25ext_oneapi_submit_barrierERKSt6vectorINS0_5eventESaIS3_EE"
    "RKNS0_6detail13code_locationE"
)
_EVENT_NATIVE = "_ZNK4sycl3_V15event9getNativeEv"
_MAKE_EVENT = "_ZN4sycl3_V16detail10make_eventEmRKNS0_7contextEbNS0_7backendE"
_BACKEND = "_ZNK4sycl3_V15queue11get_backendEv"
_EVENT_BYTES, _CONTROL_BLOCK = 16, 8
IN_FLIGHT = 64
"""Launches on one queue that may be pending before the host waits for the oldest."""


class SyclObject:
    """Storage of a SYCL object that is one shared pointer; `close()` releases it once."""

    def __init__(self) -> None:
        self.room = ctypes.create_string_buffer(OBJECT_BYTES)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.room)

    @property
    def uses(self) -> int:
        """Number of shared pointers to the object; 0 if this one is released."""
        block = self._block()
        return ctypes.c_int32.from_address(block + 8).value if block else 0

    def close(self) -> None:
        block = self._block()
        ctypes.memset(self.address, 0, OBJECT_BYTES)
        if block:
            native.launch.release_shared(block)

    def _block(self) -> int:
        return ctypes.c_uint64.from_address(self.address + _CONTROL_BLOCK).value


class SyclEvent(SyclObject):
    """A `sycl::event`."""

    def native(self) -> int:
        """The Level Zero event; asking for it submits the command of the event to the device."""
        get = function(_EVENT_NATIVE, ctypes.c_ulong, ctypes.c_void_p)
        return int(get(self.address))


def barrier(queue: int, after: SyclEvent | None = None) -> SyclEvent:
    """Submit a barrier: all later commands of the queue wait for all earlier ones, or for `after`.

    The returned event completes with the barrier.
    """
    event, pointer = SyclEvent(), ctypes.c_void_p
    if after is None:
        submit = function(_BARRIER, None, pointer, pointer, pointer)
        submit(event.address, queue, code_location())
        return event
    end = after.address + _EVENT_BYTES
    vector = (pointer * 3)(after.address, end, end)
    submit = function(_BARRIER_AFTER, None, pointer, pointer, pointer, pointer)
    submit(event.address, queue, ctypes.addressof(vector), code_location())
    return event


def context_of(queue: int) -> SyclObject:
    """The `sycl::context` of the queue at an address."""
    context, pointer = SyclObject(), ctypes.c_void_p
    function(GET_CONTEXT, None, pointer, pointer)(context.address, queue)
    return context


def can_order() -> bool:
    """True if the compiled code and the loaded SYCL runtime have all that `QueueOrder` needs."""
    if native.launch is None:
        return False
    try:
        for name in (_BARRIER, _BARRIER_AFTER, _EVENT_NATIVE, _MAKE_EVENT, _BACKEND):
            function(name, None)
    except DeviceError:
        return False
    return True


@dataclass(frozen=True)
class _Link:
    """The events of one launch, which live until the queue has passed the last of them."""

    queue_done: SyclEvent
    list_done: SyclEvent
    queue_waited: SyclEvent
    signal: Event

    def close(self) -> None:
        for event in (self.queue_done, self.list_done, self.queue_waited):
            event.close()


class QueueOrder:
    """Keeps commands appended to our lists between `begin` and `end` in order with one queue.

        before = order.begin(list)      the list waits for all work of the queue
        ...                             append to the list
        order.end(list, before)         the queue waits for all work of the list
    """

    def __init__(self, queue: SyclQueue, context: Context) -> None:
        self._queue = queue
        self._context = context_of(queue.address)
        self._backend = function(_BACKEND, ctypes.c_char, ctypes.c_void_p)(queue.address)
        pool = EventPool(context, IN_FLIGHT)
        self.free_events = [Event(pool, index) for index in range(IN_FLIGHT)]
        self.links: deque[_Link] = deque()
        self._lock = threading.Lock()

    def begin(self, to: CommandList) -> SyclEvent:
        """Make the list wait for the queue; pass the result to `end`."""
        before = barrier(self._queue.address)
        native = before.native()
        if not native:
            before.close()
            raise DeviceError(
                f"the barrier of the SYCL queue at {self._queue.address:#x} has no Level Zero "
                "event; launch on a queue of the Level Zero backend"
            )
        to.wait_on(native)
        return before

    def end(self, to: CommandList, before: SyclEvent) -> None:
        """Make the queue wait for the list."""
        with self._lock:
            if not self.free_events:
                self._wait_for(self.links[IN_FLIGHT // 2 - 1])
            signal = self.free_events.pop()
            to.barrier(signal)
            list_done = self._event_of(signal)
            queue_waited = barrier(self._queue.address, list_done)
            self.links.append(_Link(before, list_done, queue_waited, signal))

    def close(self) -> None:
        """Wait for every launch and release its events."""
        with self._lock:
            if self.links:
                self._wait_for(self.links[-1])
            for event in self.free_events:
                event.close()
            self.free_events.clear()
            self._context.close()

    def _event_of(self, signal: Event) -> SyclEvent:
        """A SYCL event for one of our events, which we still own."""
        made, pointer = SyclEvent(), ctypes.c_void_p
        make = function(
            _MAKE_EVENT, None, pointer, ctypes.c_ulong, pointer, ctypes.c_bool, ctypes.c_char
        )
        make(made.address, signal.value, self._context.address, True, self._backend)
        return made

    def _wait_for(self, last: _Link) -> None:
        """Wait until the queue has passed a launch, and reuse the events up to it."""
        native = raw.EventHandle(last.queue_waited.native())
        wait("zeEventHostSynchronize", native)
        while self.links:
            link = self.links.popleft()
            link.close()
            link.signal.reset()
            self.free_events.append(link.signal)
            if link is last:
                return
