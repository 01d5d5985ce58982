"""The collector is off in a pause of any thread, and as it was before once the last has ended."""

import gc
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch
from triton import knobs
from triton.backends.compiler import GPUTarget, Language

from examples.vector_add import add, add_kernel
from python.test.counting import watched
from triton_xe.backend.compiler import XeBackend
from triton_xe.collector import paused_collector
from triton_xe.llvm.parser import parse_module
from triton_xe.lowering.pipeline import make_llir
from triton_xe.model.time import predict
from triton_xe.runtime.simulator.run.jit import load_kernel

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def running_collector():
    gc.enable()
    yield
    gc.enable()


def test_pauses_nest():
    with paused_collector():
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_a_pause():
    with pytest.raises(KeyError), paused_collector():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with paused_collector():
        pass
    assert not gc.isenabled()


def in_new_process(code):
    """Words that `code` prints in a new process; the process of the tests has frozen objects."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, check=True,
                          capture_output=True, text=True)
    return done.stdout.split()


def test_objects_of_a_pause_become_old():
    assert in_new_process("""
        import gc
        from triton_xe.collector import paused_collector
        with paused_collector():
            kept = [[] for _ in range(10_000)]
        print(gc.get_count()[0] < len(kept))
        print(any(x is kept[0] for x in gc.get_objects(generation=2)))
        """) == ["True", "True"]


def test_garbage_of_many_pauses_is_collected():
    (left,) = in_new_process("""
        import weakref
        from triton_xe import collector
        class Cycle:
            pass
        collector.MOST_UNVISITED = 300
        left = weakref.WeakSet()
        for _ in range(10):
            with collector.paused_collector():
                for _ in range(100):
                    x = Cycle()
                    left.add(x)
                    x.own = x
        print(len(left))
        """)
    assert int(left) <= 400


def test_frozen_objects_stay_frozen():
    held = [[]]
    gc.freeze()
    assert not any(each is held for each in gc.get_objects())
    with paused_collector():
        pass
    assert not any(each is held for each in gc.get_objects())


def test_frozen_objects_are_counted_once():
    assert in_new_process("""
        import gc
        from triton_xe.collector import paused_collector
        counts = []
        gc.get_freeze_count = lambda: counts.append(1) or 1
        for _ in range(3):
            with paused_collector():
                pass
        print(len(counts))
        """) == ["1"]


def test_the_last_of_two_threads_resumes():
    entered, leave = threading.Event(), threading.Event()

    def pause():
        with paused_collector():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=pause)
    with paused_collector():
        other.start()
        assert entered.wait(10)
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()


@pytest.mark.parametrize("function", [make_llir, load_kernel, parse_module, predict])
def test_a_kernel_is_compiled_and_timed_in_a_pause(function, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_XE_CACHE", str(tmp_path))
    add_kernel.device_caches.clear()
    seen = set()
    with watched(function, at_call=lambda call: seen.add(gc.isenabled())):
        x = torch.ones(64, device="xpu")
        torch.xpu.Event(enable_timing=True).record()  # the clock begins
        assert torch.equal(add(x, x).cpu(), torch.full((64,), 2.0))
        torch.xpu.Event(enable_timing=True).record()
    assert seen == {False}
    assert gc.isenabled()
    add_kernel.device_caches.clear()


@pytest.fixture
def stages():
    """Two stages that report whether the collector runs."""
    return stages_of_backend()


def stages_of_backend():
    def note(source, metadata):
        return 1 // metadata["divisor"], gc.isenabled()

    class TwoStages(XeBackend):
        def stages(self, *_):
            return [("first", note), ("last", note)]

    made = {}
    backend = TwoStages(GPUTarget("xpu", "bmg", 16))
    backend.add_stages(made, backend.parse_options({}), Language.TRITON)
    return made


def test_a_pause_lasts_until_the_last_stage(stages):
    assert gc.isenabled()
    assert stages["first"](None, {"divisor": 1}) == (1, False)
    assert not gc.isenabled()
    assert stages["last"](None, {"divisor": 1}) == (1, False)
    assert gc.isenabled()


def test_a_stage_that_fails_ends_the_pause(stages):
    stages["first"](None, {"divisor": 1})
    with pytest.raises(ZeroDivisionError):
        stages["last"](None, {"divisor": 0})
    assert gc.isenabled()


def test_a_pause_ends_with_a_compilation_that_is_given_up(stages):
    stages["first"](None, {"divisor": 1})
    assert not gc.isenabled()
    stages.clear()
    assert gc.isenabled()


def test_a_pause_ends_with_each_stage_where_a_hook_may_keep_them(monkeypatch):
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", lambda *_: None)
    kept = stages_of_backend()
    assert kept["first"](None, {"divisor": 1}) == (1, False)
    assert gc.isenabled()
