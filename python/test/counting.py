"""Count calls of Python code, and read their arguments, without changing the code.

Counts replace the time of code, which other programs disturb.  Watched calls replace functions that
would be put in place of others.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


def calls_of(action: Callable[[], object]) -> int:
    """Number of functions, in Python and in C, that an action calls.

    >>> calls_of(lambda: [abs(k) for k in (1, -2, 3)]) in (4, 5)
    True
    """
    count, before = 0, sys.getprofile()

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count - 1  # without the call that ends the count


@dataclass
class Call:
    """A call of a watched function: its arguments by name, and its result once it has returned."""

    name: str
    arguments: dict[str, Any]
    result: Any = None


@contextmanager
def watched(
    *functions: Any, at_call: Callable[[Call], object] | None = None
) -> Iterator[list[Call]]:
    """The calls of Python functions by this thread, so far.

    `at_call` is called at the begin of each.  Of a cached function, only calls that run its code
    count.

    >>> with watched(inspect.getdoc) as calls:
    ...     text = inspect.getdoc(watched)
    >>> [call.arguments["object"] for call in calls] == [watched], calls[0].result == text
    (True, True)
    """
    codes = {inspect.unwrap(function).__code__ for function in functions}
    calls, before = list[Call](), sys.gettrace()

    def note(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code not in codes:
            return None
        call = Call(frame.f_code.co_name, dict(frame.f_locals))
        calls.append(call)
        if at_call is not None:
            at_call(call)

        def note_result(frame: FrameType, event: str, argument: object) -> Any:
            if event == "return":
                call.result = argument
            return note_result

        frame.f_trace_lines = False
        return note_result

    sys.settrace(note)
    try:
        yield calls
    finally:
        sys.settrace(before)
