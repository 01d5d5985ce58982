"""Options of the whole suite, and tests that need a newer Triton than the installed one."""

import gc
import os
import shutil
import sys
import tempfile

import pytest

from python.test.counting import watched
from python.test.selection import left_out
from triton_xe import triton_versions
from triton_xe.collector import paused_collector
from triton_xe.hardware.target import target
from triton_xe.runtime import torch_memory
from triton_xe.runtime.observers import Observer
from triton_xe.runtime.versions import Versions
from triton_xe.tools import intel


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true",
        help="every combination of settings instead of a selection, and the tests marked slow",
    )
    parser.addoption(
        "--rest", action="store_true",
        help="also the tests marked rest, which `make test` leaves to `make test-rest`",
    )


MEMORY, ROOM = "/dev/shm", 4 << 30


def pytest_configure(config):
    """Keep Triton's cache in memory during a run of several processes, if there is room.

    Triton makes and removes a folder for each file of its cache: 0.06 ms in memory, 1 to 5 ms on
    some disks, ten times a kernel.
    """
    processes = config.getoption("numprocesses", None)  # none in a worker
    if not processes or "TRITON_CACHE_DIR" in os.environ or not os.path.isdir(MEMORY):
        return
    if shutil.disk_usage(MEMORY).free > ROOM:
        folder = tempfile.TemporaryDirectory(dir=MEMORY, prefix="triton-")
        config.add_cleanup(folder.cleanup)
        os.environ["TRITON_CACHE_DIR"] = folder.name


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exempt modules and tests from garbage collection, because they stay to the end.

    Cycles of dead objects are looked for 100 times less often, because tests leave few.
    """
    with paused_collector():
        collected = yield
        gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    return collected


def pytest_sessionfinish():
    """Let the collector free what was exempt, so that nanobind reports no leaks at the end."""
    gc.unfreeze()


def pytest_collection_modifyitems(config, items):
    full = config.getoption("--full")
    here = triton_versions.installed().number
    missing = {"intel_compiler": intel.available(), "intel_driver": intel.driver_available()}
    for item in () if full else left_out(items):
        item.add_marker("rest")
    excluded = () if full else ("slow",) if config.getoption("--rest") else ("slow", "rest")
    others = {item for item in items if any(map(item.get_closest_marker, excluded))}
    config.hook.pytest_deselected(items=list(others))
    items[:] = [item for item in items if item not in others]
    for item in items:
        for name, reason in missing.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
        for mark in item.iter_markers("since_triton"):
            if here < mark.args:
                since = ".".join(map(str, mark.args))
                item.add_marker(pytest.mark.skip(reason=f"the language has this since {since}"))


@pytest.fixture(scope="module", autouse=True)
def clock_begins_anew():
    """Nobody who reads the clock waits until the launches of other files' tests are predicted."""
    clock = sys.modules.get("triton_xe.runtime.simulator.clock")
    if clock is not None:
        clock.clock_of(target("bmg"), 0).begin()


@pytest.fixture
def choose(monkeypatch):
    """`choose("sim:dg2")`: launches of this test run on other devices."""
    from triton_xe.backend import devices

    def forget():
        devices.selection.cache_clear()
        devices.devices.cache_clear()

    def choose_devices(names):
        monkeypatch.setenv("TRITON_XE_DEVICE", names)
        forget()

    yield choose_devices
    forget()


@pytest.fixture
def without_maps(monkeypatch):
    """Launch as if all memory was written: tensors of checked tests may still be alive."""
    was_active = torch_memory.unwritten_maps.is_active
    torch_memory.unwritten_maps.is_active = False
    monkeypatch.setattr(torch_memory, "has_maps", lambda: False)
    yield
    torch_memory.unwritten_maps.is_active = was_active


@pytest.fixture
def needed():
    """Calls for the general version, one for each launch that fails a condition.

    Launches are left to Python, whose calls are watched.
    """
    python = Observer(is_active=True)
    with watched(Versions.general) as calls:
        yield calls
    python.close()
