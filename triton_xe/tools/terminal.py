"""Colours of text output: only on a terminal, and not if `NO_COLOR` is set."""

from __future__ import annotations

import re
import sys
from typing import TextIO

from triton_xe import knobs

PALETTE = (203, 75, 150, 207, 80, 215, 141, 114, 211, 117, 185, 177)
"""Codes of the 256-colour palette; neighbours differ."""


def wants_colour(stream: TextIO | None = None) -> bool:
    """True if `stream` (standard output) is a terminal that may be coloured:
    https://no-color.org.
    """
    stream = stream or sys.stdout
    return stream.isatty() and not knobs.no_color()


def painted(number: int, text: str) -> str:
    """`text` in the colour of group `number`."""
    return f"\x1b[38;5;{PALETTE[number % len(PALETTE)]}m{text}\x1b[0m"


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m"


def paint_messages(text: str) -> str:
    """Paint message numbers (`#3`, and the first column of the table) in one colour each."""
    text = re.sub(r"#(\d+)", lambda found: painted(int(found[1]), found[0]), text)
    row = re.compile(r"^( *)(\d+)(?=  (?:load|store) )", re.MULTILINE)
    return row.sub(lambda found: found[1] + painted(int(found[2]), found[2]), text)
