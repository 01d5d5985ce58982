"""The parts in C are used when they were built from the sources that are there, else not."""

from __future__ import annotations

import pytest

from triton_xe.runtime import native


@pytest.mark.skipif(not (native.launch and native.threads), reason="the parts in C are not built")
def test_parts_built_from_another_source_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.load_launch() is native.launch
    assert native.load_threads() is not None
    assert native.describe() == "launches: C, the simulator's threads: C"
    monkeypatch.setattr(native, "digest_of_source", lambda name: "another")
    assert (native.load_launch(), native.load_threads()) == (None, None)
    monkeypatch.setattr(native, "launch", None)
    assert native.describe() == "launches: Python, the simulator's threads: C"
