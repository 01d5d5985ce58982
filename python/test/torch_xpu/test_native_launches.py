"""Launches on simulated devices in compiled code: what they do, and which are left to Python."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from python.test.counting import Call, watched
from triton_xe.backend import devices
from triton_xe.errors import SimulatorTrap
from triton_xe.runtime import native
from triton_xe.runtime.observers import Observer
from triton_xe.runtime.simulator.device import SimulatedDevice
from triton_xe.runtime.simulator.run import watchdog

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("xpu"),
    pytest.mark.skipif(native.launch is None or native.threads is None, reason="no parts in C"),
    pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
                       reason="this torch's tensors are read in Python"),
]


@triton.jit
def scaled(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * factor, at < n)


@triton.jit
def counted(x, WIDE: tl.constexpr):
    at = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0)
    tl.atomic_add(x + at + tl.program_id(0), WIDE)


@triton.jit
def mixed(y, small, wide, flag, fraction: tl.bfloat16, half: tl.float16):
    tl.store(y, small)
    tl.store(y + 1, wide)
    tl.store(y + 2, flag.to(tl.int64))
    tl.store(y + 3, (fraction * 1024).to(tl.int64))
    tl.store(y + 4, (half * 1024).to(tl.int64))


@triton.jit
def wild(x, far):
    tl.store(x + far - (far // 4).to(tl.int64) * (1 << 36), 1.0)


@triton.jit
def repeated(x, times):
    for i in range(times):
        tl.store(x, tl.load(x, volatile=True) + i)


class Seen:
    """The launches that came to Python."""

    def __init__(self, grids: list[Any]) -> None:
        self.grids = grids

    def count(self, work: Any) -> int:
        before = len(self.grids)
        work()
        return len(self.grids) - before


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, without_maps: None) -> Iterator[Seen]:
    for name in ("SANITIZE", "SHUFFLE", "TRACE", "TIME_LIMIT", "THREADS"):
        monkeypatch.delenv(f"TRITON_XE_{name}", raising=False)
    grids = list[Any]()

    def note(call: Call) -> None:
        grids.append(call.arguments["grid"])
        call.arguments.clear()  # so that kernels can be freed

    with watched(SimulatedDevice.launch, at_call=note):
        yield Seen(grids)


def doubled(x: Any, n: int | None = None) -> Any:
    y = torch.zeros_like(x)
    n = x.numel() if n is None else n
    scaled[(triton.cdiv(n, 256),)](x, y, n, 2.0, BLOCK=256)
    return y


def test_the_second_launch_is_compiled_code(seen: Seen) -> None:
    x = torch.arange(1000.0, device="xpu")
    doubled(x)
    assert seen.count(lambda: doubled(x)) == 0
    assert torch.equal(doubled(x).cpu(), x.cpu() * 2)
    parameter = torch.nn.Parameter(x[8:520])  # a view: its storage begins elsewhere
    assert torch.equal(doubled(parameter).cpu()[:512], x[8:520].cpu() * 2)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_every_program_runs_once(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    wide = 2 + threads  # a kernel that no other case has launched
    if threads:
        monkeypatch.setenv("TRITON_XE_THREADS", str(threads))
    x = torch.zeros(7 * 5 * 11, dtype=torch.int32, device="xpu")
    for _ in range(3):
        counted[(7, 5, 11)](x, WIDE=wide)
    counted[(0, 5, 11)](x, WIDE=wide)
    assert x.tolist() == [3 * wide] * x.numel()
    assert seen.grids == [(7, 5, 11)]


def test_a_limit_that_is_set_to_what_it_was(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no second look, unlike another one."""
    x = torch.arange(1000.0, device="xpu")
    monkeypatch.setenv("TRITON_XE_THREADS", "2")
    doubled(x)
    for threads, looks in (("2", 0), ("2", 0), ("1", 1), ("1", 0)):
        monkeypatch.setenv("TRITON_XE_THREADS", threads)
        assert seen.count(lambda: doubled(x)) == looks


def test_numbers_of_all_types(seen: Seen) -> None:
    y = torch.zeros(5, dtype=torch.int64, device="xpu")
    for sign in (1, -1, 1, -1):
        y.zero_()
        mixed[(1,)](y, sign * 5, sign * (5 << 40), sign > 0, sign * 0.375, sign * 0.25)
        assert y.tolist() == [sign * 5, sign * (5 << 40), sign > 0, sign * 384, sign * 256]
    assert len(seen.grids) == 1


def test_other_versions_are_compiled_code_too(seen: Seen) -> None:
    """A length that is no multiple of 16 has a kernel of its own, for which masks are needed."""
    x = torch.arange(4096.0, device="xpu")
    for n in (4096, 1000, 999):
        doubled(x, n), doubled(x, n)
        assert seen.count(lambda n=n: doubled(x, n)) == 0
        y = doubled(x, n).cpu()
        assert torch.equal(y[:n], x.cpu()[:n] * 2)
        assert not y[n:].any()


def test_what_python_must_see(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x = torch.ones(512, device="xpu")
    here = torch.ones(512)
    doubled(x)

    def left() -> int:
        return seen.count(lambda: doubled(x))

    assert left() == 0
    for name, value in (("SHUFFLE", "3"), ("TIME_LIMIT", "5"), ("TRACE", str(tmp_path / "trace"))):
        with monkeypatch.context() as changed:
            changed.setenv(f"TRITON_XE_{name}", value)
            assert [left(), left()] == [1, 1], name
        left()
    with pytest.raises(ValueError, match="'x' is a tensor on cpu"):
        doubled(here)
    told: list[Any] = []

    class Telling(Observer):
        def note(self, *launch: Any) -> None:
            told.append(launch)

    watcher = Telling(is_active=True)
    assert left() == len(told) == 1
    watcher.close()
    assert left() == 0
    device = devices.device(0)
    assert isinstance(device, SimulatedDevice)
    assert device.clock is not None
    with device.clock.without_running():
        assert left() == 1
        assert not doubled(x).any()
    assert left() == 0
    with monkeypatch.context() as changed:
        changed.setenv("TRITON_XE_SANITIZE", "1")
        assert [left(), left()] == [1, 1]


@pytest.mark.skipif(not hasattr(torch.xpu, "XPUGraph"), reason="this torch has no XPUGraph")
def test_captured_launches_run_at_replays(seen: Seen) -> None:
    x = torch.ones(512, device="xpu")
    doubled(x)
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        y = doubled(x)
    graph.replay()
    assert y.tolist() == [2] * 512
    assert seen.count(lambda: doubled(x)) == 0


def test_the_profiler_sees_launches(seen: Seen) -> None:
    x = torch.ones(512, device="xpu")
    doubled(x), doubled(x)
    with torch.profiler.profile() as profile:
        doubled(x)
    assert any(event.name == "scaled" for event in profile.events())


def test_the_clock_counts_each_launch(seen: Seen) -> None:
    x = torch.ones(1 << 16, device="xpu")
    clock = getattr(devices.device(0), "clock", None)
    assert clock is not None
    doubled(x)
    y = torch.zeros_like(x)

    def launch(n: int) -> None:
        scaled[(256,)](x, y, n, 2.0, BLOCK=256)

    def spent(*sizes: int) -> float:
        start = clock.now_ms()
        for n in sizes:
            launch(n)
        return float(clock.now_ms() - start)

    launch(x.numel())
    one = spent(x.numel())
    assert spent(*[x.numel()] * 50) == pytest.approx(50 * one, rel=0.01)
    many = range(16, 16 + 16 * 600, 16)  # more than a journal holds
    assert spent(*many) == pytest.approx(sum(spent(n) for n in many), rel=0.01)


def test_traps_are_told(seen: Seen) -> None:
    x = torch.zeros(4, device="xpu")
    for far in (2, 3):
        wild[(1,)](x, far)
    count = len(seen.grids)
    with pytest.raises(SimulatorTrap, match="an access at 0x"):
        wild[(1,)](x, 7)
    assert len(seen.grids) == count
    wild[(1,)](x, 3)
    assert x.tolist() == [0, 0, 1, 1]


@pytest.mark.rest
def test_a_launch_that_takes_too_long_ends(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(1, dtype=torch.int32, device="xpu")
    monkeypatch.setattr("triton_xe.runtime.simulator.kernel.LEAST_LIMIT", 0.1)
    monkeypatch.setenv("TRITON_XE_TIME_LIMIT", "1")
    repeated[(1,)](x, 2), repeated[(1,)](x, 3)
    count = len(seen.grids)
    monkeypatch.setattr(watchdog, "SLEEP", 0.05)
    watchdog.wake.set()
    with pytest.raises(SimulatorTrap, match="still running after 1 s"):
        repeated[(1,)](x, (1 << 31) - 3)
    assert len(seen.grids) == count


def test_a_forked_process_launches_in_python_first(seen: Seen) -> None:
    x = torch.ones(512, device="xpu")
    doubled(x), doubled(x)
    child = os.fork()
    if not child:
        count = seen.count(lambda: doubled(x))
        right = doubled(x).sum().item() == 1024
        os._exit(0 if (count, right) == (1, True) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_kernel_is_given_back(seen: Seen) -> None:
    """Also with the loop of references that its state closes, and with launches that are noted."""
    x = torch.ones(512, device="xpu")
    device = devices.device(0)
    compiled = scaled.warmup(x, x, 512, 2.0, BLOCK=256, num_warps=2, grid=(2,))
    kernel = device.load(compiled.kernel, compiled.name)
    assert kernel.launch_state is not None
    state = weakref.ref(kernel)
    device.launch(kernel, (2, 1, 1), (x.data_ptr(), x.data_ptr(), 512, 2.0))
    assert kernel.launch_state.code is not None
    getattr(device, "clock").now_ms()  # noqa: B009
    kernel.close()
    assert kernel.launch_state.code is None
    del kernel
    gc.collect()
    assert state() is None
