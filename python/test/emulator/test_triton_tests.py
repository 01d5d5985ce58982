"""The tool that compares devices on Triton's own tests."""

from __future__ import annotations

from python.dev.triton_tests import differences, is_drawn

NAMES = [f"test_core.py::test_dot[{k}]" for k in range(5000)]


def result(outcome: str, text: str = "") -> dict[str, str]:
    return {"outcome": outcome, "text": text}


def test_a_share_of_the_tests_is_drawn() -> None:
    first, second = ({name for name in NAMES if is_drawn(name, seed, 0.04)} for seed in "12")
    assert 150 < len(first) < 250
    assert 150 < len(second) < 250
    assert len(first & second) < 30
    assert first < {name for name in NAMES if is_drawn(name, "1", 0.08)}


def test_tests_with_different_verdicts_are_named() -> None:
    first = {"a::one": result("passed"), "a::two": result("failed", "E   ValueError: 1"),
             "a::three": result("skipped"), "a::four": result("passed")}
    other = first | {"a::one": result("failed", "E   Fault: 2 bytes"), "a::two": result("failed")}
    del other["a::four"]
    assert differences(first, dict(first)) == []
    assert differences(first, other) == [
        "four: passed, not run: no message", "one: passed, failed: Fault: N bytes"]
