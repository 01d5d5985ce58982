"""The parts in C are used when they were built from the sources that are there, else not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_xe.runtime import native


@pytest.mark.skipif(not (native.launch and native.threads), reason="the parts in C are not built")
def test_parts_built_from_another_source_are_not_used(tmp_path: Path) -> None:
    assert native.load_launch() is native.launch
    assert native.load_threads() is not None
    assert native.describe() == "launches: C, the simulator's threads: C"
    for name in ("launch.c", "threads.c"):
        (tmp_path / name).write_text("another")
    assert (native.load_launch(tmp_path), native.load_threads(tmp_path)) == (None, None)


def test_without_its_parts_in_c_python_launches_and_runs_threads() -> None:
    program = "from triton_xe.runtime import native; print(native.describe())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=True, env={**os.environ, "TRITON_XE_NATIVE": "0"})
    assert done.stdout == "launches: Python, the simulator's threads: Python\n"
