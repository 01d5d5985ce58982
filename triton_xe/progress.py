"""A line on the terminal for work that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 2.0
_saying = threading.local()


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Print once what is being done if it takes long; print nothing if standard error is no
    terminal.

    For nested steps only the outermost prints.
    """
    if getattr(_saying, "now", False) or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(SECONDS, print, (f"triton-xe: {what} ...",),
                            {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    _saying.now = True
    try:
        yield
    finally:
        _saying.now = False
        timer.cancel()
