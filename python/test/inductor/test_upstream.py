"""The tool that runs PyTorch's own tests: what it samples, and what it keeps."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import upstream

NAMES = [f"test_a.py::TestXPU::test_{k}_{device}" for k in range(20) for device in ("xpu", "cpu")]


def sampled(monkeypatch: pytest.MonkeyPatch, known: Path) -> list[str]:
    for name, value in zip(upstream.VARIABLES, (8, 3, known, "unused"), strict=True):
        monkeypatch.setenv(name, str(value))
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in NAMES]
    upstream.pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)  # type: ignore[arg-type]
    return [item.nodeid for item in items]


def test_a_sample_without_known_results(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("")
    first = sampled(monkeypatch, known)
    assert len(first) == 8
    assert all(name.endswith("xpu") for name in first)
    known.write_text("\n".join(first[:5]))
    assert sampled(monkeypatch, known) == first[5:]


def test_results_are_kept_as_they_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = tmp_path / "test_a.py.jsonl"
    monkeypatch.setenv(upstream.RESULTS, str(results))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    text = "E   AssertionError: 3 is not 0x7f\nE   at /home/someone/a.py"
    for when, outcome, name in (("setup", "passed", "one"), ("call", "passed", "one"),
                                ("setup", "skipped", "two"), ("call", "failed", "three"),
                                ("call", "passed", "four"), ("teardown", "failed", "four")):
        upstream.pytest_runtest_logreport(SimpleNamespace(  # type: ignore[arg-type]
            when=when, outcome=outcome, nodeid=f"test_a.py::{name}", duration=1.25,
            failed=outcome == "failed", longreprtext=text))
    assert len(results.read_text().splitlines()) == 5
    assert json.loads(results.read_text().splitlines()[0])["seconds"] == 1.2
    counts, failures = upstream.summary(results)
    assert counts == {"passed": 1, "skipped": 1, "failed": 2}
    assert failures == {"AssertionError: N is not N": ["three", "four"]}
