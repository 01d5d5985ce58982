"""The libtriton oracle of the layout tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "libtriton_reference.py"


def ask_libtriton(cases):
    """One answer per case; fails naming the case on which libtriton stopped."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    child = subprocess.run(
        [sys.executable, str(SCRIPT)], input=lines, capture_output=True, text=True, timeout=120
    )
    answers = [json.loads(line) for line in child.stdout.splitlines()]
    if len(answers) < len(cases):
        pytest.fail(f"libtriton stopped on {cases[len(answers)]}:\n{child.stderr[:1000]}")
    return answers


@pytest.fixture(scope="session")
def libtriton():
    return ask_libtriton
