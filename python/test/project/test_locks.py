"""A process that forks while another thread holds a lock has one that it can take."""

import gc
import os
import signal
import threading
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest

from triton_xe.collector import paused_collector
from triton_xe.locks import ForkLock, Lock
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.run import jit

SECONDS = 20


def exit_of_child(work: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS)
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def while_another_thread(holds: Callable[[Callable[[], None]], None],
                         work: Callable[[threading.Event], None]) -> None:
    """Run `work` while another thread is in what it calls, until an event is set."""
    begun, end = threading.Event(), threading.Event()

    def enter() -> None:
        begun.set()
        end.wait(SECONDS)

    thread = threading.Thread(target=holds, args=(enter,))
    thread.start()
    assert begun.wait(SECONDS)
    try:
        work(end)
    finally:
        end.set()
        thread.join()


def test_a_lock_is_free_in_the_child_and_held_in_the_parent():
    lock = Lock()

    def hold(enter):
        with lock:
            enter()

    def take() -> bool:
        with lock, lock:
            return True

    def fork(end) -> None:
        assert exit_of_child(take) == 0
        assert not is_free(lock, 0.2)

    while_another_thread(hold, fork)
    assert take()


@pytest.mark.parametrize("kind", [Lock, ForkLock])
def test_a_thread_may_fork_where_it_holds_a_lock(kind):
    lock = kind()

    def leave() -> bool:
        lock.__exit__()
        return is_free(lock)

    with lock:
        assert exit_of_child(leave) == 0
        assert not is_free(lock, 0.2)
    assert is_free(lock)


@pytest.mark.parametrize("lock", [ForkLock(), jit.code_lock, llvm.ffi.lib._lock],
                         ids=["new", "the simulator's code", "llvmlite"])
def test_a_fork_waits_for_what_must_not_be_half_done(lock):
    done = []

    def hold(enter):
        with lock:
            enter()
            done.append(1)

    def fork(end) -> None:
        threading.Timer(0.3, end.set).start()
        assert exit_of_child(lambda: done == [1] and is_free(lock)) == 0

    while_another_thread(hold, fork)
    assert is_free(lock)


def is_free(lock, seconds: float = SECONDS / 2) -> bool:
    """Whether another thread can take it."""
    taken = []

    def take() -> None:
        with lock:
            taken.append(1)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(taken)


class Slow:
    enter: Callable[[], None] = staticmethod(lambda: None)

    @once
    def value(self) -> list[int]:
        self.enter()
        return [1]


def test_what_another_thread_makes_once_the_child_makes_itself():
    slow, other = Slow(), Slow()

    def make(enter):
        slow.enter = enter
        assert slow.value is slow.value

    def fork(end) -> None:
        slow.enter = lambda: None
        assert exit_of_child(lambda: slow.value == other.value == [1]) == 0

    while_another_thread(make, fork)


def test_the_collector_does_not_stay_off_in_the_child():
    def pause(enter):
        with paused_collector():
            enter()

    def fork(end) -> None:
        assert not gc.isenabled()
        assert exit_of_child(gc.isenabled) == 0
        assert not gc.isenabled()

    gc.enable()
    while_another_thread(pause, fork)
    assert gc.isenabled()
