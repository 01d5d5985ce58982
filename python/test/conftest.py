"""Options of the whole suite, and tests that need a newer Triton than the installed one."""

import gc
import sys

import pytest

from python.test.selection import left_out
from triton_xe import triton_versions
from triton_xe.collector import paused_collector
from triton_xe.hardware.target import target
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
    with_rest = full or config.getoption("--rest")
    for item in items:
        for name, reason in missing.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("slow") and not full:
            item.add_marker(pytest.mark.skip(reason="slow: run with --full"))
        if item.get_closest_marker("rest") and not with_rest:
            item.add_marker(pytest.mark.skip(reason="part of `make test-rest`: run with --rest"))
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
def needed(monkeypatch):
    """Which conditions launches fail, one entry for each that takes another version.

    Launches are left to Python, which is asked here.
    """
    found, general = [], Versions.general

    def noted(self, failing):
        found.append(failing)
        return general(self, failing)

    monkeypatch.setattr(Versions, "general", noted)
    python = Observer(is_active=True)
    yield found
    python.close()
