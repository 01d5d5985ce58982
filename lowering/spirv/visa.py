"""A function in LLVM IR whose body is vISA."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DECLARED = re.compile(r"\.decl (\w+) ")


def function(
    symbol: str, result: str, types: Sequence[str], body: str, shared: Sequence[int] = ()
) -> str:
    """The definition; `$0` in the body is the result, `$1` and so on are the arguments.

    Those that all lanes share, by their numbers from 0, are not spread to the lanes.  Intel's
    compiler refuses the module where it does not know that they do.  An argument that the body does
    not name is in the registers of the result.
    """
    given = ", ".join(f"{kind} %x{i}" for i, kind in enumerate(types))
    text = _without_unused(body).replace("\n", "\\0A")
    constraints = ",".join(["=rw", *(
        "rw.u" if i in shared else "rw" if f"${i + 1}" in body else "0"
        for i in range(len(types)))])
    return (f'define spir_func {result} @"{symbol}"({given}) alwaysinline {{\n'
            f'  %r = call {result} asm "{{\\0A{text}}}", "{constraints}"({given})\n'
            f"  ret {result} %r\n}}\n")


def _without_unused(body: str) -> str:
    """The body without declarations of variables that no later line names."""
    kept = ""
    for line in reversed(body.splitlines(keepends=True)):
        name = _DECLARED.match(line)
        if name is None or re.search(rf"\b{name[1]}[(.,)]", kept):
            kept = line + kept
    return kept
