"""Loops of helpers that run lane by lane end when the launch is told to end."""

from __future__ import annotations

import re

from triton_xe.runtime.simulator.ir import Function
from triton_xe.runtime.simulator.sanitizer.state import (
    ERROR_WORD,
    STATE_WORD,
    STOPPED,
    Word,
)

_LABEL = re.compile(r'^([-\w.$]+|"[^"]*"):')


def loop_ends(function: Function) -> set[str]:
    """Labels of the blocks that branch back."""
    number = {b.label: k for k, b in enumerate(function.blocks)}
    return {b.label for k, b in enumerate(function.blocks)
            if any(number[x] <= k for x in b.successors)}


def stoppable(function: Function, body: str, *, checked: bool) -> str:
    """The body, as LLVM prints it, with a look at the error word before each branch back.

    `checked`: the launch has a state, in which the place of the call is noted.
    """
    ends = {label.strip('%"') for label in loop_ends(function)}
    if not ends:
        return body
    lines: list[str] = []
    current = function.blocks[0].label.strip('%"')
    for line in body.split("\n"):
        label = _LABEL.match(line)
        if label is not None:
            current = label[1].strip('"')
        if current in ends and re.match(r"\s+(br|switch) ", line):
            lines += _look(current)
        lines.append(line)
    text = "\n".join(lines)
    for label_text in ends:
        end = re.escape(label_text)
        text = re.sub(rf'(?m)(, )%(?:{end}|"{end}")( \])', rf'\1%"xe.on.{label_text}"\2', text)
    returned = "ret void" if function.result.kind == "void" else (
        f"ret {function.result.text} zeroinitializer")
    last = text.rindex("}")
    return f"{text[:last]}xe.stopped:\n{_site(checked)}  {returned}\n{text[last:]}"


def _look(label: str) -> list[str]:
    a, e, c, b = (f'%"xe.{k}.{label}"' for k in "aecb")
    return [
        f"  {a} = getelementptr ptr, ptr %ctx, i64 {ERROR_WORD}",
        f"  {e} = load ptr, ptr {a}",
        f"  {c} = load volatile i64, ptr {e}",
        f"  {b} = icmp ne i64 {c}, 0",
        f'  br i1 {b}, label %xe.stopped, label %"xe.on.{label}"',
        f'"xe.on.{label}":',
    ]


def _site(checked: bool) -> str:
    told = "0"
    text = ""
    if checked:
        told = "%xe.line"
        text = (
            f"  %xe.at = getelementptr ptr, ptr %ctx, i64 {STATE_WORD}\n"
            "  %xe.state = load ptr, ptr %xe.at\n"
            f"  %xe.site = getelementptr i64, ptr %xe.state, i64 {int(Word.SITE)}\n"
            "  %xe.n = load i32, ptr %xe.site\n  %xe.line = zext i32 %xe.n to i64\n"
        )
    return f"{text}  call void @{STOPPED}(ptr %ctx, i32 %sg, i64 {told})\n"


__all__ = ["loop_ends", "stoppable"]
