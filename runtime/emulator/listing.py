"""Source lines of a program's instructions, from the listing that Intel's compiler wrote with it.

Native binaries of this project have no debug information; the listing (`IGC_ShaderDumpEnable`)
has the instructions in the same order, with comments `// File: NAME` and `// Line N:` between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from triton_xe.runtime.emulator.instruction import Instruction

SOURCE_LINE = re.compile(r"^\s*//\s*(?:File: (?P<file>.*?)|Line (?P<line>\d+)\b.*)\s*$")
"""A comment that names the source of the instructions after it."""
_CODE = re.compile(r"^\s*(?:\([^)]*\)\s*)?(?P<opcode>[a-z]\w*)\b")


def source_lines(listing: str, instructions: Sequence[Instruction]) -> Mapping[int, str]:
    """Program counter -> `file:line`; nothing if the listing is of another program."""
    found = list(_instructions(listing))
    if [opcode for opcode, _ in found] != [_opcode_group(each.op) for each in instructions]:
        return {}
    return {each.pc: line for each, (_, line) in zip(instructions, found, strict=True) if line}


def _instructions(listing: str) -> Iterator[tuple[str, str]]:
    """Opcode and source line of each instruction."""
    file = line = ""
    for text in listing.splitlines():
        if said := SOURCE_LINE.match(text):
            file, line = said["file"] or file, said["line"] or line
        elif (code := _CODE.match(text)) and not text.rstrip().endswith(":"):
            yield _opcode_group(code["opcode"]), f"{file}:{line}" if line else ""


def _opcode_group(opcode: str) -> str:
    """The opcode, or "send" for any message."""
    return "send" if re.match(r"load|store|atomic|fence|send", opcode) else opcode
