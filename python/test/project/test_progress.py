"""What takes long says so once, on a terminal only."""

import io
import sys
import time

import pytest

from triton_xe.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "seconds", "said"), [
    (Terminal, 0.2, "triton-xe: compiling ...\n"), (Terminal, 0, ""), (io.StringIO, 0.2, ""),
])
def test_a_line_after_a_while_on_a_terminal_only(stream, seconds, said, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    with progress("compiling", after=0.05), progress("a stage", after=0.05):
        time.sleep(seconds)
    time.sleep(0.1)
    assert sys.stderr.getvalue() == said


def test_steps_for_one_kernel_are_one_wait(monkeypatch):
    """Each of them is short; together they last, and say so once, and so do those of another."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    for kernel in ("one", "other"):
        for step in range(6):
            with progress(f"step {step} of {kernel}", kernel, after=0.3):
                time.sleep(0.1)
    lines = sys.stderr.getvalue().splitlines()
    assert [line.rsplit(" of ")[1] for line in lines] == ["one ...", "other ..."]
