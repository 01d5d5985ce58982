"""Host threads that run the work-groups of a launch beside the thread that launches.

The threads are native: they hold no lock of Python's.  After a launch a worker looks for the next
one for `LOOKING` seconds, since kernels often follow each other, and then sleeps: waking up can
take longer than a small launch.  Who launches runs work-groups too; a worker that did not wake up
in time is not waited for.

Each worker is a record in memory.  Its state goes from idle to posted (by the launch), then either
to running (by the worker) and back, or back to idle at once (by a launch that found nothing left to
do).  A sleeping side says so in the record before it looks at the state for the last time, so the
other side knows whom to wake.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import platform
import threading
import time
from dataclasses import dataclass, field
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from triton_xe.errors import DeviceError
from triton_xe.runtime.simulator.run import faults, jit

Bytes = NDArray[np.uint8]
PAGE = 4096
LOOKING = 3e-4
"""Seconds in which a thread looks at a word before it goes to sleep."""
_SAMPLE = 500
"""Looks that are timed: a pause takes 140 cycles on one CPU, 40 on another, and 1 on a third."""

_IDLE, _POSTED, _RUNNING, _QUIT = range(4)
_ASLEEP, _AWAITED, _JOB, _MUTEX, _WAKE, _DONE = 64, 68, 128, 192, 256, 320
_RECORD_BYTES = 384
_PAUSE = {"x86_64": "call void @llvm.x86.sse2.pause()",
          "aarch64": "call void @llvm.aarch64.hint(i32 1)",
          "arm64": "call void @llvm.aarch64.hint(i32 1)"}

_TEXT = f"""
%job = type {{ ptr, ptr, ptr, ptr, ptr }}
@looks = internal global i32 2000

define void @xe_worker_set_looks(i32 %count) nounwind {{
  store i32 %count, ptr @looks
  ret void
}}

; looks that often at a word that stays what it is
define void @xe_worker_look(ptr %me, i32 %count) nounwind {{
entry:
  br label %look
look:
  %n = phi i32 [0, %entry], [%n1, %look]
  %state = load atomic i32, ptr %me acquire, align 4
  <pause>
  %n1 = add i32 %n, 1
  %again = icmp ult i32 %n1, %count
  br i1 %again, label %look, label %end
end:
  ret void
}}

define void @xe_worker_init(ptr %me) nounwind {{
  %mutex = getelementptr i8, ptr %me, i64 {_MUTEX}
  %wake = getelementptr i8, ptr %me, i64 {_WAKE}
  %done = getelementptr i8, ptr %me, i64 {_DONE}
  %a = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr %wake, ptr null)
  %c = call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}}

; returns when the state is idle (who launches waits for that), or when it is not (the worker does)
define internal void @wait(ptr %me, i1 %for.idle) nounwind {{
entry:
  %asleep.at = select i1 %for.idle, i64 {_AWAITED}, i64 {_ASLEEP}
  %asleep = getelementptr i8, ptr %me, i64 %asleep.at
  %cond.at = select i1 %for.idle, i64 {_DONE}, i64 {_WAKE}
  %cond = getelementptr i8, ptr %me, i64 %cond.at
  %mutex = getelementptr i8, ptr %me, i64 {_MUTEX}
  %looks = load i32, ptr @looks
  br label %look
look:
  %n = phi i32 [0, %entry], [%n1, %pause]
  %state = load atomic i32, ptr %me acquire, align 4
  %idle = icmp eq i32 %state, {_IDLE}
  %ready = icmp eq i1 %idle, %for.idle
  br i1 %ready, label %end, label %unready
unready:
  %n1 = add i32 %n, 1
  %again = icmp ult i32 %n1, %looks
  br i1 %again, label %pause, label %sleep
pause:
  <pause>
  br label %look
sleep:
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i32 1, ptr %asleep seq_cst, align 4
  br label %sleep.look
sleep.look:
  %last = load atomic i32, ptr %me seq_cst, align 4
  %last.idle = icmp eq i32 %last, {_IDLE}
  %over = icmp eq i1 %last.idle, %for.idle
  br i1 %over, label %up, label %doze
doze:
  %w = call i32 @pthread_cond_wait(ptr %cond, ptr %mutex)
  br label %sleep.look
up:
  store atomic i32 0, ptr %asleep seq_cst, align 4
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %end
end:
  ret void
}}

; changes the state, and wakes who may sleep until then
define void @xe_worker_set(ptr %me, i32 %state) nounwind {{
entry:
  store atomic i32 %state, ptr %me seq_cst, align 4
  %idle = icmp eq i32 %state, {_IDLE}
  %asleep.at = select i1 %idle, i64 {_AWAITED}, i64 {_ASLEEP}
  %asleep = getelementptr i8, ptr %me, i64 %asleep.at
  %who = load atomic i32, ptr %asleep seq_cst, align 4
  %sleeps = icmp ne i32 %who, 0
  br i1 %sleeps, label %wake, label %end
wake:
  %cond.at = select i1 %idle, i64 {_DONE}, i64 {_WAKE}
  %cond = getelementptr i8, ptr %me, i64 %cond.at
  %mutex = getelementptr i8, ptr %me, i64 {_MUTEX}
  %l = call i32 @pthread_mutex_lock(ptr %mutex)
  %s = call i32 @pthread_cond_signal(ptr %cond)
  %u = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %end
end:
  ret void
}}

define ptr @xe_worker(ptr %me) nounwind {{
entry:
  br label %wait
wait:
  call void @wait(ptr %me, i1 false)
  %state = load atomic i32, ptr %me acquire, align 4
  %over = icmp eq i32 %state, {_QUIT}
  br i1 %over, label %quit, label %claim
claim:
  %pair = cmpxchg ptr %me, i32 {_POSTED}, i32 {_RUNNING} seq_cst seq_cst
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %run, label %wait
run:
  %job.at = getelementptr i8, ptr %me, i64 {_JOB}
  %job = load %job, ptr %job.at
  %enter = extractvalue %job %job, 0
  %runner = extractvalue %job %job, 1
  %kernel = extractvalue %job %job, 2
  %launch = extractvalue %job %job, 3
  %memory = extractvalue %job %job, 4
  call void %enter(ptr %runner, ptr %kernel, ptr %launch, ptr %memory)
  call void @xe_worker_set(ptr %me, i32 {_IDLE})
  br label %wait
quit:
  ret ptr null
}}

define internal void @finish(ptr %me) nounwind {{
entry:
  %pair = cmpxchg ptr %me, i32 {_POSTED}, i32 {_IDLE} seq_cst seq_cst
  %back = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %back, label %end, label %await
await:
  call void @wait(ptr %me, i1 true)
  br label %end
end:
  ret void
}}

define void @xe_work_together(ptr %workers, i64 %count, ptr %enter, ptr %runner, ptr %kernel,
                              ptr %launch, ptr %memory) nounwind {{
entry:
  br label %post
post:
  %i = phi i64 [0, %entry], [%i1, %post]
  %at = getelementptr {{ ptr, ptr }}, ptr %workers, i64 %i
  %one = load ptr, ptr %at
  %memory.at = getelementptr {{ ptr, ptr }}, ptr %workers, i64 %i, i32 1
  %its.memory = load ptr, ptr %memory.at
  %j0 = insertvalue %job poison, ptr %enter, 0
  %j1 = insertvalue %job %j0, ptr %runner, 1
  %j2 = insertvalue %job %j1, ptr %kernel, 2
  %j3 = insertvalue %job %j2, ptr %launch, 3
  %j4 = insertvalue %job %j3, ptr %its.memory, 4
  %job.at = getelementptr i8, ptr %one, i64 {_JOB}
  store %job %j4, ptr %job.at
  call void @xe_worker_set(ptr %one, i32 {_POSTED})
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %count
  br i1 %more, label %post, label %own
own:
  call void %enter(ptr %runner, ptr %kernel, ptr %launch, ptr %memory)
  br label %end
end:
  %k = phi i64 [0, %own], [%k1, %end]
  %k.at = getelementptr {{ ptr, ptr }}, ptr %workers, i64 %k
  %each = load ptr, ptr %k.at
  call void @finish(ptr %each)
  %k1 = add i64 %k, 1
  %left = icmp ult i64 %k1, %count
  br i1 %left, label %end, label %over
over:
  ret void
}}

define void @xe_enter(ptr %runner, ptr %kernel, ptr %launch, ptr %memory) nounwind {{
  call void %runner(ptr %kernel, ptr %launch, ptr %memory)
  ret void
}}
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
"""
_TOGETHER = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7)
_ENTER = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
_PTHREAD = ("mutex_init", "mutex_lock", "mutex_unlock", "cond_init", "cond_wait", "cond_signal")


def module_text(machine: str) -> str:
    """The functions above, with what a CPU has to pause; none is needed."""
    return _TEXT.replace("<pause>", _PAUSE.get(machine, ""))


class _Native:
    """The functions above, compiled and loaded."""

    def __init__(self) -> None:
        process = ctypes.CDLL(None)
        for name in _PTHREAD:
            symbol = getattr(process, f"pthread_{name}")
            llvm.add_symbol(f"pthread_{name}", ctypes.cast(symbol, ctypes.c_void_p).value)
        self.code = jit.NativeCode(jit.compile_object(module_text(platform.machine()), "library"))
        self.enter_address = faults.guard_address() or self.code.address("xe_enter")
        self.enter = _ENTER(self.enter_address)
        self.together = _TOGETHER(self.code.address("xe_work_together"))
        self.start = self.code.address("xe_worker")
        self.init = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.code.address("xe_worker_init"))
        self.set = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(
            self.code.address("xe_worker_set"))
        self.create = process.pthread_create
        self.create.argtypes = [ctypes.c_void_p] * 4
        self.join = process.pthread_join
        self.join.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.looks = round(LOOKING / self._seconds_per_look())
        self._set_looks(self.looks)

    def _seconds_per_look(self) -> float:
        """What one look takes on this CPU, when nothing interrupts it."""
        look = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(
            self.code.address("xe_worker_look"))
        word, times = ctypes.c_int32(), [time.perf_counter()]
        for _ in range(5):
            look(ctypes.addressof(word), _SAMPLE)
            times.append(time.perf_counter())
        return min(after - before for before, after in itertools.pairwise(times)) / _SAMPLE

    def _set_looks(self, count: int) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.code.address("xe_worker_set_looks"))(count)


@cache
def _native() -> _Native:
    return _Native()


@dataclass
class Memory:
    """Memory of one thread for shared local memory and tiles, on a page boundary."""

    _kept: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    address: int = 0

    def prepare(self, nbytes: int, zero_from: int, zero_bytes: int) -> int:
        """The address of at least `nbytes`, of which a part is zeroed."""
        if self.address == 0 or len(self._kept) - PAGE < nbytes:
            self._kept = np.empty(nbytes + PAGE, np.uint8)
            start = self._kept.ctypes.data
            self.address = start + -start % PAGE
        if zero_bytes:
            ctypes.memset(self.address + zero_from, 0, zero_bytes)
        return self.address


class _Worker:
    """One thread and its record."""

    def __init__(self, native: _Native) -> None:
        self._raw = np.zeros(_RECORD_BYTES + 64, np.uint8)
        start = self._raw.ctypes.data
        self.record = start + -start % 64
        self.memory = Memory()
        self._thread = ctypes.c_size_t()
        native.init(self.record)
        failed = native.create(ctypes.byref(self._thread), None, native.start, self.record)
        if failed:
            raise DeviceError(f"the simulator cannot start a thread: {os.strerror(failed)}")

    def end(self, native: _Native) -> None:
        native.set(self.record, _QUIT)
        native.join(self._thread.value, None)


class Crew:
    """The workers of this process; one launch at a time has them."""

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._workers: list[_Worker] = []
        self._pairs = (ctypes.c_void_p * 0)()
        self._own = threading.local()

    def run(self, threads: int, runner: int, kernel: int, launch: int, nbytes: int,
            zero_from: int = 0, zero_bytes: int = 0) -> None:
        """Enter `runner(kernel, launch, memory)` on up to `threads` threads, this one included.

        A launch that finds the others at work for another one runs on its own thread alone.
        """
        native = _native()
        own = getattr(self._own, "memory", None)
        if own is None:
            own = self._own.memory = Memory()
        memory = own.prepare(nbytes, zero_from, zero_bytes)
        if threads < 2 or not self._busy.acquire(blocking=False):
            native.enter(runner, kernel, launch, memory)
            return
        try:
            self._hire(threads - 1, native)
            for k in range(threads - 1):
                memory_of = self._workers[k].memory
                self._pairs[2 * k + 1] = memory_of.prepare(nbytes, zero_from, zero_bytes)
            native.together(ctypes.addressof(self._pairs), threads - 1, native.enter_address,
                            runner, kernel, launch, memory)
        finally:
            self._busy.release()

    def _hire(self, count: int, native: _Native) -> None:
        while len(self._workers) < count:
            self._workers.append(_Worker(native))
            self._pairs = (ctypes.c_void_p * (2 * len(self._workers)))()
            for k, worker in enumerate(self._workers):
                self._pairs[2 * k] = worker.record

    def end(self) -> None:
        """Let all threads end, and wait until they have."""
        with self._busy:
            for worker in self._workers:
                worker.end(_native())
            self._workers.clear()


_crews = [Crew()]


def crew() -> Crew:
    """The workers of this process."""
    return _crews[0]


def _after_fork() -> None:
    """A forked process has none of its parent's threads."""
    _crews[0] = Crew()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: crew().end())
