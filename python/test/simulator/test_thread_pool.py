"""The host threads that run work-groups: each runs once, whoever sleeps, fails, forks or ends."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from python.test.counting import Call, watched
from triton_xe.errors import DeviceError, SimulatorTrap
from triton_xe.runtime import native
from triton_xe.runtime.once import once
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.simulator.kernel import CompiledForm
from triton_xe.runtime.simulator.run import launch, thread_pool

Run = Callable[..., None]
Text = Callable[..., str]

P = "ptr addrspace(1)"
GROUP = "  %g64 = call spir_func i64 @_Z12get_group_idj(i32 0)\n  %g = trunc i64 %g64 to i32\n"
COUNT = GROUP + f"""
  %at = getelementptr i32, {P} %out, i32 %g
  %old = load i32, {P} %at
  %new = add i32 %old, %step
  store i32 %new, {P} %at"""
SPIN = GROUP + f"""
  br label %again
again:
  %n = phi i32 [0, %0], [%n1, %again]
  %n1 = add i32 %n, 1
  %sum = load volatile i32, {P} %out
  %more = icmp ult i32 %n1, %step
  br i1 %more, label %again, label %over
over:"""


@pytest.fixture(params=["compiled", "plain"])
def threads(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], None]]:
    """Sets the number of threads; every test runs on those of C and of Python."""
    if request.param == "compiled" and native.threads is None:
        pytest.skip("threads.c was not built")
    if request.param == "plain":
        if request.node.get_closest_marker("compiled"):
            pytest.skip("what Python does not do")
    before = thread_pool.use(thread_pool.PythonPool()) if request.param == "plain" else None
    yield lambda count: monkeypatch.setenv("TRITON_XE_THREADS", str(count))
    if request.param == "plain":
        thread_pool.use(before)


@pytest.fixture
def count_up(device: SimulatedDevice, kernel: Text) -> Callable[[np.ndarray], None]:
    """One launch that adds 1 to each element of an array, by a program of its own."""
    loaded = device.load(kernel(f"{P} %out, i32 %step", COUNT).encode(), "k")
    return lambda out: device.launch(loaded, (out.size, 1, 1), [out.ctypes.data, 1])


@pytest.mark.parametrize("count", [1, 2, 3, 8, 11])
def test_each_group_runs_once(
    run: Run, kernel: Text, threads: Callable[[int], None], count: int
) -> None:
    text = kernel(f"{P} %out, i32 %step", COUNT)
    threads(count)
    for groups in (1, 2, 3, 7, 9, 64, 1000, 10_007):
        out = np.zeros(groups, np.int32)
        for step in (1, 10, 100):
            run(text, out, step, grid=(groups, 1, 1))
        assert (out == 111).all()


def test_launches_after_the_workers_fell_asleep(
    count_up: Callable[[np.ndarray], None], threads: Callable[[int], None]
) -> None:
    threads(4)
    out = np.zeros(500, np.int32)
    for _ in range(20):
        time.sleep(0.002)
        for _ in range(3):
            count_up(out)
    assert (out == 60).all()


def test_a_launch_waits_for_the_group_that_takes_long(
    device: SimulatedDevice, kernel: Text, threads: Callable[[int], None]
) -> None:
    """Longer than either side spins before it sleeps."""
    body = SPIN + f"""
  %at = getelementptr i32, {P} %out, i32 %g
  store i32 1, {P} %at"""
    threads(2)
    loaded = device.load(kernel(f"{P} %out, i32 %step", body).encode(), "k")
    for _ in range(5):
        out = np.zeros(2, np.int32)
        device.launch(loaded, (2, 1, 1), [out.ctypes.data, 2_000_000])
        assert (out == 1).all()


def test_each_launch_finds_the_heads_of_its_tables_empty(threads: Callable[[int], None]) -> None:
    """On every thread; what surrounds them stays."""
    size, zeroed = 4096, range(512, 1536)
    found: list[bytes] = []
    together = threading.Barrier(2)

    @ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
    def run(kernel: int, record: int, memory: int) -> None:
        found.append(ctypes.string_at(memory, size))
        ctypes.memset(memory, 0xAB, size)
        together.wait(10)

    threads(2)
    runner = ctypes.cast(run, ctypes.c_void_p).value
    job = thread_pool.Job(runner, 0, size, zeroed.start, len(zeroed), 0, thread_pool.FAULT)
    record = np.zeros(16, np.int64)
    for _ in range(4):
        thread_pool.pool().run(2, job, record.ctypes.data)
    assert len(found) == 8
    assert not any(any(memory[at] for at in zeroed) for memory in found)
    assert all(set(memory[:512] + memory[1536:]) == {0xAB} for memory in found[-2:])


def test_several_threads_launch_at_once(
    count_up: Callable[[np.ndarray], None], threads: Callable[[int], None]
) -> None:
    threads(2)
    outs = [np.zeros(300, np.int32) for _ in range(6)]

    def launches(out: np.ndarray) -> None:
        for _ in range(50):
            count_up(out)

    own = [threading.Thread(target=launches, args=(out,)) for out in outs]
    for each in own:
        each.start()
    for each in own:
        each.join()
    assert all((out == 50).all() for out in outs)


@pytest.mark.compiled
@pytest.mark.parametrize("group", [0, 777, 999])
def test_a_wild_access_in_any_thread_is_reported(
    device: SimulatedDevice, kernel: Text, count_up: Callable[[np.ndarray], None],
    threads: Callable[[int], None], group: int,
) -> None:
    body = GROUP + f"""
  %wild = icmp eq i32 %g, %step
  %from = select i1 %wild, {P} %bad, {P} %out
  %at = getelementptr i32, {P} %from, i32 %g
  store i32 1, {P} %at"""
    threads(4)
    wild = device.load(kernel(f"{P} %out, i32 %step, {P} %bad", body).encode(), "k")
    out = np.zeros(1000, np.int32)
    with pytest.raises(SimulatorTrap, match="where there is no memory"):
        device.launch(wild, (1000, 1, 1), [out.ctypes.data, group, 4096])
    out[:] = 0
    count_up(out)
    assert (out == 1).all()


def test_a_pool_that_ended_starts_again(
    run: Run, kernel: Text, threads: Callable[[int], None]
) -> None:
    threads(3)
    text = kernel(f"{P} %out, i32 %step", COUNT)
    out = np.zeros(64, np.int32)
    run(text, out, 1, grid=(64, 1, 1))
    thread_pool.end()
    thread_pool.end()
    run(text, out, 1, grid=(64, 1, 1))
    assert (out == 2).all()


@pytest.mark.compiled
def test_a_thread_that_cannot_start_is_an_error_and_the_next_launch_goes_on(
    run: Run, kernel: Text, threads: Callable[[int], None]
) -> None:
    text = kernel(f"{P} %out, i32 %step", COUNT)
    out = np.zeros(64, np.int32)
    thread_pool.end()
    create = ctypes.c_void_p.in_dll(native.threads, "xe_create_thread")
    kind, left, original = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4), [1], create.value

    def refuse(*arguments: object) -> int:
        left[0] -= 1
        return kind(original)(*arguments) if left[0] >= 0 else errno.EAGAIN

    threads(3)
    replacement = kind(refuse)
    try:
        create.value = ctypes.cast(replacement, ctypes.c_void_p).value
        with pytest.raises(DeviceError, match="cannot start a thread"):
            run(text, out, 1, grid=(64, 1, 1))
    finally:
        create.value = original
    assert (out == 0).all()
    for count in (2, 3):
        threads(count)
        run(text, out, 1, grid=(64, 1, 1))
    assert (out == 2).all()


FORK = """
import os, sys
import numpy as np
from triton_xe.runtime.simulator.device import SimulatedDevice

device = SimulatedDevice("bmg")
kernel = device.load(sys.stdin.buffer.read(), "k")
out = np.zeros(100, np.int32)

def launch():
    device.launch(kernel, (100, 1, 1), [out.ctypes.data, 1])

launch()
child = os.fork()
launch()
assert (out == 2).all()
if child:
    assert os.waitpid(child, 0)[1] == 0
print("ended")
"""


@pytest.mark.parametrize("compiled", ["0", "1"])
def test_a_forked_process_has_workers_of_its_own_and_both_end(kernel: Text, compiled: str) -> None:
    text = kernel(f"{P} %out, i32 %step", COUNT)
    done = subprocess.run(
        [sys.executable, "-c", FORK], input=text.encode(), capture_output=True, timeout=120,
        check=False, env={**os.environ, "TRITON_XE_THREADS": "3", "TRITON_XE_NATIVE": compiled},
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split() == ["ended", "ended"]


@pytest.mark.skipif(native.threads is None, reason="threads.c was not built")
def test_a_thread_without_work_spins_for_a_set_time() -> None:
    native.threads.xe_spin.restype = ctypes.c_int64
    spent = min(native.threads.xe_spin() for _ in range(20))
    assert 300_000 <= spent < 600_000


def test_what_threads_ask_for_at_the_same_time_is_made_once() -> None:
    """Code that was loaded twice is given back once, while it runs; `cached_property` since 3.12
    makes it for each thread that asks."""
    made, together = [], threading.Barrier(4)

    class Loaded:
        @once
        def code(self) -> object:
            time.sleep(0.05)
            made.append(object())
            return made[-1]

    def ask() -> None:
        together.wait()
        assert loaded.code is made[0]

    loaded = Loaded()
    own = [threading.Thread(target=ask) for _ in range(4)]
    for each in own:
        each.start()
    for each in own:
        each.join()
    assert len(made) == 1
    assert {type(vars(CompiledForm)[name]) for name in ("host", "loaded")} == {once}


def test_code_stays_while_it_runs_whoever_gives_the_kernel_back(
    device: SimulatedDevice, kernel: Text
) -> None:
    """Another thread may close the kernel, or put another variant in its place."""
    loaded = device.load(kernel(f"{P} %out, i32 %step", COUNT).encode(), "k")
    alive: list[Any] = []

    def close_first(call: Call) -> None:
        if not alive:
            alive.append(weakref.ref(loaded.own.loaded[0]))
            loaded.close()
            assert alive[0]() is not None
        call.arguments.clear()

    out = np.zeros(4, np.int32)
    with watched(launch.run, at_call=close_first) as calls:
        device.launch(loaded, (4, 1, 1), [out.ctypes.data, 3])
    calls.clear()
    assert (out == 3).all()
    gc.collect()
    assert alive[0]() is None
