"""Options of the whole suite, and tests that need a newer Triton than the installed one."""

import gc
import sys
from collections import defaultdict

import pytest

from python.test.gemm.pairwise import cover
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


def settings_of(item):
    """(names, value) of each `parametrize` of a test and of each parameter of its fixtures.

    Values are told apart by identity, because some of them cannot be hashed.
    """
    params = item.callspec.params
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = [tuple(name.strip() for name in (x.split(",") if isinstance(x, str) else x))
              for x in marks]
    groups += [(name,) for name in params if not any(name in group for group in groups)]
    return tuple((group, tuple(id(params[name]) for name in group)) for group in groups)


def left_out(items):
    """What the marks `covering` and `sample` leave out of the cases of a test."""
    tests = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow") and not item.get_closest_marker("rest"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        chosen = selected(cases)
        yield from (case for i, case in enumerate(cases) if i not in chosen)


def selected(cases):
    """Places of those cases of a test that `make test` runs."""
    if cases[0].get_closest_marker("covering"):
        settings = [settings_of(case) for case in cases]
        return set(cover(settings, len(settings[0]) - 1, in_turns=True))
    sample = cases[0].get_closest_marker("sample")
    if sample is None or sample.args[0] >= len(cases):
        return range(len(cases))
    (count,) = sample.args
    return {i * len(cases) // count for i in range(count)}


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
