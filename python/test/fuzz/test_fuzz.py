"""A sample of what `fuzz.py` compiles: random kernels, and chains of casts at 1 to 8 elements."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent / "fuzz.py"


@pytest.mark.parametrize("what", [
    ["--count", "12"], ["--count", "4", "--chains"], ["--count", "200", "--texts"],
])
def test_random_programs_compile_or_are_refused(what, tmp_path):
    done = subprocess.run(
        [sys.executable, FUZZ, "--seed", "suite", "--keep", tmp_path, *what],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'compiled'" in done.stdout


def test_a_child_that_dies_is_reported_and_the_others_go_on(tmp_path):
    text = f"""
import os, sys
sys.path.insert(0, {str(FUZZ.parent)!r})
import fuzz
from pathlib import Path
def compile_one(made, path, device, native):
    if path.stem == "b":
        os.abort()
    return fuzz.Outcome(path.stem, "compiled")
fuzz.compile_one = compile_one
print([(o.name, o.kind, o.why) for o in
       fuzz.outcomes(iter([(n, None) for n in "abc"]), Path("."), "bmg")])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "[('a', 'compiled', ''), ('b', 'bug', 'signal 6: '), ('c', 'compiled', '')]")
