"""The clock of simulated devices: predicted times, and benchmarks that run no kernel."""

import statistics
from types import SimpleNamespace

import pytest
import triton
import triton.language as tl

from python.test.counting import watched
from triton_xe.backend import timing
from triton_xe.backend.driver import FLUSHED_BYTES
from triton_xe.hardware.target import target
from triton_xe.runtime.operator_traffic import Traffic
from triton_xe.runtime.simulator.clock import DeviceClock
from triton_xe.runtime.simulator.interface import KernelSource, SimulatedDevice, clock_of
from triton_xe.runtime.simulator.run.jit import load_kernel

torch = pytest.importorskip("torch")


@triton.jit
def scaled_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def count_kernel(x):
    tl.atomic_add(x, 1)


@triton.jit
def transposed_kernel(x, y, n, BLOCK: tl.constexpr):
    row = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    column = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    tl.store(y + tl.trans(column) * n + tl.trans(row), tl.trans(tl.load(x + row * n + column)))


@triton.jit
def gathered_kernel(x, y, rows, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(rows + tl.program_id(0))
    tl.store(y + tl.program_id(0) * n + i, tl.load(x + row * n + i, i < n), i < n)


@triton.jit
def every_kernel(x, y, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i * step, i < n), i < n)


@triton.jit
def persistent_kernel(x, y, tiles, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i))


def scale(x, y, block=1024):
    n = x.numel()
    scaled_kernel[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)


@pytest.fixture
def tensors():
    x = torch.rand(1 << 20, device="xpu")
    return x, torch.empty_like(x)


def test_do_bench_predicts_the_bandwidth_of_the_device(tensors):
    x, y = tensors
    ms = triton.testing.do_bench(lambda: scale(x, y))
    device = torch.xpu.get_device_properties(0)
    assert type(ms) is float
    gigabytes = 2 * x.nbytes / ms / 1e6
    peak = device.memory_bus_width / 8 * device.memory_clock_rate * 2 / 1e3
    assert 0.3 * peak < gigabytes < 1.1 * peak
    assert torch.equal(y, x * 2)


def test_benchmarks_run_their_subject_once():
    x = torch.zeros(1, dtype=torch.int32, device="xpu")
    triton.testing.do_bench(lambda: count_kernel[(1,)](x))
    assert x.item() == 1
    count_kernel[(1,)](x)
    assert x.item() == 2


def copied_do_bench(call, *, rep):
    """A copy of Triton's timing loop, as libraries have them; returns its number of calls, 7 more
    than repetitions, and the median time.
    """
    driver = triton.runtime.driver.active
    interface, cache = driver.get_device_interface(), driver.get_empty_cache_for_benchmark()

    def timed(*calls):
        start, end = (interface.Event(enable_timing=True) for _ in range(2))
        start.record()
        for each in calls:
            each()
        end.record()
        return start.elapsed_time(end)

    def clear():
        driver.clear_cache(cache)

    call()
    estimate = timed(*(5 * (clear, call))) / 5
    call()
    times = [clear() or timed(call) for _ in range(int(rep / estimate))]
    return 7 + len(times), statistics.median(times)


def test_copies_of_do_bench_repeat_as_on_a_card_and_run_every_launch():
    x = torch.zeros(1, dtype=torch.int32, device="xpu")
    calls, ms = copied_do_bench(lambda: count_kernel[(1,)](x), rep=50)
    assert x.item() == calls
    flush_ms = FLUSHED_BYTES / clock_of(target("bmg"), 0).rates.write / 1e6
    assert calls - 7 == pytest.approx(50 / flush_ms, rel=0.1)
    assert ms == pytest.approx(triton.testing.do_bench(lambda: count_kernel[(1,)](x)), rel=0.1)


def test_a_benchmark_that_fails_leaves_launches_running(tensors):
    x, y = tensors
    calls = []

    def fails():
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("no more")
        scale(x, y)

    with pytest.raises(RuntimeError, match="no more"):
        triton.testing.do_bench(fails)
    y.zero_()
    scale(x, y)
    assert torch.equal(y, x * 2)


def test_autotune_takes_the_configuration_with_the_least_predicted_time(tensors):
    x, y = tensors
    tuned = triton.autotune(
        [triton.Config({"BLOCK": block}, num_warps=4) for block in (16, 1024)], key=["n"],
    )(scaled_kernel)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    assert tuned.best_config.kwargs["BLOCK"] == 1024
    assert torch.equal(y, x * 2)


def test_equal_predictions_are_equal_times_whenever_they_are_read(tensors):
    x, y = tensors
    clock = clock_of(target("bmg"), 0)
    times = set()
    for _ in range(20):
        times.add(triton.testing.do_bench(lambda: scale(x, y)))
        clock.operate(Traffic(operators=1, read=12_345_678))
    assert len(times) == 1


def test_what_is_only_timed_is_not_compiled_for_the_host(tensors):
    x, y = tensors

    def launch():
        scaled_kernel[(1,)](x, y, 48, BLOCK=64)

    with watched(load_kernel, KernelSource.translated) as calls:
        assert triton.runtime.driver.active.get_benchmarker()(launch) > 0
        assert not calls
        launch()
    assert calls[-1].name == "load_kernel"  # the translated text may be in the cache


def test_operators_are_timed_by_one_call():
    calls = []
    clock_of(target("bmg"), 0).time_of(lambda: calls.append(torch.ones(4, device="xpu") + 1))
    assert len(calls) == 1


def test_a_call_that_times_others_at_first_is_timed_without_them(tensors):
    x, y = tensors
    clock = clock_of(target("bmg"), 0)
    alone = clock.time_of(lambda: scale(x, y))
    tuned = []

    def call():
        if not tuned:
            tuned.append(clock.time_of(lambda: scale(x, y, 16)))
        scale(x, y)

    assert clock.time_of(call) == pytest.approx(alone, rel=1e-3)
    assert tuned[0] > 2 * alone


def test_events_read_the_clock_of_the_device(tensors):
    x, y = tensors
    start, end = (torch.xpu.Event(enable_timing=True) for _ in range(2))
    start.record()
    y.copy_(x)
    end.record()
    ms = start.elapsed_time(end)
    assert 2 * x.nbytes / ms / 1e6 < 1000
    assert 0.001 < ms < 1


def test_an_operator_does_not_read_what_it_only_writes(tensors):
    x, y = tensors
    ms = triton.testing.do_bench(lambda: torch.add(x, x, out=y))
    assert triton.testing.do_bench(lambda: x + x) == pytest.approx(ms, rel=0.01)


def test_products_of_torch_take_the_time_of_the_matrix_unit():
    a = torch.zeros(1024, 1024, dtype=torch.float16, device="xpu")
    seconds = triton.testing.do_bench(lambda: a @ a) * 1e-3
    assert 50e12 < 2 * 1024**3 / seconds < 120e12
    wide = a.float()
    seconds = triton.testing.do_bench(lambda: torch.addmm(wide, wide, wide)) * 1e-3
    assert 5e12 < 2 * 1024**3 / seconds < 20e12


def test_the_clock_of_the_host(monkeypatch):
    monkeypatch.setenv("TRITON_XE_CLOCK", "host")
    assert SimulatedDevice("bmg").clock is None
    assert timing.bench_simulated(lambda: None) > 0


def test_time_advances_by_operators_and_never_stands():
    clock = DeviceClock(target("bmg"), index=63)
    first = clock.now_ms()
    assert first < clock.now_ms()
    clock.operate(Traffic(read=456e6))
    assert clock.now_ms() - first == pytest.approx(1, rel=0.01)


def test_what_ran_before_the_first_reading_is_not_predicted():
    asked = []

    class Clock(DeviceClock):
        def predict(self, kernel, *rest):
            asked.append(kernel)
            return SimpleNamespace(us=5000.0)

    clock = Clock(target("bmg"), index=62)
    early, late = (SimpleNamespace(serial=n, pointer_arguments=()) for n in (1, 2))
    clock.note(early, (1, 1, 1), ())
    first = clock.now_ms()
    clock.note(late, (1, 1, 1), ())
    second = clock.now_ms()
    assert second - first == pytest.approx(5)
    clock.note(early, (1, 1, 1), ())
    clock.begin()
    assert clock.now_ms() - second < 1e-3
    assert asked == [late]


def test_the_timer_of_torch_reads_the_clock_of_the_device(tensors):
    from torch.utils.benchmark import Timer

    x, y = tensors
    ms = triton.testing.do_bench(lambda: scale(x, y))
    timer = Timer("scale(x, y)", globals={"scale": scale, "x": x, "y": y})
    assert timer.blocked_autorange(min_run_time=0.01).median * 1e3 == pytest.approx(ms, rel=0.01)
    counts = torch.zeros(1, dtype=torch.int32, device="xpu")
    found = Timer("count()", globals={"count": lambda: count_kernel[(1,)](counts)}).timeit(1000)
    assert counts.item() == 1
    assert 1e-6 < found.mean < 1e-4


def test_the_timer_of_torch_measures_statements_without_kernels_by_the_host():
    from torch.utils.benchmark import Timer

    found = Timer("time.sleep(0.002)", "import time").timeit(3)
    assert 0.002 <= found.mean < 0.1


def test_a_copy_of_do_bench_runs_all_it_repeats(tensors):
    """Only Triton's own is known to take repeated runs for timing alone."""
    names = dict(vars(triton.testing), __name__="copied")
    code = triton.testing.do_bench.__code__
    do_bench = type(triton.testing.do_bench)(code, names, argdefs=(1, 1, None, None, "mean"))
    x = torch.zeros(1, dtype=torch.int32, device="xpu")
    ms = do_bench(lambda: count_kernel[(1,)](x), 0.01, 0.01)
    assert x.item() >= 8
    assert 0.001 < ms < 0.01


@pytest.mark.intel_compiler
def test_the_exact_clock_counts_native_instructions(tensors):
    from triton_xe.tools.exact import native_issue

    x, y = tensors
    clock = clock_of(target("bmg"), 0)
    clock.now_ms()
    seen = []

    def count(kernel, described, walk, estimated):
        seen.append((native_issue(kernel, described, walk, estimated), estimated))
        return seen[-1][0]

    clock.known_times.clear()
    clock.native = count
    try:
        triton.testing.do_bench(lambda: scale(x, y))
    finally:
        clock.native = None
        clock.known_times.clear()
    (exact, estimated), = seen
    assert exact != estimated
    assert 0.3 < exact.messages / estimated.messages < 3
    assert 0 < exact.integer < 10 * estimated.integer


SIDE = 2048
WALKS = {
    "transposed": (2, lambda x, y, rows: transposed_kernel[(SIDE // 32, SIDE // 32)](
        x, y, SIDE, BLOCK=32)),
    "gathered": (2 * 1500 / SIDE, lambda x, y, rows: gathered_kernel[(SIDE,)](
        x, y, rows, 1500, BLOCK=SIDE)),
    "every": (0.5 + 1 / 32, lambda x, y, rows: every_kernel[(SIDE * SIDE // 32 // 1024,)](
        x, y, SIDE * SIDE // 32, 32, BLOCK=1024)),
    "persistent": (2, lambda x, y, rows: persistent_kernel[(160,)](
        x, y, SIDE * SIDE // 1024, BLOCK=1024)),
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_kernel_takes_the_time_of_the_lines_that_it_moves(walk):
    """However it walks over them; `every` uses one element in two lines."""
    size, run = WALKS[walk]
    x, y = torch.zeros(SIDE, SIDE, device="xpu"), torch.empty(SIDE, SIDE, device="xpu")
    rows = torch.randperm(SIDE, device="xpu").int()
    rates = clock_of(target("bmg"), 0).rates
    shortest = size * x.nbytes / max(rates.read, rates.write) / 1e6
    assert 0.95 < triton.testing.do_bench(lambda: run(x, y, rows)) / shortest < 1.3
