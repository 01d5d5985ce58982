"""What takes long says so once, on a terminal only."""

import io
import sys
import time

import pytest

from triton_xe import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "seconds", "said"), [
    (Terminal, 0.2, "triton-xe: compiling ...\n"), (Terminal, 0, ""), (io.StringIO, 0.2, ""),
])
def test_a_line_after_a_while_on_a_terminal_only(stream, seconds, said, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.05)
    monkeypatch.setattr(sys, "stderr", stream())
    with progress.progress("compiling"), progress.progress("a stage"):
        time.sleep(seconds)
    time.sleep(0.1)
    assert sys.stderr.getvalue() == said
