"""The text of each stage, line by line, with the source line of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_END = re.compile(r" loc\((#loc\d*|unknown|\"[^\n]*)\)(?=( \{)?$)")
_ARGUMENT = re.compile(r" loc\((?:#loc\d*|\"\w+\"\(#loc\d*\))\)(?=[,)])")
_LOCATION = re.compile(r'"([^"]+)":(\d+):\d+')
_NUMBER = re.compile(r"#loc\d*")
_NODE = re.compile(r'^!(\d+) = !\{ ?!"(.*)", i32 (\d+), i32 \d+ ?\}$')
_LINE_COMMENT = re.compile(r"^// (?:File: (.*?)|Line (\d+)(?::.*)?)\s*$")
_LINE_METADATA = re.compile(r", !xe\.at !(\d+)")


@dataclass(frozen=True)
class Stage:
    """Lines of a stage; a source line of 0 is unknown, or of another file."""

    name: str
    lines: tuple[tuple[str, int], ...]


def stage(name: str, text: str, file: str) -> Stage:
    """The lines of a stage, with source lines in `file`."""
    readers = {"llir": _llvm, "asm": _listing}
    return Stage(name, tuple(readers.get(name, _mlir)(text, file)))


def _mlir(text: str, file: str) -> list[tuple[str, int]]:
    lines = text.splitlines()
    aliases = {m[1]: m[2] for line in lines if (m := _ALIAS.match(line))}
    found = []
    for line in lines:
        if _ALIAS.match(line):
            continue
        end = _END.search(line)
        number = _line_of(end[1], aliases, file) if end else 0
        found.append((_ARGUMENT.sub("", _END.sub("", line)), number))
    return found


def _line_of(location: str, aliases: Mapping[str, str], file: str) -> int:
    """The innermost line of the file in a location, which may be that of an inlined call."""
    for name, line in _LOCATION.findall(location):
        if name == file:
            return int(line)
    inner = (_line_of(aliases.get(name, ""), aliases, file) for name in _NUMBER.findall(location))
    return next(filter(None, inner), 0)


def _llvm(text: str, file: str) -> list[tuple[str, int]]:
    lines = text.splitlines()
    nodes = {m[1]: int(m[3]) for line in lines if (m := _NODE.match(line)) and m[2] == file}
    found = []
    for line in lines:
        if not _NODE.match(line):
            at = _LINE_METADATA.search(line)
            found.append((_LINE_METADATA.sub("", line), nodes.get(at[1], 0) if at else 0))
    return found


def _listing(text: str, file: str) -> list[tuple[str, int]]:
    """A listing without the table of its variables; lines and files are taken from its comments."""
    found: list[tuple[str, int]] = []
    number, is_here = 0, True
    for line in text.splitlines():
        said = _LINE_COMMENT.match(line)
        if said is not None and said[1]:
            is_here = said[1] == file
        elif said is not None:
            number = int(said[2])
        elif line.strip() and not line.startswith(("//.", "// +", "// |")):
            is_instruction = line[0] in " (" and not line.lstrip().startswith("//")
            found.append((line, number if is_instruction and is_here else 0))
    return found


