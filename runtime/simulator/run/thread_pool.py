"""Host threads that run the work-groups of a launch next to the launching thread.

`NativePool` is `runtime/native/threads.c`: its threads do not need Python's lock, and spin for a
while before they sleep.  They turn an invalid access of a kernel into an error.  `PythonPool`
replaces it if that library is missing: launches start more slowly, and an invalid access ends the
process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Protocol

import numpy as np

from triton_xe.errors import DeviceError
from triton_xe.runtime import native

PAGE = 4096
FAULT = 21
"""Error code of an invalid access; the error record's third word is the address."""


class Job(ctypes.Structure):
    """Common data of a kernel's launches.

    `size`: bytes of each thread's memory, of which `zero_size` from `zero_from` on are zeroed.
    `error`: offset of the error record in the record of a launch.
    """

    _fields_: ClassVar = [(name, ctypes.c_int64) for name in (
        "runner", "kernel", "size", "zero_from", "zero_size", "error", "fault")]


class Pool(Protocol):
    """The threads of this process, which run one launch at a time."""

    def run(self, threads: int, job: Job, launch: int) -> None:
        """Call `runner(kernel, launch, memory)` on up to `threads` threads, including this one.

        If the other threads run another launch, it runs on this thread alone.
        """

    def end(self) -> None:
        """End all threads."""


class NativePool:
    """The threads of `threads.c`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        word = ctypes.c_void_p
        library.xe_pool_new.restype = word
        self._run, self._end = library.xe_pool_run, library.xe_pool_end
        self._run.argtypes = [word, ctypes.c_int, ctypes.POINTER(Job), word]
        self._end.argtypes, self._end.restype = [word], None
        self._pool = library.xe_pool_new()
        if native.launch is not None:
            run = ctypes.cast(self._run, word).value
            native.launch.use_pool(run, self._pool)

    def run(self, threads: int, job: Job, launch: int) -> None:
        failed = self._run(self._pool, threads, job, launch)
        if failed:
            raise DeviceError(f"the simulator cannot start a thread: {os.strerror(failed)}")

    def end(self) -> None:
        self._end(self._pool)


class PythonPool:
    """Threads of Python, which give up its lock while a kernel runs."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._own = threading.local()
        self._executor: ThreadPoolExecutor | None = None

    def run(self, threads: int, job: Job, launch: int) -> None:
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(job.runner)

        def enter() -> None:
            call(job.kernel, launch, self._memory(job.size, job.zero_from, job.zero_size))

        if threads < 2 or not self._busy.acquire(blocking=False):
            enter()
            return
        try:
            executor = self._executor = self._executor or ThreadPoolExecutor(os.cpu_count())
            others = [executor.submit(enter) for _ in range(threads - 1)]
            enter()
            for each in others:
                if not each.cancel():
                    each.result()
        finally:
            self._busy.release()

    def _memory(self, size: int, zero_from: int, zero_size: int) -> int:
        """Address of this thread's memory, aligned to a page, with its part for zeros cleared."""
        kept = getattr(self._own, "memory", None)
        if kept is None or kept.size < size + PAGE:
            kept = self._own.memory = np.empty(size + PAGE, np.uint8)
        address = int(kept.ctypes.data)
        address += -address % PAGE
        ctypes.memset(address + zero_from, 0, zero_size)
        return address

    def end(self) -> None:
        with self._busy:
            if self._executor is not None:
                self._executor.shutdown()
            self._executor = None


current_pool: Pool | None = None


def pool() -> Pool:
    """The threads of this process, started at its first launch."""
    global current_pool
    if current_pool is None:
        current_pool = PythonPool() if native.threads is None else NativePool(native.threads)
    return current_pool


def use(threads: Pool | None) -> Pool | None:
    """Run the next launches on these threads, or on new ones; return those that were used."""
    global current_pool
    before, current_pool = current_pool, threads
    return before


def end() -> None:
    """End the threads of this process; the next launch starts new ones."""
    if current_pool is not None:
        current_pool.end()


def _after_fork() -> None:
    """Forget the parent's threads, which a forked process does not have."""
    global current_pool
    current_pool = None
    if native.launch is not None:
        native.launch.use_pool(0, 0)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(end)
